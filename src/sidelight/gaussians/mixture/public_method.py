"""Many public rows, method "public-cluster": cells from public rows alone, verified by noisy counts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sidelight.gaussians.mixture.counting import count_checks, judge, noisy_rows
from sidelight.gaussians.mixture.public_clusters import PublicClusters
from sidelight.gaussians.mixture.search import Found, Setting, public_columns
from sidelight.noise import Source
from sidelight.records import Table

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
