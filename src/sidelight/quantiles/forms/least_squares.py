"""Counts of nested cells brought into agreement: the best linear estimate, by one pass up and one down.

Post-processing of released integers in floats, summed in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
#: The variance of a cell that was not counted: its count says nothing, and it takes what its parent has left.
UNCOUNTED = 1e60


@dataclass(frozen=True, eq=False)
class Round:
    """Noisy counts of one round: each cell lies in one cell of the round before, which it may share with others.

    Args:
        counts: One noisy count a cell.
        variances: Of the noise of each.
        parents: For each cell its place in the round before; cells of the first round have none.
    """

    counts: Floats
    variances: Floats
    parents: NDArray[np.intp]

    @classmethod
    def of(cls, counts: ArrayLike, variances: ArrayLike, parents: ArrayLike = ()) -> Round:
        """Make a round of anything that NumPy reads; one variance may stand for all."""
        values = np.asarray(counts, np.float64)
        return cls(
            values, np.broadcast_to(np.asarray(variances, np.float64), values.shape), np.asarray(parents, np.intp)
        )

    def among(self, counted: NDArray[np.bool_], parents: ArrayLike) -> Round:
        """Return the round with cells between its own that nobody counted, all in the order of place.

        >>> Round.of([5, 7], 1.0, [0, 0]).among(np.array([True, False, True]), [0, 1, 2]).counts.tolist()
        [5.0, 0.0, 7.0]
        """
        counts, variances = np.zeros(counted.size), np.full(counted.size, UNCOUNTED)
        counts[counted], variances[counted] = self.counts, self.variances
        return Round.of(counts, variances, parents)


def agreed_counts(rounds: Sequence[Round]) -> list[Floats]:
    """Return the counts of each round as the least squares of all of them: children then add up to their parent.

    A cell without children (a tail) has no more than its own count and what its parents say.

    >>> rounds = [Round.of([10, 20], 1.0), Round.of([4, 4, 20], 1.0, [0, 0, 1])]
    >>> [estimates.round(2).tolist() for estimates in agreed_counts(rounds)]
    [[9.33, 20.0], [4.67, 4.67, 20.0]]
    """
    own = [(each.counts, each.variances) for each in rounds]
    sums: list[tuple[Floats, Floats]] = []
    for above, each in reversed(list(zip(range(len(rounds) - 1), rounds[1:], strict=True))):
        counts, variances = own[above + 1]
        cells = rounds[above].counts.size
        total = np.asarray(np.bincount(each.parents, weights=counts, minlength=cells), np.float64)
        spread = np.asarray(np.bincount(each.parents, weights=variances, minlength=cells), np.float64)
        sums.insert(0, (total, spread))
        measured, noise = own[above]
        parted = spread > 0
        weight = np.where(parted, spread / (spread + noise), 1.0)  # of the cell's own count
        own[above] = (np.where(parted, weight * measured + (1 - weight) * total, measured), weight * noise)
    estimates = [own[0][0]]
    for above, each in enumerate(rounds[1:]):
        counts, variances = own[above + 1]
        total, spread = sums[above]
        rest = np.divide(estimates[above] - total, spread, out=np.zeros(total.size), where=spread > 0)
        estimates.append(counts + variances * rest[each.parents])
    return estimates


def ranks_of(counts: ArrayLike) -> Floats:
    """Return the ranks at the ends of consecutive cells, from 0 to N: cumulative counts that never fall.

    N is the sum, at least 1; between, the mean of the running maximum and the running minimum from the right, within
    0..N.

    >>> ranks_of([3.0, -1.0, 8.0]).tolist()
    [0.0, 2.5, 2.5, 10.0]
    """
    sums = np.add.accumulate(np.asarray(counts, np.float64))
    total = max(float(sums[-1]), 1.0)
    rising = np.maximum.accumulate(sums)
    falling = np.minimum.accumulate(sums[::-1])[::-1]
    middle = np.clip((rising + falling) / 2, 0.0, total)
    return np.concatenate([[0.0], middle[:-1], [total]])
