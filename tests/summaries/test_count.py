"""Counts by group: what comes out, with what noise, and what is refused before anything is charged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import sidelight as sl
from sidelight.errors import RangeError, SchemaError, SidelightWarning
from sidelight.group_table import GroupTable
from sidelight.noise import Source
from sidelight.records.expressions import col
from sidelight.session.query import prepare_query
from sidelight.summaries.count_tables import CountReading, readable_counts
from sidelight.summaries.intervals import laplace_bound
from sidelight.summaries.noise_choice import laplace_variance
from sidelight.summaries.predicted import read_prediction
from sidelight.summaries.shrink import shrink_counts
from sidelight.testing import SeededEntropy, SeededSession, seeded_release

JOBS = ["cook", "nurse", "clerk", "pilot", "judge"]
ROWS = [400, 120, 60, 3, 0]
SCHEMA = [sl.Category("job", JOBS, other=None), sl.Category("sex", ["F", "M"], other=None),
          sl.Number("age", lower=0, upper=100, granularity=1)]  # fmt: skip


def columns() -> dict[str, Any]:
    """Return 583 rows, the same on every engine."""
    job = [job for job, rows in zip(JOBS, ROWS, strict=True) for _ in range(rows)]
    return {
        "job": job,
        "sex": ["F" if place % 3 else "M" for place in range(len(job))],
        "age": [float(place * 7 % 101) for place in range(len(job))],
    }


def people() -> sl.Table:
    return sl.Table(columns(), schema=SCHEMA)


def visits(rows: int = 4) -> sl.Table:
    """Return 300 persons with 4 rows each, in up to 4 groups."""
    ids = [f"p{n}" for n in range(300) for _ in range(rows)]
    job = [JOBS[(n + visit * (n % 2)) % 5] for n in range(300) for visit in range(rows)]
    return sl.Table({"id": ids, "job": job}, schema=[sl.PersonId("id", max_rows=rows), SCHEMA[0]])


def table_of(query: Any, table: sl.Table | None = None, seed: int = 1) -> GroupTable:
    outcome = seeded_release(query, table or people(), seed=seed)
    assert isinstance(outcome, sl.Release)
    assert isinstance(outcome.value, GroupTable)
    assert outcome.circumstances.numerics == "exact"
    assert sl.Release.from_json(outcome.to_json()) == outcome
    return outcome.value


def test_a_table_has_a_row_for_each_group_in_declared_order() -> None:
    table = table_of(sl.Count(by=["job", "sex"], epsilon=1))
    assert table.groups == tuple((job, sex) for job in JOBS for sex in ("F", "M"))
    assert table.columns == ("count", "unbiased", "noise_sd", "low", "high")
    assert table["noise_sd"].tolist() == pytest.approx([math.sqrt(laplace_variance(1))] * 10)
    assert np.abs(table["unbiased"] - [266, 134, 80, 40, 40, 20, 2, 1, 0, 0]).max() <= 15
    assert (table["count"] >= 0).all()
    assert table["count"].sum() == max(0, table["unbiased"].sum())


def test_all_rows_are_one_group_that_reads_as_a_number() -> None:
    table = table_of(sl.Count(epsilon=1, where=col("age") >= 18))
    assert table.count == max(0, table.unbiased)
    exact = sum(age >= 18 for age in columns()["age"])
    assert table.low <= exact <= table.high
    assert table_of(sl.Count(epsilon=1, where="age >= 18")) == table


def test_the_numbers_are_those_of_the_functions_that_the_references_hold() -> None:
    """Drawn towards the prediction by 5.2, then whole and adding up by 2.2, with the intervals of 2.3."""
    predicted = dict(zip(JOBS, [300, 100, 50, 10, 1], strict=True))
    table = table_of(sl.Count(by="job", epsilon="0.05", prediction=predicted))
    y = table["unbiased"]
    scale, cells = 20, 5
    drawn = shrink_counts(y, list(predicted.values()), variance=laplace_variance(scale)).values
    wanted = readable_counts(drawn, y, bound=laplace_bound(scale, cells=cells), source=Source(SeededEntropy(1)))
    assert table["count"].tolist() == wanted.tolist()
    assert (drawn != y).any()
    reach = laplace_bound(scale)
    assert table["high"].tolist() == np.maximum(y + reach, 0).tolist()
    assert table["low"].tolist() == np.maximum(y - reach, 0).tolist()


def test_the_reference_of_the_specification() -> None:
    """R6 through the reading of a table: y, p and v of section 5.2."""
    prediction = read_prediction(dict(zip(JOBS, [100, 50, 33, 25, 20], strict=True)), keys=["job"], names=["count"])
    drawn = CountReading(prediction=prediction).shrunk(
        np.array([120, 60, 35, 30, 10]), [(job,) for job in JOBS], variance=200.0
    )
    assert drawn == pytest.approx([110.942812, 50, 33, 25, 20], abs=1e-6)


def test_an_earlier_release_is_a_prediction_with_its_noise_and_origin(tmp_path: Path) -> None:
    last = seeded_release(sl.Count(by="job", epsilon="0.5"), people(), seed=5)
    now = seeded_release(sl.Count(by="job", epsilon="0.05", prediction=last), people(), seed=6)
    assert isinstance(now, sl.Release)
    assert now.prediction is not None
    assert now.prediction["origin"]["kind"] == "guess"  # no ledger names it
    y, before = now.value["unbiased"], last.value  # type: ignore[union-attr]
    doubt = before["noise_sd"] ** 2 + (0.25 * np.maximum(before["unbiased"], 0)) ** 2
    drawn = shrink_counts(y, before["unbiased"], variance=laplace_variance(20), doubt=doubt).values
    assert (
        now.value["count"].tolist()
        == readable_counts(drawn, y, bound=laplace_bound(20, cells=5), source=Source(SeededEntropy(1))).tolist()
    )


def test_a_ledger_entry_is_named_as_the_origin_and_the_price_is_charged(tmp_path: Path) -> None:
    ledger = sl.open_ledger(tmp_path / "ledger.db", testing=True)
    session = SeededSession(people(), seed=3, ledger=ledger, budget=sl.PureDP(3))
    last = session.release(sl.Count(by="job", epsilon=1))
    now = session.release(sl.Count(by="job", epsilon="0.5", prediction=last))
    assert isinstance(now, sl.Release)
    assert now.prediction is not None
    assert now.prediction["origin"]["entries"] == [last.circumstances.entry_id]
    assert "released before" in str(now)
    assert now.query["prediction"] == now.prediction["sha256"]


def test_predicted_shares_are_scaled_to_the_released_total() -> None:
    shares = sl.Predicted({"cook": 0.7, "nurse": 0.2, "clerk": 0.1, "pilot": 0.0, "judge": 0.0}, shares=True)
    table = table_of(sl.Count(by="job", epsilon="0.05", prediction=shares))
    y = table["unbiased"]
    total = max(0.0, float(y.sum()))
    drawn = shrink_counts(y, total * np.array([0.7, 0.2, 0.1, 0, 0]), variance=laplace_variance(20), fitted=True).values
    assert (
        table["count"].tolist()
        == readable_counts(drawn, y, bound=laplace_bound(20, cells=5), source=Source(SeededEntropy(1))).tolist()
    )


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(st.sampled_from(JOBS), st.floats(-1e6, 1e6), min_size=1),
    st.one_of(st.none(), st.floats(1e-6, 1e6)),
    st.sampled_from([{"epsilon": 1}, {"rho": "0.1"}, {"epsilon": 1, "delta": "1e-6"}]),
)
def test_claims_and_noise_never_depend_on_the_prediction(
    numbers: dict[str, float], doubt: float | None, price: dict[str, Any]
) -> None:
    bare = sl.Count(by="job", **price)
    informed = sl.Count(by="job", prediction=sl.Predicted(numbers, doubt=doubt), **price)
    one, other = (prepare_query(query, people().schema) for query in (bare, informed))
    assert one.claims == other.claims
    assert one.error == other.error
    first, second = table_of(bare), table_of(informed)
    for name in ("unbiased", "noise_sd", "low", "high"):
        assert first[name].tolist() == second[name].tolist()


@pytest.mark.parametrize(
    ("price", "claim"),
    [
        ({"epsilon": 1}, "PureDP(ε = 1)"),
        ({"rho": "0.02"}, "GDP(μ = 0.2)"),
        ({"mu": "0.2"}, "GDP(μ = 0.2)"),
        ({"epsilon": 1, "delta": "1e-6"}, "PureDP(ε = 1)"),
    ],
)
def test_a_price_is_paid_and_no_more(price: dict[str, Any], claim: str) -> None:
    claims = prepare_query(sl.Count(by="job", **price), people().schema).claims
    assert str(claims) == claim


def test_noise_is_the_smaller_of_the_two() -> None:
    person = [sl.PersonId("id", max_rows=20), sl.Category("job", [*JOBS, *map(str, range(400))], other=None)]
    for groups, law in ((3, "laplace"), (9, "gaussian")):
        prepared = prepare_query(sl.Count(by="job", epsilon=1, delta="1e-6", max_groups=groups), sl.Schema(person))
        assert prepared.noise.kind == law  # type: ignore[attr-defined]
    insisted = sl.Count(by="job", epsilon=1, delta="1e-6", max_groups=9, noise="laplace")
    assert prepare_query(insisted, sl.Schema(person)).noise.kind == "laplace"  # type: ignore[attr-defined]


def test_persons_count_once_in_a_group_and_rows_as_often_as_they_may() -> None:
    persons = table_of(sl.Count(by="job", epsilon=50, max_groups=4), visits())
    rows = table_of(sl.Count(by="job", epsilon=50, max_groups=4, of="rows"), visits())
    assert persons["unbiased"].sum() == 150 + 4 * 150
    assert rows["unbiased"].sum() == 1200
    capped = table_of(sl.Count(by="job", epsilon=50, max_groups=1, max_rows_per_group=2), visits())
    assert capped["unbiased"].sum() == 150 * 2 + 150
    everybody = table_of(sl.Count(epsilon=50), visits())
    assert everybody.unbiased == 300
    assert everybody.noise_sd == pytest.approx(math.sqrt(laplace_variance(1 / 50)))


def test_the_error_bound_holds() -> None:
    for price in ({"epsilon": "0.3"}, {"rho": "0.02"}):
        prepared = prepare_query(sl.Count(by="job", **price), people().schema)
        assert prepared.error is not None
        assert prepared.error.unit == "rows"
        bound = float(prepared.error.at(0.99)[0])
        with Source(SeededEntropy(3)) as source:
            worst = [
                np.abs(prepared.run(people(), source).value["unbiased"] - ROWS).max()  # type: ignore[attr-defined]
                for _ in range(400)
            ]
        assert np.mean(np.array(worst) > bound) < 0.05
        assert bound < 3 * np.quantile(worst, 0.99)


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.3, False)])
def test_the_law_of_the_noise(factor: float, right: bool) -> None:
    """20 000 draws of the query have the stated law, and not one with a scale 30 % off."""
    labels = [str(n) for n in range(2000)]
    empty = sl.Table({"c": ["0"]}, schema=[sl.Category("c", labels, other=None)])
    prepared = prepare_query(sl.Count(by="c", epsilon="0.5"), empty.schema)
    with Source(SeededEntropy(11)) as source:
        drawn = np.concatenate([prepared.run(empty, source).value["unbiased"][1:] for _ in range(10)])  # type: ignore
    a = math.exp(-0.5 / factor)
    inner = np.arange(-8, 9)
    law = (1 - a) / (1 + a) * a ** np.abs(inner)
    expected = np.array([*law, 1 - law.sum()]) * len(drawn)
    seen = [*(np.count_nonzero(drawn == k) for k in inner), np.count_nonzero(np.abs(drawn) > 8)]
    assert bool(chisquare(seen, expected).pvalue > 1e-6) is right


def test_intervals_cover_as_often_as_they_say() -> None:
    prepared = prepare_query(sl.Count(by="job", epsilon="0.2", confidence=0.9), people().schema)
    hits = []
    with Source(SeededEntropy(21)) as source:
        for _ in range(300):
            table = prepared.run(people(), source).value  # type: ignore[attr-defined]
            hits.append((table["low"] <= ROWS) & (table["high"] >= ROWS))
    assert np.mean(hits) >= 0.9 - 5 * math.sqrt(0.09 / 1500)


@pytest.mark.parametrize("where", [None, "age >= 200", "job == 'judge'"])
def test_nothing_there_is_a_table_too(where: str | None) -> None:
    nobody = sl.Table({name: values[:0] for name, values in columns().items()}, schema=SCHEMA)
    for table in (nobody, people()) if where else (nobody,):
        found = table_of(sl.Count(by="job", epsilon=1, where=where), table)
        assert found["unbiased"].dtype == found["count"].dtype == np.int64
        assert np.abs(found["unbiased"]).max() < 40
    missing = sl.Table({"job": [None] * 50, "sex": ["F"] * 50, "age": [1.0] * 50}, schema=SCHEMA)
    assert table_of(sl.Count(by="job", epsilon=1), missing)["count"].sum() < 40


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: sl.Count(by="jib", epsilon=1), "not declared"),
        (lambda: sl.Count(by="age", epsilon=1), "public bins"),
        (lambda: sl.Count(by=["job", "job"], epsilon=1), "twice"),
        (lambda: sl.Count(by="job", epsilon=1, where=col("job") == "astronaut"), "astronaut"),
        (lambda: sl.Count(by="job", epsilon=1, where="len(job) > 3"), "len"),
        (lambda: sl.Count(by="job", epsilon=1, of="persons"), "PersonId"),
        (lambda: sl.Count(by="job", epsilon=1, of="people"), "'persons' or 'rows'"),
        (lambda: sl.Count(by="job"), "exactly one of"),
        (lambda: sl.Count(by="job", epsilon=1, rho=1), "exactly one of"),
        (lambda: sl.Count(by="job", epsilon=1, noise="gaussian"), "needs a delta"),
        (lambda: sl.Count(by="job", epsilon=1, confidence=95), "between 0 and 1"),
        (lambda: sl.Count(by="job", epsilon="1e-40"), "between 1e-18 and 1e18"),
        (lambda: sl.Count(by="job", epsilon=1, prediction={"astronaut": 3}), "none of the 5 groups"),
        (lambda: sl.Count(by=["job", "sex"], epsilon=1, prediction={"cook": 3}), "tuples of 2 labels"),
        (
            lambda: sl.Count(by="job", epsilon=1, prediction=pd.DataFrame({"work": ["cook"], "count": [1]})),
            "key column",
        ),
    ],
)
def test_mistakes_are_found_before_anything_is_charged(query: Any, said: str) -> None:
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(query(), people().schema)


def test_a_missing_max_groups_shows_what_it_costs() -> None:
    with pytest.raises(SchemaError, match=r"max_groups = 1: 1\.36; 2: 2\.8; 4: 5\.6"):
        prepare_query(sl.Count(by="job", epsilon=1), visits().schema)


@pytest.mark.parametrize(
    "price", [{"epsilon": 5000}, {"rho": "1e5"}, {"epsilon": "1e-9"}, {"epsilon": 1, "delta": "1e-9"}]
)
@pytest.mark.parametrize("number", [-1e100, 0.0, 1e-300, 1e100])
@pytest.mark.parametrize("rollup", [False, True])
def test_strange_public_numbers_never_fail_after_the_charge(price: dict[str, Any], number: float, rollup: bool) -> None:
    wild = sl.Predicted(dict(zip(JOBS, [number, 1, 2, 3, number], strict=True)), shares=number > 1)
    query = sl.Count(by="job", prediction=wild, rollup=rollup, **price)
    found = table_of(query)
    assert (found["count"] >= 0).all()
    assert all(np.isfinite(found[name]).all() for name in found.columns)
    with pytest.raises(RangeError):
        sl.Count(by="job", epsilon=1, prediction={"cook": 1e101}).prepare(people().schema)


def test_predicted_groups_outside_the_query_are_reported() -> None:
    with pytest.warns(SidelightWarning, match="astronaut"):
        prepare_query(sl.Count(by="job", epsilon=1, prediction={"cook": 1, "astronaut": 2}), people().schema)


def test_the_request_is_json_of_strings() -> None:
    query = sl.Count(by=["job", col("age").cut([18, 65])], where=col("age") >= 18, epsilon="0.3", prediction=None)
    request = prepare_query(query, people().schema).request
    assert request["kind"] == "count"
    assert request["where"] == "age >= 18"
    assert request["epsilon"] == "0.3"

    def texts(value: Any) -> bool:
        return isinstance(value, str) or (isinstance(value, list) and all(map(texts, value)))

    assert all(texts(value) for value in request.values())
    assert json.loads(json.dumps(request)) == request


def test_histograms() -> None:
    table = table_of(sl.Histogram("age", bins=[20, 40], epsilon=50))
    ages = np.array(columns()["age"])
    assert table["unbiased"].tolist() == [(ages < 20).sum(), ((ages >= 20) & (ages < 40)).sum(), (ages >= 40).sum()]
    assert table.keys_of_groups == ("age",)
    equal = table_of(sl.Histogram("age", bins=4, by="sex", epsilon=50))
    assert equal.keys_of_groups == ("sex", "age")
    assert equal["age"][:4] == ["[0, 25)", "[25, 50)", "[50, 75)", "[75, 100]"]
    assert equal["unbiased"].sum() == len(ages)
    predicted = sl.Histogram("age", bins=4, epsilon="0.1", prediction={"[0, 25)": 100, "[25, 50)": 100, "[50, 75)": 99})
    assert table_of(predicted).rows == 4
    kept = prepare_query(sl.Histogram("age", bins=range(0, 101, 5), epsilon=1), people().schema)
    assert kept.request["kind"] == "histogram"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: sl.Histogram("job", bins=4, epsilon=1), "both bounds"),
        (lambda: sl.Histogram("age", bins=[5, 1], epsilon=1), "increas"),
        (lambda: sl.Histogram("age", bins=1000, epsilon=1), "use fewer"),
        (lambda: sl.Histogram("age", bins="auto", epsilon=1), "list of increasing edges"),
        (lambda: sl.Histogram([0, 1], bins=2, epsilon=1), r"sl\.priors\.Histogram"),
        (lambda: sl.Histogram("age", bins=3, outside="clip", epsilon=1), "outside"),
    ],
)
def test_bad_bins_are_refused(query: Any, said: str) -> None:
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(query(), people().schema)


def test_the_same_bits_on_every_engine(tmp_path: Path) -> None:
    data = columns() | {"id": [f"p{place // 3}" for place in range(sum(ROWS))]}
    schema = [sl.PersonId("id", max_rows=3), *SCHEMA]
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table(data), path)
    frame = pd.DataFrame(data)
    frame.to_csv(tmp_path / "people.csv", index=False)
    sources = [data, frame, pl.DataFrame(data), pl.LazyFrame(data), pa.table(data), path, tmp_path / "people.csv",
               duckdb.from_arrow(pa.table(data))]  # fmt: skip
    query = sl.Count(by=["job", col("age").cut([18, 65])], where=col("sex") == "F", rho="0.1", max_groups=2,
                     prediction={("cook", "[18, 65)"): 150})  # fmt: skip
    first, *others = [table_of(query, sl.Table(source, schema=schema)) for source in sources]
    assert all(other == first for other in others)


def test_a_prediction_helps_and_a_wrong_one_does_no_harm() -> None:
    """1000 groups, 10 000 rows, ε = 0.1, five draws: RMSE against raw noise (targets .65, .30 and 1.005)."""
    groups, generator = 1000, np.random.default_rng(7)
    labels = [f"g{place}" for place in range(groups)]
    shape = 1 / np.arange(1, groups + 1)
    off: dict[str, list[float]] = {"raw": [], "default": [], "good": [], "reversed": [], "three times": []}
    for seed in range(5):
        sizes = generator.multinomial(10_000, shape / shape.sum())
        table = sl.Table({"g": np.repeat(labels, sizes)}, schema=[sl.Category("g", labels, other=None)])
        predictions = {"default": None, "good": sizes * np.exp(generator.normal(0, 0.2, groups)),
                       "reversed": sizes[::-1], "three times": 3 * sizes}  # fmt: skip
        for name, numbers in predictions.items():
            told = None if numbers is None else dict(zip(labels, numbers.tolist(), strict=True))
            found = table_of(sl.Count(by="g", epsilon="0.1", prediction=told), table, seed)
            off[name].append(float(np.mean((found["count"] - sizes) ** 2)))
        off["raw"].append(float(np.mean((found["unbiased"] - sizes) ** 2)))
    ratio = {name: math.sqrt(np.mean(errors) / np.mean(off["raw"])) for name, errors in off.items()}
    assert ratio["default"] <= 0.65
    assert ratio["good"] <= 0.30
    assert max(ratio["reversed"], ratio["three times"]) <= 1.005
