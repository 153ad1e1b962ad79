"""Atomic migration of an older ledger, here with an invented schema that lacks an index."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation, exchange, journal, open_ledger, verify
from sidelight.ledger import ledger as opening
from sidelight.ledger.chain import LedgerEvent, chained
from sidelight.ledger.ledger import MigrationStep
from sidelight.ledger.schema import Dialect, create_statements
from sidelight.ledger.verify import replay

KEY = bytes(range(32))
INDEX = "CREATE UNIQUE INDEX one_live ON entry (scope_id, idem_key) WHERE state IN ('reserved','released','refused')"


def _made_of_less(dialect: Dialect) -> list[str]:
    return [text for text in create_statements(dialect) if "one_live" not in text]


@contextmanager
def the_older_program() -> Iterator[None]:
    """Be the made-up version that knows schema 1 and nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (exchange, journal, opening, verify):
            patch.setattr(module, "SCHEMA_VERSION", "1")
        patch.setattr(opening, "_CURRENT", 1)
        patch.setattr(opening, "create_statements", _made_of_less)
        yield


@pytest.fixture(autouse=True)
def a_schema_1_that_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up older schema has all columns; the true one is in `test_signed_totals`."""
    monkeypatch.setattr(journal, "FIRST_SIGNED", 1)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def given(*statements: str) -> None:
        def both(dialect: Dialect) -> Sequence[str]:
            return statements

        monkeypatch.setattr(opening, "STEPS", (MigrationStep(before=1, statements=both),))

    given(INDEX)
    return given


def spend(ledger: Ledger, key: str) -> str:
    scope = ledger.open_scope("people", budget=PureDP(1))
    reservation = scope.reserve(Claims.of(PureDP("0.3")), request={"kind": "x"}, key=key)
    assert isinstance(reservation, Reservation)
    return reservation.release(f"text of {key}")


def an_older_ledger(address: Any, **options: Any) -> list[LedgerEvent]:
    """Make one with some history, and return its events."""
    with the_older_program(), open_ledger(address, **options) as ledger:
        spend(ledger, "before")
        assert ledger.verify().ok
        return ledger.events()


def copies(path: Path) -> list[Path]:
    return sorted(each for each in path.parent.iterdir() if ".bak" in each.name)


def has_index(ledger: Ledger) -> bool:
    table, column = ("sqlite_master", "name") if ledger.place.path else ("pg_indexes", "indexname")
    with ledger.store.read() as transaction:
        return transaction.row(f"SELECT 1 FROM {table} WHERE {column} = 'one_live'") is not None


def test_an_older_ledger_is_migrated_and_forgets_nothing(address: str, steps: Any) -> None:
    before = an_older_ledger(address)
    with pytest.warns(UserWarning, match="from schema 1 to 2"):
        ledger = open_ledger(address)
    with ledger:
        assert has_index(ledger)
        events = ledger.events()
        assert events[:-1] == before
        assert (events[-1].kind, events[-1].content) == ("migrate", {"from": "1", "to": "2"})
        assert ledger.scope("people").remaining().epsilon == 1 - PureDP("0.3").epsilon
        spend(ledger, "after")
        stored = ledger.scope("people").reserve(Claims.of(PureDP("0.3")), request={"kind": "x"}, key="before")
        assert stored.text == "text of before"  # type: ignore[union-attr]
        assert ledger.verify(expect_head=before[-1].hash).ok
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_ledger(address).close()  # once is enough


def test_the_file_is_kept_as_it_was(tmp_path: Path, steps: Any) -> None:
    path = tmp_path / "budget.db"
    before = an_older_ledger(path)
    with pytest.warns(UserWarning, match="never spend from it"):
        open_ledger(path).close()
    (kept,) = copies(path)
    assert kept.name == f"budget.db.schema-1.{before[-1].hash[:12]}.bak"
    assert kept.stat().st_mode & 0o777 == 0o400
    with pytest.raises(LedgerError, match="cannot be written by this user"):  # nor by root, who may write anything
        open_ledger(kept)
    kept.chmod(0o600)
    with the_older_program(), open_ledger(kept) as restored:
        assert restored.events() == before
        assert restored.verify(expect_head=before[-1].hash).ok
    with open_ledger(path) as ledger:
        head = spend(ledger, "after")
    with the_older_program(), open_ledger(kept) as restored:
        assert not restored.verify(expect_head=head).ok  # what was spent since is not in the copy, and that is seen


def test_the_advice_about_a_file_that_may_not_be_written_is_no_circle(tmp_path: Path, steps: Any) -> None:
    """What reads it sends to `reap`, and what writes it sends back: both cannot be all there is to do."""
    an_older_ledger(tmp_path / "budget.db")
    (tmp_path / "budget.db").chmod(0o400)
    with pytest.raises(LedgerError, match="`sidelight ledger show`"):
        open_ledger(tmp_path / "budget.db")
    with pytest.raises(LedgerError, match="a copy where nobody may write it; never spend from the copy"):
        open_ledger(tmp_path / "budget.db", read_only=True)
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "budget.db").read_bytes())
    open_ledger(copy).close()
    with open_ledger(copy, read_only=True) as ledger:
        assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    ("statements", "match"),
    [
        ([INDEX, "CREATE NONSENSE"], "nothing was written"),
        ([INDEX, "UPDATE event SET body = replace(body, 'text of', 'TEXT OF')"], "would not be intact"),
        ([INDEX, "UPDATE scope SET totals = replace(totals, '3', '1')"], "would not be intact"),
    ],
    ids=["broken", "touches events", "forgets spending"],
)
def test_a_step_that_goes_wrong_changes_nothing(
    address: str, tmp_path: Path, steps: Any, statements: list[str], match: str
) -> None:
    before = an_older_ledger(address)
    steps(*statements)
    with pytest.raises(LedgerError, match=match):
        open_ledger(address)
    assert not copies(tmp_path / "budget.db")
    with the_older_program(), open_ledger(address) as ledger:
        assert ledger.events() == before
        assert not has_index(ledger)
        assert ledger.verify().ok  # the triggers are back as well
        spend(ledger, "after")


def test_a_copy_that_cannot_be_written_stops_the_migration(
    tmp_path: Path, steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "budget.db"
    before = an_older_ledger(path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr(Path, "chmod", full)
    with pytest.raises(LedgerError, match="Nothing was changed"):
        open_ledger(path)
    assert not copies(path)
    with the_older_program(), open_ledger(path) as ledger:
        assert ledger.events() == before


def test_without_a_step_an_older_ledger_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "STEPS", ())
    an_older_ledger(tmp_path / "budget.db")
    with pytest.raises(LedgerError, match=r"has schema 1, older than this version reads \(2\)"):
        open_ledger(tmp_path / "budget.db")


def test_a_ledger_that_may_not_be_opened_is_not_migrated(tmp_path: Path, steps: Any) -> None:
    path = tmp_path / "budget.db"
    before = an_older_ledger(path, key=KEY)
    for options, match in (({}, "secret key"), ({"key": KEY[::-1]}, "does not belong"), ({"key": KEY}, "real ledger")):
        with pytest.raises(LedgerError, match=match):
            open_ledger(path, **options, testing=match == "real ledger")  # type: ignore[arg-type]
    with the_older_program(), open_ledger(path, key=KEY) as ledger:
        assert ledger.events() == before
    with pytest.warns(UserWarning, match="from schema 1"), open_ledger(path, key=KEY) as ledger:
        assert ledger.verify().ok  # the event of the migration has its MAC


def test_many_open_it_at_once_and_one_migrates(address: str, steps: Any, in_children: Any) -> None:
    an_older_ledger(address)

    def child(number: int) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open_ledger(address) as ledger:
                scope = ledger.open_scope("people", budget=PureDP(1))
                return type(scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"})).__name__

    assert in_children(child, count=4) == ["Reservation"] * 4
    with open_ledger(address) as ledger:
        assert [event.kind for event in ledger.events()].count("migrate") == 1
        assert ledger.verify().ok


def test_a_process_that_has_it_open_stops_writing_when_another_migrates_it(address: str, steps: Any) -> None:
    with the_older_program(), open_ledger(address) as old:
        spend(old, "before")
        with pytest.MonkeyPatch.context() as patch:  # the newer program, at the same time
            for module in (exchange, journal, opening, verify):
                patch.setattr(module, "SCHEMA_VERSION", "2")
            patch.setattr(opening, "_CURRENT", 2)
            with pytest.warns(UserWarning, match="from schema 1"), open_ledger(address) as new:
                count = len(new.events())
        with pytest.raises(LedgerError, match="has migrated it while it was open here; nothing was written"):
            old.scope("people").reserve(Claims.of(PureDP("0.3")), request={"kind": "x"})
    with open_ledger(address) as ledger:
        assert len(ledger.events()) == count
        assert ledger.verify().ok


def test_exports_of_migrated_and_of_newer_ledgers(tmp_path: Path, steps: Any) -> None:
    an_older_ledger(tmp_path / "budget.db")
    with pytest.warns(UserWarning, match="from schema 1"), open_ledger(tmp_path / "budget.db") as ledger:
        ledger.export(tmp_path / "history.jsonl")
    with open_ledger(tmp_path / "other.db") as other:
        other.open_scope("people", budget=PureDP(1))
        assert other.import_events(tmp_path / "history.jsonl").booked == 1
    with the_older_program(), open_ledger(tmp_path / "older.db") as older:
        older.open_scope("people", budget=PureDP(1))
        with pytest.raises(LedgerError, match=r"schema 2, newer than this version reads \(1\)"):
            older.import_events(tmp_path / "history.jsonl")


@pytest.mark.parametrize(
    ("before", "after", "problem"), [("1", "2", "leads from schema 1"), ("0", "0", "leads back"), ("0", "x", "read")]
)
def test_a_migration_that_does_not_fit_the_history_is_seen(before: str, after: str, problem: str) -> None:
    first = chained(seq=0, at_utc="2026-01-01T00:00:00.000000Z", kind="open", body={"schema": "0"}, prev_hash="0" * 64)
    second = chained(
        seq=1, at_utc=first.at_utc, kind="migrate", body={"from": before, "to": after}, prev_hash=first.hash
    )
    assert any(problem in text for text in replay([first, second], key=None).problems)
    good = chained(seq=1, at_utc=first.at_utc, kind="migrate", body={"from": "0", "to": "1"}, prev_hash=first.hash)
    assert replay([first, good], key=None).problems == []


def test_a_schema_that_was_edited_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    open_ledger(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER meta_update")
        connection.execute("UPDATE meta SET value = 'x' WHERE key = 'schema'")
    connection.close()
    with pytest.raises(LedgerError, match="not a ledger or is damaged"):
        open_ledger(path)
