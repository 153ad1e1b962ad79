"""Confidences of stated errors: numbers and texts, as amounts are elsewhere, and errors of sidelight for others."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.release import TailBound

BOUND = TailBound(unit="rows", assumption="none", fixed=(1.0,), per_log=(2.0,))


@pytest.mark.parametrize("confidence", ["0.95", "95/100", Decimal("0.95"), Fraction(19, 20), np.float64(0.95)])
def test_a_confidence_may_be_written_as_any_amount(confidence: object) -> None:
    assert BOUND.at(confidence).tolist() == BOUND.at(0.95).tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", ["95 %", None, True, [0.95], 0, 1, "1", -0.5, float("nan"), 1.5])
def test_what_is_no_confidence_is_refused_by_its_name(confidence: object) -> None:
    with pytest.raises(RangeError, match="confidence must"):
        BOUND.at(confidence)  # type: ignore[arg-type]
