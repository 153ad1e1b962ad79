"""Who may ask: tokens kept as hashes, pauses, and the greatest time that the service has seen.

A file of SQLite, read anew by every request: revoking works at once. By hand are the tokens themselves, compared in
constant time and for unknown ids as well.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sidelight.errors import RangeError, StorageError
from sidelight.noise import OSEntropy
from sidelight.wire import ProblemError

_PREFIX: Final = "sl"
_NOBODY: Final = "0" * 64
DAY: Final = 86_400.0
#: Days that a token is valid: if nothing is said, and at most.
USUAL_DAYS, MOST_DAYS = 90, 366
ACTIONS: Final = ("read", "ask")
#: A clock that went on by more than this since the last start is not believed.
_LARGEST_STEP: Final = 40 * DAY
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS token (
    id TEXT PRIMARY KEY, analyst TEXT NOT NULL, digest TEXT NOT NULL, tables TEXT NOT NULL, actions TEXT NOT NULL,
    expires REAL NOT NULL, note TEXT NOT NULL, revoked INTEGER NOT NULL DEFAULT 0, used TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS pause (name TEXT, analyst TEXT, paused INTEGER NOT NULL, since REAL NOT NULL,
    PRIMARY KEY (name, analyst));
CREATE TABLE IF NOT EXISTS clock (one INTEGER PRIMARY KEY CHECK (one = 1), seen REAL NOT NULL);
"""


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

    def __init__(self, path: Path, *, create: bool = True) -> None:
        if not create and not path.is_file():
            raise StorageError(f"there is no store of tokens {path.name!r}; `sidelight token new` makes it")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(path, timeout=5, check_same_thread=False, isolation_level=None)
            path.chmod(0o600)
            with self._work() as run:
                if run("SELECT 1 FROM sqlite_master WHERE name = 'entry'").fetchone() is not None:
                    raise StorageError(f"{path.name!r} is a ledger; the store of tokens needs a file of its own")
                run("PRAGMA journal_mode = WAL")
                run("PRAGMA synchronous = FULL")
                for statement in _TABLES.split(";"):
                    run(statement)
        except sqlite3.Error:
            raise StorageError(f"the store of tokens {path.name!r} cannot be opened; is it one?") from None

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def holder(self, authorization: str | None, *, now: float) -> Holder:
        """Return who sent a request; missing, unknown, expired and revoked tokens are refused alike."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        parts = token.strip().split("_", 2)
        known = scheme.lower() == "bearer" and len(parts) == 3 and parts[0] == _PREFIX
        row = self._row("SELECT * FROM token WHERE id = ?", parts[1]) if known else None
        same = hmac.compare_digest(_token_digest(token.strip()), _NOBODY if row is None else row["digest"])
        if row is None or not same or row["revoked"] or row["expires"] <= self.latest(now):
            raise ProblemError("token")
        if row["used"] != (today := time.strftime("%Y-%m-%d", time.gmtime(now))):
            with self._work() as run:
                run("UPDATE token SET used = ? WHERE id = ?", today, row["id"])
        return _holder(row)

    def is_live(self, token_id: str, *, now: float) -> bool:
        """Return whether a token is still valid: a worker asks once more before it charges."""
        row = self._row("SELECT revoked, expires FROM token WHERE id = ?", token_id)
        return row is not None and not row["revoked"] and row["expires"] > self.latest(now)

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
        """Make a token and return it: it cannot be read again."""
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
                "INSERT INTO token (id, analyst, digest, tables, actions, expires, note) VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(name, analyst, _token_digest(token), json.dumps(list(tables)), json.dumps(list(actions))),
                *(now + days * DAY, note),
            )
        return token

    def revoke(self, name: str) -> int:
        """Revoke a token by its id, or all of an analyst; return how many."""
        with self._work() as run:
            found = run("UPDATE token SET revoked = 1 WHERE (id = ? OR analyst = ?) AND NOT revoked", name, name)
        if not found.rowcount:
            raise RangeError(f"no token of {name!r} is in use; nothing was revoked")
        return int(found.rowcount)

    def tokens(self) -> list[dict[str, Any]]:
        """Return all tokens without their digests."""
        with self._work() as run:
            rows = run("SELECT id, analyst, tables, actions, expires, note, revoked, used FROM token ORDER BY rowid")
            return [dict(row) for row in rows]

    def pause(self, name: str, analyst: str = "", *, now: float) -> None:
        """Let nothing be charged to a table, or by one analyst of it, until it is resumed."""
        self._set(name, analyst, paused=1, now=now)

    def resume(self, name: str, analyst: str = "", *, now: float) -> None:
        """End a pause; failures before this moment count no more."""
        self._set(name, analyst, paused=0, now=now)

    def is_paused(self, name: str, account: str) -> bool:
        """Return whether a table, or an account of it, is paused."""
        found = self._row("SELECT 1 FROM pause WHERE name = ? AND analyst IN ('', ?) AND paused", name, account)
        return found is not None

    def resumed_at(self, name: str, account: str) -> float:
        """Return since when failures of an account count."""
        row = self._row("SELECT MAX(since) FROM pause WHERE name = ? AND analyst IN ('', ?)", name, account)
        return 0.0 if row is None or row[0] is None else float(row[0])

    def latest(self, now: float, *, keep: bool = True) -> float:
        """Return the greatest time ever seen: a clock that is set back revives no token. `keep` remembers this one."""
        row = self._row("SELECT seen FROM clock")
        seen = 0.0 if row is None else float(row[0])
        if keep and now > seen + 60:
            with self._work() as run:
                run("INSERT INTO clock VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET seen = MAX(seen, ?)", now, now)
        return max(now, seen)

    def check_clock(self, now: float) -> None:
        """Refuse a clock that was set forward by weeks: a time once seen stays for good."""
        row = self._row("SELECT seen FROM clock")
        if row is not None and now - float(row[0]) > _LARGEST_STEP:
            raise StorageError(
                "the clock went on by more than 40 days since the last start, and a time once seen stays; if it is "
                "right, confirm it with `sidelight server resume FILE --clock`"
            )

    def _set(self, name: str, analyst: str, *, paused: int, now: float) -> None:
        with self._work() as run:
            run("INSERT OR REPLACE INTO pause VALUES (?, ?, ?, ?)", name, analyst, paused, now)

    def _row(self, statement: str, *given: Any) -> Any:
        with self._work() as run:
            return run(statement, *given).fetchone()

    @contextmanager
    def _work(self) -> Iterator[Any]:
        def run(statement: str, *given: Any) -> sqlite3.Cursor:
            cursor = self._database.cursor()
            cursor.row_factory = sqlite3.Row
            return cursor.execute(statement, given)

        with self._lock:
            try:
                yield run
            except sqlite3.Error:
                raise StorageError("the store of tokens cannot be read or written; nothing was done") from None


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
