"""What one pass over fine codes adds up: integers looked up in public tables, one row after the other.

The lemma of the descent page holds here with z looked up: ‖z·e'‖ <= clip for every row, because |e'| <= ⌊clip/r⌋ and
r >= ‖z‖, both in integers. The sum Σ z·e' is, per column, the sum of e' in each cell times the cell's integers; so a
pass counts e' by cell, and one small product in Python integers, which cannot wrap, follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.aggregates.bounded import VALUE_LIMIT
from sidelight.regression.descent.integer_rows import (
    ERROR_BITS,
    MOST_ROWS_AT_ONCE,
    Z_BITS,
    Integers,
    clipped_errors,
    root_up,
)
from sidelight.regression.descent.targets import Targets
from sidelight.regression.losses import Floats

#: The constant entry of z.
ONE = 1 << Z_BITS
#: Cells of a numeric target's histogram.
TARGET_CELLS = 16
#: Bits of predictors (the unit of offsets).
U_BITS = 28


def columns_of(codes: Any) -> list[Integers]:
    """Return the codes of each column as places."""
    return [codes[:, place].astype(np.intp) for place in range(codes.shape[1])]


def target_cell(targets: Targets, coded: Floats) -> Integers:
    """Return the cell of each target: 16 of even width for a number, else its class."""
    whole = coded[:, 0].astype(np.int64)
    if targets.kind == "softmax":
        return whole
    if targets.kind == "logistic":
        return np.asarray((whole > 0).astype(np.int64))
    return np.asarray(np.minimum(TARGET_CELLS - 1, (whole + (1 << ERROR_BITS)) >> (ERROR_BITS - 3)))


def target_cells(targets: Targets) -> int:
    """Return the number of these cells."""
    return TARGET_CELLS if targets.kind == "squared" else len(targets.classes)


@dataclass(frozen=True, kw_only=True, eq=False)
class FineCounts:
    """The number of rows in all, in every fine cell of every column, and in every cell of the target.

    Guarantee: a row adds 1 to the first entry and to exactly one entry of each column and of the target.
    """

    targets: Targets
    sizes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """All counts in one vector."""
        return (1 + sum(self.sizes) + target_cells(self.targets),)

    def __call__(self, codes: Any, targets: Floats) -> Integers:
        """Return the counts of some rows."""
        found = [np.array([len(targets)], np.int64)]
        for places, size in zip(columns_of(codes), self.sizes, strict=True):
            found.append(np.bincount(places, minlength=size))
        found.append(np.bincount(target_cell(self.targets, targets), minlength=target_cells(self.targets)))
        return np.concatenate(found).astype(np.int64)

    def split(self, total: Integers) -> tuple[int, list[Integers], Integers]:
        """Return the number of rows, the counts of each column, and those of the target."""
        ends = np.cumsum([1, *self.sizes])
        count, *columns, target = np.split(total, ends)
        return int(count[0]), columns, target


@dataclass(frozen=True, kw_only=True, eq=False)
class LeadingGram:
    """The Gram matrix of leading components, looked up and shortened to `radius`.

    Guarantee: a row adds a matrix of Frobenius norm at most radius²: entries are rounded towards 0, so ‖ℓ'‖ <= radius.

    Args:
        tables: One (fine codes, components) table per column, integers of 2⁻¹².
        radius: The length of a row, whole.
    """

    tables: tuple[Integers, ...]
    radius: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Components, twice."""
        return (sum(table.shape[1] for table in self.tables),) * 2

    def __call__(self, codes: Any, targets: Floats) -> Integers:
        """Return the matrix of some rows."""
        total = np.zeros(self.shape, np.int64)
        step = max(1, min(MOST_ROWS_AT_ONCE, (1 << 21) // max(1, self.shape[0])))
        for start in range(0, len(codes), step):
            part = self.rows(codes[start : start + step])
            total += (part.T @ part).astype(np.int64)
        return total

    def rows(self, codes: Any) -> Floats:
        """Return the shortened rows: whole numbers in floats, whose products are exact."""
        looked = [table[places] for table, places in zip(self.tables, columns_of(codes), strict=True)]
        whole = np.concatenate(looked, axis=1).astype(np.float64)
        norms = root_up(np.einsum("ij,ij->i", whole, whole))
        long = np.flatnonzero(norms > self.radius)
        if len(long):
            some = whole[long].astype(np.int64)
            whole[long] = np.sign(some) * (np.abs(some) * self.radius // norms[long, None])
        return whole


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveErrors:
    """The clipped errors of rows at a public point, by fine code of each column, and in all.

    Guarantee: with z looked up in the same tables as `squares`, a row moves Σ z·e' by at most `clip`.

    Args:
        targets: What is learned.
        predictors: One table of 2⁻²⁸ per column: what its fine codes add to the predictor at this point; of several
            classes (fine codes, classes).
        constant: What all rows have, in 2⁻²⁸.
        squares: One table per column: the squared length of its part of z, in 2⁻²⁴.
        clip: The bound, in 2⁻²⁶.
    """

    targets: Targets
    predictors: tuple[Floats, ...]
    constant: float | Floats
    squares: tuple[Floats, ...]
    clip: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The sum of all, and those of each fine code."""
        return (1 + sum(len(table) for table in self.predictors), *self.predictors[0].shape[1:])

    def __call__(self, codes: Any, targets: Floats) -> Integers:
        """Return the sums over some rows."""
        columns = columns_of(codes)
        errors = self.errors(columns, targets)
        found = [errors.sum(axis=0)[None]]
        for places, table in zip(columns, self.predictors, strict=True):
            of_outputs = [np.bincount(places, weights=each, minlength=len(table)) for each in np.atleast_2d(errors.T)]
            found.append(np.stack(of_outputs, axis=-1).reshape(table.shape))
        return np.concatenate(found).astype(np.int64)

    def errors(self, columns: Sequence[Integers], targets: Floats) -> Floats:
        """Return e' of each row, of several classes (rows, classes)."""
        u = looked_up(self.predictors, columns, self.constant)
        squared = looked_up(self.squares, columns, float(ONE) ** 2)
        errors = clipped_errors(self.targets.errors(as_outputs(u), targets), root_up(squared), self.clip)
        return errors.reshape(u.shape)


def as_outputs(values: Floats) -> Floats:
    """Return predictors as (rows, outputs)."""
    return values[:, None] if values.ndim == 1 else values


def looked_up(tables: Sequence[Floats], columns: Sequence[Integers], constant: float | Floats) -> Floats:
    """Return the sum of the tables' entries at each row's codes: whole numbers below 2⁵³, in any order."""
    total = np.zeros((len(columns[0]), *tables[0].shape[1:])) + constant
    for table, places in zip(tables, columns, strict=True):
        total += table.take(places, axis=0)
    return total


def gradient_of(sums: Integers, tables: Sequence[Integers]) -> Integers:
    """Return Σ z·e' from the sums of e' by code: Python integers, clamped once at the end.

    Clamping moves no two sums further apart, so that the sensitivity is that of the sum.
    """
    found = [sums[:1].astype(object) * ONE]
    start = 1
    for table in tables:
        part = sums[start : start + len(table)]
        start += len(table)
        used = np.flatnonzero(part.any(axis=1) if part.ndim > 1 else part)
        nothing = np.zeros((table.shape[1], *part.shape[1:]), object)
        found.append(table[used].T.astype(object) @ part[used].astype(object) if len(used) else nothing)
    whole = np.concatenate(found)
    return np.asarray(np.clip(whole, -VALUE_LIMIT, VALUE_LIMIT), np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveScores:
    """Losses, or votes against rivals, of several sums of tables: the choice of the descent page on fine codes.

    Args:
        targets: What is learned.
        candidates: Of each prediction its tables in 2⁻²⁸ and its constant.
        rivals: Of each prediction the constants that it is compared with; of losses only the first counts.
    """

    targets: Targets
    candidates: tuple[tuple[tuple[Floats, ...], float | Floats], ...]
    rivals: tuple[tuple[float | Floats, ...], ...]

    @property
    def _votes(self) -> bool:
        return self.targets.kind == "squared"

    @property
    def shape(self) -> tuple[int, ...]:
        """One per pair of a prediction and a rival, or one per prediction and one for the base."""
        return (sum(map(len, self.rivals)) if self._votes else len(self.candidates) + 1,)

    def __call__(self, codes: Any, targets: Floats) -> Integers:
        """Return the sums over some rows."""
        columns, found = columns_of(codes), []
        for (tables, constant), rivals in zip(self.candidates, self.rivals, strict=True):
            u = as_outputs(looked_up(tables, columns, constant))
            if self._votes:
                found += [int(self.targets.votes(u, np.full_like(u, rival), targets).sum()) for rival in rivals]
            else:
                found.append(int(self.targets.losses(u, targets).sum()))
        if not self._votes:
            base = np.zeros((len(targets), self.targets.outputs)) + self.rivals[0][0]
            found.append(int(self.targets.losses(base, targets).sum()))
        return np.array(found, np.int64)

    def against(self, total: Integers) -> Integers:
        """Return losses, or by how many rows each prediction loses against its better rival; none is last."""
        if not self._votes:
            return total
        ends = np.cumsum([len(each) for each in self.rivals])
        return np.array([*(-votes.min() for votes in np.split(total, ends[:-1])), 0], np.int64)
