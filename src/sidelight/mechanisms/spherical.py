"""Pure noise for vectors of bounded Euclidean length: density ∝ exp(-ε‖z‖/Δ), a gamma length in a uniform direction."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, PureDP, positive
from sidelight.mechanisms.gridded import gridded_sum
from sidelight.noise import Source, directions, gamma


def spherical_laplace(bounded: Bounded, *, epsilon: Amount, source: Source) -> NDArray[np.float64]:
    """Add a uniform direction times a gamma length of shape d and scale Δ₂/ε, on a grid of 2**-10 of the noise.

    Guarantee: PureDP(epsilon), idealized: the triangle inequality bounds the log density's change by ε‖shift‖/Δ₂.

    Accuracy: standard deviation √(d+1)·Δ₂/ε an entry; Laplace noise on the entries has √(2d)·Δ₂/ε.
    """
    deviation = spherical_deviation(bounded, epsilon=epsilon)
    assert not isinstance(bounded.value, int)
    size = bounded.shape[0]
    length = gamma(size, 1, source)[0] * (deviation / sqrt(size + 1))
    noise = directions(1, size, source)[0] * length
    return gridded_sum(bounded.value, noise, smallest_deviation=deviation)


def spherical_deviation(bounded: Bounded, *, epsilon: Amount) -> float:
    """Return the standard deviation √(d+1)·Δ₂/ε of an entry, in units of the statistic."""
    if len(bounded.shape) != 1 or bounded.norm != "l2":
        raise RangeError(
            f"spherical noise wants a vector with a sensitivity in l2, got {bounded.shape}, {bounded.norm}"
        )
    if bounded.sensitivity == 0:
        raise RangeError("a statistic of sensitivity 0 depends on nobody; release it without noise")
    return sqrt(bounded.shape[0] + 1) * float(bounded.sensitivity / positive(epsilon, name="epsilon"))


def spherical_claims(bounded: Bounded, *, epsilon: Amount) -> Claims:
    """Return what `spherical_laplace` proves; needs the public parts of the statistic only."""
    spherical_deviation(bounded, epsilon=epsilon)
    return Claims.of(PureDP(epsilon, neighbours=bounded.neighbours, unit=bounded.unit, numerics="idealized"))
