"""How rows of several tables are tied together: keys, references, and the path from a row to its person.

These declarations are public metadata. They name columns and tables; nothing is learned from rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidelight.errors import SchemaError
from sidelight.records.columns import checked_limit
from sidelight.records.readings import checked_name
from sidelight.records.rows import ColumnType

#: What an id or a key may be: whole numbers, texts, or cells that are read one by one (CSV, lists).
_KEY_KINDS = ("integer", "text", "any")


@dataclass(frozen=True, init=False)
class Key:
    """Declare what other rows name a row by: one column, or several together.

    Keys are compared by text, letter for letter, part by part: the whole number 7 is "7", and "007" is another key. A
    key with a missing part names nothing. Nothing is assumed about repeated keys.

    Args:
        columns: The columns of the key, whole numbers or texts.

    >>> Key("order_id")
    Key(columns=('order_id',))
    """

    columns: tuple[str, ...]

    def __init__(self, *columns: str) -> None:
        object.__setattr__(self, "columns", _names(columns, "Key"))


@dataclass(frozen=True, init=False)
class Reference:
    """Declare that a row names a row of another table by its key, for lookups and folds.

    It says nothing about who owns the row: `PersonId` and `PersonVia` do.

    Args:
        columns: As many columns as the key of the other table has, in its order.
        to: The name of the other table in the database.

    >>> Reference("ward", to="wards")
    Reference(columns=('ward',), to='wards')
    """

    columns: tuple[str, ...]
    to: str

    def __init__(self, *columns: str, to: str) -> None:
        object.__setattr__(self, "columns", _names(columns, "Reference"))
        object.__setattr__(self, "to", _table(to, "Reference"))


@dataclass(frozen=True, init=False)
class PersonVia:
    """Declare that a row belongs to the person of the row of another table whose key it names.

    Guarantee: a row is owned by a person only if everybody with a claim on it is that person (docs: proofs, persons
    across tables, Theorem 2). Rows that two people claim, or nobody, are in no statistic.

    Args:
        columns: As many columns as the key of the other table has, in its order.
        to: The name of the other table in the database; it is private.
        max_rows: The most rows of one person that count in a statistic, 1 to 2^20.

    >>> PersonVia("order_id", to="orders", max_rows=200)
    PersonVia(columns=('order_id',), to='orders', max_rows=200)
    """

    columns: tuple[str, ...]
    to: str
    max_rows: int

    def __init__(self, *columns: str, to: str, max_rows: int) -> None:
        object.__setattr__(self, "columns", _names(columns, "PersonVia"))
        object.__setattr__(self, "to", _table(to, "PersonVia"))
        limit = checked_limit(max_rows, name=f"max_rows of PersonVia{self.columns}")
        object.__setattr__(self, "max_rows", limit)


Link = Key | Reference | PersonVia


def _names(columns: tuple[str, ...], kind: str) -> tuple[str, ...]:
    if not columns or not all(isinstance(name, str) and name for name in columns):
        raise SchemaError(f"{kind} names one column or several, got {columns!r}; write sl.{kind}('id', ...)")
    if len(set(columns)) != len(columns):
        raise SchemaError(f"{kind} names a column twice: {columns!r}")
    return tuple(checked_name(name) for name in columns)


def _table(name: object, kind: str) -> str:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{kind} leads to a table of the database by its name, got to={name!r}")
    return str.__str__(name)


def check_one_kind(what: str, columns: Mapping[str, ColumnType]) -> None:
    """Refuse columns of ids or keys that are compared with each other and have no one spelling.

    Raises:
        SchemaError: one is neither whole numbers nor texts, or two are of two kinds.
    """
    kinds: dict[str, str] = {}
    for name, found in columns.items():
        shown = f"{name} ({found.native})"
        if found.kind not in _KEY_KINDS:
            raise SchemaError(
                f"the {what} are whole numbers or texts, and {shown} is neither; floats, decimals, dates and "
                "yes/no have no one spelling. Convert the column (of pandas, to Int64 or texts)"
            )
        if found.kind != "any":
            kinds.setdefault(found.kind, shown)
    if len(kinds) > 1:
        raise SchemaError(f"the {what} are of two kinds, {' and '.join(kinds.values())}: convert one of the columns")
