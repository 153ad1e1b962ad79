"""Where an estimate's questions are answered: passes over a table, and a random sample of its rows that is kept.

Coarse steps need few rows, so they look at a sample: every row is in it by a coin of its own, whose result for one row
says nothing about another. The sample is kept from the pass that counts the rows. Its rate is chosen from the released
number of rows; what was kept is more, and is thinned. Where less was kept, the rows are read again, and each has the
coin that it had: with new coins a single row, by the number of kept ones, could decide which others are in the sample.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sidelight.aggregates.bounded import VALUE_LIMIT
from sidelight.aggregates.coding import Keep
from sidelight.aggregates.collect import collect
from sidelight.aggregates.mapped_moments import mapped_aggregate
from sidelight.aggregates.mapped_vector import MappedVector, RowMap, clean
from sidelight.aggregates.moments import ClippedMoments, Moments, MomentState
from sidelight.gaussians.point_cloud import Floats
from sidelight.guarantees import Neighbours
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.records.numbers import nearest_float
from sidelight.records.rows import Wanted

# Map and clip rows by matrix products whose every sum is exact: as fast as BLAS, and a row's integers are its own.
#
# Hand-made because a guarantee depends on it. A product over many rows rounds a row's last bits differently when
# another row is added, and a last bit can move a truncation. Here rows are put on a grid (a step is about 2^-16 of
# a column's standard deviation) and the map has whole numbers too, so that all products and partial sums are whole
# numbers below 2^53: nothing is rounded, in whatever order BLAS adds them (Gaussians proof page, section 6).

#: Rows are cut at so many standard deviations; a row that long is clipped to the radius anyway.
_REACH_BITS = 6
_EXACT_BITS = 52

#: A worse conditioned map needs more digits than the grid has.
_CONDITION = 1 << 10


@dataclass(frozen=True, eq=False)
class ExactMap:
    """x ↦ trunc(M·v/max(‖v‖, reach)), v = matrix · rint(clip((x - centre)·factors)): whole numbers throughout."""

    matrix: Floats
    factors: Floats
    centre: Floats
    largest: float
    reach: float
    levels: int

    @classmethod
    def of(cls, row_map: RowMap, levels: int) -> ExactMap | None:
        """Return the exact form of a map that `rounded` made; None for a map that the grid is too coarse for."""
        units = _units(row_map.matrix)
        if units is None or not (row_map.matrix - np.diag(np.diag(row_map.matrix))).any():
            return None  # a diagonal map needs no product
        left, right = _bits(len(units))
        scaled = row_map.matrix * units
        step = 2.0 ** (np.frexp(np.abs(scaled).max())[1] - left)
        whole = np.rint(scaled / step)
        if not np.array_equal(whole * step, scaled):
            return None
        grid = 2.0 ** (right - _REACH_BITS)
        reach = nearest_float(row_map.radius) * grid / step
        if not (np.isfinite(reach) and 2.0**-200 < reach < 2.0**200):
            return None
        return cls(whole, grid / units, row_map.centre, 2.0**right, reach, levels)

    def centred(self, columns: Sequence[Floats], whole: Floats | None, rows: slice) -> Floats:
        """Copy some rows minus the centre, one column to a row of the result; from `whole`, if there is one array."""
        if whole is not None:
            part = np.empty((len(columns), min(rows.stop, len(whole)) - rows.start))
            return np.subtract(whole[rows].T, self.centre[:, None], out=part)
        part = np.empty((len(columns), min(rows.stop, len(columns[0])) - rows.start))
        for place, column in enumerate(columns):
            np.subtract(column[rows], self.centre[place], out=part[place])
        return part

    def codes(self, part: Floats) -> Floats:
        """Return the clipped codes of centred rows, as whole numbers in floats; `part` is used up.

        Σ code² <= levels² exactly, as in `clipped_vector`: squares, sums, root, quotient and product err by a relative
        2^-53 each, the sum of squares is an integer, and truncation only shortens.
        """
        part *= self.factors[:, None]
        np.clip(part, -self.largest, self.largest, out=part)
        np.rint(part, out=part)
        mapped = self.matrix @ part
        length = mapped[0] * mapped[0]
        square = np.empty_like(length)
        for row in mapped[1:]:  # one after the other: the order is the same for every row
            np.multiply(row, row, out=square)
            length += square
        mapped *= float(self.levels) / np.maximum(np.sqrt(length), self.reach)
        return np.asarray(np.trunc(mapped, out=mapped))


def rounded(matrix: Floats) -> Floats:
    """Return a map next to this one that `ExactMap` can use; itself where that would change it too much.

    Every map here is as good as any near it: what counts is that rows are mapped, and results mapped back, by the same.
    """
    units = _units(matrix)
    if units is None:
        return matrix
    left, _ = _bits(len(units))
    scaled = matrix * units
    # one bit less than the grid has, because the units of the rounded map may be twice as large
    step = 2.0 ** (np.frexp(np.abs(scaled).max())[1] - (left - 1))
    return np.asarray(np.rint(scaled / step) * step / units)


def _bits(size: int) -> tuple[int, int]:
    """Return the digits of the map and of a row: a sum of `size` products has at most 52."""
    both = _EXACT_BITS - int(np.ceil(np.log2(max(size, 1)))) if size > 1 else _EXACT_BITS
    return both // 2 + 1, both - both // 2 - 1


def _units(matrix: Floats) -> Floats | None:
    """Return powers of two next to the columns' standard deviations, where rows are white after the map."""
    if matrix.shape[0] != matrix.shape[1]:
        return None
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return None
    with np.errstate(all="ignore"):
        deviations = np.sqrt((inverse**2).sum(axis=1))
        units = 2.0 ** np.round(np.log2(deviations))
        if not (np.isfinite(units) & (units > 0)).all():
            return None
        scaled = matrix * units
        if not np.isfinite(scaled).all() or np.linalg.cond(scaled) > _CONDITION:
            return None
    return np.asarray(units)


