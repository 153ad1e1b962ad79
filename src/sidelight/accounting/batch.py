"""The price of a fixed batch: number, order and claims of all queries are committed before the first runs.

Inside, a query may still be built from earlier answers as long as its claim is the committed one. All routes are upper
bounds of the same number, so the smallest is taken; nothing random enters the choice (accounting proof page, section
4). A batch is one reservation; what was asked so far, composed like this, is not a filter.

Equal randomised responses compose exactly: a sum of binomials, evaluated in outward-rounded decimals.

Parallel composition: records are routed to disjoint parts, and a record pays only for the parts that hold it.

The routing may depend on the record, on public values and on earlier outputs; part sizes are nowhere used exactly.
Then only the part that holds the extra record has another law, and the costs it meets form one branch, chosen
adaptively (accounting proof page, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

from sidelight.accounting.loss_distributions import compose, interval_for, most_specific
from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    Amount,
    ApproxCurve,
    ApproxDP,
    BoundedRange,
    BoundedRangeCurve,
    Claim,
    Claims,
    Context,
    HingedGaussianCurve,
    Neighbours,
    Profile,
    ProfileCurve,
    PureDP,
    RenyiOrders,
    ZCDPCurve,
    positive,
)
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.conversions import root_of_sum_of_squares
from sidelight.guarantees.intervals import Interval, round_up

_ADD_REMOVE = Neighbours.ADD_REMOVE

#: A total beyond this protects nothing; refining it numerically would only cost time.
_LARGEST_REFINED = 100
Pair = tuple[ProfileCurve, ProfileCurve]
MOST_RESPONSES = 2000
_ONE = Interval.of(1)


@dataclass(frozen=True, kw_only=True)
class BatchPrice:
    """What a batch costs: its claims, and the epsilon of every route that applied (None where a route proves none)."""

    claims: Claims
    routes: dict[str, Fraction]

    @property
    def route(self) -> str | None:
        """The route that gave the smallest epsilon."""
        return min(self.routes, key=lambda name: self.routes[name]) if self.routes else None


def batch(claims: Sequence[Claims], *, delta: Amount | None = None) -> Claims:
    """Price a fixed batch as one release: ApproxDP at `delta` by the best route, and the sums that exist.

    >>> print(batch([Claims.of(PureDP("0.1"))] * 3))
    PureDP(ε = 0.3), GDP(μ = 0.217042), ZCDP(ρ = 0.0149876)
    """
    return price_batch(claims, delta=delta).claims


def price_batch(claims: Sequence[Claims], *, delta: Amount | None = None) -> BatchPrice:
    """Price a fixed batch and show the epsilon of every route."""
    items = _common(claims)
    context = items[0].context
    if len(items) == 1 and delta is None:
        return BatchPrice(claims=items[0], routes={})
    sums = _sums(items, context)
    if delta is None:
        if not sums:
            raise ClaimError("the queries of the batch share no claim that is additive; name a delta")
        return BatchPrice(claims=Claims.of(*sums), routes={})
    at = positive(delta, name="delta")
    routes = _closed_routes(items, sums, at)
    routes |= _numerical_routes(items, at, most=min(routes.values(), default=None))
    if not routes:
        raise ClaimError(f"nothing proves an epsilon for this batch at delta {float(at):g}; choose a larger delta")
    best = min(routes.values())
    found: list[Claim] = [c for c in sums if not isinstance(c, ApproxDP)]
    pure = next((c.epsilon for c in sums if isinstance(c, PureDP)), None)
    if pure is None or best < pure:
        found.append(ApproxDP(best, at, **context))
    return BatchPrice(claims=Claims.of(*found), routes=routes)


def _common(claims: Sequence[Claims]) -> list[Claims]:
    if not claims:
        raise ClaimError("a batch has at least one query; an empty one has no price")
    if any(c.numerics == "idealized" for c in claims):
        claims = [c.with_numerics("idealized") for c in claims]
    for each in claims[1:]:
        if each.context != claims[0].context:
            raise ClaimError("the queries of one batch must agree on neighbours, unit and audience; convert them first")
    return list(claims)


def _sums(items: list[Claims], context: Context) -> list[Claim]:
    """Add up one path: the sums of epsilon, rho, mu squared, (epsilon, delta) and Renyi curves that exist."""
    plain: Context = {**context, "neighbours": _ADD_REMOVE, "kept": ""}
    try:
        total = worst_case_branch([[c.under(**plain) for c in items]])
    except ClaimError:
        return []
    kinds = (PureDP, ZCDP, GDP, ApproxDP, RDP) + ((BoundedRange, Profile) if len(items) == 1 else ())
    return [c.under(neighbours=context["neighbours"], kept=context["kept"]) for c in total if isinstance(c, kinds)]


def _closed_routes(items: list[Claims], sums: list[Claim], at: Fraction) -> dict[str, Fraction]:
    names = {PureDP: "sum", ApproxDP: "sum of items", GDP: "gdp", ZCDP: "zcdp", RDP: "rdp", BoundedRange: "range"}
    routes: dict[str, Fraction] = {}
    for claim in sums:
        name = names.get(type(claim))
        found = Claims.of(claim).approx_at(at)
        if name and found is not None:
            routes[name] = min(routes.get(name, found.epsilon), found.epsilon)
    k = len(items)
    equal = _equal_response(items)
    if equal is not None and 1 < k <= MOST_RESPONSES:
        found_epsilon = equal_responses_epsilon(equal[0], equal[1], k, at)
        if found_epsilon is not None:
            routes["kov"] = found_epsilon
    return routes


def _numerical_routes(items: list[Claims], at: Fraction, *, most: Fraction | None) -> dict[str, Fraction]:
    """Compose by privacy loss distributions: exponential mechanisms by their pair, and pooled into one zCDP block."""
    kinds = [most_specific(c) for c in items]
    if len(items) < 2 or any(kind is None for kind in kinds):
        return {}
    native = [kind for kind in kinds if kind is not None]
    same = len(set(native)) == 1
    if all(isinstance(c, GDP) for c in native) or (same and isinstance(native[0], PureDP)):
        return {}  # the closed form is exact there
    if most is not None and most > _LARGEST_REFINED:
        return {}
    step = interval_for(float(most) if most is not None else 20.0)
    routes: dict[str, Fraction] = {}
    variants = {"pld": False}
    if any(isinstance(c, BoundedRange) for c in native):
        variants = {"pld": False, "pld with a zcdp block": True}
    for name, pooled in variants.items():
        try:
            found = compose(_pairs(native, pooled=pooled), step=step).epsilon(at)
        except RangeError:
            if most is None:
                raise
            continue
        if found is not None:
            routes[name] = found
    return routes


def _pairs(claims: list[Claim], *, pooled: bool) -> list[Pair]:
    """Fold Gaussians into one and zCDP claims into one block; with `pooled` the exponential mechanisms too."""
    pairs: list[Pair] = []
    mu_squared = rho = Fraction(0)
    for claim in claims:
        match claim:
            case GDP():
                mu_squared += claim.mu * claim.mu
            case ZCDP():
                rho += claim.rho
            case BoundedRange() if pooled:
                rho += convert.zcdp_from_bounded_range(claim.epsilon)
            case BoundedRange():
                pairs.append((BoundedRangeCurve(claim.epsilon),) * 2)
            case PureDP():
                pairs.append((ApproxCurve(claim.epsilon),) * 2)
            case ApproxDP():
                pairs.append((ApproxCurve(claim.epsilon, claim.delta),) * 2)
            case Profile():
                pairs.append((claim.remove, claim.add))
            case _:
                raise ClaimError(f"{claim} has no profile to compose")
    if mu_squared:
        pairs.append((HingedGaussianCurve(convert.root_of_sum_of_squares(mu_squared)),) * 2)
    if rho:
        pairs.append((ZCDPCurve(rho),) * 2)
    return pairs


def _equal_response(items: list[Claims]) -> tuple[Fraction, Fraction] | None:
    """Return (epsilon, delta) if every item is the same randomised response, with or without a reveal."""
    found = set()
    for claims in items:
        pure = claims.pure()
        if pure is not None:
            found.add((pure.epsilon, Fraction(0)))
        elif claims.items:
            item = min(claims.items, key=lambda i: (i.delta, i.epsilon))
            found.add((item.epsilon, item.delta))
        else:
            return None
    return found.pop() if len(found) == 1 else None


def equal_responses_epsilon(epsilon: Fraction, reveal: Fraction, k: int, at: Fraction) -> Fraction | None:
    """Return the epsilon of k equal items at a delta: it is piecewise linear in e^x, so each piece is solved."""
    spent = 1 - (1 - reveal) ** k
    if at < spent:
        return None
    rest = Interval.of((at - spent) / (1 - spent))
    highest = Fraction(0)
    for p_mass, q_mass in _prefixes(epsilon, k):
        gap = p_mass - rest
        if gap.lower > 0:
            highest = max(highest, round_up((gap / q_mass).log().upper))
        elif gap.upper > 0:  # straddles zero: only the upper end can matter
            highest = max(highest, round_up((Interval(gap.upper, gap.upper) / q_mass).log().upper))
    return min(highest, k * epsilon)


def _prefixes(epsilon: Fraction, k: int) -> list[tuple[Interval, Interval]]:
    """The masses under P and Q of the largest losses, for every prefix; H_x is the best difference."""
    if k > MOST_RESPONSES:
        raise RangeError(f"the exact sum is for at most {MOST_RESPONSES} items, got {k}")
    up = Interval.of(epsilon).exp()
    total = _ONE
    for _ in range(k):
        total = total * (_ONE + up)
    powers = [_ONE]
    for _ in range(k):
        powers.append(powers[-1] * up)
    p_mass = q_mass = Interval.of(0)
    found = []
    for lies in range(k + 1):
        if k - 2 * lies <= 0:
            break
        weight = Interval.of(comb(k, lies)) / total
        p_mass, q_mass = p_mass + weight * powers[k - lies], q_mass + weight * powers[lies]
        found.append((p_mass, q_mass))
    return found


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
