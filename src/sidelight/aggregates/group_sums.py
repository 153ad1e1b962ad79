"""Counts, sums and squares by group, in one pass: everything that means and spreads are made of.

A pass adds up, for each group, the number of rows and a few non-negative terms of each value (`values`); pairs, triples
and discs are whole-number combinations of these. Terms are at most 2**30, so a chunk of 2**20 rows is added exactly in
floats. Sums are exact up to 2**42 rows: each is kept in two words, of its last 20 bits and of all others. (A sum that
saturates would move no two tables further apart, but a disc made of two sums would, if only one of them still moves.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded, Norm, persons_in
from sidelight.aggregates.coding import CodeArrays, Coding, cells_of
from sidelight.aggregates.collect import Lowering, collect
from sidelight.aggregates.contributions import UnitCap
from sidelight.aggregates.groups import Groups, groups_of, labelled_rows, present_groups
from sidelight.aggregates.person_vectors import PersonVector
from sidelight.aggregates.sums import WORD, engine_group_sums
from sidelight.aggregates.values import Value
from sidelight.errors import RangeError
from sidelight.records import Table
from sidelight.records.expressions import Expression

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

Kind = Literal["sum", "whole", "pair", "centred", "triple", "disc"]
#: Rows to a chunk: sums of terms up to 2**30 stay below 2**53, where floats are exact.
_CHUNK = 1 << 20

Whole = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupSums:
    """The number of rows and the sums of some terms in each group.

    The state is an array of a row for the counts and two for each term, low and high words; groups are its columns.
    """

    groups: Groups
    values: tuple[Value, ...] = ()
    kind: Kind = "pair"

    @cached_property
    def coding(self) -> Coding:
        """Group codes first, then the values."""
        return self.groups.coding(*(value.coding for value in self.values))

    @property
    def cap(self) -> UnitCap:
        return self.groups.cap

    @property
    def totals(self) -> bool | PersonVector:
        return self.groups.totals

    @property
    def wide(self) -> bool:
        """Whether batches are cheaper even in an engine: labels are looked up quickly there."""
        return self.groups.schema.person is None

    @property
    def folds_in_parallel(self) -> bool:
        """Whether a state is small enough for every thread to have its own."""
        return self.groups.cells * (1 + len(self.terms)) <= _CHUNK

    @cached_property
    def terms(self) -> tuple[tuple[int, Callable[[Any], Any]], ...]:
        """Which value each term is of, and what is added up of its code c."""
        found: list[tuple[int, Callable[[Any], Any]]] = []
        for place, value in enumerate(self.values):
            if self.kind == "triple":
                found += [(place, value.upper_square), (place, value.lower_square)]
            else:
                found.append((place, _itself))
            if self.kind == "disc":
                found.append((place, value.product))
        return tuple(found)

    def empty(self) -> Whole:
        return np.zeros((1 + 2 * len(self.terms), self.groups.cells), np.int64)

    def fold(self, state: Whole, codes: CodeArrays) -> Whole:
        for start in range(0, len(codes[0]), _CHUNK):
            part = tuple(code[start : start + _CHUNK] for code in codes)
            values = zip(self.values, part[len(self.groups.axes) :], strict=False)
            clamped = [value.clamped(code) for value, code in values]
            add_terms(state, self._cells(part), [term(clamped[of]) for of, term in self.terms])
        return state

    @property
    def counts_rows(self) -> bool:
        """Whether nothing but the number of rows is asked."""
        return not self.values

    def fold_repeated(self, state: Whole, codes: CodeArrays, times: Whole) -> Whole:
        """Count rows that each stand for several equal ones."""
        np.add.at(state[0], self._cells(codes), times)
        return state

    def merge(self, first: Whole, second: Whole) -> Whole:
        return first + second

    def finish(self, state: Whole) -> Whole:
        """Return the state: the functions below make statistics of it."""
        return state

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Whole:
        import narwhals.stable.v2 as nw

        axes = len(self.groups.axes)
        cell: Any = nw.lit(0, nw.Int64)
        for column, size in zip(columns[:axes], self.groups.shape, strict=True):
            cell = cell * size + nw.col(column)
        if not axes:
            cell = nw.when(nw.col(columns[0]).is_null()).then(cell).otherwise(cell)
        clamped = [value.clamped(nw.col(columns[axes + place])) for place, value in enumerate(self.values)]
        frame = frame.select(
            cell.alias("cell"), *(code.cast(nw.Int64).alias(f"c{place}") for place, code in enumerate(clamped))
        )
        named = {f"t{place}": term(nw.col(f"c{of}")) for place, (of, term) in enumerate(self.terms)}
        if named:
            frame = frame.with_columns(*(term.alias(name) for name, term in named.items()))
        cells, sums = engine_group_sums(frame, list(named))
        state = self.empty()
        state[:, cells] = sums
        return state

    def _cells(self, codes: CodeArrays) -> Whole:
        return cells_of(codes, self.groups.shape, len(codes[0]))


def _itself(code: Any) -> Any:
    return code


def add_terms(state: Whole, cells: Whole, terms: Sequence[Whole]) -> None:
    """Add at most 2**20 rows to a state: their number, and each term, by cell."""
    size: int = state.shape[1]
    present: Whole | slice = slice(None)
    if size > 4 * len(cells):
        present, cells = np.unique(cells, return_inverse=True)
        size = len(present)
    state[0, present] += np.bincount(cells, minlength=size)
    for place, term in enumerate(terms):
        sums = np.bincount(cells, weights=term, minlength=size).astype(np.int64)
        state[1 + 2 * place, present] += sums & (WORD - 1)
        state[2 + 2 * place, present] += sums >> 20


@dataclass(frozen=True, eq=False, repr=False)
class GroupStatistics:
    """What one pass found: counts, and a statistic of each value, all with the sensitivity of one unit.

    With undeclared labels the last axis of every array is that of `present`, private as the rest; otherwise the axes of
    the groups come last, in the order of `by`.
    """

    counts: Bounded
    values: tuple[Bounded, ...]
    present: tuple[tuple[str, ...], ...] | None = None

    def only(self, keys: Sequence[tuple[str, ...]]) -> GroupStatistics:
        """Return the statistics of some groups, which are public by now; an empty group has zeros.

        Guarantee: the same sensitivities. Entries of a vector that are left out make no norm larger, and which are
        left out does not depend on the unit once `keys` are released.
        """
        assert self.present is not None
        at = {key: place for place, key in enumerate(self.present)}
        places = np.array([at.get(tuple(key), -1) for key in keys], np.int64)
        there = places >= 0

        def chosen(bounded: Bounded) -> Bounded:
            array = np.asarray(bounded.value)
            found = np.zeros((*array.shape[:-1], len(places)), array.dtype)
            found[..., there] = array[..., places[there]]
            return replace(bounded, value=found)

        return GroupStatistics(chosen(self.counts), tuple(map(chosen, self.values)), tuple(map(tuple, keys)))


def group_statistics(
    table: Table,
    groups: Groups,
    values: Sequence[Value] = (),
    *,
    kind: Kind = "pair",
    norm: Norm = "l1",
    lowering: Lowering = "auto",
) -> GroupStatistics:
    """Count the rows of each group and add up statistics of some values, in one pass.

    Guarantee: adding or removing a unit moves the counts as `groups.norms` says, and each statistic by that times the
    norm of one row: "sum" and "pair" M (l1, l2), "triple" T (l1; l2 too), "centred" M, "disc" T (l2), "whole" its
    `farthest`, of `Value`. Vectors of persons move by that `farthest` in all groups together, in l1 and in l2.
    Statistics of several values move together: budgets add up.

    Args:
        table: The rows, of the schema that `groups` was made for.
        groups: Which rows count, where, and how many of a unit.
        values: The values; of totals exactly one.
        kind: "sum" gives Σc; "whole" Σx itself, in units of `whole_step`; "pair" Σc and Σ(M - c); "centred"
            Σ(2c - M); "triple" and "disc" as in `values`. The parts of a pair, triple or disc are the first axis.
        norm: The norm of the sensitivities. "centred", "disc" and "whole" have signs, which replaced units pay for.
        lowering: For tests.
    """
    given = tuple(values)
    if bool(groups.totals) != any(value.total for value in given) or (groups.totals and len(given) != 1):
        raise RangeError("groups of totals need one value made by total_of, and other groups none of them")
    if isinstance(groups.totals, PersonVector):
        cut = groups.totals
        if kind != "whole" or not cut.cut or given[0].farthest != cut.most:  # what bounds the norm is the cut
            raise RangeError("vectors of persons are added up whole, cut as their value: use vector_of, kind='whole'")
    sums = GroupSums(groups=groups, values=given, kind=kind)
    if lowering == "auto" and not table.rows.streams and table.rows.length is None and groups.schema.person is None:
        lowering = "engine"  # such an engine would hold all rows at once to hand them over
    present: tuple[tuple[str, ...], ...] | None = None
    if groups.label is None:
        state = collect(table, sums, lowering=lowering).reshape(-1, *groups.shape)
    else:
        present, state = _sums_of_labels(table, sums)
    return statistics_of(groups, state, given, kind=kind, norm=norm, present=present)


def statistics_of(
    groups: Groups,
    state: Whole,
    values: Sequence[Value],
    *,
    kind: Kind,
    norm: Norm,
    present: tuple[tuple[str, ...], ...] | None = None,
) -> GroupStatistics:
    """Make statistics with their sensitivities of a state: the number of rows, then the words of the sums, by group."""

    def bounded(value: Any, width: int, *, signed: bool = False) -> Bounded:
        return groups.norms.bounded(value, norm, groups.unit, width, signed=signed)

    rows = state[0]
    sums = state[1::2].astype(object) + state[2::2].astype(object) * WORD
    found, at = [], 0
    for value in values:
        used = 1 + (kind in ("triple", "disc"))
        found.append(_statistic(value, kind, rows.astype(object), sums[at : at + used], bounded))
        at += used
    if isinstance(groups.totals, PersonVector):  # which may have an entry in every group
        every = persons_in(groups.cells).sensitivity(norm) * groups.norms.times
        return GroupStatistics(Bounded(rows, every, norm, groups.norms.neighbours, groups.unit), tuple(found))
    return GroupStatistics(bounded(rows, 1), tuple(found), present)


def _statistic(value: Value, kind: Kind, rows: Any, sums: Any, bounded: Callable[..., Bounded]) -> Bounded:
    """Combine exact sums (Python integers) into a statistic of one value."""
    levels, factor = value.levels, value.factor
    if kind == "sum":
        return bounded(sums[0], levels)
    if kind == "whole":
        # Σx in steps, then a floor of the sum: one row moves ⌊S/q⌋ by at most ⌈m/q⌉ if it moves S by at most m, and
        # r rows of a group by at most ⌈rm/q⌉ <= r⌈m/q⌉
        steps = value.first * rows + value.divisor * sums[0]
        return bounded(steps // value.coarseness, value.farthest, signed=value.first < 0 < value.last)
    if kind == "pair":
        return bounded(_stacked(sums[0], rows * levels - sums[0]), levels)
    if kind == "centred":
        return bounded(2 * sums[0] - rows * levels, levels, signed=True)
    if kind == "triple":
        middle = rows * value.square_levels - sums[0] - sums[1]
        return bounded(_stacked(sums[0], middle, sums[1]), value.square_levels)
    signed = (2 * sums[0] - rows * levels) * factor
    return bounded(_stacked(signed, sums[1]), value.square_levels, signed=True)


def _stacked(*parts: Any) -> Any:
    found = np.empty((len(parts), *np.shape(parts[0])), object)
    for place, part in enumerate(parts):
        found[place] = part
    return found


def group_counts(table: Table, groups: Groups, *, norm: Norm = "l1", lowering: Lowering = "auto") -> Bounded:
    """Count the rows of each declared group: one axis a column of `by`, none for all rows.

    >>> from sidelight.aggregates.groups import groups_of
    >>> from sidelight.records import Category, Number
    >>> from sidelight.records.expressions import col
    >>> people = Table(
    ...     {"sex": ["F", "M", "F", "F"], "age": [31, 47, None, 12]},
    ...     schema=[Category("sex", ["F", "M"], other=None), Number("age", granularity=1)],
    ... )
    >>> group_counts(people, groups_of(people.schema, by="sex", where=col("age") >= 18)).value.tolist()
    [1, 1]
    """
    return group_statistics(table, groups, norm=norm, lowering=lowering).counts


def distinct_counts(
    table: Table, groups: Groups, of: str | Expression, *, norm: Norm = "l1", lowering: Lowering = "auto"
) -> Bounded:
    """Count the different labels of a column in each group.

    Guarantee: rows of a person with the same codes are one, then `groups.cap` bounds them; each row that is left adds
    at most 1 to its group. So the counts of distinct labels move as counts of rows do, by `groups.norms`, where
    `max_rows_per_group` is how many labels a person adds to one group.

    `of` is a category, a derived label, or a column of undeclared labels; `groups` have declared labels.
    """
    if groups.label is not None or groups.totals:
        raise RangeError("distinct labels are counted in groups of declared labels")
    inner = groups_of(groups.schema, by=of, max_groups=1)
    whole = replace(groups, axes=(*groups.axes, *inner.axes), label=inner.label, cap=replace(groups.cap, once=True))
    sums = GroupSums(groups=whole)
    if inner.label is None:
        rows = collect(table, sums, lowering=lowering)[0].reshape(*groups.shape, -1)
        found = (rows > 0).sum(axis=-1, dtype=np.int64)
    else:
        names, codes = labelled_rows(table, whole, sums.coding)
        keys, _ = present_groups(whole, names, codes)
        found = np.zeros(groups.shape, np.int64)
        at = [{label: place for place, label in enumerate(labels)} for labels in groups.keys]
        for key in keys:
            found[tuple(places[label] for places, label in zip(at, key, strict=False))] += 1
    return groups.norms.bounded(found, norm, groups.unit)


def _sums_of_labels(table: Table, sums: GroupSums) -> tuple[tuple[tuple[str, ...], ...], Whole]:
    names, codes = labelled_rows(table, sums.groups, sums.coding)
    keys, places = present_groups(sums.groups, names, codes)
    values = codes[len(sums.groups.axes) + 1 :]
    clamped = [value.clamped(code) for value, code in zip(sums.values, values, strict=False)]
    return keys, chunk_sums(sums.groups, sums.values, sums.kind, len(keys), places, clamped)


def chunk_sums(
    groups: Groups, values: Sequence[Value], kind: Kind, size: int, places: Whole, codes: Sequence[Whole]
) -> Whole:
    """Return the state of rows in memory, by the places of their groups and their codes of 0..M."""
    terms = GroupSums(groups=groups, values=tuple(values), kind=kind).terms
    state = np.zeros((1 + 2 * len(terms), size), np.int64)
    for start in range(0, len(places), _CHUNK):
        part = slice(start, start + _CHUNK)
        add_terms(state, places[part], [term(codes[of][part]) for of, term in terms])
    return state
