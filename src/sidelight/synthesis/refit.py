"""The distribution that fits all measurements and stays near the prior: post-processing of released numbers.

Minimises F(W) = Σ ‖N·M_i W - y_i‖² / (2σ_i²) + τ·N·KL(W ‖ w) over distributions W. The minimiser has the form
W ∝ w · Π f_i with one factor for each cell of each measured marginal. `fit` improves one factor after the other, each
exactly: a small problem in the cells of one marginal, solved with the Wright omega function (synthesis proof page,
Theorem 4). Like iterative proportional fitting, which is the case of no noise, it needs a few sweeps where entropic
mirror descent (`mirror_descent`) needs a hundred steps; both find the same W, which is a test.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidelight.synthesis.measurement import Measurement
from sidelight.synthesis.spaces import Floats, Space

#: How much the prior counts against the measurements, as a share of one observation a row.
PRIOR_WEIGHT = 0.05
#: Weights never fall below this, so that no possible point is lost to underflow.
_LEAST = 1e-280
_LOWEST_LOG = -500.0


class Refit:
    """A prior, the measurements so far with their factors, and the fitted weights: warm-started, round by round."""

    def __init__(self, space: Space, prior: Floats, *, rows: float, prior_weight: float = PRIOR_WEIGHT) -> None:
        self.space = space
        self.rows = rows
        self.prior_weight = prior_weight
        self.weights: Floats = prior / prior.sum()
        self._held: list[Measurement] = []
        self._factors: list[Floats] = []  # logarithms

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What was measured, in order."""
        return tuple(self._held)

    def change_prior(self, old: Floats, new: Floats) -> None:
        """Start from another prior with the same factors: W ∝ new · Π f."""
        with np.errstate(divide="ignore", invalid="ignore"):
            self.weights *= np.where(old > 0, new / old, 0.0)
        self.weights /= self.weights.sum()

    def add(self, measurement: Measurement) -> None:
        """Take a measurement in; the next `fit` uses it."""
        self._held.append(measurement)
        self._factors.append(np.zeros(measurement.values.shape))

    def fit(self, *, sweeps: int, tolerance: float = 0.01) -> None:
        """Improve all factors in turn, the newest first, until no marginal moves by more than a share of its noise.

        The number of sweeps depends on released numbers only.
        """
        for _ in range(sweeps):
            moved = max((self._improve(place) for place in reversed(range(len(self._held)))), default=0.0)
            np.maximum(self.weights, _LEAST, out=self.weights)
            if self.space.possible is not None:
                self.weights *= self.space.possible
            self.weights /= self.weights.sum()
            if moved <= tolerance:
                return

    def _improve(self, place: int) -> float:
        """Solve for one factor with the others held; return how far the marginal moved, as a share of its noise."""
        measured = self._held[place]
        (mass,) = self.space.marginals(self.weights, [measured.marginal])
        with np.errstate(divide="ignore"):
            log_mass = np.log(mass)
        without = log_mass - self._factors[place]
        wanted = nearest_marginal(
            without, measured.values, deviation=measured.deviation, rows=self.rows, prior_weight=self.prior_weight
        )
        ratio = np.divide(wanted, mass, out=np.zeros_like(mass), where=mass > 0)
        self.space.multiply(self.weights, ratio, measured.marginal)
        change = np.log(np.maximum(ratio, 1e-300))
        self._factors[place] = np.clip(self._factors[place] + change, _LOWEST_LOG, -_LOWEST_LOG)
        return float(np.abs(wanted - mass).mean()) * self.rows / measured.mean_error


def nearest_marginal(
    log_reference: Floats, values: Floats, *, deviation: float, rows: float, prior_weight: float
) -> Floats:
    """Minimise ‖N p - y‖² / (2σ²) + τ·N·KL(p ‖ r) over distributions p on the cells of one marginal.

    Cells with r = 0 keep p = 0. Setting the derivative to a constant gives k p + log p = log r + y/(τσ²) + ν with
    k = N/(τσ²), so k p = ω(log(k r) + y/(τσ²) + ν); ν is the root of an increasing function.
    """
    from scipy.special import wrightomega

    strength = prior_weight * deviation**2  # τσ²
    k = rows / strength
    inside = log_reference > -np.inf
    z = log_reference[inside] - log_reference[inside].max() + values[inside] / strength + np.log(k)
    # Σ ω(z + ν) = k. At the largest solution of one cell alone the sum is at least k: ω(z_max + ν) = k there.
    high = k + np.log(k) - z.max()
    low = high - np.log(len(z)) - k * (1.0 - 1.0 / len(z))  # all cells at most k/len: the sum is at most k
    shift = (low + high) / 2
    for _ in range(100):
        masses = wrightomega(np.maximum(z + shift, _LOWEST_LOG))
        excess = float(masses.sum()) - k
        if abs(excess) <= 1e-10 * k:
            break
        low, high = (low, shift) if excess > 0 else (shift, high)
        newton = shift - excess / float((masses / (1.0 + masses)).sum())
        shift = newton if low < newton < high else (low + high) / 2
    result = np.zeros(log_reference.shape)
    result[inside] = masses / masses.sum()
    return result


def objective(
    space: Space, weights: Floats, prior: Floats, measurements: Sequence[Measurement], *, rows: float, tau: float
) -> float:
    """Return F(W)."""
    fitted = space.marginals(weights, [each.marginal for each in measurements])
    misfit = sum(
        float(((rows * mass - each.values) ** 2).sum()) / (2 * each.deviation**2)
        for mass, each in zip(fitted, measurements, strict=True)
    )
    positive = weights > 0
    divergence = float((weights[positive] * np.log(weights[positive] / prior[positive])).sum())
    return misfit + tau * rows * divergence
