"""Numbers as people read them, and the round numbers of an axis."""

from __future__ import annotations

import math
from typing import Any


def shown(value: Any, *, digits: int = 10) -> str:
    """Write a number with thousands separators and without noise in the last digits.

    >>> shown(1234567.0), shown(0.30000000000000004), shown(2.5e-9), shown(True)
    ('1,234,567', '0.3', '2.5e-09', 'True')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun.

    >>> counted(1, "marginal"), counted(2, "marginal"), counted(0, "entry", "entries")
    ('1 marginal', '2 marginals', '0 entries')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def at_most(value: float, *, digits: int = 3) -> str:
    """Write a bound, rounded up: what is said must hold.

    >>> at_most(239.41), at_most(0.10012), at_most(0), at_most(14900.5)
    ('240', '0.101', '0', '15,000')
    """
    if value <= 0 or not math.isfinite(value):
        return shown(value)
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return shown(math.ceil(value / step - 1e-9) * step, digits=digits)


def short(value: float, *, digits: int = 6) -> str:
    """Write a number for an axis: 12k, 1.5M.

    >>> short(0), short(950), short(12000), short(1500000), short(0.25)
    ('0', '950', '12k', '1.5M', '0.25')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size <= abs(value) < 1e15:
            return shown(value / (1e3 if letter == "k" else size), digits=4) + letter
    return shown(value, digits=digits)


def ticks(low: float, high: float, *, about: int) -> list[float]:
    """Return round numbers inside [low, high], about as many as asked for.

    >>> ticks(3, 97, about=5)
    [20.0, 40.0, 60.0, 80.0]
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return [low]
    raw = (high - low) / about
    size = 10.0 ** math.floor(math.log10(raw))
    step = min((factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw * 0.999), default=raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)] or [low]
