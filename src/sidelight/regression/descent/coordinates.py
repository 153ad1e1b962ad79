"""What the coordinates of a descent need of the rows: a noisy Gram matrix, perhaps a count, and a second look.

The first matrix has noise for rows of the full length. Where columns vary less than that noise, their true ranges are
far narrower than the declared ones: two more passes, paid out of the steps' share, count how far entries are from the
released centre, and release the matrix of rows that are centred, divided by those scales and shortened to length 1.
Whether this happens is a function of the first release, and every part has the same price whatever it released
(descent proof page, Theorem D).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.mechanisms.additive import Noise
from sidelight.noise import Source
from sidelight.regression.descent.geometry import (
    SHOWN,
    UNSEEN,
    Floats,
    Geometry,
    NoisyGram,
    from_gram,
    guarded,
    without_map,
)
from sidelight.regression.descent.integer_rows import (
    CODE_BITS,
    ROW_LENGTH,
    Z_BITS,
    GeometryMap,
    Integers,
    gram_of,
    shortened,
)
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.descent.row_sums import CodedPasses, GramAndCount

#: The square of a code, where rows have length 1.
_SQUARED_CODE = 2.0 ** (-2 * CODE_BITS)
#: Distances of codes, in half octaves: [0, 1), [1, 2), [2, 3), [3, 4), [4, 6), ...
_EDGES = tuple(sorted({math.isqrt(2**power - 1) + 1 for power in range(2 * CODE_BITS + 3)}))
#: Powers of two between which squared distances lie: 0, [1, 2), [2, 4), which no square is in, [4, 8), ...
_POWERS, _NO_SQUARE = len(_EDGES) + 2, 2
#: Rows whose distances are looked at at once: they stay in the cache.
_ROWS_AT_ONCE = 1024
#: The mean square of an entry of each group, between its ends.
_SQUARES = np.array([0.0, *(low * high for low, high in zip(_EDGES, (*_EDGES[1:], 2 * _EDGES[-1]), strict=True))])
#: Deviations of noise below which a count is taken for none.
_SEEN = 4.0
#: Predictions by a scale are as sure as others where at most this share of the rows may be further away than counts
#: show, by this many deviations of their noise.
_BEYOND, _SURE = 0.1, 2.0
#: Of the rows that may hide below it, this share is taken to be as far away as rows can be.
_HIDDEN = 0.002
#: A column with this share of its entries in two adjacent groups says nothing through the others.
_EQUAL = 0.95
#: A second matrix is worth its price where its noise is this much smaller for a narrow column, in deviations of the
#: column; and so for this share of all columns, since the steps pay for it in every one.
_LEAST_GAIN, _LEAST_GAINING = 2.0, 0.1
#: The mean square of predictions, in half ranges, for rows with another entry than most.
_RARE = 0.25
#: Rows are shortened from so many of their root mean square lengths on, at least.
_ROOM = 1.5
#: From more on, where that leaves the noise of the second matrix below this share of a column's mean square.
_NOISE_IN_ROOM = 0.5
#: Counts tell something where their noise is below this share of the rows.
_MOST_NOISE = 0.05


def narrow_columns(gram: NoisyGram, first: Geometry, *, count_noise: float) -> NDArray[np.bool_]:
    """Return which columns vary less than the noise of the matrix; none where counts could not tell how much.

    Where only the counts of all columns together can, they give all columns one scale: then the trace of the matrix,
    less a deviation of its noise, must leave room for a gain.

    Args:
        gram: The first release.
        first: Its geometry.
        count_noise: The deviation of the mean over the columns of the counts of a group.
    """
    noise = gram.noise_scale * math.sqrt(2 * gram.features) / first.rows  # of the sum of the columns' mean squares
    varied = np.diag(gram.matrix)[:-1] / first.rows - first.centre**2
    narrow = varied < max(noise, gram.noise_scale * SHOWN / first.rows)
    most = _MOST_NOISE * first.counted
    room = _ROOM * _LEAST_GAIN * math.sqrt(max(float(varied.sum()) - noise, 0.0)) <= 1
    return np.asarray(narrow & (count_noise <= most) & (room or count_noise * math.sqrt(gram.features) <= most))


@dataclass(frozen=True, kw_only=True, eq=False)
class DistanceCounts:
    """How many rows are how far from a public centre, in each column and each group of distances.

    Guarantee: a row adds 1 to one group of each column, so that it moves all counts by √columns in Euclidean norm.
    """

    centre: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Columns and groups."""
        return (len(self.centre), len(_EDGES) + 1)

    def __call__(self, codes: Any, targets: Floats) -> Integers:
        """Return the counts of some rows."""
        columns = len(self.centre)
        total = np.zeros(columns * _POWERS, np.int64)
        first = _POWERS * np.arange(columns) - 1022  # the exponent of ½, where a float of 64 bits has it
        for start in range(0, len(codes), _ROWS_AT_ONCE):
            squares = codes[start : start + _ROWS_AT_ONCE] - self.centre
            np.clip(squares, -_EDGES[-1], _EDGES[-1], out=squares)
            squares *= squares
            squares += 0.5  # exact, and between the same powers of two; of none it is -1
            places = squares.view(np.int64)
            places >>= 52
            places += first
            total += np.bincount(places.ravel(), minlength=len(total))
        return np.delete(total.reshape(columns, _POWERS), _NO_SQUARE, axis=1)

    @classmethod
    def about(cls, centre: Floats) -> DistanceCounts:
        """Count from the centre of a geometry, in whole codes."""
        return cls(centre=np.rint(np.clip(centre, -1.0, 1.0) * ROW_LENGTH))


