"""What a sequence is: the query of every day, the schema, the learner and what is assumed about people; all public."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from sidelight.accounting import dearest_path
from sidelight.errors import RangeError
from sidelight.guarantees import Claims
from sidelight.predictions import Origin, Prior
from sidelight.quantiles.prepared import PreparedQuantiles
from sidelight.quantiles.query import Quantiles
from sidelight.quantiles.sequence.previous import LastRelease, PubPrev
from sidelight.quantiles.sequence.private import GradientPlan, LearnedHistograms, PrivateHistograms
from sidelight.quantiles.sequence.proximate import CocobMap, PubProx, RegressionMap
from sidelight.quantiles.sequence.start import Floats
from sidelight.records import Number, Schema
from sidelight.session import request_key

Learner = PubPrev | PubProx | PrivateHistograms
Learned = LastRelease | RegressionMap | CocobMap | LearnedHistograms

#: Where neither the schema nor the query says how fine values are: this share of the learner's first scale.
_FINEST_SHARE: Final = 1e-8
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
        if not isinstance(self.learner, (PubPrev, PubProx, PrivateHistograms)):
            raise RangeError(
                "learner must be PubPrev(...), PubProx(...) or PrivateHistograms(...), "
                f"got {type(self.learner).__name__}"
            )
        if self.query.prediction is not None:
            raise RangeError(
                "a sequence predicts by itself: leave prediction out of the query, tell the learner instead"
            )
        if self.query.by or self.query.where is not None:
            raise RangeError(
                "a sequence releases quantiles of all rows of a day: leave by and where out of its query. A filtered "
                "table, or a session a day with Quantiles(by=...), releases those of groups"
            )
        days = self.days_per_person
        if days is not None and (isinstance(days, bool) or not isinstance(days, int) or days < 1):
            raise RangeError(f"days_per_person must be a whole number of at least 1, or left out, got {days!r}")
        self.begin()  # guesses that do not fit the levels are found now
        _ = self.claims

    @cached_property
    def bare(self) -> PreparedQuantiles:
        """The query without a prediction, fitted to the schema."""
        prepared = self.query.prepare(self.schema)
        assert type(prepared) is PreparedQuantiles  # days have no groups, and those of groups are a subclass
        return prepared

    @cached_property
    def gradients(self) -> GradientPlan | None:
        """The private gradients of a learner that looks at records; None where learning is free."""
        if not isinstance(self.learner, PrivateHistograms):
            return None
        plan = GradientPlan(
            learner=self.learner,
            tree=self.bare.tree,
            grid=self.bare.grid,
            score=self.bare.score,
            unit=self.schema.unit,
            rows_per_unit=self.schema.rows_per_unit,
            days_per_person=self.days_per_person,
        )
        _ = plan.sums, plan.points  # public work, done now
        return plan

    @cached_property
    def claims(self) -> Claims:
        """The price of a day for someone in it: its quantiles, and its gradient where there is one."""
        if self.gradients is None:
            return self.bare.claims
        return dearest_path([[self.bare.claims, self.gradients.claims]])

    @cached_property
    def digest(self) -> str:
        """A name for everything that must stay the same from day to day."""
        content = {
            "query": {key: value for key, value in self.bare.request.items() if key not in ("priors", "grid")},
            "resolution": str(self.query.resolution),
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
        declared = self.number.granularity if self.number.granularity is not None else self.query.resolution
        if declared is not None:
            return float(declared)
        scale = self.learner.scale
        return _FINEST_SHARE * (min(scale) if isinstance(scale, tuple) else scale)

    def begin(self) -> Learned:
        """Return the learner before the first day."""
        return self.learner.begin(self.levels, granularity=self.granularity)

    def read(self, written: Any) -> Learned:
        """Read a stored learner."""
        return self.learner.read(written, self.levels, granularity=self.granularity)

    def priors(self, learned: Learned, features: Floats, origin: Origin) -> tuple[Prior, ...]:
        """Return the prediction for a day: a function of past releases and public numbers."""
        lower = self.number.lower
        nonnegative = lower is not None and lower >= 0
        if isinstance(learned, LearnedHistograms):
            assert isinstance(self.learner, PrivateHistograms)
            return self.learner.priors(learned, origin=origin, nonnegative=nonnegative)
        location, scale = learned.predict(features)
        return self.learner.start.priors(location, scale, origin=origin, nonnegative=nonnegative)

    def with_prediction(self, priors: tuple[Prior, ...]) -> Quantiles:
        """Return the query of a day."""
        return replace(self.query, prediction=priors)

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
        return numbers

    def key(self, day: datetime.date) -> str:
        """Name the entry of a day in the ledger."""
        return request_key("sequence", self.digest, day.isoformat())


def read_day(day: datetime.date | str) -> datetime.date:
    """Return a day that has begun somewhere on earth, of a date or text such as "2026-11-15".

    A moment is refused: it lies in two days at once, by the time zone, and its records would be released twice for the
    price of one. A day that has not begun has no records; released by a slip of the pen, it would bar all days before
    it.
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
    newest = (datetime.datetime.now(datetime.UTC) + _FIRST_TIME_ZONE).date()
    if day > newest:
        raise RangeError(
            f"{day} has not begun: by this machine's clock it is {newest} in the first time zone. Correct the day, or "
            "the clock; nothing was spent, and days that were released stay in order"
        )
    return day
