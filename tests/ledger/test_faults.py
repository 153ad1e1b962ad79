"""Trap 8: a process that dies, or is interrupted, at any line between request and return.

The story is what a session does: reserve, open the data, draw, release, hand out the value. It is cut at the n-th line
executed inside the ledger's code, by `kill -9` or by an interrupt, for n over the whole story. Whatever n is, the
invariants hold: the charge is there before the data is opened (I2), the value is stored before it leaves (I3), the
history verifies (I1, I4-I7), and a re-run pays again exactly if nothing was stored.
"""

from __future__ import annotations

import _thread
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sidelight.ledger
from sidelight.errors import InProgressError, LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, Stored, connections, journal, open_ledger

CODE = str(Path(sidelight.ledger.__file__).parent)
CLAIMS = Claims.of(PureDP("0.3"))
REQUEST = {"kind": "median"}
TENTH = 10**29


def story(ledger: Ledger, notes: Path) -> None:
    """What a session does, leaving notes of what the outside world saw."""
    reservation = ledger.scope("people").reserve(CLAIMS, request=REQUEST, key="monday")
    assert isinstance(reservation, Reservation)
    (notes / "data was opened").touch()
    reservation.release("the value")
    (notes / "the value left").touch()


def cut_after(lines: int, cut: Iterator[None]) -> Callable[[FrameType, str, Any], Any]:
    """Return a trace function that interrupts after a number of lines of the ledger's code.

    An interrupt reaches Python code only where the interpreter looks for signals: a `with` that has taken a lock cannot
    be interrupted before its body. A trace function that raises knows nothing of this (it raises also between a body
    and the release of its lock), and one that calls anything would be interrupted itself. Unpacking calls nothing that
    Python sees, so the interrupt waits until the traced code is where a user's would reach it.
    """
    done = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal done
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        if event == "line":
            done += 1
            if done > lines:
                sys.settrace(None)
                _ = [*cut]
                return None
        return trace

    return trace


def death() -> Iterator[None]:
    return map(os.kill, [os.getpid()], [signal.SIGKILL])


def interrupt() -> Iterator[None]:
    return map(_thread.interrupt_main, [signal.SIGINT])


