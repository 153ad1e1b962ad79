"""The kinds of columns and what is declared about each. Declarations are public and never learned from rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.guarantees.amounts import whole
from sidelight.records.missing import Drop, Fill, Missing, missing_policy
from sidelight.records.numbers import Real, check_steps, exact_number, nearest_float
from sidelight.records.readings import (
    NumberReading,
    TextReading,
    check_flags,
    check_labels,
    check_signs,
    checked_name,
    checked_texts,
    checked_utf8,
    composed,
    label_texts,
)

#: A larger cap would protect little: sensitivities grow with it.
MAX_ROWS_LIMIT = 2**20
#: Bounds beyond this leave no room for sums, differences and steps among the floats.
BOUND_LIMIT = 2**1000
#: Longer undeclared labels are cut: this many characters, a mark, and this many digits of their SHA-256.
_LONGEST_LABEL, _CUT_LABEL, _LABEL_DIGITS = 200, 180, 12


@dataclass(frozen=True, init=False)
class Number:
    """Declare a column of numbers: values are clamped to the bounds where bounds are declared.

    Infinite values clamp to the bounds, or to the ends of the grid.

    Args:
        name: The name of the column.
        lower, upper: Public bounds, where there are any; wide ones do no harm to quantiles, sums want them.
        granularity: The public step that values are multiples of (1 for ages, 0.01 for prices): ties can be spread
            then.
        missing: What becomes of a row whose cell is missing: `Drop()`, the default, or `Fill(value)`.
        decimal: The decimal sign of texts, "." or ","; declare it to read numbers from a column of texts.
        thousands: The sign between thousands in texts: ".", ",", "'", "_" or " " (any kind of space).
        missing_texts: Texts that mean missing: "k.A.", or "999", which is then missing as a number, too.

    >>> Number("hours", lower=0, upper=168).upper
    Fraction(168, 1)
    >>> Number("cost", decimal=",", thousands=".").reading.of_text("1.234,50")
    1234.5
    """

    name: str
    lower: Fraction | None
    upper: Fraction | None
    granularity: Fraction | None
    missing: Missing
    decimal: str | None = field(default=None, repr=False)
    thousands: str | None = field(default=None, repr=False)
    missing_texts: tuple[str, ...] = field(default=(), repr=False)

    def __init__(
        self,
        name: str,
        *,
        lower: Real | None = None,
        upper: Real | None = None,
        granularity: Real | None = None,
        missing: Missing | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        missing_texts: Iterable[str] = (),
    ) -> None:
        name = _plain_name(name)
        low = None if lower is None else exact_number(lower, name=f"lower of column {name!r}")
        high = None if upper is None else exact_number(upper, name=f"upper of column {name!r}")
        step = None if granularity is None else exact_number(granularity, name=f"granularity of column {name!r}")
        for bound, side, given in ((low, "lower", lower), (high, "upper", upper)):
            if bound is not None and abs(bound) > BOUND_LIMIT:
                raise RangeError(
                    f"{side} of column {name!r} must lie within 2**1000 (about 1.07e301) of 0, got {_short(given)}; "
                    "leave it out where there is no bound"
                )
        if low is not None and high is not None and low >= high:
            raise RangeError(f"column {name!r} needs lower < upper, got {lower} and {upper}")
        if step is not None and step <= 0:
            raise RangeError(f"granularity of column {name!r} must be positive, got {granularity}")
        policy, filled = missing_policy(missing, name) if missing is not None else Drop(), None
        if isinstance(policy, Fill):
            value = exact_number(policy.value, name=f"fill value of column {name!r}")
            if (low is not None and value < low) or (high is not None and value > high):
                raise RangeError(f"the fill value of column {name!r} must lie within its bounds, got {policy.value}")
            policy, filled = Fill(value), value
        if step is not None:
            check_steps(name, step, low, high, filled)
        check_signs(decimal, thousands, name=name)
        _set(self, name=name, lower=low, upper=high, granularity=step, missing=policy)
        _set(self, decimal=decimal, thousands=thousands, missing_texts=checked_texts(missing_texts, name=name))

    @property
    def reading(self) -> NumberReading | None:
        """How texts become numbers; None where nothing is declared about it."""
        if self.decimal is None and self.thousands is None and not self.missing_texts:
            return None
        texts = tuple(text.strip() for text in self.missing_texts)
        return NumberReading(self.decimal or ".", self.thousands, texts)

    @property
    def fill(self) -> float | None:
        """The float that stands in for a missing value; None if such rows are dropped."""
        return nearest_float(exact_number(self.missing.value, name="fill")) if isinstance(self.missing, Fill) else None


@dataclass(frozen=True, init=False)
class Category:
    """Declare a column of labels from a public list.

    Whole numbers and booleans are compared by their text ("7", "true"), so that every engine agrees.

    Args:
        name: The name of the column.
        categories: The public labels.
        other: The label for those that are not listed; None drops their rows.
        missing: `Drop()`, `Fill(label)`, or, left out, the same as for labels that are not listed.
        per_person: In how many of these labels' groups the rows of a person are at most: a limit that statistics
            enforce, not a belief. None: no limit.
        aliases: Other texts for a label: `{"M": ["male", "1"]}`.
        casefold: Whether capitals, and ways to write one letter in Unicode (é), make no difference.
        strip: Whether white space makes no difference: none around a text, and one space for a run of it.
        missing_texts: Texts that mean missing.

    >>> Category("sex", ["F", "M"]).labels
    ('F', 'M', 'other')
    >>> Category("sex", ["F", "M"], aliases={"M": ["male"]}, casefold=True).reading.of_text("Male")
    'M'
    """

    name: str
    categories: tuple[str, ...]
    other: str | None
    missing: Missing | None
    per_person: int | None = None
    aliases: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), repr=False)
    casefold: bool = field(default=False, repr=False)
    strip: bool = field(default=False, repr=False)
    missing_texts: tuple[str, ...] = field(default=(), repr=False)

    def __init__(
        self,
        name: str,
        categories: Iterable[str | int],
        *,
        other: str | None = "other",
        missing: Missing | None = None,
        per_person: int | None = None,
        aliases: Mapping[str, Iterable[str]] | None = None,
        casefold: bool = False,
        strip: bool = False,
        missing_texts: Iterable[str] = (),
    ) -> None:
        name = _plain_name(name)
        if isinstance(categories, str) or not isinstance(categories, Iterable):
            got = "one text" if isinstance(categories, str) else type(categories).__name__
            raise SchemaError(f"categories of column {name!r} must be a list of labels, got {got}")
        texts = tuple(_label(label, name) for label in categories)
        if not texts:
            raise SchemaError(f"column {name!r} needs its public list of categories; nothing is learned from rows")
        if len(set(texts)) != len(texts):
            raise SchemaError(f"the categories of column {name!r} name one label twice")
        if other is not None:
            other = _label(other, name)
        if missing is not None:
            missing = missing_policy(missing, name)
            if isinstance(missing, Fill):
                if isinstance(missing.value, (float, Fraction)):
                    raise SchemaError(f"the fill value of column {name!r} must be one of its labels")
                missing = Fill(_label(missing.value, name))
                if missing.value not in (*texts, other):
                    hint = nearest(str(missing.value), texts)
                    raise SchemaError(f"the fill value of column {name!r} must be one of its labels; {hint}")
        per_person = _checked_per_person(per_person, name)
        check_flags(name, casefold=casefold, strip=strip)
        _set(self, name=name, categories=texts, other=other, missing=missing, per_person=per_person)
        names = {_label(label, name): other_names for label, other_names in dict(aliases or {}).items()}
        kept, _ = label_texts(self.labels, names, name=name)
        _set(self, aliases=kept, casefold=casefold, strip=strip, missing_texts=checked_texts(missing_texts, name=name))
        if self.reading is not None:
            check_labels(self.reading, name=name)

    @property
    def reading(self) -> TextReading | None:
        """How texts become labels; None where nothing is declared about it."""
        if not (self.aliases or self.casefold or self.strip or self.missing_texts):
            return None
        _, labels = label_texts(self.labels, dict(self.aliases), name=self.name)
        return TextReading(labels, strip=self.strip, casefold=self.casefold, missing=self.missing_texts)

    @property
    def labels(self) -> tuple[str, ...]:
        """Every label in the order of its code: the categories, then `other` where it is not one of them."""
        if self.other is None or self.other in self.categories:
            return self.categories
        return (*self.categories, self.other)

    @property
    def unknown_code(self) -> int | None:
        """The code of a label that is not listed; None if its row is dropped."""
        return None if self.other is None else self.labels.index(self.other)

    @property
    def missing_code(self) -> int | None:
        """The code of a missing cell; None if its row is dropped."""
        if self.missing is None:
            return self.unknown_code
        return self.labels.index(str(self.missing.value)) if isinstance(self.missing, Fill) else None


@dataclass(frozen=True, init=False)
class Label:
    """Declare a column of labels without a public list: employers, drugs, cities. It can only be used in `by=`.

    Labels are normalised record by record by a public map, so that spellings of one label meet: Unicode NFC, no spaces
    around, with `casefold=True` no capitals; a text longer than 200 characters becomes its first 180, "…" and 12 digits
    of its SHA-256. What is empty then is missing, and its row is dropped, or gets the label of `missing=Fill(...)`.

    Args:
        name: The name of the column.
        casefold: Whether capitals make no difference.
        missing: What an empty cell means: `Drop()` (usual), or `Fill("unknown")`.
        per_person: In how many labels one person's rows are, where that is a fact; it is enforced.
        missing_texts: Texts that mean missing.

    >>> Label("employer", casefold=True).normalised("  Acme\u0301 ")
    'acmé'
    """

    name: str
    casefold: bool
    missing: Missing
    per_person: int | None = None
    missing_texts: tuple[str, ...] = field(default=(), repr=False)

    def __init__(
        self,
        name: str,
        *,
        casefold: bool = False,
        missing: Missing | None = None,
        per_person: int | None = None,
        missing_texts: Iterable[str] = (),
    ) -> None:
        name = _plain_name(name)
        check_flags(name, casefold=casefold)
        policy = Drop() if missing is None else missing_policy(missing, name)
        _set(self, name=name, casefold=casefold)
        if isinstance(policy, Fill):
            if isinstance(policy.value, (float, Fraction)):
                raise SchemaError(f"the fill value of column {name!r} must be a label")
            filled = self.normalised(_label(policy.value, name))
            if filled is None:
                raise SchemaError(f"the fill value of column {name!r} must not be empty")
            policy = Fill(filled)
        per_person = _checked_per_person(per_person, name)
        _set(self, missing=policy, per_person=per_person, missing_texts=checked_texts(missing_texts, name=name))

    @property
    def reading(self) -> TextReading | None:
        """Which texts mean missing; None where nothing is declared about it."""
        return (
            TextReading(strip=True, casefold=self.casefold, missing=self.missing_texts) if self.missing_texts else None
        )

    def normalised(self, text: str | None) -> str | None:
        """Return the one spelling of a label; None if nothing is left of it."""
        if text is None:
            return None
        found = composed(text).strip()
        if self.casefold:
            found = composed(found.casefold()).strip()
        if len(found) > _LONGEST_LABEL:
            digest = hashlib.sha256(found.encode("utf-8", "surrogatepass")).hexdigest()
            found = f"{found[:_CUT_LABEL]}…{digest[:_LABEL_DIGITS]}"
        return found or None

    def label_of(self, text: str | None) -> str | None:
        """Return the label of a cell, by the policy for missing ones; None if its row is dropped."""
        found = self.normalised(text)
        return str(self.missing.value) if found is None and isinstance(self.missing, Fill) else found


@dataclass(frozen=True, init=False)
class PersonId:
    """Declare the column of person ids, and the most rows of one person that count in a statistic.

    `Sum` and `Count` of persons read all rows of a person, as one clipped total and as one person. Rows without an id
    are dropped. Which `max_rows` rows count is chosen by a fixed mix of the person's own rows (docs: records), so that
    what one person does never changes which rows of another count.

    An id is its text, as a label of a category is: the whole number 7, and 7.0 in a list, are "7" on every engine.
    Texts are taken letter for letter: " 7" and "7.0" are other persons, unless `strip` or `casefold` say that spaces or
    capitals make no difference. With `casefold`, ids that differ only by composed letters (Unicode NFC) are one person
    as well. In lists, a cell that is a list, a complex number or another object has no text: its row is dropped.

    Args:
        name: The name of the column.
        max_rows: The cap, 1 to 2^20. Noise grows with it: a small one that holds most people's rows is a good choice.
        casefold: Whether capitals, and ways to write one letter in Unicode (é), make no difference.
        strip: Whether white space makes no difference: none around an id, and one space for a run of it.
        missing_texts: Texts that are no id: "unknown" would be one person otherwise.

    >>> PersonId("patient", max_rows=3)
    PersonId(name='patient', max_rows=3)
    """

    name: str
    max_rows: int
    casefold: bool = field(default=False, repr=False)
    strip: bool = field(default=False, repr=False)
    missing_texts: tuple[str, ...] = field(default=(), repr=False)

    def __init__(
        self,
        name: str,
        *,
        max_rows: int,
        casefold: bool = False,
        strip: bool = False,
        missing_texts: Iterable[str] = (),
    ) -> None:
        name = _plain_name(name)
        advice = "noise grows with it: a small cap that holds most people's rows is a good choice"
        max_rows = checked_limit(max_rows, name=f"max_rows of column {name!r}", advice=advice)
        check_flags(name, casefold=casefold, strip=strip)
        _set(self, name=name, max_rows=max_rows, casefold=casefold, strip=strip)
        _set(self, missing_texts=checked_texts(missing_texts, name=name))

    @property
    def reading(self) -> TextReading | None:
        """How texts become ids; None where nothing is declared about it."""
        if not (self.casefold or self.strip or self.missing_texts):
            return None
        return TextReading(strip=self.strip, casefold=self.casefold, missing=self.missing_texts, one_spelling=True)


Column = Number | Category | Label | PersonId


def _set(column: object, **fields: object) -> None:
    for name, content in fields.items():
        object.__setattr__(column, name, content)


def _plain_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"a column needs a name, got {name!r}")
    return checked_name(name)


def checked_limit(limit: object, *, name: str, advice: str = "") -> int:
    """Return a limit on rows, labels or groups of a person as an int; refuse one that is none from 1 to 2**20."""
    return whole(limit, name=name, most=MAX_ROWS_LIMIT, advice=advice)


def _checked_per_person(per_person: object, name: str) -> int | None:
    if per_person is None:
        return None
    advice = "1 says that all rows of a person have one label"
    return checked_limit(per_person, name=f"per_person of column {name!r}", advice=advice)


def _short(given: object) -> str:
    return repr(given) if isinstance(given, float) else "a larger one"


def _label(label: object, name: str) -> str:
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, int):
        return str(label)
    if isinstance(label, str) and label:
        checked_utf8(label, name=name)
        return str.__str__(label)  # of a class of its own, its methods would meet private cells
    raise SchemaError(
        f"labels of column {name!r} must be texts or whole numbers and not empty, got {label!r}; "
        "an empty cell counts as missing"
    )
