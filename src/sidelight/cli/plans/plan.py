"""`Plan`: what a plan file says, checked as far as that is possible without the data."""

from __future__ import annotations

import datetime
import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from glob import glob
from html import escape
from pathlib import Path
from typing import Any, Final, Literal

from sidelight.accounting import ROUTES, Route
from sidelight.errors import PlanError, SourceError, nearest
from sidelight.guarantees import Claim, Unit, parse_claim
from sidelight.plan_section import Amount, Section, key_lines
from sidelight.records import Category, Date, Drop, Fill, Label, Number, PersonId, Schema, Table
from sidelight.records.engines import check_local, is_postgres
from sidelight.registry import PLAN_KINDS, plan_reader
from sidelight.session import Prepared, Query, request_key
from sidelight.session.query import prepare_query

#: The tables of a plan that stand once, and their keys.
TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "source": ("path", "name", "records", "table", "engine"),
    "budget": ("epsilon", "delta", "rho", "mu", "routes"),
    "ledger": ("url", "scope"),
    "pricing": ("queries", "delta"),
}


@dataclass(frozen=True, kw_only=True)
class PlannedQuery:
    """A query of the plan, fitted to the plan's schema, and what the plan calls it."""

    title: str
    query: Query
    prepared: Prepared


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Source, schema, budget, ledger and queries; a function of the plan file alone."""

    title: str
    source: Path
    records: Literal["standard", "lines"]  # what a record of a CSV source is
    table: str | None  # of a DuckDB file, or a PostgreSQL database
    engine: Literal["spark"] | None  # what reads the source, where its path does not say
    url: str | None = field(repr=False)  # of a PostgreSQL database, or a source that only Spark can open
    name: str
    schema: Schema
    budget: Claim
    routes: tuple[Route, ...] | None
    ledger: str | None
    scope: str
    strict: bool
    together_at: Amount | None  # the delta at which all queries are priced as one batch; None: each by itself
    queries: tuple[PlannedQuery, ...]

    def open_table(self) -> Table:
        """Open the source with its schema; reads no row."""
        return Table(
            self.source if self.url is None else self.url,
            schema=self.schema,
            name=self.name,
            records=self.records,
            table=self.table,
            engine=self.engine,
        )

    def _repr_html_(self) -> str:
        """Return the queries with their guarantees, for a notebook."""
        cells = ((each.title, str(each.prepared.claims.strongest)) for each in self.queries)
        rows = "".join(f"<tr><th scope='row'>{escape(title)}</th><td>{escape(cost)}</td></tr>" for title, cost in cells)
        return f"<table><caption>{escape(f'{self.title} · budget {self.budget}')}</caption>{rows}</table>"

    @property
    def digest(self) -> str:
        """A name for what is asked and what it costs: schema, queries and pricing; not titles, paths or the data."""
        content: dict[str, Any] = {
            "schema": self.schema.to_json(),
            "queries": [
                {"request": dict(each.prepared.request), "claims": each.prepared.claims.to_json()}
                for each in self.queries
            ],
            "together_at": None if self.together_at is None else str(self.together_at),
        }
        if self.records != "standard":  # another unit is protected
            content["records"] = self.records
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def key(self, position: int, *, label: str) -> str:
        """The idempotency key of one query of this plan under a run label."""
        return request_key(self.digest, str(position), label)


def read_plan(path: Path | str, *, ask: Query | None = None, from_rows: bool = False) -> Plan:
    """Read and check a plan file; every mistake is a `PlanError` that says where it stands.

    Args:
        path: The file.
        ask: A query that is asked instead of the plan's own, which may then be missing.
        from_rows: Whether declarations that were read from private rows may stand: for `sidelight init` alone.
    """
    whole, folder = read_tables(path)
    if "sequence" in whole:
        whole.refuse("this plan releases day by day; use `sidelight today PLAN --day ...`", key="sequence")
    return _plan(whole, folder=folder, ask=ask, from_rows=from_rows)


def read_tables(path: Path | str) -> tuple[Section, Path]:
    """Read a TOML file as a checked section, with the folder that its paths start from."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlanError(f"the plan {str(path)!r} cannot be read: {reason}; name a TOML file") from None
    try:
        values = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, ArithmeticError, RecursionError) as error:
        raise PlanError(f"{path.name}: not valid TOML: {error}") from None
    folder = path.absolute().parent
    return Section(path.name, key_lines(text), (), values, folder), folder


