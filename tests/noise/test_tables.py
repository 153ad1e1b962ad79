"""The tables: reference entries, digests, and the properties that the proofs use, checked entry by entry."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.errors import NoiseError
from sidelight.noise import strips as selfcheck
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, Strips, exp_neg
from sidelight.noise.strips import LAST_STEP, step_table, strip_tables

LAWS = pytest.mark.parametrize("law", [GAUSS, EXPONENTIAL], ids=lambda law: law.name)


def test_reference_entries() -> None:
    gauss, exponential = strip_tables("gauss"), strip_tables("exponential")
    assert gauss.thresholds[[0, 1, 63]].tolist() == [217962176684, 435897748281, 11978308891539]
    assert exponential.thresholds[[0, 1, 63]].tolist() == [541254663077, 1065856670846, 15211342563343]
    assert gauss.squeezes[[0, 1, 100]].tolist() == [32764, 32756, 31973]
    assert set(exponential.squeezes.tolist()) == {31759}
    assert (gauss.thresholds.size, exponential.thresholds.size) == (482, 976)
    assert (gauss.squeezes.size, exponential.squeezes.size) == (483, 977)
    assert (int((gauss.guide < 0).sum()), int((exponential.guide < 0).sum())) == (251, 275)
    assert gauss.thresholds[-1] == exponential.thresholds[-1] == 2**44 - 1


@LAWS
def test_pure_cells_decide_the_strip(law: Strips) -> None:
    """A pure cell lies strictly between two thresholds; an impure one holds a threshold."""
    tables = strip_tables(law.name)
    thresholds = [int(t) for t in tables.thresholds]
    for cell, strip in enumerate(tables.guide.tolist()):
        start, end = cell << 28, (cell + 1) << 28
        if strip < 0:
            assert any(start <= t < end for t in thresholds)
            assert tables.cells[cell] == 0
        else:
            assert strip == 0 or thresholds[strip - 1] < start
            assert end <= thresholds[strip]
            assert tables.cells[cell] == strip << 16 | int(tables.squeezes[strip])


@LAWS
def test_squeezes_are_lower_bounds(law: Strips) -> None:
    for j, squeeze in enumerate(strip_tables(law.name).squeezes.tolist()):
        lo, _ = exp_neg(*law.exponent(j, 1, 0), 100)
        assert squeeze << 85 <= lo < (squeeze + 1) << 85


def test_steps_are_upper_bounds() -> None:
    """exp(-l/64) <= T[l] < exp(-l/64)(1 + 2**-51), in integers, for every seventh entry."""
    steps = step_table()
    assert steps.size == LAST_STEP + 1
    for step in range(0, LAST_STEP + 1, 7):
        precision = 80 + step // 40
        lo, hi = exp_neg(step, 64, precision)
        numerator, denominator = float(steps[step]).as_integer_ratio()
        assert numerator << precision >= hi * denominator
        assert numerator << (precision + 51) < lo * denominator * (2**51 + 1)


def test_arithmetic_check_passes_here() -> None:
    selfcheck.check_arithmetic()


@pytest.mark.parametrize("name", ["high_product", "taylor_exp_neg"])
def test_broken_arithmetic_raises(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(selfcheck, name)
    monkeypatch.setattr(selfcheck, name, lambda *arguments: right(*arguments) * np.array([1 + 2**-40])[0])
    with pytest.raises(NoiseError, match="self-check"):
        selfcheck.check_arithmetic()


def test_changed_table_raises() -> None:
    table = strip_tables("gauss").thresholds.copy()
    selfcheck.check_table("gauss thresholds", table)
    table[100] += np.uint64(1)
    with pytest.raises(NoiseError, match="gauss thresholds"):
        selfcheck.check_table("gauss thresholds", table)
