"""Plans with a `[sequence]` table: the same quantiles every day, each predicted from the days before.

`sidelight today` releases a day; `sidelight plan` prices one and counts how many the budget lasts for.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sidelight.accounting import Charge, Rule, Totals
from sidelight.cli.answers import note
from sidelight.cli.pricing import account, route_table
from sidelight.cli.running import inputs_of, write_outcomes
from sidelight.cli.terminal import console, tell
from sidelight.errors import FailedError, PlanError
from sidelight.guarantees import worst_numerics
from sidelight.ledger import Ledger, open_ledger
from sidelight.ledger.definition import BUDGETS_ADD_UP
from sidelight.plans.forms import TEXT, WHOLE, KeyForm, KeyPlace, choice, take
from sidelight.plans.plan import PlanHead, folder_of, read_file, read_head
from sidelight.plans.predictions import PRIOR, PRIORS
from sidelight.plans.queries import query_table
from sidelight.plans.section import Section
from sidelight.plans.tables import REQUIRED, PlanKey, TableForm, table_of
from sidelight.published.private_histograms import PrivateHistograms
from sidelight.published.released_learners import PubPrev, PubProx
from sidelight.quantiles import PubTrack, Quantiles, Sequence
from sidelight.quantiles.sequence.plan import Learner, SequencePlan, read_day
from sidelight.quantiles.sequence.sequence import price_of_day, routes_of_days
from sidelight.records import Schema, Table
from sidelight.records.source_files import would_be_read
from sidelight.report import Item, check_writable

_FORMS: dict[str, KeyForm] = {"prediction": PRIORS, "fallback": PRIOR}
#: The learners that predict a day from those before, with their keys.
LEARNERS = {
    "tracked": table_of(PubTrack, forms=_FORMS),
    "previous": table_of(PubPrev, forms=_FORMS),
    "proximate": table_of(PubProx, forms=_FORMS),
    "private": table_of(PrivateHistograms, without=("run_days",), forms=_FORMS),
}
_OWN = {
    "learner": PlanKey("learner", choice(*LEARNERS), None),
    "days_per_person": PlanKey("days_per_person", WHOLE, None),
    "state": PlanKey("state", TEXT, None),
}


def _query_keys() -> dict[str, PlanKey]:
    keys = {key: query_table("quantiles").keys[key] for key in ("column", "levels", "epsilon")}
    return keys | {"epsilon": replace(keys["epsilon"], default=REQUIRED)}  # there is no other price


def sequence_table(learner: str | None = None) -> TableForm:
    """Return the `[sequence]` table of a learner, or of all of them if none is named."""
    learners = LEARNERS.values() if learner is None else [LEARNERS[learner]]
    keys = {key: each for table in learners for key, each in table.keys.items()}
    if learner is None:
        keys = {key: replace(each, default=None) for key, each in keys.items()}
    return TableForm(keys={**_query_keys(), **keys, **_OWN})


@dataclass(frozen=True, kw_only=True)
class DailyPlan(PlanHead):
    """A plan with a `[sequence]` table; a function of the file only."""

    ledger: str
    source: str  # the path, with {day} for the day
    query: Quantiles
    learner: Learner
    days_per_person: int | None
    state: Path | None

    def file_of(self, day: datetime.date) -> Path:
        """Return the file of a day."""
        return Path(self.source.replace("{day}", day.isoformat()))

    def rows_of(self, day: datetime.date) -> Path | Table:
        """Return the rows of a day: its file, or a table with declared records."""
        file = self.file_of(day)
        if self.records == "standard":
            return file
        return Table(file, schema=self.schema, name=self.scope, records=self.records)

    @property
    def sequence(self) -> SequencePlan:
        """The part of the sequence that never changes, with the price of a day."""
        return SequencePlan(
            query=self.query, schema=self.schema, learner=self.learner, days_per_person=self.days_per_person
        )

    def open(self, ledger: Ledger) -> Sequence:
        """Open the sequence on its ledger."""
        return Sequence(
            self.query,
            self.learner,
            schema=self.schema,
            budget=self.budget,
            ledger=ledger,
            scope=self.scope,
            days_per_person=self.days_per_person,
            state=self.state,
            routes=self.routes,
            strict=self.strict,
        )


def is_daily(path: Path | str) -> bool:
    """Return whether a plan has a `[sequence]` table."""
    return "sequence" in read_file(path).values


def read_daily_plan(path: Path | str) -> DailyPlan:
    """Read and check a plan with a `[sequence]` table."""
    whole = read_file(path)
    for key, why in {
        "sequence": "the plan has no [sequence] table; `sidelight run` is for plans with [[query]] tables",
        "ledger": "a sequence needs a [ledger] table, which stores releases and charges",
    }.items():
        if key not in whole.values:
            whole.refuse(why)
    (given, head), folder = read_head(whole), folder_of(whole)
    for key in ("query", "pricing"):
        if key in given:
            whole.refuse(f"{key} does not go with [sequence]; leave it out", key=key)
    if head["parent"] is not None:
        given["ledger"].refuse("a sequence has a budget of its own; leave parent and parent_budget out", key="parent")
    place = given["source"]
    file = place.values["path"]
    for key in ("table", "engine"):
        if key in place.values:
            place.refuse(f"a sequence reads one file a day; leave {key} out", key=key)
    if "{day}" not in file:
        place.refuse(
            "a sequence reads one file a day, so path must contain {day} in place of the day, such as "
            '"trips-{day}.csv"; the same file on several days would be released for the price of one',
            key="path",
        )
    query, learner, days = read_sequence(given["sequence"], head["data"].schema)
    state = folder / days["state"] if "state" in days else None
    if state is not None and any(would_be_read(state, each) for each in head["data"].files):
        given["sequence"].refuse("the state would be written to a file of a day; give it another name", key="state")
    return DailyPlan(
        source=str(folder / file),
        query=query,
        learner=learner,
        days_per_person=days.get("days_per_person"),
        state=state,
        **head | {"routes": routes_of_days(head["budget"], head["routes"])},
    )


def read_sequence(section: Section, schema: Schema) -> tuple[Quantiles, Learner, dict[str, Any]]:
    """Read the query of every day, its learner, and the keys about the days."""
    usual = "proximate" if "location" in section.values else "tracked"
    kind = take(choice(*LEARNERS), KeyPlace(section, "learner"), section.values.get("learner", usual))
    for key in section.values:
        owners = [name for name, table in LEARNERS.items() if key in table.keys]
        if owners and kind not in owners and key not in _query_keys():
            instead = "; it is prediction" if (kind, key) == ("tracked", "fallback") else "; leave it out"
            named = " or ".join(f'learner = "{name}"' for name in owners)
            section.refuse(f"{key} belongs to {named}{instead}", key=key)
    given = sequence_table(kind).read_values(section)
    asked = {key: given.pop(key) for key in _query_keys() if key in given}
    days = {key: given.pop(key) for key in _OWN if key in given}
    with section.naming():
        query: Quantiles = Quantiles(**asked)
        query.prepare(schema)
        learner: Learner = LEARNERS[kind].make(**given)
    return query, learner, days


def release_today(path: Path, *, day: str, features: str, resume: bool, output: Path) -> None:
    """Release a day and write its report; checks run before anything is charged."""
    plan = read_daily_plan(path)
    date, numbers = read_day(day), read_features(features)
    check_writable(output, inputs=inputs_of(path, plan.files, plan.ledger))
    with open_ledger(plan.ledger) as ledger:
        sequence = plan.open(ledger)
        check_writable(output, inputs=[sequence.state_file])
        before = sequence.last_day
        again = before is not None and date <= before  # then nothing is read
        rows = plan.file_of(date) if again else plan.rows_of(date)
        outcome = sequence.release(rows, day=date, features=numbers, resume=resume)
        item = Item(title=f"{plan.title}, {date}", outcome=outcome)
        note(days=sequence.days, again=again)
        write_outcomes(plan, sequence, ledger, [item], output=output)
        if again:
            tell("This day was released before: the stored answer was returned at no cost.")
        tell(sequence.statement())
        tell(f"Days released: {sequence.days}   Report: {output}")


def read_features(text: str) -> list[float]:
    """Read comma-separated numbers; an empty text means no features.

    >>> read_features("1, 0,-0.5"), read_features("")
    ([1.0, 0.0, -0.5], [])
    """
    try:
        return [float(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        raise PlanError(f"--features must be comma-separated numbers, such as 1,0,0.5; got {text!r}") from None


# `sidelight plan` for a plan with a `[sequence]` table: what a day costs, and for how many days the budget lasts.


def show_days(path: Path) -> None:
    """Print the price of a day and how long the budget lasts; less than one day is an error with status 1."""
    plan = read_daily_plan(path)
    each = plan.days_per_person
    claims = plan.sequence.claims
    price = price_of_day(claims, each, routes=plan.routes)
    rule, before, _, earlier = account(plan.ledger, plan.scope, budget=plan.budget, routes=plan.routes)
    charge = rule.charge(price)
    days = days_left(rule, before, charge)
    if each is not None:  # days are charged in parallel, and the most expensive one counts
        before = Totals.zero()
        days = None if rule.grants(before, charge) else 0
    tell(plan.title, style="bold")
    tell(f"A day is {claims.strongest}." + ("" if each is None else f" It is charged {each} times: {price.strongest}."))
    tell("")
    tell("What one day is charged: bookkeeping, not a guarantee", style="bold")
    console().print(route_table(rule, before, before.plus(charge) if days or days is None else before))
    tell("")
    promised = rule.statement(numerics=worst_numerics(earlier, claims.numerics))
    tell(f"Guarantee: {promised}")
    note(title=plan.title, day=str(claims.strongest), promised=promised, days_left=days)
    if days is None:
        assert each is not None
        held = "one day" if each == 1 else f"{each} days"
        tell(f"The budget lasts indefinitely, for everyone who has data in at most {held}. This is not checked.")
        return
    if days == 0:
        raise FailedError(
            f"the budget lasts for no further day. Nothing was spent; lower epsilon. {BUDGETS_ADD_UP.capitalize()}"
        )
    more = "more " if before != Totals.zero() else ""
    tell(f"The budget lasts for {days} {more}{'day' if days == 1 else 'days'}, each charged in full.")
    tell("If no person has data in more than k days, declare days_per_person = k, and it lasts indefinitely.")


def days_left(rule: Rule, totals: Totals, charge: Charge) -> int | None:
    """Count how often a charge would be granted from now on: the best open route, and the pool.

    >>> from sidelight.guarantees import ApproxDP, Claims, PureDP
    >>> rule = Rule.for_budget(ApproxDP(3, "1e-6"), routes=["basic", "gdp", "zcdp"])
    >>> days_left(rule, Totals.zero(), rule.charge(Claims.of(PureDP("0.01"))))
    3388
    """
    found = 0
    for route, capacity in rule.capacities:
        asked = charge.of(route)
        if route not in totals.closed and asked:
            found = max(found, (capacity - totals.of(route)) // asked)
    if charge.delta_items:
        found = min(found, (rule.pool - totals.delta_items) // charge.delta_items)
    return max(0, found)
