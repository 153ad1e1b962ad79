"""A measured marginal: the released numbers, their noise, and what they say about a fit. All of it is public.

The number of rows is told by everything released. A first number is released with a small share of the price; every
measured marginal tells it again: its cells sum to the number of rows that lie in a cell, which is the same for all
marginals, plus the noise of all its cells. The numbers are averaged with inverse variances, which are public (synthesis
proof page, Proposition 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class RowsEstimate:
    """The first noisy number of rows with the sums of measured marginals; or a public number, which nothing changes.

    Each of `sums` has its standard deviation with it.

    >>> first = NoisyRows(value=90.0, law="gaussian", scale=10.0, deviation=10.0)
    >>> RowsEstimate(first, sums=((100.0, 5.0),)).rows  # (90 + 4 · 100)/5
    98.0
    """

    first: NoisyRows | float
    sums: tuple[tuple[float, float], ...] = ()

    @property
    def noisy(self) -> NoisyRows | None:
        """The first number; None if it is public."""
        return self.first if isinstance(self.first, NoisyRows) else None

    def with_sums(self, measurements: Sequence[Measurement]) -> RowsEstimate:
        """Return the estimate in the light of further measurements: the sum of c cells has c times their variance."""
        if self.noisy is None:
            return self
        sums = [(float(each.values.sum()), each.deviation * sqrt(each.values.size)) for each in measurements]
        return replace(self, sums=(*self.sums, *sums))

    @property
    def mean(self) -> float:
        """Σ tᵢ/vᵢ / Σ 1/vᵢ over all numbers t and their variances v; it may be negative, and is rarely whole."""
        if not isinstance(self.first, NoisyRows):
            return self.first
        numbers = [(self.first.value, self.first.deviation), *self.sums]
        # relative to the best one: the squares of deviations of any size neither overflow nor vanish
        least = min(deviation for _, deviation in numbers)
        weights = [(least / deviation) ** 2 for _, deviation in numbers]
        return sum(w * number for w, (number, _) in zip(weights, numbers, strict=True)) / sum(weights)

    @property
    def rows(self) -> float:
        """The nearest whole number from 1 to 2**40."""
        return possible_rows(self.mean)
