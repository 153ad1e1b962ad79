"""A private statistic together with how far one neighbour can move it. Noise meets this and never a bare array."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.guarantees.claims import Neighbours, Unit

Norm = Literal["l1", "l2", "linf"]
#: Of a symmetric matrix: the sum of the absolute eigenvalues.
TraceNorm = Literal["trace"]
_NORMS = ("l1", "l2", "linf", "trace")

#: Statistics saturate here, so that neither they nor their noisy versions can wrap. Clamping each entry moves no two
#: values further apart in any of the norms, so it never costs privacy; real tables stay far below.
VALUE_LIMIT = 2**62


@dataclass(frozen=True, eq=False, repr=False)
class Bounded:
    """An integer statistic, and the largest distance between its values on neighbouring data sets.

    Guarantee: for data sets that `neighbours` relates by one `unit`, the values differ by at most `sensitivity` in
    `norm`. Matrices count as vectors of all their entries, so "l2" is the Frobenius norm; "trace" is for symmetric
    matrices, the sum of the absolute eigenvalues. Whoever makes a `Bounded` proves the number; the aggregates of this
    package do, and tests try to refute them.

    >>> from sidelight.guarantees.claims import Neighbours, Row
    >>> Bounded(41, sensitivity=Fraction(1), norm="l1", neighbours=Neighbours.ADD_REMOVE, unit=Row())
    Bounded(private, sensitivity=1, norm='l1', neighbours=add or remove one row)
    """

    value: NDArray[np.int64] | int
    sensitivity: Fraction
    norm: Norm | TraceNorm
    neighbours: Neighbours
    unit: Unit

    def __post_init__(self) -> None:
        if self.norm not in _NORMS:
            raise RangeError(f"norm must be one of {', '.join(_NORMS)}, got {self.norm!r}")
        if isinstance(self.sensitivity, float) or self.sensitivity < 0:
            raise RangeError(f"sensitivity must be an exact number of at least 0, got {self.sensitivity!r}")
        object.__setattr__(self, "sensitivity", Fraction(self.sensitivity))
        object.__setattr__(self, "value", _frozen(self.value))

    @property
    def shape(self) -> tuple[int, ...]:
        """The public shape of the value: () for one number."""
        return () if isinstance(self.value, int) else self.value.shape

    def __repr__(self) -> str:
        shape = f", shape={self.shape}" if self.shape else ""
        return (
            f"Bounded(private{shape}, sensitivity={self.sensitivity}, norm={self.norm!r}, "
            f"neighbours={self.neighbours} {self.unit})"
        )


def _frozen(value: Any) -> NDArray[np.int64] | int:
    """Copy to a read-only int64 array or a Python integer, saturated at the limit."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return min(max(int(value), -VALUE_LIMIT), VALUE_LIMIT)
    array = np.asarray(value)
    if array.dtype.kind not in "iuO":
        raise RangeError(f"a bounded statistic holds integers, got dtype {array.dtype}; put it on a public grid first")
    # uint64 and Python integers are compared before the cast, so that nothing wraps.
    fixed = np.clip(array, -VALUE_LIMIT, VALUE_LIMIT) if array.dtype != np.uint64 else np.minimum(array, VALUE_LIMIT)
    copy = np.array(fixed, np.int64)
    copy.flags.writeable = False
    return copy
