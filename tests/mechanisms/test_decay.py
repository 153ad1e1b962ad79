"""The public constants of the weight function."""

from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import pytest

from sidelight.mechanisms.rings import DECAY, INVERSE_E, LEVELS, PRECISION, decay


def test_the_constant_is_the_ceiling_of_two_to_320_over_e():
    with localcontext() as context:
        context.prec = 200  # the default of 28 digits would give another number
        inverse = Fraction(Decimal(-1).exp())
    assert Fraction(INVERSE_E - 1, 2**PRECISION) < inverse < Fraction(INVERSE_E, 2**PRECISION)
    assert f"{INVERSE_E:x}" == "5e2d58d8b3bcdf1abadec7829054f90dda9805aab56c77333024b9d0a507daedb16400bf472b4216"


def test_steps_lie_between_their_bounds():
    """D_l/e <= D_(l+1) <= (D_l/e)(1 + kappa), and the whole table stays below e^(2^-126) times the exponential."""
    with mpmath.workdps(150):
        kappa = mpmath.e * (mpmath.mpf(2) ** -PRECISION + mpmath.mpf(1) / DECAY.steps[LEVELS])
        assert kappa < mpmath.mpf(2) ** -133
        for level, step in enumerate(DECAY.steps):
            true = mpmath.mpf(2) ** PRECISION * mpmath.exp(-level)
            assert true <= step <= true * mpmath.exp(mpmath.mpf(2) ** -126)


def test_the_last_step_has_136_bits_and_steps_fall():
    assert DECAY.steps[0] == 2**320
    assert DECAY.steps[LEVELS].bit_length() == 136
    assert all(a > b for a, b in zip(DECAY.steps, DECAY.steps[1:], strict=False))


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_short_tables_are_beginnings(levels):
    assert decay(levels).steps == DECAY.steps[: levels + 1]
