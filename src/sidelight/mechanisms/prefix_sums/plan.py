"""A private running sum: its plan (public parameters, cost and accuracy, all known before any data), and its run."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import NoiseError, RangeError
from sidelight.guarantees import GDP, ZCDP, Amount, Claims, Context, Neighbours, Row, Unit, native_claims, positive
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.prefix_sums.binary_tree import BinaryTree
from sidelight.mechanisms.prefix_sums.calibration import NoiseLaw, noise_variance, rho_for
from sidelight.mechanisms.prefix_sums.encoders import INT64_LIMIT, Encoder
from sidelight.mechanisms.prefix_sums.quantise import Quantiser
from sidelight.mechanisms.prefix_sums.square_root import SquareRoot
from sidelight.noise import Source, discrete_gaussian, rounded_gaussian

#: A vector with a proved sensitivity may be computed with an error of half of this, relative to norm_bound.
FLOAT_SLACK = Fraction(1, 10**9)


@dataclass(frozen=True, kw_only=True)
class PrefixSums:
    """Estimate d_1 + ... + d_t after every step t = 1..steps, each d_t in R^size, privately, as the d_t arrive.

    Each d_t is computed from one part x_t of the data and from earlier estimates. Guarantee: GDP (rounded Gaussian
    noise) or zCDP (discrete) of the whole stream, also when each d_t depends on all earlier estimates, for neighbours
    that change at most `participations` of the x_t, each by any amount (learning proof page, Theorem 1). The claim is
    computed from the integers that run: the true column norm of the encoder, the true radius of the vectors.

    With `sensitivity` (refined) the vectors must themselves obey it: for one step between neighbours, d_t at the same
    earlier estimates moves by at most that in the Euclidean norm, computed in floats to 5e-10 * norm_bound. A bound on
    the norm alone gives twice the norm, which is what is used without it, and clipping enforces it.

    Accuracy: `deviations()[t-1]` is the standard deviation of each coordinate after step t.

    Args:
        steps: How many vectors at most; fixed in advance, public.
        size: Coordinates of each vector.
        norm_bound: Vectors are clipped to this Euclidean length.
        rho, mu, epsilon and delta: The cost, in exactly one way.
        sensitivity: See above.
        participations: How many of the x_t one unit can touch; with `sensitivity`, how many records it has in all.
        encoder: "square_root", or "tree" for streams so long that steps * size numbers do not fit.
        noise: "rounded_gaussian"; "discrete_gaussian" for comparison with other libraries, at a higher cost.
        gradient_bits: Vectors are rounded to norm_bound / 2^bits.
        encoder_bits: Coefficients of the square-root encoder are rounded to 2^-bits.

    >>> plan = PrefixSums(steps=1000, size=3, norm_bound=1, rho="0.1")
    >>> plan.claims.zcdp().rho <= Fraction(1, 10), round(float(plan.deviations()[-1]), 2)
    (True, 14.6)
    """

    steps: int
    size: int
    norm_bound: Amount
    rho: Amount | None = None
    mu: Amount | None = None
    epsilon: Amount | None = None
    delta: Amount | None = None
    sensitivity: Amount | None = None
    participations: int = 1
    encoder: Literal["square_root", "tree"] = "square_root"
    noise: NoiseLaw = "rounded_gaussian"
    gradient_bits: int = 20
    encoder_bits: int = 20
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields

    def __post_init__(self) -> None:
        if self.encoder not in ("square_root", "tree"):
            raise RangeError(f"encoder must be 'square_root' or 'tree', got {self.encoder!r}")
        if self.noise not in ("rounded_gaussian", "discrete_gaussian"):
            raise RangeError(f"noise must be 'rounded_gaussian' or 'discrete_gaussian', got {self.noise!r}")
        for name in ("steps", "size", "participations", "gradient_bits", "encoder_bits"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise RangeError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.participations > self.steps and self.sensitivity is None:
            raise RangeError(
                f"nobody takes part in more than the {self.steps} steps, got participations={self.participations}"
            )
        _ = self.claims  # every parameter is checked, and the cost known, before the first vector

    @cached_property
    def total_rho(self) -> Fraction:
        """The rho that was asked for."""
        return rho_for(rho=self.rho, mu=self.mu, epsilon=self.epsilon, delta=self.delta, noise=self.noise)

    @cached_property
    def quantiser(self) -> Quantiser:
        """How vectors become integers."""
        norm = positive(self.norm_bound, name="norm_bound")
        shape = "ball" if self.sensitivity is None else "box"
        return Quantiser(size=self.size, norm_bound=norm, bits=self.gradient_bits, shape=shape)

    @cached_property
    def factorisation(self) -> Encoder:
        """The encoder with its integers."""
        if self.encoder == "tree":
            return BinaryTree(steps=self.steps)
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
    def _noise(self) -> tuple[Fraction, Fraction]:
        return noise_variance(self._squared_sensitivity, self.total_rho, self.noise)

    @property
    def noise_scale(self) -> Fraction:
        """The standard deviation of the noise on each integer row."""
        return self._noise[0]

    @property
    def noise_variance(self) -> Fraction:
        """Its square; exact, and what discrete Gaussian noise is drawn with."""
        return self._noise[1]

    @property
    def row_deviation(self) -> float:
        """The standard deviation of the noise on a row, in the units of the vectors and of an encoder with c_0 = 1."""
        return float(self.noise_scale * self.quantiser.quantum / self.factorisation.unit)

    @cached_property
    def claims(self) -> Claims:
        """What the whole stream costs, once, whatever number of its steps is used."""
        context: Context = {"neighbours": self.neighbours, "unit": self.unit}
        squared_mu = self._squared_sensitivity / self.noise_variance
        if self.noise == "discrete_gaussian":
            return native_claims(ZCDP(squared_mu / 2, **context), mechanism=self.noise)
        return native_claims(GDP.from_squares(squared_mu, **context), mechanism=self.noise)

    def deviations(self) -> NDArray[np.float64]:
        """Return the standard deviation of a coordinate of the estimate after each step."""
        return self.row_deviation * np.sqrt(self.factorisation.variances())

    @property
    def largest_deviation(self) -> float:
        """The largest of them: what step sizes and regret bounds use."""
        return self.row_deviation * math.sqrt(self.factorisation.largest_variance)

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
