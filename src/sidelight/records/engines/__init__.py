"""Open a source of rows. Engine libraries are imported in this folder and nowhere else, when a source needs one.

The engine is found by the module of the source's class, so that no library is imported to ask. A new engine is one file
here that implements `Rows`, and one line below. Other types are refused: an object that merely converts to an array
could run any code before anything is charged, and its columns would have positions instead of names.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from typing import Any, Literal

from sidelight.errors import SourceError
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrays import library_of
from sidelight.records.engines.files import absolute, files_of
from sidelight.records.engines.folders import Member, members_of, shown
from sidelight.records.rows import Rows, hide_engine_errors
from sidelight.records.source_files import identities_of
from sidelight.registry import extras_named

_ELSEWHERE = re.compile(r"([a-z][a-z0-9+.]+)://", re.IGNORECASE)
#: An address that may hold a password, wherever it stands in a text and however it is misspelt.
_ADDRESS = re.compile(r"postgres(ql)?(\+\w+)?:/|\b(password|pwd)\s*=|:/+[^/:]*:[^/]*@", re.IGNORECASE)


@extras_named("this source", instead=", or give its columns as NumPy arrays, lists or a pandas frame")
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

    `records` says what a record of a CSV file is (`csv_records`); other sources say so themselves. `table` names a
    table of a DuckDB connection or file, of a PostgreSQL database or of a Spark session. With `engine` Spark reads a
    path. `dates` are the number columns whose cells are dates, and how these are counted.
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
        from sidelight.records.engines.arrow import open_dataset

        return open_dataset(source, names, dates=dates)
    if library in ("pandas", "polars", "pyarrow"):
        from sidelight.records.engines.frames import open_frame

        return open_frame(source, names, dates=dates)
    if hasattr(type(source), "__arrow_c_stream__"):  # of the class: an object's own may answer anything
        from sidelight.records.engines.arrow import open_stream

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


def open_file(
    path: str,
    names: Sequence[str],
    *,
    records: Literal["standard", "lines"] = "standard",
    table: str | None = None,
    dates: Mapping[str, Calendar] | None = None,
) -> Rows:
    """Open a CSV or Parquet file, all files that a pattern or a folder names, or a table of a DuckDB file.

    `records` says what a record of a CSV file is.
    """
    if _is_database(os.path.expanduser(path)):
        if records != "standard":
            raise SourceError(f"records={records!r} is for CSV files, and {path!r} is a DuckDB file; leave it out")
        from sidelight.records.engines.duckdb_sources import open_database

        return open_database(os.path.expanduser(path), table=table, dates=dates)
    if table is not None:
        raise SourceError(f"table={table!r} is for DuckDB connections and files, and {path!r} is none; leave it out")
    given = os.path.expanduser(path)
    whole = os.path.isdir(given)
    members = [Member(absolute(each.path), each.cells) for each in _members_named(given)]
    for member in members:
        _check_readable(member)
    paths = [member.path for member in members]
    place = absolute(given)
    files = files_of(paths, place=shown(place), listed=partial(_paths_named, place))
    plain = paths[0].lower().removesuffix(".gz")
    if plain.endswith((".parquet", ".pq")):
        if records != "standard":
            raise SourceError(
                f"records={records!r} is for CSV files, and {members[0].shown!r} is a Parquet file; leave it out"
            )
        from sidelight.records.engines.parquet import open_parquet

        return open_parquet(members, names, files, agree=whole, dates=dates)
    if plain.endswith((".csv", ".tsv", ".txt")):
        from sidelight.records.engines.csv import open_csv

        return open_csv(paths, names, files, records=records, dates=dates)
    for ending, advice in _ADVICE.items():
        if plain.endswith(ending):
            raise SourceError(f"{shown(paths[0])!r} cannot be read as it is; {advice}")
    raise SourceError(f"cannot tell the format of {shown(paths[0])!r}; name it .csv, .tsv, .csv.gz or .parquet")


def same_files(one: str, other: str) -> bool:
    """Return whether two paths, patterns or folders name one and the same file; by names and links, reading none."""
    return not identities_of(one).isdisjoint(identities_of(other))


def origin_of(source: Any, rows: Rows, *, table: str | None) -> tuple[Any, ...] | None:
    """Return what tables of the same rows have in common, as far as it is visible; None of a path of files.

    An object and the name of a table in it; of PostgreSQL the address and the whole name; of DuckDB what a relation
    runs. Reads no row.
    """
    if isinstance(source, (str, PathLike)):
        return getattr(rows, "origin", None)
    native = source.to_native() if library_of(source) == "narwhals" else source
    statement = getattr(type(native), "sql_query", None)  # of the class: an object's own may answer anything
    if statement is not None:
        return "duckdb", hide_engine_errors(lambda: statement(native))
    return native, table


def same_origin(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> bool:
    """Return whether two origins are one: the same texts or object, or frames of Spark with the same plan."""
    if one is None or other is None or len(one) != len(other):
        return False
    first, second = one[0], other[0]
    if isinstance(first, str):
        return isinstance(second, str) and one == other
    if first is second:
        return bool(one[1] == other[1])
    plan = getattr(type(first), "sameSemantics", None)
    return plan is not None and type(first) is type(second) and bool(hide_engine_errors(lambda: plan(first, second)))


#: What to write instead, by the ending of a file.
_ADVICE = {
    (".feather", ".arrow", ".ipc"): "give sl.Table(pyarrow.feather.read_table(path), ...), or write it as Parquet",
    (".orc",): "give sl.Table(pyarrow.orc.read_table(path), ...), or write it as Parquet",
    (".json", ".jsonl", ".ndjson"): "types of JSON are guessed from rows: write it as Parquet with declared types",
    (".sqlite", ".sqlite3"): "write its table as Parquet, or as a table of a DuckDB file",
}


def _is_database(path: str) -> bool:
    """Tell by its first bytes whether a file is one of DuckDB: the ending .db others have, too."""
    try:
        with open(path, "rb") as file:
            return file.read(12)[8:] == b"DUCK"
    except OSError:
        return False


def _members_named(path: str) -> list[Member]:
    """Return the files of a folder or pattern, or the one file."""
    return members_of(path) if os.path.isdir(path) else [Member(each) for each in _paths_of(path)]


def _paths_named(path: str) -> list[str]:
    return [member.path for member in _members_named(path)]


def _paths_of(path: str) -> list[str]:
    if os.path.exists(path):
        if any(sign in path for sign in "*?["):
            raise SourceError(f"the name {path!r} holds a pattern sign; rename the file without *, ? and [")
        return [path]
    if any(sign in path for sign in "*?"):
        found = sorted(glob.glob(path))
        if found:
            return found
        raise SourceError(f"no file matches {path!r}; check the folder and the pattern")
    raise SourceError(f"there is no file {path!r}; check the path (the working folder is {os.getcwd()!r})")


def _check_readable(member: Member) -> None:
    if os.path.isdir(member.path):
        raise SourceError(
            f"{member.shown!r} is a folder among files; a pattern names files, and a folder is named alone"
        )
    if not os.access(member.path, os.R_OK):
        raise SourceError(f"the file {member.shown!r} cannot be read; check its permissions")
