"""At most k rows of each person count: the choice depends on the person's own rows alone, the same on every engine.

A row is what its codes are; rows of a person with the same codes are interchangeable. The n-th of them gets the key
mix(person, codes, n), and the k smallest keys stay (ties by the codes themselves). So the choice is a fixed
pseudo-random one: no order of the file, no other person, no size of a value enters, and the multiset of codes that
stays is the same wherever it is computed. Adding or removing one person leaves every other person's rows as they are.

Where rows lie in groups (the first codes of a row name its group), three limits apply one after the other, each a map
of one person's rows: of the person's distinct groups, ordered by mix(person, group codes), the first g stay; in each
group the m rows of smallest mix; of what is left the k rows of smallest mix. The first does not look at rows, otherwise
large groups would win and small ones would be starved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays
from sidelight.aggregates.mix import mixed_frame, mixed_keys
from sidelight.errors import SourceError
from sidelight.records.person_key import person_key, text_key
from sidelight.records.rows import DistinctTexts, TextCells, WholeIds

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

#: An odd number, by which the bits of ids are spread before a slice is chosen: 2**64 over the golden ratio.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
#: A table of persons and groups is made if it has at most this many cells, or two a row.
_FEW_GROUPS = 1 << 16


class PersonKeys(Protocol):
    """Persons by their numbers, of whom a cap asks for the key alone."""

    def keys(self, numbers: NDArray[np.int64], /) -> NDArray[np.int64]:
        """Return the key of each row's person."""


