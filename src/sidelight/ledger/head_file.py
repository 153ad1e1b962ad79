"""The newest head of a ledger in a file on another disk, and a ledger that spends only if it contains that head.

A process remembers the heads that it has seen (`journal`), and a process that starts later knows none of them. With a
head file every transaction that writes requires the stored head in the ledger, while it holds the ledger's lock, so a
ledger that was restored or failed over to an older state grants nothing, however many processes come and go. The file
is written to a draft before each commit, which a disk that cannot be written stops, put in its place after it, before
any data is opened, and never by a ledger that lacks the head in it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from sidelight.errors import LedgerDamagedError, LedgerError, LedgerUnavailableError
from sidelight.ledger.chain import canonical, checked_head, read
from sidelight.ledger.journal import Head, check_contains, newest_event
from sidelight.ledger.place import check_output
from sidelight.ledger.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidelight.ledger.place import Place
    from sidelight.ledger.schema import Transaction

Result = TypeVar("Result")
_NOTHING: Final = "nothing was charged"
_LOCK_AGAIN: Final = 0.002  # seconds between attempts to lock


class GuardedStore(Store):
    """A store whose writing transactions require the head in a file, and keep theirs in it."""

    def __init__(self, place: Place, *, head_file: Path, **options: Any) -> None:
        check_output(head_file)  # never a ledger, nor a file that SQLite keeps next to one
        # the file behind links: renaming would replace a link to another disk by a file on this one
        self.head_file = Path(os.path.realpath(head_file))
        if place.path is not None and not place.path.exists():
            check_no_ledger(place.shown, self.head_file)  # before connecting makes a file
        super().__init__(place, **options)

    def decide(self, work: Callable[[Transaction], Result], *, unwritten: str = _NOTHING) -> Result:
        """Run `work` as `Store.decide` does; require the stored head, and write the new one, before the commit."""
        prepared = False
        with ExitStack() as held:

            def guarded(transaction: Transaction) -> Result:
                nonlocal prepared
                held.close()  # of an attempt before this one
                is_new = read_head(self.head_file) is None
                if is_new:
                    _check_new(transaction, self.head_file)  # before the work: what it does itself does not count
                found = work(transaction)
                held.enter_context(
                    self._locked(unwritten)
                )  # until the file is replaced: heads in it are committed ones
                prepared = self._prepare(transaction, is_new=is_new, unwritten=unwritten)
                return found

            found = super().decide(guarded, unwritten=unwritten)
            if prepared:
                self._keep()
        return found

    def _keep(self) -> None:
        """Put the draft of a head that was committed in its place; an error says that the ledger was written."""
        try:
            with self._with_advice("what was charged stands"):
                self._replace()
        except LedgerUnavailableError as error:
            error.is_committed = True
            raise

    def start_head_file(self) -> None:
        """Make a missing head file from the ledger as it is: the owner's word that it is the newest copy."""
        with self._locked():
            if read_head(self.head_file) is not None:
                raise LedgerError(
                    f"the head file {self.head_file.name!r} is there, and it is the newest head that was kept; a new "
                    "one is made only where it is missing"
                )
            with self.read() as transaction:
                newest = newest_event(transaction)
            with self._with_advice(_NOTHING):
                self._write_draft(newest)
                self._replace()

    def check_writable(self) -> None:
        """Refuse a head file that could not be replaced now, as on a disk that is full."""
        with self._locked():
            stored = read_head(self.head_file)
            if stored is not None:
                with self._with_advice(_NOTHING):
                    self._write_draft(stored)

    def _prepare(self, transaction: Transaction, *, is_new: bool, unwritten: str) -> bool:
        """Check the stored head and write the new one to a draft; return whether there is one to put in its place."""
        stored = read_head(self.head_file)
        if stored is None and not is_new:
            raise _missing(self.head_file)
        if stored is not None:
            check_contains(transaction, stored, known_from="the head file has")
        newest = newest_event(transaction) if transaction.head is None else transaction.head[1:]
        with self._with_advice(unwritten):
            # An earlier head that was committed and not kept (the disk failed between): once more, before anything
            # else is charged, so that a file that cannot be replaced costs one charge and not all.
            if transaction.locked is not None and (stored is None or stored[0] < transaction.locked[0]):
                stored = transaction.locked
                self._write_draft(stored)
                self._replace()
            if stored is None or stored[0] < newest[0]:
                self._write_draft(newest)
                return True
        return False

    def _write_draft(self, head: Head) -> None:
        """Write a head to the draft; on disk on return."""
        self._draft.unlink(missing_ok=True)
        with self._draft.open("x", encoding="utf-8") as file:  # never through a link
            file.write(canonical({"hash": head[1], "seq": str(head[0])}))
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(self.head_file.parent)  # here, too: a file system that cannot is noticed before the commit

    def _replace(self) -> None:
        """Put the draft in the place of the head file; on disk on return."""
        self._draft.replace(self.head_file)
        _sync_folder(self.head_file.parent)

    @property
    def _draft(self) -> Path:
        return self.head_file.with_name(f"{self.head_file.name}.new")

    @contextmanager
    def _locked(self, unwritten: str = _NOTHING) -> Iterator[None]:
        """Hold a lock on the file next to the head file."""
        end = time.monotonic() + self.wait_seconds
        with ExitStack() as opened:
            with self._with_advice(unwritten):
                lock = opened.enter_context(open(f"{self.head_file}.lock", "a"))
            while not self._is_mine(lock, unwritten):
                if time.monotonic() > end:
                    raise LedgerUnavailableError(
                        f"the head file {self.head_file.name!r} has been locked by another process for "
                        f"{self.wait_seconds:g} s; {unwritten}"
                    )
                time.sleep(_LOCK_AGAIN)
            try:
                yield
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # closing alone would leave it to children that were forked meanwhile

    def _is_mine(self, lock: IO[str], unwritten: str) -> bool:
        """Take a lock; return False if another holds it."""
        with self._with_advice(unwritten):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    @contextmanager
    def _with_advice(self, consequence: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LedgerUnavailableError(
                f"the head file {self.head_file.name!r} cannot be written ({error.strerror}); {consequence}. Make room "
                "on its disk, mount it, or give permission to write to its folder"
            ) from None


def read_head(path: Path) -> Head | None:
    """Return number and hash of the head in a file; None if there is no file."""
    try:
        found: Any = read(path.read_text(encoding="utf-8"))
        seq, digest = int(found["seq"]), checked_head(found["hash"])
        if not 0 <= seq < 2**63:
            raise ValueError(seq)
        return seq, digest
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerUnavailableError(f"the head file {path.name!r} cannot be read ({error.strerror})") from None
    except (LedgerError, ValueError, KeyError, TypeError):
        raise LedgerError(f"{path.name!r} is not a head file; restore it, or name another one") from None


def check_head_file(transaction: Transaction, path: Path) -> Head | None:
    """Return the head in a file; refuse a missing file unless the ledger is new."""
    stored = read_head(path)
    if stored is None:
        _check_new(transaction, path)
    return stored


def check_kept_head(transaction: Transaction, path: Path) -> None:
    """Refuse a ledger without the head in a file, and a missing file unless the ledger is new."""
    stored = check_head_file(transaction, path)
    if stored is not None:
        check_contains(transaction, stored, known_from="the head file has")


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


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
