"""Exact coins: rational probabilities, and probabilities exp(-p/q) that no float represents."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise.arithmetic import taylor_exp_neg
from sidelight.noise.integers import below
from sidelight.noise.lazy import LazyReal, exact_exp
from sidelight.noise.source import Source
from sidelight.noise.tables import STEPS_PER_UNIT, step_table


def bernoulli(p: int, q: int, source: Source) -> bool:
    """Return True with probability p/q exactly, for integers 0 <= p <= q, q > 0."""
    if not 0 <= p <= q or q < 1:
        raise RangeError(f"a coin needs 0 <= p <= q and q >= 1, got p={p}, q={q}")
    return below(q, source) < p


def bernoulli_exp(p: int, q: int, source: Source) -> bool:
    """Return True with probability exp(-p/q) exactly, for integers p >= 0, q > 0.

    Guarantee: exact (Canonne, Kamath and Steinke 2020): floor(p/q) coins of exp(-1), then one of exp(-fraction). The
    number of rounds depends on p/q: where p/q depends on data, so does the time.

    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     bernoulli_exp(0, 1, source)
    True
    """
    if p < 0 or q < 1:
        raise RangeError(f"exp(-p/q) needs p >= 0 and q >= 1, got p={p}, q={q}")
    for _ in range(p // q):
        if not _unit_exp(1, 1, source):
            return False
    return _unit_exp(p % q, q, source)


def _unit_exp(p: int, q: int, source: Source) -> bool:
    """Flip exp(-p/q) for 0 <= p <= q: P(K > k) = (p/q)^k / k!, and the sum over odd K alternates to exp(-p/q)."""
    k = 1
    while below(q * k, source) < p:
        k += 1
    return k % 2 == 1


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
