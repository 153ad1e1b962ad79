"""`Quantiles`: the query a user writes, and what it becomes against a schema."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import Any, Literal

import numpy as np

from sidelight.aggregates import collect_ranks
from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.collect_ranks import collect_group_ranks
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import Outcomes
from sidelight.group_table import GroupTable
from sidelight.guarantees import Person, Row
from sidelight.guarantees.amounts import decimal_text, exact
from sidelight.mechanisms.additive import LaplaceNoise
from sidelight.mechanisms.budget import together
from sidelight.noise import Source
from sidelight.predictions import CompiledPrior, Prior, PublicData, describe, warn_if_unhedged
from sidelight.quantiles.bounds import Adaptation, expected_gap
from sidelight.quantiles.descend import descend
from sidelight.quantiles.group_priors import (
    BORROW_SHARE,
    PreparedCellPriors,
    read_cell_priors,
    total_levels,
)
from sidelight.quantiles.outcomes import check_reach, default_prior, grid_to_json, outcome_grid, rehearse
from sidelight.quantiles.tree import LevelLike, QuantileTree, Score, balanced_branching, exact_levels, quantile_tree
from sidelight.records import Number, Schema, Table
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression
from sidelight.release import Release
from sidelight.session import Answer, release_once
from sidelight.session.query import SurePrepared

#: Of the budget of quantiles by group, for the counts that say which groups have rows.
_COUNT_SHARE = Fraction(1, 10)
#: A group has support if its noisy count exceeds so many standard deviations of its noise.
_SUPPORT = 3


@dataclass(frozen=True)
class Quantiles:
    """Release many quantiles of one column with one budget, of all rows or by group.

    By group a row is in one group, so that each group's quantiles get the whole budget but for a tenth, which counts
    the rows: what a group without rows has for quantiles is a draw from the prior, and `supported` says so.

    Guarantee: PureDP(epsilon) for the schema's unit (one row, or one person with the declared number of rows) under
    adding or removing one, and the zCDP and GDP claims of the tree; exact on the machine (quantiles proof page).

    Accuracy: the error is in ranks and does not grow with the number of records; `release.error_bound(0.95)`. A
    `prediction` that is right makes it smaller; one that is wrong costs ranks and never privacy.

    Args:
        levels: One level or several, in (0, 1), increasing.
        epsilon: The price of all of them together.
        column: The column of a table; not for a bare array.
        prediction: One prior for all levels, or one for each. By group also a mapping from labels (tuples of labels for
            several columns) to such, or an earlier release of these quantiles by these groups.
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
        by: Columns or derived labels whose cells are the groups; a table with a row for each then comes out.
        where: A condition on declared columns that rows must pass, or its text; a table comes out, too.
        max_groups: In how many groups a person counts at most.
        max_rows_per_group: How many rows of a person count in one group at most.
        borrow: "total" spends 18 % on the quantiles of all rows, around which groups of which nothing else is known
            are then expected: good where groups have fewer than about 30/epsilon rows, and for nothing beyond.

    >>> release = Quantiles([0.25, 0.5, 0.75], epsilon=1, granularity=1).release(list(range(18, 90)) * 20)
    >>> bool(40 < release.value[1] < 70)
    True
    """

    levels: LevelLike | Sequence[LevelLike]
    epsilon: LevelLike = field(kw_only=True)
    column: str | None = field(default=None, kw_only=True)
    prediction: Any = field(default=None, kw_only=True)
    granularity: LevelLike | None = field(default=None, kw_only=True)
    lower: float | None = field(default=None, kw_only=True)
    upper: float | None = field(default=None, kw_only=True)
    resolution: LevelLike | None = field(default=None, kw_only=True)
    branching: int | Literal["wide"] = field(default=2, kw_only=True)
    budget_power: LevelLike | None = field(default=None, kw_only=True)
    adaptation: Adaptation = field(default="conditional", kw_only=True)
    score: Score = field(default="exact", kw_only=True)
    by: str | Expression | Sequence[str | Expression] = field(default=(), kw_only=True, compare=False)
    where: Expression | str | None = field(default=None, kw_only=True, compare=False)
    max_groups: int | None = field(default=None, kw_only=True)
    max_rows_per_group: int | None = field(default=None, kw_only=True)
    borrow: Literal["total"] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        levels = exact_levels(self.levels)
        by = (self.by,) if isinstance(self.by, (str, Expression)) else tuple(self.by)
        object.__setattr__(self, "by", by)
        if isinstance(self.where, str):
            object.__setattr__(self, "where", parse_expression(self.where))
        if not by and (self.max_groups is not None or self.max_rows_per_group is not None) and self.where is None:
            raise RangeError(
                "max_groups and max_rows_per_group are for quantiles by group; give by=, or leave them out"
            )
        if self.adaptation not in ("conditional", "edge"):
            raise RangeError(f'adaptation must be "conditional" or "edge", got {self.adaptation!r}')
        if self.score not in ("exact", "floor"):
            raise RangeError(f'score must be "exact" or "floor", got {self.score!r}')
        if self.branching != "wide" and not (isinstance(self.branching, int) and self.branching >= 2):
            raise RangeError(f'branching must be "wide" or a whole number of at least 2, got {self.branching!r}')
        if self.borrow not in (None, "total"):
            raise RangeError(f"borrow must be 'total' or left out, got {self.borrow!r}")
        if not by and (self.borrow is not None or _is_by_group(self.prediction)):
            raise RangeError("borrow and predictions by group are for quantiles by group; give by=")
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
        if self.prediction is None or _is_by_group(self.prediction):
            return ()
        return tuple(self.prediction) if isinstance(self.prediction, Sequence) else (self.prediction,)

    @property
    def _grouped(self) -> bool:
        return bool(self.by) or self.where is not None

    def _tree(self, levels: tuple[Fraction, ...], *, unit: Any) -> QuantileTree:
        epsilon = exact(self.epsilon, name="epsilon") * (1 - _COUNT_SHARE) if self._grouped else self.epsilon
        wide = self.branching == "wide"
        power: LevelLike = Fraction(3, 2) if wide else 0
        return quantile_tree(
            levels,
            epsilon=epsilon,
            branching=balanced_branching(len(levels)) if self.branching == "wide" else self.branching,
            budget_power=power if self.budget_power is None else self.budget_power,
            unit=unit,
        )

    def declare(self) -> Number:
        """Return the declaration of a bare array: its granularity and bounds as written in the query."""
        if self._grouped:
            raise SchemaError("quantiles by group want sl.Table(data, schema=[...]), with the columns declared")
        if self.column is not None:
            raise SchemaError(
                f"column {self.column!r} names a column of a table, and what came is not an sl.Table; pass "
                f"sl.Table(data, schema=[sl.Number({self.column!r})]), or that column alone and no column="
            )
        return Number("value", lower=self.lower, upper=self.upper, granularity=self.granularity)

    def prepare(self, schema: Schema) -> PreparedQuantiles | PreparedCellPriors:
        """Check the query against the schema, choose the grid and the priors, and price it. Opens no data."""
        if self.borrow is not None or _is_by_group(self.prediction):
            return self._with_cell_priors(schema)
        number = self._number(schema)
        levels = exact_levels(self.levels)
        resolution = None if self.resolution is None else exact(self.resolution, name="resolution")
        grid = outcome_grid(number, resolution=resolution)
        priors = self._given or (default_prior(number),)
        for prior in dict.fromkeys(self._given):
            check_reach(prior, grid)
            warn_if_unhedged(prior, stacklevel=4)
        rehearse(number, grid)
        groups = self._groups(schema) if self._grouped else None
        tree = self._tree(levels, unit=schema.unit if groups is None else _counted_unit(schema, groups))
        distinct = tuple(dict.fromkeys(priors))
        compiled = {prior: prior.compile(grid) for prior in distinct}
        priors = priors * len(levels) if len(priors) == 1 else priors
        prepared = PreparedQuantiles(
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
        return prepared if groups is None else self._by_group(prepared, groups)

    def _with_cell_priors(self, schema: Schema) -> PreparedCellPriors:
        """Return the query with priors of its own for each group, and the total that others borrow from."""
        levels, number = exact_levels(self.levels), self._number(schema)
        price = exact(self.epsilon, name="epsilon")
        own = None if _is_by_group(self.prediction) else self.prediction
        left = price * (1 - BORROW_SHARE) if self.borrow else price
        inner = replace(self, prediction=own, borrow=None, epsilon=left).prepare(schema)
        assert isinstance(inner, PreparedGroupQuantiles)
        cells, names = tuple(product(*inner.groups.keys)), tuple(level_name(level) for level in levels)
        default = default_prior(number)
        known = None
        if _is_by_group(self.prediction):
            known = read_cell_priors(
                self.prediction, cells=cells, keys=inner.keys, names=names, default=default, grid=inner.grid
            )
            for prior in {each for priors in known.priors.values() for each in priors}:
                check_reach(prior, inner.grid)
        compiled = {} if known is None else known.compiled(inner.grid)
        total, read_total, places = None, None, tuple(range(len(levels)))
        claims, request = inner.claims, {**inner.request, "epsilon": decimal_text(price)}
        if self.borrow is not None:
            every, places = total_levels(levels)
            limits: dict[str, Any] = {"max_groups": None, "max_rows_per_group": None} if self.where is None else {}
            asked = replace(
                self, levels=every, by=(), prediction=None, borrow=None, epsilon=price * BORROW_SHARE, **limits
            )
            prepared = asked.prepare(schema)
            total, read_total = prepared, _read_all
            claims = together([(1, inner.claims), (1, prepared.claims)])
            request["borrow"] = self.borrow
        if known is not None:
            request["prediction"] = known.description["sha256"]
        return PreparedCellPriors(
            claims=claims,
            request=request,
            labels=inner.labels,
            prediction=inner.prediction if known is None else known.description,
            error=None,
            groups=inner,
            cells=cells,
            compiled=inner.compiled,
            known=compiled,
            total=total,
            read_total=read_total,
            places=places,
            names=names,
            default=default,
        )

    def _groups(self, schema: Schema) -> Groups:
        """Check groups and condition against a schema."""
        assert self.where is None or isinstance(self.where, Expression)
        groups = groups_of(
            schema,
            by=self.by,
            where=self.where,
            max_groups=self.max_groups,
            max_rows_per_group=self.max_rows_per_group,
        )
        if groups.label is not None:
            raise SchemaError(
                f"by names {groups.label.name!r}, whose labels nobody declared; quantiles by group need sl.Category"
            )
        return groups

    def _by_group(self, prepared: PreparedQuantiles, groups: Groups) -> PreparedGroupQuantiles:
        """Return the query with a tree for each group, and the counts that say which of them have rows."""
        assert isinstance(self.by, tuple)
        epsilon = exact(self.epsilon, name="epsilon")
        counts = LaplaceNoise(_counted(groups, np.zeros(groups.cells, np.int64)), epsilon=epsilon * _COUNT_SHARE)
        cells = tuple(product(*groups.keys))
        limits = {"max_groups": self.max_groups, "max_rows_per_group": self.max_rows_per_group, "where": self.where}
        return PreparedGroupQuantiles(
            claims=together([(1, prepared.claims.with_unit(groups.unit)), (1, counts.claims)]),
            request={
                **prepared.request,
                "kind": "group_quantiles",
                "epsilon": decimal_text(epsilon),
                "by": [str(each) for each in self.by],
                **{name: str(limit) for name, limit in limits.items() if limit is not None},
            },
            labels=tuple(" / ".join(cell) or "all rows" for cell in cells),
            prediction=prepared.prediction,
            error=prepared.error,
            column=prepared.column,
            tree=prepared.tree,
            grid=prepared.grid,
            compiled=prepared.compiled,
            adaptation=prepared.adaptation,
            score=prepared.score,
            groups=groups,
            keys=tuple(str(each) for each in self.by),
            count_epsilon=epsilon * _COUNT_SHARE,
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


def _is_by_group(prediction: Any) -> bool:
    """Return whether a prediction is about groups: a mapping from labels, or an earlier table by group."""
    value = prediction.value if isinstance(prediction, Release) else prediction
    return isinstance(value, (Mapping, GroupTable))


def _read_all(answer: Answer) -> Sequence[float]:
    """Return the quantiles of all rows, in the order of their levels: a vector, or the one row of a table."""
    value = answer.value
    if isinstance(value, GroupTable):
        return [float(value[name][0]) for name in value.columns if name.startswith("q")]
    return [float(each) for each in value]


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


def _counted_unit(schema: Schema, groups: Groups) -> Person | Row:
    """Return the unit with as many rows as count of it in all groups together: what a tree divides its budget by."""
    return Row() if schema.person is None else Person(schema.person.name, groups.norms.total)


def _counted(groups: Groups, sizes: Any) -> Bounded:
    """Return the sizes of groups with how far one unit moves them."""
    return Bounded(sizes, groups.norms.sensitivity("l1"), "l1", groups.norms.neighbours, groups.unit)


def level_name(level: Fraction) -> str:
    """Return what the column of a level is called in a table by group.

    >>> level_name(Fraction(1, 4)), level_name(Fraction(999, 1000))
    ('q25', 'q99.9')
    """
    return f"q{float(100 * level):.10g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedGroupQuantiles(PreparedQuantiles):
    """`Quantiles` by group, or of rows that pass a condition: the same tree for each group, then their sizes.

    Guarantee: groups hold disjoint rows, and so do the nodes of one depth of all trees together: a row meets one path
    of one tree, a person with K rows at most K of them, which is what the tree's claims say of its unit.
    """

    groups: Groups
    keys: tuple[str, ...]
    count_epsilon: Fraction

    def run(
        self, table: Table, source: Source, *, by_cell: Sequence[tuple[CompiledPrior, ...]] | None = None
    ) -> Answer:
        """Count ranks in one pass over the column, descend the tree in each group, and count the rows.

        Args:
            table: The rows.
            source: Of the noise.
            by_cell: Priors of each group's own, one for each level; public, or released before.
        """
        by_group = collect_group_ranks(table, self.column, self.grid, source, groups=self.groups)
        own = by_cell or [self.compiled] * len(by_group)
        pairs = zip(by_group, own, strict=True)
        values = np.array([replace(self, compiled=priors).answer(ranks, source).value for ranks, priors in pairs])
        sizes = np.array([ranks.size for ranks in by_group], np.int64)
        noise = LaplaceNoise(_counted(self.groups, sizes), epsilon=self.count_epsilon)
        counts = np.asarray(noise.release(source), np.int64)
        columns: dict[str, Any] = {level_name(level): values[:, place] for place, level in enumerate(self.tree.levels)}
        columns |= {
            "count": np.maximum(counts, 0),
            "count_unbiased": counts,
            "supported": counts > _SUPPORT * math.sqrt(2) * float(noise.scale),
        }
        cells = tuple(product(*self.groups.keys))
        return Answer(value=GroupTable(keys=self.keys, groups=cells, columns=columns))
