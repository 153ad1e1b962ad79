"""`sidelight today`: release one day of a sequence, with a prediction learned from the days before."""

from __future__ import annotations

from pathlib import Path

from sidelight.cli.accounts import account_of
from sidelight.cli.plans.sequences import DailyPlan, read_daily_plan
from sidelight.cli.running import shown_place
from sidelight.cli.terminal import tell, today, warnings_told
from sidelight.errors import PlanError
from sidelight.ledger import Ledger, open_ledger
from sidelight.quantiles import Sequence
from sidelight.quantiles.sequence.plan import read_day
from sidelight.release import Outcome
from sidelight.report import Item, Report, check_writable, write_report


def release_today(path: Path, *, day: str, features: str, resume: bool, output: Path) -> None:
    """Release a day and write its report; what can go wrong is looked for before anything is spent."""
    with warnings_told():
        plan = read_daily_plan(path)
        date, numbers = read_day(day), read_features(features)
        check_writable(output)
        with open_ledger(plan.ledger) as ledger:
            sequence = plan.open(ledger)
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
    )
    item = Item(title=f"{plan.title}, {day}", outcome=outcome)
    write_report(Report(title=plan.title, day=today(), items=(item,), account=account), output)
