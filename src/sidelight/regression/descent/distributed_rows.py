"""Distributed rows of a descent: workers bound and code them once and keep the codes; only sums come here.

A pass sends a public map and a public point, or what else `row_sums` names, and gets the exact integer sum of every
part back. The kernels are those of local rows, so the integers are the same, and so is the release under the same
noise. What workers keep is dropped when the descent ends, however it ends.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays
from sidelight.aggregates.collect import RowsThatCount
from sidelight.aggregates.state_bytes import state_from_bytes, state_to_bytes
from sidelight.progress import progress
from sidelight.records.rows import KEPT_BLOCK_BYTES, Batch
from sidelight.records.source_protocols import DistributedRows, Pinned
from sidelight.regression.descent.geometry import Floats
from sidelight.regression.descent.integer_rows import GeometryMap, Integers
from sidelight.regression.descent.mapped_rows import coded_block, mapped_block, sum_of_block
from sidelight.regression.descent.row_sums import CodedPasses, CodedSum, ExactSum, MappedSum
from sidelight.regression.rows import RowPolicy, is_sparse

#: Makes features and targets of coded rows, row by row; it can be pickled.
Decoded = Callable[[Iterable[CodeArrays]], Iterator[tuple[Any, NDArray[Any]]]]


@dataclass(frozen=True, repr=False)
class DistributedExamples:
    """Distributed examples: where they are, which rows count, and how one becomes bounded numbers."""

    place: DistributedRows
    counted: RowsThatCount
    decoded: Decoded
    policy: RowPolicy

    @contextmanager
    def coded(self, *, data_norm: float | None, dense: bool) -> Iterator[CodedPasses]:
        """Code the rows where they are, for the passes of one fit; what workers keep is dropped at its end.

        Without a `data_norm` the rows are codes already.
        """
        work = CodedBlocks(self.counted, self.decoded, self.policy, data_norm, dense)
        kept = self.place.pinned(self.counted.wanted, work)
        try:
            yield KeptCodes(kept)
        finally:
            kept.drop()

    def __repr__(self) -> str:
        return "DistributedExamples()"


@dataclass(frozen=True)
class CodedBlocks:
    """What a worker does first: cap the rows of persons, bound and code all, and keep codes and targets as bytes."""

    rows: RowsThatCount
    decoded: Decoded
    policy: RowPolicy
    data_norm: float | None
    dense: bool

    def __call__(self, batches: Iterator[Batch]) -> Iterator[bytes]:
        """Return the blocks."""
        for features, labels in self.decoded(self.rows(batches)):
            block = self.policy.block(features, labels)
            codes = block.features
            if self.data_norm is not None:
                codes = coded_block(block, self.data_norm, dense=self.dense)
            rows = len(block.targets)
            size = 6 * codes.nnz + 12 * rows if is_sparse(codes) else 2 * codes.size + 4 * rows  # as `written` writes
            step = max(1, rows * KEPT_BLOCK_BYTES // max(size, 1))
            for start in range(0, rows, step):
                yield written(codes[start : start + step], block.targets[start : start + step])


@dataclass(frozen=True)
class SumOfBlocks:
    """A request for a sum over what workers keep: over codes, or over rows that are mapped to a public geometry."""

    statistic: Any
    mapping: GeometryMap | None = None

    @property
    def answer_bytes(self) -> int:
        """How large an answer is: public."""
        return 16 * int(math.prod(self.statistic.shape))

    def __call__(self, blocks: Iterator[bytes]) -> bytes:
        """Answer for the blocks of one part."""
        total = ExactSum(self.statistic.shape)
        for codes, targets in map(read, blocks):
            if self.mapping is None:
                total.add(self.statistic(codes, targets))
            else:
                total.add(sum_of_block(self.statistic, mapped_block(self.mapping, codes, targets)))
        return state_to_bytes(total.limbs)


class KeptCodes:
    """Codes and targets that workers keep, which they map to a geometry in every pass, if there is one: PRIVATE."""

    def __init__(self, kept: Pinned, mapping: GeometryMap | None = None) -> None:
        self._kept, self._mapping = kept, mapping
        if mapping is not None and mapping.geometry.map is not None:
            _ = mapping.factors, mapping.offsets  # made here and sent: another machine might round a product otherwise

    def added_up(self, statistic: CodedSum | MappedSum) -> Integers:
        """Return the sum over all rows, in one pass."""
        return _together(statistic.shape, self._kept.ask(SumOfBlocks(statistic, self._mapping)))

    def mapped(self, mapping: GeometryMap) -> KeptCodes:
        """Return the rows as the integers of a geometry."""
        return KeptCodes(self._kept, mapping)

    def progress(self, passes: int) -> AbstractContextManager[Callable[..., None]]:
        """Show how many passes are done."""
        return progress("steps of descent", total=passes)

    def __repr__(self) -> str:
        return "KeptCodes()"


def _together(shape: tuple[int, ...], parts: Iterable[bytes]) -> Integers:
    """Add up the sums of all parts."""
    total = ExactSum(shape)
    for part in parts:
        total.add_limbs(np.asarray(state_from_bytes(part)).reshape(2, *shape))
    return total.saturated()


def written(codes: Any, targets: Floats) -> bytes:
    """Write codes, at most 2¹⁴ each, in two bytes an entry, and whole targets, without a pickle."""
    arrays = [targets.astype("<i4")]
    if is_sparse(codes):
        arrays += [np.array(codes.shape, "<i8"), codes.data.astype("<i2"), codes.indices.astype("<i4")]
        arrays.append(codes.indptr.astype("<i8"))
    else:
        arrays.append(codes.astype("<i2"))
    buffer = io.BytesIO()
    for array in arrays:
        np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def read(block: bytes) -> tuple[Any, Floats]:
    """Read what `written` wrote: codes, floats that are whole numbers, dense or CSR, and targets."""
    buffer = io.BytesIO(block)
    arrays = []
    while buffer.tell() < len(block):
        arrays.append(np.lib.format.read_array(buffer, allow_pickle=False))
    targets, *codes = arrays
    if len(codes) == 1:
        return codes[0].astype(np.float64), targets.astype(np.float64)
    from scipy.sparse import csr_array

    shape, data, indices, starts = codes
    found = csr_array((data.astype(np.float64), indices, starts), shape=tuple(shape.tolist()))
    return found, targets.astype(np.float64)
