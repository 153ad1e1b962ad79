"""Counts by labels that nobody declared: known ones always with plain noise, new ones above a threshold on persons.

Who is shown is decided in `label_selection`; where persons are counted once in a group, the noisy number that passed
the threshold is the count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.groups import Groups
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, Context, positive
from sidelight.mechanisms.additive import in_int64
from sidelight.mechanisms.gaussian_threshold import GaussianThreshold
from sidelight.mechanisms.truncated_laplace import TruncatedLaplace
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count_tables import Reading, Whole, check_noise, count_error, group_labels, table_of
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.intervals import published_ends
from sidelight.summaries.label_selection import (
    FIRST_GAUSSIAN,
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
from sidelight.summaries.noise_choice import Noise, choose_noise, gaussian_variance, laplace_variance
from sidelight.summaries.predicted import Group
from sidelight.summaries.shares import SELECTION_SHARE

#: What a price is spent on first where a unit has three labels or more: finding labels, or counting in them.
Prefer = Literal["labels", "count"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelNoise:
    """How labels are found and counted: the law of the threshold, the noise of the counts, and what both prove.

    `law` is None where only known labels are counted. `apart` says that counts are measured by themselves, with a part
    of the price of their own if labels are found before: then all have an unbiased twin.
    """

    law: Law | None
    noise: Noise
    claims: Claims
    apart: bool = False

    @property
    def least(self) -> int:
        """The smallest noisy number of units that shows a new label."""
        return least_shown(self.law)

    @property
    def reach(self) -> float:
        """How far the noise of the threshold goes for practical purposes."""
        if self.law is None:
            return 0.0
        return float(self.law.cutoff) if isinstance(self.law, TruncatedLaplace) else 10 * float(self.law.scale)


def label_noise(
    query: Grouped, persons: Groups, counts: Groups, *, has_known: bool, prefer: Prefer = "labels"
) -> LabelNoise:
    """Share the price between finding labels and counting in them; public numbers only.

    Args:
        query: The price and the kind of noise.
        persons: The groups with each person once in each: what the threshold is on.
        counts: The groups as they are counted; the same norms where persons or single rows are counted.
        has_known: Whether there are known labels: then a price without delta counts these alone.
        prefer: "labels" takes the law with the lower threshold, "count" the one with the smaller noise.
    """
    assert persons.label is not None
    norms, most = counts.norms, persons.norms.l0
    context: Context = {"neighbours": persons.norms.neighbours, "unit": persons.unit}
    if query.epsilon is None or query.delta is None:
        if not has_known:
            refuse_price(query, persons.label)
        noise = check_noise(choose_noise(norms, **query.price, noise=query.noise))
        return LabelNoise(law=None, noise=noise, claims=noise.on(_zeros(counts, 0, noise)).claims, apart=True)
    apart = norms.linf > 1  # several rows of a person count in a group, and the threshold is on persons
    share = SELECTION_SHARE if apart else Fraction(1)
    if prefer == "count":
        gaussian = choose_noise(norms, **query.price, noise=query.noise).kind == "gaussian"
    else:
        gaussian = query.noise == "gaussian" or (query.noise == "auto" and most >= FIRST_GAUSSIAN)
    law = threshold_law(query, most, share=share, law="gaussian" if gaussian else "laplace")
    if isinstance(law, GaussianThreshold):
        mu = law.after_mu if apart else norms.l2 / law.scale
        scale = norms.l2 / mu
        noise = Noise(kind="gaussian", scale=scale, variance=gaussian_variance(scale), mu=mu)
    else:
        loss = positive(query.epsilon, name="epsilon") * (1 - share if apart else 1)
        scale = Fraction(norms.l1) / loss
        noise = Noise(kind="laplace", scale=scale, variance=laplace_variance(scale), epsilon=loss)
    return LabelNoise(law=law, noise=check_noise(noise), claims=law_claims(query, law, **context), apart=apart)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedLabels(SurePrepared):
    """Counts by labels that nobody declared, ready to run."""

    persons: Groups
    counts: Groups
    plan: LabelNoise
    known: tuple[Group, ...]
    keys: tuple[str, ...]
    label_place: int
    reading: Reading
    counted: str

    def run(self, table: Table, source: Source) -> Answer:
        """Find new labels, count in all, and put the known ones first, then the new ones by label."""
        selection = self.selection
        found: dict[Group, int] = {}
        if self.plan.law is not None:
            found = selection.exact(table, self.persons)
        new = selection.new(found, source, known_too=not self.plan.apart)
        groups = (*self.known, *(group for group, _ in new))
        if self.plan.apart:
            noisy = self._noisy(selection.exact(table, self.counts), groups, source)
            columns = self.reading.columns(noisy, groups, self.plan.noise, source)
        else:
            noisy = self._noisy(found, self.known, source)
            columns = self._with_new(noisy, np.array([value for _, value in new], np.int64), source)
        columns["known"] = np.arange(len(groups)) < len(self.known)
        value = table_of(self.keys, groups, columns, of=self.counted, shown_from=self.plan.least, **self.counts.notes)
        return Answer(value=value, labels=group_labels(groups, "count"))

    @property
    def selection(self) -> LabelSelection:
        """Which groups are shown."""
        return LabelSelection(persons=self.persons, law=self.plan.law, known=self.known, place=self.label_place)

    def _noisy(self, exact: dict[Group, int], groups: Sequence[Group], source: Source) -> Whole:
        values = np.array([exact.get(group, 0) for group in groups], np.int64)
        bounded = _zeros(self.counts, len(groups), self.plan.noise, values)
        return in_int64(self.plan.noise.on(bounded).release(source)).reshape(-1)

    def _with_new(self, noisy: Whole, new: Whole, source: Source) -> dict[str, Any]:
        """Join known groups and new ones, whose counts are too high on average: no twin, and intervals of their own."""
        assert self.plan.law is not None
        columns = self.reading.columns(noisy, self.known, self.plan.noise, source)
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
    reading: Reading,
    *,
    kind: str,
    counted: str,
    known: Any,
    prefer: Prefer = "labels",
    **more: Any,
) -> PreparedLabels:
    """Fix thresholds, noise and claims of counts by labels that nobody declared.

    Args:
        query: The price, the groups, and what the ledger says.
        schema: The public declarations.
        groups: The checked groups, as they are counted.
        reading: How the noisy counts of known groups are read.
        kind: The kind of the query.
        counted: "persons" or "rows".
        known: Labels that are public, or a table that published them.
        prefer: What a price with delta is spent on first.
        more: What the query's request adds.
    """
    selection = selection_of(query, schema, groups, known=known)
    cells, persons = selection.known, selection.persons
    plan = label_noise(query, persons, groups, has_known=bool(cells), prefer=prefer)
    if reading.population and plan.law is not None and not plan.apart:
        raise RangeError(
            "intervals of a population are not known for counts that had to pass a threshold; leave population out, or "
            "name known labels and give a price without delta"
        )
    if reading.prediction is not None:
        if not cells:
            raise RangeError("a prediction moves the counts of known labels only; name them with known=[...]")
        reading.prediction.check(cells)
    described = None if reading.prediction is None else reading.prediction.description
    described = known_described(known, described)
    told = known_digest(selection)
    if prefer != "labels":
        more["prefer"] = prefer
    error = None
    if plan.law is None:
        error = count_error(plan.noise, len(cells), unit=counted, assumption="rows are counted as bounded")
    return PreparedLabels(
        claims=plan.claims,
        request=query.request(kind, of=counted, known=told, **more),
        labels=group_labels(cells, "count"),
        prediction=described,
        error=error,
        persons=persons,
        counts=groups,
        plan=plan,
        known=cells,
        keys=query.keys,
        label_place=selection.place,
        reading=reading,
        counted=counted,
    )


def _zeros(groups: Groups, size: int, noise: Noise, values: Whole | None = None) -> Bounded:
    """Return counts of so many groups with the norms of one unit over all groups, known or not."""
    counts = np.zeros(size, np.int64) if values is None else values
    norms = groups.norms
    return Bounded(counts, norms.sensitivity(noise.norm), noise.norm, norms.neighbours, groups.unit)
