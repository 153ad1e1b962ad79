"""Counts with all their totals: every margin measured with its share of the price, then pooled by least squares.

Rows of a unit are bounded once, on the finest table; in a coarser one a unit's cells fall together, and its norms are
those of that margin, not of the cells (summaries proof page, section 1). A table over several axes splits into
components, one for each set of axes (for each axis: its mean, or the deviation from it). Every measured margin sees a
component with noise of its own, and the pooled components make margins that agree (section 9, Theorem 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded, ContributionBounds
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups
from sidelight.errors import SchemaError
from sidelight.group_table import ALL
from sidelight.mechanisms.budget import together
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session.query import Answer
from sidelight.summaries.count_tables import CountReading, PreparedGroupCounts, readable_counts
from sidelight.summaries.golden_section import least_part
from sidelight.summaries.grouped import Grouped, group_labels
from sidelight.summaries.intervals import around, pooled_bound
from sidelight.summaries.laplace_sums import LaplaceTerm
from sidelight.summaries.noise_choice import IntegerNoise, check_noise, choose_noise
from sidelight.summaries.predicted import Group

Floats: TypeAlias = NDArray[np.float64]
#: A margin by the places of its axes in `sizes`, in order; () is the total.
Axes: TypeAlias = tuple[int, ...]

_SHARE_UNIT = 1024
#: More columns would make more totals than anybody reads.
_MOST_COLUMNS = 5
#: Noise that practically never moves a count still needs a variance above 0 to be pooled.
_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Margin:
    """One measured margin: its axes, how far one unit moves it, and its noise."""

    axes: Axes
    norms: ContributionBounds
    noise: IntegerNoise

    @property
    def variance(self) -> float:
        """The variance that it is pooled with."""
        return max(self.noise.variance, _LEAST_VARIANCE)

    def bounded(self, cells: NDArray[np.int64], groups: Groups) -> Bounded:
        """Return this margin of the finest counts, with its own sensitivity."""
        outside = tuple(axis for axis in range(len(groups.shape)) if axis not in self.axes)
        return self.norms.bounded(cells.sum(axis=outside), self.noise.norm, groups.unit)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedRollup(PreparedGroupCounts):
    """Counts of declared groups and of all their totals, ready to run."""

    margins: tuple[Margin, ...]
    shown: tuple[Axes, ...]
    bounds: tuple[float, ...]  # the error bound of a cell of each shown margin
    sure_bound: float  # the simultaneous error bound of the finest cells

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
        shrunk = self.reading.shrunk(
            values, self.cells, variance=variance, largest_eigenvalue=pooled.largest_eigenvalue(finest)
        )
        readable = readable_counts(shrunk, values, bound=self.sure_bound, total=float(pooled.table(())), source=source)
        parts: dict[str, list[Any]] = {"count": [], "unbiased": [], "noise_sd": [], "low": [], "high": []}
        for axes, bound in zip(self.shown, self.bounds, strict=True):
            outside = tuple(axis for axis in range(len(sizes)) if axis not in axes)
            unbiased = pooled.table(axes).reshape(-1)
            ends = around(unbiased, bound)
            parts["count"].append(readable.reshape(sizes).sum(axis=outside).reshape(-1))
            parts["unbiased"].append(unbiased)
            parts["noise_sd"].append(np.full(unbiased.size, math.sqrt(pooled.variance(axes))))
            parts["low"].append(ends.low)
            parts["high"].append(ends.high)
        columns = {name: np.concatenate(part) for name, part in parts.items()}
        return self.answer(columns, rolled_up(self.groups, self.shown))


def prepare_rollup(
    query: Grouped,
    groups: Groups,
    reading: CountReading,
    *,
    kind: str,
    counted: str,
) -> PreparedRollup:
    """Share the price over the margins, and fix noise and claims; public numbers only."""
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
    by_margin = {shown[0]: norms}
    for axes in shown[1:]:
        inside = math.prod(sizes[axis] for axis in axes)
        by_margin[axes] = norms.margin(cells=inside, cells_apart=math.prod(sizes) // inside)
    whole = choose_noise(norms, query.law, **query.price)
    laplace = whole.kind == "laplace"
    shares = rollup_shares(
        sizes,
        shown,
        noise=whole.kind,
        sensitivities={axes: float(each.l1 if laplace else each.l2_squared) for axes, each in by_margin.items()},
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
        request=query.request(kind, of=counted, rollup="yes", **reading.request),
        labels=group_labels(rolled_up(groups, shown), "count"),
        prediction=reading.described,
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
    """Return the error bound of a pooled cell of a margin: a function of public numbers."""
    noises = {margin.axes: margin.noise for margin in margins}
    variances = {margin.axes: margin.variance for margin in margins}
    weights = cell_weights(sizes, variances, axes)
    return pooled_bound(
        [LaplaceTerm(weight, float(noises[measured].scale), count) for measured, weight, count in weights],
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
    return tuple(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class Consistent:
    """Every margin of a table after least squares, with its cell variance and largest eigenvalue."""

    sizes: tuple[int, ...]
    _components: dict[Axes, Floats]
    _variances: dict[Axes, float]

    def table(self, axes: Axes) -> Floats:
        """Return the margin over these axes; all margins agree."""
        out = np.zeros(tuple(self.sizes[i] for i in axes))
        for part in _subsets(axes):
            shape = tuple(self.sizes[i] if i in part else 1 for i in axes)
            out = out + self._components[part].reshape(shape) / self._outside(axes, part)
        return np.asarray(out)

    def variance(self, axes: Axes) -> float:
        """Return the variance of each cell of a margin."""
        return cell_variance(self.sizes, self._variances, axes)

    def largest_eigenvalue(self, axes: Axes) -> float:
        """Return the largest eigenvalue of the covariance of a margin's cells, for `shrink(largest_eigenvalue=)`."""
        return max(self._variances[part] / self._outside(axes, part) for part in _subsets(axes))

    def _outside(self, axes: Axes, part: Axes) -> int:
        return _cells(self.sizes, (i for i in axes if i not in part))


