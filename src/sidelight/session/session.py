"""`Session`: a data set, a budget and the account that holds it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import MISSING, fields
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from sidelight.accounting import Remaining, Route, Rule, Spent
from sidelight.aggregates.view_rows import open_view
from sidelight.errors import LedgerError, RangeError, SchemaError, nearest
from sidelight.guarantees import Amount, Claim, Neighbours
from sidelight.ledger import Ledger, Scope, now_utc, open_ledger
from sidelight.noise import Entropy, OSEntropy
from sidelight.readable import shown_html, shown_text
from sidelight.records import Database, PairedView, Table, View
from sidelight.records.views import Cap
from sidelight.registry import load_query
from sidelight.release import Outcome, Release, Value
from sidelight.session.accounts import ChargeAccount, DatabaseAccount, InProcessAccount, budget_for, check_real
from sidelight.session.deployment_record import Disclosure, PublisherFacts
from sidelight.session.disclosure import disclose
from sidelight.session.persons_and_periods import PeriodAccounts, at_share, check_window_budget, names_in, with_periods
from sidelight.session.pipeline import release_batch_through, release_through
from sidelight.session.query import Query, SureQuery, TypedQuery, check_source, prepare_query

if TYPE_CHECKING:
    from sidelight.records.invariants import Invariant
    from sidelight.session.common_budget import CommonBudget


class ReleaseOptions(TypedDict, total=False):
    """The options of `Session.release`."""

    of: str | View | PairedView | None
    key: str | None
    resume: bool
    once: bool


class Session:
    """Release queries over one data set from one budget, adaptively, without ever overspending.

    Guarantee: everything ever released under the session's scope satisfies `budget` for the table's protected unit,
    whatever the order and however each query was chosen after seeing earlier answers (accounting proof page, T5-T12).

    Args:
        table: The rows with their schema, or a `Database` of several tables about the same people.
        budget: What everything together must keep, such as `sl.ApproxDP(3, 1e-6)`, for the schema's unit.
        ledger: A file, a URL such as "sqlite:///budget.db" or an open ledger; without it the budget is kept in this
            process only and forgotten with it.
        scope: The name of the data set in the ledger; the table's name if left out.
        routes: Ways of adding up that stand side by side, of "basic", "gdp" and "zcdp". Left out, an (epsilon, delta)
            budget never refuses what the declared epsilons and deltas add up to, and grants more where it can.
        strict: Refuse idealized mechanisms.
        invariants: Totals that a law publishes exactly, `sl.Invariant("state", reason="...", of=places)`. The budget is
            then for neighbours with the same totals, and whether a row was counted is not protected. A query has all of
            these totals or none, and they are computed once.
        one_run: Write the time of the first charge on all of them: the time between two charges of a fixed plan is the
            running time of a release, which depends on the data.
        window_budget: What everything about one period of the database's `sl.Window` together must keep; `budget` is
            then for a person's whole life, and every release is charged to both.
        parent: What the same people are promised of several data sets together, `sl.CommonBudget("people", ...)`.

    >>> import sidelight as sl
    >>> people = sl.Table({"age": [31, 47, 52] * 100}, schema=[sl.Number("age", granularity=1)], name="people")
    >>> session = Session(people, budget=sl.PureDP(1))
    >>> release = session.release(sl.Quantiles([0.5], column="age", epsilon="0.4"))
    >>> session.statement()
    'Everything ever released under this budget is together PureDP(ε = 1): add or remove one row.'
    """

    def __init__(
        self,
        table: Table | Database,
        *,
        budget: Claim,
        ledger: str | PathLike[str] | Ledger | None = None,
        scope: str | None = None,
        routes: Sequence[Route] | None = None,
        strict: bool = False,
        invariants: Invariant | Sequence[Invariant] | None = None,
        one_run: bool = False,
        window_budget: Claim | None = None,
        parent: CommonBudget | None = None,
    ) -> None:
        if not isinstance(table, (Table, Database)):
            raise SchemaError(
                f"a session wants a sidelight.Table with a schema, got {type(table).__name__}; write "
                "sl.Table(data, schema=[sl.Number(...), ...]), or query.release(array) for a single array"
            )
        if isinstance(table, Table) and (table.database is not None or table.is_public):
            raise SchemaError(
                f"the table {table.name!r} is part of the database {table.database!r}, whose budget is for its people "
                "as a whole; open the session on the database, and write of= for one of its tables"
                if table.database is not None
                else f"the table {table.name!r} is public: everyone may see its rows, and they need no budget"
            )
        self._data = table
        unit = table.unit if isinstance(table, Database) else table.schema.unit
        self.budget = budget_for(budget, unit)
        window = table.linked.window if isinstance(table, Database) else None
        if window is not None or window_budget is not None:
            check_window_budget(window, self.budget, window_budget, name=table.name, ledger=ledger is not None)
        if invariants:
            from sidelight.records.invariants import kept_totals, read_invariants

            if isinstance(table, Database):
                raise SchemaError("totals are published exactly of one table, and the session is of a database")
            kept = kept_totals(read_invariants(invariants), table.schema)
            self.budget = self.budget.under(neighbours=Neighbours.KEPT, kept=kept)
        if parent is not None:
            parent.check(unit, scope=scope or table.name, ledger=ledger is not None)
        self.strict = strict
        self._entropy: Entropy = OSEntropy()
        self._at_utc = now_utc() if one_run else None
        self._common: list[tuple[CommonBudget, Scope]] = []  # the promise that data sets share, with its account
        if ledger is None:
            self._account: InProcessAccount | Scope = InProcessAccount(Rule.for_budget(self.budget, routes=routes))
        else:
            book = ledger if isinstance(ledger, Ledger) else open_ledger(ledger)
            self._check(book)
            self._common += [] if parent is None else [(parent, parent.open(book))]
            self._account = book.open_scope(
                scope or table.name,
                budget=self.budget,
                unit=unit,
                neighbours=Neighbours.KEPT if self.budget.kept else Neighbours.ADD_REMOVE,
                routes=routes,
                parent=next((scope.scope_id for _, scope in self._common), None),
            )
        self._payer: ChargeAccount = self._account
        self._periods: PeriodAccounts | None = None
        if isinstance(table, Database) and isinstance(self._account, Scope):
            payer = DatabaseAccount(self._account, table.linked)
            if window_budget is not None:
                self._periods = PeriodAccounts(self._account, table, budget=window_budget, routes=routes)
            self._payer = payer.beside(self._periods)

    @property
    def table(self) -> Table:
        """The rows with their schema; a session of a database has several."""
        if isinstance(self._data, Database):
            raise SchemaError(
                f"the session is of the database {self._data.name!r}, which has several tables; write "
                "session.release(query, of='...') with the name of one, or a view"
            )
        return self._data

    def _rows_for(self, queries: Sequence[Any], of: str | View | PairedView | None) -> Table:
        """Return what queries read: the session's table, or a view of its database. Reads no row."""
        if not isinstance(self._data, Database):
            if of is not None:
                raise SchemaError("of= names a table of a database, and the session has one table; leave it out")
            return self.table
        if of is None:
            return self.table
        view = self._data.view(of) if isinstance(of, str) else of
        if not isinstance(view, (View, PairedView)) or view.tables is not self._data.linked:
            raise SchemaError(f"of= is the name of a table of {self._data.name!r}, or a view of it, got {of!r}")
        return open_view(view.reading(names_in(queries)))

    def _check(self, ledger: Ledger) -> None:
        check_real(ledger)

    @overload
    def release(self, query: TypedQuery[Value], **how: Unpack[ReleaseOptions]) -> Release[Value]: ...

    @overload
    def release(self, query: SureQuery, **how: Unpack[ReleaseOptions]) -> Release: ...

    @overload
    def release(self, query: Query, **how: Unpack[ReleaseOptions]) -> Outcome: ...

    def release(
        self,
        query: Query,
        *,
        of: str | View | PairedView | None = None,
        key: str | None = None,
        resume: bool = False,
        once: bool = False,
    ) -> Outcome:
        """Charge the query, run it and return its release.

        Args:
            query: What is asked.
            of: Of a session of a database, the name of a table or a view; looked-up columns that the query names are
                added to it.
            key: Remember the release under this name: asking again returns the stored answer and costs nothing. Asking
                again after a failure pays again: a failed attempt keeps its charge and bought no answer.
            resume: Declare an unfinished attempt with this key dead; the new attempt pays again.
            once: Give the key one attempt for good: after a failure asking again costs nothing, and raises.

        Returns:
            The release, or `Refused` from a query that tests privately.
        """
        return release_through(
            query,
            self._rows_for([query], of),
            self._payer,
            entropy=self._entropy,
            key=key,
            resume=resume,
            once=once,
            at_utc=self._at_utc,
            strict=self.strict,
        )

    def release_together(
        self,
        queries: Sequence[Query],
        *,
        delta: Amount,
        of: str | View | PairedView | None = None,
        key: str | None = None,
        resume: bool = False,
        once: bool = False,
    ) -> list[Outcome]:
        """Release a fixed batch as one charge, priced by numerical composition at `delta`.

        Args:
            queries: All are fixed before the first runs; that is what makes the lower price valid.
            delta: Where the batch is priced.
            of, key, resume, once: As for `release`.

        Returns:
            The outcomes in the order of the queries.
        """
        return release_batch_through(
            queries,
            self._rows_for(queries, of),
            self._payer,
            delta=delta,
            entropy=self._entropy,
            key=key,
            resume=resume,
            once=once,
            at_utc=self._at_utc,
            strict=self.strict,
        )

    @overload
    def sql(self, statement: str, *, dry_run: Literal[False] = ..., **options: Any) -> Release: ...

    @overload
    def sql(self, statement: str, *, dry_run: Literal[True], **options: Any) -> Any: ...

    def sql(
        self,
        statement: str,
        *,
        dry_run: bool = False,
        within: str | tuple[str, str] | None = None,
        cap: Cap = "person",
        key: str | None = None,
        resume: bool = False,
        **options: Any,
    ) -> Any:
        """Release what a SELECT over this session's table, or tables of its database, asks: one table, one price.

        Args:
            statement: SELECT columns and aggregates FROM table [WHERE condition] [GROUP BY columns]. Over a database
                also JOIN and LEFT JOIN by declared keys, EXISTS, and sub-selects of the rows that name a row's key.
            dry_run: Return the translated queries and their price, for periods too, and charge nothing.
            within: Of a database with a window, the period whose dated rows count, or the first and the last.
            cap: "block" counts what limits a person for each of these periods alone, as `view.within` does.
            key, resume: As for `release`.
            options: The price (epsilon, delta, rho, mu) and what else `sl.SQL` takes: max_groups, max_rows_per_group,
                noise, confidence.

        Returns:
            The release, or the translation of a dry run.

        >>> import sidelight as sl
        >>> people = sl.Table({"age": [31, 47, 52] * 100}, schema=[sl.Number("age", granularity=1)], name="people")
        >>> session = Session(people, budget=sl.PureDP(1))
        >>> session.sql("SELECT COUNT(*) FROM people WHERE age >= 40", epsilon="0.5", dry_run=True)
        Count(where='age >= 40', of='rows', epsilon='0.5') for count
        price: PureDP(ε = 0.5)
        >>> session.sql("SELECT COUNT(*) FROM people WHERE age >= 40", epsilon="0.5").value.columns
        ('count', 'count_low', 'count_high')
        """
        query, of = load_query("sql")(statement, **options), None
        if isinstance(self._data, Database):
            query, of = query.over(self._data.linked)
        if within is not None or cap != "person":
            if of is None or within is None:
                raise SchemaError("within and cap are of the periods of a database with a window; name them by within")
            of = of.within(*((within,) if isinstance(within, str) else within), cap=cap)
        if dry_run:
            table = self._rows_for([query], of)
            prepared = prepare_query(query if of is None else at_share(query, of), table.schema)
            check_source(prepared, table)
            return prepared.translation if of is None else with_periods(prepared.translation.over(of), prepared, of)
        return self.release(query, of=of, key=key, resume=resume)

    def disclosure(self, *, name: str | None = None, **facts: Any) -> Disclosure:
        """Return the deployment record of everything released under this session's scope of its ledger.

        Args:
            name: What the data product is called; the table's name if left out.
            facts: What only the publisher knows: `curator`, `curator_type`, `intended_use`, `region` and `authors`, and
                what else `sidelight.session.PublisherFacts` has.

        Returns:
            The record in the keys of the public registry of deployments, with `to_yaml()`.

        Raises:
            LedgerError: the session has no ledger, or nothing was released.

        >>> import tempfile, sidelight as sl
        >>> people = sl.dummy([sl.Number("age", lower=0, upper=110, granularity=1)], 500)
        >>> session = Session(people, budget=sl.PureDP(1), ledger=f"{tempfile.mkdtemp()}/budget.db")
        >>> release = session.release(sl.Mean("age", epsilon="0.5"))
        >>> said = {"curator": "Town Library", "curator_type": "Government", "authors": ["A. Ny"]}
        >>> made = session.disclosure(intended_use="planning", region="Northtown", **said)
        >>> made.record["deployment"]["privacy_loss"]["privacy_parameters"]
        {'epsilon': 1}
        """
        if not isinstance(self._account, Scope):
            raise LedgerError("a deployment record is made from a ledger, and this session has none; pass ledger=...")
        given = {each.name for each in fields(PublisherFacts)}
        for unknown in sorted(set(facts) - given):
            raise RangeError(f"a deployment record has no {unknown!r}; {nearest(unknown, given)}")
        wanted = [each.name for each in fields(PublisherFacts) if each.default is MISSING]
        lacking = [each for each in wanted if each not in facts]
        if lacking:
            raise RangeError(f"only you know {', '.join(lacking)}; write disclosure({lacking[0]}=..., ...)")
        data = self._data
        schema = data.schema if isinstance(data, Table) else {each: data[each].schema for each in data.linked.tables}
        return disclose(PublisherFacts(**facts), name=name or data.name, schema=schema, scope=self._account)

    def has_entry_of(self, outcome: Outcome) -> bool:
        """Return whether this session's scope of its ledger paid for an outcome; without a ledger nothing can tell."""
        entry_id = outcome.circumstances.entry_id
        if entry_id is None or not isinstance(self._account, Scope):
            return False
        entry = self._account.entry(entry_id)
        return entry is not None and entry.text == outcome.at(entry_id=None, ledger_head=None).to_json()

    @property
    def remaining(self) -> Remaining:
        """The largest request of each kind that would be granted now."""
        return self._account.remaining()

    @property
    def periods(self) -> PeriodAccounts:
        """The accounts of the periods of the database's window: what is left of each, and what was spent."""
        if self._periods is None:
            raise SchemaError(f"{self._data.name!r} has no window, so there is one account, for the whole life")
        return self._periods

    @property
    def spent(self) -> Spent:
        """What has been charged, per route: bookkeeping, not a guarantee."""
        return self._account.spent()

    def _repr_html_(self) -> str:
        """Return the promise, what was charged and what is left, for a notebook; nothing of the rows."""
        lines = (self.statement(), str(self.spent), str(self.remaining))
        return "".join(f"<p>{shown_html(line)}</p>" for line in lines)

    def statement(self) -> str:
        """Return the sentences that may be published about everything released under this budget."""
        said = [self._account.statement()]
        said += [] if self._periods is None else [self._periods.statement()]
        said += [
            promise.statement(numerics=scope.numerics(), seeded=scope.ledger.testing) for promise, scope in self._common
        ]
        return shown_text(" ".join(said))

    def __repr__(self) -> str:
        kept = f", ledger={self._account.ledger.place.shown!r}" if isinstance(self._account, Scope) else ""
        return f"Session({self._data.name!r}, budget={self.budget}{kept})"

    def __sklearn_clone__(self) -> Session:
        """Stay the same session in a cloned estimator: a copy of a budget would be spent twice."""
        return self


def request_key(*parts: str) -> str:
    """Return an idempotency key: the same parts name the same entry of a ledger, whatever their lengths."""
    text = "".join(f"{len(part.encode())}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()
