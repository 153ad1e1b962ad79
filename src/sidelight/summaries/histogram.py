"""`Histogram`: how many persons or rows have a number in each of some public bins."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Literal

from sidelight.errors import RangeError, SchemaError
from sidelight.predictions import Prior, is_prior, own_prior
from sidelight.records import Number, Schema
from sidelight.records.expressions import Expression, col
from sidelight.session.query import SurePrepared
from sidelight.summaries.count import Count, prepare_counts, read_as
from sidelight.summaries.private_bins import USUAL_BINS, prepare_private_bins

_MOST_BINS = 100_000


@dataclass(frozen=True, kw_only=True)
class Histogram(Count):
    """Release a histogram of a number: the count of each bin, by group if asked.

    It is `sl.Count` by `sl.col(column).cut(bins)`, with the same table; rows whose number is missing are in no bin.

    Guarantee: the price, for adding or removing a row, or a person where the schema declares a `PersonId`.

    Accuracy: `noise_sd` in every bin, however many there are.

    Args:
        column: The number.
        bins: Increasing public edges, or how many bins of equal width between the declared bounds; "private", or
            ("private", 20), finds edges at quantiles of all rows for three tenths of the price, 10 bins if left out;
            `sl.priors.Cauchy(40_000, 15_000)`, or (that, 20), has edges at the quantiles of predicted values: bins of
            about equal counts if the prediction is right, for nothing.
        outside: What becomes of numbers beyond the first and last edge: "keep" has two end bins for them, "drop" has
            none. Bins of equal width reach from bound to bound and need neither.
        by: Further columns or derived labels: a histogram for each of their cells.
        where: A condition on declared columns that rows must pass: `sl.col("age") >= 18`, or its text.
        epsilon, delta, rho, mu: The price: exactly one of epsilon, epsilon with delta, rho, and mu.
        max_groups: In how many bins a person counts at most.
        max_rows_per_group: How many rows of a person count in one bin at most; only for rows.
        noise: "laplace" or "gaussian" to insist on one; "auto" takes the smaller.
        confidence: Of the intervals.
        prediction: What the counts are expected to be: a release, a frame or a mapping by bin, or `sl.Predicted`; or a
            list of several.
        of: "persons" counts everybody once in each bin, "rows" counts rows; persons where the schema has them.
        rollup: Stays False: add up `unbiased` counts of bins.
        known, prefer, leaf_weight: Stay as they are: bins are public.
        population: Whether intervals are for the population that rows are a sample of.
        per_cell_cap: So many standard deviations the prediction moves a cell at most, to defend each cell by itself.

    >>> import sidelight as sl
    >>> people = sl.Table(
    ...     {"age": [31, 47, 12] * 200}, schema=[sl.Number("age", lower=0, upper=100, granularity=1)]
    ... )
    >>> sl.Histogram("age", bins=[0, 18, 65, 100], outside="drop", epsilon=1).release(people).value["age"]
    ['[0, 18)', '[18, 65)', '[65, 100]']
    """

    column: str = field(kw_only=False)
    bins: int | str | Prior | Iterable[Any] = "private"
    outside: Literal["keep", "drop"] = "keep"
    kind_name: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.column, str):
            raise RangeError(
                "a histogram is asked of a column: sl.Histogram('age', bins=[0, 18, 65], epsilon=1); the prior of "
                "this name is sl.priors.Histogram(edges, weights)"
            )
        if self.rollup or self.known is not None or self.prefer != "labels":
            raise RangeError("a histogram has public bins and no totals: leave known, prefer and rollup out")
        if self.outside not in ("keep", "drop"):
            raise RangeError(f"outside must be 'keep' or 'drop', got {self.outside!r}")
        given: Any = (self.bins, USUAL_BINS) if is_prior(self.bins) else self.bins
        named = isinstance(given, str) and given == "private"
        if not named and (isinstance(given, (str, bool)) or not isinstance(given, (int, Iterable))):
            raise RangeError(
                f"bins is a list of increasing edges, a whole number of bins, or 'private', got {self.bins!r}"
            )
        if not isinstance(given, (int, str)):
            object.__setattr__(self, "bins", tuple(given))
        predicted = self._predicted_bins
        if predicted is not None and (isinstance(predicted[1], bool) or not isinstance(predicted[1], int)):
            raise RangeError(f"predicted bins are a whole number, (prior, 20), got {predicted[1]!r}")
        private = self.private_bins
        if private is not None and (isinstance(private, bool) or not isinstance(private, int)):
            raise RangeError(f"private bins are a whole number, ('private', 20), got {private!r}")

    @property
    def private_bins(self) -> int | None:
        """How many bins are found privately; None where they are public."""
        if isinstance(self.bins, str):
            return USUAL_BINS
        if isinstance(self.bins, tuple) and len(self.bins) == 2 and self.bins[0] == "private":
            found: int = self.bins[1]
            return found
        return None

    @property
    def _predicted_bins(self) -> tuple[Prior, int] | None:
        """Predicted values and how many bins are cut at their quantiles; None where bins are not predicted."""
        found: Any = self.bins
        if isinstance(found, tuple) and len(found) == 2 and is_prior(found[0]):
            return own_prior(found[0]), found[1]
        return None

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns of the table that comes out: the number is the last."""
        return (*super().keys, self.column)

    def prepare(self, schema: Schema) -> SurePrepared:
        """Check bins, groups, price and prediction against a schema; no row is read."""
        assert isinstance(self.by, tuple)
        if self.private_bins is not None:
            counted = self.counted(schema)
            return prepare_private_bins(
                self,
                schema,
                self.column,
                self.private_bins,
                self.reading(),
                kind=self.kind_name,
                counted=counted,
                **read_as(self.reading()),
            )
        shared = {each.name: getattr(self, each.name) for each in fields(Count)}
        count = Count(**{**shared, "by": (*self.by, self.cut(schema))})
        counted = self.counted(schema)
        groups = count.groups(schema, per_group=1 if counted == "persons" else None)
        if groups.label is not None:
            raise SchemaError(
                "a histogram by labels that nobody declared is not there; ask sl.Count with the bins in by"
            )
        edges = {"column": self.column, "bins": str(self.cut(schema))}
        return prepare_counts(self, groups, self.reading(), kind=self.kind_name, counted=counted, **edges)

    def cut(self, schema: Schema) -> Expression:
        """Return the bins as an expression: which of them a number lies in."""
        column = next((each for each in schema.columns if each.name == self.column), None)
        assert not isinstance(self.bins, str)
        bins: Any = self.bins
        if self._predicted_bins is not None:
            return col(self.column).cut(self._edges_of(schema, *self._predicted_bins), outside="keep")
        if not isinstance(self.bins, int):
            return col(self.column).cut(bins, outside=self.outside)
        if not 1 <= self.bins <= _MOST_BINS:
            raise RangeError(f"bins must be a whole number from 1 to {_MOST_BINS}, got {self.bins}")
        if not isinstance(column, Number) or column.lower is None or column.upper is None:
            raise SchemaError(
                f"{self.bins} bins of equal width need a number with both bounds declared, and {self.column!r} has "
                "none of the kind; give public edges: bins=[0, 18, 65], or bins='private'"
            )
        low, high = Fraction(column.lower), Fraction(column.upper)
        step = None if column.granularity is None else Fraction(column.granularity)
        edges = [low + (high - low) * place / self.bins for place in range(self.bins + 1)]
        if step is not None:  # on the grid of the numbers, ends as they are
            edges[1:-1] = [low + round((edge - low) / step) * step for edge in edges[1:-1]]
        if any(one >= other for one, other in pairwise(edges)):
            raise RangeError(f"{self.bins} bins are more than {self.column!r} has values; use fewer")
        return col(self.column).cut(edges, outside="drop")

    def _edges_of(self, schema: Schema, prior: Prior, bins: int) -> list[Fraction]:
        """Return the quantiles of predicted values within the declared bounds, on the grid of the column: public."""
        number = schema.number(self.column)
        if not 2 <= bins <= _MOST_BINS:
            raise RangeError(f"predicted bins are 2 to {_MOST_BINS}, got {bins}")
        low, high = (None if end is None else Fraction(end) for end in (number.lower, number.upper))
        ends = [-math.inf if low is None else float(low), math.inf if high is None else float(high)]
        levels = [place / bins for place in range(1, bins)]
        found = [float(prior.inverse_in(ends[0], ends[1], level)) for level in levels]
        if not all(map(math.isfinite, found)):
            raise RangeError("the predicted values have quantiles beyond all numbers; give public edges instead")
        edges = [Fraction(repr(value)) for value in found]
        if number.granularity is not None:
            step = Fraction(number.granularity)
            edges = [round(edge / step) * step for edge in edges]
        kept = sorted({edge for edge in edges if (low is None or low < edge) and (high is None or edge < high)})
        if not kept:
            raise RangeError("the predicted values leave one bin only; give public edges, or predict a wider spread")
        return kept