def pool_margins(sizes: Sequence[int], margins: Mapping[Axes, tuple[Floats, float]]) -> Consistent:
    """Pool measured margins by generalised least squares.

    Args:
        sizes: The number of cells of each axis.
        margins: For each measured set of axes, the finest among them, the noisy table and the positive noise variance
            of a cell; () is the total.

    >>> both = pool_margins([2], {(0,): (np.array([3.0, 5.0]), 1.0), (): (np.array(10.0), 1.0)})
    >>> both.table((0,)).round(3).tolist(), both.table(()).round(3).tolist()
    ([3.667, 5.667], 9.333)
    """
    shape = tuple(sizes)
    variances = component_variances(shape, {axes: variance for axes, (_, variance) in margins.items()})
    components: dict[Axes, Floats] = {}
    for part in _subsets(tuple(range(len(shape)))):
        pooled = np.zeros(tuple(shape[i] for i in part))
        for axes, (values, variance) in margins.items():
            if set(part) <= set(axes):
                outside = tuple(place for place, i in enumerate(axes) if i not in part)
                seen = values.sum(axis=outside)
                for place in range(len(part)):
                    seen = seen - seen.mean(axis=place, keepdims=True)
                apart = _cells(shape, (i for i in axes if i not in part))
                pooled = pooled + seen * (variances[part] / (variance * apart))
        components[part] = pooled
    return Consistent(sizes=shape, _components=components, _variances=variances)


def component_variances(sizes: Sequence[int], variances: Mapping[Axes, float]) -> dict[Axes, float]:
    """Return v_S = 1/Σ over measured T ⊇ S of 1/(σ_T² N_{T∖S}) for every set of axes."""
    finest = tuple(range(len(sizes)))
    return {
        part: 1
        / math.fsum(
            1 / (variance * _cells(sizes, (i for i in axes if i not in part)))
            for axes, variance in variances.items()
            if set(part) <= set(axes)
        )
        for part in _subsets(finest)
    }


def cell_variance(sizes: Sequence[int], components: Mapping[Axes, float], axes: Axes) -> float:
    """Return the variance of a cell of a margin: Σ over S ⊆ T of v_S·Π(1 - 1/n_i)/N²_{T∖S}."""
    return math.fsum(
        components[part]
        * math.prod(1 - 1 / sizes[i] for i in part)
        / _cells(sizes, (i for i in axes if i not in part)) ** 2
        for part in _subsets(axes)
    )


