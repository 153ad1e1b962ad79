"""`sidelight plan`: the cost of a plan, whether it fits, and its expected errors; the data is not opened.

For a database also the tables that a query reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from rich.table import Table as RichTable

from sidelight.accounting import (
    Charge,
    Route,
    Rule,
    Totals,
    advice_on_routes,
    find_remaining,
    find_spent,
    granted_with_routes,
)
from sidelight.accuracy.expected import Expected, expected
from sidelight.cli.answers import note
from sidelight.cli.quoted_accounts import QuotedParent, QuotedPeriods, is_not_there
from sidelight.cli.terminal import console, plain, routes_of, table, tell
from sidelight.errors import FailedError, LedgerError, SidelightError
from sidelight.guarantees import Claim, Claims, Numerics, Row, short_text, worst_numerics
from sidelight.ledger import LedgerEntry, open_ledger
from sidelight.ledger.definition import BUDGETS_ADD_UP
from sidelight.ledger.names import check_spelling, checked_name
from sidelight.plans import Plan, PlannedQuery, read_plan
from sidelight.readable import at_most, percent, shown_text
from sidelight.records import Number
from sidelight.records.fold_text import fold_text
from sidelight.session.persons_and_periods import PeriodCharge
from sidelight.session.query import declared_delta

CONFIDENCE = 0.95
Status = Literal["new", "stored", "unfinished", "too much"]
_STATUS_WORDS = {
    "new": "to be paid",
    "stored": "answered before, free",
    "unfinished": "unfinished, see --resume",
    "too much": "does not fit",
}


@dataclass(frozen=True, kw_only=True)
class PricedCharge:
    """One charge of a plan: a query, or all of them together."""

    title: str
    claims: Claims
    status: Status
    charge: Charge
    before: Totals
    planned: tuple[PlannedQuery, ...]
    period: PeriodCharge | None = None  # the charge to the periods of a window
    short: tuple[Rule, Totals, Charge] | None = None  # the account that refuses it
    refused_by: str = "the budget"


@dataclass(frozen=True, kw_only=True)
class Quote:
    """The price of a plan in the current state of its ledger."""

    rule: Rule
    before: Totals
    after: Totals
    lines: tuple[PricedCharge, ...]
    periods: QuotedPeriods
    parent: QuotedParent
    numerics: Numerics  # of everything that is charged afterwards
    advice: str = ""  # advice where the plan does not fit

    @property
    def refused(self) -> list[PricedCharge]:
        """The charges that would be refused."""
        return [line for line in self.lines if line.status == "too much"]


def quote(plan: Plan, *, label: str, resume: bool = False) -> Quote:
    """Price every charge of the plan in order, as the ledger would decide it now; resumed attempts pay again."""
    rule, before, entries, numerics = account(plan.ledger, plan.scope, budget=plan.budget, routes=plan.routes)
    periods, parent = QuotedPeriods(plan), QuotedParent(plan)
    live = {entry.key: entry for entry in entries if entry.state != "failed"}
    after, lines = before, []
    for position, (title, claims, planned) in enumerate(_charges(plan)):
        found = live.get(plan.key(position, label=label))
        delta = declared_delta(planned[0].query) if plan.together_at is None else None
        charge, stood = rule.charge(claims, totals=after, delta=delta), after
        period = periods.charge(planned, claims, delta=plan.together_at)
        status: Status = "new"
        short: tuple[Rule, Totals, Charge] | None = None
        refused_by = "the budget"
        if found is not None and not (resume and found.state == "reserved"):
            status = "unfinished" if found.state == "reserved" else "stored"
        elif not rule.grants(after, charge):
            status, short = "too much", (rule, after, charge)
        elif period is not None and not periods.grants(period):
            status, short, refused_by = "too much", periods.short(period), "the budget of its periods"
        elif (beyond := parent.short(claims, delta=delta)) is not None:
            status, short, refused_by = "too much", beyond, f"the budget of {parent.name!r}"
        else:
            after = after.plus(charge)
            numerics = worst_numerics(numerics, claims.numerics)
            periods.book(period)
            parent.book(claims, delta=delta)
        lines.append(
            PricedCharge(
                title=title,
                claims=claims,
                status=status,
                charge=charge,
                before=stood,
                planned=planned,
                period=period,
                short=short,
                refused_by=refused_by,
            )
        )
    asked = [line.claims for line in lines if line.status in ("new", "too much")]
    if label and asked:  # those of stored answers stay as they are
        check_spelling(checked_name(label, what="a label"), what="a label")
    refused = any(line.status == "too much" for line in lines)
    advice = f". {advice_on_routes()}" if refused and granted_with_routes(rule, before, *asked) else ""
    accounts: dict[str, Any] = {"periods": periods, "parent": parent, "numerics": numerics}
    return Quote(rule=rule, before=before, after=after, lines=tuple(lines), advice=advice, **accounts)


#: Kinds whose error is in the unit of their column; beyond this share of its range an answer is useless.
_OF_UNIT, _USELESS = ("mean",), 1 / 8


def show_price(path: Path, *, label: str) -> None:
    """Print the price of a plan; a plan that does not fit is an error with status 1."""
    show_quote(read_plan(path), label=label)


def show_quote(plan: Plan, *, label: str) -> None:
    """Print the price of a plan."""
    priced = quote(plan, label=label)
    tell(shown_text(plan.title), style="bold")
    found = [expected(each.asked, each.fitted, each.schema, confidence=CONFIDENCE) for each in plan.queries]
    console().print(_query_table(priced, found))
    for sentence in (*_reading(plan, priced), *_useless(plan, found), *_advice(plan), *_forecasts(plan)):
        tell(sentence)
    tell("")
    tell("What is charged: bookkeeping, not a guarantee", style="bold")
    console().print(route_table(priced.rule, priced.before, priced.after))
    tell("")
    for sentence in _summary(plan, priced):
        tell(sentence)
    note(
        title=plan.title,
        fits=not priced.refused,
        queries=[
            {
                "title": each.title,
                "guarantee": str(each.prepared.claims.strongest),
                "expected": error.to_json(),
                "advice": list(each.fitted.advice),
                "reads": reads(each),
            }
            for each, error in zip(plan.queries, found, strict=True)
        ],
        charges=[
            {
                "title": line.title,
                "guarantee": str(line.claims.strongest),
                "status": line.status,
                "periods": charged_to_periods(line.period),
            }
            for line in priced.lines
        ],
        promised=priced.rule.statement(numerics=priced.numerics),
        left=str(find_remaining(priced.rule, priced.after)).removeprefix("left: "),
    )
    if priced.refused:
        names = ", ".join(repr(line.title) for line in priced.refused)
        raise FailedError(
            f"the plan does not fit its budget: {names}. Nothing was spent; lower epsilon, ask less, or price the "
            f'queries together ([pricing] queries = "together"){priced.advice}'
        )


def _reading(plan: Plan, priced: Quote) -> Iterable[str]:
    """Return sentences on the tables that each query reads, and on charges to the periods of a window."""
    for each in plan.queries:
        if (found := reads(each)) is not None:
            yield reading_sentence(each.title, found)
    for line in priced.lines:
        if (charged := charged_to_periods(line.period)) is not None:
            yield f"{line.title!r} is charged {amount(line.claims)} to the lifetime account, and {charged}."


def _query_table(priced: Quote, errors: Iterable[Expected]) -> RichTable:
    made = table("query", "guarantee", f"within ({CONFIDENCE:.0%})", "")
    following = iter(errors)  # of the queries of all lines, in order
    for line in priced.lines:
        if len(line.planned) > 1:
            for each in line.planned:
                made.add_row(*map(plain, (each.title, each.prepared.claims.strongest, next(following), "")))
        error = str(next(following)) if len(line.planned) == 1 else ""
        made.add_row(*map(plain, (line.title, line.claims.strongest, error, _STATUS_WORDS[line.status])))
    return made


def _useless(plan: Plan, errors: Iterable[Expected]) -> Iterable[str]:
    """Name the queries whose forecast error is a large share of the declared range."""
    for planned, error in zip(plan.queries, errors, strict=True):
        numbers = {each.name: each for each in planned.schema.columns if isinstance(each, Number)}
        column = numbers.get(str(planned.prepared.request.get("column")))
        if planned.prepared.request["kind"] not in _OF_UNIT or column is None:
            continue
        if column.lower is not None and column.upper is not None and error.basis != "nothing":
            width = float(column.upper - column.lower)
            if error.usual > _USELESS * width:
                yield (
                    f"USELESS AT THIS PRICE: {planned.title!r} may be off by {at_most(error.usual)}, and the "
                    f"declared range of {column.name} is {at_most(width)} wide. Ask for fewer numbers at a higher "
                    "price each, for fewer groups, or for persons instead of rows."
                )


def _advice(plan: Plan) -> Iterable[str]:
    """Return advice of queries before they are charged."""
    for planned in plan.queries:
        for sentence in planned.fitted.advice:
            yield f"{planned.title!r}: {sentence}"


def _forecasts(plan: Plan) -> Iterable[str]:
    """Forecast the accuracy of each model on new rows, from public numbers and its prediction."""
    for planned in plan.queries:
        asked = planned.asked
        if hasattr(asked, "forecast"):
            try:
                yield f"Forecast of {planned.title!r} on new rows: {asked.forecast(planned.schema)}."
            except Exception as error:  # a forecast may fail: no private row is read
                why = f" ({error})" if isinstance(error, SidelightError) else ""
                yield f"Forecast of {planned.title!r}: none{why}."


def route_table(rule: Rule, before: Totals, after: Totals) -> RichTable:
    """Show, for each route, earlier charges, those of this plan, and the limit of the budget."""
    amounts = ("before", "this plan", "afterwards", "of", "used")
    made = table("added up by", *amounts, numbers=amounts)
    earlier = dict(routes_of(find_spent(rule, before)))
    for name, new in routes_of(find_spent(rule, after)):
        used = percent(new.fraction, decimals=1) if new.open else "closed"
        old = earlier[name].total if name in earlier else Fraction(0)  # a route may begin with this plan
        cells = (old, new.total - old, new.total, new.capacity)
        made.add_row(*map(plain, (name, *map(short_text, cells), used)))
    return made


def _summary(plan: Plan, priced: Quote) -> Iterable[str]:
    yield f"Guarantee: {priced.rule.statement(numerics=priced.numerics)}"
    yield f"Remaining afterwards: {str(find_remaining(priced.rule, priced.after)).removeprefix('left: ')}"
    yield from priced.periods.sentences()
    yield from priced.parent.sentences()
    if plan.ledger is None:
        yield "Note: no [ledger] is named, so charges are not stored."
    for each in plan.data.tables:
        if each.url is None and not each.path.exists():
            yield f"Note: the source {str(each.path)!r} does not exist yet; `sidelight run` will need it."


def _charges(plan: Plan) -> list[tuple[str, Claims, tuple[PlannedQuery, ...]]]:
    if plan.together_at is None:
        return [(each.title, each.prepared.claims, (each,)) for each in plan.queries]
    from sidelight.accounting import batch  # numerical composition: loaded by the plans that ask for it

    price = batch([each.prepared.claims for each in plan.queries], delta=plan.together_at)
    return [(f"all {len(plan.queries)} together at δ = {plan.together_at}", price, plan.queries)]


def account(
    url: str | None, scope_id: str, *, budget: Claim, routes: tuple[Route, ...] | None
) -> tuple[Rule, Totals, list[LedgerEntry], Numerics]:
    """Return rule, totals, entries and numerics of a scope, without creating a ledger or a scope."""
    fresh = Rule.for_budget(budget, routes=routes)
    if url is None or is_not_there(url):
        return fresh, Totals.zero(), [], "exact"
    with open_ledger(url, create=False) as ledger:
        scopes = {scope.scope_id: scope for scope in ledger.scopes()}
        scope = scopes.get(scope_id)
        if scope is None:
            return fresh, Totals.zero(), [], "exact"
        if scope.definition.budget != budget:
            raise LedgerError(
                f"scope {scope_id!r} exists with the budget {scope.definition.budget}, the plan says {budget}; "
                f"a scope never changes, and {BUDGETS_ADD_UP}"
            )
        return scope.rule, scope.totals(), scope.entries(), scope.numerics()


def charged_to_periods(charge: PeriodCharge | None) -> str | None:
    """Return the charge to the periods of a window in words; None if there is none."""
    return None if charge is None else str(charge)


def amount(claims: Claims) -> str:
    """Return the strongest claim without its unit, for sentences that name the unit."""
    return str(claims.with_unit(Row()).strongest)


def reads(planned: PlannedQuery) -> dict[str, Any] | None:
    """Return the tables, lookups, folds and counted rows per person of a query of a database; else None."""
    view = planned.of
    if view is None:
        return None
    most = 1 if view.grouped else view.max_rows
    described = view.to_json()
    caps = [each.groups.cap for each in (planned.fitted, *getattr(planned.fitted, "parts", ())) if _is_grouped(each)]
    kept = [min(cap.rows, (cap.groups or cap.rows) * (cap.per_group or cap.rows)) for cap in caps]
    return {
        "base": view.base,
        "cap": view.cap,
        "rows_a_person": most,
        "counted_a_person": min(most, max(kept, default=most)),
        "lookups": [*described.get("lookups", {}).values()],
        "folds": {name: fold_text(fold) for name, fold in getattr(view, "features", {}).items()},
    }


def _is_grouped(prepared: Any) -> bool:
    return hasattr(getattr(prepared, "groups", None), "cap") and getattr(prepared.groups, "schema", None) is not None


def reading_sentence(title: str, found: dict[str, Any]) -> str:
    """Return the result of `reads` as a sentence."""
    rows = "one row a person" if found["rows_a_person"] == 1 else f"at most {found['rows_a_person']} rows a person"
    rows += " and period" if found["cap"] == "block" else ""
    said = [f"{title!r} reads {found['base']}, {rows}, of which K = {found['counted_a_person']} count"]
    said += [f"looks up {', '.join(found['lookups'])}"] if found["lookups"] else []
    said += (
        [f"folds {', '.join(f'{name} = {text}' for name, text in found['folds'].items())}"] if found["folds"] else []
    )
    return "; ".join(said) + "."
