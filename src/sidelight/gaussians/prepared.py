"""A Gaussian query fitted to a schema: its price, its public description, and the course of questions it will ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sidelight.gaussians.answering import answered
from sidelight.gaussians.asked import Asking
from sidelight.gaussians.estimation import GaussianEstimate
from sidelight.gaussians.possible import Limits
from sidelight.gaussians.public_rows import Floats, PublicPoints
from sidelight.gaussians.spending import Spending
from sidelight.guarantees import Claims
from sidelight.guarantees.neighbours import Unit
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session import Answer

#: An estimate that asks questions about rows or pairs, once it has a source of noise.
Course = Callable[[Source], Asking[Any]]


class GaussianValue(dict[str, Any]):
    """The value of a Gaussian release: a plain mapping that prints in a few lines."""

    def __repr__(self) -> str:
        lines = [f"mean {_shown(self['mean'])}"]
        if "covariance" in self:
            lines.append(f"covariance {_shown(self['covariance'])}")
            lines.append(f"start {self['start']}, {self['steps']} coarse steps")
        lines.append(f"about {self['rows']:.0f} rows")
        if self.get("weak"):
            lines.append(
                "weak: with this budget and so many rows the estimate is not certified for the assumed condition "
                "number; more public rows, more rows or a larger budget help"
            )
        return "; ".join(lines)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedGaussian:
    """Everything but `run` is a function of public parameters."""

    columns: tuple[str, ...]
    spending: Spending
    unit: Unit
    points: PublicPoints | None
    description: Mapping[str, Any]
    course: Course
    limits: Limits

    @cached_property
    def claims(self) -> Claims:
        """The price."""
        return self.spending.claims(self.unit)

    @property
    def numerics(self) -> Literal["exact", "idealized"]:
        """Exact for integer noise."""
        return self.spending.numerics

    @property
    def request(self) -> Mapping[str, Any]:
        """The public description for ledger and report, in strings."""
        return self.description

    @property
    def prediction(self) -> Mapping[str, Any] | None:
        """The public rows and where they came from."""
        return None if self.points is None else self.points.described()

    def run(self, table: Table, source: Source) -> Answer:
        """Read the rows in a few passes; their number depends on public and released numbers only."""
        neighbours = self.spending.neighbours
        found: Any = answered(self.course(source), table, self.columns, neighbours=neighbours, source=source)
        value = GaussianValue(mean=self.limits.mean(found.mean))  # finite: noise of a hopeless price may overflow
        if isinstance(found, GaussianEstimate):
            value["covariance"] = self.limits.covariance(found.covariance)
        value.update(found.account())
        return Answer(value=value, labels=self.columns)


def _shown(array: Floats) -> str:
    return np.array2string(array, precision=4, suppress_small=True, threshold=36, edgeitems=3)
