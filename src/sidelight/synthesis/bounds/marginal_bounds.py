"""How far marginals of a released distribution can be from the rows, measured or not: from released numbers alone.

A selection that preferred another marginal says that this one was answered hardly worse; the one that it preferred was
measured right afterwards. So every round bounds the distance of all its candidates to what was expected then, and the
triangle inequality carries that to the final distribution (synthesis proof page, Theorem 8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log

import numpy as np

from sidelight.synthesis.bounds.noise_tails import NoiseTail
from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.measuring.measurement import Measurement
from sidelight.synthesis.measuring.round_records import MarginalRound
from sidelight.synthesis.measuring.selection import SCORE_STEPS, on_grid


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
