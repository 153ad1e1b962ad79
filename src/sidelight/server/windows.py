"""Renewal windows: calendar periods in UTC, each a scope below an account. They limit the pace of spending only.

The same rows in a new month are the same people. So a window's budget is part of the account's, `windows` is their
total number, and nothing is carried over. The first charge in a window opens it and closes those before
it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sidelight.guarantees import Neighbours
from sidelight.ledger import Ledger
from sidelight.ledger.balances import Balances
from sidelight.server.config import Pool, Renewal, ServedTable, routes_of
from sidelight.wire import ProblemError

_FORMATS = {"day": "%Y-%m-%d", "week": "%G-w%V", "month": "%Y-%m"}


def window_of(renewal: Renewal, moment: float) -> str:
    """Return the name of the window at a time in seconds since the epoch.

    >>> from sidelight.guarantees import PureDP
    >>> window_of(Renewal(every="month", budget=PureDP("0.1"), windows=10), 0.0)
    '1970-01'
    """
    return datetime.fromtimestamp(moment, UTC).strftime(_FORMATS[renewal.every])


def window_balances(ledger: Ledger, table: ServedTable, account: Pool, moment: float) -> Balances | None:
    """Return the balances of the window at a time; None if no further window may be opened."""
    renewal = account.renew
    assert renewal is not None
    scope_id = table.scope_of(account)
    name, below = f"{scope_id}/{window_of(renewal, moment)}", ledger.scope(scope_id).below()
    known = next((balances for each, balances in below if each.scope_id == name), None)
    if known is not None:
        return known
    # a later one exists: a clock that was set back reopens nothing
    later = any(each.scope_id > name for each, _ in below)
    return None if later or len(below) >= renewal.windows else Balances()


def open_window(ledger: Ledger, table: ServedTable, account: Pool, moment: float) -> str:
    """Open the window at a time, close those before it, and return the name of its scope.

    Raises:
        ProblemError: `budget`, if no window is left.
    """
    renewal = account.renew
    assert renewal is not None
    scope_id = table.scope_of(account)
    name = f"{scope_id}/{window_of(renewal, moment)}"
    if window_balances(ledger, table, account, moment) is None:
        raise ProblemError("budget", f"all {renewal.windows} windows of this share were opened")
    for each, balances in ledger.scope(scope_id).below():
        if each.scope_id < name and not balances.shut:
            ledger.close_scope(each.scope_id)
    budget = renewal.budget
    ledger.open_scope(
        name,
        budget=budget,
        unit=table.schema.unit,
        neighbours=Neighbours.ADD_REMOVE,
        routes=routes_of(budget),
        parent=scope_id,
    )
    return name
