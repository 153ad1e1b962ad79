"""Counts of a hierarchy: every level and margin, additive whole numbers, and unbiased estimates with intervals.

What is public before the run (tree, shares, noise, caps, exact totals, cells that cannot hold rows) is fixed by
`prepare_hierarchy`; everything after the noise is post-processing (hierarchies proof page).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import ALL, HIERARCHY, LEVEL, PARENT, GroupTable, check_keys
from sidelight.guarantees import Amount
from sidelight.guarantees.claims import NOT_PROTECTED
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.records.columns import Category
from sidelight.records.hierarchy import LabelTree
from sidelight.records.invariants import kept_level, read_invariants
from sidelight.release import Release, TailBound
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count_tables import CountReading, bounded_words, error_of_shown
from sidelight.summaries.kept_groups import kept_groups
from sidelight.summaries.public_totals import public_levels
from sidelight.summaries.tree_advice import Measure, exact_advice, pure_advice
from sidelight.summaries.tree_measurement import TreeMeasurement, TreeWishes, measure_tree
from sidelight.summaries.tree_model import TreeModel
from sidelight.summaries.tree_prior import TreePredictionUse, predicted_cells, with_prediction
from sidelight.summaries.tree_tables import long_table, written_model
from sidelight.summaries.tree_whole import whole_tree
from sidelight.table_texts import EXACT

if TYPE_CHECKING:
    from sidelight.summaries.grouped import Grouped

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
#: What a hierarchy says of its table, and the statistics that take it.
_TAKEN_BY = {
    "caps": ("count", "sum"),
    "public_totals": ("count", "sum"),
    "impossible": ("count",),
    "invariants": ("count",),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeShape:
    """Where the hierarchy stands among the columns of `by`, and the tree over its labels."""

    tree: LabelTree
    axis: int
    others: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    id_column: str

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns of the long table."""
        return LEVEL, self.id_column, PARENT, *self.others

    @property
    def request(self) -> dict[str, Any]:
        """What the request of a query says of the table that comes out, where it is not as usual."""
        return {} if self.id_column == "id" else {"id_column": self.id_column}

    def cells(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return an array by all columns with a row a leaf, in the order of the tree, and a column a cell."""
        return np.moveaxis(values, self.axis, 0).reshape(self.tree.sizes[-1], -1)[self.tree.order]


def tree_shape(query: Grouped, groups: Groups, kind: str) -> TreeShape:
    """Check a hierarchy against the schema and the other columns."""
    hierarchy = query.hierarchy
    assert hierarchy is not None
    if getattr(query, "known", None) is not None:
        raise RangeError("known has no effect with an sl.Hierarchy in by; leave it out")
    for name, kinds in _TAKEN_BY.items():
        if getattr(hierarchy, name) is not None and kind not in kinds:
            raise RangeError(f"{name} of a hierarchy is for a {' or a '.join(kinds)}, not for a {kind}; leave it out")
    if groups.label is not None:
        raise SchemaError(f"a hierarchy is crossed with columns of declared labels, and {groups.label.name!r} has none")
    axis = query.keys.index(hierarchy.column)
    others = tuple(key for place, key in enumerate(query.keys) if place != axis)
    taken = sorted({*others, *(column.name for column in groups.schema.columns)} & set(hierarchy.names[1:-1]))
    if taken:
        raise SchemaError(f"{taken[0]!r} is a level of the hierarchy and a column; give the level another name")
    name = hierarchy.id_column
    check_keys([*others, name], [LEVEL, PARENT, EXACT])
    check_keys([name], [*others, *query.table_columns(kind)])
    labels = tuple(labels for place, labels in enumerate(groups.keys) if place != axis)
    if any(ALL in each for each in labels):
        raise SchemaError(f"totals over other columns are called {ALL!r}, which is a declared label; rename that label")
    return TreeShape(tree=hierarchy.of(groups.schema), axis=axis, others=others, labels=labels, id_column=name)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedHierarchy(SurePrepared):
    """Counts of a hierarchy, ready to run."""

    groups: Groups
    shape: TreeShape
    measurement: TreeMeasurement
    measure: Measure
    price: Mapping[str, Amount | None]
    reading: CountReading
    totals: tuple[Whole, ...]
    caps: Mapping[str, float]
    counted: str
    kept: tuple[int, str] | None = None
    published: tuple[Whole, ...] | None = None

    @property
    def publishes_totals(self) -> bool:
        """Whether totals of the rows are published exactly."""
        return self.kept is not None

    def kept_nodes(self) -> tuple[str, Mapping[str, str]] | None:
        """Return the column of the leaves, and the node of the exact level that each of them lies in."""
        if self.kept is None:
            return None
        tree, above = self.shape.tree, np.arange(self.shape.tree.sizes[-1])
        for level in range(tree.depth, self.kept[0], -1):
            above = tree.parents[level][above]
        nodes = (tree.ids[self.kept[0]][place] for place in above.tolist())
        return tree.names[-1], dict(zip(tree.ids[-1], nodes, strict=True))

    def with_totals_of(self, earlier: Release) -> PreparedHierarchy:
        """Return the query with the totals that an earlier release published, whatever became of the rows."""
        assert self.kept is not None
        name = self.shape.tree.names[self.kept[0]]
        level = earlier.value.level(name)
        totals = dict(zip(level[self.shape.id_column], (int(each) for each in level["count"]), strict=True))
        return replace(self, published=public_levels({name: totals}, self.shape.tree))

    @property
    def advice(self) -> tuple[str, ...]:
        """What a pure price buys, and how many exact totals are small."""
        found = pure_advice(self.measure, self.measurement, self.price, of=f"counts of {self.counted}")
        if self.kept is None:
            return found
        table, keys = self.reading.prediction, self.groups.keys
        expected = [] if table is None else predicted_cells(table, keys, self.shape.cells)
        shares = table is not None and table.shares
        return (*found, exact_advice(self.shape.tree, self.kept[0], expected, shares=shares))

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return True

    @property
    def model(self) -> TreeModel:
        """The public numbers of the measurement."""
        return self.measurement.model

    def run(self, table: Table, source: Source) -> Answer:
        """Count the finest cells, measure every level, pool, make whole numbers, and make the table."""
        finest = self.shape.cells(np.asarray(group_counts(table, self.groups).value))
        (pooled,) = self.measurement.pooled([finest], source)
        if self.kept is None:
            return self._answer(self.table_of(pooled, source))
        if self.published is not None:
            return self._answer(self.table_of(pooled, source, totals=self.published))
        # published as they are: the claims are for neighbours with which they stay (Theorem 8)
        totals = [finest.sum(axis=1)]
        for level in range(self.shape.tree.depth, 0, -1):
            totals.insert(0, self.shape.tree.up(totals[0], level))
        return self._answer(self.table_of(pooled, source, totals=tuple(totals[: self.kept[0] + 1])))

    def _answer(self, value: GroupTable) -> Answer:
        """Return the answer; the estimated error was measured without a prediction, which may be wrong."""
        predicted = self.reading.prediction is not None
        return Answer(value=value, error=error_of_shown(self.error, value) if predicted else None)

    def table_of(
        self, pooled: Sequence[Floats | None], source: Source, *, totals: tuple[Whole, ...] | None = None
    ) -> GroupTable:
        """Make the table of the noisy measurements of every level, and of exact totals: post-processing."""
        model, tree, cells = self.model, self.shape.tree, self.model.cells
        totals = self.totals if totals is None else totals
        unbiased = model.estimates(pooled, totals)
        sds = [model.cell_sds(level) for level in range(tree.depth + 1)]
        believed: list[Floats] = unbiased
        used: TreePredictionUse | None = None
        if self.reading.prediction is not None:
            expected = predicted_cells(self.reading.prediction, self.groups.keys, self.shape.cells)
            believed, used = with_prediction(model, pooled, unbiased, sds, expected, source, totals=totals)
        counts = whole_tree(tree, believed, sds, model.possible, source=source, totals=totals)
        columns: dict[str, list[Any]] = {"count": [], "unbiased": [], "noise_sd": [], "low": [], "high": []}
        confidence = self.reading.confidence
        for level in range(tree.depth + 1):
            values = cells.all_margins(unbiased[level])
            sd, reach = model.stated(model.pooled_at(level), confidence)
            values = np.where(sd > 0, values, np.rint(values))  # exact, but for the rounding of floats
            columns["count"].append(cells.all_margins(counts[level]))
            columns["unbiased"].append(values)
            columns["noise_sd"].append(sd)
            columns["low"].append(np.maximum(values - reach, 0.0))
            columns["high"].append(np.maximum(values + reach, 0.0))
            if totals:
                columns.setdefault(EXACT, []).append(model.exact_words(level, "invariant" if self.kept else "public"))
        return long_table(model, self.shape.keys, columns, **self._notes(pooled, used))

    def _notes(self, pooled: Sequence[Floats | None], used: TreePredictionUse | None) -> dict[str, Any]:
        written = written_model(self.model, statistic="count", confidence=self.reading.confidence, unit=1.0, lowest=0.0)
        notes = {
            HIERARCHY: written,
            "of": self.counted,
            "shares": [str(share) for share in self.measurement.shares],
            **({"caps": dict(self.caps)} if self.caps else {}),
            **({} if used is None else used.notes()),
            **self.groups.notes,
        }
        if self.totals:
            notes["public_totals_far_off"] = self.model.far_off(pooled, self.totals)
        if not self.model.possible[-1].all():
            notes["impossible"] = "rows in cells that are ruled out are left out before counting"
        if self.kept is not None:
            notes["published_exactly"] = f"{self.kept[1]}. {NOT_PROTECTED}"
        return notes


def prepare_hierarchy(
    query: Any, groups: Groups, reading: CountReading, *, kind: str, counted: str, schema: Schema
) -> PreparedHierarchy:
    """Fix tree, shares, noise and claims of counts of a hierarchy; public numbers only."""
    if counted == "persons" and groups.norms.l0 > 1:
        raise SchemaError(
            "a person who counts once in each of several leaves counts several times above them, so counts of persons "
            "do not add up; use max_groups=1, or of='rows'"
        )
    shape, known = tree_shape(query, groups, kind), query.hierarchy
    possible = None
    if known.impossible is not None:
        possible, groups = without_impossible(query, schema, groups, shape, counted=counted)
    invariants = read_invariants(known.invariants)
    kept = kept_level(invariants, shape.tree) if invariants else None
    if kept is not None:
        groups = kept_groups(query, schema, groups, shape.tree, kept[0])
    totals = public_levels(known.public_totals, shape.tree)
    something_to_measure(totals, shape)
    if totals and possible is not None and possible.ndim == 2:
        raise SchemaError(
            "public_totals with cells that are impossible in some leaves only may have no solution in whole numbers; "
            "leave one of them out"
        )
    wishes = TreeWishes(
        caps=read_caps(known.caps, shape.tree),
        confidence=query.confidence,
        exact_level=kept[0] if kept is not None else len(totals) - 1 if totals else None,
        possible=possible,
    )
    measure = partial(measure_tree, shape.tree, shape.labels, groups, wishes, law=query.law)
    measurement = measure(query.price)
    if reading.prediction is not None:
        reading.prediction.check(tuple(product(*groups.keys)))
    digest = f"{' > '.join(shape.tree.names)} {shape.tree.digest}"
    return PreparedHierarchy(
        claims=measurement.claims if kept is None else measurement.claims.under(kept=kept[1]),
        request=query.request(
            kind,
            of=counted,
            hierarchy=digest,
            **shape.request,
            caps=None if not known.caps else [f"{name}={cap}" for name, cap in known.caps.items()],
            impossible=known.impossible,
            public_totals=None if not totals else [str(each) for each in totals[-1].tolist()],
            invariants=None if kept is None else kept[1],
            **reading.request,
        ),
        labels=(),
        prediction=reading.described,
        error=level_error(measurement.model, unit=counted, assumption=bounded_words(groups)),
        groups=groups,
        shape=shape,
        measurement=measurement,
        measure=measure,
        price=query.price,
        reading=reading,
        totals=totals,
        caps=dict(known.caps or {}),
        counted=counted,
        kept=kept,
    )


def something_to_measure(totals: Sequence[NDArray[Any]], shape: TreeShape) -> None:
    """Refuse public totals of everything: the price would buy nothing."""
    if len(totals) > shape.tree.depth and not shape.others:
        raise RangeError("public_totals of the leaves leave nothing to measure; name a level above them")


def read_caps(caps: Mapping[str, float] | None, tree: LabelTree) -> dict[int, float]:
    """Return caps by the number of their level."""
    found = {}
    if caps is not None and not isinstance(caps, Mapping):
        raise RangeError(f"caps are half-widths by level, {{'county': 25}}, got {type(caps).__name__}")
    for name, cap in (caps or {}).items():
        if isinstance(cap, bool) or not isinstance(cap, (int, float)) or not 0 < cap < math.inf:
            raise RangeError(f"a cap is a half-width above 0, got {cap!r} for {name!r}")
        found[tree.level(name)] = float(cap)
    return found


def without_impossible(
    query: Any, schema: Schema, groups: Groups, shape: TreeShape, *, counted: str
) -> tuple[NDArray[np.bool_], Groups]:
    """Return which cells can hold rows, and groups from which rows in the others are left out before they are counted.

    The condition is asked of a table of all combinations of the labels it names: it means there what it means of rows.
    """
    condition = query.hierarchy.impossible
    named = [key for key in query.keys if key in condition.columns]
    further = sorted(set(condition.columns) - set(named))
    if further:
        raise SchemaError(f"impossible is a condition on columns of by, and {further[0]!r} is none of them")
    axes = [query.keys.index(key) for key in named]
    categories = [next(each for each in schema.columns if each.name == key) for key in named]
    if not all(isinstance(each, Category) for each in categories):
        raise SchemaError("impossible is a condition on declared labels of by")
    labels = [groups.keys[axis] for axis in axes]
    grid = np.indices(tuple(len(each) for each in labels)).reshape(len(labels), -1)
    declared = [Category(key, each, other=None) for key, each in zip(named, labels, strict=True)]
    every = Table(
        {key: [each[code] for code in codes.tolist()] for key, each, codes in zip(named, labels, grid, strict=True)},
        schema=declared,
    )
    ruled_out = np.asarray(group_counts(every, groups_of(every.schema, by=named, where=condition)).value) > 0
    spread = ruled_out.reshape([len(groups.keys[axis]) if axis in axes else 1 for axis in range(len(groups.keys))])
    if axes != sorted(axes):
        raise SchemaError("impossible names columns in the order of by")
    whole = ~np.broadcast_to(spread, groups.shape)
    possible = shape.cells(whole)
    if not possible.any():
        raise RangeError("impossible rules out every cell; leave it out, or turn the condition round")
    kept = ~condition
    where = kept if query.condition is None else query.condition & kept
    left = groups_of(
        schema,
        by=query.axes,
        where=where,
        max_groups=query.max_groups,
        max_rows_per_group=1 if counted == "persons" else query.max_rows_per_group,
    )
    same = bool((possible == possible[0]).all())
    return (possible[0] if same else possible), left


def level_error(model: TreeModel, *, unit: str, assumption: str, each: float = 1.0) -> TailBound:
    """Return a bound on the error of `unbiased` for every confidence: one entry a level, all cells of it at once."""
    names = ", ".join(model.tree.names)
    fixed, per_log = [], []
    for level in range(model.tree.depth + 1):
        variances = model.node_variances(level)
        sd, cells = math.sqrt(float(variances.max())), variances.size
        if model.law == "laplace":
            per_log.append(each * sd / math.sqrt(2))
            fixed.append(each * (sd / math.sqrt(2) * math.log(cells) + 0.5))
        else:  # √(2x) lies below its tangent at 95 %
            at = math.log(2 * cells) + math.log(20)
            slope = sd / math.sqrt(2 * at)
            per_log.append(each * slope)
            fixed.append(each * (slope * (math.log(2 * cells) + at) + 0.5))
    words = f"entries are the levels {names}, each for all of its cells at once; {assumption}"
    return TailBound(unit=unit, assumption=words, fixed=tuple(fixed), per_log=tuple(per_log), proved=False)
