"""What an estimate may ask of its rows: the moments of clip(A(x - c), radius) of all rows, of a sample, or of pairs."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from math import sqrt
from typing import Literal, TypeAlias, TypeVar

from sidelight.aggregates.mapped_vector import RowMap
from sidelight.aggregates.moments import Moments
from sidelight.gaussians.public_rows import Floats

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Question:
    """A map, and of what: "count" wants the number of rows only, "sample" each row with probability `rate`.

    "pairs" are differences (x - x')/√2 of a random pairing. `second` is False where the sum alone is wanted: the second
    moment of the answer is then meaningless.
    """

    row_map: RowMap
    of: Literal["count", "rows", "sample", "pairs"] = "rows"
    rate: float = 1.0
    second: bool = True


#: An estimate is a generator of questions; it is sent their answers and returns what it found.
Asking: TypeAlias = Generator[Question, Moments, Result]


def about_rows(matrix: Floats, center: Floats, clip: float, *, rate: float = 1.0, second: bool = True) -> Question:
    """Ask about rows, or about a sample of them."""
    row_map = RowMap.of(len(center), centre=center, matrix=matrix, radius=clip)
    return Question(row_map, "rows" if rate == 1 else "sample", rate, second)


def about_pairs(matrix: Floats, clip: float) -> Question:
    """Ask about differences of pairs, which need no centre."""
    return Question(RowMap.of(matrix.shape[1], centre=None, matrix=matrix / sqrt(2), radius=clip), "pairs")


def how_many(size: int) -> Question:
    """Ask for the number of rows."""
    return Question(RowMap.of(size, centre=None, matrix=None, radius=1), "count")
