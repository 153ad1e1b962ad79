"""`Mean` and `Proportion`: one budget for count and mean together, by group, better with what is known."""

from __future__ import annotations

import json
import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np

from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount
from sidelight.noise import Source
from sidelight.predictions import Prior, describe
from sidelight.records import Schema, Table
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression, Named
from sidelight.records.shapes import Truths
from sidelight.session import Answer
from sidelight.session.query import SurePrepared
from sidelight.summaries.clipping import Centre, Clip, clipping_of, subject_of
from sidelight.summaries.count_tables import group_labels
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.label_selection import known_described, known_digest
from sidelight.summaries.measured import (
    UNIT,
    Measured,
    Measurement,
    check_prediction,
    labels_and_budget,
)
from sidelight.summaries.predicted import PredictedTable, read_prediction
from sidelight.summaries.ratio import Floats, deviation_of, residuals
from sidelight.summaries.shrink import (
    Pulled,
    noisy_prediction,
    of_the_others,
    outside_weights,
    pull_means,
    shrink_each,
)

#: Fewer groups than this are not drawn to one another.
_LEAST_GROUPS = 3
#: The doubt of someone who knows nothing, in units of half the width: larger ones change nothing.
_NO_IDEA = 1e3


@dataclass(frozen=True, kw_only=True)
class OfNumber(Grouped):
    """What statistics of one number are asked with beside groups and price; see `Mean`."""

    clip: Clip = "auto"
    centre: Centre = "auto"
    expected_rows: float | None = None
    location_share: Amount | None = None
    known: Any = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = ""

    def _plan(self, schema: Schema, of: str | Expression, *, spread: bool = False) -> Measurement:
        """Return what is measured how, against a schema. Reads no row."""
        groups = self.groups(schema)
        labels, budget = labels_and_budget(self, schema, groups, self.known)
        clipping = clipping_of(
            subject_of(schema, of),
            groups,
            budget,
            clip=tuple(self.clip) if isinstance(self.clip, list) else self.clip,
            values=self.prediction if isinstance(self.prediction, Prior) else None,
            centre=self.centre,
            expected_rows=self.expected_rows,
            location_share=self.location_share,
        )
        return Measurement(groups=groups, of=of, clipping=clipping, spread=spread, labels=labels)

    def asked(self, plan: Measurement, table: PredictedTable | None = None, **more: Any) -> dict[str, Any]:
        """Return what the ledger says was asked of the number: no two different queries the same."""
        digest = None if table is None else table.description["sha256"]
        if isinstance(self.prediction, Prior):
            digest = json.dumps(self.prediction.to_json(), sort_keys=True)
        clip = self.clip if isinstance(self.clip, str) else [str(end) for end in self.clip]
        return self.request(
            self.kind,
            column=str(plan.of),
            clip=clip,
            centre=self.centre,
            expected_rows=self.expected_rows,
            location_share=self.location_share,
            law=plan.law,
            prediction=digest,
            known=None if plan.labels is None else known_digest(plan.labels.selection),
            **more,
        )

    def _described(self, table: PredictedTable | None) -> dict[str, Any] | None:
        """Return what a release says of the prediction."""
        found = None if table is None else table.description
        if isinstance(self.prediction, Prior):
            prior = self.prediction
            found = {"description": describe(prior), "priors": [prior.to_json()], "origin": prior.origin.to_json()}
        return known_described(self.known, found)


