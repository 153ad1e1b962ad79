"""Mixture method "recursive": split one group of public rows after the other, each in its own private directions.

Use `SeparatedMixture(method="auto")` instead, which is more reliable; this one is closest to the paper (Algorithms 3
to 6), and of use where groups are nested at very different scales.

Candidates for a split are balls of projected public rows with an empty shell around them: public, hence free. Their
scores are rows inside, in the shell, and beyond; a score has sensitivity 1 where the three counts would cost more.
Nodes of one depth are disjoint and share every pass, so a depth costs what one node costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.coding import CodeArrays, Keep
from sidelight.aggregates.collect import collect
from sidelight.aggregates.mapped_vector import affine, clean
from sidelight.gaussians.mixture.partition import (
    Ball,
    Floats,
    Places,
    RegionFrame,
    Split,
    SplitTree,
    distances,
    leading_directions,
    region_moments,
    squares_about,
    supercluster,
)
from sidelight.gaussians.mixture.search import (
    RuleCoding,
    RuleCounts,
    SearchResult,
    SearchSetting,
    count_checks,
    judge,
    noisy_rows,
    public_columns,
)
from sidelight.guarantees.claims import Neighbours
from sidelight.mechanisms import exponential
from sidelight.mechanisms.additive import GaussianNoise
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.records.rows import Batch

#: The shell around a candidate reaches at least to this multiple of its radius.
LEAST_RATIO = 1.5


#: This many candidates, those with the widest shells, are compared on private rows.
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
class ShellRow(RuleCoding):
    """A row's node, and for each candidate there 0 (inside), 1 (in the shell) or 2 (beyond). Others are left out."""

    tree: SplitTree
    nodes: tuple[NodeCandidates, ...]
    drops = True  # rows of no node are left out

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The nodes, and a place for each candidate."""
        return ((-1, len(self.nodes) - 1), *(((0, 2),) * MOST_CANDIDATES))

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Place the rows of a batch."""
        columns, usable = clean(self.columns, batch)
        places = np.zeros((MOST_CANDIDATES, batch.length), np.int64)
        with np.errstate(all="ignore"):  # no warning that a value decides
            node = np.asarray(self.tree.label(columns), np.int64)
            for number, each in enumerate(self.nodes):
                here = np.flatnonzero(node == number)
                mapped = affine([column[here] for column in columns], each.directions, each.origin)
                for slot, ball in enumerate(each.balls):
                    squares = squares_about(mapped, ball.centre)
                    inner, outer = ball.widened
                    places[slot, here] = 2 - (squares < outer**2) - (squares <= inner**2).astype(np.int64)
        kept = node >= 0
        return (node, *places), kept if usable is None else kept & usable


@dataclass(frozen=True, kw_only=True)
class ShellScores(RuleCounts):
    """For each node the scores of its candidates, min(N_in - T, N_out - T, min(N_in, N_out)/10 - N_shell), in tenths.

    Guarantee: a row is in one node, and there moves one of the three counts of every candidate by 1, hence each term of
    the minimum by at most 1 and the score by at most ten tenths; k rows of a unit by ten times k (l∞ over candidates).
    """

    coding: ShellRow
    threshold: int  # T, in tenths

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


#: Shares of the budget: number of rows, all levels of the tree, rows of the leaves; the rest is for the components.
ROWS, LEVELS, CHECKS, COMPONENTS = Fraction(1, 100), Fraction(49, 100), Fraction(2, 100), Fraction(48, 100)

#: Shares of a level.
DIRECTIONS, SELECTION, CONFIRMATION = Fraction(7, 10), Fraction(1, 10), Fraction(2, 10)


@dataclass(frozen=True, eq=False)
class Recursive:
    """The method; it has no public part of its own. The choice of a candidate has no GDP claim of its price."""

    has_gdp_claim: ClassVar[bool] = False
    estimation: ClassVar[Fraction] = COMPONENTS

    def search(self, table: Table, setting: SearchSetting, source: Source) -> SearchResult:
        """Split until nothing confirms a split.

        Groups of public rows that are far apart are split without plan the private rows, so at the end the leaves are
        counted: one without private rows is not a component.

        Guarantee: zCDP of 52 % of the budget: a row meets one node a depth and at most k depths (Gaussian-mixture proof
        page, Theorem 2).
        """
        rows = noisy_rows(table, setting.columns, rho=setting.rho * ROWS, source=source)
        level = setting.rho * LEVELS / setting.components
        tree = _Growing(setting)
        for _ in range(setting.components):
            ready = tree.restrict()
            if not ready:
                break
            chosen = _level(table, setting, tree, ready, rows=rows, rho=level, source=source)
            for (node, ball), best in zip(ready, chosen, strict=True):
                tree.split(node, ball, best)
        tree.leaves += [node for node, _ in tree.open]
        partition = SplitTree(tuple(tree.splits), tuple(sorted(tree.leaves)))
        checks = count_checks(table, setting.columns, partition, rho=setting.rho * CHECKS, source=source)
        right = partition.cells == setting.components
        return SearchResult(
            cells=partition.cells,
            rows=rows,
            partition=partition if right else None,
            publics=tuple(setting.public[tree.public[node]] for node in partition.leaves),
            checks=checks,
            verdict=judge(checks, rows=rows, least_weight=setting.least_weight),
        )


