"""The long self-check passes here, and sees a wrong table, a wrong squeeze and a wrong product."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.errors import NoiseError
from sidelight.noise import OSEntropy, full_check, lattice, strips
from sidelight.noise.strips import StripTables, strip_tables
from sidelight.testing import SeededEntropy


def test_passes() -> None:
    full_check(SeededEntropy(1), trials=1500)
    full_check(OSEntropy(), trials=100)


def test_sees_a_wrong_strip(monkeypatch: pytest.MonkeyPatch) -> None:
    right = strip_tables("gauss")
    cells = np.where(right.cells > 0, right.cells + np.uint32(1 << 16), right.cells)
    wrong = StripTables(right.thresholds, right.squeezes, right.guide, cells)
    monkeypatch.setattr(strips, "strip_tables", lambda name: wrong)
    with pytest.raises(NoiseError, match="disagree"):
        full_check(SeededEntropy(2), trials=200)


def test_sees_a_squeeze_that_keeps_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    right = strip_tables("gauss")
    cells = np.where(right.cells > 0, right.cells | np.uint32(0x7FFF), right.cells)
    wrong = StripTables(right.thresholds, right.squeezes, right.guide, cells)
    monkeypatch.setattr(strips, "strip_tables", lambda name: wrong)
    monkeypatch.setattr("sidelight.noise.self_check.strip_tables", Rebuilt(wrong))
    with pytest.raises(NoiseError):
        full_check(SeededEntropy(2), trials=3000)


class Rebuilt:
    """A table function with the `__wrapped__` that a cache has."""

    def __init__(self, tables: StripTables) -> None:
        self.tables = tables

    def __call__(self, name: str) -> StripTables:
        return self.tables

    __wrapped__ = __call__


def test_sees_a_wrong_product(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lattice.high_product
    monkeypatch.setattr(lattice, "high_product", lambda words, factor: right(words, factor) + np.uint64(2**50))
    with pytest.raises(NoiseError, match="floor"):
        full_check(SeededEntropy(3), trials=200)
