"""Renewal windows: calendar periods in UTC, each a scope below an account. They limit the pace of spending only.

The same rows in a new month are the same people. So a window's budget is part of the account's, `windows` is their
total number, and nothing is carried over. The first charge in a window opens it and closes the others. A window keeps
its budget and its end: where `renew` is changed, the one that is open goes on, and the next one is of the new kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sidelight.accounting import Rule
from sidelight.guarantees import Neighbours
from sidelight.ledger import Ledger
from sidelight.ledger.balances import Balances
from sidelight.server.config import Pool, Renewal, ServedTable, routes_of, rule_of
from sidelight.wire import ProblemError

_FORMATS = {"day": "%Y-%m-%d", "week": "%G-w%V", "month": "%Y-%m"}


@dataclass(frozen=True, kw_only=True)
class RenewalWindow:
    """A window of an account, open or to be opened, with its own rule."""

    scope_id: str
    rule: Rule
    balances: Balances

    @property
    def name(self) -> str:
        """Its name without that of the account."""
        return self.scope_id.rpartition("/")[2]


def window_of(renewal: Renewal, moment: float) -> str:
    """Return the name of the window that a renewal opens at a time in seconds since the epoch.

    >>> from sidelight.guarantees import PureDP
    >>> window_of(Renewal(every="month", budget=PureDP("0.1"), windows=10), 0.0)
    '1970-01'
    """
    return datetime.fromtimestamp(moment, UTC).strftime(_FORMATS[renewal.every])


def period_of(name: str) -> tuple[float, float]:
    """Return the start and the end of a window of any kind, in seconds since the epoch; long ago for another name.

    >>> period_of("1970-01-02"), period_of("1970-w02"), period_of("1970-02")
    ((86400.0, 172800.0), (345600.0, 950400.0), (2678400.0, 5097600.0))
    """
    try:
        if "w" in name:
            start, days = datetime.strptime(f"{name}-1", f"{_FORMATS['week']}-%u"), 7
        elif name.count("-") == 2:
            start, days = datetime.strptime(name, _FORMATS["day"]), 1
        else:
            start = datetime.strptime(name, _FORMATS["month"])
            days = ((start + timedelta(days=31)).replace(day=1) - start).days
    except ValueError:  # a scope that no server opened
        return -math.inf, -math.inf
    start = start.replace(tzinfo=UTC)
    return start.timestamp(), (start + timedelta(days=days)).timestamp()


def window_at(ledger: Ledger, table: ServedTable, account: Pool, moment: float) -> RenewalWindow | None:
    """Return the window at a time: one that was opened, else the next one; None if no further one may be opened."""
    renewal = account.renew
    assert renewal is not None
    scope_id = table.scope_of(account)
    opened = []
    for each, balances in ledger.scope(scope_id).below():
        window = RenewalWindow(scope_id=each.scope_id, rule=each.rule, balances=balances)
        opened.append((*period_of(window.name), window))
    now = [(not window.balances.shut, start, window) for start, end, window in opened if start <= moment < end]
    if now:
        return max(now, key=lambda each: each[:2])[2]
    # a later one exists: a clock that was set back reopens nothing
    if len(opened) >= renewal.windows or any(start > moment for start, _, _ in opened):
        return None
    name = f"{scope_id}/{window_of(renewal, moment)}"
    return RenewalWindow(scope_id=name, rule=rule_of(renewal.budget), balances=Balances())


def open_window(ledger: Ledger, table: ServedTable, account: Pool, moment: float) -> str:
    """Return the name of the scope of the window at a time; if it is not open, open it and close the others.

    Raises:
        ProblemError: `budget`, if no window is left.
    """
    renewal = account.renew
    assert renewal is not None
    window = window_at(ledger, table, account, moment)
    if window is None:
        raise ProblemError("budget", f"all {renewal.windows} windows of this share were opened")
    below = ledger.scope(table.scope_of(account)).below()
    if any(each.scope_id == window.scope_id for each, _ in below):
        return window.scope_id
    for each, balances in below:
        if not balances.shut:
            ledger.close_scope(each.scope_id)
    budget = renewal.budget
    ledger.open_scope(
        window.scope_id,
        budget=budget,
        unit=table.schema.unit,
        neighbours=Neighbours.ADD_REMOVE,
        routes=routes_of(budget),
        parent=table.scope_of(account),
    )
    return window.scope_id


def describe_difference(ledger: Ledger, table: ServedTable, account: Pool, moment: float) -> str | None:
    """Return a sentence about an open window of another budget or kind than the file's; None if there is none."""
    renewal, window = account.renew, window_at(ledger, table, account, moment)
    assert renewal is not None
    if window is None:
        return None
    wanted, found = rule_of(renewal.budget), window.rule
    same = (found.capacities, found.pool) == (wanted.capacities, wanted.pool)
    if same and window.name == window_of(renewal, moment):
        return None
    end = datetime.fromtimestamp(period_of(window.name)[1], UTC)
    return (
        f"the window {window.scope_id!r} is open with the budget and the period of an earlier file; it keeps both "
        f"until {end:%Y-%m-%d} UTC, and the renewal in the file counts from then on"
    )
