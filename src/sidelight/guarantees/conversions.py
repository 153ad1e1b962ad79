"""What one guarantee says in the words of another: every conversion at its tightest, rounded to the private side.

Amounts in, amounts out, all exact rationals. A returned epsilon, delta, rho or mu is an upper bound of the true value,
an inverse (`..._within`) is a lower bound; irrational values are enclosed in 80 digits first. Theorem numbers are those
of the accounting proof page.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import erfc, exp, sqrt

from sidelight.guarantees.amounts import grid_floor, largest, smallest
from sidelight.guarantees.intervals import (
    ONE,
    UP,
    ZERO,
    Interval,
    gaussian_delta,
    inverse_erfc_upper,
    round_down,
    round_up,
)

_ONE = Interval(ONE, ONE)
_TWO = Interval.of(2)
_ROOT_8 = Interval.of(8).sqrt()
_TINY = Fraction(1, 10**20)
#: For orders and starts, which need no proof.
_GUESS = Context(prec=25, Emax=10**15, Emin=-(10**15))
_FLOAT_DIGITS = 9  # to how many digits a search in floats is usually good
_LOWEST, _HIGHEST = Fraction(1, 10**45), Fraction(10**9)


# --- claims with one number -----------------------------------------------------------------------------------------


def bounded_range_from_pure(epsilon: Fraction) -> Fraction:
    """PureDP(e) -> BoundedRange(2e): the loss lies in [-e, e]."""
    return 2 * epsilon


@lru_cache(maxsize=4096)
def zcdp_from_pure(epsilon: Fraction) -> Fraction:
    """PureDP(e) -> ZCDP(e * tanh(e/2)), attained by randomised response as the order tends to 1 (Theorem T1).

    >>> round(float(zcdp_from_pure(Fraction(1))), 10)
    0.4621171573
    """
    e = Interval.of(epsilon)
    return min(round_up((e * (e / _TWO).tanh()).upper), epsilon * epsilon / 2)


def zcdp_from_bounded_range(epsilon: Fraction) -> Fraction:
    """BoundedRange(e) -> ZCDP(min(e^2/8, e * tanh(e/2))) (Theorem T2; for mixtures by convexity).

    >>> zcdp_from_bounded_range(Fraction(1))
    Fraction(1, 8)
    """
    square = epsilon * epsilon / 8
    # tanh is concave, so that up to 7 it lies above the line through tanh(7/2) > 7/8: the square is the smaller one
    return square if epsilon <= 7 else min(square, zcdp_from_pure(epsilon))


def zcdp_from_gdp(mu: Fraction) -> Fraction:
    """GDP(mu) -> ZCDP(mu^2/2): the Renyi divergence of the Gaussian pair."""
    return mu * mu / 2


@lru_cache(maxsize=4096)
def gdp_from_pure(epsilon: Fraction) -> Fraction:
    """PureDP(e) -> GDP(2 Phi^-1(e^e / (1 + e^e))) (Theorem T4).

    >>> round(float(gdp_from_pure(Fraction(1))), 9)
    1.232035385
    """
    if epsilon < _TINY:
        return epsilon * Fraction("1.2533141373155003")  # the slope sqrt(pi/2) at 0 is the largest (proof of T4)
    # Phi(-mu/2) = 1/(1+e^e)  <=>  erfc(mu/sqrt(8)) = 2/(1+e^e)
    z = inverse_erfc_upper(_TWO / (_ONE + Interval.of(epsilon).exp()))
    return round_up(UP.multiply(z, _ROOT_8.upper))


def gdp_from_bounded_range(epsilon: Fraction) -> Fraction:
    """BoundedRange(e) -> GDP(2 Phi^-1(e^(e/2) / (1 + e^(e/2)))), the pure value at half the epsilon (Theorem T4)."""
    return gdp_from_pure(epsilon / 2)


def root_of_sum_of_squares(squares: Fraction | int) -> Fraction:
    """Return the mu whose square is a sum of squares, rounded up."""
    return round_up(Interval.of(squares).sqrt().upper)


# --- profiles: delta at a given x, either sign ----------------------------------------------------------------------


def approx_delta(epsilon: Fraction, delta: Fraction, x: Fraction) -> Fraction:
    """ApproxDP(e, d), PureDP(e) with d = 0 -> profile at x: reveal with probability d, else randomised response.

    Tight (Kairouz-Oh-Viswanath 2015): d + (1-d)(e^e - e^x)/(1 + e^e) on [-e, e], d above, 1 - (1-d)e^x below.
    """
    if x >= epsilon:
        return delta
    at_x = Interval.of(x).exp()
    if x < -epsilon:
        return min(Fraction(1), round_up((_ONE - Interval.of(1 - delta) * at_x).upper))
    high = Interval.of(epsilon).exp()
    line = (high - at_x) / (_ONE + high)
    return min(Fraction(1), round_up((Interval.of(delta) + Interval.of(1 - delta) * line).upper))


def bounded_range_delta(epsilon: Fraction, x: Fraction) -> Fraction:
    """BoundedRange(e) -> profile at x: (1 - e^((x-e)/2))^2 / (1 - e^-e) on [-e, e] (Theorem T3).

    >>> round(float(bounded_range_delta(Fraction(1), Fraction(0))), 10)
    0.2449186624
    """
    if x >= epsilon:
        return Fraction(0)
    if x < -epsilon:
        return min(Fraction(1), round_up((_ONE - Interval.of(x).exp()).upper))
    gap = _ONE - Interval.of((x - epsilon) / 2).exp()
    gap = Interval(max(ZERO, gap.lower), gap.upper)
    return min(Fraction(1), round_up((gap * gap / (_ONE - Interval.of(-epsilon).exp())).upper))


def gdp_delta(mu: Fraction, x: Fraction) -> Fraction:
    """GDP(mu) -> profile at x: Phi(mu/2 - x/mu) - e^x Phi(-mu/2 - x/mu) (Dong-Roth-Su 2022, Balle-Wang 2018).

    >>> f"{float(gdp_delta(Fraction(1, 2), Fraction('2.25408465022'))):.6g}"
    '1e-06'
    """
    return round_up(gaussian_delta(mu, x).upper)


def zcdp_delta(rho: Fraction, x: Fraction) -> Fraction:
    """ZCDP(rho) -> profile at x: min over a of exp((a-1)(a rho - x)) (1-1/a)^a / (a-1) (Canonne-Kamath-Steinke 2020).

    Every order a > 1 gives a valid bound; the best solves (2a-1) rho + log(1-1/a) = x. Below zero the other direction
    is used: H_x(P||Q) = 1 - e^x + e^x H_-x(Q||P).
    """
    if x < 0:
        at_x = Interval.of(x).exp()
        return min(Fraction(1), round_up((_ONE - at_x + at_x * Interval.of(zcdp_delta(rho, -x))).upper))
    slope, goal = _as_decimal(rho), _as_decimal(x)
    t = _root(lambda s: _stationary(slope, s) <= goal)
    return min(Fraction(1), renyi_delta(rho * (1 + t), t, x))


def _stationary(rho: Decimal, t: Decimal) -> Decimal:
    """The derivative's left side (2a-1) rho + log(1-1/a) at a = 1 + t; rises with t. A guess needs no proof."""
    slope = _GUESS.multiply(_GUESS.add(_GUESS.multiply(Decimal(2), t), ONE), rho)
    return _GUESS.add(slope, _GUESS.ln(_GUESS.divide(t, _GUESS.add(ONE, t))))