#: Rows of a sample that is kept at least, while there are so many; twice as many are held.
SAMPLE_ROWS = 1 << 15
_BLOCK_ROWS = 1 << 11
_LEVELS = 1 << 14

#: Larger numbers are clamped to this by the general path.
_LARGEST = 2.0**400


def sample_rows_of(schema: Schema) -> int | None:
    """Return how many rows a sample has; None where there is none: persons' rows are capped by the general path."""
    return SAMPLE_ROWS if schema.person is None else None


class RowReader:
    """The rows of a table, as an estimate asks for them; PRIVATE."""

    def __init__(self, table: Table, columns: Sequence[str], *, neighbours: Neighbours, source: Source) -> None:
        self._table = table
        self._columns = tuple(columns)
        self._numbers = tuple(table.schema.number(name) for name in columns)
        self._neighbours = neighbours
        self._source = source
        self._kept: tuple[Floats, Floats] | None = None  # rows in columns, and their coins in [0, 1)
        self._kept_rate = 0.0

    @property
    def samples(self) -> bool:
        """Whether steps may look at a sample: persons' rows are capped by the general path, which has none."""
        return self._table.schema.person is None

    def count(self) -> Moments:
        """Count the rows that miss no number, and keep a sample of them."""
        if not self.samples:
            return self.moments(RowMap.of(len(self._columns), centre=None, matrix=None, radius=1))
        # Coins go by the place of a row. Where a second reading may find rows in another order (files), a row would get
        # another coin then; so nothing is kept before the rate is known, and every row has one coin ever.
        stable = self._table.rows.length is not None
        rows = self._keep(1.0, most=2 * SAMPLE_ROWS) if stable else self._counted()
        empty = self._aggregate(None).empty()
        return self._aggregate(None).finish(MomentState(rows, empty.total, empty.second))

    def sampled(self, row_map: RowMap, rate: float) -> Moments:
        """Return the moments of a random sample of the rows, each in it with this probability."""
        if not self.samples:
            return self.moments(row_map)
        if self._kept is None or self._kept_rate < rate:
            if rate == 1:  # all rows need not be held
                return self.moments(row_map)
            self._keep(rate, most=None)
        assert self._kept is not None
        if self._kept_rate > rate:  # thinned once: the rate is chosen once
            rows, coins = self._kept
            self._kept, self._kept_rate = (rows[:, coins < rate], coins[coins < rate]), rate
        return self._moments(row_map, [(list(self._kept[0]), None)], second=True)

    def moments(self, row_map: RowMap, *, second: bool = True) -> Moments:
        """Return the moments of all rows; without `second`, a matrix of zeros in its place saves half of the work."""
        if self._kept is not None and self._kept_rate == 1:  # few rows: all of them are held
            return self._moments(row_map, [(list(self._kept[0]), None)], second=second)
        if not self.samples or ExactMap.of(row_map, _LEVELS) is None:
            return collect(self._table, self._aggregate(row_map))
        return self._moments(row_map, self._clean_batches(), second=second)

    def _moments(self, row_map: RowMap, batches: Iterable[tuple[list[Floats], Keep]], *, second: bool) -> Moments:
        aggregate = self._aggregate(row_map)
        exact = ExactMap.of(row_map, _LEVELS)
        state = aggregate.empty()
        for columns, usable in batches:
            if exact is None:
                assert isinstance(aggregate.coding, MappedVector)
                state = aggregate.fold(state, aggregate.coding.codes(columns, None))
            else:
                state = _folded(state, exact, columns, usable, second=second)
        return aggregate.finish(state)

    def _aggregate(self, row_map: RowMap | None) -> ClippedMoments:
        chosen = RowMap.of(len(self._columns), centre=None, matrix=None, radius=1) if row_map is None else row_map
        return mapped_aggregate(
            self._table, self._columns, row_map=chosen, levels=_LEVELS, unusable="drop", neighbours=self._neighbours
        )

    @cached_property
    def _plain(self) -> bool:
        """Whether columns are used as they are: no bounds, no fill values."""
        return all(each.lower is None and each.upper is None and each.fill is None for each in self._numbers)

    def _clean_batches(self) -> Iterator[tuple[list[Floats], Keep]]:
        """Return columns without missing numbers, and which rows stay (None: all)."""
        for batch in self._table.rows.batches(Wanted(numbers=self._columns)):
            columns = [batch.numbers[name] for name in self._columns]
            if self._plain and _all_finite(columns):
                yield columns, None
            else:
                cleaned, usable = clean(self._numbers, batch)
                yield cleaned, usable

    def _counted(self) -> int:
        """Read all rows; count those that miss no number. The key is drawn as elsewhere: seeded releases agree."""
        _ = self._key
        return sum(
            len(columns[0]) if usable is None else int(usable.sum()) for columns, usable in self._clean_batches()
        )

    def _keep(self, rate: float, *, most: int | None) -> int:
        """Read all rows; keep those whose coin is below the rate, which is halved whenever too many are held."""
        parts: list[Floats] = [np.empty((len(self._columns), 0))]
        coins: list[Floats] = [np.empty(0)]
        rows = held = 0
        for place, (columns, usable) in enumerate(self._clean_batches()):
            tossed = self._coins(place, len(columns[0]))
            stays = tossed < rate
            if usable is not None:
                stays &= usable
            rows += len(tossed) if usable is None else int(usable.sum())
            some = np.flatnonzero(stays)
            whole = _together(columns)
            parts.append(np.stack([column[some] for column in columns]) if whole is None else whole[some].T)
            coins.append(tossed[some])
            held += len(some)
            while most is not None and held > most:
                rate /= 2
                stay = [each < rate for each in coins]
                parts = [part[:, here] for part, here in zip(parts, stay, strict=True)]
                coins = [each[here] for each, here in zip(coins, stay, strict=True)]
                held = sum(len(each) for each in coins)
        self._kept, self._kept_rate = (np.concatenate(parts, axis=1), np.concatenate(coins)), rate
        return rows

    @cached_property
    def _key(self) -> bytes:
        """What all coins follow from: 256 bits of the release's source, so that a second reading finds them again."""
        return self._source.words(4).tobytes()

    def _coins(self, place: int, count: int) -> Floats:
        """Return the coins of a batch's rows, in [0, 1]."""
        stream = hashlib.shake_128(self._key + place.to_bytes(8, "little")).digest(8 * count)
        return np.asarray(np.frombuffer(stream, "<u8") * 2.0**-64, np.float64)

    def __repr__(self) -> str:
        return "RowReader(private)"


