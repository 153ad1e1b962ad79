"""Connections to a ledger in PostgreSQL: what a session of the server must be like before anything is charged in it."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from sidelight.errors import LedgerError
from sidelight.ledger.place import Place

_KEEPALIVE: Final = {"idle": 5, "interval": 1, "count": 5}  # after which PostgreSQL gives up a silent connection


def postgresql_engine(place: Place, wait_seconds: float, answer_seconds: float | None) -> sa.Engine:
    """Return the engine of a server; its sessions are prepared when they begin."""
    try:
        engine = sa.create_engine(
            place.address,
            isolation_level="READ COMMITTED",
            pool_timeout=wait_seconds,
            hide_parameters=True,
            # before settings of the address, the database and the environment: every outcome can be written in UTF-8
            connect_args={"connect_timeout": max(1, int(wait_seconds)), "client_encoding": "utf8"},
        )
    except ImportError:
        raise LedgerError(
            "a ledger in PostgreSQL needs psycopg, which is not installed; run: pip install 'sidelight[postgres]'"
        ) from None
    except SQLAlchemyError:
        raise LedgerError(
            f"{place.shown} is not an address of PostgreSQL; write postgresql://user@host/database"
        ) from None

    def connect(_dialect: object, _record: object, given: Any, named: Any) -> Any:
        from sidelight.ledger.timed_connection import TimedConnection  # with psycopg, which a file does not need

        return TimedConnection.connect(*given, **named)

    def prepare(connection: Any, _record: object) -> None:
        if answer_seconds is not None:
            connection.limit(answer_seconds)
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            commit = cursor.fetchone()[0]
            cursor.execute("SHOW fsync")
            fsync = cursor.fetchone()[0]
            cursor.execute("SHOW server_encoding")
            encoding = cursor.fetchone()[0]
            cursor.execute(f"SET lock_timeout = {max(1, int(wait_seconds * 1000))}")  # 0 would wait for ever
            for name, value in _KEEPALIVE.items():  # a host that vanished holds the head for seconds, not hours
                cursor.execute(f"SET tcp_keepalives_{name} = {value}")
        connection.commit()
        if commit == "off" or fsync == "off":
            raise LedgerError(
                f"the server {place.shown} runs with synchronous_commit={commit}, fsync={fsync} and may forget a "
                "commit, that is, spending; set both on for this database"
            )
        if encoding != "UTF8":
            raise LedgerError(
                f"the database {place.shown} stores {encoding} text; a ledger needs one created with UTF8"
            )

    sa.event.listen(engine, "do_connect", connect)
    sa.event.listen(engine, "connect", prepare)
    return engine
