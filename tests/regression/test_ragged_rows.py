"""The number of features is public and no row's to choose: a ragged list is refused before any charge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sidelight as sl
from sidelight.errors import SchemaError, SidelightError
from sidelight.regression.estimators.examples import examples, targets_of
from sidelight.regression.estimators.table_encoding import TableEncoding


def model(**given: Any) -> Any:
    return sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1], **given)


@pytest.mark.parametrize("odd", [[1.0], [1.0, 2.0, 3.0], [], "ab", None, 5, {"a": 1, "b": 2}])
@pytest.mark.parametrize("place", [0, 3, 6])
def test_one_row_of_another_length_does_not_choose_the_width(odd: Any, place: int) -> None:
    rows: list[Any] = [[0.1, 0.2]] * 6
    rows.insert(place, odd)
    table = sl.Table({"a": [1.0]}, schema=[sl.Number("a")])
    session = sl.Session(table, budget=sl.ApproxDP(3, "1e-5"))
    with pytest.raises(SchemaError, match="rows differ in length"):
        model(session=session).fit(rows, [0, 1, 0, 1, 0, 1, 0])
    assert session.remaining.epsilon == 3


def test_lists_of_rows_of_one_length_are_a_matrix() -> None:
    assert model().fit([[0.5, 0.1], (-0.5, "n/a"), np.array([0.1, 0.2])] * 50, [0, 1, 1] * 50).n_features_in_ == 2


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": [1.0, 2.0, None], "b": [2**60 + 1, 3, 4]}),
        pd.DataFrame({"a": pd.array([1, 2, None], dtype="Int64"), "b": [2**60 + 1, 3, 4]}),
        pd.DataFrame([[1.0, 2**60 + 1], [2.0, 3], [None, 4]], columns=["a", "b"]),
        pl.DataFrame({"a": [1, 2, None], "b": [2**60 + 1, 3, 4]}),
        pa.table({"a": [1, 2, None], "b": [2**60 + 1, 3, 4]}),
    ],
)
def test_frames_are_read_by_their_native_types(frame: Any) -> None:
    found, labels = examples(frame, pl.Series([0, None, 1]), target_kinds="fiubO").read()
    assert np.array_equal(found, [[1, 2.0**60], [2, 3], [np.nan, 4]], equal_nan=True)
    assert labels.tolist() == [0, None, 1]


def test_a_null_among_labels_makes_no_floats_of_the_others() -> None:
    for targets in (
        pl.Series([2**60 + 1, None]),
        pa.array([2**60 + 1, None]),
        pd.array([2**60 + 1, None], dtype="Int64"),
    ):
        _, labels = examples(np.zeros((2, 1)), targets, target_kinds="fiubO").read()
        assert labels[0] == 2**60 + 1


@pytest.mark.parametrize("odd", [0.5, [0.5], (0.5,), [0.5, 0.5], [], None, "n/a", np.array([0.5]), np.ones((2, 2))])
def test_one_target_of_another_shape_changes_no_other(odd: Any) -> None:
    targets: list[Any] = [[0.25], [1.0], [0.75]]
    read = targets_of([*targets, odd])
    assert read.shape == (4,)
    assert read.tolist()[:3] == [0.25, 1.0, 0.75]
    counted = []
    for more in ([], [odd]):
        model = sl.AdditiveRegressor(
            epsilon=1, delta="1e-6", columns=[sl.Number("a", lower=0, upper=1)], target_range=(0, 1), random_state=3
        )
        model.fit([[0.1]] * (300 + len(more)), targets * 100 + more)
        counted.append(float(model.release_.value["rows"]))
    assert abs(counted[1] - counted[0]) < 1.5


def test_cells_that_are_rows_change_no_other_row() -> None:
    encoding = TableEncoding([sl.Number("a", lower=0, upper=1), sl.Number("b", lower=0, upper=1)])
    nested: list[Any] = [[[0.1], [0.2]]] * 3
    for rows in (nested, [*nested, [0.3, 0.4]]):
        found = encoding.by_name(rows)["a"]
        assert found.shape == (len(rows),)
        assert found.tolist()[:3] == [[0.1]] * 3


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("ms", "UTC")])
def test_dates_of_arrow_are_refused_as_targets_whatever_they_are(kind: pa.DataType) -> None:
    for last in (1, 2**30):
        units = pa.array([0] * 59 + [last * (1 if kind == pa.date32() else 2**30)], pa.int64())
        days = units.cast(pa.int32()).cast(kind) if kind == pa.date32() else units.cast(kind)
        with pytest.raises(SidelightError, match=r"Nothing was charged|date|time"):
            model().fit(np.zeros((60, 1)), days)
        target = {"columns": [sl.Number("a", lower=0, upper=1)], "target_range": (0, 1)}
        with pytest.raises(SidelightError, match=r"Nothing was charged|date|time"):
            sl.AdditiveRegressor(epsilon=1, delta="1e-6", **target).fit([[0.1]] * 60, days)
