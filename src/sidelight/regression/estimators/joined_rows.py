"""Rows and targets of arrays as one table, for models that read tables: no cell is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sidelight.errors import SchemaError, nearest
from sidelight.records import Category, Number, Table
from sidelight.regression.estimators.table_encoding import TableEncoding, has_names, width_of


def joined_table(encoding: TableEncoding, rows: Any, y: Any, target: Number | Category) -> Table:
    """Return rows and targets of arrays as one table; no cell is looked at."""
    if isinstance(rows, Table):
        raise SchemaError("fit(X, y) takes arrays and frames; fit_table(table, target=...) takes a table")
    if y is None:
        raise SchemaError("fit requires y to be passed, but the target y is None; give one target per row")
    names = [column.name for column in encoding.columns]
    if has_names(rows):
        known = list(rows) if isinstance(rows, Mapping) else list(getattr(rows, "columns", names))
        known = names if not all(isinstance(name, str) for name in known) else known
        missing = [name for name in names if name not in known]
        if missing:
            raise SchemaError(f"X has no column {missing[0]!r}; {nearest(missing[0], known)}")
        data = {name: rows[name] for name in names}
    else:
        width = width_of(rows)
        if width != len(names):
            raise SchemaError(f"X must have the columns {', '.join(names)}, got {width} column(s)")
        cells = rows if hasattr(rows, "shape") else np.array(rows, dtype=object)
        data = {name: cells[:, place] for place, name in enumerate(names)}
    labels = y if hasattr(y, "shape") else np.array(y, dtype=object)  # no cell decides how another is read
    if len(labels.shape) == 2 and labels.shape[1] == 1:
        labels = labels.iloc[:, 0] if hasattr(labels, "iloc") else labels[:, 0]
    if len(labels.shape) != 1:
        raise SchemaError(f"y must be one column, got {len(labels.shape)} dimensions; fit one model for each target")
    return Table({**data, target.name: labels}, schema=[*encoding.columns, target])


def free_name(taken: set[str]) -> str:
    """Return a name for the target that no column has."""
    name = "target"
    while name in taken:
        name += "_"
    return name
