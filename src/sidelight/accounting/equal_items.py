"""Exact composition of equal items: k randomised responses, and k exponential mechanisms that ignore each other.

Both are sums of binomials, evaluated in outward-rounded decimals. The second is only for queries that do not depend on
each other's answers; a tree of exponential mechanisms is adaptive and exceeds it (accounting proof page, section 4).
"""

from __future__ import annotations

from fractions import Fraction
from math import comb

from sidelight.errors import RangeError
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.guarantees.search import grid_ceil

MOST_RESPONSES = 2000
MOST_SELECTIONS = 300
_ONE = Interval.of(1)


def equal_responses_delta(epsilon: Fraction, reveal: Fraction, k: int, x: Fraction) -> Fraction:
    """Compose k equal (epsilon, reveal) items: delta at x, exact (Kairouz-Oh-Viswanath 2015).

    >>> round(float(equal_responses_delta(Fraction(1, 2), Fraction(0), 4, Fraction(1))), 10)
    0.0948951119
    """
    at_x = Interval.of(x).exp()
    best = Interval.of(0)
    for p_mass, q_mass in _prefixes(epsilon, k):
        value = p_mass - at_x * q_mass
        if value.upper > best.upper:
            best = value
    return _with_reveals(best, reveal, k)


def equal_responses_epsilon(epsilon: Fraction, reveal: Fraction, k: int, at: Fraction) -> Fraction | None:
    """Return the epsilon of k equal items at a delta: it is piecewise linear in e^x, so each piece is solved."""
    spent = 1 - (1 - reveal) ** k
    if at < spent:
        return None
    rest = Interval.of((at - spent) / (1 - spent))
    highest = Fraction(0)
    for p_mass, q_mass in _prefixes(epsilon, k):
        gap = p_mass - rest
        if gap.lower > 0:
            highest = max(highest, round_up((gap / q_mass).log().upper))
        elif gap.upper > 0:  # straddles zero: only the upper end can matter
            highest = max(highest, round_up((Interval(gap.upper, gap.upper) / q_mass).log().upper))
    return min(highest, k * epsilon)


def _prefixes(epsilon: Fraction, k: int) -> list[tuple[Interval, Interval]]:
    """The masses under P and Q of the largest losses, for every prefix; H_x is the best difference."""
    if k > MOST_RESPONSES:
        raise RangeError(f"the exact sum is for at most {MOST_RESPONSES} items, got {k}")
    up = Interval.of(epsilon).exp()
    total = _ONE
    for _ in range(k):
        total = total * (_ONE + up)
    powers = [_ONE]
    for _ in range(k):
        powers.append(powers[-1] * up)
    p_mass = q_mass = Interval.of(0)
    found = []
    for lies in range(k + 1):
        if k - 2 * lies <= 0:
            break
        weight = Interval.of(comb(k, lies)) / total
        p_mass, q_mass = p_mass + weight * powers[k - lies], q_mass + weight * powers[lies]
        found.append((p_mass, q_mass))
    return found


def _with_reveals(value: Interval, reveal: Fraction, k: int) -> Fraction:
    stays = Interval.of((1 - reveal) ** k)
    return min(Fraction(1), round_up((_ONE - stays + stays * value).upper))


def independent_selections_delta(epsilon: Fraction, k: int, x: Fraction) -> Fraction:
    """Compose k exponential mechanisms that ignore each other: delta at x (Dong-Durfee-Rogers 2020).

    The worst pair has loss t or t - epsilon; for the prefix with at most l low losses the best t is
    (x + (l+1) epsilon)/(k+1), so the supremum over t is a maximum over l.
    """
    if k > MOST_SELECTIONS:
        raise RangeError(f"the exact sum is for at most {MOST_SELECTIONS} selections, got {k}")
    at_x = Interval.of(x).exp()
    whole = _ONE - Interval.of(-epsilon).exp()
    best = Fraction(0)
    for low in range(k):
        t = min(epsilon, max(Fraction(0), (x + (low + 1) * epsilon) / (k + 1)))
        if k * t - low * epsilon <= x:
            continue  # the last term of this prefix is negative: a shorter prefix is better
        q_high = (Interval.of(-t).exp() - Interval.of(-epsilon).exp()) / whole
        p_high = (_ONE - Interval.of(t - epsilon).exp()) / whole
        value = _at_most(k, low, p_high) - at_x * _at_most(k, low, q_high)
        best = max(best, round_up(value.upper))
    return min(Fraction(1), best)


def _at_most(k: int, low: int, p_high: Interval) -> Interval:
    """P(Bin(k, 1 - p_high) <= low), by the terms from i = 0 on; an end that touches 0 counts as 0."""
    high = Interval(max(p_high.lower, _ONE.lower * 0), p_high.upper)
    other = _ONE - high
    other = Interval(max(other.lower, _ONE.lower * 0), other.upper)
    powers = [_ONE]
    for _ in range(k):
        powers.append(powers[-1] * high)
    term_low = _ONE
    total = Interval.of(0)
    for i in range(low + 1):
        total = total + Interval.of(comb(k, i)) * powers[k - i] * term_low
        term_low = term_low * other
    return total


def independent_selections_epsilon(epsilon: Fraction, k: int, at: Fraction) -> Fraction:
    """Return a proven epsilon at a delta, within 1e-8 of the smallest: a float search, then a certified evaluation."""
    if independent_selections_delta(epsilon, k, Fraction(0)) <= at:
        return Fraction(0)
    low, high = 0.0, float(k * epsilon)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _selections_float(float(epsilon), k, middle) > float(at) else (low, middle)
    for slack in (1e-9, 1e-8, 3e-8, 1e-7, 1e-6, 1e-4):
        candidate = grid_ceil(Fraction(high * (1 + slack)), digits=11)
        if independent_selections_delta(epsilon, k, candidate) <= at:
            return min(candidate, k * epsilon)
    return k * epsilon


def _selections_float(epsilon: float, k: int, x: float) -> float:
    import numpy as np
    from scipy.special import bdtr

    low = np.arange(k)
    t = np.clip((x + (low + 1) * epsilon) / (k + 1), 0.0, epsilon)
    whole = -np.expm1(-epsilon)
    q_high = (np.exp(-t) - np.exp(-epsilon)) / whole
    p_high = -np.expm1(t - epsilon) / whole
    value = bdtr(low, k, np.clip(1 - p_high, 0, 1)) - np.exp(x) * bdtr(low, k, np.clip(1 - q_high, 0, 1))
    return float(np.max(value))