def cell_weights(sizes: Sequence[int], variances: Mapping[Axes, float], axes: Axes) -> list[tuple[Axes, float, int]]:
    """Return how a cell of a margin is made of measured cells: by margin, the weights, and how many have each.

    The weight of a measured cell depends on which coordinates it has in common with the pooled one.

    >>> cell_weights([2], {(0,): 1.0, (): 1.0}, ())
    [((0,), 0.333..., 2), ((), 0.666..., 1)]
    """
    components = component_variances(sizes, variances)
    found = []
    for measured, variance in variances.items():
        shared = tuple(i for i in measured if i in axes)
        apart = _cells(sizes, (i for i in measured if i not in axes))
        for same in _subsets(shared):
            weight = math.fsum(
                components[part]
                / (variance * _cells(sizes, (i for i in measured if i not in part)))
                / _cells(sizes, (i for i in axes if i not in part))
                * math.prod((i in same) - 1 / sizes[i] for i in part)
                for part in _subsets(shared)
            )
            found.append((measured, weight, apart * math.prod(sizes[i] - 1 for i in shared if i not in same)))
    return found


def rollup_shares(
    sizes: Sequence[int],
    wanted: Sequence[Axes],
    *,
    noise: Literal["laplace", "gaussian"],
    sensitivities: Mapping[Axes, float] | None = None,
) -> dict[Axes, Fraction]:
    """Return each margin's share of ε (Laplace) or μ² (Gaussian): least weighted sum of logarithms of cell variances.

    Logarithms make a total and a cell count alike, whatever their size, and a margin of n cells weighs √n: with equal
    weights half of the price went to a few totals with a negligible relative error. A margin whose share is 0 is not
    worth measuring: the sums of finer cells are as good.

    Args:
        sizes: The number of cells of each axis.
        wanted: All margins that are shown; the finest is among them.
        noise: Which noise.
        sensitivities: L1 (Laplace) or L2² (Gaussian) of each margin's counts; 1 for rows.

    >>> shares = rollup_shares([10], [(0,), ()], noise="gaussian")
    >>> round(float(shares[()]), 2)
    0.18
    """
    shape, finest = tuple(sizes), tuple(range(len(sizes)))
    sensitivity = {axes: 1.0 if sensitivities is None else sensitivities[axes] for axes in wanted}
    others = [axes for axes in wanted if axes != finest]
    importance = {axes: math.sqrt(_cells(shape, axes)) for axes in wanted}

    def badness(weights: Mapping[Axes, float]) -> float:
        total = math.fsum(weights.values())
        measured = {}
        for axes, weight in weights.items():
            if weight > 0:
                share = weight / total
                unit = sensitivity[axes] / share
                measured[axes] = unit**2 if noise == "laplace" else unit
        components = component_variances(shape, measured)
        return math.fsum(importance[axes] * math.log(cell_variance(shape, components, axes)) for axes in wanted)

    best = {axes: 1.0 if axes == finest else 0.0 for axes in wanted}
    lowest = badness(best)
    for start in (1.0, 0.0):
        weights = {axes: 1.0 if axes == finest else start for axes in wanted}
        value = badness(weights)
        for _ in range(12):
            before = value
            for axes in others:
                weights, value = _searched(badness, weights, axes, value)
            if before - value < 1e-7:
                break
        if value < lowest - 1e-9:
            best, lowest = weights, value
    # in 1024ths; the finest table takes what is left, so that they add up to 1 exactly
    total = math.fsum(best.values())
    shares = {axes: Fraction(round(_SHARE_UNIT * weight / total), _SHARE_UNIT) for axes, weight in best.items()}
    shares[finest] = 1 - sum((share for axes, share in shares.items() if axes != finest), Fraction(0))
    return shares


def _searched(
    badness: Callable[[Mapping[Axes, float]], float], weights: dict[Axes, float], axes: Axes, value: float
) -> tuple[dict[Axes, float], float]:
    """Look for a better weight of one margin: 0, a coarse scale, then a golden section around the best."""

    def at(weight: float) -> float:
        return badness({**weights, axes: weight})

    chosen, lowest = least_part(at, [0.0, *(2.0 ** (k / 2) for k in range(-12, 13))], rounds=24)
    if lowest < value - 1e-12:
        return {**weights, axes: chosen}, lowest
    return weights, value


def _subsets(axes: Axes) -> list[Axes]:
    return [part for size in range(len(axes) + 1) for part in combinations(axes, size)]


def _cells(sizes: Sequence[int], axes: Iterable[int]) -> int:
    return math.prod(sizes[i] for i in axes)
