"""Types come from the public queries: one hostile cell changes one teacher, in every container and column."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from hostile_cells import NoFloat, NoSign
from sidelight.errors import SchemaError
from sidelight.stability.pate.teachers import ballots, lessons, shares_of
from sidelight.stability.pate.typed_rows import form_of

KEY = b"a key that everybody knows"
TEACHERS = 8
RNG = np.random.default_rng(4)
KIND = RNG.integers(0, 2, 400)
AGE = RNG.normal(size=400) + 3 * KIND
CITY = np.where(RNG.random(400) < 0.8, np.where(KIND == 1, "Ulm", "Bonn"), "Köln")
PUBLIC_AGE = RNG.normal(size=30) * 2 + 1.5
PUBLIC_CITY = RNG.choice(["Ulm", "Bonn", "Köln"], 30)
IDS = [f"person {place}" for place in range(400)]

#: What one record may hold, in whatever column.
HOSTILE: list[Any] = [
    *(None, float("nan"), float("inf"), "a text", "12", "", True, 10**400, 2**63, b"bytes", 1 + 2j, [1, 2], object()),
    *(NoFloat(), NoSign(), pd.NA, pd.Timestamp("2020-01-01"), np.datetime64("nat"), "x" * 10_000),
]


def voting(rows: Any, queries: Any, teacher: Any, labels: Any = KIND) -> np.ndarray:
    taught = lessons(rows, labels, IDS, form_of(queries), classes=np.arange(2), teachers=TEACHERS, key=KEY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing that a cell does comes out
        cast = dict(ballots(teacher, taught, range(TEACHERS), n_jobs=1))
    return np.stack(
        [cast[n] if isinstance(cast[n], np.ndarray) else np.full(len(queries), -1) for n in range(TEACHERS)]
    )


def by_type() -> Any:
    """A teacher that looks at the types of columns, as many do: texts are encoded, numbers taken as they are."""
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    steps = make_column_transformer(
        (SimpleImputer(), make_column_selector(dtype_include="number")),
        (texts, make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(steps, NearestCentroid())


def in_pandas(age: Any, city: Any) -> Any:
    return pd.DataFrame({"age": age, "city": city})


def in_pandas_objects(age: Any, city: Any) -> Any:
    return pd.DataFrame({"age": pd.Series(list(age), dtype=object), "city": pd.Series(list(city), dtype=object)})


def in_lists(age: Any, city: Any) -> Any:
    return [[a, 1.0] for a, _ in zip(age, city, strict=True)]


def in_arrays(age: Any, city: Any) -> Any:
    """As NumPy makes an array of cells, if it can: a type for all of them."""
    return np.stack([np.array(list(age)), np.ones(len(age))], axis=1)


def in_objects(age: Any, city: Any) -> Any:
    found = np.empty((len(age), 2), object)
    found[:, 0], found[:, 1] = list(age), 1.0
    return found


def in_polars(age: Any, city: Any) -> Any:
    return pl.DataFrame({"age": pl.Series(list(age), strict=False), "city": pl.Series(list(city), strict=False)})


CONTAINERS: list[Callable[[Any, Any], Any]] = [
    in_pandas, in_pandas_objects, in_lists, in_arrays, in_objects, in_polars
]  # fmt: skip


def cells_read(make: Callable[[Any, Any], Any], age: Any, city: Any) -> Any:
    """Return what teachers see of all records but the last, with its types."""
    read = form_of(make(PUBLIC_AGE, PUBLIC_CITY)).read(make(age, city))
    others = np.arange(len(age) - 1)
    assert read.usable(others, missing=False).all()
    return read.take(others)


@pytest.mark.parametrize("make", CONTAINERS, ids=lambda make: make.__name__.removeprefix("in_"))
@pytest.mark.parametrize("column", ["age", "city"])
def test_one_hostile_cell_changes_nothing_of_other_records(make: Callable[[Any, Any], Any], column: str) -> None:
    plain = cells_read(make, AGE.tolist(), CITY.tolist())
    tried = 0
    for cell in HOSTILE:
        age, city = AGE.tolist(), CITY.tolist()
        (age if column == "age" else city)[-1] = cell  # Polars takes the type of the first
        try:
            make(age, city)
        except Exception:  # this library cannot make a column of it, so callers cannot have such rows
            continue
        tried += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = cells_read(make, age, city)
        if isinstance(plain, np.ndarray):
            assert found.dtype == plain.dtype, cell
            assert (found == plain).all(), cell
        else:
            assert found.equals(plain), cell
            assert list(found.dtypes) == list(plain.dtypes), cell
    assert tried >= 8


@pytest.mark.parametrize("cell", [None, "a text", 1 + 2j])
def test_one_hostile_cell_changes_the_votes_of_its_own_teacher_only(cell: Any) -> None:
    own = {int(shares_of(IDS[:1], teachers=TEACHERS, key=KEY)[0])}
    queries = in_pandas(PUBLIC_AGE, PUBLIC_CITY)
    before = voting(in_pandas(AGE.tolist(), CITY), queries, by_type())
    assert 0 < before.mean() < 1
    after = voting(in_pandas([cell, *AGE[1:].tolist()], CITY), queries, by_type())
    assert set(np.flatnonzero((before != after).any(axis=1)).tolist()) <= own


def test_the_attack_on_a_frame() -> None:
    """One text among the ages made every teacher that looks at types encode ages instead of taking them as numbers."""
    frame = pd.DataFrame({"age": [*AGE[:-1], "unknown"], "city": CITY})
    assert frame["age"].dtype != np.float64
    queries = in_pandas(PUBLIC_AGE, PUBLIC_CITY)
    whole = voting(in_pandas(AGE, CITY), queries, by_type())
    assert (whole != voting(frame, queries, by_type())).any(axis=1).sum() <= 1


def test_columns_are_taken_by_name_and_types_from_the_queries() -> None:
    form = form_of(pd.DataFrame({"n": [1, 2], "b": [True, False], "t": ["x", None], "c": pd.Categorical(["p", "q"])}))
    assert form.kinds == ("number", "number", "text", "category")
    private = pd.DataFrame({"c": ["q", 3, None], "t": [1.0, "x", None], "b": ["true", 1, 0], "n": ["7", 8.5, "eight"]})
    found = form.read(private).take(np.arange(3))
    assert [str(dtype) for dtype in found.dtypes] == [str(dtype) for dtype in form.like.dtypes]
    assert found["n"].tolist()[:2] == [7.0, 8.5]
    assert np.isnan(found["n"][2])
    assert found["b"].tolist() == [1.0, 1.0, 0.0]
    assert found["t"].tolist()[:2] == ["1", "x"]
    assert found["c"].tolist()[0] == "q"
    assert found["c"].isna().tolist() == [False, True, True]
    assert form.read(private).usable(np.arange(3), missing=True).all()
    assert form.read(private).usable(np.arange(3), missing=False).tolist() == [True, True, False]


def test_polars_frames_keep_their_types() -> None:
    form = form_of(pl.DataFrame({"n": [1, 2], "t": ["x", None]}))
    found = form.read(pd.DataFrame({"t": [None, 2], "n": [3, "4"]})).take(np.arange(2))
    assert found.schema == form.like.schema == {"n": pl.Float64, "t": pl.String}
    assert found.rows() == [(3.0, None), (4.0, "2")]


def test_arrays_of_integers_and_booleans_are_numbers_like_any_other() -> None:
    rows = RNG.integers(0, 2, (400, 3))
    queries = RNG.integers(0, 2, (20, 3))
    votes = [voting(kind(rows), queries, GaussianNB()) for kind in (np.asarray, np.float64, np.bool_, np.int8)]
    assert all((each == votes[0]).all() for each in votes)
    assert form_of(queries.astype(np.float32)).read(rows).take(np.arange(2)).dtype == np.float32


def test_rows_of_other_lengths_are_missing() -> None:
    form = form_of([[1.0, 2.0], [3.0, 4.0]])
    found = form.read([[1.0, 2.0], [3.0], "ab", None, [1, 2, 3], (5, 6)])
    assert found.usable(np.arange(6), missing=False).tolist() == [True, False, False, False, False, True]


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}), "make numbers, texts or a category"),
        (pl.DataFrame({"a": [1]}).lazy(), "convert it first"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "all different"),
        (np.array([["2020-01-01"]], "M8[D]"), "real numbers"),
        (np.zeros((2, 2, 2)), "rows and columns"),
        ("rows.csv", "convert it first"),
    ],
)
def test_other_queries_are_refused_by_type(queries: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        form_of(queries)
