"""The perturbed objective Σ f(xᵢᵀθ; yᵢ) + λ/2·‖θ - θ₀‖² + ⟨b, θ⟩, and the certificate that a gradient is small.

The privacy proof of the released point rests on the certificate, so its bound counts everything that floats can do
between the ideal objective and the number computed here: dot products, the slope of the loss, sums over rows, the
linear term's own rounding (objective-perturbation proof page, section 6), and whatever is public in the objective
(`public_regulariser.py`). First with BLAS; where that bound is too
coarse, again with twice the digits, whose bound is small for every data set that fits a machine (Theorem 5 there).
Hand-made for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sidelight.regression.double_double import UNIT_ROUNDOFF, DoubleDouble, floats_of, two_sum
from sidelight.regression.losses import Floats, Loss
from sidelight.regression.public_regulariser import PublicRegulariser
from sidelight.regression.rows import Block, BoundedRows

#: Rows per BLAS call: the rounding of a sum grows with its length.
CERTIFIED_BLOCK = 256

#: Numbers of twice the digits that are held at once.
_CELLS = 1 << 17


@dataclass(frozen=True, kw_only=True, repr=False)
class Objective:
    """What is minimised. θ and the linear term have shape (coefficients, outputs). A sum over rows, never a mean."""

    rows: BoundedRows
    loss: Loss
    row_norm: Fraction
    regularisation: Fraction
    linear: Floats
    public: PublicRegulariser | None = None

    @property
    def start(self) -> Floats:
        """Where to look for the minimum first: the public centre, or 0."""
        return np.zeros_like(self.linear) if self.public is None else self.public.centre

    def smoothness(self) -> float:
        """Bound the largest second derivative, one pass; private."""
        shape = self.loss.shape(self.row_norm)
        public = 0.0 if self.public is None else self.public.curvature(shape)
        return self.count() * float(shape.curvature) * (1 + 1e-9) + float(self.regularisation) * (1 + 1e-9) + public

    def count(self) -> int:
        """Count the records that take part; private."""
        return sum(block.size for block in self.rows.blocks())

    def gradient(self, theta: Floats) -> Floats:
        """Return the gradient, one pass."""
        total = self._public_gradient(theta)
        for block in self.rows.blocks():
            total += block.gather(self.loss.first_derivative(block.predict(theta), block.targets, block.norms))
        return total

    def _public_gradient(self, theta: Floats, *, rows_at_once: int | None = None) -> Floats:
        """Return the gradient without the rows: λ(θ - θ₀) + b, and what else is public."""
        if self.public is None:
            return np.asarray(float(self.regularisation) * theta + self.linear)
        quadratic = float(self.regularisation) * (theta - self.public.centre) + self.linear
        return np.asarray(quadratic + self.public.gradient(self.loss, theta, rows_at_once=rows_at_once))

    def gradient_and_hessian(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return both in one pass."""
        gradient = self._public_gradient(theta)
        hessian = self._empty_hessian(theta)
        for block in self.rows.blocks():
            predictor = block.predict(theta)
            gradient += block.gather(self.loss.first_derivative(predictor, block.targets, block.norms))
            self._add_curvature(hessian, block, predictor)
        return gradient, _square(hessian)

    def hessian(self, theta: Floats) -> Floats:
        """Return the Hessian, one pass: a square matrix in the order of the raveled coefficients."""
        hessian = self._empty_hessian(theta)
        for block in self.rows.blocks():
            self._add_curvature(hessian, block, block.predict(theta))
        return _square(hessian)

    def _empty_hessian(self, theta: Floats) -> Floats:
        hessian = np.asarray(float(self.regularisation) * np.eye(theta.size).reshape(theta.shape * 2))
        if self.public is not None:
            square = self.public.square()
            for k in range(theta.shape[1]):
                hessian[:, k, :, k] += square
            if self.public.block is not None and self.public.weight:
                rows = np.zeros_like(hessian)
                self._add_curvature(rows, self.public.block, self.public.block.predict(theta))
                hessian += self.public.weight * rows
        return hessian

    def _add_curvature(self, hessian: Floats, block: Block, predictor: Floats) -> None:
        """Add Σ xxᵀ ⊗ f'': for several outputs one matrix for each pair of them. It only steers the solver."""
        outputs = predictor.shape[1]
        for k in range(outputs):
            along = np.zeros_like(predictor)
            along[:, k] = 1.0
            bend = self.loss.second_derivative(predictor, block.targets, block.norms, along)
            hessian[:, k, :, k] += block.gram(np.abs(bend[:, k : k + 1]))
            for other in range(k + 1, outputs):  # of a softmax: -p_k·p_other
                shared = block.gram(np.abs(bend[:, other : other + 1]))
                hessian[:, k, :, other] -= shared
                hessian[:, other, :, k] -= shared

    def hessian_times(self, theta: Floats, vector: Floats) -> Floats:
        """Return the Hessian times a vector, one pass."""
        total = float(self.regularisation) * vector
        if self.public is not None:
            total = total + self.public.times(self.loss, theta, vector)
        for block in self.rows.blocks():
            along = block.predict(vector)
            total = total + block.gather(
                self.loss.second_derivative(block.predict(theta), block.targets, block.norms, along)
            )
        return total


