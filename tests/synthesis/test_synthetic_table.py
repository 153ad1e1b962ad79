"""`sl.SyntheticTable` through the release pipeline: engines, prices, mistakes, round trips, results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.synthesis import prefixes, ranges
from sidelight.synthesis.domain import Mass
from sidelight.testing import SeededSession, seeded_release

SCHEMA = [
    sl.Category("sex", ["F", "M"], other=None),
    sl.Category("job", ["nurse", "cook", "driver"]),
    sl.Number("age", lower=0, upper=99, granularity=1),
]
BINS = {"age": [0, 18, 40, 65, 100]}
PRICES: list[dict[str, Any]] = [{"rho": "0.5"}, {"epsilon": 2}, {"epsilon": 2, "delta": "1e-6"}]


def people(n: int, *, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n, p=[0.6, 0.4])
    job = np.where(sex == "F", rng.choice(["nurse", "cook"], n), rng.choice(["cook", "driver"], n))
    return {"sex": sex.tolist(), "job": job.tolist(), "age": np.clip(rng.normal(40, 15, n), 0, 99).astype(int)}


DATA = people(3000)


def table_of(data: Any = DATA) -> sl.Table:
    return sl.Table(data, schema=SCHEMA)


def made(data: Any = DATA, **given: Any) -> sl.Synthetic:
    given = {"bins": BINS, "rho": 1, **given}
    return sl.Synthetic(seeded_release(sl.SyntheticTable(**given), table_of(data), seed=1))


def truth(first: str, second: str) -> np.ndarray:
    import pandas as pd

    frame = pd.DataFrame(DATA)
    frame["age"] = pd.cut(frame["age"], BINS["age"], right=False, labels=False)
    return np.asarray(pd.crosstab(frame[first], frame[second], normalize=True))


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("rows", [None, 3000])
def test_a_release_is_close_to_the_truth_and_claims_its_price(price: dict[str, Any], rows: int | None) -> None:
    query = sl.SyntheticTable(bins=BINS, rows=rows, **price)
    release = seeded_release(query, table_of(), seed=5)
    synthetic = sl.Synthetic(release)
    found = synthetic.answer(["sex", "job"])
    assert not isinstance(found, list)
    cook_driver_nurse = found.shares[:, [1, 2, 0]]  # as crosstab sorts them
    assert np.abs(cook_driver_nurse - truth("sex", "job")).sum() < 0.05
    assert abs(synthetic.rows - 3000) < 60
    assert rows is None or synthetic.rows == 3000
    kind = sl.Neighbours.ADD_REMOVE if rows is None else sl.Neighbours.REPLACE
    assert release.guarantee.neighbours is kind
    if "rho" in price:
        assert release.guarantee.zcdp() == sl.ZCDP("0.5", neighbours=kind)
    elif "delta" in price:
        assert release.guarantee.implies(sl.ApproxDP(2, "1e-6", neighbours=kind))
    else:
        assert release.guarantee.pure() == sl.PureDP(2, neighbours=kind)


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("rows", [None, 3000])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_no_number_of_rounds_costs_more_than_the_claim(price: dict[str, Any], rows: int | None, rounds: int) -> None:
    prepared = sl.SyntheticTable(bins=BINS, rows=rows, rounds=rounds, **price).prepare(sl.Schema(SCHEMA))
    for claim in prepared.claims:
        assert prepared.plan.claims.implies(claim)
        cheaper = {"rho": "0.4"} if "rho" in price else {**price, "epsilon": 1}
        other = sl.SyntheticTable(bins=BINS, rows=rows, rounds=rounds, **cheaper).prepare(sl.Schema(SCHEMA))
        assert not prepared.plan.claims.implies(next(iter(other.claims)))  # a smaller claim would be wrong


def test_the_same_rows_give_the_same_release_on_every_engine(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    frame = pl.DataFrame({name: list(cells) for name, cells in DATA.items()})
    frame.write_csv(tmp_path / "people.csv")
    frame.write_parquet(tmp_path / "people.parquet")
    sources = [pd.DataFrame(DATA), frame, frame.lazy(), frame.to_arrow(), tmp_path / "people.csv"]
    sources.append(tmp_path / "people.parquet")
    assert isinstance(sources[3], pa.Table)
    values = [made(source).release.value["distribution"]["units"] for source in sources]
    assert len(set(values)) == 1


def test_a_release_survives_json_to_the_last_row() -> None:
    synthetic = made()
    again = sl.Synthetic(sl.Release.from_json(synthetic.release.to_json()))
    assert again.table().equals(synthetic.table())
    assert again.answer(["sex"]).counts.tolist() == synthetic.answer(["sex"]).counts.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_table_has_the_schema_of_the_private_one(library: Any) -> None:
    table = made().table(500, library=library)
    names = table.column_names if library == "pyarrow" else list(table.columns)
    assert names == ["sex", "job", "age"]
    assert len(table) == 500
    if library == "pandas":
        assert list(table["job"].cat.categories) == ["nurse", "cook", "driver", "other"]
        assert table["age"].dtype == np.int64
    if library == "polars":
        assert table["job"].dtype.categories.to_list() == ["nurse", "cook", "driver", "other"]
        assert str(table["age"].dtype) == "Int64"
    ages = np.asarray(table["age"])
    assert ages.min() >= 0
    assert ages.max() <= 99


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_like_copies_types_and_order_of_a_public_frame(library: str) -> None:
    import pandas as pd
    import polars as pl

    synthetic = made()
    frame = pl.DataFrame(
        {"age": [1, 2], "job": ["cook", "other"], "sex": ["F", "M"]}, schema_overrides={"age": pl.Int16}
    )
    like: Any = {"polars": frame, "pyarrow": frame.to_arrow(), "pandas": None}[library]
    if library == "pandas":
        like = pd.DataFrame({"age": np.array([1], np.int16), "job": ["cook"], "sex": pd.Categorical(["M"], ["M", "F"])})
    table = synthetic.table(200, like=like)
    assert type(table) is type(like)
    if library == "pyarrow":
        assert table.schema.equals(like.schema)
    elif library == "polars":
        assert table.schema == like.schema
    else:
        assert table.dtypes.equals(like.dtypes)


def test_tables_of_whole_number_labels_keep_them() -> None:
    import pandas as pd

    table = sl.Table({"code": [1, 2] * 200}, schema=[sl.Category("code", [1, 2], other=None)])
    release = seeded_release(sl.SyntheticTable(sl.marginals(1), epsilon=5), table, seed=2)
    found = sl.Synthetic(release).table(like=pd.DataFrame({"code": [1]}))
    assert found["code"].dtype == np.int64
    assert set(found["code"]) == {1, 2}


def test_missing_cells_come_back_missing_where_they_are_kept() -> None:
    data = {"age": [20.0, np.nan] * 1000, "sex": ["F", None] * 1000}
    schema = [sl.Number("age", lower=0, upper=99, granularity=1), sl.Category("sex", ["F", "M"])]
    query = sl.SyntheticTable(bins=BINS, missing=["age", "sex"], rho=1)
    release = seeded_release(query, sl.Table(data, schema=schema), seed=3)
    table = sl.Synthetic(release).table()
    assert abs(table["age"].isna().mean() - 0.5) < 0.05
    assert (table["age"].isna() == table["sex"].isna()).mean() > 0.95


def test_unknown_categories_go_to_other_and_nothing_in_a_row_raises() -> None:
    odd = {
        "sex": ["F", "X", None, "M"] * 300,
        "job": ["pilot", None, "", "cook"] * 300,
        "age": [float("inf"), float("nan"), -1e300, 5.0] * 300,
    }
    synthetic = made(odd)
    found = synthetic.answer(["job"])
    assert not isinstance(found, list)
    assert abs(found.shares[3] - 1 / 2) < 0.1  # a pilot and a cook count; the others miss what may not be missing


@pytest.mark.parametrize("size", [0, 1])
def test_tiny_tables_release_something(size: int) -> None:
    data = {name: list(cells)[:size] for name, cells in DATA.items()}
    if not size:
        data["age"] = np.empty(0)
    assert len(made(data).table(10)) == 10


def test_a_public_table_as_prediction_and_its_place_in_the_release() -> None:
    import pandas as pd

    synthetic = made(prediction=sl.PublicData(pd.DataFrame(people(500, seed=9)), "survey of 2020"))
    told = synthetic.release.prediction
    assert told is not None
    assert told["origin"] == {"kind": "public", "description": "survey of 2020"}
    assert "500 public rows" in told["description"]


def test_an_earlier_release_and_weights_as_predictions() -> None:
    earlier = made()
    later = made(prediction=earlier.release)
    assert later.release.prediction is not None
    weights = np.ones((2, 4, 4))
    assert made(prediction=weights, trust=0.5).release.prediction is not None
    assert made(prediction=[earlier.release, later]).release.prediction is not None


def test_a_sequence_through_a_ledger_names_the_entry_it_learned_from() -> None:
    session = SeededSession(table_of(), seed=4, budget=sl.ZCDP(3))
    first = session.release(sl.SyntheticTable(bins=BINS, rho=1))
    second = session.release(sl.SyntheticTable(bins=BINS, rho=1, prediction=first))
    assert isinstance(second, sl.Release)


@pytest.mark.parametrize("engine", ["mwem", "support", "marginals"])
def test_every_engine_makes_a_table(engine: Any) -> None:
    import pandas as pd

    given: dict[str, Any] = {"engine": engine}
    if engine == "support":
        given["prediction"] = pd.DataFrame(people(400, seed=8))
    synthetic = made(**given)
    assert len(synthetic.table()) == round(synthetic.rows)
    assert bool(synthetic.measurements) == (engine != "mwem")
    assert synthetic.release.query["engine"] == engine
    if engine == "support":
        assert synthetic.mass.support is not None
        assert isinstance(synthetic.missed, list)


@pytest.mark.parametrize("engine", ["auto", "support"])
def test_a_huge_domain_lives_on_the_support_of_public_rows(engine: Any) -> None:
    rng = np.random.default_rng(3)
    names = [f"c{place}" for place in range(12)]
    schema = [sl.Category(name, range(10), other=None) for name in names]  # 1e12 cells

    def draw(n: int) -> dict[str, Any]:
        hidden = rng.integers(0, 5, n)
        return {name: (hidden * 2 + rng.integers(0, 2, n)).astype(int) for name in names}

    import pandas as pd

    known = pd.DataFrame(draw(300))
    query = sl.SyntheticTable(sl.marginals(2, names[:4]), rho=1, prediction=known, engine=engine)
    synthetic = sl.Synthetic(seeded_release(query, sl.Table(draw(2000), schema=schema), seed=1))
    assert synthetic.release.query["engine"] == ("support" if engine == "support" else "loglinear")
    assert list(synthetic.table(5).columns) == names
    found = synthetic.answer(["c0", "c1"])
    assert not isinstance(found, list)
    apart = found.shares.reshape(5, 2, 5, 2).sum(axis=(1, 3))
    assert np.trace(apart) > 0.9  # the hidden value ties the columns together


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workload": sl.marginals(2, ["sex", "height"])}, "height"),
        ({"columns": ["sex", "height"]}, "height"),
        ({"bins": {"weight": [1, 2]}}, "weight"),
        ({"bins": {"age": [0, 5, 5]}}, "must increase"),
        ({"bins": {"sex": [0, 1]}}, "has labels, not bins"),
        ({"missing": ["weight"]}, "weight"),
        ({"columns": ["sex", "sex"]}, "each column once"),
        ({"columns": ["sex", "job"]}, "not among the columns"),
        ({"prediction": np.ones(3)}, "another domain"),
        ({"prediction": {"sex": ["F"]}}, "a prediction is"),
        ({"engine": "support"}, "there are none"),
        ({"workload": sl.marginals(4)}, "as many columns"),
        ({"trust": 2.0}, "trust"),
    ],
)
def test_mistakes_are_found_before_any_charge(given: dict[str, Any], message: str) -> None:
    session = sl.Session(table_of(), budget=sl.ZCDP(1))
    with pytest.raises((RangeError, SchemaError), match=message):
        session.release(sl.SyntheticTable(**{"bins": BINS, "rho": 1, **given}))
    assert session.remaining == sl.Session(table_of(), budget=sl.ZCDP(1)).remaining


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rho": 1, "epsilon": 1}, "exactly one"),
        ({"workload": 2, "rho": 1}, "workload must be"),
        ({"engine": "gan", "rho": 1}, "must be one of its choices"),
        ({"rounds": 0, "rho": 1}, "rounds must be"),
        ({"rows": 1.5, "rho": 1}, "rows must be"),
        ({"columns": "sex", "rho": 1}, "list of names"),
        ({"bins": [1, 2], "rho": 1}, "bins maps names"),
    ],
)
def test_mistakes_that_need_no_schema_are_found_at_once(given: dict[str, Any], message: str) -> None:
    with pytest.raises(RangeError, match=message):
        sl.SyntheticTable(**given)


def test_a_public_frame_of_other_columns_or_a_release_on_another_domain_is_refused() -> None:
    import pandas as pd

    with pytest.raises(SchemaError, match="other columns than the release"):
        made(prediction=pd.DataFrame({"sex": ["F"]}))
    other = made(bins={"age": [0, 50, 100]})
    with pytest.raises(RangeError, match="another domain"):
        made(prediction=other.release)
    with pytest.raises(RangeError, match="private source"):
        made(prediction=table_of())


def test_a_domain_that_is_too_large_says_how_large_and_what_to_use() -> None:
    schema = [sl.Category(f"c{place}", range(10), other=None) for place in range(8)]
    query = sl.SyntheticTable(rho=1, engine="marginals")
    with pytest.raises(RangeError, match=r"1e\+08 cells.*engine='loglinear'"):
        query.prepare(sl.Schema(schema))


def test_answers_agree_with_brute_force_and_carry_errors() -> None:
    synthetic = made()
    table = synthetic.mass.units.reshape(2, 4, 4) / synthetic.mass.total * synthetic.rows
    pair = synthetic.answer(["job", "age"])
    assert not isinstance(pair, list)
    assert np.allclose(pair.counts, table.sum(axis=0))
    below = synthetic.answer(prefixes("age"))
    between = synthetic.answer(ranges("age"))
    assert not isinstance(below, list)
    assert not isinstance(between, list)
    ages = table.sum(axis=(0, 1))
    assert np.allclose(below.counts, np.cumsum(ages)[:-1])
    first, last = np.triu_indices(4)
    assert np.allclose(between.counts, [ages[a : b + 1].sum() for a, b in zip(first, last, strict=True)])
    measured, width = noisy_of(synthetic, ("age",))
    apart = below.counts - np.cumsum(measured)[:-1]
    assert np.allclose(below.errors, np.hypot(width * np.sqrt([1, 2, 3]), apart))
    both = synthetic.answer(sl.marginals(1, ["sex"]) + prefixes("age"))
    assert isinstance(both, list)


def noisy_of(synthetic: sl.Synthetic, columns: tuple[str, ...]) -> tuple[Any, float]:
    """Return the noisy counts of some columns over all measured marginals, and the deviation of a cell, by hand."""
    sums, information = 0.0, 0.0
    for each in synthetic.measurements:
        if set(columns) <= set(each.columns):
            rest = tuple(place for place, name in enumerate(each.columns) if name not in columns)
            summed = np.sum(each.values, axis=rest)
            weight = 1 / (each.deviation**2 * np.size(each.values) / np.size(summed))
            sums, information = sums + weight * summed, information + weight
    return sums / information, information**-0.5


def test_errors_are_the_noise_that_was_added_and_how_far_the_fit_left_it() -> None:
    synthetic = made(rounds=3)
    for each in synthetic.measurements:
        for columns in [each.columns, *((name,) for name in each.columns)]:
            found = synthetic.answer(columns)
            assert not isinstance(found, list)
            noisy, deviation = noisy_of(synthetic, columns)
            assert np.allclose(found.errors, np.hypot(deviation, found.counts - noisy))
    one = made(rounds=1)
    unmeasured = [line for line in one.report(sl.marginals(2)) if line["basis"] == "model-based"]
    measured = one.report()
    assert len(unmeasured) == 2
    assert len(measured) == 1
    answer = one.answer(measured[0]["columns"])
    assert not isinstance(answer, list)
    assert answer.errors is not None
    assert measured[0]["noise_deviation"] == pytest.approx(one.measurements[0].deviation)
    expected = np.sqrt(2 / np.pi) * answer.errors.sum() / (2 * one.rows)
    assert measured[0]["expected_error"] == pytest.approx(expected)


def test_writing_csv_and_parquet(tmp_path: Path) -> None:
    import polars as pl

    synthetic = made()
    synthetic.write(tmp_path / "out.csv", rows=40)
    synthetic.write(tmp_path / "out.parquet", rows=40, library="polars")
    assert pl.read_csv(tmp_path / "out.csv").shape == (40, 3)
    assert pl.read_parquet(tmp_path / "out.parquet")["age"].to_list() == synthetic.table(40)["age"].tolist()
    with pytest.raises(RangeError, match="ends in"):
        synthetic.write(tmp_path / "out.xlsx")


def test_the_released_type_never_depends_on_the_private_frame() -> None:
    """pandas turns whole numbers into floats when a cell is missing: the synthetic type must not tell."""
    whole = made({**DATA, "age": np.asarray(DATA["age"])}).table(5)
    holed = made({**DATA, "age": [None, *list(DATA["age"])[1:]]}).table(5)
    assert (whole.dtypes == holed.dtypes).all()
    assert "float" not in str(made({**DATA, "age": [None, *list(DATA["age"])[1:]]}).release.value["columns"])


def test_a_person_with_many_rows_is_protected_as_a_whole() -> None:
    data = {**DATA, "who": [place // 3 for place in range(3000)]}
    schema = [*SCHEMA, sl.PersonId("who", max_rows=3)]
    query = sl.SyntheticTable(bins=BINS, rho=1, rounds=3)
    capped = query.prepare(sl.Schema(schema)).plan
    plain = query.prepare(sl.Schema(SCHEMA)).plan
    assert capped.deviation == pytest.approx(3 * plain.deviation, rel=1e-6)  # type: ignore[union-attr]
    release = seeded_release(query, sl.Table(data, schema=schema), seed=1)
    assert list(sl.Synthetic(release).table(3).columns) == ["sex", "job", "age"]
    assert "who" not in str(release.value["columns"])  # no key comes back


def test_mass_holds_no_exact_count() -> None:
    """Two releases of the same rows differ: nothing in the value is a function of the rows alone."""
    query = sl.SyntheticTable(bins=BINS, rho=1)
    first, second = (sl.Synthetic(seeded_release(query, table_of(), seed=seed)) for seed in (1, 2))
    assert isinstance(first.mass, Mass)
    assert first.mass.units.tolist() != second.mass.units.tolist()
    assert first.rows != second.rows or first.measurements[0].values.tolist() != second.measurements[0].values.tolist()


def test_columns_come_back_in_the_order_they_were_asked_for() -> None:
    asked = ["age", "sex"]
    table = sl.Table(DATA, schema=SCHEMA)
    query = sl.SyntheticTable(sl.marginals(1), columns=asked, bins=BINS, rho=1)
    release = seeded_release(query, table, seed=5)
    assert list(sl.Synthetic(release).table(3).columns) == asked
