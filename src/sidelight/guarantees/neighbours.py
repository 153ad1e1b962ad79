"""Who is protected: which data sets are neighbours, and what one step between them is (a row, a person, an event)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from sidelight.errors import ClaimError, RangeError

#: Who sees the output that a claim speaks of. The ledger never charges by a claim for observers only.
Audience: TypeAlias = Literal["everyone", "observers_only"]
#: Whether the claim holds for the bits that were released, or for the real-number algorithm they approximate.
Numerics: TypeAlias = Literal["exact", "idealized"]


class Neighbours(Enum):
    """Name which pairs of data sets a claim makes hard to tell apart.

    `ADD_REMOVE` is the default of the library. `REPLACE` is for a public number of units. The local relations speak of
    one report: `LOCAL` any two inputs, `LOCAL_PRESENCE` a person present or not, `LOCAL_MOVE` also where.

    >>> print(Neighbours.ADD_REMOVE)
    add or remove one
    """

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"
    LOCAL = "local"
    LOCAL_PRESENCE = "local_presence"
    LOCAL_MOVE = "local_move"

    @property
    def family(self) -> Literal["add_remove", "replace", "local"]:
        """The relation without its local kind: what a ledger's scope is keyed by."""
        if self is Neighbours.ADD_REMOVE:
            return "add_remove"
        return "replace" if self is Neighbours.REPLACE else "local"

    def __str__(self) -> str:
        return {
            Neighbours.ADD_REMOVE: "add or remove one",
            Neighbours.REPLACE: "replace one",
            Neighbours.LOCAL: "replace the input of one report",
            Neighbours.LOCAL_PRESENCE: "one person present or not in a report",
            Neighbours.LOCAL_MOVE: "one person present or not, or elsewhere, in the reports",
        }[self]


@dataclass(frozen=True)
class Row:
    """One row of the table is one protected unit."""

    def __str__(self) -> str:
        return "row"


@dataclass(frozen=True)
class Person:
    """All rows with one value of a public id column, at most `max_rows` of them: the engine enforces the cap."""

    column: str
    max_rows: int

    def __post_init__(self) -> None:
        if not self.column:
            raise RangeError("a person needs the name of the column that identifies them, got an empty name")
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or self.max_rows < 1:
            raise RangeError(f"max_rows must be a whole number of at least 1, got {self.max_rows!r}")

    def __str__(self) -> str:
        return f"person ({self.column}, at most {self.max_rows} rows)"


@dataclass(frozen=True)
class Event:
    """One report of one person in one round. A claim for the person needs `max_rounds_per_person`."""

    def __str__(self) -> str:
        return "event"


Unit: TypeAlias = Row | Person | Event


def unit_to_text(unit: Unit) -> str:
    """Write a unit as text for a ledger or a plan.

    >>> unit_to_text(Row()), unit_to_text(Person("patient", 3))
    ('row', 'person:3:patient')
    """
    if isinstance(unit, Person):
        return f"person:{unit.max_rows}:{unit.column}"
    return "row" if isinstance(unit, Row) else "event"


def unit_from_text(text: str) -> Unit:
    """Read a unit back from its text.

    >>> unit_from_text("person:3:patient")
    Person(column='patient', max_rows=3)
    """
    if text == "row":
        return Row()
    if text == "event":
        return Event()
    kind, _, rest = text.partition(":")
    cap, _, column = rest.partition(":")
    if kind == "person" and cap.isascii() and cap.isdigit() and column:
        return Person(column, int(cap))
    raise ClaimError(f"a unit is 'row', 'event' or 'person:<max_rows>:<column>', got {text!r}")
