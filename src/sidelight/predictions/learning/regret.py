"""Regret of follow-the-regularised-leader on noisy sums: the bound, the noise in it, the step that suits it."""

from __future__ import annotations

import math
from collections.abc import Callable

from sidelight.errors import RangeError
from sidelight.predictions.learning.regulariser import Regulariser


def noise_norm(regulariser: Regulariser, *, deviation: float, steps: int, failure_probability: float) -> float:
    """Bound ||noise||_* of all estimates at once, but for the failure probability: (Gw + C sqrt(2 log(T/beta))) sd."""
    if not 0 < failure_probability < 1:
        raise RangeError(f"failure_probability must lie strictly between 0 and 1, got {failure_probability}")
    spread = math.sqrt(2 * math.log(steps / failure_probability))
    return (regulariser.gaussian_width + regulariser.dual_lipschitz * spread) * deviation


def best_step_size(*, radius_squared: float, lipschitz: float, noise: float, steps: int) -> float:
    """Return sqrt(R^2 / (L (L + noise) T)), which balances the two parts of the bound.

    >>> best_step_size(radius_squared=4.0, lipschitz=1.0, noise=3.0, steps=100)
    0.1
    """
    if not (radius_squared > 0 and lipschitz > 0 and noise >= 0 and steps >= 1):
        raise RangeError("a step size needs a positive radius and Lipschitz constant, noise of at least 0, and a step")
    return math.sqrt(radius_squared / (lipschitz * (lipschitz + noise) * steps))


def regret_bound(*, radius_squared: float, lipschitz: float, noise: float, step_size: float) -> Callable[[int], float]:
    """Return the bound on sum_t loss_t(theta_t) - loss_t(theta*) as a function of the number of steps.

    R^2/eta + eta L (L T + sum_t ||b_t||_*), with every ||b_t||_* at most `noise` (learning proof page, section 3).

    >>> regret_bound(radius_squared=4.0, lipschitz=1.0, noise=3.0, step_size=0.1)(100)
    80.0
    """

    def bound(steps: int) -> float:
        return radius_squared / step_size + step_size * lipschitz * (lipschitz + noise) * steps

    return bound
