"""Which (epsilon, delta) of an event a budget counts: a declared one, or a better one that its claims prove.

Every (epsilon, delta) that holds may be charged, and the choice is a function of public numbers: the claims and the
rule (accounting proof page, Theorem T8). An event that a sum of rhos or of mu squared counts too must not use up the
pool of deltas faster than it uses up that sum: its profile is read at a smaller delta, for a little more epsilon.
"""

from __future__ import annotations

from fractions import Fraction

from sidelight.guarantees import GDP, RDP, ZCDP, ApproxDP, Claims, Profile
from sidelight.guarantees.search import grid_floor

#: Deltas are tried from the pool down to this share of it: halves, and the round numbers that people declare.
_LEAST_SHARE = Fraction(1, 1024)
_DIGITS = tuple(Fraction(text) for text in ("1", "1.5", "2", "2.5", "3", "4", "5", "6", "7", "8", "9"))


def chosen_item(
    claims: Claims, *, below: Fraction | None, pool: Fraction, epsilon: Fraction, served: Fraction | None
) -> ApproxDP | None:
    """Pick the (epsilon, delta) to charge, if any.

    Args:
        claims: What the event proves.
        below: Its pure epsilon, if it has one; an item is of use only below it.
        pool: What the rule keeps of delta for items.
        epsilon: The budget's epsilon.
        served: The share of another route that the event takes by a claim of that route; None where no route has one.
    """
    if not pool:
        return None
    declared = sorted((i for i in claims.items if below is None or i.epsilon < below), key=_by_epsilon)
    limit = pool if served is None else pool * min(Fraction(1), served)
    fitting = next((i for i in declared if i.delta <= limit), None)
    if fitting is not None or below is not None:
        return fitting or next((i for i in declared if i.delta <= pool), None)
    if served is not None:
        return _at(claims, limit) if declared and limit else None
    return _balanced(claims, pool=pool, epsilon=epsilon) or (declared[0] if declared else None)


def _balanced(claims: Claims, *, pool: Fraction, epsilon: Fraction) -> ApproxDP | None:
    """Read the claims at several deltas, and take the point that uses the smallest share of its scarcer budget.

    With a larger delta epsilon falls, so the two shares cross once: the best point is beside the crossing. Round deltas
    are among those tried, because a Gaussian release does not say at which one it was declared: so as many queries fit
    as their declared (epsilon, delta) add up to.
    """
    if not any(isinstance(claim, Profile | RDP | GDP | ZCDP) for claim in claims):
        return None
    deltas = _deltas(pool)
    read = {place: _at(claims, deltas[place]) for place in (0, len(deltas) - 1)}
    low, high = 0, len(deltas) - 1
    while high - low > 1:
        middle = (low + high) // 2
        point = read[middle] = _at(claims, deltas[middle])
        if point is not None and point.epsilon * pool <= point.delta * epsilon:
            high = middle
        else:
            low = middle
    points = [point for point in read.values() if point is not None]
    return min(points, key=lambda point: max(point.epsilon * pool, point.delta * epsilon), default=None)


def _deltas(pool: Fraction) -> list[Fraction]:
    """Return the deltas to try, in increasing order."""
    found = {pool / 2**k for k in range(11)}
    decade = Fraction(1)
    while decade * 10 > pool * _LEAST_SHARE:
        found.update(digit * decade for digit in _DIGITS if pool * _LEAST_SHARE <= digit * decade <= pool)
        decade /= 10
    return sorted(found)


def _at(claims: Claims, delta: Fraction) -> ApproxDP | None:
    return claims.approx_at(grid_floor(delta, digits=3))


def _by_epsilon(item: ApproxDP) -> tuple[Fraction, Fraction]:
    return item.epsilon, item.delta