@dataclass(frozen=True, eq=False)
class _Choice:
    candidates: NodeCandidates
    ball: TerrificBall


@dataclass(eq=False)
class _Growing:
    """The tree so far: splits in order, leaves, and open nodes with the places of their public rows."""

    setting: SearchSetting
    splits: list[Split] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    open: list[tuple[int, Places]] = field(default_factory=list)
    public: dict[int, Places] = field(default_factory=dict)
    last: int = 0

    def __post_init__(self) -> None:
        self._opened(0, np.arange(len(self.setting.public)))

    def restrict(self) -> list[tuple[int, Ball]]:
        """Split off what is far away, which is public; return the nodes that are worth looking into, as balls."""
        least, ready = self.setting.least, []
        while self.open:
            node, places = self.open.pop(0)
            ball = None if len(places) < 2 * least else supercluster(self.setting.public[places], least)
            if ball is None:
                self.leaves.append(node)
                continue
            outside = len(places) - len(ball.members)
            inside, beyond = self.last + 1, self.last + 2
            self.last += 2
            keep = outside >= max(1, least)
            self.splits.append(Split(node, inside, beyond if keep else -1, ball.centre, None, ball.radius))
            near = places[ball.members]
            if keep:
                self._opened(inside, near)
                self._opened(beyond, np.delete(places, ball.members))
            else:
                self.public[inside] = near
                ready.append((inside, ball))
        return ready

    def split(self, node: int, ball: Ball, choice: _Choice | None) -> None:
        """Split a node at its chosen ball, or make it a leaf."""
        if choice is None:
            self.leaves.append(node)
            return
        inside, beyond = self.last + 1, self.last + 2
        self.last += 2
        directions, best = choice.candidates.directions, choice.ball
        cut = Split(node, inside, beyond, ball.centre, directions, best.radius, best.centre)
        self.splits.append(cut)
        places = self.public[node]
        one = Split(0, 1, 2, ball.centre, directions, best.radius, best.centre)
        within = SplitTree((one,), (1,)).label(public_columns(self.setting.public[places])) == 0
        self._opened(inside, places[within])
        self._opened(beyond, places[~within])

    def _opened(self, node: int, places: Places) -> None:
        self.public[node] = places
        self.open.append((node, places))


def _level(
    table: Table,
    setting: SearchSetting,
    tree: _Growing,
    ready: Sequence[tuple[int, Ball]],
    *,
    rows: float,
    rho: Fraction,
    source: Source,
) -> list[_Choice | None]:
    """Find directions, choose a candidate and confirm it, in all nodes of a depth at once."""
    nodes = SplitTree(tuple(tree.splits), tuple(node for node, _ in ready))
    frames = [RegionFrame(ball.centre, ball.radius) for _, ball in ready]
    moments = region_moments(table, setting.columns, nodes, frames, rho=rho * DIRECTIONS, source=source)
    candidates = []
    for (node, ball), moment in zip(ready, moments, strict=True):
        directions = leading_directions(moment, setting.directions)
        projected = (setting.public[tree.public[node]] - ball.centre) @ directions.T
        candidates.append(NodeCandidates(ball.centre, directions, terrific_balls(projected, setting.least)))
    schema = table.schema
    scores = ShellScores(
        coding=ShellRow(columns=setting.columns, tree=nodes, nodes=tuple(candidates)),
        threshold=ceil(TENTHS * max(0.0, setting.least_weight * rows / 4)),
        rows_per_unit=schema.rows_per_unit,
        unit=schema.unit,
    )
    found = collect(table, scores)
    chosen, partition = [], source.partition()
    for place, (each, score) in enumerate(zip(candidates, found, strict=True)):
        with source.over(partition=partition, group=place, additive=True):
            chosen.append(_confirmed(each, score, rho=rho, source=source))
    return chosen


def _confirmed(node: NodeCandidates, scores: Bounded, *, rho: Fraction, source: Source) -> _Choice | None:
    if not node.balls:
        return None
    best = choose(scores, rho=rho * SELECTION, source=source)
    assert not isinstance(scores.value, int)
    score = Bounded(int(scores.value[best]), scores.sensitivity, "l1", scores.neighbours, scores.unit)
    price = rho * CONFIRMATION
    noisy = int(GaussianNoise(score, rho=price).release(source))
    deviation = float(scores.sensitivity) / sqrt(2 * float(price))
    return _Choice(node, node.balls[best]) if noisy >= 2 * deviation else None


def choose(scores: Bounded, *, rho: Fraction, source: Source) -> int:
    """Choose a candidate by the exponential mechanism.

    Guarantee: bounded range √(8 rho), hence zCDP(rho), for a score of the stated sensitivity; exact.
    """
    return exponential.choose(scores, spread=Budget.of(rho=rho).spread, source=source)
