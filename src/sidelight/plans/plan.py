"""`Plan`: what a plan file says, checked as far as that is possible without the data."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from sidelight.accounting import Route
from sidelight.errors import PlanError, RangeError
from sidelight.guarantees import Claim, Neighbours, PersonPeriod, Unit, claims_like, parse_claim
from sidelight.plans.columns import COLUMN_TABLE, read_schema
from sidelight.plans.forms import FLAG, TEXT, KeyForm, list_of, map_of
from sidelight.plans.queries import PRICING, query_table, read_query, title_of, together_at
from sidelight.plans.section import FolderResolver, Section
from sidelight.plans.sources import (
    ALL_ROWS,
    BUDGET,
    DATABASE,
    DATABASE_TABLE,
    LEDGER,
    ROWS,
    SOURCE,
    VIEW,
    WINDOW,
    WINDOW_BUDGET,
    AskedRows,
    PlannedDatabase,
    PlannedTable,
    keys_of,
    read_common_budget,
    read_database,
    read_ledger,
    read_rows,
    read_source,
)
from sidelight.plans.tables import TaggedForm, section_of, table_of
from sidelight.plans.toml_text import key_lines
from sidelight.readable import shown_html
from sidelight.records import PairedView, Schema, View
from sidelight.records.views import counted_in
from sidelight.registry import BY_KIND, PLAN_KINDS
from sidelight.session import CommonBudget, Prepared, PublisherFacts, Query, request_key
from sidelight.session.persons_and_periods import at_share, check_window_budget, names_in, prepared_for
from sidelight.session.query import PublicSource, prepare_query

DISCLOSURE = table_of(PublisherFacts)


def _check_data(whole: Section) -> None:
    """Refuse a plan that names no data, or a table and a database."""
    several = "database" in whole.values
    if not several and "source" not in whole.values:
        whole.refuse("'source' is missing; write [source] and its keys below, or [database] for several tables")
    for key in ("source", "column") if several else ("table", "view", "window"):
        if key in whole.values:
            whole.refuse(f"{key} {'does not go with' if several else 'belongs to'} [database]; leave it out", key=key)


#: The whole file; `[[query]]` and `[sequence]` are read later.
PLAN = replace(
    keys_of(
        "budget",
        title=TEXT,
        strict=FLAG,
        source=section_of(SOURCE.schema),
        column=list_of(section_of(COLUMN_TABLE.schema)),
        database=section_of(DATABASE.schema),
        table=map_of(section_of(DATABASE_TABLE.schema)),
        view=list_of(section_of(VIEW.schema)),
        window=section_of(WINDOW.schema),
        budget=section_of(BUDGET.schema),
        ledger=section_of(LEDGER.schema),
        pricing=section_of(PRICING.schema),
        disclosure=section_of(DISCLOSURE.schema),
        query=list_of(section_of()),
        sequence=section_of(),
    ),
    check=_check_data,
)


@dataclass(frozen=True, kw_only=True)
class PlannedQuery:
    """A query of the plan, fitted to what it reads, and what the plan calls it.

    `prepared` is what is charged. On a view of a database that is `fitted`, the query as the view's schema has it, with
    its claims restated for a person.
    """

    title: str
    query: Query
    prepared: Prepared
    fitted: Prepared
    schema: Schema
    of: View | PairedView | None = None
    rows: str | None = None  # the table or view of a database that `from` names

    @property
    def asked(self) -> Any:
        """The query as `fitted` has it: on a view that is capped by period, at its share of the price."""
        return self.query if self.of is None else at_share(self.query, self.of)


@dataclass(frozen=True, kw_only=True)
class PlanHead:
    """What all plans have: the data, the budget and the ledger."""

    title: str
    data: PlannedTable | PlannedDatabase
    budget: Claim
    routes: tuple[Route, ...] | None
    ledger: str | None
    scope: str
    strict: bool
    window_budget: Claim | None = None
    parent: CommonBudget | None = None

    @property
    def name(self) -> str:
        """The public name of the data."""
        return self.data.name

    @property
    def files(self) -> tuple[str, ...]:
        """The paths, folders and patterns of all files that rows are read from."""
        return self.data.files

    @property
    def one(self) -> PlannedTable:
        """The one table of the plan.

        Raises:
            PlanError: it has a database.
        """
        if isinstance(self.data, PlannedDatabase):
            raise PlanError(f"the plan is of the database {self.name!r}, and this takes a plan with one [source]")
        return self.data

    @property
    def schema(self) -> Schema:
        """What is declared of the one table."""
        return self.one.schema

    @property
    def records(self) -> Literal["standard", "lines"]:
        """What a record of the one CSV source is."""
        return self.one.records


@dataclass(frozen=True, kw_only=True)
class Plan(PlanHead):
    """Source, schema, budget, ledger and queries; a function of the plan file alone."""

    together_at: int | Decimal | str | None  # the delta at which all queries are one batch; None: each by itself
    queries: tuple[PlannedQuery, ...]

    def _repr_html_(self) -> str:
        """Return the queries with their guarantees, for a notebook."""
        cells = ((each.title, str(each.prepared.claims.strongest)) for each in self.queries)
        rows = "".join(
            f"<tr><th scope='row'>{shown_html(title)}</th><td>{shown_html(cost)}</td></tr>" for title, cost in cells
        )
        return f"<table><caption>{shown_html(f'{self.title} · budget {self.budget}')}</caption>{rows}</table>"

    @property
    def digest(self) -> str:
        """A name for what is asked and what it costs: schema, queries and pricing; not titles, paths or the data."""
        content: dict[str, Any] = {
            "schema": self.data.declared(),
            "queries": [
                {"request": dict(each.prepared.request), "claims": each.prepared.claims.to_json()}
                for each in self.queries
            ],
            "together_at": None if self.together_at is None else str(self.together_at),
        }
        odd = {each.name: each.records for each in self.data.tables if each.records != "standard"}
        if odd:  # another unit is protected
            content["records"] = odd if isinstance(self.data, PlannedDatabase) else self.records
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
    whole = read_file(path)
    if "sequence" in whole.values:
        whole.refuse("this plan releases day by day; use `sidelight today PLAN --day ...`", key="sequence")
    given, head = read_head(whole, from_rows=from_rows, several=True)
    data: PlannedTable | PlannedDatabase = head["data"]
    if not given.get("query") and ask is None:
        whole.refuse("the plan asks nothing; add a [[query]] table")
    if ask is not None:
        planned: tuple[PlannedQuery, ...] = (_planned(ask, data),)
    else:
        private = tuple(file for each in data.tables if not each.public for file in each.files)
        resolver = FolderResolver(folder_of(whole), private)
        planned = tuple(_read_planned(section, data, resolver) for section in given["query"])
    head["budget"] = _beside_totals(whole, head["budget"], planned)
    together = None
    if ask is None and "pricing" in given:
        claims = [claims_like(each.prepared.claims, head["budget"]) or each.prepared.claims for each in planned]
        together = together_at(given["pricing"], budget=head["budget"], claims=claims)
        read = {(each.rows, None if each.of is None else (each.of.periods, each.of.cap)) for each in planned}
        if (
            together is not None
            and isinstance(data, PlannedDatabase)
            and (len(read) > 1 or None in {each.rows for each in planned})
        ):
            given["pricing"].refuse('queries = "together" are from one table or view; price these one by one')
    return Plan(together_at=together, queries=planned, **head)


def read_file(path: Path | str) -> Section:
    """Read a TOML file as a section whose names start at its folder."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlanError(f"the plan {str(path)!r} cannot be read: {reason}; name a TOML file") from None
    try:
        values = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:  # a number may be too long, or of too large a size
        raise PlanError(f"{path.name}: not valid TOML: {error}") from None
    return Section(values, path.name, key_lines(text), resolver=FolderResolver(path.absolute().parent))


