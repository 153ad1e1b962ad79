"""Expressions in plan files: `'age >= 18 and region in ["N", "S"]'`, read by Python's own parser and a strict list.

Only what is named here is understood: columns, those of other tables by their path (`customer.segment`), constants,
comparisons, lists of constants, `is None`, `and`, `or`, `not`, `+ - * /`, and the words `col("odd name")`,
`lookup(job, {"a": "b"}, default="c")`, `cut(age, [0, 18, 65], outside="drop")`, `fill_missing(job, "none")` and
`date_part(day, "month")`. Nothing is run.
`str(expression)` writes what is read here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Literal, NoReturn, get_args

from sidelight.errors import RangeError, nearest
from sidelight.records.dates import looks_like_a_date
from sidelight.records.expression_shapes import Constant, constant
from sidelight.records.expressions import (
    CALLED,
    Arithmetic,
    Compare,
    Comparison,
    CutExpression,
    Expression,
    IsIn,
    IsMissing,
    Joined,
    Literally,
    Lookup,
    Named,
    Not,
    Operator,
)
from sidelight.records.filled_and_dated import DatePart, FillMissing, Part
from sidelight.records.numbers import exact_number

#: Longer texts and deeper trees are no conditions that a person wrote.
LONGEST, DEEPEST = 100_000, 100

_OPERATORS: dict[type[ast.operator], Operator] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARISONS: dict[type[ast.cmpop], Comparison] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def parse_expression(text: str) -> Expression:
    """Read an expression from its text.

    Raises:
        RangeError: it is not understood; the message names the part.

    >>> parse_expression('0 <= age < 18 or region not in ["N", "S"]')
    <0 <= age and age < 18 or not region in ["N", "S"]>
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        raise RangeError(f"an expression is a text of at most {LONGEST} characters, got {type(text).__name__}")
    failed = ""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        failed = f"it does not parse at character {error.offset}"
    except (ValueError, RecursionError, MemoryError):
        failed = "it does not parse"
    if failed:
        raise RangeError(f"the expression {_short(text)} is not understood: {failed}; write age >= 18 and sex == 'F'")
    return _ExpressionReader(text.strip()).read(tree.body, 0)


