"""One to many: the rows of another table that belong to a row become one value, in whole numbers.

Every value is a function of the codes of one owner's rows. Sums are exact: they are added in words, so that no
number of rows makes one wrap, and the clamp comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.aggregates.contributions import run_starts
from sidelight.aggregates.expression_values import BatchScope, truth_of
from sidelight.aggregates.key_numbers import NONE, Whole
from sidelight.aggregates.mix import mixed_keys
from sidelight.aggregates.row_codes import ColumnCodes, codes_read, for_rows
from sidelight.grid import CODE_LIMIT
from sidelight.records import Column, Date, Number, Schema
from sidelight.records.expression_shapes import StepShape
from sidelight.records.expressions import Expression, Named
from sidelight.records.fold import TRUTHS, Fold
from sidelight.records.numbers import exact_number, nearest_float
from sidelight.records.rows import Batch, DistinctTexts

_WORD = 21


@dataclass(frozen=True, eq=False, repr=False)
class FoldedRows:
    """The rows that a fold may look at: their cells, the group of each (-1: of none), and how many groups there are.

    `keys_of` returns the key of the owner of each of some groups.
    """

    batch: Batch
    schema: Schema
    group: Whole
    groups: int
    keys_of: Callable[[Whole], Whole]


@dataclass(frozen=True, eq=False, repr=False)
class FoldedColumn:
    """The value of each group: codes, which of them are known, and what a code stands for."""

    codes: Whole
    known: Any
    worth: Callable[[int], float | str]
    is_text: bool

    def cells(self, at: Whole, empty: float | str | None) -> Any:
        """Return the cell of each row by its group; a row without rows to fold is in the group -1."""
        codes = np.append(self.codes, 0)[at]
        known = np.append(self.known, False)[at].astype(bool)
        distinct, inverse = np.unique(codes[known], return_inverse=True)  # what is not known may stand for nothing
        places = np.zeros(len(at), np.int64)
        places[known] = inverse.reshape(-1)
        worth = [self.worth(code) for code in distinct.tolist()]
        if self.is_text:
            cells: list[str | None] = [*(str(each) for each in worth), None if empty is None else str(empty)]
            return DistinctTexts(cells, np.where(known, places, len(worth)))
        numbers = np.array([*worth, np.nan], np.float64)[np.where(known, places, len(worth))]
        return numbers if empty is None else np.where(known, numbers, float(empty))


def fold_columns(fold: Fold, rows: FoldedRows, declared: Sequence[Column]) -> tuple[FoldedColumn, ...]:
    """Return the columns of a fold."""
    scope = BatchScope(rows.schema, rows.batch)
    kept = rows.group != NONE
    if fold.where is not None:
        kept = kept & for_rows(truth_of(fold.where, scope)[0], rows.batch)
    if fold.kind in ("any", "all"):
        return (_truths(fold, rows, scope, kept),)
    values = [codes_read(each, scope) for each in (*fold.of, *([] if fold.order is None else [Named(fold.order)]))]
    for each in values:
        kept = kept & each.known
    values = [each.at(kept) for each in values]
    group = rows.group[kept]
    if fold.kind in ("first", "last"):
        return _of_one_row(fold, rows, group, values)
    if fold.kind == "mode":
        return (_mode(rows, group, values[0]),)
    number = declared[0]
    count = np.bincount(group, minlength=rows.groups)
    there = count > 0
    if fold.kind == "count":
        return (_number(count, there, number, Fraction(1)),)
    x, worth = values[0].codes, values[0].worth
    if fold.kind == "distinct":
        order = np.lexsort((x, group))
        firsts = run_starts([group[order], x[order]])
        return (_number(np.bincount(group[order][firsts], minlength=rows.groups), there, number, Fraction(1)),)
    if fold.kind in ("min", "max", "span"):
        low, high = _ends(group, x, rows.groups)
        if fold.kind == "span":
            return (FoldedColumn(high - low, there, worth, is_text=False),)
        return (FoldedColumn(low if fold.kind == "min" else high, there, worth, is_text=values[0].is_text),)
    if fold.kind == "gap":
        return (_gaps(fold, rows, group, x, worth),)
    step = _step(fold.of[0], rows.schema)
    if fold.kind == "sum":
        return (_number(_sums(group, x, rows.groups), there, number, step),)
    return (_means(group, x, rows.groups, number, step),)


def empty_value(fold: Fold, column: Column) -> float | str | None:
    """Return the value of a fold over no rows; None if it is missing."""
    if fold.is_missing:
        return None
    if fold.empty is not None:
        if isinstance(column, Date):
            return float(column.calendar.of_constant(str(fold.empty), where="empty"))
        if isinstance(column, Number):
            return nearest_float(exact_number(fold.empty, name="empty"))
        return str(fold.empty)
    if fold.kind in ("count", "distinct"):
        return 0.0
    if fold.kind == "sum":
        assert isinstance(column, Number)
        low, high = column.lower, column.upper
        zero = Fraction(0) if low is None else max(Fraction(0), low)
        return nearest_float(zero if high is None else min(zero, high))
    return TRUTHS[0] if fold.kind == "any" else None


def _step(of: Expression, schema: Schema) -> Fraction:
    shape = of.check(schema)
    assert isinstance(shape, StepShape)
    return shape.step


def _number(codes: Whole, known: Any, column: Column, step: Fraction) -> FoldedColumn:
    """Clamp whole numbers of a step to the column's bounds; 2**53 steps where there are none."""
    assert isinstance(column, Number)
    low = -CODE_LIMIT if column.lower is None else _within((column.lower / step + Fraction(1, 2)).__floor__())
    high = CODE_LIMIT if column.upper is None else _within((column.upper / step + Fraction(1, 2)).__floor__())
    there = np.ones(len(codes), bool) if known is None else known
    return FoldedColumn(np.clip(codes, low, high), there, lambda code: nearest_float(code * step), is_text=False)


