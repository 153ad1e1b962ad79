"""Expressions of declared columns as data: filters, derived numbers and derived labels, one record at a time.

An expression is a small public tree; no Python callable ever sees a row. It is evaluated on what the schema makes of a
cell: numbers after clamping and snapping, labels after unknown ones went to `other`. A cell that the schema drops is
missing, and logic has three values as in SQL: a comparison with something missing is unknown, `~unknown` is unknown,
and a row passes a filter only if the whole is true.

Everything is exact. Arithmetic needs columns that declare both bounds and a granularity: it is then done on whole
numbers of steps. Comparisons and `cut` take any number column; without a granularity they compare the floats.
"""

from __future__ import annotations

import json
import keyword
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal, NoReturn

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.grid import CODE_LIMIT
from sidelight.records.columns import Category, Label, Number, PersonId
from sidelight.records.numbers import Real, exact_number, number_text
from sidelight.records.schema import Schema
from sidelight.records.shapes import (
    Constant,
    Labels,
    Reals,
    Shape,
    Steps,
    Truths,
    code_table,
    common_step,
    constant,
    factors,
    number_shape,
    shape_word,
)

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
Operator = Literal["+", "-", "*", "/"]
#: How strongly things bind in the text form.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _ATOM = range(1, 8)
#: The only words that are called in the text form.
CALLED = ("col", "lookup", "cut")


class Expression:
    """What all expressions can do. They are compared by `same_as`, because `==` makes a new expression."""

    def shape(self, schema: Schema) -> Shape:
        """Check the expression against a schema and return what it gives; a mistake is an error that names it."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The expressions that this one is made of."""
        assert is_dataclass(self)
        found = (getattr(self, field.name) for field in fields(self))
        return tuple(part for part in found if isinstance(part, Expression))

    def check(self, schema: Schema) -> Shape:
        """Return what the expression gives; unknown columns, labels and mixed types are errors, before rows are read.

        Raises:
            SchemaError: a column or label that is not declared, or types that do not go together.
            RangeError: a division by zero, or a derived number that could leave the 64-bit integers.
        """
        for part in self.walk():
            if not part.columns and not isinstance(part, Literally):
                raise SchemaError(f"{part} reads no column; write the constant that it is")
        return self.shape(schema)

    def walk(self) -> Iterator[Expression]:
        """Return this expression and all that it is made of."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that it reads, each once, in order of appearance."""
        own = (self.name,) if isinstance(self, Named) else ()
        return tuple(dict.fromkeys([*own, *(name for part in self.parts for name in part.columns)]))

    def same_as(self, other: object) -> bool:
        """Return whether both are the same tree."""
        return isinstance(other, Expression) and str(self) == str(other)

    def isin(self, values: Iterable[Any]) -> IsIn:
        """Return whether the value is one of these public constants."""
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise SchemaError(f"isin takes a list of constants, got {type(values).__name__}; write .isin([...])")
        return IsIn(self, tuple(constant(value) for value in values))

    def lookup(self, mapping: Mapping[Any, Any], *, default: Any = None) -> Lookup:
        """Return another label or number for each by a public table; what is not in it becomes `default`, or missing.

        >>> print(col("job").lookup({"nurse": "health", "cook": "food"}, default="other"))
        lookup(job, {"nurse": "health", "cook": "food"}, default="other")
        """
        if not isinstance(mapping, Mapping):
            raise SchemaError(f"lookup takes a table of constants, got {type(mapping).__name__}; write {{'a': 'b'}}")
        entries = tuple((constant(key), constant(value)) for key, value in mapping.items())
        return Lookup(self, entries, None if default is None else constant(default))

    def cut(self, edges: Iterable[Real], *, outside: Literal["keep", "drop"] = "keep") -> Cut:
        """Return which of the half-open intervals between increasing public edges a number lies in.

        Numbers outside go to two end cells, or are missing with `outside="drop"`, where the last interval is closed.

        >>> print(col("age").cut([0, 18, 65], outside="drop"))
        cut(age, [0, 18, 65], outside="drop")
        """
        return Cut(self, tuple(exact_number(edge, name="an edge") for edge in edges), outside)

    def is_missing(self) -> IsMissing:
        """Return whether there is no value, after the column's own policy for missing cells."""
        return IsMissing(self)

    def __eq__(self, other: object) -> Compare:  # type: ignore[override]
        return Compare("==", self, operand(other))

    def __ne__(self, other: object) -> Compare:  # type: ignore[override]
        return Compare("!=", self, operand(other))

    def __lt__(self, other: Any) -> Compare:
        return Compare("<", self, operand(other))

    def __le__(self, other: Any) -> Compare:
        return Compare("<=", self, operand(other))

    def __gt__(self, other: Any) -> Compare:
        return Compare(">", self, operand(other))

    def __ge__(self, other: Any) -> Compare:
        return Compare(">=", self, operand(other))

    def __add__(self, other: Any) -> Arithmetic:
        return Arithmetic("+", self, operand(other))

    def __radd__(self, other: Any) -> Arithmetic:
        return Arithmetic("+", operand(other), self)

    def __sub__(self, other: Any) -> Arithmetic:
        return Arithmetic("-", self, operand(other))

    def __rsub__(self, other: Any) -> Arithmetic:
        return Arithmetic("-", operand(other), self)

    def __mul__(self, other: Any) -> Arithmetic:
        return Arithmetic("*", self, operand(other))

    def __rmul__(self, other: Any) -> Arithmetic:
        return Arithmetic("*", operand(other), self)

    def __truediv__(self, other: Any) -> Arithmetic:
        return Arithmetic("/", self, operand(other))

    def __neg__(self) -> Arithmetic:
        return Arithmetic("-", Literally(Fraction(0)), self)

    def __and__(self, other: Any) -> Joined:
        return Joined("and", self, _truth(other))

    def __or__(self, other: Any) -> Joined:
        return Joined("or", self, _truth(other))

    def __invert__(self) -> Not:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise SchemaError(
            "an expression has no truth value before rows are read; join conditions with & | ~ and put each into "
            "parentheses: (sl.col('age') >= 18) & (sl.col('sex') == 'F')"
        )

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self.text()

    def text(self, level: int = 0) -> str:
        """Write the expression as `parse_expression` reads it, in parentheses where it binds weaker than `level`."""
        written = self._text()
        return f"({written})" if self._level < level else written

    _level = _ATOM

    def _text(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, eq=False, repr=False)
