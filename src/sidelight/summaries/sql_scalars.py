"""Scalar SQL over values that are public: released numbers, labels of groups, constants; as typed trees.

The trees are what `release.statement_trees` evaluates. Types are checked here, before anything is charged, so that no
released number can make a tree fail: "whole" and "decimal" are exact, "double" is a float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from sidelight.errors import RangeError
from sidelight.records.expression_text import DEEPEST
from sidelight.records.numbers import exact_number
from sidelight.summaries.sql_dialects import MEANINGS, check_pattern
from sidelight.summaries.sql_nodes import plain
from sidelight.summaries.sql_tree import MOST_PARTS, TOO_LARGE, only, refuse, sql_text

#: "sum" is an integer of SQL whose released number is a float.
Kind = Literal["whole", "sum", "decimal", "double", "text", "truth", "date", "null"]
_NUMBERS: tuple[Kind, ...] = ("whole", "sum", "decimal", "double", "null")
_INTEGERS: tuple[Kind, ...] = ("whole", "sum")
_COMPARED: Mapping[str, str] = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_COMPUTED: Mapping[str, str] = {"add": "+", "sub": "-", "mul": "*"}
#: Functions of one number: the operation, and what comes out of whole numbers and of others.
_OF_A_NUMBER: Mapping[str, tuple[str, Kind | None]] = {
    "abs": ("abs", None),
    "floor": ("floor", None),
    "ceil": ("ceil", None),
    "trunc": ("trunc", None),
    "sign": ("sign", "whole"),
    "sqrt": ("sqrt", "double"),
}
_CASTS: Mapping[str, Kind] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UINT", "UBIGINT"), "whole"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "REAL"), "double"),
    **dict.fromkeys(("DECIMAL", "BIGDECIMAL"), "decimal"),
    **dict.fromkeys(("VARCHAR", "TEXT", "CHAR", "NVARCHAR"), "text"),
}
_MOST_DIGITS = 60


class Typed(NamedTuple):
    """A tree and the type of what it gives."""

    kind: Kind
    tree: list[Any]


class ScalarReader:
    """Reads scalar expressions; `leaf` says what a node is that is no operation, or None where it is one."""

    def __init__(
        self, leaf: Callable[[Any], Typed | None], dialect: str = "duckdb", *, ignore_case: bool = False
    ) -> None:
        self._leaf, self._means, self._ignore_case = leaf, MEANINGS[dialect], ignore_case
        self._size = self._depth = 0

    def read(self, node: Any, depth: int = 0) -> Typed:
        """Return a tree, or say which part of it is not understood."""
        self._size += 1
        if self._size > MOST_PARTS:  # a name of AS that stands twice is read twice, and so is each name inside it
            raise RangeError(TOO_LARGE)
        if max(depth, self._depth) > DEEPEST:
            raise RangeError(f"the statement is nested more than {DEEPEST} deep; split it")
        if node is None:  # the parser takes "1 /" for a division
            raise RangeError("an operator of the statement has one side only; write both")
        self._depth += 1
        try:
            return self._read(plain(node), depth)
        finally:
            self._depth -= 1

    def _read(self, node: Any, depth: int) -> Typed:
        found = self._leaf(node)
        if found is not None:
            return found
        reader = self._KNOWN.get(node.key)
        if reader is not None:
            return reader(self, node, depth + 1)
        if node.key in _COMPARED:
            only(node, "this", "expression")
            return self._compared(_COMPARED[node.key], node, self._both(node, depth + 1))
        if node.key in _COMPUTED:
            only(node, "this", "expression")
            return self._computed(_COMPUTED[node.key], node, self._both(node, depth + 1))
        if node.key in _OF_A_NUMBER:
            only(node, "this", "fractions_supported")
            word, kind = _OF_A_NUMBER[node.key]
            of = self._number(self.read(node.this, depth + 1), node)
            return Typed(kind or of.kind if word == "abs" else self._of_integers(kind or of.kind), [word, of.tree])
        return refuse(node, aggregate=True)

    def _both(self, node: Any, depth: int) -> tuple[Typed, Typed]:
        return self.read(node.this, depth), self.read(node.expression, depth)

    def _number(self, of: Typed, node: Any) -> Typed:
        if of.kind not in _NUMBERS:
            raise RangeError(f"{sql_text(node)} needs numbers, and a part of it is a {of.kind}; {_what(of.kind)}")
        return of

    def _truth(self, of: Typed, node: Any) -> Typed:
        if of.kind not in ("truth", "null"):
            raise RangeError(f"{sql_text(node)} is not a condition, and one is needed here; compare it with something")
        return of

    def _text(self, of: Typed, node: Any) -> Typed:
        if of.kind not in ("text", "null"):
            raise RangeError(f"{sql_text(node)} needs texts, and a part of it is a {of.kind}")
        return of

    def _computed(self, word: str, node: Any, both: tuple[Typed, Typed]) -> Typed:
        left, right = (self._number(each, node) for each in both)
        return Typed(common_kind([left, right], node), [word, left.tree, right.tree])

    def _of_integers(self, kind: Kind) -> Kind:
        """Return the type of ROUND, FLOOR and others of a number."""
        return "double" if self._means.is_postgresql and kind in _INTEGERS else kind

    def _divided(self, node: Any, depth: int) -> Typed:
        only(node, "this", "expression", "typed", "safe")
        left, right = (self._number(each, node) for each in self._both(node, depth))
        kinds = {left.kind, right.kind}
        if node.args.get("typed") and kinds <= {*_INTEGERS}:  # of dialects that divide integers
            if "sum" in kinds and self._means.is_postgresql:
                raise RangeError(
                    f"{sql_text(node)} is not understood: PostgreSQL divides the SUM of an integer column as integers, "
                    "and that of a bigint column as decimals; write SUM(x) * 1.0 / COUNT(*), or AVG(x)"
                )
            return Typed("whole", ["//", left.tree, right.tree])
        exact = self._means.is_postgresql and kinds <= {*_INTEGERS, "decimal"}
        return Typed("decimal" if exact else "double", ["/", left.tree, right.tree])

    def _of_whole_numbers(self, node: Any, depth: int) -> Typed:
        only(node, "this", "expression")
        left, right = self._both(node, depth)
        kinds: set[Kind] = {left.kind, right.kind} - {"null"}
        if not kinds <= {"whole", *(["decimal"] if node.key == "mod" else [])}:
            raise RangeError(f"{sql_text(node)} is of whole numbers, such as counts; ROUND and CAST make them")
        kind: Kind = "decimal" if "decimal" in kinds else "whole"
        return Typed(kind, ["//" if node.key == "intdiv" else "%", left.tree, right.tree])

    def _compared(self, word: str, node: Any, both: tuple[Typed, Typed]) -> Typed:
        left, right = both
        common_kind([left, right], node)
        if "date" in (left.kind, right.kind):
            raise RangeError(f"{sql_text(node)}: released dates are shown and sorted, not compared; {_what('date')}")
        return Typed("truth", [word, self._cased_tree(left), self._cased_tree(right)])

    def _cased_tree(self, of: Typed) -> list[Any]:
        """Return a tree as it is compared."""
        return ["lower", of.tree] if self._ignore_case and of.kind == "text" else of.tree

    def _literal(self, node: Any, depth: int) -> Typed:
        only(node, "this", "is_string")
        if node.args["is_string"]:
            return Typed("text", ["constant", "text", node.name])
        return number_constant(node.name)

    def _boolean(self, node: Any, depth: int) -> Typed:
        return Typed("truth", ["constant", "truth", "true" if node.this else "false"])

    def _null(self, node: Any, depth: int) -> Typed:
        return Typed("null", ["constant", "null", ""])

    def _negative(self, node: Any, depth: int) -> Typed:
        only(node, "this")
        of = self._number(self.read(node.this, depth), node)
        if of.tree[0] == "constant" and of.kind != "null":
            return number_constant(f"-{of.tree[2]}".replace("--", ""))
        return Typed(of.kind, ["neg", of.tree])

    def _joined(self, node: Any, depth: int) -> Typed:
        only(node, "this", "expression")
        parts = [self._truth(self.read(each, depth), each) for each in chain(node)]
        return Typed("truth", [node.key, *(part.tree for part in parts)])

    def _not(self, node: Any, depth: int) -> Typed:
        only(node, "this")
        return Typed("truth", ["not", self._truth(self.read(node.this, depth), node.this).tree])

    def _is(self, node: Any, depth: int) -> Typed:
        only(node, "this", "expression")
        of = self.read(node.this, depth)
        missing = ["is null", of.tree]
        if node.expression.key == "null":
            return Typed("truth", missing)
        if node.expression.key != "boolean":
            raise RangeError(f"IS {sql_text(node.expression)} is not understood; write IS NULL, IS TRUE, or =")
        self._truth(of, node.this)
        holds = of.tree if node.expression.this else ["not", of.tree]
        return Typed("truth", ["and", ["not", missing], holds])

    def _in(self, node: Any, depth: int) -> Typed:
        only(node, "this", "expressions")
        parts = [self.read(each, depth) for each in (node.this, *node.expressions)]
        self._compared("=", node, (parts[0], Typed(common_kind(parts, node), [])))
        return Typed("truth", ["in", *map(self._cased_tree, parts)])

    def _between(self, node: Any, depth: int) -> Typed:
        only(node, "this", "low", "high")
        of, low, high = (self.read(node.args[key], depth) for key in ("this", "low", "high"))
        ends = [self._compared(word, node, (of, end)).tree for word, end in ((">=", low), ("<=", high))]
        return Typed("truth", ["and", *ends])

    def _case(self, node: Any, depth: int) -> Typed:
        branches = []
        for condition, result in case_branches(node):
            tested = self.read(condition, depth)
            if node.key == "case" and node.this is not None:
                tested = self._compared("=", node, (self.read(node.this, depth), tested))
            branches.append((self._truth(tested, condition), self.read(result, depth)))
        other = node.args.get("default") if node.key == "case" else node.args.get("false")
        default = self._null(node, depth) if other is None else self.read(other, depth)
        kind = common_kind([*(result for _, result in branches), default], node)
        trees = [[condition.tree, result.tree] for condition, result in branches]
        return Typed(kind, ["case", *trees, default.tree])

    def _of_several(self, node: Any, depth: int) -> Typed:
        only(node, "this", "expressions", "ignore_nulls", "is_nvl", "is_null")
        parts = [self.read(each, depth) for each in (node.this, *node.expressions)]
        strict = node.key in ("greatest", "least") and not node.args.get("ignore_nulls")
        return Typed(common_kind(parts, node), [f"{'strict_' if strict else ''}{node.key}", *(p.tree for p in parts)])

    def _nullif(self, node: Any, depth: int) -> Typed:
        only(node, "this", "expression")
        left, right = self._both(node, depth)
        self._compared("=", node, (left, right))
        return Typed(left.kind, ["nullif", left.tree, right.tree])

    def _round(self, node: Any, depth: int) -> Typed:
        only(node, "this", "decimals", "casts_non_integer_decimals")
        of = self._number(self.read(node.this, depth), node)
        if node.args.get("decimals") is None:
            if self._means.is_postgresql and of.kind == "double" and _casts_to_double(of.tree):
                return Typed("double", ["double", ["whole", of.tree]])  # halves to even
            return Typed(self._of_integers(of.kind), ["round", of.tree])
        digits = self.read(node.args["decimals"], depth)
        if digits.tree[0] != "constant" or digits.kind != "whole":
            raise RangeError(f"{sql_text(node)}: the digits of ROUND are a whole number: ROUND(x, 2)")
        return Typed(of.kind, ["round", of.tree, digits.tree])

    def _cast(self, node: Any, depth: int) -> Typed:
        only(node, "this", "to", "safe", "_type")
        of, to = self.read(node.this, depth), node.args["to"]
        kind = _CASTS.get(getattr(to.this, "name", str(to.this)))
        if kind == "text" and of.kind == "text":
            return of
        if kind is None or kind == "text" or (of.kind not in _NUMBERS and (of.kind, kind) != ("truth", "whole")):
            raise RangeError(
                f"{sql_text(node)} is not understood: numbers are cast to DOUBLE, INTEGER or DECIMAL(p, s)"
            )
        if kind == "whole" and of.kind in ("decimal", "double"):
            rounding = self._means.whole_of_double if of.kind == "double" else self._means.whole_of_decimal
            part = {"even": of.tree, "away": ["round", of.tree], "cut": ["trunc", of.tree]}[rounding]
            return Typed("whole", ["whole", part])
        if kind != "decimal":
            return Typed(kind, [kind, of.tree])
        digits = _decimal_digits(to, self._means.decimal_digits)
        return Typed(kind, of.tree if digits is None else ["round", of.tree, number_constant(digits).tree])

    def _joined_texts(self, node: Any, depth: int) -> Typed:
        only(node, "this", "expression", "expressions", "safe", "coalesce")
        given = node.expressions if node.key == "concat" else [node.this, node.expression]
        parts = [self._text(self.read(each, depth), node) for each in given]
        lenient = node.key == "concat" and node.args.get("coalesce")
        if lenient:
            return Typed("text", ["concat", *(part.tree for part in parts)])
        whole = parts[0].tree
        for part in parts[1:]:
            whole = ["||", whole, part.tree]
        return Typed("text", whole)

    def _cased(self, node: Any, depth: int) -> Typed:
        only(node, "this")
        return Typed("text", [node.key, self._text(self.read(node.this, depth), node).tree])

    def _like(self, node: Any, depth: int) -> Typed:
        escape = []
        if node.key == "escape":
            escape = [self._text(self.read(node.expression, depth), node).tree]
            node = node.this
            if escape[0][0] != "constant" or len(escape[0][2]) != 1 or node.key not in ("like", "ilike"):
                raise RangeError(f"{sql_text(node)}: ESCAPE takes one character")
        only(node, "this", "expression", "negate")
        parts = [self._text(each, node) for each in self._both(node, depth)]
        pattern = parts[1].tree
        if pattern[0] != "constant" and self._means.like_sets:
            raise RangeError(f"{sql_text(node)}: LIKE takes a written pattern: LIKE 'nurse%'")
        if (
            not escape
            and self._means.like_escape
            and (pattern[0] != "constant" or self._means.like_escape in pattern[2])
        ):
            escape = [["constant", "text", self._means.like_escape]]
        if pattern[0] == "constant":
            check_pattern(pattern[2], escape[0][2] if escape else "", self._means)
        whole = [node.key, *map(self._cased_tree, parts), *escape]
        return Typed("truth", ["not", whole] if node.args.get("negate") else whole)

    def _safe_divide(self, node: Any, depth: int) -> Typed:
        left, right = (self._number(each, node) for each in self._both(node, depth))
        return Typed("double", ["/", left.tree, right.tree])

    _KNOWN: Mapping[str, Callable[..., Typed]] = {
        "literal": _literal,
        "boolean": _boolean,
        "null": _null,
        "neg": _negative,
        "div": _divided,
        "intdiv": _of_whole_numbers,
        "mod": _of_whole_numbers,
        "safedivide": _safe_divide,
        "and": _joined,
        "or": _joined,
        "not": _not,
        "is": _is,
        "in": _in,
        "between": _between,
        "case": _case,
        "if": _case,
        "coalesce": _of_several,
        "greatest": _of_several,
        "least": _of_several,
        "nullif": _nullif,
        "round": _round,
        "cast": _cast,
        "trycast": _cast,
        "dpipe": _joined_texts,
        "concat": _joined_texts,
        "upper": _cased,
        "lower": _cased,
        "like": _like,
        "ilike": _like,
        "escape": _like,
    }


def number_constant(text: str) -> Typed:
    """Return a number as SQL types it: digits are whole, a point makes a decimal, an exponent a double."""
    value = exact_number(text, name="a number of the statement")
    if "e" in text.casefold() or len(text) > _MOST_DIGITS:
        return Typed("double", ["constant", "double", repr(float(value))])
    kind: Kind = "decimal" if "." in text or value.denominator != 1 else "whole"
    return Typed(kind, ["constant", kind, str(Fraction(value))])


def _decimal_digits(to: Any, of_dialect: int | None) -> str | None:
    """Return how many digits after the point a cast to a decimal keeps; None where it keeps all."""
    if to.expressions:
        return str(to.expressions[1].this.name) if len(to.expressions) == 2 else "0"
    digits = 38 if to.this.name == "BIGDECIMAL" else of_dialect
    return None if digits is None else str(digits)


def _casts_to_double(tree: Sequence[Any]) -> bool:
    return tree[0] in ("double", "sqrt") or any(_casts_to_double(part) for part in tree if isinstance(part, list))


def common_kind(parts: Sequence[Typed], node: Any) -> Kind:
    """Return the type that holds all of these."""
    kinds = {part.kind for part in parts} - {"null"}
    if not kinds:
        return "null"
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= {*_INTEGERS}:
        return "sum"
    if kinds <= set(_NUMBERS):
        return "double" if "double" in kinds else "decimal"
    raise RangeError(f"{sql_text(node)} mixes {' and '.join(sorted(kinds))}; all of it must be of one type")


def case_branches(node: Any) -> list[tuple[Any, Any]]:
    """Return conditions and results of CASE or IF."""
    if node.key == "if":
        only(node, "this", "true", "false")
        return [(node.this, node.args["true"])]
    only(node, "this", "ifs", "default")
    for branch in node.args["ifs"]:
        only(branch, "this", "true")
    return [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]


def chain(node: Any) -> list[Any]:
    """Return the parts of a AND b AND c, which sqlglot nests to the left, however many they are."""
    found = []
    key = node.key
    while node.key == key:
        found.append(node.expression)
        node = node.this
    return [node, *reversed(found)]


def _what(kind: str) -> str:
    return {
        "date": "compute with release.shown.to_pandas() afterwards",
        "truth": "CASE WHEN condition THEN 1 ELSE 0 END makes a number",
    }.get(kind, "the schema declares what a column is")
