"""Codes that workers keep answer as codes in one array do, in few questions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from away_rows import Blocks
from sidelight.aggregates.coding import NumberCoding
from sidelight.aggregates.collect_ranks import encoding_of
from sidelight.aggregates.ranks import SortedCodes
from sidelight.aggregates.remote_codes import RemoteCodes, _blocks, fits_in_groups
from sidelight.grid import Grid
from sidelight.records import Number

RNG = np.random.default_rng(5)
ENDS = np.iinfo(np.int64)
CODES: dict[str, NDArray[np.int64]] = {
    "none": np.empty(0, np.int64),
    "one": np.array([7]),
    "ties": np.repeat([-3, 0, 5], [1000, 70_000, 3]),
    "close": RNG.integers(0, 90, 5000),
    "far": RNG.integers(-(2**61), 2**61, 3000),
    "ends of 64 bits": np.concatenate([[ENDS.min, ENDS.max, ENDS.max], RNG.integers(ENDS.min, ENDS.max, 500)]),
    "a crowd and a few far away": np.concatenate([RNG.integers(10**12, 10**12 + 10**6, 150_000), [-(2**62), 2**62]]),
    "floats": np.abs(RNG.normal(size=120_000)).view(np.int64),
}


def away(codes: NDArray[np.int64], parts: int) -> tuple[RemoteCodes, Blocks]:
    mixed = RNG.permutation(codes)
    blocks = Blocks([list(_blocks([part])) for part in np.array_split(mixed, parts)])
    return RemoteCodes(blocks), blocks


@pytest.mark.parametrize(("name", "parts"), [*product(CODES, [1, 4])])
def test_answers_are_those_of_one_array(name: str, parts: int) -> None:
    codes = CODES[name]
    expected = SortedCodes(np.sort(codes))
    found, _ = away(codes, parts)
    assert found.size == expected.size
    if expected.size:
        ranks = {1, expected.size, *RNG.integers(1, expected.size + 1, 60).tolist()}
        assert [found.tie_at(k) for k in ranks] == [expected.tie_at(k) for k in ranks]
    asked = {*codes[:20].tolist(), *(codes[:20] // 2).tolist(), *(int(each) for each in RNG.integers(-99, 99, 20))}
    asked |= {ENDS.min, ENDS.max, 0}
    assert [found.span(code) for code in asked] == [expected.span(code) for code in asked]


def test_a_search_around_a_rank_asks_a_few_times() -> None:
    found, blocks = away(RNG.integers(0, 2**40, 200_000), 3)
    for step in range(14):
        found.tie_at(100_000 + 2**step)
        found.tie_at(100_000 - 2**step)
    assert blocks.asked <= 4  # ends, the first buckets, and those around the rank


def test_only_what_is_asked_for_comes() -> None:
    found, _ = away(RNG.integers(0, 2**40, 400_000), 3)
    found.tie_at(200_000)
    assert sum(len(run.codes) for run in found._runs) < 110_000


def test_groups_whose_codes_do_not_fit_are_told_from_public_numbers() -> None:
    coding = NumberCoding(
        "x", encoding_of(Number("x", lower=0, upper=1), Grid(resolution=Fraction(1, 2**40), first=0, last=2**40))
    )
    assert fits_in_groups(coding, (2, 2))
    assert not fits_in_groups(coding, (2**20, 2**20))
