"""From noisy readings to the means that people read: drawn towards a prediction or the overall mean, with intervals.

Post-processing of released numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.group_table import POOLED
from sidelight.summaries.believed import believed_means
from sidelight.summaries.clip_subject import Interval
from sidelight.summaries.predicted import PredictedTable
from sidelight.summaries.ratio import Floats, deviation_of, residuals
from sidelight.summaries.reading import SUPPORT, UNIT, Measured
from sidelight.summaries.shrink import (
    Pulled,
    noisy_prediction,
    of_the_others,
    outside_weights,
    pull_means,
    shrink_each,
)

#: Fewer groups than this are not drawn to one another.
LEAST_GROUPS = 3
#: The doubt of someone who knows nothing, in units of half the width: larger ones change nothing.
_NO_IDEA = 1e3


@dataclass(frozen=True, kw_only=True, eq=False)
class MeanReading:
    """What is public about how a noisy reading becomes a table of means.

    Args:
        name: What the mean is called: "mean" or "proportion".
        table: The predicted means, if there are any.
        pull: Whether means are drawn to the prediction or the overall mean.
        population: Whether intervals are for the population that rows are a sample of.
        per_cell_cap: So many standard deviations of its noise a group's sum is drawn at most.
        confidence: Of the intervals.
        finds: Whether groups may have been found that nobody declared.
    """

    name: str
    table: PredictedTable | None
    pull: bool = True
    population: bool = False
    per_cell_cap: float | None = None
    confidence: float = 0.95
    finds: bool = False

    def columns(self, measured: Measured) -> dict[str, Any]:
        """Return the columns of a reading."""
        name = self.name
        ends = measured.mean_ends(self.confidence, population=self.population)
        columns: dict[str, Any] = {name: measured.number(measured.taus)}
        drawn = self._numbers(measured) if self.pull else None
        if drawn is not None:
            columns = {name: drawn, f"{name}_plain": columns[name]}
            if self.table is None and len(drawn) >= LEAST_GROUPS:
                columns[POOLED] = self._pooled(measured, drawn)
        columns |= {"noise_sd": measured.noise_sd, "low": ends.low, "high": ends.high}
        columns |= measured.counts | measured.count_ends(self.confidence)
        if measured.moments.squares is not None and name == "mean":
            columns["sd"] = measured.half * deviation_of(measured.moments, UNIT)
        columns["supported"] = measured.supported
        return columns | measured.interval.columns

    def _numbers(self, measured: Measured) -> Floats | None:
        """Return the drawn means of each group; None where nothing is drawn.

        Where each group has an interval of its own, its mean stays in it; a group without support, whose interval may
        lie anywhere, is what it is drawn to.
        """
        if isinstance(measured.interval, Interval):
            drawn = self._drawn(measured)
            return None if drawn is None else measured.number(drawn)
        there = measured.supported
        if self.table is None and len(there) < LEAST_GROUPS:
            return measured.number(measured.taus) if self.finds else None
        told = np.full(len(there), np.nan) if self.table is None else self.table.on(measured.names).values
        told = np.clip(told, *measured.interval.bounds)
        if not there.any():
            return np.where(np.isfinite(told), told, measured.number(measured.taus))
        common = measured.common
        drawn = self._drawn(common)
        assert drawn is not None
        found = common.number(drawn)
        within = np.clip(found, measured.lower, measured.upper)
        # a group with too few rows for an interval is drawn as all are; of one without rows nothing but the prediction
        # is known, and it is taken where its doubt was stated
        seen = measured.moments.count > SUPPORT * math.sqrt(measured.moments.count_variance)
        stated = self.table is not None and (
            self.table.sd is not None or self.table.on(measured.names).relative is not None
        )
        return np.where(there, within, np.where(np.isfinite(told) & ~seen & stated, told, found))

    def _pooled(self, measured: Measured, drawn: Floats) -> Any:
        """Return which drawn means lie nearer to the mean of all groups than to what was measured of their own."""
        common = measured if isinstance(measured.interval, Interval) else measured.common
        overall = common.number(np.full(len(drawn), common.overall))
        return np.abs(drawn - overall) < np.abs(drawn - measured.number(measured.taus))

    def _drawn(self, measured: Measured) -> Floats | None:
        """Return group means of t drawn to the prediction, else to the overall mean; None where there is neither."""
        groups = measured.names
        prediction = np.full(len(groups), measured.overall)
        doubt = np.full(len(groups), np.nan)
        if self.table is not None:
            matched = self.table.on(groups)
            known = np.isfinite(matched.values)
            told = np.where(known, measured.unit(np.where(known, matched.values, 0.0)), np.nan)
            with np.errstate(over="ignore"):  # a doubt beyond all measure is that of someone who knows nothing
                if matched.relative is not None:
                    doubt = self._doubt(measured, matched.relative * np.abs(matched.values), known)
                elif self.table.sd is not None:
                    doubt = self._doubt(measured, np.full(len(groups), self.table.sd), known)
                elif np.isfinite(matched.sds).any() and self.per_cell_cap is None:
                    noise = self._doubt(measured, np.where(np.isfinite(matched.sds), matched.sds, 0.0), known)
                    told, doubt = self._denoised(measured, told, np.where(known, noise, 0.0))
                elif self.per_cell_cap is None and len(groups) >= LEAST_GROUPS:
                    believed = believed_means(measured.moments, told, overall=measured.overall)
                    told, doubt = believed.means, believed.doubt
            prediction = np.where(known, told, prediction)
        elif len(groups) < LEAST_GROUPS:
            return measured.taus if self.finds else None
        if not groups:
            return measured.taus
        if self.per_cell_cap is not None:
            return self._drawn_each(measured, None if self.table is None else prediction, self.per_cell_cap)
        if len(groups) < LEAST_GROUPS:
            doubt = np.where(np.isnan(doubt), _NO_IDEA**2, doubt)  # nothing was said of this one: as measured
        return self._pulled(measured, prediction, doubt=doubt).means

    def _doubt(self, measured: Measured, sds: Floats, known: Any) -> Floats:
        """Return variances of t from standard deviations of the number; NaN where nothing is predicted."""
        return np.where(known, np.minimum(sds / measured.half, _NO_IDEA) ** 2, np.nan)

    def _denoised(self, measured: Measured, told: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return a prediction that has noise of its own drawn to the overall mean, and how far groups lie from it.

        A small group of an earlier release, or of a sample, is mostly noise: taken as it is it would be worse than
        nothing.
        """
        overall = np.full(len(told), measured.overall)
        scatter = self._pulled(measured, overall).spread
        # where nothing is predicted the overall mean stands in, around which groups scatter: no sign of drift
        stands_in = np.where(np.isfinite(told), told, overall)
        own = np.where(np.isfinite(told), noise, scatter)
        drift = self._pulled(measured, stands_in, noise=own).spread
        return noisy_prediction(told, noise, drift=drift, overall=measured.overall, scatter=scatter)

    def _pulled(self, measured: Measured, prediction: Floats, **more: Any) -> Pulled:
        # clipped rows lie in their group's interval: a prediction beyond it would only draw in the noise of the count
        prediction = np.clip(prediction, *measured.within)
        r, v = residuals(measured.moments, UNIT, prediction)
        return pull_means(r, v, measured.moments.count, prediction, lower=-1.0, upper=1.0, **more)

    def _drawn_each(self, measured: Measured, prediction: Floats | None, cap: float) -> Floats:
        """Return group means of t, each drawn by a weight and to a mean without its own noise (Theorem 9)."""
        moments = measured.moments
        others = np.clip(of_the_others(moments.total) / np.maximum(of_the_others(moments.count), 1.0), -1.0, 1.0)
        if prediction is not None and self.table is not None:
            known = np.isfinite(self.table.on(measured.names).values)
            others = np.where(known, prediction, others)
        r, v = residuals(moments, UNIT, others)
        weights = outside_weights(r, v, moments.count, width=UNIT.width)
        drawn = shrink_each(r, 0.0, variance=v, cap=cap, weights=weights)
        return np.clip(others + drawn / np.maximum(moments.count, 1.0), -1.0, 1.0)
