"""`sl.PublicScaler`: ranges that are declared or public, and a fit that reads no row."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import sidelight as sl
from sidelight.errors import RangeError, SchemaError

RANGES: dict[str, Any] = {"lower": [18, 0], "upper": [90, 30]}
ROWS = np.array([[18.0, 0.0], [90.0, 30.0], [54.0, 15.0], [1000.0, -7.0]])


def test_ranges_become_rows_of_length_one() -> None:
    scaled = sl.PublicScaler(**RANGES).fit_transform(ROWS)
    np.testing.assert_allclose(scaled * np.sqrt(2), [[-1, -1], [1, 1], [0, 0], [1, -1]])
    for width in range(1, 12):
        corner = sl.PublicScaler(lower=-0.1, upper=0.3).fit_transform(np.full((1, width), 1e9))
        assert sum(Fraction(cell) ** 2 for cell in corner[0].tolist()) <= 1


def test_fit_learns_nothing_from_the_rows() -> None:
    rng = np.random.default_rng(0)
    for scaler in (
        sl.PublicScaler(**RANGES),
        sl.PublicScaler(prediction=sl.PublicData(ROWS[:2], "a leaflet")),
    ):
        wanted = clone(scaler).fit(ROWS).transform(ROWS)
        for other in (
            rng.normal(size=(9, 2)) * 1e6,
            np.full((1, 2), np.nan),
            np.empty((0, 2)),
            np.array([["a", None]]),
        ):
            rows = other if other.dtype.kind == "f" else other.astype(object)
            np.testing.assert_array_equal(clone(scaler).fit(rows).transform(ROWS), wanted)


class Unreadable(np.ndarray):
    """An array that fails when its cells are read."""

    def __getitem__(self, key: Any) -> Any:
        pytest.fail("a cell was read")

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        pytest.fail("a cell was read")

    def __array_function__(self, *_: Any, **__: Any) -> Any:
        pytest.fail("a cell was read")


def test_fit_opens_no_cell() -> None:
    sl.PublicScaler(**RANGES).fit(ROWS.view(Unreadable))


def test_no_cell_raises_and_missing_stays_missing() -> None:
    scaler = sl.PublicScaler(**RANGES).fit(ROWS)
    odd = np.array([[np.nan, 3.0], ["text", 3.0], [None, 3.0], [10**400, 3.0], [np.inf, -np.inf]], dtype=object)
    scaled = scaler.transform(odd)
    assert np.isnan(scaled[:3, 0]).all()
    assert (np.abs(scaled[~np.isnan(scaled)]) <= 1).all()
    for place in range(len(odd)):  # each row by itself
        np.testing.assert_array_equal(scaler.transform(odd[place : place + 1])[0], scaled[place])
    np.testing.assert_array_equal(scaler.transform(ROWS.tolist()), scaler.transform(ROWS))


def test_public_rows_give_the_ranges() -> None:
    public = sl.PublicData([[20, 1, 5], [60, 9, 5], [40, np.nan, 7]], "a survey of 2020")
    scaler = sl.PublicScaler(prediction=public).fit(np.zeros((3, 3)))
    assert scaler.lower_.tolist() == [20, 1, 4]  # the third column is constant where no number is missing
    assert scaler.upper_.tolist() == [60, 9, 6]


def test_frames_are_scaled_by_name() -> None:
    by_name = sl.PublicScaler(lower={"visits": 0, "age": 18}, upper={"age": 90, "visits": 30})
    frame = pd.DataFrame(ROWS, columns=["age", "visits"])
    wanted = sl.PublicScaler(**RANGES).fit_transform(ROWS)
    np.testing.assert_array_equal(by_name.fit(frame).transform(frame), wanted)
    np.testing.assert_array_equal(
        clone(by_name).fit(frame[["visits", "age"]]).transform(frame[["visits", "age"]]), wanted[:, ::-1]
    )
    np.testing.assert_array_equal(clone(by_name).fit_transform(pl.from_pandas(frame)), wanted)
    shown = clone(by_name).set_output(transform="pandas").fit_transform(frame)
    assert list(shown.columns) == ["age", "visits"]
    with pytest.raises(ValueError, match="feature names"):
        by_name.transform(frame[["visits", "age"]])


def test_copies_and_the_way_back() -> None:
    scaler = sl.PublicScaler(**RANGES).fit(ROWS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(scaler)).transform(ROWS), scaler.transform(ROWS))
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(ROWS[:3])), ROWS[:3])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "lower=... and upper"),
        ({"lower": 0}, "lower=... and upper"),
        ({"lower": [0], "upper": [1]}, "1 numbers and X 2 columns"),
        ({"lower": [0, 1], "upper": [1, 1]}, "column 1"),
        ({"lower": [0, np.nan], "upper": [1, 1]}, "column 1"),
        ({"lower": -1e308, "upper": 1e308}, "finite"),
        ({"lower": "a", "upper": 1}, "number"),
        ({"lower": {"age": 0}, "upper": {"age": 1}}, "no names"),
        ({"prediction": ROWS}, "PublicData"),
        ({"prediction": pd.DataFrame(ROWS)}, "PublicData"),
        ({"prediction": sl.Table({"a": ROWS[:, 0]}, schema=[sl.Number("a")])}, "PublicData"),
        ({"prediction": sl.PublicData(ROWS[:, :1], "a leaflet")}, "1 columns"),
        ({"prediction": sl.PublicData(ROWS, "a leaflet"), "lower": 0}, "not both"),
        ({"prediction": sl.PublicData([[-1e308, 0], [1e308, 1]], "a leaflet")}, "too large"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(RangeError, match=text):
        sl.PublicScaler(**given).fit(ROWS)


def test_what_is_no_matrix_is_refused_by_type() -> None:
    for rows in (csr_array(ROWS), ROWS[:, 0], "rows", np.array([["a"]])):
        with pytest.raises(SchemaError):
            sl.PublicScaler(**RANGES).fit(rows)
    with pytest.raises(RangeError, match="visits"):
        sl.PublicScaler(lower={"age": 1}, upper={"age": 2}).fit(pd.DataFrame(ROWS, columns=["age", "visits"]))


def test_scikit_learns_own_checks() -> None:
    rows = "wants an error for rows that cannot be used; no row raises here"
    expected = {
        "check_dtype_object": rows,
        "check_estimators_empty_data_messages": rows,
        "check_transformer_data_not_an_array": "hands over what only becomes an array; its shape must be known",
    }
    results = check_estimator(sl.PublicScaler(lower=-10, upper=10), expected_failed_checks=expected)
    failed = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert failed == set(expected)


def test_public_rows_that_are_the_private_ones_are_refused() -> None:
    rng = np.random.default_rng(8)
    private, other = rng.normal(size=(200, 3)), rng.normal(size=(50, 3))
    for part in (private, private[:60], private[::-1].copy()):
        with pytest.raises(RangeError, match="leak"):
            sl.PublicScaler(prediction=sl.PublicData(part, "mistaken")).fit(private)
    scaler = sl.PublicScaler(prediction=sl.PublicData(other, "a published sample")).fit(private)
    np.testing.assert_array_equal(scaler.upper_, other.max(axis=0))
    assert np.abs(scaler.transform(other)).max() <= 1
    # neither a missing cell nor an odd one decides anything
    for rows in (np.full((5, 3), np.nan), np.array([[None, "x", 1.0]] * 5, dtype=object)):
        sl.PublicScaler(prediction=sl.PublicData(other, "a published sample")).fit(rows)