@dataclass(frozen=True)
class Mean(OfNumber):
    """Release the mean of a number, of all rows or by group, with its count.

    Count and sum share the budget by a partition of unity: 0.71 of the error of the usual split of epsilon.
    Without declared bounds an interval is found privately (about 1000/epsilon rows are needed, 3000 far from 0, unless
    the values are predicted). Group means are drawn to a prediction or else to the released overall mean; `mean_plain`
    is what was measured, and `low`, `high` belong to it.

    Guarantee: the price, for the schema's unit under adding or removing one; exact on the machine and whatever data and
    prediction are (summaries proof page, Theorems 2, 3, 4).

    Accuracy: `noise_sd` in the table; `low` and `high` hold the mean of the clipped rows with the confidence, exactly
    for the noise. Clipping itself is not in them: `notes` say where values were clipped.

    Args:
        column: The column, a derived number, or its text: "income", `sl.col("price") * sl.col("pieces")`.
        by: Columns or derived labels whose cells are the groups: "job", ["job", "sex"], `sl.col("age").cut([18, 65])`.
        where: A condition on declared columns that rows must pass: `sl.col("age") >= 18`, or its text.
        epsilon, delta, rho, mu: The price: exactly one of epsilon, epsilon with delta, rho, and mu.
        max_groups: In how many groups a person counts at most.
        max_rows_per_group: How many rows of a person count in one group at most.
        noise: "laplace" or "gaussian" to insist on one; "auto" takes the smaller.
        confidence: Of the intervals.
        prediction: A predicted mean for each group (a release, a frame, a mapping, `sl.Predicted`), or of the values
            themselves: `sl.priors.Cauchy(40_000, 15_000)`, centre and spread, which helps to clip. A column
            `noise_sd`, which releases have, says how noisy each predicted mean is itself (of a sample: its standard
            error).
        clip: "auto" clips at declared bounds if there are two and values are not predicted; "private" finds an
            interval; "declared" insists on bounds; (lower, upper) is a public interval.
        centre: "predicted" takes the centre of the predicted values as it is; "private" measures it; "auto" decides.
        expected_rows: How many rows are expected, a public guess: with few of them "auto" trusts the predicted centre.
        location_share: The share of the price that finds the centre; 1/4 helps where rows are few.
        pull: Whether group means are drawn to the prediction or the overall mean.
        population: Whether intervals are for the population that rows are a sample of: wider by the sampling error.
        known: Of groups by a `sl.Label`: labels that are public, or an earlier release that published them. Others
            need epsilon with delta, and appear above a threshold on persons that takes a third of the price.
        per_cell_cap: So many standard deviations of its noise a group's sum is drawn at most, to defend each group by
            itself: no group's error then grows by more than √(1 + cap²).

    >>> import sidelight as sl
    >>> people = sl.Table(
    ...     {"job": ["cook", "nurse"] * 500, "hours": [38, 42] * 500},
    ...     schema=[sl.Category("job", ["cook", "nurse"], other=None), sl.Number("hours", lower=0, upper=80)],
    ... )
    >>> table = sl.Mean("hours", by="job", epsilon=1).release(people).value
    >>> bool(abs(table.row("nurse")["mean"] - 42) < 5)
    True
    """

    column: str | Expression = field(compare=False)
    _: KW_ONLY
    pull: bool = True
    population: bool = False
    per_cell_cap: float | None = None
    kind: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.column, (str, Expression)):
            raise SchemaError(
                f"{self.kind} takes the name of a column or an expression, got {type(self.column).__name__}"
            )
        if self.per_cell_cap is not None and not 0 < self.per_cell_cap < math.inf:
            raise RangeError(f"per_cell_cap must be a number above 0, got {self.per_cell_cap}; 1 is usual")

    def prepare(self, schema: Schema) -> PreparedMean:
        """Check the query against the schema, plan where to clip, and price it. Opens no data."""
        return self._prepared(schema, number_of(schema, self.column))

    def _prepared(self, schema: Schema, of: str | Expression) -> PreparedMean:
        plan = self._plan(schema, of, spread=self.population)
        table = None
        if not isinstance(self.prediction, Prior):
            table = read_prediction(self.prediction, keys=self.keys, names=(f"{self.kind}_plain", self.kind))
        check_prediction(table, plan)
        stated = table is None or table.relative is not None or table.sd is not None
        if not stated and not plan.finds and len(plan.known) < _LEAST_GROUPS:
            raise RangeError(
                f"how far may the prediction be off? With fewer than {_LEAST_GROUPS} groups nobody can learn it; "
                "write sl.Predicted(..., doubt=0.1), or predict the values: sl.priors.Cauchy(centre, spread)"
            )
        return PreparedMean(
            claims=plan.claims,
            request=self.asked(plan, table, pull=self.pull, population=self.population, per_cell_cap=self.per_cell_cap),
            labels=group_labels(plan.known, self.kind),
            prediction=self._described(table),
            query=self,
            plan=plan,
            table=table,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMean(SurePrepared):
    """A `Mean` or `Proportion` fitted to a schema."""

    query: Mean
    plan: Measurement
    table: PredictedTable | None

    def run(self, table: Table, source: Source) -> Answer:
        """Find where to clip, read all groups, and make the table."""
        measured = self.plan.run(table, source)
        return self.plan.answer(self.columns(measured), measured.names, keys=self.query.keys, **measured.interval.notes)

    def columns(self, measured: Measured) -> dict[str, Any]:
        """Return the columns of a reading."""
        query, name = self.query, self.query.kind
        ends = measured.mean_ends(query.confidence, population=query.population)
        columns: dict[str, Any] = {name: measured.number(measured.taus)}
        drawn = self._drawn(measured) if query.pull else None
        if drawn is not None:
            columns = {name: measured.number(drawn), f"{name}_plain": columns[name]}
        columns |= {"noise_sd": measured.noise_sd, "low": ends.low, "high": ends.high}
        columns |= measured.counts
        if measured.moments.squares is not None and name == "mean":
            columns["sd"] = measured.half * deviation_of(measured.moments, UNIT)
        columns["supported"] = measured.supported
        return columns

    def _drawn(self, measured: Measured) -> Floats | None:
        """Return group means of t drawn to the prediction, else to the overall mean; None where there is neither."""
        groups = measured.names
        prediction = np.full(len(groups), measured.overall)
        doubt = np.full(len(groups), np.nan)
        if self.table is not None:
            matched = self.table.on(groups)
            known = np.isfinite(matched.values)
            told = np.where(known, measured.unit(np.where(known, matched.values, 0.0)), np.nan)
            with np.errstate(over="ignore"):  # a doubt beyond all measure is that of someone who knows nothing
                if matched.relative is not None:
                    doubt = self._doubt(measured, matched.relative * np.abs(matched.values), known)
                elif self.table.sd is not None:
                    doubt = self._doubt(measured, np.full(len(groups), self.table.sd), known)
                elif np.isfinite(matched.sds).any() and self.query.per_cell_cap is None:
                    noise = self._doubt(measured, np.where(np.isfinite(matched.sds), matched.sds, 0.0), known)
                    told, doubt = self._denoised(measured, told, np.where(known, noise, 0.0))
            prediction = np.where(known, told, prediction)
        elif len(groups) < _LEAST_GROUPS:
            return measured.taus if self.plan.finds else None
        if not groups:
            return measured.taus
        if self.query.per_cell_cap is not None:
            return self._drawn_each(measured, None if self.table is None else prediction, self.query.per_cell_cap)
        if len(groups) < _LEAST_GROUPS:
            doubt = np.where(np.isnan(doubt), _NO_IDEA**2, doubt)  # nothing was said of this one: as measured
        return self._pulled(measured, prediction, doubt=doubt).means

    def _doubt(self, measured: Measured, sds: Floats, known: Any) -> Floats:
        """Return variances of t from standard deviations of the number; NaN where nothing is predicted."""
        return np.where(known, np.minimum(sds / measured.half, _NO_IDEA) ** 2, np.nan)

    def _denoised(self, measured: Measured, told: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return a prediction that has noise of its own drawn to the overall mean, and how far groups lie from it.

        A small group of an earlier release, or of a sample, is mostly noise: taken as it is it would be worse than
        nothing.
        """
        overall = np.full(len(told), measured.overall)
        scatter = self._pulled(measured, overall).spread
        # where nothing is predicted the overall mean stands in, around which groups scatter: no sign of drift
        stands_in = np.where(np.isfinite(told), told, overall)
        own = np.where(np.isfinite(told), noise, scatter)
        drift = self._pulled(measured, stands_in, noise=own).spread
        return noisy_prediction(told, noise, drift=drift, overall=measured.overall, scatter=scatter)

    def _pulled(self, measured: Measured, prediction: Floats, **more: Any) -> Pulled:
        r, v = residuals(measured.moments, UNIT, prediction)
        return pull_means(r, v, measured.moments.count, prediction, lower=-1.0, upper=1.0, **more)

    def _drawn_each(self, measured: Measured, prediction: Floats | None, cap: float) -> Floats:
        """Return group means of t, each drawn by a weight and to a mean without its own noise (Theorem 9)."""
        moments = measured.moments
        others = np.clip(of_the_others(moments.total) / np.maximum(of_the_others(moments.count), 1.0), -1.0, 1.0)
        if prediction is not None and self.table is not None:
            known = np.isfinite(self.table.on(measured.names).values)
            others = np.where(known, prediction, others)
        r, v = residuals(moments, UNIT, others)
        weights = outside_weights(r, v, moments.count, width=UNIT.width)
        drawn = shrink_each(r, 0.0, variance=v, cap=cap, weights=weights)
        return np.clip(others + drawn / np.maximum(moments.count, 1.0), -1.0, 1.0)


@dataclass(frozen=True)
class Proportion(Mean):
    """Release the share of rows that a condition is true of, of all rows or by group, with their count.

    The pair is (yes, no). A row of which the condition is unknown, because something is missing, counts in neither.

    Guarantee: the price, for the schema's unit under adding or removing one; exact on the machine and whatever data and
    prediction are (summaries proof page, Theorems 2 and 3).

    Accuracy: `low` and `high` hold the proportion in the table with the confidence, exactly for the noise.

    Args:
        column: The condition, or its text: `sl.col("smoker") == "yes"`.
        by: Columns or derived labels whose cells are the groups.
        where: A condition on declared columns that rows must pass to count at all.
        epsilon, delta, rho, mu: The price: exactly one of epsilon, epsilon with delta, rho, and mu.
        max_groups: In how many groups a person counts at most.
        max_rows_per_group: How many rows of a person count in one group at most.
        noise: "laplace" or "gaussian" to insist on one; "auto" takes the smaller.
        confidence: Of the intervals.
        prediction: A predicted proportion for each group: a release, a frame, a mapping, `sl.Predicted`.
        clip, centre, expected_rows, location_share: Idle: a proportion lies in 0..1.
        known: Of groups by a `sl.Label`: labels that are public, as for `Mean`.
        pull: Whether proportions are drawn to the prediction or the overall one.
        population: Whether intervals are for the population that rows are a sample of.
        per_cell_cap: So many standard deviations of its noise a group is drawn at most.

    >>> import sidelight as sl
    >>> people = sl.Table({"age": list(range(20, 80)) * 50}, schema=[sl.Number("age", granularity=1)])
    >>> share = sl.Proportion(sl.col("age") >= 65, epsilon=1).release(people).value.proportion
    >>> bool(0.2 < share < 0.3)
    True
    """

    kind: ClassVar[str] = "proportion"

    def prepare(self, schema: Schema) -> PreparedMean:
        """Check the condition against the schema and price it. Opens no data."""
        condition = parse_expression(self.column) if isinstance(self.column, str) else self.column
        if not isinstance(condition.check(schema), Truths):
            raise SchemaError(f"a proportion is of a condition, and {condition} is none; compare it with something")
        if isinstance(self.prediction, Prior):
            raise RangeError("a proportion is predicted by numbers of 0..1, one a group, not by a prior of values")
        if self.clip != "auto":
            raise RangeError("a proportion lies in 0..1; leave clip out")
        return self._prepared(schema, condition)


def number_of(schema: Schema, column: str | Expression) -> str | Expression:
    """Return the name of a declared column, or the expression that a text is."""
    if isinstance(column, Named):
        return column.name
    if isinstance(column, str) and column not in {each.name for each in schema.columns}:
        try:
            parsed = parse_expression(column)
        except Exception:
            schema.number(column)
            raise
        return parsed.name if isinstance(parsed, Named) else parsed
    return column