def renyi_delta(divergence: Fraction, t: Fraction, x: Fraction) -> Fraction:
    """D_a <= r at the one order a = 1 + t gives H_x <= exp(t (r - x)) (1-1/a)^a / (a-1), evaluated upwards."""
    order = 1 + t
    exponent = Interval.of(t * (divergence - x)) + Interval.of(order) * _log(t / order)
    return min(Fraction(1), round_up((exponent.exp() / Interval.of(t)).upper))


def renyi_epsilon(divergence: Fraction, t: Fraction, delta: Fraction) -> Fraction:
    """D_a <= r at the one order a = 1 + t gives eps = r + log(1-1/a) - (log d + log a)/(a-1), at least 0."""
    order = 1 + t
    logs = (_log(delta) + _log(order)) / Interval.of(t)
    value = Interval.of(divergence) + _log(t / order) - logs
    return max(Fraction(0), round_up(value.upper))


@lru_cache(maxsize=4096)  # curves are read at the same few orders again and again
def _log(x: Fraction) -> Interval:
    return Interval.of(x).log()


def renyi_pure(epsilon: Fraction, order: Fraction) -> Fraction:
    """PureDP(e) -> D_a, exact for randomised response: log cosh differences (proof of T1), in exponentials."""
    e, t = Interval.of(epsilon), Interval.of(order - 1)
    # p^a q^(1-a) + q^a p^(1-a) with p = e^e/(1+e^e), q = 1/(1+e^e)
    moment = (Interval.of(order * epsilon).exp() + Interval.of((1 - order) * epsilon).exp()) / (_ONE + e.exp())
    return min(epsilon, max(Fraction(0), round_up((moment.log() / t).upper)))


