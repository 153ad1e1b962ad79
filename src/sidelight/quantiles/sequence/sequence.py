"""`Sequence`: the same quantiles every day, each day's prediction learned from the days released before.

Without an assumption about people every day charges one scope in full: a person may be in every day. If it is declared
that no person has data in more than k days, the scope is partitioned by day: each day is a part of its own, charged k
times its price, and the most expensive part counts (sequences proof page, Theorem 2). The declaration cannot be checked
here.
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

from sidelight.accounting import (
    ROUTES,
    Remaining,
    Route,
    Rule,
    Spent,
    Totals,
    find_remaining,
    find_shortfall,
    worst_case_branch,
)
from sidelight.errors import BudgetError, LedgerError, RangeError, SchemaError, SidelightWarning
from sidelight.guarantees import ApproxDP, Claim, Claims, Neighbours, Unit
from sidelight.ledger import Ledger, Reservation, Scope, Stored, open_ledger
from sidelight.ledger.scope import ChargeOptions
from sidelight.mechanisms.prefix_sums import PrefixSumRun
from sidelight.noise import Entropy, OSEntropy
from sidelight.predictions import Origin, Prior, guess, released
from sidelight.quantiles.query import Quantiles
from sidelight.quantiles.sequence.day import query_of_day
from sidelight.quantiles.sequence.plan import Learn, Learner, SequencePlan, chosen_learner, newest_day, read_day
from sidelight.quantiles.sequence.recursive_regression import Floats
from sidelight.quantiles.sequence.state import (
    State,
    caught_up,
    check_place,
    describe_day,
    find_day,
    read_state,
    write_state,
)
from sidelight.records import Column, Schema, Table
from sidelight.release import Outcome
from sidelight.session.accounts import budget_for, check_real
from sidelight.session.pipeline import release_through


@dataclass(frozen=True)
class DayAccount:
    """The account of one day: charges its scope with the price of `times` such days."""

    scope: Scope
    times: int

    def reserve(
        self, claims: Claims, *, request: Mapping[str, Any], **options: Unpack[ChargeOptions]
    ) -> Reservation | Stored:
        """Charge, or raise `BudgetError` and change nothing, or give back what the same key bought before."""
        return self.scope.reserve(for_days(claims, self.times), request=request, **options)


def for_days(claims: Claims, times: int) -> Claims:
    """Return the claims of a person who meets the same mechanism on several days: composition.

    >>> from sidelight.guarantees import PureDP
    >>> print(for_days(Claims.of(PureDP("0.1")), 3).pure())
    PureDP(ε = 0.3)
    """
    return claims if times == 1 else worst_case_branch([[claims] * times])


def price_of_day(claims: Claims, days_per_person: int | None, *, routes: tuple[Route, ...] | None) -> Claims:
    """Return what a day is charged, or refuse routes by which the most expensive day would not bound all of a person's.

    The maximum over days bounds what grows in proportion to the number of days: epsilon, rho and mu squared. The one
    (epsilon, delta) that a curve of several days proves does not, and days of different queries could add up to more.
    """
    times = days_per_person or 1
    if times > 1 and routes == ("basic",) and claims.pure() is None:
        raise RangeError(
            f"with days_per_person={times} a day adds up by routes=('basic',) only where it is priced in epsilon, and "
            f"this one is {claims.strongest}; leave routes out, or name 'gdp' or 'zcdp' too"
        )
    return for_days(claims, times)


def routes_of_days(budget: Claim, routes: tuple[Route, ...] | None) -> tuple[Route, ...] | None:
    """Return the routes of a sequence: many small prices are its very purpose, so all stand side by side at once.

    >>> from sidelight.guarantees import ApproxDP, PureDP
    >>> routes_of_days(ApproxDP(3, "1e-6"), None), routes_of_days(PureDP(1), None)
    (('basic', 'gdp', 'zcdp'), None)
    """
    if routes is None:
        return ROUTES if isinstance(budget, ApproxDP) else None
    return tuple(routes)


def check_price(price: Claims, *, budget: Claim, routes: tuple[Route, ...] | None) -> None:
    """Refuse a sequence whose single day does not fit its budget, before anything is written."""
    rule = Rule.for_budget(budget, routes=routes)
    charge = rule.charge(price)
    if not rule.grants(Totals.zero(), charge):
        requested, remaining, difference = find_shortfall(rule, Totals.zero(), charge)
        raise BudgetError(
            f"not even one day fits the budget: a day is charged {requested}, the budget allows {remaining}, "
            f"difference {difference}; lower epsilon or raise the budget. Nothing was written",
            requested=requested,
            remaining=remaining,
            difference=difference,
        )


def account_of_day(
    whole: Scope, day: datetime.date, *, days_per_person: int | None, routes: tuple[Route, ...] | None
) -> DayAccount:
    """Return the account that a day charges, making its part of a partitioned scope."""
    if days_per_person is None:
        return DayAccount(whole, 1)
    part = whole.ledger.open_scope(
        f"{whole.scope_id}/{day.isoformat()}",
        budget=whole.definition.budget,
        unit=whole.definition.unit,
        neighbours=Neighbours.ADD_REMOVE,
        routes=routes,
        parent=whole.scope_id,
    )
    return DayAccount(part, days_per_person)


def _partition(days: int, unit: Unit) -> str:
    once = "one day" if days == 1 else f"{days} days"
    return f"day; declared: one {unit} has data in at most {once}; each day is charged {days} times its price"


class Sequence:
    """Release the same quantiles every day, better from day to day.

    Guarantee: everything ever released under the scope satisfies `budget` for the schema's unit. By default a person
    may be in every day, and every day is charged in full. With `days_per_person=k` you declare, publicly, that no
    person has data in more than k days; then the budget holds for all days together, at k times the price of the
    most expensive day (sequences proof page). The library cannot check this declaration; if it is wrong, so is the
    guarantee.

    Accuracy: `PubTrack` counts a day's rows in cells that the days before predict, `PubProx` and `PubPrev` select with
    a prior around their prediction; all see released numbers and public features only, so learning is free.
    `PrivateHistograms` learns from the records by a private gradient, which every day pays for besides its quantiles:
    the release of a day is then a mapping with "quantiles" and "gradient". Features must be known without the day's
    records (weather, holidays; never the number of rows), and a day must not be skipped because of what its records
    look like.

    Args:
        query: `sl.Quantiles` without a prediction, which the learner makes anew for every day.
        learner: `sl.PubTrack`, which also stands for none, `sl.PubProx`, `sl.PubPrev` or `sl.PrivateHistograms`.
        learn: Instead of a learner: "released" is `sl.PubTrack()`; "private" is `sl.PrivateHistograms` between the
            declared bounds of the column, with a tenth of what a day costs in all (as rho).
        schema: The declared columns of every day's table: a `sl.Schema` or a list of columns.
        budget: What all days together may spend: a guarantee such as `sl.PureDP(1)`.
        ledger: Where budget and releases are kept: an address such as "sqlite:///budget.db", or an open ledger.
        scope: The public name of this sequence in the ledger.
        days_per_person: The largest number of days that anybody has data in, if you can declare one.
        state: The file of the learner's state; next to a ledger in a file if left out. It may be deleted: the ledger
            gives it back.
        routes: The ways of adding up that the scope is made with, side by side; all that fit the budget if left out.
        strict: True refuses prices that hold for idealized arithmetic only.

    >>> import sidelight as sl
    >>> sequence = sl.Sequence(
    ...     sl.Quantiles([0.5], column="minutes", epsilon="0.1"),
    ...     schema=[sl.Number("minutes", lower=0, granularity=1)],
    ...     budget=sl.PureDP(1),
    ...     ledger="sqlite:///budget.db",
    ...     scope="trips",
    ... )
    >>> for day in ("2025-11-03", "2025-11-04"):
    ...     release = sequence.release({"minutes": [8, 9, 12] * 100}, day=day)
    >>> sequence.days, release.prediction["origin"]["kind"]
    (2, 'released')
    """

    _run: PrefixSumRun | None = None

    def __init__(
        self,
        query: Quantiles,
        learner: Learner | None = None,
        *,
        learn: Learn | None = None,
        schema: Schema | list[Column] | tuple[Column, ...],
        budget: Claim,
        ledger: str | PathLike[str] | Ledger,
        scope: str,
        days_per_person: int | None = None,
        state: Path | str | None = None,
        routes: tuple[Route, ...] | None = None,
        strict: bool = False,
    ) -> None:
        declared = schema if isinstance(schema, Schema) else Schema(schema)
        chosen = chosen_learner(learner, learn, query=query, schema=declared)
        self.plan = SequencePlan(query=query, schema=declared, learner=chosen, days_per_person=days_per_person)
        self.strict = strict
        self._entropy: Entropy = OSEntropy()
        promised = budget_for(budget, declared.unit)
        self._routes = routes = routes_of_days(promised, routes)
        self._ledger = ledger if isinstance(ledger, Ledger) else open_ledger(ledger)
        self._check(self._ledger)
        self.state_file = _beside(self._ledger, scope) if state is None else Path(state)
        if self.state_file is not None:
            check_place(self.state_file)
        price = price_of_day(self.plan.claims, days_per_person, routes=routes)
        check_price(price, budget=promised, routes=routes)
        # The state is read before the scope is made: a file that does not fit leaves the ledger as it is.
        self._state = self._stored_state()
        self._scope = self._ledger.open_scope(
            scope,
            budget=promised,
            unit=declared.unit,
            neighbours=Neighbours.ADD_REMOVE,
            routes=routes,
            partitioned_by=None if days_per_person is None else _partition(days_per_person, declared.unit),
        )

    def _check(self, ledger: Ledger) -> None:
        check_real(ledger)

    def release(
        self, data: Any, *, day: datetime.date | str, features: Iterable[float] = (), resume: bool = False
    ) -> Outcome:
        """Release one day: predict from the past, charge, run, learn.

        A day that was released before comes back for nothing if it is asked with the same features.

        Args:
            data: That day's table with the sequence's schema, or anything a `Table` is made of.
            day: The date, which must be later than the last one: a date or "2025-11-03".
            features: The day's public features, as many as the learner takes.
            resume: True declares an unfinished attempt at this day dead; the new one pays again.
        """
        date, public = read_day(day), self.plan.features(features)
        self._catch_up()
        last = self._state.last_day
        if last is not None and date <= last:
            return self._again(date, public, last)
        table = self._table(data)
        if self.state_file is not None:
            check_place(self.state_file)  # its folder may be gone since the sequence was made
        account = account_of_day(self._scope, date, days_per_person=self.plan.days_per_person, routes=self._routes)
        step = self._step()
        query = query_of_day(
            self.plan,
            self._state.learned,
            self.plan.numbers(public, date),
            about=describe_day(self.plan, date, public),
            origin=self._origin(),
            step=step,
        )
        outcome = release_through(
            query, table, account, entropy=self._entropy, key=self.plan.key(date), resume=resume, strict=self.strict
        )
        if step is not None:  # a step that raised leaves its run behind: whether the day was counted would be unclear
            self._run = step.run
        self._catch_up()
        try:
            self._write_state()
        except LedgerError as error:  # the answer is paid for, and the ledger has what the state would hold
            warnings.warn(str(error), SidelightWarning, stacklevel=2)
        return outcome

    def _step(self) -> Any | None:
        """Return the day's private gradient, in the run of this process or in a new one.

        A run is taken out while a day uses it, so that no two threads add to it; it is never stored. Every day pays for
        itself, so a run that is lost (a crash, a fork, a new process) costs accuracy and nothing else.
        """
        if self.plan.gradients is None:
            return None
        run = vars(self).pop("_run", None)  # in one step: a lock could be held for ever in a forked child
        return self.plan.gradients.step(self._state.learned, run)

    def predict(
        self, features: Iterable[float] = (), *, day: datetime.date | str | None = None
    ) -> tuple[Prior, ...] | None:
        """Return what is expected of a day with these features, as priors; None if nothing is.

        Free: it looks at past releases only.

        Args:
            features: The day's public features.
            day: The day, for a learner that uses the weekday; the one after the last if left out.
        """
        public = self.plan.features(features)
        self._catch_up()
        last = self._state.last_day
        following = newest_day() if last is None else last + datetime.timedelta(1)
        date = following if day is None else read_day(day, begun=False)
        return self.plan.priors(self._state.learned, self.plan.numbers(public, date), self._origin())

    @property
    def last_day(self) -> datetime.date | None:
        """The last day that was released."""
        self._catch_up()
        return self._state.last_day

    @property
    def days(self) -> int:
        """How many days were released."""
        self._catch_up()
        return self._state.days

    @property
    def remaining(self) -> Remaining:
        """The largest price that a new day could still be charged (`days_per_person` times its own)."""
        if self.plan.days_per_person is None:
            return self._scope.remaining()
        rule = self._scope.rule
        return find_remaining(rule, self._scope.balances().totals_for("a new day", rule))  # other days are other parts

    @property
    def spent(self) -> Spent:
        """What has been charged, per route: bookkeeping, not a guarantee."""
        return self._scope.spent()

    def statement(self) -> str:
        """Return the sentence that may be published about all days together, with what was assumed."""
        promise, days = self._scope.statement(), self.plan.days_per_person
        rows = " with one row" if self.plan.schema.person is None else ""
        if days is None:
            return f"{promise} A person may be in every day{rows}."
        each = "one day" if days == 1 else f"{days} days{', each' if rows else ''}"
        return f"{promise} Declared, not checked: no person is in more than {each}{rows}."

    def rebuild(self) -> None:
        """Read the state again from the ledger alone, and write it."""
        self._state = State(learned=self.plan.begin())
        self._catch_up()
        self._write_state()

    def _write_state(self) -> None:
        if self.state_file is not None:
            write_state(self.state_file, self._state, self.plan, ledger_id=self._ledger.ledger_id)

    def _stored_state(self) -> State:
        if self.state_file is None:
            return State(learned=self.plan.begin())
        return read_state(self.state_file, self.plan, ledger_id=self._ledger.ledger_id)

    def _catch_up(self) -> None:
        self._state = caught_up(self._state, self._scope, self.plan)

    def _again(self, date: datetime.date, features: Floats, last: datetime.date) -> Outcome:
        found = find_day(date, self._scope, self.plan)
        if found is None:
            raise RangeError(f"days must come in order: {last} was released, {date} comes before it. Nothing was spent")
        if found.features.tolist() != features.tolist():
            raise RangeError(
                f"{date} was released with other features; a day is released once. Nothing was spent: ask with the "
                "features of the first time to have its release again"
            )
        return found.release

    def _table(self, data: Any) -> Table:
        if not isinstance(data, Table):
            return Table(data, schema=self.plan.schema, name=self._scope.scope_id)
        if data.schema.to_json() != self.plan.schema.to_json():
            raise SchemaError("the table of a day must have the sequence's schema, got another; nothing was spent")
        return data

    def _origin(self) -> Origin:
        if not self._state.entries:
            return guess("the learner's start")
        return released(
            self._state.entries, f"learned from {self._state.days} released days, from the first to the last entry"
        )

    def __repr__(self) -> str:
        return f"Sequence({self._scope.scope_id!r}, {type(self.plan.learner).__name__}, {self._state.days} days)"


def _beside(ledger: Ledger, scope: str) -> Path | None:
    """Name the state of a ledger in a file; elsewhere the ledger alone remembers."""
    if ledger.place.path is None:
        return None
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", scope)
    return ledger.place.path.with_name(f"{ledger.place.path.name}.{safe}.state.json")
