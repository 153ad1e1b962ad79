"""Theorem 7 by brute force: two cells, a flag that depends on both rough counts, selections in flagged cells.

Every output in a box, every addition to five data sets: no probability changes by more than exp(e_2). The control, an
independent second measurement instead of the refinement, exceeds it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

E1, E2 = 0.3, 0.9
REACH = 60  # of the noise, in the enumeration of Z


def laplace(e: float, z: int) -> float:
    a = math.exp(-e)
    return (1 - a) / (1 + a) * a ** abs(z)


def refinement() -> dict[int, float]:
    """Return P(Z = k), Z the noise that turns Lap(E2) into Lap(E1)."""
    a = math.exp(-E1)
    nothing = 1 / (1 + a + a * a)
    side = np.array([nothing, *((1 - nothing) * (1 - a) * a ** np.arange(REACH))])
    both = np.convolve(side, side[::-1])
    return {k - REACH: float(p) for k, p in enumerate(both)}


Z = refinement()


def selection(records: tuple[int, ...], output: int, epsilon: float) -> float:
    """Return the exponential mechanism's probability of an output among 0, 1, 2 for the median of a cell's records."""
    weights = [math.exp(-epsilon * abs(sum(r < o for r in records) - len(records) / 2)) for o in range(3)]
    return weights[output] / sum(weights)  # sensitivity 1/2: exponent epsilon / (2 · 1/2)


def flagged(first: int, second: int) -> tuple[bool, bool]:
    """Return the flags: any function of both rough counts."""
    return first > second + 1, (first + second) % 3 == 0


def probability(
    cells: tuple[tuple[int, ...], tuple[int, ...]], rough: tuple[int, int], more: tuple[int, int], *, refined: bool
) -> float:
    """Return the probability of rough counts and then, for each cell, a selected output or a finer count."""
    total = 1.0
    for records, y1, y2, flag in zip(cells, rough, more, flagged(*rough), strict=True):
        count = len(records)
        if flag:
            total *= laplace(E1, y1 - count) * selection(records, y2 % 3, E2 - E1)
        elif refined:
            total *= laplace(E2, y2 - count) * Z.get(y1 - y2, 0.0)
        else:  # the planted bug: a fresh measurement, as if it were a refinement
            total *= laplace(E1, y1 - count) * laplace(E2, y2 - count)
    return total


def worst(*, refined: bool) -> float:
    """Return the largest |log ratio| over outputs in a box, five data sets and every record that can be added."""
    data = [((), ()), ((0,), (2,)), ((0, 1), (2,)), ((1, 1, 2), ()), ((0,), (1, 2, 2))]
    largest = 0.0
    box = range(-1, 5)
    for (left, right), value, place in itertools.product(data, range(3), range(2)):
        more = ((*left, value), right) if place == 0 else (left, (*right, value))
        for rough in itertools.product(box, box):
            for finer in itertools.product(range(-1, 4), range(-1, 4)):
                p = probability((left, right), rough, finer, refined=refined)
                q = probability(more, rough, finer, refined=refined)
                if p > 0 and q > 0:
                    largest = max(largest, abs(math.log(p / q)))
                else:
                    assert p == q == 0
    return largest


def test_refinement_by_brute_force() -> None:
    assert worst(refined=True) == pytest.approx(E2, abs=1e-9), "tight: exactly the budget"
    assert worst(refined=False) == pytest.approx(E1 + E2, abs=1e-9), "the control spends the first look once more"
