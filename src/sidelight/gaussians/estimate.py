"""Run an estimate on rows, one table or the cells of a partition of one; and what a released estimate tells.

Released Gaussians and mixtures have densities, draws, labels, and regions that hold a share: post-processing, free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import log, pi
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.mapped_vector import CellRule, MappedVector, RowMap, as_table, moments_by_cell
from sidelight.aggregates.moments import ClippedMoments
from sidelight.errors import RangeError, SchemaError
from sidelight.gaussians.gaussian_steps import GaussianEstimate, gaussian_steps
from sidelight.gaussians.point_cloud import Floats, as_point_cloud
from sidelight.gaussians.row_reader import run_plan, sample_rows_of
from sidelight.gaussians.step_arithmetic import BudgetSplit, Constants, possible_starts
from sidelight.guarantees import Amount, Neighbours, positive, short_text
from sidelight.guarantees.amounts import whole
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.records import Number, Schema, Table

#: The largest ratio of variances in a component that a ball of public rows is used for, by default.
CONDITION = 100
_LEAST_PRICE, _LARGEST_PRICE = Fraction(1, 10**9), Fraction(10**9)


def estimate_gaussian(
    table: Table, columns: Sequence[str], *, prediction: Any, rho: Amount, condition: Amount, source: Source
) -> GaussianEstimate:
    """Estimate mean and covariance of Gaussian rows, as `sl.GaussianFit` does, for a mixture of one component.

    Guarantee: zCDP of at most `rho` for adding or removing a unit, whatever the rows and the public rows are. Rows that
    miss a number are left out. Nothing about the values raises.
    """
    points, rules = as_point_cloud(prediction, columns).for_columns(len(columns)), Constants()
    first = possible_starts(points, rules, condition=ratio(condition), scale=None)
    split = budget_split(table.schema, columns, budget=Budget.of(rho=rho))
    plan = gaussian_steps(points, first, split, source, rules, sample_rows=sample_rows_of(table))
    return run_plan(plan, table, columns, neighbours=split.neighbours, source=source)


def estimate_cells(
    rows: Table | NDArray[Any],
    columns: Sequence[str] | None = None,
    *,
    rule: CellRule,
    predictions: Sequence[Any],
    rho: Amount,
    condition: Amount = CONDITION,
    scales: Sequence[Amount | None] | None = None,
    source: Source,
) -> tuple[GaussianEstimate, ...]:
    """Estimate a Gaussian in every cell of a partition, in the same passes, all for the price of one.

    Guarantee: the price, for all cells together, under adding or removing a unit: a row is in one cell, and the number
    of rows of a cell is only ever used with noise (Gaussians proof page, Theorem 2). Under replacing a row the same run
    costs 4 rho. `rule` must depend on public rows and earlier releases only.

    Args:
        rows: A table, or an array with one row a record.
        columns: Number columns of a table; all of them if left out.
        rho: The price.
        condition: The largest ratio of variances in any two directions, for starts from less than d + 1 public rows.
        source: Where noise comes from.
        rule: Which cell a row is in, by that row alone.
        predictions: Public rows of each cell.
        scales: For each cell, an upper guess of √tr Σ; needed for cells with a single public row.
    """
    table = as_table(rows)
    chosen = number_columns(table.schema, columns)
    given = [None] * rule.cells if scales is None else list(scales)
    if len(predictions) != rule.cells or len(given) != rule.cells:
        raise RangeError(
            f"there are {rule.cells} cells, {len(predictions)} sets of public rows and {len(given)} scales; give one "
            "each"
        )
    rules = Constants()
    split = budget_split(table.schema, chosen, budget=Budget.of(rho=rho))
    points = [as_point_cloud(each).for_columns(len(chosen)) for each in predictions]
    firsts = [
        possible_starts(each, rules, condition=ratio(condition), scale=length(one))
        for each, one in zip(points, given, strict=True)
    ]
    partition = source.partition()
    plans = [gaussian_steps(each, first, split, source, rules) for each, first in zip(points, firsts, strict=True)]
    requests = [next(plan) for plan in plans]
    found: list[GaussianEstimate | None] = [None] * len(plans)
    while any(each is None for each in found):
        # a cell that is done repeats its last request; its answer is thrown away unread
        answers = moments_by_cell(table, chosen, maps=[request.row_map for request in requests], rule=rule)
        for cell, plan in enumerate(plans):
            if found[cell] is None:
                with source.over(partition=partition, group=cell, additive=True):
                    try:
                        requests[cell] = plan.send(answers[cell])
                    except StopIteration as done:
                        found[cell] = done.value
    return tuple(each for each in found if each is not None)


def budget_split(
    schema: Schema,
    columns: Sequence[str],
    *,
    budget: Budget,
    noise: Literal["laplace"] | None = None,
    public_rows: int | None = None,
    neighbours: Neighbours | None = None,
) -> BudgetSplit:
    """Return the split of a budget on columns of a schema."""
    for name, amount in (("rho", budget.rho), ("epsilon", budget.epsilon)):
        if amount is not None and not _LEAST_PRICE <= amount <= _LARGEST_PRICE:
            raise RangeError(f"{name} must lie between 1e-9 and 1e9, got {short_text(amount)}; no estimate comes of it")
    if public_rows is not None:
        public_rows = whole(public_rows, name="rows, the public number of rows,")
    if neighbours is None:
        neighbours = Neighbours.ADD_REMOVE if public_rows is None else Neighbours.REPLACE
    unit_map = RowMap.of(len(columns), centre=None, matrix=None, radius=1)
    numbers = tuple(schema.number(name) for name in columns)
    aggregate = ClippedMoments(
        coding=MappedVector(columns=numbers, row_map=unit_map, levels=1 << 14),
        rows_per_unit=schema.rows_per_unit,
        unit=schema.unit,
        neighbours=neighbours,
    )
    return BudgetSplit(budget=budget, moments=aggregate.finish(aggregate.empty()), noise=noise, rows=public_rows)


def ratio(condition: Amount) -> float:
    """Read the largest ratio of variances: at least 1."""
    value = float(positive(condition, name="condition"))
    if not 1 <= value < 1e20:
        raise RangeError(f"condition must be a ratio of variances of at least 1, got {condition}; 100 is the default")
    return value


def length(scale: Amount | None) -> float | None:
    """Read the upper guess of √tr Σ."""
    if scale is None:
        return None
    value = float(positive(scale, name="scale"))
    if not 1e-30 < value < 1e30:
        raise RangeError(f"scale must lie between 1e-30 and 1e30, got {scale}; change the unit of the columns")
    return value


def number_columns(schema: Schema, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Name the columns: those asked for, or all number columns."""
    names = (
        tuple(column.name for column in schema.columns if isinstance(column, Number))
        if columns is None
        else tuple(schema.number(name).name for name in columns)
    )
    if not names:
        raise SchemaError("a Gaussian wants at least one number column; declare sl.Number(...) in the schema")
    return names


