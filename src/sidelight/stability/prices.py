"""What a test and a release cost together: the three theorems that the engine relies on, as numbers.

Hand-made because two of the source's statements are wrong: one is looser than its proof, one is false for tests that
are private only in the sense of Renyi (stability proof page, section 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.guarantees import ApproxDP
from sidelight.guarantees.conversions import renyi_epsilon


def price_of_test_and_release(
    *,
    release_epsilon: Fraction,
    release_delta: Fraction,
    test_epsilon: Fraction,
    test_delta: Fraction,
    false_pass: Fraction,
) -> ApproxDP:
    """Return the price of a test, and of a release that is (epsilon, delta) on data that should pass (Theorem 1).

    Wrong data passes with probability at most `false_pass`. The two failures never meet on one data set: the larger
    counts.

    >>> nothing, rare = Fraction(0), Fraction(1, 10**6)
    >>> price = price_of_test_and_release(release_epsilon=Fraction(1), release_delta=nothing,
    ...                                   test_epsilon=Fraction(1, 2), test_delta=nothing, false_pass=rare)
    >>> print(price)
    ApproxDP(ε = 1.5, δ = 1e-6)
    """
    return ApproxDP(release_epsilon + test_epsilon, test_delta + max(release_delta, false_pass))


def price_of_certified_chain(
    divergences: Callable[[Fraction], Iterable[Fraction | float]],
    *,
    orders: Iterable[Fraction],
    conversion_delta: Fraction,
    failure: Fraction,
) -> ApproxDP:
    """Return the price of a chain of releases, each within its public Renyi bound but for a rare event (Theorem 2).

    `divergences(order)` gives the bound of every step at an order; an order that a certificate does not cover gives an
    infinite one. The orders are public and fixed beforehand, so the best of them may be taken. Here the two
    probabilities add up.
    """
    best: Fraction | None = None
    for order in orders:
        if order <= 1:
            raise RangeError(f"Renyi orders are above 1, got {order}")
        steps = list(divergences(order))
        if not all(math.isfinite(step) for step in steps):
            continue
        epsilon = renyi_epsilon(sum((Fraction(step) for step in steps), Fraction(0)), order - 1, conversion_delta)
        best = epsilon if best is None else min(best, epsilon)
    if best is None:
        raise RangeError("none of the orders is covered by the certificate; propose orders within its range")
    return ApproxDP(max(best, Fraction(0)), conversion_delta + failure)


def renyi_of_failing_test(
    order: float, *, test: Callable[[float], float], worst_case: float, false_pass: float, other_orders: Iterable[float]
) -> float:
    """Return the Renyi divergence of test-then-release on data that should have been refused (Theorem 3, Hoelder).

    `test(order)` is the test's own Renyi bound, `worst_case` the release's without any assumption. The source's
    formula, which weighs the false pass by its plain probability, is false: an order tilts the law towards it.

    >>> other = [20 + tenth / 10 for tenth in range(200)]
    >>> bound = renyi_of_failing_test(10, test=lambda a: a / 50, worst_case=2.0, false_pass=1e-6, other_orders=other)
    >>> round(bound, 4)
    1.5362
    """
    t = order - 1
    refused = t * test(order)
    best = math.inf
    for other in other_orders:
        if other <= order:
            raise RangeError(f"the second order must be above the first, got {other} <= {order}")
        passed = t * (test(other) + worst_case) + math.log(false_pass) * (other - order) / (other - 1)
        high = max(refused, passed)
        best = min(best, high + math.log(math.exp(refused - high) + math.exp(passed - high)))
    return best / t
