"""From one step to several, for one claim: group privacy, and replace-one from add-or-remove-one.

A group multiplies the distance between the data sets. Prefer an aggregate's own sensitivity for a person (it knows the
norm): the group formulas are for black boxes (accounting proof page, section 3).
"""

from __future__ import annotations

from fractions import Fraction

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees.claims import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Claim, Context, Profile, PureDP
from sidelight.guarantees.curves import RenyiOrders
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.guarantees.neighbours import Neighbours
from sidelight.guarantees.proved import gdp_of
from sidelight.guarantees.steps import LeastCurve, TwoStepCurve

#: Hoelder exponents p that are tried for a Renyi curve; every p > 1 is valid (Mironov 2017).
_HOELDER = tuple(Fraction(p) for p in ("101/100", "21/20", "11/10", "6/5", "4/3", "3/2", "2", "3", "4", "6", "10"))


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
