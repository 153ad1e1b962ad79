"""The Bingham sampler against the exact law, and against the inverted acceptance that another library has."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from sidelight.errors import StrictError
from sidelight.mechanisms import exponential as module
from sidelight.mechanisms.exponential import angular_gaussian, bingham, log_acceptance, proposal_width
from sidelight.noise import Source, standard_exponential
from sidelight.testing import SeededEntropy

PROPOSALS = 120_000


def propose(eigenvalues, seed, count=PROPOSALS):
    """Return proposals, their log acceptances and the coins, for a diagonal matrix."""
    source = Source(SeededEntropy(seed))
    values = np.asarray(eigenvalues, float)
    gaps = values.max() - values
    width = proposal_width(gaps)
    points = angular_gaussian(count, 1 + 2 * gaps / width, source)
    return points, log_acceptance(points, gaps, width), -standard_exponential(count, source), (gaps, width)


def drawn(eigenvalues, seed):
    points, accept, coins, _ = propose(eigenvalues, seed)
    assert accept.max() <= 1e-12
    return points[coins <= accept]


def inverted(eigenvalues, seed):
    """Draw as diffprivlib 0.6.6 does: divide by the proposal's kernel once more instead of cancelling it."""
    points, accept, coins, (gaps, width) = propose(eigenvalues, seed)
    spread = (points**2) @ (1 + 2 * gaps / width)
    wrong = accept - len(gaps) * np.log(spread)
    return points[coins <= wrong - wrong.max()]


def test_second_moments_of_the_reference_law_and_of_the_inverted_one() -> None:
    squares = drawn([0, 1, 4], "moments") ** 2
    error = 6 * squares.std(axis=0) / len(squares) ** 0.5
    exact = np.array([0.14459, 0.19209, 0.66332])
    assert (np.abs(squares.mean(axis=0) - exact) < error + 1e-5).all()
    bug = inverted([0, 1, 4], "bug") ** 2
    assert bug.mean(axis=0) == pytest.approx([0.037, 0.051, 0.912], abs=0.005)
    assert (np.abs(bug.mean(axis=0) - exact) > 10 * error).all()


def test_the_normaliser_from_the_acceptance_rate() -> None:
    """P(accept) = √det Ω / area · exp(peak) · ∫ exp(-v), so the rate gives ∫ exp(uᵀMu) = 122.3521."""
    points, accept, _, (gaps, width) = propose([0, 1, 4], "normaliser")
    rate = np.exp(accept).mean()
    peak = (3 - width) / 2 - 1.5 * np.log(3 / width)
    root = np.sqrt(np.prod(1 + 2 * gaps / width))
    assert rate * 4 * np.pi * np.exp(4 - peak) / root == pytest.approx(122.3521, rel=0.006)
    assert points.shape == (PROPOSALS, 3)


def angles(points):
    """At q = 2 with M = diag(0, κ') twice the angle is a von Mises variate of concentration κ'/2."""
    return (2 * np.arctan2(points[:, 1], points[:, 0])) % (2 * np.pi) - np.pi


@pytest.mark.parametrize("top", [10.0, 0.5])
def test_the_exact_law_in_the_plane_and_two_wrong_ones(top) -> None:
    points = drawn([0, top], f"plane{top}")
    law = stats.vonmises(top / 2).cdf
    assert stats.kstest(angles(points), law).pvalue > 1e-8
    assert stats.kstest(angles(points), stats.vonmises(top / 2 * 1.3).cdf).pvalue < 1e-8
    assert stats.kstest(angles(inverted([0, top], "bug")), law).pvalue < 1e-8


def test_the_reference_mean_in_the_plane() -> None:
    exact = 0.5 * (1 + special.i1(5) / special.i0(5))
    assert exact == pytest.approx(0.946692, abs=1e-6)
    squares = drawn([0, 10], "mean")[:, 1] ** 2
    assert squares.mean() == pytest.approx(exact, abs=6 * squares.std() / len(squares) ** 0.5)


def test_the_whole_sampler_turns_the_law_with_the_matrix() -> None:
    angle = 0.9
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = turn @ np.diag([0.0, 4.0]) @ turn.T
    source = Source(SeededEntropy("whole"))
    points = np.array([bingham(matrix, source) for _ in range(1500)]) @ turn
    assert np.linalg.norm(points, axis=1) == pytest.approx(1)
    assert stats.kstest(angles(points), stats.vonmises(2).cdf).pvalue > 1e-8
    assert stats.kstest(angles(points), stats.vonmises(2 * 2).cdf).pvalue < 1e-8
    assert source.numerics == "idealized"


@pytest.mark.parametrize(("size", "tries"), [(2, 1.5), (5, 2.5), (10, 3.7), (20, 4.8), (50, 8.0)])
def test_number_of_tries(size, tries) -> None:
    """About 1.2 √q for peaked laws, 1 for flat ones; so a block of 32 √q is hardly ever too short."""
    peaked = np.concatenate([np.zeros(size - 1), [1e5]])
    assert 1 / np.exp(propose(peaked, "peaked", 4000)[1]).mean() == pytest.approx(tries, rel=0.25)
    assert 1 / np.exp(propose(np.zeros(size), "flat", 100)[1]).mean() == pytest.approx(1)


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1.0, 1e6, 1e14])
def test_extreme_matrices_neither_raise_nor_underflow(scale) -> None:
    source = Source(SeededEntropy("extreme"))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        vector = bingham(scale * np.diag([3.0, -1.0, 2.0, -7.0]), source)
    assert np.linalg.norm(vector) == pytest.approx(1)
    if scale >= 1e6:
        assert abs(vector[0]) > 0.99


def test_running_out_of_tries_raises_nothing(monkeypatch) -> None:
    monkeypatch.setattr(module, "log_acceptance", lambda points, gaps, width: np.full(len(points), -np.inf))
    assert np.linalg.norm(bingham(np.diag([1.0, 2.0, 3.0]), Source(SeededEntropy(1)))) == pytest.approx(1)


def test_one_dimension_and_strict_sources() -> None:
    assert bingham(np.array([[3.0]]), Source(SeededEntropy(0))).tolist() == [1.0]
    with pytest.raises(StrictError):
        bingham(np.eye(2), Source(SeededEntropy(0), declared="exact"))


def test_the_log_ratio_of_neighbours_is_within_epsilon_in_the_plane() -> None:
    """A swap by diag(1, -1) at η = ε/2: quadrature of both densities; at twice the coefficient it is exceeded."""
    theta = np.linspace(0, 2 * np.pi, 20_001)
    square = np.cos(theta) ** 2

    def worst(coefficient):
        found = []
        for base in (0.0, 3.0, -40.0):
            logs = [coefficient * ((base + step) * square - step * (1 - square)) for step in (0.0, 1.0)]
            logs = [each - special.logsumexp(each) for each in logs]
            found.append(np.abs(logs[0] - logs[1]).max())
        return max(found)

    assert worst(0.5) <= 1.0
    assert worst(1.0) > 1.0
