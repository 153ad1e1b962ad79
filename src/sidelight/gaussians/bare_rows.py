"""What is public about the X of an estimator becomes a table: its columns. No cell is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.records import Number, Table


def bare_rows(rows: Any) -> Table:
    """Declare the columns of an array or a frame as numbers, every row one protected unit; a table stays what it is.

    >>> bare_rows(np.zeros((3, 2)))
    Table('arrays', engine='numpy', columns=['x0', 'x1'])
    """
    if isinstance(rows, Table):
        return rows
    if hasattr(rows, "toarray") or hasattr(rows, "tocsr"):
        raise TypeError("a Gaussian takes no sparse matrix: centring would fill it; pass X.toarray()")
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
    if hasattr(rows, "columns") and all(isinstance(name, str) for name in rows.columns):
        return Table(rows, schema=[Number(name) for name in rows.columns], name="arrays")
    array = np.asanyarray(rows)
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported; give real numbers, for example two columns")
    return Table(array, schema=[Number(f"x{place}") for place in range(shape[1])], name="arrays")
