"""Ordered codes of distributed rows: counts of buckets first, then the codes of the buckets that are needed.

Workers code the rows once, cap those of persons, and keep sorted blocks (`records.rows.Pinned`). Only counts of buckets
come here; a bucket that an answer needs is divided until it holds few codes, fetched with those of its neighbours: most
answers need no pass of their own. The answers equal those of all codes in one array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays, Coding, cells_of
from sidelight.aggregates.collect import RowsThatCount
from sidelight.aggregates.ranks import OrderedCodes
from sidelight.aggregates.state_bytes import state_from_bytes, state_to_bytes
from sidelight.errors import SourceError
from sidelight.records.rows import Batch
from sidelight.records.source_protocols import DistributedRows, Pinned

#: Codes per block that a worker keeps, eight bytes each.
_BLOCK = 1 << 16
#: Buckets of the whole range, and of a bucket that is divided again.
_ROOT, _MORE = 1 << 16, 1 << 10
#: A bucket of at most this many codes is fetched whole, with as many codes on each side of it.
_FEW = 1 << 15

Edge = tuple[int, int]


@dataclass(frozen=True)
class SortedBlocks:
    """The first step of a worker: code its rows and keep the last code of each counted row in sorted blocks."""

    rows: RowsThatCount
    groups: tuple[int, ...] | None = None  # the number of labels of each code before the last, if those name a group

    def __call__(self, batches: Iterator[Batch]) -> Iterator[bytes]:
        waiting: list[NDArray[np.int64]] = []
        for codes in self.rows(batches):
            waiting.append(codes[-1] if self.groups is None else self._in_groups(codes))
            if sum(map(len, waiting)) >= _BLOCK:
                yield from _blocks(waiting)
                waiting = []
        yield from _blocks(waiting)

    def _in_groups(self, codes: CodeArrays) -> NDArray[np.int64]:
        """Shift the codes of each group behind those of the groups before it."""
        assert self.groups is not None
        first, last = self.rows.coding.ranges[-1]
        return cells_of(codes, self.groups, len(codes[-1])) * (last - first + 1) + (codes[-1] - first)


def _blocks(parts: list[NDArray[np.int64]]) -> Iterator[bytes]:
    whole = np.sort(np.concatenate([np.empty(0, np.int64), *parts]))
    for start in range(0, len(whole), _BLOCK):
        yield np.ascontiguousarray(whole[start : start + _BLOCK], "<i8").tobytes()


def _read(blocks: Iterable[bytes]) -> Iterator[NDArray[np.int64]]:
    for block in blocks:
        yield np.frombuffer(block, "<i8").astype(np.int64, copy=False)


@dataclass(frozen=True)
class EndsRequest:
    """Request the number of codes, the smallest and the largest."""

    def __call__(self, blocks: Iterator[bytes]) -> bytes:
        found = [(len(codes), int(codes[0]), int(codes[-1])) for codes in _read(blocks) if len(codes)]
        return state_to_bytes((sum(each[0] for each in found), *_ends(found)))


def _ends(found: list[tuple[int, int, int]]) -> Edge:
    there = [each for each in found if each[0]]
    return (min(each[1] for each in there), max(each[2] for each in there)) if there else (0, 0)


@dataclass(frozen=True)
class BucketRange:
    """A range of codes from `low` on, in `buckets` of 2**shift codes each."""

    low: int
    shift: int
    buckets: int

    @property
    def high(self) -> int:
        """The end, exclusive."""
        return self.low + (self.buckets << self.shift)

    def bucket(self, at: int) -> Edge:
        """Return the range of a bucket."""
        start = self.low + (at << self.shift)
        return start, start + (1 << self.shift)


@dataclass(frozen=True)
class CountRequest:
    """Request the number of codes in each bucket of a range."""

    cut: BucketRange

    def __call__(self, blocks: Iterator[bytes]) -> bytes:
        counts = np.zeros(self.cut.buckets, np.int64)
        for block in _read(blocks):
            inside = _between(block, self.cut.low, self.cut.high)
            # differences of 64 bits, which may not fit into 63
            steps = (inside.astype(np.uint64) - np.uint64(self.cut.low % (1 << 64))) >> np.uint64(self.cut.shift)
            counts += np.bincount(steps.astype(np.int64), minlength=self.cut.buckets)
        return state_to_bytes(counts)


@dataclass(frozen=True)
class RangeRequest:
    """Request the distinct codes of a range and their counts."""

    low: int
    high: int

    def __call__(self, blocks: Iterator[bytes]) -> bytes:
        codes = [_between(block, self.low, self.high) for block in _read(blocks)]
        distinct, counts = np.unique(np.concatenate([np.empty(0, np.int64), *codes]), return_counts=True)
        return state_to_bytes((distinct, counts.astype(np.int64)))


def _between(block: NDArray[np.int64], low: int, high: int) -> NDArray[np.int64]:
    """Return the codes in low..high-1; the ends may lie beyond 64 bits."""
    ends = np.iinfo(np.int64)
    first = block.searchsorted(np.int64(max(low, ends.min)))
    last = len(block) if high > ends.max else block.searchsorted(np.int64(high))
    return block[first:last]


@dataclass(eq=False)
class _Node:
    """A range of codes in buckets, and the number of codes before it and before each bucket."""

    before: int
    cut: BucketRange
    cumulative: NDArray[np.int64]
    children: dict[int, _Node] = field(default_factory=dict)

    def span(self, place: int) -> Edge:
        """Return how many codes lie before a bucket, and before the next."""
        return self.before + int(self.cumulative[place]), self.before + int(self.cumulative[place + 1])


@dataclass(frozen=True, eq=False)
class _Run:
    """All distinct codes between two ends, and the number of codes before the first and with each."""

    low: int
    high: int
    before: int
    codes: NDArray[np.int64]
    cumulative: NDArray[np.int64]

    @property
    def until(self) -> int:
        """How many codes lie below `high`."""
        return self.before + int(self.cumulative[-1])


class RemoteCodes(OrderedCodes):
    """A multiset of codes that workers hold, with the interface of `OrderedCodes`."""

    __slots__ = ("_pinned", "_root", "_runs", "_size")

    def __init__(self, pinned: Pinned) -> None:
        self._pinned = pinned
        self._runs: list[_Run] = []
        ends = [state_from_bytes(part) for part in pinned.ask(EndsRequest())]
        self._size: int = sum(each[0] for each in ends)
        low, high = _ends(ends)
        self._root = self._cut(0, _cut(low, high + 1, _ROOT))

    @property
    def size(self) -> int:
        return self._size

    def span(self, code: int) -> tuple[int, int]:
        root = self._root
        if not root.cut.low <= code < root.cut.high:
            end = 0 if code < root.cut.low else self._size
            return end, end
        run = next((each for each in self._runs if each.low <= code < each.high), None)
        if run is None:
            node, place = root, -1
            while True:
                place = (code - node.cut.low) >> node.cut.shift
                before, until = node.span(place)
                if before == until or node.cut.shift == 0:
                    return before, until
                if until - before <= _FEW:
                    break
                node = self._child(node, place)
            run = self._fetch(node, place)
        at = int(run.codes.searchsorted(np.int64(code)))
        here = at < len(run.codes) and int(run.codes[at]) == code
        return run.before + int(run.cumulative[at]), run.before + int(run.cumulative[at + here])

    def tie_at(self, k: int) -> tuple[int, int, int]:
        run = next((each for each in self._runs if each.before < k <= each.until), None)
        if run is None:
            node, place = self._root, -1
            while True:
                place = int(node.cumulative.searchsorted(np.int64(k - node.before))) - 1
                before, until = node.span(place)
                if node.cut.shift == 0:
                    return node.cut.low + place, before, until
                if until - before <= _FEW:
                    break
                node = self._child(node, place)
            run = self._fetch(node, place)
        at = int(run.cumulative.searchsorted(np.int64(k - run.before))) - 1
        return int(run.codes[at]), run.before + int(run.cumulative[at]), run.before + int(run.cumulative[at + 1])

    def _child(self, node: _Node, place: int) -> _Node:
        """Return a bucket of many codes, divided again."""
        if place not in node.children:
            node.children[place] = self._cut(node.span(place)[0], _cut(*node.cut.bucket(place), _MORE))
        return node.children[place]

    def _cut(self, before: int, cut: BucketRange) -> _Node:
        counts = np.zeros(cut.buckets, np.int64)
        for part in self._pinned.ask(CountRequest(cut)):
            counts += state_from_bytes(part)
        return _Node(before, cut, _cumulative(counts))

    def _fetch(self, node: _Node, place: int) -> _Run:
        """Fetch the codes of a bucket, and of neighbouring buckets that hold few codes together."""
        before, until = (int(each) for each in node.cumulative[place : place + 2])
        first = min(place, int(node.cumulative.searchsorted(np.int64(before - _FEW))))
        last = max(place, int(node.cumulative.searchsorted(np.int64(until + _FEW), side="right")) - 2)
        low, high = node.cut.bucket(first)[0], node.cut.bucket(last)[1]
        found = [state_from_bytes(part) for part in self._pinned.ask(RangeRequest(low, high))]
        codes = np.concatenate([np.empty(0, np.int64), *(each[0] for each in found)])
        counts = np.concatenate([np.empty(0, np.int64), *(each[1] for each in found)])
        distinct, at = np.unique(codes, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, at, counts)
        run = _Run(low, high, node.span(first)[0], distinct, _cumulative(sums))
        self._runs.append(run)
        return run

    def __repr__(self) -> str:
        return "RemoteCodes(private)"


def remote_codes(rows: DistributedRows, counted: RowsThatCount) -> RemoteCodes:
    """Let workers code and keep the rows that count, and return their codes, which own the kept blocks."""
    return RemoteCodes(rows.pinned(counted.wanted, SortedBlocks(counted)))


def remote_codes_by_group(
    rows: DistributedRows, counted: RowsThatCount, shape: tuple[int, ...]
) -> tuple[OrderedCodes, ...]:
    """Return the codes of each group, in the order of the cells: ranges of one multiset that workers keep."""
    first, last = counted.coding.ranges[-1]
    width = last - first + 1
    if not fits_in_groups(counted.coding, shape):
        raise SourceError("the codes of all groups do not fit into 63 bits; declare bounds and a granularity")
    whole = RemoteCodes(rows.pinned(counted.wanted, SortedBlocks(counted, shape)))
    return tuple(GroupCodes(whole, cell * width, width, first) for cell in range(prod(shape)))


def fits_in_groups(coding: Coding, shape: tuple[int, ...]) -> bool:
    """Return whether the codes of all groups fit into 63 bits one group after the other: a public fact."""
    first, last = coding.ranges[-1]
    return prod(shape) * (last - first + 1) < 1 << 63


class GroupCodes(OrderedCodes):
    """The codes of one group: `width` codes from `start` on, which stand for `first` and up."""

    __slots__ = ("_before", "_first", "_size", "_start", "_whole")

    def __init__(self, whole: RemoteCodes, start: int, width: int, first: int) -> None:
        self._whole, self._start, self._first = whole, start, first
        self._before = whole.span(start)[0]
        self._size = whole.span(start + width)[0] - self._before

    @property
    def size(self) -> int:
        return self._size

    def span(self, code: int) -> tuple[int, int]:
        before, until = self._whole.span(self._start + code - self._first)
        return before - self._before, until - self._before

    def tie_at(self, k: int) -> tuple[int, int, int]:
        code, before, until = self._whole.tie_at(k + self._before)
        return code - self._start + self._first, before - self._before, until - self._before

    def __repr__(self) -> str:
        return "GroupCodes(private)"


def _cut(low: int, high: int, buckets: int) -> BucketRange:
    """Divide a range into at most this many buckets of a power of two."""
    shift = max(0, (-(-(high - low) // buckets) - 1).bit_length())
    return BucketRange(low, shift, max(1, -(-(high - low) // (1 << shift))))


def _cumulative(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
