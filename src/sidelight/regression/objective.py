"""The perturbed objective Σ f(xᵢᵀθ; yᵢ) + λ/2·‖θ‖² + ⟨b, θ⟩: its gradient, its Hessian and its constants."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sidelight.regression.losses import Floats, Loss
from sidelight.regression.rows import Rows


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
        """Give the gradient, one pass."""
        total = float(self.regularisation) * theta + self.linear
        for block in self.rows.blocks():
            total += block.gather(self.loss.slope(block.predict(theta), block.targets, block.norms))
        return total

    def gradient_and_hessian(self, theta: Floats) -> tuple[Floats, Floats]:
        """Give both in one pass; for losses with one predictor."""
        gradient = float(self.regularisation) * theta + self.linear
        hessian = float(self.regularisation) * np.eye(theta.shape[0])
        for block in self.rows.blocks():
            predictor = block.predict(theta)
            gradient += block.gather(self.loss.slope(predictor, block.targets, block.norms))
            hessian += block.gram(self.loss.bend(predictor, block.targets, block.norms, np.ones_like(predictor)))
        return gradient, hessian

    def hessian(self, theta: Floats) -> Floats:
        """Give the Hessian, one pass; for losses with one predictor."""
        total = float(self.regularisation) * np.eye(theta.shape[0])
        for block in self.rows.blocks():
            predictor = block.predict(theta)
            total += block.gram(self.loss.bend(predictor, block.targets, block.norms, np.ones_like(predictor)))
        return total

    def hessian_times(self, theta: Floats, vector: Floats) -> Floats:
        """Give the Hessian times a vector, one pass."""
        total = float(self.regularisation) * vector
        for block in self.rows.blocks():
            along = block.predict(vector)
            total = total + block.gather(self.loss.bend(block.predict(theta), block.targets, block.norms, along))
        return total
