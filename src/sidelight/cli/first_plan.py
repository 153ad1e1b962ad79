"""The text of a first plan: columns as declared, a budget, and queries that most people ask first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from pathlib import PurePath
from typing import Any

from sidelight.errors import RangeError
from sidelight.plans.columns import write_column
from sidelight.plans.toml_text import toml_lines, toml_value
from sidelight.records import Category, Column, Date, Number, PersonId
from sidelight.records.numbers import LARGEST_EXPONENT

#: So many columns of a kind are asked about: more would leave each too little of the budget.
_MOST = 3
_LEVELS = [Decimal("0.25"), Decimal("0.5"), Decimal("0.75")]
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
    file = PurePath(source).name
    name = file.partition(".")[0]
    lines = [
        f"# A first plan for {toml_value(file)}, written by `sidelight init`. Everything below is to be",
        "# public: true of everybody, not of these rows. `sidelight plan` tells the price, `sidelight run` releases.",
        *(_UNCONFIRMED if any(each.looked for each in declared) else []),
        f"title = {toml_value(name)}",
        "",
        "[source]",
        f"path = {toml_value(source)}",
        f"name = {toml_value(name)}",
    ]
    for each in declared:
        looked = [f"from_rows = true  # {each.looked}"] if each.looked else []
        lines += ["", "[[column]]", *toml_lines(write_column(each.column)), *looked]
    if skipped:
        lines += ["", f"# Not declared, and never read: {', '.join(map(toml_value, skipped))}"]
    lines += ["", "[budget]", f"epsilon = {Decimal(epsilon):f}", *_delta(delta)]
    lines += ["", "[ledger]", f"url = {toml_value(ledger)}"]
    for query in asked:
        lines += ["", "[[query]]", *toml_lines(query), f"epsilon = {price}"]
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


def _queries(columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
    """Return how many there are, counts and means by group, and quartiles."""
    person = next((each for each in columns if isinstance(each, PersonId)), None)
    categories = [each for each in columns if isinstance(each, Category)]
    numbers = [each for each in columns if isinstance(each, Number) and not isinstance(each, Date)]
    dates = [each for each in columns if isinstance(each, Date)]
    yield {"kind": "count", "title": f"How many {'people' if person else 'rows'}"}
    for category in categories[:_MOST]:
        yield {"kind": "count", "title": f"By {category.name}", **_by(category, person)}
    for number in numbers[:_MOST]:
        title, groups = f"Mean of {number.name}", {}
        if categories:
            title, groups = f"{title} by {categories[0].name}", _by(categories[0], person)
        yield {"kind": "mean", "title": title, "column": number.name, **groups}
    for number in [*numbers[:_MOST], *dates[:_MOST]]:
        title = f"Quartiles of {number.name}"
        yield {"kind": "quantiles", "title": title, "column": number.name, "levels": _LEVELS}


def _by(group: Category, person: PersonId | None) -> dict[str, Any]:
    """Return the keys of a grouping; where nobody says in how many groups a person is, in as many as there are."""
    most = {} if person is None or group.per_person else {"max_groups": len(group.labels)}
    return {"by": group.name, **most}
