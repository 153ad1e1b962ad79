"""Spark gives the integers and releases of all other engines; no row, cell or charge goes astray."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failing_tasks import SECRET, by_value, fails, fails_first

import sidelight as sl
from one_plan import releases, write_visits
from sidelight.aggregates import cell_counts
from sidelight.errors import SchemaError, SourceError
from sidelight.records.engines import spark as spark_engine
from sidelight.records.engines.spark import RowsTask
from sidelight.records.source_protocols import DistributedRows
from sidelight.testing import EngineTable, engine_conformance, seeded_release

pytestmark = pytest.mark.spark
_TYPES = {"float": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "text": pa.string()}
_NUMBER = itertools.count()


def arrow(table: EngineTable, part: Any) -> pa.Table:
    return pa.table({name: pa.array(part[name], _TYPES[kind]) for name, kind in table.kinds.items()})


def frame_of(spark: Any, table: EngineTable, folder: Path, *, fails: bool = False) -> Any:
    """Write a file for each partition and let Spark read them, one partition a file."""
    place = folder / str(next(_NUMBER))
    place.mkdir()
    for number, part in enumerate(table.parts):
        pq.write_table(arrow(table, part), place / f"{number:04}.parquet")
    frame = spark.read.parquet(str(place))
    return frame.mapInArrow(by_value(fails_first), frame.schema) if fails else frame


@pytest.mark.timeout(1200)  # about a hundred Spark jobs, half of them run twice
def test_the_integers_and_releases_of_plain_lists_though_tasks_fail(spark: Any, tmp_path: Path) -> None:
    """Every other partition fails after it has handed rows over; Spark tries it again, and it counts once."""
    found = engine_conformance(lambda table: frame_of(spark, table, tmp_path, fails=True), rows=60, partitions=(2,))
    assert found >= 70


@pytest.mark.slow
def test_the_integers_at_length(spark: Any, tmp_path: Path) -> None:
    assert engine_conformance(lambda table: frame_of(spark, table, tmp_path), rows=400, partitions=(7, 40)) > 100


SCHEMA = [sl.Number("x", lower=0, upper=100), sl.Category("c", ["a", "b"])]


def rows(count: int = 300) -> list[tuple[float | None, str | None, int]]:
    return [(None if at % 11 == 0 else at % 97 + 0.25, "ab c"[at % 4], at % 40) for at in range(count)]


def frame(spark: Any, count: int = 300) -> Any:
    return spark.createDataFrame(rows(count), "x double, c string, who long").repartition(3)


def test_a_table_of_a_session_and_a_frame_in_another_cut(spark: Any) -> None:
    frame(spark).createOrReplaceTempView("visits")
    query = sl.Quantiles([0.5], column="x", epsilon=1)
    plain = {name: [row[at] for row in rows()] for at, name in enumerate(("x", "c", "who"))}
    expected = seeded_release(query, sl.Table(plain, schema=SCHEMA), seed=1).value
    for source, more in ((frame(spark), {}), (frame(spark).repartition(17), {}), (spark, {"table": "visits"})):
        table = sl.Table(source, schema=SCHEMA, **more)
        assert isinstance(table.rows, DistributedRows)
        assert table.engine == "spark"
        assert seeded_release(query, table, seed=1).value.tolist() == expected.tolist()
    with pytest.raises(SourceError, match="no table 'visit'"):
        sl.Table(spark, schema=SCHEMA, table="visit")
    with pytest.raises(SourceError, match="say which"):
        sl.Table(spark, schema=SCHEMA)


def test_names_that_differ_by_case_or_hold_dots(spark: Any) -> None:
    hard = spark.createDataFrame([(1.0, 5.0, 7.0), (2.0, 5.0, 7.0)], ["a.b", "x", "X"])
    table = sl.Table(hard, schema=[sl.Number("a.b", lower=0, upper=9), sl.Number("X", lower=0, upper=9)])
    assert seeded_release(sl.Sum("a.b", epsilon=1e6), table, seed=1).value.sum == pytest.approx(3, abs=0.1)
    assert seeded_release(sl.Sum("X", epsilon=1e6), table, seed=1).value.sum == pytest.approx(14, abs=0.1)
    twice = spark.createDataFrame([(1.0, 2.0)], ["x", "y"]).selectExpr("x", "y AS x")
    with pytest.raises(SchemaError, match="two columns"):
        sl.Table(twice, schema=[sl.Number("x", lower=0, upper=1)])


def test_types_are_those_of_the_frame(spark: Any) -> None:
    with pytest.raises(SchemaError, match="string"):
        sl.Table(frame(spark), schema=[sl.Number("c", lower=0, upper=1)])
    with pytest.raises(SchemaError, match="no column 'y'"):
        sl.Table(frame(spark), schema=[sl.Number("y", lower=0, upper=1)])
    days = spark.sql("SELECT DATE '2024-01-31' AS d, TIMESTAMP '2024-01-31 14:00:00Z' AS t, array(1) AS a")
    both = [sl.Date(name, start="2024-01-01", end="2024-12-31") for name in "dt"]
    table = sl.Table(days, schema=both)
    for name in "dt":
        mean = seeded_release(sl.Mean(name, epsilon=1e6), table, seed=1).value
        assert str(mean.mean)[:10] in ("2024-01-31", "30.0", "30")
    with pytest.raises(SchemaError, match="array"):
        sl.Table(days, schema=[sl.Number("a", lower=0, upper=1)])


WINDOW = "FILTER (WHERE x > 1) OVER (ORDER BY who ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.limit(5),
        lambda frame: frame.sample(0.5),
        lambda frame: frame.selectExpr("x + rand() AS x", "c"),
        lambda frame: frame.dropDuplicates(["c"]),
        lambda frame: frame.groupBy("who").agg({"x": "first"}).selectExpr("`first(x)` AS x", "'a' AS c"),
        lambda frame: frame.selectExpr("x + monotonically_increasing_id() AS x", "c"),
        lambda frame: frame.groupBy("who").agg({"x": "collect_set"}).selectExpr("`collect_set(x)`[0] AS x", "'a' AS c"),
        lambda frame: frame.selectExpr("count(1) OVER (ORDER BY who ROWS UNBOUNDED PRECEDING) AS x", "c"),
        lambda frame: frame.selectExpr("rank() OVER (ORDER BY x) AS r", f"sum(x) {WINDOW} AS x", "c"),
    ],
)
def test_a_frame_of_chance_is_refused_before_the_charge(spark: Any, change: Any) -> None:
    session = sl.Session(sl.Table(change(frame(spark)), schema=SCHEMA), budget=sl.PureDP(2))
    before = str(session.spent)
    with pytest.raises(SourceError, match=r"other rows each time.*Nothing was charged"):
        session.release(sl.Count(epsilon=1))
    assert str(session.spent) == before
    kept = sl.Table(change(frame(spark)).localCheckpoint(), schema=SCHEMA)
    assert sl.Count(epsilon=1).release(kept).value is not None


def test_windows_in_which_ties_are_alike_are_read(spark: Any) -> None:
    numbered = frame(spark).selectExpr(
        "CAST(rank() OVER (ORDER BY who) + dense_rank() OVER (PARTITION BY c ORDER BY who) AS DOUBLE) AS x",
        "max(c) OVER (PARTITION BY who) AS c",
        "sum(who) OVER (ORDER BY who RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS w",
        "cume_dist() OVER (ORDER BY who) + percent_rank() OVER (ORDER BY who) AS d",
    )
    assert sl.Count(epsilon=1).release(sl.Table(numbered, schema=SCHEMA)).value is not None


def test_answers_of_many_parts_are_put_together_before_the_driver_has_too_much(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_engine, "_MOST_ANSWERS", 3 * spark_engine._LEAST_ANSWER)
    answers: list[int] = []

    def noted(frame: Any, rows: Any) -> Any:
        found = list(collected(frame, rows))
        answers.append(len(found))
        return iter(found)

    collected = spark_engine._collected
    monkeypatch.setattr(spark_engine, "_collected", noted)
    table = sl.Table(frame(spark).repartition(9), schema=SCHEMA)
    plain = sl.Table({"x": [row[0] for row in rows()], "c": [row[1] for row in rows()]}, schema=SCHEMA)
    for query in (sl.Quantiles([0.5], column="x", epsilon=1), sl.Count(by="c", epsilon=1), sl.Mean("x", epsilon=1)):
        found, expected = (seeded_release(query, each, seed=5).value for each in (table, plain))
        assert repr(found) == repr(expected)
    assert max(answers) <= 3


def test_a_driver_that_takes_too_little_is_refused_before_the_charge(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_engine, "_LEAST_LIMIT", 2 << 30)  # a session's own cannot be changed while it runs
    with pytest.raises(SourceError, match=r"maxResultSize is 1073741824 bytes.*Nothing was charged"):
        sl.Count(epsilon=1).release(sl.Table(frame(spark), schema=SCHEMA))


def test_a_failing_job_is_charged_and_quotes_nothing(spark: Any, tmp_path: Path, capfd: Any) -> None:
    broken = frame(spark).mapInArrow(by_value(fails), "x double, c string, who long")
    session = sl.Session(sl.Table(broken, schema=SCHEMA), budget=sl.PureDP(2), ledger=f"sqlite:///{tmp_path}/l.db")
    before = str(session.spent)
    with pytest.raises(SourceError, match="Spark job") as error:
        session.release(sl.Count(epsilon=1))
    told = "".join(capfd.readouterr()) + repr(error.value) + repr(error.value.__context__) + repr(error.value.__cause__)
    assert SECRET not in told
    assert str(session.spent) != before


def test_files_that_disagree_or_go_away(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "b.parquet")
    table = sl.Table(spark.read.parquet(str(tmp_path)), schema=[sl.Number("x", lower=0, upper=1)])
    pq.write_table(pa.table({"x": ["one"]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match="Spark job"):
        sl.Sum("x", epsilon=1).release(table)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(SourceError, match="Spark job"):
        sl.Sum("x", epsilon=1).release(table)


def test_batches_that_arrow_cannot_hold_are_refused_before_the_charge(spark: Any) -> None:
    name, table = "spark.sql.execution.arrow.maxRecordsPerBatch", sl.Table(frame(spark), schema=[sl.Number("x")])
    for value in ("0", "-1", "100000"):
        spark.conf.set(name, value)
        try:
            with pytest.raises(SourceError, match=r"maxRecordsPerBatch is .* Nothing was charged"):
                sl.Quantiles([0.5], column="x", epsilon=1).release(table)
        finally:
            spark.conf.unset(name)


def test_spark_puts_rows_together_only_where_cells_are_the_same_bit_by_bit(spark: Any) -> None:
    texts = ["F", "f", "F ", None, "\u00e9", "e\u0301"]
    cells = [(texts[i % 6], i % 5 - 2, i % 3 == 0) for i in range(900)]
    frame = spark.createDataFrame(cells, "s string, k int, b boolean").repartition(7)
    schema = [sl.Category("s", ["F", "\u00e9"]), sl.Category("k", [-2, 0, 1]), sl.Category("b", [True, False])]
    plain = sl.Table({name: [row[place] for row in cells] for place, name in enumerate("skb")}, schema=schema)
    grouped: list[bool] = []
    original = RowsTask.__init__

    def noted(self: RowsTask, *given: Any, counted: bool = False, **more: Any) -> None:
        grouped.append(counted)
        original(self, *given, counted=counted, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowsTask, "__init__", noted)
        for columns in (["s"], ["k", "b"], ["s", "k", "b"]):
            found, expected = (cell_counts(each, columns).value for each in (sl.Table(frame, schema=schema), plain))
            assert found.tolist() == expected.tolist()
        assert grouped == [True, True, True]
        collated = frame.selectExpr("s collate UTF8_LCASE AS s", "k", "b")  # by which "f" is "F"
        found, expected = (cell_counts(each, ["s"]).value for each in (sl.Table(collated, schema=schema), plain))
        assert found.tolist() == expected.tolist()
        assert grouped[3:] == [False]


def test_a_person_counts_within_the_limit_wherever_the_rows_are(spark: Any) -> None:
    cells = [(float(at % 7), "a", 1) for at in range(500)] + [(3.0, "b", at) for at in range(2, 40)]
    crowd = spark.createDataFrame(cells, "x double, c string, who long").repartition(9)
    table = sl.Table(crowd, schema=[*SCHEMA, sl.PersonId("who", max_rows=2)])
    counts = seeded_release(sl.Count(by="c", max_groups=1, max_rows_per_group=2, epsilon=1e6), table, seed=1).value
    assert list(counts["count"])[:2] == [2, 38]


def test_kept_blocks_are_dropped_after_a_release(spark: Any) -> None:
    def kept() -> set[int]:
        return set(spark.sparkContext._jsc.getPersistentRDDs())

    before = kept()
    sl.Quantiles([0.5], column="x", epsilon=1).release(sl.Table(frame(spark), schema=SCHEMA))
    assert kept() == before


PLAN = """
[source]
path = "visits"
name = "visits"
{engine}
[[column]]
name = "x"
lower = 0
upper = 100
[[column]]
name = "ward"
kind = "category"
categories = ["1", "01", "B"]
[[column]]
name = "day"
kind = "date"
start = "2024-01-01"
end = "2024-12-31"
[budget]
epsilon = 9
[[query]]
kind = "quantiles"
column = "x"
levels = [0.25, 0.5]
epsilon = 1
[[query]]
kind = "count"
by = "ward"
epsilon = 1
[[query]]
kind = "quantiles"
column = "day"
levels = [0.5]
epsilon = 1
"""


def test_a_plan_with_engine_spark_reads_names_of_folders_one_by_one(spark: Any, tmp_path: Path) -> None:
    from sidelight.plans import read_plan

    for number, (ward, day) in enumerate(itertools.product(("1", "01", "B"), ("2024-02-01", "2024-06-30", "never"))):
        place = tmp_path / "visits" / f"ward={ward}" / f"day={day}"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"x": [float(number), 50.0 + number, math.nan]}), place / "0.parquet")
    found = []
    for engine in ("", 'engine = "spark"'):
        (tmp_path / "plan.toml").write_text(PLAN.format(engine=engine), encoding="utf-8")
        plan = read_plan(tmp_path / "plan.toml")
        table = plan.one.open()
        assert table.engine == ("spark" if engine else "duckdb:parquet")
        found.append([repr(seeded_release(each.query, table, seed=2).value) for each in plan.queries])
    assert found[0] == found[1]


def test_paths_that_spark_cannot_read(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="reads Parquet"):
        sl.Table(tmp_path / "a.csv", schema=SCHEMA, engine="spark")
    with pytest.raises(SourceError, match="Spark cannot read"):
        sl.Table(tmp_path / "nowhere", schema=SCHEMA, engine="spark")
    for place, column in (("1", pa.array([1], pa.int64())), ("2", pa.array([Decimal("12.34")], pa.decimal128(18, 2)))):
        (tmp_path / "mixed").mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": column}), tmp_path / "mixed" / f"{place}.parquet")
    with pytest.raises(SourceError, match="same types"):  # by the first file alone, 12.34 would be 1234
        sl.Table(tmp_path / "mixed", schema=SCHEMA, engine="spark")
    with pytest.raises(SourceError, match="engine must be"):
        sl.Table(tmp_path / "a.csv", schema=SCHEMA, engine="dask")  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="for paths"):
        sl.Table({"x": [1.0]}, schema=SCHEMA, engine="spark")


def test_one_plan_gives_the_release_of_the_other_engines(spark: Any, tmp_path: Path) -> None:
    write_visits(tmp_path)
    assert releases(tmp_path, tmp_path / "visits", engine="spark") == releases(tmp_path)
