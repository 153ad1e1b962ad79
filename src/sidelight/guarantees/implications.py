"""What one claim proves: claims of other kinds, of several steps, of other neighbours; and the order of claims.

a implies b only when a conversion proves it, rounded to the private side. Gaussian differential privacy and zCDP of
equal strength imply each other in one direction only, so there is no total order and no `<`.

A group multiplies the distance between the data sets; replace-one is two steps of add-or-remove-one. Prefer an
aggregate's own sensitivity for a person (it knows the norm): the group formulas are for black boxes (accounting proof
page, section 3).
"""

from __future__ import annotations

from fractions import Fraction

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.claims import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Claim,
    Context,
    Neighbours,
    Profile,
    PureDP,
)
from sidelight.guarantees.curves import (
    ApproxCurve,
    BoundedRangeCurve,
    HingedGaussianCurve,
    ProfileCurve,
    RenyiOrders,
    ZCDPCurve,
)
from sidelight.guarantees.derived_curves import LeastCurve, TwoStepCurve
from sidelight.guarantees.intervals import Interval, round_up

#: Hoelder exponents p that are tried for a Renyi curve; every p > 1 is valid (Mironov 2017).
_HOELDER = tuple(Fraction(p) for p in ("101/100", "21/20", "11/10", "6/5", "4/3", "3/2", "2", "3", "4", "6", "10"))

_REPLACE_TO_KEPT = (Neighbours.REPLACE, Neighbours.KEPT)


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
        if a.neighbours is not Neighbours.ADD_REMOVE and (a.neighbours, b.neighbours) != _REPLACE_TO_KEPT:
            return False
        if b.neighbours not in _REPLACE_TO_KEPT:
            return False
        converted = to_replace(a)
        # fewer pairs: a claim for every replacement holds for those that keep totals
        return converted is not None and implies(converted.under(neighbours=b.neighbours, kept=b.kept), b)
    if a.kept != b.kept:  # other totals are other pairs
        return False
    match b:
        case PureDP():
            # The interval of a bounded range holds 0, since E_Q[e^loss] = 1: no loss is longer than it, nor on average.
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
            mine = curves_of(a)
            return mine is not None and _below(mine[0], b.remove) and _below(mine[1], b.add)


def zcdp_of(claim: Claim) -> Fraction | None:
    """Return the rho that one claim proves."""
    match claim:
        case PureDP():
            return convert.zcdp_from_pure(claim.epsilon)
        case BoundedRange():
            return convert.zcdp_from_bounded_range(claim.epsilon)
        case GDP():
            return convert.zcdp_from_gdp(claim.mu)
        case ZCDP():
            return claim.rho
        case Profile():
            from sidelight.guarantees.from_profile import zcdp_from_profile

            mu, rho = gdp_of(claim), zcdp_from_profile(claim.remove, claim.add)
            found = [r for r in (rho, None if mu is None else convert.zcdp_from_gdp(mu)) if r is not None]
            return min(found, default=None)
        case _:
            return None  # a finite set of orders, or one (epsilon, delta), bounds no Renyi divergence at every order


def gdp_of(claim: Claim) -> Fraction | None:
    """Return the mu that one claim proves."""
    match claim:
        case PureDP():
            return convert.gdp_from_pure(claim.epsilon)
        case BoundedRange():
            return convert.gdp_from_bounded_range(claim.epsilon)
        case GDP():
            return claim.mu
        case Profile():
            from sidelight.guarantees.from_profile import gdp_from_profile

            return gdp_from_profile(claim.remove, claim.add)
        case _:
            return None


def epsilon_of(claim: Claim, at: Fraction) -> Fraction | None:
    """Return the epsilon that one claim proves at a delta."""
    match claim:
        case PureDP():
            return convert.approx_epsilon(claim.epsilon, Fraction(0), at)
        case ApproxDP():
            return convert.approx_epsilon(claim.epsilon, claim.delta, at)
        case BoundedRange():
            return convert.bounded_range_epsilon(claim.epsilon, at)
        case ZCDP():
            return convert.zcdp_epsilon(claim.rho, at)
        case GDP():
            return convert.gdp_epsilon(claim.mu, at)
        case RDP():
            return claim.curve.epsilon(at)
        case Profile():
            from sidelight.guarantees.from_profile import epsilon_from_profile

            return epsilon_from_profile(claim.remove, claim.add, at)


