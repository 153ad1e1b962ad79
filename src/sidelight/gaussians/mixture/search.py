"""What every method of finding cells is given and what it finds: cells, and noisy counts that certify them.

How many rows each cell holds, how many of them are ambiguous, and how many rows lie in no cell. Counted by hand,
because a row moves two of the counts at once, and that is what they cost together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.coding import CodeArrays, Coding, Keep
from sidelight.aggregates.collect import collect
from sidelight.aggregates.counts import SQRT2
from sidelight.aggregates.mapped_vector import clean
from sidelight.errors import SourceError
from sidelight.gaussians.mixture.partition import Floats, Partition, least_group
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Unit
from sidelight.mechanisms.additive import GaussianNoise
from sidelight.noise import Source
from sidelight.records import Number, Schema, Table
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame


#: Counts below this many standard deviations of noise say nothing.
_NOISE = 4.0


@dataclass(frozen=True, kw_only=True)
class RuleCoding(Coding):
    """What codings by a rule share: a rule is a function of arrays of numbers."""

    columns: tuple[Number, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number columns."""
        return tuple(column.name for column in self.columns)

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Refuse: engines cannot call a rule."""
        raise SourceError("cells by a rule are found in batches of arrays; load the rows of a table with persons first")


@dataclass(frozen=True, kw_only=True)
class RuleCounts:
    """What counts by a rule share: they are made of batches, and add up."""

    rows_per_unit: int
    unit: Unit
    wide: ClassVar[bool] = True

    def merge(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add the counts of two sets of rows."""
        return first + second

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> NDArray[np.int64]:
        """Never called: the coding refuses engines."""
        raise SourceError("cells by a rule are found in batches of arrays")


@dataclass(frozen=True, kw_only=True)
class CheckedRow(RuleCoding):
    """A row as two integers: its cell (-1 for none, also where a number is missing) and whether it is ambiguous."""

    partition: Partition

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The cells, and a flag."""
        return ((-1, self.partition.cells - 1), (0, 1))

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Name the cells of a batch."""
        columns, usable = clean(self.columns, batch)
        with np.errstate(all="ignore"):  # no warning that a value decides
            cells = np.asarray(self.partition.label(columns), np.int64)
            flags = np.asarray(self.partition.ambiguous(columns, cells), np.int64)
        if usable is not None:
            cells = np.where(usable, cells, -1)
        return (cells, flags * (cells >= 0)), None


@dataclass(frozen=True, kw_only=True)
class CheckCounts(RuleCounts):
    """Rows and ambiguous rows of every cell, and rows of none: [n_1, ..., n_c, a_1, ..., a_c, dropped].

    Guarantee: a row adds 1 to the count of its cell and at most 1 to the cell's ambiguous rows, or 1 to the dropped
    ones, so with at most k rows a unit adding or removing one moves the vector by at most k√2 in l2 (Gaussian-mixture
    proof page, Lemma 2).
    """

    coding: CheckedRow

    @property
    def _cells(self) -> int:
        return self.coding.partition.cells

    def empty(self) -> NDArray[np.int64]:
        """Return counts of no rows."""
        return np.zeros(2 * self._cells + 1, np.int64)

    def fold(self, state: NDArray[np.int64], codes: CodeArrays) -> NDArray[np.int64]:
        """Count a batch."""
        cells, flags = codes
        count = self._cells
        state += np.bincount(np.where(cells < 0, 2 * count, cells), minlength=2 * count + 1)
        state += np.bincount(count + cells[flags == 1], minlength=2 * count + 1)
        return state

    def finish(self, state: NDArray[np.int64]) -> Bounded:
        """Return the counts with their sensitivity."""
        return Bounded(state, self.rows_per_unit * SQRT2, "l2", Neighbours.ADD_REMOVE, self.unit)


@dataclass(frozen=True, eq=False)
class NoisyChecks:
    """The released counts and the standard deviation of each one's noise."""

    rows: NDArray[np.float64]
    ambiguous: NDArray[np.float64]
    dropped: float
    deviation: float


