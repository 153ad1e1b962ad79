"""The accounts of the periods of a window, beside that of a person's whole life; a release is charged to both.

One scope of the ledger is partitioned by period, with a part for each period that something was asked about. It is a
sibling of the lifetime scope and not below it: a partitioned parent takes the largest of its parts, and would forget
every period but the dearest. Both are charged in one transaction, all or none (proof page persons-across-tables,
Theorem 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sidelight.accounting import Remaining, Route, Spent, Totals, find_spent
from sidelight.errors import RangeError, SchemaError, ScopeError
from sidelight.guarantees import Claim, Claims, PersonPeriod, implies
from sidelight.ledger import Scope
from sidelight.records import Database
from sidelight.records.windows import Window


@dataclass(frozen=True, kw_only=True)
class PeriodCharge:
    """What a release is charged beside its price for the whole life: claims for one person's rows of one period.

    Args:
        periods: Those that pay, by name; None for all of the window.
        claims: The price for each.
    """

    periods: tuple[str, ...] | None
    claims: Claims


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
        found = recorded_window(lifetime)
        self._check_unspent(found)
        if found is not None and found != text:
            raise ScopeError(
                f"scope {_periods_of(lifetime)!r} exists with the window {found!r}, and now it is {text!r}: rows "
                "that were asked about would lie in a period with an empty account. A window never changes; declare it "
                "as before"
            )
        self._all = lifetime.ledger.open_scope(_periods_of(lifetime), partitioned_by=text, **self._how)
        self._check_unspent(found)  # somebody without a window may have released before it was there

    def _check_unspent(self, found: str | None) -> None:
        if found is None and self._lifetime.totals() != Totals.zero():
            raise ScopeError(
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
        part = balances.parts.get(self.account(period).scope_id, Totals.zero())
        return find_spent(self._all.rule, balances.own.plus_totals(part))

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
            "promised, window_budget=sl.PureDP(...), beside budget= for the whole life"
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
