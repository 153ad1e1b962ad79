"""What the engine needs of a factorisation of the running sum: exact integer rows to blur, and a decoder.

The running sum A = Dec · Enc. Rows of Enc applied to the stream are exact integers; each meets noise once, inside
`blur`, before anything else sees it. Decoding works on blurred rows only and is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

#: Adds fresh noise to one exact integer row. The only way out of an encoding.
Blur = Callable[[NDArray[Any]], NDArray[Any]]

#: Rows below this are summed in int64; beyond it Python integers are used.
INT64_LIMIT = 2**62


class Encoding(Protocol):
    """The state of one stream. It holds exact sums of private vectors and must not leave its process."""

    def add(self, codes: NDArray[np.int64], blur: Blur) -> NDArray[np.float64]:
        """Take the next vector of integers and return the estimate of the running sum, in the same integers' unit."""


class Encoder(Protocol):
    """A public factorisation for a fixed number of steps."""

    @property
    def steps(self) -> int:
        """How many vectors may be added."""

    @property
    def unit(self) -> int:
        """The integer that stands for 1 in a row of the encoder."""

    @property
    def largest_squared_norm(self) -> int:
        """The largest squared Euclidean norm of a column, of the integers that are really used."""

    @property
    def largest_row_sum(self) -> int:
        """The largest sum of a row: what bounds an exact row, and so decides between int64 and Python integers."""

    def variances(self) -> NDArray[np.float64]:
        """Return the variance of the estimate after each step, for noise of standard deviation `unit` on each row."""

    @property
    def largest_variance(self) -> float:
        """The largest of them."""

    def start(self, size: int, *, largest_code: int) -> Encoding:
        """Begin a stream of vectors of that size whose entries are at most `largest_code` in absolute value."""


def integer_type(largest_row: int) -> type[Any]:
    """Return int64 where no row can leave it, Python integers otherwise."""
    return np.int64 if largest_row < INT64_LIMIT else object
