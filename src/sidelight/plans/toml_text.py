"""TOML as text: values written down, and the line of every table and key.

`tomllib` gives the line of a syntax error only, and a plan with a misspelt key is good TOML. `key_lines` follows
headers and keys well enough to point at a line. It decides nothing: where it does not know, a message has no line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

#: Where a key stands in a plan: ("query", 0, "epsilon").
Place = tuple[str | int, ...]


def toml_lines(values: Mapping[str, Any]) -> list[str]:
    """Write the keys of one table, a line each.

    >>> toml_lines({"kind": "count", "by": ["a", "b"], "epsilon": Decimal("0.1"), "rollup": True})
    ['kind = "count"', 'by = ["a", "b"]', 'epsilon = 0.1', 'rollup = true']
    """
    return [f"{toml_key(key)} = {toml_value(value)}" for key, value in values.items()]


def toml_value(value: Any) -> str:
    """Write a value as TOML reads it; a text as JSON does, but with no bare DEL."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(toml_lines(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, Decimal):  # TOML wants a digit on both sides of the point
        return f"{value:f}" if -7 < value.adjusted() < 20 else f"{value:e}".replace("e+", "e")
    return str(value)


def toml_key(key: str) -> str:
    """Write a key, or a part of a header."""
    return key if re.fullmatch(_BARE, key) else toml_value(key)


_BARE = r"[A-Za-z0-9_-]+"
_KEY = rf"""(?:{_BARE}|"[^"\\\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")
_PART = re.compile(_KEY)
# What matters inside a value: strings (long ones first), comments, and brackets that let it go on over the line's end.
_TOKEN = re.compile(r'"""|\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#.*|[\[\]{}]')


def key_lines(text: str) -> Mapping[Place, int]:
    """Map the path of every table and key to its line, counted from 1; the n-th `[[query]]` is ("query", n-1).

    >>> key_lines('[source]\\npath = "a.csv"\\n[[query]]\\n[[query]]\\nepsilon = 1')[("query", 1, "epsilon")]
    5
    """
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    open_brackets, long_quote = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        rest = line
        if not open_brackets and not long_quote:
            header, assignment = _HEADER.match(line), _ASSIGNMENT.match(line)
            if header:
                table = _table(_parts(header[2]), counts, repeated=header[1] == "[[")
                found.setdefault(table, number)
                continue
            if assignment:
                found.setdefault((*table, *_parts(assignment[1])), number)
                rest = line[assignment.end() :]
        open_brackets, long_quote = _carry(rest, open_brackets, long_quote)
    return found


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]


def _table(parts: list[str], counts: dict[Place, int], *, repeated: bool) -> Place:
    """Return the path of a header: a name that was repeated before means its latest table."""
    path: Place = ()
    for part in parts[:-1]:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path] - 1)
    path = (*path, parts[-1])
    if repeated:
        counts[path] = counts.get(path, 0) + 1
        path = (*path, counts[path] - 1)
    return path


def _carry(rest: str, open_brackets: int, long_quote: str) -> tuple[int, str]:
    """Return what is still open at the end of a line: brackets, or a string of several lines."""
    position = 0
    while position < len(rest):
        if long_quote:
            end = rest.find(long_quote, position)
            if end < 0:
                return open_brackets, long_quote
            position, long_quote = end + 3, ""
            continue
        token = _TOKEN.search(rest, position)
        if token is None or token[0].startswith("#"):
            break
        position = token.end()
        if token[0] in ('"""', "'''"):
            long_quote = token[0]
        elif token[0] in "[{":
            open_brackets += 1
        elif token[0] in "]}":
            open_brackets = max(0, open_brackets - 1)
    return open_brackets, long_quote
