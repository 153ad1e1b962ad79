"""Lines of CSV files: every text in quotes, because Python's writer leaves a carriage return without them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


def csv_line(cells: Iterable[Any]) -> str:
    r"""Return a line of CSV with every text in quotes: Python's writer leaves a carriage return without them.

    >>> csv_line(["a\rb", 'the "odd" one', 1.5, math.nan])
    '"a\rb","the ""odd"" one",1.5,\n'
    """
    return ",".join(map(_csv_cell, cells)) + "\n"


def _csv_cell(cell: Any) -> str:
    if isinstance(cell, str):
        return '"' + cell.replace('"', '""') + '"'
    return "" if cell is None or (isinstance(cell, float) and math.isnan(cell)) else str(cell)
