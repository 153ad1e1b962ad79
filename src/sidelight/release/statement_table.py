"""The table that a SQL statement shows: released numbers, computed with, filtered, sorted and cut off.

It reads public numbers only and costs nothing. What to show is stored in the request as nested lists of texts
(`statement_trees`), so that a release needs no SQL parser to be shown and survives every round trip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.group_table import ALL, CHOSEN, POOLED, GroupTable
from sidelight.records.cells import nearest_or_infinite
from sidelight.records.dates import Calendar
from sidelight.release.statement_trees import Cell, StatementRow, Tree, evaluated, interval, numbers_in

#: The note of a shown table that names the computed numbers without an interval.
NO_INTERVAL = "no_interval"
_LARGEST_WHOLE = 2**63
#: Columns that may belong to a released number: `x_low`, `x_high`, `x_pooled`.
_BESIDE = ("low", "high", POOLED)


def statement_table(value: Any, query: Mapping[str, Any]) -> GroupTable | None:
    """Return what a statement shows of its released table; None where that is the table itself.

    Args:
        value: The released table, with every group.
        query: The request. Its `shown` has `columns` (name, type, tree, and whether there is an interval), `having`,
            `order`, `distinct`, `limit`, `offset`, and of a rollup `totals` and `margins`.
    """
    if "shown" not in query or not isinstance(value, GroupTable):
        return None
    try:
        return _shown(value, query["shown"], (query.get("dates") or {}).get("columns", {}))
    except (LookupError, TypeError, ValueError, AttributeError):  # of an edited file
        raise RangeError(
            "what the statement shows cannot be read from this release; release.value has all of its numbers"
        ) from None


def _shown(value: GroupTable, program: Mapping[str, Any], dates: Mapping[str, Any]) -> GroupTable:
    totals = program.get("totals") == "yes"
    asked = _asked(program)  # one of them may be called x_low, and is not the end of x
    cells_of = {name: [_cell(each) for each in value[name].tolist()] for name in value.columns}
    parts = [{name: cells_of[name] for name in cells_of if (name in asked) is number} for number in (True, False)]
    rows = [
        StatementRow(group, numbers, ends=ends, totals=totals)
        for place, group in enumerate(value.groups)
        for numbers, ends in [[{name: column[place] for name, column in part.items()} for part in parts]]
    ]
    kept = [place for place, group in enumerate(value.groups) if _is_asked(group, program.get("margins"))]
    if "having" in program:
        kept = [place for place in kept if evaluated(program["having"], rows[place]) is True]
    columns = {name: (kind, tree, ends) for name, kind, tree, ends in program["columns"]}
    cells = {place: tuple(evaluated(tree, rows[place]) for _, tree, _ in columns.values()) for place in kept}
    if program.get("distinct") == "yes":
        kept = list({cells[place]: place for place in reversed(kept)}.values())[::-1]
    for tree, direction, nulls in reversed(program.get("order", ())):
        kept = _sorted(kept, {place: evaluated(tree, rows[place]) for place in kept}, direction, nulls)
    first = int(program.get("offset", 0))
    kept = kept[first : first + int(program["limit"])] if "limit" in program else kept[first:]
    found = {name: [cells[place][at] for place in kept] for at, name in enumerate(columns)}
    texts = [name for name, (kind, _, _) in columns.items() if kind == "text"]
    made: dict[str, Any] = {}
    plain: list[str] = []
    for name, (kind, tree, ends) in columns.items():
        if kind == "text":
            continue
        made[name] = _column(found[name], kind, dates.get(tree[1]) if kind == "date" else None)
        if tree[0] == "number":
            taken = {*columns, *(f"{name}_{word}" for word in _BESIDE if f"{tree[1]}_{word}" in asked)}
            made |= _beside(value, kept, tree[1], name, taken, dates.get(tree[1]) if kind == "date" else None)
        elif ends == "yes":
            low, high = zip(*(interval(tree, rows[place]) for place in kept), strict=True) if kept else ((), ())
            sides = {f"{name}_low": low, f"{name}_high": high}
            made |= {end: np.array(side, np.float64) for end, side in sides.items() if end not in columns}
        else:
            plain.append(name)
    if "supported" in value.columns and "supported" not in columns:
        made["supported"] = value["supported"][kept]
    notes = dict(value.notes) | ({NO_INTERVAL: ", ".join(plain)} if plain else {})
    ranked = any(numbers_in(tree) for tree, *_ in program.get("order", ()))
    if "having" in program or (ranked and program.keys() & {"limit", "offset"}):
        notes[CHOSEN] = "by released numbers: an interval holds for each group by itself, not for groups so chosen"
    groups = [
        tuple(_label(columns[name][1], found[name][at], totals=totals) for name in texts) for at in range(len(kept))
    ]
    return GroupTable(keys=texts, groups=groups, columns=made, notes=notes, repeats=True, asked_for=columns)


def _asked(program: Mapping[str, Any]) -> set[str]:
    """Return the released numbers that a statement reads."""
    trees = [*(line[2] for line in program["columns"]), *(line[0] for line in program.get("order", ()))]
    trees += [program["having"]] if "having" in program else []
    return {name for tree in trees for name in numbers_in(tree)}


def _is_asked(group: Sequence[str], margins: Sequence[Any] | None) -> bool:
    """Return whether a group of a rollup belongs to one of the grouping sets: those with these keys."""
    return margins is None or [str(at) for at, label in enumerate(group) if label != ALL] in margins


def _sorted(places: list[int], by: Mapping[int, Cell], direction: str, nulls: str) -> list[int]:
    # sorted() keeps equal ones in their order, in reverse too
    there = sorted((p for p in places if by[p] is not None), key=lambda p: by[p], reverse=direction == "desc")
    missing = [p for p in places if by[p] is None]
    return missing + there if nulls == "first" else there + missing


def _cell(value: Any) -> Cell:
    if isinstance(value, (bool, str)) or value is None:
        return value
    if isinstance(value, int):
        return Fraction(value)
    return None if math.isnan(value) else value


def _label(tree: Tree, cell: Cell, *, totals: bool) -> str:
    if cell is None:
        return ALL if totals and tree[0] == "key" else ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell if isinstance(cell, str) else str(cell)


def _column(cells: Sequence[Cell], kind: str, calendar: Mapping[str, str] | None) -> Any:
    if calendar is not None:
        return _dates([math.nan if each is None else float(each) for each in cells], calendar)
    if kind == "truth" and None not in cells:
        return np.array(cells, bool)
    if kind == "whole" and all(each is not None and abs(each) < _LARGEST_WHOLE for each in cells):
        return np.array([int(each) for each in cells], np.int64)
    return np.array([math.nan if each is None else nearest_or_infinite(each) for each in cells], np.float64)


def _dates(numbers: Any, calendar: Mapping[str, str]) -> Any:
    return Calendar.since(calendar["start"], calendar["unit"], where="a release").datetimes(numbers)  # type: ignore[arg-type]


def _beside(
    value: GroupTable, kept: list[int], name: str, alias: str, taken: set[str], calendar: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the interval and the flag of a released number, under the name that the statement gives it."""
    found = {}
    for word in _BESIDE:
        if f"{name}_{word}" in value.columns and f"{alias}_{word}" not in taken:
            column = value[f"{name}_{word}"][kept]
            found[f"{alias}_{word}"] = _dates(column, calendar) if calendar and word != POOLED else column
    return found