def _plan(whole: Section, *, folder: Path, ask: Query | None, from_rows: bool) -> Plan:
    whole.only("title", "strict", "source", "column", "budget", "ledger", "pricing", "query")
    source = whole.section("source").only(*TABLES["source"])
    engine: Literal["spark"] | None = source.choice("engine", ["spark"], "spark") if "engine" in source else None
    given = source.text("path")
    url = given if is_postgres(given) or (engine == "spark" and "://" in given) else None
    check_path(source, engine=engine)
    budget = whole.section("budget").only(*TABLES["budget"])
    ledger = whole.section("ledger").only(*TABLES["ledger"]) if "ledger" in whole else None
    file = folder / (source.text("table") if is_postgres(given) else given)  # an address may hold a password
    name = source.text("name", source.text("table") if "table" in source else file.stem)
    schema = read_schema(whole, from_rows=from_rows)
    queries = whole.sections("query") if "query" in whole else []
    if not queries and ask is None:
        whole.refuse("the plan asks nothing; add a [[query]] table")
    promised = read_budget(budget, unit=schema.unit)
    if ask is not None:
        planned: tuple[PlannedQuery, ...] = (_asked(ask, schema),)
    else:
        planned = tuple(_planned(section, schema, source=file) for section in queries)
    return Plan(
        title=whole.text("title", name),
        source=file,
        records=read_records(source),
        table=source.text("table") if "table" in source else None,
        engine=engine,
        url=url,
        name=name,
        schema=schema,
        budget=promised,
        routes=read_routes(budget),
        ledger=None if ledger is None else ledger_url(ledger.text("url"), folder=folder),
        scope=name if ledger is None else ledger.text("scope", name),
        strict=whole.flag("strict", default=False),
        together_at=None if ask is not None else _together_at(whole, budget=promised, queries=planned),
        queries=planned,
    )


def check_path(source: Section, *, engine: Literal["spark"] | None = None) -> None:
    """Refuse a URL, which would be looked for among the files beside the plan; PostgreSQL goes with a table.

    Spark (`engine`) reads URLs of its own.
    """
    try:
        table = source.text("table") if "table" in source else None
        check_local(source.text("path"), table=table, engine=engine)
        return
    except SourceError as error:
        words = str(error)
    source.refuse(words, key="path")


def read_records(source: Section) -> Literal["standard", "lines"]:
    """Read what a record of a CSV source is: what standard writers write, or every line."""
    found: Literal["standard", "lines"] = source.choice("records", ["standard", "lines"], "standard")
    return found


def read_budget(section: Section, *, unit: Unit) -> Claim:
    """Read the budget; it protects what the schema declares: a row, or a person with their rows."""
    amounts = {key: section.amount(key) for key in ("epsilon", "delta", "rho", "mu") if key in section}
    if not amounts:
        section.refuse("the budget is empty; write epsilon = 1, or epsilon and delta, or rho, or mu")
    with section.naming():
        return parse_claim(amounts).under(unit=unit)


def read_routes(section: Section) -> tuple[Route, ...] | None:
    """Read the ways of adding up, if the plan names them."""
    if "routes" not in section:
        return None
    given = section.texts("routes")
    for route in given:
        if route not in ROUTES:
            section.refuse(f"unknown route {route!r}; {nearest(route, ROUTES)}", key="routes")
    return tuple(given)


def _together_at(whole: Section, *, budget: Claim, queries: Sequence[PlannedQuery]) -> Amount | None:
    if "pricing" not in whole:
        return None
    from sidelight.cli.plans.pricing import together_at  # loaded by the plans that ask for it

    pricing = whole.section("pricing").only(*TABLES["pricing"])
    return together_at(pricing, budget=budget, claims=[each.prepared.claims for each in queries])


def _planned(section: Section, schema: Schema, *, source: Path) -> PlannedQuery:
    _refuse_private_rows(section, source=source)
    kind = section.choice("kind", PLAN_KINDS)
    with section.naming():
        query: Query = plan_reader(kind)(section)
        prepared = prepare_query(query, schema)
    return PlannedQuery(title=section.text("title", _title(prepared.request)), query=query, prepared=prepared)


def _asked(query: Query, schema: Schema) -> PlannedQuery:
    prepared = prepare_query(query, schema)
    return PlannedQuery(title=_title(prepared.request), query=query, prepared=prepared)


def _refuse_private_rows(section: Section, *, source: Path) -> None:
    """Refuse a prediction that names the plan's own source: these rows are private, whatever the plan calls them."""
    given: Any = section.values.get("prediction")
    for prediction in given if isinstance(given, list) else [given]:
        name = prediction.get("public") if isinstance(prediction, dict) else None
        if not isinstance(name, str):
            continue
        public = section.folder / name
        if public == source or (public.exists() and any(public.samefile(each) for each in _files(source))):
            section.refuse(
                f"public names {name!r}, the private source of this plan; a prediction from the private rows would "
                "void the guarantee",
                key="prediction",
            )


