"""Counts with all their totals: every margin measured with its share of the price, then made to agree.

Rows of a unit are bounded once, on the finest table; in a coarser one a unit's cells fall together, and its norms are
those of that margin, not of the cells (summaries proof page, section 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded, ContributionBounds
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import ALL
from sidelight.mechanisms.budget import together
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count_tables import Reading, check_noise, group_labels, table_of
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.intervals import pooled_bound, pooled_ends
from sidelight.summaries.laplace_sums import Part
from sidelight.summaries.noise_choice import Noise, choose_noise
from sidelight.summaries.nonnegative import readable_counts
from sidelight.summaries.predicted import Group
from sidelight.summaries.rollup import (
    Axes,
    cell_variance,
    cell_weights,
    component_variances,
    pool_margins,
    rollup_shares,
)

#: More columns would make more totals than cells anybody reads.
_MOST_COLUMNS = 5
#: Noise that practically never moves a count still needs a variance above 0 to be pooled.
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Margin:
    """One measured margin: its axes, how far one unit moves it, and its noise."""

    axes: Axes
    norms: ContributionBounds
    noise: Noise

    @property
    def variance(self) -> float:
        """The variance that it is pooled with."""
        return max(self.noise.variance, _LEAST_VARIANCE)

    def bounded(self, cells: NDArray[np.int64], groups: Groups) -> Bounded:
        """Return this margin of the finest counts, with its own sensitivity."""
        outside = tuple(axis for axis in range(len(groups.shape)) if axis not in self.axes)
        reach = self.norms.sensitivity(self.noise.norm)
        return Bounded(cells.sum(axis=outside), reach, self.noise.norm, self.norms.neighbours, groups.unit)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedRollup(SurePrepared):
    """Counts of declared groups and of all their totals, ready to run."""

    groups: Groups
    margins: tuple[Margin, ...]
    cells: tuple[Group, ...]
    shown: tuple[Axes, ...]
    bounds: tuple[float, ...]  # how far a cell of each shown margin is off at most
    sure_bound: float  # how far all of the finest cells are
    keys: tuple[str, ...]
    reading: Reading
    counted: str

    @property
    def adds_up(self) -> bool:
        """Whether rows are only added up."""
        return self.groups.label is None

    def run(self, table: Table, source: Source) -> Answer:
        """Measure every margin, pool them by least squares, make the finest cells readable and add upwards."""
        exact = np.asarray(group_counts(table, self.groups).value)
        sizes = self.groups.shape
        measured = {}
        for margin in self.margins:
            noisy = np.asarray(margin.noise.on(margin.bounded(exact, self.groups)).release(source), np.float64)
            measured[margin.axes] = (noisy, margin.variance)
        pooled = pool_margins(sizes, measured)
        finest = self.shown[0]
        values, variance = pooled.table(finest).reshape(-1), pooled.variance(finest)
        drawn = self.reading.drawn(
            values, self.cells, variance=variance, largest_eigenvalue=pooled.largest_eigenvalue(finest)
        )
        readable = readable_counts(drawn, values, bound=self.sure_bound, total=float(pooled.table(())), source=source)
        parts: dict[str, list[Any]] = {"count": [], "unbiased": [], "noise_sd": [], "low": [], "high": []}
        for axes, bound in zip(self.shown, self.bounds, strict=True):
            outside = tuple(axis for axis in range(len(sizes)) if axis not in axes)
            unbiased = pooled.table(axes).reshape(-1)
            sampling = np.maximum(unbiased, 0.0) if self.reading.population else 0.0
            ends = pooled_ends(unbiased, bound, sampling=sampling, confidence=self.reading.confidence)
            parts["count"].append(readable.reshape(sizes).sum(axis=outside).reshape(-1))
            parts["unbiased"].append(unbiased)
            parts["noise_sd"].append(np.full(unbiased.size, sqrt(pooled.variance(axes))))
            parts["low"].append(ends.low)
            parts["high"].append(ends.high)
        columns = {name: np.concatenate(part) for name, part in parts.items()}
        groups = rolled_up(self.groups, self.shown)
        return Answer(value=table_of(self.keys, groups, columns, of=self.counted, **self.groups.notes))


def prepare_rollup(
    query: Grouped,
    groups: Groups,
    reading: Reading,
    *,
    kind: str,
    counted: str,
    leaf_weight: float | None = None,
    **more: Any,
) -> PreparedRollup:
    """Share the price over the margins, and fix noise and claims; public numbers only.

    Args:
        query: The price, and what the ledger says.
        groups: The checked groups, all declared.
        reading: How the noisy counts are read.
        kind: The kind of the query.
        counted: "persons" or "rows".
        leaf_weight: How much more the cells count than each total; as much if left out.
        more: What the query's request adds.
    """
    sizes, norms = groups.shape, groups.norms
    if groups.label is not None or not 1 <= len(sizes) <= _MOST_COLUMNS:
        raise SchemaError(f"rollup adds totals over 1 to {_MOST_COLUMNS} columns of declared labels in by")
    if counted == "persons" and norms.l0 > 1:
        raise SchemaError(
            "a person who counts once in each of several groups counts several times in their total, so totals of "
            "persons do not add up; use max_groups=1, or of='rows'"
        )
    if any(ALL in labels for labels in groups.keys):
        raise SchemaError(f"rollup calls its totals {ALL!r}, which is a declared label here; rename that label")
    axes_of = range(len(sizes))
    shown = tuple(axes for size in range(len(sizes), -1, -1) for axes in combinations(axes_of, size))
    by_margin = {axes: _margin_norms(norms, sizes, axes) for axes in shown}
    whole = choose_noise(norms, **query.price, noise=query.noise)
    laplace = whole.kind == "laplace"
    shares = rollup_shares(
        sizes,
        shown,
        noise=whole.kind,
        sensitivities={axes: float(each.l1 if laplace else each.l2_squared) for axes, each in by_margin.items()},
        leaf_weight=1.0 if leaf_weight is None else leaf_weight,
    )
    margins = tuple(
        Margin(axes=axes, norms=by_margin[axes], noise=check_noise(whole.part(share, by_margin[axes])))
        for axes, share in shares.items()
        if share > 0
    )
    cells = tuple(product(*groups.keys))
    if reading.prediction is not None:
        reading.prediction.check(cells)
    none = np.zeros(sizes, np.int64)
    return PreparedRollup(
        claims=together([(1, margin.noise.on(margin.bounded(none, groups)).claims) for margin in margins]),
        request=query.request(kind, of=counted, rollup="yes", leaf_weight=leaf_weight, **more),
        labels=group_labels(rolled_up(groups, shown), "count"),
        prediction=None if reading.prediction is None else reading.prediction.description,
        groups=groups,
        margins=margins,
        cells=cells,
        shown=shown,
        bounds=tuple(_bound(sizes, margins, axes, confidence=reading.confidence) for axes in shown),
        sure_bound=_bound(sizes, margins, shown[0], confidence=reading.confidence, cells=len(cells)),
        keys=query.keys,
        reading=reading,
        counted=counted,
    )


def _bound(
    sizes: tuple[int, ...], margins: tuple[Margin, ...], axes: Axes, *, confidence: float, cells: int = 1
) -> float:
    """Return how far a pooled cell of a margin is off at most: a function of public numbers."""
    noises = {margin.axes: margin.noise for margin in margins}
    variances = {margin.axes: margin.variance for margin in margins}
    weights = cell_weights(sizes, variances, axes)
    return pooled_bound(
        [Part(weight, float(noises[measured].scale), count) for measured, weight, count in weights],
        cell_variance(sizes, component_variances(sizes, variances), axes),
        laplace=margins[0].noise.kind == "laplace",
        confidence=confidence,
        cells=cells,
    )


def rolled_up(groups: Groups, shown: tuple[Axes, ...]) -> tuple[Group, ...]:
    """Return the labels of all rows: the cells, then the margins, "all" standing for what was added up."""
    found: list[Group] = []
    for axes in shown:
        found += product(*(labels if axis in axes else (ALL,) for axis, labels in enumerate(groups.keys)))
    if len(set(found)) != len(found):
        raise RangeError("the groups of a rolled-up table have one name each")
    return tuple(found)


def _margin_norms(norms: ContributionBounds, sizes: tuple[int, ...], axes: Axes) -> ContributionBounds:
    if len(axes) == len(sizes):
        return norms
    inside = prod(sizes[axis] for axis in axes)
    return norms.margin(cells=inside, cells_apart=prod(sizes) // inside)