@dataclass(frozen=True)
class GradientCertificate:
    """The computed norm of the gradient and a bound of its error. Private: neither is ever shown."""

    norm: float
    error: float

    def proves(self, tolerance: float) -> bool:
        """Return whether the true gradient is certainly below the tolerance."""
        return bool(self.norm + self.error <= tolerance * (1 - 4 * UNIT_ROUNDOFF))

    def __repr__(self) -> str:
        return "GradientCertificate()"


def certify(objective: Objective, theta: Floats | DoubleDouble, *, tolerance: float) -> GradientCertificate:
    """Evaluate the gradient with an error bound; with twice the digits only where it can help."""
    if not np.isfinite(floats_of(theta)).all():
        return GradientCertificate(math.inf, 0.0)
    if isinstance(theta, DoubleDouble):
        return _evaluate(objective, theta, exact=True)
    found = _evaluate(objective, theta, exact=False)
    if not found.proves(tolerance) and found.norm - found.error <= tolerance and math.isfinite(found.norm):
        found = _evaluate(objective, theta, exact=True)
    return found


def error_bound(objective: Objective, theta: Floats, *, rows: int, exact: bool = False) -> float:
    """Bound ‖computed gradient - gradient of the ideal objective‖ for `rows` rows; exact: with twice the digits."""
    shape, public = objective.loss.shape(objective.row_norm), objective.public
    size, away, counted, quadratic = float(np.linalg.norm(theta)), theta, float(rows), 0.0
    if public is not None:  # public rows are rows, each counted w times (and at least once, where sums are counted)
        away = theta - public.centre
        counted += (public.bounds.rows if exact else public.weight * public.block.size) if public.block else 0.0
        quadratic = public.quadratic_error(away, exact=exact)
    if exact:
        fine = fine_error(
            gradient=float(shape.gradient),
            curvature=float(shape.curvature),
            derivative_error=objective.loss.derivative_error(objective.row_norm),
            regularisation=float(objective.regularisation),
            coefficients=int(theta.shape[0]),
            rows=counted,
            size=size,
            away=float(np.linalg.norm(away)),
            linear=float(np.linalg.norm(objective.linear)),
        )
        return fine + quadratic
    # With u = 2⁻⁵³ and block m: rows·[L·(m+6)u + slope error + β·‖θ‖·(d+4)u] + 16u(λ‖θ - θ₀‖ + ‖b‖), the rounding of
    # a public quadratic form, and a tenth on top for what is of second order.
    a_row = (
        float(shape.gradient) * (CERTIFIED_BLOCK + 8.0)
        + objective.loss.derivative_error(objective.row_norm)
        + float(shape.curvature) * size * (int(theta.shape[0]) + 4.0)
    )
    rest = 16 * (
        float(objective.regularisation) * float(np.linalg.norm(away)) + float(np.linalg.norm(objective.linear))
    )
    return float(1.1 * UNIT_ROUNDOFF * (counted * a_row + rest)) + quadratic