def count_lines(address: str, notes: Path) -> int:
    """Run the whole story once in this process and count."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        lines += event == "line"
        return trace

    with open_ledger(address) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
    with open_ledger(address) as ledger:  # as those find it that are cut
        ledger.scope("people")
        sys.settrace(trace)
        try:
            story(ledger, notes)
        finally:
            sys.settrace(None)
    assert (notes / "the value left").exists()
    return lines


def check(ledger: Ledger, notes: Path) -> str:
    """Check everything that must hold after the cut, and after a re-run; return the state that was found."""
    scope = ledger.scope("people")
    assert ledger.verify().ok
    entries = scope.entries()
    assert len(entries) <= 1
    assert scope.totals().epsilon == 3 * TENTH * len(entries)
    state = entries[0].state if entries else "nothing"
    if (notes / "data was opened").exists():
        assert state in ("reserved", "released")  # I2
    if (notes / "the value left").exists():
        assert state == "released"  # I3
    if state == "reserved":
        with pytest.raises(InProgressError):
            scope.reserve(CLAIMS, request=REQUEST, key="monday")
    again = scope.reserve(CLAIMS, request=REQUEST, key="monday", resume=True)
    if state == "released":
        assert isinstance(again, Stored)
        assert again.text == "the value"
        assert scope.totals().epsilon == 3 * TENTH
    else:
        assert isinstance(again, Reservation)
        again.release("a second draw")
        assert scope.totals().epsilon == (6 if state == "reserved" else 3) * TENTH  # trap 10
    assert ledger.verify().ok
    return state


def killed_at(address: str, lines: int, notes: Path) -> str:
    child = os.fork()
    if child == 0:
        try:
            ledger = open_ledger(address)
            ledger.scope("people")
            sys.settrace(cut_after(lines, death()))
            story(ledger, notes)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or (notes / "the value left").exists()
    with open_ledger(address) as ledger:
        return check(ledger, notes)


def interrupted_at(address: str, lines: int, notes: Path) -> str:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would ignore it
    try:
        with open_ledger(address) as ledger:
            ledger.scope("people")
            with suppress(KeyboardInterrupt):
                sys.settrace(cut_after(lines, interrupt()))
                try:
                    story(ledger, notes)
                finally:
                    sys.settrace(None)
            assert not held_locks()  # or every other thread would wait for ever
            return check(ledger, notes)  # with the same handle: an interrupt leaves no transaction open
    finally:
        signal.signal(signal.SIGINT, before)


def held_locks() -> list[str]:
    """Return the modules whose lock this thread still has."""
    return [connections.__name__] if connections._turn._is_owned() else []


def spread_over(total: int, how_many: int | None) -> list[int]:
    """Return line numbers over the whole story, and all of the last ones, where the release is just committed."""
    step = 1 if how_many is None else max(1, total // how_many)
    return sorted({*range(0, total, step), *range(total - 4, total + 1)})


def cuts(tmp_path: Path, *, how_many: int | None, cut: Callable[[str, int, Path], str]) -> dict[str, int]:
    """Cut a fresh copy at lines spread over the whole story; return how often each state was found."""
    (tmp_path / "first").mkdir()
    total = count_lines(str(tmp_path / "whole.db"), tmp_path / "first")
    template = tmp_path / "template.db"
    with open_ledger(template) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
    found: dict[str, int] = {}
    for lines in spread_over(total, how_many):
        notes = tmp_path / str(lines)
        notes.mkdir()
        journal._newest.clear()  # each copy is a world of its own; one process would refuse the older copy
        state = cut(shutil.copy(template, notes / "budget.db"), lines, notes)
        found[state] = found.get(state, 0) + 1
        shutil.rmtree(notes)
    return found


def test_killed_anywhere(tmp_path: Path) -> None:
    found = cuts(tmp_path, how_many=25, cut=killed_at)
    assert set(found) == {"nothing", "reserved", "released"}


def test_interrupted_anywhere(tmp_path: Path) -> None:
    found = cuts(tmp_path, how_many=25, cut=interrupted_at)
    assert set(found) == {"nothing", "reserved", "released"}


@pytest.mark.slow
@pytest.mark.parametrize("cut", [killed_at, interrupted_at])
def test_cut_at_every_single_line(tmp_path: Path, cut: Callable[[str, int, Path], str]) -> None:
    found = cuts(tmp_path, how_many=None, cut=cut)
    assert sum(found.values()) > 500


@pytest.mark.postgres
def test_killed_anywhere_with_postgresql(postgres_address: str, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    total = count_lines(postgres_address, tmp_path / "first")
    found = set()
    for lines in sorted(
        {*range(0, total, total // 6), *range(total - 1, total + 30, 5), 10 * total}
    ):  # the last: not cut
        notes = tmp_path / str(lines)
        notes.mkdir()
        found.add(_killed_in_a_scope(postgres_address, lines, notes))
    assert found == {"nothing", "reserved", "released"}


def _killed_in_a_scope(address: str, lines: int, notes: Path) -> str:
    """As `killed_at`, with a key of its own in the one database."""
    key = f"cut {lines}"

    def ask(ledger: Ledger, **more: bool) -> Reservation | Stored:
        return ledger.scope("many").reserve(Claims.of(PureDP("0.01")), request=REQUEST, key=key, **more)

    with open_ledger(address) as ledger:
        before = ledger.open_scope("many", budget=PureDP(1)).totals().epsilon
    child = os.fork()
    if child == 0:
        try:
            ledger = open_ledger(address)
            ledger.scope("many")
            sys.settrace(cut_after(lines, death()))
            reservation = ask(ledger)
            assert isinstance(reservation, Reservation)
            (notes / "data was opened").touch()
            reservation.release("the value")
            (notes / "the value left").touch()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with open_ledger(address) as ledger:
        scope = ledger.scope("many")
        mine = [entry for entry in scope.entries() if entry.key == key]
        state = mine[0].state if mine else "nothing"
        assert scope.totals().epsilon - before == len(mine) * 10**28
        assert state in ("reserved", "released") or not (notes / "data was opened").exists()
        assert state == "released" or not (notes / "the value left").exists()
        assert isinstance(ask(ledger, resume=True), Stored if state == "released" else Reservation)
        assert ledger.verify().ok
    return state


def test_a_failed_computation_keeps_its_charge(file_ledger: Ledger) -> None:
    """No refund on exception: the failure may depend on the data."""
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    for attempt in (1, 2, 3):
        reservation = scope.reserve(CLAIMS, request=REQUEST, key="monday")
        assert isinstance(reservation, Reservation)
        reservation.fail()
        assert scope.totals().epsilon == 3 * TENTH * attempt


def test_a_reservation_that_cannot_be_read_back_opens_no_data(
    file_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2: the licence to open the data is what the store says, not what was sent to it."""
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    monkeypatch.setattr(file_ledger.store, "decide", lambda work: None)
    with pytest.raises(LedgerError, match="could not be read back"):
        scope.reserve(CLAIMS, request=REQUEST)
