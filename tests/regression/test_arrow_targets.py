"""Targets in columns of Arrow, and sparse rows: refused by their declared type before any charge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

import sidelight as sl
from sidelight.errors import SchemaError
from sidelight.regression.estimators.examples import examples

ROWS = np.random.default_rng(7).normal(scale=0.3, size=(60, 2))


def session() -> sl.Session:
    return sl.Session(sl.Table({"a": [1.0]}, schema=[sl.Number("a")]), budget=sl.ApproxDP(3, "1e-5"))


def model(paid: sl.Session, classes: Any = (0, 1)) -> Any:
    return sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=list(classes), session=paid)


def counted(last: int, kind: pa.DataType, first: int = 18000) -> pa.Array:
    return pa.array([first] * 59 + [last], pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


HOSTILE = {
    "date32": counted(2**30, pa.date32()),
    "timestamp": counted(2**60, pa.timestamp("s")),
    "duration": counted(2**62, pa.duration("s")),
    "time64": counted(2**62, pa.time64("us")),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0] * 59 + [59], pa.int32()), counted(2**30, pa.date32())),
    "list": pa.array([[1]] * 60),
    "text": pa.array(["0", "1"] * 30),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("form", ["array", "chunks", "table", "batch", "pandas"])
def test_targets_without_numbers_are_refused_by_type_before_the_charge(kind: str, form: str) -> None:
    column = HOSTILE[kind]
    given = {
        "array": lambda: column,
        "chunks": lambda: pa.chunked_array([column[:20], column[20:]]),
        "table": lambda: pa.table({"y": column}),
        "batch": lambda: pa.RecordBatch.from_pydict({"y": column}),
        "pandas": lambda: pd.Series(pd.arrays.ArrowExtensionArray(column)),
    }[form]()
    paid = session()
    with pytest.raises(SchemaError, match="y must hold numbers"):
        model(paid).fit(ROWS, given)
    assert paid.remaining.epsilon == 3


def test_neither_error_nor_charge_depends_on_a_cell() -> None:
    for last in (18000, 2**30):
        with pytest.raises(SchemaError, match=r"type date32\[day\]"):
            examples(ROWS, counted(last, pa.date32()), target_kinds="Ofiub")


@pytest.mark.parametrize("kind", [pa.int8(), pa.float32(), pa.bool_(), pa.decimal128(20, 0), "dictionary"])
def test_columns_of_numbers_are_read(kind: Any) -> None:
    column = pa.array([0, 1] * 30)
    column = column.dictionary_encode() if kind == "dictionary" else column.cast(kind)
    assert [int(label) for label in examples(ROWS, column, target_kinds="Ofiub").read()[1]] == [0, 1] * 30


def test_a_text_that_is_not_utf_8_is_a_missing_label() -> None:
    ends = pa.py_buffer(np.arange(61, dtype=np.int32).tobytes())
    texts = pa.Array.from_buffers(pa.string(), 60, [None, ends, pa.py_buffer(b"\xff" + b"a" * 59)])
    assert examples(ROWS, texts, target_kinds="OUT").read()[1].tolist() == [None] + ["a"] * 59


def test_a_zoned_time_beyond_all_years_among_categories_is_a_missing_label() -> None:
    stamps = pd.Series(np.array([5] * 59 + [2**62], "i8").view("M8[s]")).dt.tz_localize("UTC")
    labels = stamps.astype("datetime64[s, Europe/Berlin]").astype("category")
    paid = session()
    assert examples(ROWS, labels, target_kinds="Ofiub").read()[1].tolist() == [None] * 60  # times are no labels
    model(paid).fit(ROWS, labels)
    assert paid.remaining.epsilon < 3


@pytest.mark.parametrize("cell", [1.0, "n/a"])
def test_sparse_rows_of_objects_are_refused_before_the_charge(cell: Any) -> None:
    cells = np.array([1.0] * 59 + [cell], object)
    try:
        rows = sp.csr_array((cells, np.zeros(60, int), np.arange(61)), shape=(60, 2))
    except (TypeError, ValueError):
        pytest.skip("this SciPy makes no sparse matrix of objects")
    paid = session()
    with pytest.raises(SchemaError, match="sparse matrix of type object"):
        model(paid).fit(rows, [0, 1] * 30)
    assert paid.remaining.epsilon == 3


def test_targets_of_additive_models_are_refused_by_type() -> None:
    columns = [sl.Number("a", lower=-1, upper=1), sl.Number("b", lower=-1, upper=1)]
    for last in (18000, 2**30):
        additive = sl.AdditiveRegressor(epsilon=1, columns=columns, target_range=(0, 1))
        with pytest.raises(SchemaError, match="declared as Number but the source holds date32"):
            additive.fit(ROWS, counted(last, pa.date32()))
