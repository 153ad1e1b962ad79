"""CSV and Parquet files, read by DuckDB. Opening one looks at the header line or the footer, never at rows.

A pattern with `*` or `?` names several files of one kind. CSV cells are text and are read as the declared type; no type
is guessed from rows. The delimiter is found in the header line: of comma, semicolon, tab and bar the one under which
most declared columns are there. Lines that are too short have missing cells, lines that are too long lose the excess.
"""

from __future__ import annotations

import csv
import glob
import gzip
import os
from collections.abc import Sequence
from typing import IO

import duckdb

from sidelight.errors import SchemaError, SourceError
from sidelight.records.engines.duckdb import RelationRows, connect

_DELIMITERS = (",", ";", "\t", "|")
#: A header longer than this is no header.
_HEADER_LIMIT = 1 << 20


def open_file(path: str, names: Sequence[str]) -> RelationRows:
    """Open a CSV or Parquet file, or all files that a pattern names."""
    paths = _paths_of(path)
    for place in paths:
        _check_readable(place)
    plain = paths[0].lower().removesuffix(".gz")
    if plain.endswith((".parquet", ".pq")):
        return _open_parquet(paths)
    if plain.endswith((".csv", ".tsv", ".txt")):
        return _open_csv(paths, names)
    raise SourceError(f"cannot tell the format of {paths[0]!r}; name it .csv, .tsv, .csv.gz or .parquet")


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


def _check_readable(path: str) -> None:
    if os.path.isdir(path):
        raise SourceError(
            f"{path!r} is a folder; name its files with a pattern, as in {os.path.join(path, '*.parquet')!r}"
        )
    if not os.access(path, os.R_OK):
        raise SourceError(f"the file {path!r} cannot be read; check its permissions")


def _open_parquet(paths: Sequence[str]) -> RelationRows:
    for path in paths:
        with open(path, "rb") as file:
            start = file.read(4)
            file.seek(max(0, os.path.getsize(path) - 4))
            end = file.read(4)
        if start != b"PAR1" or end != b"PAR1":
            raise SourceError(f"{path!r} is not a Parquet file (or was cut off); name a CSV file .csv")
    reason = ""
    try:
        relation = connect().read_parquet(list(paths), union_by_name=len(paths) > 1, hive_partitioning=False)
        return RelationRows(relation, name="duckdb:parquet")
    except duckdb.Error as error:
        reason = type(error).__name__
    raise SourceError(f"the footer of {paths[0]!r} cannot be read ({reason}); write the file again")


def _open_csv(paths: Sequence[str], names: Sequence[str]) -> RelationRows:
    delimiter, header = _header_of(paths[0], names)
    for other in paths[1:]:
        if _header_of(other, names) != (delimiter, header):
            raise SchemaError(
                f"{other!r} has another header than {paths[0]!r}; files of one table have the same columns"
            )
    twice = sorted({name for name in names if header.count(name) > 1})
    if twice:
        raise SchemaError(f"the header of {paths[0]!r} names column {twice[0]!r} twice; rename one of them")
    # Columns go by their place: a header may name a column twice, or not at all.
    places = {name: f"c{place}" for place, name in enumerate(header)}
    columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(header)))
    files = ", ".join(_literal(path) for path in paths)
    # One scanner: the parallel one raises on a line break inside quotes, which would be an error that rows decide.
    relation = connect().sql(
        f"SELECT * FROM read_csv([{files}], auto_detect=false, header=true, delim={_literal(delimiter)}, quote='\"', "
        f"escape='\"', columns={{{columns}}}, ignore_errors=true, null_padding=true, strict_mode=false, "
        "parallel=false, max_line_size=16777216)"
    )
    return RelationRows(relation, name="duckdb:csv", columns=places, untyped=True)


def _header_of(path: str, names: Sequence[str]) -> tuple[str, list[str]]:
    line = ""
    try:
        # Bytes, and only this line is decoded: a text file decodes ahead, and rows would decide whether that raises.
        with _bytes_of(path) as file:
            line = file.readline(_HEADER_LIMIT).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError):
        pass
    if not line.strip():
        raise SourceError(f"{path!r} has no header line in UTF-8; the first line must name the columns")
    headers = [
        (delimiter, next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])) for delimiter in _DELIMITERS
    ]
    return max(headers, key=lambda found: (len(set(names) & set(found[1])), len(found[1])))


def _bytes_of(path: str) -> IO[bytes]:
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
