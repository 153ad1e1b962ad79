"""Ledgers for tests: fresh SQLite files, and fresh databases in a temporary PostgreSQL server where one can be had."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import tempfile
import traceback
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sidelight.ledger import Ledger, open_ledger


def _quick_place(*, megabytes: int) -> str | None:
    """Return a directory in memory, where a commit need not wait for a disk, or None; no test cuts the power."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > megabytes * 2**20
    return str(memory) if usable else None


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """The usual temporary directory, in memory where that can be had."""
    quick = _quick_place(megabytes=100)
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
    import sqlalchemy as sa

    name = f"sidelight_{uuid.uuid4().hex}"
    server = sa.make_url(postgres_server).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    address = server.set(database=name, drivername="postgresql")
    yield address.render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """SIDELIGHT_TEST_POSTGRES if it is set, else a temporary server if the programs are installed."""
    given = os.environ.get("SIDELIGHT_TEST_POSTGRES")
    if given:
        yield given
        return
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'sidelight[postgres]'")
    programs = _programs()
    if programs is None:
        pytest.skip(
            "no PostgreSQL: initdb is not installed (apt-get install postgresql), SIDELIGHT_TEST_POSTGRES not set"
        )
    as_user: list[str] = []
    user = getpass.getuser()
    if os.geteuid() == 0:  # initdb refuses root
        if shutil.which("runuser") is None or subprocess.run(["id", "postgres"], capture_output=True).returncode:
            pytest.skip("no PostgreSQL: running as root, and there is no runuser or no user postgres to start it as")
        as_user, user = ["runuser", "-u", "postgres", "--"], "postgres"
    with tempfile.TemporaryDirectory(prefix="sidelight-pg-", dir=_quick_place(megabytes=1000)) as place:
        os.chmod(place, 0o777)
        data = f"{place}/data"
        start = [*as_user, programs / "initdb", "-D", data, "-A", "trust", "-U", user, "-E", "UTF8", "--locale=C"]
        subprocess.run(start, check=True, capture_output=True, cwd="/")
        control = [*as_user, programs / "pg_ctl", "-D", data, "-w"]
        options = f"-c listen_addresses='' -k {place} -c max_connections=60"
        subprocess.run(
            [*control, "-l", f"{data}/log", "-o", options, "start"], check=True, capture_output=True, cwd="/"
        )
        try:
            yield f"postgresql://{user}@/postgres?host={place}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=False, capture_output=True, cwd="/")


def _programs() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None
