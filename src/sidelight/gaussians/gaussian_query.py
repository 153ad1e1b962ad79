"""What the two Gaussian queries share: price, columns, public rows, what can be by declaration, and the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sidelight.errors import RangeError
from sidelight.gaussians.estimate import budget_split
from sidelight.gaussians.gaussian_steps import GaussianEstimate
from sidelight.gaussians.mean_error import LastStep
from sidelight.gaussians.point_cloud import Floats, PointCloud, as_point_cloud
from sidelight.gaussians.row_reader import MeasurementPlan, run_plan, sample_rows_of
from sidelight.gaussians.step_arithmetic import MOST_STEPS, BudgetSplit
from sidelight.guarantees import Amount, Neighbours, decimal_text, positive
from sidelight.guarantees.amounts import whole
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.records import Number, Schema, Table
from sidelight.records.numbers import nearest_float
from sidelight.records.schema import listed_names
from sidelight.records.table import bare_number, bare_numbers
from sidelight.release import Outcome
from sidelight.session import Answer, release_once
from sidelight.session.query import SurePrepared


@dataclass(frozen=True, kw_only=True, eq=False)
class DeclaredLimits:
    """The declared bounds of the columns (values are clamped to them), and the ranges of the query if it has any.

    Accuracy: means and eigenvalues are moved to the nearest ones in convex sets that hold the true ones, so they come
    no further from them. Where a variance is more than its column's bounds allow, its row and column are scaled down.
    """

    columns: tuple[Number, ...]
    mean_bound: float | None = None
    variance_bound: float | None = None

    def mean(self, found: Floats) -> Floats:
        """Return the nearest mean that can be: within the query's range, and within the bounds of the columns."""
        return np.asarray(np.clip(self.shortened(found), *self._ends))

    def shortened(self, found: Floats) -> Floats:
        """Return the nearest mean within the query's range."""
        mean = np.nan_to_num(np.asarray(found, np.float64))
        if self.mean_bound is not None:
            mean = mean / max(1.0, float(np.abs(mean).max(initial=0.0)) / 1e150)  # no square overflows
            mean = mean * min(1.0, self.mean_bound / max(float(np.linalg.norm(mean)), 1e-300))
        return np.asarray(mean)

    def covariance(self, found: Floats) -> Floats:
        """Return a covariance that can be: positive semidefinite, and no variance above what is declared."""
        matrix = np.nan_to_num(np.asarray(found, np.float64))
        low, high = self._ends
        largest = (high - low) ** 2 / 4  # Popoviciu; infinite without both bounds
        if self.variance_bound is not None:
            # the values of a symmetric matrix that can be decomposed whatever the noise was
            size = max(float(np.abs(matrix).max(initial=0.0)), 1e-300)
            values, vectors = np.linalg.eigh(matrix / size)
            if values[0] < 0 or values[-1] * size > self.variance_bound:
                matrix = (vectors * np.clip(values * size, 0.0, self.variance_bound)) @ vectors.T
        variances = np.diag(matrix)
        over = variances > largest
        if not over.any():
            return matrix
        roots = np.sqrt(np.where(over, largest / np.where(over, variances, 1.0), 1.0))
        return np.asarray(matrix * roots[:, None] * roots)

    @property
    def _ends(self) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):
            low = np.array([-np.inf if each.lower is None else nearest_float(each.lower) for each in self.columns])
            high = np.array([np.inf if each.upper is None else nearest_float(each.upper) for each in self.columns])
        return np.maximum(low, -1e150), np.minimum(high, 1e150)


