"""Whether two matrices hold the same rows, by content: copies, other types, other orders and parts are found.

For warnings and refusals to whoever holds the rows, before anything is charged; nothing of it is released or stored
outside of the process. A row becomes a 64-bit number that follows from its cells, rounded to single precision, and its
columns' places. Rows with few distinct contents (two columns of small whole numbers) coincide by chance, and are taken
for the same only if all of them are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Prints = NDArray[np.uint64]

_BLOCK_CELLS = 1 << 20
#: Shares of rows that must coincide, for rows of several columns and for single ones, which coincide more easily.
_SHARE, _SHARE_OF_ONE_COLUMN = 0.5, 0.9
_FEWEST_OF_ONE_COLUMN = 20
#: Below this share of distinct rows chance explains what coincides.
_DISTINCT = 0.5


def row_prints(rows: Any) -> Prints | None:
    """Return one number a row of a dense or sparse matrix of numbers, or a column; None for anything else.

    >>> first = row_prints(np.array([[0.1, 2.0], [3.0, 4.0]]))
    >>> again = row_prints(np.array([[3, 4], [0.1, 2]], np.float32))
    >>> bool((first == again[::-1]).all())
    True
    """
    if hasattr(rows, "tocsr"):
        return _sparse(rows.tocsr())
    if not isinstance(rows, np.ndarray) or rows.ndim not in (1, 2) or rows.dtype.kind not in "fiub":
        return None
    matrix = np.asarray(rows)[:, None] if rows.ndim == 1 else np.asarray(rows)
    found = np.zeros(len(matrix), np.uint64)
    factors = _factors(matrix.shape[1])
    step = max(1, _BLOCK_CELLS // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        found[start : start + step] = _bits(matrix[start : start + step]) @ factors
    return _mixed(found)


def same_rows(part: Prints, whole: Prints, *, columns: int) -> bool:
    """Return whether the rows of one matrix are, in the main, rows of another; both have so many columns."""
    if not len(part) or not len(whole):
        return False
    if columns == 1 and len(part) < _FEWEST_OF_ONE_COLUMN:
        return False
    distinct = np.unique(whole)
    if len(distinct) < _DISTINCT * len(whole) or len(np.unique(part)) < _DISTINCT * len(part):
        return len(part) == len(whole) and bool((np.sort(part) == np.sort(whole)).all())
    share = float(np.isin(part, distinct).mean())
    return share >= (_SHARE_OF_ONE_COLUMN if columns == 1 else _SHARE)


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
    """Return an odd number for each place."""
    return _mixed(np.arange(1, columns + 1, dtype=np.uint64)) | np.uint64(1)


def _mixed(numbers: Prints) -> Prints:
    """Return numbers scattered over all 64 bits (the last steps of SplitMix64)."""
    with np.errstate(over="ignore"):
        numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(numbers ^ (numbers >> np.uint64(31)))