def _within(code: int) -> int:
    return min(max(code, -CODE_LIMIT), CODE_LIMIT)


def _sums(group: Whole, x: Whole, groups: int) -> Whole:
    """Return exact sums as far as 2**62, and about the nearer end beyond."""
    high, low = _two_words(group, x, groups)
    farthest = 1 << (62 - 2 * _WORD)
    return np.clip(high, -farthest, farthest) * (1 << 2 * _WORD) + low


def _two_words(group: Whole, x: Whole, groups: int) -> tuple[Whole, Whole]:
    """Return exact sums as a word and 42 bits below it: words of 21 bits, of up to 2**42 rows, are added apart."""
    low, middle, high = np.zeros((3, groups), np.int64)
    of_word = (1 << _WORD) - 1
    np.add.at(low, group, x & of_word)
    np.add.at(middle, group, (x >> _WORD) & of_word)
    np.add.at(high, group, x >> 2 * _WORD)
    middle += low >> _WORD
    return high + (middle >> _WORD), ((middle & of_word) << _WORD) + (low & of_word)


def _means(group: Whole, x: Whole, groups: int, column: Column, step: Fraction) -> FoldedColumn:
    assert isinstance(column, Number)
    assert column.granularity is not None
    unit = column.granularity
    count, (high, low) = np.bincount(group, minlength=groups), _two_words(group, x, groups)
    ratio = step / unit
    up, down = ratio.numerator, ratio.denominator
    codes = [
        _within(((above << 2 * _WORD) + below) * up // (rows * down)) if rows else 0
        for above, below, rows in zip(high.tolist(), low.tolist(), count.tolist(), strict=True)
    ]
    return _number(np.array(codes, np.int64), count > 0, column, unit)


def _ends(group: Whole, x: Whole, groups: int) -> tuple[Whole, Whole]:
    low, high = np.full(groups, np.iinfo(np.int64).max), np.full(groups, np.iinfo(np.int64).min)
    np.minimum.at(low, group, x)
    np.maximum.at(high, group, x)
    none = high < low
    return np.where(none, 0, low), np.where(none, 0, high)


def _gaps(fold: Fold, rows: FoldedRows, group: Whole, x: Whole, worth: Any) -> FoldedColumn:
    order = np.lexsort((x, group))
    same = group[order][1:] == group[order][:-1]
    gaps, where = np.diff(x[order])[same], group[order][1:][same]
    low, high = _ends(where, gaps, rows.groups)
    known = np.bincount(where, minlength=rows.groups) > 0
    return FoldedColumn(low if fold.which == "least" else high, known, worth, is_text=False)


def _truths(fold: Fold, rows: FoldedRows, scope: BatchScope, kept: Any) -> FoldedColumn:
    true = for_rows(truth_of(fold.of[0], scope)[0], rows.batch) & kept
    count = np.bincount(rows.group[kept], minlength=rows.groups)
    trues = np.bincount(rows.group[true], minlength=rows.groups)
    codes = (trues > 0) if fold.kind == "any" else (trues == count)
    return FoldedColumn(codes.astype(np.int64), count > 0, TRUTHS.__getitem__, is_text=True)


def _mix(rows: FoldedRows, group: Whole, values: Sequence[ColumnCodes]) -> Whole:
    ranges = [each.range for each in values]
    return mixed_keys(rows.keys_of(group), [each.mixed for each in values], ranges, np.zeros_like(group))


def _of_one_row(fold: Fold, rows: FoldedRows, group: Whole, values: Sequence[ColumnCodes]) -> tuple[FoldedColumn, ...]:
    """Choose the row of least (largest) order, then of least mix, then of least codes."""
    codes = [each.codes for each in values]
    time = codes[-1] if fold.kind == "first" else -codes[-1]
    order = np.lexsort((*reversed(codes), _mix(rows, group, values), time, group))
    chosen = order[run_starts([group[order]])]
    known = np.zeros(rows.groups, bool)
    known[group[chosen]] = True
    found = []
    for each in values[:-1]:
        column = np.zeros(rows.groups, np.int64)
        column[group[chosen]] = each.codes[chosen]
        found.append(FoldedColumn(column, known, each.worth, is_text=each.is_text))
    return tuple(found)


def _mode(rows: FoldedRows, group: Whole, values: ColumnCodes) -> FoldedColumn:
    x = values.codes
    order = np.lexsort((x, group))
    starts = np.flatnonzero(run_starts([group[order], x[order]]))
    times = np.diff(np.append(starts, len(order)))
    where, label = group[order][starts], x[order][starts]
    labels = values.at(order).at(starts)
    first = np.lexsort((label, _mix(rows, where, [labels]), -times, where))
    chosen = first[run_starts([where[first]])]
    codes, known = np.zeros(rows.groups, np.int64), np.zeros(rows.groups, bool)
    codes[where[chosen]], known[where[chosen]] = label[chosen], True
    return FoldedColumn(codes, known, values.worth, is_text=True)
