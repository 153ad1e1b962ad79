"""The tables of a database and how they are tied together, checked by metadata alone when the database is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sidelight.errors import SchemaError, nearest
from sidelight.records.columns import Category, Column, Label, Number, PersonId
from sidelight.records.dates import Date
from sidelight.records.held_rows import HeldRows, read_whole
from sidelight.records.keys import Key, PersonVia, Reference, check_one_kind
from sidelight.records.rows import Wanted
from sidelight.records.schema import Schema
from sidelight.records.shared_sources import PUBLIC, check_shared_sources
from sidelight.records.source_protocols import BringsRows
from sidelight.records.table import Table
from sidelight.records.windows import Window

#: The most cells of a public table, of which a copy is held (512 MB).
MOST_PUBLIC_CELLS = 1 << 26
#: Types whose values are whole numbers of 64 bits, as the engines call them.
_WHOLE = frozenset(
    ["tinyint", "smallint", "int", "integer", "bigint", "utinyint", "usmallint", "uinteger"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64) if (sign, bits) != ("u", 64)]
)


@dataclass(frozen=True)
class Step:
    """One step of a path: to the row of another table that a key names, or to the row of the same person."""

    kind: Literal["key", "person"]
    columns: tuple[str, ...]
    to: str
    name: str


@dataclass(frozen=True)
class FoundColumn:
    """A column at the end of a path of lookups."""

    steps: tuple[Step, ...]
    column: Column

    @property
    def name(self) -> str:
        """The whole path as it is written."""
        return ".".join([*(step.name for step in self.steps), self.column.name])


class LinkedTables:
    """Hold the tables of a database by name.

    Args:
        tables: Private tables, each with a way to its person, and public ones.
        name: The public name of the database: whose people are protected.
        window: The periods of dated rows, if each has a budget.
    """

    def __init__(self, tables: Mapping[str, Table], *, name: str, window: Window | None = None) -> None:
        self.name, self.window = name, window
        self.tables = dict(tables)
        for each, table in self.tables.items():
            self._check_table(each, table)
        for each in self.tables:
            self._check_path(each)
        self._check_persons()
        self._check_kinds()
        if window is not None:
            window.check_dates(self._declared())
        self.check_sources(self.tables, Table.shares_rows)
        self.public_rows = {each: self._copy(each) for each in self.tables if self.is_public(each)}
        #: The SHA-256 of each public table as it was read now.
        self.public_digests = {each: rows.digest() for each, rows in self.public_rows.items()}

    def check_sources(self, tables: Mapping[str, Any], is_one: Callable[[Any, Any], bool]) -> None:
        """Refuse rows of one source that two tables contradict each other about: whose they are, and when.

        Args:
            tables: What `is_one` compares, by the names of the tables.
            is_one: Whether two of these are read from the same rows.
        """
        check_shared_sources(tables, self.paths(), is_one)
        if self.window is not None:
            self.window.check_sources(tables, self.dates(), is_one)

    def _copy(self, name: str) -> HeldRows:
        """Read a public table once; a key that repeats is an error that names it, for everyone may see it."""
        schema = self.schema(name)
        labels = [each.name for each in schema.columns if isinstance(each, (Category, Label))]
        tied = [column for link in schema.links for column in link.columns]
        numbers = tuple(each.name for each in schema.columns if isinstance(each, Number))
        texts = tuple(dict.fromkeys([*labels, *tied]))
        wanted = Wanted(numbers=numbers, texts=texts, keys=tuple(dict.fromkeys(tied)))
        rows = read_whole(self.tables[name].rows, wanted, most_cells=MOST_PUBLIC_CELLS)
        if rows is None:
            raise SchemaError(
                f"the public table {name!r} has more than {MOST_PUBLIC_CELLS} cells (a distinct text is 16), and "
                "its copy is held in memory; give the columns and rows that queries need, with whole numbers as keys"
            )
        if schema.key is not None:
            parts = [rows.texts[column] for column in schema.key.columns]
            order = np.lexsort([part.places for part in parts])
            same = np.ones(max(len(order) - 1, 0), bool)
            for part in parts:
                there = np.array([cell is not None for cell in part.cells], bool)[part.places[order]]
                same &= (part.places[order][1:] == part.places[order][:-1]) & there[1:]
            if same.any():
                first = order[int(np.flatnonzero(same)[0])]
                key = tuple(part.cells[part.places[first]] for part in parts)
                raise SchemaError(f"the public table {name!r} has the key {key!r} twice; a key names one row")
        return rows

    def table(self, name: str) -> Table:
        """Return a table by its name."""
        if name not in self.tables:
            raise SchemaError(f"the database {self.name!r} has no table {name!r}; {nearest(str(name), self.tables)}")
        return self.tables[name]

    def schema(self, name: str) -> Schema:
        """Return the declarations of a table."""
        return self.table(name).schema

    def is_public(self, name: str) -> bool:
        """Return whether everyone may see the rows of a table."""
        return self.table(name).is_public

    def private(self) -> tuple[str, ...]:
        """Return the names of the private tables."""
        return tuple(name for name, table in self.tables.items() if not table.is_public)

    @property
    def persons_are_whole(self) -> bool:
        """Whether all ids of persons are whole numbers of 64 bits, by the types of their columns."""
        return all(self._is_whole(name, table.schema.person.name) for name, table in self._with_person_id())

    def keys_are_whole(self, name: str) -> tuple[bool, ...]:
        """Return whether the key of a table and all that name it are whole numbers of 64 bits, for each part."""
        ways = [(name, self._key_of(name).columns), *self._leading_to(name)]
        return tuple(all(self._is_whole(of, columns[part]) for of, columns in ways) for part in range(len(ways[0][1])))

    def _is_whole(self, name: str, column: str) -> bool:
        return self.tables[name].rows.types[column].native.lower() in _WHOLE

    def person_path(self, name: str) -> tuple[str, ...]:
        """Return the tables from a private one to that which names the person."""
        path = [name]
        while (via := self.schema(path[-1]).via) is not None:
            path.append(via.to)
        return tuple(path)

    def person_column(self, name: str) -> PersonId:
        """Return the declaration of the column in which the path of a private table ends."""
        person = self.schema(self.person_path(name)[-1]).person
        assert person is not None
        return person

    def own_person(self, name: str) -> PersonId | None:
        """Return the column in which a table names its person itself; None if it has none."""
        schema = self.schema(name)
        return None if schema.via is not None else schema.person

    def max_rows(self, name: str) -> int:
        """Return how many rows of one person count in a private table."""
        via = self.schema(name).via
        return self.person_column(name).max_rows if via is None else via.max_rows

    def owner_name(self, name: str) -> str:
        """Return what the column of owners is called in a view: the path to the person."""
        return ".".join([*self.person_path(name)[1:], self.person_column(name).name])

    def paths(self) -> dict[str, str]:
        """Return how the person of each table is found, in words for the ledger."""
        found: dict[str, str] = {}
        for name, table in self.tables.items():
            via = table.schema.via
            if table.is_public:
                found[name] = PUBLIC
            elif via is not None:
                found[name] = f"via {_written(via.columns)} to {via.to} by {_written(self._key_of(via.to).columns)}"
            else:
                person = self.person_column(name)
                read = [each for each in ("casefold", "strip") if getattr(person, each)]
                read += [f"without {_written(person.missing_texts)}"] if person.missing_texts else []
                found[name] = " ".join(["person", _written((person.name,)), *read])
        return found

    def links_of(self, name: str) -> tuple[tuple[tuple[str, ...], str], ...]:
        """Return the columns by which rows of a table name rows of others, and the table, each once."""
        links = (link for link in self.schema(name).links if isinstance(link, (Reference, PersonVia)))
        return tuple(dict.fromkeys((link.columns, link.to) for link in links))

    def date_of(self, name: str) -> Date | None:
        """Return the column that dates the rows of a table, or those that its path to the person ends at."""
        if self.window is None or self.is_public(name):
            return None
        end = self.person_path(name)[-1]
        column = self.window.dates.get(end)
        return next((each for each in self.schema(end).columns if each.name == column and isinstance(each, Date)), None)

    def dates(self) -> dict[str, Date | None]:
        """Return the column that dates the rows of each private table."""
        return {name: self.date_of(name) for name in self.private()}

    def window_text(self) -> str | None:
        """Return the periods in words for the ledger; None if there are none."""
        return None if self.window is None else self.window.described(self._declared())

    def _declared(self) -> dict[str, Schema | None]:
        return {name: None if table.is_public else table.schema for name, table in self.tables.items()}

    # --- paths of lookups ---------------------------------------------------------------------------------------------

    def steps(self, name: str) -> Iterator[Step]:
        """Return the steps that lead from a table to rows of others: references, its own path, and the person."""
        links = self.links_of(name)
        targets = [to for _, to in links]
        for columns, to in links:
            yield Step("key", columns, to, to if targets.count(to) == 1 else "+".join(columns))
        if self.is_public(name):
            return
        for other in self.private():
            if other != name and other not in targets and self.max_rows(other) == 1:
                yield Step("person", (), other, other)

    def find(self, base: str, name: str) -> FoundColumn | None:
        """Return the column that a name means in a view of a table; None if it is none of its own and no path's.

        A path may be written in full, also around a circle; its last parts suffice where one shortest path has them.
        """
        whole = self._whole_path(base, name)
        if whole is not None:
            return whole
        fitting = [each for each in self._all_paths(base) if f".{each.name}".endswith(f".{name}")]
        shortest = [each for each in fitting if len(each.steps) == min(len(other.steps) for other in fitting)]
        if len(shortest) > 1:
            raise SchemaError(
                f"{name!r} may mean {' or '.join(repr(each.name) for each in shortest)} in a view of {base!r}; "
                "write one of them in full"
            )
        return shortest[0] if shortest else None

    def steps_to(self, base: str, path: str) -> tuple[Step, ...]:
        """Return the steps of a path that ends at a table, written in full: "orders.customer"; () where it is none."""
        for step in self.steps(base):
            if path == step.name:
                return (step,)
            if path.startswith(f"{step.name}."):
                rest = self.steps_to(step.to, path[len(step.name) + 1 :])
                if rest:
                    return (step, *rest)
        return ()

    def known(self, base: str) -> tuple[str, ...]:
        """Return the names of all columns that a view of a table can have, without those behind circles."""
        return tuple(each.name for each in self._all_paths(base))

    def _whole_path(self, base: str, name: str) -> FoundColumn | None:
        own = next((each for each in self.schema(base).columns if each.name == name), None)
        if own is not None:
            return FoundColumn((), own) if not isinstance(own, PersonId) else None
        for step in self.steps(base):
            if name.startswith(f"{step.name}."):
                rest = self._whole_path(step.to, name[len(step.name) + 1 :])
                if rest is not None:
                    return FoundColumn((step, *rest.steps), rest.column)
        return None

    def _all_paths(
        self, base: str, before: tuple[str, ...] = (), steps: tuple[Step, ...] = ()
    ) -> Iterator[FoundColumn]:
        for column in self.schema(base).columns:
            if not isinstance(column, PersonId):
                yield FoundColumn(steps, column)
        for step in self.steps(base):
            if step.to != base and step.to not in before:
                yield from self._all_paths(step.to, (*before, base), (*steps, step))

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_table(self, name: str, table: Any) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise SchemaError(f"a table of a database has a name without a dot, got {name!r}")
        if not isinstance(table, Table):
            raise SchemaError(f"a database holds sl.Table(...), got {type(table).__name__} as {name!r}")
        if not (table.hands_rows_over or isinstance(table.rows, BringsRows)):
            raise SchemaError(
                f"the table {name!r} is read by {table.engine}, which only adds rows up where they are; owners and "
                "lookups are found here: write the table to Parquet and give the folder"
            )
        if table.database not in (None, self.name) and not table.is_public:
            raise SchemaError(
                f"the table {name!r} is part of the database {table.database!r} already: two budgets for the same "
                "people add up. Give both databases one name, or put all tables into one"
            )
        schema = table.schema
        if not table.is_public and schema.via is None and schema.person is None:
            raise SchemaError(
                f"the private table {name!r} has no path to a person; declare sl.PersonId(...) or sl.PersonVia(..., "
                "to=...), or public=True if everyone may see its rows"
            )
        for link in schema.links:
            if isinstance(link, Key):
                continue
            if link.to not in self.tables:
                raise SchemaError(f"{name!r} leads to a table {link.to!r}; {nearest(link.to, self.tables)}")
            target = self.tables[link.to]
            if target.schema.key is None:
                raise SchemaError(f"{name!r} leads to {link.to!r}, which declares no sl.Key(...)")
            if len(target.schema.key.columns) != len(link.columns):
                raise SchemaError(
                    f"{name!r} names rows of {link.to!r} by {len(link.columns)} column(s), and its key has "
                    f"{len(target.schema.key.columns)}"
                )
            if table.is_public and not target.is_public:
                raise SchemaError(f"the public table {name!r} leads to the private {link.to!r}; public ones may not")
            if isinstance(link, PersonVia) and target.is_public:
                raise SchemaError(f"{name!r} looks for its person in {link.to!r}, which is public and has none")
        tied = {column for link in schema.links for column in link.columns}
        for column in schema.columns:
            if column.name in tied and column.reading is not None:
                raise SchemaError(
                    f"column {column.name!r} of {name!r} is part of a key, which is compared letter for letter, and "
                    "declares how texts are read; leave strip, casefold, aliases and the like out"
                )

    def _check_path(self, name: str) -> None:
        if self.is_public(name):
            return
        seen = [name]
        while (via := self.schema(seen[-1]).via) is not None:
            if via.to in seen:
                raise SchemaError(
                    f"the path from {name!r} to the person goes in a circle: {' -> '.join([*seen, via.to])}"
                )
            seen.append(via.to)

    def _check_persons(self) -> None:
        if not self.private():
            raise SchemaError("a database has at least one private table, with sl.PersonId(...)")
        ends = {self.person_path(name)[-1] for name in self.private()}
        first, *others = sorted(ends)
        one = self.person_column(first)
        for other in others:
            person = self.person_column(other)
            same = ("casefold", "strip", "missing_texts")
            if any(getattr(one, part) != getattr(person, part) for part in same):
                raise SchemaError(
                    f"the ids of {first!r} and {other!r} are read in two ways, so that one person could become two; "
                    "declare the same casefold, strip and missing_texts"
                )

    def _check_kinds(self) -> None:
        persons = [(name, (table.schema.person.name,)) for name, table in self._with_person_id()]
        self._check_one_kind("ids of persons", persons)
        for name, table in self.tables.items():
            if table.schema.key is None:
                continue
            self._check_one_kind(f"keys of {name!r}", [(name, table.schema.key.columns), *self._leading_to(name)])

    def _leading_to(self, name: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return the columns by which rows of other tables, or of the same, name the key of a table."""
        return [
            (other, link.columns)
            for other, each in self.tables.items()
            for link in each.schema.links
            if not isinstance(link, Key) and link.to == name
        ]

    def _check_one_kind(self, what: str, columns: Sequence[tuple[str, tuple[str, ...]]]) -> None:
        for place in range(len(columns[0][1])):
            names = [(table, named[place]) for table, named in columns]
            check_one_kind(what, {f"{one}.{two}": self.tables[one].rows.types[two] for one, two in names})

    def _with_person_id(self) -> Iterator[tuple[str, Any]]:
        for name in self.private():
            if self.schema(name).via is None:
                yield name, self.tables[name]

    def _key_of(self, name: str) -> Key:
        key = self.schema(name).key
        assert key is not None
        return key

    def __repr__(self) -> str:
        return f"LinkedTables({self.name!r}, tables={list(self.tables)})"


def _written(columns: tuple[str, ...]) -> str:
    return "+".join(columns)
