"""What a rule compares now: each route with what it has counted and its capacity, and the pool of deltas."""

from __future__ import annotations

from typing import NamedTuple

from sidelight.accounting.charges import Route, Totals, capacity_quanta
from sidelight.accounting.filters import BESIDE, Rule
from sidelight.guarantees import ApproxDP


class Line(NamedTuple):
    """What one route has counted, of how much, and whether it is open."""

    route: Route
    total: int
    capacity: int
    open: bool

    @property
    def left(self) -> int:
        """What the route can still count; nothing if it is closed."""
        return max(0, self.capacity - self.total) if self.open else 0


class Standing(NamedTuple):
    """Every route that counts now, and the pool of deltas with its size."""

    lines: tuple[Line, ...]
    pooled: int
    pool: int


def find_standing(rule: Rule, totals: Totals) -> Standing:
    """Return what each route has counted, of how much, and whether it is open: what the rule compares now."""
    if not rule.sum_first:
        lines = [Line(r, totals.of(r), cap, r not in totals.closed) for r, cap in rule.capacities]
        return Standing(tuple(lines), totals.delta_items, rule.pool)
    assert isinstance(rule.budget, ApproxDP)
    epsilon, delta = capacity_quanta(rule.budget.epsilon), capacity_quanta(rule.budget.delta)
    if totals.composed is not None:
        rest, later = rule.rest(totals), totals.composed
        caps = {} if rest is None else dict(rest.capacities)
        counted = later.epsilon + totals.epsilon
        lines = [Line("basic", counted, epsilon, "basic" not in later.closed)]
        lines += [Line(r, later.of(r), caps.get(r, 0), r not in later.closed) for r in BESIDE]
        pool = 0 if rest is None else rest.pool
        return Standing(tuple(lines), totals.delta_items + later.delta_items, totals.delta_items + pool)
    lines = [Line("basic", totals.epsilon, epsilon, "basic" not in totals.closed)]
    found = rule.beside(totals)
    if found is not None:
        other, seen = found
        lines += [Line(r, seen.of(r), cap, r not in seen.closed) for r, cap in other.capacities]
    return Standing(tuple(lines), totals.delta_items, delta)