def fine_error(
    *,
    gradient: float,
    curvature: float,
    derivative_error: float,
    regularisation: float,
    coefficients: int,
    rows: float,
    size: float,
    away: float,
    linear: float,
) -> float:
    """Bound the error of a gradient with twice the digits: of public numbers too, so that a plan can ask beforehand.

    With u² = 2⁻¹⁰⁶: rows·[L·(rows/64 + 256)u² + 2⁻³⁰·slope error + β·‖θ‖·(4d+16)u²] + 16u²·λ‖θ-θ₀‖ + 8u·‖b‖, and a
    tenth on top. The last term is the linear term's own rounding when it was drawn; nothing makes it smaller.
    """
    fine = UNIT_ROUNDOFF * UNIT_ROUNDOFF
    a_row = (
        gradient * (rows / 64 + 256) * fine
        + 2.0**-30 * UNIT_ROUNDOFF * derivative_error
        + curvature * size * (4 * coefficients + 16) * fine
    )
    return 1.1 * (rows * a_row + 16 * fine * regularisation * away + 8 * UNIT_ROUNDOFF * linear)


def fine_gradient(objective: Objective, theta: DoubleDouble) -> tuple[Floats, int]:
    """Return the gradient, evaluated with twice the digits and rounded once, and the number of rows; private."""
    public = objective.public
    away = theta if public is None else theta.minus(DoubleDouble.of(public.centre))
    total = DoubleDouble.nearest(Fraction(objective.regularisation)).times(away)
    total = total.plus(DoubleDouble.of(objective.linear))
    step = max(CERTIFIED_BLOCK, _CELLS // theta.high.size)
    if public is not None:
        total = total.plus(public.fine_quadratic(away))
        if public.block is not None:
            pulled = DoubleDouble.of(np.zeros_like(theta.high))
            for start in range(0, public.block.size, step):
                pulled = pulled.plus(_fine_part(objective, public.block.part(start, start + step), theta))
            total = total.plus(pulled.times_floats(np.array(public.weight)))
    rows = 0
    for block in objective.rows.blocks():
        rows += block.size
        # at least 256 rows at once, so that there are no more than rows/256 + blocks sums one after the other
        for start in range(0, block.size, step):
            total = total.plus(_fine_part(objective, block.part(start, start + step), theta))
    return total.high, rows


def _evaluate(objective: Objective, theta: Floats | DoubleDouble, *, exact: bool) -> GradientCertificate:
    if exact:
        point = theta if isinstance(theta, DoubleDouble) else DoubleDouble.of(theta)
        with np.errstate(over="ignore", invalid="ignore"):
            gradient, rows = fine_gradient(objective, point)
    else:
        gradient, rows = _gradient(objective, floats_of(theta))
    norm = float(np.linalg.norm(gradient)) * (1 + (gradient.size + 8) * UNIT_ROUNDOFF)
    error = error_bound(objective, floats_of(theta), rows=rows, exact=exact)
    return GradientCertificate(norm if math.isfinite(norm) else math.inf, error)


def _gradient(objective: Objective, theta: Floats) -> tuple[Floats, int]:
    total, carried, rows = np.zeros_like(theta), np.zeros_like(theta), 0
    for block in objective.rows.blocks():
        rows += block.size
        for start in range(0, block.size, CERTIFIED_BLOCK):
            part = block.part(start, start + CERTIFIED_BLOCK)
            piece = part.gather(objective.loss.first_derivative(part.predict(theta), part.targets, part.norms))
            total, lost = two_sum(total, piece)
            carried += lost
    return (total + carried) + objective._public_gradient(theta, rows_at_once=CERTIFIED_BLOCK), rows


def _fine_part(objective: Objective, part: Block, theta: DoubleDouble) -> DoubleDouble:
    """Return the sum of the gradients of some rows."""
    features = part.dense
    predictor = DoubleDouble.of(np.zeros((part.size, theta.high.shape[1])))
    for j in range(features.shape[1]):
        predictor = predictor.plus(theta[j : j + 1].times_floats(features[:, j : j + 1]))
    slopes = objective.loss.fine_derivative(predictor, part.targets, part.norms)
    return slopes[:, None, :].times_floats(features[:, :, None]).column_sums()


def _square(hessian: Floats) -> Floats:
    size = hessian.shape[0] * hessian.shape[1]
    return hessian.reshape(size, size)
