"""What a plan reads: one `[source]`, or a `[database]` with its `[table.NAME]` and `[[view]]` tables.

Reading a plan opens no private table: its declarations suffice to find views, and to price queries on them. Public
tables are read, as other public files of a plan are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from sidelight.accounting import ROUTES
from sidelight.errors import RangeError, SourceError, nearest
from sidelight.guarantees import PersonOf, Unit, parse_claim
from sidelight.guarantees.units import PeriodLength
from sidelight.ledger.place import parse_place
from sidelight.plans.columns import TIED_COLUMN_TABLE, read_schema
from sidelight.plans.forms import (
    AMOUNT,
    CONDITION,
    FLAG,
    TEXT,
    TEXTS,
    WHOLE,
    KeyForm,
    KeyPlace,
    choice,
    either,
    list_of,
    map_of,
    take,
)
from sidelight.plans.section import Section
from sidelight.plans.tables import REQUIRED, PlanKey, TableForm, section_of
from sidelight.records import Database, PairedView, Schema, Table, View
from sidelight.records.engines import check_local, is_postgres
from sidelight.records.fold import Fold
from sidelight.records.fold_text import fold_text, parse_fold
from sidelight.records.linked_tables import LinkedTables
from sidelight.records.paired_views import PERSON
from sidelight.records.source_files import identities_of, would_be_read
from sidelight.records.views import Cap
from sidelight.records.windows import Window
from sidelight.session import CommonBudget


def keys_of(*required: str, **forms: KeyForm) -> TableForm:
    """Return a table of a plan by the forms of its keys."""
    keys = {key: PlanKey(key, form, REQUIRED if key in required else None) for key, form in forms.items()}
    return TableForm(keys=keys)


_READ = {"path": TEXT, "records": choice("standard", "lines"), "table": TEXT, "engine": choice("spark")}
SOURCE = keys_of("path", **_READ, name=TEXT)
DATABASE = keys_of("name", name=TEXT)
DATABASE_TABLE = keys_of("path", **_READ, public=FLAG, column=list_of(section_of(TIED_COLUMN_TABLE.schema)))


def _fold(place: KeyPlace, value: str) -> Fold:
    with place.section.naming(place.key):
        return parse_fold(value)


_FOLD = KeyForm(
    "a fold in quotes", (str,), {"type": "string"}, _fold, lambda value, _: fold_text(value), python=(Fold,)
)
_PRICE = {"epsilon": AMOUNT, "delta": AMOUNT, "rho": AMOUNT, "mu": AMOUNT}
BUDGET = keys_of(**_PRICE, routes=list_of(choice(*ROUTES)))
WINDOW_BUDGET = keys_of(**_PRICE)
LEDGER = keys_of("url", url=TEXT, scope=TEXT, parent=TEXT, parent_budget=section_of(WINDOW_BUDGET.schema))
WINDOW = keys_of(
    *("length", "start", "end", "dates", "budget"),
    length=choice(*get_args(PeriodLength)),
    start=TEXT,
    end=TEXT,
    dates=map_of(TEXT),
    budget=section_of(WINDOW_BUDGET.schema),
)
_OF_ONE = {"per_person": FLAG, "features": map_of(_FOLD)}
_OF_PAIRS = {"pairs_with": TEXT, "on": either(TEXT, TEXTS), "max_rows": WHOLE}
VIEW = keys_of(*("name", "of"), name=TEXT, of=TEXT, where=CONDITION, columns=TEXTS, **_OF_ONE, **_OF_PAIRS)


def read_common_budget(section: Section, *, unit: Unit, name: str) -> CommonBudget | None:
    """Read what `[ledger]` says of several plans about the same people; None where it says nothing."""
    given = LEDGER.read_values(section)
    parent, budget = given.get("parent"), given.get("parent_budget")
    if parent is None and budget is None:
        return None
    if parent is None or budget is None:
        section.refuse("several plans about the same people have a parent, its name, and its parent_budget: both")
    with section.naming():
        made = CommonBudget(parent, parse_claim(WINDOW_BUDGET.read_values(budget)))
        made.check(unit, scope=given.get("scope", name), ledger=True)
        return made


def _ends(place: KeyPlace, value: Any) -> tuple[str, ...]:
    ends = (value,) if isinstance(value, str) else tuple(value)
    if not 1 <= len(ends) <= 2 or not all(isinstance(each, str) for each in ends):
        place.section.refuse('within is one period, "2024-03", or the first and the last of several', key=place.key)
    return ends


_PERIODS = {"type": "array", "items": {"type": "string"}}
_WITHIN = KeyForm("a period in quotes, or two", (str, list), {"anyOf": [{"type": "string"}, _PERIODS]}, _ends)
#: The keys of a query that say which rows of a database it reads: what they set of `AskedRows`, and their forms.
ROWS: dict[str, tuple[str, KeyForm]] = {
    "from": ("name", TEXT),
    "within": ("within", _WITHIN),
    "cap": ("cap", choice(*get_args(Cap))),
}


@dataclass(frozen=True, kw_only=True)
class AskedRows:
    """The rows of a database that a query of a plan reads: a table or view by its name, and which periods count."""

    name: str | None = None
    within: tuple[str, ...] | None = None
    cap: Cap = "person"

    def narrowed(self, view: View | PairedView) -> View | PairedView:
        """Return a view of these periods."""
        if self.within is None and self.cap != "person":
            raise RangeError("cap is counted for each of some periods; name them by within")
        return view if self.within is None else view.within(*self.within, cap=self.cap)


ALL_ROWS = AskedRows()


def read_rows(section: Section, values: dict[str, Any]) -> AskedRows:
    """Take the keys that say which rows a query reads out of its values."""
    found = {key: each for key, each in ROWS.items() if key in values}
    return AskedRows(
        **{name: take(form, KeyPlace(section, key), values.pop(key)) for key, (name, form) in found.items()}
    )


@dataclass(frozen=True, kw_only=True)
class PlannedTable:
    """Where the rows of one table are, and what is declared of them."""

    name: str
    path: Path
    schema: Schema
    table: str | None = None  # of a DuckDB file, or a PostgreSQL database
    engine: Literal["spark"] | None = None  # what reads the source, where its path does not say
    url: str | None = field(default=None, repr=False)  # of a PostgreSQL database, or what only Spark can open
    records: Literal["standard", "lines"] = "standard"
    public: bool = False

    @property
    def unit(self) -> Unit:
        """What is protected: a row, or a person with their rows."""
        return self.schema.unit

    @property
    def tables(self) -> tuple[PlannedTable, ...]:
        """This one."""
        return (self,)

    @property
    def files(self) -> tuple[str, ...]:
        """The path, folder or pattern of its files, with that of all days of a sequence; none of a server's table."""
        if self.url is not None and not self.url.lower().startswith("file:"):
            return ()
        return with_days(str(self.path) if self.url is None else self.url)

    def declared(self) -> Any:
        """Return what is declared, as JSON values."""
        return self.schema.to_json()

    def digest(self) -> str:
        """Return a name for the declarations."""
        return self.schema.digest()

    def open(self) -> Table:
        """Open the source with its schema; reads no row."""
        return Table(
            self.path if self.url is None else self.url,
            schema=self.schema,
            name=self.name,
            records=self.records,
            table=self.table,
            engine=self.engine,
            public=self.public,
        )

    def unopened(self) -> Table:
        """Return the declarations with no row: pricing a plan does not need the private files."""
        return Table({name: [] for name in self.schema.source_names}, schema=self.schema, name=self.name)


