"""`Quantiles`: the query a user writes, and what it becomes against a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sidelight.aggregates import collect_ranks
from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import Outcomes
from sidelight.guarantees.amounts import decimal_text, exact
from sidelight.noise import Source
from sidelight.predictions import CompiledPrior, Prior, PublicData, describe, warn_if_unhedged
from sidelight.quantiles.bounds import Adaptation, expected_gap
from sidelight.quantiles.descend import descend
from sidelight.quantiles.outcomes import check_reach, default_prior, grid_to_json, outcome_grid, rehearse
from sidelight.quantiles.tree import LevelLike, QuantileTree, Score, balanced_branching, exact_levels, quantile_tree
from sidelight.records import Number, Schema, Table
from sidelight.release import Release
from sidelight.session import Answer, release_once
from sidelight.session.query import SurePrepared


@dataclass(frozen=True)
class Quantiles:
    """Release many quantiles of one column with one budget.

    Guarantee: PureDP(epsilon) for the schema's unit (one row, or one person with the declared number of rows) under
    adding or removing one, and the zCDP and GDP claims of the tree; exact on the machine (quantiles proof page).

    Accuracy: the error is in ranks and does not grow with the number of records; `release.error_bound(0.95)`. A
    `prediction` that is right makes it smaller; one that is wrong costs ranks and never privacy.

    Args:
        levels: One level or several, in (0, 1), increasing.
        epsilon: The price of all of them together.
        column: The column of a table; not for a bare array.
        prediction: One prior for all levels, or one for each.
        granularity: Of a bare array: the public step on which its values lie, such as 1 for ages.
        lower, upper: Of a bare array: public bounds. They may be left out, and wide ones do no harm.
        resolution: Rounds the released values down to a step. Without it and without granularity they are floats of 48
            bits, each written as the shortest decimal.
        branching: Children of a node of the tree; "wide" for the K-ary tree of the paper.
        budget_power: p in the share (l + 1)^-p of the budget for depth l of the tree; 0, or 3/2 for "wide", if left
            out.
        adaptation: What becomes of a prior inside a node: "conditional" restricts it, "edge" moves what lies outside to
            the ends.
        score: "exact"; "floor" only to reproduce the paper: it has twice the error.

    >>> release = Quantiles([0.25, 0.5, 0.75], epsilon=1, granularity=1).release(list(range(18, 90)) * 20)
    >>> bool(40 < release.value[1] < 70)
    True
    """

    levels: LevelLike | Sequence[LevelLike]
    epsilon: LevelLike = field(kw_only=True)
    column: str | None = field(default=None, kw_only=True)
    prediction: Prior | Sequence[Prior] | None = field(default=None, kw_only=True)
    granularity: LevelLike | None = field(default=None, kw_only=True)
    lower: float | None = field(default=None, kw_only=True)
    upper: float | None = field(default=None, kw_only=True)
    resolution: LevelLike | None = field(default=None, kw_only=True)
    branching: int | Literal["wide"] = field(default=2, kw_only=True)
    budget_power: LevelLike | None = field(default=None, kw_only=True)
    adaptation: Adaptation = field(default="conditional", kw_only=True)
    score: Score = field(default="exact", kw_only=True)

    def __post_init__(self) -> None:
        levels = exact_levels(self.levels)
        if self.adaptation not in ("conditional", "edge"):
            raise RangeError(f'adaptation must be "conditional" or "edge", got {self.adaptation!r}')
        if self.score not in ("exact", "floor"):
            raise RangeError(f'score must be "exact" or "floor", got {self.score!r}')
        if self.branching != "wide" and not (isinstance(self.branching, int) and self.branching >= 2):
            raise RangeError(f'branching must be "wide" or a whole number of at least 2, got {self.branching!r}')
        for prior in self._given:
            if not isinstance(prior, Prior):
                fit = "; sl.quantiles.fit_public(...) makes priors of it" if isinstance(prior, PublicData) else ""
                raise RangeError(
                    "prediction must be a prior such as sl.priors.Cauchy(location, scale), got "
                    f"{type(prior).__name__}{fit}"
                )
        if isinstance(self.prediction, Sequence) and len(self.prediction) != len(levels):
            raise RangeError(
                f"prediction must be one prior, or one for each of the {len(levels)} levels, got {len(self.prediction)}"
            )
        self._tree(levels, unit=None)  # a budget that cannot work is found now

    @property
    def _given(self) -> tuple[Prior, ...]:
        if self.prediction is None:
            return ()
        return tuple(self.prediction) if isinstance(self.prediction, Sequence) else (self.prediction,)

    def _tree(self, levels: tuple[Fraction, ...], *, unit: Any) -> QuantileTree:
        wide = self.branching == "wide"
        power: LevelLike = Fraction(3, 2) if wide else 0
        return quantile_tree(
            levels,
            epsilon=self.epsilon,
            branching=balanced_branching(len(levels)) if self.branching == "wide" else self.branching,
            budget_power=power if self.budget_power is None else self.budget_power,
            unit=unit,
        )

    def declare(self) -> Number:
        """Return the declaration of a bare array: its granularity and bounds as written in the query."""
        if self.column is not None:
            raise SchemaError(
                f"column {self.column!r} names a column of a table, and what came is not an sl.Table; pass "
                f"sl.Table(data, schema=[sl.Number({self.column!r})]), or that column alone and no column="
            )
        return Number("value", lower=self.lower, upper=self.upper, granularity=self.granularity)

    def prepare(self, schema: Schema) -> PreparedQuantiles:
        """Check the query against the schema, choose the grid and the priors, and price it. Opens no data."""
        number = self._number(schema)
        levels = exact_levels(self.levels)
        resolution = None if self.resolution is None else exact(self.resolution, name="resolution")
        grid = outcome_grid(number, resolution=resolution)
        priors = self._given or (default_prior(number),)
        for prior in dict.fromkeys(self._given):
            check_reach(prior, grid)
            warn_if_unhedged(prior, stacklevel=4)
        rehearse(number, grid)
        tree = self._tree(levels, unit=schema.unit)
        distinct = tuple(dict.fromkeys(priors))
        compiled = {prior: prior.compile(grid) for prior in distinct}
        priors = priors * len(levels) if len(priors) == 1 else priors
        return PreparedQuantiles(
            claims=tree.claims,
            request={
                "kind": "quantiles",
                "column": number.name,
                "levels": [decimal_text(level) for level in tree.levels],
                "epsilon": decimal_text(tree.epsilon),
                "branching": str(tree.branching),
                "budget_power": decimal_text(tree.budget_power),
                "adaptation": self.adaptation,
                "score": self.score,
                "grid": grid_to_json(grid),
                "priors": [prior.to_json() for prior in distinct],
            },
            labels=tuple(f"{float(100 * level):.10g} %" for level in tree.levels),
            prediction=_described(distinct) if self._given else None,
            error=expected_gap(tree, priors, grid, adaptation=self.adaptation, score=self.score),
            column=number.name,
            tree=tree,
            grid=grid,
            compiled=tuple(compiled[prior] for prior in priors),
            adaptation=self.adaptation,
            score=self.score,
        )

    def _number(self, schema: Schema) -> Number:
        if self.column is None:
            if len(schema.columns) == 1 and isinstance(schema.columns[0], Number):
                return schema.columns[0]
            raise SchemaError(
                f"which column? The schema has {', '.join(column.name for column in schema.columns)}; "
                "write Quantiles(..., column=...)"
            )
        number = schema.number(self.column)
        doubled = [name for name in ("granularity", "lower", "upper") if getattr(self, name) is not None]
        if doubled:
            raise SchemaError(
                f"what is known of column {self.column!r} stands in its schema, and the query has "
                f"{' and '.join(doubled)}; declare sl.Number({self.column!r}, {doubled[0]}=...) and leave it out here"
            )
        return number

    def release(self, data: Any) -> Release:
        """Release from a bare array, Series or column, or a table, with exactly this query's budget and no ledger."""
        return release_once(self, data)


