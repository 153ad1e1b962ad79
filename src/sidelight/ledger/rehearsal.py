"""A ledger in which everything happens and nothing stays: one transaction, rolled back when it is closed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from sidelight.errors import LedgerError
from sidelight.ledger.ledger import Ledger, open_or_create, stored_version
from sidelight.ledger.place import check_file, parse_place
from sidelight.ledger.schema import SCHEMA_VERSION, OpenTransaction
from sidelight.ledger.store import Store

if TYPE_CHECKING:
    import os

    from sidelight.ledger.place import Place
    from sidelight.ledger.schema import Transaction

Result = TypeVar("Result")


def rehearse_ledger(url: str | os.PathLike[str], *, key: bytes | None = None, **options: Any) -> tuple[Ledger, bool]:
    """Open a ledger for a rehearsal; return it and whether there is one at this address.

    It holds the ledger's lock until it is closed. What is done in it sees all earlier charges, and is then undone; a
    missing ledger is not made.
    """
    place = parse_place(url)
    if place.path is not None:
        check_file(place.path, create=True)
        if not place.path.exists():  # a connection would make the file
            place = parse_place("sqlite://")
    store = RehearsalStore(place, **options)
    try:
        with store.read() as transaction:
            exists = "event" in transaction.tables()
            if exists and stored_version(transaction, place.shown) != int(SCHEMA_VERSION):
                raise LedgerError(
                    f"{place.shown} was made by an earlier version; the next start brings it up to date, and a check "
                    "does not change it"
                )
        return Ledger(store, identity=open_or_create(store, testing=False, create=True, key=key), key=key), exists
    except BaseException:
        store.close()
        raise


class RehearsalStore(Store):
    """A store whose transactions are one transaction, rolled back by `close`."""

    def __init__(self, place: Place, **options: Any) -> None:
        super().__init__(place, **options)
        self._opened = self.write()
        self._only = self._opened.__enter__()

    def decide(self, work: Callable[[Transaction], Result], *, unwritten: str = "") -> Result:
        """Run `work` in the one transaction."""
        return work(self._only)

    def read(self) -> OpenTransaction[Transaction]:
        """Return the one transaction; its end does not end it."""

        def only() -> Generator[Transaction, None, None]:
            yield self._only

        return OpenTransaction(only())

    def close(self) -> None:
        """Undo everything, and close the connections."""
        self._opened.close()
        super().close()
