"""The central baselines of Agarwal and Singh (2017): follow the leader of tree-aggregated sums, horizon known.

They trust the server with exact gains, which RW-FTPL and RW-Meta do not; they are here to compare with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sidelight.errors import RangeError


@dataclass(frozen=True, kw_only=True)
class TreeBaseline:
    """Scales of the noise: every prefix sum has exactly `depth` terms N(0, node_scale²), fresh ones where nodes lack.

    Guarantee: each report enters at most `depth` nodes, so node_scale = Δ √depth / μ gives μ-GDP (central model).

    "min_noise": total deviation Δ depth / μ. "min_regret": at least √T, which minimises √(2 ln n) (s + T/s).

    >>> tree = TreeBaseline(rounds=148, sensitivity=2**0.5 / 8, mu=1.0)
    >>> tree.depth, round(tree.node_scale, 9), round(tree.total_scale, 8)
    (8, 0.5, 1.41421356)
    """

    rounds: int
    sensitivity: float
    mu: float
    aim: Literal["min_noise", "min_regret"] = "min_noise"

    def __post_init__(self) -> None:
        if self.rounds < 1 or not self.sensitivity > 0 or not self.mu > 0:
            raise RangeError("a tree wants at least one round, a positive sensitivity and a positive mu")
        if self.aim not in ("min_noise", "min_regret"):
            raise RangeError(f"aim must be 'min_noise' or 'min_regret', got {self.aim!r}")

    @property
    def depth(self) -> int:
        """L = max(1, ⌈log2 T⌉): what a prefix sum needs at most."""
        return max(1, (self.rounds - 1).bit_length())

    @property
    def total_scale(self) -> float:
        """The deviation s of each coordinate of each prefix sum; 0 for "min_noise" at μ = ∞."""
        least = self.sensitivity * self.depth / self.mu
        return least if self.aim == "min_noise" else max(least, math.sqrt(self.rounds))

    @property
    def node_scale(self) -> float:
        """The deviation of one node: s / √L."""
        return self.total_scale / math.sqrt(self.depth)

    def nodes(self, prefix: int) -> list[tuple[int, int]]:
        """Return the dyadic nodes (level, place) whose blocks add up to rounds 1..prefix.

        >>> TreeBaseline(rounds=148, sensitivity=1.0, mu=1.0).nodes(6)
        [(2, 0), (1, 2)]
        """
        found, start = [], 0
        for level in range(prefix.bit_length() - 1, -1, -1):
            if prefix >> level & 1:
                found.append((level, start >> level))
                start += 1 << level
        return found
