"""What a report is made of: outcomes with their titles, the state of the budget, and the demo's comparison.

Public things only: the report never sees a record. The one exception says so in its name and its text: `Comparison`
holds true quantiles of data that is generated or public.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from sidelight.errors import RangeError, SidelightError
from sidelight.group_table import GroupTable
from sidelight.release import Outcome, outcome_from_json, titled_outcomes

FORMAT = "1"


@dataclass(frozen=True, kw_only=True)
class Use:
    """How much of one route's capacity is charged: bookkeeping, not a guarantee."""

    route: str
    fraction: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Account:
    """What was promised, what is charged and what may still be asked, in the words of the accounting."""

    statement: str
    uses: tuple[Use, ...]
    remaining: str
    place: str | None  # where the ledger is; None when only this process kept the budget
    scope: str | None = None
    head: str | None = None
    surely: str | None = None  # what held at every moment so far, where that may be said
    epsilon: float | None = None  # of the whole budget, where it has them, for the sentence at the top
    delta: float | None = None
    unit: str = "row"  # what is protected: a row, a person or a report
    kept: str = ""  # totals that are published exactly, with the reason: they change what is protected


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One way of asking the same question, over many draws of the noise on generated or public data."""

    name: str
    knowledge: str
    mean_error: float  # in ranks
    standard_error: float
    example: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Several ways of asking the same question, with the error that each made; for generated or public data only."""

    question: str
    data: str
    draws: int
    records: int
    levels: tuple[str, ...]
    truth: tuple[float, ...]
    contestants: tuple[Contestant, ...]

    def gain(self, contestant: Contestant) -> float:
        """Return how many times smaller the error is than the first contestant's."""
        return self.contestants[0].mean_error / contestant.mean_error


@dataclass(frozen=True, kw_only=True)
class Item:
    """An outcome and what the plan calls it."""

    title: str
    outcome: Outcome
    areas: GroupTable | None = None  # other areas than those of its hierarchy, computed from the release


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that one report shows."""

    title: str
    day: str  # the date only: how long a run took may depend on the data
    items: tuple[Item, ...]
    account: Account | None = None
    comparison: Comparison | None = None
    introduction: str = ""

    def to_json(self) -> str:
        """Return one JSON text from which `sidelight report` makes the same page."""
        data: dict[str, Any] = {
            "format": FORMAT,
            "type": "report",
            "title": self.title,
            "day": self.day,
            "introduction": self.introduction,
            "items": [{"title": item.title, "outcome": json.loads(item.outcome.to_json())} for item in self.items],
            "account": None if self.account is None else asdict(self.account),
            "comparison": None if self.comparison is None else asdict(self.comparison),
        }
        return json.dumps(data, allow_nan=False, ensure_ascii=False, indent=1)


def report_from_json(text: str, *, title: str, day: str) -> Report:
    """Read what `Report.to_json` wrote, or one release, or a list of releases; title and day are for the latter two."""
    data = None
    with suppress(ValueError, RecursionError):  # `titled_outcomes` says where the text breaks off
        data = json.loads(text)
    if isinstance(data, dict) and data.get("type") == "report":
        try:
            return _report(data)
        except SidelightError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RangeError(f"expected the JSON of releases, got a report that was changed (at {error})") from None
    items = [Item(title=name, outcome=outcome) for name, outcome in titled_outcomes(text, source="the text")]
    return Report(title=title, day=day, items=tuple(items))


def _report(data: Mapping[str, Any]) -> Report:
    if data["format"] != FORMAT:
        raise RangeError(f"this is report format {data['format']!r}; this version reads {FORMAT!r}: upgrade sidelight")
    items = tuple(Item(title=item["title"], outcome=_outcome(item["outcome"])) for item in data["items"])
    return Report(
        title=data["title"],
        day=data["day"],
        items=items,
        introduction=data["introduction"],
        account=None if data["account"] is None else _account(data["account"]),
        comparison=None if data["comparison"] is None else _comparison(data["comparison"]),
    )


def _outcome(entry: Mapping[str, Any] | str) -> Outcome:
    return outcome_from_json(entry if isinstance(entry, str) else json.dumps(entry))


def _account(data: Mapping[str, Any]) -> Account:
    return Account(**{**data, "uses": tuple(Use(**use) for use in data["uses"])})


def _comparison(data: Mapping[str, Any]) -> Comparison:
    contestants = [Contestant(**{**each, "example": tuple(each["example"])}) for each in data["contestants"]]
    return Comparison(**{**data, **_tuples(data, ["levels", "truth"]), "contestants": tuple(contestants)})


def _tuples(data: Mapping[str, Any], keys: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    return {key: tuple(data[key]) for key in keys}
