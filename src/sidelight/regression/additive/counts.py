"""One-way counts: what is released of each column by itself, and the cells that follow from it.

`scaled_counts` makes the integer vector that meets noise; everything after it is post-processing of released numbers:
levels are made consistent, cells are merged until they hold enough rows, masses are floored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sidelight.records import Category, Number
from sidelight.regression.additive.fine_codes import FINE_CELLS
from sidelight.regression.additive.plan import COLUMN_WEIGHT, TARGET_WEIGHT
from sidelight.regression.additive.row_sums import TARGET_CELLS
from sidelight.regression.descent.integer_rows import Integers
from sidelight.regression.descent.rules import Kind
from sidelight.regression.losses import Floats

#: No fewer rows than this are reckoned with.
FEWEST_ROWS = 20.0
#: Cells of a number at most, and of one whose counts say little.
_MOST_CELLS, _FEW_CELLS = 32, 6
#: Of a numeric target of which little is seen.
_USUAL_VARIANCE, _LEAST_VARIANCE = 0.08, 0.001


def scaled_counts(
    columns: Sequence[Number | Category], fine: Sequence[Integers], target: Integers, levels: tuple[int, ...]
) -> Integers:
    """Return the vector that is released: of a number the counts of all levels, each with its missing cell.

    Guarantee: a row lies in exactly one entry of every level of every column and of the target.
    """
    parts = []
    for column, counts in zip(columns, fine, strict=True):
        if isinstance(column, Category):
            parts.append(COLUMN_WEIGHT * counts)
            continue
        for level in levels:
            inside = counts[:FINE_CELLS].reshape(level, -1).sum(axis=1)
            parts.append(COLUMN_WEIGHT * np.append(inside, counts[FINE_CELLS]))
    return np.concatenate([*parts, TARGET_WEIGHT * target])


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnCounts:
    """Released counts of one column: the finest level (of a category its labels), the missing cell, and their noise.

    Args:
        levels: The consistent counts of each level, coarsest first; of a category one.
        missing: The number of missing values; 0 for a category.
        variances: Of a count of the coarsest level after the way up, and of the missing count.
    """

    levels: tuple[Floats, ...]
    missing: float
    variances: tuple[float, float]

    @property
    def total(self) -> float:
        """The number of rows, as this column says it."""
        return float(self.levels[0].sum()) + self.missing

    @property
    def variance(self) -> float:
        """Of `total`."""
        return len(self.levels[0]) * self.variances[0] + self.variances[1]

    def tied(self, rows: float) -> tuple[Floats, float]:
        """Return the finest counts and the missing one, tied to a number of rows, and each level to the one above."""
        lacking = (rows - self.total) / self.variance
        above = self.levels[0] + lacking * self.variances[0]
        for level in self.levels[1:]:
            children = level.reshape(len(above), -1)
            above = (children + ((above - children.sum(axis=1)) / children.shape[1])[:, None]).ravel()
        return above, self.missing + lacking * self.variances[1]


def _upwards(noisy: Sequence[Floats], variance: float) -> tuple[tuple[Floats, ...], float]:
    """Return each level as the best weighted mean of its own counts and those below, and the top's variance."""
    found, below = [noisy[-1]], variance
    for own in reversed(noisy[:-1]):
        children = found[0].reshape(len(own), -1)
        summed = children.shape[1] * below
        weight = summed / (summed + variance)  # of the own counts
        found.insert(0, weight * own + (1 - weight) * children.sum(axis=1))
        below = variance * summed / (variance + summed)
    return tuple(found), below


def column_counts(
    columns: Sequence[Number | Category], released: Floats, *, levels: tuple[int, ...], deviation: float
) -> tuple[list[ColumnCounts], Floats]:
    """Split the released vector into columns and the target's counts, in rows."""
    found, start, variance = [], 0, deviation**2
    for column in columns:
        if isinstance(column, Category):
            counts = released[start : start + len(column.labels)] / COLUMN_WEIGHT
            start += len(column.labels)
            found.append(ColumnCounts(levels=(counts,), missing=0.0, variances=(variance, 0.0)))
            continue
        noisy, missing = [], []
        for level in levels:
            part = released[start : start + level + 1] / COLUMN_WEIGHT
            start += level + 1
            noisy.append(part[:-1])
            missing.append(part[-1])
        consistent, top = _upwards(noisy, variance)
        variances = (top, variance / len(levels))
        found.append(ColumnCounts(levels=consistent, missing=float(np.mean(missing)), variances=variances))
    return found, released[start:] / TARGET_WEIGHT


def together(estimates: Sequence[tuple[float, float]]) -> float:
    """Return the number of rows that (estimate, variance) pairs say together, and one deviation on top."""
    weights = np.array([1 / max(variance, 1e-12) for _, variance in estimates])
    mean = float(weights @ [estimate for estimate, _ in estimates] / weights.sum())
    return max(mean, FEWEST_ROWS) + float(weights.sum() ** -0.5)


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnCells:
    """The cells of one column: which cell a fine code lies in, and how many rows are thought to be in each.

    Args:
        cell_of: The cell of every fine code; -1 for a missing value that has none.
        counts: The rows of each cell, floored.
        centres: Where the cells of a number lie, 0 to 1; empty for a category.
        missing: Whether the last cell is that of missing values.
        fine: The rows of every fine code.
        coarse: Whether the counts said too little for cells of their own.
    """

    cell_of: NDArray[np.int64]
    counts: Floats
    centres: Floats
    missing: bool
    fine: Floats
    coarse: bool = False

    @property
    def masses(self) -> Floats:
        """The share of each cell."""
        return np.asarray(self.counts / self.counts.sum())


