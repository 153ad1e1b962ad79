"""Whether two matrices, or two columns, hold the same by content: copies, other types, other orders and parts.

For warnings and refusals to the holder of the rows, before anything is charged; nothing is released or stored outside
of the process. A row becomes a 64-bit number that follows from its cells, rounded to single precision, and its
columns' places.

What two columns of the same kind have in common by chance is estimated from the private one alone (Good and Turing: a
new draw is a value that was seen once with probability 2 N₂/m, and one not seen yet with N₁/m, where N₁ and N₂ values
of m occur once and twice). Only values that occur once in the private column tell anything: what occurs more often
(labels, ages, zeros) is left out, and a column in which little is left is not judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.records.sparse_rows import csr_rows

Prints = NDArray[np.uint64]

_BLOCK_CELLS = 1 << 16
#: The share that must coincide, and the one where chance may explain more than this share of it.
_SHARE, _SHARE_NEAR_CHANCE, _BY_CHANCE = 0.5, 0.9, 0.01
#: Standard deviations above chance.
_DEVIATIONS = 6.0
#: The most probable that all of what coincides may be by chance.
_IMPROBABLE = 1e-3
#: Fewer values than this in a column tell nothing; and fewer kinds of values, if they are compared one by one.
_FEWEST, _KINDS = 20, 8
#: Values of a column that are looked up first, before all are.
_LOOKED_UP = 256


def row_prints(rows: Any) -> Prints | None:
    """Return one number a row of a dense or sparse matrix of numbers, or a column; None for anything else.

    >>> first = row_prints(np.array([[0.1, 2.0], [3.0, 4.0]]))
    >>> again = row_prints(np.array([[3, 4], [0.1, 2]], np.float32))
    >>> bool((first == again[::-1]).all())
    True
    """
    if hasattr(rows, "tocsr"):
        return _sparse(csr_rows(rows))
    if not isinstance(rows, np.ndarray) or rows.ndim not in (1, 2) or rows.dtype.kind not in "fiub":
        return None
    matrix = np.asarray(rows)[:, None] if rows.ndim == 1 else np.asarray(rows)
    found = np.zeros(len(matrix), np.uint64)
    factors = _factors(matrix.shape[1])
    step = max(1, _BLOCK_CELLS // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        found[start : start + step] = _bits(matrix[start : start + step]) @ factors
    return _mixed(found)


def same_rows(part: Prints, whole: Prints) -> bool:
    """Return whether the rows of one matrix are, in the main, rows of another, both of the same several columns."""
    if not len(part) or not len(whole):
        return False
    mine, theirs = _Counted.of(part), _Counted.of(whole)
    if mine.is_among(theirs, chance=theirs.chance, fewest=1):
        return True
    return len(part) == len(whole) and bool((np.sort(part) == np.sort(whole)).all())


@dataclass(frozen=True, eq=False, repr=False)
class _Counted:
    """Distinct values in order, and how often each occurs."""

    distinct: NDArray[Any]
    counts: NDArray[np.intp]

    @staticmethod
    def of(values: NDArray[Any]) -> _Counted:
        ordered = np.sort(values)
        starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1]]))
        return _Counted(ordered[starts], np.diff(np.append(starts, len(ordered))))

    @cached_property
    def times(self) -> NDArray[np.intp]:
        """How often each occurs; half of it where all of many are there in pairs, as in a table written twice."""
        twice = len(self.counts) >= _FEWEST and np.gcd.reduce(self.counts) == 2
        return self.counts // 2 if twice else self.counts

    @cached_property
    def chance(self) -> float:
        """The share of new draws, but those of values that occur more often, that are a value which occurs once."""
        once, twice = int((self.times == 1).sum()), int((self.times == 2).sum())
        return 2 * twice / (once + 2 * twice) if once else 1.0

    def occurring(self, whole: _Counted) -> NDArray[np.intp]:
        """Return how often each of these values occurs in the whole."""
        places = np.minimum(np.searchsorted(whole.distinct, self.distinct), len(whole.distinct) - 1)
        return np.where(whole.distinct[places] == self.distinct, whole.times[places], 0)

    def is_among(self, whole: _Counted, *, chance: float, fewest: int) -> bool:
        """Return whether more of these values occur once in the whole than chance explains, and at least half do."""
        found = self.occurring(whole)
        judged = int((found <= 1).sum())
        if judged < fewest:
            return False
        wanted = _SHARE
        if chance > _BY_CHANCE:
            wanted = max(_SHARE_NEAR_CHANCE, chance + _DEVIATIONS * sqrt(chance * (1 - chance) / judged))
        hits = int((found == 1).sum())
        return hits >= wanted * judged and chance**hits <= _IMPROBABLE


@dataclass(frozen=True, eq=False, repr=False)
class ColumnPrint:
    """One column of numbers by content.

    >>> whole = ColumnPrint(np.random.default_rng(0).normal(size=400))
    >>> ColumnPrint(whole.cells[300:100:-1].astype(np.float32)).is_part_of(whole)
    True
    >>> ColumnPrint(np.random.default_rng(1).normal(size=400)).is_part_of(whole)
    False
    """

    cells: NDArray[Any]

    @cached_property
    def _single(self) -> _Counted:
        return self._counted(np.float32)

    @cached_property
    def _double(self) -> _Counted:
        return self._counted(np.float64)

    def _counted(self, kind: type[np.floating[Any]]) -> _Counted:
        with np.errstate(all="ignore"):
            values = self.cells.astype(kind)
        return _Counted.of(values[np.isfinite(values)])

    def is_part_of(self, whole: ColumnPrint) -> bool:
        """Return whether these numbers are, in the main, numbers of another column, whatever their order."""
        if len(self._single.distinct) < _KINDS or len(whole._single.distinct) < _KINDS:
            return False
        few = self._single.distinct[:: max(1, len(self._single.distinct) // _LOOKED_UP)]
        places = np.minimum(np.searchsorted(whole._single.distinct, few), len(whole._single.distinct) - 1)
        if 4 * (whole._single.distinct[places] == few).sum() < len(few):
            return False
        return self._all_of(whole) or self._is_among(whole)

    @cached_property
    def _chance(self) -> float:
        return max(self._single.chance, _regularity(self._single.distinct))

    @property
    def tells(self) -> bool:
        """Whether hardly anything of another column would be in this one by chance."""
        return self._chance <= _BY_CHANCE

    def _is_among(self, whole: ColumnPrint) -> bool:
        if self._single.is_among(whole._single, chance=whole._chance, fewest=_FEWEST):
            return True
        if whole.tells:
            return False
        # Many numbers close to each other are one number in single precision.
        chance = max(whole._double.chance, _regularity(whole._double.distinct))
        return self._double.is_among(whole._double, chance=chance, fewest=_FEWEST)

    def _all_of(self, whole: ColumnPrint) -> bool:
        """Return whether both hold the same values equally often, and not all equally often, as in a designed table."""
        mine, theirs = self._single, whole._single
        if len(mine.distinct) != len(theirs.distinct) or (mine.distinct != theirs.distinct).any():
            return False
        often = self._double.counts
        return bool((mine.counts == theirs.counts).all() and (often != often[0]).any())


def _regularity(distinct: NDArray[Any]) -> float:
    """Return how much of a grid the middle half of distinct values fills: whole numbers, or equal steps (a counter)."""
    middle = distinct[len(distinct) // 4 : 3 * len(distinct) // 4 + 1].astype(np.float64)
    steps = np.diff(middle)
    if not len(steps) or steps.max() <= 1.5 * steps.min():
        return 1.0
    if (np.floor(middle) == middle).all():
        return float(len(steps) / (middle[-1] - middle[0]))
    return 0.0


def _bits(cells: NDArray[Any]) -> Prints:
    """Return the bits of cells in single precision; a zero has none, and all that is missing has the same."""
    with np.errstate(all="ignore"):
        single = cells.astype(np.float32) + np.float32(0)  # -0 becomes 0
    single[np.isnan(single)] = np.nan
    return single.view(np.uint32).astype(np.uint64)


def _sparse(rows: Any) -> Prints:
    terms = _bits(np.asarray(rows.data)) * _factors(rows.shape[1])[rows.indices]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])  # wraps, and so do differences
    return _mixed(sums[rows.indptr[1:]] - sums[rows.indptr[:-1]])


def _factors(columns: int) -> Prints:
    """Return an odd number for each column."""
    return _mixed(np.arange(1, columns + 1, dtype=np.uint64)) | np.uint64(1)


def _mixed(numbers: Prints) -> Prints:
    """Return numbers scattered over all 64 bits (the last steps of SplitMix64)."""
    with np.errstate(over="ignore"):
        numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(numbers ^ (numbers >> np.uint64(31)))
