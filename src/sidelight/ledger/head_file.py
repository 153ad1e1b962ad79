"""The newest head of a ledger in a file on another disk, and a ledger that spends only if it contains that head.

A process remembers the heads that it has seen (`journal`), and a process that starts later knows none of them. With a
head file every transaction that writes requires the stored head in the ledger, while it holds the ledger's lock, so a
ledger that was restored or failed over to an older state grants nothing, however many processes come and go. The file
is written after each commit, before any data is opened, and never by a ledger that lacks the head in it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sidelight.errors import LedgerDamagedError, LedgerError, LedgerUnavailableError
from sidelight.ledger.journal import Head, check_contains, newest_event
from sidelight.ledger.place import check_output
from sidelight.ledger.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidelight.ledger.place import Place
    from sidelight.ledger.schema import Transaction

Result = TypeVar("Result")


class GuardedStore(Store):
    """A store whose writing transactions require the head in a file, and keep theirs in it."""

    def __init__(self, place: Place, *, head_file: Path, **options: Any) -> None:
        check_output(head_file)  # never a ledger, nor a file that SQLite keeps next to one
        # the file behind links: renaming would replace a link to another disk by a file on this one
        self.head_file = Path(os.path.realpath(head_file))
        if place.path is not None and not place.path.exists():
            check_no_ledger(place.shown, self.head_file)  # before connecting makes a file
        super().__init__(place, **options)

    def decide(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` as `Store.decide` does, and require the stored head before the commit."""
        stored: Head | None = None
        newest: Head | None = None
        is_new = False

        def guarded(transaction: Transaction) -> Result:
            nonlocal stored, newest, is_new
            is_new = read_head(self.head_file) is None
            if is_new:
                _check_new(transaction, self.head_file)  # before the work: what it does itself does not count
            found = work(transaction)
            stored = read_head(self.head_file)  # now: all heads in it were committed before the lock was taken
            if stored is not None:
                check_contains(transaction, stored, known_from="the head file has")
            newest = None if transaction.head is None else transaction.head[1:]
            return found

        found = super().decide(guarded)
        self._keep(newest, required=stored, create=is_new)
        return found

    def start_head_file(self) -> None:
        """Make a missing head file from the ledger as it is: the owner's word that it is the newest copy."""
        if read_head(self.head_file) is not None:
            raise LedgerError(
                f"the head file {self.head_file.name!r} is there, and it is the newest head that was kept; a new one "
                "is made only where it is missing"
            )
        self._keep(None, required=None, create=True)

    def _keep(self, newest: Head | None, *, required: Head | None, create: bool) -> None:
        """Write the newest head unless the file has a newer one; synced to disk on return."""
        path = self.head_file
        try:
            with _locked(path):
                stored = read_head(path)
                if stored is None and not create:
                    raise _missing(path)
                if stored != required or newest is None:  # another process wrote it meanwhile
                    with self.read() as transaction:
                        if stored is not None:
                            check_contains(transaction, stored, known_from="the head file has")
                        newest = newest_event(transaction)
                if stored is None or stored[0] < newest[0]:
                    _write_head(path, newest)
        except OSError as error:
            raise LedgerUnavailableError(
                f"the head file {path.name!r} cannot be written ({error.strerror}); what was charged stands, and no "
                "data was opened"
            ) from None


def read_head(path: Path) -> Head | None:
    """Return number and hash of the head in a file; None if there is no file."""
    try:
        found = json.loads(path.read_text())
        return int(found["seq"]), str(found["hash"])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerUnavailableError(f"the head file {path.name!r} cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise LedgerError(f"{path.name!r} is not a head file; restore it, or name another one") from None


def check_head_file(transaction: Transaction, path: Path) -> Head | None:
    """Return the head in a file; refuse a missing file unless the ledger is new."""
    stored = read_head(path)
    if stored is None:
        _check_new(transaction, path)
    return stored


def check_no_ledger(shown: str, path: Path) -> None:
    """Refuse a missing ledger whose head is kept, and a head file for a new one in a folder that is not there."""
    stored = read_head(path)
    if stored is not None:
        raise LedgerDamagedError(
            f"there is no ledger at {shown}, and the head file has event {stored[0]} of it: a new one would grant the "
            "whole budget again. Mount the disk that has the ledger, or put its newest copy back"
        )
    if not path.parent.is_dir():  # a folder that is made here would lie on the disk of the ledger
        raise LedgerError(
            f"the folder {str(path.parent)!r} of the head file does not exist; mount the disk that has it, or make it"
        )


def _check_new(transaction: Transaction, path: Path) -> None:
    """Refuse a ledger with any event but its first: also one without charges may be a copy from before them."""
    if "event" in transaction.tables() and newest_event(transaction)[0] > 0:
        raise _missing(path)


def _missing(path: Path) -> LedgerError:
    return LedgerError(
        f"the head file {path.name!r} is missing, and the ledger is not new: without it an older copy of the ledger "
        "cannot be recognised. Mount the disk that has it; if it is lost, or new, and this is the newest copy of the "
        "ledger, say so with `sidelight server resume FILE --head`"
    )


def _write_head(path: Path, head: Head) -> None:
    new = path.with_name(f"{path.name}.new")
    with new.open("w") as file:
        file.write(json.dumps({"seq": str(head[0]), "hash": head[1]}))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(f"{path}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
