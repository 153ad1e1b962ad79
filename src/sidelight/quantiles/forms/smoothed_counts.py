"""Counts of leaves drawn towards what the curve through the round above says of them, as far as noise outweighs chance.

The records of a parent cell fall into its leaves by chance, with about as much variance as there are records, around
what a curve expects; their counts have noise of a known variance besides. Where noise is the larger of the two, the
count of a leaf says less than the curve does. How well the curve fits is read off the same counts: where these
contradict it by more than chance and noise can, they are believed. Post-processing of released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sidelight.quantiles.forms.least_squares import UNCOUNTED, Round, agreed_counts

Floats = NDArray[np.float64]

#: How many leaves' worth of evidence about the fit all other parents together are, beside a parent's own leaves.
_SHARED_EVIDENCE = 6.0
#: What a cut counts there at most: one parent that does not fit says little of the others.
_MOST_SHARED = 8.0
#: What it counts at most in its own parent.
_MOST_MISFIT = 1e12


def smoothed_counts(rounds: Sequence[Round], expected: Floats, rough: NDArray[np.bool_]) -> Floats:
    """Return the agreed counts of the last round's cells, those of smooth data drawn towards expected ones.

    Accuracy: for data that the curve fits, the noise of a rank inside a parent falls by chance / (chance + noise); the
    sums of parents stay what least squares made them.

    Args:
        rounds: As in `least_squares.agreed_counts`.
        expected: What the curve through the round above says of each cell; not finite where it says nothing.
        rough: Cells whose count contradicts the curve: it is believed as it is.

    >>> rounds = [Round.of([400, 40], 1.0), Round.of([190, 210, 40], 100.0, [0, 0, 1])]
    >>> smoothed_counts(rounds, np.array([200.0, 200.0, 40.0]), np.zeros(3, bool)).round().tolist()
    [193.0, 207.0, 40.0]
    """
    last, found = rounds[-1], agreed_counts(rounds)[-1]
    own = _Parents(last.parents)
    told = (last.variances < UNCOUNTED) & np.isfinite(expected)
    shape = np.where(told, np.maximum(expected, 0.0), 0.0)
    smooth = (own.sum(told) == own.sum(np.ones(told.size))) & (own.sum(shape) > 0) & (own.sum(found) > 0)
    noise = np.where(smooth, last.variances, 1.0)
    # What is expected adds up to the parent's agreed count; around it counts vary by about as much, if the curve fits.
    mean = np.where(smooth, shape * own.sum(found) / np.where(smooth, own.sum(shape), 1.0), 0.0)
    chance = np.maximum(mean, 1.0)
    apart = last.counts - mean
    # The rank at each cut between leaves beside what is expected there: noise and chance are those of a bridge.
    beside = own.running(apart - noise * own.sum(apart) / own.sum(noise))
    cuts = smooth & ~own.ends
    with np.errstate(all="ignore"):  # counts of no size that data has
        misfit = (beside**2 - own.bridge(noise)) / own.bridge(chance)
    misfit = np.where(cuts, np.clip(np.nan_to_num(misfit), -_MOST_MISFIT, _MOST_MISFIT), 0.0)
    shared = float(np.minimum(misfit, _MOST_SHARED).sum()) / max(int(cuts.sum()), 1)
    fit = (own.sum(misfit) + _SHARED_EVIDENCE * shared) / (own.sum(cuts) + _SHARED_EVIDENCE)
    # The minimum of (count - counted)² / noise + (count - expected)² / chance over counts that add up.
    chance = np.maximum(fit, 1.0) * chance
    weight = np.where(rough, 1.0, chance / (chance + noise))
    drawn, spread = weight * apart, weight * noise
    return np.where(smooth, mean + drawn - spread * own.sum(drawn) / own.sum(spread), found)


class _Parents:
    """The leaves of each parent, in the order of place: sums over all of them, and up to each."""

    def __init__(self, parents: NDArray[np.intp]) -> None:
        _, self._starts, self._own = np.unique(parents, return_index=True, return_inverse=True)
        self.ends = np.append(np.diff(self._own) > 0, True)  # the last leaf of each

    def sum(self, values: NDArray[np.float64] | NDArray[np.bool_]) -> Floats:
        """Return for each leaf the sum over its parent's."""
        return np.asarray(np.add.reduceat(values.astype(np.float64), self._starts)[self._own])

    def running(self, values: Floats) -> Floats:
        """Return for each leaf the sum up to it, of its parent's."""
        sums = np.cumsum(values)
        return np.asarray(sums - (sums[self._starts] - values[self._starts])[self._own])

    def bridge(self, variances: Floats) -> Floats:
        """Return the variances of sums up to each leaf of terms that add up to what is known."""
        running = self.running(variances)
        return running * (1 - running / self.sum(variances))
