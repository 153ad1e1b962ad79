"""Models and Gaussians on Spark: workers keep codes and add up gradients, to the release of all other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failing_tasks import SECRET, by_value, fails, fails_first

import sidelight as sl
from sidelight.errors import SourceError
from sidelight.ledger import open_ledger
from sidelight.records.engines import spark as on_spark
from sidelight.regression.model_query import ModelQuery
from sidelight.testing import seeded_release

pytestmark = pytest.mark.spark
TEN = [f"k{place}" for place in range(10)]
SCHEMA: list[Any] = [
    sl.Number("x", lower=0, upper=100),
    sl.Number("y", lower=-20, upper=60, missing=sl.Fill(7)),
    sl.Category("c", ["a", "b"]),
    sl.Category("k", TEN, other=None),
]
PERSONS = [*SCHEMA, sl.PersonId("who", max_rows=2)]
PRICE: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "solver": sl.DescentSettings(passes=4)}
CURVES: dict[str, Any] = {"epsilon": 2, "delta": "1e-6"}
PUBLIC = [[40.0, 10.0], [55.0, 18.0], [61.0, 12.0], [20.0, 3.0], [33.0, 15.0]]
QUERIES: dict[str, Any] = {
    "linear": ModelQuery(model=sl.LinearRegression(**PRICE), target="y", features=["x", "c"]),
    "logistic": ModelQuery(model=sl.LogisticRegression(**PRICE, classes=["a", "b"]), target="c", features=["x", "y"]),
    "ten classes": ModelQuery(model=sl.LogisticRegression(**PRICE), target="k", features=["x", "y", "c"]),
    "curves": ModelQuery(model=sl.AdditiveRegressor(**CURVES), target="y", features=["x", "c"]),
    "curves of ten classes": ModelQuery(model=sl.AdditiveClassifier(**CURVES), target="k", features=["x", "y"]),
    "gaussian": sl.GaussianFit(["x", "y"], prediction=PUBLIC, rho=1),
}


def cells(rows: int = 300) -> pa.Table:
    """Return rows with missing, infinite and unknown cells; one person has a third of them."""
    rng = np.random.default_rng(3)
    x = rng.normal(50, 30, rows)
    y = 0.3 * x + rng.normal(0, 4, rows)
    x[::31], x[3::47], x[5::53], y[::29] = np.nan, np.inf, -np.inf, np.nan
    return pa.table(
        {
            "x": pa.array([None if at % 37 == 0 else each for at, each in enumerate(x.tolist())], pa.float64()),
            "y": y,
            "c": [["a", "b", None, "z"][at] for at in rng.integers(0, 4, rows)],
            "k": [None if at == 10 else f"k{at}" for at in rng.integers(0, 11, rows)],
            "who": [1 if at % 3 == 0 else None if at % 50 == 1 else at % 90 for at in range(rows)],
        }
    )


def write(folder: Path, parts: int, rows: pa.Table | None = None) -> Path:
    """Write a file for each partition; the last of several is empty."""
    found = cells() if rows is None else rows
    ends = np.linspace(0, len(found), max(parts, 2)).astype(int) if parts > 1 else np.array([0, len(found)])
    folder.mkdir()
    for part, (start, end) in enumerate(zip(ends, [*ends[1:], len(found)], strict=True)):
        if part < parts:
            pq.write_table(found.slice(start, end - start), folder / f"{part}.parquet")
    return folder


def kept(spark: Any) -> set[int]:
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def bits(release: Any) -> list[str]:
    return _bits_of(release.value)


def _bits_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [each for name in sorted(value) for each in _bits_of(value[name])]
    if isinstance(value, list | tuple):
        return [each for part in value for each in _bits_of(part)]
    if value is None or isinstance(value, str):
        return [repr(value)]
    return [float(each).hex() for each in np.asarray(value).ravel()]


def sources(folder: Path) -> dict[str, Any]:
    """Return the same rows for the other engines."""
    import duckdb
    import polars as pl

    rows = cells()
    return {
        "NumPy": {name: rows.column(name).to_numpy(zero_copy_only=False) for name in "xyck"}
        | {"who": rows.column("who").to_pylist()},
        "DuckDB": duckdb.connect().read_parquet(str(folder / "*.parquet")),
        "Polars": pl.from_arrow(rows),
    }


@pytest.mark.timeout(900)  # some dozen jobs each, which take minutes where other work has the cores
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
def test_the_release_of_numpy_duckdb_and_polars(spark: Any, tmp_path: Path, schema: list[Any], name: str) -> None:
    """Releases of one file, seven files with an empty one, and tasks that fail late."""
    one, seven = write(tmp_path / "one", 1), write(tmp_path / "seven", 7)
    frame = spark.read.parquet(str(seven))
    assert frame.rdd.getNumPartitions() > 1
    retried = frame.mapInArrow(by_value(fails_first), frame.schema)
    before, query = kept(spark), QUERIES[name]
    found = {
        engine: bits(seeded_release(query, sl.Table(source, schema=schema), seed=5))
        for engine, source in sources(one).items()
    }
    for engine, source in {"one": spark.read.parquet(str(one)), "seven": frame, "retried": retried}.items():
        table = sl.Table(source, schema=schema)
        assert table.engine == "spark"
        found[engine] = bits(seeded_release(query, table, seed=5))
    assert all(each == found["NumPy"] for each in found.values())
    assert kept(spark) == before


def test_parts_with_large_answers_are_put_together(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver takes no more than a certain size of all answers together."""
    table = sl.Table(spark.read.parquet(str(write(tmp_path / "seven", 7))).repartition(7), schema=SCHEMA)
    expected = bits(seeded_release(QUERIES["linear"], table, seed=5))
    answers: list[int] = []
    collected = on_spark._collected

    def counted(frame: Any, rows: Any) -> Any:
        answers.append(frame.rdd.getNumPartitions())
        return collected(frame, rows)

    monkeypatch.setattr(on_spark, "_collected", counted)
    assert bits(seeded_release(QUERIES["linear"], table, seed=5)) == expected
    assert set(answers) == {7}
    monkeypatch.setattr(on_spark, "_LEAST_ANSWER", 1)
    monkeypatch.setattr(on_spark, "_MOST_ANSWERS", 100)
    answers.clear()
    assert bits(seeded_release(QUERIES["linear"], table, seed=5)) == expected
    assert max(answers) <= 4


