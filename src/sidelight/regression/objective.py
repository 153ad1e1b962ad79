"""The perturbed objective Σ f(xᵢᵀθ; yᵢ) + λ/2·‖θ‖² + ⟨b, θ⟩: its gradient, its Hessian and its constants."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sidelight.regression.losses import Floats, Loss
from sidelight.regression.rows import Block, Rows


@dataclass(frozen=True, kw_only=True, repr=False)
class Objective:
    """What is minimised. θ and the linear term have shape (coefficients, outputs). A sum over rows, never a mean."""

    rows: Rows
    loss: Loss
    row_norm: Fraction
    regularisation: Fraction
    linear: Floats

    def count(self) -> int:
        """Count the records that take part; private."""
        return sum(block.size for block in self.rows.blocks())

    def gradient(self, theta: Floats) -> Floats:
        """Return the gradient, one pass."""
        total = float(self.regularisation) * theta + self.linear
        for block in self.rows.blocks():
            total += block.gather(self.loss.slope(block.predict(theta), block.targets, block.norms))
        return total

    def gradient_and_hessian(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return both in one pass."""
        gradient = float(self.regularisation) * theta + self.linear
        hessian = self._empty_hessian(theta)
        for block in self.rows.blocks():
            predictor = block.predict(theta)
            gradient += block.gather(self.loss.slope(predictor, block.targets, block.norms))
            self._add_curvature(hessian, block, predictor)
        return gradient, _square(hessian)

    def hessian(self, theta: Floats) -> Floats:
        """Return the Hessian, one pass: a square matrix in the order of the raveled coefficients."""
        hessian = self._empty_hessian(theta)
        for block in self.rows.blocks():
            self._add_curvature(hessian, block, block.predict(theta))
        return _square(hessian)

    def _empty_hessian(self, theta: Floats) -> Floats:
        return float(self.regularisation) * np.eye(theta.size).reshape(theta.shape * 2)

    def _add_curvature(self, hessian: Floats, block: Block, predictor: Floats) -> None:
        """Add Σ xxᵀ ⊗ f'': for several outputs one matrix for each pair of them. It only steers the solver."""
        outputs = predictor.shape[1]
        for k in range(outputs):
            along = np.zeros_like(predictor)
            along[:, k] = 1.0
            bend = self.loss.bend(predictor, block.targets, block.norms, along)
            hessian[:, k, :, k] += block.gram(np.abs(bend[:, k : k + 1]))
            for other in range(k + 1, outputs):  # of a softmax: -p_k·p_other
                shared = block.gram(np.abs(bend[:, other : other + 1]))
                hessian[:, k, :, other] -= shared
                hessian[:, other, :, k] -= shared

    def hessian_times(self, theta: Floats, vector: Floats) -> Floats:
        """Return the Hessian times a vector, one pass."""
        total = float(self.regularisation) * vector
        for block in self.rows.blocks():
            along = block.predict(vector)
            total = total + block.gather(self.loss.bend(block.predict(theta), block.targets, block.norms, along))
        return total


def _square(hessian: Floats) -> Floats:
    size = hessian.shape[0] * hessian.shape[1]
    return hessian.reshape(size, size)
