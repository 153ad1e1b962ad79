"""Exact losses of two finite laws: for mechanisms whose whole output law can be written down.

No sampling and no confidence: probabilities are fractions. Epsilon and delta are exact up to the last digit of a
logarithm; mu and rho, which need the normal distribution and powers, are as good as floats.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from sidelight.errors import RangeError

Law = Mapping[Hashable, Fraction]

_CONTEXT = Context(prec=60)
#: Orders at which the Rényi divergence is looked at; its supremum over all orders is a little larger.
_ORDERS = 1 + np.geomspace(1e-6, 1e5, 500)


def exact_epsilon(first: Law, second: Law) -> Decimal:
    """Return the smallest epsilon for which neither law exceeds e^epsilon times the other, to 50 digits.

    Masses need not add up to one; each law is divided by its total.

    >>> half = Fraction(1, 2)
    >>> round(exact_epsilon({0: half, 1: half}, {0: Fraction(1, 3), 1: Fraction(2, 3)}), 6)
    Decimal('0.405465')
    """
    p, q = _normalised(first), _normalised(second)
    if p.keys() != q.keys():
        return Decimal("Infinity")
    worst = max(max(p[outcome] / q[outcome], q[outcome] / p[outcome]) for outcome in p)
    return _CONTEXT.ln(_CONTEXT.divide(Decimal(worst.numerator), Decimal(worst.denominator)))


def exact_hockey_stick(first: Law, second: Law, *, factor: Fraction) -> Fraction:
    """Return the smallest delta with first(E) <= factor * second(E) + delta for every event, in both directions.

    `factor` stands for e^epsilon; a rational number below it gives a delta that is too large, above it too small.

    >>> exact_hockey_stick({0: Fraction(1)}, {0: Fraction(1, 2), 1: Fraction(1, 2)}, factor=Fraction(1))
    Fraction(1, 2)
    """
    p, q = _normalised(first), _normalised(second)
    return max(_one_way(p, q, factor), _one_way(q, p, factor))


def exact_mu(first: Law, second: Law) -> float:
    """Return the smallest mu for which the pair is no easier to tell apart than N(0, 1) and N(mu, 1).

    By the Neyman-Pearson lemma only the sets of outcomes above a likelihood ratio need to be looked at.

    >>> round(exact_mu({0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)}), 6)
    1.34898
    """
    from scipy.special import ndtri

    p, q = _normalised(first), _normalised(second)
    if p.keys() != q.keys():
        return float("inf")
    order = sorted(p, key=lambda outcome: q[outcome] / p[outcome])
    worst, above_p, above_q = 0.0, Fraction(0), Fraction(0)
    for outcome in order[:-1]:
        above_p, above_q = above_p + p[outcome], above_q + q[outcome]
        # The probit of a probability near 1 is taken from its complement, which keeps its digits.
        probits = [ndtri(float(x)) if 2 * x < 1 else -ndtri(float(1 - x)) for x in (above_p, above_q)]
        worst = max(worst, probits[0] - probits[1])
    return float(worst)


def exact_rho(first: Law, second: Law) -> float:
    """Return the largest Rényi divergence divided by its order, over both directions and orders from 1 to 100,000.

    >>> round(exact_rho({0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)}), 4)
    0.5493
    """
    from scipy.special import logsumexp

    p, q = _normalised(first), _normalised(second)
    if p.keys() != q.keys():
        return float("inf")
    log_p, log_q = (np.array([_log(law[outcome]) for outcome in p]) for law in (p, q))
    worst = 0.0
    for one, other in ((log_p, log_q), (log_q, log_p)):
        powers = _ORDERS[:, None] * one + (1 - _ORDERS[:, None]) * other
        worst = max(worst, float((logsumexp(powers, axis=1) / (_ORDERS - 1) / _ORDERS).max()))
    return worst


def _log(mass: Fraction) -> float:
    return float(_CONTEXT.ln(_CONTEXT.divide(Decimal(mass.numerator), Decimal(mass.denominator))))


def _one_way(p: Law, q: Law, factor: Fraction) -> Fraction:
    excess = (mass - factor * q.get(outcome, Fraction(0)) for outcome, mass in p.items())
    return sum((each for each in excess if each > 0), Fraction(0))


def _normalised(law: Law) -> dict[Hashable, Fraction]:
    total = sum(law.values(), Fraction(0))
    if total <= 0 or any(mass < 0 for mass in law.values()):
        raise RangeError("a law needs masses of at least 0 and a positive total")
    return {outcome: Fraction(mass) / total for outcome, mass in law.items() if mass > 0}
