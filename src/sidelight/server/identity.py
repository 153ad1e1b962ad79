"""Tokens stored as hashes, pauses, and the latest time that the service has seen.

Stored in an SQLite file, or in a PostgreSQL database that several replicas share; read by every request, so that
revoking takes effect at once on all of them. Tokens are compared in constant time, also for unknown ids.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidelight.errors import RangeError, StorageError
from sidelight.noise import OSEntropy
from sidelight.registry import import_with_extras
from sidelight.wire import ProblemError

_PREFIX: Final = "sl"
_NOBODY: Final = "0" * 64
DAY: Final = 86_400.0
#: Days for which a token is valid: the default and the maximum.
USUAL_DAYS, MOST_DAYS = 90, 366
ACTIONS: Final = ("read", "ask")
#: A clock that advanced by more than this since the last start needs confirmation.
_LARGEST_STEP: Final = 40 * DAY
#: Valid in both databases: a REAL of PostgreSQL would round a time to minutes. Tables are named with their
#: schema, in SQLite `main`: a bare name could resolve to another table.
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS main.token (
    id TEXT PRIMARY KEY, analyst TEXT NOT NULL, digest TEXT NOT NULL, tables TEXT NOT NULL, actions TEXT NOT NULL,
    expires DOUBLE PRECISION NOT NULL, note TEXT NOT NULL, revoked INTEGER NOT NULL DEFAULT 0,
    used TEXT NOT NULL DEFAULT '')""",
    """CREATE TABLE IF NOT EXISTS main.pause (name TEXT, analyst TEXT, paused INTEGER NOT NULL,
    since DOUBLE PRECISION NOT NULL, PRIMARY KEY (name, analyst))""",
    """CREATE TABLE IF NOT EXISTS main.clock (one INTEGER PRIMARY KEY CHECK (one = 1),
    seen DOUBLE PRECISION NOT NULL)""",
)
#: The schema of these tables in PostgreSQL, which may be the ledger's database; the advisory lock for creating it, and
#: the one for charging or changing rights.
_SCHEMA, _MAKING, _RIGHTS = "sidelight_identity", 7297, 7298
#: Seconds for which a request waits for a database.
_PATIENCE: Final = 5


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The analyst of a valid token, and what the token allows."""

    analyst: str
    token_id: str
    tables: tuple[str, ...]  # none: all of the analyst's
    actions: tuple[str, ...]
    expires: float

    def may(self, action: str, table: str) -> bool:
        """Return whether the token allows an action on a table."""
        return action in self.actions and (not self.tables or table in self.tables)


class IdentityStore:
    """The tokens and pauses of a server; safe for several threads and processes."""

    def __init__(self, place: Path | str, *, create: bool = True) -> None:
        self._lock = threading.Lock()
        self._shared = place if isinstance(place, str) else None
        self._error: type[Exception] = sqlite3.Error
        self._database: Any = None
        self._name = "in PostgreSQL" if isinstance(place, str) else repr(place.name)
        if isinstance(place, str):
            self._error = import_with_extras("psycopg").Error
            self._open_shared(create=create)
        else:
            self._open_file(place, create=create)

    def _open_file(self, path: Path, *, create: bool) -> None:
        if not create and not path.is_file():
            raise StorageError(f"there is no store of tokens {path.name!r}; `sidelight token new` makes it")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._database = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False, isolation_level=None)
            self._database.row_factory = sqlite3.Row
            path.chmod(0o600)
            if self._database.execute("SELECT 1 FROM sqlite_master WHERE name = 'entry'").fetchone() is not None:
                raise StorageError(f"{path.name!r} is a ledger; the store of tokens needs a file of its own")
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", *_TABLES):
                self._database.execute(statement)
        except sqlite3.Error:
            raise StorageError(f"the store of tokens {path.name!r} cannot be opened; is it one?") from None

    def _open_shared(self, *, create: bool) -> None:
        with self._work() as run:  # a role without ownership uses existing tables
            if run("SELECT to_regclass(?) AS there", f"{_SCHEMA}.clock").fetchone()["there"] is not None:
                return
            if not create:
                raise StorageError("there is no store of tokens in this database; `sidelight token new` makes it")
            with self._database.transaction():
                run("SELECT pg_advisory_xact_lock(?)", _MAKING)
                run(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")
                for statement in _TABLES:
                    run(statement)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def holder(self, authorization: str | None, *, now: float) -> Holder:
        """Return the holder of a token; missing, unknown, expired and revoked tokens get the same refusal."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        parts = token.strip().split("_", 2)
        known = scheme.lower() == "bearer" and len(parts) == 3 and parts[0] == _PREFIX
        wanted = "SELECT *, (SELECT seen FROM main.clock) AS seen FROM main.token WHERE id = ?"
        row = self._row(wanted, parts[1]) if known else None
        same = hmac.compare_digest(_token_digest(token.strip()), _NOBODY if row is None else row["digest"])
        if row is None or not same or row["revoked"] or row["expires"] <= self._latest(row["seen"], now, keep=True):
            raise ProblemError("token")
        if row["used"] != (today := time.strftime("%Y-%m-%d", time.gmtime(now))):
            with self._work() as run:
                run("UPDATE main.token SET used = ? WHERE id = ?", today, row["id"])
        return _holder(row)

    def is_live(self, token_id: str, *, now: float) -> bool:
        """Return whether a token is still valid: a worker checks again before it charges."""
        row = self._row("SELECT revoked, expires FROM main.token WHERE id = ?", token_id)
        return row is not None and not row["revoked"] and bool(row["expires"] > self.latest(now))

    def issue(
        self,
        analyst: str,
        *,
        now: float,
        tables: Sequence[str] = (),
        actions: Sequence[str] = ACTIONS,
        days: int = USUAL_DAYS,
        note: str = "",
    ) -> str:
        """Create a token and return it; it cannot be read again."""
        if not 1 <= days <= MOST_DAYS:
            raise RangeError(f"a token is valid for 1 to {MOST_DAYS} days, got {days}")
        unknown = next((each for each in actions if each not in ACTIONS), None)
        if unknown is not None or not actions:
            raise RangeError(f"the actions of a token are {' and '.join(ACTIONS)}, got {unknown!r}")
        entropy = OSEntropy()
        name, secret = entropy.read(8).hex(), base64.urlsafe_b64encode(entropy.read(32)).decode().rstrip("=")
        token = f"{_PREFIX}_{name}_{secret}"
        with self._work() as run:
            run(
                "INSERT INTO main.token (id, analyst, digest, tables, actions, expires, note) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(name, analyst, _token_digest(token), json.dumps(list(tables)), json.dumps(list(actions))),
                *(now + days * DAY, note),
            )
        return token

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Lock the rights: revoking a token or pausing an account waits for the end.

        A charge is decided inside, so none is made after `revoke` or `pause` has returned.
        """
        with self._work() as run:
            run("BEGIN" if self._shared is not None else "BEGIN IMMEDIATE")
            if self._shared is not None:
                run("SELECT pg_advisory_xact_lock_shared(?)", _RIGHTS)
        try:
            yield
        finally:
            with self._work() as run:
                run("COMMIT")

    @contextmanager
    def _changing(self) -> Iterator[Callable[..., Any]]:
        """Change rights while no charge is being decided; in SQLite a single statement waits by itself."""
        with self._work() as run:
            if self._shared is None:
                yield run
                return
            with self._database.transaction():
                run("SELECT pg_advisory_xact_lock(?)", _RIGHTS)
                yield run

    def revoke(self, name: str) -> int:
        """Revoke a token by its id, or all of an analyst; return how many. Nothing is charged to them afterwards."""
        with self._changing() as run:
            found = run("UPDATE main.token SET revoked = 1 WHERE (id = ? OR analyst = ?) AND revoked = 0", name, name)
        if not found.rowcount:
            raise RangeError(f"no token of {name!r} is in use; nothing was revoked")
        return int(found.rowcount)

    def tokens(self) -> list[dict[str, Any]]:
        """Return all tokens without their digests."""
        with self._work() as run:
            rows = run(
                "SELECT id, analyst, tables, actions, expires, note, revoked, used FROM main.token ORDER BY analyst, id"
            )
            return [dict(row) for row in rows.fetchall()]

    def pause(self, name: str, analyst: str = "", *, now: float) -> None:
        """Stop charges to a table, or by one analyst of it, until it is resumed."""
        self._set(name, analyst, paused=1, now=now)

    def resume(self, name: str, analyst: str = "", *, now: float) -> None:
        """End a pause; earlier failures no longer count."""
        self._set(name, analyst, paused=0, now=now)

    def is_paused(self, name: str, account: str) -> bool:
        """Return whether a table, or an account of it, is paused."""
        wanted = "SELECT 1 FROM main.pause WHERE name = ? AND analyst IN ('', ?) AND paused = 1"
        return self._row(wanted, name, account) is not None

    def resumed_at(self, name: str, account: str) -> float:
        """Return the time since which failures of an account count."""
        wanted = "SELECT MAX(since) AS since FROM main.pause WHERE name = ? AND analyst IN ('', ?)"
        return float(self._row(wanted, name, account)["since"] or 0.0)

    def latest(self, now: float, *, keep: bool = True) -> float:
        """Return the latest time ever seen, so that setting a clock back revives no token. `keep` stores this one."""
        row = self._row("SELECT seen FROM main.clock")
        return self._latest(None if row is None else row["seen"], now, keep=keep)

    def _latest(self, seen: float | None, now: float, *, keep: bool) -> float:
        if keep and now > (seen or 0.0) + 60:
            with self._work() as run:
                run(
                    "INSERT INTO main.clock VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET seen = excluded.seen "
                    "WHERE excluded.seen > clock.seen",
                    now,
                )
        return max(now, seen or 0.0)

    def check_clock(self, now: float) -> None:
        """Refuse a clock that was set forward by weeks, since a time once seen is kept permanently."""
        row = self._row("SELECT seen FROM main.clock")
        if row is not None and now - float(row["seen"]) > _LARGEST_STEP:
            raise StorageError(
                "the clock advanced by more than 40 days since the last start, and a time once seen is kept; if it "
                "is right, confirm it with `sidelight server resume FILE --clock`"
            )

    def _set(self, name: str, analyst: str, *, paused: int, now: float) -> None:
        with self._changing() as run:
            run(
                "INSERT INTO main.pause VALUES (?, ?, ?, ?) ON CONFLICT (name, analyst) "
                "DO UPDATE SET paused = excluded.paused, since = excluded.since",
                *(name, analyst, paused, now),
            )

    def _row(self, statement: str, *given: Any) -> Any:
        with self._work() as run:
            return run(statement, *given).fetchone()

    @contextmanager
    def _work(self) -> Iterator[Callable[..., Any]]:
        def run(statement: str, *given: Any) -> Any:
            text = statement
            if self._shared is not None:
                text = statement.replace("?", "%s").replace("main.", f"{_SCHEMA}.")
            return self._database.execute(text, given)

        failed = StorageError(f"the store of tokens {self._name} cannot be read or written; nothing was done")
        if not self._lock.acquire(timeout=_PATIENCE):  # held by a thread that waits for the database
            raise failed
        try:
            if self._shared is not None and (self._database is None or self._database.closed):
                self._database = _connected(self._shared)  # first use, or the database was restarted
            yield run
        except self._error:
            raise failed from None
        finally:
            self._lock.release()


def _connected(address: str) -> Any:
    """Connect to PostgreSQL with timeouts for lost hosts and locks."""
    psycopg = import_with_extras("psycopg")
    from sidelight.ledger.timed_connection import TimedConnection

    limits = ("lock_timeout", "tcp_user_timeout")
    found = TimedConnection.connect(
        address,
        autocommit=True,
        row_factory=psycopg.rows.dict_row,
        connect_timeout=_PATIENCE,
        options=" ".join(f"-c {name}={1000 * _PATIENCE}" for name in limits),
    )
    found.limit(_PATIENCE)
    return found


def _holder(row: Any) -> Holder:
    return Holder(
        analyst=row["analyst"],
        token_id=row["id"],
        tables=tuple(json.loads(row["tables"])),
        actions=tuple(json.loads(row["actions"])),
        expires=row["expires"],
    )


def _token_digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
