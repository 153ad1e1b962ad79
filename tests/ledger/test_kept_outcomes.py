"""What a charge has bought is kept while the ledger cannot be written, and an error says that the charge stands."""

from __future__ import annotations

import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import sidelight as sl
from sidelight.errors import LedgerDamagedError, LedgerError, LedgerUnavailableError, SidelightWarning
from sidelight.experts import Reporter, Reporting
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, decide, head_file, open_ledger, reservation
from sidelight.ledger.store import Store

PRICE = Claims.of(PureDP("0.4"))
SCHEMA = [sl.Number("age", lower=0, upper=100, granularity=1)]


def table() -> sl.Table:
    return sl.Table({"age": [31, 47, 52] * 50}, schema=SCHEMA, name="people")


@contextmanager
def locked(path: Path, *, seconds: float | None = None) -> Iterator[None]:
    """Hold the ledger's lock by another connection: for some seconds, or throughout."""
    held, end = threading.Event(), threading.Event()

    def hold() -> None:
        with open_ledger(path) as other, other.store.write():
            held.set()
            end.wait(20 if seconds is None else seconds)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(20)
    try:
        yield
    finally:
        end.set()
        holder.join()


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(tmp_path / "budget.db", wait_seconds=0.05) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        yield ledger


@pytest.mark.parametrize(("kind", "state"), [("release", "released"), ("refuse", "refused")])
def test_a_lock_costs_no_answer(impatient: Ledger, tmp_path: Path, kind: str, state: str) -> None:
    charged: Any = impatient.scope("people").reserve(PRICE, request={"kind": "q"}, key="k")
    with locked(tmp_path / "budget.db", seconds=1), pytest.warns(SidelightWarning, match="kept and written again"):
        getattr(charged, kind)("the value")
    entry = impatient.scope("people").entry_of("k")
    assert entry is not None
    assert (entry.state, entry.text) == (state, "the value")
    assert impatient.verify().ok


def test_warnings_that_are_errors_cost_no_answer(impatient: Ledger, tmp_path: Path) -> None:
    charged: Any = impatient.scope("people").reserve(PRICE, request={"kind": "q"}, key="k")
    with locked(tmp_path / "budget.db", seconds=1), warnings.catch_warnings():
        warnings.simplefilter("error")
        charged.release("the value")