def _described(priors: tuple[Prior, ...]) -> Mapping[str, Any]:
    """Return what was predicted and where it came from."""
    first, *others = priors
    return {
        "description": describe(first) + (f", and {len(others)} more: one for each level" if others else ""),
        "priors": [prior.to_json() for prior in priors],
        "origin": first.origin.to_json(),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedQuantiles(SurePrepared):
    """A `Quantiles` query fitted to a schema: its tree, its grid, and the priors as exact integer masses on it."""

    column: str
    tree: QuantileTree
    grid: Outcomes
    compiled: tuple[CompiledPrior, ...]
    adaptation: Adaptation
    score: Score

    def run(self, table: Table, source: Source) -> Answer:
        """Count ranks in one pass over the column and descend the tree."""
        return self.answer(self.ranks(table, source), source)

    def ranks(self, table: Table, source: Source) -> Ranks:
        """Count the ranks of the column in one pass. Private."""
        return collect_ranks(table, self.column, self.grid, source)

    def answer(self, ranks: Ranks, source: Source) -> Answer:
        """Descend the tree."""
        indices = descend(
            self.tree, ranks, priors=self.compiled, source=source, adaptation=self.adaptation, score=self.score
        )
        return Answer(value=np.array([self.grid.value(index) for index in indices]))