@dataclass(frozen=True, eq=False)
class FittedGaussian:
    """A mean and a covariance matrix with positive eigenvalues.

    >>> found = FittedGaussian(np.array([1.0, 2.0]), np.diag([4.0, 1.0]))
    >>> found.distances([[3.0, 2.0]]).tolist(), bool(found.contains([[3.0, 2.0]], share=0.5)[0])
    ([1.0], True)
    """

    mean: Floats
    covariance: Floats

    @cached_property
    def _factor(self) -> Floats:
        """The lower Cholesky factor; scaled columns keep it exact for columns of very different units."""
        scales = np.sqrt(np.diag(self.covariance))
        return np.asarray(scales[:, None] * np.linalg.cholesky(self.covariance / np.outer(scales, scales)))

    def distances(self, points: Any) -> Floats:
        """Return the Mahalanobis distance of each point."""
        from scipy.linalg import solve_triangular

        deviations = np.asarray(points, np.float64) - self.mean
        white = solve_triangular(self._factor, deviations.T, lower=True, check_finite=False)
        return np.asarray(np.sqrt((white**2).sum(axis=0)))

    def log_density(self, points: Any) -> Floats:
        """Return the logarithm of the density at each point."""
        constant = len(self.mean) * log(2 * pi) / 2 + float(np.log(np.diag(self._factor)).sum())
        return np.asarray(-(self.distances(points) ** 2) / 2 - constant)

    def density(self, points: Any) -> Floats:
        """Return the density at each point."""
        return np.asarray(np.exp(self.log_density(points)))

    def sample(self, size: int, *, seed: int | None = None) -> Floats:
        """Draw points: synthetic rows, as private as the release. A seed is harmless here: no noise depends on it."""
        rng = np.random.default_rng(seed)  # noqa: TID251 - draws from a released law protect nobody and need not
        return np.asarray(self.mean + rng.standard_normal((size, len(self.mean))) @ self._factor.T)

    def radius(self, share: float, *, columns: int | None = None) -> float:
        """Return the Mahalanobis distance within which this share of the law lies, in `columns` dimensions."""
        from scipy.stats import chi2

        if not 0 < share < 1:
            raise RangeError(f"share must lie strictly between 0 and 1, got {share}; 0.95 is usual")
        return float(np.sqrt(chi2.ppf(share, len(self.mean) if columns is None else columns)))

    def contains(self, points: Any, *, share: float = 0.95) -> np.ndarray:
        """Return for each point whether it lies in the ellipsoid that holds this share."""
        return np.asarray(self.distances(points) <= self.radius(share))

    def ellipse(self, columns: tuple[int, int] = (0, 1), *, share: float = 0.95, points: int = 200) -> Floats:
        """Return the outline, as rows of two numbers, of the ellipse that holds this share of two columns."""
        places = list(columns)
        if len(places) != 2 or len(set(places)) != 2 or not all(0 <= place < len(self.mean) for place in places):
            raise RangeError(f"columns must be two different places from 0 to {len(self.mean) - 1}, got {columns}")
        angle = np.linspace(0, 2 * np.pi, points)
        circle = self.radius(share, columns=2) * np.stack([np.cos(angle), np.sin(angle)])
        factor = np.linalg.cholesky(self.covariance[np.ix_(places, places)])
        return np.asarray(self.mean[places] + (factor @ circle).T)


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """Means (one to a row), covariances and weights of the components.

    >>> found = FittedMixture(np.array([[0.0], [4.0]]), np.ones((2, 1, 1)), np.array([0.5, 0.5]))
    >>> found.labels(np.array([[0.3], [9.0]])).tolist(), found.shares(np.array([[2.0]])).tolist()
    ([0, 1], [[0.5, 0.5]])
    """

    means: Floats
    covariances: Floats
    weights: Floats

    @cached_property
    def components(self) -> tuple[FittedGaussian, ...]:
        """The components as Gaussians."""
        return tuple(FittedGaussian(*each) for each in zip(self.means, self.covariances, strict=True))

    def joint(self, points: Any) -> Floats:
        """Return log(w_j N(x; μ_j, Σ_j)): one row a point, one column a component."""
        return np.stack([each.log_density(points) for each in self.components], axis=1) + np.log(self.weights)

    def log_density(self, points: Any) -> Floats:
        """Return the logarithm of the density at each point."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self.joint(points), axis=1))

    def shares(self, points: Any) -> Floats:
        """Return how likely each component is to have made each point; rows add up to 1."""
        from scipy.special import softmax

        return np.asarray(softmax(self.joint(points), axis=1))

    def labels(self, points: Any) -> np.ndarray:
        """Return the likeliest component of each point."""
        return np.asarray(self.joint(points).argmax(axis=1))

    def sample(self, size: int, *, seed: int | None = None) -> tuple[Floats, np.ndarray]:
        """Draw synthetic rows and their components, grouped by component as in scikit-learn."""
        size = whole(size, name="n_samples")
        rng = np.random.default_rng(seed)  # noqa: TID251 - draws from a released law protect nobody and need not
        counts = rng.multinomial(size, self.weights)
        seeds = rng.integers(2**63, size=len(counts))
        drawn = [
            each.sample(int(count), seed=int(own))
            for each, count, own in zip(self.components, counts, seeds, strict=True)
        ]
        return np.concatenate(drawn), np.repeat(np.arange(len(counts)), counts)

    def ellipses(self, columns: tuple[int, int] = (0, 1), *, share: float = 0.95, points: int = 200) -> list[Floats]:
        """Return for each component the outline of the ellipse that holds this share of two of its columns."""
        return [each.ellipse(columns, share=share, points=points) for each in self.components]
