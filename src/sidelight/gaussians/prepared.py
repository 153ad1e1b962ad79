"""A Gaussian query fitted to a schema: its price, its public description, and the course of questions it will ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.gaussians.answering import answered
from sidelight.gaussians.asked import Asking
from sidelight.gaussians.estimation import GaussianEstimate
from sidelight.gaussians.possible import Limits
from sidelight.gaussians.public_rows import Floats
from sidelight.guarantees import Neighbours
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session import Answer
from sidelight.session.query import SurePrepared

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
class PreparedGaussian(SurePrepared):
    """Everything but `run` is a function of public parameters."""

    neighbours: Neighbours
    course: Course
    limits: Limits

    def run(self, table: Table, source: Source) -> Answer:
        """Read the rows in a few passes; their number depends on public and released numbers only."""
        course = self.course(source)
        found: Any = answered(course, table, self.labels, neighbours=self.neighbours, source=source)
        value = GaussianValue(mean=self.limits.mean(found.mean))  # finite: noise of a hopeless price may overflow
        if isinstance(found, GaussianEstimate):
            value["covariance"] = self.limits.covariance(found.covariance)
        value.update(found.account())
        return Answer(value=value)


def _shown(array: Floats) -> str:
    return np.array2string(array, precision=4, suppress_small=True, threshold=36, edgeitems=3)
