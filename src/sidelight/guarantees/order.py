"""The partial order of claims: a implies b only when a conversion proves it, rounded to the private side.

Gaussian differential privacy and zCDP of equal strength imply each other in one direction only, so there is no total
order and no `<`.
"""

from __future__ import annotations

from sidelight.guarantees import conversions as convert
from sidelight.guarantees.claims import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Claim, Profile, PureDP
from sidelight.guarantees.curves import ApproxCurve, BoundedRangeCurve, HingedGaussianCurve, ProfileCurve, ZCDPCurve
from sidelight.guarantees.groups import to_replace
from sidelight.guarantees.neighbours import Neighbours
from sidelight.guarantees.proved import delta_of, gdp_of, renyi_of, zcdp_of


def implies(a: Claim, b: Claim) -> bool:
    """Return whether claim a proves claim b: same unit and audience, neighbours equal or convertible, b not more exact.

    >>> implies(GDP(1), ZCDP("0.5")), implies(ZCDP("0.5"), GDP(1))
    (True, False)
    """
    if a.unit != b.unit or a.audience != b.audience:
        return False
    if a.numerics == "idealized" and b.numerics == "exact":
        return False
    if a.neighbours is not b.neighbours:
        if (a.neighbours, b.neighbours) != (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
            return False
        converted = to_replace(a)
        return converted is not None and implies(converted, b)
    match b:
        case PureDP():
            # The interval of a bounded range holds 0, since E_Q[e^loss] = 1: no loss is longer than it.
            return isinstance(a, PureDP | BoundedRange) and a.epsilon <= b.epsilon
        case BoundedRange():
            if isinstance(a, BoundedRange):
                return a.epsilon <= b.epsilon
            return isinstance(a, PureDP) and convert.bounded_range_from_pure(a.epsilon) <= b.epsilon
        case ZCDP():
            rho = zcdp_of(a)
            return rho is not None and rho <= b.rho
        case GDP():
            mu = gdp_of(a)
            return mu is not None and mu <= b.mu
        case ApproxDP():
            delta = delta_of(a, b.epsilon)
            return delta is not None and delta <= b.delta
        case RDP():
            return all((r := renyi_of(a, order)) is not None and r <= bound for order, bound in b.curve.points)
        case Profile():
            mine = _curves(a)
            return mine is not None and _below(mine[0], b.remove) and _below(mine[1], b.add)


def _curves(claim: Claim) -> tuple[ProfileCurve, ProfileCurve] | None:
    match claim:
        case Profile():
            return claim.remove, claim.add
        case PureDP():
            curve: ProfileCurve = ApproxCurve(claim.epsilon)
        case ApproxDP():
            curve = ApproxCurve(claim.epsilon, claim.delta)
        case BoundedRange():
            curve = BoundedRangeCurve(claim.epsilon)
        case GDP():
            curve = HingedGaussianCurve(claim.mu)
        case ZCDP():
            curve = ZCDPCurve(claim.rho)
        case _:
            return None
    return curve, curve


def _below(mine: ProfileCurve, theirs: ProfileCurve) -> bool:
    """Compare two curves of one family by their parameters, the others only where they are the same."""
    match mine, theirs:
        case ApproxCurve(), ApproxCurve():
            # one tangent point decides: the (epsilon, delta) of theirs
            return mine.delta(theirs.epsilon) <= theirs.reveal
        case BoundedRangeCurve(), BoundedRangeCurve():
            return mine.epsilon <= theirs.epsilon
        case BoundedRangeCurve(), ApproxCurve():
            return mine.epsilon <= theirs.epsilon
        case HingedGaussianCurve(), HingedGaussianCurve():
            return mine.mu <= theirs.mu and mine.shift <= theirs.shift
        case ZCDPCurve(), ZCDPCurve():
            return mine.rho <= theirs.rho
        case HingedGaussianCurve(), ZCDPCurve():
            return mine.shift == 0 and mine.mu * mine.mu / 2 <= theirs.rho
        case _:
            return mine == theirs
