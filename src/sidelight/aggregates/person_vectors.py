"""A person's totals of all groups as one vector, cut as a whole: its norm is at most U, in however many groups.

The totals of a person by group are exact: no row is left out. Taken in the order of mix(person, group), which no other
person enters, each total t keeps sign(t) min(|t|, what is left of U). So the sum of the absolute entries is at most U
(summaries proof page, section 1.1).

Totals are added up in two words, of 20 bits and of the rest, since engines fail on sums that leave 64 bits: sums of
2**40 rows fit. Each total is clamped before it meets another, and rounded to at most 2**30 units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays
from sidelight.aggregates.contributions import Persons, run_starts, sorted_by
from sidelight.aggregates.mix import mixed_frame, mixed_keys

_WORD = 1 << 20
#: Totals are clamped to this many words of 20 bits, 2**60 steps.
_MOST_WORDS = 1 << 40

Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class PersonVector:
    """One record for each person and group, the total of its rows; all records of a person are cut to `most` units.

    Args:
        most: U, in units; without `cut` the most units of one group, so that their sum fits 64 bits.
        unit: The number of steps of the coded rows in a unit: most * unit <= 2**60.
        cut: Whether totals are cut. Otherwise each person is one record, the sum of all |t|: that U is chosen from.
    """

    most: int
    unit: int = 1
    cut: bool = True

    def kernel(self, persons: tuple[Persons, NDArray[np.int64]], codes: CodeArrays, ranges: Ranges) -> CodeArrays:
        """Return the records of these rows, whose last code is the value and whose first ones name the group."""
        ids, person = persons
        *groups, value = codes
        order = sorted_by([person, *groups])
        keys = [person[order], *(group[order] for group in groups)]
        starts = np.flatnonzero(run_starts(keys))
        who, *cells = (key[starts] for key in keys)
        if not len(starts):
            return tuple(codes)
        low, high = _words(value[order], ranges[-1][0])
        total = _joined(np.add.reduceat(low, starts), np.add.reduceat(high, starts))
        size = (np.minimum(np.abs(total), self.most * self.unit) + self.unit // 2) // self.unit
        people = np.flatnonzero(run_starts([who]))
        whole = np.add.reduceat(size, people)
        if not self.cut:
            return (whole,)
        held = np.repeat(whole > self.most, np.diff(people, append=len(who)))
        at = np.flatnonzero(held)  # the others keep what they have, in whatever order
        if len(at):
            mix = mixed_keys(ids.keys(who[at]), [cell[at] for cell in cells], ranges[:-1], np.zeros_like(at))
            at = at[sorted_by([who[at], mix, *(cell[at] for cell in cells)])]
            before = np.cumsum(size[at]) - size[at]
            first = run_starts([who[at]])
            before -= np.maximum.accumulate(np.where(first, before, 0))
            size[at] = np.clip(self.most - before, 0, size[at])
        return (*cells, np.where(total < 0, -size, size))

    def lower(self, frame: Any, columns: Sequence[str], ranges: Ranges) -> tuple[Any, tuple[str, ...]]:
        """Return the frame of the records and their columns: `kernel` as expressions of an engine."""
        import narwhals.stable.v2 as nw

        *groups, value = columns
        who = ("person", "person_key")
        low, high = _words(nw.col(value), ranges[-1][0])
        frame = frame.with_columns(low.alias("low_word"), high.alias("high_word"))
        frame = frame.group_by(*who, *groups).agg(nw.col("low_word").sum(), nw.col("high_word").sum())
        total = _joined(nw.col("low_word").cast(nw.Int64), nw.col("high_word").cast(nw.Int64))
        frame = frame.with_columns(total.cast(nw.Int64).alias("total"))
        negative = nw.col("total") < 0
        size = nw.when(negative).then(-nw.col("total")).otherwise(nw.col("total")).clip(0, self.most * self.unit)
        frame = frame.with_columns(((size + self.unit // 2) // self.unit).cast(nw.Int64).alias("size"))
        if not self.cut:
            frame = frame.group_by(*who).agg(nw.col("size").sum().alias("sum"))
            return frame.with_columns(nw.col("sum").cast(nw.Int64).alias(value)), (value,)
        frame = mixed_frame(frame, groups, ranges[:-1])
        until = nw.col("size").cum_sum().over(*who, order_by=["mix", *groups])
        frame = frame.with_columns(until.cast(nw.Int64).alias("until"))
        left = (self.most - (nw.col("until") - nw.col("size"))).clip(0, self.most)
        frame = frame.with_columns(left.cast(nw.Int64).alias("left"))
        kept = nw.when(nw.col("size") < nw.col("left")).then(nw.col("size")).otherwise(nw.col("left"))
        frame = frame.with_columns(kept.alias("size"))
        return frame.with_columns(nw.when(negative).then(-nw.col("size")).otherwise(nw.col("size")).alias(value)), (
            *groups,
            value,
        )


def _words(code: Any, first: int) -> tuple[Any, Any]:
    """Split whole numbers from `first` on into low bits of 20 and the rest, so that code = high 2**20 + low.

    Remainders are taken of numbers of at least 0 only, since engines disagree about others.
    """
    base = first // _WORD
    shifted = code - base * _WORD
    return shifted % _WORD, shifted // _WORD + base


def _joined(low: Any, high: Any) -> Any:
    """Return the number that sums of both words stand for, clamped to about 2**60."""
    return (high + low // _WORD).clip(-_MOST_WORDS, _MOST_WORDS) * _WORD + low % _WORD