# --- epsilon at a given delta ---------------------------------------------------------------------------------------


def approx_epsilon(epsilon: Fraction, delta: Fraction, at: Fraction) -> Fraction | None:
    """ApproxDP(e, d), PureDP(e) with d = 0 -> the epsilon that holds at another delta; None below d.

    >>> round(float(approx_epsilon(Fraction(1), Fraction(0), Fraction("0.2876491366"))), 8)
    0.5
    """
    if at < delta:
        return None
    share = Interval.of((at - delta) / (1 - delta))  # e^x = e^e - share (1 + e^e)
    high = Interval.of(epsilon).exp()
    at_x = high - share * (_ONE + high)
    if at_x.upper <= 1:
        return Fraction(0)
    return min(epsilon, round_up(Interval(max(at_x.lower, ONE), at_x.upper).log().upper))


def bounded_range_epsilon(epsilon: Fraction, at: Fraction) -> Fraction:
    """BoundedRange(e) -> the epsilon at a delta: e + 2 log(1 - sqrt(delta (1 - e^-e))), the inverse of T3."""
    root = (Interval.of(at) * (_ONE - Interval.of(-epsilon).exp())).sqrt()
    rest = _ONE - root
    if rest.lower <= 0:
        return Fraction(0)
    return min(epsilon, max(Fraction(0), round_up((Interval.of(epsilon) + _TWO * rest.log()).upper)))


@lru_cache(maxsize=4096)
def zcdp_epsilon(rho: Fraction, at: Fraction) -> Fraction:
    """ZCDP(rho) -> the epsilon at a delta, at the best order: rho (a-1)^2 + log a = log(1/delta).

    >>> round(float(zcdp_epsilon(Fraction("0.1"), Fraction("1e-6"))), 10)
    2.1419389284
    """
    goal = _GUESS.ln(_as_decimal(at)).copy_negate()
    slope = _as_decimal(rho)

    def left_of_best(t: Decimal) -> bool:
        return _GUESS.add(_GUESS.multiply(slope, _GUESS.multiply(t, t)), _GUESS.ln(_GUESS.add(ONE, t))) <= goal

    t = _root(left_of_best)
    return renyi_epsilon(rho * (1 + t), t, at)


@lru_cache(maxsize=4096)
def gdp_epsilon(mu: Fraction, at: Fraction) -> Fraction:
    """GDP(mu) -> the smallest epsilon of 12 digits whose delta is proved to be at most `at`.

    >>> float(gdp_epsilon(Fraction(1), Fraction("1e-5")))
    4.37717809569
    """
    if gaussian_delta(mu, Fraction(0)).upper <= at:
        return Fraction(0)
    ceiling = zcdp_epsilon(zcdp_from_gdp(mu), at)
    if ceiling == 0:
        return Fraction(0)
    return smallest(
        lambda x: gaussian_delta(mu, x).upper <= at,
        start=_gaussian_epsilon_guess(mu, at, ceiling),
        lower=min(_LOWEST, ceiling / 2),
        upper=2 * ceiling,
        name="epsilon",
        close=_FLOAT_DIGITS,
    )


