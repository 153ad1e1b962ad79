"""Run a quantile tree on ranks: the only place where the tree meets private data.

Every step is integer arithmetic on the public grid. The half-open split (records below the released value go left, the
others right, so each record is in exactly one child) is what lets the whole tree cost one path (quantiles proof page,
Theorem 4): every node is scored on its own records only. Nothing but the outputs leaves this file: no node counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError
from sidelight.guarantees import BoundedRange, Claims, Unit
from sidelight.mechanisms.price import selection_price
from sidelight.mechanisms.rank_selection import RanksWithin, select_rank
from sidelight.mechanisms.rings import Adaptation
from sidelight.noise.source import Source
from sidelight.predictions.compiled import CompiledPrior
from sidelight.quantiles.tree import QuantileTree, Score


class Cell(NamedTuple):
    """A half-open cell of fine indices: outcomes first..last, records first <= index < end.

    Cells of a partition share their ends as outcomes and no record. Only the one that is last by its place ends behind
    the last index and so holds the records there; a released point may equal the last index, too, and the cell below
    it stays half-open. So the end is kept separately from `last`, never computed from it.
    """

    first: int
    last: int
    end: int


@dataclass(frozen=True)
class DepthPrices:
    """Pays for each depth of a tree once, for a unit of several rows, and of the trees of several groups together.

    Guarantee: the nodes of one depth hold disjoint rows, of which a unit has at most K: with slopes of e for a row
    their log-probabilities move within a range of K·e together (summaries proof page, step A of a person).

    Args:
        unit: The protected unit.
        rows: K, the most rows that it has.
    """

    unit: Unit
    rows: int
    _paid: set[int] = field(default_factory=set)

    def paying(self, tree: QuantileTree, depth: int, source: Source) -> AbstractContextManager[None]:
        """Pay for a depth the first time that it is drawn from."""
        picks = [node.picks for node in tree.nodes() if node.depth == depth]
        if any(len(each) != 1 for each in picks):
            raise RangeError("a depth is priced as a whole where every node selects one level")
        largest = max(each[0].epsilon for each in picks)
        again = depth in self._paid
        self._paid.add(depth)
        price = selection_price(self.rows * largest, f"depth {depth + 1} of the quantiles", unit=self.unit)
        return source.paying(replace(price, each=Claims.of(BoundedRange(largest))), again=again)


def descend(
    tree: QuantileTree,
    ranks: Ranks,
    *,
    priors: CompiledPrior | Sequence[CompiledPrior],
    source: Source,
    adaptation: Adaptation = "conditional",
    score: Score = "exact",
    cell: Cell | None = None,
    depths: DepthPrices | None = None,
) -> tuple[int, ...]:
    """Release one outcome index for every level of the tree, in increasing order.

    Guarantee: `tree.claims`, for adding or removing one unit; exact on the machine.

    Accuracy: `gap_bounds_tree`.

    Arguments: `priors` is one compiled prior for all levels or one for each, all on the grid of `ranks`. With a `cell`
    the tree sees the records of that cell only, and its outcomes lie there; levels are then relative to the cell.
    `depths` prices whole depths for a unit of several rows; without it each selection is priced for one row.
    """
    several = [priors] * len(tree.levels) if isinstance(priors, CompiledPrior) else list(priors)
    if len(several) != len(tree.levels):
        raise RangeError(f"one prior is needed for each of the {len(tree.levels)} levels, got {len(several)}")
    first, last = several[0].first, several[0].last
    if any((prior.first, prior.last) != (first, last) for prior in several):
        raise RangeError("all priors must be compiled on the same grid; compile each with the grid of the release")
    whole = Cell(first, last, last + 1) if cell is None else cell
    own = {id(prior): prior.fresh() for prior in several}  # what is looked up from here on ends with this run
    several = [own[id(prior)] for prior in several]
    outputs = [0] * len(tree.levels)
    for node in tree.nodes():  # parents first: the range is already in `outputs`
        low = whole.first if node.lower is None else outputs[node.lower]
        high = whole.last if node.upper is None else outputs[node.upper]
        # Half-open: a record at a released upper value belongs to the right; where nothing was released above, our
        # records end where the cell's do (and only there: a released value may happen to be the last index).
        end = whole.end if node.upper is None else high
        here = RanksWithin(ranks, low, end)
        priced = nullcontext() if depths is None else depths.paying(tree, node.depth, source)
        with priced, source.over(places=ranks, spans=[(low, end)]):
            drawn = [
                select_rank(
                    here,
                    pick.relative_level,
                    pick.epsilon,
                    several[pick.position].adapted(low, high, adaptation),
                    low,
                    high,
                    source,
                    score=score,
                )
                for pick in node.picks
            ]
        # Sorting looks at this node's outputs only, so it is post-processing.
        for pick, index in zip(node.picks, sorted(drawn), strict=True):
            outputs[pick.position] = index
    return tuple(outputs)
