"""What a sequence is: the query of every day, the schema, the learner and what is assumed about people; all public."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib import import_module
from typing import Any, Final, Literal, Protocol, TypeAlias

import numpy as np

from sidelight.accounting import worst_case_branch
from sidelight.errors import RangeError
from sidelight.guarantees import Claims
from sidelight.guarantees.amounts import whole
from sidelight.predictions import Origin, Prior
from sidelight.quantiles.prepared import PreparedQuantiles
from sidelight.quantiles.query import Quantiles
from sidelight.quantiles.sequence.curve import CurveState
from sidelight.quantiles.sequence.recursive_regression import Floats
from sidelight.quantiles.sequence.tracked import PubTrack, TrackPlan
from sidelight.records import Number, Schema
from sidelight.release import Release
from sidelight.session import request_key


class PublishedLearner(Protocol):
    """What a sequence asks of a learner of the literature (`published`): its state, and a day's prediction from it."""

    @property
    def scale(self) -> float | tuple[float, ...]:
        """How far quantiles typically move."""

    def begin(self, levels: int, *, granularity: float) -> Any:
        """Return the state before the first day."""

    def read(self, written: Mapping[str, Any], levels: int, *, granularity: float) -> Any:
        """Read a state that `to_json` wrote."""

    def priors(self, learned: Any, features: Floats, *, origin: Origin, nonnegative: bool) -> tuple[Prior, ...]:
        """Return the prediction for a day."""

    def to_json(self) -> dict[str, Any]:
        """Return the description that the digest of a plan covers."""


Learner = PubTrack | PublishedLearner
Learned: TypeAlias = Any  # a `CurveState`, or the state of a published learner

#: The learners of the literature, by the module that has each. Those import this package: they are looked up by name.
PUBLISHED: Final = {
    "PubPrev": "sidelight.published.released_learners",
    "PubProx": "sidelight.published.released_learners",
    "PrivateHistograms": "sidelight.published.private_histograms",
}


def published_learner(name: str) -> Any:
    """Return the class of a learner of the literature."""
    return getattr(import_module(PUBLISHED[name]), name)


#: How a learner may be named instead of made.
Learn = Literal["released", "private"]
#: What the gradients of a learner that was named "private" cost, of the quantiles' rho: together a tenth of the day's.
_GRADIENT_SHARE: Final = Fraction(1, 9)
_WHOLE_DAYS: Final = (
    "a sequence releases quantiles of all rows of a day: leave by and where out of its query. A filtered table, or a "
    "session a day with Quantiles(by=...), releases those of groups"
)
#: Where neither the schema nor the query says how fine values are: this share of the learner's first scale.
_FINEST_SHARE: Final = 1e-8
#: The largest public feature of a day: squares of sixty of them are added to one, and must not drown it.
LARGEST_FEATURE: Final = 1e6
#: Where a day begins first: UTC+14.
_FIRST_TIME_ZONE: Final = datetime.timedelta(hours=14)


