"""The owner of a row: claimants along the path to the person, and rows that no one or several people claim.

With A(r) the claimants of a row: its id with `PersonId`; with `PersonVia` the union over all rows of the other table
with its key. A row is owned by p if A(r) = {p}. Only the two ends of A(r) in some order of the persons are kept: a
union has the least of the least and the largest of the largest, and A(r) = {p} exactly if both ends are p. A contested
row hands both ends down, so that a row below one is claimed by all of its claimants; without that a person who leaves
would take rows from another (proof page persons-across-tables, Theorem 2).

With a window the claimants of dated rows are pairs of a person and a period, numbered person * periods + period, and
all of this holds for pairs: a line whose order occurs in two months is contested. A view with `cap="block"` keeps these
pairs as the owners of dated rows: they are matched, capped and counted as persons are in other views.

Owned rows are held for a slice of the persons at a time. Everything that a view makes of them is a map of one person's
rows, so slices change time and memory only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.key_numbers import NONE, KeyNumbers, Numbering, Whole
from sidelight.records import Category, Label, Number
from sidelight.records.held_rows import GrowingIds, GrowingRows, HeldRows, IdCells
from sidelight.records.linked_tables import LinkedTables
from sidelight.records.rows import Batch, DistinctTexts, Wanted, WholeIds
from sidelight.records.source_protocols import batches_with_keys

#: The most cells of one slice of the persons (512 MB, and about three times that while a view is made of them).
MOST_CELLS = 1 << 26
#: The most slices: beyond, one person's rows are most of those that are held.
_MOST_SLICES = 1 << 12
#: Rows to a batch: large enough that looking keys up is cheap.
_ROWS = 1 << 17
#: An odd number, by which the bits of a person's number are spread: 2**64 over the golden ratio.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass
class NeededColumns:
    """What a view reads of a table: declared columns, and parts of keys."""

    columns: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class PersonSlice:
    """The persons whose spread number begins with the bits of `place`, of `slices`, a power of two."""

    place: int = 0
    slices: int = 1

    def has(self, persons: Whole) -> NDArray[np.bool_]:
        """Return which persons are in the slice; -1, no owner, is in none."""
        there = np.asarray(persons != NONE)
        if self.slices == 1:
            return there
        high = persons.view(np.uint64) * _SPREAD >> np.uint64(32)
        return np.asarray(there & (high * np.uint64(self.slices) >> np.uint64(32) == np.uint64(self.place)))

    def halves(self) -> tuple[PersonSlice, PersonSlice]:
        """Return the slice in two parts."""
        return PersonSlice(2 * self.place, 2 * self.slices), PersonSlice(2 * self.place + 1, 2 * self.slices)


@dataclass(frozen=True, eq=False, repr=False)
class ClaimedKeys:
    """The two ends of the claimants of each row, -1 where there are none."""

    least: Whole
    largest: Whole

    @property
    def owner(self) -> Whole:
        """The one claimant of each row, -1 where there are none or several."""
        return owner_of(self.least, self.largest)


@dataclass(frozen=True, eq=False, repr=False)
class OpenTable:
    """The rows of a table that were read: their cells, the numbers of their keys, and the owner of each row.

    A public table has no owners, and a private one no rows but owned ones.
    """

    rows: HeldRows
    owner: Whole
    key: tuple[str, ...]
    wholes: tuple[bool, ...]

    @cached_property
    def numbers(self) -> KeyNumbers:
        """How the keys of the rows are numbered."""
        return KeyNumbers(self.wholes)

    @cached_property
    def own_keys(self) -> Whole:
        """The number of each row's own key."""
        return self.numbers.of([self.rows.keys[name] for name in self.key], grow=True)

    def keys_named(self, other: OpenTable, columns: Sequence[str]) -> Whole:
        """Return the number of the key that each row of another table names, -1 if no row here has it."""
        _ = self.own_keys
        return self.numbers.of([other.rows.keys[name] for name in columns], grow=False)