def count_checks(
    table: Table, columns: tuple[Number, ...], partition: Partition, *, rho: Fraction, source: Source
) -> NoisyChecks:
    """Release the check counts in one pass.

    Guarantee: zCDP(rho), and GDP(√(2 rho)), for adding or removing a unit; the noise of each count has variance 1/rho
    for units of one row.
    """
    statistics = check_statistics(table.schema, columns, partition)
    noise = GaussianNoise(collect(table, statistics), rho=rho)
    noisy = np.asarray(noise.release(source)).astype(np.float64)
    cells = partition.cells
    return NoisyChecks(noisy[:cells], noisy[cells : 2 * cells], float(noisy[-1]), noise.deviation)


def check_statistics(schema: Schema, columns: tuple[Number, ...], partition: Partition) -> CheckCounts:
    """Return the aggregate; `finish(empty())` tells its sensitivity."""
    coding = CheckedRow(columns=columns, partition=partition)
    return CheckCounts(coding=coding, rows_per_unit=schema.rows_per_unit, unit=schema.unit)


@dataclass(frozen=True)
class Verdict:
    """Which cells pass: computed for all of them from released numbers before anything is decided."""

    too_few: tuple[bool, ...]
    too_mixed: tuple[bool, ...]

    @property
    def certified(self) -> bool:
        """Whether every cell passed both checks."""
        return not any(self.too_few) and not any(self.too_mixed)


def judge(checks: NoisyChecks, *, rows: float, least_weight: float) -> Verdict:
    """Judge noisy counts: a cell needs a quarter of the least weight, and at most a tenth of it ambiguous, in noise.

    It also needs more rows than noise alone would show: else no rows at all could pass for clusters.

    >>> checks = NoisyChecks(np.array([900.0, 100.0]), np.array([20.0, 60.0]), 0.0, 5.0)
    >>> judge(checks, rows=1000.0, least_weight=0.25)
    Verdict(too_few=(False, False), too_mixed=(False, True))
    """
    few = checks.rows < max(least_weight * rows / 4, _NOISE * checks.deviation)
    mixed = checks.ambiguous > 0.10 * checks.rows + _NOISE * checks.deviation
    return Verdict(tuple(few.tolist()), tuple(mixed.tolist()))


def noisy_rows(table: Table, columns: tuple[Number, ...], *, rho: Fraction, source: Source) -> float:
    """Release how many rows there are that miss no number."""
    return float(GaussianNoise(_row_count(table, columns), rho=rho).release(source))


def _row_count(table: Table, columns: tuple[Number, ...]) -> Bounded:
    from sidelight.gaussians.mixture.partition import Everything

    found = collect(table, check_statistics(table.schema, columns, Everything()))
    assert not isinstance(found.value, int)
    # a unit's rows move the one count by at most their number
    unit = table.schema.unit
    return Bounded(int(found.value[0]), Fraction(table.schema.rows_per_unit), "l1", Neighbours.ADD_REMOVE, unit)


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchSetting:
    """The public side of a search: columns, public rows, how many components, the least weight and the budget."""

    columns: tuple[Number, ...]
    public: Floats
    components: int
    least_weight: float
    rho: Fraction

    @property
    def least(self) -> int:
        """How many public rows a component must have: h."""
        return least_group(len(self.public), self.least_weight)

    @property
    def directions(self) -> int:
        """How many principal directions are kept."""
        return min(self.components, len(self.columns))


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchResult:
    """A search's result: released numbers, and functions of them and of public rows.

    `partition` and the public rows of its cells are None where the number of cells is not the one asked for.
    """

    cells: int
    rows: float
    partition: Partition | None
    publics: tuple[Floats, ...]
    checks: NoisyChecks
    verdict: Verdict
    warnings: tuple[str, ...] = ()

    @property
    def certified(self) -> bool:
        """Whether there are as many cells as asked for and every check passed."""
        return self.partition is not None and self.verdict.certified


def public_columns(points: Floats) -> list[Floats]:
    """Return public rows in the form in which rules read rows."""
    return list(np.ascontiguousarray(points.T))
