"""Rows as the solver sees them: bounded blocks, from arrays in memory or from batches that are read once a pass.

Any engine that can hand out batches fits: every step of the solver is a sum over rows. The intercept is a constant
column that is never stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np

from sidelight.errors import RangeError
from sidelight.records.rows import WORKERS, cores
from sidelight.regression.clipping import OnViolation, bounded_rows, is_sparse
from sidelight.regression.losses import Floats
from sidelight.regression.losses.loss import Mask

#: Rows per block in memory: large enough for BLAS, small enough for a cache.
BLOCK_ROWS = 8192
#: Rows of a sample: enough to come close to the minimum, a small part of a long table.
SAMPLE_ROWS = 8192
#: Streamed rows that take no more than this are kept, and the later passes read memory instead of the source.
KEPT_BYTES = 1 << 26
Batches = Callable[[], Iterable[tuple[Any, Any]]]
Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True, repr=False)
class Block:
    """Some bounded records: features (dense or CSR), the value of the intercept column, targets and norms."""

    features: Any
    intercept: float | None
    targets: Floats
    norms: Floats

    @property
    def size(self) -> int:
        """The number of records; private."""
        return int(self.targets.shape[0])

    def predict(self, theta: Floats) -> Floats:
        """Return Xθ, the intercept included."""
        if self.intercept is None:
            return np.asarray(self.features @ theta)
        return np.asarray(self.features @ theta[:-1] + self.intercept * theta[-1:])

    def gather(self, weights: Floats) -> Floats:
        """Return Xᵀ·weights, the intercept included."""
        top = np.asarray(self.features.T @ weights)
        if self.intercept is None:
            return top
        return np.concatenate([top, self.intercept * weights.sum(axis=0, keepdims=True)])

    def gram(self, weights: Floats) -> Floats:
        """Return Xᵀ·diag(weights)·X for non-negative weights (n, 1); it only steers the solver."""
        if is_sparse(self.features):
            inner = np.asarray((self.features.T @ self.features.multiply(weights)).todense())
        else:
            scaled = self.features * np.sqrt(weights)
            inner = scaled.T @ scaled  # symmetric: half the work
        if self.intercept is None:
            return np.asarray(inner)
        side = self.intercept * np.asarray(self.features.T @ weights)
        corner = np.array([[self.intercept**2 * float(weights.sum())]])
        return np.block([[inner, side], [side.T, corner]])

    def part(self, start: int, stop: int) -> Block:
        """Return some of the records."""
        return self._at(slice(start, stop))

    def every(self, stride: int, *, first: int = 0) -> Block:
        """Return a copy of every so manieth record, which does not hold on to the others."""
        some = self._at(slice(first, None, stride))
        return Block(some.features.copy(), some.intercept, some.targets.copy(), some.norms.copy())

    @property
    def memory(self) -> int:
        """The bytes that the block takes; private."""
        dense = self.features
        if is_sparse(dense):
            return int(dense.data.nbytes + dense.indices.nbytes + dense.indptr.nbytes) + 2 * self.targets.nbytes
        return int(dense.nbytes) + 2 * self.targets.nbytes

    def _at(self, where: slice) -> Block:
        return Block(self.features[where], self.intercept, self.targets[where], self.norms[where])


class BoundedRows(Protocol):
    """Records that can be read again and again, the same in every pass."""

    @property
    def in_memory(self) -> bool:
        """Whether a pass is cheap, so that two short ones may be better than a long one."""
        ...

    def blocks(self) -> Iterator[Block]:
        """Return the bounded records, block by block."""
        ...

    def sample(self) -> tuple[BoundedRows, int]:
        """Return about `SAMPLE_ROWS` records, evenly spread, how many each stands for. It steers the solver only."""
        ...


class Admits(Protocol):
    """What reads targets: a loss, or the targets of a descent."""

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        """Turn labels into targets, record by record, and say which records take part."""
        ...


@dataclass(frozen=True, kw_only=True)
class RowPolicy:
    """How a raw record becomes a bounded one: public, and for each record by itself."""

    loss: Admits
    features: int
    data_norm: Fraction
    intercept: float | None
    on_violation: OnViolation = "clip"
    #: Whether the norms of short rows are wanted; without, `data_norm` bounds those of all of them.
    tight_norms: bool = True

    def block(self, rows: Any, labels: Any) -> Block:
        """Bound some records; those with a value that is not finite, or an undeclared label, take no part."""
        bounded, norms, finite = bounded_rows(
            rows, data_norm=self.data_norm, on_violation=self.on_violation, tight_norms=self.tight_norms
        )
        if bounded.shape[1] != self.features:
            raise RangeError(f"the plan has {self.features} features, the rows have {bounded.shape[1]}")
        targets, known = self.loss.admit(labels)
        if targets.shape[0] != bounded.shape[0]:
            raise RangeError("rows and labels must have the same length")
        keep = finite & known
        if self.intercept is not None:
            norms = np.sqrt(norms * norms + self.intercept**2) * (1 + 2.0**-50)
        if not keep.all():
            bounded, targets, norms = bounded[keep], targets[keep], norms[keep]
        return Block(bounded, self.intercept, targets, norms[:, None])


class BoundedArrays:
    """Records in memory, bounded once."""

    in_memory = True

    def __init__(self, rows: Any, labels: Any, *, policy: RowPolicy) -> None:
        whole = policy.block(rows, labels)
        self._blocks = [whole.part(i, i + BLOCK_ROWS) for i in range(0, whole.size, BLOCK_ROWS)]

    def blocks(self) -> Iterator[Block]:
        """Return the bounded records, block by block."""
        return iter(self._blocks)

    def sample(self) -> tuple[BoundedRows, int]:
        """Return every so manieth record."""
        return _thinned(self._blocks)

    def __repr__(self) -> str:
        return "BoundedArrays()"  # never a count


class StreamedRows:
    """Records that a function hands out in batches (rows, labels), the same at every call; bounded as they come.

    What fits into `keep_bytes` is kept after the first pass. Otherwise no more than a batch is held.
    """

    def __init__(self, batches: Batches, *, policy: RowPolicy, keep_bytes: int = KEPT_BYTES) -> None:
        self._batches, self._policy, self._keep_bytes = batches, policy, keep_bytes
        self._kept: list[Block] | None = None

    @property
    def in_memory(self) -> bool:
        """Whether everything was kept."""
        return self._kept is not None

    def blocks(self) -> Iterator[Block]:
        """Return the bounded records, block by block."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Block] = []
        room = self._keep_bytes
        for block in side_by_side(lambda pair: self._policy.block(*pair), self._batches()):
            room -= block.memory
            if room >= 0:
                kept.append(block)
            elif kept:
                kept = []
            yield block
        if room >= 0:
            self._kept = kept  # a pass that was left early never comes here

    def sample(self) -> tuple[BoundedRows, int]:
        """Return every so manieth record, in one pass: the stride doubles whenever there are too many."""
        stride, seen, parts = 1, 0, list[Block]()
        for block in self.blocks():
            parts.append(block.every(stride, first=-seen % stride))
            seen += block.size
            while sum(part.size for part in parts) > 2 * SAMPLE_ROWS:
                stride, parts = 2 * stride, [part.every(2) for part in parts]
        return _Sample(parts), stride

    def __repr__(self) -> str:
        return "StreamedRows()"


def side_by_side(work: Callable[[Given], Made], items: Iterable[Given]) -> Iterator[Made]:
    """Return what is made of each item, in their order, with as many at work at once as there are cores.

    NumPy lets threads run side by side; what is made of an item depends on nothing but it, so that nothing depends on
    how they run.
    """
    threads = cores()
    if threads < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix=WORKERS) as pool:  # silenced as the release is
        waiting: deque[Future[Made]] = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _Sample:
    """A few records of others, in memory."""

    in_memory = True

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks

    def blocks(self) -> Iterator[Block]:
        return iter(self._blocks)

    def sample(self) -> tuple[BoundedRows, int]:
        return self, 1


def _thinned(blocks: Sequence[Block]) -> tuple[BoundedRows, int]:
    stride = max(1, sum(block.size for block in blocks) // SAMPLE_ROWS)
    return _Sample([block.every(stride) for block in blocks]), stride
