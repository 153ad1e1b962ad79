"""Many public rows, method "public-cluster": cells from public rows alone, verified by noisy counts.

The clusters are scikit-learn's mixture after a projection, chosen and checked on public rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.gaussians.mixture.partition import PublicOdds
from sidelight.gaussians.mixture.regions import Floats
from sidelight.gaussians.mixture.search import Found, Setting, count_checks, judge, noisy_rows, public_columns
from sidelight.noise import Source
from sidelight.records import Table

#: So many components are tried at most where their number is not given.
MOST_COMPONENTS = 12
_STARTS = 10


@dataclass(frozen=True, eq=False)
class PublicClusters:
    """The cells, the number of public rows in each and the share of them that is ambiguous."""

    odds: PublicOdds
    rows: tuple[int, ...]
    ambiguous: tuple[float, ...]

    @property
    def separated(self) -> bool:
        """Whether at most a tenth of each cell is ambiguous, as far as so few rows can tell."""
        return all(
            rows > 0 and share <= 0.10 + 2 * sqrt(0.09 / rows)
            for rows, share in zip(self.rows, self.ambiguous, strict=True)
        )


def cluster_publicly(points: Floats, components: int) -> PublicClusters:
    """Fit a mixture to public rows in their leading directions and label them by its odds.

    The starts are fixed (random_state=0): the fit is a function of the rows, and nothing secret is drawn.
    """
    origin, directions = _leading(points, min(components, points.shape[1], len(points) - 1))
    projected = (points - origin) @ directions.T
    scale = _scale(projected)
    fitted = _mixture(projected / scale, components)
    # component j is standard normal after Lⱼᵀ(y/scale) with the Cholesky factor of its precision
    factors = np.asarray(fitted.precisions_cholesky_, np.float64)
    whitening = np.stack([factor.T @ directions / scale for factor in factors])
    middles = np.stack([factor.T @ mean for factor, mean in zip(factors, fitted.means_, strict=True)])
    determinants = np.array([np.log(np.diag(factor)).sum() for factor in factors])
    odds = PublicOdds(origin, whitening, middles, np.log(fitted.weights_) + determinants)
    columns = list(np.ascontiguousarray(points.T))
    labels = odds.label(columns)
    flags = odds.ambiguous(columns, labels)
    rows = tuple(int((labels == place).sum()) for place in range(components))
    shares = tuple(float(flags[labels == place].mean()) if rows[place] else 1.0 for place in range(components))
    return PublicClusters(odds, rows, shares)


def number_of_components(points: Floats) -> int:
    """Choose the number by BIC, among those that leave each component 2d public rows on average; 1 at least."""
    most = min(MOST_COMPONENTS, len(points) // (2 * points.shape[1]))
    if most < 2:
        raise RangeError(
            f"to find the number of components there must be at least 4 public rows for each of the {points.shape[1]} "
            f"columns, got {len(points)} rows; say n_components=..., or give more rows"
        )
    origin, directions = _leading(points, min(most, points.shape[1]))
    projected = (points - origin) @ directions.T
    projected /= _scale(projected)
    scores = [float(_mixture(projected, count).bic(projected)) for count in range(1, most + 1)]
    return int(np.argmin(scores)) + 1


def _leading(points: Floats, count: int) -> tuple[Floats, Floats]:
    origin = points.mean(axis=0)
    _, _, directions = np.linalg.svd(points - origin, full_matrices=False)
    return origin, np.ascontiguousarray(directions[: max(count, 1)])


def _scale(projected: Floats) -> float:
    scale = float(np.sqrt((projected**2).mean()))
    if not scale > 0:
        raise RangeError("the public rows are all the same; give rows that differ, as a sample of the population does")
    return scale


def _mixture(projected: Floats, components: int) -> Any:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(components, n_init=_STARTS, random_state=0, reg_covar=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the separation check says whether the fit is of use
        return model.fit(projected)


#: Shares of the budget: number of rows, checks; the rest is for the components.
ROWS, CHECKS, COMPONENTS = Fraction(1, 100), Fraction(5, 100), Fraction(94, 100)


@dataclass(frozen=True, eq=False)
class PublicCluster:
    """The method with its public cells."""

    clusters: PublicClusters

    @property
    def estimation(self) -> Fraction:
        """The share of the budget that is left for the components."""
        return COMPONENTS

    def search(self, table: Table, setting: Setting, source: Source) -> Found:
        """Verify the cells.

        Guarantee: zCDP of 6 % of the budget, GDP likewise (Gaussian-mixture proof page, Theorem 1).
        """
        odds = self.clusters.odds
        rows = noisy_rows(table, setting.columns, rho=setting.rho * ROWS, source=source)
        checks = count_checks(table, setting.columns, odds, rho=setting.rho * CHECKS, source=source)
        labels = odds.label(public_columns(setting.public))
        return Found(
            cells=odds.cells,
            rows=rows,
            partition=odds,
            publics=tuple(setting.public[labels == cell] for cell in range(odds.cells)),
            checks=checks,
            verdict=judge(checks, rows=rows, least_weight=setting.least_weight),
        )
