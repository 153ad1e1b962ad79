"""Many to many: pairs of rows of one person, the only join that multiplies.

Each step is a map of one person's rows (docs: proofs, persons across tables, Theorem 4): conditions that name one side
choose its rows, and rows that name no key leave; each side is cut to its own cap by mix(person, codes that are read of
it, key); rows with the same owner and key meet; the other conditions choose among the pairs. The cap on pairs is the
query's, after everything else. Without the cut a person with a million rows on each side would make 10^12 pairs, and
whether a release survives that would depend on the person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.aggregates.contributions import PersonKeys, UnitCap, places_that_count
from sidelight.aggregates.expression_values import BatchScope, truth_of
from sidelight.aggregates.key_numbers import NONE, Whole
from sidelight.aggregates.lookups import PairIndex, by_bytes
from sidelight.aggregates.row_codes import HASHES, codes_read, for_rows
from sidelight.records import Schema
from sidelight.records.expressions import Expression, Named
from sidelight.records.held_rows import HeldRows, IdCells, as_texts
from sidelight.records.person_key import person_key
from sidelight.records.rows import Batch, DistinctTexts, WholeIds
from sidelight.records.views import ROW

#: Pairs that are made at once, unless one person has more.
_AT_ONCE = 1 << 21


@dataclass(frozen=True, eq=False, repr=False)
class PairSide:
    """The rows of one side, columns under their names in the view of pairs.

    Args:
        rows: Their cells.
        owner: The number of each row's owner.
        key: The number of the key that each row names, -1 of none; None if the person alone decides.
        texts: The parts of that key, as they are written.
        read: The columns that the query reads of this side, in an order that its spelling does not change.
    """

    rows: HeldRows
    owner: Whole
    key: Whole | None
    texts: Sequence[IdCells]
    read: Sequence[str]

    def at(self, kept: Any) -> PairSide:
        """Return some of the rows."""
        key = None if self.key is None else self.key[kept]
        return PairSide(self.rows.at(kept), self.owner[kept], key, [each[kept] for each in self.texts], self.read)

    def cut(self, schema: Schema, conditions: Sequence[Expression], persons: PersonKeys, most: int) -> PairSide:
        """Return the rows that pass, and of these at most `most` of each person."""
        kept = self.owner != NONE if self.key is None else (self.owner != NONE) & (self.key != NONE)
        side = self.at(kept & _passed(schema, conditions, self.rows))
        return side.at(side._chosen(schema, persons, most))

    def _chosen(self, schema: Schema, persons: PersonKeys, most: int) -> Any:
        """Return the rows of least mix; ties go by the codes themselves, then by the texts of the key."""
        rows = np.bincount(self.owner)
        many = np.flatnonzero((rows > most)[self.owner])
        chosen = np.ones(len(self.owner), bool)
        if not len(many):
            return chosen
        few = self.at(many)
        scope = BatchScope(schema, few.batch)
        codes: list[Whole] = []
        mixed: list[Whole] = []
        ranges: list[tuple[int, int]] = []
        for name in self.read:
            column = codes_read(Named(name), scope)
            known = column.known.astype(np.int64)
            codes += [np.where(column.known, column.codes, 0), known]
            mixed += [np.where(column.known, column.mixed, column.range[0]), known]
            ranges += [column.range, (0, 1)]
        for part in few.texts:
            codes.append(by_bytes(part))
            mixed.append(_hashes(part))
            ranges.append(HASHES)
        if not codes:  # rows of which nothing is read are all alike
            codes = mixed = [np.zeros(len(many), np.int64)]
            ranges = [(0, 0)]
        stays = places_that_count((persons, few.owner), tuple(codes), tuple(mixed), ranges, UnitCap(rows=most))
        chosen[many] = False
        chosen[many[stays]] = True
        return chosen

    @property
    def batch(self) -> Batch:
        """The cells as a batch."""
        return Batch(self.rows.length, self.rows.numbers, self.rows.texts)


def _hashes(part: IdCells) -> Whole:
    """Return a hash of each text, by the text alone."""
    texts = as_texts(part) if isinstance(part, WholeIds) else part
    found = np.array([*(0 if text is None else person_key(text) for text in texts.cells), 0], np.int64)
    hashes: Whole = found[texts.places]
    return hashes


def _passed(schema: Schema, conditions: Sequence[Expression], rows: HeldRows) -> Any:
    batch = Batch(rows.length, rows.numbers, rows.texts)
    scope = BatchScope(schema, batch)
    passed = np.ones(rows.length, bool)
    for each in conditions:
        passed &= for_rows(truth_of(each, scope)[0], batch)
    return passed


class MatchedRows:
    """All pairs of two sides that were cut, made for some persons at a time."""

    def __init__(self, left: PairSide, right: PairSide, sizes: tuple[int, int]) -> None:
        """Index the right side; `sizes` are one more than the largest number of a person, and of a key."""
        persons, keys = sizes
        self._left, self._right = left.at(np.argsort(left.owner, kind="stable")), right
        index = PairIndex(right.owner, right.key, persons if right.key is None else keys)
        self._order = np.argsort(index.group, kind="stable")
        times = np.bincount(index.group, minlength=index.groups)  # a row without a key was left out
        first = np.cumsum(times) - times
        group = index.find(self._left.owner, self._left.key)
        self._times, self._first = np.append(times, 0)[group], np.append(first, 0)[group]

    def parts(self) -> list[Whole]:
        """Return the left rows in parts: all of a person in one, and not more pairs than fit, or one person's."""
        before = np.cumsum(self._times) - self._times
        owner = self._left.owner
        starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])) if len(owner) else owner
        bucket = before[starts] // _AT_ONCE
        cuts = starts[1:][bucket[1:] != bucket[:-1]]
        return np.split(np.arange(len(owner)), cuts)

    def made(
        self, part: Whole, schema: Schema, conditions: Sequence[Expression], persons: Callable[[Whole], IdCells]
    ) -> HeldRows:
        """Return the pairs of some left rows that pass the conditions which name both sides."""
        times = self._times[part]
        left = np.repeat(part, times)
        nth = np.arange(len(left)) - np.repeat(np.cumsum(times) - times, times)
        right = self._order[np.repeat(self._first[part], times) + nth]
        one, two = self._left.rows, self._right.rows
        numbers = {**_at(one.numbers, left), **_at(two.numbers, right)}
        texts: dict[str, DistinctTexts] = {**_at(one.texts, left), **_at(two.texts, right)}
        if schema.names[-1] == ROW:
            texts[ROW] = DistinctTexts(["row"], np.zeros(len(left), np.int64))
        held = HeldRows(len(left), numbers, texts, persons(self._left.owner[left]))
        return held.at(_passed(schema, conditions, held)) if conditions else held


def _at(cells: Mapping[str, Any], rows: Whole) -> dict[str, Any]:
    return {name: each[rows] for name, each in cells.items()}
