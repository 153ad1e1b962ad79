"""How far noise moves a released mean: the count's and the sum's, each by the tail of the law that is drawn.

The last step moves the mean by w = (T + Z)/n̂, T the sum of n rows about the step's centre, and T/n would be right. So
the error is (w(n - n̂) + Z)/n, in which w is released, and n is not below n̂ minus the count's noise (Gaussians proof
page, Theorem 6).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, lgamma, log, log10, sqrt

import numpy as np

from sidelight.gaussians.exact_map import grid_rounding
from sidelight.gaussians.point_cloud import Floats
from sidelight.gaussians.step_arithmetic import BudgetSplit, norm_bound
from sidelight.mechanisms.noisy_moments import NoiseInUnits
from sidelight.release import TailBound

#: The share of the budget that the number of rows costs, where it is private.
COUNT = Fraction(3, 100)
#: Rows are truncated to this part of the length that they are clipped to.
_LEVELS = 1 << 14
#: The confidences that a bound may end at, and how much more than up to 95 % alone a higher one may cost at 95 %.
_ENDS, _MORE = (0.95, 0.99, 0.999, 0.9999, 0.999999, 1 - 1e-9), 1.25
#: Parts of the failure probability that the count may get.
_PARTS = (1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
#: With more noise in the count than this part of the rows, nothing is stated.
_MOST_NOISE = 0.8
_AT = log(20)


@dataclass(frozen=True)
class Line:
    """fixed + per_log · L: exceeded with probability at most e^-L."""

    fixed: float
    per_log: float

    def at(self, logarithm: float) -> float:
        """Return its value."""
        return self.fixed + self.per_log * logarithm

    @classmethod
    def tangent(cls, value: float, slope: float) -> Line:
        """Return the line through a value at 95 %: above every concave function that it touches there."""
        return cls(value - slope * _AT, slope)


@dataclass(frozen=True, kw_only=True, eq=False)
class LastStep:
    """The last step of a mean: the map, how far it moved (white), clip, share of the budget, and the divisor.

    `covariance` are the released variances that stand for the true ones, and `variance_noise` the deviation of their
    noise, relatively; without them the map is known to whiten.
    """

    matrix: Floats
    moved: Floats
    clip: float
    share: Fraction
    rows: float
    covariance: Floats | None = None
    variance_noise: float = 0.0

    def of_estimate(self, covariance: Floats, variance_noise: float) -> LastStep:
        """Return it with the covariance that was estimated."""
        return replace(self, covariance=covariance, variance_noise=variance_noise)

    def deviation(self, split: BudgetSplit) -> float:
        """Return the noise of each coordinate of the mean when white."""
        return split.total_deviation(self.share, self.clip) / self.rows

    def error(self, split: BudgetSplit, shortened: Floats) -> TailBound | None:
        """Bound the error of the mean in every column; None where the noise leaves nothing to say.

        `shortened` is how far the estimate was then moved to be within a declared range.
        """
        size = len(self.moved)
        if not 0 < self.deviation(split) < 1e100 or not np.isfinite(self.moved).all():  # noise of a hopeless price
            return None
        with np.errstate(all="ignore"):
            inverse = np.linalg.inv(self.matrix)
            lengths = np.sqrt((inverse**2).sum(axis=1))
            # the noise of a variance is c of it, so a standard deviation is rarely more than 1 + 2c times the true one
            spreads = lengths if self.covariance is None else np.sqrt(np.diag(self.covariance))
            units = (1 + 2 * self.variance_noise) / spreads
            moved = float((np.abs(inverse @ self.moved) * units).max())
            widest, absolute = float((lengths * units).max()), float((np.abs(inverse).sum(axis=1) * units).max())
            aligned = np.count_nonzero(inverse) == size
            known = absolute * self.clip / _LEVELS + widest * grid_rounding(size)
            known += float((np.abs(shortened) * units).max())
        noise = split.total_law(self.share)
        # what a law's numbers are rounded to, in every entry: half a step, or half of 2^-10 deviations
        rounding = absolute * (noise.deviation * 2.0**-11 if noise.law == "spherical" else float(noise.unit) / 2)
        found = self._best(split, noise, moved, widest, rounding, aligned=bool(aligned))
        if found is None or not known + found[0].at(_AT) < 1e100:
            return None
        line, end = found
        reach = norm_bound(size, 0.05)
        return TailBound(
            unit="standard deviations, in the mean of a column",
            assumption=(
                f"rows are about Gaussian: those further out than about {reach:.2g} standard deviations are pulled in "
                f"to there, and every 1 % of rows twice as far out moves the mean by up to {reach / 100:.1g} more"
                + ("" if split.rows is None else f"; exactly {split.rows} rows count: none is left out")
            ),
            fixed=(_upward(line.fixed + known),),
            per_log=(_upward(line.per_log),),
            proved=self.covariance is None,
            up_to=end,
        )

    def _best(
        self, split: BudgetSplit, noise: NoiseInUnits, moved: float, widest: float, rounding: float, *, aligned: bool
    ) -> tuple[Line, float] | None:
        """Share the failure probability between count and sum as is best at 95 %; return the bound and its end."""
        size, count = len(self.moved), split.count_law(COUNT)

        def of_sum(part: float) -> Line:
            white = sum_tail(noise, size, part, aligned=aligned)
            return Line((white.fixed * widest + rounding) * self.clip, white.per_log * widest * self.clip)

        if count is None:
            alone = of_sum(1.0)
            return Line(alone.fixed / self.rows, alone.per_log / self.rows), 1.0
        pairs = [(count_tail(count, part), of_sum(1 - part)) for part in _PARTS]
        usable = [(off, total) for off, total in pairs if off.at(_AT) <= _MOST_NOISE * self.rows]
        if not usable:
            return None
        found: list[tuple[Line, float]] = []
        for end in _ENDS:
            last = log(1 / (1 - end))
            chords = [
                _chord(off, total, moved, self.rows, last)
                for off, total in usable
                if off.at(last) <= _MOST_NOISE * self.rows
            ]
            if chords:
                found.append((min(chords, key=lambda line: line.at(_AT)), end))
        least = found[0][0].at(_AT)
        return next(each for each in reversed(found) if each[0].at(_AT) <= _MORE * least)


def _chord(off: Line, total: Line, moved: float, rows: float, last: float) -> Line:
    """Return the chord of (w t + z)/(n̂ - t), which is convex in L, from L = 0 to the last."""
    ends = [(moved * off.at(place) + total.at(place)) / (rows - off.at(place)) for place in (0.0, last)]
    return Line(ends[0], (ends[1] - ends[0]) / last)


def count_tail(noise: NoiseInUnits, part: float) -> Line:
    """Bound the noise of the count but for a part of the failure probability."""
    deviation = noise.deviation
    if noise.law == "laplace":
        return _laplace(float(noise.scale), _AT + log(1 / part))
    value, slope = _normal(_AT + log(1 / part))
    line = Line.tangent(deviation * value, deviation * slope)
    return Line(line.fixed + 0.5, line.per_log)  # it is rounded


def sum_tail(noise: NoiseInUnits, size: int, part: float, *, aligned: bool) -> Line:
    """Bound the noise of d combinations of length 1 of a noisy sum, for rows of length 1.

    `aligned`: each of them is one entry.
    """
    rare = _AT + log(size / part)
    if noise.law == "gaussian":
        value, slope = _normal(rare)
        return Line.tangent(noise.deviation * value, noise.deviation * slope)
    if noise.law == "spherical":
        scale = noise.deviation / sqrt(size + 1)
        value, slope = _spherical(rare, size)
        return Line.tangent(scale * value, scale * slope)
    if aligned:
        steps = _laplace(float(noise.scale / noise.unit), rare)
        return Line(steps.fixed * float(noise.unit), steps.per_log * float(noise.unit))
    # moments e^{λ Σ u_i Z_i} <= 1/(1 - λ²) for Σ u_i² = 1, in units of the scale; any λ will do
    scale, rare = float(noise.scale), rare + log(2)
    rates = np.linspace(0.02, 0.98, 97)
    rate = float(rates[((rare - np.log1p(-(rates**2))) / rates).argmin()])
    return Line.tangent(scale * (rare - log(1 - rate**2)) / rate, scale / rate)


def _laplace(scale: float, rare: float) -> Line:
    """Bound discrete Laplace noise: it is beyond t with probability at most 2a^t/(1 + a), a = e^(-1/scale)."""
    return Line.tangent(max(scale * (rare + log(2 / (1 + exp(-1 / scale)))), 0.0), scale)


def _normal(rare: float) -> tuple[float, float]:
    """Return where a standard normal number is beyond with probability e^-rare, on both sides, and the slope in it."""
    from scipy.stats import norm

    value = float(norm.isf(exp(-rare) / 2))
    return value, float(norm.sf(value) / norm.pdf(value))


@lru_cache(maxsize=64)  # of public numbers
def _spherical(rare: float, size: int) -> tuple[float, float]:
    """Return the same of one coordinate of the density ∝ e^-‖z‖ in `size` dimensions.

    Its moments E e^{λz} = (1 - λ²)^{-k}, k = (d + 1)/2, are those of √(2G)·N with G of a gamma law of shape k: the tail
    is a mean of normal ones, E erfc(t/(2√G)).
    """
    from scipy.optimize import brentq
    from scipy.special import erfc

    shape = (size + 1) / 2
    low, high = max(0.0, shape - 12 * sqrt(shape)), shape + 12 * sqrt(shape) + 40
    nodes, weights = np.polynomial.legendre.leggauss(400)
    mixed = (low + high) / 2 + (high - low) / 2 * nodes
    mass = weights * (high - low) / 2 * np.exp((shape - 1) * np.log(mixed) - mixed - lgamma(shape))

    def tail(place: float) -> float:
        return float(mass @ erfc(place / (2 * np.sqrt(mixed)))) + 1e-14

    value = float(brentq(lambda place: log(tail(place)) + rare, 0.0, 2 * (rare + size + 40)))
    density = float(mass @ (np.exp(-(value**2) / (4 * mixed)) / np.sqrt(np.pi * mixed)))
    return value, tail(value) / density


def _upward(number: float) -> float:
    """Round up to five digits: no machine's last bits are in what is stated."""
    if number == 0:
        return 0.0
    step = 10.0 ** (ceil(log10(abs(number))) - 5)
    return float(f"{ceil(number / step) * step:.10g}")
