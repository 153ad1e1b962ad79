"""Candidates for a split, and their private scores: rows inside a ball, in the shell around it, and beyond.

Candidates are balls of projected public rows with an empty shell around them: public, hence free. The scores are made
by hand, because the score of a candidate has sensitivity 1 while the three counts together would have to pay for more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.coding import CodeArrays, Keep
from sidelight.aggregates.mapped_vector import clean
from sidelight.errors import SourceError
from sidelight.gaussians.mixture.partition import SplitTree
from sidelight.gaussians.mixture.regions import Floats, distances
from sidelight.guarantees.claims import Neighbours, Unit
from sidelight.records import Number
from sidelight.records.rows import Batch, Wanted

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    from sidelight.aggregates.coding import Frame

#: The shell around a candidate reaches at least to this multiple of its radius.
LEAST_RATIO = 1.5


#: So many candidates, those with the widest shells, are compared on private rows.
MOST_CANDIDATES = 8


@dataclass(frozen=True, eq=False)
class TerrificBall:
    """A ball about a projected public row: no public row lies between the `inner` and the `outer` radius."""

    centre: Floats
    inner: float
    outer: float

    @property
    def ratio(self) -> float:
        """How wide the shell is."""
        return self.outer / self.inner

    @property
    def widened(self) -> tuple[float, float]:
        """The radii between which hardly any private row may lie: a quarter of the shell is left on both sides."""
        return self.inner * self.ratio**0.25, self.outer / self.ratio**0.25

    @property
    def radius(self) -> float:
        """Where to split: in the geometric middle of the shell."""
        return float(np.sqrt(self.inner * self.outer))


def terrific_balls(projected: Floats, size: int) -> tuple[TerrificBall, ...]:
    """Return the best candidates with at least `size` public rows inside and outside, the widest shell first.

    >>> best = terrific_balls(np.array([[0.0], [1.0], [9.0], [10.0]]), 2)[0]
    >>> best.inner, best.outer, best.radius
    (1.0, 9.0, 3.0)
    """
    count = len(projected)
    if count < 2 * size or count < 2:
        return ()
    ordered = np.sort(distances(projected), axis=1)
    inner, outer = ordered[:, :-1], ordered[:, 1:]
    inside = np.arange(1, count)  # rows within the inner radius, the centre included
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(inner > 0, outer / inner, 0.0)
    ratio[:, (inside < size) | (count - inside < size)] = 0.0
    best = np.argsort(-ratio, axis=None, kind="stable")[:MOST_CANDIDATES]
    places = [np.unravel_index(each, ratio.shape) for each in best]
    return tuple(
        TerrificBall(projected[row], float(inner[row, place]), float(outer[row, place]))
        for row, place in places
        if ratio[row, place] >= LEAST_RATIO
    )


#: Scores are counted in tenths of a row, so that they are integers.
TENTHS = 10


@dataclass(frozen=True, eq=False)
class NodeCandidates:
    """The candidates of a node, in the coordinates of its projection."""

    origin: Floats
    directions: Floats
    balls: tuple[TerrificBall, ...]


@dataclass(frozen=True, kw_only=True)
class ShellRow:
    """A row's node, and for each candidate there 0 (inside), 1 (in the shell) or 2 (beyond). Others are left out."""

    columns: tuple[Number, ...]
    tree: SplitTree
    nodes: tuple[NodeCandidates, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number columns."""
        return tuple(column.name for column in self.columns)

    @property
    def texts(self) -> tuple[str, ...]:
        """No text columns are read."""
        return ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The nodes, and a place for each candidate."""
        return ((-1, len(self.nodes) - 1), *(((0, 2),) * MOST_CANDIDATES))

    @property
    def drops(self) -> bool:
        """Rows of no node are left out."""
        return True

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Place the rows of a batch."""
        from sidelight.aggregates.mapped_vector import affine

        columns, usable = clean(self.columns, batch)
        places = np.zeros((MOST_CANDIDATES, batch.length), np.int64)
        with np.errstate(all="ignore"):  # no warning that a value decides
            node = np.asarray(self.tree.label(columns), np.int64)
            for number, each in enumerate(self.nodes):
                here = np.flatnonzero(node == number)
                mapped = affine([column[here] for column in columns], each.directions, each.origin)
                for slot, ball in enumerate(each.balls):
                    squares = np.zeros(len(here))
                    for row, middle in zip(mapped, ball.centre, strict=True):
                        squares += (row - middle) ** 2
                    inner, outer = ball.widened
                    places[slot, here] = 2 - (squares < outer**2) - (squares <= inner**2).astype(np.int64)
        kept = node >= 0
        return (node, *places), kept if usable is None else kept & usable

    def lower(self, frame: Frame, wanted: Wanted, names: Sequence[str]) -> tuple[Frame, nw.Expr | None]:
        """Refuse: a rule is a function of arrays."""
        raise SourceError("cells by a rule are found in batches of arrays; load the rows of a table with persons first")


@dataclass(frozen=True, kw_only=True)
class ShellScores:
    """For each node the scores of its candidates, min(N_in - T, N_out - T, min(N_in, N_out)/10 - N_shell), in tenths.

    Guarantee: a row is in one node, and there moves one of the three counts of every candidate by 1, hence each term of
    the minimum by at most 1 and the score by at most ten tenths; k rows of a unit by ten times k (l∞ over candidates).
    """

    coding: ShellRow
    threshold: int  # T, in tenths
    rows_per_unit: int
    unit: Unit

    @property
    def wide(self) -> bool:
        """Batches only."""
        return True

    def empty(self) -> NDArray[np.int64]:
        """Return counts of no rows: nodes, candidates, places."""
        return np.zeros((len(self.coding.nodes), MOST_CANDIDATES, 3), np.int64)

    def fold(self, state: NDArray[np.int64], codes: CodeArrays) -> NDArray[np.int64]:
        """Count a batch."""
        node, *places = codes
        for slot, place in enumerate(places):
            found = np.bincount(3 * node + place, minlength=3 * len(self.coding.nodes))
            state[:, slot, :] += found.reshape(-1, 3)
        return state

    def merge(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add the counts of two sets of rows."""
        return first + second

    def finish(self, state: NDArray[np.int64]) -> tuple[Bounded, ...]:
        """Return the scores of each node with their sensitivity."""
        found = []
        for node, counts in zip(self.coding.nodes, state, strict=True):
            inside, shell, beyond = counts[: len(node.balls)].T
            fewer = np.minimum(inside, beyond)
            scores = np.minimum(TENTHS * fewer - self.threshold, fewer - TENTHS * shell)
            bound = Fraction(TENTHS * self.rows_per_unit)
            found.append(Bounded(scores, bound, "linf", Neighbours.ADD_REMOVE, self.unit))
        return tuple(found)

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> NDArray[np.int64]:
        """Never asked for: the coding refuses engines."""
        raise SourceError("cells by a rule are found in batches of arrays")
