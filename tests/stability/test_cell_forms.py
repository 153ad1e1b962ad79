"""What a reader of files makes of a column, one odd record decides; no cell of another changes by it."""

from __future__ import annotations

import datetime
import io
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.stability.pate.cell_forms import canonical_number, canonical_text
from sidelight.stability.pate.teachers import ballots, lessons, shares_of
from sidelight.stability.pate.typed_rows import form_of

KEY = b"a key that everybody knows"
TEACHERS = 25
READERS: dict[str, Callable[[str], Any]] = {
    "pandas": lambda text: pd.read_csv(io.StringIO(text)),
    "pandas with pyarrow": lambda text: pd.read_csv(io.BytesIO(text.encode()), engine="pyarrow"),
    "Polars": lambda text: pl.read_csv(io.StringIO(text), infer_schema_length=None),
}


@pytest.mark.parametrize("start", ["", "+", "1.", "."])
def test_a_long_run_of_digits_takes_no_longer_than_it_is(start: str) -> None:
    """It was split in all ways at each letter behind it: a megabyte took hours."""
    for text in (f"{start}{'1' * 1_000_000}x", f"{start}1e{'1' * 1_000_000}x"):
        assert np.isnan(canonical_number(text))
        assert canonical_text(text) == text


@pytest.mark.parametrize(
    ("form", "cells"),
    [
        ("7", [7, 7.0, "7", "07", "7.0", " 7 ", "+7", "7e0", ".7E1", "0x7", b"7", 7 + 0j, Decimal("7.00"), np.int8(7)]),
        ("1", [True, np.True_, "True", "true", "TRUE", 1, "1", "1.0"]),
        ("0", [False, "False", 0, -0.0, "-0", "-0.0", "00"]),
        ("0.5", [0.5, "0.5", ".50", "5e-1"]),
        ("9007199254740992", [2**53 + 1, str(2**53 + 1), float(2**53), f"{2**53}.0"]),
        ("inf", [float("inf"), "inf", "1e999", 10**400, "9" * 400]),
        (None, [None, float("nan"), "nan", "NaN", "", pd.NA, np.datetime64("nat")]),
        ("ann", ["ann", b"ann"]),
        ("1_000", ["1_000"]),
        ("2020-01-02 10:00:00", ["2020-01-02T10:00", "2020-01-02 10:00:00", pd.Timestamp("2020-01-02 10:00")]),
        ("2020-01-02 00:00:00", ["2020-01-02", datetime.date(2020, 1, 2)]),
        ("10:00:00", ["10:00", datetime.time(10)]),
    ],
)
def test_a_cell_has_one_form(form: str | None, cells: list[Any]) -> None:
    assert {canonical_text(cell) for cell in cells} == {form}
    numbers = {repr(canonical_number(cell)) for cell in cells if not isinstance(cell, datetime.date | datetime.time)}
    assert len(numbers) == 1


@settings(max_examples=300, deadline=None)
@given(st.text("0123456789+-.eExX_ TRUEtrueFALSEfalseinfnaN:", min_size=1, max_size=8).filter(str.strip))
@example("0xFFFFFFFFFFFFFFFF")
@example("9223372036854775809")
@example("2020-01-02T10:00:00+02:00")
def test_whatever_a_reader_makes_of_a_cell_has_the_form_of_its_text(text: str) -> None:
    for name, read in READERS.items():
        try:
            found = next(iter(read(f"cell,other\n{text},1\n{text},1\n")["cell"]))
        except (pd.errors.ParserError, pl.exceptions.PolarsError, ValueError):
            continue
        if found is None or found != found:  # what readers call missing is missing in a column of texts as well
            continue
        assert canonical_text(found) == canonical_text(text), name
        if isinstance(found, float | int | np.number | np.bool_):
            assert canonical_number(found) == canonical_number(text), name


RNG = np.random.default_rng(0)
ROWS = 500
KIND = RNG.integers(0, 2, ROWS)
FRAME = pd.DataFrame(
    {
        "id": [f"{place:06d}" for place in range(ROWS)],
        "a": np.round(RNG.normal(size=ROWS) + 1.0 * KIND, 6),
        "b": RNG.random(ROWS) < 0.2 + 0.6 * KIND,
        "y": KIND,
    }
)
QUERIES = pd.DataFrame({"a": RNG.normal(size=60), "b": RNG.random(60) < 0.5})
#: Columns as they stand in the file, the one record more, and the classes.
FILES: dict[str, tuple[dict[str, Any], str, list[Any]]] = {
    "zero-padded ids, and one name": ({}, "ann,0.0,True,1", [0, 1]),
    "ids with one missing, and one name": ({"id": [None, *range(1, ROWS)]}, "ann,0.0,True,1", [0, 1]),
    "ids beyond 2**53, and one missing": ({"id": range(2**60 + 1, 2**60 + 1001 * ROWS, 1001)}, ",0.0,True,1", [0, 1]),
    "dates as ids, and one name": ({"id": pd.date_range("2020-01-01", periods=ROWS)}, "ann,0.0,True,1", [0, 1]),
    "labels True and False, and one text": ({"y": KIND.astype(bool)}, "9999999,0.0,True,unknown", [False, True]),
    "labels true and false, and one text": (
        {"y": np.where(KIND, "true", "false")},
        "9999999,0.0,True,unknown",
        [False, True],
    ),
    "labels True and False, and one missing": ({"y": KIND.astype(bool)}, "9999999,0.0,True,", [False, True]),
    "labels 01 and 02, and one text": ({"y": [f"0{kind + 1}" for kind in KIND]}, "9999999,0.0,True,x", ["01", "02"]),
    "a yes-or-no feature, and one text": ({}, "9999999,0.0,not known,1", [0, 1]),
    "a yes-or-no feature, and one missing": ({}, "9999999,0.0,,1", [0, 1]),
    "a number feature, and one text": ({}, "9999999,none,True,1", [0, 1]),
}


