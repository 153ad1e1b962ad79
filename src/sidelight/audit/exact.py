"""Exact losses of two finite laws: for mechanisms whose whole output law can be written down.

No sampling and no confidence: probabilities are fractions and the answer is exact up to the last digit of a logarithm.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Context, Decimal
from fractions import Fraction

from sidelight.errors import RangeError

Law = Mapping[Hashable, Fraction]

_CONTEXT = Context(prec=60)


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


def _one_way(p: Law, q: Law, factor: Fraction) -> Fraction:
    excess = (mass - factor * q.get(outcome, Fraction(0)) for outcome, mass in p.items())
    return sum((each for each in excess if each > 0), Fraction(0))


def _normalised(law: Law) -> dict[Hashable, Fraction]:
    total = sum(law.values(), Fraction(0))
    if total <= 0 or any(mass < 0 for mass in law.values()):
        raise RangeError("a law needs masses of at least 0 and a positive total")
    return {outcome: Fraction(mass) / total for outcome, mass in law.items() if mass > 0}
