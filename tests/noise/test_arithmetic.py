"""The two machine formulas against exact integers and rationals."""

from __future__ import annotations

import mpmath
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sidelight.noise.strips import high_product, taylor_exp_neg


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**53 - 1), st.booleans())
def test_high_product(word: int, factor: int, short: bool) -> None:
    if short:
        factor = factor >> 32 << 32
    words = np.array([word, word ^ 1], np.uint64)
    expected = [word * factor >> 64, (word ^ 1) * factor >> 64]
    assert high_product(words, np.uint64(factor)).tolist() == expected
    assert high_product(words, np.full(2, factor, np.uint64)).tolist() == expected
    assert words[0] == word  # the words themselves are not changed


def test_taylor_error() -> None:
    """Proved: below 2**-49. Seen on [0, 1/8]: about 2**-53."""
    y = np.linspace(0.0, 0.125, 4001)
    computed = taylor_exp_neg(y)
    with mpmath.workprec(120):
        worst = max(
            abs(mpmath.mpf(float(c)) - mpmath.exp(-mpmath.mpf(float(x)))) for x, c in zip(y, computed, strict=True)
        )
    assert 0 < worst < 2.0**-52
