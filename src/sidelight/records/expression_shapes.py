"""What all expressions share: comparison, arithmetic, logic, checks against a schema, and their text."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, NoReturn, TypeAlias

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.grid import CODE_LIMIT
from sidelight.records.columns import Number
from sidelight.records.dates import Calendar, Date, DateLike, looks_like_a_date
from sidelight.records.numbers import Real, common_step, exact_number, nearest_double, number_text
from sidelight.records.schema import Schema

# The shape of an expression is what it evaluates to: truths, labels, whole numbers of a public step, or floats.

#: A public constant: a number, or a label.
Constant: TypeAlias = Fraction | str


@dataclass(frozen=True)
class TruthShape:
    """True, false or unknown."""


@dataclass(frozen=True)
class LabelShape:
    """One of these texts, or missing."""

    labels: tuple[str, ...]


@dataclass(frozen=True)
class StepShape:
    """A whole number of steps from first to last, or missing: value = code * step. A date has a calendar."""

    step: Fraction
    first: int
    last: int
    calendar: Calendar | None = None


@dataclass(frozen=True)
class RealShape:
    """A float between the column's bounds, or missing."""


Shape = TruthShape | LabelShape | StepShape | RealShape


def constant(value: Any) -> Constant:
    """Read a public constant: a text or a boolean is a label, everything else an exact number."""
    if isinstance(value, str):
        if not value:
            raise SchemaError("an empty text is not a label; ask for missing cells with .is_missing()")
        return str.__str__(value)  # of a subclass nothing is left: its methods would meet private cells
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if value is None:
        raise SchemaError("None is not a constant; ask for missing cells with .is_missing()")
    return exact_number(value, name="a constant of an expression")


def number_shape(number: Number) -> StepShape | RealShape:
    """Return what a number column gives: whole numbers of its granularity, or floats where none is declared."""
    step = number.granularity
    if step is None:
        return RealShape()
    half = Fraction(1, 2)
    low = -CODE_LIMIT if number.lower is None else (number.lower / step + half).__floor__()
    high = CODE_LIMIT if number.upper is None else (number.upper / step + half).__floor__()
    return StepShape(step, low, high, number.calendar if isinstance(number, Date) else None)


def code_table(found: Shape, constants: Iterable[Constant], *, where: str) -> list[int | Fraction]:
    """Return where each constant lies among the codes of labels or numbers; a label that is none is an error."""
    if isinstance(found, LabelShape):
        places = _places(found.labels)
        wanted = [each if isinstance(each, str) else number_text(each) for each in constants]
        for label in wanted:
            if label not in places:
                raise SchemaError(f"{where}: {label!r} is not among the declared labels; {nearest(label, places)}")
        return [places[label] for label in wanted]
    numbers = [number_in(found, each, where=where) for each in constants]
    return [each / found.step if isinstance(found, StepShape) else nearest_double(each) for each in numbers]


@lru_cache(maxsize=16)  # a million labels take a second, and an expression looks for its own again and again
def _places(labels: tuple[str, ...]) -> dict[str, int]:
    return {label: place for place, label in enumerate(labels)}


def number_in(found: Shape, value: Constant, *, where: str) -> Fraction:
    """Return a constant that a number is compared with: itself, or what a calendar makes of a date."""
    if not isinstance(value, str):
        end = CODE_LIMIT if value > 0 else -CODE_LIMIT  # where codes are cut if no bound is declared
        if isinstance(found, StepShape) and end in (found.first, found.last) and abs(value / found.step) > CODE_LIMIT:
            raise RangeError(
                f"{where}: without declared bounds values are cut at 2**61 steps of {number_text(found.step)}, and a "
                "constant lies beyond; declare bounds, a coarser granularity or none"
            )
        return value
    if isinstance(found, StepShape) and found.calendar is not None:
        return found.calendar.of_constant(value, where=where)
    raise SchemaError(f"{where}: {value!r} is a label, and a number is needed")


def factors(left: StepShape, right: StepShape) -> tuple[int, int]:
    """Return by what the codes of both are multiplied to count the common step."""
    step = common_step([left.step, right.step])
    return int(left.step / step), int(right.step / step)


def shape_word(found: Shape) -> str:
    """Return a word for a message."""
    return {TruthShape: "a condition", LabelShape: "labels"}.get(type(found), "a number")


