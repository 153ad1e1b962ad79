"""Labels that nobody declared: which of them are shown, by a threshold on persons, before anything is measured in them.

Which labels occur is private. A new label is shown only if the noisy number of its units passes a threshold that a
label of one unit almost never passes (summaries proof page, Theorems 10 and 11); labels that are public knowledge, or
that an earlier release published, need none. Statistics of the shown groups are then paid for by themselves.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from sidelight.aggregates.counts import MOST_GROUPS
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.errors import RangeError, SchemaError, SidelightWarning
from sidelight.group_table import ALL, GroupTable
from sidelight.guarantees import ApproxDP, Claims, Context, native_claims, positive
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.gaussian_threshold import GaussianThreshold, gaussian_threshold
from sidelight.mechanisms.truncated_laplace import LabelCounts, TruncatedLaplace, truncated_laplace
from sidelight.noise import Source
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.predictions.public_data import PublicData, refuse_private
from sidelight.records import Label, Schema, Table
from sidelight.records.expressions import Expression, Named
from sidelight.release import Release
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.predicted import Group
from sidelight.summaries.shares import SELECTION_SHARE

Law = TruncatedLaplace | GaussianThreshold
#: From so many groups a unit on Gaussian noise has the lower threshold.
FIRST_GAUSSIAN = 3


def least_shown(law: Law | None) -> int:
    """Return the smallest noisy number of units that shows a new label; 0 where only known labels are shown."""
    if law is None:
        return 0
    return law.least if isinstance(law, TruncatedLaplace) else law.threshold


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelSelection:
    """Which groups are shown: the known ones always, new ones above the threshold of a law. All of it is public.

    Args:
        persons: The groups with each person once in each: what the threshold is on.
        law: Of the threshold; None where only known labels are shown.
        known: The known groups, labels where `by` has them.
        place: Where `by` has the label that nobody declared; inside it is last.
    """

    persons: Groups
    law: Law | None
    known: tuple[Group, ...]
    place: int

    def exact(self, table: Table, groups: Groups) -> dict[Group, int]:
        """Return exact counts of the groups that are there, keyed as the table is. Private."""
        statistics = group_statistics(table, groups)
        assert statistics.present is not None
        values = np.asarray(statistics.counts.value).tolist()
        return {self._outside(key): count for key, count in zip(statistics.present, values, strict=True)}

    def new(self, found: dict[Group, int], source: Source, *, known_too: bool = False) -> list[tuple[Group, int]]:
        """Return the new groups that are shown, with their noisy numbers of units, by label.

        Args:
            found: The exact number of units in each group that is there (`exact` of `persons`).
            source: Of the noise.
            known_too: Whether the known groups are counted with the same noise afterwards.
        """
        if self.law is None:
            return []
        known = set(self.known)
        fresh = [group for group in found if group not in known]
        units = np.array([found[group] for group in fresh], np.int64)
        counts = LabelCounts(counts=units, groups=self.persons.norms.l0, unit=self.persons.unit)
        shown = self.law.release(counts, source=source, known_too=known_too)
        pairs = zip(shown.places.tolist(), shown.values.tolist(), strict=True)
        return sorted((fresh[place], value) for place, value in pairs)  # by label: the data's order stays inside

    def shown(self, table: Table, source: Source) -> tuple[Group, ...]:
        """Return all groups that are shown: the known ones in their order, then new ones by label."""
        if self.law is None:
            return self.known
        return (*self.known, *(group for group, _ in self.new(self.exact(table, self.persons), source)))

    def inside(self, groups: Sequence[Group]) -> list[Group]:
        """Return groups as statistics key them: the label that nobody declared is last."""
        return [(*group[: self.place], *group[self.place + 1 :], group[self.place]) for group in groups]

    def _outside(self, key: Group) -> Group:
        """Put the label, which is last inside, where `by` has it."""
        return (*key[: self.place], key[-1], *key[self.place : -1])


def selection_of(
    query: Grouped, schema: Schema, groups: Groups, *, known: Any, law: Law | None = None
) -> LabelSelection:
    """Return the known groups of a query and how persons are counted for the threshold. Reads no row.

    Args:
        query: Its groups, condition and limits.
        schema: The public declarations.
        groups: The checked groups, as they are measured in.
        known: Labels that are public, or a table that published them.
        law: Of the threshold.
    """
    assert groups.label is not None
    assert isinstance(query.by, tuple)
    place = next(at for at, each in enumerate(query.by) if _name_of(each) == groups.label.name)
    axes = [*groups.keys[:place], known_labels(known, groups.label), *groups.keys[place:]]
    if prod(map(len, axes)) > MOST_GROUPS:
        raise RangeError(f"the known labels make more than {MOST_GROUPS} groups; use fewer columns or labels")
    where = query.where
    assert where is None or isinstance(where, Expression)
    persons = groups_of(schema, by=query.by, where=where, max_groups=query.max_groups, max_rows_per_group=1)
    return LabelSelection(persons=persons, law=law, known=tuple(product(*axes)), place=place)


def refuse_price(query: Grouped, label: Label) -> None:
    """Refuse a price that finds no labels, where none is known."""
    more = "" if query.epsilon is not None else ", not rho or mu: which labels show is not Gaussian noise"
    raise SchemaError(
        f"nobody declared the labels of {label.name!r}, and finding them needs epsilon with delta"
        f"{more}; or name labels that are public with known=[...]"
    )


def threshold_law(query: Grouped, most: int, *, share: Any = 1, law: Literal["laplace", "gaussian"]) -> Law:
    """Return the threshold that a share of the price buys: of epsilon with all of delta, or of μ².

    Args:
        query: The price, epsilon with delta.
        most: In how many groups a unit is at most.
        share: What finding labels gets; the rest is for what is measured in them.
        law: Of the noise.
    """
    assert query.epsilon is not None
    assert query.delta is not None
    if law == "gaussian":
        return gaussian_threshold(epsilon=query.epsilon, delta=query.delta, groups=most, share=share)
    whole = positive(query.epsilon, name="epsilon")
    return truncated_laplace(epsilon=whole * share, delta=query.delta, groups=most)


def law_claims(query: Grouped, law: Law, **context: Any) -> Claims:
    """Return what the threshold and all that the rest of the price pays prove together: one (ε, δ).

    Truncated Laplace noise: with probability δ a label is revealed; otherwise the losses of all parts add up to ε. A
    Gaussian threshold: Theorem 11, with what is GDP(`after_mu`) given the shown labels.
    """
    if isinstance(law, GaussianThreshold):
        return law.claims(**context)
    claim = ApproxDP(positive(query.epsilon, name="epsilon"), law.groups * law.reveal, **context)  # type: ignore[arg-type]
    return native_claims(claim, mechanism="truncated_laplace")


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelPrice:
    """What a statistic by labels that nobody declared costs: its groups, what is left to measure, and all claims.

    `claims` is None where no label is looked for: then the measurement's own claims are all.
    """

    selection: LabelSelection
    measure: Budget
    claims: Claims | None


def label_price(query: Grouped, schema: Schema, groups: Groups, *, known: Any, whole: Budget) -> LabelPrice:
    """Share the price of a statistic between finding labels and measuring in the shown groups; public numbers only.

    A third finds labels (with all of delta) and two thirds measure. Without delta only known labels are shown, for the
    whole price.

    Args:
        query: The price, the groups and the kind of noise.
        schema: The public declarations.
        groups: The checked groups, as they are measured in.
        known: Labels that are public, or a table that published them.
        whole: The price as the budget of a statistic of declared groups.
    """
    assert groups.label is not None
    selection = selection_of(query, schema, groups, known=known)
    if query.epsilon is None or query.delta is None:
        if not selection.known:
            refuse_price(query, groups.label)
        return LabelPrice(selection=selection, measure=whole, claims=None)
    most = selection.persons.norms.l0
    gaussian = query.noise == "gaussian" or (query.noise == "auto" and most >= FIRST_GAUSSIAN)
    law = threshold_law(query, most, share=SELECTION_SHARE, law="gaussian" if gaussian else "laplace")
    if isinstance(law, GaussianThreshold):
        measure = Budget("mu", law.after_mu**2)
    else:
        measure = Budget("epsilon", positive(query.epsilon, name="epsilon") * (1 - SELECTION_SHARE))
    context: Context = {"neighbours": groups.norms.neighbours, "unit": groups.unit}
    found = LabelSelection(persons=selection.persons, law=law, known=selection.known, place=selection.place)
    return LabelPrice(selection=found, measure=measure, claims=law_claims(query, law, **context))


def known_labels(known: Any, label: Label) -> tuple[str, ...]:
    """Return the labels that are known, each once and as the column's rules spell it.

    A column of rows, an array or a series, is refused unless it is `sl.PublicData`: out of the private table it would
    publish every label. A list that names labels twice, as a list of rows does, is warned of.

    >>> known_labels(["Acme ", "acme", "Zeta"], Label("employer", casefold=True))
    ('acme', 'zeta')
    """
    if known is None:
        return ()
    refuse_private(known)
    table = known.value if isinstance(known, Release) else known
    if isinstance(table, PublicData):
        table = list(dict.fromkeys(table.column().tolist()))
    if isinstance(table, GroupTable):
        if label.name not in table.keys_of_groups:
            raise RangeError(f"the table of known labels has no key column {label.name!r}")
        given: Iterable[Any] = [text for text in table[label.name] if text != ALL]
    elif hasattr(table, "dtype") or hasattr(table, "__array__") or hasattr(table, "to_pylist"):
        raise RangeError(
            "known is a column of rows here, and a column of the table itself would publish every label without a "
            "price; if it is public, write known=sl.PublicData(column, 'register of firms'), or a list of labels"
        )
    elif isinstance(table, Iterable) and not isinstance(table, (str, bytes)):
        given = list(table)
        texts = [text for text in given if isinstance(text, str)]
        if len(set(texts)) < len(texts):
            warnings.warn(
                "known names some labels more than once, as rows of a table do; labels out of the private table would "
                "be published without a price. Known labels come from a public register or an earlier release",
                SidelightWarning,
                stacklevel=2,
            )
    else:
        raise RangeError(f"known takes a list of labels or an earlier release by them, got {type(known).__name__}")
    found: dict[str, None] = {}
    for text in given:
        name = label.normalised(text) if isinstance(text, str) else None
        if name is None:
            raise RangeError(f"a known label must be a text that is not empty, got {text!r}")
        found[name] = None
    return tuple(found)


def known_described(known: Any, described: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what a release says of its prediction, and that known labels came from seeded noise where they did."""
    if isinstance(known, Release) and not known.private:  # which labels it shows protects nobody: for tests alone
        return {"description": "labels of a release with seeded noise", **(described or {}), "entropy": SEEDED_BRANDING}
    return described


def known_digest(selection: LabelSelection) -> str | None:
    """Return what the ledger says of known labels."""
    labels = list(dict.fromkeys(group[selection.place] for group in selection.known))
    return hashlib.sha256(json.dumps(labels).encode("utf-8")).hexdigest() if labels else None


def _name_of(each: str | Expression) -> str | None:
    return each if isinstance(each, str) else each.name if isinstance(each, Named) else None
