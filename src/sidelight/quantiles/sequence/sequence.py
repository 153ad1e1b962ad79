"""`Sequence`: the same quantiles every day, each day's prediction learned from the days released before."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

from sidelight.accounting import Remaining, Route, Spent, dearest_path, find_remaining
from sidelight.errors import LedgerError, RangeError, SchemaError
from sidelight.guarantees import Claim
from sidelight.ledger import Ledger, open_ledger
from sidelight.ledger.place import check_output
from sidelight.mechanisms.prefix_sums import PrefixSumRun
from sidelight.noise import Entropy, OSEntropy, Source
from sidelight.predictions import Origin, Prior, guess, released
from sidelight.quantiles.prepared import PreparedQuantiles
from sidelight.quantiles.query import Quantiles
from sidelight.quantiles.sequence.accounts import account_of_day, check_price, for_days, open_accounts, routes_of_days
from sidelight.quantiles.sequence.plan import Learner, SequencePlan, read_day
from sidelight.quantiles.sequence.private import DayStep, LearnedHistograms
from sidelight.quantiles.sequence.start import Floats
from sidelight.quantiles.sequence.state import State, caught_up, describe_day, find_day, read_state, write_state
from sidelight.records import Column, Schema, Table
from sidelight.release import Outcome
from sidelight.session.door import release_through
from sidelight.session.query import Answer, SurePrepared
from sidelight.session.session import budget_for


class Sequence:
    """Release the same quantiles every day, better from day to day.

    Guarantee: everything ever released under the scope satisfies `budget` for the schema's unit. By default a person
    may be in every day, and every day is charged in full. With `days_per_person=k` you declare, publicly, that nobody
    has data in more than k days; then the budget holds for all days together, at k times the price of the dearest day
    (sequences proof page). The library cannot check this declaration; if it is wrong, so is the guarantee.

    Accuracy: `PubPrev` and `PubProx` see released values and public features only, never the records, so learning is
    free. `PrivateHistograms` learns from the records by a private gradient, which every day pays for beside its
    quantiles: the release of a day is then a mapping with "quantiles" and "gradient". Features must be known without
    the day's records (weekday, weather; never the number of rows), and a day must not be skipped because of what its
    records look like.

    Args:
        query: `sl.Quantiles` without a prediction, which the learner makes anew for every day.
        learner: `sl.PubPrev`, `sl.PubProx` or `sl.PrivateHistograms`.
        schema: The declared columns of every day's table: a `sl.Schema` or a list of columns.
        budget: What all days together may spend: a guarantee such as `sl.PureDP(1)`.
        ledger: Where budget and releases are kept: an address such as "sqlite:///budget.db", or an open ledger.
        scope: The public name of this sequence in the ledger.
        days_per_person: The largest number of days that anybody has data in, if you can declare one.
        state: The file of the learner's state; beside a ledger in a file if left out. It may be deleted: the ledger
            gives it back.
        routes: The ways of adding up that the scope is made with, side by side; all that fit the budget if left out.
        strict: True refuses prices that hold for idealized arithmetic only.

    >>> import sidelight as sl
    >>> sequence = sl.Sequence(
    ...     sl.Quantiles([0.5], column="minutes", epsilon="0.1"),
    ...     sl.PubPrev(location=10, scale=3),
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

    def __init__(
        self,
        query: Quantiles,
        learner: Learner,
        *,
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
        self.plan = SequencePlan(query=query, schema=declared, learner=learner, days_per_person=days_per_person)
        self.strict = strict
        self._entropy: Entropy = OSEntropy()
        promised = budget_for(budget, declared)
        self._routes = routes = routes_of_days(promised, routes)
        self._ledger = ledger if isinstance(ledger, Ledger) else open_ledger(ledger)
        self._check(self._ledger)
        self.state_file = _beside(self._ledger, scope) if state is None else Path(state)
        if self.state_file is not None:
            check_output(self.state_file)  # before it is read, and before anybody is told to delete it
        self._run: PrefixSumRun | None = None
        self._run_lock = Lock()
        price = for_days(self.plan.claims, days_per_person or 1)
        check_price(price, budget=promised, routes=routes)
        # The state is read before the scope is made: a file that does not fit leaves the ledger as it is.
        self._state = self._stored_state()
        self._scope = open_accounts(
            self._ledger,
            scope,
            budget=promised,
            unit=declared.unit,
            days_per_person=days_per_person,
            routes=routes,
        )

    def _check(self, ledger: Ledger) -> None:
        if ledger.testing:
            raise LedgerError("this ledger is for tests and holds seeded noise; open another for real data")

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
        account = account_of_day(self._scope, date, days_per_person=self.plan.days_per_person, routes=self._routes)
        step = self._step()
        query = DayQuery(
            query=self.plan.with_prediction(self.plan.priors(self._state.learned, public, self._origin())),
            about=describe_day(self.plan, date, public),
            step=step,
        )
        outcome = release_through(
            query, table, account, entropy=self._entropy, key=self.plan.key(date), resume=resume, strict=self.strict
        )
        if step is not None:  # a step that raised leaves its run behind: whether the day was counted would be unclear
            self._run = step.run
        self._catch_up()
        if self.state_file is not None:
            write_state(self.state_file, self._state, self.plan, ledger_id=self._ledger.ledger_id)
        return outcome

    def _step(self) -> DayStep | None:
        """Return the day's private gradient, in the run of this process or in a new one.

        A run is taken out while a day uses it, so that no two threads add to it; it is never stored. Every day pays for
        itself, so a run that is lost (a crash, a fork, a new process) costs accuracy and nothing else.
        """
        plan, learned = self.plan.gradients, self._state.learned
        if plan is None or not isinstance(learned, LearnedHistograms):
            return None
        with self._run_lock:
            run, self._run = self._run, None
        if run is None or not run.goes_on:
            run = plan.sums.start()
        return DayStep(plan=plan, masses=plan.learner.masses(learned), run=run)

    def predict(self, features: Iterable[float] = ()) -> tuple[Prior, ...]:
        """Return the priors that a next day with these features would use. Free: it looks at past releases only."""
        public = self.plan.features(features)
        self._catch_up()
        return self.plan.priors(self._state.learned, public, self._origin())

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
        return find_remaining(self._scope.rule, self._scope.books().own)  # other days are other parts

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
        return f"{promise} Declared, not checked: nobody is in more than {each}{rows}."

    def rebuild(self) -> None:
        """Read the state again from the ledger alone, and write it."""
        self._state = State(learned=self.plan.begin())
        self._catch_up()
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


@dataclass(frozen=True, kw_only=True)
class DayQuery:
    """The quantiles of one day: the query with its prediction, and what the ledger is told about the day."""

    query: Quantiles
    about: Mapping[str, Any]
    step: DayStep | None = None

    def prepare(self, schema: Schema) -> PreparedDay:
        """Fit the query to the schema; the request names the day."""
        quantiles = self.query.prepare(schema)
        assert type(quantiles) is PreparedQuantiles  # days have no groups
        request = {**quantiles.request, "sequence": dict(self.about)}
        claims = quantiles.claims
        if self.step is not None:
            plan = self.step.plan
            request |= {"kind": "learned_quantiles", "learner": plan.learner.to_json()}
            claims = dearest_path([[claims, plan.claims]])
        return PreparedDay(
            claims=claims,
            request=request,
            labels=quantiles.labels,
            prediction=quantiles.prediction,
            error=quantiles.error,
            quantiles=quantiles,
            step=self.step,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDay(SurePrepared):
    """A prepared day: the quantiles, with the day in the request, and a private learner's gradient."""

    quantiles: PreparedQuantiles
    step: DayStep | None

    def run(self, table: Table, source: Source) -> Answer:
        """Release the quantiles, and learn; the only place that touches the day's records."""
        ranks = self.quantiles.ranks(table, source)
        answer = self.quantiles.answer(ranks, source)
        if self.step is None:
            return answer
        return replace(answer, value={"quantiles": answer.value, **self.step.take(ranks, source)})


def _beside(ledger: Ledger, scope: str) -> Path | None:
    """Name the state of a ledger in a file; elsewhere the ledger alone remembers."""
    if ledger.place.path is None:
        return None
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", scope)
    return ledger.place.path.with_name(f"{ledger.place.path.name}.{safe}.state.json")
