"""Exact money: every total is a whole number of quanta of 10^-30, so sums never drift and no charge is ever lost.

A charge is rounded up and is at least one quantum; a capacity is rounded down; sums and comparisons are of integers, so
they are associative and the order of charges does not matter (accounting proof page, section 8).
"""

from __future__ import annotations

from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.guarantees import short_text

DECIMALS = 30
QUANTA_PER_ONE: int = 10**DECIMALS
QUANTUM = Fraction(1, QUANTA_PER_ONE)


def charge_quanta(x: Fraction) -> int:
    """Round a charge up to whole quanta; anything above zero costs at least one.

    >>> charge_quanta(Fraction(1, 10**40)), charge_quanta(Fraction(1, 10)) == 10**29
    (1, True)
    """
    _not_negative(x)
    return -(-x.numerator * QUANTA_PER_ONE // x.denominator)


def capacity_quanta(x: Fraction) -> int:
    """Round a capacity down to whole quanta.

    >>> capacity_quanta(Fraction(1, 10**40)), capacity_quanta(Fraction(2, 3)) % 10
    (0, 6)
    """
    _not_negative(x)
    return x.numerator * QUANTA_PER_ONE // x.denominator


def amount_of(quanta: int) -> Fraction:
    """Return the amount that a number of quanta is worth."""
    return Fraction(quanta, QUANTA_PER_ONE)


def quanta_from_text(text: str) -> int:
    """Read a count of quanta as a ledger stores it: decimal digits only."""
    if not isinstance(text, str) or not text.isascii() or not text.isdigit():
        raise RangeError(f"a count of quanta is written in decimal digits, got {text!r}")
    return int(text)


def _not_negative(x: Fraction) -> None:
    if x < 0:
        raise RangeError(f"an amount must not be negative, got {short_text(x)}; nothing is ever given back")
