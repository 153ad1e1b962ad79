"""Refuse public rows that are read from the file of the private table: one of the two declarations is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any

from sidelight.errors import RangeError
from sidelight.predictions import Origin
from sidelight.predictions.public_data import PublicData
from sidelight.records import Table

#: How deep public rows are looked for: a plan in a model in a query in a selection.
_DEPTH = 6


def refuse_own_file(query: Any, table: Table) -> None:
    """Refuse public rows, anywhere in a query, that come from a file of the table. Reads neither of them."""
    for origin in _origins(query, _DEPTH):
        if any(table.is_file(file) for file in origin.files):
            raise RangeError(
                f"the public rows ({origin.description}) are read from the file of the private table: what is learned "
                "from them would be published without protection. Give a file that anyone may see. Nothing was charged"
            )


def _origins(part: Any, depth: int) -> Iterator[Origin]:
    if isinstance(part, (Origin, PublicData)):
        yield part if isinstance(part, Origin) else part.origin
    elif isinstance(given := getattr(part, "prediction", None), (str, PathLike)):
        yield PublicData(given, "public rows").origin
    elif depth and not isinstance(part, (str, bytes, Table)):
        for each in _inside(part):
            yield from _origins(each, depth - 1)


def _inside(part: Any) -> Iterator[Any]:
    """Yield what an object of this library, a mapping or a short list is made of."""
    if isinstance(part, Mapping):
        yield from part.values()
    elif isinstance(part, (list, tuple)):
        yield from part[:1000]
    elif is_dataclass(part) and not isinstance(part, type):
        yield from (getattr(part, each.name) for each in fields(part) if hasattr(part, each.name))
    elif type(part).__module__.startswith("sidelight."):
        yield from getattr(part, "__dict__", {}).values()
