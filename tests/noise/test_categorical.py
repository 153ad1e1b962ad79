"""The exponential mechanism over a list: its law with a base measure, the proposal's domination, and hostile input."""

from __future__ import annotations

import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from noise_laws import binomial_p, chi_square_p

from sidelight.errors import RangeError
from sidelight.noise import Categorical, Source
from sidelight.noise.enclosures import exp_neg
from sidelight.testing import SeededEntropy


def probabilities(scores: list[int], unit: Fraction, weights: list[int]) -> np.ndarray:
    top = max(scores)
    with mpmath.workdps(60):
        masses = [
            w * mpmath.exp(mpmath.mpf(unit.numerator) * (s - top) / unit.denominator)
            for s, w in zip(scores, weights, strict=True)
        ]
        total = mpmath.fsum(masses)
        return np.array([max(float(mass / total), 1e-300) for mass in masses])


def test_base_measure() -> None:
    scores, weights, unit = [5, 0, 9, 7, -3000, 3], [1, 2**17, 1, 8, 3, 500], Fraction(7, 5)
    law, source, n = Categorical(scores, unit, weights), Source(SeededEntropy(1)), 20_000
    observed = np.bincount([law.draw(source) for _ in range(n)], minlength=6)
    right = probabilities(scores, unit, weights)
    assert binomial_p(observed, right) > 1e-7
    assert chi_square_p(observed, right) > 1e-9
    assert observed[4] == 0
    for wrong in (probabilities(scores, unit * Fraction(13, 10), weights), probabilities(scores, unit, [1] * 6)):
        assert chi_square_p(observed, wrong) < 1e-9


def test_many_candidates() -> None:
    scores, unit, n = list(range(50)), Fraction(1, 20), 30_000
    law, source = Categorical(scores, unit), Source(SeededEntropy(2))
    observed = np.bincount([law.draw(source) for _ in range(n)], minlength=50)
    assert chi_square_p(observed, probabilities(scores, unit, [1] * 50)) > 1e-9
    assert chi_square_p(observed, probabilities(scores, unit * Fraction(13, 10), [1] * 50)) < 1e-9


def test_proposals_dominate_and_are_tight() -> None:
    """d_i > 2^shift · weight_i · exp(-z_i) in 3,000 random cases, and seldom by more than 2 %."""
    chooser = random.Random(5)
    loosest = 1.0
    for _ in range(3000):
        n = chooser.randrange(1, 6)
        scores = [chooser.randrange(-(2 ** chooser.randrange(1, 62)), 2 ** chooser.randrange(1, 62)) for _ in range(n)]
        weights = [chooser.randrange(1, 2 ** chooser.randrange(1, 62)) for _ in range(n)]
        unit = Fraction(chooser.randrange(1, 2**20), 2 ** chooser.randrange(0, 80))
        law = Categorical(scores, unit, weights)
        for i in range(n):
            z = unit * int(law._gaps[i])
            lo, hi = exp_neg(z.numerator, z.denominator, 300)
            mass_hi = Fraction(weights[i] * hi, 2**300) * Fraction(2) ** law._shift
            assert law._proposal[i] > mass_hi or hi == 1
            if mass_hi > 2**20:
                loosest = max(loosest, float(law._proposal[i] / (mass_hi * lo / hi)))
    assert 1.0 < loosest < 1.02


def test_total_fits() -> None:
    law = Categorical(np.zeros(2**16, np.int64), Fraction(1), np.full(2**16, 2**62))
    assert int(law._cumulative[-1]) < 2**62
    assert 0 <= law.draw(Source(SeededEntropy(0))) < 2**16


def test_hostile_scores_neither_raise_nor_overflow() -> None:
    source = Source(SeededEntropy(3))
    for scores in ([2**63 - 1, -(2**63)], [-(2**63)] * 3, np.array([2**64 - 1, 0], np.uint64)):
        assert Categorical(scores, Fraction(2**64)).draw(source) in range(len(scores))
        assert Categorical(scores, Fraction(1, 2**2000)).draw(source) in range(len(scores))
    assert {Categorical([0, 2**63 - 1], Fraction(1)).draw(source) for _ in range(50)} == {1}
    assert Categorical([7], Fraction(1)).draw(source) == 0


def test_forgotten_candidates_keep_their_tiny_chance() -> None:
    """Beyond exp(-690) the proposal is 1 and the acceptance exact: a candidate is never ruled out by a float."""
    law = Categorical([0, -(10**6)], Fraction(1))
    assert law._proposal[1] == 1


class Pool:
    """Answers the pool's request with given draws, each (value, bits) laid out as `Source.bits` will read it."""

    branding = "seeded: not private"

    def __init__(self, *draws: tuple[int, int]) -> None:
        sizes = [(value, bits, (bits + 7) // 8) for value, bits in draws]
        self._bytes = b"".join((value << (8 * n - bits)).to_bytes(n, "little") for value, bits, n in sizes)

    def read(self, nbytes: int) -> bytes:
        return self._bytes.ljust(nbytes, b"\0")


def test_unlikely_proposals_are_rejected() -> None:
    """The hopeless candidate is proposed once by script; the coin must reject it and go on to the next proposal."""
    law = Categorical([0, -(10**6)], Fraction(1))
    total = int(law._cumulative[-1])
    source = Source(Pool((total - 1, (total - 1).bit_length()), (2**63, 64)))
    assert law.draw(source) == 0


@pytest.mark.parametrize("candidate", [0, 1, 2])
def test_acceptance_is_exact_to_the_last_bit(candidate: int) -> None:
    """V just below D/d accepts, V just above rejects and the next proposal (the first candidate) is taken."""
    scores, weights, unit = [3, 5, 1], [7, 1, 2**40 + 1], Fraction(3, 7)
    law = Categorical(scores, unit, weights)
    with mpmath.workprec(400):
        gap = mpmath.mpf(3) * (5 - scores[candidate]) / 7
        mass = weights[candidate] * mpmath.exp(-gap) * mpmath.mpf(2) ** law._shift
        level = int(mpmath.floor(mpmath.ldexp(mass / int(law._proposal[candidate]), 64)))
    first = int(law._cumulative[candidate]) - 1
    total_bits = (int(law._cumulative[-1]) - 1).bit_length()
    fallback = (int(law._cumulative[(candidate + 1) % 3]) - 1, total_bits)
    for v, expected in ((level - 1, candidate), (level + 1, (candidate + 1) % 3)):
        source = Source(Pool((first, total_bits), (v, 64), fallback, (0, 64)))
        assert law.draw(source) == expected


def test_repr_hides_scores() -> None:
    assert repr(Categorical([123456, 7], Fraction(1, 3))) == "Categorical(candidates=2, unit=1/3)"


def test_refusals_name_no_score() -> None:
    for scores, unit, weights in [
        ([], Fraction(1), None),
        ([[1]], Fraction(1), None),
        ([1.5], Fraction(1), None),
        ([1], Fraction(2**64 + 1), None),
        ([1], 0.5, None),
        ([1, 2], Fraction(1), [1]),
        ([1, 2], Fraction(1), [0, 1]),
        ([1, 2], Fraction(1), [1, 2**62 + 1]),
        ([2**70, 1], Fraction(1), None),
    ]:
        with pytest.raises(RangeError):
            Categorical(scores, unit, weights)  # type: ignore[arg-type]
