"""The tables of a ledger, the triggers that keep them append-only, and one open transaction on them.

One text for SQLite and PostgreSQL. `event` is the history. `scope.totals` and `entry` are caches of it: `verify`
rebuilds them from the events, and `event.books` is the digest of the scopes' rows by which a deciding transaction knows
that they are the right ones. The triggers stop mistakes and casual edits; the database's owner can drop them, which is
why the chain exists.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    import sqlalchemy as sa

Dialect = Literal["sqlite", "postgresql"]
SCHEMA_VERSION: Final = "2"
FIRST_SIGNED: Final = 2  # the schema from which on events carry the digest of the scopes' rows
TABLES: Final = ("meta", "scope", "event", "entry")
_TABLES_SQL: Final = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE scope (scope_id TEXT PRIMARY KEY, parent_id TEXT REFERENCES scope, unit TEXT NOT NULL,
  neighbours TEXT NOT NULL CHECK (neighbours IN ('add_remove','replace','local')),
  budget TEXT NOT NULL, routes TEXT NOT NULL, totals TEXT NOT NULL, head_seq {integer} NOT NULL)""",
    """CREATE TABLE event (seq {integer} PRIMARY KEY, at_utc TEXT NOT NULL, kind TEXT NOT NULL,
  scope_id TEXT REFERENCES scope, entry_id TEXT, body TEXT NOT NULL,
  prev_hash TEXT NOT NULL UNIQUE, hash TEXT NOT NULL UNIQUE, books TEXT,
  CHECK (kind IN ('open','scope','reserve','release','refuse','fail','import','migrate','close')))""",
    """CREATE TABLE entry (entry_id TEXT PRIMARY KEY, scope_id TEXT NOT NULL REFERENCES scope, idem_key TEXT NOT NULL,
  attempt INTEGER NOT NULL CHECK (attempt >= 1), reserve_seq {integer} NOT NULL REFERENCES event,
  outcome_seq {integer} REFERENCES event,
  state TEXT NOT NULL CHECK (state IN ('reserved','released','refused','failed')),
  UNIQUE (scope_id, idem_key, attempt), CHECK ((state = 'reserved') = (outcome_seq IS NULL)))""",
    "CREATE UNIQUE INDEX one_live ON entry (scope_id, idem_key) WHERE state IN ('reserved','released','refused')",
)

# What each trigger refuses, as one condition for both databases ({differs} is IS NOT or IS DISTINCT FROM). The INSERT
# triggers are needed because SQLite's INSERT OR REPLACE removes the old row without asking the DELETE trigger. These
# texts are part of the schema: verification compares them with those in the file, which another version may have made.
_REFUSALS: Final = (
    ("event", "UPDATE", "1 = 1", "events are append-only"),
    ("event", "DELETE", "1 = 1", "events are append-only"),
    (
        "event",
        "INSERT",
        "NEW.seq {differs} (SELECT COALESCE(MAX(seq), -1) + 1 FROM event)"
        " OR NEW.prev_hash {differs} COALESCE((SELECT hash FROM event WHERE seq = NEW.seq - 1), '" + "0" * 64 + "')"
        " OR EXISTS (SELECT 1 FROM event WHERE hash = NEW.hash OR prev_hash = NEW.prev_hash)",
        "an event must follow the last one",
    ),
    ("entry", "DELETE", "1 = 1", "entries are never deleted"),
    (
        "entry",
        "UPDATE",
        "OLD.state <> 'reserved' OR NEW.state NOT IN ('released','refused','failed') OR NEW.entry_id <> OLD.entry_id"
        " OR NEW.scope_id <> OLD.scope_id OR NEW.idem_key <> OLD.idem_key OR NEW.attempt <> OLD.attempt"
        " OR NEW.reserve_seq <> OLD.reserve_seq OR NEW.outcome_seq IS NULL OR NEW.outcome_seq <= OLD.reserve_seq",
        "an entry changes once, from reserved to its outcome",
    ),
    (
        "entry",
        "INSERT",
        "NEW.state <> 'reserved' OR EXISTS (SELECT 1 FROM entry WHERE entry_id = NEW.entry_id)"
        " OR EXISTS (SELECT 1 FROM entry WHERE scope_id = NEW.scope_id AND idem_key = NEW.idem_key"
        " AND (attempt >= NEW.attempt OR state <> 'failed'))",
        "an entry begins as a new reservation",
    ),
    ("scope", "DELETE", "1 = 1", "scopes are never deleted"),
    (
        "scope",
        "UPDATE",
        "NEW.scope_id <> OLD.scope_id OR NEW.parent_id {differs} OLD.parent_id OR NEW.unit <> OLD.unit"
        " OR NEW.neighbours <> OLD.neighbours OR NEW.budget <> OLD.budget OR NEW.routes <> OLD.routes"
        " OR NEW.head_seq < OLD.head_seq",
        "a scope keeps its budget and its rule for good",
    ),
    ("scope", "INSERT", "EXISTS (SELECT 1 FROM scope WHERE scope_id = NEW.scope_id)", "the scope exists"),
    ("meta", "DELETE", "1 = 1", "the identity of a ledger is never deleted"),
    ("meta", "UPDATE", "OLD.key <> 'head' OR NEW.key <> 'head'", "the identity of a ledger never changes"),
    ("meta", "INSERT", "EXISTS (SELECT 1 FROM meta WHERE key = NEW.key)", "the identity of a ledger never changes"),
)
Row = tuple[Any, ...]
Question = tuple[str, Mapping[str, object]]  # the text of a statement and its values
Result = TypeVar("Result")


