"""`CountDistinct`: how many different persons, or different labels of a column, there are in each group."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar

import numpy as np

from sidelight.aggregates.counts import MAX_CELLS
from sidelight.aggregates.group_sums import distinct_counts, group_counts
from sidelight.aggregates.groups import Groups, declared_max_groups, groups_of
from sidelight.errors import RangeError, SchemaError
from sidelight.mechanisms.additive import in_int64
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.records.expressions import Expression
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count import bounded_words, no_rows, read_as
from sidelight.summaries.count_tables import Reading, check_noise, count_error, group_labels, noise_bound, table_of
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.intervals import around
from sidelight.summaries.noise_choice import Noise, choose_noise
from sidelight.summaries.predicted import Group, read_prediction

#: What a prediction's table may call these numbers, the best first.
_NAMES = ("unbiased", "distinct", "count")


@dataclass(frozen=True, kw_only=True)
class CountDistinct(Grouped):
    """Release how many different persons, or different labels, there are in each group.

    Labels may be of a column that nobody declared (`sl.Label`): their number is released, not the labels.

    Guarantee: the price, for adding or removing a row, or a person where the schema declares a `PersonId`. Equal labels
    of a person in a group are one, and at most `max_rows_per_group` of them count.

    Accuracy: `noise_sd`, which grows with the labels that one person may add.

    Args:
        column: The labels that are told apart: a column, or a derived label.
        persons: True to count persons instead; then there is no column.
        by: Columns or derived labels whose cells are the groups, all declared.
        where: A condition on declared columns that rows must pass: `sl.col("age") >= 18`, or its text.
        epsilon, delta, rho, mu: The price: exactly one of epsilon, epsilon with delta, rho, and mu.
        max_groups: In how many groups a person counts at most; without `by` how many labels of a person count.
        max_rows_per_group: How many labels of a person count in one group at most.
        noise: "laplace" or "gaussian" to insist on one; "auto" takes the smaller.
        confidence: Of the intervals.
        prediction: What the numbers are expected to be: a release, a frame or a mapping by group, or `sl.Predicted`.

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
        noise = check_noise(choose_noise(groups.norms, **self.price, noise=self.noise))
        cells = tuple(product(*groups.keys))
        predicted = read_prediction(self.prediction, keys=self.keys, names=_NAMES)
        if predicted is not None:
            predicted.check(cells)
        reading = Reading(prediction=predicted, confidence=self.confidence)
        told = "persons" if self.persons else str(self.column)
        return PreparedDistinct(
            claims=noise.on(no_rows(groups, noise)).claims,
            request=self.request(self.kind_name, distinct=told, **read_as(reading)),
            labels=group_labels(cells, "distinct"),
            prediction=None if predicted is None else predicted.description,
            error=count_error(
                noise, len(cells), unit="persons" if self.persons else "labels", assumption=bounded_words(groups)
            ),
            groups=groups,
            column=self.column,
            cells=cells,
            keys=self.keys,
            noise=noise,
            reading=reading,
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
class PreparedDistinct(SurePrepared):
    """Counts of distinct persons or labels, ready to run."""

    groups: Groups
    column: str | Expression | None
    cells: tuple[Group, ...]
    keys: tuple[str, ...]
    noise: Noise
    reading: Reading
    most: int | None

    @property
    def adds_up(self) -> bool:
        """Whether rows are only added up."""
        return self.column is None or groups_of(self.groups.schema, by=self.column, max_groups=1).label is None

    def run(self, table: Table, source: Source) -> Answer:
        """Count, add noise, and make the numbers readable; they do not add up over groups, so each stands alone."""
        norm = self.noise.norm
        if self.column is None:
            exact = group_counts(table, self.groups, norm=norm)
        else:
            exact = distinct_counts(table, self.groups, self.column, norm=norm)
        noisy = in_int64(self.noise.on(exact).release(source)).reshape(-1)
        drawn = self.reading.drawn(noisy, self.cells, variance=self.noise.variance)
        ends = around(noisy, noise_bound(self.noise, self.reading.confidence))

        def within(values: Any) -> Any:
            return np.clip(np.floor(np.asarray(values) + 0.5), 0, self.most).astype(np.int64)

        columns = {
            "distinct": within(drawn),
            "unbiased": noisy,
            "noise_sd": np.full(len(self.cells), self.noise.sd),
            "low": within(ends.low),
            "high": within(ends.high),
        }
        return Answer(value=table_of(self.keys, self.cells, columns, **self.groups.notes))