class GaussianQuery:
    """What the queries share: a price, columns, public rows, and how bare data becomes a table."""

    columns: Any
    rho: Any
    epsilon: Any
    delta: Any
    prediction: Any
    rows: Any
    noise: Any
    steps: Any = None  # of a query that takes them

    def _check(self) -> None:
        object.__setattr__(self, "columns", listed_names(self.columns))
        _ = self.budget
        if self.prediction is not None:
            object.__setattr__(self, "prediction", as_point_cloud(self.prediction, self.columns))
        if self.steps is not None:
            object.__setattr__(self, "steps", whole(self.steps, name="steps", most=MOST_STEPS))

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return Budget.of(rho=self.rho, epsilon=self.epsilon, delta=self.delta)

    def _points(self, width: int) -> PointCloud | None:
        return None if self.prediction is None else self.prediction.for_columns(width)

    def _split(self, schema: Schema, columns: tuple[str, ...]) -> BudgetSplit:
        return budget_split(schema, columns, budget=self.budget, noise=self.noise, public_rows=self.rows)

    def _priced(self) -> Mapping[str, Any]:
        return {
            "rows": "private" if self.rows is None else str(self.rows),
            "noise": "default" if self.noise is None else self.noise,
            "public": "none" if self.prediction is None else self.prediction.digest,
            **self.budget.request,
        }

    def declare(self) -> Number:
        """Return the declaration of a bare one-dimensional array."""
        return bare_number(self.columns)

    def release(self, data: Any) -> Outcome:
        """Release from a table, a two-dimensional array, or a frame, with exactly this query's budget."""
        table = data if isinstance(data, Table) else self.table(data)
        outcome: Outcome = release_once(self, table)  # type: ignore[call-overload]
        return outcome

    def table(self, data: Any) -> Table:
        """Declare the columns of an array or a frame: numbers, and every row one protected unit.

        Args:
            data: The array or frame.

        Returns:
            A table of number columns.
        """
        return bare_numbers(data, self.columns)


def bound_of(value: Amount | None, *, name: str) -> float:
    """Read a declared range: a positive number of a size that arithmetic can hold."""
    assert value is not None
    bound = float(positive(value, name=name))
    if not 1e-20 <= bound <= 1e20:
        raise RangeError(f"{name} must lie between 1e-20 and 1e20, got {value}; change the unit of the columns")
    return bound


def amount_text(value: Amount | None) -> str:
    """Write an amount for the request."""
    return "none" if value is None else decimal_text(positive(value, name="bound"))


#: An estimate that asks requests about rows or pairs, once it has a source of noise and knows how many rows a sample
#: has (None: there is none).
PlanMaker = Callable[[Source, int | None], MeasurementPlan[Any]]


class GaussianValue(dict[str, Any]):
    """The value of a Gaussian release: a plain mapping that prints in a few lines."""

    def __repr__(self) -> str:
        lines = [f"mean {_shown(self['mean'])}"]
        if "covariance" in self:
            lines.append(f"covariance {_shown(self['covariance'])}")
            lines.append(f"start {self['start']}, {self['steps']} coarse steps")
        lines.append(f"about {self['rows']:.0f} rows")
        if self.get("weak"):
            lines.append(
                "weak: with this budget and number of rows the estimate is not certified for the assumed condition "
                "number; more public rows, more rows or a larger budget help"
            )
        return "; ".join(lines)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedGaussian(SurePrepared):
    """Everything but `run` is a function of public parameters. `pairs`: whether it asks about pairs of rows."""

    neighbours: Neighbours
    make_plan: PlanMaker
    split: BudgetSplit
    limits: DeclaredLimits
    pairs: bool = False
    instead: ClassVar[str] = "with public rows of the same population (prediction=..., no gap) every step adds rows up"

    @property
    def is_additive(self) -> bool:
        """Whether every step is a sum over rows: pairs are no such thing."""
        return not self.pairs

    def run(self, table: Table, source: Source) -> Answer:
        """Read the rows in a few passes; their number depends on public and released numbers only."""
        plan = self.make_plan(source, sample_rows_of(table))
        found: Any = run_plan(plan, table, self.labels, neighbours=self.neighbours, source=source)
        value = GaussianValue(mean=self.limits.mean(found.mean))  # finite: noise of a hopeless price may overflow
        if isinstance(found, GaussianEstimate):
            value["covariance"] = self.limits.covariance(found.covariance)
        value.update(found.account())
        if value.get("weak"):
            return Answer(value=value, error=None)
        last: LastStep = found.last
        return Answer(value=value, error=last.error(self.split, self.limits.shortened(found.mean) - found.mean))


def _shown(array: Floats) -> str:
    return np.array2string(array, precision=4, suppress_small=True, threshold=36, edgeitems=3)
