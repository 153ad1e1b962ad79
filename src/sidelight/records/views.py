"""Views: the rows of one base table of a database, with looked-up columns and folds. Descriptions only, no row is read.

A view is one table with the owner as its `PersonId` (docs: proofs, persons across tables, Theorem 1), so every query of
the library runs on it as it stands. A view with one row a person is made by grouping by the owner: its rows are the
persons, and a row is its protected unit (Theorem 5).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

from sidelight.errors import SchemaError, nearest
from sidelight.records.columns import Category, Column, Label, PersonId
from sidelight.records.expression_shapes import TruthShape
from sidelight.records.expressions import Expression
from sidelight.records.fold import TRUTHS, Fold
from sidelight.records.linked_tables import FoundColumn, LinkedTables
from sidelight.records.schema import Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """Describe the owned rows of a base table, or one row a person, with looked-up columns and folds.

    `db.view(...)` and `sl.per_person(...)` make one.

    Args:
        tables: The tables of the database.
        base: The table whose rows the view has.
        grouped: Whether there is one row for each person with a row in the base.
        where: Of a grouped view, which rows of the base count.
        features: The folds, by the name of their column.
        columns: The looked-up columns, as they are written: "customer.segment".
        periods: Places of the first and the last period of the database's window whose dated rows count; None for all.
        cap: Whether everything that limits a person limits their whole life, or each of the periods.
    """

    tables: LinkedTables
    base: str
    grouped: bool = False
    where: Expression | None = None
    features: Mapping[str, Fold] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    periods: tuple[int, int] | None = None
    cap: Cap = "person"

    def __post_init__(self) -> None:
        if self.tables.is_public(self.base):
            raise SchemaError(f"the table {self.base!r} is public; read it in the open, no query is needed")
        for name, fold in self.features.items():
            if not isinstance(fold, Fold):
                raise SchemaError(f"the feature {name!r} must be a fold such as sl.fold.count(...), got {fold!r}")
            if self.tables.is_public(fold.table):
                raise SchemaError(f"the fold {name!r} is over {fold.table!r}, which is public; look its columns up")
            if not self.folds_persons(fold) and self.fold_link(fold) is None:
                raise SchemaError(
                    f"the fold {name!r} is over {fold.table!r}, whose rows do not name a key of {self.base!r}; declare "
                    f"sl.Reference(..., to={self.base!r}) there, or fold by the person in sl.per_person(...)"
                )
        if self.where is not None:
            if not self.grouped:
                raise SchemaError("where= of a view belongs to the query; sl.per_person(...) takes one")
            if not isinstance(self.where.check(self.source.schema), TruthShape):
                raise SchemaError(f"where must be a condition, and {self.where} is none")
        _ = self.schema  # every mistake is found here
        if self.cap == "block":
            check_by_period(self, [self.base])

    @property
    def max_rows(self) -> int:
        """How many rows of one person count."""
        return 1 if self.grouped else self.tables.max_rows(self.base)

    @property
    def keeps_base(self) -> bool:
        """Whether the view has the columns of its base: not if several rows of a person became one."""
        return not self.grouped or self.tables.max_rows(self.base) == 1

    @cached_property
    def source(self) -> View:
        """The rows before they are grouped, with the columns that `where` names."""
        named = () if self.where is None else self.where.columns
        return View(tables=self.tables, base=self.base).reading(named)

    def folds_persons(self, fold: Fold) -> bool:
        """Return whether a fold is over all rows of the person, and not over those that name the base row's key."""
        return self.grouped or fold.of_person

    def fold_link(self, fold: Fold) -> tuple[str, ...] | None:
        """Return the columns by which the folded rows name the base row; None if they do not."""
        links = [columns for columns, to in self.tables.links_of(fold.table) if to == self.base]
        if len(links) > 1:
            raise SchemaError(f"{fold.table!r} leads to {self.base!r} in two ways; fold it by the person instead")
        return links[0] if links else None

    def folded(self, fold: Fold) -> View:
        """Return the view of a folded table, with the columns that the fold names."""
        return View(tables=self.tables, base=fold.table).reading(fold.columns)

    def find(self, name: str) -> FoundColumn | None:
        """Return the looked-up column that a name means in this view, if there is one."""
        if name.endswith(FOUND):
            steps = self.tables.steps_to(self.base, name.removesuffix(FOUND))
            found = FoundColumn(steps, Category(FOUND, TRUTHS, other=None)) if steps else None
        else:
            found = self.tables.find(self.base, name)
        if found is None or self.keeps_base or (found.steps and found.steps[0].kind == "person"):
            return found
        return None  # several rows of the base became one, and which of their keys would be followed is arbitrary

    @cached_property
    def lookups(self) -> dict[str, FoundColumn]:
        """The looked-up columns, by the name under which they stand in the view."""
        found: dict[str, FoundColumn] = {}
        for name in self.columns:
            column = self.find(name)
            if column is None:
                raise SchemaError(
                    f"{name!r} is no column of a view of {self.base!r}; {nearest(name, self.tables.known(self.base))}"
                )
            if column.steps:
                found[name] = column
        return found

    @cached_property
    def schema(self) -> Schema:
        """The declarations of the view: the owner, the base's columns, folds, and looked-up columns."""
        columns: list[Any] = []
        if not self.grouped:
            columns.append(PersonId(self.tables.owner_name(self.base), max_rows=self.max_rows))
        if self.keeps_base:
            columns += [each for each in self.tables.schema(self.base).columns if not isinstance(each, PersonId)]
        for name, fold in self.features.items():
            columns += fold.declared(name, self.folded(fold).schema)
        columns += [_looked_up(name, found) for name, found in self.lookups.items()]
        if all(isinstance(each, PersonId) for each in columns):
            columns.append(Category(ROW, ["row"]))
        return Schema(columns)

    def reading(self, names: Iterable[str]) -> View:
        """Return the view with those of the names that are columns at the end of a path; others are left out."""
        there = set(self.schema.names)
        more = [name for name in dict.fromkeys(names) if name not in there and self.find(name) is not None]
        return replace(self, columns=(*self.columns, *more)) if more else self

    def within(self, first: str, last: str | None = None, *, cap: Cap = "person") -> View:
        """Return the view of the dated rows of some periods, in every table that it reads; timeless rows all stay.

        Args:
            first: A period of the database's window, such as "2024-03".
            last: The last one, if there are several.
            cap: "block" counts everything that limits a person, such as `max_rows`, for each period alone, and looks
                up and folds rows of the same period only: one of n periods then pays an n-th of the price.

        Returns:
            The view. A release of it is charged to these periods, and to the whole life.
        """
        return replace(self, periods=places_within(self, first, last, cap), cap=cap)

    @property
    def steps_of_life(self) -> int:
        """How many owners of the view one person may be: the periods, where each is capped alone, and otherwise 1."""
        return steps_of_life(self)

    def followed(self) -> Iterator[tuple[str, str]]:
        """Return each two tables between which the view follows a reference, or finds rows of the same person."""
        for found in self.lookups.values():
            yield from pairwise([self.base, *(step.to for step in found.steps)])
        for fold in self.features.values():
            yield from self.folded(fold).followed()
        if self.where is not None:
            yield from self.source.followed()

    def to_json(self) -> dict[str, Any]:
        """Return the public description for the request that a ledger stores, as JSON of strings."""
        found: dict[str, Any] = {"database": self.tables.name, "of": self.base}
        found |= {"per_person": "true"} if self.grouped else {}
        found |= {"where": str(self.where)} if self.where is not None else {}
        if self.periods is not None and self.tables.window is not None:
            found["within"] = [self.tables.window.names[place] for place in self.periods]
        found |= {"cap": self.cap} if self.cap != "person" else {}
        found |= {"features": {name: fold.to_json() for name, fold in self.features.items()}} if self.features else {}
        return found | ({"lookups": {name: each.name for name, each in self.lookups.items()}} if self.lookups else {})

    def __repr__(self) -> str:
        kind = "per_person" if self.grouped else "view"
        within = f", within={self.to_json()['within']}" if self.periods is not None else ""
        within += f", cap={self.cap!r}" if self.cap != "person" else ""
        return f"{kind}({self.tables.name!r}, of={self.base!r}, columns={list(self.schema.names)}{within})"


