"""Rows of a SciPy sparse matrix, each read by itself."""

from __future__ import annotations

from typing import Any

import numpy as np


def csr_rows(rows: Any) -> Any:
    """Return sparse rows as CSR floats in the order of columns, without touching the given ones.

    An entry that is stored in parts is their sum, in stored order. SciPy sorts all rows as soon as one of them is not
    in order, and not stably, so with it one record would change how the parts of others are added.

    >>> from scipy.sparse import coo_array
    >>> csr_rows(coo_array(([1.0, 2.0, 4.0], ([0, 0, 0], [1, 0, 1])), shape=(1, 2))).toarray()
    array([[2., 5.]])
    """
    from scipy.sparse import csr_array

    parts = rows.tocoo()  # as stored: nothing is added, and no row sorted
    row, column, values = parts.row, parts.col, np.asarray(parts.data, np.float64)
    if not ((row[1:] > row[:-1]) | ((row[1:] == row[:-1]) & (column[1:] > column[:-1]))).all():
        order = np.lexsort((column, row))
        row, column, values = row[order], column[order], values[order]
    first = np.ones(len(row), bool)
    first[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    added = values + 0.0 if first.all() else np.bincount(np.cumsum(first) - 1, weights=values)  # one after the other
    starts = np.searchsorted(row[first], np.arange(rows.shape[0] + 1))
    return csr_array((added, column[first], starts), shape=rows.shape)
