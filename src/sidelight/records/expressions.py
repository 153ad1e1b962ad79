"""Expressions of declared columns as data: filters, derived numbers and derived labels, one record at a time.

An expression is a small public tree; no Python callable ever sees a row. It is evaluated on what the schema makes of a
cell: numbers after clamping and snapping, labels after unknown ones went to `other`. A cell that the schema drops is
missing, and logic has three values as in SQL: a comparison with something missing is unknown, `~unknown` is unknown,
and a row passes a filter only if the whole is true.

Everything is exact. Arithmetic needs columns that declare both bounds and a granularity: it is then done on whole
numbers of steps. Comparisons and `cut` take any number column; without a granularity they compare the floats, and a
constant stands for the float that is nearest to it: 0.1 is the number that every source holds for 0.1.
"""

from __future__ import annotations

import keyword
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Literal

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.grid import CODE_LIMIT
from sidelight.records.columns import Category, Label, Number, PersonId
from sidelight.records.dates import Calendar, Date
from sidelight.records.expression_shapes import (
    AND,
    COMPARE,
    NOT,
    OR,
    PRODUCT,
    SUM,
    Constant,
    LabelShape,
    RealShape,
    Shape,
    StepShape,
    TruthShape,
    code_table,
    conditions_of,
    factors,
    number_in,
    number_of,
    number_shape,
    quoted,
    scaled,
    steps_of,
    written,
)
from sidelight.records.expression_shapes import Expression as Expression
from sidelight.records.expression_shapes import operand as operand
from sidelight.records.filled_and_dated import DatePart as DatePart
from sidelight.records.filled_and_dated import FillMissing as FillMissing
from sidelight.records.numbers import common_step, nearest_double, number_text
from sidelight.records.schema import Schema

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
Operator = Literal["+", "-", "*", "/"]
#: The only words that are called in the text form.
CALLED = ("col", "lookup", "cut", "fill_missing", "date_part")


@dataclass(frozen=True, eq=False, repr=False)
class Named(Expression):
    """A declared column."""

    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", str.__str__(self.name))  # of a subclass nothing is left

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,)

    def _text(self) -> str:
        plain = self.name.isidentifier() and unicodedata.normalize("NFKC", self.name) == self.name
        if plain and not keyword.iskeyword(self.name) and self.name not in CALLED:
            return self.name
        return f"col({quoted(self.name)})"

    def shape(self, schema: Schema) -> Shape:
        column = next((each for each in schema.columns if each.name == self.name), None)
        if isinstance(column, Category):
            return LabelShape(column.labels)
        if isinstance(column, Number):
            return number_shape(column)
        usable = [each.name for each in schema.columns if isinstance(each, (Number, Category))]
        if isinstance(column, PersonId):
            raise SchemaError(
                f"column {self.name!r} names the person and is in no expression; {nearest(self.name, usable)}"
            )
        if isinstance(column, Label):
            raise SchemaError(
                f"column {self.name!r} is a Label, whose texts are not declared: it can only be used in by=; declare "
                f"Category({self.name!r}, [...]) to compare it"
            )
        raise SchemaError(f"column {self.name!r} is not declared; {nearest(self.name, usable)}")


@dataclass(frozen=True, eq=False, repr=False)
class Literally(Expression):
    """A public constant."""

    value: Constant
    is_constant: ClassVar[bool] = True

    def text(self, level: int = 0) -> str:
        """Write the constant; a fraction next to an operator of the same precedence gets parentheses."""
        text = written(self.value)
        return f"({text})" if level > SUM and "/" in text and text[0] != '"' else text

    def shape(self, schema: Schema) -> Shape:
        """Return a number as one whole number of its own step; a text is no number."""
        if isinstance(self.value, str):
            raise SchemaError(f"the label {self.value!r} stands where a number or a column is needed")
        return StepShape(Fraction(1, self.value.denominator), self.value.numerator, self.value.numerator)


