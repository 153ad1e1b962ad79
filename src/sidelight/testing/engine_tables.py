"""Generated tables that break engines: what the conformance kit hands to an engine, and the schemas it declares.

Nothing here is private. Cells are Python objects, None where one is missing; `kinds` are the types that the columns
have in an engine. A table is cut into partitions, some of them empty, its rows are shuffled and its columns swapped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from sidelight.records import Category, Column, Drop, Fill, Number, PersonId
from sidelight.testing.seeded import SeededEntropy

Kind = Literal["float", "integer", "boolean", "text"]
Cell = TypeVar("Cell")

_FLOATS = (
    *(1.5, -2.5, math.nan, None, math.inf, -math.inf, 1e300, -1e300, -0.0, 0.0, 5e-324, -2.2250738585072014e-308),
    *(0.49999999999999994, 2.5, 0.29, 97.0, 1e15, -7.25, 2.5, 2.5, 1.7976931348623157e308),
)
_WHOLE = (1, -3, None, 2**53 + 1, 2**53 - 1, 7, 0, -(2**62), 5, 2**63 - 1, -(2**63), 9007199254740993)
_LABELS = (
    *("F", "M", "", None, "F ", " F", "f", "é", "e\u0301", "NULL", "nan", "None", "a,b", 'a"b', "a\nb", "F\tM", "🙂"),
    *("\u200b", "1", "1.0", "true", "x" * 300, "';--", "\\N", "#", "ward=A"),
)
_IDS = ("7", "007", "7.0", None, "", "ann", "Ann", "ann ", "é", "e\u0301", "9007199254740993", "9007199254740992", "-0")


@dataclass(frozen=True, kw_only=True)
class EngineTable:
    """A generated table for an engine under test.

    Args:
        name: What is special about it.
        kinds: The type of each column, in the order that the engine is to hold them.
        parts: The rows, cut into partitions; each is a mapping of names to cells, None where one is missing.
        retried: Partitions whose first reading is to fail, in engines that read a failed one again.
        schema: What is declared of the columns.
    """

    name: str
    kinds: Mapping[str, Kind]
    parts: tuple[Mapping[str, list[Any]], ...]
    retried: tuple[int, ...]
    schema: tuple[Column, ...]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """All rows, one partition behind the other."""
        return {name: [cell for part in self.parts for cell in part[name]] for name in self.kinds}


class _Draws:
    """Whole numbers from a seed, the same on every machine."""

    def __init__(self, seed: int | str) -> None:
        self._entropy = SeededEntropy(f"engine conformance {seed}")

    def below(self, limit: int) -> int:
        """Return a number in 0..limit-1."""
        return int.from_bytes(self._entropy.read(8), "little") % limit

    def one(self, cells: Sequence[Cell]) -> Cell:
        """Return one of several."""
        return cells[self.below(len(cells))]

    def shuffled(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return all of several in another order."""
        found = list(cells)
        for place in range(len(found) - 1, 0, -1):
            other = self.below(place + 1)
            found[place], found[other] = found[other], found[place]
        return found


_KINDS: dict[str, Kind] = {
    "x": "float",
    "y": "float",
    "big": "integer",
    "label": "text",
    "flag": "boolean",
    "grade": "integer",
    "who": "text",
    "number": "integer",
}
_SCHEMA: tuple[Column, ...] = (
    Number("x", lower="-50.3", upper=97, missing=Drop()),
    Number("y", lower=-8, upper=8, granularity="1/8", missing=Fill("1.5")),
    Number("big"),
    Category("label", ["F", "M", "é", "nan", 'a"b', "a\nb"]),
    Category("flag", [True, False], other=None, missing=Drop()),
    Category("grade", [1, 2], missing=Fill(2)),
)


def engine_tables(
    *, rows: int, seed: int | str = 0, partitions: Sequence[int] = (1, 7), quick: bool = False
) -> list[EngineTable]:
    """Return tables of so many rows, for rows and for persons of two kinds of ids, cut in several ways, and small ones.

    Of no rows and of one there is one table each: more of them would show nothing new. With `quick`, the tables for
    rows alone.
    """
    persons = (None, PersonId("who", max_rows=3), PersonId("number", max_rows=2))
    found = []
    for count, ways, units in ((0, (1,), persons[1:2]), (1, (2,), persons[:1]), (rows, partitions, persons)):
        for cuts in ways:
            for person in units[:1] if quick and count == rows else () if quick else units:
                words = f"{count} rows in {cuts} partitions, {'rows' if person is None else person.name} seed {seed}"
                found.append(_table(words, count, cuts, person, _Draws(words)))
    return found


def _table(words: str, count: int, cuts: int, person: PersonId | None, draws: _Draws) -> EngineTable:
    names = draws.shuffled(list(_KINDS))
    rows = draws.shuffled([_row(draws, place) for place in range(count)])
    bounds = sorted(draws.below(count + 1) for _ in range(cuts - 1))
    if cuts > 2:
        bounds[1] = bounds[0]  # at least one is empty
    ends = list(zip([0, *bounds], [*bounds, count], strict=True))
    parts = tuple({name: [row[name] for row in rows[start:end]] for name in names} for start, end in ends)
    schema = _SCHEMA if person is None else (*_SCHEMA, person)
    retried = tuple(place for place in range(cuts) if draws.below(3) == 0)
    return EngineTable(
        name=words, kinds={name: _KINDS[name] for name in names}, parts=parts, retried=retried, schema=schema
    )


def _row(draws: _Draws, place: int) -> dict[str, Any]:
    plain = (draws.below(1 << 20) - (1 << 19)) / (1 << 12)
    crowd = draws.below(5) < 3  # one person has most of the rows
    return {
        "x": draws.one(_FLOATS) if draws.below(3) else plain,
        "y": draws.one(_FLOATS) if draws.below(4) == 0 else draws.below(101) / 8 - 5,
        "big": draws.one(_WHOLE),
        "label": draws.one(_LABELS),
        "flag": draws.one((True, None, False)),
        "grade": draws.one((1, 2, None, 9)),
        "who": "ann" if crowd else draws.one(_IDS) if draws.below(2) else f"p{draws.below(40)}",
        "number": 2**53 + 1 if crowd else draws.one(_WHOLE) if draws.below(2) else place % 40,
    }
