"""`Plan`: what a plan file says, checked as far as that is possible without the data."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any, Literal

from sidelight.accounting import ROUTES, Route, price_batch
from sidelight.errors import ClaimError, PlanError, SourceError
from sidelight.guarantees import ApproxDP, Claim, Claims, Unit, decimal_text, parse_claim, short_text
from sidelight.plans.columns import COLUMN_TABLE, read_schema
from sidelight.plans.forms import AMOUNT, FLAG, TEXT, KeyForm, choice, list_of
from sidelight.plans.queries import query_table, read_query
from sidelight.plans.section import FolderResolver, Section
from sidelight.plans.tables import REQUIRED, PlanKey, TableForm, TaggedForm, section_of, table_of
from sidelight.plans.toml_text import key_lines
from sidelight.records import Schema, Table
from sidelight.records.engines import check_local, is_postgres
from sidelight.registry import BY_KIND, PLAN_KINDS
from sidelight.session import Prepared, PublisherFacts, Query, request_key
from sidelight.session.query import PublicSource, prepare_query


def _table(*required: str, **optional: KeyForm) -> TableForm:
    keys = {key: PlanKey(key, form, REQUIRED if key in required else None) for key, form in optional.items()}
    return TableForm(keys=keys)


_PRICE = {"epsilon": AMOUNT, "delta": AMOUNT, "rho": AMOUNT, "mu": AMOUNT}
SOURCE = _table("path", path=TEXT, name=TEXT, records=choice("standard", "lines"), table=TEXT, engine=choice("spark"))
BUDGET = _table(**_PRICE, routes=list_of(choice(*ROUTES)))
LEDGER = _table("url", url=TEXT, scope=TEXT)
DISCLOSURE = table_of(PublisherFacts)
PRICING = _table(queries=choice("each", "together"), delta=AMOUNT)
#: The whole file; `[[query]]` and `[sequence]` are read later.
PLAN = _table(
    *("source", "budget"),
    title=TEXT,
    strict=FLAG,
    source=section_of(SOURCE.schema),
    column=list_of(section_of(COLUMN_TABLE.schema)),
    budget=section_of(BUDGET.schema),
    ledger=section_of(LEDGER.schema),
    pricing=section_of(PRICING.schema),
    disclosure=section_of(DISCLOSURE.schema),
    query=list_of(section_of()),
    sequence=section_of(),
)


@dataclass(frozen=True, kw_only=True)
class PlannedQuery:
    """A query of the plan, fitted to the plan's schema, and what the plan calls it."""

    title: str
    query: Query
    prepared: Prepared


@dataclass(frozen=True, kw_only=True)
class PlanHead:
    """What all plans have: the name of the data, schema, budget and ledger."""

    title: str
    name: str
    records: Literal["standard", "lines"]  # what a record of a CSV source is
    schema: Schema
    budget: Claim
    routes: tuple[Route, ...] | None
    ledger: str | None
    scope: str
    strict: bool


@dataclass(frozen=True, kw_only=True)
class Plan(PlanHead):
    """Source, schema, budget, ledger and queries; a function of the plan file alone."""

    source: Path
    table: str | None  # of a DuckDB file, or a PostgreSQL database
    engine: Literal["spark"] | None  # what reads the source, where its path does not say
    url: str | None = field(repr=False)  # of a PostgreSQL database, or a source that only Spark can open
    together_at: int | Decimal | str | None  # the delta at which all queries are one batch; None: each by itself
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
    whole = read_file(path)
    if "sequence" in whole.values:
        whole.refuse("this plan releases day by day; use `sidelight today PLAN --day ...`", key="sequence")
    given, head = read_head(whole, from_rows=from_rows)
    source, folder = given["source"], folder_of(whole)
    file = folder / (source["table"] if is_postgres(source["path"]) else source["path"])  # it may hold a password
    if not given.get("query") and ask is None:
        whole.refuse("the plan asks nothing; add a [[query]] table")
    if ask is not None:
        planned: tuple[PlannedQuery, ...] = (_planned(ask, head["schema"]),)
    else:
        resolver = FolderResolver(folder, file)
        planned = tuple(_read_planned(section, head["schema"], resolver) for section in given["query"])
    together = None
    if ask is None and "pricing" in given:
        claims = [each.prepared.claims for each in planned]
        together = _together_at(given["pricing"], budget=head["budget"], claims=claims)
    remote = is_postgres(source["path"]) or (source.get("engine") == "spark" and "://" in source["path"])
    return Plan(
        source=file,
        table=source.get("table"),
        engine=source.get("engine"),
        url=source["path"] if remote else None,
        together_at=together,
        queries=planned,
        **head,
    )


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
    except (tomllib.TOMLDecodeError, ArithmeticError, RecursionError) as error:
        raise PlanError(f"{path.name}: not valid TOML: {error}") from None
    return Section(values, path.name, key_lines(text), resolver=FolderResolver(path.absolute().parent))


def folder_of(whole: Section) -> Path:
    """Return the folder of a plan that was read from a file."""
    assert isinstance(whole.resolver, FolderResolver)
    return whole.resolver.folder


