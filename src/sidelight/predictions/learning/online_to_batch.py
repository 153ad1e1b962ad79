"""From a sequence to one answer: the average of what was played, and what its risk can be (online-to-batch)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError

Floats = NDArray[np.float64]


class Average:
    """The running mean of parameters, in the parametrisation in which the loss is convex.

    For Laplace priors that is (location/scale, 1/scale); the mean of locations and scales would not do.

    >>> average = Average((1,))
    >>> for theta in (1.0, 2.0, 6.0):
    ...     average.add([theta])
    >>> average.value
    array([3.])
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._sum = np.zeros(shape)
        self._count = 0

    def add(self, parameters: ArrayLike) -> None:
        """Count one more."""
        self._sum += np.asarray(parameters, dtype=np.float64)
        self._count += 1

    @property
    def value(self) -> Floats:
        """The mean of all so far."""
        if not self._count:
            raise RangeError("nothing was played yet, so there is no average")
        return np.asarray(self._sum / self._count)


def excess_risk_bound(*, regret: float, steps: int, largest_loss: float, failure_probability: float) -> float:
    """Bound the risk of the average above the best's: regret/T + 2 B sqrt((2/T) log(2/beta)).

    For independent, equally distributed data sets and losses in [-B, B] (Cesa-Bianchi, Conconi and Gentile 2004), but
    for the failure probability.

    >>> round(excess_risk_bound(regret=80.0, steps=100, largest_loss=1.0, failure_probability=0.05), 6)
    1.343241
    """
    if not (steps >= 1 and largest_loss > 0 and 0 < failure_probability < 1):
        raise RangeError("excess risk needs a step, a positive bound on the loss and a failure probability in (0, 1)")
    return regret / steps + 2 * largest_loss * math.sqrt(2 / steps * math.log(2 / failure_probability))
