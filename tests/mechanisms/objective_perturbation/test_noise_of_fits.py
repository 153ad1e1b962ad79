"""The two noises of a fit: the law of the linear term, the exact output noise, and the public grid."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sidelight.errors import RangeError
from sidelight.mechanisms.objective_perturbation import grid_exponent, grid_indices, linear_term, noisy_point, on_grid
from sidelight.noise import Source
from sidelight.testing import SeededEntropy


def p_value(values, scale):
    return stats.kstest(values / scale, "norm").pvalue


def test_linear_term_has_the_stated_deviation_and_another_fails():
    with Source(SeededEntropy("linear")) as source:
        b = linear_term(20000, Fraction("3.75"), source)
        assert source.numerics == "idealized"
    assert p_value(b, 3.75) > 1e-7
    assert p_value(b, 3.75 * 1.3) < 1e-30


def test_output_noise_has_the_stated_deviation_and_another_fails():
    scale = Fraction("0.000375330")
    exponent = grid_exponent(scale)
    point = on_grid(np.full(20000, 1.0 / 3), exponent)
    with Source(SeededEntropy("output"), declared="exact") as source:
        noisy = noisy_point(indices(point, exponent), exponent, scale, source)
        assert source.numerics == "exact"
    # the published grid is about an eighth of the deviation: break its ties before the test
    jitter = np.random.default_rng(0).uniform(-0.5, 0.5, noisy.size) * 2.0 ** (grid_exponent(scale) + 37)
    moved = noisy + jitter - 1.0 / 3
    total = float(scale) * (1 + 2 * 2**-6 / 24) ** 0.5
    assert p_value(moved, total) > 1e-7
    assert p_value(moved, total * 1.3) < 1e-30


def test_points_lie_on_the_grid_exactly():
    scale = Fraction("0.0003")
    exponent = grid_exponent(scale)
    assert 2.0**exponent <= 0.0003 * 2.0**-40 < 2.0 ** (exponent + 1)
    point = np.array([[0.1], [-7.3e5], [1e-30], [0.0]])
    rounded = on_grid(point, exponent)
    assert all(Fraction(x) % Fraction(2) ** exponent == 0 for x in rounded.ravel().tolist())
    assert np.abs(rounded - point).max() <= 2.0**exponent
    with Source(SeededEntropy(0)) as source:
        noisy = noisy_point(indices(rounded, exponent), exponent, scale, source)
        shown = Fraction(2) ** (exponent + 37)
        assert all(Fraction(x) % shown == 0 for x in noisy.ravel().tolist())
        assert noisy.size == point.size
    unit = Fraction(2) ** exponent
    assert [i * unit for i in indices(rounded, exponent)] == [Fraction(x) for x in rounded.ravel().tolist()]
    assert grid_indices([unit * 5 + unit / 3, -unit / 3], exponent) == [5, 0]


def indices(point, exponent):
    return grid_indices([Fraction(x) for x in point.ravel().tolist()], exponent)


def test_without_output_noise_nothing_is_released():
    with pytest.raises(RangeError, match="output noise"):
        grid_exponent(Fraction(0))