class Owners:
    """Who owns the rows of each table: what is known of all persons, whatever slice of them is looked at."""

    def __init__(
        self, tables: LinkedTables, *, periods: tuple[int, int] | None = None, by_period: bool = False
    ) -> None:
        self.tables, self._periods, self._by_period = tables, periods, by_period
        self._persons = Numbering(whole=tables.persons_are_whole)
        self._pairs = Numbering(whole=True)  # of a person and a period, which are few of all that might be
        self._claimed: dict[str, tuple[KeyNumbers, ClaimedKeys]] = {}

    def wanted_for(self, name: str) -> Wanted:
        """Name the columns by which the claimants of a row are found."""
        via, person = self.tables.schema(name).via, self.tables.own_person(name)
        if via is not None:
            return Wanted(keys=via.columns)
        assert person is not None
        date = self.tables.date_of(name)
        numbers = () if date is None else (date.name,)
        # ids that are read in another way than letter for letter are read as those of a single table
        if person.reading is None:
            return Wanted(numbers=numbers, keys=(person.name,))
        return Wanted(numbers=numbers, person=person.name)

    def prepare(self, name: str) -> None:
        """Settle who claims which key of the tables above a table, one pass over the keys of each."""
        via = self.tables.schema(name).via
        if via is not None and via.to not in self._claimed:
            self._claimed[via.to] = self._claims_of_keys(via.to)

    def claims(self, name: str, batch: Batch) -> ClaimedKeys:
        """Return the claimants of the rows of a batch."""
        via = self.tables.schema(name).via
        if via is None:
            ids = batch.person if batch.person is not None else batch.keys[self.tables.person_column(name).name]
            person = self._persons.of(ids, grow=True)
            date, window = self.tables.date_of(name), self.tables.window
            if date is not None and window is not None:
                period = window.numbers_of(batch.numbers[date.name], date)
                unowned = (person == NONE) | (period == NONE)
                person = np.where(unowned, NONE, person * len(window.names) + period)
            return ClaimedKeys(person, person)
        keys, by_key = self._claimed[via.to]
        named = keys.of([batch.keys[column] for column in via.columns], grow=False)
        least = by_key.least[named]
        return ClaimedKeys(least, least if by_key.largest is by_key.least else by_key.largest[named])

    def owner(self, name: str, batch: Batch) -> Whole:
        """Return who owns each row, -1 for rows without an owner or that lie in other periods than asked.

        An owner is a person, or, of dated rows that are capped by period, a person and a period.
        """
        owner, window = self.claims(name, batch).owner, self.tables.window
        if window is None or self.tables.date_of(name) is None:
            return owner
        person, period = np.divmod(owner, len(window.names))
        first, last = (0, len(window.names)) if self._periods is None else self._periods
        asked = (owner != NONE) & (period >= first) & (period <= last)
        if self._by_period:
            return self._pairs.of(WholeIds(owner, asked), grow=True)
        return np.where(asked, person, NONE)

    def is_by_period(self, name: str) -> bool:
        """Return whether the owners of the rows of a table are pairs of a person and a period."""
        return self._by_period and self.tables.date_of(name) is not None

    def size(self, name: str) -> int:
        """Return one more than the largest number of an owner of rows of a table."""
        return self._pairs.size if self.is_by_period(name) else self._persons.size

    def person_of(self, name: str, owner: Whole) -> Whole:
        """Return the person of each owner of rows of a table, -1 of none."""
        return np.where(owner == NONE, NONE, self._parts(owner)[0]) if self.is_by_period(name) else owner

    def matching(self, base: str, to: str, owner: Whole) -> Whole:
        """Return the owners of rows of a base as those of another table are numbered: of timeless rows by person."""
        return owner if self.is_by_period(to) else self.person_of(base, owner)

    def cells(self, name: str, owner: Whole) -> IdCells:
        """Return the id of each owner of rows of a table; of a person and a period a text that has both."""
        if not self.is_by_period(name):
            return self._persons.cells(owner)
        assert self.tables.window is not None
        distinct, places = np.unique(owner, return_inverse=True)
        person, period = self._parts(distinct)
        periods = [self.tables.window.names[each] for each in period.tolist()]
        ids = self._persons.cells(person).tolist()
        return DistinctTexts([f"{when} {who}" for when, who in zip(periods, ids, strict=True)], places.reshape(-1))

    def _parts(self, owner: Whole) -> tuple[Whole, Whole]:
        """Return the person and the period of each pair."""
        assert self.tables.window is not None
        pairs = self._pairs.cells(owner)
        assert isinstance(pairs, WholeIds)
        person, period = np.divmod(pairs.values, len(self.tables.window.names))
        return person, period

    def _claims_of_keys(self, name: str) -> tuple[KeyNumbers, ClaimedKeys]:
        """Return the ends of the claimants of each key of a table; the last entry is what a missing key finds."""
        self.prepare(name)
        key = self.tables.schema(name).key
        assert key is not None
        own = self.wanted_for(name)
        wanted = replace(own, keys=tuple(dict.fromkeys([*key.columns, *own.keys])))
        parts = [GrowingIds() for _ in key.columns]
        ends: list[tuple[Whole, Whole]] = []
        for batch in batches_with_keys(self.tables.table(name).rows, wanted, size=_ROWS):
            ends.append(claims_handed_down(self.claims(name, batch)))
            for part, column in zip(parts, key.columns, strict=True):
                part.add(batch.keys[column])
        keys = KeyNumbers(self.tables.keys_are_whole(name))
        numbers = keys.of([part.ids() for part in parts], grow=True)
        del parts
        none = np.empty(0, np.int64)
        low = np.concatenate([none, *(end[0] for end in ends)])
        high = low if all(one is other for one, other in ends) else np.concatenate([none, *(end[1] for end in ends)])
        claimed = (numbers != NONE) & (low != NONE)
        same = high is low
        low = low[claimed]
        return keys, _ends_by_key(numbers[claimed], low, low if same else high[claimed], keys.size)


