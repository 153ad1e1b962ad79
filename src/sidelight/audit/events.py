"""The event that tells two samples apart best: a threshold on ordered outcomes, or a set by likelihood ratio.

Outcomes fall into cells (distinct values, or ranges between quantiles of the pooled sample when there are many values).
The candidates are the first cells of an order, for two orders: the natural one, and that of the estimated likelihood
ratio. By the Neyman-Pearson lemma the second contains the best event whatever the mechanism, up to estimation error;
the first needs no estimate of single cells, and wins when each value is rare.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.audit.confidence import Counts, Floats
from sidelight.errors import RangeError

#: More distinct real values than this are grouped into this many ranges.
MOST_RANGES = 512

#: Real outcomes as one float array, others as a list of things that can be hashed.
Outcomes = NDArray[np.float64] | list[Any]

#: Judges candidate events by their counts in the two samples (favoured, other): larger is better.
Judge = Callable[[Counts, Counts], Floats]


def as_outcomes(given: Sequence[Any] | NDArray[Any]) -> Outcomes:
    """Bring what a sampler returned into one of the two forms."""
    if isinstance(given, np.ndarray):
        if given.ndim == 1 and given.dtype.kind in "iufb":
            return given.astype(np.float64)
        given = given.tolist()
    if all(isinstance(outcome, int | float | np.integer | np.floating) for outcome in given):
        return np.asarray(given, dtype=np.float64)  # integers beyond 2**53 may share a cell: only a coarser event
    return [tuple(outcome) if isinstance(outcome, list | np.ndarray) else outcome for outcome in given]


@dataclass(frozen=True)
class Cells:
    """A finite partition of the outcomes, fixed on training draws."""

    names: tuple[Any, ...]
    edges: NDArray[np.float64] | None = None  # ranges of real outcomes: cell i starts at edges[i]; cell 0 has no start
    _index: dict[Hashable, int] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, first: Outcomes, second: Outcomes) -> Cells:
        """Partition the outcomes: one cell a value, or ranges when they are real numbers with many values."""
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
            pooled = np.sort(np.concatenate([first, second]))
            values = np.unique(pooled)  # NaN, if any, comes last and once
            if len(values) > MOST_RANGES:
                values = np.unique(pooled[np.arange(MOST_RANGES) * len(pooled) // MOST_RANGES])
            return cls(names=tuple(values.tolist()), edges=values[1:])
        names = sorted(dict.fromkeys([*first, *second]), key=repr)
        return cls(names=tuple(names), _index={name: cell for cell, name in enumerate(names)})

    @property
    def size(self) -> int:
        """The number of cells; one more, of outcomes that training never saw, has the index `size`."""
        return len(self.names)

    def locate(self, outcomes: Outcomes) -> NDArray[np.int64]:
        """Return the cell of each outcome."""
        if self.edges is None:
            found: Iterable[int] = (self._index.get(outcome, self.size) for outcome in outcomes)
            return np.fromiter(found, dtype=np.int64, count=len(outcomes))
        if not isinstance(outcomes, np.ndarray):
            raise RangeError("a sampler returned numbers at first and something else later; return one kind of outcome")
        return np.searchsorted(self.edges, outcomes, side="right").astype(np.int64)

    def count(self, outcomes: Outcomes) -> Counts:
        """Return how many outcomes fall into each cell, unseen ones last."""
        return np.bincount(self.locate(outcomes), minlength=self.size + 1).astype(np.int64)


@dataclass(frozen=True)
class Event:
    """A set of outcomes, and which of the two inputs it speaks for."""

    cells: Cells
    members: NDArray[np.bool_]
    favours_first: bool

    def hits(self, counts: Counts) -> int:
        """Return how many outcomes of a sample lie in the event, from its counts per cell."""
        return int(counts[self.members].sum())

    def __str__(self) -> str:
        inside = [name for name, member in zip(self.cells.names, self.members, strict=False) if member]
        inside += ["anything new"] if self.members[self.cells.size] else []
        if self.cells.edges is not None and len(inside) > 1:
            if self.members[: len(inside)].all() and len(inside) <= len(self.cells.edges):
                return f"outcome < {self.cells.edges[len(inside) - 1]:.6g}"
            if self.members[self.cells.size - len(inside) : self.cells.size].all():
                return f"outcome >= {inside[0]:.6g}"
        shown = ", ".join(str(name) for name in inside[:5])
        return f"outcome in {{{shown}{', ...' if len(inside) > 5 else ''}}}"


def best_event(
    cells: Cells, ordering: tuple[Counts, Counts], choosing: tuple[Counts, Counts], *, judge: Judge
) -> Event:
    """Return the event that the judge likes best.

    The cells are ordered by one pair of counts and the event is chosen on another: chosen on the counts that made the
    order, rare outcomes would always look telling.
    """
    by_ratio = np.argsort(-(ordering[0] + 0.5) / (ordering[1] + 0.5), kind="stable")
    orders = [by_ratio, by_ratio[::-1]]
    if cells.edges is not None:
        natural = np.arange(cells.size)
        orders += [natural, natural[::-1]]
    best, best_worth = None, -np.inf
    for order in orders:
        sums = np.cumsum(choosing[0][order]), np.cumsum(choosing[1][order])
        for favours_first, (favoured, other) in ((True, sums), (False, sums[::-1])):
            worth = judge(favoured, other)
            at = int(np.argmax(worth))
            if best is None or worth[at] > best_worth:
                best, best_worth = (order[: at + 1], favours_first), float(worth[at])
    assert best is not None
    members = np.zeros(cells.size + 1, dtype=np.bool_)
    members[best[0]] = True
    return Event(cells, members, best[1])
