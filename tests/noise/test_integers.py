"""Uniform integers: reference draw, laws of range and consumption, distribution, and a planted modulo bias."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sidelight.errors import RangeError
from sidelight.noise import Source, below, integers_below
from sidelight.testing import SeededEntropy


def test_reference() -> None:
    assert below(10**30, Source(SeededEntropy(0))) == 344995104507694339137859178511


@given(st.integers(1, 2**200), st.integers(0, 5))
def test_below_range(n: int, seed: int) -> None:
    assert 0 <= below(n, Source(SeededEntropy(seed))) < n


@given(st.integers(1, 2**63), st.integers(0, 300))
def test_integers_below_range(n: int, size: int) -> None:
    drawn = integers_below(n, size, Source(SeededEntropy(size)))
    assert drawn.dtype == np.int64
    assert drawn.shape == (size,)
    assert all(0 <= x < n for x in drawn.tolist())


@pytest.mark.parametrize("n", [1, 2, 2**20, 2**32, 2**63])
def test_powers_of_two_are_masked_words(n: int) -> None:
    drawn = integers_below(n, 70_000, Source(SeededEntropy(5))).tolist()
    source = Source(SeededEntropy(5))
    if n == 1:
        assert set(drawn) == {0}
        return
    first, rest = 1 << 16, 70_000 - (1 << 16)
    draw = source.words32 if n <= 2**32 else source.words
    assert drawn == [int(w) % n for size in (first, rest) for w in draw(size).tolist()]


def test_rejection_keeps_the_first_that_fit() -> None:
    drawn = integers_below(5, 100, Source(SeededEntropy(9))).tolist()
    words = Source(SeededEntropy(9)).words32(100 * 8 * 50 // (5 * 49) + 16).tolist()
    assert drawn == [w & 7 for w in words if w & 7 < 5][:100]


def uniform_p_value(counts: np.ndarray) -> float:
    return float(stats.chisquare(counts).pvalue)


@pytest.mark.parametrize("n", [3, 10, 1000])
def test_distribution(n: int) -> None:
    source = Source(SeededEntropy(n))
    assert uniform_p_value(np.bincount(integers_below(n, 200_000, source), minlength=n)) > 1e-9
    assert uniform_p_value(np.bincount([below(n, source) for _ in range(20_000)], minlength=n)) > 1e-9


def test_distribution_of_large_ranges() -> None:
    """2**62 + 2**61 is rejected a quarter of the time; the top six sixteenths must be equally likely."""
    n = 3 * 2**61
    drawn = integers_below(n, 60_000, Source(SeededEntropy(4)))
    assert uniform_p_value(np.bincount(drawn // 2**59, minlength=12)) > 1e-9


@pytest.mark.planted("random integers by a remainder")
def test_modulo_bias_is_seen() -> None:
    """Negative control: words reduced modulo 10 from 4 bits instead of redrawn."""
    biased = Source(SeededEntropy(2)).words32(200_000) % 16 % 10
    assert uniform_p_value(np.bincount(biased, minlength=10)) < 1e-9


def test_refusals() -> None:
    source = Source(SeededEntropy(0))
    for call in (
        lambda: below(0, source),
        lambda: integers_below(0, 1, source),
        lambda: integers_below(2**63 + 1, 1, source),
        lambda: integers_below(2, -1, source),
    ):
        with pytest.raises(RangeError):
            call()