def create_statements(dialect: Dialect) -> list[str]:
    """Return the statements that make an empty ledger, tables first."""
    integer = "INTEGER" if dialect == "sqlite" else "BIGINT"
    tables = [statement.format(integer=integer) for statement in _TABLES_SQL]
    return [*tables, *trigger_statements(dialect).values()]


def trigger_statements(dialect: Dialect) -> dict[str, str]:
    """Return the triggers (and for PostgreSQL their functions) by name, in the order in which they are made."""
    result: dict[str, str] = {}
    for table, action, condition, message in _REFUSALS:
        name = f"{table}_{action.lower()}"
        text = f"sidelight ledger: {message}"
        if dialect == "sqlite":
            refused = condition.format(differs="IS NOT")
            result[name] = (
                f"CREATE TRIGGER {name} BEFORE {action} ON {table} WHEN {refused} "
                f"BEGIN SELECT RAISE(ABORT, '{text}'); END"
            )
        else:
            refused = condition.format(differs="IS DISTINCT FROM")
            kept = "OLD" if action == "DELETE" else "NEW"
            result[f"sidelight_{name}"] = (
                f"CREATE FUNCTION sidelight_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                f"IF {refused} THEN RAISE EXCEPTION '{text}'; END IF; RETURN {kept}; END $$"
            )
            result[name] = (
                f"CREATE TRIGGER {name} BEFORE {action} ON {table} FOR EACH ROW EXECUTE FUNCTION sidelight_{name}()"
            )
    if dialect == "postgresql":
        result["sidelight_truncate"] = (
            "CREATE FUNCTION sidelight_truncate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION 'sidelight ledger: nothing is ever truncated'; END $$"
        )
        for table in TABLES:
            result[f"{table}_truncate"] = (
                f"CREATE TRIGGER {table}_truncate BEFORE TRUNCATE ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION sidelight_truncate()"
            )
    return result


def trigger_names(dialect: Dialect) -> set[str]:
    """Return the names of the triggers, without PostgreSQL's functions."""
    return {name for name, text in trigger_statements(dialect).items() if text.startswith("CREATE TRIGGER")}


class ComparedScopes(Protocol):
    """The scopes' rows, once they are compared with what the newest event signs (`journal.SignedScopes`)."""

    def digest(self) -> str:
        """Return the digest of the rows as they are now."""
        ...