@dataclass(frozen=True, kw_only=True, eq=False)
class ShortenedGram:
    """The Gram matrix of rows in the units of a public map, shortened to the length of codes.

    Guarantee: a row adds a matrix of Frobenius norm at most `GRAM_SENSITIVITY`.
    """

    mapping: GeometryMap

    def __post_init__(self) -> None:
        _ = self.mapping.factors, self.mapping.offsets  # made here: another machine might round a product otherwise

    @property
    def shape(self) -> tuple[int, ...]:
        """Columns and the constant, twice."""
        return (self.mapping.geometry.features + 1,) * 2

    def __call__(self, codes: Any, targets: Floats) -> Integers:
        """Return the matrix of some rows."""
        return gram_of(shortened(self.mapping.mapped(codes)))


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedDistances:
    """Released counts of distances from the centre of the first geometry, and what they say of the columns.

    Args:
        counts: (columns, groups).
        noise: The deviation of each.
        first: The first geometry.
        narrow: Which columns its matrix did not show.
        least: The mean squares that it surely showed, in codes.
        room: From how many root mean square lengths on the second matrix shortens rows.
    """

    counts: Floats
    noise: float
    first: Geometry
    narrow: NDArray[np.bool_]
    least: float | Floats = 0.0
    room: float = _ROOM

    @property
    def rows(self) -> float:
        """The released number of rows."""
        return max(self.first.counted, 1.0)

    @cached_property
    def seen(self) -> Floats:
        """The counts that noise does not explain."""
        return np.where(self.counts > _SEEN * self.noise, self.counts, 0.0)

    @cached_property
    def equal(self) -> Floats:
        """Of each column, the largest number of rows in two groups side by side."""
        return np.asarray((self.seen[:, 1:] + self.seen[:, :-1]).max(axis=1))

    @property
    def spread(self) -> NDArray[np.bool_]:
        """Which columns have a scale.

        The others, a rare category say, have the same entry in most rows: counts do not tell how many of the rest are
        how far away.
        """
        return np.asarray(self.equal < _EQUAL * self.rows - 2 * self.noise)

    @cached_property
    def scales(self) -> tuple[Floats, Floats, Floats]:
        """Mean square distances, rows that counts show, and rows that are surely no further than those; of each column.

        Where a column's own counts show less than half of the rows: from the counts of all columns together.
        """
        spread = self.spread
        together = self.counts[spread].mean(axis=0, keepdims=True)
        own, of_all = _scales(self.counts, self.noise), _scales(together, self.noise / math.sqrt(spread.sum()))
        alone = own[1] >= self.rows / 2
        squares, shown, surely = (np.where(alone, *pair) for pair in zip(own, of_all, strict=True))
        return squares, shown, surely

    def geometry(self) -> Geometry | None:
        """Return coordinates in which each column is divided by its scale, None where no narrow column gains much."""
        d, spread = self.first.features, self.spread
        if not (spread & self.narrow).any():
            return None
        hidden = _HIDDEN * _SEEN * self.noise / self.rows * ROW_LENGTH**2 / d
        squares, shown, _ = self.scales
        squares = np.maximum(squares + hidden, self.least)
        varies = spread & (shown >= self.rows / 2)
        gain = np.where(varies, ROW_LENGTH / (self.room * np.sqrt(d * np.maximum(squares, 1.0))), 1.0)
        if np.sum(gain[self.narrow] >= _LEAST_GAIN) < max(_LEAST_GAINING * d, 1):
            return None
        stretch = 2.0 ** (CODE_BITS - Z_BITS) * gain
        return Geometry(
            map=np.diag(stretch),
            inverse=np.diag(1 / stretch),
            centre=DistanceCounts.about(self.first.centre).centre / ROW_LENGTH,
            h=np.ones(d),
            trace=1.0,
            rows=self.first.rows,
            counted=self.first.counted,
            intercept=False,
        )

    def unseen(self, hidden: NDArray[np.bool_], *, scaled: bool) -> float:
        """Return the mean square of predictions by columns that a matrix does not show.

        Of a column of equal entries that the first one hardly shows, too: by as many rows as may have others.

        Args:
            hidden: Columns that it does not show.
            scaled: Whether its columns were divided by the scales. Many rows that no count shows may then be far away,
                where gradients of a few rows move predictions by as much as steps are long.
        """
        spread = self.spread
        if (hidden & spread).any():
            return UNSEEN
        if scaled and spread.any() and (self.scales[2] < (1 - _BEYOND) * self.rows)[self.narrow & spread].any():
            return UNSEEN
        others = np.clip(1 - (self.equal - 2 * self.noise) / self.rows, 0.0, 1.0)
        return min(UNSEEN, _RARE * float(others[(hidden | self.narrow) & ~spread].sum()))


