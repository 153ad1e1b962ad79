"""The rows of a descent as integers that are kept between passes: their codes, and those mapped to a geometry.

The source is read once where the codes fit, two bytes an entry: the matrix of the coordinates and all gradients are
made of them. They make way for the mapped rows, four bytes an entry, where those fit. How many rows there are decides
about time and memory only: the integers are the same, whatever is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.progress import progress
from sidelight.regression.clipping import is_sparse
from sidelight.regression.descent.geometry import Floats
from sidelight.regression.descent.integer_rows import Integers, RowMap, row_codes, whole_norms
from sidelight.regression.rows import ArrayRows, Block, Rows, side_by_side

#: Codes, and mapped rows, of a stream that take no more than this are kept after the first pass.
KEPT_BYTES = 1 << 30
#: Entries of z that are worked on at once: they stay in the cache.
_CELLS = 1 << 17
#: Blocks of which threads are worth their while.
_SEVERAL = 4

Mapped = tuple[Any, Integers, Floats]


class CodedRows:
    """Bounded rows as codes of the row length (`row_codes`) with their targets, read once where they fit."""

    def __init__(self, rows: Rows, *, data_norm: float) -> None:
        self._rows, self._data_norm = rows, data_norm
        self._kept: list[tuple[NDArray[np.int16], Floats]] | None = None

    def blocks(self, *, dense: bool) -> Iterator[tuple[Any, Floats]]:
        """Return codes, floats that are whole numbers, and targets, block by block."""
        if self._kept is not None:
            for small, targets in self._kept:
                yield small.astype(np.float64), targets
            return
        kept: list[tuple[NDArray[np.int16], Floats]] = []
        room = KEPT_BYTES
        for codes, targets, whole in side_by_side(lambda block: self._coded(block, dense=dense), self._rows.blocks()):
            room -= 1 if whole is None else whole.nbytes
            if whole is not None and room >= 0:
                kept.append((whole, targets))
            elif kept:
                kept = []
            yield codes, targets
        if room >= 0 and kept:
            self._kept = kept

    def _coded(self, block: Block, *, dense: bool) -> tuple[Any, Floats, NDArray[np.int16] | None]:
        codes = row_codes(block.features, self._data_norm)
        codes = codes.toarray() if dense and is_sparse(codes) else codes
        return codes, block.targets, None if is_sparse(codes) else codes.astype(np.int16)  # at most 2¹⁴ each

    def handed_over(self, columns: int) -> Iterator[tuple[Any, Floats]] | None:
        """Return what is kept and forget it block by block, if it is, and mapped rows of so many columns fit, too."""
        if self._kept is None or sum(len(codes) for codes, _ in self._kept) * columns * 4 > KEPT_BYTES:
            return None
        kept, self._kept = self._kept, None
        kept.reverse()

        def blocks() -> Iterator[tuple[Any, Floats]]:
            while kept:
                codes, targets = kept.pop()
                yield codes.astype(np.float64), targets

        return blocks()

    def progress(self, passes: int) -> AbstractContextManager[Callable[..., None]]:
        """Show how many passes are done over a table; how many rows it has must not decide whether."""
        if isinstance(self._rows, ArrayRows):
            return nullcontext(lambda: None)
        return progress("steps of descent", total=passes)

    @property
    def in_memory(self) -> bool:
        """Whether the rows are in memory anyway."""
        return self._rows.in_memory

    def __repr__(self) -> str:
        return "CodedRows()"


class MappedRows:
    """Coded rows as the integers of a geometry, with their norms: mapped once where they fit, else in every pass."""

    def __init__(self, rows: CodedRows, mapping: RowMap) -> None:
        self._rows, self._mapping = rows, mapping
        self._kept: list[Mapped] | None = None

    def blocks(self) -> Iterator[Mapped]:
        """Return z, norms and targets, block by block."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Mapped] = []
        room: float = np.inf if self._rows.in_memory else KEPT_BYTES
        dense = self._mapping.geometry.map is not None
        coded = self._rows.handed_over(self._mapping.geometry.columns) if dense else None
        for found in side_by_side(self._mapped, self._rows.blocks(dense=dense) if coded is None else coded):
            z = found[0]
            room -= z.data.nbytes + z.indices.nbytes if is_sparse(z) else z.nbytes
            if room >= 0:
                kept.append(found)
            elif kept:
                kept = []
            yield found
        if room >= 0:
            self._kept = kept

    def _mapped(self, coded: tuple[Any, Floats]) -> Mapped:
        z = self._mapping.mapped(coded[0])
        return z, whole_norms(z, self._mapping.last), coded[1]

    def parts(self) -> Iterator[Mapped]:
        """Return the same in small pieces, dense ones as floats."""
        for block in self.blocks():
            yield from parts_of(block)

    def added_up(self, statistic: Callable[[Mapped], Integers]) -> Integers:
        """Return the sum of an integer statistic of all pieces, which several threads work on: in any order."""

        def of_block(block: Mapped) -> Integers:
            found = [statistic(part) for part in parts_of(block)]
            return np.asarray(np.sum(found, axis=0)) if found else np.zeros(1, np.int64)

        few = self._kept is not None and len(self._kept) < _SEVERAL
        return np.asarray(sum(map(of_block, self.blocks()) if few else side_by_side(of_block, self.blocks())))

    def progress(self, passes: int) -> AbstractContextManager[Callable[..., None]]:
        """Show how many passes are done over a table."""
        return self._rows.progress(passes)

    def __repr__(self) -> str:
        return "MappedRows()"


def parts_of(block: Mapped) -> Iterator[Mapped]:
    """Cut a block into pieces that stay in the cache, dense ones as floats."""
    z, norms, targets = block
    if is_sparse(z):
        yield block
        return
    step = max(256, _CELLS // z.shape[1])
    for start in range(0, len(z), step):
        piece = slice(start, start + step)
        yield z[piece].astype(np.float64), norms[piece], targets[piece]
