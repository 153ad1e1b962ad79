"""Folders of files: which files are one table, and which cells the names of folders hold.

A folder named `ward=A` says that the column `ward` is "A" in all rows below it, as Hive, Spark, Arrow, DuckDB and
Polars write it. These names are cells: a record decides which folders exist. So they are read like cells of a CSV file,
each by itself and by the declaration (other readers guess a type from all names together, so that one record would
decide how others are read), and no message shows one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from sidelight.errors import SourceError
from sidelight.records.rows import ColumnType

#: Files that writers add to those of rows: marks of success, summaries, checksums.
_NOT_ROWS = ("_", ".")
_PARQUET, _CSV = (".parquet", ".pq"), (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
#: The type of a column that the names of folders hold: each cell is read by itself.
FOLDERS = ColumnType("any", "names of folders")
#: The name that stands for a missing cell.
_MISSING = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, repr=False)
class Member:
    """A file of a table, and the cells of its rows in the names of its folders: PRIVATE."""

    path: str
    cells: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The path for messages, without cells."""
        return shown(self.path)

    def holding(self, name: str) -> Member:
        """Return the file with its own column instead of the folder's name, as Polars writes it."""
        return Member(self.path, {key: cell for key, cell in self.cells.items() if key != name})

    def __repr__(self) -> str:
        return f"Member({self.shown!r})"


def members_of(folder: str) -> list[Member]:
    """Return the files of a folder in the order of their paths; no file is opened."""
    found = _members(folder, {})
    kinds = {_kind_of(member) for member in found}
    if not found:
        raise SourceError(
            f"the folder {folder!r} holds no file; name a folder of .parquet or of .csv files, in which folders are "
            "named column=value"
        )
    if len(kinds) > 1:
        raise SourceError(
            f"the folder {folder!r} holds CSV and Parquet files; one table is files of one kind: name them with a "
            f"pattern, as in {os.path.join(folder, '*.parquet')!r}"
        )
    if kinds == {"csv"} and found[0].cells:
        raise SourceError(
            f"the folder {folder!r} holds CSV files in folders named column=value, which are read of Parquet files "
            "only; write them as Parquet"
        )
    for member in found[1:]:
        if list(member.cells) != list(found[0].cells):
            raise SourceError(
                f"{member.shown!r} lies in other folders column=value than {found[0].shown!r}; all files of a table "
                "lie in folders of the same columns, in the same order"
            )
    return found


def cells_in(path: str) -> dict[str, str | None]:
    """Return the cells in the names of a path's folders.

    >>> cells_in("visits/ward=A%2FB/day=__HIVE_DEFAULT_PARTITION__/part-0.parquet")
    {'ward': 'A/B', 'day': None}
    """
    folders = os.path.dirname(path).replace(os.sep, "/").split("/")
    return dict(_cell(name) for name in folders if _names_a_cell(name))


def shown(path: str) -> str:
    """Return a path for a message, without the cells in the names of folders.

    >>> shown("visits/ward=A/part-0.csv")
    'visits/ward=.../part-0.csv'
    """
    head, tail = os.path.split(path)
    parts = head.replace(os.sep, "/").split("/")
    hidden = [f"{part.partition('=')[0]}=..." if _names_a_cell(part) else part for part in parts]
    return "/".join([*hidden, tail]) if head else tail


def _members(folder: str, cells: Mapping[str, str | None]) -> list[Member]:
    where = shown(os.path.join(folder, ""))
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        entries = None
    if entries is None:
        raise SourceError(f"the folder {where!r} cannot be read; check its permissions")
    found: list[Member] = []
    for entry in entries:
        if entry.name.startswith(_NOT_ROWS):
            continue
        if not entry.is_dir():
            found.append(Member(entry.path, cells))
            continue
        if not _names_a_cell(entry.name):
            raise SourceError(
                f"the folder {where!r} holds the folder {entry.name!r}, which is not named column=value; name the "
                f"files with a pattern, as in {os.path.join(where, '*', '*.parquet')!r}"
            )
        key, cell = _cell(entry.name)
        if key in cells:
            raise SourceError(f"the folder {where!r} holds folders of {key!r} again, which it lies in already")
        found += _members(entry.path, {**cells, key: cell})
    return found


def _kind_of(member: Member) -> str:
    name = os.path.basename(member.path).lower()
    if name.endswith(_PARQUET):
        return "parquet"
    if name.endswith(_CSV):
        return "csv"
    raise SourceError(
        f"cannot tell the format of {member.shown!r}; files of a folder are named .parquet, or .csv, .tsv or .csv.gz, "
        "and others begin with _ or a dot"
    )


def _names_a_cell(name: str) -> bool:
    return "=" in name[1:]


def _cell(name: str) -> tuple[str, str | None]:
    key, _, value = name.partition("=")
    return unquote(key), None if value in (_MISSING, "") else unquote(value)