def votes_of(frame: Any, queries: Any, classes: list[Any], teacher: Any) -> list[np.ndarray]:
    taught = lessons(
        frame[["a", "b"]],
        frame["y"],
        frame["id"],
        form_of(queries),
        classes=np.array(classes),
        teachers=TEACHERS,
        key=KEY,
    )
    cast = dict(ballots(teacher, taught, range(TEACHERS), n_jobs=1))
    return [cast[place] if isinstance(cast[place], np.ndarray) else np.full(60, -1) for place in range(TEACHERS)]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", FILES)
def test_one_record_more_in_a_file_changes_one_teacher(name: str, reader: str) -> None:
    columns, line, classes = FILES[name]
    text = FRAME.assign(**columns).to_csv(index=False)
    queries = pl.from_pandas(QUERIES) if reader == "Polars" else QUERIES
    fewer, more = (READERS[reader](content) for content in (text, f"{text}{line}\n"))
    before, after = (shares_of(frame["id"], teachers=10**6, key=KEY) for frame in (fewer, more))
    assert (before == after[:-1]).all()
    assert len(set(before.tolist())) > 400
    first, second = (votes_of(frame, queries, classes, NearestCentroid()) for frame in (fewer, more))
    assert sum((one != other).any() for one, other in zip(first, second, strict=True)) <= 1
    assert len({vote.tobytes() for vote in first}) > 5  # teachers that learned something


@pytest.mark.parametrize("reader", ["pandas", "Polars"])
def test_a_text_feature_of_numbers_has_one_spelling(reader: str) -> None:
    """Queries that hold texts, such as codes with leading zeros: a reader makes numbers of the same codes in X."""
    codes = np.where(RNG.random(ROWS) < 0.2 + 0.6 * KIND, "007", "010")
    text = FRAME.assign(b=codes).to_csv(index=False)
    queries = pd.DataFrame({"a": RNG.normal(size=60), "b": RNG.choice(["007", "010", "x"], 60)})
    queries = pl.from_pandas(queries) if reader == "Polars" else queries
    assert sorted(set(form_of(queries).like["b"])) == ["10", "7", "x"]
    teacher = make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["b"])), NearestCentroid()
    )
    fewer, more = (READERS[reader](content) for content in (text, f"{text}9999999,0.0,x,1\n"))
    first, second = (votes_of(frame, queries, [0, 1], teacher) for frame in (fewer, more))
    assert sum((one != other).any() for one, other in zip(first, second, strict=True)) <= 1
    assert any(len(set(vote.tolist())) == 2 for vote in first)


def test_a_fitted_model_reads_texts_as_its_queries_were_read() -> None:
    codes = np.where(KIND == 1, "007", "010")
    X, queries = pd.DataFrame({"b": codes}), pd.DataFrame({"b": ["007", "010"] * 20})
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["b"]))
    model = sl.PATE(make_pipeline(encode, NearestCentroid()), teachers=20, classes=[0, 1], noise_scale=1, n_jobs=1)
    model.fit(X, KIND, record_ids=range(ROWS), queries=queries)
    for frame in (X, pd.DataFrame({"b": codes.astype(int)}), pd.DataFrame({"b": codes.astype(float)})):
        assert (model.predict(frame) == KIND).all()


@pytest.mark.parametrize("classes", [["1", "01"], ["true", "1"], ["a", "7", "7.0"], ["nan", "a"], ["", "a"]])
def test_classes_that_readers_do_not_keep_separate_are_refused_first(classes: list[str]) -> None:
    model = sl.PATE(NearestCentroid(), teachers=20, classes=classes, n_jobs=1)
    with pytest.raises(RangeError, match="class"):
        model.price(10)
    with pytest.raises(RangeError, match="class"):
        model.fit(object(), object(), record_ids=object(), queries=object())  # nothing is read


def test_categories_that_readers_do_not_keep_separate_are_refused() -> None:
    with pytest.raises(SchemaError, match="one number to a reader"):
        form_of(pd.DataFrame({"c": pd.Categorical(["1", "01"])}))


def test_a_number_beyond_the_type_of_the_queries_is_silent_and_the_same_in_every_container() -> None:
    """Lists and arrays of objects, which one odd cell makes, are read as an array of numbers is."""
    form = form_of(np.zeros((2, 2), np.float32))
    rows = [[1e300, 0.0], [2**53 + 2**29 + 1, -0.0], [1.0, 2.0]]
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given_rows in (np.array(rows), rows, np.array(rows, object), np.array(rows).astype(str)):
            read = form.read(given_rows)
            assert read.usable(np.arange(3), missing=True).tolist() == [False, True, True]
            found.append(read.take(np.arange(3)).tobytes())
        whole = np.array([[2**54 + 2**30 + 1, 3]])  # rounded once as cells are, in an array of whole numbers as well
        assert form.read(whole).take(np.arange(1)).tobytes() == form.read(whole.tolist()).take(np.arange(1)).tobytes()
    assert len(set(found)) == 1