@dataclass(frozen=True)
class RememberedRows:
    """The digest of each scope's row, and that of all, as they were when event `seq` was the newest."""

    seq: int
    digests: Mapping[str, str]
    whole: str


@lru_cache(maxsize=256)
def _text(sql: str) -> sa.TextClause:
    import sqlalchemy as sa  # loaded already where there is a transaction

    return sa.text(sql)


class Transaction:
    """One open transaction: plain SQL text with named parameters, plain rows back."""

    def __init__(
        self,
        connection: sa.Connection,
        dialect: Dialect,
        *,
        ledger_id: str | None = None,
        known: RememberedRows | None = None,
    ) -> None:
        self._connection = connection
        self.ledger_id = ledger_id
        self.dialect: Dialect = dialect
        self.head: tuple[str, int, str] | None = None  # identity, seq and hash, once the head is locked
        self.locked: tuple[int, str] | None = None  # seq and hash of the head when it was locked
        self.known = known
        self.scopes: ComparedScopes | None = None
        self._waiting: list[Question] = []  # statements that are sent with the next question
        self._ahead: dict[tuple[object, ...], list[Row]] = {}  # answers to questions that were sent ahead

    def ask_ahead(self, *statements: Question) -> None:
        """Announce queries that follow, to send them together to a remote database; a file ignores this."""

    def later(self, sql: str, **parameters: object) -> None:
        """Execute a statement before the next question, at the latest before the commit."""
        self.run(sql, **parameters)

    def rows(self, sql: str, **parameters: object) -> list[Row]:
        """Return all rows of a query."""
        return [tuple(row) for row in self._connection.execute(_text(sql), parameters)]

    def row(self, sql: str, **parameters: object) -> Row | None:
        """Return the first row of a query, or None."""
        row = self._connection.execute(_text(sql), parameters).first()
        return None if row is None else tuple(row)

    def each(self, sql: str) -> Iterator[Row]:
        """Go through the rows of a long query without holding them all."""
        # for this statement alone: set on the connection it would stay, and PostgreSQL would open cursors for INSERTs
        with self._connection.execute(_text(sql), execution_options={"yield_per": 1000}) as result:
            for row in result:
                yield tuple(row)

    def run(self, sql: str, **parameters: object) -> int:
        """Execute a statement and return how many rows it changed."""
        return self._connection.execute(_text(sql), parameters).rowcount

    def define(self, sql: str) -> None:
        """Execute a statement that defines tables or triggers."""
        self._connection.exec_driver_sql(sql)

    def tables(self) -> set[str]:
        """Return the names of the tables that are visible."""
        import sqlalchemy as sa

        return set(sa.inspect(self._connection).get_table_names())


class OpenTransaction(AbstractContextManager[Result]):
    """As `contextlib.contextmanager`, except that an interrupt between the two halves leaves nothing open.

    There, an interrupt after the first half and before the block leaves the generator, its transaction and its locks
    to the holder of the traceback. At the first step of `__exit__` one still can: call `close` in a `finally`.
    """

    def __init__(self, steps: Generator[Result, None, None]) -> None:
        self._steps = steps
        self._before = sys.exc_info()[1]  # already being handled, so not an interrupt of this transaction

    def __enter__(self) -> Result:
        try:
            return next(self._steps)
        except BaseException as raised:
            self._steps.close()
            self._raise_interrupt(raised)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                next(self._steps, None)
            else:
                self._steps.throw(error)
        except BaseException as raised:
            self._raise_interrupt(raised)
            if raised is not error:
                raise
        finally:
            self._steps.close()

    def close(self) -> None:
        """End what is still under way, as if it had failed."""
        self._steps.close()

    def _raise_interrupt(self, raised: BaseException) -> None:
        """Raise the interrupt that made SQLAlchemy fail an assertion, as one in the middle of a commit does."""
        behind = raised.__context__ if isinstance(raised, AssertionError) else None
        while behind is not None and behind is not self._before:
            if not isinstance(behind, Exception):
                raise behind from None
            behind = behind.__context__
