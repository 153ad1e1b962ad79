"""What bare data is taken for when a query about numbers is asked of it: columns of numbers, each row a unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.records.columns import Number
from sidelight.records.engines.frames import names_of
from sidelight.records.table import Table


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
