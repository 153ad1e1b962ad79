"""The constants of a classifier after its steps.

Clip and noise move the mean of the probabilities. Constants are solved for under normal predictors with the released
variances, at the shares of the classes; then the sum of (probability - label) of the rows is released and what it shows
is taken back. That release is paid for (descent proof page, section 4); everything else is free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, ndtri

from sidelight.noise import Source
from sidelight.regression.descent.geometry import Floats, Geometry
from sidelight.regression.descent.integer_rows import ERROR_BITS, GeometryMap
from sidelight.regression.descent.log_odds import Rate
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.descent.row_sums import MappedPasses, OffsetSum

#: How far mean probabilities are usually off before the last release: where it is known what the clip does, and not.
_MODEL_ERROR, _CLIPPED_ERROR = 0.03, 0.1
#: The same of three classes or more, in twice a label's deviation: the root mean square over generated laws.
_SEVERAL_ERROR = 0.02
#: How far log odds of deviation 1 or more may be off by the clip, after they were drawn back by what normal rows need.
_STRETCHED = 0.3
#: How much more a class is allowed for as it gets rare.
_RARE = 6.0
#: Where the released matrix is noise, this share of the most that probabilities can vary is allowed for.
_UNSEEN = 0.3
_ROUNDS, _CLOSE = 200, 1e-9
#: Normal numbers: nodes of one predictor and their weights, and how many are drawn for several.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_DRAWN = 512
#: A share of rows below the one is rounding; a variance beyond the other is not known.
_LEAST, _MOST = 1e-12, 1e100


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictors:
    """The law that predictors without their constants are taken to have: some places and their weights.

    Args:
        places: (places, classes); of two classes the first has the predictor 0.
        weights: (places,); they add up to 1.
    """

    places: Floats
    weights: Floats

    @classmethod
    def normal(cls, slopes: Floats, variances: Floats | None) -> Predictors:
        """Return the law for slopes (columns, outputs) of independent normal columns of these variances.

        Without variances all predictors are taken to be the same.
        """
        outputs = slopes.shape[1]
        if variances is None:
            return cls(places=np.zeros((1, max(outputs, 2))), weights=np.ones(1))
        if outputs == 1:
            places = math.sqrt(min(float(_finite(variances @ slopes[:, 0] ** 2, 0.0)), _MOST)) * _NODES
            return cls(places=np.column_stack([0 * places, places]), weights=_WEIGHTS / _WEIGHTS.sum())
        return cls.of(normal_rows(variances), slopes)

    @classmethod
    def of(cls, rows: Floats, slopes: Floats) -> Predictors:
        """Return the law for some rows that stand for all."""
        return cls(places=_finite(rows @ slopes, 0.0), weights=np.full(len(rows), 1 / len(rows)))

    @property
    def spread(self) -> float:
        """The largest deviation of a predictor."""
        return float(np.sqrt(self.weights @ self.places**2).max())

    def chances(self, constants: Floats) -> Floats:
        """Return the probabilities at each place: SciPy's softmax, which takes three times as long for so few."""
        odds = self.places + constants
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def shares(self, constants: Floats) -> Floats:
        """Return the mean probability of each class."""
        return np.asarray(self.weights @ self.chances(constants))

    def moved(self, constants: Floats, power: int = 1) -> Floats:
        """Return by how much the probability of each class moves with its constant: the mean of a power of it."""
        chances = self.chances(constants)
        return np.asarray(self.weights @ ((chances * (1 - chances)) ** power))

    def constants(self, shares: Floats, *, start: Floats | None = None, close: float = _CLOSE) -> Floats:
        """Return the constants, one for each class with mean 0, at which the mean probabilities are these shares.

        Args:
            shares: Of the classes.
            start: Constants that are near, if there are any.
            close: How far the logarithm of a share may be off.
        """
        wanted = np.log(np.maximum(shares, _LEAST))
        found = wanted - wanted.mean() if start is None else start
        for _ in range(_ROUNDS):
            moved = wanted - np.log(np.maximum(self.shares(found), _LEAST))
            found = found + moved - moved.mean()
            if not np.abs(moved).max() > close:
                break
        return np.asarray(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibratedConstants:
    """The constants of classes after the last release, and how sure probabilities are.

    Args:
        constants: (classes,), with mean 0.
        variance: Of a constant: the largest.
        of_constant: The mean square of what that moves a probability by.
        of_slopes: The mean square of what log odds that are off by 1 move a probability by.
        of_rest: How far clip and slopes that are lost in noise may still move it, in the root mean square: an
            allowance, not an estimate.
        mean_weight: Of rows by the weights of their classes, at these shares; 1 without weights.
    """

    constants: Floats
    variance: float
    of_constant: float
    of_slopes: float
    of_rest: float
    mean_weight: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """The constants of classes before the last release, and what they become after it.

    Args:
        law: Of the predictors.
        constants: (classes,), with mean 0, at which the last release is made.
        off: The variance of the mean probabilities from the shares of the classes there, (classes,).
        constant: The entry of the constant column of z.
    """

    law: Predictors
    constants: Floats
    off: Floats
    constant: float

    @classmethod
    @np.errstate(all="ignore")
    def of(
        cls,
        theta: Floats,
        variances: Floats | None,
        rate: Rate | None,
        *,
        said: float | None,
        predicted: bool,
        constant: float,
    ) -> Calibration:
        """Return the constants that steps tell of. It never fails, whatever was released.

        Args:
            theta: (columns, outputs), the constant last.
            variances: Of the columns of z, (columns,), or None where they are not known.
            rate: The share of the second of two classes, where it is known what the clip does to it, or None.
            said: The variance of the constants of theta, or None.
            predicted: Whether theta rests on a prediction.
            constant: The entry of the constant column of z.
        """
        law = Predictors.normal(theta[:-1], None if variances is None else variances[:-1])
        found = constant * theta[-1]
        found = found - found.mean() if len(found) > 1 else np.array([-0.5, 0.5]) * found
        usual: float | Floats = _CLIPPED_ERROR
        if rate is not None:
            found, said = law.constants(np.array([1 - rate.share, rate.share])), rate.variance
            usual = _MODEL_ERROR
        elif predicted:
            usual = _MODEL_ERROR
        found = _finite(found, 0.0)
        if len(found) > 2 and not predicted:
            likely = law.shares(found)
            usual = _SEVERAL_ERROR * 2 * np.sqrt(np.clip(likely * (1 - likely), 0.0, 1.0))
        off = _finite(usual**2 + (0.0 if said is None else said) * law.moved(found) ** 2, 1.0)
        return cls(law=law, constants=found, off=off, constant=constant)

    def put_into(self, theta: Floats, constants: Floats) -> Floats:
        """Return the coefficients with these constants."""
        own = constants if theta.shape[1] > 1 else constants[1:] - constants[:1]
        return np.vstack([theta[:-1], own / self.constant])

    @np.errstate(all="ignore")
    def corrected(
        self, offset: Floats, *, deviation: float, rows: float, weights: tuple[float, ...], unseen: float
    ) -> CalibratedConstants:
        """Return the constants after the sum of (probability - label) was released.

        Args:
            offset: The noisy sum, (outputs,), of rows weighted by their class.
            deviation: Of its noise.
            rows: The number of rows.
            weights: Of the classes; empty for equal ones.
            unseen: Of the most that probabilities can vary, the share that columns may tell which no release shows.
        """
        said = self.law.shares(self.constants)
        counted = rows * _mean_weight(said, weights)
        gap = (offset if len(offset) > 1 else np.array([-1.0, 1.0]) * offset) / counted
        noise = min((deviation / max(counted, _LEAST)) ** 2, _MOST)
        kept = self.off / (self.off + noise)
        wanted = _positive(said - kept * gap, np.sqrt(kept * noise))
        found = self.law.constants(wanted)
        found = np.where(np.isfinite(found), found, self.constants)
        unknown = kept * noise + wanted * (1 - wanted) / counted
        steep = np.maximum(self.law.moved(found), _LEAST)
        # a rare class may be less rare than it seems, and its probability then moves more
        likely = np.maximum(wanted, np.minimum(wanted + 2 * np.sqrt(unknown), 0.5))
        per_slope = _finite(self.law.moved(self.law.constants(likely / likely.sum()), 2), 1.0)
        per_slope *= 1 if len(offset) == 1 else 2
        # the clip takes the more off a rare class, whose rows a model gets wrong
        rare = 1 + _RARE * (1 - 2 * np.sqrt(wanted * (1 - wanted)))
        stretched = _STRETCHED * min(self.law.spread, 1.0) * rare * np.sqrt(per_slope)
        return CalibratedConstants(
            constants=found,
            variance=float(_finite(unknown / steep**2, _MOST).max()),
            of_constant=float(_finite(unknown * self.law.moved(found, 2) / steep**2, _MOST).max()),
            of_slopes=float(per_slope.max()),
            of_rest=float((stretched + unseen * np.sqrt(wanted * (1 - wanted))).max()),  # of one class, not of two
            mean_weight=_mean_weight(wanted, weights),
        )


def with_constants(
    plan: DescentPlan,
    geometry: Geometry,
    mapped: MappedPasses,
    theta: Floats,
    rate: Rate | None,
    *,
    said: float | None,
    predicted: bool,
    source: Source,
) -> tuple[Floats, CalibratedConstants]:
    """Set the constants of classes so that probabilities are on average the shares of the classes.

    The slopes of theta, (columns, outputs), stay; `rate`, `said` and `predicted` are those of `Calibration.of`. Return
    the coefficients, and how sure they are.
    """
    mapping = GeometryMap(geometry=geometry)
    before = Calibration.of(theta, geometry.likely, rate, said=said, predicted=predicted, constant=geometry.constant)
    theta = before.put_into(theta, before.constants)
    total = mapped.added_up(OffsetSum(targets=plan.targets, code=mapping.theta_codes(theta), last=mapping.last))
    noise = plan.offset_noise(total)
    released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 7 of 7
    after = before.corrected(
        released * 2.0**-ERROR_BITS,
        deviation=float(noise.deviation) * 2.0**-ERROR_BITS,
        rows=max(geometry.counted, geometry.rows / 4),
        weights=plan.targets.weights,
        unseen=max(_UNSEEN * geometry.obscured**2, 0.0 if predicted else math.sqrt(geometry.unseen)),
    )
    return before.put_into(theta, after.constants), after


def normal_rows(variances: Floats) -> Floats:
    """Return rows of independent normal columns of these variances, the same every time, each with its opposite."""
    drawn = _normal_numbers(_DRAWN // 2, len(variances)) * np.sqrt(variances)
    return np.vstack([drawn, -drawn])


def _normal_numbers(*shape: int) -> Floats:
    """Return the same normal numbers every time: they stand for rows, and hide nothing."""
    mixed = np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    uniform = ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) + 0.5
    return np.asarray(ndtri(uniform * 2.0**-53)).reshape(shape)


def _mean_weight(shares: Floats, weights: tuple[float, ...]) -> float:
    """Return the mean weight of rows, given the shares of the classes among rows that count as their weights say."""
    return 1 / float(np.sum(shares / np.asarray(weights))) if weights else 1.0


def _positive(mean: Floats, deviation: Floats) -> Floats:
    """Return the expected shares given noisy ones: none is negative, and they add up to 1."""
    each = np.maximum(deviation, _LEAST)
    # the mean of a normal number given that it is positive; erfcx keeps the quotient of two small numbers exact
    found = mean + each * math.sqrt(2 / math.pi) / erfcx(-mean / each / math.sqrt(2))
    found = np.maximum(found, _LEAST)
    return np.asarray(found / found.sum())


def _finite(values: Floats, otherwise: float) -> Floats:
    """Return numbers that are at most `_MOST`, another one for those that are none: after the charge nothing fails."""
    return np.nan_to_num(np.clip(values, -_MOST, _MOST), nan=otherwise)
