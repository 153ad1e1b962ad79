"""The rows of a table as examples of a model: read in passes, so that a file may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import Coding, CombinedCoding
from sidelight.aggregates.collect import coded_rows, rows_that_count
from sidelight.errors import SchemaError, nearest
from sidelight.predictions import PublicData
from sidelight.records import Category, Number, Schema, Table
from sidelight.records.rows import DistributedRows
from sidelight.regression.descent.away_rows import AwayExamples
from sidelight.regression.estimators.table_encoding import TableEncoding
from sidelight.regression.losses import Floats
from sidelight.regression.model_predictions import Predictions, refuse_private_rows
from sidelight.regression.rows import RowPolicy, StreamedRows
from sidelight.regression.table_rows import ExampleDecoder, coding_of


@dataclass(frozen=True, repr=False)
class TableExamples:
    """Features and target of a table's rows, at most `max_rows` of a person, not yet looked at.

    `labels` holds what each code of a category stands for, None where its rows take no part; it is None for a number.
    """

    encoding: TableEncoding
    target: Number | Category
    labels: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        _ = self.coding  # public work, done before anything is charged

    @cached_property
    def coding(self) -> Coding:
        """How a row becomes integers: its features, then its target."""
        return CombinedCoding((*self.encoding.encoder.codings, coding_of(self.target)))

    @property
    def features(self) -> int:
        """The number of features of the model; public."""
        return len(self.encoding.names)

    @property
    def sparse(self) -> bool:
        """Not for the choice of a solver: rows of a table are dense where that is worth it."""
        return False

    def bounded(self, table: Table, policy: RowPolicy) -> StreamedRows:
        """Return the bounded records, read again in every pass unless they fit into memory."""
        return StreamedRows(lambda: self.batches(table), policy=policy)

    def where_they_are(self, table: Table, policy: RowPolicy) -> StreamedRows | AwayExamples:
        """Return the bounded records for sums alone: of a place that hands none over, what its workers are to do."""
        if not isinstance(table.rows, DistributedRows):
            return self.bounded(table, policy)
        return AwayExamples(table.rows, rows_that_count(table, self.coding), self.decoder, policy)

    def batches(self, table: Table) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Return rows of features and their targets. Never raises for a value."""
        return self.decoder(coded_rows(table, self.coding))

    @property
    def decoder(self) -> ExampleDecoder:
        """What makes features and targets of coded rows."""
        return ExampleDecoder(self.encoding.encoder, self.target, self.labels)

    def public_examples(self, given: PublicData) -> tuple[Floats, NDArray[Any] | None]:
        """Read public rows as the private ones are read: features, and targets where they have the target's column.

        Raises:
            SchemaError: columns have no names, or one of the features is missing.
        """
        names = given.names
        wanted = [column.name for column in self.encoding.columns]
        if names is None:
            raise SchemaError(
                f"public rows for a model of a table need the names of its columns, {', '.join(wanted)} and "
                f"{self.target.name}; give sl.PublicData(frame or mapping or file, ...)"
            )
        missing = [name for name in wanted if name not in names]
        if missing:
            raise SchemaError(f"the public rows have no column {missing[0]!r}; {nearest(missing[0], map(str, names))}")
        if self.target.name not in names:
            rows = self.encoding.matrix(Table(given.rows, schema=list(self.encoding.columns)))
            return _dense(rows), None
        table = Table(given.rows, schema=[*self.encoding.columns, self.target])
        parts = list(self.batches(table))
        if not parts:
            return np.empty((0, self.features)), np.empty(0)
        return np.concatenate([_dense(rows) for rows, _ in parts]), np.concatenate([targets for _, targets in parts])

    def __repr__(self) -> str:
        return f"TableExamples({self.features} features)"


def refuse_rows_of_table(predictions: Predictions, examples: Any, table: Table) -> None:
    """Refuse public rows that are rows of a table in memory. For the owner's eyes.

    A file is not read for it: no row of one is read before the charge.

    Raises:
        RangeError: they are. Nothing was charged, and no count and no cell is told.
    """
    if not predictions.public or not isinstance(examples, TableExamples) or not table.in_memory:
        return
    parts = [_dense(rows) for rows, _ in examples.batches(table)]
    if parts:
        refuse_private_rows(predictions, np.concatenate(parts))


def _dense(rows: Any) -> Floats:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)


def target_column(schema: Schema, target: Any) -> Number | Category:
    """Find the declaration of the target."""
    if not isinstance(target, str):
        raise SchemaError(f"target must name a column of the table, got {type(target).__name__}")
    for column in schema.columns:
        if column.name == target and isinstance(column, Number | Category):
            return column
    return schema.number(target)  # raises, and says what to declare


def labels_of(category: Category, classes: NDArray[Any]) -> tuple[Any, ...]:
    """Return the class of each label of a category; classes that are no labels of it are a mistake of the user."""
    by_text = {_text(label): label for label in classes.tolist()}
    unknown = [label for label in by_text if label not in category.labels]
    if unknown:
        raise SchemaError(
            f"classes has {unknown[0]!r}, which column {category.name!r} does not declare; "
            f"its labels are {', '.join(category.labels)}"
        )
    return tuple(by_text.get(label) for label in category.labels)


def _text(label: Any) -> str:
    """Write a class as schemas write labels."""
    if isinstance(label, bool):
        return "true" if label else "false"
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
