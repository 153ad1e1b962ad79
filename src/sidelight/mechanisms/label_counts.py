"""How many units have each label that occurs, and what of it may be shown: the seam of the threshold mechanisms.

Which labels occur is itself private, so this is no `Bounded`: its length may not be shown, and a label that nobody has
does not stand in it at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import VALUE_LIMIT
from sidelight.errors import RangeError
from sidelight.guarantees import Neighbours, Row, Unit


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelCounts:
    """The number of units with each label that at least one unit has.

    Guarantee: adding or removing one `unit` moves at most `groups` of the counts, each by exactly one; a label whose
    count falls to 0 is left out. So units are counted, never rows of a unit: whoever makes this proves it.

    Args:
        counts: One count of at least 1 a label, in an order that the caller alone knows.
        groups: g, the most labels that one unit may have: public.
        unit: What is protected.

    >>> LabelCounts(counts=np.array([3, 1, 250]), groups=2)
    LabelCounts(private, groups=2, unit=row)
    """

    counts: NDArray[np.int64] = field(repr=False)
    groups: int
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields

    def __post_init__(self) -> None:
        if isinstance(self.groups, bool) or not isinstance(self.groups, int) or self.groups < 1:
            raise RangeError(f"groups must be a whole number of at least 1, got {self.groups!r}")
        array = np.asarray(self.counts)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise RangeError(f"counts must be a list of integers, got {array.ndim} dimension(s) of {array.dtype}")
        # A count of 0 would stand for a label that only this data set knows; below 1 it is dropped, not an error,
        # because an error would depend on the data.
        copy = np.clip(array, 0, VALUE_LIMIT).astype(np.int64)
        copy.flags.writeable = False
        object.__setattr__(self, "counts", copy)

    @property
    def neighbours(self) -> Neighbours:
        """The only neighbours that the thresholds are proved for."""
        return Neighbours.ADD_REMOVE

    def __repr__(self) -> str:
        return f"LabelCounts(private, groups={self.groups}, unit={self.unit})"


@dataclass(frozen=True, eq=False, kw_only=True)
class Published:
    """Which labels may be shown, and their noisy counts: a release.

    `places` are positions in the counts that were given. Their order is the data's: show the labels sorted by label or
    by noisy count, never in this order.
    """

    places: NDArray[np.int64]
    values: NDArray[np.int64]


def published(counts: LabelCounts, noise: NDArray[np.int64], *, least: int) -> Published:
    """Keep the labels that somebody has and whose noisy count reaches `least`."""
    noisy = counts.counts + noise
    places = np.flatnonzero((counts.counts > 0) & (noisy >= least))
    return Published(places=places.astype(np.int64), values=noisy[places])
