"""How far the stated number of rows can be from the rows that count: from released numbers alone.

Every sum of a measured marginal tells the number of rows, and so do the first noisy number and the average of all sums.
Around each lies an interval that holds the number of rows; the bound is the distance to the far end of what they have
in common (synthesis proof page, Theorem 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, log2, sqrt

import numpy as np

from sidelight.synthesis.bounds.noise_tails import NoiseTail
from sidelight.synthesis.measuring.measurement import Measurement, NoisyRows


def bound_rows(
    measurements: Sequence[Measurement],
    rows: float,
    *,
    first: NoisyRows | None,
    sizes: Sequence[int],
    failure: float,
    first_failure: float | None = None,
) -> float:
    """Bound how far the number of rows that count is from `rows`, with probability 1 - failure - first_failure.

    `first` is None where the number of rows is public, which says nothing about rows that lie in no cell. `sizes` are
    the numbers of cells that a measurement could have had. `rows` may be any function of released numbers.

    Where `first` has a say in how many measurements there are, its own part of the probability must be fixed before it
    is drawn: `first_failure`. Without it, their number was fixed, and all is part of `failure`.
    """
    each_side = failure / (2 * (len(measurements) + 2))
    told = [
        (float(each.values.sum()), NoiseTail(each.law, each.scale).sum_level(each.values.size, each_side))
        for each in measurements
    ]
    told.append(average_of_sums(measurements, sizes=sizes, each_side=each_side))
    if first is not None:
        its_side = each_side if first_failure is None else first_failure / 2
        told.append((first.value, NoiseTail(first.law, first.scale).sum_level(1, its_side)))
    least = max(number - level for number, level in told)
    most = min(number + level for number, level in told)
    return max(most - rows, rows - max(least, 0.0), 0.0)


def average_of_sums(
    measurements: Sequence[Measurement], *, sizes: Sequence[int], each_side: float
) -> tuple[float, float]:
    """Return the average of the sums with inverse variances, and what its error exceeds with at most this probability.

    Which sizes come later depends on earlier noise, and so do the weights. Chernoff's method bears that for values of
    its parameter that are fixed before: some that suit all sizes that were possible, each with its part of the
    probability.
    """
    least = min(each.deviation for each in measurements)
    weights = [(least / each.deviation) ** 2 / each.values.size for each in measurements]
    whole = sum((least / each.deviation) ** 2 for each in measurements)  # the weights if each had one cell
    smallest, largest = min(sizes), max(sizes)
    count = 1 + ceil(log2(largest / smallest) / 2)
    cost = log(count / each_side)
    tilts = np.sqrt(2 * cost / whole * np.geomspace(smallest, largest, count)) / least
    if measurements[0].law == "laplace":  # θ times a weight must stay below 1/b; let one do so whatever the sizes are
        tilts[0] = min(tilts[0], 0.9 * sqrt(2) * smallest / least)
    levels = [
        sum(
            each.values.size * NoiseTail(each.law, each.scale).log_moment(tilt * weight)
            for each, weight in zip(measurements, weights, strict=True)
        )
        / tilt
        + cost / tilt
        for tilt in tilts.tolist()
    ]
    total = sum(weight * float(each.values.sum()) for each, weight in zip(measurements, weights, strict=True))
    return total / sum(weights), min(levels) / sum(weights)
