"""Hard neighbouring pairs of small data sets, made from a schema alone: corners first, then a climb.

A data set is a list of units (a row, or all rows of a person), a unit a tuple of rows, a row a tuple of cells. Where a
mechanism gives most away is not known beforehand, so the search begins with extremes, ties, nothing at all, missing
cells, values outside of their bounds and one person with all rows, and then changes one thing after the other in the
pairs that an attack distinguishes best. No real row is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees import Neighbours
from sidelight.noise import Source, below
from sidelight.records import Category, Column, Date, Label, Number, PersonId, Schema, Table

Row = tuple[Any, ...]
Unit = tuple[Row, ...]

#: Sizes of the data sets that a search begins with, in units, and the largest that it climbs to.
SIZES = (0, 1, 4, 16)
MOST_UNITS = 40
#: Pairs that are run more often before one of them is chosen.
FINALISTS = 4
_MOST_LABELS = 4
#: By how many rows a person may exceed the cap that the schema declares: the cap has to be enforced.
_BEYOND_THE_CAP = 2


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two neighbouring data sets: the same units, with one more in the first, or another one in its place.

    Args:
        common: The units of both.
        unit: The one that only the first has.
        instead: What the second has in its place; None where neighbours differ by adding or removing.
        place: Before how many of the common units it stands, which must not matter.
    """

    common: tuple[Unit, ...]
    unit: Unit
    instead: Unit | None = None
    place: int = 0

    def units(self) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
        """Return the units of the first and of the second data set."""
        before, after = self.common[: self.place], self.common[self.place :]
        other = () if self.instead is None else (self.instead,)
        return (*before, self.unit, *after), (*before, *other, *after)

    def tables(self, schema: Schema) -> tuple[Table, Table]:
        """Return both as tables."""
        first, second = (Table(columns_of(units, schema), schema=schema) for units in self.units())
        return first, second

    def __str__(self) -> str:
        shown = {True: "no units", False: f"{len(self.common)} units"}[not self.common]
        many = f" of {len(self.unit)} rows" if len(self.unit) != 1 else ""
        first = ", ".join(map(str, self.unit[0])) if self.unit else "nothing"
        change = "" if self.instead is None else f" in the place of {', '.join(map(str, (self.instead or [()])[0]))}"
        return f"{shown} and one{many} ({first}){change}"


def columns_of(units: tuple[Unit, ...], schema: Schema) -> dict[str, Any]:
    """Return the columns of a data set; the rows of a unit carry one id where the schema names persons."""
    rows = [row for unit in units for row in unit]
    found: dict[str, Any] = {}
    place = 0
    for column in schema.columns:
        if isinstance(column, PersonId):
            ids = [f"person {number}" for number, unit in enumerate(units) for _ in unit]
            found[column.name] = np.array(ids, dtype=object)
            continue
        cells = [row[place] for row in rows]
        place += 1
        if isinstance(column, Number):
            numbers = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
            found[column.name] = column.calendar.datetimes(numbers) if isinstance(column, Date) else numbers
        else:
            found[column.name] = np.array(cells, dtype=object)
    return found


def cells_of(column: Column) -> tuple[Any, ...]:
    """Return the cells of a column that are worth trying: its ends first, then its middle, missing, beyond."""
    if isinstance(column, Category):
        return (*column.categories[:_MOST_LABELS], "no such label", None)
    if isinstance(column, Label):
        return ("x", "y", "x" * 300, None)
    assert isinstance(column, Number)
    lower = -1e6 if column.lower is None else float(column.lower)
    upper = 1e6 if column.upper is None else float(column.upper)
    middle = lower / 2 + upper / 2
    step = (upper - lower) / 100 if column.granularity is None else float(column.granularity)
    near: tuple[float, ...] = (lower + step, upper - step, middle + step)
    if column.lower is None or column.upper is None:
        near += (0.0, 1.0)
    return (lower, upper, middle, None, near[0], 1e300, *near[1:], -1e300, float("inf"))