class Named(Expression):
    """A declared column."""

    name: str

    def _text(self) -> str:
        plain = self.name.isidentifier() and unicodedata.normalize("NFKC", self.name) == self.name
        if plain and not keyword.iskeyword(self.name) and self.name not in CALLED:
            return self.name
        return f"col({_quoted(self.name)})"

    def shape(self, schema: Schema) -> Shape:
        """Look the column up."""
        column = next((each for each in schema.columns if each.name == self.name), None)
        if isinstance(column, Category):
            return Labels(column.labels)
        if isinstance(column, Number):
            return number_shape(column)
        usable = [each.name for each in schema.columns if isinstance(each, (Number, Category))]
        if isinstance(column, PersonId):
            raise SchemaError(
                f"column {self.name!r} names the person and is in no expression; {nearest(self.name, usable)}"
            )
        if isinstance(column, Label):
            raise SchemaError(
                f"column {self.name!r} is a Label, whose texts nobody declared: it can only stand in by=; declare "
                f"Category({self.name!r}, [...]) to compare it"
            )
        raise SchemaError(f"column {self.name!r} is not declared; {nearest(self.name, usable)}")


@dataclass(frozen=True, eq=False, repr=False)
class Literally(Expression):
    """A public constant."""

    value: Constant

    def text(self, level: int = 0) -> str:
        """Write the constant; a fraction beside an operator that binds as strongly stands in parentheses."""
        written = _written(self.value)
        return f"({written})" if level > _SUM and "/" in written and written[0] != '"' else written

    def shape(self, schema: Schema) -> Shape:
        """Return a number as one whole number of its own step; a text is no number."""
        if isinstance(self.value, str):
            raise SchemaError(f"the label {self.value!r} stands where a number or a column is needed")
        return Steps(Fraction(1, self.value.denominator), self.value.numerator, self.value.numerator)


