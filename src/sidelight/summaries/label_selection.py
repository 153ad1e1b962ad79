"""Select undeclared labels by a threshold on persons, before anything is measured in them.

Which labels occur is private. A new label is released only if the noisy number of its units passes a threshold that a
label of one unit almost never passes (summaries proof page, Theorems 10 and 11); labels that are public knowledge, or
that an earlier release published, need none. Statistics of the released groups are paid for separately.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

from sidelight.aggregates.counts import MOST_GROUPS
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.errors import RangeError, SchemaError, SidelightWarning
from sidelight.group_table import ALL, GroupTable
from sidelight.guarantees import ApproxDP, Claims, native_claims, positive
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

Law = TruncatedLaplace | GaussianThreshold
#: The share of the budget that finds undeclared labels; the rest measures in the released groups.
SELECTION_SHARE = Fraction(1, 3)
#: From this many groups per unit on Gaussian noise has the lower threshold.
FIRST_GAUSSIAN = 3


def least_shown(law: Law | None) -> int:
    """Return the smallest noisy number of units that shows a new label; 0 where only known labels are shown."""
    if law is None:
        return 0
    return law.least if isinstance(law, TruncatedLaplace) else law.threshold


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelSelection:
    """The public rule by which groups are released: known ones always, new ones above the threshold of a law."""

    persons: Groups  # with each person once in each group: what the threshold is on
    law: Law | None  # None where only known labels are released
    known: tuple[Group, ...]
    place: int  # of the undeclared label in `by`; inside statistics it is last

    def exact(self, table: Table, groups: Groups) -> dict[Group, int]:
        """Return exact counts of the groups that occur, keyed as the table is. Private."""
        statistics = group_statistics(table, groups)
        assert statistics.present is not None
        values = np.asarray(statistics.counts.value).tolist()
        return {self._outside(key): count for key, count in zip(statistics.present, values, strict=True)}

    def new(self, found: dict[Group, int], source: Source, *, known_too: bool = False) -> list[tuple[Group, int]]:
        """Return the new groups that pass, with their noisy numbers of units, sorted by label.

        Args:
            found: The exact number of units in each group that occurs (`exact` of `persons`).
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
        """Return all released groups: the known ones in their order, then new ones by label."""
        if self.law is None:
            return self.known
        return (*self.known, *(group for group, _ in self.new(self.exact(table, self.persons), source)))

    def inside(self, groups: Sequence[Group]) -> list[Group]:
        """Return groups as statistics key them: the undeclared label is last."""
        return [(*group[: self.place], *group[self.place + 1 :], group[self.place]) for group in groups]

    def _outside(self, key: Group) -> Group:
        """Put the label, which is last inside, where `by` has it."""
        return (*key[: self.place], key[-1], *key[self.place : -1])


def selection_of(query: Grouped, schema: Schema, groups: Groups, *, known: Any) -> LabelSelection:
    """Return the known groups of a query and how persons are counted for the threshold. Reads no row."""
    assert groups.label is not None
    place = next(at for at, each in enumerate(query.axes) if _name_of(each) == groups.label.name)
    axes = [*groups.keys[:place], known_labels(known, groups.label), *groups.keys[place:]]
    if prod(map(len, axes)) > MOST_GROUPS:
        raise RangeError(f"the known labels make more than {MOST_GROUPS} groups; use fewer columns or labels")
    persons = groups_of(schema, by=query.axes, where=query.condition, max_groups=query.max_groups, max_rows_per_group=1)
    return LabelSelection(persons=persons, law=None, known=tuple(product(*axes)), place=place)


def refuse_price(query: Grouped, label: Label) -> None:
    """Refuse a price that cannot find labels, where none is known."""
    more = "" if query.epsilon is not None else ", not rho or mu: which labels show is not Gaussian noise"
    raise SchemaError(
        f"the labels of {label.name!r} are undeclared, and finding them needs epsilon with delta"
        f"{more}; or name labels that are public with known=[...]"
    )


def threshold_law(query: Grouped, most: int, *, share: Any = 1) -> Law:
    """Return the threshold that a share of the price buys: of epsilon with all of delta, or of μ²."""
    assert query.epsilon is not None
    assert query.delta is not None
    if query.law == "gaussian" or (query.law == "auto" and most >= FIRST_GAUSSIAN):
        return gaussian_threshold(epsilon=query.epsilon, delta=query.delta, groups=most, share=share)
    whole = positive(query.epsilon, name="epsilon")
    return truncated_laplace(epsilon=whole * share, delta=query.delta, groups=most)


def law_claims(query: Grouped, law: Law, **context: Any) -> Claims:
    """Return the claims of the threshold and of all that the rest of the price pays: one (ε, δ).

    Truncated Laplace noise: with probability δ a label is revealed; otherwise the losses of all parts add up to ε. A
    Gaussian threshold: Theorem 11, with measurements that are GDP(`after_mu`) given the released labels.
    """
    if isinstance(law, GaussianThreshold):
        return law.claims(**context)
    claim = ApproxDP(positive(query.epsilon, name="epsilon"), law.groups * law.reveal, **context)  # type: ignore[arg-type]
    return native_claims(claim, mechanism="truncated_laplace")


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelPrice:
    """The cost of a statistic by undeclared labels: its selection, what is left to measure, and all claims."""

    selection: LabelSelection
    measure: Budget
    claims: Claims | None  # None where no label is looked for: the measurement's own claims are all


def label_price(query: Grouped, schema: Schema, groups: Groups, *, known: Any, whole: Budget) -> LabelPrice:
    """Share the price of a statistic between finding labels and measuring in the shown groups; public numbers only.

    A third finds labels (with all of delta) and two thirds measure. Without delta only known labels are released, for
    the whole price, whose budget for declared groups is `whole`.
    """
    assert groups.label is not None
    selection = selection_of(query, schema, groups, known=known)
    if query.epsilon is None or query.delta is None:
        if not selection.known:
            refuse_price(query, groups.label)
        return LabelPrice(selection=selection, measure=whole, claims=None)
    most = selection.persons.norms.l0
    law = threshold_law(query, most, share=SELECTION_SHARE)
    if isinstance(law, GaussianThreshold):
        measure = Budget("mu", law.after_mu**2)
    else:
        measure = Budget("epsilon", positive(query.epsilon, name="epsilon") * (1 - SELECTION_SHARE))
    claims = law_claims(query, law, **groups.context)
    return LabelPrice(selection=replace(selection, law=law), measure=measure, claims=claims)


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
    """Return the description of a prediction; it says so where known labels came from seeded noise."""
    if isinstance(known, Release) and not known.private:  # seeded noise is not private: for tests only
        return {"description": "labels of a release with seeded noise", **(described or {}), "entropy": SEEDED_BRANDING}
    return described


def known_digest(selection: LabelSelection) -> str | None:
    """Return the digest of the known labels for the ledger."""
    labels = list(dict.fromkeys(group[selection.place] for group in selection.known))
    return hashlib.sha256(json.dumps(labels).encode("utf-8")).hexdigest() if labels else None


def _name_of(each: str | Expression) -> str | None:
    return each if isinstance(each, str) else each.name if isinstance(each, Named) else None
