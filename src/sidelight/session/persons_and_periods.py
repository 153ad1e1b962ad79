"""Queries on views of a database: claims for a person with all their rows, and accounts of the periods of a window.

A release is charged to periods as well as to a person's whole life. One scope of the ledger is partitioned by period,
with a part for each period that something was asked about. It is a sibling of the lifetime scope and not below it: a
partitioned parent takes the largest of its parts, and would forget every period but the most expensive. Both are
charged in one transaction, all or none (proof page persons-across-tables, Theorem 8).

A query prices a view as one table: for `Person(owner, k)`, or, where the view was grouped by the owner, for `Row()`.
Both hold for one person of the database (proof page persons-across-tables, Theorems 1, 2 and 5). Nothing else does:
claims for one row of a view with several rows a person would pass at a fraction of their price, and claims for
replacing a unit rest on a public number of rows, which a view does not have.

Where the database has a window, a release is also charged to the periods whose rows it reads. What one period of a
person costs there is one step if nothing of the person is left in the statistic without it, and two steps otherwise:
the person goes, and comes again without those rows (Theorem 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from sidelight.accounting import Remaining, Route, Spent, Totals, batch, find_spent
from sidelight.aggregates.groups import ROWS_COUNTED
from sidelight.aggregates.view_rehearsal import rehearse_view
from sidelight.aggregates.view_rows import ViewTable, open_view, public_tables_read, tables_read
from sidelight.errors import ClaimError, RangeError, SchemaError, ScopeError, SidelightError
from sidelight.group_table import GroupTable
from sidelight.guarantees import (
    Amount,
    Claim,
    Claims,
    Neighbours,
    Person,
    PersonOf,
    PersonPeriod,
    Row,
    claims_to_replace,
    for_group,
    implies,
)
from sidelight.ledger import Scope
from sidelight.ledger.journal import newest_event
from sidelight.noise import Source
from sidelight.records import Database, PairedView, Table, View
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression
from sidelight.records.views import counted_in
from sidelight.records.windows import Window
from sidelight.session.query import Answer, Prepared, PublicSource, Refusal, at_price


@dataclass(frozen=True, kw_only=True)
class PeriodCharge:
    """What a release is charged besides its price for the whole life: claims for one person's rows of one period.

    Args:
        periods: Those that pay, by name; None for all of the window.
        claims: The price for each.
    """

    periods: tuple[str, ...] | None
    claims: Claims

    def __str__(self) -> str:
        names = self.periods or ()
        which = "every period" if not names else names[0] if len(names) == 1 else f"each of {names[0]} to {names[-1]}"
        return f"{self.claims.with_unit(Row()).strongest} to {which}"


class PeriodAccounts:
    """The accounts of a window's periods, in the ledger that keeps the account of the whole life.

    Args:
        lifetime: The account of the whole life.
        database: The tables, with their window.
        budget: What everything about one period together must keep.
        routes: Ways of adding up, as for a session.

    Raises:
        ScopeError: the window is another than when the account was opened, or something was released before it was.
    """

    def __init__(self, lifetime: Scope, database: Database, *, budget: Claim, routes: Sequence[Route] | None) -> None:
        window, text = database.linked.window, database.linked.window_text()
        assert window is not None
        assert text is not None
        self.window: Window = window
        self._lifetime = lifetime
        self._how: dict[str, Any] = {"budget": budget, "unit": PersonPeriod(database.name, window.length)}
        self._how |= {"routes": routes}
        self._open: dict[str, Scope] = {}
        with lifetime.ledger.store.read() as transaction:
            newest, _ = newest_event(transaction)
        found = recorded_window(lifetime)
        self._check_unspent(found)
        if found is not None and found != text:
            raise ScopeError(
                f"scope {_periods_of(lifetime)!r} exists with the window {found!r}, and now it is {text!r}: rows "
                "that were asked about would lie in a period with an empty account. A window never changes; declare it "
                "as before"
            )
        self._all = lifetime.ledger.open_scope(_periods_of(lifetime), partitioned_by=text, **self._how)
        if found is None and self._all.opened_after_charges(since=newest):  # by a session without a window
            raise self._released_before()

    def _check_unspent(self, found: str | None) -> None:
        if found is None and self._lifetime.totals() != Totals.zero():
            raise self._released_before()

    def _released_before(self) -> ScopeError:
        return ScopeError(
            f"something was released under scope {self._lifetime.scope_id!r} before it had a window, and the "
            "accounts of its periods would not know of it; a window is fixed before the first release"
        )

    def charges(self, charge: PeriodCharge) -> dict[str, Claims]:
        """Return the claims of a charge for each scope that pays it; opens the accounts of new periods."""
        if charge.periods is None:
            return {self._all.scope_id: charge.claims}
        return {self.account(each).scope_id: charge.claims for each in charge.periods}

    def account(self, period: str) -> Scope:
        """Return the scope of one period, which is opened if nothing was asked about it before."""
        name = self.window.names[self.window.number_of(period)]
        if name not in self._open:
            scope_id = f"{self._all.scope_id}:{name}"
            self._open[name] = self._lifetime.ledger.open_scope(scope_id, parent=self._all.scope_id, **self._how)
        return self._open[name]

    def remaining(self, period: str) -> Remaining:
        """Return the largest request of each kind that the account of a period would grant now.

        Args:
            period: As the window writes it, "2024-03".

        Returns:
            The amounts, for a release that costs the period what it costs the whole life. One that costs it two steps
            (`sidelight plan` prints both prices) may be at most half as large.
        """
        return self.account(period).remaining()

    def spent(self, period: str) -> Spent:
        """Return what has been charged to a period, with what was charged to all of them, per route.

        Args:
            period: As the window writes it, "2024-03".

        Returns:
            The totals: bookkeeping, not a guarantee.
        """
        balances = self._all.balances()
        name = self.account(period).scope_id
        totals = balances.own.plus_totals(balances.parts.get(name, Totals.zero()))
        return find_spent(self._all.rule, totals, numerics=self._all.numerics(part=name))

    def statement(self) -> str:
        """Return the sentence that may be published about everything released about one period."""
        return self._all.statement()


def _periods_of(lifetime: Scope) -> str:
    return f"{lifetime.scope_id}:periods"


def recorded_window(lifetime: Scope) -> str | None:
    """Return the window with which the accounts of periods were opened; None if they were not."""
    try:
        return lifetime.ledger.ancestry(_periods_of(lifetime))[0].partitioned_by
    except ScopeError:
        return None


def check_window_budget(
    window: Window | None, budget: Claim, window_budget: Claim | None, *, name: str, ledger: bool
) -> None:
    """Refuse a budget of periods that the data has none for, or that can promise nothing. Opens no ledger.

    Raises:
        SchemaError: the data has no window, or a window and no budget for its periods.
        RangeError: nothing would remember the accounts, or a period has more than the whole life.
    """
    if window is None and window_budget is not None:
        raise SchemaError(
            "window_budget is for the periods of a database, sl.Database(..., window=sl.Window('month', ...)), and "
            f"{name!r} has none"
        )
    if window is None:
        return
    if window_budget is None:
        raise SchemaError(
            f"the database {name!r} has a window of one {window.length}: say what a person's rows of one are "
            "promised, window_budget=sl.PureDP(...), besides budget= for the whole life"
        )
    if not isinstance(window_budget, Claim):
        raise RangeError(
            f"window_budget must say what kind it is, such as sl.PureDP(1), got {type(window_budget).__name__}"
        )
    if not ledger:
        raise RangeError(
            "the accounts of a window outlive the process, or every run would begin each period anew; pass ledger=..."
        )
    period, life = window_budget.under(unit=budget.unit), budget
    if implies(life, period) and not implies(period, life):
        raise RangeError(
            f"a {window.length} is promised {window_budget} and the whole life {budget}, which is the stronger promise "
            "and would be spent first; give the whole life at least as much"
        )


#: How deep the names of columns are looked for in a query.
_DEPTH = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedOnView(Prepared):
    """A query prepared for a view, with its claims for a person of the database."""

    prepared: Prepared
    view: View | PairedView

    @property
    def drawn_claims(self) -> Claims:
        """The claims for the unit of the view: what its draws are compared with."""
        return self.prepared.drawn_claims

    @property
    def is_additive(self) -> bool:
        return self.prepared.is_additive

    @property
    def instead(self) -> str:
        return self.prepared.instead

    def check_source(self, source: PublicSource) -> None:
        self.prepared.check_source(source)

    def check_rows(self, table: Table) -> None:
        self.prepared.check_rows(table)

    def error_of(self, rows: float, *, confidence: float) -> tuple[float, str] | None:
        return self.prepared.error_of(rows, confidence=confidence)

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        answer = self.prepared.run(table, source)
        if self.view.cap == "person" or isinstance(answer, Refusal) or not isinstance(answer.value, GroupTable):
            return answer
        said = counted_in(self.request["view"], answer.value.notes.get(ROWS_COUNTED))
        return replace(answer, value=answer.value.with_notes({ROWS_COUNTED: said}))


def on_view(prepared: Prepared, table: ViewTable) -> PreparedOnView:
    """Restate a query that was prepared for a view, and put the view into its request."""
    if prepared.brings_private_data:
        raise RangeError(
            "rows or votes that a caller brings are not the rows of a view, and no cap of the view bounds how many of "
            "them are one person's; name columns of the database instead. Nothing was charged"
        )
    rehearse_view(table.view)
    view, window = table.view, table.view.tables.window_text()
    if view.periods is not None and not any(view.tables.date_of(name) for name in tables_read(view)):
        raise RangeError(
            f"{view!r} is within some periods, and reads no table whose rows have a date; leave within out. Nothing "
            "was charged"
        )
    digests = {name: view.tables.public_digests[name] for name in public_tables_read(view)}
    declared = {name: view.tables.schema(name).digest() for name in (*tables_read(view), *digests)}
    described = view.to_json() | {"paths": view.tables.paths(), "declared": declared}
    described |= {"public": digests} if digests else {}
    described |= {} if window is None else {"window": window}
    described |= {} if view.grouped else {"max_rows": str(view.max_rows)}
    return PreparedOnView(
        claims=restated(prepared.claims, view),
        request={**prepared.request, "view": described},
        labels=prepared.labels,
        prediction=prepared.prediction,
        error=prepared.error,
        prepared=prepared,
        view=view,
    )


def period_charge(prepared: Sequence[Prepared], price: Claims, *, delta: Amount | None = None) -> PeriodCharge | None:
    """Return what a release is charged to the periods of a window; None if it reads no dated row of one.

    Args:
        prepared: The queries, all on one view.
        price: What they cost together for a person's whole life.
        delta: Where several of them are priced together.
    """
    view = next((each.view for each in prepared if isinstance(each, PreparedOnView)), None)
    window = None if view is None else view.tables.window
    if view is None or window is None or not any(view.tables.date_of(name) for name in tables_read(view)):
        return None
    first, last = (0, len(window.names) - 1) if view.periods is None else view.periods
    periods = None if (first, last) == (0, len(window.names) - 1) else window.names[first : last + 1]
    period = PersonPeriod(view.tables.name, window.length)
    if view.cap == "block":  # one step of what was drawn: a period is an owner of the view
        drawn = [each.drawn_claims.with_unit(period) for each in prepared]
        claims = batch(drawn, delta=delta) if delta is not None else drawn[0]
        return PeriodCharge(periods=periods, claims=claims)
    # One step: the base has rows of one period only, so without them the person adds nothing. Otherwise rows of other
    # periods, or timeless ones, stay with other values, take free places under a cap, or change their group.
    # Pairs need a row of both sides: one dated side is enough.
    bases = (view.left, view.right) if isinstance(view, PairedView) else (view.base,)
    one_step = first == last and any(view.tables.date_of(base) for base in bases)
    claims = price if one_step else claims_to_replace(price).under(neighbours=Neighbours.ADD_REMOVE)
    return PeriodCharge(periods=periods, claims=claims.with_unit(period))


def prepared_for(prepared: Prepared, view: View | PairedView) -> PreparedOnView:
    """Restate a query that was prepared for a view, and refuse one that no view can answer; opens no data."""
    table = open_view(view)
    prepared.check_source(PublicSource.of(table))
    return on_view(prepared, table)


def with_periods(translation: Any, prepared: Prepared, view: View | PairedView) -> Any:
    """Return the translation of a statement with what it is charged to the periods of a window, if it is."""
    viewed = prepared_for(prepared, view)
    charge = period_charge([viewed], viewed.claims)
    said = () if charge is None else (f"charged to the accounts of periods: {charge}; and to that of the whole life:",)
    return replace(translation, notes=(*translation.notes, *said))


def restated(claims: Claims, view: View | PairedView) -> Claims:
    """Return the claims of a query on a view for one person of its database.

    Raises:
        ClaimError: nothing proves that they hold for a person.
    """
    if claims.neighbours is not Neighbours.ADD_REMOVE:
        raise ClaimError(
            f"claims by '{claims.neighbours}' rest on a public number of rows, and how many rows a view has is not "
            "public; ask for a query that protects adding and removing. Nothing was charged"
        )
    person = view.schema.person
    wanted = Row() if view.grouped else Person(person.name, person.max_rows) if person is not None else None
    if claims.unit != wanted:
        raise ClaimError(
            f"the query protects one {claims.unit}, and on {view!r} claims for one {wanted} hold for a person; "
            "nothing was charged"
        )
    # Where each period is capped alone, a person is as many owners of the view as there are periods: all of them go.
    steps = view.steps_of_life
    return claims.map(lambda claim: for_group(claim, steps)).with_unit(PersonOf(view.tables.name))


def at_share(query: Any, view: View | PairedView) -> Any:
    """Return a query at the price of one owner of a view, of as many as a person may be: the stated one is the life's.

    Raises:
        RangeError: its price cannot be divided, or has a delta, which grows with the number of periods.
    """
    steps = view.steps_of_life
    if steps == 1:
        return query
    if getattr(getattr(query, "model", query), "delta", None) is not None:
        raise RangeError(
            f'cap="block" divides a price among {steps} periods, and a delta cannot be divided so; ask by epsilon '
            "alone, by rho or by mu. Nothing was charged"
        )
    return at_price(query, Fraction(1, steps))


def names_in(query: Any) -> tuple[str, ...]:
    """Return every text in a query's public parameters that may name a column; those that do not are ignored."""
    return tuple(dict.fromkeys(_names(query, _DEPTH)))


def _names(part: Any, depth: int) -> Iterator[str]:
    if isinstance(part, Expression):
        yield from part.columns
    elif isinstance(part, str):
        yield part
        yield from _written(part)
    elif not depth or isinstance(part, (bytes, Table)):
        return
    elif isinstance(part, Mapping):
        for key, value in part.items():
            yield from _names(key, depth - 1)
            yield from _names(value, depth - 1)
    elif isinstance(part, (list, tuple)):
        for each in part[:1000]:
            yield from _names(each, depth - 1)
    elif is_dataclass(part) and not isinstance(part, type):
        for each in fields(part):
            if each.name == "prediction":  # its keys are labels or numbers, and name no column
                continue
            yield from _names(getattr(part, each.name, None), depth - 1)


def _written(text: str) -> tuple[str, ...]:
    """Return the columns of a condition that was written as a text."""
    try:
        return parse_expression(text).columns
    except (SidelightError, RecursionError):
        return ()
