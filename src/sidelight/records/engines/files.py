"""CSV and Parquet files. Opening one looks at the header line or the footer, never at rows.

A pattern with `*` or `?` names several files of one kind, in the order of their names.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence

from sidelight.errors import SourceError
from sidelight.records.dates import Calendar
from sidelight.records.engines.csv import CsvRows, open_csv
from sidelight.records.engines.parquet import ParquetRows, open_parquet
from sidelight.records.engines.splitting import Records


def open_file(
    path: str,
    names: Sequence[str],
    *,
    records: Records = "standard",
    dates: Mapping[str, Calendar] | None = None,
) -> ParquetRows | CsvRows:
    """Open a CSV or Parquet file, or all files that a pattern names; `records` says what a record of a CSV file is."""
    paths = _paths_of(path)
    for place in paths:
        _check_readable(place)
    plain = paths[0].lower().removesuffix(".gz")
    if plain.endswith((".parquet", ".pq")):
        if records != "standard":
            raise SourceError(f"records={records!r} is for CSV files, and {paths[0]!r} is a Parquet file; leave it out")
        return open_parquet(paths, names, dates=dates)
    if plain.endswith((".csv", ".tsv", ".txt")):
        return open_csv(paths, names, records=records, dates=dates)
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
