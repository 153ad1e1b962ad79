"""Vote counts of teachers as integers: public ones are checked, private ones read so that no entry raises."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.records.engines.arrays import as_numbers
from sidelight.regression.estimators.examples import listed_cells, width_of_row

#: Larger counts are read as this: the smaller of two moves no two counts apart, and noisy ones fit into 64 bits.
MOST_VOTES = 2.0**40


def checked_votes(votes: ArrayLike) -> NDArray[np.int64]:
    """Return public vote counts as integers, one row per query, one column per class; beyond 2**40 as that many.

    What it raises depends on every entry: never for votes of private teachers (`read_votes`).
    """
    try:
        array = np.asarray(votes)
    except ValueError:  # rows of several lengths
        raise RangeError("votes want one column per class in every row; the rows have different lengths") from None
    if array.ndim != 2 or array.shape[1] < 2:
        raise RangeError(f"votes want one row per query, one column per class, two classes or more; got {array.shape}")
    if array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)) or np.any(array != np.floor(array)):
        raise RangeError("votes are counts of teachers: whole numbers, and some are not")
    if np.any(array < 0):
        raise RangeError("votes are counts of teachers: none may be negative")
    return np.asarray(np.minimum(array, MOST_VOTES), np.int64)


def read_votes(votes: Any) -> NDArray[np.int64]:
    """Return private vote counts as integers, each by itself. Raises for shape and type alone, never for an entry.

    An entry n counts as min(max(⌊n⌋, 0), 2⁴⁰), and one that is no number as 0: counts of neighbours that differ by at
    most 1 are read as integers that do (stability proof page, section 4).

    Raises:
        RangeError: It is no matrix of numbers with two columns or more, by its type and shape.
    """
    if isinstance(votes, list | tuple):
        widths = {width_of_row(row) for row in votes}
        if len(widths) > 1:
            raise RangeError("votes want one column per class in every row; the rows have different lengths")
        classes = widths.pop() if widths else -1
        if classes < 0:
            raise RangeError("votes want one row per query, and came as a list that is empty or not of rows")
        array = as_numbers(listed_cells(votes, classes).reshape(-1)).reshape(len(votes), classes)
    elif isinstance(votes, np.ndarray):
        array = np.asarray(np.ma.filled(votes, 0) if votes.dtype.kind in "iuf" else votes)
    else:
        raise RangeError(
            f"votes must be a NumPy array of numbers or a list of rows, got {type(votes).__name__}; write "
            "votes.to_numpy(dtype=float), or np.asarray(votes, dtype=float)"
        )
    if array.ndim != 2 or array.shape[1] < 2:
        raise RangeError(f"votes want one row per query, one column per class, two classes or more; got {array.shape}")
    if array.dtype.kind not in "iuf":
        raise RangeError(
            f"votes are counts of teachers, and came as an array of type {array.dtype}; give whole numbers"
        )
    with np.errstate(all="ignore"):  # a warning about an entry would be one that votes decide
        whole = np.floor(array).astype(np.float64)  # floored in its own type: rounding could move it by one more
        return np.asarray(np.clip(np.where(np.isnan(whole), 0.0, whole), 0.0, MOST_VOTES), np.int64)
