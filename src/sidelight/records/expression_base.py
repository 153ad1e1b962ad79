"""What all expressions can do, whatever they are: be compared, calculated with, joined, checked, and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NoReturn

from sidelight.errors import SchemaError
from sidelight.grid import CODE_LIMIT
from sidelight.records.dates import DateLike, looks_like_a_date
from sidelight.records.numbers import Real, exact_number, number_text
from sidelight.records.schema import Schema
from sidelight.records.shapes import Constant, Reals, Shape, Steps, Truths, constant, shape_word

#: How strongly things bind in the text form.
OR, AND, NOT, COMPARE, SUM, PRODUCT, ATOM = range(1, 8)


class Expression:
    """What all expressions can do. They are compared by `same_as`, because `==` makes a new expression."""

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
        return made("Cut", self, tuple(map(_edge, edges)), outside)

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


def steps_of(part: Expression, schema: Schema) -> Steps:
    """Return the steps of a number that is calculated with; a mistake is an error that names it."""
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


def number_of(part: Expression, schema: Schema, verb: str) -> Steps | Reals:
    """Return the shape of a number; `verb` says what cannot be done to anything else."""
    found = part.shape(schema)
    if not isinstance(found, (Steps, Reals)):
        raise SchemaError(f"{part} gives {shape_word(found)} and cannot be {verb}; a number is needed")
    return found


def scaled(found: Steps, factor: Fraction) -> Steps:
    """Return steps multiplied by a public factor."""
    if factor > 0:
        return Steps(found.step * factor, found.first, found.last)
    return Steps(found.step * -factor, -found.last, -found.first)


def conditions_of(whole: Expression, schema: Schema) -> Truths:
    """Check that all parts are conditions."""
    for part in whole.parts:
        found = part.shape(schema)
        if not isinstance(found, Truths):
            raise SchemaError(f"{part} gives {shape_word(found)}, and a condition is needed; compare it with something")
    return Truths()
