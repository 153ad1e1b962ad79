"""The smoothing basis of each column under its released counts, its weights, and both as integers.

Functions of public and released numbers alone (additive-model proof page, section 4): they decide how accurate a model
is, never what it costs. What a row adds is bounded afterwards, from the integer tables themselves.

An `Offset` is where curves start: a sum of public tables on fine codes, from lines that were released or from a
prediction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sidelight.records import Category, Number
from sidelight.regression.additive.counts import ColumnCells
from sidelight.regression.additive.fine_codes import FINE_CELLS, LineEncoder
from sidelight.regression.additive.row_sums import U_BITS
from sidelight.regression.descent.integer_rows import Z_BITS, Integers
from sidelight.regression.losses import Floats
from sidelight.regression.table_rows import LEVELS

#: Components of a column at most, and of all together.
MOST_COMPONENTS, _MOST_TOGETHER = 12, 1024
_SMALLEST = 1e-6
#: Of ranks, of places, of steps in rank, and of single cells.
_KERNEL = (0.2, 0.2, 0.55, 0.05)
#: Of a missing cell relative to the others.
_MISSING_SHARE = 0.1
_LEAST_WEIGHT = 0.02
_LARGEST = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnBasis:
    """Components of one column: values on cells, (cells, components), of mean 0 and variance 1; and prior variances."""

    values: Floats
    priors: Floats


def _centred(kernel: Floats, masses: Floats) -> Floats:
    """Return P·B·Pᵀ over its mean variance, 0 where there is none."""
    moved = kernel - (masses @ kernel)[None, :]
    moved = moved - (moved @ masses)[:, None]
    size = float(masses @ np.diag(moved))
    return moved / size if size > 1e-15 else np.zeros_like(moved)


def smoothing_basis(masses: Floats, centres: Floats) -> ColumnBasis:
    """Return the basis of cells of these masses; `centres` are those of a number's cells, empty for a category."""
    cells = len(masses)
    if cells < 2:
        return ColumnBasis(values=np.zeros((cells, 0)), priors=np.zeros(0))
    kernel = _centred(np.eye(cells), masses)
    ranks = np.cumsum(masses) - masses / 2
    if len(centres) > 2:
        parts = (np.outer(ranks, ranks), np.outer(centres, centres), np.minimum.outer(ranks, ranks), np.eye(cells))
        kernel = sum(
            (weight * _centred(part, masses) for weight, part in zip(_KERNEL, parts, strict=True)),
            start=np.zeros((cells, cells)),
        )
    root = np.sqrt(masses)
    scaled = root[:, None] * kernel * root[None, :]
    scaled -= np.outer(root, root @ scaled)  # √p has eigenvalue 0, and is not to be mixed with others of the kind
    scaled -= np.outer(scaled @ root, root)
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    order = np.argsort(values)[::-1][: min(MOST_COMPONENTS, cells - 1)]
    order = order[values[order] > _SMALLEST]
    found = vectors[:, order] / root[:, None]
    if len(centres):
        legendre = np.polynomial.legendre.legvander(2 * ranks - 1, max(len(order), 1))
        signs = np.sign(np.einsum("i,im,im->m", masses, found, legendre[:, 1 : len(order) + 1]))
        found = found * np.where(signs == 0, 1.0, signs)
    return ColumnBasis(values=found, priors=values[order] / max(values[order].sum(), 1e-300))


def basis_of(cells: ColumnCells) -> ColumnBasis:
    """Return the basis of a column's cells, a missing one with a component of its own."""
    masses = cells.masses
    if not cells.missing:
        return smoothing_basis(masses, cells.centres)
    share = float(masses[-1])
    rest = smoothing_basis(masses[:-1] / (1 - share), cells.centres)
    apart = np.append(np.full(len(masses) - 1, -share), 1 - share) / math.sqrt(share * (1 - share))
    inside = np.vstack([rest.values / math.sqrt(1 - share), np.zeros((1, rest.values.shape[1]))])
    priors = np.append((1 - _MISSING_SHARE) * rest.priors, _MISSING_SHARE)
    if not len(rest.priors):
        priors = np.ones(1)
    order = np.argsort(-priors, kind="stable")[:MOST_COMPONENTS]
    return ColumnBasis(values=np.column_stack([inside, apart])[:, order], priors=priors[order] / priors[order].sum())


def water_filling(gains: Floats, noise: float) -> tuple[Floats, float]:
    """Return weights v = (1 - a²Q/(κ₀λ))₊ and Q = 1 + Σv, which solves itself.

    >>> weights, total = water_filling(np.array([1.0, 0.5, 0.25]), 0.05)
    >>> weights.round(6).tolist(), round(total, 6)
    ([0.851852, 0.703704, 0.407407], 2.962963)
    """
    low, high = 1.0, 1.0 + len(gains)
    with np.errstate(divide="ignore", over="ignore"):
        for _ in range(200):
            total = (low + high) / 2
            if 1 + np.maximum(1 - noise * total / gains, 0.0).sum() > total:
                low = total
            else:
                high = total
        total = (low + high) / 2
        return np.maximum(1 - noise * total / gains, 0.0), total