# --- inverses: the most that a target allows ------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def zcdp_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho of 12 digits with ZCDP(rho) -> ApproxDP(epsilon, delta) proved.

    >>> float(zcdp_within(Fraction(3), Fraction("1e-6")))
    0.185069840653
    """
    goal = max(Interval.of(delta).log().lower.copy_negate(), Decimal("1e-30"))
    first = _square_of_root_difference(epsilon, goal)
    return largest(
        lambda rho: zcdp_epsilon(rho, delta) <= epsilon, start=first, lower=_LOWEST, upper=_HIGHEST, name="rho"
    )


@lru_cache(maxsize=1024)
def gdp_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest mu of 12 digits with GDP(mu) -> ApproxDP(epsilon, delta) proved.

    >>> float(gdp_within(Fraction(1), Fraction("1e-6")))
    0.236704380663
    """
    guess = _gaussian_mu_guess(epsilon, delta)
    start = round_down(Interval.of(2 * zcdp_within(epsilon, delta)).sqrt().lower) if guess is None else guess
    return largest(
        lambda mu: gaussian_delta(mu, epsilon).upper <= delta,
        start=start,
        lower=_LOWEST,
        upper=_HIGHEST,
        name="mu",
        close=6 if guess is None else _FLOAT_DIGITS,
    )


@lru_cache(maxsize=1024)
def pure_within_gdp(mu: Fraction) -> Fraction:
    """Return the largest epsilon of 12 digits with PureDP(epsilon) -> GDP(mu) proved."""
    return largest(
        lambda e: gdp_from_pure(e) <= mu, start=mu * Fraction(4, 5), lower=_LOWEST, upper=_HIGHEST, name="epsilon"
    )


def _square_of_root_difference(epsilon: Fraction, goal: Decimal) -> Fraction:
    """The textbook inverse (sqrt(L + eps) - sqrt(L))^2 as a start."""
    total = UP.add(_as_decimal(epsilon), goal)
    root = UP.subtract(UP.sqrt(total), UP.sqrt(goal))
    return max(_LOWEST, round_up(UP.multiply(root, root), digits=20))


def _gaussian_epsilon_guess(mu: Fraction, at: Fraction, ceiling: Fraction) -> Fraction:
    """Bisect delta_mu(x) = at in floats, only to save certified evaluations."""
    m, target, low, high = float(mu), float(at), 0.0, float(ceiling)
    if not (1e-12 < m < 30 and target > 1e-280 and high < 600):
        return ceiling
    for _ in range(60):
        x = (low + high) / 2
        low, high = (x, high) if _float_delta(m, x) > target else (low, x)
    return Fraction(high) if high > 0 else ceiling


def _gaussian_mu_guess(epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """Bisect delta_mu(epsilon) = delta over mu in floats; None where floats are of no use."""
    x, target, low, high = float(epsilon), float(delta), 1e-6, 30.0
    if not (x < 600 and target > 1e-280 and _float_delta(low, x) <= target < _float_delta(high, x)):
        return None
    while high / low > 1 + 1e-13:
        m = sqrt(low * high)
        low, high = (m, high) if _float_delta(m, x) <= target else (low, m)
    return Fraction(low)


def _float_delta(mu: float, x: float) -> float:
    return (erfc((x / mu - mu / 2) / sqrt(2)) - exp(x) * erfc((x / mu + mu / 2) / sqrt(2))) / 2


def _root(below: Callable[[Decimal], bool]) -> Fraction:
    """Find where a rising function of t > 0 crosses its goal, to 12 digits; `below(t)` says whether t is left of it.

    Used for orders only: every order gives a valid bound, so this needs no proof. Decimals keep it the same everywhere.
    """
    low, high = Decimal("1e-45"), Decimal("1e45")
    for _ in range(46):
        middle = _GUESS.sqrt(_GUESS.multiply(low, high))
        low, high = (middle, high) if below(middle) else (low, middle)
    return grid_floor(Fraction(low))


def _as_decimal(x: Fraction) -> Decimal:
    return _GUESS.divide(Decimal(x.numerator), Decimal(x.denominator))