@dataclass(frozen=True, kw_only=True)
class SequencePlan:
    """The part of a sequence that never changes; `digest` names it in the ledger and in the state."""

    query: Quantiles
    schema: Schema
    learner: Learner
    days_per_person: int | None

    def __post_init__(self) -> None:
        name = type(self.learner).__name__
        known = published_learner(name) if name in PUBLISHED else PubTrack
        if type(self.learner) is not known:  # of a subclass too little is known
            raise RangeError(
                "learner must be PubTrack(...), PubPrev(...), PubProx(...) or PrivateHistograms(...), "
                f"got {type(self.learner).__name__}"
            )
        object.__setattr__(self, "learner", replace(self.learner))  # a copy, checked again
        if self.query.prediction is not None:
            raise RangeError(
                "a sequence predicts by itself: leave prediction out of the query, tell the learner instead"
            )
        if self.query.by or self.query.where is not None:
            raise RangeError(_WHOLE_DAYS)
        if self.days_per_person is not None:
            object.__setattr__(self, "days_per_person", whole(self.days_per_person, name="days_per_person"))
        _ = self.tracking
        self.begin()  # guesses that do not fit the levels are found now
        _ = self.claims

    @cached_property
    def bare(self) -> PreparedQuantiles:
        """The query without a prediction, fitted to the schema."""
        prepared = self.query.prepare(self.schema)
        assert type(prepared) is PreparedQuantiles  # days have no groups, and those of groups are a subclass
        return prepared

    @cached_property
    def gradients(self) -> Any | None:
        """The private gradients of a learner that looks at records; None where learning is free."""
        make = getattr(self.learner, "gradient_plan", None)
        return None if make is None else make(self.bare, self.schema, self.days_per_person)

    @cached_property
    def tracking(self) -> TrackPlan | None:
        """The counts of a learner that follows a curve; None for the others."""
        if not isinstance(self.learner, PubTrack):
            return None
        return TrackPlan(
            learner=self.learner,
            levels=self.bare.tree.levels,
            grid=self.bare.grid,
            budget=self.bare.rule.budget,
            unit=self.schema.unit,
            number=self.number,
        )

    @cached_property
    def claims(self) -> Claims:
        """The price of a day for someone in it: its quantiles, and its gradient where there is one.

        A day of `PubTrack` is counted or selected as released numbers have it: the price is the larger of the two.
        """
        if self.tracking is not None:
            paths = [[self.bare.claims], [self.tracking.claims]]
            if self.tracking.has_more_knots:
                paths.append([self.of_curve(None).prepare(self.schema).claims])
            return worst_case_branch(paths)
        if self.gradients is None:
            return self.bare.claims
        return worst_case_branch([[self.bare.claims, self.gradients.claims]])

    @cached_property
    def digest(self) -> str:
        """A name for everything that must stay the same from day to day."""
        content = {
            "query": {key: value for key, value in self.bare.request.items() if key not in ("priors", "grid")},
            "resolution": "None",  # as earlier versions wrote it: a state keeps its digest
            "schema": self.schema.to_json(),
            "learner": self.learner.to_json(),
            "days_per_person": str(self.days_per_person),
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def number(self) -> Number:
        """The column whose quantiles are released."""
        return self.schema.number(self.bare.column)

    @property
    def levels(self) -> int:
        """How many levels are released."""
        return len(self.bare.tree.levels)

    @property
    def granularity(self) -> float:
        """The width of the interval that a release stands in for."""
        declared = self.number.granularity
        if declared is not None:
            return float(declared)
        assert not isinstance(self.learner, PubTrack)  # which has no use for it
        scale = self.learner.scale
        return _FINEST_SHARE * (min(scale) if isinstance(scale, tuple) else scale)

    def begin(self) -> Learned:
        """Return the learner before the first day."""
        if self.tracking is not None:
            return self.tracking.begin()
        assert not isinstance(self.learner, PubTrack)
        return self.learner.begin(self.levels, granularity=self.granularity)

    def read(self, written: Any) -> Learned:
        """Read a stored learner."""
        if self.tracking is not None:
            return self.tracking.read(written)
        assert not isinstance(self.learner, PubTrack)
        return self.learner.read(written, self.levels, granularity=self.granularity)

    def learn(self, learned: Learned, features: Floats, release: Release) -> Learned:
        """Return the learner after a release: a function of it and public numbers.

        A day from which nothing finite can be learned, such as one with features beyond the limit in an older ledger,
        leaves the learner as it is: the days after it go on.
        """
        found: Learned
        try:
            with np.errstate(all="ignore"):
                if isinstance(learned, CurveState):
                    assert self.tracking is not None
                    found = self.tracking.learn(learned, features, release.value, release.details)
                else:
                    found = learned.learn(features, release.value)
        except np.linalg.LinAlgError:
            return learned
        return found if is_finite(found) or not is_finite(learned) else learned

    def priors(self, learned: Learned, features: Floats, origin: Origin) -> tuple[Prior, ...] | None:
        """Return the prediction for a day: a function of past releases and public numbers; None if there is none."""
        if isinstance(learned, CurveState):
            assert self.tracking is not None
            return self.tracking.priors(learned, features, origin=origin)
        assert not isinstance(self.learner, PubTrack)
        nonnegative = self.number.lower is not None and self.number.lower >= 0
        return self.learner.priors(learned, features, origin=origin, nonnegative=nonnegative)

    def with_prediction(self, priors: tuple[Prior, ...] | None) -> Quantiles:
        """Return the query of a day."""
        return replace(self.query, prediction=priors)

    def of_curve(self, priors: tuple[Prior, ...] | None) -> Quantiles:
        """Return the query of a day on which the whole curve is looked for: at its knots."""
        assert self.tracking is not None
        knots = self.tracking.knots
        if priors is not None and len(knots) != len(priors):
            levels = [float(level) for level in self.tracking.levels]
            nearest_level = [int(np.argmin(np.abs(np.array(levels) - float(knot)))) for knot in knots]
            priors = tuple(priors[place] for place in nearest_level)
        return replace(self.query, levels=knots, prediction=priors)

    def numbers(self, features: Floats, day: datetime.date) -> Floats:
        """Return all that is public about a day: its features and, where the learner uses it, its weekday."""
        return self.learner.numbers_of(features, day) if isinstance(self.learner, PubTrack) else features

    def features(self, given: Iterable[float]) -> Floats:
        """Check the public features of a day."""
        try:
            numbers = np.array([float(each) for each in given], dtype=np.float64)
        except (TypeError, ValueError):
            raise RangeError("features must be public numbers, one list a day") from None
        wanted = getattr(self.learner, "features", 0)
        if len(numbers) != wanted:
            raise RangeError(
                f"this sequence has {wanted} features a day, got {len(numbers)}; the number never changes"
                + ("" if wanted else f" ({type(self.learner).__name__} uses none)")
            )
        if not all(math.isfinite(number) for number in numbers.tolist()):
            raise RangeError("features must be finite numbers; put a public value where one is missing")
        if np.abs(numbers).max(initial=0.0) > LARGEST_FEATURE:
            raise RangeError(
                f"features must lie between -{LARGEST_FEATURE:g} and {LARGEST_FEATURE:g}, and are best of the order of "
                f"1, got {numbers[np.abs(numbers).argmax()]:g}; use another unit. Nothing was spent"
            )
        return numbers

    def key(self, day: datetime.date) -> str:
        """Name the entry of a day in the ledger."""
        return request_key("sequence", self.digest, day.isoformat())


def is_finite(learned: Any) -> bool:
    """Return whether every float of a learner is finite."""
    if is_dataclass(learned) and not isinstance(learned, type):
        return all(is_finite(getattr(learned, each.name)) for each in fields(learned))
    if isinstance(learned, (float, np.ndarray)):
        array = np.asarray(learned)
        return array.dtype.kind != "f" or bool(np.isfinite(array).all())
    return True


def chosen_learner(learner: Learner | None, learn: Learn | None, *, query: Quantiles, schema: Schema) -> Learner:
    """Return the learner that was given, or the one that was named; one that follows the curve if nothing was said."""
    if learner is not None and learn is not None:
        raise RangeError("give a learner, or learn=, not both; learn names one with its usual settings")
    if learner is not None:
        return learner
    if learn in (None, "released"):
        return PubTrack()
    if learn != "private":
        raise RangeError(f'learn must be "released" or "private", got {learn!r}; or give a learner')
    if query.by or query.where is not None:
        raise RangeError(_WHOLE_DAYS)
    prepared = query.prepare(schema)
    assert type(prepared) is PreparedQuantiles
    number, price = schema.number(prepared.column), prepared.claims.zcdp()
    if price is None:
        raise RangeError(
            'learn="private" divides a price in rho, and this query has none: give it rho=, or give '
            "sl.PrivateHistograms(lower, upper, rho=...)"
        )
    if number.lower is None or number.upper is None:
        raise RangeError(
            'learn="private" puts its bins between the bounds of the column: declare lower and upper of '
            f"{number.name!r}, or give sl.PrivateHistograms(lower, upper, rho=...)"
        )
    private = published_learner("PrivateHistograms")
    found: Learner = private(float(number.lower), float(number.upper), rho=_GRADIENT_SHARE * price.rho)
    return found


def newest_day() -> datetime.date:
    """Return the newest day that has begun somewhere on earth, by this machine's clock."""
    return (datetime.datetime.now(datetime.UTC) + _FIRST_TIME_ZONE).date()


def read_day(day: datetime.date | str, *, begun: bool = True) -> datetime.date:
    """Return a day that has begun somewhere on earth, of a date or text such as "2026-11-15".

    A moment is refused: it lies in two days at once, by the time zone, and its records would be released twice for the
    price of one. A day that has not begun has no records; released by mistake, it would bar all days before it.
    """
    if isinstance(day, datetime.datetime):
        raise RangeError(
            f"day must be a date, got the moment {day}, which is another day in another time zone; write "
            'moment.date(), or "2026-11-15", in the one time zone that all days of the sequence follow'
        )
    if not isinstance(day, datetime.date):
        try:
            day = datetime.date.fromisoformat(day)
        except (TypeError, ValueError):
            raise RangeError(f'day must be a date such as "2026-11-15", got {day!r}') from None
    newest = newest_day()
    if begun and day > newest:
        raise RangeError(
            f"{day} has not begun: by this machine's clock it is {newest} in the first time zone. Correct the day, or "
            "the clock; nothing was spent, and days that were released stay in order"
        )
    return day
