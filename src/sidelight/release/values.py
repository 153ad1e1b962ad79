"""What a release holds, all of it public: values, where it was made, how far off it can be, what a prediction did.

Values become JSON and are read back without losing a bit. An error bound is a formula that travels with the numbers.
How far they were moved to a predicted table is computed from the released numbers and the prediction: nothing here
sees a record.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sidelight.errors import RangeError
from sidelight.group_table import ALL, GroupTable
from sidelight.guarantees import Amount, exact
from sidelight.readable import as_read
from sidelight.release.when_asked import AskedWhenCopied, WhenAsked
from sidelight.released_distribution import ReleasedDistribution
from sidelight.table_texts import beside, leading_statistic

FORMAT = "1"
WANTED = "expected the JSON of releases, as release.to_json() writes it"
#: Arrays with more entries are written as bytes.
_LONG = 4096


def encode_value(value: Any) -> Any:
    """Return a released value as plain JSON values."""
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


def decode_value(value: Any) -> Any:
    """Read what `encode_value` returned."""
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
        return {key: decode_value(entry) for key, entry in value["mapping"].items()}
    if isinstance(value, list):
        return [decode_value(entry) for entry in value]
    return value


def object_text(**parts: Any) -> str:
    """Return the JSON text of an outcome, which `stored_object` reads."""
    data = {"format": FORMAT, **parts}
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def check_numbers(value: Any) -> None:
    """Raise where `object_text` would, of a value whose text is not wanted: arrays are looked at and not written."""
    table = isinstance(value, GroupTable)
    columns = [value[name] for name in value.columns] if table else [value]
    if not all(isinstance(each, np.ndarray) and each.dtype.kind in "biuf" for each in columns):
        object_text(value=encode_value(value))
    elif not all(np.isfinite(each).all() or (table and not np.isinf(each).any()) for each in columns):
        raise ValueError("a release holds finite numbers, and a table no infinite ones")


def stored_object(text: str) -> dict[str, Any]:
    """Parse the JSON object of an outcome, or say why it is none that this version reads."""
    if not isinstance(text, str | bytes | bytearray):
        raise RangeError(f"{WANTED}, got {type(text).__name__}; of a file pass its text: Path(...).read_text()")
    try:
        data = json.loads(text, object_pairs_hook=without_repeats)
    except RangeError:
        raise
    except (ValueError, RecursionError):
        raise RangeError(f"{WANTED}, got a text that is not JSON; is it the whole text?") from None
    if not isinstance(data, dict) or "format" not in data or "circumstances" not in data:
        raise RangeError(f"{WANTED}, got other JSON; what `sidelight run --json` wrote is for `sidelight report`")
    if data["format"] != FORMAT:
        raise RangeError(f"this is release format {data['format']!r}; this version reads {FORMAT!r}: upgrade sidelight")
    return data


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; one that has a key twice is read differently by other programs."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RangeError(f"{WANTED}, got an object that has a key twice")
    return found


#: What every line of `spending` says; some name a theorem, too.
_SPENDING_KEYS = ("law", "statistic", "cost", "times", "over")


@dataclass(frozen=True, kw_only=True)
class Circumstances(AskedWhenCopied):
    """The public circumstances of a release: where, with what, by which version."""

    dataset: str
    engine: str
    version: str
    entropy: str
    numerics: str
    entry_id: str | None = None
    ledger_head: str | None = None
    spending: WhenAsked[tuple[Mapping[str, str], ...]] = WhenAsked(())  # noqa: RUF009

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Circumstances:
        """Read what a release wrote; whether all of it is text, `texts` shows."""
        return cls(**{**data, "spending": tuple(dict(line) for line in data.get("spending", ()))})

    def texts(self) -> list[Any]:
        """Return everything that must be a text."""
        given = [each for name, each in vars(self).items() if name != "spending" and each is not None]
        return given + [line.get(key) for line in self.spending for key in (*_SPENDING_KEYS, *line)]


Numbers = tuple[float, ...]

#: What a bound states that follows from the laws of the noise alone.
NO_ASSUMPTION: Final = "the noise is what it is: nothing is assumed about the data"


@dataclass(frozen=True, kw_only=True)
class TailBound:
    """How far off the released numbers can be, as a public formula: fixed + per_log * log(1/failure probability).

    The bound for entry i is at most exceeded with the stated probability, for all entries at once, if the public
    `assumption` about the data holds: a theorem, or, with `proved=False`, an estimate. Privacy never depends
    on it. A bound that assumes nothing may come with a smaller one that assumes something: the likely error.

    Args:
        unit: What an error is counted in.
        assumption: What the data must be like.
        fixed, per_log: The two parts of each entry's bound.
        proved: Whether it is a theorem.
        likely: Another bound of the same entries, mostly smaller, for data without undeclared ties: an estimate of the
            error that most data has. None if there is none, or if released numbers contradict what it assumes.
        up_to: The largest confidence that it is stated for; beyond, nothing is known but `largest`.
        largest: What no error exceeds whatever the noise is: every bound is at most this.

    >>> bound = TailBound(unit="ranks", assumption="no ties", fixed=(1.0,), per_log=(2.0,))
    >>> bound.at(0.95).round(2).tolist()
    [6.99]
    """

    unit: str
    assumption: str
    fixed: Numbers
    per_log: Numbers
    proved: bool = True
    likely: TailBound | None = None
    up_to: float = 1.0
    largest: float = math.inf

    def __post_init__(self) -> None:
        if len(self.fixed) != len(self.per_log):
            raise RangeError(
                f"a bound has as many fixed parts as slopes, got {len(self.fixed)} and {len(self.per_log)}"
            )
        if self.likely is not None and not (self.assumes_nothing and len(self.likely.fixed) == len(self.fixed)):
            raise RangeError("a likely error comes with a bound of the same entries that assumes nothing")

    def assuming(self, wanted: str | None, *, kind: str) -> TailBound:
        """Return the bound of a release under an assumption: "nothing", "spread", or None for this one."""
        if wanted not in (None, "nothing", "spread"):
            raise RangeError(
                f'assuming is "nothing", "spread", or left out for what release.error states, got {wanted!r}'
            )
        if wanted == "nothing" and not self.assumes_nothing:
            raise RangeError(
                f"the bound of this {kind} release holds if {self.assumption}; it carries none that assumes "
                "nothing about the data"
            )
        found = self.of_spread_data if wanted == "spread" else self
        if found is None:
            raise RangeError(
                f"this {kind} release carries no likely error: its bound needs none, or what was released shows "
                "ties that nobody declared; leave assuming out"
            )
        return found

    @property
    def assumes_nothing(self) -> bool:
        """Whether it holds wherever the records lie; its text may say how many of them may be equal."""
        return self.assumption.startswith(NO_ASSUMPTION)

    @property
    def basis(self) -> str:
        """What stands before a number of it at 95 %: that it is a worst case, or that it is none."""
        return "worst case at 95 %" if self.proved else "estimated at 95 %, not proved"

    def at(self, confidence: Amount) -> np.ndarray:
        """Return the bound of every entry at this confidence."""
        if not isinstance(confidence, float):
            confidence = float(exact(confidence, name="confidence"))
        if not 0 < confidence < 1:
            raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence}; 0.95 is a usual choice")
        if confidence > self.up_to:
            return np.full(len(self.fixed), self.largest)
        found = np.asarray(self.fixed) + np.asarray(self.per_log) * math.log(1 / (1 - confidence))
        return np.clip(found, 0.0, self.largest)

    @property
    def of_spread_data(self) -> TailBound | None:
        """The bound for data without undeclared ties: this one, or the likely error that comes with it, if any."""
        return self.likely if self.assumes_nothing else self

    def with_likely(self, likely: TailBound, *, calibrated: float = 1.0) -> TailBound:
        """Return it with a likely error: of each entry the smaller of both at 95 %.

        Args:
            likely: The bound for data without undeclared ties.
            calibrated: What it is multiplied with, so that it was kept on measured laws that are unlike its assumption.
        """
        likely = likely.changed(
            lambda fixed, per_log: (
                tuple(calibrated * each for each in fixed),
                tuple(calibrated * each for each in per_log),
            )
        )
        nearer = likely.at(0.95) < self.at(0.95)
        return replace(
            self,
            likely=replace(
                likely,
                proved=False,
                fixed=tuple(np.where(nearer, likely.fixed, self.fixed).tolist()),
                per_log=tuple(np.where(nearer, likely.per_log, self.per_log).tolist()),
            ),
        )

    def changed(self, change: Callable[[Numbers, Numbers], tuple[Numbers, Numbers]]) -> TailBound:
        """Return it with other numbers, found from its own; and so the likely error that comes with it.

        Args:
            change: Takes `fixed` and `per_log`, and returns both.

        >>> bound = TailBound(unit="ranks", assumption="no ties", fixed=(1.0, 3.0), per_log=(2.0, 4.0))
        >>> bound.changed(lambda fixed, per_log: (fixed[1:], per_log[1:])).fixed
        (3.0,)
        """
        fixed, per_log = change(self.fixed, self.per_log)
        likely = None if self.likely is None else self.likely.changed(change)
        return replace(self, fixed=fixed, per_log=per_log, likely=likely)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "unit": self.unit,
            "assumption": self.assumption,
            "fixed": list(self.fixed),
            "per_log": list(self.per_log),
            **({} if self.proved else {"proved": False}),
            **({} if self.likely is None else {"likely": self.likely.to_json()}),
            **({} if self.up_to == 1 else {"up_to": self.up_to}),
            **({} if self.largest == math.inf else {"largest": self.largest}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TailBound:
        """Read what `to_json` wrote; earlier versions put first what assumed more, and the other with it."""
        found = cls(
            unit=data["unit"],
            assumption=data["assumption"],
            fixed=tuple(data["fixed"]),
            per_log=tuple(data["per_log"]),
            proved=bool(data.get("proved", True)),
            likely=None if data.get("likely") is None else replace(cls.from_json(data["likely"]), proved=False),
            up_to=float(data.get("up_to", 1.0)),
            largest=float(data.get("largest", math.inf)),
        )
        return (
            found
            if data.get("regardless") is None
            else replace(cls.from_json(data["regardless"]), likely=replace(found, proved=False))
        )


@dataclass(frozen=True, kw_only=True)
class PredictionUse:
    """The shrinkage weight of a predicted table, and the likely error of a group with it and without.

    Args:
        share: How far the numbers were moved: 0 are the measured numbers, 1 the predicted ones.
        likely_sd: The root mean square error that is likely, over the predicted groups; an estimate, not a bound.
        noise_sd: That of the noise alone: what the error would be without the prediction.
        groups: How many groups are predicted.
    """

    share: float
    likely_sd: float
    noise_sd: float
    groups: int

    def __str__(self) -> str:
        likely, alone = (as_read(float(f"{size:.2g}")) for size in (self.likely_sd, self.noise_sd))
        said = f"shrinkage weight {100 * self.share:.0f} %"
        if self.share < 0.005:
            return f"{said}: the numbers are as measured, off by about {alone}"
        return f"{said}: a number is likely off by about {likely}, by the noise alone by {alone} (standard deviations)"


def prediction_use(table: GroupTable, description: Mapping[str, Any] | None) -> PredictionUse | None:
    """Return how a predicted table was used in a released one; None where that is not known.

    A measured number y was moved to the predicted p by the weight w = (y - x)/(y - p), which was learned from all y.
    Stein's unbiased estimate of the mean square error of x = y - w·(y - p), with w = c·a/Σa²(y - p)², is the mean of
    d + w²·(y - p)² - 2·d·(w - 2·w·s), where d is the variance of the noise and s the share of w²·(y - p)² in its sum
    (for Gaussian noise, before rounding). Means are moved by weights of their own: there it is (1 - w)²·d + w²·b², with
    b² the mean of (y - p)² - d. Both are kept between (1 - w)²·d and d.
    Intervals are about y, and are the same with and without a prediction.

    Args:
        table: The released table.
        description: The description of the prediction that the release carries.
    """
    try:
        values = {tuple(labels): float(value) for *labels, value in (description or {}).get("values") or ()}
    except (TypeError, ValueError):  # a release from a file may say anything
        return None
    name = leading_statistic(table)
    plain = beside(table, name, "plain")
    measured = beside(table, name, "unbiased") if plain is None else plain
    noise = beside(table, name, "noise_sd")
    if not values or measured is None or noise is None or "others" in (description or {}):
        return None
    whole = zip(table.groups, table[name].tolist(), measured, noise, strict=True)
    found = [
        (x, y, sd, values[group])
        for group, x, y, sd in whole
        if group in values and ALL not in group and all(map(math.isfinite, (x, y, sd)))
    ]
    if not found or max(sd for _, _, sd, _ in found) <= 0:
        return None
    x, y, sd, p = np.array(found, np.float64).T
    if "shares" in (description or {}):
        p = p * (max(float(y.sum()), 0.0) / max(float(p.sum()), 1e-300))
    r, variance = y - p, sd * sd
    moved = np.clip(np.divide(y - x, r, out=np.zeros_like(r), where=r != 0), 0.0, 1.0)
    squares = moved**2 * r * r
    if plain is None:
        steep = np.divide(2 * moved * squares, squares.sum(), out=np.zeros_like(r), where=squares.sum() > 0)
        risk = float(np.mean(variance + squares - 2 * variance * (moved - steep)))
    else:
        sure = 1 / np.maximum(variance, 1e-300) ** 2
        apart = max(float((sure * (r * r - variance)).sum() / sure.sum()), 0.0)
        risk = float(np.mean((1 - moved) ** 2 * variance + moved**2 * apart))
    least = float(np.mean((1 - moved) ** 2 * variance))
    share = float((variance * moved).sum() / variance.sum())
    return PredictionUse(
        share=share,
        likely_sd=math.sqrt(min(max(risk, least), float(variance.mean()))),
        noise_sd=math.sqrt(float(variance.mean())),
        groups=len(found),
    )
