"""A second, closer look at rows whose declared ranges are wide: a scale of each column, and a Gram matrix in those units.

The first Gram matrix has noise for rows of the full length. Where columns vary less than that noise, their true ranges
are far narrower than the declared ones: two more passes, paid out of the steps' share, count how far entries are from
the released centre, and release the matrix of rows that are centred, divided by those scales and shortened to length 1.
Whether this happens is a function of the first release, and every part has the same price whatever it released
(descent proof page, section 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sidelight.regression.descent.geometry import Floats, Geometry, NoisyGram, from_gram
from sidelight.regression.descent.integer_rows import (
    CODE_BITS,
    ROW_LENGTH,
    Z_BITS,
    Integers,
    RowMap,
    gram_of,
    shortened,
)

#: Distances of codes, in half octaves: [0, 1), [1, 2), [2, 3), [3, 4), [4, 6), ...
_EDGES = tuple(sorted({math.isqrt(2**power - 1) + 1 for power in range(2 * CODE_BITS + 3)}))
#: The mean square of an entry of each group, between its ends.
_SQUARES = np.array([0.0, *(low * high for low, high in zip(_EDGES, (*_EDGES[1:], 2 * _EDGES[-1]), strict=True))])
#: Deviations of noise below which a count is taken for none.
_SEEN = 2.5
#: Of the rows that may hide below it, this share is taken to be as far away as rows can be.
_HIDDEN = 0.02
#: The root mean square of a row is this share of the length at which rows are shortened.
_ROOM = 1.5
#: Counts tell something where their noise is below this share of the rows.
_MOST_NOISE = 0.05


def wants_second_look(gram: NoisyGram, first: Geometry, *, count_noise: float) -> bool:
    """Return whether a column varies less than the noise of the matrix, and counts could tell how much.

    Args:
        gram: The first release.
        first: Its geometry.
        count_noise: The deviation of the number of all entries in a group, over the number of columns.
    """
    level = gram.noise_scale * math.sqrt(2 * gram.features) / first.rows
    varied = np.diag(gram.matrix)[:-1] / first.rows - first.centre**2
    return bool(count_noise <= _MOST_NOISE * first.counted and np.min(varied) < level)


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
        groups = np.searchsorted(np.array(_EDGES, np.float64), np.abs(codes - self.centre), side="right")
        places = groups + (len(_EDGES) + 1) * np.arange(len(self.centre))
        return np.bincount(places.ravel(), minlength=math.prod(self.shape)).reshape(self.shape)

    @classmethod
    def about(cls, centre: Floats) -> DistanceCounts:
        """Count from the centre of a geometry, in whole codes."""
        return cls(centre=np.rint(np.clip(centre, -1.0, 1.0) * ROW_LENGTH))


@dataclass(frozen=True, kw_only=True, eq=False)
class ShortenedGram:
    """The Gram matrix of rows in the units of a public map, shortened to the length of codes.

    Guarantee: a row adds a matrix of Frobenius norm at most `GRAM_SENSITIVITY`.
    """

    mapping: RowMap

    def __post_init__(self) -> None:
        _ = self.mapping.factors, self.mapping.offsets  # made here: another machine might round a product otherwise

    @property
    def shape(self) -> tuple[int, ...]:
        """Columns and the constant, twice."""
        return (self.mapping.geometry.features + 1,) * 2

    def __call__(self, codes: Any, targets: Floats) -> Integers:
        """Return the matrix of some rows."""
        return gram_of(shortened(self.mapping.mapped(codes)))


def scaled(counts: Floats, first: Geometry, *, noise: float) -> Geometry:
    """Return the coordinates of the second look: each column from its centre, divided by its root mean square.

    Args:
        counts: The released counts of distances from the first geometry's centre.
        first: That geometry.
        noise: The deviation of a count.
    """
    d, rows = first.features, max(first.counted, 1.0)
    of_all = _mean_squares(counts.sum(axis=0)[None, :] / d, noise=noise / math.sqrt(d), rows=rows)
    squares = _mean_squares(counts, noise=noise, rows=rows)
    told = np.where(counts > _SEEN * noise, counts, 0.0).sum(axis=1) >= rows / 2
    squares = np.where(told, squares, of_all)
    unit = np.sqrt(np.maximum(squares, 1.0)) / ROW_LENGTH
    stretch = 2.0 ** (CODE_BITS - Z_BITS) / (_ROOM * math.sqrt(d) * unit)
    return Geometry(
        map=np.diag(stretch),
        inverse=np.diag(1 / stretch),
        centre=DistanceCounts.about(first.centre).centre / ROW_LENGTH,
        h=np.ones(d),
        trace=1.0,
        rows=first.rows,
        counted=first.counted,
        intercept=False,
    )


def _mean_squares(counts: Floats, *, noise: float, rows: float) -> Floats:
    """Return the mean square distances of columns; rows that noise may hide are taken to be some, and far away."""
    seen = np.where(counts > _SEEN * noise, counts, 0.0)
    hidden = _HIDDEN * _SEEN * noise / rows * ROW_LENGTH**2 / len(counts)
    return np.asarray(seen @ _SQUARES / np.maximum(seen.sum(axis=1), 1.0) + hidden)


def second_geometry(gram: NoisyGram, scales: Geometry, *, intercept: bool, outputs: int, full: bool) -> Geometry:
    """Return the geometry of the second matrix for rows as they are.

    Args:
        gram: The release in the units of `scales`.
        scales: The coordinates of the second look.
        intercept: Whether rows are centred and get a constant column.
        outputs: Predictors of a row.
        full: As in `from_gram`.
    """
    assert scales.map is not None
    unit = np.diag(scales.map) * 2.0 ** (Z_BITS - CODE_BITS)
    found = from_gram(
        gram, rows=scales.rows, counted=scales.counted, intercept=intercept, outputs=outputs, full=full
    )
    assert found.map is not None
    assert found.inverse is not None
    return replace(
        found,
        map=unit[:, None] * found.map,
        inverse=found.inverse / unit,
        centre=scales.centre + found.centre / unit,
    )
