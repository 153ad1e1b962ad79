"""Tables whose columns are like those that users have: rounded, tied, clustered, skewed, short of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import sidelight as sl

Floats = np.ndarray
Draw = Callable[[np.random.Generator, int], Floats]

GROUPS = ("a", "b", "c", "d", "e")
HALVES = ("p", "q")
_SHARES = (0.5, 0.3, 0.13, 0.05, 0.02)


@dataclass(frozen=True)
class Law:
    """How a column is distributed, and the bounds that its owner declares."""

    name: str
    draw: Draw
    upper: float
    lower: float = 0.0
    rows: int = 400
    #: Whether only a run of all laws has it.
    more: bool = False


@dataclass(frozen=True, eq=False)
class Case:
    """A generated table: a column of a law, a second number, groups that depend on both, and a public sample."""

    law: Law
    seed: int
    rows: int

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The private columns."""
        return self._drawn(np.random.default_rng((41, self.seed)), self.rows)

    @cached_property
    def public(self) -> Floats:
        """Public rows of x and y, of the same law."""
        drawn = self._drawn(np.random.default_rng((42, self.seed)), 40)
        return np.column_stack([drawn["x"], drawn["y"]])

    @cached_property
    def schema(self) -> sl.Schema:
        """The declarations."""
        bounds = {"lower": self.law.lower, "upper": self.law.upper}
        return sl.Schema(
            [
                sl.Number("x", **bounds),
                sl.Number("y", **bounds),
                sl.Category("g", list(GROUPS), other=None),
                sl.Category("h", list(HALVES), other=None),
            ]
        )

    @cached_property
    def table(self) -> sl.Table:
        """The table that queries are asked of."""
        return sl.Table(self.columns, schema=self.schema)

    def _drawn(self, rng: np.random.Generator, rows: int) -> dict[str, Any]:
        x = np.clip(self.law.draw(rng, rows), self.law.lower, self.law.upper)
        other = np.clip(self.law.draw(rng, rows), self.law.lower, self.law.upper)
        y = np.where(rng.random(rows) < 0.7, x, other)
        # half of the rows are grouped by rank, so that groups differ in their means and the last ones are rare
        ranks = np.where(rng.random(rows) < 0.5, np.argsort(np.argsort(x)) / rows, rng.random(rows))
        g = np.array(GROUPS)[np.searchsorted(np.cumsum(_SHARES)[:-1], ranks, side="right")]
        h = np.where(x + y + rng.normal(size=rows) * (np.std(x) + 1e-9) > 2 * np.median(x), "q", "p")
        return {"x": x, "y": y, "g": g, "h": h}


def _clusters(rng: np.random.Generator, rows: int) -> Floats:
    return rng.choice([3.0, 11.0, 12.5, 40.0, 41.0, 77.0, 95.0], rows) + rng.normal(size=rows) * 0.02


def _spike(rng: np.random.Generator, rows: int) -> Floats:
    return np.where(rng.random(rows) < 0.9, 50 + rng.normal(size=rows) * 1e-3, rng.uniform(0, 100, rows))


def _with_zeros(rng: np.random.Generator, rows: int) -> Floats:
    return np.where(rng.random(rows) < 0.6, 0.0, rng.lognormal(0, 1, rows))


def _normal(rng: np.random.Generator, rows: int) -> Floats:
    return rng.normal(40, 8, rows)


LAWS = (
    Law("plain normal", _normal, 100, more=True),
    Law("half-integers", lambda rng, rows: np.round(2 * rng.normal(40, 8, rows)) / 2, 100),
    Law("money in hundreds", lambda rng, rows: 100 * np.round(rng.lognormal(7.5, 0.6, rows) / 100), 20_000, more=True),
    Law("geometric counts", lambda rng, rows: rng.geometric(0.2, rows) - 1.0, 100, more=True),
    Law(
        "five values", lambda rng, rows: rng.choice([1.0, 2.0, 3.0, 4.0, 5.0], rows, p=[0.4, 0.3, 0.2, 0.08, 0.02]), 10
    ),
    Law("zeros beside a lognormal", _with_zeros, 100),
    Law("seven clusters", _clusters, 100),
    Law("a narrow spike", _spike, 100),
    Law("a heavy tail", lambda rng, rows: rng.pareto(1.1, rows), 10_000),
    Law("bounds ten times too wide", _normal, 1000),
    Law("few rows", _normal, 100, rows=15),
)