@pytest.mark.parametrize("kind", ["release", "refuse", "fail"])
def test_an_outcome_that_cannot_be_written_leaves_a_charge_that_stands(
    impatient: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(reservation, "OUTCOME_SECONDS", 0.0)
    charged: Any = impatient.scope("people").reserve(PRICE, request={"kind": "q"}, key="k")
    with locked(tmp_path / "budget.db"), pytest.raises(LedgerUnavailableError) as raised:
        getattr(charged, kind)(*([] if kind == "fail" else ["the value"]))
    assert raised.value.charge_stands
    assert f"The charge of entry {charged.entry_id} stands" in str(raised.value)
    assert "nothing was written" not in str(raised.value)
    with locked(tmp_path / "budget.db"), pytest.raises(LedgerUnavailableError, match="nothing was written") as before:
        impatient.scope("people").reserve(PRICE, request={"kind": "q"}, key="other")
    assert not before.value.charge_stands


def test_one_draw_is_made_while_the_ledger_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, drawn, settle = tmp_path / "budget.db", [], decide.settle

    def fails_twice(*given: Any, body: Any, **named: Any) -> str:
        drawn.append(body["text"])
        if len(drawn) < 3:
            raise sa.exc.OperationalError("INSERT", {}, Exception("database or disk is full"))
        return settle(*given, body=body, **named)

    with open_ledger(path) as ledger:
        session = sl.Session(table(), budget=PureDP(1), ledger=ledger)
        monkeypatch.setattr(decide, "settle", fails_twice)
        with pytest.warns(SidelightWarning, match="make room"):
            release = session.release(sl.Count(epsilon="0.1"), key="k")
        assert len(drawn) == 3
        assert len(set(drawn)) == 1
        assert session.release(sl.Count(epsilon="0.1"), key="k") == release
        assert str(session.remaining) == str(sl.Session(table(), budget=PureDP(1), ledger=ledger).remaining)
        assert "0.9" in str(session.remaining)


@pytest.mark.parametrize("error", [LedgerUnavailableError, LedgerDamagedError, LedgerError])
def test_whatever_keeps_an_outcome_from_the_ledger_says_so(
    impatient: Ledger, monkeypatch: pytest.MonkeyPatch, error: type[LedgerError]
) -> None:
    monkeypatch.setattr(reservation, "OUTCOME_SECONDS", 0.0)

    def fails(*_: Any, **__: Any) -> str:
        raise error("the reason")

    charged: Any = impatient.scope("people").reserve(PRICE, request={"kind": "q"}, key="k")
    monkeypatch.setattr(decide, "settle", fails)
    with pytest.raises(error, match=r"^the reason\. The charge of entry .* stands") as raised:
        charged.release("the value")
    assert raised.value.charge_stands


def test_an_error_of_another_library_says_so_without_its_text(
    impatient: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, body: Any, **__: Any) -> str:
        return str(body["text"].encode("ascii"))

    charged: Any = impatient.scope("people").reserve(PRICE, request={"kind": "q"}, key="k")
    monkeypatch.setattr(decide, "settle", fails)
    with pytest.raises(
        LedgerUnavailableError, match=r"\(UnicodeEncodeError\)\. The charge of entry .* stands"
    ) as raised:
        charged.release("47 ± ε")
    assert raised.value.charge_stands
    assert raised.value.__context__ is None


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupt_while_an_outcome_waits_costs_one_more_attempt(
    impatient: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    def interrupted(*_: object) -> None:
        if not again:
            released.set()
            holder.join()
        raise KeyboardInterrupt

    charged: Any = impatient.scope("people").reserve(PRICE, request={"kind": "q"}, key="k")
    held, released = threading.Event(), threading.Event()

    def hold() -> None:
        with open_ledger(tmp_path / "budget.db") as other, other.store.write():
            held.set()
            released.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(20)
    monkeypatch.setattr(reservation, "_warn_of_waiting", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        charged.release("the value")
    released.set()
    holder.join()
    (note,) = raised.value.__notes__
    entry = impatient.scope("people").entry_of("k")
    assert entry is not None
    if again:
        assert f"The charge of entry {charged.entry_id} stands" in note
        assert entry.state == "reserved"
    else:
        assert f"The outcome of entry {charged.entry_id} is in the ledger" in note
        assert entry.text == "the value"


def test_a_head_file_that_fails_does_not_say_that_nothing_was_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservation, "OUTCOME_SECONDS", 0.0)
    with open_ledger(tmp_path / "budget.db", head_file=tmp_path / "head") as ledger:
        charged: Any = ledger.open_scope("people", budget=PureDP(1)).reserve(PRICE, request={"kind": "q"}, key="k")

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        for part in ("_write_draft", "_replace"):
            with monkeypatch.context() as patched:
                patched.setattr(head_file.GuardedStore, part, full)
                with pytest.raises(LedgerUnavailableError) as raised:
                    charged.release("the value")
            assert "The charge of entry" in str(raised.value)
            assert "nothing was" not in str(raised.value)
            assert "no data was opened" not in str(raised.value)
        charged.release("the value")  # the same outcome, which was committed without its head


def test_a_failure_that_cannot_be_recorded_shows_no_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> str:
        raise LedgerUnavailableError("the disk is full")

    def quotes(*_: Any, **__: Any) -> Any:
        raise ValueError("secret 47")

    monkeypatch.setattr(decide, "settle", fails)
    terms = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="move", rounds=3)
    with Reporter("client", terms, ledger=tmp_path / "reports.db") as reporter:
        monkeypatch.setattr(Reporter, "_made", quotes)
        with pytest.raises(sl.errors.ReleaseFailedError) as raised:
            reporter.report(1, [0.1, 0.2, 0.3])
    seen: BaseException | None = raised.value
    while seen is not None:
        assert "secret" not in str(seen)
        seen = seen.__context__


def lose_reads(monkeypatch: pytest.MonkeyPatch, numbers: range) -> list[None]:
    """Let some readings of the ledger fail, counted from the next charge on, as those of a lost server."""
    read, decided = Store.read, Store.decide
    seen: list[None] = []
    charged: list[None] = []

    def losing(store: Store) -> Any:
        seen.extend(charged[:1])
        if charged and len(seen) - 1 in numbers:
            raise LedgerUnavailableError("the connection was lost")
        return read(store)

    def deciding(store: Store, *given: Any, **named: Any) -> Any:
        found = decided(store, *given, **named)
        charged.append(None)
        return found

    monkeypatch.setattr(Store, "read", losing)
    monkeypatch.setattr(Store, "decide", deciding)
    return seen


def releases(what: str, ledger: Ledger) -> Any:
    """Return a release that reads the ledger between charge and outcome."""
    if what == "a report":
        terms = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="move", rounds=3)
        reporter = Reporter("client", terms, ledger=ledger)
        return lambda: reporter.report(1, [0.1, 0.2, 0.3])
    if what == "a database":
        person = sl.Table({"who": ["a", "b"]}, schema=[sl.PersonId("who", max_rows=1)])
        people = sl.Database({"person": person}, name="people")
        session = sl.Session(people, budget=PureDP(1), ledger=ledger)
        return lambda: session.release(sl.Count(epsilon="0.1"), of="person")
    column = sl.Category("block", ["11", "12", "21"])
    blocks = sl.Hierarchy("block", {"town": 1}, invariants=sl.Invariant("town", reason="Towns Act, s. 4"))
    kept = sl.Invariant("town", reason="Towns Act, s. 4", of=blocks)
    rows = sl.Table({"block": ["11", "12", "21"] * 200}, schema=[column], name="people")
    towns = sl.Session(rows, budget=sl.ZCDP(1), invariants=kept, ledger=ledger)
    return lambda: towns.release(sl.Count(by=blocks, rho="0.1"))


