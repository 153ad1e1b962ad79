"""Histograms whose bins are found privately: edges at quantiles of all rows, then counts between the released edges.

Three tenths of the price find edges, the rest counts. Given the edges the bins are public, so both parts add up; how
far a unit moves the counts does not depend on where the edges lie (summaries proof page, section 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sidelight.aggregates.collect_ranks import collect_ranks
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import Outcomes
from sidelight.guarantees import Claims, Person, Row
from sidelight.mechanisms.additive import in_int64
from sidelight.mechanisms.budget import Budget, together
from sidelight.noise import Source
from sidelight.predictions.compiled import CompiledPrior
from sidelight.quantiles.descend import descend
from sidelight.quantiles.outcomes import default_prior, outcome_grid
from sidelight.quantiles.tree import QuantileTree, quantile_tree
from sidelight.records import Schema, Table
from sidelight.records.expressions import Expression, col
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count_tables import Reading, check_noise, group_labels, table_of
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.measured import mu_of
from sidelight.summaries.noise_choice import Noise, choose_noise
from sidelight.summaries.shares import EDGES_SHARE

#: How many bins there are if nobody says.
USUAL_BINS = 10
_MOST_BINS = 1000


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedPrivateBins(SurePrepared):
    """A histogram with bins that are found, ready to run.

    Args:
        query: Its groups and condition.
        schema: The public declarations.
        column: The number.
        everybody: Which rows count, in whatever bin.
        tree: Of the edges.
        grid: Of the edges.
        prior: Of the edges.
        noise: Of the counts.
        reading: How noisy counts are read.
        counted: "persons" or "rows".
        per_group: How many rows of a person count in a bin.
    """

    query: Grouped
    schema: Schema
    column: str
    everybody: Groups
    tree: QuantileTree
    grid: Outcomes
    prior: CompiledPrior
    noise: Noise
    reading: Reading
    counted: str
    per_group: int | None

    @property
    def adds_up(self) -> bool:
        """Whether rows are only added up."""
        return self.everybody.label is None

    def run(self, table: Table, source: Source) -> Answer:
        """Find the edges, count between them, and make the numbers readable. Nothing about the rows raises."""
        ranks = collect_ranks(table, self.column, self.grid, source, groups=self.everybody)
        found = [self.grid.value(index) for index in descend(self.tree, ranks, priors=self.prior, source=source)]
        # the shortest decimals of released numbers; equal ones are one edge
        edges = sorted({Fraction(repr(float(value))) for value in found})
        groups = bins_of(self.query, self.schema, self.column, edges, self.per_group)
        exact = group_counts(table, groups, norm=self.noise.norm)
        noisy = in_int64(self.noise.on(exact).release(source)).reshape(-1)
        cells = tuple(product(*groups.keys))
        columns = self.reading.columns(noisy, cells, self.noise, source)
        value = table_of(self.query.keys, cells, columns, of=self.counted, **groups.notes)
        return Answer(value=value, labels=group_labels(cells, "count"))


def prepare_private_bins(
    query: Grouped, schema: Schema, column: str, bins: int, reading: Reading, *, kind: str, counted: str, **more: Any
) -> PreparedPrivateBins:
    """Share the price between edges and counts, and fix noise and claims; public numbers only.

    Args:
        query: The price, the groups, and what the ledger says.
        schema: The public declarations.
        column: The number.
        bins: How many bins there are at most.
        reading: How noisy counts are read.
        kind: The kind of the query.
        counted: "persons" or "rows".
        more: What the query's request adds.
    """
    if not 2 <= bins <= _MOST_BINS:
        raise RangeError(f"private bins are 2 to {_MOST_BINS}, got {bins}")
    if reading.prediction is not None:
        raise RangeError("a prediction of bins needs bins that are known: give public edges, or leave it out")
    number = schema.number(column)
    per_group = 1 if counted == "persons" else query.max_rows_per_group
    groups = bins_of(query, schema, column, [Fraction(place) for place in range(bins - 1)], per_group)
    if groups.label is not None:
        raise SchemaError("private bins by labels that nobody declared are not there; declare them as a Category")
    where = query.where
    assert where is None or isinstance(where, Expression)
    limit = schema.rows_per_unit
    everybody = groups_of(schema, where=where, max_groups=1, max_rows_per_group=limit)
    whole = choose_noise(groups.norms, **query.price, noise=query.noise)
    budget = Budget.of(**query.price)
    if whole.kind == "laplace":
        assert whole.epsilon is not None
        budget = Budget("epsilon", whole.epsilon)
    noise = check_noise(whole.part(1 - EDGES_SHARE, groups.norms))
    levels = [Fraction(place, bins) for place in range(1, bins)]
    tree, claims = _edges_tree(levels, budget.part(EDGES_SHARE), everybody)
    grid = outcome_grid(number)
    counts = noise.on(group_counts(Table(_no_rows(schema), schema=list(schema.columns)), groups, norm=noise.norm))
    return PreparedPrivateBins(
        claims=together([(1, claims), (1, counts.claims)]),
        request=query.request(kind, of=counted, column=column, bins=f"private {bins}", **more),
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


def bins_of(query: Grouped, schema: Schema, column: str, edges: list[Fraction], per_group: int | None) -> Groups:
    """Return the groups of a query with the bins between these edges as the last axis."""
    assert isinstance(query.by, tuple)
    where = query.where
    assert where is None or isinstance(where, Expression)
    return groups_of(
        schema,
        by=(*query.by, col(column).cut(edges)),
        where=where,
        max_groups=query.max_groups,
        max_rows_per_group=per_group,
    )


def _no_rows(schema: Schema) -> dict[str, Any]:
    return {column.name: np.empty(0, object) for column in schema.columns}


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
