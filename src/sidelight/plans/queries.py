"""`[[query]]` tables: a query of the library from its section of a plan, and the section from the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from sidelight.accounting import price_batch
from sidelight.errors import REMOVED, ClaimError, PlanError
from sidelight.guarantees import ApproxDP, Claim, Claims, decimal_text, short_text
from sidelight.plans.forms import AMOUNT, TEXT, KeyForm, choice
from sidelight.plans.section import FolderResolver, Resolver, Section
from sidelight.plans.sources import keys_of
from sidelight.plans.tables import TableForm, TaggedForm, table_of
from sidelight.records import Schema
from sidelight.registry import BY_KIND, ENTRIES, PLAN_KINDS, load, load_query
from sidelight.session import Query

#: Keys that every query may have.
COMMON: dict[str, KeyForm] = {"kind": TEXT, "title": TEXT}


@cache
def query_table(kind: str) -> TableForm:
    """Return the table of a kind: one definition that reads, writes and describes its sections."""
    keys, made = BY_KIND[kind].plan, load_query(kind)
    assert keys is not None
    if keys.table is not None:
        table: TableForm = load(keys.table)(made)
    else:
        forms = {name: load(form) for name, form in keys.forms.items()}
        table = table_of(made, without=keys.without, names=keys.names, forms=forms, required=keys.required)
    check = table.check if keys.check is None else load(keys.check)
    return replace(table, common=COMMON, check=check, removed=REMOVED.get(made.__name__, {}))


def read_query(section: Section) -> Query:
    """Read the query of a section; every mistake is a `PlanError` that says where it stands."""
    kind = TaggedForm(tables=dict.fromkeys(PLAN_KINDS, TableForm())).tag_of(section)
    query: Query = query_table(kind).read_section(section)
    return query


def write_query(query: Any, *, resolver: Resolver | None = None, title: str | None = None) -> dict[str, Any]:
    """Write the section of a query: `read_query(Section(write_query(query)))` is the same query.

    Args:
        query: A query of a kind that plans know.
        resolver: What names the files and releases in it.
        title: What the plan calls it.

    Returns:
        Texts, whole numbers, `Decimal` numbers, flags, lists and tables, as `tomllib` gives them.

    Raises:
        PlanError: a plan cannot say it.

    >>> from sidelight.summaries.count import Count
    >>> write_query(Count(by="sex", epsilon=0.5, where="age >= 18"))
    {'kind': 'count', 'by': ['sex'], 'where': 'age >= 18', 'epsilon': Decimal('0.5')}
    """
    name = type(getattr(query, "model", query)).__name__
    kind = next((entry.kind for entry in ENTRIES if entry.name == name and entry.plan is not None), None)
    if kind is None:
        raise PlanError(f"a plan has no section for {type(query).__name__}; it knows {', '.join(PLAN_KINDS)}")
    section = {"kind": kind, **({} if title is None else {"title": title})}
    return section | query_table(kind).write(query, resolver or FolderResolver())


#: Statistics of which a title says whether persons or rows count, where persons are declared.
_OF_ROWS = ("mean", "proportion", "variance", "standard_deviation", "histogram", "summary")


def title_of(request: Mapping[str, Any], schema: Schema) -> str:
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


PRICING = keys_of(queries=choice("each", "together"), delta=AMOUNT)


def together_at(section: Section, *, budget: Claim, claims: Sequence[Claims]) -> int | Decimal | str | None:
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
