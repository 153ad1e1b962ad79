"""The binary tree of running sums with Honaker's estimates: little memory, for very long streams.

Node (h, j) is the sum of the vectors (j-1) 2^h + 1, ..., j 2^h and is blurred when it is complete. A node's sum is seen
twice, in itself and in its children; Honaker (2015) weighs the two by their precision. Hand-made: it is thirty lines
on integers, and the number of levels must be that of the vectors really added.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.mechanisms.prefix_sums.encoders import Blur, integer_type


def node_variance(level: int) -> float:
    """Return the variance of Honaker's estimate of a complete node, in units of one node's noise: 1/(2 - 2^-h)."""
    return 1 / (2 - 2.0**-level)


@dataclass(frozen=True, kw_only=True)
class BinaryTree:
    """The encoder whose rows are the complete nodes.

    Accuracy: the estimate after step t has variance sum of 1/(2 - 2^-h) over the bits h of t, times that of one node.
    Cost O(size * log steps) memory, and time a step on average O(size).
    """

    steps: int

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= 2**40:
            raise RangeError(f"the tree takes 1..2**40 steps, got {self.steps}")

    @property
    def unit(self) -> int:
        """Rows are plain sums."""
        return 1

    @property
    def largest_squared_norm(self) -> int:
        """The first vector lies in a node of every size 2^h <= steps: ceil(log2(steps + 1)) of them."""
        return self.steps.bit_length()

    @property
    def largest_row_sum(self) -> int:
        """The number of vectors in the largest complete node."""
        return 1 << (self.steps.bit_length() - 1)

    @cached_property
    def _variances(self) -> NDArray[np.float64]:
        t = np.arange(1, self.steps + 1)
        total = np.zeros(self.steps)
        for level in range(self.steps.bit_length()):
            total += np.where(t >> level & 1, node_variance(level), 0.0)
        return total

    def variances(self) -> NDArray[np.float64]:
        """Return the variance after each step; for lists of steps, not for streams of 2**30."""
        return self._variances.copy()

    @property
    def largest_variance(self) -> float:
        """The largest over all steps: at the last, or where one bit of it is cleared and all lower ones are set."""
        last, values = self.steps, [node_variance(level) for level in range(self.steps.bit_length())]
        totals = [sum(value for level, value in enumerate(values) if last >> level & 1)]
        for cleared in range(last.bit_length()):
            if last >> cleared & 1:
                t = (last >> (cleared + 1) << (cleared + 1)) + (1 << cleared) - 1
                totals.append(sum(value for level, value in enumerate(values) if t >> level & 1))
        return max(totals)

    def start(self, size: int, *, largest_code: int) -> _TreeStream:
        """Begin a stream."""
        return _TreeStream(self, size, largest_code)


class _TreeStream:
    """For each level the complete left node that waits for its sibling: its sum (private), its estimate (released)."""

    __slots__ = ("_kind", "_size", "_step", "_waiting")

    def __init__(self, encoder: BinaryTree, size: int, largest_code: int) -> None:
        self._kind = integer_type(encoder.largest_row_sum * largest_code)
        self._size = size
        self._step = 0
        self._waiting: dict[int, tuple[NDArray[Any], NDArray[np.float64]]] = {}

    def add(self, codes: NDArray[np.int64], blur: Blur) -> NDArray[np.float64]:
        """Blur every node that this vector completes, smallest first."""
        self._step += 1
        exact = codes.astype(self._kind)
        estimate = blur(exact).astype(np.float64)
        level = 0
        while level in self._waiting:
            left, left_estimate = self._waiting.pop(level)
            exact = left + exact
            children = left_estimate + estimate
            level += 1
            below = 2 * node_variance(level - 1)  # the variance of the sum of the two children
            # children + w (own - children), w = below/(1 + below): written so that equal sums stay exactly equal
            estimate = children + below / (1 + below) * (blur(exact).astype(np.float64) - children)
        self._waiting[level] = (exact, estimate)
        total = np.zeros(self._size)
        for _, part in self._waiting.values():
            total = total + part
        return total
