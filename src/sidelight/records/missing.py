"""What becomes of a row whose cell is missing: it is dropped, or a public value fills the place."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.errors import SchemaError
from sidelight.records.numbers import Real

# Missing are null, NaN, text that is no number in a number column, and empty text. Infinities are not missing: they are
# out of range and go to the nearer end.


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


def missing_policy(missing: object, name: str) -> Missing:
    """Return a policy as it is, and refuse anything else."""
    if not isinstance(missing, (Drop, Fill)):
        raise SchemaError(f"missing of column {name!r} must be Drop() or Fill(value), got {type(missing).__name__}")
    return missing
