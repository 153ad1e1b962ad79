"""`Count` and `CountDistinct`: how many persons, rows or different labels there are in each group."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any, ClassVar

import numpy as np

from sidelight.aggregates.counts import MAX_CELLS
from sidelight.aggregates.group_sums import distinct_counts, group_counts
from sidelight.aggregates.groups import Groups, declared_max_groups, groups_of
from sidelight.errors import RangeError, SchemaError, explains_removed
from sidelight.mechanisms.additive import in_int64
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.records.expressions import Expression
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count_centred import PreparedCentred, centred_noise, everybody_of, plain_noise
from sidelight.summaries.count_hierarchy import prepare_hierarchy
from sidelight.summaries.count_rollup import prepare_rollup
from sidelight.summaries.count_tables import (
    CountReading,
    PreparedGroupCounts,
    bounded_counts,
    bounded_words,
    count_error,
)
from sidelight.summaries.grouped import Counted, Grouped, NoiseKind, group_labels
from sidelight.summaries.intervals import around
from sidelight.summaries.label_tables import prepare_labels
from sidelight.summaries.noise_choice import IntegerNoise, check_noise, choose_noise, noise_bound
from sidelight.summaries.predicted import read_prediction

#: What a prediction's table may call its counts, the best first.
COUNT_NAMES = ("unbiased", "count")
_DISTINCT_NAMES = ("unbiased", "distinct", "count")


@dataclass(frozen=True, kw_only=True)
class CountingQuery(Grouped):
    """The parameters that counts, histograms and rankings share."""

    of: Counted | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of == "persons" and self.max_rows_per_group is not None:
            raise RangeError("max_rows_per_group is for counts of rows: a person counts once in a group; leave it out")

    def counted(self, schema: Schema) -> Counted:
        """Return what is counted under this schema: persons if it declares them, unless rows were asked for."""
        if self.of == "persons" and schema.person is None:
            raise SchemaError("of='persons' needs a PersonId in the schema; declare one, or count rows")
        if self.of is not None:
            return self.of
        return "persons" if schema.person is not None and self.max_rows_per_group is None else "rows"

    def reading(self) -> CountReading:
        """Return the settings of the table, with the prediction checked as far as it can be."""
        predicted = read_prediction(self.prediction, keys=self.keys, names=COUNT_NAMES)
        return CountReading(prediction=predicted, confidence=self.confidence)

    def _count_by(self, *axes: str | Expression, known: Any = None) -> Count:
        """Return the count with the same parameters by other groups."""
        shared = {each.name: getattr(self, each.name) for each in fields(CountingQuery)}
        return Count(**{**shared, "by": axes, "known": known})


@explains_removed
@dataclass(frozen=True, kw_only=True)
class Count(CountingQuery):
    """Release how many persons, or rows, there are in each group.

    The table has a row for each group. Read `count`: whole, not negative, shrunk towards the prediction.
    Add up `unbiased`: small counts are moved together, most empty ones to 0. `low` and `high` hold the count of the
    bounded table with the confidence, each group separately. Groups by a `sl.Label` that are not `known` have no twin:
    a count that had to pass a threshold is too high on average.

    Guarantee: the price, for adding or removing a row, or a person where the schema declares a `PersonId`. It does not
    depend on the prediction. Noise is discrete Laplace or rounded Gaussian, the smaller of those that the price allows.

    Accuracy: `noise_sd`, in every group; a person's `max_groups` makes it larger, the number of groups does not.

    Args:
        by: Columns or derived labels whose cells are the groups: "job", ["job", "sex"], `sl.col("age").cut([18, 65])`;
            one of them may be an `sl.Hierarchy`, of which every level is released, with all totals, and which says what
            is known of its totals and how exact levels must be.
        where: A condition on declared columns that rows must pass: `sl.col("age") >= 18`, or its text.
        epsilon, delta, rho, mu: The price: exactly one of epsilon, epsilon with delta, rho, and mu.
        max_groups: In how many groups a person counts at most.
        max_rows_per_group: How many rows of a person count in one group at most; only for rows.
        noise: "laplace" or "gaussian" to insist on one; "auto" takes the smaller.
        confidence: Of the intervals.
        prediction: What the counts are expected to be: a release, a frame or a mapping by group, or `sl.Predicted`; or
            a list of several, of which the one that fits best after the noise is used.
        of: "persons" counts everybody once in each group, "rows" counts rows; persons where the schema has them.
        rollup: Whether to add all totals over the columns of `by`, labelled "all", measured by themselves and made to
            agree with the cells.
        known: Of a column of undeclared labels (`sl.Label`): those that are public, or an earlier release
            that published them. They always appear; others need `delta`, and appear above a threshold.

    >>> import sidelight as sl
    >>> people = sl.Table(
    ...     {"job": ["cook", "nurse", "nurse"] * 200}, schema=[sl.Category("job", ["cook", "nurse"], other=None)]
    ... )
    >>> release = sl.Count(by="job", epsilon=1).release(people)
    >>> release.value["job"], release.value.columns
    (['cook', 'nurse'], ('count', 'unbiased', 'noise_sd', 'low', 'high'))
    >>> print(release.guarantee)
    PureDP(ε = 1)
    """

    noise: NoiseKind = "auto"
    rollup: bool = False
    known: Any = field(default=None, compare=False, repr=False)
    kind_name: ClassVar[str] = "count"
    takes_hierarchy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hierarchy is not None and self.rollup:
            raise RangeError("an sl.Hierarchy has all totals already; leave rollup out")

    def prepare(self, schema: Schema) -> SurePrepared:
        """Check groups, limits, price and prediction against a schema; no row is read."""
        counted = self.counted(schema)
        groups = self.groups(schema, per_group=1 if counted == "persons" else None)
        reading = self.reading()
        if self.hierarchy is not None:
            return prepare_hierarchy(self, groups, reading, kind=self.kind_name, counted=counted, schema=schema)
        if self.rollup:
            return prepare_rollup(self, groups, reading, kind=self.kind_name, counted=counted)
        if groups.label is not None:
            return prepare_labels(self, schema, groups, reading, kind=self.kind_name, counted=counted, known=self.known)
        if self.known is not None:
            raise SchemaError("known= is for undeclared labels; by names declared ones, which all are known")
        return prepare_counts(self, groups, reading, kind=self.kind_name, counted=counted)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCounts(PreparedGroupCounts):
    """Counts of declared groups, ready to run."""

    noise: IntegerNoise

    def run(self, table: Table, source: Source) -> Answer:
        """Count, add noise, and make the table."""
        exact = group_counts(table, self.groups, norm=self.noise.norm)
        noisy = in_int64(self.noise.on(exact).release(source)).reshape(-1)
        return self.answer(self.reading.columns(noisy, self.cells, self.noise, source))


def prepare_counts(
    query: Grouped, groups: Groups, reading: CountReading, *, kind: str, counted: str, **more: Any
) -> PreparedCounts | PreparedCentred:
    """Fix noise, claims and error of counts of declared groups: centred where that has less noise."""
    noise = check_noise(choose_noise(groups.norms, query.law, **query.price))
    cells = tuple(product(*groups.keys))
    if reading.prediction is not None:
        reading.prediction.check(cells)
    centred = centred_noise(query, groups, noise)
    if centred is not None:
        more = {"centre": f"{centred.steps}/64", **more}
    of_table = noise if centred is None else plain_noise(centred)
    shared: dict[str, Any] = {
        "request": query.request(kind, of=counted, **more, **reading.request),
        "labels": group_labels(cells, "count"),
        "prediction": reading.described,
        "error": count_error(of_table, len(cells), unit=counted, assumption=bounded_words(groups)),
        "groups": groups,
        "cells": cells,
        "keys": query.keys,
        "reading": reading,
        "counted": counted,
    }
    if centred is not None:
        claims = centred.claims(**groups.context)
        return PreparedCentred(claims=claims, everybody=everybody_of(groups), plan=centred, **shared)
    return PreparedCounts(claims=noise.on(bounded_counts(groups, noise)).claims, noise=noise, **shared)


@explains_removed
@dataclass(frozen=True, kw_only=True)
class CountDistinct(Grouped):
    """Release how many different persons, or different labels, there are in each group.

    Labels may be undeclared (`sl.Label`): their number is released, not the labels.

    Guarantee: the price, for adding or removing a row, or a person where the schema declares a `PersonId`. Equal labels
    of a person in a group are one, and at most `max_rows_per_group` of them count.

    Accuracy: `noise_sd`, which grows with the labels that one person may add.

    Args:
        column: The labels that are counted: a column, or a derived label.
        persons: True to count persons instead; then there is no column.
        by: Columns or derived labels whose cells are the groups, all declared.
        where, epsilon, delta, rho, mu, confidence, prediction: As for `Count`.
        max_groups: In how many groups a person counts at most; without `by` how many labels of a person count.
        max_rows_per_group: How many labels of a person count in one group at most.

    >>> import sidelight as sl
    >>> visits = sl.Table(
    ...     {"id": ["a", "a", "b"] * 100, "drug": ["x", "y", "y"] * 100},
    ...     schema=[sl.PersonId("id", max_rows=5), sl.Label("drug")],
    ... )
    >>> sl.CountDistinct("drug", max_groups=2, epsilon=1).release(visits).value.columns
    ('distinct', 'unbiased', 'noise_sd', 'low', 'high')
    """

    column: str | Expression | None = field(default=None, kw_only=False)
    persons: bool = False
    kind_name: ClassVar[str] = "count_distinct"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.persons, bool) or self.persons == (self.column is not None):
            raise RangeError("count either the labels of a column, sl.CountDistinct('drug', ...), or persons=True")

    def prepare(self, schema: Schema) -> SurePrepared:
        """Check column, groups, limits and price against a schema; no row is read."""
        groups = self.groups(schema, per_group=1 if self.persons else self._labels_of_a_person(schema))
        if groups.label is not None:
            raise SchemaError("distinct labels are counted in groups of declared labels; take the Label out of by")
        most = self._most(schema, groups)
        noise = check_noise(choose_noise(groups.norms, **self.price))
        cells = tuple(product(*groups.keys))
        predicted = read_prediction(self.prediction, keys=self.keys, names=_DISTINCT_NAMES)
        if predicted is not None:
            predicted.check(cells)
        reading = CountReading(prediction=predicted, confidence=self.confidence)
        distinct = "persons" if self.persons else str(self.column)
        return PreparedDistinct(
            claims=noise.on(bounded_counts(groups, noise)).claims,
            request=self.request(self.kind_name, distinct=distinct, **reading.request),
            labels=group_labels(cells, "distinct"),
            prediction=reading.described,
            error=count_error(
                noise, len(cells), unit="persons" if self.persons else "labels", assumption=bounded_words(groups)
            ),
            groups=groups,
            column=self.column,
            cells=cells,
            keys=self.keys,
            noise=noise,
            reading=reading,
            counted=None,
            most=most,
        )

    def _labels_of_a_person(self, schema: Schema) -> int | None:
        if not self.by and self.max_groups is not None:
            return self.max_groups
        assert self.column is not None
        return declared_max_groups(schema, self.column)

    def _most(self, schema: Schema, groups: Groups) -> int | None:
        """Check the column now, and return how many labels it has if they are declared."""
        if self.persons:
            if schema.person is None:
                raise SchemaError("persons=True needs a PersonId in the schema; declare one, or ask sl.Count")
            return None
        assert self.column is not None
        inner = groups_of(schema, by=self.column, max_groups=1)
        if groups.cells * inner.cells > MAX_CELLS:
            raise RangeError(f"{groups.cells} groups of {inner.cells} labels are more than the {MAX_CELLS} that fit")
        return inner.cells if inner.label is None else None


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDistinct(PreparedGroupCounts):
    """Counts of distinct persons or labels, ready to run."""

    column: str | Expression | None
    noise: IntegerNoise
    most: int | None

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return self.column is None or groups_of(self.groups.schema, by=self.column, max_groups=1).label is None

    def run(self, table: Table, source: Source) -> Answer:
        """Count, add noise, and round each group by itself: distinct counts are not additive over groups."""
        norm = self.noise.norm
        if self.column is None:
            exact = group_counts(table, self.groups, norm=norm)
        else:
            exact = distinct_counts(table, self.groups, self.column, norm=norm)
        noisy = in_int64(self.noise.on(exact).release(source)).reshape(-1)
        shrunk = self.reading.shrunk(noisy, self.cells, variance=self.noise.variance)
        ends = around(noisy, noise_bound(self.noise, self.reading.confidence))

        def within(values: Any) -> Any:
            return np.clip(np.floor(np.asarray(values) + 0.5), 0, self.most).astype(np.int64)

        columns = {
            "distinct": within(shrunk),
            "unbiased": noisy,
            "noise_sd": np.full(len(self.cells), self.noise.sd),
            "low": within(ends.low),
            "high": within(ends.high),
        }
        return self.answer(columns)
