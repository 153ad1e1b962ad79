"""The rows of a descent as integers that are kept between passes: their codes, and those mapped to a geometry.

The source is read once where the codes fit, two bytes an entry: the matrix of the coordinates and all gradients are
made of them. They make way for the mapped rows, four bytes an entry, where those fit; eight of rows that are in memory
anyway. How many rows there are decides about time and memory only: the integers are the same, whatever is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.progress import progress
from sidelight.regression.descent.geometry import Floats
from sidelight.regression.descent.integer_rows import GeometryMap, Integers, row_codes, whole_norms
from sidelight.regression.descent.row_sums import CodedSum, ExactSum, Mapped, MappedSum
from sidelight.regression.rows import BLOCK_ROWS, Block, BoundedArrays, BoundedRows, Given, is_sparse, side_by_side

#: Codes, and mapped rows, of a stream that take no more than this are kept after the first pass.
KEPT_BYTES = 1 << 29
#: Entries of z that are worked on at once: they stay in the cache.
_CELLS = 1 << 17


class CodedExamples:
    """Bounded rows as codes of the row length (`row_codes`) with their targets, read once where they fit.

    `dense`: whether sums over codes want rows that are no sparse matrix.
    """

    def __init__(self, rows: BoundedRows, *, data_norm: float, dense: bool = True) -> None:
        self._rows, self._data_norm, self._dense = rows, data_norm, dense
        self._kept: list[tuple[NDArray[np.int16], NDArray[Any]]] | None = None
        self._fits = True

    def blocks(self, *, dense: bool) -> Iterator[tuple[Any, Floats]]:
        """Return codes, floats that are whole numbers, and targets, block by block."""
        if self._kept is not None:
            for small, targets in self._kept:
                yield small.astype(np.float64), targets.astype(np.float64)
            return
        kept: list[tuple[NDArray[np.int16], NDArray[Any]]] = []
        room = KEPT_BYTES if self._fits else -1

        def coded(block: Block) -> tuple[Any, Floats, NDArray[np.int16] | None]:
            codes = coded_block(block, self._data_norm, dense=dense)
            return codes, block.targets, None if is_sparse(codes) else codes.astype(np.int16)  # at most 2¹⁴ each

        for codes, targets, whole in side_by_side(coded, self._rows.blocks()):
            small = _small(targets)
            room -= 1 if whole is None else whole.nbytes + small.nbytes
            if whole is not None and room >= 0:
                kept.append((whole, small))
            elif kept:
                kept = []
            yield codes, targets
        self._fits = room >= 0
        if self._fits and kept:
            self._kept = kept

    def added_up(self, statistic: CodedSum) -> Integers:
        """Return the sum over all rows, block by block."""
        return summed(lambda block: statistic(*block), self.blocks(dense=self._dense), statistic.shape)

    def mapped(self, mapping: GeometryMap) -> MappedRows:
        """Return the rows as the integers of a geometry."""
        return MappedRows(self, mapping)

    def handed_over(self, columns: int) -> Iterator[tuple[Any, Floats]] | None:
        """Return what is kept and forget it block by block, if it is, and mapped rows of so many columns fit, too."""
        if self._kept is None or sum(len(codes) for codes, _ in self._kept) * (columns * 4 + 16) > KEPT_BYTES:
            return None
        kept, self._kept = self._kept, None
        kept.reverse()

        def blocks() -> Iterator[tuple[Any, Floats]]:
            while kept:
                codes, targets = kept.pop()
                yield codes.astype(np.float64), targets.astype(np.float64)

        return blocks()

    @property
    def holds(self) -> bool:
        """Whether the codes are kept."""
        return self._kept is not None

    def progress(self, passes: int) -> AbstractContextManager[Callable[..., None]]:
        """Show how many passes are done over a table; how many rows it has must not decide whether."""
        if isinstance(self._rows, BoundedArrays):
            return nullcontext(lambda: None)
        return progress("steps of descent", total=passes)

    @property
    def in_memory(self) -> bool:
        """Whether the rows are in memory anyway."""
        return self._rows.in_memory

    def __repr__(self) -> str:
        return "CodedExamples()"


class MappedRows:
    """Coded rows as the integers of a geometry, with their norms: mapped once where they fit, else in every pass."""

    def __init__(self, rows: CodedExamples, mapping: GeometryMap) -> None:
        self._rows, self._mapping = rows, mapping
        self._kept: list[Mapped] | None = None
        self._fits = True

    def blocks(self) -> Iterator[Mapped]:
        """Return z, norms and targets, block by block."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Mapped] = []
        room: float = np.inf if self._rows.in_memory else KEPT_BYTES
        dense = self._mapping.geometry.map is not None
        coded = self._rows.handed_over(self._mapping.geometry.columns) if dense else None
        if not self._fits or (coded is None and self._rows.holds):
            room = -1  # codes stay where mapped rows do not fit
        for found in side_by_side(self._mapped, self._rows.blocks(dense=dense) if coded is None else coded):
            z, norms, targets = found
            room -= z.data.nbytes + z.indices.nbytes if is_sparse(z) else z.nbytes
            room -= norms.nbytes + targets.nbytes
            if room >= 0:
                kept.append(found)
            elif kept:
                kept = []
            yield found
        self._fits = room >= 0
        if self._fits:
            self._kept = kept

    def _mapped(self, coded: tuple[Any, Floats]) -> Mapped:
        z, norms, targets = mapped_block(self._mapping, *coded)
        return z if self._rows.in_memory or is_sparse(z) else z.astype(np.int32), norms, targets

    def added_up(self, statistic: MappedSum) -> Integers:
        """Return the sum of an integer statistic of all pieces, which several threads work on: in any order."""
        return summed(lambda block: sum_of_block(statistic, block), self.blocks(), statistic.shape)

    def __repr__(self) -> str:
        return "MappedRows()"


