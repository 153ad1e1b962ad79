"""The numbers of a table by group as texts: which columns belong together, and the digits that their interval leaves.

The ends of an interval are rounded outward and its number to the same decimals, so that what is shown holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sidelight.readable import number_text, shown_text, supported

#: The column of a table of a hierarchy that says which numbers are exact, and whence: "invariant", "public" or "".
EXACT = "exact"
#: Columns that belong to a statistic: its interval, its prediction, and how it was made.
INTERVAL, PREDICTED, NOISE = ("low", "high"), "predicted", "noise_sd"
_BESIDE = (PREDICTED, "plain", "unbiased", "noisy_count", NOISE, "supported", "pooled", "known", EXACT)
#: Those of them that say how a number was made.
_WORKINGS = ("plain", "unbiased", NOISE, "pooled", "supported", "known")
#: How the end of an interval is rounded.
OUTWARD: dict[str, Callable[[Fraction], int]] = dict(zip(INTERVAL, (math.floor, math.ceil), strict=True))
#: Numbers of rows or persons, which are printed whole; a count that a mean is read from has decimals of its own.
_COUNTS = ("count", "count_unbiased")
#: The significant digits of a number whose interval leaves fewer, and of a number that has none.
_LEAST = 6
_SEPARATED = 10**6


class NumberTable(Protocol):
    """A table whose columns of numbers have names."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names."""
        ...

    @property
    def asked_for(self) -> frozenset[str]:
        """The numbers that got their names from whoever asked, whatever word that is; empty where none did."""
        ...

    def __getitem__(self, name: str) -> Any:
        """Return a column."""
        ...


def statistics_of(table: NumberTable) -> list[str]:
    """Return the columns of a table that were asked for, and are not an interval, a twin or a noise of another."""
    words = (*INTERVAL, *_BESIDE)
    beside = {*words, *(f"{each}_{word}" for each in table.columns for word in words)} - table.asked_for
    return [name for name in table.columns if name not in beside]


def flags_of(table: NumberTable, word: str) -> list[str]:
    """Return the columns of a table that end with a word of this library: `pooled`, `mean_pooled`."""
    return [name for name in table.columns if name.endswith(word) and name not in table.asked_for]


def workings_of(table: NumberTable) -> set[str]:
    """Return the columns that say how a number was made, which a page with little room leaves out."""
    return {name for word in _WORKINGS for name in flags_of(table, word) if name == word or name.endswith(f"_{word}")}


def is_whole(table: NumberTable, name: str) -> bool:
    """Return whether a column counts rows or persons; what is asked for as `count` may be any number."""
    return name in _COUNTS and (name not in table.asked_for or table[name].dtype.kind in "iu")


def leading_statistic(table: NumberTable) -> str:
    """Return the statistic that is drawn, and that `low` and `high` belong to.

    It is the first that is no rank; of a summary, which begins with the count, the mean; "" where no number is shown.
    """
    found = statistics_of(table) or list(table.columns)
    if {"mean", "q50"} <= set(found):
        return "mean"
    return next((name for name in found if name != "rank"), found[0] if found else "")


def beside(table: NumberTable, name: str, word: str) -> Sequence[Any] | None:
    """Return a column that belongs to a statistic: `mean_low`, or `low` for the leading one of the table."""
    column = _column_beside(table, name, word)
    if column is None:
        return None
    found: Sequence[Any] = table[column].tolist()
    return found


def _column_beside(table: NumberTable, name: str, word: str) -> str | None:
    for column in (f"{name}_{word}", *([word] if name == leading_statistic(table) else [])):
        if column in table.columns and column not in table.asked_for:
            return column
    return None


def error_of(table: NumberTable, name: str) -> float:
    """Return half the narrowest interval of a statistic, or its smallest noise: all its numbers are rounded alike.

    NaN where neither is known.
    """
    low, high, noise = (_numbers(table, _column_beside(table, name, word)) for word in (*INTERVAL, NOISE))
    sizes = noise if low is None or high is None else (high - low) / 2
    if sizes is None:
        return math.nan
    there = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(there.min()) if there.size else math.nan


def _numbers(table: NumberTable, column: str | None) -> Any:
    if column is None or table[column].dtype.kind not in "iuf":
        return None
    return table[column].astype(np.float64)


def column_texts(table: NumberTable, most: int) -> list[list[str]]:
    """Return the first numbers of each column as they are printed.

    Args:
        table: The table.
        most: How many rows are shown.
    """
    owners = {
        _column_beside(table, name, word): (name, word)
        for name in statistics_of(table)
        for word in (*INTERVAL, *_BESIDE)
    }
    errors = {name: error_of(table, name) for name in statistics_of(table)}
    found = []
    for column in table.columns:
        name, word = owners.get(column, (column, ""))
        error = math.nan if word == NOISE else errors.get(name, math.nan)
        whole = is_whole(table, column) or (is_whole(table, name) and word in INTERVAL)
        away = OUTWARD.get(word, round)
        found.append([_text(each, error, away, whole=whole) for each in table[column][:most].tolist()])
    return found


def _text(value: Any, error: float, away: Callable[[Fraction], int], *, whole: bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return shown_text(value)
    if value is None or not isinstance(value, float):
        return "" if value is None else number_text(value)
    if not math.isfinite(value):
        return "" if math.isnan(value) else str(value)
    if whole:
        return number_text(away(Fraction(value)))
    if math.isnan(error) and math.isclose(float(f"{value:.10g}"), value, rel_tol=1e-14):
        return number_text(value)  # of a grid, such as cents: ten digits are all of it
    return supported(value, error, rounded=away, least=_LEAST, separated=_SEPARATED)


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
