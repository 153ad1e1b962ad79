"""From cells to components: one Gaussian in every cell, weights, and warnings. All cells cost what one costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from sidelight.gaussians.estimate import estimate_cells, estimate_gaussian
from sidelight.gaussians.estimation import GaussianEstimate
from sidelight.gaussians.mixture.search import Found, Setting
from sidelight.gaussians.mixture.supercluster import Floats
from sidelight.gaussians.public_rows import as_public_points
from sidelight.noise import Source
from sidelight.records import Table

#: A component this many times as spread out as the public rows of its cell holds rows they do not show.
_TOO_WIDE = 3.0
#: Public shares and released ones may differ by so many standard deviations of a public share.
_FAR = 4.0


@dataclass(frozen=True, eq=False)
class Components:
    """Estimates of all components with their weights, and what released and public numbers warn of."""

    estimates: tuple[GaussianEstimate, ...]
    weights: Floats
    warnings: tuple[str, ...]


def estimate_components(
    table: Table, setting: Setting, found: Found, *, rho: Fraction, condition: float, source: Source
) -> Components:
    """Estimate every cell's Gaussian.

    Guarantee: zCDP(rho), GDP(√(2 rho)), for all cells together (Gaussians proof page, Theorem 2).
    """
    assert found.partition is not None
    estimates = estimate_cells(
        table,
        [column.name for column in setting.columns],
        rule=found.partition,
        publics=found.publics,
        rho=rho,
        condition=condition,
        scales=borrowed_scales(found.publics, setting.public),
        source=source,
    )
    weights = _weights(estimates, found)
    return Components(estimates, weights, (*found.warnings, *_warnings(estimates, weights, found)))


def estimate_single(
    table: Table, setting: Setting, found: Found | None, *, rho: Fraction, condition: float, source: Source
) -> Components:
    """Estimate one Gaussian of all rows, with what a failed search has left."""
    names = [column.name for column in setting.columns]
    only = estimate_gaussian(table, names, public=setting.public, rho=rho, condition=condition, source=source)
    warnings = () if found is None else found.warnings
    weak = _weak((only,))
    return Components((only,), np.ones(1), (*warnings, *weak))


def borrowed_scales(publics: Sequence[Floats], everything: Floats) -> list[float | None]:
    """Return for cells whose public rows show no scale one from the other cells: √2 times the largest of theirs.

    If no cell shows one, that of all public rows together.
    """
    traces = [as_public_points(each).trace for each in publics]
    largest = max(traces) or as_public_points(everything).trace
    return [None if trace > 0 else sqrt(2 * largest) for trace in traces]


def _weights(estimates: Sequence[GaussianEstimate], found: Found) -> Floats:
    """Put both noisy counts of each cell together, each by its precision."""
    own = np.array([each.noise["count"] for each in estimates]) ** -2.0
    other = found.checks.deviation**-2.0
    sizes = (own * np.array([each.rows for each in estimates]) + other * found.checks.rows) / (own + other)
    sizes = np.maximum(sizes, 1.0)
    return np.asarray(sizes / sizes.sum())


def _warnings(estimates: Sequence[GaussianEstimate], weights: Floats, found: Found) -> list[str]:
    shown = np.array([len(each) for each in found.publics], np.float64)
    warnings = []
    for place, (each, public) in enumerate(zip(estimates, found.publics, strict=True)):
        trace = as_public_points(public).trace
        if trace > 0 and np.trace(each.covariance) > _TOO_WIDE * trace:
            warnings.append(
                f"component {place} holds rows that the public rows do not show: the trace of its covariance is "
                f"{np.trace(each.covariance) / trace:.1f} times that of the public rows of its cell"
            )
        share = float(shown[place] / shown.sum())
        if abs(weights[place] - share) > _FAR * sqrt(max(share * (1 - share), 1 / shown.sum()) / shown.sum()):
            warnings.append(
                f"component {place} has {weights[place]:.0%} of the private rows and {share:.0%} of the public ones"
            )
    return warnings + list(_weak(estimates))


def _weak(estimates: Sequence[GaussianEstimate]) -> tuple[str, ...]:
    return tuple(
        f"component {place} is weak: so few rows at this budget cannot be certified for the assumed condition number; "
        "more rows, more public rows or a larger budget would help"
        for place, each in enumerate(estimates)
        if each.weak
    )
