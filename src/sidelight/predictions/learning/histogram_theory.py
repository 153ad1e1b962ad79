"""What the regret bounds suggest for the histogram learner before any data is seen: floor weight and number of bins."""

from __future__ import annotations

import math

from sidelight.errors import RangeError


def _penalty(levels: int, release_epsilon: float, epsilon: float) -> float:
    """Return 1 + min(1, e)/eps' with e the largest release epsilon, twice that for several levels."""
    if not (levels >= 1 and release_epsilon > 0 and epsilon > 0):
        raise RangeError("levels, release_epsilon and epsilon must be positive")
    return 1 + min(1.0, (2 if levels > 1 else 1) * release_epsilon) / epsilon


def suggested_floor_weight(*, levels: int, bins: int, steps: int, release_epsilon: float, epsilon: float) -> float:
    """Return gamma for comparison with all histograms; with those that are hedged by lam themselves, take lam.

    sqrt(m d) ((1 + min(1, e)/eps')/T)^(1/4), at most 1.

    >>> round(suggested_floor_weight(levels=1, bins=4, steps=10**6, release_epsilon=1.0, epsilon=1.0), 9)
    0.075212062
    """
    penalty = _penalty(levels, release_epsilon, epsilon)
    return float(min(1.0, math.sqrt(levels * bins) * (penalty / steps) ** 0.25))


def suggested_bins(
    *,
    levels: int,
    steps: int,
    width: float,
    lipschitz: float,
    loss_floor: float,
    release_epsilon: float,
    epsilon: float,
) -> int:
    """Return d for priors with V-Lipschitz densities on an interval of that width: sqrt(V w^3/psi sqrt(penalty T)).

    `loss_floor` is psi, a lower bound on the quality of the comparator.
    """
    if not (width > 0 and lipschitz > 0 and loss_floor > 0 and steps >= 1):
        raise RangeError("width, lipschitz, loss_floor and steps must be positive")
    penalty = _penalty(levels, release_epsilon, epsilon)
    return max(2, math.ceil(math.sqrt(lipschitz * width**3 / loss_floor * math.sqrt(penalty * steps))))