@dataclass(frozen=True, eq=False, repr=False)
class Arithmetic(Expression):
    """Sum, difference or product of two numbers, or a number divided by a public constant."""

    operator: Operator
    left: Expression
    right: Expression

    @property
    def _level(self) -> int:  # type: ignore[override]
        return SUM if self.operator in "+-" else PRODUCT

    def _text(self) -> str:
        return f"{self.left.text(self._level)} {self.operator} {self.right.text(self._level + 1)}"

    def shape(self, schema: Schema) -> StepShape:
        """Return the common step of the result and the range of its codes."""
        if self.operator == "/":
            if not isinstance(self.right, Literally) or isinstance(self.right.value, str):
                raise SchemaError(f"{self}: only a public number can divide; compare products instead")
            if self.right.value == 0:
                raise RangeError(f"{self}: division by zero")
            return scaled(steps_of(self.left, schema), 1 / self.right.value)
        left, right = steps_of(self.left, schema), steps_of(self.right, schema)
        if self.operator == "*":
            ends = [a * b for a in (left.first, left.last) for b in (right.first, right.last)]
            return self._within(StepShape(left.step * right.step, min(ends), max(ends)))
        up, over = factors(left, right)
        sign = 1 if self.operator == "+" else -1
        ends = sorted((sign * over * right.first, sign * over * right.last))
        self._within(StepShape(left.step / up, up * left.first, up * left.last))
        self._within(StepShape(left.step / up, ends[0], ends[1]))
        apart = int(self.starts_apart(schema) * up / left.step)
        first, last = (up * end + other + apart for end, other in zip((left.first, left.last), ends, strict=True))
        return self._within(StepShape(left.step / up, first, last))

    def starts_apart(self, schema: Schema) -> int:
        """Return how much later the first of two dates starts to count than the second; 0 of all else.

        Raises:
            SchemaError: one counts days and the other hours, or dates that start elsewhere are added.
        """
        several = len({each.calendar for each in schema.columns if isinstance(each, Date)}) > 1
        if self.operator not in ("+", "-") or not several:
            return 0
        first, second = self.left.calendar_in(schema), self.right.calendar_in(schema)
        if first is None or second is None or first == second:
            return 0
        if self.operator == "+" or first.unit != second.unit:
            raise SchemaError(f"{self}: two dates are compared or subtracted; declare both in {first.unit}s")
        return first.start - second.start

    def calendar_in(self, schema: Schema) -> Calendar | None:
        first, second = self.left.calendar_in(schema), self.right.calendar_in(schema)
        moved = self.operator == "+" or (self.operator == "-" and second is None)
        return (first or second) if moved and None in (first, second) else None

    def _within(self, found: StepShape) -> StepShape:
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
        table = ", ".join(f"{written(key)}: {written(value)}" for key, value in self.entries)
        default = "" if self.default is None else f", default={written(self.default)}"
        return f"lookup({self.of}, {{{table}}}{default})"

    def shape(self, schema: Schema) -> LabelShape | StepShape:
        if not self.entries:
            raise SchemaError(f"{self}: the table of a lookup is empty")
        keys = code_table(self.of.shape(schema), [key for key, _ in self.entries], where=str(self))
        if len(set(keys)) != len(keys):
            raise SchemaError(f"{self}: the table of a lookup names one key twice")
        results = self.results
        texts = [value for value in results if isinstance(value, str)]
        if len(texts) == len(results):
            return LabelShape(tuple(texts))
        if texts:
            raise SchemaError(f"{self}: a lookup gives labels or numbers, not both")
        numbers = [value for value in results if isinstance(value, Fraction)]
        step = common_step(value for value in numbers)
        codes = [int(value / step) for value in numbers]
        if max(map(abs, codes)) > CODE_LIMIT:
            raise RangeError(f"{self}: the numbers of a lookup are more than 2**61 of their common steps")
        return StepShape(step, min(codes), max(codes))


@dataclass(frozen=True, eq=False, repr=False)
class CutExpression(Expression):
    """Which public interval a number lies in."""

    of: Expression
    edges: tuple[Constant, ...]
    outside: Literal["keep", "drop"] = "keep"

    def numbers(self, found: Shape) -> list[Fraction]:
        """Return the edges as the numbers that what is cut is compared with."""
        where = str(self)
        return [number_in(found, edge, where=where) for edge in self.edges]

    def compared(self, found: Shape) -> list[Fraction]:
        """Return the edges as they are compared: those of floats are floats."""
        exact = self.numbers(found)
        return [nearest_double(edge) for edge in exact] if isinstance(found, RealShape) else exact

    @property
    def labels(self) -> tuple[str, ...]:
        """The intervals of numbers, as texts."""
        return self.labels_in(RealShape())

    def labels_in(self, found: StepShape | RealShape) -> tuple[str, ...]:
        """Return the intervals, as texts: of dates, where what is cut has a calendar."""
        calendar = found.calendar if isinstance(found, StepShape) else None
        texts = [number_text(edge) if calendar is None else calendar.text(edge) for edge in self.numbers(found)]
        inner = [f"[{low}, {high})" for low, high in pairwise(texts)]
        if self.outside == "drop":
            return (*inner[:-1], inner[-1][:-1] + "]")
        return (f"below {texts[0]}", *inner, f"{texts[-1]} and above")

    def _text(self) -> str:
        outside = "" if self.outside == "keep" else f", outside={quoted(self.outside)}"
        return f"cut({self.of}, [{', '.join(map(written, self.edges))}]{outside})"

    def shape(self, schema: Schema) -> LabelShape:
        if self.outside not in ("keep", "drop"):
            raise SchemaError(f"outside must be 'keep' or 'drop', got {self.outside!r}")
        least = 2 if self.outside == "drop" else 1
        found = number_of(self.of, schema, "cut into bins")
        if len(self.edges) < least or any(a >= b for a, b in pairwise(self.compared(found))):
            raise RangeError(f"bins need at least {least} public edges in increasing order")
        return LabelShape(self.labels_in(found))


