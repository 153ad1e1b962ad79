"""Counts by labels that nobody declared: known ones always with plain noise, new ones above a threshold on persons.

Which labels occur is private. A new label is shown only if the noisy number of its units passes a threshold that a
label of one unit almost never passes (summaries proof page, Theorems 10 and 11); labels that are public knowledge, or
that an earlier release published, need none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.counts import MAX_CELLS
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import ALL, GroupTable
from sidelight.guarantees import ApproxDP, Claims, Context, native_claims, positive
from sidelight.mechanisms.gaussian_threshold import GaussianThreshold, gaussian_threshold
from sidelight.mechanisms.label_counts import LabelCounts
from sidelight.mechanisms.truncated_laplace import TruncatedLaplace, truncated_laplace
from sidelight.noise import Source
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.records import Label, Schema, Table
from sidelight.records.expressions import Expression, Named
from sidelight.release import Release
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count_tables import Reading, Whole, check_noise, count_error, group_labels, table_of
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.intervals import published_ends
from sidelight.summaries.noise_choice import Noise, choose_noise, gaussian_variance, laplace_variance
from sidelight.summaries.predicted import Group
from sidelight.summaries.shares import SELECTION_SHARE

Law = TruncatedLaplace | GaussianThreshold
#: From so many groups a unit on Gaussian noise has the lower threshold.
_FIRST_GAUSSIAN = 3


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
        if self.law is None:
            return 0
        return self.law.least if isinstance(self.law, TruncatedLaplace) else self.law.threshold

    @property
    def reach(self) -> float:
        """How far the noise of the threshold goes for practical purposes."""
        if self.law is None:
            return 0.0
        return float(self.law.cutoff) if isinstance(self.law, TruncatedLaplace) else 10 * float(self.law.scale)


def label_noise(query: Grouped, persons: Groups, counts: Groups, *, has_known: bool) -> LabelNoise:
    """Share the price between finding labels and counting in them; public numbers only.

    Args:
        query: The price and the kind of noise.
        persons: The groups with each person once in each: what the threshold is on.
        counts: The groups as they are counted; the same norms where persons or single rows are counted.
        has_known: Whether there are known labels: then a price without delta counts these alone.
    """
    assert persons.label is not None
    norms, most = counts.norms, persons.norms.l0
    context: Context = {"neighbours": persons.norms.neighbours, "unit": persons.unit}
    if query.epsilon is None or query.delta is None:
        if not has_known:
            more = "" if query.epsilon is not None else ", not rho or mu: which labels show is not Gaussian noise"
            raise SchemaError(
                f"nobody declared the labels of {persons.label.name!r}, and finding them needs epsilon with delta"
                f"{more}; or name labels that are public with known=[...]"
            )
        noise = check_noise(choose_noise(norms, **query.price, noise=query.noise))
        return LabelNoise(law=None, noise=noise, claims=noise.on(_zeros(counts, 0, noise)).claims, apart=True)
    apart = norms.linf > 1  # several rows of a person count in a group, and the threshold is on persons
    share = SELECTION_SHARE if apart else Fraction(1)
    gaussian = query.noise == "gaussian" or (query.noise == "auto" and most >= _FIRST_GAUSSIAN)
    if gaussian:
        law = gaussian_threshold(epsilon=query.epsilon, delta=query.delta, groups=most, share=share)
        mu = law.after_mu if apart else norms.l2 / law.scale
        scale = norms.l2 / mu
        noise = Noise(kind="gaussian", scale=scale, variance=gaussian_variance(scale), mu=mu)
        return LabelNoise(law=law, noise=check_noise(noise), claims=law.claims(**context), apart=apart)
    whole = positive(query.epsilon, name="epsilon")
    found = truncated_laplace(epsilon=whole * share, delta=query.delta, groups=most)
    loss = whole * (1 - share) if apart else whole
    scale = Fraction(norms.l1) / loss
    noise = Noise(kind="laplace", scale=scale, variance=laplace_variance(scale), epsilon=loss)
    # with probability δ a label is revealed; otherwise the losses of both parts add up to ε
    claim = ApproxDP(whole, most * found.reveal, **context)
    claims = native_claims(claim, mechanism="truncated_laplace")
    return LabelNoise(law=found, noise=check_noise(noise), claims=claims, apart=apart)


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
        known = set(self.known)
        new: list[tuple[Group, int]] = []
        found: dict[Group, int] = {}
        if self.plan.law is not None:
            found = self._by_group(table, self.persons)
            fresh = [group for group in found if group not in known]
            units = np.array([found[group] for group in fresh], np.int64)
            counts = LabelCounts(counts=units, groups=self.persons.norms.l0, unit=self.persons.unit)
            shown = self.plan.law.release(counts, source=source)
            pairs = zip(shown.places.tolist(), shown.values.tolist(), strict=True)
            new = sorted((fresh[place], value) for place, value in pairs)  # by label: the data's order stays inside
        groups = (*self.known, *(group for group, _ in new))
        if self.plan.apart:
            noisy = self._noisy(self._by_group(table, self.counts), groups, source)
            columns = self.reading.columns(noisy, groups, self.plan.noise)
        else:
            noisy = self._noisy(found, self.known, source)
            columns = self._with_new(noisy, np.array([value for _, value in new], np.int64))
        columns["known"] = np.arange(len(groups)) < len(self.known)
        value = table_of(self.keys, groups, columns, of=self.counted, shown_from=self.plan.least)
        return Answer(value=value, labels=group_labels(groups, "count"))

    def _by_group(self, table: Table, groups: Groups) -> dict[Group, int]:
        """Return exact counts of the groups that are there, keyed as the table is."""
        statistics = group_statistics(table, groups)
        assert statistics.present is not None
        values = np.asarray(statistics.counts.value).tolist()
        return {self._outside(key): count for key, count in zip(statistics.present, values, strict=True)}

    def _outside(self, key: Group) -> Group:
        """Put the label, which is last inside, where `by` has it."""
        return (*key[: self.label_place], key[-1], *key[self.label_place : -1])

    def _noisy(self, exact: dict[Group, int], groups: Sequence[Group], source: Source) -> Whole:
        values = np.array([exact.get(group, 0) for group in groups], np.int64)
        bounded = _zeros(self.counts, len(groups), self.plan.noise, values)
        return np.asarray(self.plan.noise.on(bounded).release(source), np.int64).reshape(-1)

    def _with_new(self, noisy: Whole, new: Whole) -> dict[str, Any]:
        """Join known groups and new ones, whose counts are too high on average: no twin, and intervals of their own."""
        assert self.plan.law is not None
        columns = self.reading.columns(noisy, self.known, self.plan.noise)
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
        more: What the query's request adds.
    """
    assert groups.label is not None
    assert isinstance(query.by, tuple)
    place = next(at for at, each in enumerate(query.by) if _name_of(each) == groups.label.name)
    labels = known_labels(known, groups.label)
    axes = [*groups.keys[:place], labels, *groups.keys[place:]]
    if prod(map(len, axes)) > MAX_CELLS:
        raise RangeError(f"the known labels make more than {MAX_CELLS} groups; use fewer columns or labels")
    cells = tuple(product(*axes))
    where = query.where
    assert where is None or isinstance(where, Expression)
    persons = groups_of(schema, by=query.by, where=where, max_groups=query.max_groups, max_rows_per_group=1)
    plan = label_noise(query, persons, groups, has_known=bool(labels))
    if reading.prediction is not None:
        if not cells:
            raise RangeError("a prediction moves the counts of known labels only; name them with known=[...]")
        reading.prediction.check(cells)
    described = None if reading.prediction is None else reading.prediction.description
    if isinstance(known, Release) and not known.private:  # which labels it shows protects nobody: for tests alone
        described = {"description": "labels of a release with seeded noise", **(described or {})}
        described["entropy"] = SEEDED_BRANDING
    told = hashlib.sha256(json.dumps(labels).encode("utf-8")).hexdigest() if labels else None
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
        label_place=place,
        reading=reading,
        counted=counted,
    )


