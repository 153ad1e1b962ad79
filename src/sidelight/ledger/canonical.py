"""Canonical JSON: one text for one value, so that a hash over it means something.

UTF-8, sorted ASCII keys, no spaces, escapes only where JSON demands them, and no JSON numbers: a number is a string, so
no reader can round it. Hand-made because the hash chain depends on every byte, and because a reader that silently keeps
the last of two equal keys (as the standard one does) would let one text hash alike and read otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from sidelight.errors import LedgerError

#: Far more than any query has, and far less than Python's own limit of nested calls.
DEEPEST = 100

Json: TypeAlias = "str | list[Json] | dict[str, Json] | None"


def canonical(value: object) -> str:
    """Return the canonical JSON text of strings, None, lists and mappings.

    >>> canonical({"b": ["1", None], "a": "tab\\t"})
    '{"a":"tab\\\\t","b":["1",null]}'
    """
    text = json.dumps(plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise LedgerError(
            "a ledger stores text that is valid Unicode, got a lone surrogate; decode the text with the right encoding"
        ) from None
    return text


def plain(value: object, *, where: str = "value", depth: int = 0) -> Json:
    """Return the value rebuilt from plain strings, None, lists and dicts, or say where it is something else."""
    if depth > DEEPEST:
        raise LedgerError(f"a ledger stores what is nested at most {DEEPEST} deep; make the request flatter")
    if value is None:
        return None
    if isinstance(value, str):
        return str.__str__(value)  # a NumPy string or a string enum becomes its plain text
    if isinstance(value, Mapping):
        return {_key(key, where): plain(entry, where=f"{where}.{key}", depth=depth + 1) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, where=f"{where}[{index}]", depth=depth + 1) for index, entry in enumerate(value)]
    raise LedgerError(
        f"a ledger stores strings, lists and mappings of them only, got {type(value).__name__} at {where}; "
        "write a number as its decimal text"
    )


def read(text: str) -> Json:
    """Parse JSON text, refusing numbers, booleans and doubled keys.

    >>> read('{"a":"1"}')
    {'a': '1'}
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_int=_no_number, parse_float=_no_number, parse_constant=_no_number
        )
        return plain(value)
    except RecursionError:
        raise LedgerError("the JSON of a ledger is nested too deeply to be one of its events") from None
    except ValueError as error:
        raise LedgerError(f"the text is not JSON of a ledger ({error})") from None


def is_canonical(text: str) -> bool:
    """Return whether the text is, byte for byte, what `canonical` writes for the value it holds."""
    try:
        return canonical(read(text)) == text
    except LedgerError:
        return False


def _key(key: object, where: str) -> str:
    if not isinstance(key, str) or not key.isascii():
        raise LedgerError(
            f"keys in a ledger are ASCII text, got {key!r} in {where}; put names that users choose into values"
        )
    return str.__str__(key)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _no_number(text: str) -> Any:
    raise ValueError(f"a bare {text[:20]} where a string was expected")
