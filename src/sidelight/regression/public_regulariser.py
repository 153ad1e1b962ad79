"""What is public in an objective besides its λ: a centre, a quadratic form, and public rows.

r(θ) = λ/2·‖θ - θ₀‖² + ½·‖Bᵀ(θ - θ₀)‖² + w·Σ f over public rows. It is λ-strongly convex whatever θ₀, B and w are,
because λ and B are kept apart: no eigenvalue of a rounded product is trusted (objective-perturbation proof page,
Theorem P). Everything here but λ's own term, which the objective holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sidelight.errors import RangeError
from sidelight.mechanisms.objective_perturbation import LossShape
from sidelight.regression.double_double import UNIT_ROUNDOFF, DoubleDouble, two_sum
from sidelight.regression.losses import Floats, Loss
from sidelight.regression.rows import Block

#: Nothing public is larger: with it, no product of bounds leaves the floats.
_LARGEST = 1e30


@dataclass(frozen=True, kw_only=True)
class PublicBounds:
    """Upper bounds of a public regulariser, from which a plan knows whether every fit can be certified.

    Args:
        centre: Of ‖θ₀‖.
        square: Of the largest eigenvalue of BBᵀ: ‖B‖² in Frobenius norm.
        rows: Of the public rows, each counted max(1, w) times.
        columns: Of the columns of B.
    """

    centre: float = 0.0
    square: float = 0.0
    rows: int = 0
    columns: int = 0

    def or_more(self, other: PublicBounds) -> PublicBounds:
        """Return bounds that hold for either."""
        return PublicBounds(
            centre=max(self.centre, other.centre),
            square=max(self.square, other.square),
            rows=max(self.rows, other.rows),
            columns=max(self.columns, other.columns),
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublicRegulariser:
    """A centre θ₀ (columns, outputs); a factor B, (columns,) for a diagonal or (columns, k); public rows with weight w.

    B acts on every output alike. Nothing of it may come from the rows that are fitted, but what was paid for.
    """

    centre: Floats
    factor: Floats | None = None
    block: Block | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        numbers = [self.centre, np.zeros(1) if self.factor is None else self.factor, np.array([self.weight])]
        if not all((np.abs(each) <= _LARGEST).all() for each in numbers) or self.weight < 0:  # nor NaN
            raise RangeError(
                f"a public regulariser must have finite numbers of up to {_LARGEST:g} and a weight of at least 0"
            )

    @property
    def bounds(self) -> PublicBounds:
        """What a plan has to know of it."""
        factor = np.zeros(0) if self.factor is None else self.factor
        return PublicBounds(
            centre=float(np.linalg.norm(self.centre)) * (1 + 1e-9),
            square=float(np.sum(factor * factor)) * (1 + 1e-9),
            rows=0 if self.block is None else math.ceil(max(1.0, self.weight) * self.block.size),
            columns=0 if not factor.size else factor.shape[-1],
        )

    def divided(self, by: int) -> PublicRegulariser:
        """Return the regulariser over a number, for an objective of a sample of the rows."""
        factor = None if self.factor is None else self.factor / math.sqrt(by)
        return replace(self, factor=factor, weight=self.weight / by)

    def curvature(self, shape: LossShape) -> float:
        """Bound its largest second derivative."""
        rows = 0 if self.block is None else self.block.size
        return self.bounds.square + self.weight * rows * float(shape.curvature) * (1 + 1e-9)

    def gradient(self, loss: Loss, theta: Floats, *, rows_at_once: int | None = None) -> Floats:
        """Return the gradient; with `rows_at_once` in short sums that are added with compensation."""
        total = self._quadratic(theta - self.centre)
        if self.block is None:
            return total
        pulled, carried = np.zeros_like(theta), np.zeros_like(theta)
        step = rows_at_once or self.block.size
        for start in range(0, self.block.size, step):
            part = self.block.part(start, start + step)
            piece = part.gather(loss.first_derivative(part.predict(theta), part.targets, part.norms))
            pulled, lost = two_sum(pulled, piece)
            carried += lost
        return np.asarray(total + self.weight * (pulled + carried))

    def fine_quadratic(self, away: DoubleDouble) -> DoubleDouble:
        """Return BBᵀ·away with twice the digits."""
        zero = DoubleDouble.of(np.zeros_like(away.high))
        if self.factor is None:
            return zero
        if self.factor.ndim == 1:
            return away.times_floats(self.factor[:, None]).times_floats(self.factor[:, None])
        along = DoubleDouble.of(np.zeros((self.factor.shape[1], away.high.shape[1])))
        for j, row in enumerate(self.factor):
            along = along.plus(away[j : j + 1].times_floats(row[:, None]))
        total = zero
        for j, column in enumerate(self.factor.T):
            total = total.plus(along[j : j + 1].times_floats(column[:, None]))
        return total

    def quadratic_error(self, away: Floats, *, exact: bool) -> float:
        """Bound the rounding of BBᵀ·away: two products of up to d and k terms, each d + k + 6 units of their sizes."""
        if self.factor is None:
            return 0.0
        terms = len(self.centre) + self.bounds.columns
        unit = UNIT_ROUNDOFF * UNIT_ROUNDOFF * 8 if exact else UNIT_ROUNDOFF
        size = np.linalg.norm(replace(self, factor=np.abs(self.factor))._quadratic(np.abs(away)))
        return 1.1 * unit * (2 * terms + 16) * (float(size) * (1 + 1e-9))

    def times(self, loss: Loss, theta: Floats, vector: Floats) -> Floats:
        """Return its Hessian times a vector."""
        total = self._quadratic(vector)
        if self.block is not None:
            bend = loss.second_derivative(
                self.block.predict(theta), self.block.targets, self.block.norms, self.block.predict(vector)
            )
            total = total + self.weight * self.block.gather(bend)
        return np.asarray(total)

    def square(self) -> Floats:
        """Return BBᵀ, (columns, columns): it only steers the solver."""
        columns = len(self.centre)
        if self.factor is None:
            return np.zeros((columns, columns))
        return np.diag(self.factor**2) if self.factor.ndim == 1 else np.asarray(self.factor @ self.factor.T)

    def _quadratic(self, away: Floats) -> Floats:
        if self.factor is None:
            return np.zeros_like(away)
        if self.factor.ndim == 1:
            return np.asarray(self.factor[:, None] * (self.factor[:, None] * away))
        return np.asarray(self.factor @ (self.factor.T @ away))

    def __repr__(self) -> str:
        return f"PublicRegulariser({'' if self.block is None else f'{self.block.size} public rows'})"
