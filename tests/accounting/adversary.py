"""Search for the adaptive policy with the largest delta, by dynamic programming.

The laws are small and discrete: randomised response, a reveal or randomised response, a sum of randomised responses,
and a Gaussian observed by cell only. The state is the balance of the ledger, and the epsilon that is left after the
losses so far; in each state the best of all requests that the rule under test grants is taken. The value at the
beginning is the exact delta, at the budget's epsilon, of the best policy on this menu.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from scipy.special import ndtr

from sidelight.accounting import Rule, Totals, amount_of
from sidelight.accounting.remaining import find_standing
from sidelight.errors import ClaimError
from sidelight.guarantees import GDP, ApproxDP, Claims, PureDP
from sidelight.guarantees.amounts import grid_floor

F = Fraction


@dataclass(frozen=True)
class Law:
    """A mechanism on one ordered pair of neighbours: the probabilities of its outcomes, and what it claims."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    claims: Claims
    delta: Fraction | None = None  # the delta that its price was declared at

    def delta_at(self, epsilon: float) -> float:
        """Return the exact profile."""
        return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(self.p, self.q, strict=True))


@cache
def response(epsilon: Fraction) -> Law:
    """Return randomised response."""
    truth = 1 / (1 + math.exp(-float(epsilon)))
    return Law((truth, 1 - truth), (1 - truth, truth), Claims.of(PureDP(epsilon)))


@cache
def item(epsilon: Fraction, delta: Fraction) -> Law:
    """Return the worst law of an (epsilon, delta): a reveal with probability delta, else randomised response."""
    truth, d = 1 / (1 + math.exp(-float(epsilon))), float(delta)
    p = (d, 0.0, (1 - d) * truth, (1 - d) * (1 - truth))
    return Law(p, (0.0, d, p[3], p[2]), Claims.of(ApproxDP(epsilon, delta)))


@cache
def responses(number: int, epsilon: Fraction, at: Fraction) -> Law:
    """Return the number of true answers among some randomised responses, with the pair that is exact at an epsilon."""
    truth = 1 / (1 + math.exp(-float(epsilon)))
    p = tuple(math.comb(number, k) * truth**k * (1 - truth) ** (number - k) for k in range(number + 1))
    exact = Law(p, p[::-1], Claims.of(PureDP(number * epsilon))).delta_at(float(at))
    return Law(p, p[::-1], Claims.of(ApproxDP(at, F(f"{exact * (1 + 1e-9):.12g}"))))


@cache
def gaussian(mu: Fraction, delta: Fraction | None, *, cells: int = 24) -> Law:
    """Return a Gaussian observed by cell; the cells are asymmetric, so the two directions differ."""
    edges = float(mu) / 2 + np.linspace(-3.5, 5, cells - 1)
    under_q = np.diff(ndtr(np.concatenate([[-np.inf], edges, [np.inf]])))
    under_p = np.diff(ndtr(np.concatenate([[-np.inf], edges, [np.inf]]) - float(mu)))
    return Law(tuple(under_p), tuple(under_q), Claims.of(GDP(mu)), delta)


Menu = Callable[[Rule, Totals], Sequence[Law]]


def largest_delta(rule: Rule, menu: Menu, *, steps: int, swapped: bool = False) -> float:
    """Return the largest delta of adaptive policies at the budget's epsilon, within `steps` steps."""
    granted: dict[tuple[Totals, Law], Totals | None] = {}
    offered: dict[Totals, Sequence[Law]] = {}
    values: dict[tuple[Totals, int, int], float] = {}

    def after(totals: Totals, law: Law) -> Totals | None:
        if (totals, law) not in granted:
            try:
                charge = rule.charge(law.claims, totals=totals, delta=law.delta)
                granted[totals, law] = totals.plus(charge) if rule.grants(totals, charge) else None
            except ClaimError:
                granted[totals, law] = None
        return granted[totals, law]

    def value(totals: Totals, left: float, steps: int) -> float:
        stop = max(0.0, -math.expm1(left))
        if steps == 0:
            return stop
        key = (totals, round(left * 10**10), steps)
        if key not in values:
            if totals not in offered:
                offered[totals] = menu(rule, totals)
            best = stop
            for law in offered[totals]:
                then = after(totals, law)
                if then is None:
                    continue
                p, q = (law.q, law.p) if swapped else (law.p, law.q)
                best = max(best, sum(_after(a, b, then, left, steps) for a, b in zip(p, q, strict=True) if a > 0))
            values[key] = best
        return values[key]

    def _after(a: float, b: float, then: Totals, left: float, steps: int) -> float:
        return a if b == 0 else a * value(then, left - math.log(a / b), steps - 1)

    return value(Totals.zero(), float(rule.budget.epsilon), steps)  # type: ignore[union-attr]


def greedy(*more: Law) -> Menu:
    """Return a menu: whatever takes all that is left of a route, or half of the sum, and some more laws."""

    def menu(rule: Rule, totals: Totals) -> Sequence[Law]:
        standing = find_standing(rule, totals)
        left = {line.route: amount_of(line.left) for line in standing.lines}
        if rule.sum_first and totals.composed is None and totals.beside is None:
            rest = rule.rest(totals)
            left |= {} if rest is None else {r: amount_of(cap) for r, cap in rest.capacities if r != "basic"}
        pool = _floor(amount_of(max(0, standing.pool - standing.pooled)))
        whole = left.get("basic", F(0))
        parts = [_floor(part) for part in (whole, whole / 2) if part > 0]
        laws = [response(part) for part in parts] + [item(part, pool) for part in (*parts, F(0)) if pool]
        squares = {left.get("gdp", F(0)), 2 * left.get("zcdp", F(0))} - {F(0)}
        laws += [gaussian(_floor(F(math.sqrt(square)) * F("0.999999999")), None) for square in sorted(squares)]
        return [*laws, *more]

    return menu


def _floor(amount: Fraction) -> Fraction:
    return grid_floor(amount, digits=9) if amount > 0 else F(0)
