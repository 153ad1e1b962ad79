"""How the persons of a database were found when something was released, and the refusal of a path that changed.

The unit of a database names no column. So every request on a view records, for every table, how its person is found, or
that it is public, and the window. Tables may be added; a table whose path changed (payees instead of payers) is
refused: what was released before promises nothing to the new people. So is another window, or one where there was none:
rows that were asked about would lie in a period with an empty account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from sidelight.errors import LedgerError, ScopeError
from sidelight.guarantees import Claims
from sidelight.ledger import LedgerEntry, Reservation, Scope, Stored
from sidelight.records.linked_tables import LinkedTables
from sidelight.session.periods import PeriodAccounts, PeriodCharge, recorded_window

#: How many entries of a ledger are read at once.
_PAGE = 100


class DatabaseAccount:
    """The scope of a database, which grants nothing while a path differs from that of an earlier request.

    Another session may release between two requests of this one, so the entries that are new are looked at before each
    charge, and once more after it, up to its own entry: of two requests at the same time the second is refused before
    a row is read, and its charge stands.

    Raises:
        ScopeError: a path changed.
    """

    def __init__(self, scope: Scope, tables: LinkedTables) -> None:
        self._scope, self._paths, self._window = scope, tables.paths(), tables.window_text()
        self._periods: PeriodAccounts | None = None
        self._seen: str | None = None
        self._check_window()
        for entry in scope.entries():
            self._check(entry)

    def beside(self, periods: PeriodAccounts | None) -> Self:
        """Charge the accounts of periods, too."""
        self._periods = periods
        return self

    def reserve(self, claims: Claims, *, request: Mapping[str, Any], **how: Any) -> Reservation | Stored:
        """Charge as the scope does, if all paths are as before."""
        return self.reserve_with(None, claims, request=request, **how)

    def reserve_with(
        self, period: PeriodCharge | None, claims: Claims, *, request: Mapping[str, Any], **how: Any
    ) -> Reservation | Stored:
        """Charge the whole life and the periods in one transaction, all or none, if all paths are as before."""
        if period is not None and self._periods is None:
            raise LedgerError("a release is charged to periods, and this account has none. Nothing was charged")
        beside = {} if period is None or self._periods is None else self._periods.charges(period)
        self._check_new()
        reservation = self._scope.reserve(claims, beside=beside, request=request, **how)
        if isinstance(reservation, Reservation):
            try:
                self._check_new(before=reservation.entry_id)
            except ScopeError:
                reservation.fail()
                raise
        return reservation

    def _check_window(self) -> None:
        """Refuse to release without a window where the periods of one have accounts, which would not be charged."""
        found = recorded_window(self._scope) if self._window is None else None
        if found is not None:
            raise ScopeError(
                f"scope {self._scope.scope_id!r} was opened with the window {found!r}, and now there is none: what is "
                "promised of a period would be broken. A window never changes; declare it as before"
            )

    def _check_new(self, *, before: str | None = None) -> None:
        self._check_window()
        while page := self._scope.page(limit=_PAGE, after=self._seen):
            for entry in page:
                if entry.entry_id == before:
                    return
                self._check(entry)
                self._seen = entry.entry_id

    def _check(self, entry: LedgerEntry) -> None:
        for view in _recorded(entry.request):
            earlier = view["paths"]
            if view.get("window") != self._window:
                raise ScopeError(
                    f"something was released under scope {self._scope.scope_id!r} with the window "
                    f"{view.get('window')!r}, and now it is {self._window!r}: rows that were asked about would lie in "
                    "a period with an empty account. A window never changes; declare it as before"
                )
            for name, path in self._paths.items():
                if name in earlier and earlier[name] != path:
                    raise ScopeError(
                        f"the person of table {name!r} was found by {earlier[name]!r} when something was released "
                        f"under scope {self._scope.scope_id!r}, and now by {path!r}: what was promised then says "
                        "nothing about these people; declare the table as before, or open a scope for other people"
                    )


def _recorded(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    view = request.get("view")
    if isinstance(view, Mapping) and isinstance(view.get("paths"), Mapping):
        yield view
    for each in request.get("queries", ()):
        if isinstance(each, Mapping):
            yield from _recorded(each)
