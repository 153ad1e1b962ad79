"""Rows as the solver sees them: bounded blocks, from arrays in memory or from batches that are read once a pass.

Any engine that can hand out batches fits: every step of the solver is a sum over rows. The intercept is a constant
column that is never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sidelight.errors import RangeError
from sidelight.regression.clipping import OnViolation, bounded_rows, is_sparse
from sidelight.regression.losses import Floats, Loss

#: Rows a block in memory: large enough for BLAS, small enough for a cache.
BLOCK_ROWS = 8192
Batches = Callable[[], Iterable[tuple[Any, Any]]]


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
        """Give Xθ, the intercept included."""
        if self.intercept is None:
            return np.asarray(self.features @ theta)
        return np.asarray(self.features @ theta[:-1] + self.intercept * theta[-1:])

    def gather(self, weights: Floats) -> Floats:
        """Give Xᵀ·weights, the intercept included."""
        top = np.asarray(self.features.T @ weights)
        if self.intercept is None:
            return top
        return np.concatenate([top, self.intercept * weights.sum(axis=0, keepdims=True)])

    def gram(self, weights: Floats) -> Floats:
        """Give Xᵀ·diag(weights)·X for non-negative weights (n, 1); it only steers the solver."""
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
        """Give some of the records."""
        return Block(self.features[start:stop], self.intercept, self.targets[start:stop], self.norms[start:stop])


class Rows(Protocol):
    """Records that can be read again and again, the same in every pass."""

    def blocks(self) -> Iterator[Block]:
        """Give the bounded records, block by block."""
        ...


@dataclass(frozen=True, kw_only=True)
class RowPolicy:
    """How a raw record becomes a bounded one: public, and for each record by itself."""

    loss: Loss
    features: int
    data_norm: Fraction
    intercept: float | None
    on_violation: OnViolation = "clip"

    def block(self, rows: Any, labels: Any) -> Block:
        """Bound some records; those with a value that is not finite, or an undeclared label, take no part."""
        bounded, norms, finite = bounded_rows(rows, data_norm=self.data_norm, on_violation=self.on_violation)
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


class ArrayRows:
    """Records in memory, bounded once."""

    def __init__(self, rows: Any, labels: Any, *, policy: RowPolicy) -> None:
        whole = policy.block(rows, labels)
        self._blocks = [whole.part(i, i + BLOCK_ROWS) for i in range(0, whole.size, BLOCK_ROWS)]

    def blocks(self) -> Iterator[Block]:
        """Give the bounded records, block by block."""
        return iter(self._blocks)

    def __repr__(self) -> str:
        return "ArrayRows()"  # never a count


class StreamedRows:
    """Records that a function hands out in batches (rows, labels), the same at every call; bounded as they come."""

    def __init__(self, batches: Batches, *, policy: RowPolicy) -> None:
        self._batches, self._policy = batches, policy

    def blocks(self) -> Iterator[Block]:
        """Give the bounded records, block by block."""
        for rows, labels in self._batches():
            yield self._policy.block(rows, labels)

    def __repr__(self) -> str:
        return "StreamedRows()"
