"""What every method of finding cells is given and what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sidelight.gaussians.mixture.counting import NoisyChecks, Verdict
from sidelight.gaussians.mixture.partition import Partition
from sidelight.gaussians.mixture.supercluster import Floats, least_group
from sidelight.records import Number


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """The public side of a search: columns, public rows, how many components, the least weight and the budget."""

    columns: tuple[Number, ...]
    public: Floats
    components: int
    least_weight: float
    rho: Fraction

    @property
    def least(self) -> int:
        """How many public rows a component must have: h."""
        return least_group(len(self.public), self.least_weight)

    @property
    def directions(self) -> int:
        """How many principal directions are kept."""
        return min(self.components, len(self.columns))


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """A search's result: released numbers, and functions of them and of public rows.

    `partition` and the public rows of its cells are None where the number of cells is not the one asked for.
    """

    cells: int
    rows: float
    partition: Partition | None
    publics: tuple[Floats, ...]
    checks: NoisyChecks
    verdict: Verdict
    warnings: tuple[str, ...] = ()

    @property
    def certified(self) -> bool:
        """Whether there are as many cells as asked for and every check passed."""
        return self.partition is not None and self.verdict.certified


def public_columns(points: Floats) -> list[Floats]:
    """Return public rows in the form in which rules read rows."""
    return list(np.ascontiguousarray(points.T))
