"""A fixed pseudo-random order of rows: an integer mix of person and codes, the same in arrays and on every engine.

Integer arithmetic on numbers below 2**62, because engines disagree on everything else (wrapping, signed remainders,
hash functions). The codes, split into words of 20 bits, are combined linearly modulo a prime p; then three rounds of
x -> x**3 + c, a permutation modulo p since 3 does not divide p - 1, destroy the linear order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

#: The largest prime below 2**31 that leaves 2 on division by 3.
PRIME = 2147483579
_ROUNDS = (314159265, 1618033988, 1202056903)
_WORD = 1 << 20

Whole = TypeVar("Whole", NDArray[np.int64], "nw.Expr")


def mixed_keys(
    keys: NDArray[np.int64],
    codes: Sequence[NDArray[np.int64]],
    ranges: Sequence[tuple[int, int]],
    nth: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the mix of each row: of its person's key, its codes and its number among equal rows."""
    mixed = linear_mix(keys, codes, ranges, nth)
    for constant in _ROUNDS:
        mixed = cube_round(mixed, constant)
    return mixed


def mixed_frame(frame: Any, columns: Sequence[str], ranges: Sequence[tuple[int, int]], nth: Any = None) -> Any:
    """Add `mixed_keys` of columns to a frame as the column "mix"; `nth` is an expression, 0 where it is left out."""
    import narwhals.stable.v2 as nw

    codes = tuple(nw.col(column) for column in columns)
    among = nw.lit(0, nw.Int64) if nth is None else nth
    frame = frame.with_columns(linear_mix(nw.col("person_key"), codes, ranges, among).alias("mix"))
    for constant in _ROUNDS:  # one projection a round: nested in one expression, the cubes would grow exponentially
        frame = frame.with_columns(cube_round(nw.col("mix"), constant).alias("mix"))
    return frame


def linear_mix(keys: Whole, codes: Iterable[Whole], ranges: Sequence[tuple[int, int]], nth: Whole) -> Whole:
    """Combine the person's key, the codes and the running number linearly modulo the prime."""
    multiplier, total = 48271, keys % PRIME + nth % PRIME * 69621 % PRIME
    for code, (first, last) in zip(codes, ranges, strict=True):
        rest = code - first
        for _ in range(words_of(last - first)):
            multiplier = multiplier * 16807 % PRIME
            total = total + rest % _WORD * multiplier % PRIME
            rest = rest // _WORD
    return total % PRIME


def cube_round(mixed: Whole, constant: int) -> Whole:
    """Return (mixed + constant)**3 modulo the prime; every product stays below 2**62."""
    x = (mixed + constant) % PRIME
    return x * x % PRIME * x % PRIME


def words_of(width: int) -> int:
    """Return how many words of 20 bits a number up to `width` has."""
    return max(1, -(-width.bit_length() // 20))