class Persons:
    """The persons of rows, or of the rows of one of `slices` slices of all persons."""

    __slots__ = ("_first", "_numbers", "_parts", "_slice", "_slices", "_values", "_whole")

    def __init__(self, *, place: int = 0, slices: int = 1) -> None:
        self._slice, self._slices = place, slices
        self._whole = True
        self._parts: list[NDArray[np.int64]] = []
        self._numbers: dict[str, int] = {}
        self._first = 0
        self._values: NDArray[np.int64] | None = None

    def fold(self, ids: TextCells | WholeIds, kept: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Add the kept rows of a batch (None: all) that have an id in the slice; return which rows these are."""
        if isinstance(ids, WholeIds) and self._whole:
            stays = np.ones(len(ids), bool) if ids.named is None else ids.named
            stays = stays if kept is None else stays & kept
            if self._slices > 1:
                stays = stays & (_slices_of(ids.values, self._slices) == self._slice)
            self._parts.append(ids.values[stays])
            return stays
        if self._slices > 1:  # decided by the type of the column: the file was replaced
            raise SourceError("the ids of persons are not integers any more: the files were changed during the pass")
        if self._whole:  # texts after whole numbers: these are texts, too
            self._whole = False
            self._parts = [self._looked_up(WholeIds(part)) for part in self._parts]
        numbers = self._looked_up(ids)
        stays = numbers >= 0 if kept is None else kept & (numbers >= 0)
        self._parts.append(numbers[stays])
        return stays

    def get(self, text: str | None, default: int) -> int:
        return default if text is None else self._numbers.setdefault(text, len(self._numbers))

    def _looked_up(self, ids: TextCells | WholeIds) -> NDArray[np.int64]:
        if isinstance(ids, DistinctTexts):
            return ids.codes(self, lambda: self, -1)
        return np.fromiter((self.get(text, -1) for text in ids.tolist()), np.int64, len(ids))

    def numbers(self) -> NDArray[np.int64]:
        """Return the number of each row's person, from 0 on, in the order of the added rows."""
        found = np.concatenate([np.empty(0, np.int64), *self._parts])
        self._parts = []
        if not self._whole or not len(found):
            return found
        low, high = int(found.min()), int(found.max())
        if high - low < 4 * len(found):  # unused numbers cost less than sorting
            self._first = low
            found -= low
            return found
        self._values, places = np.unique(found, return_inverse=True)
        return places.astype(np.int64, copy=False)

    def keys(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the key of each row's person, computed for the persons of these rows only."""
        keys = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
        there = np.zeros(len(keys), bool)
        there[numbers] = True
        wanted = np.flatnonzero(there)
        if not self._whole:
            names = list(self._numbers)
            texts = (names[number] for number in wanted.tolist())
        else:
            values = wanted + self._first if self._values is None else self._values[wanted]
            texts = (str(value) for value in values.tolist())
        keys[wanted] = np.fromiter(map(text_key if self._whole else person_key, texts), np.int64, len(wanted))
        return keys[numbers]

    def __repr__(self) -> str:
        return "Persons(private)"


def _slices_of(values: NDArray[np.int64], slices: int) -> NDArray[np.uint64]:
    """Return the slice of each id, by the id alone."""
    high = values.view(np.uint64) * _SPREAD >> np.uint64(32)  # low bits of a product follow low bits of the id alone
    return np.asarray(high * np.uint64(slices) >> np.uint64(32))


@dataclass(frozen=True, kw_only=True)
class UnitCap:
    """How many rows of one person count: `rows` in all, in at most `groups` groups, at most `per_group` in each.

    The first `group_codes` codes of a row name its group. With `once`, rows of a person with the same codes are one.
    """

    rows: int
    group_codes: int = 0
    groups: int | None = None
    per_group: int | None = None
    once: bool = False

    @property
    def least(self) -> int:
        """The number of rows of a person that always count."""
        return min(limit for limit in (self.rows, self.groups, self.per_group) if limit is not None)

    def words(self, *, once: bool, by_group: bool) -> str:
        """Describe which rows of a person count; `once`: all rows of a person in a group are one total.

        >>> UnitCap(rows=3, group_codes=1, groups=2, per_group=3).words(once=False, by_group=True)
        'at most 3 rows of a person, in at most 2 groups; the rest is left out, and all rows may give another number'
        """
        groups = min(self.rows, self.groups or self.rows)
        at_most = f"in at most {groups} group{'' if groups == 1 else 's'}"
        if once or self.per_group == 1:
            said = "all rows of a person in a group as one total" if once else "each person once"
            if not by_group:
                beyond = "; what lies beyond the clip is left out, and unclipped totals may give another number"
                return f"{said}{beyond if once else ''}"
            said = f"{said}, {at_most}"
        else:
            said = f"at most {self.rows} row{'' if self.rows == 1 else 's'} of a person"
            said += f", {at_most}" if self.limits_groups else ""
            said += f", at most {self.per_group} in each group" if by_group and self.limits_per_group else ""
        return f"{said}; the rest is left out, and all rows may give another number"

    @property
    def limits_groups(self) -> bool:
        """Whether the first limit does anything: k rows lie in at most k groups."""
        return self.group_codes > 0 and self.groups is not None and self.groups < self.rows

    @property
    def limits_per_group(self) -> bool:
        """Whether the second limit does anything."""
        return self.per_group is not None and self.per_group < self.rows

    @property
    def limits_rows(self) -> bool:
        """Whether the third limit does anything after the other two."""
        if not self.limits_per_group or self.groups is None or self.per_group is None:
            return True
        if self.group_codes > 0 and not self.limits_groups:
            return True
        return self.groups * self.per_group > self.rows


def cap_arrays(
    persons: tuple[Persons, NDArray[np.int64]], codes: CodeArrays, ranges: Sequence[tuple[int, int]], cap: int | UnitCap
) -> CodeArrays:
    """Keep at most k rows of each person, in any order; `persons` are the ids and the number of each row's person."""
    cap = UnitCap(rows=cap) if isinstance(cap, int) else cap
    stays = places_that_count(persons, codes, codes, ranges, cap)
    return tuple(code[stays] for code in codes)


def places_that_count(
    persons: tuple[PersonKeys, NDArray[np.int64]],
    codes: CodeArrays,
    mixed: CodeArrays,
    ranges: Sequence[tuple[int, int]],
    cap: UnitCap,
) -> NDArray[np.int64]:
    """Return which rows count.

    `mixed` are the codes that enter the mix, within `ranges`; `codes` distinguish rows and break ties. They differ for
    undeclared labels, which are mixed by a hash of their text.
    """
    ids, person = persons
    everyone = np.arange(len(person))
    groups = _groups_in(ranges, cap)
    if cap.groups is not None and groups <= cap.groups:  # no person is in more groups than there are
        cap = replace(cap, groups=None)
    if not cap.once and len(person):
        few = _is_within(person, codes, ranges, cap, groups)[person]
        safe, rest = everyone[few], everyone[~few]
    else:
        safe, rest = everyone[:0], everyone
    if not len(rest):
        return safe
    person = person[rest]
    few_codes, few_mixed = tuple(code[rest] for code in codes), tuple(code[rest] for code in mixed)
    packs = int(person.max()) < 1 << 32  # a person's number and a key of 31 bits are one whole number
    by_rows = packs and not (cap.once or cap.limits_groups or cap.limits_per_group)
    within = _places_of_rows if by_rows else _places_within
    return np.concatenate([safe, rest[within(ids.keys(person), person, few_codes, few_mixed, ranges, cap)]])


def _groups_in(ranges: Sequence[tuple[int, int]], cap: UnitCap) -> int:
    """Return how many groups there may be, by the ranges of their codes."""
    return math.prod(last - first + 1 for first, last in ranges[: cap.group_codes])


def _is_within(
    person: NDArray[np.int64], codes: CodeArrays, ranges: Sequence[tuple[int, int]], cap: UnitCap, groups: int
) -> NDArray[np.bool_]:
    """Return for each person whether no limit touches the rows: of many groups, whether rows are as few as the least.

    `groups` is how many groups there may be.
    """
    rows = np.bincount(person)
    if not (cap.limits_groups or cap.limits_per_group):
        return np.asarray(rows <= cap.rows)
    if groups * len(rows) > 2 * len(person) + _FEW_GROUPS:
        return np.asarray(rows <= cap.least)
    cell = person
    for code, (first, last) in zip(codes[: cap.group_codes], ranges, strict=False):
        cell = cell * (last - first + 1) + (code - first)
    counts = np.bincount(cell, minlength=groups * len(rows)).reshape(len(rows), groups)
    within = rows <= cap.rows
    if cap.limits_groups and cap.groups is not None:
        within &= np.count_nonzero(counts, axis=1) <= cap.groups
    if cap.limits_per_group and cap.per_group is not None:
        within &= counts.max(axis=1) <= cap.per_group
    return np.asarray(within)


def _places_of_rows(
    keys: NDArray[np.int64],
    person: NDArray[np.int64],
    codes: CodeArrays,
    mixed: CodeArrays,
    ranges: Sequence[tuple[int, int]],
    cap: UnitCap,
) -> NDArray[np.int64]:
    """Return the choice of `_places_within` where rows alone are limited, by one sort of one whole number a row.

    All rows are first assumed to have distinct codes. Persons with equal rows, or with codes of equal keys, have ties:
    their rows are chosen again, with running numbers.
    """
    packed = person * (1 << 31) + mixed_keys(keys, mixed, ranges, np.zeros_like(person))
    order = np.argsort(packed)
    ordered = packed[order]
    ties = ordered[1:] == ordered[:-1]
    if not ties.any():
        return order[_place_in_run([ordered >> 31]) < cap.rows]
    again = np.zeros(int(person.max()) + 1, bool)
    again[ordered[1:][ties] >> 31] = True
    looked_at = again[ordered >> 31]
    sure = order[~looked_at]
    sure = sure[_place_in_run([person[sure]]) < cap.rows]
    rest = order[looked_at]
    few_codes, few_mixed = tuple(code[rest] for code in codes), tuple(code[rest] for code in mixed)
    return np.concatenate([sure, rest[_places_within(keys[rest], person[rest], few_codes, few_mixed, ranges, cap)]])


def _places_within(
    keys: NDArray[np.int64],
    person: NDArray[np.int64],
    codes: CodeArrays,
    mixed: CodeArrays,
    ranges: Sequence[tuple[int, int]],
    cap: UnitCap,
) -> NDArray[np.int64]:
    stays = sorted_by([person, *codes])
    nth = _place_in_run([person[stays], *(code[stays] for code in codes)])
    if cap.once:
        stays, nth = stays[nth == 0], nth[nth == 0]
    if cap.limits_groups and cap.groups is not None:
        first = cap.group_codes
        mix = mixed_keys(keys[stays], [code[stays] for code in mixed[:first]], ranges[:first], np.zeros_like(nth))
        groups = [code[stays] for code in codes[:first]]
        order = sorted_by([person[stays], mix, *groups])
        ordered = person[stays][order]
        starts = run_starts([ordered, mix[order], *(group[order] for group in groups)])
        place = np.cumsum(starts) - 1  # the number of the group among all
        leading = np.maximum.accumulate(np.where(run_starts([ordered]), place, 0))
        kept = np.zeros(len(order), bool)
        kept[order[place - leading < cap.groups]] = True
        stays, nth = stays[kept], nth[kept]
    if not (cap.limits_per_group or cap.limits_rows):
        return stays
    if cap.limits_per_group and cap.per_group is not None and len(codes) == cap.group_codes:
        most = cap.groups if cap.limits_groups and cap.groups is not None else _groups_in(ranges, cap)
        if most * cap.per_group <= cap.rows:  # rows of a group are equal: any of them may stay, and no more are taken
            return stays[nth < cap.per_group]
    mix = mixed_keys(keys[stays], [code[stays] for code in mixed], ranges, nth)
    if cap.limits_per_group and cap.per_group is not None:
        groups = [code[stays] for code in codes[: cap.group_codes]]
        order = sorted_by([person[stays], *groups, mix, *(code[stays] for code in codes)])
        place = _place_in_run([person[stays][order], *(group[order] for group in groups)])
        kept_places = order[place < cap.per_group]
        stays, mix = stays[kept_places], mix[kept_places]
    if cap.limits_rows:
        order = sorted_by([person[stays], mix, *(code[stays] for code in codes)])
        stays = stays[order[_place_in_run([person[stays][order]]) < cap.rows]]
    return stays


def sorted_by(keys: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return an order by several keys, the first is the most significant; equal rows come in any order.

    As many keys as fit are packed into one integer, which is sorted once; the others only break its ties.

    >>> sorted_by([np.array([1, 0, 1]), np.array([2, 9, -5])]).tolist()
    [1, 2, 0]
    """
    packed, room = np.zeros(len(keys[0]), np.int64), 1 << 62
    for key in keys:
        low, high = (int(key.min()), int(key.max())) if len(key) else (0, 0)
        if high - low >= room:
            break
        room //= high - low + 1
        packed = packed * (high - low + 1) + (key - low)
    else:
        return np.argsort(packed)
    order = np.argsort(packed)
    ordered = packed[order]
    return np.lexsort(tuple(reversed(keys))) if (ordered[1:] == ordered[:-1]).any() else order


def cap_frame(
    frame: nw.LazyFrame[Any], columns: Sequence[str], ranges: Sequence[tuple[int, int]], cap: int | UnitCap
) -> Any:
    """Keep the rows of each person that count inside an engine: `cap_arrays` as expressions."""
    import narwhals.stable.v2 as nw

    cap = UnitCap(rows=cap) if isinstance(cap, int) else cap
    groups = list(columns[: cap.group_codes])
    frame = frame.with_columns(nw.lit(1, nw.Int64).alias("one"))
    nth = nw.col("one").cum_sum().over("person", *columns, order_by="one").cast(nw.Int64) - 1
    frame = frame.with_columns(nth.alias("nth"))
    if cap.once:
        frame = frame.filter(nw.col("nth") == 0)
    if cap.limits_groups:
        frame = mixed_frame(frame, groups, ranges[: cap.group_codes])
        among = nw.col("one").cum_sum().over("person", *groups, order_by="one").cast(nw.Int64)
        frame = frame.with_columns(among.alias("among"))  # 1 for one row of each group, which leads it below
        first = nw.when(nw.col("among") == 1).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
        frame = frame.with_columns(first.alias("leads"))
        place = nw.col("leads").cum_sum().over("person", order_by=["mix", *groups, "among"])
        frame = frame.with_columns(place.cast(nw.Int64).alias("place")).filter(nw.col("place") <= cap.groups)
    frame = mixed_frame(frame, columns, ranges, nw.col("nth"))
    if cap.limits_per_group:
        place = nw.col("one").cum_sum().over("person", *groups, order_by=["mix", *columns])
        frame = frame.with_columns(place.cast(nw.Int64).alias("place")).filter(nw.col("place") <= cap.per_group)
    if cap.limits_rows:
        place = nw.col("one").cum_sum().over("person", order_by=["mix", *columns])
        frame = frame.with_columns(place.cast(nw.Int64).alias("place")).filter(nw.col("place") <= cap.rows)
    return frame


def run_starts(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Mark the start of each run of equal rows."""
    starts = np.zeros(len(columns[0]), bool)
    starts[:1] = True
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    return starts


def _place_in_run(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return 0, 1, 2, ... within each run of equal rows."""
    places = np.arange(len(columns[0]))
    return places - np.maximum.accumulate(np.where(run_starts(columns), places, 0))
