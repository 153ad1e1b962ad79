"""A `SyntheticTable` query fitted to a schema: its plan, its price, and the one pass over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sidelight.aggregates.collect import coded_rows, collect
from sidelight.aggregates.counts import CellCounts
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session import Answer
from sidelight.session.query import SurePrepared
from sidelight.synthesis.bounds.certify import certified
from sidelight.synthesis.cells.axes import Axis, coding_of
from sidelight.synthesis.cells.domain import Domain
from sidelight.synthesis.cells.packing import Mass
from sidelight.synthesis.cells.spaces import MOST_DENSE_CELLS, Space, public_support
from sidelight.synthesis.cells.workload import Workload
from sidelight.synthesis.engine_choice import Chosen
from sidelight.synthesis.engines.graphical import check_graphical, distinct_rows, drawn_rows, release_graphical
from sidelight.synthesis.engines.marginals import release_distribution
from sidelight.synthesis.engines.mwem import MWEMPlan, release_by_single_queries
from sidelight.synthesis.engines.plan import MarginalPlan, sized
from sidelight.synthesis.fitting.fitted import Fitted
from sidelight.synthesis.fitting.prior import CodedRows, EarlierReleases
from sidelight.synthesis.measuring.private_marginals import PrivateMarginals, Protection
from sidelight.synthesis.output.answers import Measured
from sidelight.synthesis.output.synthetic_rows import PublicEntropy
from sidelight.synthesis.predicted.known_counts import EarlierCounts, calibrated
from sidelight.synthesis.predicted.pooling import CountsPredictor, refit_again
from sidelight.synthesis.predicted.prediction import Predicted


class SyntheticValue(dict[str, Any]):
    """The value of a release: a plain mapping that prints in one line, its `summary`.

    The line is in the mapping because a release that was read back has no class but that one.
    """

    def __repr__(self) -> str:
        return str(self["summary"])


def _summary(names: Sequence[str], fitted: Fitted) -> str:
    """Return in one line what was released."""
    measured = f"{len(fitted.measurements)} measured" if fitted.measurements else f"{len(fitted.answered)} answered"
    columns = ", ".join(names)
    return f"a synthetic table of {fitted.rows:.0f} rows ({columns}; {measured}): sl.Synthetic(release)"


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTable(SurePrepared):
    """Everything but `run` is a function of public parameters."""

    axes: tuple[Axis, ...]
    domain: Domain
    workload: Workload
    price: Budget
    protection: Protection
    rows: int | None
    rounds: int | None
    engine: Chosen
    predicted: Predicted | None

    @property
    def adds_up(self) -> bool:
        """Whether rows are only added up."""
        return self.domain.cells <= MOST_DENSE_CELLS

    @cached_property
    def plan(self) -> MarginalPlan | MWEMPlan:
        """Shares, rounds and noise."""
        shared: dict[str, Any] = {
            "domain": self.domain,
            "workload": self.workload,
            "price": self.price,
            "protection": self.protection,
            "rows": self.rows,
            "rounds": self.rounds,
        }
        if self.engine == "mwem":  # as published
            return MWEMPlan(**shared)
        if self.engine == "queries":
            return MWEMPlan(**shared, refit=True)
        return MarginalPlan(**shared)

    @cached_property
    def space(self) -> Space | None:
        """The points of the distribution; None for all cells."""
        if self.engine == "graphical":
            assert isinstance(self.plan, MarginalPlan)
            check_graphical(self.plan, None if self.predicted is None else self.predicted.prior)
        if self.engine != "support":
            return None
        assert self.predicted is not None
        assert self.predicted.codes is not None
        with Source(PublicEntropy(self.predicted.digest)) as source:  # public rows: their draws need no secret
            return public_support(self.domain, self.predicted.codes, source=source)

    def counts(self, table: Table) -> PrivateMarginals:
        """Read the rows once: into one dense table of counts, or as codes where the domain is too large for that."""
        coding = coding_of(self.axes)
        if self.domain.cells <= MOST_DENSE_CELLS:
            statistic = CellCounts(
                coding=coding, rows_per_unit=self.protection.rows_per_unit, unit=self.protection.unit
            )
            return PrivateMarginals.from_cells(self.domain, collect(table, statistic).value, protection=self.protection)
        kind = np.int16 if max(self.domain.sizes) < 1 << 15 else np.int64
        parts = [np.stack([code.astype(kind) for code in codes], axis=1) for codes in coded_rows(table, coding)]
        rows = np.concatenate(parts) if parts else np.empty((0, len(self.axes)), kind)
        return PrivateMarginals.from_codes(self.domain, rows, protection=self.protection)

    def run(self, table: Table, source: Source) -> Answer:
        """Count, select and measure, fit, and pack what came out."""
        fitted = self.fit(self.counts(table), source)
        return Answer(value=self.value(fitted))

    def fit(self, counts: PrivateMarginals, source: Source) -> Fitted:
        """Run the engine."""
        prior = None if self.predicted is None else self.predicted.prior
        if isinstance(self.plan, MWEMPlan):
            return release_by_single_queries(counts, self.plan, prior=prior, source=source)
        plan = sized(self.plan, counts, source=source)
        if self.engine == "graphical":
            return release_graphical(counts, plan, prior=prior, source=source)
        fitted = release_distribution(counts, plan, prior=prior, space=self.space, source=source)
        known: CountsPredictor
        if isinstance(prior, CodedRows):
            known = calibrated(fitted, prior.codes, trust=prior.trust)
        elif isinstance(prior, EarlierReleases):
            known = EarlierCounts(prior.releases, prior.noises, rows=fitted.rows)
        else:
            return refit_again(fitted)
        wanted = plan.workload.partitions(plan.domain, closure=False)
        return refit_again(fitted, known, wanted=wanted, trust=prior.trust)

    def value(self, fitted: Fitted) -> SyntheticValue:
        """Return everything released as plain values: post-processing."""
        if fitted.weights is None:  # a graphical model: its rows stand for it
            count = drawn_rows(fitted.rows, len(self.axes))
            points, times = distinct_rows(fitted.graphical.draw_rows(count), self.domain.sizes)
            mass = Mass.of(self.domain, times / times.sum(), size=max(fitted.rows, count), support=points)
        else:
            mass = Mass.of(self.domain, fitted.weights, size=fitted.rows, support=fitted.support)
        measured = [
            Measured(each.marginal.columns, each.marginal.widths, each.values, each.deviation)
            for each in fitted.measurements
        ]
        return SyntheticValue(
            summary=_summary(self.labels, fitted),
            columns=[axis.to_json() for axis in self.axes],
            rows=fitted.rows,
            engine=self.engine,
            measurements=[each.to_value() for each in measured],
            answered=[
                {"columns": list(each.block.columns), "query": each.inside, "count": each.value, "scale": each.scale}
                for each in fitted.answered
            ],
            missed=[
                {"columns": list(marginal.columns), "cell": list(cell)} for marginal, cell in fitted.missed_regions()
            ],
            bounds=certified(fitted, mass, self.plan).to_value(),
            distribution=mass.to_value(),
        )
