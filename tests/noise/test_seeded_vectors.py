"""The samplers' outputs on seed 0: the same on every platform, NumPy version and instruction set.

A change here changes the seeded contract: raise the version in the seeded stream's prefix.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sidelight.noise import Categorical, Source, discrete_laplace, rounded_gaussian
from sidelight.testing import SeededEntropy


def source() -> Source:
    return Source(SeededEntropy(0))


def test_rounded_gaussian() -> None:
    assert rounded_gaussian(12, Fraction(3), source()).tolist() == [0, 2, -1, -5, -2, -4, -4, 1, -1, 0, 0, -2]
    large = Fraction(2**45)
    assert rounded_gaussian(4, large, source()).tolist() == [
        -4552454548936,
        27757656742105,
        -15767498765805,
        -53098850506401,
    ]
    assert int(rounded_gaussian(100_000, large, source()).sum()) == 17001978597780835


def test_discrete_laplace() -> None:
    assert discrete_laplace(12, Fraction(10, 7), source()).tolist() == [1, -2, -1, -2, -2, 0, 0, 1, 5, -1, 1, 0]
    assert int(discrete_laplace(100_000, Fraction(1000, 3), source()).sum()) == 197220


def test_categorical() -> None:
    law, one = Categorical(np.arange(20), Fraction(1, 7)), source()
    assert [law.draw(one) for _ in range(12)] == [17, 18, 19, 18, 16, 12, 5, 10, 19, 9, 3, 13]
