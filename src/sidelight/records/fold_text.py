"""Folds in plan files: `'count(visit, where = start >= "2024-01-01", upper = 30)'`, by Python's parser and a list.

The word is that of `sl.fold`; then the table, the column or expression (of `first` and `last` a list of columns), and
what the function takes by name. Nothing is run. `fold_text` writes what `parse_fold` reads.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any, get_args

from sidelight.errors import RangeError, SidelightError, nearest
from sidelight.records import fold
from sidelight.records.expression_text import LONGEST, parse_expression
from sidelight.records.expressions import Literally, Named
from sidelight.records.fold import Fold, FoldKind
from sidelight.records.numbers import exact_number, number_text

_NAMED = ("where", "order", "lower", "upper", "granularity", "empty")


def parse_fold(text: str) -> Fold:
    """Read a fold from its text.

    Raises:
        RangeError: it is not understood; the message names the part.

    >>> parse_fold('sum(lines, price * 2, upper = 100, where = orders.paid == "yes")').table
    'lines'
    """
    try:
        if len(text) > LONGEST:
            raise ValueError
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not call.args:
        raise RangeError(f"{text[:60]!r} is no fold; write count(visit, upper = 30), or sum(visit, days, upper = 365)")
    if call.func.id not in get_args(FoldKind):
        raise RangeError(f"{call.func.id!r} is no fold; {nearest(call.func.id, get_args(FoldKind))}")
    source, made = text.strip(), getattr(fold, call.func.id)
    whole_row = call.func.id in ("first", "last")
    table, *rest = call.args
    given = [_name(source, table), *(_folded(source, each, names=whole_row) for each in rest[:1])]
    given += [_constant(source, each) for each in rest[1:]]
    options = {str(each.arg): _option(source, str(each.arg), each.value) for each in call.keywords}
    return _called(made, given, options, text)


def _called(made: Callable[..., Fold], given: list[Any], options: dict[str, Any], text: str) -> Fold:
    try:
        return made(*given, **options)
    except TypeError as error:
        raise RangeError(f"the fold {text[:60]!r} is not understood: {error}") from None


def _segment(source: str, node: ast.expr) -> str:
    return ast.get_source_segment(source, node) or ""


def _name(source: str, node: ast.expr) -> str:
    """Return a name of a table or column: bare, with dots, or in quotes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    found = parse_expression(_segment(source, node))
    if not isinstance(found, Named):
        raise RangeError(f"{_segment(source, node)!r} in a fold must be a name")
    return found.name


def _folded(source: str, node: ast.expr, *, names: bool) -> Any:
    if not names:
        return parse_expression(_segment(source, node))
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_name(source, each) for each in node.elts]
    return _name(source, node)


def _constant(source: str, node: ast.expr) -> Any:
    found = parse_expression(_segment(source, node))
    if not isinstance(found, Literally):
        raise RangeError(f"{_segment(source, node)!r} in a fold must be a constant")
    value = found.value
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def _option(source: str, name: str, node: ast.expr) -> Any:
    if name == "where":
        return parse_expression(_segment(source, node))
    return _name(source, node) if name == "order" else _constant(source, node)


def fold_text(given: Fold) -> str:
    """Write a fold as `parse_fold` reads it.

    >>> fold_text(fold.last("measurement", ["value", "unit"], order="date"))
    'last(measurement, [value, unit], order = date)'
    """
    parts = [_written(given.table)]
    if given.kind in ("first", "last") and len(given.of) > 1:
        parts.append(f"[{', '.join(map(str, given.of))}]")
    else:
        parts += map(str, given.of)
    parts += [f"which = {json.dumps(given.which)}"] if given.which != "least" else []
    for name in _NAMED:
        value = getattr(given, name)
        if name == "order" and value is not None:
            value = Named(value)
        if value is not None:
            parts.append(f"{name} = {_shown(value)}")
    return f"{given.kind}({', '.join(parts)})"


def _written(table: str) -> str:
    try:
        bare = parse_expression(table)
    except SidelightError:
        bare = None
    return table if isinstance(bare, Named) and bare.name == table else json.dumps(table, ensure_ascii=False)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value) if not isinstance(value, (int, float, Fraction)) else number_text(exact_number(value, name="it"))
