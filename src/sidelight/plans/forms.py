"""What the value of a key may be: a form reads it, writes it back, describes it as JSON schema, and names it in words.

These are not msgspec's types: numbers must arrive exactly as written (0.1 means 1/10, "1/3" is a number), which its
unions of decimals and texts cannot hold, and every refusal names the key, the nearest option and the line, for which
its errors would have to be worked out a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sidelight.errors import PlanError, SourceError, nearest
from sidelight.plans.section import Resolver, Section
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression
from sidelight.records.numbers import LARGEST_EXPONENT, exact_number, nearest_float, number_text


@dataclass(frozen=True)
class KeyPlace:
    """A key of a section, or an element of the list that is its value."""

    section: Section
    key: str
    positions: tuple[int, ...] = ()

    def refuse(self, message: str) -> NoReturn:
        """Raise `PlanError`: the place, "epsilon" or "each of levels", and what it must be."""
        self.section.refuse(f"{'each of ' if self.positions else ''}{self.key} {message}", key=self.key)

    def table(self, values: Mapping[str, Any]) -> Section:
        """Return the table that stands here."""
        return self.section.inside(values, self.key, *self.positions)


@dataclass(frozen=True)
class KeyForm:
    """What the value of a key may be; without functions of its own, any value of its TOML types, taken as it is.

    `words` say what is wanted, for messages and the reference; `toml` and `python` are the types on both sides.
    """

    words: str
    toml: tuple[type, ...]
    described: dict[str, Any] | Callable[[], dict[str, Any]]
    reader: Callable[[KeyPlace, Any], Any] | None = None
    writer: Callable[[Any, Resolver], Any] | None = None
    python: tuple[type, ...] = ()
    fits: Callable[[Any], bool] | None = None
    titled: bool = False  # whether the key `title` chooses one of several releases

    def takes(self, value: Any) -> bool:
        """Return whether a TOML value is of this form, by its outermost type; no bool is a number."""
        if self.fits is not None:
            return self.fits(value)
        return isinstance(value, self.toml) and (bool in self.toml or not isinstance(value, bool))

    def holds(self, value: Any) -> bool:
        """Return whether a Python value is written in this form."""
        return isinstance(value, self.python or self.toml)

    def read(self, place: KeyPlace, value: Any) -> Any:
        """Return the Python value of a TOML value that is of this form."""
        return value if self.reader is None else self.reader(place, value)

    def write(self, value: Any, resolver: Resolver) -> Any:
        """Return the TOML value."""
        return value if self.writer is None else self.writer(value, resolver)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return self.described() if callable(self.described) else self.described


def take(form: KeyForm, place: KeyPlace, value: Any) -> Any:
    """Read a value, or refuse one of another type."""
    if not form.takes(value):
        place.refuse(f"must be {form.words}, got {_shown(value)}")
    return form.read(place, value)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return f"{str(value).lower()} (true or false)"
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return f"the text {value!r}"
    return f"the number {value}" if isinstance(value, int | Decimal) else f"a {type(value).__name__}"


def _filled(place: KeyPlace, value: str) -> str:
    if not value:
        place.refuse("must not be empty")
    return value


_STRING = {"type": "string"}
TEXT = KeyForm("text in quotes", (str,), _STRING, _filled)
#: A text of a list, such as a label, may be empty.
LABEL = KeyForm("text in quotes", (str,), _STRING)
FLAG = KeyForm("true or false", (bool,), {"type": "boolean"}, python=(bool, np.bool_))
WHOLE = KeyForm("a whole number", (int,), {"type": "integer"}, python=(int, np.integer))


def amount(make: Callable[[Any, str], Any] | None = None, *, texts: bool = True) -> KeyForm:
    """Return the form of a number exactly as it is written: 0.1, 3, or "1/3" in quotes.

    Args:
        make: Turns the number, with the name of its key, into what a query wants.
        texts: Whether it may be a text.
    """

    def read(place: KeyPlace, value: Any) -> Any:
        if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > LARGEST_EXPONENT):
            place.refuse(f"must be a number of ordinary size, got {value}")
        with place.section.naming(place.key):
            return value if make is None else make(value, place.key)

    def write(value: Any, _: Resolver) -> int | Decimal | str:
        if isinstance(value, int | Decimal | str):
            return value
        text = number_text(exact_number(value, name="a number"))  # of a float its shortest decimal
        return text if "/" in text else Decimal(text) if "." in text else int(text)

    types = (int, Decimal, str) if texts else (int, Decimal)
    schema = {"anyOf": [{"type": "number"}, _STRING]} if texts else {"type": "number"}
    return KeyForm("a number", types, schema, read, write, python=(int, float, Decimal, Fraction, str, np.number))


def _float(value: Any, name: str) -> float:
    return nearest_float(exact_number(value, name=name))


AMOUNT, REAL = amount(), amount(_float)


def choice(*options: str) -> KeyForm:
    """Return the form of one of these options."""

    def read(place: KeyPlace, value: str) -> str:
        if value not in options:
            place.refuse(f"= {value!r} is not an option; {nearest(value, options)}")
        return value

    return KeyForm(" or ".join(f'"{each}"' for each in options), (str,), {"enum": list(options)}, read)


def word(text: Any, value: Any) -> KeyForm:
    """Return the form of one constant of the plan that stands for one value: "drop", or false."""
    return KeyForm(
        f'"{text}"' if isinstance(text, str) else str(text).lower(),
        (type(text),),
        {"const": text},
        lambda place, given: value,
        lambda given, resolver: text,
        python=(type(value),),
        fits=lambda given: type(given) is type(text) and given == text,
    )


def list_of(of: KeyForm, *, shape: str = "", make: Callable[[list[Any]], Any] = list) -> KeyForm:
    """Return the form of a list of values of one form; with `shape`, every mistake in it is refused in these words."""

    def read(place: KeyPlace, value: list[Any]) -> Any:
        places = (KeyPlace(place.section, place.key, (*place.positions, index)) for index in range(len(value)))
        try:
            found = make([take(of, each, one) for each, one in zip(places, value, strict=True)])
        except PlanError:
            if shape:
                place.refuse(f"must be {shape}")
            raise
        return found

    def write(value: Any, resolver: Resolver) -> list[Any]:
        return [of.write(each, resolver) for each in value]

    def schema() -> dict[str, Any]:
        return {"type": "array", "items": of.schema()}

    return KeyForm("a list in [brackets]", (list,), schema, read, write, python=(list, tuple, np.ndarray))


def _rectangular(rows: list[list[float]]) -> list[list[float]]:
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise PlanError("not a matrix")
    return rows


TEXTS, AMOUNTS = list_of(LABEL), list_of(AMOUNT)
MATRIX = list_of(
    list_of(amount(_float, texts=False)),
    shape="a list of rows of numbers, all of one length, such as [[1.0, 0.2], [0.2, 0.5]]",
    make=_rectangular,
)


def map_of(of: KeyForm, *, name: Callable[[str], Any] = str) -> KeyForm:
    """Return the form of a table whose names are not fixed, such as those of columns, with values of one form."""

    def read(place: KeyPlace, value: dict[str, Any]) -> dict[Any, Any]:
        inside = place.table(value)
        return {name(key): take(of, KeyPlace(inside, key), each) for key, each in value.items()}

    def write(value: Mapping[Any, Any], resolver: Resolver) -> dict[str, Any]:
        return {str(key): of.write(each, resolver) for key, each in value.items()}

    def schema() -> dict[str, Any]:
        return {"type": "object", "additionalProperties": of.schema()}

    return KeyForm("a table", (dict,), schema, read, write, python=(Mapping,))


@dataclass(frozen=True)
class EitherForm(KeyForm):
    """The first of several forms that takes a value."""

    forms: tuple[KeyForm, ...] = ()

    def takes(self, value: Any) -> bool:
        return any(form.takes(value) for form in self.forms)

    def holds(self, value: Any) -> bool:
        return any(form.holds(value) for form in self.forms)

    def read(self, place: KeyPlace, value: Any) -> Any:
        return next(form for form in self.forms if form.takes(value)).read(place, value)

    def write(self, value: Any, resolver: Resolver) -> Any:
        if self.writer is not None:
            return self.writer(value, resolver)
        form = next((form for form in self.forms if form.holds(value)), None)
        if form is None:
            raise PlanError(f"a plan cannot say {value!r}; it takes {self.words}")
        return form.write(value, resolver)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [form.schema() for form in self.forms]}


def either(*forms: KeyForm, words: str = "", writer: Callable[[Any, Resolver], Any] | None = None) -> KeyForm:
    """Return the form of values that one of these takes; the first that does reads it."""
    if len(forms) == 1:
        return forms[0]
    said = words or " or ".join(dict.fromkeys(form.words for form in forms))
    return EitherForm(said, (), {}, writer=writer, forms=forms)


def _condition(place: KeyPlace, value: str) -> Expression:
    with place.section.naming(place.key):
        return parse_expression(_filled(place, value))


def _column(place: KeyPlace, value: str) -> str | Expression:
    return _condition(place, value) if value.startswith(("cut(", "lookup(", "col(")) else _filled(place, value)


#: Expressions of columns as text; one that calls no function may be the name of a column.
CONDITION, COLUMN = (
    KeyForm("text in quotes", (str,), _STRING, read, lambda value, _: str(value), python=(str, Expression))
    for read in (_condition, _column)
)


def file_of(opened: Callable[[Path, str | None], Any], *, titled: bool = False) -> KeyForm:
    """Return the form of the name of a file, which the resolver opens.

    Args:
        opened: Reads the file; the text is the title of a release in it.
        titled: Whether the key `title` of the same table may give one.
    """

    def read(place: KeyPlace, value: str) -> Any:
        section, name = place.section, _filled(place, value)
        title = section.values.get("title") if titled else None
        if title is not None:
            take(TEXT, KeyPlace(section, "title"), title)

        def read_file(file: Path) -> Any:
            with section.naming(place.key):
                return opened(file, title)

        try:
            return section.resolver.open(name, read_file, title=title)
        except SourceError as error:
            section.refuse(f"{place.key} names {name!r}, {error}", key=place.key)

    def write(value: Any, resolver: Resolver) -> str:
        return resolver.name_of(value)[0]

    return KeyForm("the name of a file in quotes", (str,), _STRING, read, write, python=(object,), titled=titled)


def _with_floats(_: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_floats(_, each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_floats(_, each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


def _with_decimals(value: Any, resolver: Resolver) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _with_decimals(each, resolver) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_with_decimals(each, resolver) for each in value]
    return AMOUNT.write(value, resolver) if AMOUNT.holds(value) else value


#: Numbers, lists or tables of them, which the query itself checks.
NUMBERS = KeyForm("a number, a list or a table of numbers", (object,), {}, _with_floats, _with_decimals)
