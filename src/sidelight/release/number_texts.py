"""Numbers as people read them: with separators, without noise in the last digits, and bounds rounded up."""

from __future__ import annotations

import datetime
import math
from typing import Any

from sidelight.records.dates import date_text


def shown(value: Any, *, digits: int = 10) -> str:
    """Write a number with thousands separators and without noise in the last digits.

    >>> shown(1234567.0), shown(0.30000000000000004), shown(2.5e-9), shown(True)
    ('1,234,567', '0.3', '2.5e-09', 'True')
    """
    if isinstance(value, datetime.date):
        return date_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def at_most(value: float, *, digits: int = 3) -> str:
    """Write a bound, rounded up: what is said must hold.

    >>> at_most(239.41), at_most(0.10012), at_most(0), at_most(14900.5)
    ('240', '0.101', '0', '15,000')
    """
    if value <= 0 or not math.isfinite(value):
        return shown(value)
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return shown(math.ceil(value / step - 1e-9) * step, digits=digits)