def _scales(counts: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
    """Return columns' mean square distances, the rows that counts show, and those that are surely no further."""
    seen = np.where(counts > _SEEN * noise, counts, 0.0)
    shown, surely = seen.sum(axis=1), np.zeros(len(seen))
    for place in np.flatnonzero(shown):  # the last group that shows, and as many before it as say most
        rows = np.cumsum(counts[place, np.flatnonzero(seen[place])[-1] :: -1])
        surely[place] = np.max(rows - _SURE * noise * np.sqrt(np.arange(1, len(rows) + 1)))
    return np.asarray(seen @ _SQUARES / np.maximum(shown, 1.0)), shown, surely


def room_of_rows(noise_scale: float, *, rows: float, features: int) -> float:
    """Return from how many root mean square lengths on the second matrix shortens rows: as many as its noise allows.

    The matrix describes shortened rows and the steps take rows as they are. Where columns have heavy tails, coordinates
    of the former make the latter so long that clipped gradients hardly see them, though they decide the error.

    Args:
        noise_scale: The noise of the second matrix, where rows have length 1.
        rows: The released number of rows.
        features: The columns d: a column's mean square is 1/(room²·d), the largest eigenvalue of the noise √(2d)·scale.
    """
    noise = noise_scale * math.sqrt(2 * features) / rows
    return max(_ROOM, math.sqrt(_NOISE_IN_ROOM / (features * noise)))


def second_geometry(
    gram: NoisyGram, distances: ReleasedDistances, scales: Geometry, *, intercept: bool, outputs: int, full: bool
) -> Geometry:
    """Return the geometry of the second matrix for rows as they are.

    Args:
        gram: The release in the units of `scales`.
        distances: The counts before it.
        scales: Their coordinates.
        intercept: Whether rows are centred and get a constant column.
        outputs: Predictors of a row.
        full: As in `from_gram`.
    """
    assert scales.map is not None
    unit = np.diag(scales.map) * 2.0 ** (Z_BITS - CODE_BITS)
    found = from_gram(gram, rows=scales.rows, counted=scales.counted, intercept=intercept, outputs=outputs, full=full)
    assert found.map is not None
    assert found.inverse is not None
    return replace(
        found,
        map=unit[:, None] * found.map,
        inverse=found.inverse / unit,
        centre=scales.centre + found.centre / unit,
        unseen=distances.unseen(gram.hidden(scales.counted, centred=intercept), scaled=True),
    )


def released_coordinates(plan: DescentPlan, rows: CodedPasses, *, source: Source) -> tuple[DescentPlan, Geometry]:
    """Release what the coordinates need; return the plan of what is left to pay, and them."""
    declared = counted = None if plan.rows is None else float(plan.rows)
    total, count = _gram_and_count(plan, rows)
    gram = None
    if plan.shares.gram:
        noise = plan.gram_noise(total)
        released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 2 of 7
        gram = _noisy_gram(released, noise)
        if declared is not None and gram.contradicts(declared):
            declared, counted = gram.rows, gram.counted
    if plan.shares.count:
        counting = plan.count_noise(count)
        noisy = float(counting.release(source))  # private rows, 3 of 7
        counted = max(noisy, 0.0)
        declared = counted + counting.deviation
    if gram is None:
        assert declared is not None
        return plan, without_map(plan.features, rows=declared, intercept=plan.intercept)
    more: dict[str, Any] = {"intercept": plan.intercept, "outputs": plan.targets.outputs}
    if plan.public is not None:
        assert declared is not None
        return plan, guarded(plan.public, gram, rows=declared, counted=counted, **more)
    more["full"] = plan.targets.kind == "logistic"
    first = from_gram(gram, rows=declared, counted=counted, **more)
    closer = plan.with_look("counts")
    of_a_count = closer.scales_noise(np.zeros(1, np.int64)).deviation
    narrow = narrow_columns(gram, first, count_noise=of_a_count / plan.features**0.5)
    if not narrow.any():
        return plan, first
    counting = closer.scales_noise(rows.added_up(DistanceCounts.about(first.centre)))
    noisy_counts = np.asarray(counting.release(source)).astype(np.float64)  # private rows, 4 of 7
    with_matrix = plan.with_look("matrix")
    of_matrix = with_matrix.second_gram_noise(np.zeros((plan.features + 1,) * 2, np.int64))
    distances = ReleasedDistances(
        counts=noisy_counts,
        noise=counting.deviation,
        first=first,
        narrow=narrow,
        least=gram.surely_varied(first.counted, centred=plan.intercept) * ROW_LENGTH**2,
        room=room_of_rows(_in_row_lengths(of_matrix), rows=max(first.counted, 1.0), features=plan.features),
    )
    scales = distances.geometry()
    if scales is None:
        hidden = gram.hidden(first.counted, centred=plan.intercept)
        return closer, replace(first, unseen=distances.unseen(hidden, scaled=False))
    noise = with_matrix.second_gram_noise(rows.added_up(ShortenedGram(mapping=GeometryMap(geometry=scales))))
    released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 5 of 7
    return with_matrix, second_geometry(_noisy_gram(released, noise), distances, scales, **more)


def _noisy_gram(released: Floats, noise: Noise) -> NoisyGram:
    return NoisyGram(matrix=released * _SQUARED_CODE, noise_scale=_in_row_lengths(noise))


def _in_row_lengths(noise: Noise) -> float:
    return float(noise.scale) * _SQUARED_CODE


def _gram_and_count(plan: DescentPlan, rows: CodedPasses) -> tuple[Integers, int]:
    """Read the rows once, where anything of it is needed."""
    statistic = GramAndCount(features=plan.features, gram=plan.shares.gram > 0)
    if not plan.shares.gram and not plan.shares.count:
        return statistic.split(np.zeros(statistic.shape, np.int64))
    return statistic.split(rows.added_up(statistic))
