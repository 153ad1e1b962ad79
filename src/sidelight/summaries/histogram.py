"""`Histogram`: how many persons or rows have a number in each of some bins, public or found privately."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from typing import Any, ClassVar, Literal

from sidelight.aggregates.collect_ranks import collect_ranks
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.errors import RangeError, SchemaError, explains_removed
from sidelight.grid import Outcomes
from sidelight.guarantees import Claims, Person, Row
from sidelight.guarantees.amounts import own_int
from sidelight.mechanisms.additive import in_int64
from sidelight.mechanisms.budget import Budget, together
from sidelight.noise import Source
from sidelight.predictions import Prior, is_prior, own_prior
from sidelight.predictions.compiled import CompiledPrior
from sidelight.quantiles.descend import descend
from sidelight.quantiles.outcomes import default_prior, outcome_grid
from sidelight.quantiles.tree import QuantileTree, quantile_tree
from sidelight.records import Number, Schema, Table
from sidelight.records.expressions import Expression, col
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count import CountingQuery, prepare_counts
from sidelight.summaries.count_tables import CountReading, bounded_counts, table_of
from sidelight.summaries.grouped import Grouped, group_labels
from sidelight.summaries.measurement import mu_of
from sidelight.summaries.noise_choice import IntegerNoise, check_noise, choose_noise

#: How many bins there are by default.
_USUAL_BINS = 10
_MOST_BINS = 100_000
_MOST_PRIVATE_BINS = 1000
#: The share of the budget for private edges.
_EDGES_SHARE = Fraction(3, 10)


@explains_removed
@dataclass(frozen=True, kw_only=True)
class Histogram(CountingQuery):
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
        where, epsilon, delta, rho, mu, confidence, of: As for `Count`.
        max_groups: In how many bins a person counts at most.
        max_rows_per_group: How many rows of a person count in one bin at most; only for rows.
        prediction: What the counts are expected to be: a release, a frame or a mapping by bin, or `sl.Predicted`; or a
            list of several.

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
        object.__setattr__(self, "bins", own_int(self.bins))
        given: Any = (self.bins, _USUAL_BINS) if is_prior(self.bins) else self.bins
        named = isinstance(given, str) and given == "private"
        if not named and (isinstance(given, (str, bool)) or not isinstance(given, (int, Iterable))):
            raise RangeError(
                f"bins is a list of increasing edges, a whole number of bins, or 'private', got {self.bins!r}"
            )
        if not isinstance(given, (int, str)):
            object.__setattr__(self, "bins", _of_own_ints(tuple(given)))
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
            return _USUAL_BINS
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
        if self.private_bins is not None:
            counted, bins = self.counted(schema), self.private_bins
            return prepare_private_bins(
                self, schema, self.column, bins, self.reading(), kind=self.kind_name, counted=counted
            )
        count = self._count_by(*self.axes, self.cut(schema))
        counted = self.counted(schema)
        groups = count.groups(schema, per_group=1 if counted == "persons" else None)
        if groups.label is not None:
            raise SchemaError("a histogram by undeclared labels is not supported; ask sl.Count with the bins in by")
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


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedPrivateBins(SurePrepared):
    """A histogram with private bins: edges at quantiles of all rows, then counts between the released edges.

    Three tenths of the price find edges, the rest counts. Given the edges the bins are public, so both parts add up;
    how far a unit moves the counts does not depend on where the edges lie (summaries proof page, section 2).
    """

    query: Grouped
    schema: Schema
    column: str
    everybody: Groups  # the rows that count, in any bin
    tree: QuantileTree  # of the edges, like grid and prior
    grid: Outcomes
    prior: CompiledPrior
    noise: IntegerNoise
    reading: CountReading
    counted: str
    per_group: int | None  # rows of a person that count in a bin

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return self.everybody.label is None

    def run(self, table: Table, source: Source) -> Answer:
        """Find the edges, count between them, and make the table. Nothing about the rows raises."""
        ranks = collect_ranks(table, self.column, self.grid, source, groups=self.everybody)
        found = [self.grid.value(index) for index in descend(self.tree, ranks, priors=self.prior, source=source)]
        # the shortest decimals of released numbers; equal ones are one edge
        edges = sorted({Fraction(repr(float(value))) for value in found})
        groups = _bins_of(self.query, self.schema, self.column, edges, self.per_group)
        exact = group_counts(table, groups, norm=self.noise.norm)
        noisy = in_int64(self.noise.on(exact).release(source)).reshape(-1)
        cells = tuple(product(*groups.keys))
        columns = self.reading.columns(noisy, cells, self.noise, source)
        value = table_of(self.query.keys, cells, columns, of=self.counted, **groups.notes)
        return Answer(value=value, labels=group_labels(cells, "count"))


def prepare_private_bins(
    query: Grouped, schema: Schema, column: str, bins: int, reading: CountReading, *, kind: str, counted: str
) -> PreparedPrivateBins:
    """Share the price between edges and counts, and fix noise and claims; public numbers only."""
    if not 2 <= bins <= _MOST_PRIVATE_BINS:
        raise RangeError(f"private bins are 2 to {_MOST_PRIVATE_BINS}, got {bins}")
    if reading.prediction is not None:
        raise RangeError("a prediction of bins needs bins that are known: give public edges, or leave it out")
    number = schema.number(column)
    per_group = 1 if counted == "persons" else query.max_rows_per_group
    groups = _bins_of(query, schema, column, [Fraction(place) for place in range(bins - 1)], per_group)
    if groups.label is not None:
        raise SchemaError("private bins by undeclared labels are not supported; declare them as a Category")
    everybody = groups_of(schema, where=query.condition, max_groups=1, max_rows_per_group=schema.rows_per_unit)
    whole = choose_noise(groups.norms, **query.price)
    budget = Budget.of(**query.price)
    if whole.kind == "laplace":
        assert whole.epsilon is not None
        budget = Budget("epsilon", whole.epsilon)
    noise = check_noise(whole.part(1 - _EDGES_SHARE, groups.norms))
    levels = [Fraction(place, bins) for place in range(1, bins)]
    tree, claims = _edges_tree(levels, budget.part(_EDGES_SHARE), everybody)
    grid = outcome_grid(number)
    return PreparedPrivateBins(
        claims=together([(1, claims), (1, noise.on(bounded_counts(groups, noise)).claims)]),
        request=query.request(kind, of=counted, column=column, bins=f"private {bins}", **reading.request),
        query=query,
        schema=schema,
        column=column,
        everybody=everybody,
        tree=tree,
        grid=grid,
        prior=default_prior(number).compile(grid),
        noise=noise,
        reading=reading,
        counted=counted,
        per_group=per_group,
    )


def _bins_of(query: Grouped, schema: Schema, column: str, edges: list[Fraction], per_group: int | None) -> Groups:
    """Return the groups of a query with the bins between these edges as the last axis."""
    return groups_of(
        schema,
        by=(*query.axes, col(column).cut(edges)),
        where=query.condition,
        max_groups=query.max_groups,
        max_rows_per_group=per_group,
    )


def _edges_tree(levels: list[Fraction], budget: Budget, groups: Groups) -> tuple[QuantileTree, Claims]:
    """Return the tree of the edges that a budget buys, and what it costs: all rows of a unit lie in one tree."""
    person = groups.schema.person
    unit = Row() if person is None else Person(person.name, groups.norms.total)

    def tree_of(epsilon: Fraction) -> QuantileTree:
        return quantile_tree(levels, epsilon=epsilon, unit=unit)

    if budget.is_pure:
        tree = tree_of(budget.amount)
        return tree, tree.claims.with_unit(groups.unit)
    # the largest epsilon of a tree whose proven zCDP or GDP is within the budget
    low, high = Fraction(0), Fraction(64)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(tree_of(middle).claims, budget) else (low, middle)
    if low == 0:
        raise RangeError("this price is too small to find bins; give public edges, or pay more")
    tree = tree_of(low)
    return tree, tree.claims.with_unit(groups.unit)


def _within(claims: Claims, budget: Budget) -> bool:
    if budget.kind == "rho":
        zcdp = claims.zcdp()
        return zcdp is not None and zcdp.rho <= budget.amount
    gdp = claims.gdp()
    return gdp is not None and gdp.mu <= mu_of(budget)


def _of_own_ints(bins: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return bins that are counted, as in ("private", 20), with an int; edges as they are."""
    counted = len(bins) == 2 and (is_prior(bins[0]) or (isinstance(bins[0], str) and bins[0] == "private"))
    return (bins[0], own_int(bins[1])) if counted else bins
