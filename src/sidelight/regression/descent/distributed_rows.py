"""Distributed rows of a descent: workers bound and code them once and keep the codes; only sums come here.

A pass sends a public map and a public point, or what else `row_sums` names, and gets the exact integer sum of every
part back. The kernels are those of local rows, so the integers are the same, and so is the release under the same
noise. What workers keep is dropped when the descent ends, however it ends.
"""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
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
    def coded(self, *, data_norm: float, dense: bool) -> Iterator[CodedPasses]:
        """Code the rows where they are, for the passes of one descent; what workers keep is dropped at its end."""
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
    data_norm: float
    dense: bool

    def __call__(self, batches: Iterator[Batch]) -> Iterator[bytes]:
        """Return the blocks."""
        for features, labels in self.decoded(self.rows(batches)):
            block = self.policy.block(features, labels)
            codes = coded_block(block, self.data_norm, dense=self.dense)
            rows = len(block.targets)
            size = 6 * codes.nnz + 12 * rows if is_sparse(codes) else 2 * codes.size + 4 * rows  # as `written` writes
            step = max(1, rows * KEPT_BLOCK_BYTES // max(size, 1))
            for start in range(0, rows, step):
                yield written(codes[start : start + step], block.targets[start : start + step])


@dataclass(frozen=True)
class SumOfBlocks(ABC):
    """A request for a sum over what workers keep."""

    statistic: CodedSum | MappedSum

    @property
    def answer_bytes(self) -> int:
        """How large an answer is: public."""
        return 16 * math.prod(self.statistic.shape)

    def __call__(self, blocks: Iterator[bytes]) -> bytes:
        """Answer for the blocks of one part."""
        total = ExactSum(self.statistic.shape)
        for block in blocks:
            total.add(self.of_block(*read(block)))
        return state_to_bytes(total.limbs)

    @abstractmethod
    def of_block(self, codes: Any, targets: Floats) -> Integers:
        """Return the sum over one block."""


@dataclass(frozen=True)
class SumOfCodes(SumOfBlocks):
    """A request for a sum over codes."""

    statistic: CodedSum

    def of_block(self, codes: Any, targets: Floats) -> Integers:
        """Return the sum over one block."""
        return self.statistic(codes, targets)


@dataclass(frozen=True)
class SumOfMapped(SumOfBlocks):
    """A request for a sum over rows that are mapped to a public geometry."""

    statistic: MappedSum
    mapping: GeometryMap

    def of_block(self, codes: Any, targets: Floats) -> Integers:
        """Return the sum over one block."""
        return sum_of_block(self.statistic, mapped_block(self.mapping, codes, targets))


class KeptCodes:
    """Codes and targets that workers keep: PRIVATE."""

    def __init__(self, kept: Pinned) -> None:
        self._kept = kept

    def added_up(self, statistic: CodedSum) -> Integers:
        """Return the sum over all rows, in one pass."""
        return _together(statistic.shape, self._kept.ask(SumOfCodes(statistic)))

    def mapped(self, mapping: GeometryMap) -> KeptRows:
        """Return the rows as the integers of a geometry: mapped by the workers, in every pass."""
        return KeptRows(self._kept, mapping)

    def progress(self, passes: int) -> AbstractContextManager[Callable[..., None]]:
        """Show how many passes are done."""
        return progress("steps of descent", total=passes)

    def __repr__(self) -> str:
        return "KeptCodes()"


class KeptRows:
    """The same, mapped: PRIVATE."""

    def __init__(self, kept: Pinned, mapping: GeometryMap) -> None:
        self._kept, self._mapping = kept, mapping
        if mapping.geometry.map is not None:  # made here and sent: another machine might round a product otherwise
            _ = mapping.factors, mapping.offsets

    def added_up(self, statistic: MappedSum) -> Integers:
        """Return the sum over all rows, in one pass."""
        return _together(statistic.shape, self._kept.ask(SumOfMapped(statistic, self._mapping)))

    def __repr__(self) -> str:
        return "KeptRows()"


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
