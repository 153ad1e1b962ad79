"""What leaves the door: `Release`, and `Refused` for a test that said no.

Both hold public things only. They are built in `session.door` and nowhere else, print well, and become JSON text and
back without losing a bit, a claim or a brand.
"""

from __future__ import annotations

import base64
import datetime
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sidelight.errors import RangeError, SidelightError, SourceError
from sidelight.group_table import GroupTable
from sidelight.guarantees import Claims
from sidelight.records.dates import Calendar, date_text
from sidelight.released_distribution import ReleasedDistribution

FORMAT = "1"
_WANTED = "expected the JSON of releases, as release.to_json() writes it"
#: Arrays with more entries are written as bytes.
_LONG = 4096
#: The columns of a table by group that lie where the numbers of the column lie, and the kinds whose `low` and `high`
#: are the ends of a mean: in other tables they are those of a count, a sum or a spread.
_MEANS = ("mean", "summary")
_DATED = re.compile(r"(mean|q[0-9.]+)(_(plain|low|high|predicted))?")


@dataclass(frozen=True, kw_only=True)
class TailBound:
    """How far off the released numbers can be, as a public formula: fixed + per_log * log(1/failure probability).

    The bound for entry i is at most exceeded with the stated probability, for all entries at once, if the public
    `assumption` about the data holds. Privacy never depends on it.

    >>> bound = TailBound(unit="ranks", assumption="no ties", fixed=(1.0,), per_log=(2.0,))
    >>> bound.at(0.95).round(2).tolist()
    [6.99]
    """

    unit: str
    assumption: str
    fixed: tuple[float, ...]
    per_log: tuple[float, ...]

    def at(self, confidence: float) -> np.ndarray:
        """Return the bound of every entry at this confidence."""
        if not 0 < confidence < 1:
            raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence}; 0.95 is a usual choice")
        found = np.asarray(self.fixed) + np.asarray(self.per_log) * math.log(1 / (1 - confidence))
        return np.maximum(found, 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "unit": self.unit,
            "assumption": self.assumption,
            "fixed": list(self.fixed),
            "per_log": list(self.per_log),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TailBound:
        """Read what `to_json` wrote."""
        return cls(
            unit=data["unit"],
            assumption=data["assumption"],
            fixed=tuple(data["fixed"]),
            per_log=tuple(data["per_log"]),
        )


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """The public circumstances of a release: where, with what, by which version."""

    dataset: str
    engine: str
    version: str
    entropy: str
    numerics: str
    entry_id: str | None = None
    ledger_head: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """Hold a differentially private answer together with everything public about it.

    Queries, sessions and models make releases; nobody writes one by hand.

    Args:
        query: The public description of what was asked.
        value: The answer.
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

    query: Mapping[str, Any]
    value: Any
    labels: tuple[str, ...]
    guarantee: Claims
    error: TailBound | None
    prediction: Mapping[str, Any] | None
    circumstances: Circumstances
    details: Mapping[str, Any] | None = None

    @property
    def kind(self) -> str:
        """The kind of query that was answered, such as "quantiles"."""
        return str(self.query["kind"])

    @property
    def private(self) -> bool:
        """True when the noise came from the operating system; seeded noise protects nobody."""
        return self.circumstances.entropy == "os"

    @property
    def shown(self) -> Any:
        """The answer with dates again where the column is an `sl.Date`, whose numbers count from its start; otherwise
        the value itself."""
        return self.dated(self.value)

    def dated(self, value: Any) -> Any:
        """Return a value of this release, or a part of it, with dates in place of numbers that count from a start."""
        told = self.query.get("dates")
        if not isinstance(told, Mapping):
            return value
        calendar = Calendar.since(told["start"], told["unit"], where="a release")
        if isinstance(value, GroupTable):
            ends = ("low", "high") if self.kind in _MEANS else ()
            columns = {
                name: calendar.datetimes(value[name]) if name in ends or _DATED.fullmatch(name) else value[name]
                for name in value.columns
            }
            keys, groups = value.keys_of_groups, value.groups
            return GroupTable(keys=keys, groups=groups, columns=columns, notes=value.notes)
        if isinstance(value, Mapping):
            return {key: self.dated(each) if key == "quantiles" else each for key, each in value.items()}
        if self.kind not in ("quantiles", "stable_median") or not np.all(np.isreal(value)):
            return value
        found = calendar.datetimes(value)
        return found if isinstance(value, np.ndarray) else found.item()

    def error_bound(self, confidence: float) -> np.ndarray:
        """Return a public bound on the error of every entry at a confidence (unit and assumption: `release.error`)."""
        if self.error is None:
            raise RangeError(f"a {self.kind} release carries no error bound of this kind; see its documentation page")
        return self.error.at(confidence)

    def to_dp_event(self) -> Any:
        """Return the release as an event of Google's `dp_accounting`, for composition with other tools."""
        from sidelight.accounting import to_dp_event

        return to_dp_event(self.guarantee)

    def to_json(self) -> str:
        """Return the whole release as one JSON text."""
        return _encode("release", self)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer with its guarantee and its error as plain Python values.

        Returns:
            `kind`, `guarantee` as text, `private`, `values` as a list of one dictionary an entry, and, where there is
            an error bound, `unit` and `assumption` of its `within_95`.

        >>> import sidelight as sl
        >>> made = sl.Quantiles([0.5], epsilon=1, granularity=1).release([30, 40, 50] * 100).to_dict()
        >>> made["kind"], made["guarantee"].split(",")[0], list(made["values"][0])
        ('quantiles', 'PureDP(ε = 1)', ['label', 'value', 'within_95'])
        """
        said: dict[str, Any] = {"kind": self.kind, "guarantee": str(self.guarantee), "private": self.private}
        if self.error is not None:
            said |= {"unit": self.error.unit, "assumption": self.error.assumption}
        plain = [
            {name: date_text(each) if isinstance(each, datetime.date) else each for name, each in record.items()}
            for record in self._records()
        ]
        return said | {"values": plain}

    def to_pandas(self) -> Any:
        """Return the answer as a pandas data frame: a row an entry, with the error bound at 95 % where there is one.

        Returns:
            The frame; its `attrs` say kind, guarantee, and whether the noise was private.
        """
        if isinstance(self.value, GroupTable):
            frame = self.shown.to_pandas()
        else:
            frame = import_module("pandas").DataFrame(self._records())
        frame.attrs |= {"kind": self.kind, "guarantee": str(self.guarantee), "private": self.private}
        return frame

    def to_polars(self) -> Any:
        """Return the answer as a Polars data frame: a row an entry, with the error bound at 95 % where there is one.

        Returns:
            The frame.
        """
        if isinstance(self.value, GroupTable):
            return self.shown.to_polars()
        return import_module("polars").DataFrame(self._records())

    def _records(self) -> list[dict[str, Any]]:
        if isinstance(self.value, GroupTable):
            return list(self.shown.to_records())
        entries = _entries(self)
        bounds = [] if self.error is None else [float(bound) for bound in np.ravel(self.error.at(0.95))]
        if len(bounds) != len(entries):
            return [{"label": label, "value": entry} for label, entry in entries]
        return [
            {"label": label, "value": entry, "within_95": bound}
            for (label, entry), bound in zip(entries, bounds, strict=True)
        ]

    @classmethod
    def from_json(cls, text: str) -> Release:
        """Return the release that `to_json` wrote."""
        result = outcome_from_json(text)
        if not isinstance(result, Release):
            raise RangeError("expected the JSON of a release, got that of a refusal; use sidelight.outcome_from_json")
        return result

    def at(self, *, entry_id: str | None, ledger_head: str | None) -> Release:
        """Return the same release with its place in a ledger."""
        return replace(self, circumstances=replace(self.circumstances, entry_id=entry_id, ledger_head=ledger_head))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __str__(self) -> str:
        lines = [*_brand(self.circumstances), f"{self.kind} · {self.guarantee}"]
        if isinstance(self.value, GroupTable):
            lines += [f"  {line}" for line in repr(self.shown).splitlines()]
        else:
            lines += [f"  {label}: {_number(entry)}" for label, entry in _entries(self)]
        if self.error is not None:
            bound = float(np.max(self.error.at(0.95)))
            lines.append(f"  worst case at 95 %: off by {bound:.3g} {self.error.unit}, if {self.error.assumption}")
        if self.prediction is not None:
            lines.append(f"  prediction: {self.prediction['description']}")
        return "\n".join(lines)

    __repr__ = __str__  # branded, and short: the exact claims of a model would fill a page

    def _repr_html_(self) -> str:
        brand = "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in _brand(self.circumstances))
        if isinstance(self.value, GroupTable):
            return f"{brand}<p>{html.escape(f'{self.kind} · {self.guarantee}')}</p>{self.shown._repr_html_()}"
        rows = "".join(
            f"<tr><th scope='row'>{html.escape(label)}</th><td>{html.escape(_number(entry))}</td></tr>"
            for label, entry in _entries(self)
        )
        caption = html.escape(f"{self.kind} · {self.guarantee}")
        off = ""
        if self.error is not None:
            bound = f"{float(np.max(self.error.at(0.95))):.3g} {self.error.unit}"
            off = f"<p>off by at most {html.escape(f'{bound} at 95 %, if {self.error.assumption}')}</p>"
        return f"{brand}<table><caption>{caption}</caption>{rows}</table>{_bars(_entries(self))}{off}"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Hold the paid result of a private test that said no: same price, same fields, no value.

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

    query: Mapping[str, Any]
    reason: str
    guarantee: Claims
    circumstances: Circumstances

    if not TYPE_CHECKING:  # a type checker is to find code that forgets refusals

        @property
        def value(self) -> NoReturn:
            """There is none, and asking for it says so."""
            raise AttributeError(
                f"a refusal has no value ({self.reason}); it is a paid result: look with isinstance(result, sl.Refused)"
            )

    @property
    def private(self) -> bool:
        """True when the noise came from the operating system."""
        return self.circumstances.entropy == "os"

    def to_json(self) -> str:
        """Return the refusal as one JSON text."""
        return _encode("refused", self)

    def at(self, *, entry_id: str | None, ledger_head: str | None) -> Refused:
        """Return the same refusal with its place in a ledger."""
        return replace(self, circumstances=replace(self.circumstances, entry_id=entry_id, ledger_head=ledger_head))

    def __str__(self) -> str:
        return "\n".join([*_brand(self.circumstances), f"refused: {self.reason} · {self.guarantee}"])

    __repr__ = __str__


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
    data = _stored(text)
    try:
        outcome = _outcome(data)
        outcome.to_json()  # what cannot be written or shown is no release: better said here than where it is used
        str(outcome)
        if isinstance(outcome, Release):
            outcome._repr_html_()
    except SidelightError:
        raise
    except Exception as error:
        raise RangeError(f"{_WANTED}, got JSON that was changed or is not whole ({type(error).__name__})") from None
    return outcome


def _outcome(data: Mapping[str, Any]) -> Outcome:
    guarantee = Claims.from_json(data["guarantee"])
    circumstances = Circumstances(**data["circumstances"])
    texts = [data["query"]["kind"], *(each for each in vars(circumstances).values() if each is not None)]
    if data["type"] == "refused":
        texts.append(data["reason"])
    else:
        texts += [*data["labels"], *(() if data["prediction"] is None else [data["prediction"]["description"]])]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("a text of a release is something else")
    if data["type"] == "refused":
        return Refused(query=data["query"], reason=data["reason"], guarantee=guarantee, circumstances=circumstances)
    return Release(
        query=data["query"],
        value=_decode_value(data["value"]),
        labels=tuple(data["labels"]),
        guarantee=guarantee,
        error=None if data["error"] is None else TailBound.from_json(data["error"]),
        prediction=data["prediction"],
        circumstances=circumstances,
        details=data.get("details"),
    )


def read_outcomes(path: Path) -> list[tuple[str, Outcome]]:
    """Read the outcomes of a JSON file, each with its title: one, a list, or what `sidelight run --json` wrote."""
    text = stored_text(path)
    wanted = "expected the JSON of releases or of `sidelight run --json`"
    try:
        data = json.loads(text)
        if isinstance(data, dict) and data.get("type") == "report":
            return [(str(item["title"]), outcome_from_json(json.dumps(item["outcome"]))) for item in data["items"]]
        found = [entry if isinstance(entry, str) else json.dumps(entry) for entry in _listed(data)]
        outcomes = [outcome_from_json(entry) for entry in found]
    except json.JSONDecodeError as error:
        raise RangeError(f"{wanted}, got a text that breaks off at line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise SourceError(f"{str(path)!r} is nested too deeply for releases; name a JSON file of releases") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise RangeError(f"{wanted}, got something else (at {error})") from None
    return [(str(each.query.get("column") or each.query["kind"]), each) for each in outcomes]


def stored_text(path: Path) -> str:
    """Read a JSON file of releases."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SourceError(f"{str(path)!r} cannot be read: {reason}; name a JSON file of releases") from None


def _listed(data: Any) -> list[Any]:
    return data if isinstance(data, list) else [data]


def _stored(text: str) -> dict[str, Any]:
    if not isinstance(text, str | bytes | bytearray):
        raise RangeError(f"{_WANTED}, got {type(text).__name__}; of a file pass its text: Path(...).read_text()")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise RangeError(f"{_WANTED}, got a text that is not JSON; is it the whole text?") from None
    if not isinstance(data, dict) or "format" not in data or "circumstances" not in data:
        raise RangeError(f"{_WANTED}, got other JSON; what `sidelight run --json` wrote is for `sidelight report`")
    if data["format"] != FORMAT:
        raise RangeError(f"this is release format {data['format']!r}; this version reads {FORMAT!r}: upgrade sidelight")
    return data


def _encode(kind: str, outcome: Outcome) -> str:
    data: dict[str, Any] = {
        "format": FORMAT,
        "type": kind,
        "query": dict(outcome.query),
        "guarantee": outcome.guarantee.to_json(),
        "circumstances": vars(outcome.circumstances),
    }
    if isinstance(outcome, Release):
        data["value"] = encode_value(outcome.value)
        data["labels"] = list(outcome.labels)
        data["error"] = None if outcome.error is None else outcome.error.to_json()
        data["prediction"] = None if outcome.prediction is None else dict(outcome.prediction)
        if outcome.details is not None:
            data["details"] = dict(outcome.details)
    else:
        data["reason"] = outcome.reason
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def encode_value(value: Any) -> Any:
    """Return a released value as JSON values."""
    if isinstance(value, np.ndarray) and value.size > _LONG and value.dtype.kind in "if":
        return _encode_long(value)
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, GroupTable):
        return {"groups": value.to_json()}
    if isinstance(value, ReleasedDistribution):
        return {"distribution": value.to_json()}
    if isinstance(value, Mapping):
        return {"mapping": {str(key): encode_value(entry) for key, entry in value.items()}}
    if isinstance(value, list | tuple):
        return [encode_value(entry) for entry in value]
    return value