def known_labels(known: Any, label: Label) -> tuple[str, ...]:
    """Return the labels that are known, each once and as the column's rules spell it.

    >>> known_labels(["Acme ", "acme", "Zeta"], Label("employer", casefold=True))
    ('acme', 'zeta')
    """
    if known is None:
        return ()
    table = known.value if isinstance(known, Release) else known
    if isinstance(table, GroupTable):
        if label.name not in table.keys_of_groups:
            raise RangeError(f"the table of known labels has no key column {label.name!r}")
        given: Iterable[Any] = [text for text in table[label.name] if text != ALL]
    elif isinstance(table, Iterable) and not isinstance(table, (str, bytes)):
        given = table
    else:
        raise RangeError(f"known takes a list of labels or an earlier release by them, got {type(known).__name__}")
    found: dict[str, None] = {}
    for text in given:
        name = label.normalised(text) if isinstance(text, str) else None
        if name is None:
            raise RangeError(f"a known label must be a text that is not empty, got {text!r}")
        found[name] = None
    return tuple(found)


def _name_of(each: str | Expression) -> str | None:
    return each if isinstance(each, str) else each.name if isinstance(each, Named) else None


def _zeros(groups: Groups, size: int, noise: Noise, values: Whole | None = None) -> Bounded:
    """Return counts of so many groups with the norms of one unit over all groups, known or not."""
    counts = np.zeros(size, np.int64) if values is None else values
    norms = groups.norms
    return Bounded(counts, norms.sensitivity(noise.norm), noise.norm, norms.neighbours, groups.unit)
