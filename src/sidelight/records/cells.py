"""One cell at a time: how an untyped value becomes a number or a text, without ever raising.

Only untyped columns (Python lists, object arrays) come here; typed columns are converted by their engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray


def number_of(cell: Any) -> float:
    """Return the cell as a float; NaN if it is missing or no number."""
    if type(cell) is float:
        return cell
    # Any object can stand in a cell, and what it raises must not depend on the rows.
    try:
        return float(cell)
    except OverflowError:
        pass
    except Exception:
        return math.nan
    try:
        return math.inf if cell > 0 else -math.inf
    except Exception:
        return math.nan


def text_of(cell: Any) -> str | None:
    """Return the cell as the text by which labels and ids are compared; None if it is missing."""
    if cell is None:
        return None
    try:  # around everything: also texts and numbers may be of a class of their own, and do what they like
        found = _found(cell)
        # a plain text, whatever class it came in: its own way to compare or to hash would raise later, among others
        return None if found is None else str.__str__(found) or None
    except Exception:
        return None


def _found(cell: Any) -> str | None:
    if isinstance(cell, str):
        return str(cell)
    if isinstance(cell, (bool, np.bool_)):
        return "true" if cell else "false"
    if isinstance(cell, (int, np.integer)):
        return _digits(int(cell))
    if isinstance(cell, (float, np.floating, Decimal)):
        value = number_of(cell)
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    return None if bool(cell != cell) else str(cell)  # NaT and the like differ from themselves


def _digits(whole: int) -> str:
    """Write a whole number; beyond 4300 digits Python raises for decimals, but not for hexadecimals."""
    try:
        return str(whole)
    except ValueError:
        return hex(whole)


def numbers_of(cells: Iterable[Any]) -> NDArray[np.float64]:
    """Return a float for each cell."""
    return np.fromiter((number_of(cell) for cell in cells), np.float64)


def texts_of(cells: Iterable[Any]) -> NDArray[Any]:
    """Return a text or None for each cell."""
    given = list(cells)
    out = np.empty(len(given), object)
    for place, cell in enumerate(given):
        out[place] = text_of(cell)
    return out
