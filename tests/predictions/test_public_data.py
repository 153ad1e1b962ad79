"""`PublicData`: what it takes, what it refuses, and that named columns are read by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError, SourceError
from sidelight.predictions import public

ROWS = np.array([[1.0, 10.0], [2.0, np.nan], [3.0, 30.0]])
COMPLETE = [[1.0, 10.0], [3.0, 30.0]]
FRAME = pd.DataFrame(ROWS, columns=["a", "b"])


@pytest.fixture(params=["array", "list", "pandas", "numbered", "polars", "lazy", "arrow", "mapping", "csv", "parquet"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    FRAME.to_parquet(tmp_path / "rows.parquet")
    return {
        "array": lambda: ROWS,
        "list": lambda: [[1, 10], [2, None], [3, 30]],
        "pandas": lambda: FRAME,
        "numbered": lambda: pd.DataFrame(ROWS),
        "polars": lambda: pl.from_pandas(FRAME),
        "lazy": lambda: pl.from_pandas(FRAME).lazy(),
        "arrow": lambda: pl.from_pandas(FRAME).to_arrow(),
        "mapping": lambda: {"a": [1, 2, 3], "b": [10, None, 30]},
        "csv": lambda: str(tmp_path / "rows.csv"),
        "parquet": lambda: tmp_path / "rows.parquet",
    }[request.param]()


def test_rows_that_miss_a_number_are_left_out(rows: Any) -> None:
    data = sl.PublicData(rows, "a leaflet")
    assert data.matrix().tolist() == COMPLETE
    assert data.origin == public("a leaflet")
    assert "a leaflet" in repr(data)


def test_named_columns_are_read_by_name(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    for rows in (FRAME, tmp_path / "rows.csv"):
        data = sl.PublicData(rows, "a leaflet")
        assert data.matrix(["b", "a"]).tolist() == [[10.0, 1.0], [30.0, 3.0]]
        assert data.matrix(["a"]).tolist() == [[1.0], [2.0], [3.0]]
        query = sl.Covariance(["b", "a"], radius=1000, rho=1, prediction=data)
        assert query.predictions_for(2)[0].matrix.tolist() == [[500.0, 50.0], [50.0, 5.0]]
        mean = sl.GaussianMean(["b", "a"], prediction=data, rho=1)
        assert mean.prediction.centre.tolist() == [20.0, 2.0]
    assert sl.PublicData(FRAME, "a leaflet").matrix(["x", "y"]).tolist() == COMPLETE  # other names: by place
    with pytest.raises(SchemaError, match="'x'"):
        sl.PublicData(tmp_path / "rows.csv", "a leaflet").matrix(["x", "y"])


@pytest.mark.parametrize(
    "values", [[3, 1, None], [3.0, np.inf, 1.0], pd.Series([3, 1]), FRAME[["a"]][::-2], {"v": [3, 1]}]
)
def test_the_values_of_one_column(values: Any) -> None:
    found = sl.PublicData(values, "a leaflet").values()
    assert found.tolist() == [3.0, 1.0]
    assert not found.flags.writeable


def test_masked_cells_are_missing() -> None:
    masked = np.ma.array(ROWS[:, 0], mask=[False, True, False])
    assert sl.PublicData(masked, "a leaflet").values().tolist() == [1.0, 3.0]


def test_a_file_stays_the_same_one_in_another_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be read from there, and not be recognised as the private file of a session."""
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    given = sl.PublicData("rows.csv", "a test")
    table = sl.Table("rows.csv", schema=[sl.Number("a", lower=0, upper=9)])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert given.matrix().tolist() == COMPLETE
    assert all(table.is_file(file) for file in given.origin.files)
    assert given.origin.files


def test_numbers_are_copied() -> None:
    given = np.array([1.0, 2.0])
    data = sl.PublicData(given, "a leaflet")
    given[0] = 9
    assert data.values().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("rows", "description", "message"),
    [
        (sl.Table([1.0], schema=[sl.Number("x")]), "census", "private source"),
        ([1.0], "", "come from"),
        ([1.0], "  ", "come from"),
        ([1.0], None, "come from"),
        ([], "census", "finite"),
        ([np.nan, np.inf], "census", "finite"),
        (np.empty((0, 3)), "census", "finite"),
        ([[1.0], [1.0, 2.0]], "census", "same number"),
        (None, "census", "got NoneType"),
        (7, "census", "got int"),
    ],
)
def test_invalid_public_data_is_refused(rows: Any, description: Any, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        sl.PublicData(rows, description)


def test_what_cannot_be_read_as_asked_is_refused() -> None:
    with pytest.raises(RangeError, match="two-dimensional"):
        sl.PublicData([1.0, 2.0], "census").matrix()
    with pytest.raises(RangeError, match="without a missing number"):
        sl.PublicData([[1.0, np.nan]], "census").matrix()
    with pytest.raises(RangeError, match="has 2 columns"):
        sl.PublicData(FRAME, "census").values()
    with pytest.raises(RangeError, match="numbers"):
        sl.PublicData(["young", "old"], "census").values()
    with pytest.raises(SchemaError, match="Number"):
        sl.PublicData(pd.DataFrame({"a": ["young", "old"]}, dtype="string"), "census").matrix()
    with pytest.raises(SourceError, match="there is no file"):
        sl.PublicData("nowhere.csv", "census").matrix()


@pytest.mark.parametrize("name", ["PublicSample", "PublicRows", "PublicTable"])
def test_an_old_name_is_answered_with_the_new_one(name: str) -> None:
    assert name not in dir(sl)
    with pytest.raises(AttributeError, match=r"it is sl\.PublicData now"):
        getattr(sl, name)


def test_a_quantile_wants_priors() -> None:
    with pytest.raises(RangeError, match="fit_public"):
        sl.Quantiles([0.5], epsilon=1, prediction=sl.PublicData([1.0, 2.0], "census"))  # type: ignore[arg-type]
