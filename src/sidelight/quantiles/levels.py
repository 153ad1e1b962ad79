"""Quantile levels as exact fractions.

A level decides which ranks count as near, so it enters the release path and must be exact: 0.3 is 3/10 and never the
binary number next to it. With floats the relative level of a tree node can become 0 or 1, and floor(q n) is off by one
for some n (quantiles proof page, section 1).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import Amount, exact

#: What a person may write for one level: 0.25, "1/4", Decimal("0.25"), Fraction(1, 4).
LevelLike: TypeAlias = Amount


def exact_levels(levels: LevelLike | Iterable[LevelLike]) -> tuple[Fraction, ...]:
    """Read levels as a strictly increasing tuple of fractions inside (0, 1).

    Floats are read through their shortest decimal form, text may be a decimal or "p/q", and one level may stand alone.

    >>> exact_levels([0.25, "1/2", 0.75])
    (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    """
    if not isinstance(levels, LevelLike | Iterable):
        raise RangeError(f"levels must be a list of numbers such as [0.25, 0.5, 0.75], got {type(levels).__name__}")
    several = [levels] if isinstance(levels, LevelLike) else list(levels)
    if not several:
        raise RangeError("levels must name at least one quantile, got none; [0.5] asks for the median")
    read = tuple(_inside(level) for level in several)
    for before, after in pairwise(read):
        if before == after:
            raise RangeError(f"levels must differ, got {float(before):g} twice; ask for each level once")
        if before > after:
            raise RangeError(
                f"levels must increase, got {float(before):g} before {float(after):g}; pass sorted(levels)"
            )
    return read


def even_levels(count: int) -> tuple[Fraction, ...]:
    """Return the levels i / (count + 1): 1 is the median, 3 the quartiles, 9 the deciles.

    >>> even_levels(3)
    (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    """
    if count < 1:
        raise RangeError(f"count must be at least 1, got {count}; 1 is the median, 3 are the quartiles")
    return tuple(Fraction(i, count + 1) for i in range(1, count + 1))


def _inside(level: LevelLike) -> Fraction:
    fraction = exact(level, name="level")
    if 0 < fraction < 1:
        return fraction
    if fraction in (0, 1):
        raise RangeError(
            f"a level must lie strictly between 0 and 1, got {level}; the minimum and the maximum of private "
            "data cannot be released well, ask for a level such as 0.01 or 0.99"
        )
    hint = f"for a percentile write {float(fraction) / 100:g}" if fraction <= 100 else "0.5 is the median"
    raise RangeError(f"a level must lie strictly between 0 and 1, got {level}; {hint}")
