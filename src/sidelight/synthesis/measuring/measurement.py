"""A measured marginal: the released numbers, their noise, and what they say about a fit. All of it is public."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import pi, sqrt
from typing import Any, Literal

import numpy as np

from sidelight.mechanisms.additive import Noise
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.measuring.private_marginals import PrivateMarginals, Protection

#: A number of rows beyond this is noise, and would not fit the integers of scores.
MOST_ROWS = 1 << 40


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """Counts of a partition with noise of one scale.

    `deviation` is the noise's standard deviation, `mean_error` its mean absolute value; `scale` is the Gaussian's
    deviation or the Laplace b.
    """

    marginal: Marginal
    values: Floats = field(repr=False)
    law: Literal["gaussian", "laplace"]
    scale: float
    deviation: float
    mean_error: float

    def residual(self, expected: Floats) -> float:
        """Return the mean distance between the released and the expected counts, in mean absolute errors of the noise.

        About 1 where the fit leaves nothing but noise. A function of released numbers alone.
        """
        return float(np.abs(self.values - expected).mean()) / self.mean_error

    def expected_error(self, rows: float) -> float:
        """Return the expected l1 distance to the true marginal that the noise alone causes, as a share of the rows."""
        return self.mean_error * self.values.size / max(rows, 1.0)


def noise_of(price: Budget, protection: Protection) -> dict[str, Any]:
    """Return the noise that a budget buys for a partition: law, scale, deviation and mean absolute value."""
    return _described(price.on(protection.bounded(np.zeros(2, np.int64), price.norm)))


def _described(noise: Noise) -> dict[str, Any]:
    scale = float(noise.scale)
    mean_error = scale if noise.law == "laplace" else scale * sqrt(2 / pi)  # b, or σ√(2/π)
    return {"law": noise.law, "scale": scale, "deviation": noise.deviation, "mean_error": mean_error}


def measure(counts: PrivateMarginals, marginal: Marginal, *, price: Budget, source: Source) -> Measurement:
    """Release a whole marginal: all its cells share one budget, because a row lies in one of them.

    Guarantee: the claims of `price.on` the partition, exact on the machine.
    """
    exact = marginal.grouped(counts.exact(marginal.columns))
    noise = price.on(counts.protection.bounded(exact, price.norm))
    return Measurement(marginal=marginal, values=np.asarray(noise.release(source), np.float64), **_described(noise))


@dataclass(frozen=True, kw_only=True)
class NoisyRows:
    """The number of rows with noise, as it came out: `value` may be negative. `scale` is as for a `Measurement`."""

    value: float
    law: Literal["gaussian", "laplace"]
    scale: float
    deviation: float

    @property
    def rows(self) -> float:
        """The nearest number that a table can have."""
        return possible_rows(self.value)


def noisy_rows(counts: PrivateMarginals, *, price: Budget, source: Source) -> NoisyRows:
    """Release the number of rows.

    Guarantee: the claims of `price.on` one count, exact on the machine.
    """
    noise = price.on(counts.protection.bounded(counts.exact_rows(), "l1"))
    return NoisyRows(
        value=float(noise.release(source)),
        law="laplace" if price.is_pure else "gaussian",
        scale=float(noise.scale),
        deviation=noise.deviation,
    )


def measured_rows(counts: PrivateMarginals, *, price: Budget, source: Source) -> float:
    """Release the number of rows, at least 1 and at most 2**40.

    Guarantee: as for `noisy_rows`.
    """
    return noisy_rows(counts, price=price, source=source).rows


def possible_rows(number: float) -> float:
    """Return the nearest whole number from 1 to 2**40.

    >>> possible_rows(-3.0), possible_rows(12.6)
    (1.0, 13.0)
    """
    return float(round(min(max(number, 1.0), float(MOST_ROWS))))
