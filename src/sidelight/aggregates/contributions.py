"""At most k rows of each person count: which ones is decided by the person's own rows alone, alike on every engine.

A row is what its codes are; rows of a person with the same codes are interchangeable. The n-th of them gets the key
mix(person, codes, n), and the k smallest keys stay (ties by the codes themselves). So the choice is a fixed
pseudo-random one: no order of the file, no other person, no size of a value enters, and the multiset of codes that
stays is the same wherever it is computed. Adding or removing one person leaves every other person's rows as they are.

The mix is integer arithmetic on numbers below 2**62, because engines disagree on everything else (wrapping, signed
remainders, hash functions). The codes, split into words of 20 bits, are combined linearly modulo a prime p; then three
rounds of x -> x**3 + c, a permutation modulo p since 3 does not divide p - 1, destroy the linear order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays
from sidelight.records.persons import person_key

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

#: The largest prime below 2**31 that leaves 2 on division by 3.
PRIME = 2147483579
_ROUNDS = (314159265, 1618033988, 1202056903)
_WORD = 1 << 20

Whole = TypeVar("Whole", NDArray[np.int64], "nw.Expr")


def cap_arrays(persons: Sequence[str], codes: CodeArrays, ranges: Sequence[tuple[int, int]], k: int) -> CodeArrays:
    """Keep at most k rows of each person; rows come out in no particular order."""
    places: dict[str, int] = {}
    person = np.fromiter((places.setdefault(text, len(places)) for text in persons), np.int64, len(persons))
    keys = np.fromiter((person_key(text) for text in places), np.int64, len(places))[person]
    order = np.lexsort((*codes, person))
    person, keys, codes = person[order], keys[order], tuple(code[order] for code in codes)
    nth = _place_in_run([person, *codes])
    mixed = linear_mix(keys, codes, ranges, nth)
    for constant in _ROUNDS:
        mixed = cube_round(mixed, constant)
    order = np.lexsort((*codes, mixed, person))
    stays = order[_place_in_run([person[order]]) < k]
    return tuple(code[stays] for code in codes)


def cap_frame(frame: nw.LazyFrame[Any], columns: Sequence[str], ranges: Sequence[tuple[int, int]], k: int) -> Any:
    """Keep at most k rows of each person inside an engine: `cap_arrays` as expressions."""
    import narwhals.stable.v2 as nw

    codes = tuple(nw.col(column) for column in columns)
    frame = frame.with_columns(nw.lit(1, nw.Int64).alias("one"))
    nth = nw.col("one").cum_sum().over("person", *columns, order_by="one").cast(nw.Int64) - 1
    frame = frame.with_columns(nth.alias("nth"))
    frame = frame.with_columns(linear_mix(nw.col("person_key"), codes, ranges, nw.col("nth")).alias("mix"))
    for constant in _ROUNDS:  # one projection a round: nested in one expression, the cubes would grow exponentially
        frame = frame.with_columns(cube_round(nw.col("mix"), constant).alias("mix"))
    place = nw.col("one").cum_sum().over("person", order_by=["mix", *columns])
    return frame.with_columns(place.cast(nw.Int64).alias("place")).filter(nw.col("place") <= k)


def linear_mix(keys: Whole, codes: Iterable[Whole], ranges: Sequence[tuple[int, int]], nth: Whole) -> Whole:
    """Combine the person's key, the codes and the running number linearly modulo the prime."""
    multiplier = 48271
    total = keys % PRIME + nth % PRIME * 69621 % PRIME
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


def _place_in_run(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return 0, 1, 2, ... within each run of equal rows."""
    size = len(columns[0])
    starts = np.zeros(size, bool)
    starts[:1] = True
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    places = np.arange(size)
    return places - np.maximum.accumulate(np.where(starts, places, 0))
