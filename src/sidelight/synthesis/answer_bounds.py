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
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil, exp, floor, inf, log, log1p, pi, prod, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.synthesis.answers import QueryKey
from sidelight.synthesis.measurement import MarginalMeasurement
from sidelight.synthesis.selection import SCORE_STEPS, MarginalRound, QueryRound, on_grid
from sidelight.synthesis.spaces import Floats
from sidelight.synthesis.workload import Marginal

# Levels that sums and l1 norms of integer noise exceed with at most a given probability, by Chernoff's method with the
# generating functions of the integers that are added (synthesis proof page, Theorem 8). Any value of the method's
# parameter gives a valid level, so its choice needs no proof.

#: More than the rounding of floats in what follows, relative.
_MARGIN = 1.0 + 1e-6
#: Beyond this deviation the half row that rounding may add to each entry no longer matters.
_WIDE = 1000.0


@dataclass(frozen=True)
class NoiseTail:
    """Independent noise of one law: `scale` is b of the discrete Laplace law, σ of the rounded Gaussian one.

    >>> round(NoiseTail("gaussian", 10.0).sum_level(1, 0.05), 1)  # 1.64 deviations, a whole number
    16.0
    """

    law: Literal["gaussian", "laplace"]
    scale: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < inf:
            raise RangeError(f"noise has a positive scale, got {self.scale}")

    def sum_level(self, count: int, probability: float) -> float:
        """Return a level that ±Z₁ ± … ± Z_j exceeds with at most this probability, for any signs and j <= count."""
        return _MARGIN * _sum_level(self.law, self.scale, count, probability)

    def norm_level(self, count: int, probability: float) -> float:
        """Return a level that |Z₁| + … + |Z_count| exceeds with at most this probability."""
        return _MARGIN * _norm_level(self.law, self.scale, count, probability)

    def log_moment(self, tilt: float) -> float:
        """Return a bound of log E exp(tilt · Z), tilt > 0; infinite where that is.

        >>> round(NoiseTail("gaussian", 10.0).log_moment(0.1), 4)  # 0.1² (10² + 1/12)/2
        0.5004
        """
        if self.law == "laplace":
            return inf if tilt * self.scale >= 1.0 else _MARGIN * float(_log_laplace(self.scale, tilt * self.scale))
        # every s >= σ is allowed: a narrow one has the smaller first term, a wide one the smaller second
        allowed = (max(self.scale, 0.5), max(self.scale, 0.75), max(self.scale, 1.0))
        return _MARGIN * min(tilt * tilt * (s * s + 1.0 / 12.0) / 2.0 + _ripple(s) for s in allowed)


@lru_cache(maxsize=4096)
def _sum_level(law: str, scale: float, count: int, probability: float) -> float:
    if count == 1:
        return _single_level(law, scale, probability)
    weight = log(1.0 / probability)
    if law == "laplace":
        tried = _tried_shares()
        return float(((count * _log_laplace(scale, tried) + weight) * scale / tried).min())
    from scipy.special import ndtri

    # Poisson summation: log E exp(θK) <= θ²(s² + 1/12)/2 + κ(s) for every s >= σ; and K is within 1/2 of N(0, σ²)
    chernoff = [
        sqrt(2.0 * count * (s * s + 1.0 / 12.0) * (weight + count * _ripple(s)))
        for s in (max(scale, 0.5), max(scale, 0.75), max(scale, 1.0))
    ]
    return min(*chernoff, -float(ndtri(probability)) * scale * sqrt(count) + count / 2.0)


def _log_laplace(scale: float, share: Any) -> Any:
    """Return log E exp(θZ) of discrete Laplace noise for θ = share/b."""
    return 2 * _log_gap(1.0 / scale) - _log_gap((1.0 - share) / scale) - _log_gap((1.0 + share) / scale)


