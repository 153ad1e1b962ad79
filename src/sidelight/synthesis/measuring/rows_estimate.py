"""The number of rows, from everything released that tells it: post-processing.

A first number is released with a small share of the price. Every measured marginal tells it again: its cells sum to the
number of rows that lie in a cell, which is the same for all marginals, plus the noise of all its cells. The numbers are
averaged with inverse variances, which are public (synthesis proof page, Proposition 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from sidelight.synthesis.measuring.measurement import Measurement, NoisyRows, possible_rows


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
