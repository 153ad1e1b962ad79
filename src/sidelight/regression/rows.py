"""Rows as the solver sees them: made short enough one by one, in blocks, from arrays in memory or from batches.

Every row is bounded by itself, in an order of operations that does not depend on its neighbours in memory, so removing
one record changes no other. The clipped row is a float row whose exact norm is at most the bound, which the privacy
proof rests on: factors are rounded down by more than the error of the computed norm. Hand-made for that reason.

Any engine that can hand out batches fits: every step of the solver is a sum over rows. The intercept is a constant
column that is never stored.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.records.rows import WORKERS, cores
from sidelight.records.sparse_rows import csr_rows
from sidelight.regression.losses import Floats
from sidelight.regression.losses.loss import Mask

OnViolation = Literal["clip", "normalize"]
_ULP = 2.0**-53
#: Rows that are bounded at once: few enough to stay in the cache.
_CHUNK = 1024


def is_sparse(rows: Any) -> bool:
    """Return whether rows come as a SciPy sparse matrix or array."""
    return hasattr(rows, "tocsr") and hasattr(rows, "nnz")


def dense_rows(rows: Any) -> Floats:
    """Return rows as a dense array of floats."""
    return np.asarray(rows.toarray() if is_sparse(rows) else rows, np.float64)


def bounded_rows(
    rows: Any, *, data_norm: Fraction, on_violation: OnViolation, tight_norms: bool = True
) -> tuple[Any, Floats, NDArray[np.bool_]]:
    """Bound the rows; give them (dense or CSR), an upper bound of their norms, and which ones are finite.

    "clip" shortens what is too long, "normalize" gives every row but zero the full length. Without `tight_norms` the
    upper bound is `data_norm` for every row, and rows that are surely short are left as they are at once.
    """
    if is_sparse(rows):
        return _bounded_sparse(rows, data_norm, on_violation)
    dense = np.asarray(rows)
    if dense.ndim != 2 or dense.dtype.kind not in "fiub":
        raise RangeError(f"rows must be a two-dimensional array of numbers, got {dense.ndim} dimensions, {dense.dtype}")
    dense = np.array(dense, dtype=np.float64, order="C")  # a copy: the caller's array is never touched
    if tight_norms or on_violation != "clip":
        return _bounded_dense(dense, data_norm, on_violation)
    keep = np.ones(len(dense), bool)
    rest = np.flatnonzero(~_surely_short(dense, float(data_norm)))
    if len(rest) == len(dense):
        _, _, keep = _bounded_dense(dense, data_norm, on_violation)
    elif len(rest):
        dense[rest], _, keep[rest] = _bounded_dense(dense[rest], data_norm, on_violation)
    return dense, np.full(len(dense), math.nextafter(float(data_norm), math.inf)), keep


def _surely_short(dense: Floats, bound: float) -> NDArray[np.bool_]:
    """Tell which rows are finite and so much shorter than the bound that no order of summation says otherwise.

    A sum of at most 1024 squares errs by less than 2⁻⁴² of itself, and by what vanishes: negligible against such a
    bound. So every one of these rows is left as it is by `_bounded_dense`, too.
    """
    if dense.shape[1] > 1024 or not 2.0**-400 < bound < 2.0**400:
        return np.zeros(len(dense), bool)
    with np.errstate(all="ignore"):  # a square may overflow, which is too long
        return np.asarray(np.einsum("ij,ij->i", dense, dense) <= bound * bound * (1 - 2.0**-36))


@np.errstate(over="ignore", invalid="ignore")  # of rows that are not finite
def _bounded_dense(
    dense: Floats, data_norm: Fraction, on_violation: OnViolation
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Bound rows in place."""
    keep, norms = np.empty(dense.shape[0], bool), np.empty(dense.shape[0])
    for start in range(0, dense.shape[0], _CHUNK):
        part = dense[start : start + _CHUNK]
        columns = np.array(part.T, order="C")  # a copy also of one column
        exponent = _exponents(np.max(np.abs(columns), axis=0, initial=0.0))
        scale = np.ldexp(1.0, -exponent)
        columns *= scale  # exact, but for what is negligible against the largest entry
        total = np.zeros(part.shape[0])
        for squares in np.square(columns, out=columns):  # one after the other: the same sum wherever the row stands
            total += squares
        keep[start : start + _CHUNK] = finite = np.isfinite(total)  # squares of scaled rows do not overflow
        part[~finite], total[~finite], exponent[~finite] = 0.0, 0.0, 0
        changed, shrink, norms[start : start + _CHUNK] = _factors(
            np.sqrt(total), exponent, data_norm, on_violation, dense.shape[1]
        )
        part *= np.where(changed, scale, 1.0)[:, None]  # one after the other: their product may be no float
        part *= np.where(changed, shrink, 1.0)[:, None]
    return dense, norms, keep


def _bounded_sparse(rows: Any, data_norm: Fraction, mode: OnViolation) -> tuple[Any, Floats, NDArray[np.bool_]]:
    """Bound CSR rows: stored values only, nothing is densified."""
    matrix = csr_rows(rows)
    n, features = matrix.shape
    owner = np.repeat(np.arange(n), np.diff(matrix.indptr))
    keep = np.ones(n, dtype=bool)
    keep[owner[~np.isfinite(matrix.data)]] = False
    matrix.data[~keep[owner]] = 0.0
    largest = np.zeros(n)
    np.maximum.at(largest, owner, np.abs(matrix.data))
    exponent = _exponents(largest)
    part = matrix.data * np.ldexp(1.0, -exponent)[owner]
    total = np.bincount(owner, weights=part * part, minlength=n)  # in stored order, row by row
    is_changed, shrink, norms = _factors(np.sqrt(total), exponent, data_norm, mode, features)
    changed = is_changed[owner]
    matrix.data[changed] = part[changed] * shrink[owner][changed]
    return matrix, norms, keep


