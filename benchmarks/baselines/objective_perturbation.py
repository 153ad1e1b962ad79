"""Other bounds, to compare with: the older theorem, the Gaussian floor, and losses that are not linear models.

None of these is used for a claim. The Gaussian mechanism is a lower bound: a linear loss makes objective perturbation
the Gaussian mechanism itself, so no theorem for all losses with this L can prove less.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sidelight.accounting import gaussian_noise_scale
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, positive
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.objective_perturbation import ObjectivePerturbation, curvature_shift


def kifer_noise_scale(epsilon: Amount, delta: Amount, *, gradient: Amount = 1) -> Fraction:
    """Return the noise of Kifer, Smith and Thakurta (2012): σ = L·√(8·log(2/δ) + 4ε)/ε.

    >>> round(float(kifer_noise_scale(1, "1e-5")), 6)
    10.082092
    """
    at, chance = positive(epsilon, name="epsilon"), positive(delta, name="delta")
    root = (Interval.of(8) * Interval.of(2 / chance).log() + Interval.of(4 * at)).sqrt()
    return round_up((Interval.of(positive(gradient, name="gradient") / at) * root).upper)


def kifer_regularisation(epsilon: Amount, *, curvature: Amount) -> Fraction:
    """Return the regularisation of Kifer, Smith and Thakurta (2012): λ = 2β/ε."""
    return 2 * positive(curvature, name="curvature") / positive(epsilon, name="epsilon")


def kifer_epsilon(
    *, noise_scale: float, regularisation: float, delta: float, gradient: float, curvature: float
) -> float:
    """Return the epsilon that the theorem of 2012 proves for given parameters: the larger of its two conditions."""
    ratio = (noise_scale / gradient) ** 2
    root = (4 + math.sqrt(16 + 4 * ratio * 8 * math.log(2 / delta))) / (2 * ratio)  # ratio ε² = 4ε + 8 log(2/δ)
    return max(2 * curvature / regularisation, root)


def gaussian_epsilon(*, noise_scale: Amount, delta: Amount, gradient: Amount = 1) -> Fraction:
    """Return the epsilon of the Gaussian mechanism with sensitivity L: what no bound for this L and σ can beat."""
    mu = positive(gradient, name="gradient") / positive(noise_scale, name="noise_scale")
    return convert.gdp_epsilon(mu, positive(delta, name="delta"))


def thesis_renyi_regularisation(
    epsilon: float, delta: float, *, gradient: float, curvature: float, noise_factor: float = 1.3
) -> float:
    """Return the λ of the thesis' own calibration: σ = 1.3 times the Gaussian's, and its Rényi bound at the best order.

    ε = -log(1 - β/λ) + E with E free of λ, so λ = β/(1 - e^(E - ε)). In floats, to compare figures with.

    >>> round(thesis_renyi_regularisation(8, 1e-5, gradient=2**0.5, curvature=0.5), 4)
    0.6434
    """
    scale = float(gaussian_noise_scale(str(epsilon), str(delta))) * gradient * noise_factor
    s = gradient / scale

    def at(t: float) -> float:
        moment = math.log(2) + t * t * s * s / 2 + math.log(math.erfc(-t * s / math.sqrt(2)) / 2)
        return s * s / 2 + moment / t - math.log1p(1 / t) - (math.log(delta) + math.log1p(t)) / t

    least = min(at(math.exp(k / 400)) for k in range(-1200, 3200))
    if least >= epsilon:
        raise RangeError(f"noise of {noise_factor} times the Gaussian's leaves nothing of epsilon {epsilon} for λ")
    return curvature / -math.expm1(least - epsilon)


def non_linear_renyi(
    order: float, *, dimension: int, gradient: float, curvature: float, regularisation: float, noise_scale: float
) -> float:
    """Return D_α of a smooth convex loss that is not a function of xᵀθ: d·log(1+β/λ) + m + log E exp(tsχ_d)/t.

    It grows with the dimension; no estimator uses it.

    >>> round(non_linear_renyi(8, dimension=5, gradient=1, curvature=.25, regularisation=10, noise_scale=8), 9)
    0.424956115
    """
    if order <= 1 or dimension < 1:
        raise RangeError(f"the order must be above 1 and the dimension positive, got {order} and {dimension}")
    s, t = gradient / noise_scale, order - 1
    shift = dimension * math.log1p(curvature / regularisation)
    return shift + s * s / 2 + _log_mean_exponential(t * s, dimension) / t


def _log_mean_exponential(rate: float, dimension: int) -> float:
    """Log of E exp(rate·χ_d) by the power series of its even and odd moments, all terms positive."""
    # E χ^k / k! = 2^(k/2) Γ((d+k)/2) / (Γ(d/2) k!)
    logs = [
        k * math.log(rate) + k / 2 * math.log(2) + math.lgamma((dimension + k) / 2) - math.lgamma(dimension / 2)
        - math.lgamma(k + 1)
        for k in range(int(4 * rate * rate + 40 * rate + 8 * math.sqrt(dimension) * rate + 100))
    ]  # fmt: skip
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs))


def closed_form_zcdp(fit: ObjectivePerturbation) -> Fraction:
    """Bound D_α/α over all α > 1 by the closed forms of one direction: cells of orders, D rising, and a line beyond.

    The two profiles together prove much less (`Claims.zcdp`). For one predictor and the library's own bounds.
    """
    orders = [1 + Fraction(k, 10**5) for k in (1, 100, 2000)] + [1 + Fraction(21, 20) ** k / 10 for k in range(200)]
    values = fit.renyi(orders).curve.points
    cells = [value / before for (before, _), (_, value) in zip([(Fraction(1), None), *values], values, strict=False)]
    # beyond the last order A: D_α <= shift + log(3)/t + α·(mu² + output_mu²)/2, and each part of D_α/α falls
    last, shift = orders[-1], curvature_shift(fit.shape, fit.regularisation)
    rest = shift / last + Fraction(3) / (last * (last - 1)) + (fit.mu**2 + fit.output_mu**2) / 2
    return max(*cells, rest)
