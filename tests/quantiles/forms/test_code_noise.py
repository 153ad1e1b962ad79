"""The noise of ranks of counted codes: each different coefficient once, and as often as the whole matrix has it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from sidelight.mechanisms.budget import Budget
from sidelight.quantiles.forms.codes import CodesPlan, CountedRounds, _noise_of_codes, codes_bound
from sidelight.quantiles.forms.count_noise import noise_of


def counted(codes: int, variances: Sequence[float] = (3.0, 2.0)) -> tuple[CodesPlan, CountedRounds]:
    plan, rng = CodesPlan(codes=codes, budget=Budget("epsilon", Fraction(1))), np.random.default_rng(codes)
    counts, width = rng.integers(0, 9, codes), plan.width
    groups = (np.add.reduceat(counts, np.arange(0, codes, width)),) if width else ()
    parents = np.arange(codes) // width if width else np.zeros(0, np.intp)
    return plan, CountedRounds((*groups, counts), tuple(variances[: 1 + bool(width)]), parents)


@pytest.mark.parametrize("codes", [1, 2, 100, 101, 110, 121, 122, 397])
def test_the_few_numbers_are_those_of_the_whole_matrix(codes: int) -> None:
    plan, found = counted(codes)
    cuts, levels = np.arange(codes + 1), np.random.default_rng(1).uniform(0, 1, codes + 1)
    weights = (np.arange(codes) < cuts[:, None]) - levels[:, None]
    few, times = _noise_of_codes(plan, found, cuts, levels)
    for whole, numbers, often in zip(noise_of(found.rounds, weights), few, times, strict=True):
        assert (often >= 0).all()
        for row in range(codes + 1):
            repeated = np.repeat(numbers[row], often[row].astype(int))
            assert np.sort(repeated) == pytest.approx(np.sort(whole[row]), abs=1e-12)


def test_the_largest_grid_at_most_levels_takes_seconds_and_little_memory() -> None:
    """It took 214 s and 16 GB, after the charge."""
    import tracemalloc

    plan, found = counted(2**16)
    levels = np.arange(1, 5001) / 5001
    tracemalloc.start()
    began = time.process_time()
    bound = codes_bound(plan, found, levels.tolist())
    seconds, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(bound.fixed) == 5000
    assert peak < 200e6
    assert seconds < 20
