"""The square-root factorisation of running sums, with integer coefficients: exact rows to blur, and the decoder.

The matrix of the running sum is the square of a lower triangular Toeplitz matrix with entries c_k = binom(2k, k) / 4^k
(Fichtenberger, Henzinger and Upadhyay 2023). Half the noise of the best binary tree at the same guarantee. Hand-made:
the privacy loss is that of the integers round(c_k 2^b), which no library exposes. The decoder inverts exactly these
integers by forward substitution; the rounded matrix squared is not the running sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError

#: Adds fresh noise to one exact integer row. The only way out of a stream: decoding sees blurred rows only.
Blur = Callable[[NDArray[Any]], NDArray[Any]]
#: Rows below this are summed in int64; beyond it Python integers are used.
INT64_LIMIT = 2**62
#: Fixed-point bits of the recursion: integers only, so the coefficients are the same on every machine.
_RECURSION_BITS = 128


def square_root_coefficients(steps: int) -> NDArray[np.float64]:
    """Return c_0 = 1, c_k = c_(k-1) (2k-1)/(2k).

    >>> square_root_coefficients(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    k = np.arange(1, steps)
    return np.concatenate([np.ones(min(steps, 1)), np.cumprod((2 * k - 1) / (2 * k))])


def square_root_norms(steps: int) -> NDArray[np.float64]:
    """Return s_t = c_0^2 + ... + c_(t-1)^2 for t = 1..steps, about ln(t)/pi + 1.07."""
    return np.cumsum(square_root_coefficients(steps) ** 2)


@dataclass(frozen=True, kw_only=True)
class SquareRoot:
    """The encoder with coefficients round(c_k 2^bits), k < steps.

    Accuracy: the estimate after step t has the variance of one row times s_t. Cost O(steps * size) memory and time a
    step: right for up to some 20,000 steps.
    """

    steps: int
    bits: int = 20

    def __post_init__(self) -> None:
        if not 8 <= self.bits <= 30:
            raise RangeError(f"encoder_bits must lie in 8..30, got {self.bits}")
        if not 1 <= self.steps <= 1 << (self.bits - 2):  # keeps the inverse of the rounded matrix near the exact one
            raise RangeError(
                f"the square-root encoder of {self.bits} bits takes 1..{1 << (self.bits - 2)} steps, got {self.steps}; "
                "start a new stream for data that comes later"
            )

    @cached_property
    def coefficients(self) -> NDArray[np.int64]:
        """The integers that are used, first to last; they never increase."""
        coefficients = np.fromiter(self._rounded(), np.int64, self.steps)
        coefficients.setflags(write=False)
        return coefficients

    def _rounded(self) -> Iterator[int]:
        exact, shift = 1 << _RECURSION_BITS, _RECURSION_BITS - self.bits
        half = 1 << (shift - 1)
        for k in range(self.steps):
            if k:
                exact = exact * (2 * k - 1) // (2 * k)
            yield (exact + half) >> shift

    @property
    def unit(self) -> int:
        """The integer that stands for 1."""
        return 1 << self.bits

    @cached_property
    def largest_squared_norm(self) -> int:
        """The first column holds every coefficient, each other column fewer of them."""
        return sum(c * c for c in self.coefficients.tolist())

    @cached_property
    def largest_row_sum(self) -> int:
        """The last row holds every coefficient."""
        return sum(self.coefficients.tolist())

    def variances(self) -> NDArray[np.float64]:
        """Return s_t: those of the real coefficients, which the integers match to 2^-bits."""
        return square_root_norms(self.steps)

    def start(self, size: int, *, largest_code: int) -> _SquareRootStream:
        """Begin a stream."""
        return _SquareRootStream(self, size, largest_code)


def integer_type(largest_row: int) -> type[Any]:
    """Return int64 where no row can leave it, Python integers otherwise."""
    return np.int64 if largest_row < INT64_LIMIT else object


class _SquareRootStream:
    """All vectors so far (private: it must not leave its process), and the decoded ones (released)."""

    __slots__ = ("_codes", "_decoded", "_falling", "_prefix", "_rising", "_step")

    def __init__(self, encoder: SquareRoot, size: int, largest_code: int) -> None:
        kind = integer_type(encoder.largest_row_sum * largest_code)
        self._rising = np.ascontiguousarray(encoder.coefficients[::-1]).astype(kind)  # c_(T-1), ..., c_0
        self._falling = self._rising.astype(np.float64)
        self._codes = np.zeros((encoder.steps, size), kind)
        self._decoded = np.zeros((encoder.steps, size))
        self._prefix = np.zeros(size)
        self._step = 0

    def add(self, codes: NDArray[np.int64], blur: Blur) -> NDArray[np.float64]:
        """Blur c_0 d_t + ... + c_(t-1) d_1, and undo the encoder by forward substitution on blurred rows."""
        t = self._step
        self._step = t + 1
        self._codes[t] = codes
        weights = self._rising[len(self._rising) - t - 1 :]
        exact = np.dot(weights, self._codes[: t + 1]) if weights.dtype == object else self._int64_row(weights, t)
        blurred = blur(exact).astype(np.float64)
        known = self._falling[len(self._falling) - t - 1 : -1] @ self._decoded[:t]
        self._decoded[t] = (blurred - known) / self._falling[-1]
        self._prefix += self._decoded[t]
        return self._prefix.copy()

    def _int64_row(self, weights: NDArray[np.int64], t: int) -> NDArray[np.int64]:
        """Sum in int64, which the bound of the constructor keeps exact; einsum is five times faster than dot."""
        row: NDArray[np.int64] = np.einsum("t,tp->p", weights, self._codes[: t + 1])
        return row