@dataclass(frozen=True, eq=False, repr=False)
class Compare(Expression):
    """A comparison of two numbers, of a label column with a label, or of two with the same labels."""

    operator: Comparison
    left: Expression
    right: Expression

    _level = COMPARE

    def _text(self) -> str:
        return f"{self.left.text(SUM)} {self.operator} {self.right.text(SUM)}"

    def shape(self, schema: Schema) -> TruthShape:
        first, second = self.left, self.right
        if isinstance(first, Literally) and not isinstance(second, Literally):
            first, second = second, first
        if isinstance(first, Literally):
            raise SchemaError(f"{self}: a comparison needs a column on one side")
        found = first.shape(schema)
        if isinstance(found, TruthShape):
            raise SchemaError(f"{self}: a condition cannot be compared; join conditions with and, or, not")
        if isinstance(second, Literally):
            if isinstance(found, LabelShape) and self.operator not in ("==", "!="):
                raise SchemaError(f"{self}: labels have no order; use == , != or a list of labels")
            code_table(found, [second.value], where=str(self))
            return TruthShape()
        if isinstance(found, LabelShape):
            if found != second.shape(schema) or self.operator not in ("==", "!="):
                raise SchemaError(
                    f"{self}: a label column is compared with labels, or by == and != with another that declares the "
                    "same labels in the same order"
                )
            return TruthShape()
        Arithmetic("-", first, second).shape(schema)
        return TruthShape()


@dataclass(frozen=True, eq=False, repr=False)
class IsIn(Expression):
    """Whether a value is one of some public constants."""

    of: Expression
    values: tuple[Constant, ...]

    _level = COMPARE

    def _text(self) -> str:
        return f"{self.of.text(SUM)} in [{', '.join(map(written, self.values))}]"

    def shape(self, schema: Schema) -> TruthShape:
        found = self.of.shape(schema)
        if isinstance(found, TruthShape):
            raise SchemaError(f"{self}: a condition is in no list")
        code_table(found, self.values, where=str(self))
        return TruthShape()


@dataclass(frozen=True, eq=False, repr=False)
class IsMissing(Expression):
    """Whether there is no value."""

    of: Expression

    _level = COMPARE

    def _text(self) -> str:
        return f"{self.of.text(SUM)} is None"

    def shape(self, schema: Schema) -> TruthShape:
        self.of.shape(schema)
        return TruthShape()


@dataclass(frozen=True, eq=False, repr=False)
class Joined(Expression):
    """Two conditions that must both hold, or of which one must."""

    word: Literal["and", "or"]
    left: Expression
    right: Expression

    @property
    def _level(self) -> int:  # type: ignore[override]
        return AND if self.word == "and" else OR

    def _text(self) -> str:
        return f"{self.left.text(self._level)} {self.word} {self.right.text(self._level + 1)}"

    def shape(self, schema: Schema) -> TruthShape:
        return conditions_of(self, schema)


@dataclass(frozen=True, eq=False, repr=False)
class Not(Expression):
    """A condition that must be false."""

    of: Expression

    _level = NOT

    def _text(self) -> str:
        return f"not {self.of.text(NOT)}"

    def shape(self, schema: Schema) -> TruthShape:
        return conditions_of(self, schema)


def col(name: str) -> Named:
    """Return a declared column as an expression, for conditions (`where=`) and derived groups (`by=`).

    Args:
        name: The name of the column.

    Returns:
        An expression: compare it (`>=`, `==`), calculate with it, or use `.isin`, `.cut`, `.lookup`, `.fill_missing`,
        `.is_missing`; of a date `.year`, `.quarter`, `.month`, `.weekday`, `.hour` and `.start_of("month")`.

    >>> print((col("age") >= 18) & col("region").isin(["N", "S"]))
    age >= 18 and region in ["N", "S"]
    """
    if not isinstance(name, str) or not name:
        raise SchemaError(f"col takes the name of a column, got {name!r}")
    return Named(name)
