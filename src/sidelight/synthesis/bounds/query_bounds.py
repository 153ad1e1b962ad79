"""How far single queries of a released distribution can be from the rows: the bounds of `engine="mwem"`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidelight.synthesis.bounds.marginal_bounds import selection_loss
from sidelight.synthesis.bounds.noise_tails import NoiseTail
from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.measuring.round_records import QueryRound


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
