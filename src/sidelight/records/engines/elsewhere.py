"""Rows that are not on this machine: a URL is refused with what to write instead."""

from __future__ import annotations

import re

from sidelight.errors import SourceError

_ELSEWHERE = re.compile(r"([a-z][a-z0-9+.]+)://", re.IGNORECASE)


def check_local(path: str) -> None:
    """Refuse a URL: nothing is fetched that its owner did not allow, which is done on a connection of theirs.

    The URL is not shown beyond its first word, because it may hold a password.
    """
    found = _ELSEWHERE.match(path)
    if found is None:
        return
    scheme = found.group(1).lower()
    if scheme in ("postgres", "postgresql"):
        advice = (
            "connection.execute(\"INSTALL postgres; LOAD postgres; ATTACH '...' AS pg (TYPE postgres, READ_ONLY)\")"
        )
        raise SourceError(
            f"a URL of {scheme}:// is not opened here; allow it on a DuckDB connection of yours, {advice}, and give "
            "sl.Table(connection.sql('SELECT ... FROM pg.public.people'), ...)"
        )
    if scheme == "file":
        raise SourceError("a URL of file:// is not opened; give the path itself")
    raise SourceError(
        f"a URL of {scheme}:// is not opened here; allow it on a DuckDB connection of yours, "
        "connection.execute('INSTALL httpfs; LOAD httpfs'), with its secret, and give "
        "sl.Table(connection.read_parquet('...'), ...), or copy the files to this machine"
    )