def _encode_long(value: np.ndarray) -> dict[str, Any]:
    """Write the bytes of a long array: as exact as digits, and fifty times quicker."""
    if not np.all(np.isfinite(value)):
        raise ValueError("a release holds finite numbers")  # as `allow_nan=False` says of short ones
    written = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
    text = base64.b64encode(written.tobytes()).decode("ascii")
    return {"bytes": text, "dtype": value.dtype.name, "shape": list(value.shape)}


def _decode_value(value: Any) -> Any:
    if isinstance(value, dict) and "array" in value:
        return np.array(value["array"], dtype=value["dtype"])
    if isinstance(value, dict) and "bytes" in value:
        little = np.dtype(value["dtype"]).newbyteorder("<")
        read = np.frombuffer(base64.b64decode(value["bytes"], validate=True), dtype=little)
        return read.astype(value["dtype"]).reshape(value["shape"])
    if isinstance(value, dict) and "groups" in value:
        return GroupTable.from_json(value["groups"])
    if isinstance(value, dict) and "distribution" in value:
        return ReleasedDistribution.from_json(value["distribution"])
    if isinstance(value, dict):
        return {key: _decode_value(entry) for key, entry in value["mapping"].items()}
    if isinstance(value, list):
        return [_decode_value(entry) for entry in value]
    return value