@dataclass(frozen=True, kw_only=True, eq=False)
class Coordinates:
    """The weighted components of all columns, and their integers on fine codes.

    Args:
        cells: Of every column.
        bases: Of every column, cut to the components that are used.
        weights: Of every column, v of each of its components.
    """

    cells: tuple[ColumnCells, ...]
    bases: tuple[ColumnBasis, ...]
    weights: tuple[Floats, ...]

    @cached_property
    def owner(self) -> Integers:
        """The column of each component."""
        return np.repeat(np.arange(len(self.weights)), [len(each) for each in self.weights])

    @cached_property
    def order(self) -> Integers:
        """The place of each component within its column, from 0."""
        return np.concatenate([np.zeros(0, np.int64), *(np.arange(len(each)) for each in self.weights)])

    @cached_property
    def v(self) -> Floats:
        """The weights of all components."""
        return np.concatenate([np.zeros(0), *self.weights])

    @cached_property
    def priors(self) -> Floats:
        """λ of all components."""
        return np.concatenate([np.zeros(0), *(basis.priors for basis in self.bases)])

    @property
    def trace(self) -> float:
        """Q, the mean square of a row z."""
        return 1 + float(self.v.sum())

    @property
    def dimension(self) -> int:
        """D, with the intercept."""
        return 1 + len(self.v)

    def on_codes(self, place: int, values: Floats) -> Floats:
        """Return values of a column's cells on its fine codes; 0 where a code has no cell."""
        padded = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
        return np.asarray(padded[self.cells[place].cell_of])

    @cached_property
    def z_tables(self) -> tuple[Integers, ...]:
        """√v·u on fine codes, in whole numbers of 2⁻¹²."""
        return tuple(
            _whole(self.on_codes(place, basis.values * np.sqrt(weights)))
            for place, (basis, weights) in enumerate(zip(self.bases, self.weights, strict=True))
        )

    def leading_tables(self, most: int) -> tuple[Integers, ...]:
        """Return u of the first components of each column on fine codes, in whole numbers of 2⁻¹²."""
        return tuple(_whole(self.on_codes(place, basis.values[:, :most])) for place, basis in enumerate(self.bases))


def _whole(values: Floats) -> Integers:
    scaled = np.rint(values * 2.0**Z_BITS)
    return np.clip(scaled, -_LARGEST, _LARGEST).astype(np.int64)


def coordinates(cells: Sequence[ColumnCells], *, scale: float, noise: float) -> Coordinates:
    """Return the weighted components of all columns.

    Args:
        cells: Of every column.
        scale: κ₀, the prior variance of a column's curve.
        noise: a², the variance of one coefficient's noise for rows of length 1.
    """
    bases = [basis_of(each) for each in cells]
    sizes = [len(basis.priors) for basis in bases]
    priors = np.concatenate([np.zeros(0), *(basis.priors for basis in bases)])
    v, _ = water_filling(scale * priors, noise)
    first = np.zeros(len(v), bool)
    first[(np.cumsum([0, *sizes])[:-1])[np.array(sizes, int) > 0]] = True
    v = np.where(first, np.maximum(v, min(_LEAST_WEIGHT, 1 / len(cells))), v)
    kept = first | (v >= _LEAST_WEIGHT)
    if kept.sum() > _MOST_TOGETHER:
        rank = np.argsort(-np.where(kept, v + 2.0 * first, -1.0), kind="stable")
        kept = np.zeros(len(v), bool)
        kept[rank[:_MOST_TOGETHER]] = True
    parts = np.split(kept, np.cumsum(sizes)[:-1])
    weights = np.split(v, np.cumsum(sizes)[:-1])
    return Coordinates(
        cells=tuple(cells),
        bases=tuple(
            ColumnBasis(values=basis.values[:, part], priors=basis.priors[part])
            for basis, part in zip(bases, parts, strict=True)
        ),
        weights=tuple(weight[part] for weight, part in zip(weights, parts, strict=True)),
    )


#: The largest entry of an offset, in 2⁻²⁸.
_LARGEST_OFFSET = 2.0**40


@dataclass(frozen=True, kw_only=True, eq=False)
class Offset:
    """A sum of tables, one per column on its fine codes, and a constant: in half ranges, or log odds.

    Of several classes tables are (fine codes, classes) and the constant is one number a class.
    """

    tables: tuple[Floats, ...]
    constant: float | Floats

    def whole(self) -> tuple[tuple[Floats, ...], float | Floats]:
        """Return the tables and the constant in whole numbers of 2⁻²⁸, rounded once."""

        def rounded(values: Floats) -> Floats:
            return np.clip(np.rint(np.nan_to_num(values) * 2.0**U_BITS), -_LARGEST_OFFSET, _LARGEST_OFFSET)

        constant = rounded(np.array(self.constant))
        return tuple(rounded(table) for table in self.tables), constant if constant.ndim else float(constant)

    def explained(self, place: Coordinates) -> Floats:
        """Return θ⁰: the part of the offset that the coordinates can say, by the released masses of fine codes."""
        found = [np.zeros((1, *self.tables[0].shape[1:]))]
        for at, (table, basis, weights) in enumerate(zip(self.tables, place.bases, place.weights, strict=True)):
            mass = place.cells[at].fine / max(float(place.cells[at].fine.sum()), 1e-300)
            varied = np.nan_to_num(table) - mass @ np.nan_to_num(table)
            u = place.on_codes(at, basis.values)
            found.append(((mass * varied.T) @ u / np.sqrt(weights)).T)
        return np.concatenate(found)


def line_tables(columns: Sequence[Number | Category], coefficients: Floats, encoder: LineEncoder) -> tuple[Floats, ...]:
    """Return the tables of a linear model of the line encoding, coefficients in half ranges or log odds.

    Coefficients are one per feature, of several classes (features, classes).
    """
    middles = (np.arange(FINE_CELLS) * (LEVELS // 512) + LEVELS // 1024 - LEVELS) / LEVELS
    found, start = [], 0
    for column in columns:
        if isinstance(column, Number):
            ends = np.append(middles, 0.0)
            found.append(np.multiply.outer(ends, coefficients[start] * encoder.share))
            start += 1
        else:
            found.append(coefficients[start : start + len(column.labels)] * encoder.share)
            start += len(column.labels)
    return tuple(found)
