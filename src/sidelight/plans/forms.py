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
    """What the value of a key may be; by itself, any value of a TOML type, taken as it is.

    `toml` and `python` are the types on both sides, `words` what is wanted, for messages and the reference.
    """

    words: str = ""
    toml: tuple[type, ...] = ()
    python: tuple[type, ...] = ()
    described: tuple[str, ...] = ()

    def takes(self, value: Any) -> bool:
        """Return whether a TOML value is of this form, by its outermost type; no bool is a number."""
        return isinstance(value, self.toml) and (bool in self.toml or not isinstance(value, bool))

    def holds(self, value: Any) -> bool:
        """Return whether a Python value is written in this form."""
        return isinstance(value, self.python or self.toml)

    def read(self, place: KeyPlace, value: Any) -> Any:
        """Return the Python value of a TOML value that is of this form."""
        del place
        return value

    def write(self, value: Any, resolver: Resolver) -> Any:
        """Return the TOML value."""
        del resolver
        return value

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema."""
        types = [{"type": each} for each in self.described]
        return {} if not types else types[0] if len(types) == 1 else {"anyOf": types}


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


@dataclass(frozen=True)
class TextForm(KeyForm):
    """A text that is not empty."""

    words: str = "text in quotes"
    toml: tuple[type, ...] = (str,)
    described: tuple[str, ...] = ("string",)

    def read(self, place: KeyPlace, value: Any) -> Any:
        if not value:
            place.refuse("must not be empty")
        return value


TEXT = TextForm()
#: A text of a list, such as a label, may be empty.
LABEL = KeyForm("text in quotes", (str,), (), ("string",))
FLAG = KeyForm("true or false", (bool,), (bool, np.bool_), ("boolean",))
WHOLE = KeyForm("a whole number", (int,), (int, np.integer), ("integer",))


@dataclass(frozen=True)
class AmountForm(KeyForm):
    """A number exactly as it is written: 0.1, 3, or "1/3" in quotes; `make` turns it into what a query wants."""

    words: str = "a number"
    toml: tuple[type, ...] = (int, Decimal, str)
    python: tuple[type, ...] = (int, float, Decimal, Fraction, str, np.number)
    described: tuple[str, ...] = ("number", "string")
    make: Callable[[Any, str], Any] = lambda value, name: value

    def read(self, place: KeyPlace, value: Any) -> Any:
        if isinstance(value, Decimal) and (not value.is_finite() or abs(value.adjusted()) > LARGEST_EXPONENT):
            place.refuse(f"must be a number of ordinary size, got {value}")
        with place.section.naming(place.key):
            return self.make(super().read(place, value), place.key)

    def write(self, value: Any, resolver: Resolver) -> int | Decimal | str:
        """Return the same number: a float as its shortest decimal, a fraction as "1/3" where it is no decimal."""
        if isinstance(value, int | Decimal | str):
            return value
        text = number_text(exact_number(value, name="a number"))
        return text if "/" in text else Decimal(text) if "." in text else int(text)


AMOUNT = AmountForm()
REAL = AmountForm(make=lambda value, name: nearest_float(exact_number(value, name=name)))
#: A number of a matrix, which is never a text.
NUMBER = AmountForm(toml=(int, Decimal), described=("number",), make=REAL.make)


@dataclass(frozen=True)
class ChoiceForm(KeyForm):
    """One of the named options."""

    toml: tuple[type, ...] = (str,)
    options: tuple[str, ...] = ()

    def read(self, place: KeyPlace, value: Any) -> Any:
        if value not in self.options:
            place.refuse(f"= {value!r} is not an option; {nearest(value, self.options)}")
        return value

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.options)}


def choice(*options: str) -> ChoiceForm:
    """Return the form of one of these options."""
    return ChoiceForm(" or ".join(f'"{each}"' for each in options), options=options)


@dataclass(frozen=True)
class WordForm(KeyForm):
    """One constant of the plan that stands for one value of the query: "drop", or false."""

    word: str | bool = ""
    value: Any = None

    def takes(self, value: Any) -> bool:
        return type(value) is type(self.word) and value == self.word

    def holds(self, value: Any) -> bool:
        return type(value) is type(self.value) and value == self.value

    def read(self, place: KeyPlace, value: Any) -> Any:
        return self.value

    def write(self, value: Any, resolver: Resolver) -> Any:
        return self.word

    def schema(self) -> dict[str, Any]:
        return {"const": self.word}


@dataclass(frozen=True)
class ListForm(KeyForm):
    """A list of values of one form; with `shape`, every mistake in it is refused in these words."""

    words: str = "a list in [brackets]"
    toml: tuple[type, ...] = (list,)
    python: tuple[type, ...] = (list, tuple, np.ndarray)
    of: KeyForm = LABEL
    shape: str = ""
    make: Callable[[list[Any]], Any] = list

    def read(self, place: KeyPlace, value: Any) -> Any:
        places = (KeyPlace(place.section, place.key, (*place.positions, index)) for index in range(len(value)))
        try:
            found = self.make([take(self.of, each, one) for each, one in zip(places, value, strict=True)])
        except PlanError:
            if self.shape:
                place.refuse(f"must be {self.shape}")
            raise
        return found

    def write(self, value: Any, resolver: Resolver) -> list[Any]:
        return [self.of.write(each, resolver) for each in value]

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.of.schema()}


TEXTS, AMOUNTS = ListForm(), ListForm(of=AMOUNT)


def _rectangular(rows: list[list[float]]) -> list[list[float]]:
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise PlanError("not a matrix")
    return rows


MATRIX = ListForm(
    of=ListForm(of=NUMBER),
    shape="a list of rows of numbers, all of one length, such as [[1.0, 0.2], [0.2, 0.5]]",
    make=_rectangular,
)


@dataclass(frozen=True)
class MapForm(KeyForm):
    """A table whose names are not fixed, such as those of columns, with values of one form."""

    words: str = "a table"
    toml: tuple[type, ...] = (dict,)
    python: tuple[type, ...] = (Mapping,)
    of: KeyForm = TEXT
    name: Callable[[str], Any] = str

    def read(self, place: KeyPlace, value: Any) -> Any:
        inside = place.table(value)
        return {self.name(key): take(self.of, KeyPlace(inside, key), each) for key, each in value.items()}

    def write(self, value: Any, resolver: Resolver) -> dict[str, Any]:
        return {str(key): self.of.write(each, resolver) for key, each in value.items()}

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.of.schema()}


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
        form = next((form for form in self.forms if form.holds(value)), None)
        if form is None:
            raise PlanError(f"a plan cannot say {value!r}; it takes {self.words}")
        return form.write(value, resolver)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [form.schema() for form in self.forms]}


def either(*forms: KeyForm, words: str = "") -> KeyForm:
    """Return the form of values that one of these takes; the first that does reads it."""
    if len(forms) == 1:
        return forms[0]
    return EitherForm(words or " or ".join(dict.fromkeys(form.words for form in forms)), forms=forms)


@dataclass(frozen=True)
class ExpressionForm(TextForm):
    """An expression of columns as text; with `names`, a text that calls no function is the name of a column."""

    python: tuple[type, ...] = (str, Expression)
    names: bool = False

    def read(self, place: KeyPlace, value: Any) -> Any:
        text = super().read(place, value)
        if self.names and not text.startswith(("cut(", "lookup(", "col(")):
            return text
        with place.section.naming(place.key):
            return parse_expression(text)

    def write(self, value: Any, resolver: Resolver) -> str:
        return str(value)


CONDITION = ExpressionForm()
COLUMN = ExpressionForm(names=True)
COLUMNS = either(COLUMN, ListForm(of=COLUMN))


@dataclass(frozen=True)
class FileForm(TextForm):
    """The name of a file, which the resolver opens; with `titled`, the key `title` chooses one of several releases."""

    words: str = "the name of a file in quotes"
    python: tuple[type, ...] = (object,)
    open: Callable[[Path, str | None], Any] = lambda file, title: str(file)
    titled: bool = False

    def read(self, place: KeyPlace, value: Any) -> Any:
        section, name = place.section, super().read(place, value)
        title = section.values.get("title") if self.titled else None
        if title is not None:
            take(TEXT, KeyPlace(section, "title"), title)

        def read(file: Path) -> Any:
            with section.naming(place.key):
                return self.open(file, title)

        try:
            return section.resolver.open(name, read, title=title)
        except SourceError as error:
            section.refuse(f"{place.key} names {name!r}, {error}", key=place.key)

    def write(self, value: Any, resolver: Resolver) -> str:
        return resolver.name_of(value)[0]


@dataclass(frozen=True)
class RawForm(KeyForm):
    """A value that the query itself checks; decimals become floats."""

    toml: tuple[type, ...] = (object,)

    def read(self, place: KeyPlace, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.read(place, each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.read(place, each) for each in value]
        return float(value) if isinstance(value, Decimal) else value

    def write(self, value: Any, resolver: Resolver) -> Any:
        if isinstance(value, Mapping):
            return {str(key): self.write(each, resolver) for key, each in value.items()}
        if isinstance(value, list | tuple | np.ndarray):
            return [self.write(each, resolver) for each in value]
        return AMOUNT.write(value, resolver) if AMOUNT.holds(value) else value
