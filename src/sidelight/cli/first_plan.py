"""The text of a first plan: columns as declared, a budget, and queries that most people ask first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from pathlib import PurePath

from sidelight.errors import RangeError
from sidelight.plan_section import LARGEST_EXPONENT
from sidelight.records import Category, Column, Date, Label, Number, PersonId
from sidelight.records.numbers import number_text

#: So many columns of a kind are asked about: more would leave each too little of the budget.
_MOST = 3
_LEVELS = "[0.25, 0.5, 0.75]"
_UNCONFIRMED = [
    "# NOT PUBLIC YET: declarations with `from_rows = true` were read from private rows. Replace what they say by what",
    "# is true of everybody, and remove that line from each: until then `plan`, `check`, `run` and `sql` refuse.",
]


@dataclass(frozen=True)
class Declared:
    """A column, and what of it was read off the private rows (empty: nothing)."""

    column: Column
    looked: str = ""


def plan_text(
    declared: Sequence[Declared], skipped: Sequence[str], *, source: str, epsilon: str, delta: str, ledger: str
) -> str:
    """Return a plan as TOML. Half of the budget is asked for, in equal parts, so that something is left to ask."""
    columns = [each.column for each in declared]
    asked = list(_queries(columns))
    price = _part(epsilon, len(asked))
    name = PurePath(source).name.partition(".")[0]
    lines = [
        f"# A first plan for {_text(PurePath(source).name)}, written by `sidelight init`. Everything below is to be",
        "# public: true of everybody, not of these rows. `sidelight plan` tells the price, `sidelight run` releases.",
        *(_UNCONFIRMED if any(each.looked for each in declared) else []),
        f"title = {_text(name)}",
        "",
        "[source]",
        f"path = {_text(source)}",
        f"name = {_text(name)}",
    ]
    for each in declared:
        looked = [f"from_rows = true  # {each.looked}"] if each.looked else []
        lines += ["", "[[column]]", *_column(each.column), *looked]
    if skipped:
        lines += ["", f"# Not declared, and never read: {', '.join(map(_text, skipped))}"]
    lines += ["", "[budget]", f"epsilon = {Decimal(epsilon):f}", *_delta(delta)]
    lines += ["", "[ledger]", f"url = {_text(ledger)}"]
    for query in asked:
        lines += ["", "[[query]]", *query, f"epsilon = {price}"]
    return "\n".join([*lines, ""])


def _part(epsilon: str, parts: int) -> str:
    """Return half of the budget over so many parts, rounded down to two digits."""
    try:
        whole = Decimal(epsilon)
    except InvalidOperation:
        whole = Decimal(-1)
    if not whole.is_finite() or whole <= 0 or abs(whole.adjusted()) > LARGEST_EXPONENT:
        raise RangeError(f"--epsilon must be a positive number, got {epsilon!r}; 1 is a common choice")
    part = whole / 2 / parts
    return format(part.quantize(Decimal(1).scaleb(part.adjusted() - 1), rounding=ROUND_DOWN), "f")


def _delta(delta: str) -> list[str]:
    try:
        found = Decimal(delta)
    except InvalidOperation:
        found = Decimal(-1)
    if not 0 <= found < 1:
        raise RangeError(f"--delta must lie between 0 (none) and 1, got {delta!r}; 1e-6 is a common choice")
    return [f"delta = {found.normalize():E}"] if found else []


def _column(column: Column) -> list[str]:
    lines = [f"name = {_text(column.name)}"]
    if isinstance(column, PersonId):
        return [*lines, 'kind = "person"', f"max_rows = {column.max_rows}"]
    if isinstance(column, Date):
        unit = [] if column.unit == "day" else [f"unit = {_text(column.unit)}"]
        return [*lines, 'kind = "date"', f"start = {_text(column.start)}", f"end = {_text(column.end)}", *unit]
    if isinstance(column, Number):
        bounds = {"lower": column.lower, "upper": column.upper, "granularity": column.granularity}
        written = {key: number_text(value) for key, value in bounds.items() if value is not None}
        told = [f"{key} = {_text(text) if '/' in text else text}" for key, text in written.items()]
        return [*lines, 'kind = "number"', *told]
    limit = [] if column.per_person is None else [f"per_person = {column.per_person}"]
    if isinstance(column, Label):
        return [*lines, 'kind = "label"', *limit]
    return [*lines, 'kind = "category"', f"categories = [{', '.join(map(_text, column.categories))}]", *limit]


def _queries(columns: Sequence[Column]) -> Iterator[list[str]]:
    """Return how many there are, counts and means by group, and quartiles."""
    person = next((each for each in columns if isinstance(each, PersonId)), None)
    categories = [each for each in columns if isinstance(each, Category)]
    numbers = [each for each in columns if isinstance(each, Number) and not isinstance(each, Date)]
    dates = [each for each in columns if isinstance(each, Date)]
    yield ['kind = "count"', f"title = {_text('How many ' + ('people' if person else 'rows'))}"]
    for category in categories[:_MOST]:
        yield ['kind = "count"', f"title = {_text(f'By {category.name}')}", *_by(category, person)]
    for number in numbers[:_MOST]:
        group = categories[0] if categories else None
        by = f" by {group.name}" if group else ""
        yield [
            'kind = "mean"',
            f"title = {_text(f'Mean of {number.name}{by}')}",
            f"column = {_text(number.name)}",
            *([] if group is None else _by(group, person)),
        ]
    for number in [*numbers[:_MOST], *dates[:_MOST]]:
        title = _text(f"Quartiles of {number.name}")
        yield ['kind = "quantiles"', f"title = {title}", f"column = {_text(number.name)}", f"levels = {_LEVELS}"]


def _by(group: Category, person: PersonId | None) -> list[str]:
    """Return the keys of a grouping; where nobody says in how many groups a person is, in as many as there are."""
    most = [] if person is None or group.per_person else [f"max_groups = {len(group.labels)}"]
    return [f"by = {_text(group.name)}", *most]


def _text(text: str) -> str:
    """Write a text as TOML reads it, which takes what JSON writes, but no bare DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
