"""The records that share one code, spread over the fine indices below it only as far as anyone looks.

Each of `count` records takes a uniform offset in 0..2**bits-1, independently. Drawing all of them would cost a word a
record; a quantile asks for a few ranks. So offsets are revealed bit by bit: of `count` records the number with leading
bit 0 is the number of zeros among `count` fair bits, those below a bit again split fairly, and so on. Only the splits
that a question meets are drawn, and they are remembered, so all answers belong to one and the same spread. This is the
law of dithering every record: leading bits of independent uniform offsets are independent fair bits.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from sidelight.noise import Source, integers_below

#: Below this many records, offsets are drawn outright.
_DRAW_ALL = 512
#: Below this many, one by one: a call for a vector costs more.
_DRAW_SINGLY = 8
#: Fair bits are drawn in blocks, so that an atom of a billion records needs no gigabyte.
_BLOCK_WORDS = 1 << 18


class Atom:
    """`count` records with independent uniform offsets of `bits` bits, revealed lazily."""

    __slots__ = ("_bits", "_count", "_leaves", "_splits")

    def __init__(self, count: int, bits: int) -> None:
        self._count = count
        self._bits = bits
        self._splits: dict[tuple[int, int], int] = {}
        self._leaves: dict[tuple[int, int], list[int]] = {}

    def below(self, offset: int, source: Source) -> int:
        """Return the number of records with an offset smaller than `offset`."""
        count, before = self._count, 0
        for bits in range(self._bits, 0, -1):
            if count <= _DRAW_ALL:
                leaf = self._leaf(bits, offset >> bits, count, source)
                return before + bisect_left(leaf, offset & ((1 << bits) - 1))
            zeros = self._zeros(bits, offset >> bits, count, source)
            if offset >> (bits - 1) & 1:
                before, count = before + zeros, count - zeros
            else:
                count = zeros
        return before

    def order(self, k: int, source: Source) -> int:
        """Return the k-th smallest offset, k = 1..count."""
        count, prefix = self._count, 0
        for bits in range(self._bits, 0, -1):
            if count <= _DRAW_ALL:
                return (prefix << bits) + self._leaf(bits, prefix, count, source)[k - 1]
            zeros = self._zeros(bits, prefix, count, source)
            if k <= zeros:
                prefix, count = prefix << 1, zeros
            else:
                prefix, count, k = prefix << 1 | 1, count - zeros, k - zeros
        return prefix

    def _zeros(self, bits: int, prefix: int, count: int, source: Source) -> int:
        """Of the records whose offset starts with `prefix`, return the number that go on with a 0."""
        node = (bits, prefix)
        if node not in self._splits:
            self._splits[node] = heads(count, source)
        return self._splits[node]

    def _leaf(self, bits: int, prefix: int, count: int, source: Source) -> list[int]:
        """Return the last `bits` bits of the few records whose offset starts with `prefix`, sorted."""
        node = (bits, prefix)
        if node not in self._leaves:
            if count <= _DRAW_SINGLY:
                self._leaves[node] = sorted(source.bits(bits) for _ in range(count))
            else:
                self._leaves[node] = np.sort(integers_below(1 << bits, count, source)).tolist()
        return self._leaves[node]

    def __repr__(self) -> str:
        return "Atom(private)"


def heads(flips: int, source: Source) -> int:
    """Return the number of ones among `flips` fair bits: exactly Binomial(flips, 1/2)."""
    total, left = 0, flips
    while left > 0:
        bits = min(left, 64 * _BLOCK_WORDS)
        words = -(-bits // 64)
        block = int.from_bytes(source.words(words).tobytes(), "little")
        total += (block >> (64 * words - bits)).bit_count()
        left -= bits
    return total