#: What limits on a person are counted for: the whole life, or each period of a window alone.
Cap: TypeAlias = Literal["person", "block"]
#: What follows the path of a row in the name of the yes/no column that says whether a row finds it.
FOUND = " is found"
#: A constant column of a view that has no other: a query must be able to count its rows.
ROW = "row of the view"


def _looked_up(name: str, found: FoundColumn) -> Column:
    """Return a parent's declaration under its name in the view.

    A table of one row a person that is looked up by the person in the first step gives all rows of a person the same
    cells, so that a person is in one group; statistics enforce it.
    """
    column = called(name, found.column)
    if isinstance(column, (Category, Label)) and found.steps[0].kind == "person":
        object.__setattr__(column, "per_person", 1)
    return column


def places_within(view: Any, first: str, last: str | None, cap: Cap) -> tuple[int, int]:
    """Return the places of the periods that a view is narrowed to, which happens once."""
    window = view.tables.window
    if cap not in get_args(Cap):
        raise SchemaError(f'cap is "person" or "block", got {cap!r}')
    if window is None or view.periods is not None:
        why = "within some periods already" if window is not None else "of a database without window=sl.Window(...)"
        raise SchemaError(f"within names periods of a window once, and {view!r} is {why}")
    places: tuple[int, int] = window.places_of(first, last)
    return places


