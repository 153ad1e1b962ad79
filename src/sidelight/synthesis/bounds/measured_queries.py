"""How far single queries on a measured marginal can be off: its counts, those of its parts, ranges and prefixes.

The sum of a few noisy counts has far less noise than all of them one by one, so that these are much smaller than what
the bound for the whole marginal says. Which queries are covered depends on the columns alone, so that one failure
probability can be split among them beforehand (synthesis proof page, Theorem 8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import inf, prod

import numpy as np

from sidelight.synthesis.bounds.error_bounds import QueryKey
from sidelight.synthesis.bounds.noise_tails import NoiseTail
from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.measuring.measurement import Measurement

#: Marginals of up to so many columns of a measured one are covered, besides itself.
MOST_PARTS = 3


def covered_parts(axes: int) -> list[tuple[int, ...]]:
    """Return the sets of axes whose counts are covered.

    >>> covered_parts(2)
    [(0,), (1,), (0, 1)]
    """
    parts = [part for size in range(1, MOST_PARTS + 1) for part in combinations(range(axes), size)]
    return list(dict.fromkeys([*parts, tuple(range(axes))]))


def covered_queries(shape: Sequence[int]) -> int:
    """Return how many queries are covered: the counts of all parts, and all ranges of each column.

    >>> covered_queries([2, 3])  # 2 + 3 + 6 counts, 3 + 6 ranges
    20
    """
    counts = sum(prod(shape[axis] for axis in part) for part in covered_parts(len(shape)))
    return counts + sum(size * (size + 1) // 2 for size in shape)


def measured_query_bounds(measurement: Measurement, final: Floats, *, failure: float) -> dict[QueryKey, float]:
    """Bound the largest error of each kind of covered queries, all together with probability 1 - failure."""
    columns, shape = measurement.marginal.columns, measurement.values.shape
    apart = measurement.values - final
    each_side = failure / (2 * covered_queries(shape))
    tail = NoiseTail(measurement.law, measurement.scale)
    found: dict[QueryKey, float] = {}
    for part in covered_parts(len(shape)):
        others = tuple(axis for axis in range(len(shape)) if axis not in part)
        summed = prod(shape[axis] for axis in others)
        sums = apart.sum(axis=others)
        names = tuple(columns[axis] for axis in part)
        found[names, "cells"] = float(np.abs(sums).max()) + tail.sum_level(summed, each_side)
        if len(part) == 1:
            # a range is the difference of two running sums; the longest has the most noise
            running, longest = np.concatenate([[0.0], np.cumsum(sums)]), tail.sum_level(summed * len(sums), each_side)
            found[names, "prefixes"] = float(np.abs(running).max()) + longest
            found[names, "ranges"] = float(running.max() - running.min()) + longest
            found[names, "dyadic ranges"] = found[names, "ranges"]
    return found


def grouped_query_bounds(measurement: Measurement, fine: Floats, *, failure: float) -> dict[QueryKey, float]:
    """Bound prefixes and ranges of one column that was measured in groups; `fine` are the final counts of its values.

    Running sums only grow, in the rows and in the fit: inside a group both lie between their values at its ends.
    """
    (width,) = measurement.marginal.widths
    at_ends = measured_query_bounds(measurement, measurement.marginal.grouped(fine), failure=failure)
    starts = np.arange(0, len(fine), width)
    ends = np.minimum(starts + width, len(fine)) - 1
    totals = np.add.reduceat(fine, starts)
    inside = float((totals - np.minimum(fine[starts], fine[ends])).max())
    names = measurement.marginal.columns
    return {
        (names, "prefixes"): at_ends[names, "prefixes"] + inside,
        (names, "ranges"): at_ends[names, "ranges"] + 2 * inside,
        (names, "dyadic ranges"): at_ends[names, "ranges"] + 2 * inside,
    }


def bound_measured_queries(
    measurements: Sequence[Measurement], final: Mapping[Marginal, Floats], *, failure: float
) -> dict[QueryKey, float]:
    """Bound the covered queries of all measured marginals; `final` also has the ungrouped ones of grouped columns.

    Guarantee: all hold with probability 1 - measurements · failure, whatever the rows are. A function of released
    numbers.
    """
    found: dict[QueryKey, float] = {}
    for each in measurements:
        if each.marginal.fine:
            bounds = measured_query_bounds(each, final[each.marginal], failure=failure)
        elif len(each.marginal.columns) == 1:
            bounds = grouped_query_bounds(each, final[Marginal(each.marginal.columns)], failure=failure)
        else:
            continue
        for key, bound in bounds.items():
            found[key] = min(found.get(key, inf), bound)
    return found
