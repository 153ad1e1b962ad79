"""Refuse public rows that are read from the file of the private table: one of the two declarations is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from os import PathLike
from types import MappingProxyType
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
    kind = type(part)  # what an object says of its own class may be a cell's
    if issubclass(kind, Origin):
        yield part
    elif issubclass(kind, PublicData):
        yield part.origin
    elif _ours(kind) and isinstance(given := getattr(part, "prediction", None), (str, PathLike)):
        yield PublicData(given, "public rows").origin
    elif depth and not issubclass(kind, (str, bytes, Table)):
        for each in _inside(part, kind):
            yield from _origins(each, depth - 1)


def _inside(part: Any, kind: type) -> Iterator[Any]:
    """Yield what an object of this library, or of a class made from one of it, a mapping or a short list is made of."""
    if issubclass(kind, (dict, MappingProxyType)):
        yield from part.values()
    elif issubclass(kind, (list, tuple)):
        yield from part[:1000]
    elif _ours(kind):
        named = (each.name for each in fields(kind)) if is_dataclass(kind) else iter(getattr(part, "__dict__", {}))
        yield from (getattr(part, name) for name in named if hasattr(part, name))


def _ours(kind: type) -> bool:
    return any(base.__module__.startswith("sidelight.") for base in kind.__mro__)
