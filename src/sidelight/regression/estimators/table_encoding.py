"""Columns of a table as rows of a model, by what their schema declares: nothing is learned from the data.

A number goes from its public range to [-1, 1], a category to one column per label. All are divided by the square root
of the number of columns of the table, so that no row is longer than 1: `data_norm` is known without looking. The rows
are read in passes, so that a file may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from sidelight.aggregates.coding import Coding, CombinedCoding
from sidelight.aggregates.collect import coded_rows, rows_that_count
from sidelight.errors import SchemaError, nearest
from sidelight.guarantees.amounts import whole
from sidelight.predictions import PublicData
from sidelight.records import Category, Number, PersonId, PersonVia, Schema, Table
from sidelight.records.rows import Wanted
from sidelight.records.source_protocols import DistributedRows
from sidelight.regression.descent.distributed_rows import DistributedExamples
from sidelight.regression.estimators.examples import listed_cells, width_of_row
from sidelight.regression.losses import Floats
from sidelight.regression.model_predictions import refuse_private_rows
from sidelight.regression.rows import RowPolicy, StreamedRows, dense_rows, is_sparse
from sidelight.regression.table_rows import ExampleDecoder, RowEncoder, TableUnits, coding_of, range_of

_MOST_HATS = 1000


class TableEncoding(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Encode a table as a model that was fitted to it does, as a scikit-learn transformer: public declarations only.

    Guarantee: each row becomes a row by itself, of length at most 1; `fit` reads no row.

    Args:
        columns: The declarations, `Number` with both bounds and `Category`, in the order of the features.
        hats: Hat functions for each number, at even distances over its range, so that a linear model learns a curve:
            broken lines between these nodes. 16 bends enough for most columns; None (a straight line) needs less data.

    >>> from sidelight.records import Category, Number, Table
    >>> age, sex = Number("age", lower=0, upper=100), Category("sex", ["F", "M"], other=None)
    >>> encoding = TableEncoding((age, sex))
    >>> encoding.names
    ('age', 'sex=F', 'sex=M')
    >>> encoding.transform({"age": [50, 100], "sex": ["F", "M"]}).round(2).tolist()
    [[0.0, 0.71, 0.0], [0.71, 0.0, 0.71]]

    Three hats on a number, at 0, 50 and 100: a value is shared by the two adjacent nodes.

    >>> bent = TableEncoding((age,), hats=3)
    >>> bent.names, bent.transform({"age": [50, 75]}).round(2).tolist()
    (('age@0', 'age@50', 'age@100'), [[0.0, 1.0, 0.0], [0.0, 0.5, 0.5]])
    """

    def __init__(self, columns: Sequence[Number | Category], *, hats: int | None = None) -> None:
        self.columns = columns
        self.hats = hats

    def set_params(self, **parameters: Any) -> Self:
        """Return this encoding with other parameters."""
        self.__dict__.pop("encoder", None)
        super().set_params(**parameters)
        return self

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  # as scikit-learn names it
        """Check that X has the declared columns, by name and type. No row is read, and nothing is learned."""
        del y
        self.table(X)
        self.n_features_in_ = len(self.columns)
        self.feature_names_in_ = np.array([column.name for column in self.columns], dtype=object)
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Return one row of features for each row of a table, a frame, a mapping of columns or an array, in its order.

        A missing number counts as the middle of its range, a label that is not listed as none.
        """
        return self.matrix(self.table(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names for the columns of the result: never those of the table, so that it is not encoded twice."""
        del input_features
        numbers = {column.name for column in self.columns if isinstance(column, Number)}
        return np.array([f"{name} (scaled)" if name in numbers else name for name in self.names], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def table(self, rows: Any) -> Table:
        """Return rows as a table of the declared columns: by name, or those of an array in their order."""
        if self.hats is not None:
            whole(self.hats, name="hats", least=2, most=_MOST_HATS, advice="16 is usual")
        check_feature_columns(self.columns, taker="TableEncoding")
        for column in self.columns:
            if isinstance(column, Number):
                range_of(column)
        if isinstance(rows, Table):
            return rows
        return Table(rows if has_names(rows) else self.by_name(rows), schema=list(self.columns))

    def by_name(self, rows: Any) -> dict[str, Any]:
        """Return the columns of an array, which stand in the order of the declared ones; no cell is looked at."""
        width = width_of(rows)
        if width != len(self.columns):
            names = ", ".join(column.name for column in self.columns)
            raise SchemaError(
                f"rows must have the columns {names}; an array of "
                f"{'no columns' if width is None else f'{width} column(s)'} has other ones"
            )
        if is_sparse(rows):
            raise SchemaError("an encoding takes no sparse matrix; write X.toarray()")
        cells = rows if hasattr(rows, "shape") else listed_cells(rows, len(self.columns))
        return {column.name: cells[:, place] for place, column in enumerate(self.columns)}

    @cached_property
    def encoder(self) -> RowEncoder:
        """The arithmetic of it."""
        return RowEncoder(tuple(self.columns), self.hats)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every feature: a number's column or column@node, a category's column=label."""
        return self.encoder.names

    @property
    def units(self) -> TableUnits:
        """What the features are in the columns' own units."""
        return self.encoder.units

    def matrix(self, table: Table) -> Any:
        """Return one row of features for each row of a table, in its order, for prediction.

        A missing number counts as the middle of its range, a label that is not listed as none.
        """
        coding = CombinedCoding(self.encoder.codings)
        wanted = Wanted(numbers=coding.numbers, texts=coding.texts)
        blocks: list[Any] = []
        for batch in table.rows.batches(wanted):
            codes = tuple(_prediction_codes(column, batch) for column in self.columns)
            blocks += self.encoder.rows(codes)
        if not blocks:
            return np.empty((0, len(self.names)))
        if isinstance(blocks[0], np.ndarray):
            return np.concatenate(blocks)
        from scipy.sparse import vstack

        return vstack(blocks, format="csr")


def check_feature_columns(columns: Iterable[Any], *, taker: str) -> None:
    """Refuse declarations in `columns=` that are no features: a person among them would cap rows that nothing prices.

    `taker` is the name of the estimator, for its messages.
    """
    for column in columns:
        if isinstance(column, Number | Category):
            continue
        advice = (
            "rows of arrays are protected one by one, and noise for a row does not hide a person; to protect persons, "
            "declare them in the table of a session and write fit_table(table, target=...)"
            if isinstance(column, PersonId | PersonVia)
            else "leave the declaration out, or declare a column of a public list of labels as a Category"
        )
        raise SchemaError(
            f"the columns of {taker} are features, declared as Number, Date or Category, got "
            f"{type(column).__name__}; {advice}. Nothing was charged"
        )


def has_names(rows: Any) -> bool:
    """Return whether rows come with names of their columns: a frame or a mapping."""
    kind = type(rows)  # asked of the class: a lazy frame would have to find out
    return isinstance(rows, Mapping) or hasattr(kind, "columns") or hasattr(kind, "column_names")


def width_of(rows: Any) -> int | None:
    """Return the number of columns of an array or of a list of rows; None where it is neither."""
    if hasattr(rows, "shape"):  # a memoryview has one, and no columns that could be taken
        return int(rows.shape[1]) if len(rows.shape) == 2 and hasattr(rows, "dtype") else None
    if not isinstance(rows, list | tuple) or not rows:
        return None
    widths = {width_of_row(row) for row in rows}
    return widths.pop() if len(widths) == 1 and -1 not in widths else None


def encoding_for(schema: Schema, *, target: str, features: Sequence[str] | None) -> TableEncoding:
    """Choose the features of a table: the named ones, or all but the target and the person."""
    if isinstance(features, str):
        raise SchemaError(f"features must be a list of column names, got one text; write [{features!r}]")
    usable = {each.name: each for each in schema.columns if isinstance(each, Number | Category)}
    names = [name for name in usable if name != target]
    chosen = names if features is None else list(features)
    if not chosen:
        raise SchemaError(f"a model needs at least one feature besides the target {target!r}")
    if target in chosen:
        raise SchemaError(f"the target {target!r} is among the features; leave it out")
    if len(set(chosen)) != len(chosen):
        raise SchemaError("features names one column twice")
    found: list[Number | Category] = []
    for name in chosen:
        if name not in names:
            raise SchemaError(f"the schema has no feature {name!r}; {nearest(str(name), names)}")
        column = usable[name]
        if isinstance(column, Number):
            range_of(column)
        found.append(column)
    encoding = TableEncoding(tuple(found))
    _ = (
        encoding.encoder.codings
    )  # public work, done before anything is charged: a range that cannot be coded is refused
    return encoding


def _prediction_codes(column: Number | Category, batch: Any) -> NDArray[np.int64]:
    (code,), kept = coding_of(column).kernel(batch)
    return code if kept is None or isinstance(column, Category) else np.where(kept, code, 0)


@dataclass(frozen=True, repr=False)
class TableExamples:
    """Features and target of a table's rows, at most `max_rows` of a person, not yet looked at.

    `labels` holds what each code of a category stands for, None where its rows take no part; it is None for a number.
    """

    encoding: TableEncoding
    target: Number | Category
    labels: tuple[Any, ...] | None = None
    sparse: ClassVar[bool] = False  # not for the choice of a solver: rows of a table are dense where that is worth it

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
    def request(self) -> dict[str, Any]:
        """What a ledger holds of them: a fit of other columns is another question."""
        described: dict[str, Any] = {"column": self.target.name}
        described["inputs"] = [column.name for column in self.encoding.columns]
        described["columns"] = Schema(self.encoding.columns).to_json()["columns"]
        if self.labels is not None:
            described["labels"] = [None if each is None else str(each) for each in self.labels]
        return described if self.encoding.hats is None else described | {"hats": str(self.encoding.hats)}

    def bounded(self, table: Table, policy: RowPolicy) -> StreamedRows:
        """Return the bounded records, read again in every pass unless they fit into memory."""
        return StreamedRows(lambda: self.batches(table), policy=policy)

    def for_sums(self, table: Table, policy: RowPolicy) -> StreamedRows | DistributedExamples:
        """Return the bounded records for sums alone; of distributed rows what their workers are to do."""
        if not isinstance(table.rows, DistributedRows):
            return self.bounded(table, policy)
        return DistributedExamples(table.rows, rows_that_count(table, self.coding), self.decoder, policy)

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
            return dense_rows(rows), None
        table = Table(given.rows, schema=[*self.encoding.columns, self.target])
        parts = list(self.batches(table))
        if not parts:
            return np.empty((0, self.features)), np.empty(0)
        return np.concatenate([dense_rows(rows) for rows, _ in parts]), np.concatenate(
            [targets for _, targets in parts]
        )

    def __repr__(self) -> str:
        return f"TableExamples({self.features} features)"


class _ReadsBatches(Protocol):
    def batches(self, table: Table) -> Iterator[tuple[Any, NDArray[Any]]]: ...


def refuse_rows_of_table(public: Sequence[Any], examples: _ReadsBatches, table: Table) -> None:
    """Refuse public rows that are rows of a table in memory. For the owner's eyes.

    A file is not read for it: no row of one is read before the charge.

    Raises:
        RangeError: they are. Nothing was charged; the message has no count and no cell.
    """
    if not table.in_memory:
        return
    parts = [dense_rows(rows) for rows, _ in examples.batches(table)]
    if parts:
        refuse_private_rows(public, np.concatenate(parts))


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
