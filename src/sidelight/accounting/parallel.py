"""Parallel composition: records are routed to disjoint parts, and a record pays only for the parts that hold it.

The routing may depend on the record, on public values and on earlier outputs; part sizes are nowhere used exactly.
Then only the part that holds the extra record has another law, and the costs it meets form one branch, chosen
adaptively (accounting proof page, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from sidelight.errors import ClaimError
from sidelight.guarantees import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Claim, Claims, Neighbours, PureDP, RenyiOrders
from sidelight.guarantees.conversions import root_of_sum_of_squares

_Branches = list[list[Claims]]


def worst_case_branch(branches: Iterable[Sequence[Claims]]) -> Claims:
    """Price a tree of queries on disjoint parts: the largest sum of each kind over its branches, from root to leaf.

    Guarantee: add or remove one record. For replace convert the result (a record leaves one path and enters another).

    >>> node = Claims.of(BoundedRange("0.5"))
    >>> print(worst_case_branch([[node, node], [node]]))
    PureDP(ε = 1), GDP(μ = 0.44262), ZCDP(ρ = 0.0625)
    """
    walked = [list(branch) for branch in branches]
    if not walked or not all(walked):
        raise ClaimError("parallel composition needs at least one branch, and at least one query on every branch")
    first = walked[0][0]
    for claims in (c for branch in walked for c in branch):
        if claims.neighbours is not Neighbours.ADD_REMOVE:
            raise ClaimError(
                f"parts compose in parallel for add-or-remove claims, got '{claims.neighbours}': "
                "a replaced record leaves one part and enters another; convert the total instead"
            )
        if claims.context != first.context:
            raise ClaimError("the parts of one partition must agree on unit, audience and numerics")
    if all(branch == walked[0] for branch in walked) and len(walked[0]) == 1:
        return walked[0][0]
    found: list[Claim] = []
    for price in (_pure, _gdp, _zcdp, _renyi, _approx):
        claim = price(walked, first)
        if claim is not None:
            found.append(claim)
    if all(len(branch) == 1 for branch in walked):  # one node each: the range of the loss is that of the one node
        ranges = [_range(branch[0]) for branch in walked]
        if all(r is not None for r in ranges):
            found.append(BoundedRange(max(r for r in ranges if r is not None), **first.context))
    if not found:
        raise ClaimError("the queries on the branches share no claim that is additive")
    return Claims.of(*found)


def _largest(branches: _Branches, amount: Callable[[Claims], Fraction | None]) -> Fraction | None:
    """Return the largest sum of amounts along a branch; None where a query has none."""
    found = [[amount(claims) for claims in branch] for branch in branches]
    if any(each is None for branch in found for each in branch):
        return None
    return max(sum((each for each in branch if each is not None), Fraction(0)) for branch in found)


def _pure(branches: _Branches, like: Claims) -> PureDP | None:
    total = _largest(branches, lambda claims: None if (pure := claims.pure()) is None else pure.epsilon)
    return None if total is None else PureDP(total, **like.context)


def _zcdp(branches: _Branches, like: Claims) -> ZCDP | None:
    total = _largest(branches, lambda claims: None if (zcdp := claims.zcdp()) is None else zcdp.rho)
    return None if total is None else ZCDP(total, **like.context)


def _gdp(branches: _Branches, like: Claims) -> GDP | None:
    total = _largest(branches, lambda claims: None if (gdp := claims.gdp()) is None else gdp.mu * gdp.mu)
    return None if total is None else GDP(root_of_sum_of_squares(total), **like.context)


def _approx(branches: _Branches, like: Claims) -> ApproxDP | None:
    """Sum (epsilon, delta) items; the worst epsilon and delta may be on different branches.

    Where a query has both, the item counts if its epsilon is smaller than the pure one: it was asked for.
    """
    if not any(_item(claims) for branch in branches for claims in branch):
        return None
    epsilons, deltas = [], []
    for branch in branches:
        epsilon, delta = Fraction(0), Fraction(0)
        for claims in branch:
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


def _renyi(branches: _Branches, like: Claims) -> RDP | None:
    """Sum Renyi curves order by order, where every query on every branch has one at the same orders."""
    orders: set[Fraction] | None = None
    for branch in branches:
        for claims in branch:
            mine = {a for c in claims if isinstance(c, RDP) for a, _ in c.curve.points}
            orders = mine if orders is None else orders & mine
    if not orders:
        return None

    def at(claims: Claims, order: Fraction) -> Fraction:
        return min(r for c in claims if isinstance(c, RDP) and (r := c.curve.at(order)) is not None)

    return RDP(
        RenyiOrders.of({a: max(sum(at(c, a) for c in branch) for branch in branches) for a in orders}), **like.context
    )


def _range(claims: Claims) -> Fraction | None:
    return min((c.epsilon for c in claims if isinstance(c, BoundedRange)), default=None)