def _folded(state: MomentState, exact: ExactMap, columns: list[Floats], usable: Keep, *, second: bool) -> MomentState:
    """Add a batch; all sums are whole numbers below 2^53, so no order of adding them changes any."""
    rows = len(columns[0]) if usable is None else int(usable.sum())
    total, products = state.total, state.second
    whole = _together(columns)
    if (state.rows + rows) * exact.levels**2 >= VALUE_LIMIT:  # the same numbers, in a type that cannot wrap
        total, products = total.astype(object), products.astype(object)
    for start in range(0, len(columns[0]), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        codes = exact.codes(exact.centred(columns, whole, block))
        if usable is not None:
            codes = codes[:, usable[block]]
        total = total + codes.sum(axis=1).astype(np.int64)
        if second:
            products = products + (codes @ codes.T).astype(np.int64)
    return MomentState(state.rows + rows, total, products)


def _all_finite(columns: list[Floats]) -> bool:
    """Whether no number of a batch is missing, infinite or so large that a product with it could overflow."""
    whole = _together(columns)
    parts = columns if whole is None else [whole]
    # NaN compares as False
    return all(bool(part.max(initial=0.0) <= _LARGEST and part.min(initial=0.0) >= -_LARGEST) for part in parts)


def _together(columns: list[Floats]) -> Floats | None:
    """Return the array whose columns these are, if they are neighbours in memory: it is read line by line."""
    first = columns[0]
    base, line = first.base, 8 * len(columns)
    if base is None or first.strides != (line,) or not len(first):
        return None
    address = first.__array_interface__["data"][0]
    for place, column in enumerate(columns):
        if column.strides != (line,) or column.__array_interface__["data"][0] != address + 8 * place:
            return None
    return np.lib.stride_tricks.as_strided(first, (len(first), len(columns)), (line, 8), writeable=False)
