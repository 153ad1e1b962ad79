"""What is public about the X of an estimator becomes a table: its columns. No cell is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.records.columns import Number
from sidelight.records.engines.frames import names_of
from sidelight.records.table import Table

# What bare data is taken for when a query about numbers is asked of it: columns of numbers, each row a unit.


def bare_number(names: Sequence[str] | None) -> Number:
    """Return the declaration of a bare one-dimensional array; a query of several columns wants a table."""
    if names is not None and len(names) != 1:
        raise SchemaError(f"the query has {len(names)} columns; pass sl.Table(data, schema=[...])")
    return Number("x0" if names is None else names[0])


def bare_numbers(data: Any, names: Sequence[str] | None) -> Table:
    """Declare the columns of an array or a frame: numbers, and every row one protected unit. No cell is read.

    >>> import numpy as np
    >>> bare_numbers(np.zeros((3, 2)), None).schema.names
    ('x0', 'x1')
    """
    if names is None:
        names = names_of(data)
    if names is None:
        if not isinstance(data, np.ndarray) or data.ndim != 2:
            raise SchemaError(
                "which columns? Pass a two-dimensional array, name them, or pass sl.Table(data, schema=[...])"
            )
        names = [f"x{place}" for place in range(data.shape[1])]
    return Table(data, schema=[Number(name) for name in names])


_NO_COLUMNS = "X must have columns: 0 feature(s) (shape=(., 0)) while a minimum of 1 is required"


def bare_rows(rows: Any, *, taker: str) -> Table:
    """Declare the columns of an array or a frame as numbers, every row one protected unit; a table stays what it is.

    `taker` is the name of the estimator, for its messages.

    >>> bare_rows(np.zeros((3, 2)), taker="PCA")
    Table('arrays', engine='numpy', columns=['x0', 'x1'])
    """
    if isinstance(rows, Table):
        return rows
    if hasattr(rows, "toarray") or hasattr(rows, "tocsr"):
        raise TypeError(f"{taker} takes no sparse matrix: centring would fill it; pass X.toarray()")
    names = names_of(rows)
    if names is not None:
        if not names:
            raise SchemaError(_NO_COLUMNS)
        return Table(rows, schema=[Number(name) for name in names], name="arrays")
    if not isinstance(rows, np.ndarray):
        raise SchemaError(
            f"X must be a two-dimensional array or a frame, got {type(rows).__name__}: its shape must be known before "
            "the data is opened; write np.asarray(X, dtype=float)"
        )
    if rows.ndim != 2:
        raise SchemaError(
            f"Expected 2D array, rows and columns, got {rows.ndim} dimension(s). Reshape your data either using "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it contains a single sample"
        )
    if rows.shape[1] == 0:
        raise SchemaError(_NO_COLUMNS)
    if rows.dtype.kind == "c":
        raise SchemaError("Complex data not supported; give real numbers, for example two columns")
    return Table(rows, schema=[Number(f"x{place}") for place in range(rows.shape[1])], name="arrays")
