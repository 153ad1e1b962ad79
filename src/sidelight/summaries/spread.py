"""`Variance` and `StandardDeviation` by group: the triple under pure noise, the free second moment under Gaussian."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np

from sidelight.errors import RangeError, explains_removed
from sidelight.noise import Source
from sidelight.predictions import is_prior
from sidelight.records import Schema, Table
from sidelight.records.expressions import Expression
from sidelight.records.numbers import LARGEST_FLOAT
from sidelight.session import Answer
from sidelight.summaries.measurement import PreparedMeasurement
from sidelight.summaries.moments import Floats, MeasuredGroups
from sidelight.summaries.of_number import OfNumber, number_of


@explains_removed
@dataclass(frozen=True)
class Variance(OfNumber):
    """Release the variance of a number, of all rows or by group, with mean and count.

    Count, mean and squares share one budget: three numbers that add up to one for each row (pure), or a second moment
    that costs nothing in addition to the mean (Gaussian).

    Guarantee: the price, for the schema's unit under adding or removing one; exact on the machine and whatever data and
    prediction are (summaries proof page, Theorems 4, 6, 7).

    Accuracy: `noise_sd`, to first order; `low` and `high` hold the variance of the clipped rows with the confidence:
    Fieller's interval for every mean that its own interval leaves (summaries proof page, section 6). Clipping takes
    more from a spread than from a mean; `notes` say where values were clipped.

    Args:
        column: The column, a derived number, or its text.
        by, where, epsilon, delta, rho, mu, max_groups, max_rows_per_group, confidence: As for `Mean`.
        prediction: Of the values: `sl.priors.Cauchy(40_000, 15_000)`, centre and spread, which helps to clip.
        clip, known: As for `Mean`.
        ddof: 1 divides by n - 1, 0 by n.

    >>> import sidelight as sl
    >>> table = sl.Table({"hours": [30.0, 50.0] * 2000}, schema=[sl.Number("hours", lower=0, upper=80)])
    >>> bool(80 < sl.Variance("hours", epsilon=1).release(table).value.variance < 120)
    True
    """

    column: str | Expression = field(compare=False)
    _: KW_ONLY
    ddof: int = 1
    kind: ClassVar[str] = "variance"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prediction is not None and not is_prior(self.prediction):
            raise RangeError(
                "a spread takes a prediction of the values, such as sl.priors.Cauchy(centre, spread), or none"
            )

    def prepare(self, schema: Schema) -> PreparedSpread:
        """Check the query against the schema, plan where to clip, and price it. Opens no data."""
        of = number_of(schema, self.column)
        plan = self._plan(schema, of, spread=True)
        return PreparedSpread(**self._shared(plan, ddof=str(self.ddof)), query=self)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSpread(PreparedMeasurement):
    """A `Variance` or `StandardDeviation` fitted to a schema."""

    query: Variance

    def run(self, table: Table, source: Source) -> Answer:
        """Choose the clipping interval, measure all groups, and make the table."""
        measured = self.plan.run(table, source)
        name = "sd" if isinstance(self.query, StandardDeviation) else "variance"
        columns: dict[str, Any] = spread_columns(measured, name, self.query.confidence, ddof=self.query.ddof)
        confidence = self.query.confidence
        means = measured.mean_ends(confidence)
        columns |= {"mean": measured.means, "mean_low": means.low, "mean_high": means.high}
        columns |= {**measured.counts, **measured.count_ends(confidence), "supported": measured.supported}
        columns |= measured.interval.columns
        return self.plan.answer(columns, measured.names, keys=self.query.keys, **measured.interval.notes)


def spread_columns(measured: MeasuredGroups, name: str, confidence: float, *, ddof: int = 1) -> dict[str, Floats]:
    """Return the columns of a variance or, by the name "sd", of a standard deviation."""
    estimate, noise = measured.moments.variances(ddof=ddof), measured.moments.variance_noise
    ends = measured.variance_ends(confidence, ddof=ddof)
    half = measured.half
    if name == "sd":
        root = np.sqrt(estimate)
        # to first order noise/(2 sd); where the variance is next to nothing, that of its root at one noise
        spread = np.sqrt(noise) / np.maximum(2 * root, np.sqrt(np.sqrt(noise)))
        values = (root, spread, np.sqrt(ends.low), np.sqrt(ends.high))
        return dict(zip(("sd", "noise_sd", "low", "high"), (half * each for each in values), strict=True))
    square = half * half
    values = (estimate, np.sqrt(noise), ends.low, ends.high)
    with np.errstate(over="ignore"):  # an interval is at most 2**501 wide, its noise may be any number of times that
        columns = [np.minimum(square * each, LARGEST_FLOAT) for each in values]
    return dict(zip((name, "noise_sd", "low", "high"), columns, strict=True))


@explains_removed
@dataclass(frozen=True)
class StandardDeviation(Variance):
    """Release the standard deviation of a number, of all rows or by group, with mean and count.

    The root of what `Variance` releases, in the unit of the column.

    Guarantee: the price, for the schema's unit under adding or removing one; exact on the machine and whatever data and
    prediction are (summaries proof page, Theorems 4, 6, 7).

    Accuracy: as for `Variance`.

    Args:
        column, prediction, clip, known: As for `Variance`.
        by, where, epsilon, delta, rho, mu, max_groups, max_rows_per_group, confidence: As for `Variance`.
        ddof: 1 divides by n - 1, 0 by n.

    >>> import sidelight as sl
    >>> table = sl.Table({"hours": [30.0, 50.0] * 2000}, schema=[sl.Number("hours", lower=0, upper=80)])
    >>> bool(9 < sl.StandardDeviation("hours", epsilon=1).release(table).value.sd < 11)
    True
    """

    kind: ClassVar[str] = "standard_deviation"
