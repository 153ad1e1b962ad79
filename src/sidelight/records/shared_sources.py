"""Rows that are given to a database twice: refused where the tables contradict each other, before any row is read.

What can be seen is the same object, the same file (by its links), the same table of a server, or equal relations of
DuckDB and Spark. Copies of rows in other frames or files look like other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations, product
from typing import Any

from sidelight.errors import SchemaError

#: The path of a table that has no person.
PUBLIC = "public"


def check_shared_sources(
    tables: Mapping[str, Any], paths: Mapping[str, str], is_one: Callable[[Any, Any], bool]
) -> None:
    """Refuse rows that are private and public, or whose person two tables look for in two ways.

    Two private tables of the same rows that find the same person are fine: a person leaves both with the same rows.

    Args:
        tables: All tables by name.
        paths: How the person of each is found, in words, or "public".
        is_one: Whether two tables are read from the same rows.

    Raises:
        SchemaError: two tables contradict each other about whose rows they are.
    """
    private = [name for name in tables if paths[name] != PUBLIC]
    for one, public in product(private, [name for name in tables if name not in private]):
        if is_one(tables[one], tables[public]):
            raise SchemaError(
                f"the public table {public!r} is read from the file or frame of {one!r}: what is private would be "
                "published without protection. Give a source that anyone may see"
            )
    for one, other in combinations(private, 2):
        if paths[one] != paths[other] and is_one(tables[one], tables[other]):
            raise SchemaError(
                f"{one!r} and {other!r} are the same rows, which belong to the person by {paths[one]!r} and by "
                f"{paths[other]!r}: somebody who leaves would stay in one of them, in the rows that name another. Give "
                "the rows once, and declare whom they protect"
            )
