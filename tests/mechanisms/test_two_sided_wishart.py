"""Two-sided Wishart noise: its law, its density at d = 2 by quadrature, attacks on it and on two broken versions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, special, stats

from sidelight.aggregates import Bounded
from sidelight.audit import audit
from sidelight.errors import RangeError, StrictError
from sidelight.guarantees import PureDP
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Row
from sidelight.mechanisms.idealized_noise import WishartNoise, wishart_matrices
from sidelight.noise import Source, standard_normal
from sidelight.testing import SeededEntropy


def matrix(value: np.ndarray, sensitivity: int = 2**20, norm: str = "trace") -> Bounded:
    return Bounded(value, Fraction(sensitivity), norm, Neighbours.ADD_REMOVE, Row())  # type: ignore[arg-type]


def gamma_difference(x: np.ndarray) -> np.ndarray:
    """Return the law of a diagonal entry at d = 3: the difference of two gamma variates of shape 2."""
    tail = np.exp(-np.abs(x)) * (2 + np.abs(x)) / 4
    return np.where(x < 0, tail, 1 - tail)


def test_the_law_of_the_diagonal_and_one_thirty_percent_off() -> None:
    value = np.array([[2**40, 5, -7], [5, -3, 2**30], [-7, 2**30, 1]])
    source = Source(SeededEntropy("wishart"))
    noisy = np.array([WishartNoise(matrix(value), epsilon="1/2").release(source) for _ in range(1200)])
    noise = (noisy - value) / 2**21  # c = ε/Δ = 2**-21
    assert np.array_equal(noisy, noisy.transpose(0, 2, 1))
    diagonal = noise[:, range(3), range(3)].ravel()
    assert stats.kstest(diagonal, gamma_difference).pvalue > 1e-8
    assert stats.kstest(diagonal / 1.3, gamma_difference).pvalue < 1e-8
    assert stats.kstest(diagonal * 1.3, gamma_difference).pvalue < 1e-8


def test_moments_are_those_of_goe_noise_with_the_effective_scale() -> None:
    size, rate, count = 4, 3.0, 40_000
    noise = wishart_matrices(count, size, rate, Source(SeededEntropy("moments")))
    variance = (size + 1) / rate**2
    assert np.abs(noise.mean(axis=0)).max() < 6 * (variance / count) ** 0.5
    squares = (noise**2).mean(axis=0)
    assert np.diag(squares) == pytest.approx(variance, rel=0.06)
    assert squares[np.triu_indices(size, 1)] == pytest.approx(variance / 2, rel=0.06)
    assert (noise**2).sum(axis=(1, 2)).mean() == pytest.approx(size * (size + 1) ** 2 / (2 * rate**2), rel=0.03)
    assert abs((noise[:, 0, 0] * noise[:, 1, 1]).mean()) < 0.05 * variance


@pytest.mark.parametrize(("size", "times"), [(5, 1.16), (20, 1.48), (50, 1.60)])
def test_operator_norm(size, times) -> None:
    noise = wishart_matrices(60, size, 1.0, Source(SeededEntropy(size)))
    assert np.abs(np.linalg.eigvalsh(noise)).max(axis=1).mean() / (size + 1) == pytest.approx(times, rel=0.06)


def test_one_column_is_laplace() -> None:
    """Audit (i): at d = 1 the form is the Laplace law of scale 1/c."""
    noise = wishart_matrices(20_000, 1, 2.5, Source(SeededEntropy("one"))).ravel()
    assert stats.kstest(noise, stats.laplace(scale=1 / 2.5).cdf).pvalue > 1e-8
    assert stats.kstest(noise, stats.laplace(scale=1.3 / 2.5).cdf).pvalue < 1e-8


def log_density(p: float, q: float, r: float) -> float:
    """Return log g at Z = [[p+q, r], [r, p-q]] for c = 1, up to a constant.

    With V = [[a+b, h], [h, a-b]]: V ⪰ 0 says a >= |(b, h)|, V ⪰ -Z says a >= |(b+q, h+r)| - p, and a integrates out.
    """
    centre, reach = np.array([-q / 2, -r / 2]), abs(q) / 2 + abs(r) / 2 + abs(p) + 3
    grid = np.linspace(-reach, reach, 701)
    b, h = np.meshgrid(centre[0] + grid, centre[1] + grid)
    least = np.maximum(np.hypot(b, h), np.hypot(b + q, h + r) - p)
    low = float(least.min())
    return -2 * p - 4 * low + float(np.log(np.exp(-4 * (least - low)).sum() * (grid[1] - grid[0]) ** 2))


def test_the_log_ratio_of_an_addition_lies_in_minus_c_to_c_and_reaches_both() -> None:
    ratios = []
    for p, q, r in [(-6, 0, 0), (6, 0, 0), (0, 2, 0), (0.3, -1, 0.5), (-1, 1, 1), (2, 0.1, -1), (0, 0, 0), (0, 5, 1)]:
        for angle in (0.0, 0.7, 1.6):  # P = vvᵀ with |v| = 1 adds (1/2, cos/2, sin/2)
            moved = log_density(p + 0.5, q + np.cos(angle) / 2, r + np.sin(angle) / 2)
            ratios.append(moved - log_density(p, q, r))
    assert max(np.abs(ratios)) <= 1 + 2e-3
    assert min(ratios) == pytest.approx(-1, abs=2e-3)
    assert max(ratios) == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize(("a", "reference"), [(5, 1.921), (10, 1.956), (50, 1.990), (200, 1.998)])
def test_the_log_ratio_of_a_swap_tends_to_the_bound(a, reference) -> None:
    """At Z = diag(a, -a) I is twice the integral of exp(-4|.|) over a half plane: 2x K₁(4x) along its edge."""

    def log_integral(q: float) -> float:
        value, _ = integrate.quad(lambda t: (q / 2 + t) * special.kve(1, 4 * (q / 2 + t)) * np.exp(-4 * t), 0, 12)
        return float(np.log(value) - 2 * q)

    ratio = log_integral(a) - log_integral(a + 1)
    assert ratio == pytest.approx(reference, abs=6e-4)
    assert ratio < 2


SWAP = np.diag([1.0, -1.0])
DRAWS = 200_000


def statistic(noise: np.ndarray) -> np.ndarray:
    return np.floor(4 * (noise * SWAP).sum(axis=(1, 2)))  # tr(ZQ) on a grid


def attack(rate: float, seed: str) -> float:
    """Return the lower bound on ε that an attack on tr(ZQ) proves for a swap, at this rate."""
    sources = [Source(SeededEntropy(seed).child(name)) for name in ("first", "second")]
    samplers = [
        lambda count, source=source, shift=shift: statistic(wishart_matrices(count, 2, rate, source) + shift)
        for source, shift in zip(sources, (0.0, SWAP), strict=True)
    ]
    return audit(*samplers, draws=DRAWS).epsilon().value


def test_attacks_do_not_refute_the_noise_and_do_refute_a_rate_too_large() -> None:
    """Audit (ii): ε = 4 for a swap (trace norm 2) means c = 2. With c = 3.2 the loss is above 4, and is found."""
    assert 2.4 < attack(2.0, "honest") <= 4.0
    assert attack(3.2, "too little noise") > 4.0


@pytest.mark.slow
def test_a_million_draws_in_bins() -> None:
    """Audit (ii) in full: no well-filled bin of tr(ZQ) has a log-ratio beyond ε; with c = 1 instead of 1/2 one has."""

    def worst(rate: float) -> float:
        counts = []
        for name, shift in (("first", 0.0), ("second", SWAP)):
            source = Source(SeededEntropy("bins").child(f"{name}{rate}"))
            found = np.concatenate([statistic(wishart_matrices(10**5, 2, rate, source) + shift) for _ in range(10)])
            counts.append(np.bincount(np.clip(found + 100, 0, 200).astype(int), minlength=201))
        full = (counts[0] >= 500) & (counts[1] >= 500)
        first, second = counts[0][full], counts[1][full]
        return float((np.abs(np.log(first / second)) - 6 * np.sqrt(1 / first + 1 / second)).max())

    assert worst(0.5) <= 1.0
    assert worst(1.0) > 1.0


def test_attacks_refute_the_one_sided_wishart_mechanism() -> None:
    """What the published mechanism releases minus the data is positive semidefinite: neighbours are distinguished."""

    def one_sided(count: int, shift: np.ndarray, source: Source) -> np.ndarray:
        factor = standard_normal(count * 6, source).reshape(count, 2, 3)
        return np.floor(4 * (factor @ factor.transpose(0, 2, 1) + shift)[:, 1, 1])

    sources = [Source(SeededEntropy("one-sided").child(name)) for name in ("first", "second")]
    found = audit(
        lambda count: one_sided(count, np.zeros((2, 2)), sources[0]),
        lambda count: one_sided(count, SWAP, sources[1]),
        draws=40_000,
    )
    assert found.refutes(PureDP(1))
    assert found.epsilon().value > 4


def test_claims_and_what_is_no_such_statistic() -> None:
    value = np.zeros((2, 2), int)
    claims = WishartNoise(matrix(value), epsilon="0.3").claims
    assert (claims.pure().epsilon, claims.numerics) == (Fraction(3, 10), "idealized")
    assert WishartNoise(matrix(value, 1), epsilon=2).deviation == pytest.approx(3**0.5 / 2)
    for wrong in (matrix(value, norm="l2"), matrix(np.zeros((2, 3), int)), matrix(value, 0)):
        with pytest.raises(RangeError):
            WishartNoise(wrong, epsilon=1).release(Source(SeededEntropy(0)))
    with pytest.raises(StrictError):
        WishartNoise(matrix(value), epsilon=1).release(Source(SeededEntropy(0), declared="exact"))
