"""Few public rows, method "recursive": split one group after the other, each in its own directions.

Closest to the paper (Algorithms 3 to 6). Of use where groups are nested at very different scales; "project-link-verify"
is more reliable otherwise. Nodes of one depth are disjoint and share every pass, so a depth costs what one node costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, sqrt

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.collect import collect
from sidelight.gaussians.mixture.candidate_splits import (
    TENTHS,
    NodeCandidates,
    ShellRow,
    ShellScores,
    TerrificBall,
    terrific_balls,
)
from sidelight.gaussians.mixture.partition import Split, SplitTree
from sidelight.gaussians.mixture.regions import (
    Ball,
    Frame,
    Places,
    leading_directions,
    region_moments,
    supercluster,
)
from sidelight.gaussians.mixture.search import Found, Setting, count_checks, judge, noisy_rows, public_columns
from sidelight.mechanisms import exponential
from sidelight.mechanisms.additive import GaussianNoise
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.records import Table

#: Shares of the budget: number of rows, all levels of the tree, rows of the leaves; the rest is for the components.
ROWS, LEVELS, CHECKS, COMPONENTS = Fraction(1, 100), Fraction(49, 100), Fraction(2, 100), Fraction(48, 100)

#: Shares of a level.
DIRECTIONS, SELECTION, CONFIRMATION = Fraction(7, 10), Fraction(1, 10), Fraction(2, 10)


@dataclass(frozen=True, eq=False)
class Recursive:
    """The method; it has no public part of its own."""

    @property
    def estimation(self) -> Fraction:
        """The share of the budget that is left for the components."""
        return COMPONENTS

    def search(self, table: Table, setting: Setting, source: Source) -> Found:
        """Split until nothing confirms a split.

        Groups of public rows that are far apart are split without asking the private rows, so at the end the leaves are
        counted: one without private rows is no component.

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
        return Found(
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

    setting: Setting
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
    setting: Setting,
    tree: _Growing,
    ready: Sequence[tuple[int, Ball]],
    *,
    rows: float,
    rho: Fraction,
    source: Source,
) -> list[_Choice | None]:
    """Find directions, choose a candidate and confirm it, in all nodes of a depth at once."""
    nodes = SplitTree(tuple(tree.splits), tuple(node for node, _ in ready))
    frames = [Frame(ball.centre, ball.radius) for _, ball in ready]
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