@dataclass(frozen=True, eq=False, repr=False)
class Arithmetic(Expression):
    """Sum, difference or product of two numbers, or a number divided by a public constant."""

    operator: Operator
    left: Expression
    right: Expression

    @property
    def _level(self) -> int:  # type: ignore[override]
        return _SUM if self.operator in "+-" else _PRODUCT

    def _text(self) -> str:
        return f"{self.left.text(self._level)} {self.operator} {self.right.text(self._level + 1)}"

    def shape(self, schema: Schema) -> Steps:
        """Return the common step of the result and the range of its codes."""
        if self.operator == "/":
            if not isinstance(self.right, Literally) or isinstance(self.right.value, str):
                raise SchemaError(f"{self}: only a public number can divide; compare products instead")
            if self.right.value == 0:
                raise RangeError(f"{self}: division by zero")
            return _scaled(_steps(self.left, schema), 1 / self.right.value)
        left, right = _steps(self.left, schema), _steps(self.right, schema)
        if self.operator == "*":
            ends = [a * b for a in (left.first, left.last) for b in (right.first, right.last)]
            return self._within(Steps(left.step * right.step, min(ends), max(ends)))
        up, over = factors(left, right)
        sign = 1 if self.operator == "+" else -1
        ends = sorted((sign * over * right.first, sign * over * right.last))
        self._within(Steps(left.step / up, up * left.first, up * left.last))
        self._within(Steps(left.step / up, ends[0], ends[1]))
        return self._within(Steps(left.step / up, up * left.first + ends[0], up * left.last + ends[1]))

    def _within(self, found: Steps) -> Steps:
        if max(abs(found.first), abs(found.last)) > CODE_LIMIT:
            raise RangeError(
                f"{self} could be more than 2**61 of its steps ({number_text(found.step)}); declare narrower bounds or "
                "a coarser granularity"
            )
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Lookup(Expression):
    """Another label or number for each, by a public table."""

    of: Expression
    entries: tuple[tuple[Constant, Constant], ...]
    default: Constant | None = None

    @property
    def results(self) -> tuple[Constant, ...]:
        """What can come out, each once, in order of appearance."""
        more = () if self.default is None else (self.default,)
        return tuple(dict.fromkeys([*(value for _, value in self.entries), *more]))

    def _text(self) -> str:
        table = ", ".join(f"{_written(key)}: {_written(value)}" for key, value in self.entries)
        default = "" if self.default is None else f", default={_written(self.default)}"
        return f"lookup({self.of}, {{{table}}}{default})"

    def shape(self, schema: Schema) -> Labels | Steps:
        """Check the keys against what is looked up, and return the results."""
        if not self.entries:
            raise SchemaError(f"{self}: the table of a lookup is empty")
        code_table(self.of.shape(schema), [key for key, _ in self.entries], where=str(self))
        keys = [key for key, _ in self.entries]
        if len(set(keys)) != len(keys):
            raise SchemaError(f"{self}: the table of a lookup names one key twice")
        results = self.results
        texts = [value for value in results if isinstance(value, str)]
        if len(texts) == len(results):
            return Labels(tuple(texts))
        if texts:
            raise SchemaError(f"{self}: a lookup gives labels or numbers, not both")
        numbers = [value for value in results if isinstance(value, Fraction)]
        step = common_step(value for value in numbers)
        codes = [int(value / step) for value in numbers]
        if max(map(abs, codes)) > CODE_LIMIT:
            raise RangeError(f"{self}: the numbers of a lookup are more than 2**61 of their common steps")
        return Steps(step, min(codes), max(codes))


@dataclass(frozen=True, eq=False, repr=False)
class Cut(Expression):
    """Which public interval a number lies in."""

    of: Expression
    edges: tuple[Fraction, ...]
    outside: Literal["keep", "drop"] = "keep"

    @property
    def labels(self) -> tuple[str, ...]:
        """The intervals, as texts."""
        texts = [number_text(edge) for edge in self.edges]
        inner = [f"[{low}, {high})" for low, high in pairwise(texts)]
        if self.outside == "drop":
            return (*inner[:-1], inner[-1][:-1] + "]")
        return (f"below {texts[0]}", *inner, f"{texts[-1]} and above")

    def _text(self) -> str:
        outside = "" if self.outside == "keep" else f", outside={_quoted(self.outside)}"
        return f"cut({self.of}, [{', '.join(number_text(edge) for edge in self.edges)}]{outside})"

    def shape(self, schema: Schema) -> Labels:
        """Check edges and number."""
        if self.outside not in ("keep", "drop"):
            raise SchemaError(f"outside must be 'keep' or 'drop', got {self.outside!r}")
        least = 2 if self.outside == "drop" else 1
        if len(self.edges) < least or any(a >= b for a, b in pairwise(self.edges)):
            raise RangeError(f"bins need at least {least} public edges in increasing order")
        _number(self.of, schema, "cut into bins")
        return Labels(self.labels)


@dataclass(frozen=True, eq=False, repr=False)
class Compare(Expression):
    """A comparison of two numbers, or of a label column with a label."""

    operator: Comparison
    left: Expression
    right: Expression

    _level = _COMPARE

    def _text(self) -> str:
        return f"{self.left.text(_SUM)} {self.operator} {self.right.text(_SUM)}"

    def shape(self, schema: Schema) -> Truths:
        """Check that both sides can be compared."""
        first, second = self.left, self.right
        if isinstance(first, Literally) and not isinstance(second, Literally):
            first, second = second, first
        if isinstance(first, Literally):
            raise SchemaError(f"{self}: a comparison needs a column on one side")
        found = first.shape(schema)
        if isinstance(found, Truths):
            raise SchemaError(f"{self}: a condition cannot be compared; join conditions with and, or, not")
        if isinstance(second, Literally):
            if isinstance(found, Labels) and self.operator not in ("==", "!="):
                raise SchemaError(f"{self}: labels have no order; use == , != or a list of labels")
            code_table(found, [second.value], where=str(self))
            return Truths()
        if isinstance(found, Labels):
            raise SchemaError(f"{self}: a label column is compared with labels, not with another expression")
        Arithmetic("-", first, second).shape(schema)
        return Truths()


