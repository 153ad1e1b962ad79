"""What happens to a row whose cell is missing: a public, record-wise policy, declared per column.

Missing are null, NaN, text that is no number in a number column, and empty text. Infinities are not missing: they are
out of range and go to the nearer end.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.records.numbers import Real


@dataclass(frozen=True)
class Drop:
    """Leave the row out of every statistic that uses the column."""


@dataclass(frozen=True)
class Fill:
    """Put a public value in the place of the missing one.

    >>> Fill(0)
    Fill(value=0)
    """

    value: Real


Missing = Drop | Fill
