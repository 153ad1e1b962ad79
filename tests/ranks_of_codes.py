"""Ranks of sorted codes, for tests of mechanisms that no table is read for."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sidelight.aggregates.ranks import DitheredRanks, SortedCodes
from sidelight.grid import Outcomes


def ranks_of_codes(sorted_codes: NDArray[Any], grid: Outcomes, source: Any) -> DitheredRanks:
    """Return ranks of coarse codes; without a source every record sits at the first fine index of its code."""
    return DitheredRanks(SortedCodes(sorted_codes), grid, source)