def read_head(whole: Section, *, from_rows: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the keys of the file, other tables than `source` as sections, and the fields of a `PlanHead`."""
    given = PLAN.read_values(whole)
    source = SOURCE.read_values(given["source"])
    try:
        check_local(source["path"], table=source.get("table"), engine=source.get("engine"))
    except SourceError as error:  # a URL, which would be looked for among the files of the folder
        given["source"].refuse(str(error), key="path")
    budget = BUDGET.read_values(given["budget"])
    routes = budget.pop("routes", None)
    ledger = LEDGER.read_values(given["ledger"]) if "ledger" in given else {}
    schema = read_schema(whole, given.get("column", ()), from_rows=from_rows)
    name = source.get("name", source.get("table", (folder_of(whole) / source["path"]).stem))
    return given | {"source": source}, {
        "title": given.get("title", name),
        "name": name,
        "records": source.get("records", "standard"),
        "schema": schema,
        "budget": _budget(given["budget"], budget, unit=schema.unit),
        "routes": None if routes is None else tuple(routes),
        "ledger": ledger_url(ledger["url"], folder=folder_of(whole)) if ledger else None,
        "scope": ledger.get("scope", name),
        "strict": given.get("strict", False),
    }


def _budget(section: Section, amounts: Mapping[str, Any], *, unit: Unit) -> Claim:
    """Return the budget; it protects what the schema declares: a row, or a person with their rows."""
    if not amounts:
        section.refuse("the budget is empty; write epsilon = 1, or epsilon and delta, or rho, or mu")
    with section.naming():
        return parse_claim(amounts).under(unit=unit)


def _read_planned(section: Section, schema: Schema, resolver: FolderResolver) -> PlannedQuery:
    section = replace(section, resolver=resolver)
    query = read_query(section)
    with section.naming():
        return _planned(query, schema, title=section.values.get("title"))


def _planned(query: Query, schema: Schema, *, title: str | None = None) -> PlannedQuery:
    """Prepare a query for the schema, and refuse one that no file can answer."""
    prepared = prepare_query(query, schema)
    prepared.check_source(PublicSource(schema=schema, engine="file", in_memory=False))
    return PlannedQuery(title=title or _title(prepared.request, schema), query=query, prepared=prepared)


#: Statistics of which a title says whether persons or rows count, where persons are declared.
_OF_ROWS = ("mean", "proportion", "variance", "standard_deviation", "histogram", "summary")


def _title(request: Mapping[str, Any], schema: Schema) -> str:
    """Return what a query is called: its kind, of what, by which groups, and whether persons or rows count."""
    if "statement" in request:
        return str(request["statement"])
    kind, column, by = str(request["kind"]), request.get("column"), request.get("by")
    column = ", ".join(map(str, column)) if isinstance(column, list) else column
    title = kind.replace("_", " ").capitalize()
    if column or (kind == "count" and "of" in request):
        title += f" of {column or request['of']}"
    title += f" by {', '.join(map(str, by))}" if isinstance(by, list) and by else ""
    if schema.person is not None and kind in _OF_ROWS:
        once = request.get("of") == "persons" or request.get("max_rows_per_group") == "1"
        title += ", each person once" if once else ", of rows"
    return title


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


def _together_at(section: Section, *, budget: Claim, claims: Sequence[Claims]) -> int | Decimal | str | None:
    """Return the delta at which queries with these claims are priced together; None where each has its own price."""
    pricing = PRICING.read_values(section)
    if pricing.get("queries", "each") == "each":
        if "delta" in pricing:
            section.refuse('delta is for queries = "together"; leave it out, or price them together', key="delta")
        return None
    if "delta" in pricing:
        delta: int | Decimal | str = pricing["delta"]
        return delta
    if not isinstance(budget, ApproxDP):
        section.refuse('queries = "together" prices them at a delta, and this budget has none to choose from; name one')
    with section.naming():
        return _fitting_delta(budget, claims)


def _fitting_delta(budget: ApproxDP, claims: Sequence[Claims]) -> str:
    """Return the delta at which a batch takes the smallest share of the scarcer of the budget's epsilon and delta.

    It is one of a few round parts of the budget's delta, found without the data and without the ledger: the same plan
    is always priced at the same delta.
    """
    shares: dict[Fraction, Fraction] = {}
    for part in (2, 4, 10, 100):
        delta = budget.delta / part
        found = price_batch(claims, delta=delta).claims.approx_at(delta)
        if found is not None:
            shares[delta] = max(found.epsilon / budget.epsilon, Fraction(1, part))
    if not shares:
        raise ClaimError(
            f"no part of the budget's delta {short_text(budget.delta)} gives these queries a price together"
        )
    return decimal_text(min(shares, key=lambda delta: shares[delta]))


def plan_schema(sequence: KeyForm) -> dict[str, Any]:
    """Return the JSON schema of a plan file (draft 2020-12), for editors that complete and check TOML."""
    queries = TaggedForm(tables={kind: query_table(kind) for kind in PLAN_KINDS}).schema()
    for kind, each in zip(PLAN_KINDS, queries["oneOf"], strict=True):
        each["description"] = f"sl.{BY_KIND[kind].name}"
    found = PLAN.schema()
    found["properties"] |= {"query": {"type": "array", "items": queries}, "sequence": sequence.schema()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plan of sidelight",
        "description": "What is released from one source under one budget; `sidelight plan` prices it.",
        **found,
    }
