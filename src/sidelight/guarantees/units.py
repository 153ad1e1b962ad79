"""Protected units: what one step between neighbours changes, as typed values with a text for ledgers and plans.

Every place that needs the number of rows of a unit asks `rows_of_unit`, which raises on a unit that has no such number:
taking one row for a unit that is not known would sell noise for one row as noise for a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees.amounts import whole


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
        object.__setattr__(self, "max_rows", whole(self.max_rows, name="max_rows"))

    def __str__(self) -> str:
        return f"person ({self.column}, at most {self.max_rows} rows)"


@dataclass(frozen=True)
class PersonOf:
    """One person with all rows that they own in all tables of a database.

    It has no cap: caps belong to queries, the promise does not. Queries never see it; the release pipeline restates the
    claims of a view for it (docs: proofs, persons across tables).
    """

    database: str

    def __post_init__(self) -> None:
        if not isinstance(self.database, str) or not self.database or not self.database.isprintable():
            raise RangeError(f"a database needs a printable name that is not empty, got {self.database!r}")

    def __str__(self) -> str:
        return f"person of {self.database}, with all their rows in all tables"


#: How long a period of a window is.
PeriodLength: TypeAlias = Literal["day", "week", "month", "quarter", "year"]


@dataclass(frozen=True)
class PersonPeriod:
    """One person's dated rows of one period, such as a month, in all tables of a database.

    Rows without a period of their own, such as sex and birth year, are no part of it: the promise for a month covers
    what was done in it. As `PersonOf` it has no cap, and queries never see it.
    """

    database: str
    length: PeriodLength

    def __post_init__(self) -> None:
        PersonOf(self.database)
        if self.length not in get_args(PeriodLength):
            raise RangeError(f"a period is one of {', '.join(get_args(PeriodLength))}, got {self.length!r}")

    def __str__(self) -> str:
        return f"{self.length} of a person of {self.database}, with all their rows dated in it"


@dataclass(frozen=True)
class Event:
    """One report of one person in one round. A claim for the person needs `max_rounds_per_person`."""

    def __str__(self) -> str:
        return "event"


Unit: TypeAlias = Row | Person | PersonOf | PersonPeriod | Event


def rows_of_unit(unit: Unit) -> int:
    """Return how many rows of one unit count at most.

    Raises:
        ClaimError: the unit has no such number, or is not known.

    >>> rows_of_unit(Row()), rows_of_unit(Person("patient", 3))
    (1, 3)
    """
    if isinstance(unit, Person):
        return unit.max_rows
    if isinstance(unit, (Row, Event)):
        return 1
    raise ClaimError(
        f"how many rows count was asked of the unit {unit}, which has no cap; price the query for the rows of its "
        "view, and restate the claims afterwards"
    )


def unit_to_text(unit: Unit) -> str:
    """Write a unit as text for a ledger or a plan.

    >>> unit_to_text(Row()), unit_to_text(Person("patient", 3)), unit_to_text(PersonOf("shop"))
    ('row', 'person:3:patient', 'persons:shop')
    """
    match unit:
        case Row():
            return "row"
        case Person():
            return f"person:{unit.max_rows}:{unit.column}"
        case PersonOf():
            return f"persons:{unit.database}"
        case PersonPeriod():
            return f"person-period:{unit.length}:{unit.database}"
        case Event():
            return "event"
    raise ClaimError(f"a unit is a Row, Person, PersonOf, PersonPeriod or Event, got {type(unit).__name__}")


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
    if kind == "persons" and rest:
        return PersonOf(rest)
    cap, _, column = rest.partition(":")
    if kind == "person-period" and cap in get_args(PeriodLength) and column:
        return PersonPeriod(column, cast("PeriodLength", cap))
    if kind == "person" and cap.isascii() and cap.isdigit() and column:
        return Person(column, int(cap))
    raise ClaimError(
        "a unit is 'row', 'event', 'person:<max_rows>:<column>', 'persons:<database>' or "
        f"'person-period:<length>:<database>', got {text!r}"
    )
