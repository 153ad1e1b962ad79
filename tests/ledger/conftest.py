"""Ledgers for tests: fresh SQLite files, and fresh databases in a temporary PostgreSQL server where one can be had."""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.temporary_postgres import NoServerError, empty_database, quick_place, temporary_server

from sidelight.ledger import Ledger, open_ledger


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """The usual temporary directory, in memory where that can be had."""
    quick = quick_place(megabytes=100)
    if quick is None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="sidelight-", dir=quick) as place:
        yield Path(place)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a place without a ledger, in each kind of store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/budget.db"
    return str(request.getfixturevalue("postgres_address"))


@pytest.fixture
def ledger(address: str) -> Iterator[Ledger]:
    with open_ledger(address) as opened:
        yield opened


@pytest.fixture
def file_ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(tmp_path / "budget.db") as opened:
        yield opened


@pytest.fixture
def in_children() -> Callable[..., list[Any]]:
    """Run a function in several processes at once; return what each returned (JSON values), or None for a dead one."""
    return _in_children


def _in_children(function: Callable[[int], Any], *, count: int) -> list[Any]:
    children = []
    for number in range(count):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                answer = json.dumps(function(number))
            except BaseException:
                answer = json.dumps({"error": traceback.format_exc()})
            os.write(writer, answer.encode())
            os._exit(0)
        os.close(writer)
        children.append((child, reader))
    answers = []
    for child, reader in children:
        with os.fdopen(reader, "rb") as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        answer = json.loads(text) if text else None
        assert not (isinstance(answer, dict) and "error" in answer), answer["error"]
        answers.append(answer)
    return answers


@pytest.fixture
def beside() -> Iterator[Callable[[str], Any]]:
    """Another process, made before this one opens a ledger: runs code and returns its `result`, a JSON value."""
    (reader, answers), (orders, writer) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.close(writer)
        _obey(os.fdopen(orders, "r"), os.fdopen(answers, "w"))
    os.close(answers)
    os.close(orders)
    with os.fdopen(reader, "r") as heard, os.fdopen(writer, "w") as said:

        def run(code: str) -> Any:
            said.write(json.dumps(code) + "\n")
            said.flush()
            answer = json.loads(heard.readline())
            assert "error" not in answer, answer["error"]
            return answer["result"]

        yield run
    os.waitpid(child, 0)


def _obey(orders: Any, answers: Any) -> None:
    names: dict[str, Any] = {}
    for line in orders:
        try:
            exec(json.loads(line), names)
            answer = {"result": names.get("result")}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)


@pytest.fixture
def postgres_address(postgres_server: str) -> Iterator[str]:
    """An empty database of its own."""
    with empty_database(postgres_server) as address:
        yield address


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """SIDELIGHT_TEST_POSTGRES if it is set, else a temporary server if the programs are installed."""
    given = os.environ.get("SIDELIGHT_TEST_POSTGRES")
    if given:
        yield given
        return
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'sidelight[postgres]'")
    try:
        with temporary_server() as server:
            yield server.address
    except NoServerError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")
