"""Few public rows, method "project-link-verify": private directions, public linkage, noisy verification.

The public rows are too few to show the clusters in all columns, and enough to show them in the k directions that a
private principal component analysis finds. Whether the cells are what they seem is then asked of the private rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sidelight.gaussians.mixture.counting import count_checks, judge, noisy_rows
from sidelight.gaussians.mixture.linkage import Cut, cut_trees
from sidelight.gaussians.mixture.partition import NearestCentroid, Projection, SplitTree, ball_tree
from sidelight.gaussians.mixture.principal_directions import Frame, leading_directions, region_moments
from sidelight.gaussians.mixture.search import Found, Setting, public_columns
from sidelight.gaussians.mixture.supercluster import Ball, Floats, inside_first
from sidelight.noise import Source
from sidelight.records import Table

#: Shares of the budget: number of rows, directions, checks; the rest is for the components.
ROWS, DIRECTIONS, CHECKS, COMPONENTS = Fraction(1, 100), Fraction(29, 100), Fraction(10, 100), Fraction(60, 100)
#: An unused cut this close to the smallest one used says that more groups are visible.
_CLOSE = 0.6


@dataclass(frozen=True, eq=False)
class LinkVerify:
    """The method with its public regions."""

    balls: tuple[Ball, ...]

    @property
    def estimation(self) -> Fraction:
        """The share of the budget that is left for the components."""
        return COMPONENTS

    def search(self, table: Table, setting: Setting, source: Source) -> Found:
        """Find and verify k cells.

        Guarantee: zCDP of 40 % of the budget, GDP likewise (Gaussian-mixture proof page, Theorem 1).
        """
        columns, rho = setting.columns, setting.rho
        rows = noisy_rows(table, columns, rho=rho * ROWS, source=source)
        regions = ball_tree(self.balls)
        frames = [Frame(ball.centre, ball.radius) for ball in self.balls]
        moments = region_moments(table, columns, regions, frames, rho=rho * DIRECTIONS, source=source)
        directions = [leading_directions(moment, setting.directions) for moment in moments]
        partition, cut, publics = place_cells(setting, self.balls, regions, directions)
        # all checks are drawn before anything is decided, whatever the number of cells
        checks = count_checks(table, columns, partition, rho=rho * CHECKS, source=source)
        verdict = judge(checks, rows=rows, least_weight=setting.least_weight)
        warnings = []
        if cut.last_used is not None and cut.next_unused is not None and cut.next_unused > _CLOSE * cut.last_used:
            warnings.append(
                f"more than {setting.components} groups are visible in the public rows: the next cut is at "
                f"{cut.next_unused / cut.last_used:.0%} of the height of the last one"
            )
        if checks.dropped > setting.least_weight * rows / 2:
            warnings.append(f"about {max(checks.dropped, 0):.0f} rows are far from all public rows and took no part")
        right = partition.cells == setting.components
        return Found(
            cells=partition.cells,
            rows=rows,
            partition=partition if right else None,
            publics=publics,
            checks=checks,
            verdict=verdict,
            warnings=tuple(warnings),
        )


def place_cells(
    setting: Setting, balls: tuple[Ball, ...], regions: SplitTree, directions: list[Floats]
) -> tuple[NearestCentroid, Cut, tuple[Floats, ...]]:
    """Cut the linkage trees of the projected public rows; a function of them and of the released directions."""
    points = setting.public
    where = inside_first(points, balls)
    members = [np.flatnonzero(where == place) for place in range(len(balls))]
    # differences first: a common offset of the columns must not cost digits
    projected = [
        (points[here] - ball.centre) @ turn.T for here, ball, turn in zip(members, balls, directions, strict=True)
    ]
    cut = cut_trees(projected, cells=setting.components, least=max(1.0, setting.least / 2))
    projections, linked = [], []
    for place, ball in enumerate(balls):
        parts = [each for region, each in zip(cut.regions, cut.members, strict=True) if region == place]
        centroids = np.stack([projected[place][part].mean(axis=0) for part in parts])
        projections.append(Projection(ball.centre, directions[place], centroids))
        linked += [members[place][part] for part in parts]
    partition = NearestCentroid(regions, tuple(projections))
    labels = partition.label(public_columns(points))
    publics = []
    for cell, part in enumerate(linked):
        here = np.flatnonzero(labels == cell)
        publics.append(points[here] if here.size else points[part])
    return partition, cut, tuple(publics)
