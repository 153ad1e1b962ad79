"""What happens to a row whose cell is missing: a public, record-wise policy, declared per column.

Missing are null, NaN, text that is no number in a number column, and empty text. Infinities are not missing: they are
out of range and go to the nearer end.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.records.numbers import Real


@dataclass(frozen=True)
class Drop:
    """Leave a row whose cell is missing out of every statistic that uses the column.

    >>> import sidelight as sl
    >>> sl.Number("age", missing=sl.Drop()).missing
    Drop()
    """


@dataclass(frozen=True)
class Fill:
    """Fill the place of a missing cell with a public value.

    Args:
        value: A number within the column's bounds, or one of its labels.

    >>> Fill(0)
    Fill(value=0)
    """

    value: Real


Missing = Drop | Fill
