"""What an outsider found after the locks held: outputs over a log, two ledgers in one database, a log that is cut."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from test_locks import QUARTER, granted, opened

from sidelight.errors import ClaimError, LedgerDamagedError, LedgerError, RangeError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import open_ledger
from sidelight.ledger.chain import DEEPEST
from sidelight.ledger.exchange import read_export
from sidelight.ledger.place import BESIDE, check_output, parse_place
from sidelight.predictions import Cauchy, Mixture
from sidelight.report import write_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.mark.parametrize("ending", ["", *BESIDE])
def test_nothing_is_written_over_a_ledger_or_what_belongs_to_it(path: Path, ending: str) -> None:
    """A report over the log gave back what was charged, and `verify` said intact."""
    place = path.with_name(path.name + ending)
    with opened(path) as ledger:
        assert granted(ledger)
        for write in (ledger.export, check_output, lambda where: write_text(Path(where), "x")):
            with pytest.raises(LedgerError):
                write(place)
        assert [granted(ledger) for _ in range(4)] == [1, 1, 1, 0]
        assert ledger.verify().ok
    with pytest.raises(LedgerError):
        check_output(place)


def test_another_ledger_is_no_place_for_an_export(path: Path, tmp_path: Path) -> None:
    with opened(path) as ledger, opened(tmp_path / "other.db") as other:
        assert granted(other)
        with pytest.raises(LedgerError, match="database"):
            ledger.export(tmp_path / "other.db")
        assert other.verify().ok
    with opened(path) as ledger, pytest.raises(LedgerError, match="database"):
        ledger.export(tmp_path / "other.db")  # no process has it open now


def test_devices_pipes_and_links_stay_what_they_are(path: Path, tmp_path: Path) -> None:
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    link.symlink_to(target)
    with opened(path) as ledger:
        with pytest.raises(LedgerError, match="not an ordinary file"):
            ledger.export(pipe)
        ledger.export(link)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert target.read_text().count("\n") == 2


def test_no_new_ledger_is_made_beside_what_is_left_of_another(path: Path) -> None:
    """The new one's log was taken for the old one's, and its charges were lost with the next crash."""
    ledger = opened(path)
    path.rename(path.with_name("moved.db"))
    with pytest.raises(LedgerError, match="SQLite kept for one"):
        opened(path)
    path.with_name("moved.db").rename(path)
    ledger.close()


def test_a_log_that_was_cut_grants_nothing_more(path: Path) -> None:
    ledger = opened(path)
    assert granted(ledger)
    os.truncate(path.with_name(path.name + "-wal"), 0)
    with pytest.raises(LedgerError, match="removed, replaced or renamed"):
        granted(ledger)


def test_what_is_nested_deeply_is_refused_before_it_is_written(path: Path) -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    with opened(path) as ledger:
        with pytest.raises(LedgerError, match="nested"):
            ledger.scope("people").reserve(QUARTER, request={"kind": "x", "deep": deep})
        assert ledger.verify().ok
    prior: Any = Cauchy(0, 1)
    for _ in range(20):
        prior = Mixture([0.5, 0.5], [prior, Cauchy(0, 2)])
    with pytest.raises(RangeError, match="nested"):
        Mixture([0.5, 0.5], [prior, Cauchy(0, 2)])


@pytest.mark.parametrize("levels", [DEEPEST - 1, DEEPEST, DEEPEST + 1, DEEPEST + 2])
def test_what_is_stored_can_be_exported(path: Path, levels: int) -> None:
    """A line of an export is two levels deeper than its request: one charge was stored that no export could hold."""
    deep: Any = "x"
    for _ in range(levels - 1):
        deep = [deep]
    with opened(path) as ledger:
        if levels > DEEPEST:
            with pytest.raises(LedgerError, match="nested too deep"):
                ledger.scope("people").reserve(QUARTER, request={"deep": deep})
        else:
            ledger.scope("people").reserve(QUARTER, request={"deep": deep}).fail()
            assert ledger.verify().ok
        ledger.export(path.with_name("events"))
        assert read_export(path.with_name("events"), key=None).problems == []


def test_an_ancestor_is_charged_at_least_what_is_charged_below_it(path: Path) -> None:
    with open_ledger(path) as ledger:
        ledger.open_scope("top", budget=PureDP(1))
        ledger.open_scope("part", budget=PureDP(1), parent="top")
        little, much = (Claims.of(PureDP(amount)) for amount in ("0.01", "0.5"))
        with pytest.raises(ClaimError, match="are less than those of a scope below"):
            ledger.reserve({"part": much, "top": little}, scope_id="part", request={"kind": "x"})
        ledger.reserve({"part": little, "top": much}, scope_id="part", request={"kind": "x"})
        assert ledger.scope("top").totals().epsilon == 50 * ledger.scope("part").totals().epsilon


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u@127.0.0.1:abc/x",
        "postgresql://u@[::1/x",
        "postgresql://u@host/x?options=-csearch_path%3Dfoo",
        "/",
        "sqlite:////",
        "file:b.db",
        "b.db?mode=memory",
        " b.db",
    ],
)
def test_addresses_that_cannot_be_meant_are_refused_in_words(address: str) -> None:
    with pytest.raises(LedgerError):
        parse_place(address)


@pytest.mark.postgres
def test_one_database_holds_one_ledger(postgres_address: str) -> None:
    """A schema for each role, as PostgreSQL has it by default, was a ledger for each role."""
    import sqlalchemy as sa

    engine = sa.create_engine(
        sa.make_url(postgres_address).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    try:
        with open_ledger(postgres_address) as ledger:
            ledger.open_scope("people", budget=PureDP(1))
        with engine.connect() as connection:
            connection.execute(sa.text('CREATE SCHEMA "else"'))
            name = connection.execute(sa.text("SELECT current_database()")).scalar_one()
            connection.execute(sa.text(f'ALTER DATABASE {name} SET search_path = "else", public'))
        with pytest.raises(LedgerError, match="another schema"):
            open_ledger(postgres_address)
    finally:
        engine.dispose()


@pytest.mark.postgres
def test_a_commit_lasts_though_the_server_was_told_otherwise(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    psycopg = pytest.importorskip("psycopg")
    commit = psycopg.Connection.commit

    def watched(connection: Any) -> None:
        asked = "SELECT current_setting('synchronous_commit'), current_setting('transaction_read_only')"
        setting, reading = connection.execute(asked).fetchone()
        seen.extend([setting] if reading == "off" else [])
        commit(connection)

    with open_ledger(postgres_address) as ledger:
        ledger.open_scope("people", budget=PureDP(1))
        with ledger.store.read() as transaction:  # of the session, whose connection the charge takes next
            transaction.rows("SELECT set_config('synchronous_commit', 'off', false)")
        monkeypatch.setattr(psycopg.Connection, "commit", watched)
        assert granted(ledger)
    assert seen == ["on"]


@pytest.mark.parametrize("how", ["noticed", "unnoticed", "closed", "collected"])
def test_no_new_ledger_is_made_where_one_was_removed_while_it_was_open(tmp_path: Path, how: str) -> None:
    """File and companions are gone: a new ledger at that path would grant this process the budget once more."""
    path = tmp_path / "budget.db"
    ledger = open_ledger(path)
    scope: Any = ledger.open_scope("people", budget=PureDP(1))
    scope.reserve(Claims.of(PureDP(1)), request={"kind": "q"}).release("the value")
    for each in tmp_path.iterdir():
        each.unlink()
    if how == "noticed":
        with pytest.raises(LedgerDamagedError):
            scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "q"})
    elif how == "closed":
        ledger.close()
    elif how == "collected":
        ledger.itself = ledger  # type: ignore[attr-defined]
        del ledger, scope
        gc.collect()
    for _ in range(2):
        with pytest.raises(LedgerDamagedError, match="nothing is granted any more"):
            open_ledger(path)
    assert list(tmp_path.iterdir()) == []
    with open_ledger(tmp_path / "other.db") as other:
        other.open_scope("people", budget=PureDP(1))
