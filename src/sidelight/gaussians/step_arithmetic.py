"""The steps of CoinPress as arithmetic on what was released: where they start, how many, and how long rows may be.

Written from the mathematics (the authors' code carries no licence). Column form throughout: A acts on the left of a
row written as a column, a new factor comes on the left, and the way back is A⁻¹ Z A⁻ᵀ. Their code has the factors in
an order that is right for two steps only. Everything here is a function of public rows, public numbers and what was
released before; the choice of constants is about accuracy only, and every step is private for any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import log, sqrt
from typing import Literal

import numpy as np

from sidelight.aggregates.moments import Moments
from sidelight.errors import RangeError
from sidelight.gaussians.point_cloud import Floats, PointCloud, bracket
from sidelight.guarantees import GDP, Claims, Neighbours, PureDP
from sidelight.guarantees.units import Unit
from sidelight.mechanisms.additive import Law
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.denoise import denoise
from sidelight.mechanisms.noisy_moments import NoiseInUnits, count_noise, matrix_noise, vector_noise
from sidelight.noise import Source

# All private access of this package goes through `count`, `total` and `second`, on sums of clipped rows.

#: Kept back of rho, so that rounding the claim up in its fortieth digit stays within what the user allowed.
ROUNDING = Fraction(1, 1 << 40)


@dataclass(frozen=True, kw_only=True)
class BudgetSplit:
    """A budget, the law of pure noise, and the public number of rows if there is one (neighbours then replace a row).

    `moments` are those of no rows, clipped to length 1: they hold sensitivities, unit and neighbours.
    """

    budget: Budget
    moments: Moments
    noise: Literal["laplace"] | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and (self.noise != "laplace" or not self.budget.is_pure):
            raise RangeError(f"noise must be 'laplace', with a pure price, or left out; got {self.noise!r}")

    @cached_property
    def _within(self) -> Budget:
        return self.budget if self.budget.is_pure else self.budget.part(1 - ROUNDING)

    @property
    def size(self) -> int:
        """The number of columns."""
        return int(self.moments.total.shape[0])

    def count(self, moments: Moments, share: Fraction, source: Source) -> float:
        """Return the number of rows: the public one, or a noisy one of at least 1."""
        if self.rows is not None:
            return float(self.rows)
        return max(1.0, count_noise(moments, self._within.part(share)).release(source))

    def total(self, moments: Moments, share: Fraction, source: Source) -> Floats:
        """Return a noisy sum of rows."""
        return vector_noise(moments, self._within.part(share), self.noise).release(source)

    def second(self, moments: Moments, share: Fraction, source: Source) -> Floats:
        """Return a noisy sum of x xᵀ."""
        return matrix_noise(moments, self._within.part(share), self.noise).release(source)

    def count_deviation(self, share: Fraction) -> float:
        """Return the noise of the count; 0 where it is public."""
        noise = self.count_law(share)
        return 0.0 if noise is None else noise.deviation

    def total_deviation(self, share: Fraction, radius: float) -> float:
        """Return the noise of an entry of a sum of rows of at most this length."""
        return self.total_law(share).deviation * radius

    def count_law(self, share: Fraction) -> NoiseInUnits | None:
        """Return the noise of the count; None where it is public."""
        return None if self.rows is not None else count_noise(self.moments, self._within.part(share))

    def total_law(self, share: Fraction) -> NoiseInUnits:
        """Return the noise of a sum of rows that are clipped to length 1."""
        return vector_noise(self.moments, self._within.part(share), self.noise)

    def second_scale(self, share: Fraction, radius: float) -> float:
        """Return the noise of a diagonal entry of Σ x xᵀ, for rows of at most this length; that of GOE shape."""
        return matrix_noise(self.moments, self._within.part(share), self.noise).effective_scale * radius**2

    @cached_property
    def matrix_law(self) -> Law:
        """The law of the noise on matrices."""
        return matrix_noise(self.moments, self._within, self.noise).law

    @property
    def neighbours(self) -> Neighbours:
        """Replace one where the number of rows is public."""
        return Neighbours.ADD_REMOVE if self.rows is None else Neighbours.REPLACE

    @property
    def numerics(self) -> Literal["exact", "idealized"]:
        """Exact for integer noise."""
        noises = [each(self.moments, self._within, self.noise) for each in (matrix_noise, vector_noise)]
        return "idealized" if any(noise.numerics == "idealized" for noise in noises) else "exact"

    def claims(self, unit: Unit) -> Claims:
        """Return what all parts together cost, however their number depends on what was released before.

        The shares add up to 1 for every schedule that the estimate can take, and for every value released so far the
        next part keeps to its share, so adaptive composition gives the whole price (Gaussians proof page, Theorem 1).
        """
        if self._within.rho is not None:
            claim: GDP | PureDP = GDP.from_squares(2 * self._within.rho, neighbours=self.neighbours, unit=unit)
        else:
            claim = PureDP(self._within.amount, neighbours=self.neighbours, unit=unit, numerics=self.numerics)
        return Claims.of(claim)


def norm_bound(size: int, chance: float) -> float:
    """Return √(d + 2√(d log(1/β)) + 2 log(1/β)): a N(0, I_d) vector is longer with probability at most β.

    (Gaussians proof page, section 1; Laurent and Massart 2000.)

    >>> round(norm_bound(10, 0.1), 6), round(norm_bound(50, 0.01), 6)
    (4.919575, 9.463556)
    """
    rare = log(1 / chance)
    return sqrt(size + 2 * sqrt(size * rare) + 2 * rare)


Version = Literal["practical", "proven"]


@dataclass(frozen=True)
class Constants:
    """Radii and corrections of the steps, as functions of public numbers and of the released number of rows."""

    version: Version = "practical"
    #: β of the proven version: each of its steps fails with at most this probability.
    chance: float = 0.05

    def mean_clip(self, size: int, radius: float, rows: float) -> float:
        """Return the length τ to clip whitened rows about c to, where ‖μ - c‖ <= radius."""
        if self.version == "proven":
            return radius + norm_bound(size, self.chance / rows)
        length = norm_bound(size, 0.01)
        return min(sqrt(radius**2 + 6 * radius + length**2), radius + length)

    def mean_radius(self, size: int, deviation: float, rows: float) -> float:
        """Return the new radius after a step with this noise on each coordinate of the mean."""
        chance = self.chance if self.version == "proven" else 0.01
        return norm_bound(size, chance) * sqrt(1 / rows + deviation**2)

    def covariance_clip(self, size: int, rows: float) -> float:
        """Return the length γ to clip preconditioned rows to."""
        if self.version == "proven":
            return norm_bound(size, self.chance / rows) + 1
        return norm_bound(size, 0.1)

    def final_clip(self, size: int, rows: float) -> float:
        """Return the length to clip whitened, re-centred rows to."""
        return self.covariance_clip(size, rows) if self.version == "proven" else norm_bound(size, 0.05)

    def sampling_error(self, size: int, rows: float) -> float:
        """Return η: what is added to eigenvalues for the rows being a sample."""
        if self.version == "proven":
            share = sqrt(size / rows) + sqrt(2 * log(2 / self.chance) / rows)
            return 2 * share + share**2
        return sqrt(size / rows) + size / (2 * rows)

    def noise_error(self, size: int, noise_scale: float) -> float:
        """Return ν: what is added to eigenvalues for the noise."""
        if self.version == "proven":
            return noise_scale * (sqrt(2 * size) + sqrt(2 * log(2 / self.chance)))
        return noise_scale * sqrt(2 * size) / 2


#: Eigenvalues of I - c cᵀ that re-centring may leave; a smaller one would blow up the noise.
_RECENTRED_FLOOR = 0.05

#: The smallest variance that is released in whitened coordinates.
_FLAT = 0.02


def preconditioned(
    matrix: Floats, second: Floats, *, rows: float, noise_scale: float, constants: Constants, relative: bool = False
) -> Floats:
    """Return U diag((λ + η + ν)^{-1/2}) Uᵀ A for the released mean Z of W Wᵀ, W = clip(A(x - c)).

    If A Σ Aᵀ ⪯ I before, it holds after (with the proven constants, and their probability). `relative`: η in units of
    the largest eigenvalue, for a first step whose rows may be far shorter than the length that they are clipped to.
    """
    size = len(second)
    values, vectors = np.linalg.eigh(symmetric(second))
    kept = np.maximum(values, 0.0)
    sampling = constants.sampling_error(size, rows)
    if relative:
        sampling *= float(kept[-1])
    grown = kept + sampling + constants.noise_error(size, noise_scale)
    return np.asarray((vectors / np.sqrt(grown)) @ vectors.T @ matrix)


def recentred(matrix: Floats, offset: Floats) -> Floats:
    """Return (I - c cᵀ)^{-1/2} A: the preconditioner about the mean, from that about a centre at this offset."""
    length = float(offset @ offset)
    left = max(1.0 - length, _RECENTRED_FLOOR)
    if length == 0:
        return matrix
    along = np.outer(offset, offset) / length
    return np.asarray(matrix + (1 / np.sqrt(left) - 1) * (along @ matrix))


def whitened_covariance(noisy: Floats, offset: Floats, *, rows: float, noise_scale: float, law: Law) -> Floats:
    """Shrink and floor the released second moment of whitened rows about a centre at this offset from their mean."""
    mean = symmetric(noisy / rows - np.outer(offset, offset))
    scale = noise_scale / rows
    shrunk = denoise(mean, noise_scale=scale, law=law).matrix
    values, vectors = np.linalg.eigh(symmetric(shrunk))
    return np.asarray((vectors * np.maximum(values, max(_FLAT, scale / 2))) @ vectors.T)


def mapped_back(matrix: Floats, second: Floats) -> Floats:
    """Return A⁻¹ Z A⁻ᵀ, exactly symmetric."""
    half = np.linalg.solve(matrix, second)
    return symmetric(np.linalg.solve(matrix, half.T))


def symmetric(matrix: Floats) -> Floats:
    """Return the mean of a matrix and its transpose: what rounding has left."""
    return np.asarray((matrix + matrix.T) / 2)


StartName = Literal["ball", "precond", "ranges"]

#: More steps than this never help: each has too small a share.
MOST_STEPS = 10

#: A step must shrink what is left of the condition number at least by this.
_SHRINKS = 0.8
_SMALLEST_RADIUS = 1e-30


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """A first preconditioner with A Σ Aᵀ ⪯ I, the length its rows are clipped to, and the condition number it leaves.

    `clip` is None where it is that of all later steps.
    """

    name: StartName
    matrix: Floats
    condition: float
    clip: float | None = None


@dataclass(frozen=True, eq=False)
class StepSchedule:
    """A start and a number of steps; `weak` where no number of steps is certified for its condition number."""

    start: Preconditioner
    steps: int
    weak: bool


def possible_starts(
    points: PointCloud, constants: Constants, *, condition: float, scale: float | None
) -> tuple[Preconditioner, ...]:
    """Return the starts that these public rows allow: a ball from two rows on, their own shape from d + 1 rows on.

    Raises:
        RangeError: a single row (or copies of one) and no `scale`; too few rows for the proven constants.
    """
    size, distinct = points.width, points.distinct
    found = []
    whitening = points.whitening()
    if whitening is not None:
        known = bracket(size, distinct, constants.chance)
        # about the public centre the second moment is Σ + δδᵀ ⪯ (1 + o²)Σ; 2 covers it in practice
        spread = 1 + known.offset if constants.version == "proven" else 2.0
        found.append(
            Preconditioner("precond", whitening / sqrt(spread * known.upper), spread * known.upper / known.lower)
        )
    if constants.version == "proven":
        if not found:
            raise RangeError(
                f"the proven constants want {size + 1} public rows that span all {size} columns, got {distinct} "
                "different ones; constants='practical' works from two rows on"
            )
        return tuple(found)
    trace = points.trace
    if trace > 0:
        radius = sqrt(trace * (1 + 1 / distinct)) * (1.5 + 2 / sqrt(distinct - 1))
    elif scale is not None:
        radius = 2 * scale
    else:
        raise RangeError(
            "one public row (or copies of one) has no scale; pass scale=..., an upper guess of the root of the summed "
            "variances of all columns, or a second public row"
        )
    if not radius > _SMALLEST_RADIUS:
        raise RangeError("the public rows differ by less than 1e-30; change the unit of the columns")
    # columns of very different units contradict a small condition number, and public rows show them
    found.append(
        Preconditioner("ball", np.eye(size) / radius, min(max(condition, points.ratio), 1e20) * size, clip=1.0)
    )
    return tuple(found)


def shrinkage(split: BudgetSplit, share: Fraction, steps: int, rows: float, constants: Constants) -> float:
    """Return x = η + ν of a step when `steps` share the budget: its factor on the condition number."""
    size = split.size
    scale = split.second_scale(share / steps, constants.covariance_clip(size, rows)) / rows
    return constants.sampling_error(size, rows) + constants.noise_error(size, scale)


def certified_steps(
    condition: float, split: BudgetSplit, share: Fraction, rows: float, constants: Constants
) -> int | None:
    """Return the smallest number of steps with K x^t <= 1 and x < 0.8; None if ten are too few."""
    for steps in range(1, MOST_STEPS + 1):
        left = shrinkage(split, share, steps, rows, constants)
        if left < _SHRINKS and condition * left**steps <= 1:
            return steps
    return None


def choose_schedule(
    candidates: Sequence[Preconditioner], split: BudgetSplit, share: Fraction, rows: float, constants: Constants
) -> StepSchedule:
    """Choose the start that takes the fewest steps; if none is certified, the best known one, flagged as weak."""
    counts = [certified_steps(each.condition, split, share, rows, constants) for each in candidates]
    certified = [
        (count, each.condition, place)
        for place, (count, each) in enumerate(zip(counts, candidates, strict=True))
        if count
    ]
    if certified:
        count, _, place = min(certified)
        return StepSchedule(candidates[place], count, weak=False)
    return StepSchedule(min(candidates, key=lambda each: each.condition), 2, weak=True)


def public_radius(size: int, rows: int, chance: float) -> float:
    """Return how far the mean of m public rows rarely is from the truth, when white: tb(d, β/2)/√m.

    In the number of columns. (A published simulation takes the number of rows here, and understates the gain.)

    >>> round(public_radius(50, 1, 0.05), 6)
    9.194552
    """
    return norm_bound(size, chance / 2) / sqrt(rows)


def one_shot_clip(size: int, radius: float, rows: float, chance: float) -> float:
    """Return a length that no row exceeds about the public mean, with probability 1 - 5β/4.

    √(R² + 2R√(2 log(2n/β)) + γ²), γ = tb(d, β/(2n)): the cross term ⟨μ - c, x - μ⟩/R is normal; never more than R + γ.

    >>> radius = public_radius(50, 1, 0.05)
    >>> round(one_shot_clip(50, radius, 1000, 0.05), 6)
    16.924112
    """
    longest = norm_bound(size, chance / (2 * rows))
    cross = 2 * radius * sqrt(2 * log(2 * rows / chance))
    return min(sqrt(radius**2 + cross + longest**2), radius + longest)
