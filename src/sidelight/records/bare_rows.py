"""What is public about the X of an estimator becomes a table: its columns. No cell is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.records.columns import Number
from sidelight.records.table import Table


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
    shape = getattr(rows, "shape", None)
    if shape is None:
        raise SchemaError(
            f"X must be a two-dimensional array or a frame, got {type(rows).__name__}: its shape must be known before "
            "the data is opened; write np.asarray(X, dtype=float)"
        )
    if len(shape) != 2:
        raise SchemaError(
            f"Expected 2D array, rows and columns, got {len(shape)} dimension(s). Reshape your data either using "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it contains a single sample"
        )
    if shape[1] == 0:
        raise SchemaError("X must have columns: 0 feature(s) (shape=(., 0)) while a minimum of 1 is required")
    named = hasattr(rows, "columns")  # pandas and Polars
    names = [str(name) for name in rows.columns] if named else [f"x{place}" for place in range(shape[1])]
    if named and all(isinstance(name, str) for name in rows.columns):  # the table reads columns of frames by name
        return Table(rows, schema=[Number(name) for name in names], name="arrays")
    array = np.asanyarray(rows)
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported; give real numbers, for example two columns")
    return Table(array, schema=[Number(name) for name in names], name="arrays")
