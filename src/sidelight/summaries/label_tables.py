"""Counts by undeclared labels: known ones always with plain noise, new ones above a threshold on persons.

`label_selection` decides which are released; where persons count once in a group, the noisy number that passed the
threshold is the count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.aggregates.groups import Groups
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, positive
from sidelight.mechanisms.additive import in_int64
from sidelight.mechanisms.gaussian_threshold import GaussianThreshold
from sidelight.mechanisms.truncated_laplace import TruncatedLaplace
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count_tables import CountReading, Whole, bounded_counts, count_error, error_of_shown, table_of
from sidelight.summaries.grouped import Grouped, group_labels
from sidelight.summaries.intervals import published_ends
from sidelight.summaries.label_selection import (
    SELECTION_SHARE,
    LabelSelection,
    Law,
    known_described,
    known_digest,
    law_claims,
    least_shown,
    refuse_price,
    selection_of,
    threshold_law,
)
from sidelight.summaries.noise_choice import (
    IntegerNoise,
    check_noise,
    choose_noise,
    gaussian_variance,
    laplace_variance,
)
from sidelight.summaries.predicted import Group


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelNoise:
    """The law of the threshold, the noise of the counts, and what both prove together."""

    law: Law | None  # None where only known labels are counted
    noise: IntegerNoise
    claims: Claims
    separate: bool = False  # whether counts are measured with their own part of the price: all have an unbiased twin

    @property
    def least(self) -> int:
        """The smallest noisy number of units that shows a new label."""
        return least_shown(self.law)

    @property
    def reach(self) -> float:
        """The cutoff of the noise of the threshold, or 10 standard deviations."""
        if self.law is None:
            return 0.0
        return float(self.law.cutoff) if isinstance(self.law, TruncatedLaplace) else 10 * float(self.law.scale)


def label_noise(query: Grouped, persons: Groups, counts: Groups, *, has_known: bool) -> LabelNoise:
    """Share the price between finding labels and counting in them; public numbers only."""
    assert persons.label is not None
    norms, most = counts.norms, persons.norms.l0
    if query.epsilon is None or query.delta is None:
        if not has_known:
            refuse_price(query, persons.label)
        noise = check_noise(choose_noise(norms, query.law, **query.price))
        return LabelNoise(
            law=None,
            noise=noise,
            claims=noise.on(bounded_counts(counts, noise, np.zeros(0, np.int64))).claims,
            separate=True,
        )
    separate = norms.linf > 1  # several rows of a person count in a group, and the threshold is on persons
    share = SELECTION_SHARE if separate else Fraction(1)
    law = threshold_law(query, most, share=share)
    if isinstance(law, GaussianThreshold):
        mu = law.after_mu if separate else norms.l2 / law.scale
        scale = norms.l2 / mu
        noise = IntegerNoise(kind="gaussian", scale=scale, variance=gaussian_variance(scale), mu=mu)
    else:
        loss = positive(query.epsilon, name="epsilon") * (1 - share if separate else 1)
        scale = Fraction(norms.l1) / loss
        noise = IntegerNoise(kind="laplace", scale=scale, variance=laplace_variance(scale), epsilon=loss)
    claims = law_claims(query, law, **persons.context)
    return LabelNoise(law=law, noise=check_noise(noise), claims=claims, separate=separate)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedLabels(SurePrepared):
    """Counts by undeclared labels, ready to run."""

    selection: LabelSelection  # with the law of the plan
    counts: Groups
    plan: LabelNoise
    keys: tuple[str, ...]
    reading: CountReading
    counted: str

    def run(self, table: Table, source: Source) -> Answer:
        """Find new labels, count in all, and put the known ones first, then the new ones by label."""
        selection, known = self.selection, self.selection.known
        found: dict[Group, int] = {}
        if self.plan.law is not None:
            found = selection.exact(table, selection.persons)
        new = selection.new(found, source, known_too=not self.plan.separate)
        groups = (*known, *(group for group, _ in new))
        if self.plan.separate:
            noisy = self._noisy(selection.exact(table, self.counts), groups, source)
            columns = self.reading.columns(noisy, groups, self.plan.noise, source)
        else:
            noisy = self._noisy(found, known, source)
            columns = self._with_new(noisy, np.array([value for _, value in new], np.int64), source)
        columns["known"] = np.arange(len(groups)) < len(known)
        value = table_of(self.keys, groups, columns, of=self.counted, shown_from=self.plan.least, **self.counts.notes)
        return Answer(value=value, labels=group_labels(groups, "count"), error=error_of_shown(self.error, value))

    def _noisy(self, exact: dict[Group, int], groups: Sequence[Group], source: Source) -> Whole:
        values = np.array([exact.get(group, 0) for group in groups], np.int64)
        bounded = bounded_counts(self.counts, self.plan.noise, values)
        return in_int64(self.plan.noise.on(bounded).release(source)).reshape(-1)

    def _with_new(self, noisy: Whole, new: Whole, source: Source) -> dict[str, Any]:
        """Join known groups and new ones, whose counts are too high on average: no twin, and intervals of their own."""
        assert self.plan.law is not None
        columns = self.reading.columns(noisy, self.selection.known, self.plan.noise, source)
        columns["unbiased"] = columns["unbiased"].astype(np.float64)
        ends = published_ends(
            new, self.plan.law, least=self.plan.least, reach=self.plan.reach, confidence=self.reading.confidence
        )
        more = {
            "count": new,
            "unbiased": np.full(len(new), np.nan),
            "noise_sd": np.full(len(new), self.plan.noise.sd),
            "low": ends.low.astype(np.int64),
            "high": ends.high.astype(np.int64),
        }
        return {name: np.concatenate([columns[name], more[name]]) for name in columns}


def prepare_labels(
    query: Grouped,
    schema: Schema,
    groups: Groups,
    reading: CountReading,
    *,
    kind: str,
    counted: str,
    known: Any,
) -> PreparedLabels:
    """Fix thresholds, noise and claims of counts by undeclared labels."""
    selection = selection_of(query, schema, groups, known=known)
    cells, persons = selection.known, selection.persons
    plan = label_noise(query, persons, groups, has_known=bool(cells))
    if reading.prediction is not None:
        if not cells:
            raise RangeError("a prediction moves the counts of known labels only; name them with known=[...]")
        reading.prediction.check(cells)
    error = None
    if plan.law is None:
        error = count_error(plan.noise, len(cells), unit=counted, assumption="rows are counted as bounded")
    return PreparedLabels(
        claims=plan.claims,
        request=query.request(kind, of=counted, known=known_digest(selection), **reading.request),
        labels=group_labels(cells, "count"),
        prediction=known_described(known, reading.described),
        error=error,
        selection=replace(selection, law=plan.law),
        counts=groups,
        plan=plan,
        keys=query.keys,
        reading=reading,
        counted=counted,
    )
