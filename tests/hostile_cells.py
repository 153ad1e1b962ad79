"""Objects in a cell that try to raise when they are read as a number."""

from __future__ import annotations


class NoSign:
    """Too large for a float, and not to be compared with zero."""

    def __float__(self):
        raise OverflowError

    def __gt__(self, other):
        raise TypeError


class NoFloat(float):
    """A float that cannot be read as one."""

    def __float__(self):
        raise ValueError