def test_tables_of_no_rows_and_of_one(spark: Any, tmp_path: Path) -> None:
    for rows in (0, 1):
        some = cells().slice(0, rows)
        folder = write(tmp_path / str(rows), 2, some)
        for name in ("linear", "gaussian"):
            tables = [sl.Table(each, schema=SCHEMA) for each in (some, spark.read.parquet(str(folder)))]
            first, second = (bits(seeded_release(QUERIES[name], table, seed=5)) for table in tables)
            assert first == second


@pytest.mark.parametrize("name", ["logistic", "gaussian"])
def test_a_worker_that_fails_is_charged_marked_and_quotes_nothing(
    spark: Any, tmp_path: Path, capfd: Any, name: str
) -> None:
    frame = spark.read.parquet(str(write(tmp_path / "rows", 3)))
    broken = frame.mapInArrow(by_value(fails), frame.schema)
    session = sl.Session(sl.Table(broken, schema=SCHEMA), budget=sl.ApproxDP(9, 1e-3), ledger=f"sqlite:///{tmp_path}/l")
    spent, before = str(session.spent), kept(spark)
    with pytest.raises(SourceError, match="Spark job") as error:
        session.release(QUERIES[name])
    assert kept(spark) == before  # although the error still references its callers
    told = "".join(capfd.readouterr()) + repr(error.value) + repr(error.value.__context__) + repr(error.value.__cause__)
    assert SECRET not in told
    assert str(session.spent) != spent
    assert [each.state for each in open_ledger(f"sqlite:///{tmp_path}/l").entries()] == ["failed"]


def test_an_estimator_fits_a_frame_and_objective_perturbation_is_refused(spark: Any, tmp_path: Path) -> None:
    table = sl.Table(spark.read.parquet(str(write(tmp_path / "rows", 2))), schema=SCHEMA)
    session = sl.Session(table, budget=sl.ApproxDP(9, 1e-3))
    model = sl.LinearRegression(**PRICE, session=session).fit_table(table, target="y", features=["x"])
    assert model.predict({"x": [50.0]}).shape == (1,)
    spent, before = str(session.spent), kept(spark)
    refused: list[Any] = [
        ModelQuery(
            model=sl.LogisticRegression(epsilon=2, delta="1e-6", classes=["a", "b"], solver="objective"),
            target="c",
            features=["x"],
        ),
        ModelQuery(model=sl.LinearSVC(epsilon=2, delta="1e-6", classes=["a", "b"]), target="c", features=["x"]),
        sl.GaussianFit(["x", "y"], mean_bound=100, variance_bound=900, rho=1),
    ]
    for query in refused:
        with pytest.raises(SourceError, match=r"files, DuckDB and frames in memory.*Nothing was charged"):
            session.release(query)
    assert str(session.spent) == spent
    assert kept(spark) == before
