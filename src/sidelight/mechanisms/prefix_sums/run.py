"""One stream while it runs. It holds private sums and lives in one process.

There is no way to store and resume it. Its state is exact sums of private vectors, to be guarded like the data; and
resuming one state twice would blur the same sums twice, which costs twice, without anything noticing. A stream that
must outlive its process starts a new run for the data that comes later, and adds the last estimate of the old: both
runs together cost what one costs as long as no x_t enters both (parallel composition), and their variances add up.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import NoiseError, RangeError
from sidelight.mechanisms.prefix_sums.encoders import INT64_LIMIT
from sidelight.noise import Source, discrete_gaussian, rounded_gaussian

if TYPE_CHECKING:
    from sidelight.mechanisms.prefix_sums.plan import PrefixSums


class PrefixSumRun:
    """Feed the vectors in order with `add`; each call gives the private estimate of the sum so far.

    Guarantee: the plan's claims, for all estimates together. A step beyond the plan's number is refused, and so is
    every step after one that failed: whether its vector was counted would be unclear.

    >>> from sidelight.mechanisms.prefix_sums.plan import PrefixSums
    >>> from sidelight.noise import OSEntropy, Source
    >>> run = PrefixSums(steps=10, size=2, norm_bound=1, mu=1).start()
    >>> with Source(OSEntropy()) as source:
    ...     run.add([0.3, -0.2], source=source).shape
    (2,)
    """

    __slots__ = ("_encoding", "_estimate", "_failed", "_pid", "_step", "plan")

    def __init__(self, plan: PrefixSums) -> None:
        self.plan = plan
        self._encoding = plan.factorisation.start(plan.size, largest_code=plan.quantiser.radius)
        self._estimate = np.zeros(plan.size)
        self._step = 0
        self._failed = False
        self._pid = os.getpid()

    @property
    def step(self) -> int:
        """How many vectors were added."""
        return self._step

    @property
    def estimate(self) -> NDArray[np.float64]:
        """The last estimate, which is released; zero before the first step."""
        return self._estimate.copy()

    def add(self, vector: ArrayLike, *, source: Source) -> NDArray[np.float64]:
        """Add the next vector and return the private estimate of the sum of all so far."""
        self._guard()
        given = np.asarray(vector, dtype=np.float64)
        if given.shape != (self.plan.size,):
            raise RangeError(f"this stream takes vectors of {self.plan.size} coordinates, got shape {given.shape}")
        self._failed = True
        self._step += 1
        codes = self.plan.quantiser.codes(given)
        decoded = self._encoding.add(codes, lambda exact: _blurred(exact, self.plan, source))
        self._estimate = decoded * float(self.plan.quantiser.quantum)
        self._failed = False
        return self.estimate

    def _guard(self) -> None:
        if os.getpid() != self._pid:
            raise NoiseError("a private stream does not survive a fork: both sides would blur the same sums again")
        if self._failed:
            raise NoiseError("an earlier step of this stream failed; its vector may be counted, start a new stream")
        if self._step >= self.plan.steps:
            raise RangeError(
                f"this stream was planned, and paid, for {self.plan.steps} steps and all are used; "
                "plan more steps, or start a new stream for data that comes later"
            )

    def __reduce__(self) -> NoReturn:
        raise NoiseError(
            "a private stream cannot be pickled or copied: it holds exact private sums, and two copies would blur the "
            "same sums twice; start a new stream for data that comes later"
        )

    def __repr__(self) -> str:
        return f"PrefixSumRun(step {self._step} of {self.plan.steps}, size={self.plan.size}, {self.plan.claims})"


def _blurred(exact: NDArray[Any], plan: PrefixSums, source: Source) -> NDArray[Any]:
    """Add fresh noise to an exact row, in int64 where neither part can bring the sum to its limits."""
    noise = _noise(plan, source)
    if noise.dtype == object or not bool(((noise < INT64_LIMIT) & (noise > -INT64_LIMIT)).all()):
        exact = exact.astype(object)  # needs thousands of standard deviations, or a scale beyond 2**50
    return np.asarray(exact + noise)


def _noise(plan: PrefixSums, source: Source) -> NDArray[Any]:
    """Draw the noise of one row. Tests replace this function; there is no switch for it."""
    if plan.noise == "discrete_gaussian":
        return discrete_gaussian(plan.size, plan.noise_variance, source)
    return rounded_gaussian(plan.size, plan.noise_scale, source)
