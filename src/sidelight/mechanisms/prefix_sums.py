"""A private running sum: its plan (public parameters, cost and accuracy, all known before any data), and its run.

Float vectors become integers first, whose length is bounded exactly whatever the floats were: privacy rests on the
integers alone. A NaN, an infinity or a wrong clip upstream cannot exceed the bound.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import NoiseError, RangeError
from sidelight.guarantees import GDP, Amount, Claims, Neighbours, Row, Unit, native_claims, positive
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.intervals import Interval, root_above, round_up
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.square_root_factors import INT64_LIMIT, SquareRoot
from sidelight.noise import Source, rounded_gaussian, scale_up

#: A vector with a proved sensitivity may be computed with an error of half of this, relative to norm_bound.
FLOAT_SLACK = Fraction(1, 10**9)
_ROOT_BITS = 256
#: More coordinates than this, and the bound on a sum of squares would leave int64.
_MOST_COORDINATES = 2**20


@dataclass(frozen=True, kw_only=True)
class Quantiser:
    """Round vectors of `size` coordinates to multiples of norm_bound / 2^bits, and bound the integers.

    `shape="ball"`: codes have Euclidean length at most `radius`, so any two differ by at most 2 * radius. For a
    sensitivity that comes from clipping. `shape="box"`: each code is clamped, which moves no two vectors further apart.
    For a sensitivity that was proved for the vectors themselves, which shortening and rounding again could exceed.
    """

    size: int
    norm_bound: Fraction
    bits: int = 20
    shape: str = "ball"

    def __post_init__(self) -> None:
        if not 1 <= self.size <= _MOST_COORDINATES:
            raise RangeError(f"size must lie in 1..2**20 coordinates, got {self.size}")
        if not 4 <= self.bits <= 30:
            raise RangeError(f"gradient_bits must lie in 4..30, got {self.bits}")
        if not Fraction(2) ** -500 < self.norm_bound < Fraction(2) ** 500:
            raise RangeError(f"norm_bound must lie between 2**-500 and 2**500, got {float(self.norm_bound):.3g}")

    @property
    def quantum(self) -> Fraction:
        """What one integer step stands for."""
        return self.norm_bound / (1 << self.bits)

    @property
    def radius(self) -> int:
        """M = 2^bits + ceil(sqrt(size) / 2): what rounding can add to a vector of length norm_bound is inside."""
        halves = isqrt(self.size)
        return (1 << self.bits) + (halves + (halves * halves < self.size) + 1) // 2

    def codes(self, vector: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the integers; a vector with a NaN or an infinity counts as zero."""
        given = np.asarray(vector, dtype=np.float64)
        if given.shape != (self.size,):
            raise RangeError(f"this stream takes vectors of {self.size} coordinates, got shape {given.shape}")
        if not np.isfinite(given).all():
            return np.zeros(self.size, np.int64)
        limit = float(1 << self.bits)
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.clip(given * float(1 / self.quantum), -(2.0**300), 2.0**300)
        if self.shape == "box":
            edge = self.radius
            return np.clip(np.rint(np.clip(scaled, -2 * limit, 2 * limit)).astype(np.int64), -edge, edge)
        length = float(np.sqrt(scaled @ scaled))
        if length > limit:
            scaled = scaled * (limit / length)
        return _shrunk(np.rint(scaled).astype(np.int64), self.radius)


def _shrunk(codes: NDArray[np.int64], radius: int) -> NDArray[np.int64]:
    """Shorten until the integers obey; truncation makes every entry smaller, so this ends.

    Clipped to length 2^bits and rounded, the codes are shorter than 2^30 + 2^9 + 1, and their square fits int64.
    """
    while (square := int(codes @ codes)) > radius * radius:
        codes = np.trunc(codes * (radius / square**0.5 * (1 - 2.0**-40))).astype(np.int64)
    return codes


