"""What leaves the release pipeline: `Release`, and `Refused` for a test that said no.

Both hold public things only. They are built in `session.pipeline` and nowhere else, print well, and become JSON text
and back without losing a bit, a claim or a brand.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self

import numpy as np

from sidelight.aggregates.contributions import UnitCap
from sidelight.aggregates.groups import ROWS_COUNTED
from sidelight.errors import RangeError, SidelightError
from sidelight.group_table import GroupTable
from sidelight.guarantees import Amount, Claims
from sidelight.guarantees.claims import SEEDED
from sidelight.guarantees.units import Person
from sidelight.readable import date_text, shown_html, shown_text
from sidelight.records.views import counted_in
from sidelight.release.shown import dated, entries_of, entry_text, how_far_off, html_text, off_by, plot
from sidelight.release.statement_table import statement_table
from sidelight.release.values import (
    WANTED,
    Circumstances,
    PredictionUse,
    TailBound,
    decode_value,
    encode_value,
    object_text,
    prediction_use,
    stored_object,
)
from sidelight.release.when_asked import AskedWhenCopied, WhenAsked

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # of the checker: with a default, so that a bare `Release` stays one

    Value = TypeVar("Value", covariant=True, default=Any)
else:
    from typing import TypeVar

    Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True, kw_only=True)
class _PublicOutcome(AskedWhenCopied):
    """What a release and a refusal have in common."""

    query: Mapping[str, Any]
    guarantee: Claims
    circumstances: Circumstances

    @property
    def spending(self) -> tuple[Mapping[str, str], ...]:
        """What was drawn for it, in order, and at what price: "law", "statistic", "cost", "times", "over", "theorem".

        Public by construction: the meter of the release compared its sum with the guarantee before anything left.
        """
        return self.circumstances.spending

    @property
    def private(self) -> bool:
        """True when the noise came from the operating system; seeded noise gives no privacy."""
        return self.circumstances.entropy == "os"

    def at(self, *, entry_id: str | None, ledger_head: str | None) -> Self:
        """Return the same outcome with its entry in a ledger."""
        if (self.circumstances.entry_id, self.circumstances.ledger_head) == (entry_id, ledger_head):
            return self
        return replace(self, circumstances=replace(self.circumstances, entry_id=entry_id, ledger_head=ledger_head))

    def _brand(self) -> list[str]:
        return [] if self.private else [SEEDED]

    def _to_json(self, kind: str, **rest: Any) -> str:
        said = {"query": dict(self.query), "guarantee": self.guarantee.to_json()}
        return object_text(type=kind, circumstances=self.circumstances.__getstate__(), **said, **rest)


@dataclass(frozen=True, kw_only=True, eq=False)
class Release(_PublicOutcome, Generic[Value]):
    """Hold a differentially private answer together with everything public about it.

    Args:
        query: The public description of what was asked.
        value: The answer; its type is that of the query: `Release[GroupTable]` of a count by group
        labels: The names of its entries.
        guarantee: The claims that all hold for it.
        error: A public bound of how far off it can be, or None.
        prediction: The side information that was used and where it came from, or None.
        circumstances: Data set, engine, version, source of the noise, numerics, and the place in a ledger.
        details: What was released on the way to the answer, such as noisy counts, in strings; or None.

    >>> import sidelight as sl
    >>> release = sl.Quantiles([0.5], epsilon=1, granularity=1).release([30, 40, 50] * 100)
    >>> print(release.guarantee.pure(), release.labels, release.private)
    PureDP(ε = 1) ('50 %',) True
    >>> Release.from_json(release.to_json()) == release
    True
    """

    value: Value
    labels: tuple[str, ...]
    error: WhenAsked[TailBound | None] = WhenAsked()  # noqa: RUF009
    prediction: Mapping[str, Any] | None
    details: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.value, GroupTable) and "numbers" in self.query:  # of a statement, each by its name
            value = self.value.changed(asked_for=[name for name, *_ in self.query["numbers"]])
            object.__setattr__(self, "value", value)

    @property
    def kind(self) -> str:
        """The kind of query that was answered, such as "quantiles"."""
        return str(self.query["kind"])

    @property
    def shown(self) -> Any:
        """The value as it was asked: dates where they count from a start, and what a SQL statement makes of it."""
        return self.dated(self.value) if "shown" not in self.query else statement_table(self.value, self.query)

    def dated(self, value: Any) -> Any:
        """Return a value of this release with dates in place of numbers that count from a start."""
        return dated(value, self.query.get("dates"), kind=self.kind)

    @property
    def rows_counted(self) -> str | None:
        """Which rows of a person the answer is about; None where every row is its own unit."""
        said = self.value.notes.get(ROWS_COUNTED) if isinstance(self.value, GroupTable) else None
        view, unit = self.query.get("view", {}), self.guarantee.unit
        rows = unit.max_rows if isinstance(unit, Person) else view.get("max_rows")
        words = None if rows is None else UnitCap(rows=int(rows)).words(once=False, by_group=False)
        return str(said) if said is not None else counted_in(view, words) if view else words

    @property
    def prediction_use(self) -> PredictionUse | None:
        """The shrinkage weight of a predicted table, and the likely error with and without; None for other answers."""
        return prediction_use(self.value, self.prediction) if isinstance(self.value, GroupTable) else None

    def error_bound(self, confidence: Amount, *, assuming: Literal["nothing", "spread"] | None = None) -> np.ndarray:
        """Return a public bound on the error of every entry at a confidence (unit and assumption: `release.error`).

        Args:
            confidence: With which probability all entries keep to it, such as 0.95.
            assuming: "nothing" for a bound that holds wherever the records lie and tie, which is the default of
                quantiles. "spread" for the likely error: an estimate, measured and not proved, mostly
                far smaller. Records count as they are declared: within the column's bounds, and on its steps (without
                these, to 48 bits).

        >>> import numpy as np, sidelight as sl
        >>> release = sl.Quantiles(sl.quantiles.even_levels(99), epsilon=1).release(np.linspace(1, 9, 10_000))
        >>> bool(release.error_bound(0.95, assuming="spread").max() <= release.error_bound(0.95).max())
        True
        """
        if self.error is None:
            raise RangeError(f"a {self.kind} release carries no error bound of this kind; see its documentation page")
        return self.error.assuming(assuming, kind=self.kind).at(confidence)

    def to_dp_event(self) -> Any:
        """Return the release as an event of Google's `dp_accounting`, for composition with other tools."""
        from sidelight.accounting import to_dp_event

        return to_dp_event(self.guarantee)

    def to_json(self) -> str:
        """Return the whole release as one JSON text."""
        details = {} if self.details is None else {"details": dict(self.details)}
        return self._to_json(
            "release",
            value=encode_value(self.value),
            labels=list(self.labels),
            error=None if self.error is None else self.error.to_json(),
            prediction=None if self.prediction is None else dict(self.prediction),
            **details,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answer with its guarantee and its error as plain Python values.

        Returns:
            `kind`, `guarantee` as text, `private`, `values` as a list of one dictionary an entry; where there is an
            error bound, `unit` and `assumption` of its `within_95`; where there is a likely error as well, the
            `likely_assumption` of its `likely_95`; where persons are protected `rows_counted`; and where a table was
            predicted `believed` (from 0, as measured, to 1, as predicted) and the `likely_sd` of a number.

        >>> import sidelight as sl
        >>> made = sl.Quantiles([0.5], epsilon=1, granularity=1).release([30, 40, 50] * 100).to_dict()
        >>> made["kind"], made["guarantee"].split(",")[0], list(made["values"][0])
        ('quantiles', 'PureDP(ε = 1)', ['label', 'value', 'likely_95', 'within_95'])
        """
        said: dict[str, Any] = {"kind": self.kind, "guarantee": str(self.guarantee), "private": self.private}
        if self.error is not None:
            said |= {"unit": self.error.unit, "assumption": self.error.assumption}
            if self.error.likely is not None:
                said["likely_assumption"] = self.error.likely.assumption
        if self.rows_counted is not None:
            said["rows_counted"] = self.rows_counted
        if (used := self.prediction_use) is not None:
            said |= {"believed": used.share, "likely_sd": used.likely_sd}
        rows = [
            {name: date_text(x) if isinstance(x, datetime.date) else x for name, x in row.items()}
            for row in self._records()
        ]
        return said | {"values": rows}

    def to_pandas(self) -> Any:
        """Return the answer as a pandas data frame: a row an entry, with the error bound at 95 % where there is one.

        Returns:
            The frame; its `attrs` say kind, guarantee, and whether the noise was private.
        """
        frame = self._frame("pandas")
        frame.attrs |= {"kind": self.kind, "guarantee": str(self.guarantee), "private": self.private}
        return frame

    def to_polars(self) -> Any:
        """Return the answer as a Polars data frame: a row an entry, with the error bound at 95 % where there is one."""
        return self._frame("polars")

    def _frame(self, library: Literal["pandas", "polars"]) -> Any:
        table = isinstance(self.value, GroupTable)
        return getattr(self.shown, f"to_{library}")() if table else import_module(library).DataFrame(self._records())

    def _records(self) -> list[dict[str, Any]]:
        if isinstance(self.value, GroupTable):
            return list(self.shown.to_records())
        stated = {"likely_95": None if self.error is None else self.error.likely, "within_95": self.error}
        bounds = {name: np.ravel(error.at(0.95)).tolist() for name, error in stated.items() if error is not None}
        entries = entries_of(self.shown, self.labels)
        fitting = {name: bound for name, bound in bounds.items() if len(bound) == len(entries)}
        return [
            {"label": label, "value": entry, **{name: bound[place] for name, bound in fitting.items()}}
            for place, (label, entry) in enumerate(entries)
        ]

    def plot(self, axes: Any = None) -> Any:
        """Draw the answer with matplotlib: a bar an entry, and how far off it can be.

        Args:
            axes: Where to draw; left out, a new figure is made.

        Returns:
            The axes, to be changed or saved: `release.plot().figure.savefig("ages.svg")`.
        """
        title = f"{'' if self.private else 'NOT PRIVATE: '}{self.kind} · {self.guarantee}"
        unit = "" if self.error is None else f"{self.error.basis}: off by {off_by(self.error, self.details)}"
        if self.error is not None and self.error.likely is not None:
            unit = f"likely off by at most {off_by(self.error.likely, self.details)}; {unit}"
        return plot(self.shown, self.labels, title=title, unit=unit, axes=axes)

    @property
    def records(self) -> float | None:
        """About how many records there are, to three digits, where the release counted them on its way; else None."""
        count = float((self.details or {}).get("count", 0))
        return float(f"{count:.3g}") if count > 0 else None

    @classmethod
    def from_json(cls, text: str) -> Release:
        """Return the release that `to_json` wrote."""
        result = outcome_from_json(text)
        if not isinstance(result, Release):
            raise RangeError("expected the JSON of a release, got that of a refusal; use sidelight.outcome_from_json")
        return result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __str__(self) -> str:
        heading = shown_text(f"{self.kind} · {self.guarantee}")
        if isinstance(self.value, GroupTable):
            found = repr(self.shown).split("\n")
        else:
            found = [entry_text(*each) for each in entries_of(self.shown, self.labels)]
            found += [shown_text(f"counted: {self.rows_counted}")] if self.rows_counted else []
        if self.error is not None:
            found += map(shown_text, how_far_off(self.error, self.details))
        if self.prediction is not None:
            found.append(shown_text(f"prediction: {self.prediction['description']}"))
            found += [f"  {self.prediction_use}"] if self.prediction_use is not None else []
        return "\n".join([*self._brand(), heading, *(f"  {line}" for line in found)])

    __repr__ = __str__  # branded, and short: the exact claims of a model would fill a page

    def _repr_html_(self) -> str:
        in_table = isinstance(self.value, GroupTable) or self.rows_counted is None  # a table says it itself
        said = [] if in_table else [f"counted: {self.rows_counted}"]
        said += [] if self.error is None else how_far_off(self.error, self.details)
        said += [] if self.prediction_use is None else [f"prediction: {self.prediction_use}"]
        heading = f"{self.kind} · {self.guarantee}"
        return html_text(self.value, self.shown, self.labels, brand=self._brand(), heading=heading, said=said)


@dataclass(frozen=True, kw_only=True)
class Refused(_PublicOutcome):
    """Hold the paid result of a private test that said no: same price, no value.

    Args:
        query: The public description of what was asked.
        reason: Why, in words that hold for every data set that is refused.
        guarantee: The claims that all hold for it.
        circumstances: As those of a `Release`.

    >>> import sidelight as sl
    >>> hours = sl.Table({"hours": [0, 99] * 50}, schema=[sl.Number("hours", lower=0, upper=99, granularity=1)])
    >>> outcome = sl.StableMedian("hours", epsilon=1, delta="1e-9").release(hours)
    >>> isinstance(outcome, Refused), outcome.reason
    (True, 'a few records could move the median further than the spread that was proposed')
    """

    reason: str

    if not TYPE_CHECKING:  # a type checker is to find code that forgets refusals

        @property
        def value(self) -> NoReturn:
            """There is none, and asking for it says so."""
            raise AttributeError(
                f"a refusal has no value ({self.reason}); it is a paid result: look with isinstance(result, sl.Refused)"
            )

    def to_json(self) -> str:
        """Return the refusal as one JSON text."""
        return self._to_json("refused", reason=self.reason)

    def __str__(self) -> str:
        return "\n".join([*self._brand(), shown_text(f"refused: {self.reason} · {self.guarantee}")])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(f"<p>{line}</p>" for line in map(shown_html, str(self).split("\n")))


Outcome = Release | Refused


def outcome_from_json(text: str) -> Outcome:
    """Read a `Release` or `Refused` back.

    Args:
        text: The JSON text that its `to_json` wrote.

    Returns:
        The same outcome, with its claims, its bits and its brand.

    >>> import sidelight as sl
    >>> release = sl.Quantiles([0.5], epsilon=1).release([1.0, 2.0, 3.0])
    >>> outcome_from_json(release.to_json()) == release
    True
    """
    data = stored_object(text)
    try:
        outcome = _outcome(data)
        outcome.to_json()  # what cannot be written or shown is no release: better said here than where it is used
        str(outcome)
        if isinstance(outcome, Release):
            outcome._repr_html_()
    except SidelightError:
        raise
    except Exception as error:
        raise RangeError(f"{WANTED}, got JSON that was changed or is not whole ({type(error).__name__})") from None
    return outcome


def _outcome(data: Mapping[str, Any]) -> Outcome:
    guarantee = Claims.from_json(data["guarantee"])
    circumstances = Circumstances.from_json(data["circumstances"])
    if circumstances.numerics != guarantee.numerics:
        raise RangeError(f"{WANTED}, got numerics that contradict the guarantee: the text was changed")
    refused = data["type"] == "refused"
    texts = [data["query"]["kind"], *circumstances.texts(), *([data["reason"]] if refused else data["labels"])]
    if not refused and data["prediction"] is not None:
        texts.append(data["prediction"]["description"])
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("a text of a release is something else")
    if refused:
        return Refused(query=data["query"], reason=data["reason"], guarantee=guarantee, circumstances=circumstances)
    return Release(
        query=data["query"],
        value=decode_value(data["value"]),
        labels=tuple(data["labels"]),
        guarantee=guarantee,
        error=None if data["error"] is None else TailBound.from_json(data["error"]),
        prediction=data["prediction"],
        circumstances=circumstances,
        details=data.get("details"),
    )
