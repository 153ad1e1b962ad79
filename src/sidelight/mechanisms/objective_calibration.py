"""From (ε, δ) to the noise and the regularisation of a fit; nothing to tune, and nothing read from data.

Every answer is a decimal on the private side, and the mechanism that comes back has proved its (ε, δ) again in
certified decimals (below the threshold of a loss's envelope: in floats with their error added). A Newton iterate or a
tolerance-sized neighbour is never returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from sidelight.accounting import gaussian_noise_scale
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, EnvelopeCurve, ProfileCurve, exact, positive, short_text
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.amounts import grid_ceil, smallest
from sidelight.guarantees.curves import gaussian_floats
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.objective_perturbation import Bound, LossShape, ObjectivePerturbation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OUTPUT_SHARE = Fraction(1, 50)  # output_mu / mu: the output noise takes 0.02 % of the privacy
_TOLERANCE = Fraction(1, 10**6)
_TAIL = Fraction(1, 1000)  # the share of δ that may fall to large output noise
_NOISE_FACTOR = Fraction(13, 10)
#: λ/β is never chosen below it, which a large ε would allow: the output noise and the work of the solver grow as 1/λ.
LEAST_PENALTY = Fraction(1, 30)
_CLOSE = 10  # to how many digits the search in floats is good


def calibrate_objective(
    shape: LossShape,
    *,
    epsilon: Amount,
    delta: Amount,
    regularisation: Amount | None = None,
    noise_scale: Amount | None = None,
    tolerance: Amount | None = None,
    rows_at_most: int | None = None,
    theta_norm: Amount | None = None,
    dimension: int | None = None,
    bound: Bound = "tight",
    output_share: Amount = OUTPUT_SHARE,
) -> ObjectivePerturbation:
    """Choose what was left open so that the fit is (ε, δ)-DP.

    With nothing given: the logistic and log-cosh losses get the noise of the Gaussian mechanism and the smallest
    regularisation that allows it; a softmax gets λ = 20β/ε; other losses 1.3 times the Gaussian's noise, and from where
    that allows λ = β/30 (about ε = 14) this λ and the least noise: a smaller one costs more output noise than it saves
    bias (6,497 rows at ε = 50, Huber: R² -261 with β/10⁶, 0.245 with this one; `benchmarks/large_epsilon.py`).

    Args:
        shape: The bounds of the loss.
        epsilon: The target.
        delta: The target.
        regularisation: λ, if fixed beforehand. A larger one than needed costs nothing.
        noise_scale: σ, if fixed beforehand.
        tolerance: τ; default 1e-6·L, times rows_at_most/1e6 where that is more.
        rows_at_most: A public upper bound of the number of rows.
        theta_norm: A public guess B of the size of the coefficients; raises λ to √dimension·σ/B.
        dimension: The number of coefficients; needed with `theta_norm`.
        bound: Which theorem; "tight" is never worse.
        output_share: The output noise's mu as a share of the linear term's; 0 gives the exact minimum, for analysis.

    Raises:
        RangeError: no parameters, or not the given ones, reach the target.

    >>> from sidelight.mechanisms.objective_perturbation import LossShape
    >>> logistic = LossShape(
    ...     gradient=Fraction(1), curvature=Fraction(1, 4), envelope="logistic", sign_definite=True)
    >>> fit = calibrate_objective(logistic, epsilon=1, delta="1e-5")
    >>> round(float(fit.noise_scale), 5), round(float(fit.regularisation), 5)
    (3.7316, 0.99422)
    """
    at, chance = positive(epsilon, name="epsilon"), positive(delta, name="delta")
    if chance >= 1:
        raise RangeError(f"delta must be below 1, got {short_text(chance)}; 1e-6 or less is usual")
    fixed_lambda = None if regularisation is None else positive(regularisation, name="regularisation")
    fixed_sigma = None if noise_scale is None else positive(noise_scale, name="noise_scale")
    guess = None if theta_norm is None else positive(theta_norm, name="theta_norm")
    if guess is not None and dimension is None:
        raise RangeError("theta_norm needs the dimension, the number of coefficients")
    share = _share(exact(output_share, name="output_share"), at, chance)
    return _calibrated(
        _CalibrationTarget(shape, at, chance, share, bound),
        fixed_sigma,
        fixed_lambda,
        _tolerance(shape, tolerance, rows_at_most),
        None if guess is None or dimension is None else (guess, dimension),
    )


@dataclass(frozen=True)
class _CalibrationTarget:
    """One (ε, δ) for one loss: the searches for σ and λ."""

    shape: LossShape
    epsilon: Fraction
    delta: Fraction
    share: Fraction
    bound: Bound

    def mechanism(self, sigma: Fraction, lam: Fraction, tolerance: Fraction = Fraction(1)) -> ObjectivePerturbation:
        """Build the mechanism whose output noise has at most its share."""
        output = Fraction(0)
        if self.share:
            output = grid_ceil(2 * tolerance * sigma / (lam * self.share * self.shape.gradient))
        return ObjectivePerturbation(
            shape=self.shape,
            noise_scale=sigma,
            regularisation=lam,
            tolerance=tolerance if self.share else Fraction(0),
            output_noise_scale=output,
            bound=self.bound,
        )

    def parameters(self, sigma: Fraction | None, lam: Fraction | None) -> tuple[Fraction, Fraction]:
        """Fill in what is open."""
        if sigma is not None:
            return sigma, lam if lam is not None else self.smallest_regularisation(sigma)
        if self.bound == "tight" and self.shape.envelope != "flat":
            least_sigma, least_lambda = self._at_gaussian_cost()
            if lam is None or lam >= least_lambda:
                return least_sigma, lam or least_lambda
            return self.smallest_noise(lam), lam
        if lam is None and self.shape.classes is not None:
            lam = grid_ceil(20 * self.shape.curvature / self.epsilon)  # 10·R²/ε
        if lam is not None:
            return self.smallest_noise(lam), lam
        sigma = _NOISE_FACTOR * gaussian_noise_scale(self.epsilon, self.delta, sensitivity=self.shape.gradient)
        least = grid_ceil(self.shape.curvature * LEAST_PENALTY)
        if self.holds(sigma, least):
            return self.smallest_noise(least), least
        return sigma, self.smallest_regularisation(sigma)

    def holds(self, sigma: Fraction, lam: Fraction) -> bool:
        """Return whether both directions prove the target."""
        if self.bound == "thesis" and lam <= self.shape.curvature:
            return False
        return max(self.mechanism(sigma, lam).deltas(self.epsilon)) <= self.delta

    def smallest_noise(self, lam: Fraction) -> Fraction:
        """Return the smallest σ for a λ; more noise is never less private."""
        start = gaussian_noise_scale(self.epsilon, self.delta, sensitivity=self.shape.gradient)
        return smallest(
            lambda sigma: self.holds(sigma, lam),
            start=self._near(lambda sigma: self.seems(sigma, lam), start / 2, start * 10**6),
            lower=start / 2,
            upper=start * 10**6,
            name=f"noise scale at regularisation {short_text(lam)}",
            digits=self._digits,
            close=_CLOSE,
        )

    def smallest_regularisation(self, sigma: Fraction) -> Fraction:
        """Return the smallest λ for a σ; more regularisation is never less private."""
        lower, upper = self.shape.curvature / 10**6, self.shape.curvature * 10**9
        return smallest(
            lambda lam: self.holds(sigma, lam),
            start=self._near(lambda lam: self.seems(sigma, lam), lower, upper),
            lower=lower,
            upper=upper,
            name=f"regularisation at noise scale {short_text(sigma)}",
            digits=self._digits,
            close=_CLOSE,
        )

    @property
    def _digits(self) -> int:
        """Below the threshold of an envelope a profile is a sum of floats, which no more digits would improve."""
        return 9 if self.bound == "tight" and self.shape.envelope != "flat" else 12

    def seems(self, sigma: Fraction, lam: Fraction) -> bool:
        """Return, by floats, whether both directions meet the target: for a start; `holds` decides."""
        import numpy as np

        if self.bound == "thesis" and lam <= self.shape.curvature:
            return False
        profile, at = self.mechanism(sigma, lam).profile(), np.array([float(self.epsilon)])
        return max(_float_delta(curve, at) for curve in (profile.add, profile.remove)) <= float(self.delta)

    @staticmethod
    def _near(seems: Callable[[Fraction], bool], lower: Fraction, upper: Fraction) -> Fraction:
        """Bisect in floats before the certified search, whose every step costs more."""
        low, high = float(lower), float(upper)
        while high / low > 1 + 1e-11:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if seems(grid_ceil(Fraction(middle))) else (middle, high)
        return grid_ceil(Fraction(high))

    def _at_gaussian_cost(self) -> tuple[Fraction, Fraction]:
        """Return the noise of the Gaussian mechanism, and the least λ with which a loss with an envelope has it."""
        tail = _TAIL * self.delta if self.share else Fraction(0)
        goal = self.delta - tail if self.shape.envelope == "logistic" else self.delta / 2
        whole = convert.gdp_within(self.epsilon, goal)
        if self.share:
            growth = round_up(Interval.of(1 + self.share * self.share).sqrt().upper)
            sigma = grid_ceil(self.shape.gradient * growth / whole)
        else:  # the Gaussian mechanism's own scale
            sigma = gaussian_noise_scale(self.epsilon, goal, sensitivity=self.shape.gradient)
        mu = self.shape.gradient / sigma
        rest = self.epsilon - _largest_output(mu * self.share, tail) if self.share else self.epsilon
        if self.shape.envelope == "logistic":
            lam = 4 * self.shape.curvature / (rest + mu * mu / 2)
        else:
            lam = max(self.shape.curvature / rest, 2 * self.shape.curvature / (rest + mu * mu / 2))
        return sigma, grid_ceil(lam)


@lru_cache(maxsize=256)  # of exact numbers: the same price is asked for by every fit of a search, a forecast or a batch
def _calibrated(
    target: _CalibrationTarget,
    fixed_sigma: Fraction | None,
    fixed_lambda: Fraction | None,
    tolerance: Fraction,
    theta_norm: tuple[Fraction, int] | None,
) -> ObjectivePerturbation:
    """Search, and prove what was found; `theta_norm` comes with the dimension."""
    sigma, lam = target.parameters(fixed_sigma, fixed_lambda)
    if theta_norm is not None:
        guess, dimension = theta_norm
        lam = max(lam, grid_ceil(round_up((Interval.of(dimension).sqrt() * Interval.of(sigma / guess)).upper)))
    mechanism = target.mechanism(sigma, lam, tolerance)
    if max(mechanism.deltas(target.epsilon)) > target.delta:
        raise RangeError(
            f"noise {short_text(sigma)} and regularisation {short_text(lam)} do not prove "
            f"({short_text(target.epsilon)}, {short_text(target.delta)}); leave one of them open"
        )
    return mechanism


def _float_delta(curve: ProfileCurve, at: NDArray[np.float64]) -> float:
    """Evaluate one point in floats, without the table that an envelope makes for many."""
    if isinstance(curve, EnvelopeCurve):
        return float(curve.delta(Fraction(float(at[0]))))
    return float(curve.floats(at)[0])


def _share(share: Fraction, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Lower the output noise's share until what it may take of ε is small compared with ε."""
    if share == 0:
        return share
    mu = _roughly(epsilon, delta)
    while _largest_output(mu * share, _TAIL * delta) > epsilon / 4:
        share /= 2
    return share


def _roughly(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the Gaussian mechanism's mu to a few digits; it decides a share, not a claim."""
    import numpy as np

    low, high, at = 1e-12, 1e3, np.array([float(epsilon)])
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gaussian_floats(middle, at)[0] <= float(delta) else (low, middle)
    return Fraction(high)


def _largest_output(output_mu: Fraction, tail: Fraction) -> Fraction:
    """Return the loss that the output noise passes with probability `tail` at most: a choice, not a proof."""
    quantile = -NormalDist().inv_cdf(float(tail)) if tail > 1e-300 else 38.0
    return grid_ceil(Fraction(float(output_mu) ** 2 / 2 + float(output_mu) * quantile))


def _tolerance(shape: LossShape, tolerance: Amount | None, rows_at_most: int | None) -> Fraction:
    if tolerance is not None:
        return positive(tolerance, name="tolerance")
    rows = Fraction(max(10**6, rows_at_most or 0), 10**6)
    return grid_ceil(_TOLERANCE * shape.gradient * rows)
