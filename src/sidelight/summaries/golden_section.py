"""The least value of one part of a price: among candidates, then by a golden section around the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

_GOLDEN = (math.sqrt(5) - 1) / 2
#: Half of the width of the section, on the scale of logarithms.
_AROUND = 0.7


def least_part(at: Callable[[float], float], candidates: Sequence[float], *, rounds: int) -> tuple[float, float]:
    """Return the part with the least value found, and that value; a candidate of 0 is not refined.

    >>> part, value = least_part(lambda x: (x - 3) ** 2, [0.0, 1.0, 2.0, 4.0, 8.0], rounds=30)
    >>> round(part, 3), round(value, 6)
    (3.0, 0.0)
    """
    values = [at(part) for part in candidates]
    place = min(range(len(candidates)), key=values.__getitem__)
    chosen, lowest = candidates[place], values[place]
    if chosen > 0:
        low, high = math.log(chosen) - _AROUND, math.log(chosen) + _AROUND
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        f_left, f_right = at(math.exp(left)), at(math.exp(right))
        for _ in range(rounds):
            if f_left < f_right:
                high, right, f_right = right, left, f_left
                left = high - _GOLDEN * (high - low)
                f_left = at(math.exp(left))
            else:
                low, left, f_left = left, right, f_right
                right = low + _GOLDEN * (high - low)
                f_right = at(math.exp(right))
        refined = math.exp((low + high) / 2)
        if (found := at(refined)) < lowest:
            chosen, lowest = refined, found
    return chosen, lowest
