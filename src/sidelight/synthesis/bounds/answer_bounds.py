"""How far marginals of a released distribution can be from the rows, measured or not: from released numbers alone.

A selection that preferred another marginal says that this one was answered hardly worse; the one that it preferred was
measured right afterwards. So every round bounds the distance of all its candidates to what was expected then, and the
triangle inequality carries that to the final distribution (synthesis proof page, Theorem 8).

Single queries on a measured marginal (its counts, those of its parts, ranges and prefixes) have bounds of their own:
the sum of a few noisy counts has far less noise than all of them one by one. Which queries are covered depends on the
columns alone, so that one failure probability can be split among them beforehand. `bound_queries` is for engines that
answer single queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import inf, log, prod

import numpy as np

from sidelight.synthesis.bounds.noise_tails import NoiseTail
from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.measuring.measurement import Measurement
from sidelight.synthesis.measuring.selection import SCORE_STEPS, MarginalRound, on_grid
from sidelight.synthesis.measuring.single_queries import QueryRound
from sidelight.synthesis.output.answers import QueryKey

#: Marginals of up to so many columns of a measured one are covered, besides itself.
MOST_PARTS = 3


def selection_loss(candidates: int, *, steepness: float, failure: float) -> float:
    """Return how far below the best score a draw ∝ exp(steepness · score) stays, but with at most this probability.

    The worst case is that all others are equally bad: P = a/(1 + a) with a = (candidates - 1)·exp(-steepness · loss).

    >>> round(selection_loss(3, steepness=0.1, failure=0.01), 2)  # 10 log(2 · 99)
    52.88
    """
    if candidates == 1:
        return 0.0
    return max(log(candidates - 1) + log((1.0 - failure) / failure), 0.0) / steepness


def round_bounds(record: MarginalRound, final: Mapping[Marginal, Floats], *, failure: float) -> dict[Marginal, float]:
    """Bound ‖counts - final‖₁ of all candidates of a round, together, with probability 1 - 2 · failure."""
    penalties = on_grid(np.array(record.penalties)) / SCORE_STEPS
    # |a + z| >= |a| + sign(a)·z: the measured distance is hardly below the true one
    noise = _tail(record.measured).sum_level(record.measured.values.size, failure)
    there = _distance(record.measured.values, on_grid(record.expected[record.chosen]) / SCORE_STEPS) + noise
    loss = selection_loss(len(record.candidates), steepness=record.steepness, failure=failure)
    best = np.maximum(there - penalties[record.chosen] + loss + penalties, 0.0)
    best[record.chosen] = min(best[record.chosen], there)
    # all candidates in one array: there are many, and most are small
    expected = on_grid(np.concatenate([each.reshape(-1) for each in record.expected])) / SCORE_STEPS
    apart = np.abs(expected - np.concatenate([final[each].reshape(-1) for each in record.candidates]))
    starts = np.cumsum([0, *(each.size for each in record.expected[:-1])])
    return dict(zip(record.candidates, (best + np.add.reduceat(apart, starts)).tolist(), strict=True))


def measured_bound(measurement: Measurement, final: Floats, *, failure: float) -> float:
    """Bound ‖counts - final‖₁ of a measured marginal, with probability 1 - failure, for a fit that saw the noise."""
    noise = _tail(measurement).norm_level(measurement.values.size, failure)
    return _distance(measurement.values, final) + noise


def bound_marginals(
    records: Sequence[MarginalRound],
    measurements: Sequence[Measurement],
    final: Mapping[Marginal, Floats],
    *,
    failure: float,
) -> dict[Marginal, float]:
    """Bound ‖counts - final‖₁ of every marginal that was measured or could have been, all together.

    Guarantee: all hold with probability 1 - (2 · rounds + measurements) · failure, whatever the rows are. A function of
    released numbers.
    """
    found: dict[Marginal, float] = {}
    for measurement in measurements:
        bound = measured_bound(measurement, final[measurement.marginal], failure=failure)
        found[measurement.marginal] = min(found.get(measurement.marginal, inf), bound)
    for record in records:
        for each, bound in round_bounds(record, final, failure=failure).items():
            found[each] = min(found.get(each, inf), bound)
    return {each: min(bound for other, bound in found.items() if refines(other, each)) for each in found}


def refines(fine: Marginal, coarse: Marginal) -> bool:
    """Return whether every cell of `coarse` is a sum of cells of `fine`, whose l1 distances then bound the coarse ones.

    >>> refines(Marginal(("a", "b"), (1, 2)), Marginal(("b",), (4,)))
    True
    """
    widths = dict(zip(fine.columns, fine.widths, strict=True))
    return all(
        name in widths and width % widths[name] == 0 for name, width in zip(coarse.columns, coarse.widths, strict=True)
    )


def _tail(measurement: Measurement) -> NoiseTail:
    return NoiseTail(measurement.law, measurement.scale)


def _distance(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).sum())


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


def bound_queries(records: Sequence[QueryRound], final: Floats, *, law: str, failure: float) -> Floats:
    """Bound |⟨q, x⟩ - final| of every query, all together; infinite for one that no round could choose.

    Guarantee: all hold with probability 1 - 2 · rounds · failure, whatever the rows are. Of each round, and of the mean
    of all rounds, which is what the average of their weights stands for (synthesis proof page, Theorem 8).
    """
    best = np.full(final.shape, np.inf)
    slacks, centres, times = np.zeros((3, *final.shape))
    for record in records:
        answered, places = record.answered, record.places
        tail = NoiseTail("laplace" if law == "laplace" else "gaussian", record.noise_scale)
        noise = tail.sum_level(1, failure) / answered.block.steps
        there = abs(answered.value - float(record.expected[answered.place])) + noise
        slack = there + selection_loss(len(places), steepness=record.steepness, failure=failure)
        apart = np.abs(record.expected - final)
        best[places] = np.minimum(best[places], slack + apart[places])
        best[answered.place] = min(best[answered.place], there + apart[answered.place])
        slacks[places] += slack
        centres[places] += record.expected[places]
        times[places] += 1
    seen = times > 0
    mean = slacks[seen] / times[seen] + np.abs(centres[seen] / times[seen] - final[seen])
    best[seen] = np.minimum(best[seen], mean)
    return best
