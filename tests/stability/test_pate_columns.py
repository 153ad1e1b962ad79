"""Columns of labels and ids of teachers: every library's are read alike, and what holds neither is refused by type."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.naive_bayes import BernoulliNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import sidelight as sl
from sidelight.errors import SchemaError
from sidelight.stability.pate.columns import cells_of, one_column
from sidelight.stability.pate.teachers import class_indices, shares_of
from sidelight.stability.pate.typed_rows import form_of

KEY = b"sixteen bytes or more"
IDS = [f"patient {place}" for place in range(60)]
LABELS = [place % 2 for place in range(60)]
CLASSES = np.array([0, 1])
NUMBERS = np.arange(60)
_ENCODED = pd.ArrowDtype(pa.dictionary(pa.int32(), pa.duration("s")))


@pytest.mark.parametrize(
    "make",
    [
        pa.array,
        lambda cells: pa.chunked_array([cells[:7], cells[7:]]),
        lambda cells: pa.chunked_array([cells]).dictionary_encode(),
        lambda cells: pa.table({"a": cells}),
        pd.Series,
        pd.Index,
        lambda cells: pd.DataFrame({"a": cells}),
        pl.Series,
        lambda cells: pl.DataFrame({"a": cells}),
        np.array,
    ],
)
def test_a_column_is_the_same_in_every_library(make: Callable[[list[Any]], Any]) -> None:
    ids, labels = one_column(make(IDS), name="record_ids"), one_column(make(LABELS), name="y")
    wanted = shares_of(IDS, teachers=10, key=KEY)
    assert len(set(wanted.tolist())) > 5
    assert shares_of(ids, teachers=10, key=KEY).tolist() == wanted.tolist()
    assert class_indices(labels, CLASSES).tolist() == LABELS


def broken() -> list[Any]:
    """Return Arrow columns whose second text is not UTF-8, which raises where all of them are asked for."""
    texts = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(np.array([0, 1, 2, 3], np.int32)), pa.py_buffer(b"a\xffc")]
    )
    return [texts, pa.chunked_array([texts])]


@pytest.mark.parametrize("column", broken())
def test_a_cell_that_cannot_be_read_is_missing_and_no_other_is(column: Any) -> None:
    assert cells_of(column) == ["a", None, "c"]


def test_a_tuple_is_an_id_of_its_own() -> None:
    pairs = [("north", place) for place in range(60)]
    shares = shares_of(pairs, teachers=10, key=KEY)
    assert len(set(shares.tolist())) > 5
    assert shares.tolist() == shares_of(pd.MultiIndex.from_tuples(pairs), teachers=10, key=KEY).tolist()
    assert (
        shares_of([("ab", "c"), ("a", "bc")], teachers=10**9, key=KEY)
        .tolist()
        .count(shares_of([("ab", "c")], teachers=10**9, key=KEY)[0])
        == 1
    )
    nobody = shares_of([None], teachers=10**9, key=KEY).tolist()
    assert shares_of([("a", None)], teachers=10**9, key=KEY).tolist() == nobody
    assert shares_of([()], teachers=10**9, key=KEY).tolist() == nobody


@pytest.mark.parametrize(
    "column",
    [
        np.datetime64("2020-01-01", "ns") + NUMBERS,
        NUMBERS.astype("timedelta64[s]"),
        pd.Series(pd.to_timedelta(NUMBERS, "s")),
        pd.Series(pd.period_range("2000-01", periods=60, freq="M")),
        pd.Series(pd.interval_range(0, 60)),
        pd.Series(pd.cut(NUMBERS, 5)),
        pd.Series(pa.array([[1]] * 60), dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
        pl.Series([[1]] * 60),
        pl.Series([{"a": 1}] * 60),
        pa.array(NUMBERS, pa.duration("s")),
        pa.array(NUMBERS, pa.duration("s")).dictionary_encode(),
        pa.chunked_array([pa.RunEndEncodedArray.from_arrays(pa.array([60], pa.int32()), pa.array([[1]]))]),
        pd.Series(pa.array(NUMBERS, pa.duration("s")).dictionary_encode(), dtype=_ENCODED),
        pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((60, 2))),
        pa.chunked_array([[{"a": 1}] * 60]),
        set(IDS),
        dict.fromkeys(IDS),
        iter(IDS),
        "a" * 60,
        NUMBERS[:, None],
        np.matrix(NUMBERS),
        pd.DataFrame({"a": NUMBERS, "b": NUMBERS}),
    ],
)
def test_what_holds_no_ids_is_refused_by_its_type(column: Any) -> None:
    with pytest.raises(SchemaError, match="record_ids must"):
        one_column(column, name="record_ids")


@pytest.mark.parametrize("name", ["y", "record_ids"])
def test_a_fit_refuses_such_columns_before_the_charge(name: str) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 2))
    session = sl.Session(sl.Table({"row": [0.0]}, schema=[sl.Number("row")]), budget=sl.GDP(9))
    model = sl.PATE(NearestCentroid(), teachers=4, classes=[0, 1], noise_scale=9, n_jobs=1, session=session)
    given = {"X": rows, "y": LABELS, "record_ids": IDS, "queries": rows[:9]}
    before = str(session.spent)
    with pytest.raises(SchemaError, match=f"{name} must hold"):
        model.fit(**{**given, name: pd.Series(pd.to_timedelta(NUMBERS, "s"))})
    for part in ("X", "queries"):
        with pytest.raises(SchemaError, match=rf"np.asarray\({part}\)"):
            model.fit(**{**given, part: np.matrix(given[part])})
    assert str(session.spent) == before
    assert len(model.fit(**{**given, name: pd.DataFrame({"only": given[name]})}).labels_) == 9


@pytest.mark.parametrize(
    ("column", "asked"),
    [
        (pd.Series(pd.to_timedelta(NUMBERS, "s")), 1.0),
        (pd.Series(pd.to_datetime(["2020-01-01"] * 60)), 1.0),
        (pd.Series(pd.to_timedelta(NUMBERS, "s")), "text"),
        (pd.Series(pa.array([[1]] * 60), dtype=pd.ArrowDtype(pa.list_(pa.int64()))), 1.0),
        (pl.Series([[1]] * 60), 1.0),
        (pl.Series([{"a": 1}] * 60), "text"),
        (pl.Series([1] * 60).cast(pl.Date), 1.0),
    ],
)
def test_a_column_of_rows_whose_type_is_not_that_of_queries_is_refused(column: Any, asked: Any) -> None:
    # all of its cells would be missing: every teacher would vote for the first class, and that would be paid for
    frame = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    form = form_of(frame({"a": [asked]}))
    with pytest.raises(SchemaError, match="column 'a' of X must hold"):
        form.check(frame({"a": column}))
    form_of(frame({"a": ["text"]})).check(frame({"a": NUMBERS}))


def dates(kind: pa.DataType, cell: int) -> pa.Array:
    """Return 40 days or moments, the last of which is this number of units from 1970 on: Python has not all of them."""
    units = pa.array([*[place % 2 for place in range(39)], cell], pa.int32() if kind == pa.date32() else pa.int64())
    return units.cast(kind)


def texts(last: bytes) -> pa.Array:
    """Return 40 texts, the last of which need not be UTF-8: no reader of Parquet files checks that."""
    ends = pa.py_buffer(np.arange(41, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), 40, [None, ends, pa.py_buffer(b"ab" * 19 + b"a" + last)])


def held_by_arrow(cells: pa.Array) -> Any:
    return pd.Series(cells, dtype=pd.ArrowDtype(cells.type))


def in_texts_of_pandas(cells: pa.Array) -> Any:
    dtype = pd.StringDtype("pyarrow")
    return pd.Series(dtype.__from_arrow__(cells))  # as pandas reads files


def points(last: int) -> Any:
    """Return texts of NumPy, of code points, of which there are no more than 0x110000."""
    return np.array([*[ord("ab"[place % 2]) for place in range(39)], last], np.uint32).view("U1")


_DAY, _MOMENT = 10**9, 2**60

#: Pairs of neighbours: columns whose last cell can be read, and cannot.
HOSTILE = {
    "text of pandas": (in_texts_of_pandas(texts(b"b")), in_texts_of_pandas(texts(b"\xff"))),
    "text of Arrow in pandas": (held_by_arrow(texts(b"b")), held_by_arrow(texts(b"\xff"))),
    "text of Polars": (pl.from_arrow(texts(b"b")), pl.from_arrow(texts(b"\xff"))),
    "category of Polars": tuple(pl.Series(pl.from_arrow(texts(last).dictionary_encode())) for last in (b"b", b"\xff")),
    "date32 in pandas": (held_by_arrow(dates(pa.date32(), 1)), held_by_arrow(dates(pa.date32(), _DAY))),
    "timestamp in pandas": tuple(held_by_arrow(dates(pa.timestamp("s"), last)) for last in (1, _MOMENT)),
    "time with a zone in pandas": tuple(held_by_arrow(dates(pa.timestamp("ms", "UTC"), end)) for end in (1, _MOMENT)),
    "date of Polars": tuple(pl.from_arrow(dates(pa.date32(), last)) for last in (1, _DAY)),
    "early date of Polars": tuple(pl.from_arrow(dates(pa.date32(), last)) for last in (1, -_DAY)),
    "milliseconds of Polars": tuple(pl.from_arrow(dates(pa.timestamp("ms"), last)) for last in (1, _MOMENT)),
    "moment of Polars": tuple(pl.from_arrow(dates(pa.timestamp("us"), last)) for last in (1, _MOMENT)),
    "moment in UTC of Polars": tuple(pl.from_arrow(dates(pa.timestamp("us", "UTC"), last)) for last in (1, _MOMENT)),
    "moment with a zone": tuple(
        pl.from_arrow(dates(pa.timestamp("ms", "America/New_York"), last)) for last in (1, -_MOMENT)
    ),
}
#: The same, of containers that no frame has.
HOSTILE_ARRAYS = {
    "text of Arrow": (texts(b"b"), texts(b"\xff")),
    "date32 of Arrow": (dates(pa.date32(), 1), dates(pa.date32(), _DAY)),
    "timestamp of Arrow": (dates(pa.timestamp("s"), 1), dates(pa.timestamp("s"), _MOMENT)),
    "code points of NumPy": (points(ord("b")), points(0x110000)),
}


def fitted(part: str, column: Any) -> Any:
    """Fit teachers, of whose rows one part is this column: in X where queries have texts, as labels, or as ids."""
    cells: Any = column if part == "X" else pd.Series(["a", "b"] * 20)
    frame: Any = pl.DataFrame if isinstance(cells, pl.Series) else pd.DataFrame
    if isinstance(cells, np.ndarray):
        rows, queries = cells[:, None], np.array([["a"], ["b"]] * 10)
    else:
        rows, queries = frame({"t": cells}), frame({"t": ["a", "b"] * 10})
    model = sl.PATE(
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), BernoulliNB()),
        teachers=4,
        classes=["a", "b"],
        noise_scale=9,
        n_jobs=1,
        proposal=None,
    )
    labels = column if part == "y" else ["a", "b"] * 20
    ids = column if part == "record_ids" else range(40)
    return model.fit(rows, labels, record_ids=ids, queries=queries)


@pytest.mark.parametrize("part", ["X", "y", "record_ids"])
@pytest.mark.parametrize("kind", [*HOSTILE, *HOSTILE_ARRAYS])
def test_no_cell_makes_a_fit_fail_or_print(part: str, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    if part == "X" and kind.endswith("of Arrow"):
        pytest.skip("a frame has no such column")
    said = []
    for column in {**HOSTILE, **HOSTILE_ARRAYS}[kind]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(fitted(part, column).labels_) == 20
        said.append(tuple(capfd.readouterr()))  # Polars prints its panics, and cannot be told not to
    assert said == [("", "")] * 2


@pytest.mark.parametrize("kind", [*HOSTILE, *HOSTILE_ARRAYS])
def test_a_cell_that_cannot_be_read_changes_no_other(kind: str) -> None:
    good, bad = map(cells_of, {**HOSTILE, **HOSTILE_ARRAYS}[kind])
    assert len(set(map(str, good))) == 2
    assert (bad[:-1], bad[-1]) == (good[:-1], None)


@pytest.mark.parametrize("kind", HOSTILE)
def test_frames_are_read_by_cell(kind: str) -> None:
    good, bad = HOSTILE[kind]
    frame: Any = pl.DataFrame if isinstance(good, pl.Series) else pd.DataFrame
    form = form_of(frame({"t": ["a", "b"]}))
    plain, broken = (form.read(frame({"t": column})).parts[0].tolist() for column in (good, bad))
    assert broken[:-1] == plain[:-1]
    assert len(set(plain)) == 2
    assert np.isnan(broken[-1])


def test_the_first_and_the_last_dates_of_python_are_read() -> None:
    ends = [datetime.date.min, datetime.date.max]
    moments = [datetime.datetime.min, datetime.datetime.max]
    assert cells_of(pl.Series(ends)) == ends
    assert cells_of(pl.Series(moments, dtype=pl.Datetime("us"))) == moments
    beyond = pl.Series([-719_163, 2_932_897], dtype=pl.Int32).cast(pl.Date)
    assert cells_of(beyond) == [None, None]


def test_a_date_of_a_frame_that_cannot_be_read_is_a_missing_text() -> None:
    form = form_of(pd.DataFrame({"day": ["2019-04-14", "2019-04-15"]}))
    days = pa.array([18000, 2**30], pa.int32()).view(pa.date32())
    read = form.read(pd.DataFrame({"day": pd.Series(pd.arrays.ArrowExtensionArray(days))}))
    assert [isinstance(cell, str) for cell in read.parts[0].tolist()] == [True, False]


@pytest.mark.parametrize("cell", [1.0, "n/a"])
def test_sparse_rows_of_objects_are_refused_by_their_type(cell: Any) -> None:
    form = form_of(csr_array(np.eye(2)))
    try:
        rows = csr_array((np.array([1.0, cell], object), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    except (TypeError, ValueError):
        pytest.skip("this SciPy makes no sparse matrix of objects")
    with pytest.raises(SchemaError, match="sparse matrix of type object"):
        form.check(rows)