#: Binding strengths in the text form.
OR, AND, NOT, COMPARE, SUM, PRODUCT, ATOM = range(1, 8)


class Expression:
    """The base of all expressions. They are compared by `same_as`, because `==` makes a new expression."""

    #: The kinds of expressions by name: they are made of one another, in a module above this one.
    _kinds: ClassVar[dict[str, Callable[..., Expression]]] = {}

    def __init_subclass__(cls) -> None:
        Expression._kinds[cls.__name__] = cls

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
            if not part.columns and not part.is_constant:
                raise SchemaError(f"{part} reads no column; write the constant that it is")
        return self.shape(schema)

    def calendar_in(self, schema: Schema) -> Calendar | None:
        """Return how a date counts, also one that is moved by a number; None of what is no date."""
        found = self.shape(schema)
        return found.calendar if isinstance(found, StepShape) else None

    def walk(self) -> Iterator[Expression]:
        """Return this expression and all that it is made of."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that it reads, each once, in order of appearance."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))

    @property
    def is_constant(self) -> bool:
        """Whether it is a public constant by itself."""
        return False

    def same_as(self, other: object) -> bool:
        """Return whether both are the same tree."""
        return isinstance(other, Expression) and str(self) == str(other)

    def isin(self, values: Iterable[Any]) -> Expression:
        """Return whether the value is one of these public constants."""
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise SchemaError(f"isin takes a list of constants, got {type(values).__name__}; write .isin([...])")
        return made("IsIn", self, tuple(constant(value) for value in values))

    def lookup(self, mapping: Mapping[Any, Any], *, default: Any = None) -> Expression:
        """Return another label or number for each by a public table; what is not in it becomes `default`, or missing.

        >>> from sidelight.records.expressions import col
        >>> print(col("job").lookup({"nurse": "health", "cook": "food"}, default="other"))
        lookup(job, {"nurse": "health", "cook": "food"}, default="other")
        """
        if not isinstance(mapping, Mapping):
            raise SchemaError(f"lookup takes a table of constants, got {type(mapping).__name__}; write {{'a': 'b'}}")
        entries = tuple((constant(key), constant(value)) for key, value in mapping.items())
        return made("Lookup", self, entries, None if default is None else constant(default))

    def cut(self, edges: Iterable[Real | DateLike], *, outside: Literal["keep", "drop"] = "keep") -> Expression:
        """Return which of the half-open intervals between increasing public edges a number, or a date, lies in.

        Numbers outside go to two end cells, or are missing with `outside="drop"`, where the last interval is closed.

        >>> from sidelight.records.expressions import col
        >>> print(col("age").cut([0, 18, 65], outside="drop"))
        cut(age, [0, 18, 65], outside="drop")
        """
        return made("CutExpression", self, tuple(map(_edge, edges)), outside)

    def fill_missing(self, value: Any) -> Expression:
        """Return the same with a public constant where it is missing, in addition to the column's own policy.

        >>> from sidelight.records.expressions import col
        >>> print(col("job").fill_missing("unknown"))
        fill_missing(job, "unknown")
        """
        return made("FillMissing", self, constant(value))

    year = property(lambda self: made("DatePart", self, "year"), doc="The year of a declared date, as a label.")
    quarter = property(lambda self: made("DatePart", self, "quarter"), doc="Its quarter, 1 to 4.")
    month = property(lambda self: made("DatePart", self, "month"), doc="Its month, 1 to 12, of any year.")
    weekday = property(lambda self: made("DatePart", self, "weekday"), doc="Its weekday, from 1 for Monday to 7.")
    hour = property(lambda self: made("DatePart", self, "hour"), doc="Its hour, 0 to 23, where it counts hours.")

    def start_of(self, period: Literal["year", "quarter", "month"]) -> Expression:
        """Return the first day of the period that a declared date lies in, as a label.

        >>> from sidelight.records.expressions import col
        >>> print(col("day").start_of("month"))
        date_part(day, "month_start")
        """
        return made("DatePart", self, f"{period}_start")

    def is_missing(self) -> Expression:
        """Return whether there is no value, after the column's own policy for missing cells."""
        return made("IsMissing", self)

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return made("Compare", "==", self, operand(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return made("Compare", "!=", self, operand(other))

    def __lt__(self, other: Any) -> Expression:
        return made("Compare", "<", self, operand(other))

    def __le__(self, other: Any) -> Expression:
        return made("Compare", "<=", self, operand(other))

    def __gt__(self, other: Any) -> Expression:
        return made("Compare", ">", self, operand(other))

    def __ge__(self, other: Any) -> Expression:
        return made("Compare", ">=", self, operand(other))

    def __add__(self, other: Any) -> Expression:
        return made("Arithmetic", "+", self, operand(other))

    def __radd__(self, other: Any) -> Expression:
        return made("Arithmetic", "+", operand(other), self)

    def __sub__(self, other: Any) -> Expression:
        return made("Arithmetic", "-", self, operand(other))

    def __rsub__(self, other: Any) -> Expression:
        return made("Arithmetic", "-", operand(other), self)

    def __mul__(self, other: Any) -> Expression:
        return made("Arithmetic", "*", self, operand(other))

    def __rmul__(self, other: Any) -> Expression:
        return made("Arithmetic", "*", operand(other), self)

    def __truediv__(self, other: Any) -> Expression:
        return made("Arithmetic", "/", self, operand(other))

    def __neg__(self) -> Expression:
        return made("Arithmetic", "-", operand(0), self)

    def __and__(self, other: Any) -> Expression:
        return made("Joined", "and", self, _truth(other))

    def __or__(self, other: Any) -> Expression:
        return made("Joined", "or", self, _truth(other))

    def __invert__(self) -> Expression:
        return made("Not", self)

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
        text = self._text()
        return f"({text})" if self._level < level else text

    _level = ATOM

    def _text(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self}>"


def made(kind: str, *parts: Any) -> Expression:
    """Return an expression of a kind."""
    return Expression._kinds[kind](*parts)


def _edge(edge: Any) -> Constant:
    return constant(edge) if looks_like_a_date(edge) else exact_number(edge, name="an edge")


def operand(value: Any) -> Expression:
    """Return an expression as it is, and a constant as one."""
    return value if isinstance(value, Expression) else made("Literally", constant(value))


def _truth(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    raise SchemaError(
        f"& and | join conditions, got {type(value).__name__}; put each comparison into parentheses: "
        "(sl.col('age') >= 18) & (sl.col('sex') == 'F')"
    )


def written(value: Constant) -> str:
    """Write a constant as `parse_expression` reads it."""
    return quoted(value) if isinstance(value, str) else number_text(value)


def quoted(text: str) -> str:
    """Write a text as JSON does, which Python reads alike; half of a pair of surrogates as Python does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return repr(text)
    return json.dumps(text, ensure_ascii=False)


def steps_of(part: Expression, schema: Schema) -> StepShape:
    """Return the steps of a number that is calculated with; a mistake is an error that names it."""
    found = part.shape(schema)
    if isinstance(found, StepShape) and max(abs(found.first), abs(found.last)) < CODE_LIMIT:
        return found
    if isinstance(found, (RealShape, StepShape)):
        name = part.columns[0] if part.columns else str(part)
        raise SchemaError(
            f"arithmetic is done on whole numbers of steps; declare Number({name!r}, lower=..., upper=..., "
            "granularity=...)"
        )
    raise SchemaError(f"{part} gives {shape_word(found)}, and arithmetic needs numbers")


def number_of(part: Expression, schema: Schema, verb: str) -> StepShape | RealShape:
    """Return the shape of a number; `verb` says what cannot be done to anything else."""
    found = part.shape(schema)
    if not isinstance(found, (StepShape, RealShape)):
        raise SchemaError(f"{part} gives {shape_word(found)} and cannot be {verb}; a number is needed")
    return found


def scaled(found: StepShape, factor: Fraction) -> StepShape:
    """Return steps multiplied by a public factor."""
    if factor > 0:
        return StepShape(found.step * factor, found.first, found.last)
    return StepShape(found.step * -factor, -found.last, -found.first)


def conditions_of(whole: Expression, schema: Schema) -> TruthShape:
    """Check that all parts are conditions."""
    for part in whole.parts:
        found = part.shape(schema)
        if not isinstance(found, TruthShape):
            raise SchemaError(f"{part} gives {shape_word(found)}, and a condition is needed; compare it with something")
    return TruthShape()