def _exponents(largest: Floats) -> NDArray[np.int64]:
    """Return the power of two that brings a row to size 1; within ±1000, so that it and its inverse are floats."""
    return np.clip(np.where(largest > 0, np.frexp(largest)[1], 0), -1000, 1000).astype(np.int64)


def _factors(
    scaled_norm: Floats, exponent: NDArray[np.int64], data_norm: Fraction, mode: OnViolation, features: int
) -> tuple[Mask, Floats, Floats]:
    """Return which rows change, factors for those rows scaled by 2^-exponent, and upper bounds of the norms afterwards.

    A factor of 1 is no sign of a row that stays as it is: the row scaled by 2^-exponent may have the full length. The
    computed norm is within (features + 4) ulp of the true one; `slack` is more than twice that.
    """
    slack = (2 * features + 32) * _ULP
    bound = float(data_norm)
    if Fraction(bound) > data_norm:
        bound = math.nextafter(bound, 0.0)
    with np.errstate(over="ignore"):
        norm = np.ldexp(scaled_norm, exponent)  # may be infinite, which is too long
    full = np.divide(bound * (1 - slack), scaled_norm, out=np.zeros_like(scaled_norm), where=scaled_norm > 0)
    long = norm > bound * (1 - slack)
    change = (long | (mode == "normalize")) & (scaled_norm > 0)
    # squares of entries below 1e-150 of the largest vanish, and so may a row of size 1e-301: hence the floor
    return change, full, np.where(long | change, bound, np.maximum(norm * (1 + slack), 1e-290))


#: Rows per block in memory: large enough for BLAS, small enough for a cache.
BLOCK_ROWS = 8192
#: Rows of a sample: enough to come close to the minimum, a small part of a long table.
SAMPLE_ROWS = 8192
#: Blocks for which a pool of threads is worth its while.
SEVERAL = 4
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

    @property
    def dense(self) -> Floats:
        """The rows as one dense array, the constant column included."""
        features = dense_rows(self.features)
        if self.intercept is None:
            return features
        return np.hstack([features, np.full((len(features), 1), self.intercept)])

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
        return self.at(slice(start, stop))

    def every(self, stride: int, *, first: int = 0) -> Block:
        """Return a copy of every k-th record, which does not hold on to the others."""
        some = self.at(slice(first, None, stride))
        return Block(some.features.copy(), some.intercept, some.targets.copy(), some.norms.copy())

    @property
    def memory(self) -> int:
        """The bytes that the block takes; private."""
        dense = self.features
        if is_sparse(dense):
            return int(dense.data.nbytes + dense.indices.nbytes + dense.indptr.nbytes) + 2 * self.targets.nbytes
        return int(dense.nbytes) + 2 * self.targets.nbytes

    def at(self, where: slice | NDArray[np.bool_]) -> Block:
        """Return the records at some places."""
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

    def __init__(self, rows: Any, labels: Any, *, policy: RowPolicy, block_rows: int = BLOCK_ROWS) -> None:
        whole = policy.block(rows, labels)
        self._blocks: Sequence[Block] = [whole.part(i, i + block_rows) for i in range(0, whole.size, block_rows)]

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> BoundedArrays:
        """Return records that are bounded already."""
        found = cls.__new__(cls)
        found._blocks = blocks
        return found

    def blocks(self) -> Iterator[Block]:
        """Return the bounded records, block by block."""
        return iter(self._blocks)

    def sample(self) -> tuple[BoundedRows, int]:
        """Return every k-th record."""
        stride = max(1, sum(block.size for block in self._blocks) // SAMPLE_ROWS)
        return BoundedArrays.of([block.every(stride) for block in self._blocks]), stride

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
        """Return every k-th record, in one pass: the stride doubles whenever there are too many."""
        stride, seen, parts = 1, 0, list[Block]()
        for block in self.blocks():
            parts.append(block.every(stride, first=-seen % stride))
            seen += block.size
            while sum(part.size for part in parts) > 2 * SAMPLE_ROWS:
                stride, parts = 2 * stride, [part.every(2) for part in parts]
        return BoundedArrays.of(parts), stride

    def __repr__(self) -> str:
        return "StreamedRows()"


def side_by_side(work: Callable[[Given], Made], items: Iterable[Given]) -> Iterator[Made]:
    """Return what is made of each item, in their order; of several with as many at work at once as there are cores.

    NumPy lets threads run side by side; what is made of an item depends on nothing but it, so that nothing depends on
    how they run.
    """
    threads = cores()
    if threads < 2:
        yield from map(work, items)
        return
    given = iter(items)
    first = list(islice(given, SEVERAL))
    if len(first) < SEVERAL:
        yield from map(work, first)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix=WORKERS) as pool:  # silenced as the release is
        waiting: deque[Future[Made]] = deque()
        for item in chain(first, given):
            waiting.append(pool.submit(work, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
