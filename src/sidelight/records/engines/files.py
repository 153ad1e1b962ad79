"""CSV and Parquet files. Opening one looks at the header line or the footer, never at rows.

A pattern with `*` or `?` names several files of one kind, in the order of their names; a folder names all its files
(`folders`).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence

from sidelight.errors import SourceError
from sidelight.records.dates import Calendar
from sidelight.records.engines.csv import CsvRows, open_csv
from sidelight.records.engines.duckdb_sources import SourceRows, open_database
from sidelight.records.engines.folders import Member, members_of, shown
from sidelight.records.engines.parquet import ParquetRows, open_parquet
from sidelight.records.engines.splitting import Records


def open_file(
    path: str,
    names: Sequence[str],
    *,
    records: Records = "standard",
    table: str | None = None,
    dates: Mapping[str, Calendar] | None = None,
) -> ParquetRows | CsvRows | SourceRows:
    """Open a CSV or Parquet file, all files that a pattern or a folder names, or a table of a DuckDB file.

    `records` says what a record of a CSV file is.
    """
    if _is_database(os.path.expanduser(path)):
        if records != "standard":
            raise SourceError(f"records={records!r} is for CSV files, and {path!r} is a DuckDB file; leave it out")
        return open_database(os.path.expanduser(path), table=table, dates=dates)
    if table is not None:
        raise SourceError(f"table={table!r} is for DuckDB connections and files, and {path!r} is none; leave it out")
    whole = os.path.isdir(os.path.expanduser(path))
    members = members_of(os.path.expanduser(path)) if whole else [Member(each) for each in _paths_of(path)]
    for member in members:
        _check_readable(member)
    paths = [member.path for member in members]
    plain = paths[0].lower().removesuffix(".gz")
    if plain.endswith((".parquet", ".pq")):
        if records != "standard":
            raise SourceError(
                f"records={records!r} is for CSV files, and {members[0].shown!r} is a Parquet file; leave it out"
            )
        return open_parquet(members, names, agree=whole, dates=dates)
    if plain.endswith((".csv", ".tsv", ".txt")):
        return open_csv(paths, names, records=records, dates=dates)
    for ending, advice in _ADVICE.items():
        if plain.endswith(ending):
            raise SourceError(f"{shown(paths[0])!r} cannot be read as it is; {advice}")
    raise SourceError(f"cannot tell the format of {shown(paths[0])!r}; name it .csv, .tsv, .csv.gz or .parquet")


def same_files(one: str, other: str) -> bool:
    """Return whether two paths, patterns or folders name one and the same file; by names and links, reading none."""
    return not _identities(one).isdisjoint(_identities(other))


def _identities(path: str) -> set[tuple[int, int]]:
    """Return the device and number of each file that a path names: a link has those of the file that it leads to."""
    path = os.path.expanduser(path)
    try:
        paths = [member.path for member in members_of(path)] if os.path.isdir(path) else _paths_of(path)
        return {(found.st_dev, found.st_ino) for found in map(os.stat, paths)}
    except (OSError, ValueError, SourceError):  # an address, or nothing that is there
        return set()


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


def _paths_of(path: str) -> list[str]:
    path = os.path.expanduser(path)
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