@dataclass(frozen=True, kw_only=True)
class PlannedDatabase:
    """Several tables about the same people, and the views that the plan names."""

    name: str
    tables: tuple[PlannedTable, ...]
    linked: LinkedTables = field(repr=False)
    views: Mapping[str, View | PairedView] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths, folders and patterns of the files of all tables."""
        return tuple(file for each in self.tables for file in each.files)

    @property
    def unit(self) -> Unit:
        """What is protected: a person with all their rows."""
        return PersonOf(self.name)

    def declared(self) -> Any:
        """Return what is declared of each table, as JSON values."""
        return {each.name: each.schema.to_json() | ({"public": "true"} if each.public else {}) for each in self.tables}

    def digest(self) -> str:
        """Return a name for the declarations of all tables."""
        return hashlib.sha256(json.dumps(self.declared(), sort_keys=True).encode()).hexdigest()

    def open(self) -> Database:
        """Open all tables; public ones are read, and no row of the others."""
        return Database({each.name: each.open() for each in self.tables}, name=self.name, window=self.linked.window)

    def view(self, name: str) -> View | PairedView:
        """Return a view by its name, or all rows of a table by its."""
        if name in self.views:
            return self.views[name]
        known = [*self.views, *self.linked.private()]
        if name not in known:
            raise RangeError(
                f"the database {self.name!r} has no view or private table {name!r}; {nearest(name, known)}"
            )
        return View(tables=self.linked, base=name)


def with_days(path: str) -> tuple[str, ...]:
    """Return a path, and the pattern of all its files where it says {day}, as that of a sequence does.

    >>> with_days("people.csv"), with_days("trips-{day}.csv")[1][-20:]
    (('people.csv',), '[0-9]-[0-9][0-9].csv')
    """
    day = "-".join("[0-9]" * digits for digits in (4, 2, 2))
    return (path, path.replace("{day}", day)) if "{day}" in path else (path,)


def ledger_url(url: str, *, folder: Path) -> str:
    """Make the file of a SQLite ledger relative to the plan's folder, not to where the command runs.

    >>> ledger_url("budget.db", folder=Path("/plans")), ledger_url("sqlite:///budget.db", folder=Path("/plans"))
    ('sqlite:////plans/budget.db', 'sqlite:////plans/budget.db')
    """
    prefix = "sqlite:///"
    if "://" in url and not url.startswith(prefix):
        return url
    file = url.removeprefix(prefix)
    return f"{prefix}{folder / file}"


def read_ledger(section: Section, data: PlannedTable | PlannedDatabase, folder: Path) -> tuple[str, str]:
    """Read the address of the ledger, which must be no file of the data, and the name of the account in it."""
    given = LEDGER.read_values(section)
    url = ledger_url(given["url"], folder=folder)
    place = parse_place(url).path
    if place is not None and any(would_be_read(place, file) for file in data.files):
        section.refuse("the ledger would be a file of the data; give it a place outside of their folder", key="url")
    return url, given.get("scope", data.name)


def read_source(section: Section, folder: Path) -> dict[str, Any]:
    """Read `[source]`: the fields of a `PlannedTable` without its schema."""
    values = SOURCE.read_values(section)
    return _placed(section, values, folder, name=values.pop("name", None))


def _placed(section: Section, values: dict[str, Any], folder: Path, *, name: str | None) -> dict[str, Any]:
    path, table = values.pop("path"), values.get("table")
    try:
        check_local(path, table=table, engine=values.get("engine"))
    except SourceError as error:  # a URL, which would be looked for among the files of the folder
        section.refuse(str(error), key="path")
    remote = is_postgres(path) or (values.get("engine") == "spark" and "://" in path)
    file = folder / (str(table) if is_postgres(path) else path)  # an address may hold a password
    return {
        "name": name or (table if table is not None else (folder / path).stem),
        "path": file,
        "url": path if remote else None,
        **values,
    }


def read_database(whole: Section, given: Mapping[str, Any], folder: Path, *, from_rows: bool) -> PlannedDatabase:
    """Read `[database]`, its tables and its views."""
    database = given["database"]
    name = DATABASE.read_values(database)["name"]
    if not given.get("table"):
        whole.refuse("the database has no table; write [table.NAME] with its path, and [[table.NAME.column]] tables")
    tables = []
    for each, section in given["table"].items():
        values = DATABASE_TABLE.read_values(section)
        schema = read_schema(section, values.pop("column", ()), from_rows=from_rows, form=TIED_COLUMN_TABLE)
        tables.append(PlannedTable(schema=schema, **_placed(section, values, folder, name=each)))
    for planned in tables:  # before a public one is read
        same = [each.name for each in tables if planned.public and not each.public and _is_one_source(planned, each)]
        if same:
            given["table"][planned.name].refuse(f"it is the source of {same[0]!r}, which is private", key="path")
    opened = {}
    for planned in tables:
        with given["table"][planned.name].naming():
            opened[planned.name] = planned.open() if planned.public else planned.unopened()
    window = _read_window(given["window"]) if "window" in given else None
    with (database if window is None else given["window"]).naming():
        linked = LinkedTables(opened, name=PersonOf(name).database, window=window)
        linked.check_sources({each.name: each for each in tables}, _is_one_source)  # private tables are not open
    made = PlannedDatabase(name=name, tables=tuple(tables), linked=linked)
    views: dict[str, View | PairedView] = {}
    for section in given.get("view", ()):
        called, view = _read_view(section, linked)
        if called in views or called in linked.tables:
            section.refuse(f"{called!r} is the name of a table or view of this plan already", key="name")
        views[called] = view
    return replace(made, views=views)


def _read_window(section: Section) -> Window:
    values = WINDOW.read_values(section)
    del values["budget"]
    with section.naming():
        return Window(values.pop("length"), **values)


def _is_one_source(one: PlannedTable, other: PlannedTable) -> bool:
    """Return whether two tables are read from one file, or one table of it or of a server."""
    unread = one.public != other.public  # a public table must not lie in a private folder at all
    held: list[set[object]] = [
        {found for file in each.files for found in identities_of(file, unread=unread)} | ({each.url} - {None})
        for each in (one, other)
    ]
    return not held[0].isdisjoint(held[1]) and (one.table == other.table or None in (one.table, other.table))


def _read_view(section: Section, linked: LinkedTables) -> tuple[str, View | PairedView]:
    values = VIEW.read_values(section)
    name, base = values.pop("name"), values.pop("of")
    columns = tuple(values.pop("columns", ()))
    paired = "pairs_with" in values
    for key in _OF_ONE if paired else _OF_PAIRS:
        if values.get(key):
            section.refuse(f"it is for {'views without' if paired else 'pairs, with'} pairs_with", key=key)
    with section.naming():
        if not paired:
            return name, View(
                tables=linked, base=base, grouped=values.pop("per_person", False), columns=columns, **values
            )
        if "max_rows" not in values:
            section.refuse("pairs need max_rows, the most pairs of one person that count", key="max_rows")
        on = values.pop("on", PERSON)
        values |= {"on": on if isinstance(on, str) else tuple(on), "right": values.pop("pairs_with")}
        return name, PairedView(tables=linked, left=base, columns=columns, **values)
