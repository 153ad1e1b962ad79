"""How the persons of a database were found when something was released, and the refusal of a path that changed.

The unit of a database names no column. So every request on a view records, for every table, how its person is found, or
that it is public. Tables may be added; a table whose path changed (payees instead of payers) is refused: what was
released before promises nothing to the new people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sidelight.errors import ScopeError
from sidelight.guarantees import Claims
from sidelight.ledger import LedgerEntry, Reservation, Scope, Stored

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

    def __init__(self, scope: Scope, paths: Mapping[str, str]) -> None:
        self._scope, self._paths = scope, paths
        self._seen: str | None = None
        for entry in scope.entries():
            self._check(entry)

    def reserve(self, claims: Claims, *, request: Mapping[str, Any], **how: Any) -> Reservation | Stored:
        """Charge as the scope does, if all paths are as before."""
        self._check_new()
        reservation = self._scope.reserve(claims, request=request, **how)
        if isinstance(reservation, Reservation):
            try:
                self._check_new(before=reservation.entry_id)
            except ScopeError:
                reservation.fail()
                raise
        return reservation

    def _check_new(self, *, before: str | None = None) -> None:
        while page := self._scope.page(limit=_PAGE, after=self._seen):
            for entry in page:
                if entry.entry_id == before:
                    return
                self._check(entry)
                self._seen = entry.entry_id

    def _check(self, entry: LedgerEntry) -> None:
        for earlier in _recorded(entry.request):
            for name, path in self._paths.items():
                if name in earlier and earlier[name] != path:
                    raise ScopeError(
                        f"the person of table {name!r} was found by {earlier[name]!r} when something was released "
                        f"under scope {self._scope.scope_id!r}, and now by {path!r}: what was promised then says "
                        "nothing about these people; declare the table as before, or open a scope for other people"
                    )


def _recorded(request: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    view = request.get("view")
    if isinstance(view, Mapping) and isinstance(view.get("paths"), Mapping):
        yield view["paths"]
    for each in request.get("queries", ()):
        if isinstance(each, Mapping):
            yield from _recorded(each)