class _ExpressionReader:
    """Reads one text; keeps it, because numbers are read from their own digits."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self, node: ast.expr, depth: int) -> Expression:
        if depth > DEEPEST:
            raise RangeError(f"the expression is nested more than {DEEPEST} deep; split it")
        reader: Callable[..., Expression] | None = self._KNOWN.get(type(node))
        if reader is None:
            self._refuse(node, "it is none of: columns, constants, comparisons, and, or, not, in, is None, + - * /")
        return reader(self, node, depth + 1)

    def _constant_node(self, node: ast.Constant, depth: int) -> Expression:
        value: Any = node.value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = self._number(node, value)
        elif not isinstance(value, (str, bool)):
            self._refuse(node, "a constant is a number, a text, True or False; `is None` asks for missing cells")
        return Literally(constant(value))

    def _number(self, node: ast.Constant, value: float) -> Fraction | float:
        digits = (ast.get_source_segment(self._text, node) or "").replace("_", "")
        try:
            written = Decimal(digits)
        except InvalidOperation:
            return value  # 0x1f and the like
        return exact_number(written, name="a number of an expression")

    def _name(self, node: ast.Name, depth: int) -> Expression:
        return Named(node.id)

    def _attribute(self, node: ast.Attribute, depth: int) -> Expression:
        of = self.read(node.value, depth)
        if not isinstance(of, Named) or not isinstance(node.value, (ast.Name, ast.Attribute)):
            self._refuse(node, "a dot stands in the path of a column of another table: customer.segment")
        return Named(f"{of.name}.{node.attr}")

    def _unary(self, node: ast.UnaryOp, depth: int) -> Expression:
        if isinstance(node.op, ast.Not):
            return Not(self.read(node.operand, depth))
        if isinstance(node.op, (ast.USub, ast.UAdd)):
            of = self.read(node.operand, depth)
            sign = -1 if isinstance(node.op, ast.USub) else 1
            if isinstance(of, Literally) and isinstance(of.value, Fraction):
                return Literally(sign * of.value)
            return -of if sign < 0 else of
        return self._refuse(node, "write not instead of ~")

    def _binary(self, node: ast.BinOp, depth: int) -> Expression:
        operator = _OPERATORS.get(type(node.op))
        if operator is None:
            self._refuse(node, "only + - * / are known; write and, or instead of & and |")
        return arithmetic(operator, self.read(node.left, depth), self.read(node.right, depth))

    def _boolean(self, node: ast.BoolOp, depth: int) -> Expression:
        word: Literal["and", "or"] = "and" if isinstance(node.op, ast.And) else "or"
        return conjoin(word, [self.read(value, depth) for value in node.values])

    def _comparison(self, node: ast.Compare, depth: int) -> Expression:
        left, whole = node.left, None
        for operator, right in zip(node.ops, node.comparators, strict=True):
            each = self._one_comparison(node, left, operator, right, depth)
            whole = each if whole is None else Joined("and", whole, each)
            left = right
        assert whole is not None
        return whole

    def _one_comparison(
        self, node: ast.Compare, left: ast.expr, operator: ast.cmpop, right: ast.expr, depth: int
    ) -> Expression:
        of = self.read(left, depth)
        if isinstance(operator, (ast.In, ast.NotIn)):
            if not isinstance(right, (ast.List, ast.Tuple, ast.Set)):
                self._refuse(node, 'in needs a list of constants: region in ["N", "S"]')
            found = IsIn(of, tuple(self._constant(each, depth) for each in right.elts))
            return found if isinstance(operator, ast.In) else Not(found)
        if isinstance(operator, (ast.Is, ast.IsNot)):
            if not isinstance(right, ast.Constant) or right.value is not None:
                self._refuse(node, "is asks for missing cells only: age is None, age is not None")
            return IsMissing(of) if isinstance(operator, ast.Is) else Not(IsMissing(of))
        return Compare(_COMPARISONS[type(operator)], of, self.read(right, depth))

    def _constant(self, node: ast.expr, depth: int) -> Constant:
        found = self.read(node, depth)
        if not isinstance(found, Literally):
            self._refuse(node, "a constant is needed here")
        return found.value

    def _call(self, node: ast.Call, depth: int) -> Expression:
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called not in CALLED:
            word = called or "a method"
            self._refuse(
                node, f"an expression calls no functions, and {word} is none of the words; {nearest(word, CALLED)}"
            )
        options = {each.arg: each.value for each in node.keywords}
        allowed = 1 if called == "col" else 2
        option = {"lookup": "default", "cut": "outside"}.get(called)
        if len(node.args) != allowed or not options.keys() <= {option}:
            self._refuse(
                node,
                'write col("name"), lookup(job, {"a": "b"}, default="c"), cut(age, [0, 18]), fill_missing(job, "none") '
                'or date_part(day, "month")',
            )
        if called == "col":
            name = self._constant(node.args[0], depth)
            if not isinstance(name, str):
                self._refuse(node, "col takes the name of a column as a text")
            return Named(name)
        of, table = self.read(node.args[0], depth), node.args[1]
        if called == "fill_missing":
            return FillMissing(of, self._constant(table, depth))
        if called == "date_part":
            part: Any = self._constant(table, depth)
            if part not in get_args(Part):
                self._refuse(node, f"a part of a date is one of {', '.join(get_args(Part))}")
            return DatePart(of, part)
        given = {name: self._constant(value, depth) for name, value in options.items()}
        if called == "lookup":
            if not isinstance(table, ast.Dict) or any(key is None for key in table.keys):
                self._refuse(node, 'lookup takes a table of constants: {"nurse": "health"}')
            keys = [self._constant(key, depth) for key in table.keys if key is not None]
            values = [self._constant(value, depth) for value in table.values]
            return Lookup(of, tuple(zip(keys, values, strict=True)), given.get("default"))
        if not isinstance(table, (ast.List, ast.Tuple)):
            self._refuse(node, "cut takes a list of edges: [0, 18, 65]")
        edges = [self._constant(edge, depth) for edge in table.elts]
        if any(isinstance(edge, str) and not looks_like_a_date(edge) for edge in edges):
            self._refuse(node, 'edges are numbers, or dates such as "2024-01-31"')
        outside: Any = given.get("outside", "keep")
        return CutExpression(of, tuple(edges), outside)

    def _refuse(self, node: ast.expr, why: str) -> NoReturn:
        part = ast.get_source_segment(self._text, node) or self._text
        raise RangeError(f"{_short(part)} in an expression is not understood: {why}")

    _KNOWN: dict[type[ast.expr], Callable[..., Expression]] = {  # noqa: RUF012
        ast.Constant: _constant_node,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.UnaryOp: _unary,
        ast.BinOp: _binary,
        ast.BoolOp: _boolean,
        ast.Compare: _comparison,
        ast.Call: _call,
    }


def arithmetic(operator: Operator, left: Expression, right: Expression) -> Expression:
    """Return sum, difference, product or quotient; of two constants the constant that it is.

    >>> arithmetic("/", Literally(Fraction(1)), Literally(Fraction(3)))
    <1/3>
    """
    if not isinstance(left, Literally) or not isinstance(right, Literally):
        return Arithmetic(operator, left, right)
    if isinstance(left.value, str) or isinstance(right.value, str):
        raise RangeError(f"{left} {operator} {right} is not understood: labels cannot be added or multiplied")
    if operator == "/":
        if right.value == 0:
            raise RangeError(f"{left} / {right} is not understood: division by zero")
        return Literally(left.value / right.value)
    found = {"+": left.value + right.value, "-": left.value - right.value, "*": left.value * right.value}
    return Literally(found[operator])


def conjoin(word: Literal["and", "or"], parts: Sequence[Expression]) -> Expression:
    """Return conditions joined by one word, from the left.

    >>> conjoin("and", [Named("a"), Named("b"), Named("c")])
    <a and b and c>
    """
    whole, *rest = parts
    for part in rest:
        whole = Joined(word, whole, part)
    return whole


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