def _single_level(law: str, scale: float, probability: float) -> float:
    """Return the smallest whole k with P(Z > k) <= probability, from the law itself."""
    if law == "laplace":  # P(Z >= k + 1) = a^(k + 1)/(1 + a), a = exp(-1/b)
        return float(max(floor(scale * (-log(probability) - log1p(exp(-1.0 / scale)))), 0))
    from scipy.special import ndtri

    return float(max(ceil(-float(ndtri(probability)) * scale - 0.5), 0))  # P(K >= k + 1) = P(N(0, σ²) >= k + 1/2)


@lru_cache(maxsize=4096)
def _norm_level(law: str, scale: float, count: int, probability: float) -> float:
    weight = log(1.0 / probability)
    if law == "laplace":
        tried = _tried_shares()
        ratio = np.exp(-(1.0 - tried) / scale)  # a·e^θ
        logs = _log_gap(1.0 / scale) - log1p(exp(-1.0 / scale)) + np.log1p(ratio) - _log_gap((1.0 - tried) / scale)
        return float(((count * logs + weight) * scale / tried).min())
    tilt = sqrt(2.0 * weight / count) / scale
    return (count * _log_absolute(scale, tilt) + weight) / tilt


def _log_absolute(scale: float, tilt: float) -> float:
    """Bound log E exp(θ|K|) of rounded Gaussian K from above: 1 + (1 - e^-θ) Σ_{k >= 1} e^(θk) P(|K| >= k)."""
    from scipy.special import log_ndtr, logsumexp

    if scale > _WIDE:  # |K| <= |X| + 1/2
        return log(2.0) + tilt * tilt * scale * scale / 2.0 + float(log_ndtr(tilt * scale)) + tilt / 2.0
    last = ceil(scale * (tilt * scale + 12.0)) + 1
    k = np.arange(1, last + 1, dtype=np.float64)
    logs = tilt * k + log(2.0) + log_ndtr(-(k - 0.5) / scale)
    # P(|K| >= k) <= exp(-(k - 1/2)²/(2σ²)): beyond `last` a geometric series
    ratio = exp(tilt - (last + 1) / scale**2)
    rest = tilt * (last + 1) - (last + 0.5) ** 2 / (2.0 * scale**2) - log1p(-ratio)
    return float(np.logaddexp(0.0, np.log(-np.expm1(-tilt)) + logsumexp([*logs, rest])))


def _ripple(s: float) -> float:
    """Return κ(s) = log(1 + 2 Σ_{j >= 1} exp(-2π²s²j²)): what the lattice adds."""
    # for s >= 1/2 ten terms leave out less than 1e-200
    return log1p(2.0 * sum(exp(-2.0 * pi**2 * s * s * j * j) for j in range(1, 11)))


def _log_gap(x: Any) -> Any:
    """Return log(1 - e^-x)."""
    return np.log(-np.expm1(-x))


@lru_cache(maxsize=1)
def _tried_shares() -> NDArray[np.float64]:
    """Return values of θb in (0, 1)."""
    steps = np.geomspace(1e-4, 0.5, 200)
    return np.concatenate([steps, 1.0 - steps])


#: Marginals of up to this many columns of a measured one are covered, besides itself.
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


def measured_bound(measurement: MarginalMeasurement, final: Floats, *, failure: float) -> float:
    """Bound ‖counts - final‖₁ of a measured marginal, with probability 1 - failure, for a fit that saw the noise."""
    noise = _tail(measurement).norm_level(measurement.values.size, failure)
    return _distance(measurement.values, final) + noise


def bound_marginals(
    records: Sequence[MarginalRound],
    measurements: Sequence[MarginalMeasurement],
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


def _tail(measurement: MarginalMeasurement) -> NoiseTail:
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


def measured_query_bounds(measurement: MarginalMeasurement, final: Floats, *, failure: float) -> dict[QueryKey, float]:
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


def grouped_query_bounds(measurement: MarginalMeasurement, fine: Floats, *, failure: float) -> dict[QueryKey, float]:
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
    measurements: Sequence[MarginalMeasurement], final: Mapping[Marginal, Floats], *, failure: float
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