def _files(source: Path) -> list[Path]:
    """Return the files of a source, which may be a pattern."""
    return [source] if source.exists() else [Path(each) for each in glob(str(source)) if Path(each).exists()]


def _title(request: Mapping[str, Any]) -> str:
    if "statement" in request:
        return str(request["statement"])
    column = request.get("column")
    column = ", ".join(map(str, column)) if isinstance(column, list) else column
    kind = str(request["kind"]).replace("_", " ").capitalize()
    return f"{kind} of {column}" if column else kind


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


# `[[column]]` of a plan: the public schema, one table a column.

Column = Number | Category | Label | PersonId
#: Keys of every column; `read_schema` reads the last.
_EVERY = ("kind", "name", "from_rows")


def read_schema(whole: Section, *, from_rows: bool = False) -> Schema:
    """Read all columns; refuse those that were read from private rows and not confirmed, unless `from_rows`."""
    sections = whole.sections("column") if "column" in whole else []
    unconfirmed = [section for section in sections if section.flag("from_rows", default=False)]
    if unconfirmed and not from_rows:
        names = ", ".join(repr(section.text("name")) for section in unconfirmed)
        unconfirmed[0].refuse(
            f"the declarations of {names} were read from private rows, and what is released would publish them. "
            "Replace bounds, labels and limits by what is public, true of everybody and not of these rows; then remove "
            "the line `from_rows = true` from each",
            key="from_rows",
        )
    if not sections:
        whole.refuse("the schema is empty; declare the columns that the queries use, each as a [[column]] table")
    columns = [_column(section) for section in sections]
    seen: dict[str, Section] = {}
    for column, section in zip(columns, sections, strict=True):
        if column.name in seen:
            section.refuse(f"column {column.name!r} was declared before, at {seen[column.name].place()}", key="name")
        seen[column.name] = section
    with whole.naming():
        return Schema(columns)


def _column(section: Section) -> Column:
    kind = section.choice("kind", list(COLUMN_KINDS), "number")
    with section.naming():
        return COLUMN_KINDS[kind](section)


def _number(section: Section) -> Number:
    section.only(*_EVERY, "lower", "upper", "granularity", "missing")
    return Number(
        section.text("name"),
        lower=section.amount("lower", None),
        upper=section.amount("upper", None),
        granularity=section.amount("granularity", None),
        **_missing(section, number=True),
    )


def _date(section: Section) -> Date:
    section.only(*_EVERY, "start", "end", "unit", "missing")
    return Date(
        section.text("name"),
        start=_day(section, "start"),
        end=_day(section, "end"),
        unit=section.choice("unit", ["day", "hour"], "day"),
        **_missing(section, number=False),
    )


def _day(section: Section, key: str) -> str:
    """Read a date: a text, or one that TOML knows as such."""
    given = section.values.get(key)
    return given.isoformat() if isinstance(given, datetime.date) else section.text(key)


def _category(section: Section) -> Category:
    section.only(*_EVERY, "categories", "other", "missing", "per_person")
    given: dict[str, Any] = _missing(section, number=False)
    if section.values.get("other") is False:
        given["other"] = None  # rows with a label that is not listed are dropped
    elif "other" in section:
        given["other"] = section.text("other")
    if "per_person" in section:
        given["per_person"] = section.integer("per_person")
    return Category(section.text("name"), section.labels("categories"), **given)


def _label(section: Section) -> Label:
    section.only(*_EVERY, "casefold", "missing", "per_person")
    given: dict[str, Any] = _missing(section, number=False)
    if "per_person" in section:
        given["per_person"] = section.integer("per_person")
    if "casefold" in section:
        given["casefold"] = section.flag("casefold", default=False)
    return Label(section.text("name"), **given)


def _person(section: Section) -> PersonId:
    section.only(*_EVERY, "max_rows")
    return PersonId(section.text("name"), max_rows=section.integer("max_rows"))


def _missing(section: Section, *, number: bool) -> dict[str, Any]:
    """Read `missing = "drop"` or `missing = {fill = 0}`; left out, the column's own default stands."""
    if "missing" not in section:
        return {}
    if section.values["missing"] == "drop":
        return {"missing": Drop()}
    if not isinstance(section.values["missing"], dict):
        section.refuse('missing must be "drop" or {fill = a public value}', key="missing")
    fill = section.section("missing").only("fill")
    return {"missing": Fill(fill.amount("fill") if number else fill.text("fill"))}


#: How a column of each kind is read.
COLUMN_KINDS: dict[str, Callable[[Section], Column]] = {
    "number": _number,
    "date": _date,
    "category": _category,
    "label": _label,
    "person": _person,
}
