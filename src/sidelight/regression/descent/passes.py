"""What one pass over the rows of a descent adds up, in integers: a Gram matrix, losses or votes, a clipped gradient.

Every sum is exact and a function of the rows as a set: order, blocks and threads make no difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from sidelight.progress import progress
from sidelight.regression.clipping import is_sparse
from sidelight.regression.descent.geometry import Floats
from sidelight.regression.descent.integer_rows import (
    Integers,
    RowMap,
    clipped_errors,
    gradient_sum,
    gram_of,
    predictors,
    row_codes,
    whole_norms,
)
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.descent.starts import Start
from sidelight.regression.descent.targets import Targets
from sidelight.regression.rows import ArrayRows, Block, Rows, side_by_side

#: Mapped rows of a stream that take no more than this are kept after the first pass.
KEPT_BYTES = 1 << 28
#: Entries of z that are worked on at once: they stay in the cache.
_CELLS = 1 << 17


class MappedRows:
    """Bounded rows as the integers of a geometry, with their norms: mapped once where they fit, else in every pass."""

    def __init__(self, rows: Rows, mapping: RowMap, *, data_norm: float) -> None:
        self._rows, self._mapping, self._data_norm = rows, mapping, data_norm
        self._kept: list[tuple[Any, Integers, Floats]] | None = None

    def blocks(self) -> Iterator[tuple[Any, Integers, Floats]]:
        """Return z, norms and targets, block by block."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[tuple[Any, Integers, Floats]] = []
        room = math.inf if self._rows.in_memory else KEPT_BYTES
        for found in side_by_side(self._mapped, self._rows.blocks()):
            z = found[0]
            room -= z.data.nbytes + z.indices.nbytes if is_sparse(z) else z.nbytes
            if room >= 0:
                kept.append(found)
            elif kept:
                kept = []
            yield found
        if room >= 0:
            self._kept = kept

    def _mapped(self, block: Block) -> tuple[Any, Integers, Floats]:
        z = self._mapping.mapped(_codes(block, self._data_norm, dense=self._mapping.geometry.map is not None))
        return z, whole_norms(z, self._mapping.last), block.targets

    def parts(self) -> Iterator[tuple[Any, Integers, Floats]]:
        """Return the same in small pieces, dense ones as floats."""
        for z, norms, targets in self.blocks():
            if is_sparse(z):
                yield z, norms, targets
                continue
            step = max(256, _CELLS // z.shape[1])
            for start in range(0, len(z), step):
                piece = slice(start, start + step)
                yield z[piece].astype(np.float64), norms[piece], targets[piece]

    def progress(self, passes: int) -> AbstractContextManager[Callable[..., None]]:
        """Show how many passes are done over a table; how many rows it has must not decide whether."""
        if isinstance(self._rows, ArrayRows):
            return nullcontext(lambda: None)
        return progress("steps of descent", total=passes)

    def __repr__(self) -> str:
        return "MappedRows()"


def gram_and_count(plan: DescentPlan, rows: Rows) -> tuple[Integers, int]:
    """Read the rows once, where anything of it is needed."""
    total = np.zeros((plan.features + 1,) * 2 if plan.shares.gram else (0, 0), np.int64)
    count = 0
    if not plan.shares.gram and not plan.shares.count:
        return total, count
    for block in rows.blocks():
        count += block.size
        if plan.shares.gram:
            total += gram_of(_codes(block, float(plan.data_norm), dense=True))
    return total, count


def start_losses(targets: Targets, mapped: MappedRows, starts: list[Start], mapping: RowMap) -> Integers:
    """Add up the losses of the starts and, last, of equal classes, in one pass."""
    totals = np.zeros(len(starts) + 1, np.int64)
    thetas = [start.theta for start in starts]
    codes = [mapping.theta_codes(theta) for theta in (*thetas, np.zeros_like(thetas[0]))]
    for z, _, labels in mapped.parts():
        for place, code in enumerate(codes):
            totals[place] += int(targets.losses(predictors(z, code, mapping.last), labels).sum())
    return totals


def start_votes(targets: Targets, mapped: MappedRows, starts: list[Start], mapping: RowMap) -> Integers:
    """Return by how many rows each start loses against the better of its rivals; 0 for none; in one pass.

    The rivals: the middle of the range, and the start's own constant where it has one.
    """
    codes = [mapping.theta_codes(start.theta) for start in starts]
    rivals = [
        [mapping.theta_codes(rival) for rival in (np.zeros_like(start.theta), start.constant) if rival is not None]
        for start in starts
    ]
    totals = [np.zeros(len(each), np.int64) for each in rivals]
    for z, _, labels in mapped.parts():
        for own, others, total in zip(codes, rivals, totals, strict=True):
            u = predictors(z, own, mapping.last)
            for place, other in enumerate(others):
                total[place] += int(targets.votes(u, predictors(z, other, mapping.last), labels).sum())
    return np.array([*(-total.min() for total in totals), 0], np.int64)


def integer_gradient(targets: Targets, mapped: MappedRows, theta: Floats, mapping: RowMap, *, clip: int) -> Integers:
    """Return the sum of the clipped integer gradients of all rows at a public point, exactly, in one pass.

    Guarantee: one row more moves it by at most `clip` in Euclidean norm (the lemma of `integer_rows`).
    """
    total = np.zeros((mapping.geometry.columns, targets.outputs), np.int64)
    code = mapping.theta_codes(theta)
    for z, norms, labels in mapped.parts():
        errors = clipped_errors(targets.errors(predictors(z, code, mapping.last), labels), norms, clip)
        total += gradient_sum(z, errors, mapping.last)
    return total


def _codes(block: Block, data_norm: float, *, dense: bool) -> Any:
    codes = row_codes(block.features, data_norm)
    return codes.toarray() if dense and is_sparse(codes) else codes
