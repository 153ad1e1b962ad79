"""Samplers and bounds that only tests use: the discrete Gaussian as other libraries draw it, coins, and Theorem 5.

Proofs: the noise proof page, sections 5, 7 and Theorem 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise import Source, discrete_laplace
from sidelight.noise.enclosures import LazyReal, exact_exp
from sidelight.noise.lattice import exact_scale
from sidelight.noise.source import check_size
from sidelight.noise.strips import CHUNK, STEPS_PER_UNIT, step_table, taylor_exp_neg


def discrete_gaussian(size: int, variance: Rational, source: Source) -> NDArray[np.int64]:
    """Return `size` independent integers with P(k) ∝ exp(-k²/(2·variance)). For cross-checks with other libraries.

    Guarantee: exact (Canonne, Kamath and Steinke 2020). Releases use `rounded_gaussian`: the same ρ, also GDP, and a
    third of the cost.
    """
    check_size(size)
    sigma2 = exact_scale(variance)
    if not Fraction(1, 2**100) <= sigma2 <= 2**90:
        raise RangeError(f"variance must lie in 2**-100..2**90, got about {float(sigma2):.3g}; use rounded_gaussian")
    t = math.isqrt(sigma2.__floor__()) + 1
    centre = sigma2 / t
    out = np.empty(size, np.int64)
    have = 0
    while have < size:
        need = min(size - have, CHUNK)
        proposals = discrete_laplace(need + need // 2 + 16, Fraction(t), source)
        magnitudes = np.abs(proposals)

        def exact(i: int, magnitudes: NDArray[np.int64] = magnitudes) -> Fraction:
            return (int(magnitudes[i]) - centre) ** 2 / (2 * sigma2)

        # within 2^-50 (1 + z) of the exact exponent, four times better than exp_coin asks for
        exponents = (magnitudes - float(centre)) ** 2 / float(2 * sigma2)
        kept = proposals[exp_coin(exponents, exact, source)][:need]
        out[have : have + kept.size] = kept
        have += kept.size
    return out


def exp_coin(exponents: NDArray[np.float64], exact: Callable[[int], Fraction], source: Source) -> NDArray[np.bool_]:
    """Flip one coin of probability exp(-z_i) for each z_i, exactly, in bulk.

    Guarantee: exact, provided |exponents[i] - exact(i)| <= 2**-48 (1 + exact(i)) (noise proof page, section 5): the
    floats only decide where they must be right; `exact(i)`, the true exponent, decides the rest.
    """
    steps = step_table()
    words = source.words(exponents.size)
    z = np.clip(exponents, 0.0, 690.0)  # a rounded zero may be negative; the polynomial is useless at large arguments
    step = np.floor(z * STEPS_PER_UNIT)
    bound = steps[step.astype(np.intp)] * taylor_exp_neg(z - step / STEPS_PER_UNIT)  # an exact difference (Sterbenz)
    tolerance = bound * (z + 1.0) * 2.0**-44 + 2.0**-62
    level = words.astype(np.float64) * 2.0**-64
    heads: NDArray[np.bool_] = level * (1.0 + 2.0**-50) + tolerance <= bound
    doubtful = ~(heads | (level * (1.0 - 2.0**-50) >= bound + tolerance))
    if source.force_scalar:
        doubtful[:] = True
    for i in np.flatnonzero(doubtful).tolist():
        source.fallbacks["coin"] += 1
        truth = exact(i)
        heads[i] = exact_exp(LazyReal(int(words[i]), 64, source), truth.numerator, truth.denominator)
    return heads


def disagreement(error: float, exponent: int, densities: Iterable[float]) -> float:
    """Return η, a bound of P(computed and ideal grid points differ): the sum of 2e(1/g + 2D_i).

    Guarantee: an ideal (ε, δ)-DP output gives (ε, δ + (1 + exp ε) η)-DP bits (noise proof page, Theorem 5), when every
    coordinate is unimodal with density at most D_i and its computed value within `error` of the ideal one.

    >>> disagreement(2.0**-45, -10, [0.4]) < 2.0**-33
    True
    """
    width = math.ldexp(1.0, exponent)
    if not 0 <= 2 * error <= width:
        raise RangeError(f"the error must lie in 0..width/2, got {error} at width {width}")
    return math.fsum(2 * error * (1 / width + 2 * density) for density in densities)
