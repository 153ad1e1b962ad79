"""From one step to several: group privacy, replace-one from add-or-remove-one, rows to a person, events to a person.

A group multiplies the distance between the data sets; rounds of one person add up mechanisms. Prefer an aggregate's own
sensitivity for a person (it knows the norm): the group formulas are for black boxes (accounting proof page, section 3).
"""

from __future__ import annotations

from fractions import Fraction

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees.claim_sets import Claims, gdp_of, zcdp_of
from sidelight.guarantees.claims import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Claim, Context, Profile, PureDP
from sidelight.guarantees.conversions import root_of_sum_of_squares
from sidelight.guarantees.curves import RenyiOrders
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.guarantees.neighbours import Event, Neighbours, Person, Row
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


def claims_to_replace(claims: Claims) -> Claims:
    """Convert every claim of a set by `to_replace`; a profile also by the GDP and the zCDP that it proves."""
    found = [new for claim in claims if (new := to_replace(claim)) is not None]
    for claim in claims:
        if isinstance(claim, Profile) and claim.neighbours is Neighbours.ADD_REMOVE:
            context: Context = {**claim.context, "neighbours": Neighbours.REPLACE}
            mu, rho = gdp_of(claim), zcdp_of(claim)
            found += [] if mu is None else [GDP(2 * mu, **context)]
            found += [] if rho is None else [ZCDP(4 * rho, **context)]
    return Claims.of(*found)


def for_person(claims: Claims, person: Person) -> Claims:
    """Convert claims for one row into claims for a person with at most `max_rows` rows, for a black box.

    The cap must be enforced by the engine that reads the rows, or the claim does not hold.
    """
    if claims.unit != Row():
        raise ClaimError(f"group privacy starts from claims for one row, got unit {claims.unit}")
    return claims.map(lambda claim: for_group(claim, person.max_rows)).with_unit(person)


def per_person(claims: Claims, *, column: str = "person", max_rounds_per_person: int | None = None) -> Claims:
    """Convert event-level claims into claims for a person who takes part in at most so many rounds: composition.

    >>> print(per_person(Claims.of(GDP(1, unit=Event())), max_rounds_per_person=4))
    GDP(μ = 2; unit: person (person, at most 4 rows))
    """
    if claims.unit != Event():
        raise ClaimError(f"only event-level claims are added up over rounds, got unit {claims.unit}")
    if max_rounds_per_person is None:
        raise ClaimError("an event-level claim says nothing about a person without max_rounds_per_person; declare it")
    k = max_rounds_per_person
    person = Person(column, k)

    def composed(claim: Claim) -> Claim | None:
        context = claim.context
        match claim:
            case PureDP() | BoundedRange():
                return PureDP(k * claim.epsilon, **context)
            case ZCDP():
                return ZCDP(k * claim.rho, **context)
            case GDP():
                return GDP(root_of_sum_of_squares(k * claim.mu * claim.mu), **context)
            case ApproxDP():
                return ApproxDP(k * claim.epsilon, k * claim.delta, **context) if k * claim.delta < 1 else None
            case RDP():
                return RDP(claim.curve.scaled(k), **context)
            case Profile():
                mu = gdp_of(claim)
                return None if mu is None else GDP(root_of_sum_of_squares(k * mu * mu), **context)

    return claims.map(composed).with_unit(person)


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