def steps_of_life(view: Any) -> int:
    """Return how many periods a view caps alone, each of which is an owner of its own; 1 if it caps the person."""
    if view.cap == "person":
        return 1
    first, last = (0, len(view.tables.window.names) - 1) if view.periods is None else view.periods
    return int(last - first + 1)


def counted_in(described: Mapping[str, Any], said: str | None) -> str | None:
    """Return which rows of a person count in a view that a request describes: of each period alone if it caps those.

    Args:
        described: What a request says of the view; {} where it has none.
        said: Which rows count, of the person or of a person's rows of one period; None where a row is a unit.

    >>> counted_in({"cap": "block", "window": "months 2024-01 to 2024-12 by visit.day"}, "at most 3 rows of a person")
    'of each month alone: at most 3 rows of a person'
    """
    if described.get("cap") != "block":
        return said
    period = str(described["window"]).partition(" ")[0].removesuffix("s")
    return f"one row of each person and {period}" if said is None else f"of each {period} alone: {said}"


def check_by_period(view: Any, bases: Sequence[str]) -> None:
    """Refuse `cap="block"` where what a person adds is no sum over periods of functions of one period's rows.

    Raises:
        SchemaError: a base is timeless, or a timeless row leads to dated ones, whose period nothing would fix.
    """
    dated = {name for name in view.tables.private() if view.tables.date_of(name) is not None}
    for base in bases:
        if base not in dated:
            raise SchemaError(
                f'cap="block" counts the rows of each period alone, and those of {base!r} have no date; leave cap out, '
                f"or begin with a dated table"
            )
    for one, other in view.followed():
        if other in dated and one not in dated:
            raise SchemaError(
                f'cap="block" looks at rows of one period, and from {one!r}, whose rows have no date, {other!r} would '
                "be found in all of them; leave that column or fold out, or leave cap out"
            )


def called(name: str, column: Column) -> Column:
    """Return a declaration under another name."""
    renamed = copy.copy(column)
    object.__setattr__(renamed, "name", name)
    return renamed