class PairSearch:
    """Propose pairs, receive how well an attack distinguishes each, propose better ones.

    Args:
        schema: The public declarations.
        neighbours: Whether a unit is added or replaced.
        source: Where the choices come from: seeded, so that a search can be repeated.
        kept: Of totals that are published exactly: the column, and in which of them each label is counted.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        neighbours: Neighbours,
        source: Source,
        kept: tuple[str, Mapping[str, str]] | None = None,
    ) -> None:
        if neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE) and kept is None:
            raise RangeError(
                f"pairs of data sets are made for add_remove and replace, got {neighbours.value}: a claim about one "
                "report is audited by sidelight.audit.audit, with a sampler for each input"
            )
        self._cells = [cells_of(column) for column in schema.columns if not isinstance(column, PersonId)]
        self._most_rows = 1 if schema.person is None else schema.rows_per_unit
        self._persons = schema.person is not None
        self._replace = neighbours is not Neighbours.ADD_REMOVE
        self._kept: tuple[int, Mapping[str, str], str] | None = None
        if kept is not None:
            column = next(each for each in schema.columns if each.name == kept[0])
            names = [each.name for each in schema.columns if not isinstance(each, PersonId)]
            self._kept = names.index(kept[0]), kept[1], str(getattr(column, "other", None))
        self._source = source

    def starts(self) -> list[Pair]:
        """Return pairs at corners: every size, ties or extremes alternating, every corner as the unit.

        The order takes turns with sizes and with corners, so that the first dozen has some of each.
        """
        lower, upper, middle, missing, inner, beyond = (self._corner(number) for number in range(6))
        mixed = tuple(cells[number % 2] for number, cells in enumerate(self._cells))
        alike = ((lower, lower), (lower, upper), (upper, upper), (inner, inner))
        commons = [
            tuple(self._unit(both[number % 2]) for number in range(size))
            for size in SIZES
            for both in (alike if size else alike[:1])
        ]
        units = (upper, lower, beyond, missing, mixed, middle)
        found = []
        for number in range(len(commons) * len(units)):  # 13 and 6 have no common factor: each with each, once
            unit = units[number % len(units)]
            instead = self._unit(lower if unit is upper else upper) if self._replace else None
            pair = Pair(common=commons[number * 5 % len(commons)], unit=self._unit(unit), instead=instead)
            found.append(self._with_totals(pair))
        return found

    def best(self, score: Callable[[Pair], float], *, tries: int) -> tuple[list[Pair], int]:
        """Return the pairs with the largest scores found, up to four of different sizes, and how many were tried.

        Half of the tries look at corners, the rest climbs from the best three.
        """
        known = [(score(pair), pair) for pair in self.starts()[: max(1, (tries + 1) // 2)]]
        tried = len(known)
        while tried < tries:
            known.sort(key=lambda each: -each[0])
            changed = self._changed(known[below(min(3, len(known)), self._source)][1])
            pair = self._with_totals(changed)
            known.append((score(pair), pair))
            tried += 1
        known.sort(key=lambda each: -each[0])
        sizes: dict[int, Pair] = {}
        for _, pair in known:
            sizes.setdefault(len(pair.common), pair)
        return list(sizes.values())[:FINALISTS], tried

    def _with_totals(self, pair: Pair) -> Pair:
        """Return the pair with a replacement that leaves all exact totals as they are: another label of the same."""
        if self._kept is None or not pair.instead or not pair.unit:
            return pair
        place, nodes, other = self._kept

        def node(cell: Any) -> str:
            return nodes.get(cell, nodes[other])

        mine, theirs = pair.unit[0], pair.instead[0]
        if node(mine[place]) == node(theirs[place]):
            return pair
        same = [cell for cell in self._cells[place] if node(cell) == node(mine[place])]
        label = next((cell for cell in same if cell != mine[place]), mine[place])
        return replace(pair, instead=self._unit((*theirs[:place], label, *theirs[place + 1 :])))

    def _corner(self, number: int) -> Row:
        return tuple(cells[number % len(cells)] for cells in self._cells)

    def _unit(self, row: Row) -> Unit:
        return (row,) * self._most_rows

    def _any(self, choices: Any) -> Any:
        return choices[below(len(choices), self._source)]

    def _row(self) -> Row:
        return tuple(self._any(cells) for cells in self._cells)

    def _changed(self, pair: Pair) -> Pair:
        """Return a pair that differs in one thing."""
        move = below(7, self._source)
        if move == 0 and len(pair.common) < MOST_UNITS:  # one more: a new one, or a double of one that is there
            new = self._any(pair.common) if pair.common and below(2, self._source) else self._unit(self._row())
            return replace(pair, common=(*pair.common, new))
        if move == 1 and pair.common:
            gone = below(len(pair.common), self._source)
            common = (*pair.common[:gone], *pair.common[gone + 1 :])
            return replace(pair, common=common, place=min(pair.place, len(common)))
        if move == 2 and pair.common:
            at = below(len(pair.common), self._source)
            changed = self._changed_unit(pair.common[at])
            return replace(pair, common=(*pair.common[:at], changed, *pair.common[at + 1 :]))
        if move == 3 and len(pair.common) <= MOST_UNITS // 2:  # twice as many of the same
            return replace(pair, common=pair.common * 2)
        if move == 4:
            return replace(pair, place=below(len(pair.common) + 1, self._source))
        if move == 5 and pair.instead is not None:
            return replace(pair, instead=self._changed_unit(pair.instead))
        return replace(pair, unit=self._changed_unit(pair.unit))

    def _changed_unit(self, unit: Unit) -> Unit:
        if self._persons and below(3, self._source) == 0:  # another number of rows, the cap exceeded included
            wanted = 1 + below(self._most_rows + _BEYOND_THE_CAP, self._source)
            return tuple(unit[number % len(unit)] if unit else self._row() for number in range(wanted))
        if not unit:
            return (self._row(),)
        at, column = below(len(unit), self._source), below(len(self._cells), self._source)
        cell = self._any(self._cells[column])
        row = (*unit[at][:column], cell, *unit[at][column + 1 :])
        if below(2, self._source):  # all rows of the person alike
            return (row,) * len(unit)
        return (*unit[:at], row, *unit[at + 1 :])
