"""A machine that fails under a ledger: a full or read-only disk, a clock that goes back, older and cut copies."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import BudgetError, LedgerError, SidelightError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, chain, open_ledger, reservation
from sidelight.ledger.verify import Verification

TENTH = Claims.of(PureDP("0.1"))
NOBODY = 65534


def charge(ledger: Ledger, key: str) -> str:
    """Charge once and store a value; return the head of the history afterwards."""
    reservation = ledger.scope("people").reserve(TENTH, request={"kind": "count"}, key=key)
    assert isinstance(reservation, Reservation)
    return reservation.release(f"value of {key}")


def made(path: Path, charges: int = 0) -> Path:
    with open_ledger(path) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        for number in range(charges):
            charge(ledger, str(number))
    return path


def looked(path: Path) -> tuple[set[str | None], Verification]:
    with open_ledger(path) as ledger:
        entries = ledger.scope("people").entries()
        assert ledger.scope("people").totals().epsilon == len(entries) * 10**29
        return {entry.key for entry in entries if entry.state == "released"}, ledger.verify()


def in_a_child(work: Callable[[Callable[[str], object]], None]) -> list[str]:
    """Return the output of a forked process, with its error in the last line."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(lambda text: os.write(writer, f"{text}\n".encode()))
        except SidelightError as error:
            os.write(writer, f"{type(error).__name__}: {error}\n".encode())
        except BaseException as error:
            os.write(writer, f"TRACEBACK {error!r}\n".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        said = lines.read().splitlines()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("room", [0, 3000, 9000, 20_000, 40_000])
def test_a_full_disk_loses_nothing_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Limit the child's files to a size, so that writes fail anywhere in a transaction."""
    monkeypatch.setattr(reservation, "OUTCOME_SECONDS", 0.0)
    path = made(tmp_path / "budget.db")

    def fill(say: Callable[[str], object]) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        ledger = open_ledger(path)
        ledger.scope("people")
        log = path.with_name(path.name + "-wal")
        size = log.stat().st_size if log.exists() else 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, size + room))
        for number in range(10):
            charge(ledger, str(number))
            say(str(number))

    *left, last = in_a_child(fill)
    assert last.startswith("LedgerUnavailableError: ") or len(left) == 9, last
    found, verified = looked(path)
    assert verified.ok
    assert set(left) <= found
    with open_ledger(path) as ledger:  # there is room again: what is left of the budget can be spent, and no more
        more = 10 - len(ledger.scope("people").entries())
        for number in range(more):
            charge(ledger, f"later {number}")
        with pytest.raises(BudgetError):
            charge(ledger, "too many")


def test_a_disk_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    path = made(folder / "budget.db", charges=2)
    before = path.read_bytes()
    for part, mode in ((tmp_path, 0o755), (path, 0o444), (folder, 0o555)):
        part.chmod(mode)

    def spend(say: Callable[[str], object]) -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        with open_ledger(path) as ledger:
            charge(ledger, "more")
        say("granted")

    (told,) = in_a_child(spend)
    assert told.startswith("LedgerError: ")
    assert "cannot be written" in told
    folder.chmod(0o755)
    assert path.read_bytes() == before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[timedelta]:
    """A clock that is off by what stands in the list."""
    off = [timedelta(0)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + off[0]

    monkeypatch.setattr(chain, "datetime", Clock)
    return off


def test_a_clock_that_goes_back_grants_nothing_twice(tmp_path: Path, clock: list[timedelta]) -> None:
    path = made(tmp_path / "budget.db")
    for number, off in enumerate((0, -3600, -365 * 86400, 86400 * 365 * 50, -86400 * 365 * 40)):
        clock[0] = timedelta(seconds=off)
        with open_ledger(path) as ledger:
            charge(ledger, f"{number} a")
            charge(ledger, f"{number} b")
    found, verified = looked(path)
    assert (len(found), verified.ok) == (10, True)
    with open_ledger(path) as ledger:
        years = {event.at_utc[:4] for event in ledger.events()}
        assert len(years) >= 3, "the clock did go back"
        with pytest.raises(BudgetError):
            charge(ledger, "one more")


def test_an_older_copy_between_processes_is_seen_by_a_kept_head_and_only_by_it(tmp_path: Path) -> None:
    """Threat model: an intact older copy, accepted by a fresh process without a later head."""
    path = made(tmp_path / "budget.db", charges=1)
    older = Path(shutil.copy(path, tmp_path / "older.db"))
    (head,) = in_a_child(lambda say: say(_charged(path, "second")))
    os.replace(older, path)

    def look(say: Callable[[str], object]) -> None:
        with open_ledger(path) as ledger:
            say(str(ledger.verify().ok))
            say(str(ledger.verify(expect_head=head).ok))

    assert in_a_child(look) == ["True", "False"]


def _charged(path: Path, key: str) -> str:
    with open_ledger(path) as ledger:
        return charge(ledger, key)


def test_a_file_that_is_half_gone_is_never_spent_from_in_silence(tmp_path: Path) -> None:
    path = made(tmp_path / "budget.db", charges=9)
    content = path.read_bytes()
    for share in (0.3, 0.6, 0.9):
        path.write_bytes(content[: int(len(content) * share)])
        assert not _granted_and_intact(path), share


def _granted_and_intact(path: Path) -> bool:
    try:
        with open_ledger(path) as ledger:
            charge(ledger, "tenth")
            return ledger.verify().ok
    except LedgerError:
        return False
