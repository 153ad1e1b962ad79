"""Where rows come from. Engine libraries are imported in this folder and nowhere else, when a source needs one.

An engine is found by the module that the source's class lives in, so that no library is imported to ask the question.
A new engine is one file here that gives `Rows`, and one line below. What is in none of these is
refused by its type: an object that only turns into an array would run whatever it likes before anything is charged, and
give columns by their place, of types that its cells decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Literal

from sidelight.errors import SourceError
from sidelight.records.dates import Calendar
from sidelight.records.rows import Rows, library_of

_ELSEWHERE = re.compile(r"([a-z][a-z0-9+.]+)://", re.IGNORECASE)
#: An address that may hold a password, wherever it stands in a text and however it is misspelt.
_ADDRESS = re.compile(r"postgres(ql)?(\+\w+)?:/|\b(password|pwd)\s*=|:/+[^/:]*:[^/]*@", re.IGNORECASE)


def open_rows(
    source: Any,
    names: Sequence[str],
    *,
    records: Literal["standard", "lines"] = "standard",
    table: str | None = None,
    engine: Literal["spark"] | None = None,
    dates: Mapping[str, Calendar] | None = None,
) -> Rows:
    """Find the engine of a source. `names` are the declared columns, for sources that have no names of their own.

    `records` says what a record of a CSV file is (`splitting`); other sources say so themselves. `table` names a table
    of a DuckDB connection or file, of a PostgreSQL database or of a Spark session. With `engine` Spark reads a path.
    `dates` are the number columns whose cells are dates, and how these are counted.
    """
    if records not in ("standard", "lines"):
        raise SourceError(f'records must be "standard" or "lines", got {records!r}')
    if engine not in (None, "spark"):
        raise SourceError(f'engine must be "spark" or be left out, got {engine!r}; others are found by the source')
    if engine == "spark":
        if not isinstance(source, (str, PathLike)) or records != "standard" or table is not None:
            raise SourceError("engine='spark' is for paths of Parquet files, without records= and table=; leave it out")
        check_local(fspath(source), engine=engine)
        from sidelight.records.engines.spark import open_spark_path

        return open_spark_path(fspath(source), dates=dates)
    if isinstance(source, (str, PathLike)):
        check_local(fspath(source), table=table)
        if is_postgres(fspath(source)):
            if records != "standard":
                raise SourceError(f"records={records!r} is for paths of CSV files, got a URL; leave it out")
            from sidelight.records.engines.postgres import open_postgres

            return open_postgres(fspath(source), names, table=table, dates=dates)
        from sidelight.records.engines.files import open_file

        return open_file(fspath(source), names, records=records, table=table, dates=dates)
    if records != "standard":
        raise SourceError(f"records={records!r} is for paths of CSV files, got {type(source).__name__}; leave it out")
    if library_of(source) == "narwhals":
        source = source.to_native()
    library = library_of(source)
    if library in ("duckdb", "_duckdb"):
        from sidelight.records.engines.duckdb_sources import open_relation

        return open_relation(source, table=table, dates=dates)
    if library == "pyspark":
        from sidelight.records.engines.spark import open_spark

        return open_spark(source, table=table, dates=dates)
    if table is not None:
        raise SourceError(
            f"table={table!r} is for DuckDB connections and files, PostgreSQL databases and Spark sessions, got "
            f"{type(source).__name__}; leave it out"
        )
    if library == "pyarrow" and type(source).__module__ == "pyarrow._dataset":
        from sidelight.records.engines.arrow_streams import open_dataset

        return open_dataset(source, names, dates=dates)
    if library in ("pandas", "polars", "pyarrow"):
        from sidelight.records.engines.frames import open_frame

        return open_frame(source, names, dates=dates)
    if hasattr(type(source), "__arrow_c_stream__"):  # of the class: an object's own may answer anything
        from sidelight.records.engines.arrow_streams import open_stream

        return open_stream(source, dates=dates)
    if isinstance(source, Mapping):
        from sidelight.records.engines.frames import open_mapping

        return open_mapping(source, dates=dates)
    from sidelight.records.engines.arrays import open_arrays

    return open_arrays(source, names, dates=dates)


def is_postgres(path: str) -> bool:
    """Tell whether a source is the address of a PostgreSQL database."""
    return path.lower().startswith(("postgresql://", "postgres://"))


def check_local(path: str, *, table: str | None = None, engine: Literal["spark"] | None = None) -> None:
    """Refuse a URL: nothing is fetched that its owner did not allow, which is done on a connection of theirs.

    An address of PostgreSQL goes with the name of a table, and Spark reads other URLs. No URL is shown beyond its first
    word, because it may hold a password; what looks like a misspelt one is not shown at all.
    """
    if is_postgres(path) and engine is not None:
        raise SourceError("Spark does not read PostgreSQL here; leave engine= out, and give table='...'")
    found = _ELSEWHERE.match(path)
    if (found is None or engine is not None) and _ADDRESS.search(path):
        raise SourceError(
            "the path looks like an address with a password, and is not shown; an address of PostgreSQL is written "
            "postgresql://user@host/database, with nothing before it, and others belong on a connection of yours"
        )
    if found is None or engine is not None:
        return
    scheme = found.group(1).lower()
    if is_postgres(path):
        from sidelight.records.engines.postgres import check_postgres

        check_postgres(table)
        return
    if scheme == "file":
        raise SourceError("a URL of file:// is not opened; give the path itself")
    raise SourceError(
        f"a URL of {scheme}:// is not opened here; allow it on a DuckDB connection of yours, "
        "connection.execute('INSTALL httpfs; LOAD httpfs'), with its secret, and give "
        "sl.Table(connection.read_parquet('...'), ...), or copy the files to this machine"
    )
