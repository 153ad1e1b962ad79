"""`sidelight today`: release one day of a sequence, with a prediction learned from the days before."""

from __future__ import annotations

from pathlib import Path

from sidelight.accounting import Charge, Rule, Totals
from sidelight.cli.answers import note, note_report
from sidelight.cli.pricing import account, route_table
from sidelight.cli.running import inputs_of, shown_place
from sidelight.cli.sequences import DailyPlan, read_daily_plan
from sidelight.cli.terminal import account_of, console, tell, today
from sidelight.errors import FailedError, PlanError
from sidelight.ledger import Ledger, open_ledger
from sidelight.ledger.definition import BUDGETS_ADD_UP
from sidelight.quantiles import Sequence
from sidelight.quantiles.sequence.accounts import for_days
from sidelight.quantiles.sequence.plan import read_day
from sidelight.release import Outcome
from sidelight.report import Item, Report, check_writable, write_report


def release_today(path: Path, *, day: str, features: str, resume: bool, output: Path) -> None:
    """Release a day and write its report; what can go wrong is looked for before anything is spent."""
    plan = read_daily_plan(path)
    date, numbers = read_day(day), read_features(features)
    check_writable(output, inputs=inputs_of(path, plan.file_of(date), plan.ledger))
    with open_ledger(plan.ledger) as ledger:
        sequence = plan.open(ledger)
        check_writable(output, inputs=[sequence.state_file])
        before = sequence.last_day
        again = before is not None and date <= before  # then nothing is read
        rows = plan.file_of(date) if again else plan.rows_of(date)
        outcome = sequence.release(rows, day=date, features=numbers, resume=resume)
        _write(plan, sequence, ledger, outcome, day=date.isoformat(), output=output)
        tell(f"{plan.title}, {date}", style="bold")
        tell(f"{outcome}\n")
        if again:
            tell("This day was released before: the stored answer came back for nothing.")
        tell(sequence.statement())
        note(days=sequence.days, again=again)
        tell(f"Days released: {sequence.days}   Report: {output}")


def read_features(text: str) -> list[float]:
    """Read numbers with commas between; nothing is no features.

    >>> read_features("1, 0,-0.5"), read_features("")
    ([1.0, 0.0, -0.5], [])
    """
    try:
        return [float(part) for part in text.split(",")] if text.strip() else []
    except ValueError:
        raise PlanError(f"--features must be numbers with commas between, such as 1,0,0.5; got {text!r}") from None


def _write(plan: DailyPlan, sequence: Sequence, ledger: Ledger, outcome: Outcome, *, day: str, output: Path) -> None:
    account = account_of(
        spent=sequence.spent,
        remaining=sequence.remaining,
        statement=sequence.statement(),
        place=shown_place(ledger),
        scope=plan.scope,
        head=ledger.head(),
        budget=plan.budget,
    )
    item = Item(title=f"{plan.title}, {day}", outcome=outcome)
    report = Report(title=plan.title, day=today(), items=(item,), account=account)
    write_report(report, output)
    note_report(report.to_json())
    note(output=str(output))


# `sidelight plan` for a plan with a `[sequence]` table: what a day costs, and for how many days the budget lasts.


def show_days(path: Path) -> None:
    """Print the price of a day and how long the budget lasts; not even one day is an error with status 1."""
    plan = read_daily_plan(path)
    each = plan.days_per_person
    claims = plan.sequence.claims
    price = for_days(claims, 1 if each is None else each)
    rule, before, _ = account(plan.ledger, plan.scope, budget=plan.budget, routes=plan.routes)
    charge = rule.charge(price)
    days = days_left(rule, before, charge)
    if each is not None:  # every day is a part of its own, charged from the beginning, and the dearest counts
        before = Totals.zero()
        days = None if rule.grants(before, charge) else 0
    tell(plan.title, style="bold")
    tell(f"A day is {claims.strongest}." + ("" if each is None else f" It is charged {each} times: {price.strongest}."))
    tell("")
    tell("What one day is charged: bookkeeping, not a guarantee", style="bold")
    console().print(route_table(rule, before, before.plus(charge) if days or days is None else before))
    tell("")
    tell(f"What is promised: {rule.statement()}")
    note(title=plan.title, day=str(claims.strongest), promised=rule.statement(), days_left=days)
    if days is None:
        assert each is not None
        held = "one day" if each == 1 else f"{each} days"
        tell(f"The budget lasts for ever, for everyone who has data in at most {held}: nobody checks that.")
        return
    if days == 0:
        raise FailedError(
            f"the budget lasts for no further day. Nothing was spent; lower epsilon. {BUDGETS_ADD_UP.capitalize()}"
        )
    more = "more " if before != Totals.zero() else ""
    tell(f"The budget lasts for {days} {more}{'day' if days == 1 else 'days'}, each charged in full.")
    tell("If nobody has data in more than k days, declare days_per_person = k, and it lasts for ever.")


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
