"""A PostgreSQL server of its own for tests and audits, thrown away afterwards, where the programs are installed."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class NoServerError(Exception):
    """Says why there can be no server here."""


def quick_place(*, megabytes: int) -> str | None:
    """Return a directory in memory, where a commit need not wait for a disk, or None, not for tests of power loss."""
    memory = Path("/dev/shm")
    usable = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > megabytes * 2**20
    return str(memory) if usable else None


@dataclass(frozen=True, kw_only=True)
class TemporaryServer:
    """A running server: its address, and how it is stopped and started.

    Args:
        address: The URL of its own database `postgres`.
        control: The command `pg_ctl` with its folder, as the user that may.
        options: What the server is started with.
        log: Its log file.
    """

    address: str
    control: tuple[str, ...]
    options: str
    log: str

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [*self.control, "-l", self.log, "-o", self.options, "start"]
        subprocess.run(command, check=True, capture_output=True, cwd="/")

    def crash(self) -> None:
        """Stop it as a crash does: no checkpoint, no goodbye; the next start recovers from the log."""
        subprocess.run([*self.control, "-m", "immediate", "stop"], check=False, capture_output=True, cwd="/")


@contextmanager
def temporary_server() -> Iterator[TemporaryServer]:
    """Run a server while the block lasts.

    Raises:
        NoServerError: the programs are not installed, or root has no other user to start them as.
    """
    programs = _programs()
    if programs is None:
        raise NoServerError("initdb is not installed (apt-get install postgresql), SIDELIGHT_TEST_POSTGRES not set")
    as_user: list[str] = []
    user = getpass.getuser()
    if os.geteuid() == 0:  # initdb refuses root
        if shutil.which("runuser") is None or subprocess.run(["id", "postgres"], capture_output=True).returncode:
            raise NoServerError("running as root, and there is no runuser or no user postgres to start it as")
        as_user, user = ["runuser", "-u", "postgres", "--"], "postgres"
    with tempfile.TemporaryDirectory(prefix="sidelight-pg-", dir=quick_place(megabytes=1000)) as place:
        os.chmod(place, 0o777)
        data = f"{place}/data"
        made = [*as_user, programs / "initdb", "-D", data, "-A", "trust", "-U", user, "-E", "UTF8", "--locale=C"]
        subprocess.run(made, check=True, capture_output=True, cwd="/")
        server = TemporaryServer(
            address=f"postgresql://{user}@/postgres?host={place}",
            control=(*as_user, str(programs / "pg_ctl"), "-D", data, "-w"),
            options=f"-c listen_addresses='' -k {place} -c max_connections=60",
            log=f"{data}/log",
        )
        server.start()
        try:
            yield server
        finally:
            server.crash()


@contextmanager
def empty_database(server: str) -> Iterator[str]:
    """Yield the address of a new database of a server, and drop it afterwards."""
    import sqlalchemy as sa

    name = f"sidelight_{uuid.uuid4().hex}"
    url = sa.make_url(server).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    yield url.set(database=name, drivername="postgresql").render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


def _programs() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None
