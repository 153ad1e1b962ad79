"""How far ranks from noisy counts can be off: the noise of a rank is a known sum of independent noises.

Everything is linear before ranks are made to rise, which moves no rank further than the worst of those that it joins.
The bound is Chernoff's, with the moments of the noise as it is: Laplace or Gaussian, and the chance in how many of a
cell's records lie below a place in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sidelight.quantiles.forms.least_squares import Round

Floats = NDArray[np.float64]

#: The confidence at which the linear bound touches the best one; elsewhere it is a valid bound and a little larger.
_TOUCHING = 0.95
#: How many multiples of the largest possible exponent are tried.
_TRIED = np.concatenate([np.geomspace(1e-3, 0.5, 24), np.linspace(0.55, 0.97, 12)])


def noise_coefficients(rounds: Sequence[Round], weights: Floats) -> list[Floats]:
    """Return by how much each noisy count enters sums of agreed counts: one matrix a round, one row a sum.

    Args:
        rounds: As in `least_squares.agreed_counts`.
        weights: One row a sum: the weights of the first round's outermost cells and of the last round's cells, in the
            order of place: below everything, then all leaves, then above everything.

    The transposed passes of `agreed_counts`: first down, then up.
    """
    last = len(rounds) - 1
    noise = [each.variances for each in rounds]
    own = list(noise)
    share = [np.ones_like(each) for each in own]  # of a cell's own count in its estimate
    spread: list[Floats] = []
    for above in range(last - 1, -1, -1):
        total = np.asarray(np.bincount(rounds[above + 1].parents, own[above + 1], noise[above].size), np.float64)
        parted = total > 0
        share[above] = np.where(parted, total / (total + noise[above]), 1.0)
        own[above] = share[above] * noise[above]
        spread.insert(0, total)
    down = [np.zeros((weights.shape[0], each.counts.size)) for each in rounds]
    if last:
        down[0][:, 0], down[0][:, -1] = weights[:, 0], weights[:, -1]
        down[last] = weights[:, 1:-1].copy()
    else:
        down[0] = weights.copy()
    pulled: list[Floats] = []
    for above in range(last - 1, -1, -1):
        sums = _summed(down[above + 1] * own[above + 1], rounds[above + 1].parents, noise[above].size)
        pull = np.divide(sums, spread[above], out=np.zeros_like(sums), where=spread[above] > 0)
        down[above] += pull
        pulled.insert(0, pull)
    found = []
    for place in range(last + 1):
        found.append(share[place] * down[place])
        if place < last:
            handed = (1 - share[place]) * down[place] - pulled[place]
            down[place + 1] = down[place + 1] + handed[:, rounds[place + 1].parents]
    return found


def linear_bound(scaled: Sequence[Floats], *, gaussian: bool, chance: Floats, levels: int) -> tuple[Floats, Floats]:
    """Bound |sum of noise + chance| for every row at once, as fixed + per_log · log(1 / failure probability).

    Guarantee: with probability 1 - beta no row exceeds its bound, for every beta; `levels` is the number of rows that
    share it.

    Args:
        scaled: Coefficients times standard deviations of the noise, a matrix a round.
        gaussian: Whether the noise is Gaussian; else Laplace.
        chance: For each row the variance proxy of what else is sub-Gaussian in it.
        levels: Over how many rows the failure probability is divided.
    """
    squares = sum((np.einsum("ij,ij->i", each, each) for each in scaled), np.zeros(chance.size))
    wanted = np.log(2 * levels)
    touching = wanted - np.log(1 - _TOUCHING)
    if gaussian:
        deviation = np.sqrt(squares + chance)
        exponent = np.sqrt(2 * touching) / np.maximum(deviation, 1e-12)
        growth = (squares + chance) * exponent**2 / 2
        return (wanted + growth) / exponent, 1 / exponent
    # A Laplace variable of variance 2 b² has log-moment -log(1 - (b t)²) <= x + x² / (2 (1 - x)), x = (b t)².
    halves = squares / 2
    fourths = sum((np.einsum("ij,ij->i", each * each, each * each) for each in scaled), np.zeros(chance.size)) / 4
    largest = np.sqrt(np.maximum.reduce([(each * each).max(axis=1, initial=0.0) for each in scaled]) / 2)
    limit = 1 / np.maximum(largest, 1e-12)
    best, exponent = np.full(chance.size, np.inf), limit.copy()
    smallest = np.minimum(_TRIED[0], 0.1 * np.sqrt(touching / np.maximum(halves + chance / 2, 1e-12)) / limit)
    for step in (smallest, *_TRIED):
        t = step * limit
        x = (t * largest) ** 2
        growth = t**2 * (halves + chance / 2) + t**4 * fourths / (2 * (1 - x))
        value = (touching + growth) / t
        better = value < best
        best, exponent = np.where(better, value, best), np.where(better, t, exponent)
    fixed = best - (touching - wanted) / exponent
    return fixed, 1 / exponent


def below_proxy(records: Floats, share: Floats) -> Floats:
    """Return the variance proxy of how many of some records lie below a place that each does with this probability.

    Kearns and Saul's: (1 - 2p) / (2 log((1-p)/p)) a record, which is p (1-p) at 1/2 and near the ends somewhat more.
    """
    p = np.clip(np.asarray(share, np.float64), 1e-12, 1 - 1e-12)
    away = np.abs(p - 0.5) > 1e-6
    ratio = np.where(away, np.log((1 - p) / p), 1.0)
    return np.asarray(np.maximum(records, 0.0) * np.where(away, (1 - 2 * p) / (2 * ratio), 0.25))


def _summed(matrix: Floats, parents: NDArray[np.intp], cells: int) -> Floats:
    """Sum columns by parent, which never falls from column to column."""
    out = np.zeros((matrix.shape[0], cells))
    if parents.size:
        present, starts = np.unique(parents, return_index=True)
        out[:, present] = np.add.reduceat(matrix, starts, axis=1)
    return out