def folder_of(whole: Section) -> Path:
    """Return the folder of a plan that was read from a file."""
    assert isinstance(whole.resolver, FolderResolver)
    return whole.resolver.folder


def read_head(
    whole: Section, *, from_rows: bool = False, several: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the keys of the file, its tables as sections, and the fields of a `PlanHead`.

    Args:
        whole: The file.
        from_rows: Whether declarations that were read from private rows may stand.
        several: Whether the command takes a `[database]`.
    """
    given, folder = PLAN.read_values(whole), folder_of(whole)
    data: PlannedTable | PlannedDatabase
    if "database" in given:
        if not several:
            whole.refuse("this command takes a plan with one [source], and this one has a [database]", key="database")
        data = read_database(whole, given, folder, from_rows=from_rows)
    else:
        source = read_source(given["source"], folder)
        data = PlannedTable(schema=read_schema(whole, given.get("column", ()), from_rows=from_rows), **source)
    budget = BUDGET.read_values(given["budget"])
    routes = budget.pop("routes", None)
    url, scope = read_ledger(given["ledger"], data, folder) if "ledger" in given else (None, data.name)
    window_budget = None
    if "window" in given and isinstance(data, PlannedDatabase):
        section, window = WINDOW.read_values(given["window"])["budget"], data.linked.window
        assert window is not None
        unit = PersonPeriod(data.name, window.length)
        window_budget = _budget(section, WINDOW_BUDGET.read_values(section), unit=unit)
        life = _budget(given["budget"], budget, unit=data.unit)
        with given["window"].naming():
            check_window_budget(window, life, window_budget, name=data.name, ledger=url is not None)
    return given, {
        "window_budget": window_budget,
        "parent": read_common_budget(given["ledger"], unit=data.unit, name=data.name) if url else None,
        "title": given.get("title", data.name),
        "data": data,
        "budget": _budget(given["budget"], budget, unit=data.unit),
        "routes": None if routes is None else tuple(routes),
        "ledger": url,
        "scope": scope,
        "strict": given.get("strict", False),
    }


def _budget(section: Section, amounts: Mapping[str, Any], *, unit: Unit) -> Claim:
    """Return the budget; it protects what the schema declares: a row, or a person with their rows."""
    if not amounts:
        section.refuse("the budget is empty; write epsilon = 1, or epsilon and delta, or rho, or mu")
    with section.naming():
        return parse_claim(amounts).under(unit=unit)


def _beside_totals(whole: Section, budget: Claim, planned: Sequence[PlannedQuery]) -> Claim:
    """Return the budget for neighbours with the same exact totals, where queries of the plan publish some."""
    kept = {each.prepared.claims.context["kept"]: each.title for each in planned}
    kept.pop("", None)
    if not kept:
        return budget
    if len(kept) > 1:
        whole.refuse(
            f"{' and '.join(map(repr, kept.values()))} publish different totals exactly, and no budget holds given "
            "both; give all queries with invariants the same levels, reasons and hierarchy, or write two plans"
        )
    return budget.under(neighbours=Neighbours.KEPT, kept=next(iter(kept)))


def _read_planned(section: Section, data: PlannedTable | PlannedDatabase, resolver: FolderResolver) -> PlannedQuery:
    values = dict(section.values)
    rows = read_rows(section, values)
    section = replace(section, values=values, resolver=resolver)
    query = read_query(section)
    with section.naming():
        return _planned(query, data, title=values.get("title"), rows=rows)


def _planned(
    query: Query,
    data: PlannedTable | PlannedDatabase,
    *,
    title: str | None = None,
    rows: AskedRows = ALL_ROWS,
) -> PlannedQuery:
    """Prepare a query for what it reads, and refuse one that no file can answer."""
    if isinstance(data, PlannedDatabase):
        return _planned_on_view(query, data, title=title, rows=rows)
    if rows != ALL_ROWS:
        key = "from names a table or view" if rows.name is not None else "within and cap are of periods"
        raise RangeError(f"{key} of a [database], and the plan has one [source]; leave it out")
    schema = data.schema
    prepared = prepare_query(query, schema)
    prepared.check_source(PublicSource(schema=schema, engine="file", in_memory=False))
    title = title or title_of(prepared.request, schema)
    return PlannedQuery(title=title, query=query, prepared=prepared, fitted=prepared, schema=schema)


def _planned_on_view(query: Any, data: PlannedDatabase, *, title: str | None, rows: AskedRows) -> PlannedQuery:
    if hasattr(query, "over"):  # a statement names its tables itself
        if rows.name is not None:
            raise RangeError("a statement names its tables after FROM; leave the key from out")
        query, view = query.over(data.linked)
    elif rows.name is None:
        raise RangeError(f'which rows? Write from = "...", a table or a [[view]] of the database {data.name!r}')
    else:
        view = data.view(rows.name)
    view = rows.narrowed(view).reading(names_in([query]))
    fitted = prepare_query(at_share(query, view), view.schema)
    prepared = prepared_for(fitted, view)
    title = title or str(counted_in(prepared.request["view"], title_of(fitted.request, view.schema)))
    more: dict[str, Any] = {"schema": view.schema, "of": view, "rows": rows.name}
    return PlannedQuery(title=title, query=query, prepared=prepared, fitted=fitted, **more)


def plan_schema(sequence: KeyForm) -> dict[str, Any]:
    """Return the JSON schema of a plan file (draft 2020-12), for editors that complete and check TOML."""
    queries = TaggedForm(tables={kind: query_table(kind) for kind in PLAN_KINDS}).schema()
    for kind, each in zip(PLAN_KINDS, queries["oneOf"], strict=True):
        each["description"] = f"sl.{BY_KIND[kind].name}"
        each["properties"] |= {key: form.schema() for key, (_, form) in ROWS.items()}
    found = PLAN.schema()
    found["oneOf"] = [{"required": ["source"]}, {"required": ["database", "table"]}]
    found["properties"] |= {"query": {"type": "array", "items": queries}, "sequence": sequence.schema()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plan of sidelight",
        "description": "What is released from one source or database under one budget; `sidelight plan` prices it.",
        **found,
    }