@dataclass(frozen=True, eq=False, repr=False)
class IsIn(Expression):
    """Whether a value is one of some public constants."""

    of: Expression
    values: tuple[Constant, ...]

    _level = _COMPARE

    def _text(self) -> str:
        return f"{self.of.text(_SUM)} in [{', '.join(map(_written, self.values))}]"

    def shape(self, schema: Schema) -> Truths:
        """Check the constants."""
        found = self.of.shape(schema)
        if isinstance(found, Truths):
            raise SchemaError(f"{self}: a condition is in no list")
        code_table(found, self.values, where=str(self))
        return Truths()


@dataclass(frozen=True, eq=False, repr=False)
class IsMissing(Expression):
    """Whether there is no value."""

    of: Expression

    _level = _COMPARE

    def _text(self) -> str:
        return f"{self.of.text(_SUM)} is None"

    def shape(self, schema: Schema) -> Truths:
        """Check what is asked about."""
        self.of.shape(schema)
        return Truths()


@dataclass(frozen=True, eq=False, repr=False)
class Joined(Expression):
    """Two conditions that must both hold, or of which one must."""

    word: Literal["and", "or"]
    left: Expression
    right: Expression

    @property
    def _level(self) -> int:  # type: ignore[override]
        return _AND if self.word == "and" else _OR

    def _text(self) -> str:
        return f"{self.left.text(self._level)} {self.word} {self.right.text(self._level + 1)}"

    def shape(self, schema: Schema) -> Truths:
        """Check that both are conditions."""
        return _conditions(self, schema)


@dataclass(frozen=True, eq=False, repr=False)
class Not(Expression):
    """A condition that must be false."""

    of: Expression

    _level = _NOT

    def _text(self) -> str:
        return f"not {self.of.text(_NOT)}"

    def shape(self, schema: Schema) -> Truths:
        """Check that it is a condition."""
        return _conditions(self, schema)


def col(name: str) -> Named:
    """Return a declared column as an expression, for conditions (`where=`) and derived groups (`by=`).

    Args:
        name: The name of the column.

    Returns:
        An expression: compare it (`>=`, `==`), calculate with it, or use `.isin`, `.cut`, `.lookup`, `.is_missing`.

    >>> print((col("age") >= 18) & col("region").isin(["N", "S"]))
    age >= 18 and region in ["N", "S"]
    """
    if not isinstance(name, str) or not name:
        raise SchemaError(f"col takes the name of a column, got {name!r}")
    return Named(name)


def operand(value: Any) -> Expression:
    """Return an expression as it is, and a constant as one."""
    return value if isinstance(value, Expression) else Literally(constant(value))


def _steps(part: Expression, schema: Schema) -> Steps:
    found = part.shape(schema)
    if isinstance(found, Steps) and max(abs(found.first), abs(found.last)) < CODE_LIMIT:
        return found
    if isinstance(found, (Reals, Steps)):
        name = part.columns[0] if part.columns else str(part)
        raise SchemaError(
            f"arithmetic is done on whole numbers of steps; declare Number({name!r}, lower=..., upper=..., "
            "granularity=...)"
        )
    raise SchemaError(f"{part} gives {shape_word(found)}, and arithmetic needs numbers")


def _number(part: Expression, schema: Schema, verb: str) -> Steps | Reals:
    found = part.shape(schema)
    if not isinstance(found, (Steps, Reals)):
        raise SchemaError(f"{part} gives {shape_word(found)} and cannot be {verb}; a number is needed")
    return found


def _scaled(found: Steps, factor: Fraction) -> Steps:
    if factor > 0:
        return Steps(found.step * factor, found.first, found.last)
    return Steps(found.step * -factor, -found.last, -found.first)


def _conditions(whole: Expression, schema: Schema) -> Truths:
    for part in whole.parts:
        found = part.shape(schema)
        if not isinstance(found, Truths):
            raise SchemaError(f"{part} gives {shape_word(found)}, and a condition is needed; compare it with something")
    return Truths()


def _truth(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    raise SchemaError(
        f"& and | join conditions, got {type(value).__name__}; put each comparison into parentheses: "
        "(sl.col('age') >= 18) & (sl.col('sex') == 'F')"
    )


def _written(value: Constant) -> str:
    return _quoted(value) if isinstance(value, str) else number_text(value)


def _quoted(text: str) -> str:
    """Write a text as JSON does, which Python reads alike; half of a pair of surrogates as Python does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return repr(text)
    return json.dumps(text, ensure_ascii=False)