@dataclass(frozen=True, kw_only=True)
class PrefixSums:
    """Estimate d_1 + ... + d_t after every step t = 1..steps, each d_t in R^size, privately, as the d_t arrive.

    Each d_t is computed from one part x_t of the data and from earlier estimates. Guarantee: GDP of the whole stream,
    also when each d_t depends on all earlier estimates, for neighbours that change at most `participations` of the x_t,
    each by any amount (learning proof page, Theorem 2). The claim is computed from the integers that run: the true
    column norm of the encoder, the true radius of the vectors.

    With `sensitivity` (refined) the vectors must themselves obey it: for one step between neighbours, d_t at the same
    earlier estimates moves by at most that in the Euclidean norm, computed in floats to 5e-10 * norm_bound. A bound on
    the norm alone gives twice the norm, which is what is used without it, and clipping enforces it.

    Accuracy: `deviations()[t-1]` is the standard deviation of each coordinate after step t.

    Args:
        steps: How many vectors at most; fixed in advance, public.
        size: Coordinates of each vector.
        norm_bound: Vectors are clipped to this Euclidean length.
        rho: The cost of the whole stream; mu is the root of 2 rho.
        sensitivity: See above.
        participations: How many of the x_t one unit can touch.
        gradient_bits: Vectors are rounded to norm_bound / 2^bits.
        encoder_bits: Coefficients of the encoder are rounded to 2^-bits.

    >>> plan = PrefixSums(steps=1000, size=3, norm_bound=1, rho="0.1")
    >>> plan.claims.zcdp().rho <= Fraction(1, 10), round(float(plan.deviations()[-1]), 2)
    (True, 14.6)
    """

    steps: int
    size: int
    norm_bound: Amount
    rho: Amount
    sensitivity: Amount | None = None
    participations: int = 1
    gradient_bits: int = 20
    encoder_bits: int = 20
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields

    def __post_init__(self) -> None:
        for name in ("steps", "size", "participations", "gradient_bits", "encoder_bits"):
            object.__setattr__(self, name, whole(getattr(self, name), name=name))
        if self.participations > self.steps:
            raise RangeError(
                f"a unit cannot take part in more than the {self.steps} steps, got participations={self.participations}"
            )
        _ = self.claims  # every parameter is checked, and the cost known, before the first vector

    @cached_property
    def total_rho(self) -> Fraction:
        """The rho that was asked for."""
        return positive(self.rho, name="rho")

    @cached_property
    def quantiser(self) -> Quantiser:
        """How vectors become integers."""
        norm = positive(self.norm_bound, name="norm_bound")
        shape = "ball" if self.sensitivity is None else "box"
        return Quantiser(size=self.size, norm_bound=norm, bits=self.gradient_bits, shape=shape)

    @cached_property
    def factorisation(self) -> SquareRoot:
        """The encoder with its integers."""
        return SquareRoot(steps=self.steps, bits=self.encoder_bits)

    @cached_property
    def integer_sensitivity(self) -> Fraction:
        """How far the integer vectors of all changed steps can move, added up: an upper bound."""
        quantiser = self.quantiser
        if self.sensitivity is None:
            one = Fraction(2 * quantiser.radius)
        else:
            proved = positive(self.sensitivity, name="sensitivity")
            rounding = round_up(Interval.of(self.size).sqrt().upper)  # half a step a coordinate, twice
            one = (proved + FLOAT_SLACK * quantiser.norm_bound) / quantiser.quantum + rounding
        return self.participations * one

    @cached_property
    def _squared_sensitivity(self) -> Fraction:
        return self.integer_sensitivity**2 * self.factorisation.largest_squared_norm

    @cached_property
    def noise_scale(self) -> Fraction:
        """The standard deviation of the noise on each integer row: at least sensitivity / sqrt(2 rho).

        The root is rounded up a little more than the claim will be, which is made for exactly this number.
        """
        variance = self._squared_sensitivity / (2 * self.total_rho)
        return scale_up(_root_above(variance) * (1 + Fraction(1, 2**60)))

    @property
    def row_deviation(self) -> float:
        """The standard deviation of the noise on a row, in the units of the vectors and of an encoder with c_0 = 1."""
        return float(self.noise_scale * self.quantiser.quantum / self.factorisation.unit)

    @cached_property
    def squared_mu(self) -> Fraction:
        """What the whole stream costs as mu^2, an upper bound."""
        return self._squared_sensitivity / self.noise_scale**2

    @cached_property
    def claims(self) -> Claims:
        """What the whole stream costs, once, whatever number of its steps is used."""
        return self._gaussian(self.squared_mu)

    @cached_property
    def step_claims(self) -> Claims:
        """What a step costs someone in it: these add up, over the steps with their data, to what the stream costs.

        With p participations a step costs mu^2 / p of the stream's: for everyone in at most p steps the stream is
        post-processing of one Gaussian mechanism a step, each of that cost (learning proof page, Theorem 3).
        """
        return self._gaussian(self.squared_mu / self.participations)

    def _gaussian(self, squared_mu: Fraction) -> Claims:
        claim = GDP.from_squares(squared_mu, neighbours=self.neighbours, unit=self.unit)
        return native_claims(claim, mechanism="rounded_gaussian")

    def deviations(self) -> NDArray[np.float64]:
        """Return the standard deviation of a coordinate of the estimate after each step."""
        return self.row_deviation * np.sqrt(self.factorisation.variances())

    def start(self) -> PrefixSumRun:
        """Begin the stream. The cost is that of one run: starting twice on the same data costs twice."""
        return PrefixSumRun(self)


class PrefixSumRun:
    """One stream while it runs: feed the vectors in order with `add`; each call gives the private estimate so far.

    It holds private sums, lives in one process, and cannot be stored or resumed. Its state is exact sums of private
    vectors, to be guarded like the data; and resuming one state twice would blur the same sums twice, which costs
    twice, without anything noticing. A stream that must outlive its process starts a new run for the data that comes
    later, and adds the last estimate of the old: both runs together cost what one costs as long as no x_t enters both
    (parallel composition), and their variances add up.

    Guarantee: the plan's claims, for all estimates together. A step beyond the plan's number is refused, and so is
    every step after one that failed: whether its vector was counted would be unclear.

    >>> from sidelight.noise import OSEntropy, Source
    >>> run = PrefixSums(steps=10, size=2, norm_bound=1, rho="0.5").start()
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

    @property
    def goes_on(self) -> bool:
        """Whether this process can add another vector: none failed, some are left, and there was no fork."""
        return os.getpid() == self._pid and not self._failed and self._step < self.plan.steps

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
    price = DrawPrice(
        law="prefix sums",
        claims=plan.step_claims,
        samples=(("rounded_gaussian", plan.noise_scale),),
        statistic=f"all {plan.steps} prefix sums of vectors of {plan.size} numbers, together",
        theorem="learning proof page",
    )
    with source.paying(price):
        return rounded_gaussian(plan.size, plan.noise_scale, source)


def _root_above(x: Fraction) -> Fraction:
    """Return a rational at or above the root, relatively at most 2^-200 above it."""
    shift = max(0, _ROOT_BITS - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    return root_above(x, bits=shift)