def _ends_by_key(numbers: Whole, low: Whole, high: Whole, size: int) -> ClaimedKeys:
    """Return the least of the least and the largest of the largest of each key, one array where they are the same."""
    largest = np.full(size + 1, NONE)
    largest[numbers] = high
    if high is low and np.array_equal(largest[numbers], high):  # no key is claimed by two
        return ClaimedKeys(largest, largest)
    np.maximum.at(largest, numbers, high)
    least = np.full(size + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, numbers, low)
    return ClaimedKeys(np.where(largest == NONE, NONE, least), largest)


def owner_of(least: Whole, largest: Whole) -> Whole:
    """Return the one claimant of each row, -1 where there are none or several."""
    return least if least is largest else np.where(least == largest, least, NONE)


def claims_handed_down(claims: ClaimedKeys) -> tuple[Whole, Whole]:
    """Return the claims that rows below inherit: those of contested rows too, which keep them."""
    return claims.least, claims.largest


class OpenDatabase:
    """The owned rows of some persons, of the tables that a view reads.

    A table may be read several times: for the claims on its keys, for its rows, and for all columns of its rows where
    ties have to be broken. What was read is the state that a release is about; rows of two passes are never mixed.
    """

    def __init__(self, owners: Owners, needed: Mapping[str, NeededColumns], persons: PersonSlice) -> None:
        self.tables, self.owners, self.slice = owners.tables, owners, persons
        #: The slices that were left for later, because the rows of all persons did not fit.
        self.left: list[PersonSlice] = []
        self._needed = needed
        self._open: dict[tuple[str, bool], OpenTable] = {}
        self._cells = 0

    def table(self, name: str, *, whole: bool = False) -> OpenTable:
        """Return the owned rows of a table with those of its columns that are needed, or, with `whole`, all of them."""
        if (name, whole) not in self._open:
            self._open[(name, whole)] = self._read(name, whole=whole)
        return self._open[(name, whole)]

    def has(self, name: str, owner: Whole) -> NDArray[np.bool_]:
        """Return which owners of rows of a table are persons of the slice."""
        return self.slice.has(self.owners.person_of(name, owner))

    def close(self) -> None:
        """Let the tables go."""
        self._open.clear()

    def _read(self, name: str, *, whole: bool) -> OpenTable:
        table, schema = self.tables.table(name), self.tables.schema(name)
        key = () if schema.key is None else schema.key.columns
        wholes = self.tables.keys_are_whole(name) if key else ()
        if table.is_public:
            return OpenTable(self.tables.public_rows[name], np.empty(0, np.int64), key, wholes)
        needed = self._needed.get(name, NeededColumns())
        columns = [each for each in schema.columns if whole or each.name in needed.columns]
        tied = [column for link in schema.links for column in link.columns if whole or column in needed.keys]
        self.owners.prepare(name)
        asked = Wanted(
            numbers=tuple(each.name for each in columns if isinstance(each, Number)),
            texts=tuple(each.name for each in columns if isinstance(each, (Category, Label))),
            keys=tuple(dict.fromkeys(tied)),
        )
        rows, owner = self._owned(name, asked)
        return OpenTable(rows, owner, key, wholes)

    def _owned(self, name: str, asked: Wanted) -> tuple[HeldRows, Whole]:
        own = self.owners.wanted_for(name)
        wanted = Wanted(
            numbers=tuple(dict.fromkeys([*asked.numbers, *own.numbers])),
            texts=asked.texts,
            person=own.person,
            keys=tuple(dict.fromkeys([*asked.keys, *own.keys])),
        )
        growing, owners = GrowingRows(asked), list[Whole]()
        for batch in batches_with_keys(self.tables.table(name).rows, wanted, size=_ROWS):
            owner = self.owners.owner(name, batch)
            kept = self.has(name, owner)
            growing.add(batch, slice(None) if kept.all() else kept)
            owners.append(owner[kept])
            while self._cells + growing.cells > MOST_CELLS and self.slice.slices < _MOST_SLICES:
                self.slice, later = self.slice.halves()
                self.left.append(later)
                still = [self.has(name, part) for part in owners]
                growing.drop(still)
                owners = [part[each] for part, each in zip(owners, still, strict=True)]
        self._cells += growing.cells
        return growing.rows(), np.concatenate([np.empty(0, np.int64), *owners])

    def __repr__(self) -> str:
        return "OpenDatabase(private)"


def slices(owners: Owners, needed: Mapping[str, NeededColumns]) -> Iterator[OpenDatabase]:
    """Return the tables for one slice of the persons after the other; each is let go before the next is read."""
    left = [PersonSlice()]
    while left:
        database = OpenDatabase(owners, needed, left.pop())
        yield database
        left += database.left