@pytest.mark.parametrize("what", ["a report", "a database", "exact totals"])
def test_a_connection_that_is_lost_after_the_charge_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whatever is read between charge and outcome is read again."""
    monkeypatch.setattr(reservation, "_AGAIN", 0.0)
    with open_ledger(tmp_path / "budget.db") as ledger:
        release = releases(what, ledger)
        with monkeypatch.context() as patch:
            seen = lose_reads(patch, range(0, 6, 2))
            with pytest.warns(SidelightWarning, match="the ledger is asked again for 60 s"):
                release()
        assert len(seen) > 3  # the read-back, and what this kind of release looks up
        assert [entry.state for entry in ledger.entries()] == ["released"]


def test_a_charge_that_cannot_be_read_back_stands_and_says_so(
    impatient: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservation, "OUTCOME_SECONDS", 0.0)
    scope = impatient.scope("people")
    with monkeypatch.context() as patch:
        lose_reads(patch, range(100))
        with pytest.raises(LedgerUnavailableError, match=r"lost\. The charge of entry .* stands") as raised:
            scope.reserve(PRICE, request={"kind": "q"}, key="k")
    assert raised.value.charge_stands
    assert len(impatient.entries()) == 1


def test_the_key_of_a_request_without_one_asks_for_nothing_else(tmp_path: Path) -> None:
    """An entry without a key holds no declarations to compare: another question got its answer."""

    def session(upper: int) -> sl.Session:
        rows = sl.Table({"age": [31, 47, 52, 90] * 50}, schema=[sl.Number("age", lower=0, upper=upper)], name="people")
        return sl.Session(rows, budget=PureDP(9), ledger=tmp_path / "budget.db")

    query = sl.Count(where="age > 40", epsilon=1)
    entry = session(100).release(query).circumstances.entry_id
    with pytest.raises(LedgerError, match="keys that begin with 'auto:' are those of requests without one"):
        session(40).release(query, key=f"auto:{entry}")
    assert session(40).remaining.epsilon == 8


def test_an_outcome_that_could_not_be_written_is_in_no_traceback(
    impatient: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservation, "OUTCOME_SECONDS", 0.0)
    charged: Any = impatient.scope("people").reserve(PRICE, request={"kind": "q"}, key="k")

    @sa.event.listens_for(impatient.store._connections._engine, "before_cursor_execute")
    def full(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO event" in statement:
            connection.connection.dbapi_connection.execute("PRAGMA max_page_count = 1")

    with pytest.raises(LedgerError) as failed:
        charged.release("x" * 200_000)
    assert "xxxxx" not in "".join(traceback.format_exception(failed.value))
