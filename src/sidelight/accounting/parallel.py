"""Parallel composition: records are routed to disjoint parts, and a record pays only for the parts that hold it.

The routing may depend on the record, on public values and on earlier outputs; part sizes are nowhere used exactly.
Then only the part that holds the extra record has another law, and the costs it meets form one path, chosen adaptively
(accounting proof page, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from sidelight.errors import ClaimError
from sidelight.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Claim, Claims, Neighbours, PureDP, RenyiOrders
from sidelight.guarantees.conversions import root_of_sum_of_squares


def dearest_path(paths: Iterable[Sequence[Claims]]) -> Claims:
    """Price a tree of queries on disjoint parts: the largest, over root-to-leaf paths, of each kind of sum.

    Guarantee: add or remove one record. For replace convert the result (a record leaves one path and enters another).

    >>> node = Claims.of(BoundedRange("0.5"))
    >>> print(dearest_path([[node, node], [node]]))
    PureDP(ε = 1), GDP(μ = 0.44262), ZCDP(ρ = 0.0625)
    """
    walked = [list(path) for path in paths]
    if not walked or not all(walked):
        raise ClaimError("parallel composition needs at least one path, and at least one query on every path")
    first = walked[0][0]
    for claims in (c for path in walked for c in path):
        if claims.neighbours is not Neighbours.ADD_REMOVE:
            raise ClaimError(
                f"parts compose in parallel for add-or-remove claims, got '{claims.neighbours}': "
                "a replaced record leaves one part and enters another; convert the total instead"
            )
        if claims.context != first.context:
            raise ClaimError("the parts of one partition must agree on unit, audience and numerics")
    if all(path == walked[0] for path in walked) and len(walked[0]) == 1:
        return walked[0][0]
    found: list[Claim] = []
    for price in (_pure, _gdp, _zcdp, _renyi, _approx):
        claim = price(walked, first)
        if claim is not None:
            found.append(claim)
    if all(len(path) == 1 for path in walked):  # one node each: the range of the loss is that of the one node
        ranges = [_range(path[0]) for path in walked]
        if all(r is not None for r in ranges):
            found.append(BoundedRange(max(r for r in ranges if r is not None), **first.context))
    if not found:
        raise ClaimError("the queries on the paths share no claim that adds up")
    return Claims.of(*found)


def _pure(paths: list[list[Claims]], like: Claims) -> PureDP | None:
    totals = []
    for path in paths:
        each = [c.pure() for c in path]
        if any(e is None for e in each):
            return None
        totals.append(sum((e.epsilon for e in each if e is not None), Fraction(0)))
    return PureDP(max(totals), **like.context)


def _zcdp(paths: list[list[Claims]], like: Claims) -> ZCDP | None:
    totals = []
    for path in paths:
        each = [c.zcdp() for c in path]
        if any(e is None for e in each):
            return None
        totals.append(sum((e.rho for e in each if e is not None), Fraction(0)))
    return ZCDP(max(totals), **like.context)


def _gdp(paths: list[list[Claims]], like: Claims) -> GDP | None:
    totals = []
    for path in paths:
        each = [c.gdp() for c in path]
        if any(e is None for e in each):
            return None
        totals.append(sum((e.mu * e.mu for e in each if e is not None), Fraction(0)))
    return GDP(root_of_sum_of_squares(max(totals)), **like.context)


def _approx(paths: list[list[Claims]], like: Claims) -> ApproxDP | None:
    """Sum (epsilon, delta) items; for each path the totals of both, since the dearest may differ.

    Where a query has both, the item counts if its epsilon is smaller than the pure one: it was asked for.
    """
    if not any(_item(claims) for path in paths for claims in path):
        return None
    epsilons, deltas = [], []
    for path in paths:
        epsilon, delta = Fraction(0), Fraction(0)
        for claims in path:
            pure, item = claims.pure(), _item(claims)
            if item is not None:
                epsilon, delta = epsilon + item.epsilon, delta + item.delta
            elif pure is not None:
                epsilon += pure.epsilon
            else:
                return None
        epsilons.append(epsilon)
        deltas.append(delta)
    return ApproxDP(max(epsilons), max(deltas), **like.context) if max(deltas) < 1 else None


def _item(claims: Claims) -> ApproxDP | None:
    """Return the (epsilon, delta) that counts for a query; None where it has none, or its pure one says more."""
    item = min(claims.items, key=lambda i: (i.delta, i.epsilon), default=None)
    pure = claims.pure()
    return None if item is None or (pure is not None and pure.epsilon <= item.epsilon) else item


def _renyi(paths: list[list[Claims]], like: Claims) -> RDP | None:
    """Sum Renyi curves order by order, where every query on every path has one at the same orders."""
    orders: set[Fraction] | None = None
    for path in paths:
        for claims in path:
            mine = {a for c in claims if isinstance(c, RDP) for a, _ in c.curve.points}
            orders = mine if orders is None else orders & mine
    if not orders:
        return None

    def at(claims: Claims, order: Fraction) -> Fraction:
        return min(r for c in claims if isinstance(c, RDP) and (r := c.curve.at(order)) is not None)

    return RDP(RenyiOrders.of({a: max(sum(at(c, a) for c in path) for path in paths) for a in orders}), **like.context)


def _range(claims: Claims) -> Fraction | None:
    return min((c.epsilon for c in claims if isinstance(c, BoundedRange)), default=None)
