"""Theorem H by simulation: shrinking by the known noise is never worse than either side by more than it says."""

import numpy as np
import pytest

from sidelight.regression.descent.shrinkage import stein_share

DRAWS = 8_000


def bound(p: int, square: float) -> float:
    return 2 + (p - 2) * square / (p - 2 + square)


def risk(p: int, square: float, share, *, seed: int = 1) -> tuple[float, float]:
    """Return the mean square error of a rule in units of the noise, and its standard error."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(p)
    truth[0] = square**0.5
    found = truth + rng.normal(size=(DRAWS, p))
    errors = np.sum((share(found) * found - truth) ** 2, axis=1)
    return float(errors.mean()), float(errors.std() / DRAWS**0.5)


def stein(found):
    ones = np.ones(found.shape[1])
    return np.array([[stein_share(each, ones)] for each in found])


def too_much(found):
    """A planted bug: 2p in the place of p - 2, and no positive part."""
    return 1 - 2 * found.shape[1] / np.sum(found**2, axis=1, keepdims=True)


CASES = [(p, square) for p in (3, 8, 40) for square in (0.0, 1.0, 3.0, 30.0, 300.0)]


@pytest.mark.parametrize(("p", "square"), CASES)
def test_the_risk_is_within_the_bound(p: int, square: float) -> None:
    found, error = risk(p, square, stein)
    assert found <= bound(p, square) + 6 * error
    assert bound(p, square) <= min(p, square + 2) + 1e-12
    assert found >= 0.5 * bound(p, square)  # the bound says something


def test_the_simulated_risks_are_those_of_the_specification() -> None:
    for square, expected in ((0.0, 1.30), (3.0, 3.29), (30.0, 6.95)):
        found, error = risk(8, square, stein)
        assert found == pytest.approx(expected, abs=0.03 + 6 * error)


def test_shrinking_by_more_fails_the_bound() -> None:
    assert any(risk(p, s, too_much)[0] > bound(p, s) + 6 * risk(p, s, too_much)[1] for p, s in CASES)


def test_unequal_noise_is_shrunk_in_its_own_units() -> None:
    """The same share whatever the units of the coordinates are, and none of fewer than three."""
    rng = np.random.default_rng(2)
    distance, scale = rng.normal(size=9) * 2, np.exp(rng.normal(size=9))
    assert stein_share(distance * scale, scale**2) == pytest.approx(stein_share(distance, np.ones(9)))
    assert stein_share(distance[:2], np.ones(2)) == 1.0
    assert stein_share(np.zeros(5), np.ones(5)) == 0.0