def delta_of(claim: Claim, x: Fraction) -> Fraction | None:
    """Return the delta that one claim proves at an epsilon."""
    match claim:
        case PureDP():
            return convert.approx_delta(claim.epsilon, Fraction(0), x)
        case ApproxDP():
            return convert.approx_delta(claim.epsilon, claim.delta, x)
        case BoundedRange():
            return convert.bounded_range_delta(claim.epsilon, x)
        case ZCDP():
            return convert.zcdp_delta(claim.rho, x)
        case GDP():
            return convert.gdp_delta(claim.mu, x)
        case RDP():
            return claim.curve.delta(x)
        case Profile():
            return claim.delta(x)


def renyi_of(claim: Claim, order: Fraction) -> Fraction | None:
    """Return the Renyi divergence of one order that a claim proves."""
    match claim:
        case PureDP():
            return convert.renyi_pure(claim.epsilon, order)
        case BoundedRange():
            return min(claim.epsilon * claim.epsilon / 8 * order, convert.renyi_pure(claim.epsilon, order))
        case RDP():
            return claim.curve.at(order)
        case _:
            rho = zcdp_of(claim)
            return None if rho is None else rho * order


def curves_of(claim: Claim) -> tuple[ProfileCurve, ProfileCurve] | None:
    """Return the profiles (remove, add) that a claim proves; None for Renyi orders."""
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


def for_group(claim: Claim, k: int) -> Claim | None:
    """Convert a claim for one step into the claim for k steps of the same relation; None where nothing is proved.

    >>> print(for_group(ApproxDP(1, "1e-6"), 3))
    ApproxDP(ε = 3, δ = 1.11074e-5)
    """
    if isinstance(k, bool) or k < 1:
        raise RangeError(f"a group has at least 1 member, got {k}")
    context = claim.context
    if k == 1:
        return claim
    match claim:
        case PureDP():
            return PureDP(k * claim.epsilon, **context)
        case BoundedRange():
            return BoundedRange(k * claim.epsilon, **context)
        case ZCDP():
            return ZCDP(k * k * claim.rho, **context)  # Bun-Steinke 2016
        case GDP():
            return GDP(k * claim.mu, **context)
        case ApproxDP():
            return _approx_group(claim.epsilon, claim.delta, k, context)
        case RDP():
            return _renyi_group(claim.curve, k, context)
        case Profile():
            mu = gdp_of(claim)
            return None if mu is None else GDP(k * mu, **context)


def to_replace(claim: Claim) -> Claim | None:
    """Convert an add-or-remove claim into a replace claim: two steps. There is no way back (n is public there)."""
    if claim.neighbours is Neighbours.REPLACE:
        return claim
    if claim.neighbours is not Neighbours.ADD_REMOVE:
        raise ClaimError(f"only add-or-remove claims become replace claims, got {claim}")
    if isinstance(claim, Profile):
        both = LeastCurve((TwoStepCurve(claim.remove, claim.add), TwoStepCurve(claim.add, claim.remove)))
        return Profile(both, both, **claim.context).under(neighbours=Neighbours.REPLACE)
    grouped = for_group(claim, 2)
    return None if grouped is None else grouped.under(neighbours=Neighbours.REPLACE)


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


def _approx_group(epsilon: Fraction, delta: Fraction, k: int, context: Context) -> Claim | None:
    """(k eps, delta (1 + e^eps + ... + e^((k-1) eps))): the geometric sum needs no division at eps = 0."""
    one_step, power, total = Interval.of(epsilon).exp(), Interval.of(1), Interval.of(0)
    for _ in range(k):
        total, power = total + power, power * one_step
        if total.upper > 10**40:
            return None
    raised = round_up((Interval.of(delta) * total).upper)
    return ApproxDP(k * epsilon, raised, **context) if raised < 1 else None


def _renyi_group(curve: RenyiOrders, k: int, context: Context) -> Claim | None:
    """Double until k is covered; each doubling minimises Mironov's bound over the exponents that the grid can serve."""
    doublings = (k - 1).bit_length()
    for _ in range(doublings):
        points: dict[Fraction, Fraction] = {}
        for order, _value in curve.points:
            found = []
            for p in _HOELDER:
                first, second = curve.at(p * order), curve.at((p * order - 1) / (p - 1))
                if first is not None and second is not None:
                    found.append((order - 1 / p) / (order - 1) * first + second)
            if found:
                points[order] = min(found)
        if not points:
            return None
        curve = RenyiOrders.of(dict(points))
    return RDP(curve, **context)