def floored(counts: Floats, *, rows: float, deviation: float) -> Floats:
    """Return counts that are no smaller than what they might be."""
    return np.maximum(counts, max(min(deviation, rows / 50), rows / 1000))


def cells_of_number(found: ColumnCounts, *, rows: float, deviation: float) -> ColumnCells:
    """Return the cells of a number."""
    finest, missing = found.tied(rows)
    width = FINE_CELLS // len(finest)
    running = np.maximum.accumulate(np.clip(np.cumsum(finest), 0.0, rows))
    least = max(rows / _MOST_CELLS, 3 * deviation)
    coarse = 3 * deviation > rows / 4
    if coarse:
        starts = [round(place * len(finest) / _FEW_CELLS) for place in range(_FEW_CELLS)]
    else:
        starts, held = [0], 0.0
        for place, reached in enumerate(running[:-1]):
            if reached - held >= least and running[-1] - reached >= least / 2:
                starts.append(place + 1)
                held = reached
    ends = np.array([*starts[1:], len(finest)])
    reached = running[ends - 1]
    counts = np.diff(reached, prepend=0.0)
    if coarse:
        weight = min(1.0, rows / (6 * deviation))
        counts = np.maximum(weight * counts + (1 - weight) * rows / _FEW_CELLS, rows / 24)
    cell_of = np.repeat(np.arange(len(starts)), width * np.diff(np.array([*starts, len(finest)])))
    centres = (np.array(starts) + ends) / 2 / len(finest)
    seen = missing >= max(2 * deviation, rows / 1000)
    fine = np.repeat(np.diff(running, prepend=0.0) / width, width)
    if seen:
        counts = np.append(counts, missing)
    return ColumnCells(
        cell_of=np.append(cell_of, len(starts) if seen else -1),
        counts=floored(counts, rows=rows, deviation=deviation),
        centres=centres,
        missing=bool(seen),
        fine=np.append(fine, max(missing, 0.0) if seen else 0.0),
        coarse=coarse,
    )


def cells_of_category(found: ColumnCounts, *, rows: float, deviation: float) -> ColumnCells:
    """Return the cells of a category: one per label, and one for all rare labels together."""
    counts, _ = found.tied(rows)
    rare = counts < max(2 * deviation, rows / 1000)
    if rare.sum() < 2:
        rare[:] = False
    order = np.cumsum(~rare) - 1
    common = int((~rare).sum())
    cell_of = np.where(rare, common, order)
    summed = np.bincount(cell_of, weights=np.maximum(counts, 0.0), minlength=common + bool(rare.any()))
    return ColumnCells(
        cell_of=cell_of.astype(np.int64),
        counts=floored(np.asarray(summed, np.float64), rows=rows, deviation=deviation),
        centres=np.empty(0),
        missing=False,
        fine=np.maximum(counts, 0.0),
    )


@dataclass(frozen=True, kw_only=True)
class TargetLevel:
    """The released level of the target: its base (a mean in half ranges, or log odds) and its variance.

    Of several classes the base is the logarithm of each share less their mean, and `shares` are the shares.
    """

    base: float | Floats
    variance: float
    shares: tuple[float, ...] = ()


def target_level(kind: Kind, counts: Floats, *, rows: float, deviation: float) -> TargetLevel:
    """Return the level of the target from its released counts."""
    if kind == "softmax":
        found = np.maximum(np.maximum(counts, 0.0) + 1, 0.01 * (np.maximum(counts, 0.0) + 1).sum())
        found /= found.sum()
        base = np.log(found) - np.log(found).mean()
        return TargetLevel(base=base, variance=1 / len(counts), shares=tuple(found.tolist()))
    if kind == "logistic":
        few, many = np.maximum(counts, 0.0)
        share = float(np.clip((many + 1) / (few + many + 2), 0.01, 0.99))
        return TargetLevel(base=float(np.log(share / (1 - share))), variance=share * (1 - share))
    seen = np.where(counts > 2 * deviation, counts, 0.0)
    held = float(seen.sum())
    if held <= 0:
        return TargetLevel(base=0.0, variance=_USUAL_VARIANCE)
    middles = (np.arange(TARGET_CELLS) + 0.5) / (TARGET_CELLS / 2) - 1
    mean = float(seen @ middles / held)
    variance = float(seen @ (middles - mean) ** 2 / held) + 1 / 768
    trust = float(np.clip((held / rows - 0.3) / 0.4, 0.0, 1.0))
    return TargetLevel(
        base=trust * mean, variance=max(trust * variance + (1 - trust) * _USUAL_VARIANCE, _LEAST_VARIANCE)
    )