def summed(statistic: Callable[[Given], Integers], blocks: Iterable[Given], shape: tuple[int, ...]) -> Integers:
    """Return the sum of an integer statistic over all blocks, on as many threads as there are cores."""
    total = ExactSum(shape)
    for found in side_by_side(statistic, blocks):
        total.add(found)
    return total.saturated()


def _small(targets: Floats) -> NDArray[Any]:
    """Return targets in two bytes each where they are small whole numbers, as places of classes are."""
    with np.errstate(invalid="ignore"):
        small = targets.astype(np.int16)
    return small if np.array_equal(small, targets) else targets


def coded_block(block: Block, data_norm: float, *, dense: bool) -> Any:
    """Return the codes of bounded rows, whole numbers in floats: a sparse matrix only where it is one and may stay."""
    codes = row_codes(block.features, data_norm)
    return codes.toarray() if dense and is_sparse(codes) else codes


def mapped_block(mapping: GeometryMap, codes: Any, targets: Floats) -> Mapped:
    """Return codes as the integers of a geometry, with their norms."""
    z = mapping.mapped(codes)
    return z, whole_norms(z, mapping.last).astype(np.float64), targets


def sum_of_block(statistic: MappedSum, block: Mapped) -> Integers:
    """Return the sum over a block, piece by piece."""
    total = np.zeros(statistic.shape, np.int64)
    for part in parts_of(block):
        total += statistic(part)
    return total


def parts_of(block: Mapped) -> Iterator[Mapped]:
    """Cut a block into pieces whose errors stay in the cache, and so does what is made floats of them."""
    z, norms, targets = block
    if is_sparse(z):
        yield block
        return
    step = max(256 if z.dtype == np.int32 else BLOCK_ROWS, _CELLS // z.shape[1])
    for start in range(0, len(z), step):
        piece = slice(start, start + step)
        yield z[piece].astype(np.float64, copy=False), norms[piece], targets[piece]
