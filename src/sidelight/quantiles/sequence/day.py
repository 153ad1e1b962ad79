"""One day of a sequence as a query: selected, counted, or selected and learned from; what the ledger records of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sidelight.accounting import worst_case_branch
from sidelight.noise import Source
from sidelight.predictions import Origin
from sidelight.quantiles.prepared import PreparedQuantiles
from sidelight.quantiles.query import Quantiles
from sidelight.quantiles.sequence.curve import CurveState
from sidelight.quantiles.sequence.plan import Learned, SequencePlan
from sidelight.quantiles.sequence.recursive_regression import Floats
from sidelight.quantiles.sequence.tracked import CountedDay, TrackPlan
from sidelight.records import Schema, Table
from sidelight.release import TailBound
from sidelight.session.query import Answer, SurePrepared


@dataclass(frozen=True, kw_only=True)
class DayQuery:
    """The quantiles of one day: the query with its prediction, and what the ledger records of the day."""

    query: Quantiles  # what is selected; of a day that is counted, what is asked for
    about: Mapping[str, Any]  # the day
    step: Any | None = None  # the gradient of a learner that looks at records
    counted: CountedDay | None = None  # the cells of a day that is counted
    curve: TrackPlan | None = None  # the curve that the query asks for, of which the levels are a part
    origin: Origin | None = None  # where the cells come from

    def prepare(self, schema: Schema) -> PreparedDay:
        """Fit the query to the schema; the request names the day."""
        quantiles = self.query.prepare(schema)
        assert type(quantiles) is PreparedQuantiles  # days have no groups
        request = {**quantiles.request, "sequence": dict(self.about)}
        claims, prediction, labels, error = (
            quantiles.claims,
            quantiles.prediction,
            quantiles.labels,
            quantiles.error,
        )
        if self.step is not None:
            plan = self.step.plan
            request |= {"kind": "learned_quantiles", "learner": plan.learner.to_json()}
            claims = worst_case_branch([[claims, plan.claims]])
        if self.curve is not None:
            labels = tuple(labels[place] for place in self.curve.asked)
            error = _bound_of(error, self.curve)
            asked = [request["levels"][place] for place in self.curve.asked]
            request |= {"levels": asked, "curve_levels": request["levels"]}
        if self.counted is not None:
            assert self.origin is not None
            unused = ("priors", "branching", "budget_power", "adaptation", "score", "form")
            request = {key: value for key, value in request.items() if key not in unused}
            edges = [repr(float(edge)) for edge in self.counted.edges]
            request |= {"kind": "counted_quantiles", "edges": edges}
            claims, error = self.counted.plan.claims, None
            prediction = {
                "description": f"{len(edges) + 1} cells, cut where earlier days expect the quantiles ({self.origin})",
                "edges": edges,
                "origin": self.origin.to_json(),
            }
        return PreparedDay(
            claims=claims,
            request=request,
            labels=labels,
            prediction=prediction,
            error=error,
            quantiles=quantiles,
            step=self.step,
            counted=self.counted,
            curve=self.curve,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDay(SurePrepared):
    """A prepared day: the quantiles, with the day in the request; a private learner's gradient, or counts."""

    quantiles: PreparedQuantiles
    step: Any | None
    counted: CountedDay | None
    curve: TrackPlan | None

    def run(self, table: Table, source: Source) -> Answer:
        """Release the quantiles, and learn; the only place that touches the day's records."""
        ranks = self.quantiles.ranks(table, source)
        if self.counted is not None:
            return self.counted.take(ranks, source)
        answer = self.quantiles.answer(ranks, source)
        if self.curve is not None:
            found = np.asarray(answer.value, np.float64)
            details = {**(answer.details or {}), "curve": [float(value).hex() for value in found]}
            error = _bound_of(answer.error, self.curve)
            return replace(answer, value=found[list(self.curve.asked)], details=details, error=error)
        if self.step is None:
            return answer
        return replace(answer, value={"quantiles": answer.value, **self.step.take(ranks, source)})


def _bound_of(error: TailBound | None, curve: TrackPlan) -> TailBound | None:
    """Return the bound of the levels that were asked for, of that of the whole curve."""
    if error is None:
        return None

    def asked(numbers: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(numbers[place] for place in curve.asked)

    return error.changed(lambda fixed, per_log: (asked(fixed), asked(per_log)))


def query_of_day(
    plan: SequencePlan,
    learned: Learned,
    features: Floats,
    *,
    about: Mapping[str, Any],
    origin: Origin,
    step: Any | None = None,
) -> DayQuery:
    """Return the query of a day: a function of released numbers, public features and public parameters."""
    tracking = plan.tracking
    if tracking is None or not isinstance(learned, CurveState):
        return DayQuery(query=plan.with_prediction(plan.priors(learned, features, origin)), about=about, step=step)
    found = tracking.points(learned, features)
    if found is not None:
        points, below = found
        counted = CountedDay(
            plan=tracking,
            state=learned,
            features=features,
            points=points,
            below=below,
            edges=tracking.edges_of(points),
        )
        return DayQuery(query=plan.query, about=about, counted=counted, origin=origin)
    priors = plan.priors(learned, features, origin)
    if learned.lost and tracking.has_more_knots:
        return DayQuery(query=plan.of_curve(priors), about=about, curve=tracking)
    return DayQuery(query=plan.with_prediction(priors), about=about)
