"""Ranks of a column on a public grid: how many records lie below an index, and which index is the k-th.

Records are kept as sorted coarse codes, or as distinct codes with cumulative counts; a record's position among the
2**dither_bits fine indices below its code is drawn when a request first meets that code. Ranks hold the
records themselves: they are private, have no sensitivity of their own, and only a selection mechanism may ask them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.grid import DROPPED_BITS, FloatGrid, Outcomes, least_double
from sidelight.noise import Source, integers_below

# The records that share one code, spread over the fine indices below it only as far as anyone looks.
#
# Each of `count` records takes a uniform offset in 0..2**bits-1, independently. Drawing all of them would cost a
# word a record; a quantile asks for a few ranks. So offsets are revealed bit by bit: of `count` records the number
# with leading bit 0 is the number of zeros among `count` fair bits, those below a bit again split fairly, and so
# on. Only the splits that a question meets are drawn, and they are remembered, so all answers belong to one and the
# same spread. This is the law of dithering every record: leading bits of independent uniform offsets are
# independent fair bits.

#: Why dither has no price: it moves records, one by one, before anything is counted.
_DITHER = "where tied records lie within a step of the grid"

#: Below this many records, offsets are drawn outright.
_DRAW_ALL = 512

#: Below this many, singly: a call for a vector costs more.
_DRAW_SINGLY = 8

#: Fair bits are drawn in blocks, so that a billion tied records need no gigabyte.
_BLOCK_WORDS = 1 << 18


class TiedRecords:
    """`count` records with independent uniform offsets of `bits` bits, revealed lazily."""

    __slots__ = ("_bits", "_count", "_leaves", "_splits")

    def __init__(self, count: int, bits: int) -> None:
        self._count = count
        self._bits = bits
        self._splits: dict[tuple[int, int], int] = {}
        self._leaves: dict[tuple[int, int], NDArray[np.int64]] = {}

    def below(self, offset: int, source: Source) -> int:
        """Return the number of records with an offset smaller than `offset`."""
        count, before = self._count, 0
        for bits in range(self._bits, 0, -1):
            if count <= _DRAW_ALL:
                leaf = self._leaf(bits, offset >> bits, count, source)
                return before + int(leaf.searchsorted(offset & ((1 << bits) - 1)))
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
                return (prefix << bits) + self._leaf(bits, prefix, count, source).item(k - 1)
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
            with source.free(_DITHER):
                self._splits[node] = heads(count, source)
        return self._splits[node]

    def _leaf(self, bits: int, prefix: int, count: int, source: Source) -> NDArray[np.int64]:
        """Return the last `bits` bits of the few records whose offset starts with `prefix`, sorted."""
        node = (bits, prefix)
        if node not in self._leaves:
            with source.free(_DITHER):
                if count <= _DRAW_SINGLY:
                    leaf = np.array([source.bits(bits) for _ in range(count)], np.int64)
                else:
                    leaf = integers_below(1 << bits, count, source)
                leaf.sort()
                self._leaves[node] = leaf
        return self._leaves[node]

    def __repr__(self) -> str:
        return "TiedRecords(private)"


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


#: Count instead of sorting while the table of counts stays this small (32 MB) and is not mostly empty.
_COUNTABLE = 1 << 22


class Ranks(Protocol):
    """What a rank mechanism sees. Indices are fine indices of the grid, as Python integers."""

    @property
    def size(self) -> int:
        """The number of records: private."""

    def below(self, index: int) -> int:
        """Return the number of records with a fine index smaller than `index`."""

    def order(self, k: int) -> int:
        """Return the k-th smallest fine index, k = 1..size."""


class OrderedCodes(Protocol):
    """A multiset of coarse codes."""

    @property
    def size(self) -> int:
        """The number of records."""

    def span(self, code: int) -> tuple[int, int]:
        """Return how many records have a smaller code, and how many a code at most this large."""

    def tie_at(self, k: int) -> tuple[int, int, int]:
        """Return the k-th smallest code, k = 1..size, and its span."""


class SortedCodes:
    """One sorted code a record."""

    __slots__ = ("_codes",)

    def __init__(self, codes: NDArray[np.int64]) -> None:
        self._codes = codes

    @property
    def size(self) -> int:
        return len(self._codes)

    def span(self, code: int) -> tuple[int, int]:
        before = int(self._codes.searchsorted(np.int64(code)))
        return before, self._end_of_tie(before, code)

    def tie_at(self, k: int) -> tuple[int, int, int]:
        """Return the k-th smallest code and its span: looks at the neighbours first, most codes are alone."""
        around = self._codes[k - 2 if k > 2 else 0 : k + 1].tolist()
        here = 1 if k > 1 else 0
        code: int = around[here]
        before, until = k - 1, k
        if here and around[0] == code:
            before = int(self._codes.searchsorted(np.int64(code)))
        if around[-1] == code and len(around) > here + 1:
            until = int(self._codes.searchsorted(np.int64(code), side="right"))
        return code, before, until

    def _end_of_tie(self, place: int, code: int) -> int:
        """Return how many codes are at most `code`, knowing that those before `place` are."""
        codes, size = self._codes, self._codes.shape[0]
        if place == size or codes.item(place) != code:
            return place
        if place + 1 == size or codes.item(place + 1) != code:
            return place + 1
        return int(codes.searchsorted(np.int64(code), side="right"))


#: The pattern of a double without its sign.
_MAGNITUDE = (1 << 63) - 1


class SortedFloats:
    """One double a record on a grid of floats, sorted: codes are made of those that a question meets, and of no others.

    The number of records below the least double of a code is the number of smaller codes, exactly (quantiles proof
    page, section 1.6), so that nothing but one sort is done to all records. Beyond the bounds a record counts at the
    end code; values that are missing stand at the end and are left out.

    >>> floats = SortedFloats(np.array([0.5, np.nan, -2.0, 7.0]), FloatGrid(lowest=0.0, highest=1.0))
    >>> floats.size, floats.span(floats.tie_at(3)[0])
    (3, (2, 3))
    """

    __slots__ = ("_first", "_last", "_patterns", "_size", "_values")

    def __init__(self, values: NDArray[np.float64], grid: FloatGrid) -> None:
        """Take doubles in any order, and sort them IN PLACE."""
        with np.errstate(all="ignore"):  # a signalling NaN makes NumPy warn, and rows must not decide that
            values.sort()
            self._size = int(values.searchsorted(np.nan))
        self._values = values[: self._size]
        self._patterns = self._values.view(np.int64)
        self._first, self._last = grid.first, grid.last

    @property
    def size(self) -> int:
        return self._size

    def span(self, code: int) -> tuple[int, int]:
        before = 0 if code <= self._first else int(self._values.searchsorted(least_double(code)))
        return before, self._end_of_tie(before, code)

    def tie_at(self, k: int) -> tuple[int, int, int]:
        """Return the k-th smallest code and its span: looks at the neighbours first, most codes are alone."""
        first, last = self._first, self._last
        codes = [  # as `_code` has them: three calls take longer
            first
            if (code := each >> DROPPED_BITS if each >= 0 else -(each & _MAGNITUDE) >> DROPPED_BITS) < first
            else last
            if code > last
            else code
            for each in self._patterns[k - 2 if k > 2 else 0 : k + 1].tolist()
        ]
        here = 1 if k > 1 else 0
        code, before, until = codes[here], k - 1, k
        if here and codes[0] == code:
            before = 0 if code <= first else int(self._values.searchsorted(least_double(code)))
        if len(codes) > here + 1 and codes[-1] == code:
            until = self._size if code >= last else int(self._values.searchsorted(least_double(code + 1)))
        return code, before, until

    def _end_of_tie(self, place: int, code: int) -> int:
        """Return how many codes are at most `code`, knowing that those before `place` are."""
        if code >= self._last:
            return self._size
        for _ in range(2):  # a code has rarely more than one record
            if place == self._size or self._code(self._patterns.item(place)) > code:
                return place
            place += 1
        return int(self._values.searchsorted(least_double(code + 1)))

    def _code(self, pattern: int) -> int:
        """Return the code of a double, from its pattern as a signed integer."""
        code = pattern >> DROPPED_BITS if pattern >= 0 else -(pattern & _MAGNITUDE) >> DROPPED_BITS
        if code < self._first:
            return self._first
        return code if code < self._last else self._last


class CountedCodes:
    """Distinct codes in increasing order, and how many records have each."""

    __slots__ = ("_codes", "_cumulative")

    def __init__(self, codes: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        self._codes = codes
        self._cumulative = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])

    @property
    def size(self) -> int:
        return int(self._cumulative[-1])

    def span(self, code: int) -> tuple[int, int]:
        place = int(self._codes.searchsorted(np.int64(code)))
        here = place < self._codes.shape[0] and int(self._codes[place]) == code
        return int(self._cumulative[place]), int(self._cumulative[place + here])

    def tie_at(self, k: int) -> tuple[int, int, int]:
        place = int(self._cumulative.searchsorted(np.int64(k))) - 1
        return int(self._codes[place]), int(self._cumulative[place]), int(self._cumulative[place + 1])


class DitheredRanks:
    """Ranks over codes; ties are spread lazily, as far as requests need."""

    __slots__ = ("_atoms", "_codes", "_dither_bits", "_grid", "_singles", "_source", "_tie")

    def __init__(self, codes: OrderedCodes, grid: Outcomes, source: Source | None) -> None:
        self._codes = codes
        self._grid = grid
        self._source = source
        self._dither_bits = grid.dither_bits
        self._atoms: dict[int, TiedRecords] = {}
        self._singles: dict[int, int] = {}  # the offset of a record that is alone with its code
        self._tie: tuple[int | None, int, int] = None, 0, 0  # the last code that `order` met, and its span

    @property
    def size(self) -> int:
        return self._codes.size

    def below(self, index: int) -> int:
        """Return the number of records with a fine index smaller than `index`."""
        code = index >> self._grid.dither_bits
        if code < self._grid.first:
            return 0
        if code > self._grid.last:
            return self.size
        met, before, until = self._tie  # the neighbours of a quantile are asked for next
        if met != code:
            before, until = self._codes.span(code)
        offset = index - (code << self._grid.dither_bits)
        if offset == 0 or before == until:
            return before
        if self._source is None:
            return until
        if until - before == 1:
            return before + (self._single(code, self._source) < offset)
        return before + self._atom(code, until - before).below(offset, self._source)

    def order(self, k: int) -> int:
        """Return the k-th smallest fine index, k = 1..size."""
        code, before, until = self._tie = self._codes.tie_at(k)
        coarse = code << self._dither_bits
        if self._source is None or self._dither_bits == 0:
            return coarse
        if until - before == 1:
            offset = self._singles.get(code)  # asked so often that a call counts
            return coarse + (self._single(code, self._source) if offset is None else offset)
        return coarse + self._atom(code, until - before).order(k - before, self._source)

    def _single(self, code: int, source: Source) -> int:
        offset = self._singles.get(code)
        if offset is None:
            offset = self._singles[code] = source.free_bits(self._dither_bits, _DITHER)
        return offset

    def _atom(self, code: int, count: int) -> TiedRecords:
        if code not in self._atoms:
            self._atoms[code] = TiedRecords(count, self._grid.dither_bits)
        return self._atoms[code]

    def __repr__(self) -> str:
        return f"Ranks(private, {self._grid})"


def order_codes(codes: NDArray[np.int64]) -> OrderedCodes:
    """Order codes IN PLACE: count them where they span a small range, sort them otherwise."""
    counted = count_codes(codes)
    if counted is not None:
        return CountedCodes(*counted)
    codes.sort()
    return SortedCodes(codes)


def count_codes(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return distinct codes and their counts, consuming the array; None, leaving it, if the range is wide."""
    if len(codes) == 0:
        return None
    most = min(_COUNTABLE, 4 * len(codes))
    for some in (codes[:: max(len(codes) // 64, 1)], codes):  # a sample of wide range decides for all
        low, high = int(some.min()), int(some.max())
        width = high - low + 1
        if width > most:
            return None
    codes -= low
    counts = np.bincount(codes, minlength=width)
    distinct = np.flatnonzero(counts)
    return distinct + low, counts[distinct]
