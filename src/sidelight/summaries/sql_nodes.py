"""Nodes of a statement: what they are under their parentheses, how they are joined, and how some are made."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from itertools import product
from typing import Any

from sqlglot import exp

from sidelight.errors import RangeError

#: What the columns that a number brings along are called: the ends of its interval, and whether a mean is pooled.
_BROUGHT = ("low", "high", "pooled")


def names_clash(name: str, numbers: Collection[str], *, keys: Collection[str]) -> bool:
    """Return whether a new number, or a column that it brings along, would be called like another column."""
    of, _, end = name.rpartition("_")
    brought = {name, *(f"{name}_{each}" for each in _BROUGHT)}
    return not brought.isdisjoint({*numbers, *keys}) or (end in _BROUGHT and of in numbers)


def check_names(names: Sequence[str], numbers: Collection[str], *, flagged: bool) -> None:
    """Refuse columns of an answer that are called alike, or like a column that a number of it brings along.

    Args:
        names: What the columns of the answer are called.
        numbers: What the numbers among them and the released numbers are called.
        flagged: Whether the answer has a column that says which groups are supported.
    """
    for name in names:
        of, _, end = name.rpartition("_")
        if names.count(name) > 1:
            raise RangeError(f"two columns of the answer are called {name!r}; write AS and another name")
        if (end in _BROUGHT and of in numbers) or (flagged and name == "supported" and name in numbers):
            whose = "the answer" if name == "supported" else f"the number {of!r}"
            raise RangeError(f"{whose} has a column {name!r} of its own; write AS and another name for one of them")


def check_case(selected: Sequence[Any]) -> None:
    """Refuse names of AS, or of WITH, that differ only in case from another: what refers to one may mean either."""
    known: dict[str, Any] = {}
    for each in selected:
        name = str(each.alias_or_name)
        first = known.setdefault(name.casefold(), each)
        if first.alias_or_name != name and any(at.alias not in ("", at.unalias().name) for at in (first, each)):
            raise RangeError(f"the names {first.alias_or_name!r} and {name!r} differ only in case; write other names")


def parenthesized(node: Any) -> Any:
    """Return a node that may stand anywhere."""
    return node if node.key in ("column", "literal", "paren", "anonymous") else exp.Paren(this=node)


def has_aggregate(node: Any) -> bool:
    """Return whether an aggregate stands in a node, outside of sub-selects."""
    return any(isinstance(each, exp.AggFunc) for each in node.walk(prune=lambda each: each.key == "select"))


def plain(node: Any) -> Any:
    """Take parentheses off."""
    while node.key == "paren":
        node = node.this
    return node


def fault_of(node: Any) -> str:
    """Return why a node has no use whatever the rows are, and what to write; "" where it has."""
    if node.key == "in" and not any(value for key, value in node.args.items() if key != "this"):
        return "IN needs a list of constants, and this one is empty; write region IN ('N', 'S'), or leave it out"
    if node.key in ("div", "intdiv", "mod", "safedivide") and _is_zero(node.expression):
        return "a division by zero is no number; write another divisor, or NULL in its place"
    return ""


def _is_zero(node: Any) -> bool:
    """Return whether a node is written as zero, with any sign, type or parentheses."""
    while node is not None and node.key in ("paren", "neg", "cast", "trycast"):
        node = node.this
    is_number = node is not None and node.key == "literal" and not node.args["is_string"]
    return is_number and re.fullmatch(r"(0|\.)+(e[+-]?[0-9]+)?", node.name, re.IGNORECASE) is not None


def written_name(name: str) -> str:
    """Return a name as a statement writes it: in double quotes where it is not one word, or a word of SQL.

    >>> written_name("people"), written_name("my-table"), written_name("order")
    ('people', '"my-table"', '"order"')
    """
    return str(exp.to_identifier(name).sql(dialect="duckdb"))


def declared_name(node: Any, known: Iterable[str]) -> str | None:
    """Return which declared name a table, a column or a name of USING means; None if it means none of them.

    The one that is spelled so; where none is and the name has no quotes, the one that differs only in case.
    """
    known, name = list(known), str(node.name)
    if name in known:
        return name
    part = node if node.key == "identifier" else node.this
    is_quoted = part.key == "identifier" and part.args.get("quoted")
    alike = [] if is_quoted else [each for each in known if each.casefold() == name.casefold()]
    if len(alike) > 1:
        names = " or ".join(f'"{each}"' for each in alike)
        raise RangeError(f"{name!r} may mean {names}; write one of them, in double quotes")
    return alike[0] if alike else None


def column_named(name: str) -> Any:
    """Return the column of a name that may be any text."""
    return exp.column(exp.to_identifier(name, quoted=True))


def table_named(name: str, alias: str | None = None) -> Any:
    """Return the table of a name that may be any text, under an alias that may be one, too."""
    called = None if alias is None else exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    return exp.Table(this=exp.to_identifier(name, quoted=True), alias=called)


def flat_conditions(node: Any) -> Iterator[Any]:
    """Return the parts of a condition that are joined by AND."""
    node = plain(node)
    if node.key == "and":
        yield from flat_conditions(node.this)
        yield from flat_conditions(node.expression)
    else:
        yield node


def grouping_sets(word: str, keys: Sequence[int]) -> list[list[int]]:
    """Return the grouping sets of ROLLUP or CUBE over these keys, the finest first."""
    if word == "rollup":
        return [list(keys[:length]) for length in range(len(keys), -1, -1)]
    chosen = product((True, False), repeat=len(keys))
    return [[key for key, there in zip(keys, each, strict=True) if there] for each in chosen]


def is_left(join: Any) -> bool:
    """Return whether a source of FROM keeps rows that do not find it; None is the first source. Others are refused."""
    side, kind = ("", "") if join is None else (str(each or "").upper() for each in (join.side, join.kind))
    method = "" if join is None else str(join.args.get("method") or "").upper()
    if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER") or method:
        words = f"{method or side or kind} JOIN is not understood"
        raise RangeError(f"{words}; write JOIN or LEFT JOIN from the base table, with ON or USING")
    return side == "LEFT"


def shifted_date(node: Any) -> Any:
    """Return DATE '1998-12-01' - INTERVAL '90' DAY as the date that it is; other sums stay as they are."""
    day, interval = node.this.unnest(), node.expression.unnest()
    text = day.this.unnest() if day.key == "cast" and day.to.is_type("date") else None
    if interval.key != "interval" or text is None or text.key != "literal" or interval.args.get("unit") is None:
        return node
    unit, many = str(interval.args["unit"].name).upper().removesuffix("S"), interval.this
    sign = -1 if node.key == "sub" else 1
    try:
        start, count = date.fromisoformat(text.name), sign * int(many.name)
        if unit in ("DAY", "WEEK"):
            found = start + timedelta(days=count * (7 if unit == "WEEK" else 1))
        elif unit in ("MONTH", "QUARTER", "YEAR"):
            months = start.year * 12 + start.month - 1 + count * {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit]
            year, month = divmod(months, 12)
            found = date(year, month + 1, min(start.day, monthrange(year, month + 1)[1]))
        else:
            return node
    except (ValueError, OverflowError):
        return node
    shifted = day.copy()
    shifted.this.unnest().set("this", found.isoformat())
    return shifted