def _brand(circumstances: Circumstances) -> list[str]:
    return [] if circumstances.entropy == "os" else ["NOT PRIVATE: made with seeded noise, for tests only"]


def _entries(release: Release) -> Sequence[tuple[str, Any]]:
    value = release.shown
    if isinstance(value, Mapping) and "quantiles" in value:
        value = value["quantiles"]
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(release.labels) == len(value):
        return list(zip(release.labels, value.tolist(), strict=True))
    if isinstance(value, Mapping) and isinstance(value.get("summary"), str):
        return [("value", value["summary"])]
    if isinstance(value, Mapping) and "points" in value:  # the path of a descent, and its coordinates
        value = {name: part for name, part in value.items() if name not in ("points", "map", "centre", "noise")}
    return [("value", value)]


def _bars(entries: Sequence[tuple[str, Any]]) -> str:
    """Return a small chart of numbers with names, in the colours of its page; empty where none would help."""
    numbers = [entry for _, entry in entries if isinstance(entry, int | float) and math.isfinite(entry)]
    if not 2 <= len(entries) == len(numbers) <= 60:
        return ""
    low, high = min(0, *numbers), max(0, *numbers)
    scale = 300 / ((high - low) or 1)
    drawn = "".join(
        f"<rect x='{(min(0, number) - low) * scale:.1f}' y='{12 * row}' width='{abs(number) * scale:.1f}' height='10'>"
        f"<title>{html.escape(f'{label}: {_number(number)}')}</title></rect>"
        for row, ((label, _), number) in enumerate(zip(entries, numbers, strict=True))
    )
    size = f"viewBox='0 0 300 {12 * len(numbers)}' width='300' height='{12 * len(numbers)}'"
    return f"<svg xmlns='http://www.w3.org/2000/svg' role='img' {size} fill='currentColor' opacity='0.6'>{drawn}</svg>"


def _number(entry: Any) -> str:
    if isinstance(entry, datetime.date):
        return date_text(entry)
    return f"{entry:.10g}" if isinstance(entry, float) else str(entry)
