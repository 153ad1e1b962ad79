"""CASE as groups of SQL, and predictions of its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.testing import seeded_release

SCHEMA = [
    sl.Number("age", lower=0, upper=100, granularity=1),
    sl.Number("weight", lower=0, upper=200),
    sl.Category("job", ["clerk", "cook", "nurse"], other=None),
]
ROWS = {
    "age": np.resize(np.arange(0, 100), 3000),
    "weight": np.resize(np.linspace(10, 120, 300), 3000),
    "job": np.resize(["clerk", "cook", "nurse"], 3000),
}


def answer(statement: str, **more: Any) -> Any:
    table = sl.Table(ROWS, schema=SCHEMA, name="people")
    return seeded_release(sl.SQL(statement, epsilon=more.pop("epsilon", 50), **more), table, seed=1).value


BAND = "CASE WHEN age < 18 THEN 'child' WHEN age BETWEEN 18 AND 64 THEN 'adult' ELSE 'old' END"


@pytest.mark.parametrize("group", ["band", "1", BAND])
def test_a_case_names_groups_by_alias_place_or_itself(group: str) -> None:
    value = answer(f"SELECT {BAND} AS band, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY {group}")
    assert value.keys_of_groups == ("band",)
    found = dict(zip(value["band"], value["n"], strict=True))
    assert found == pytest.approx({"child": 540, "adult": 1410, "old": 1050}, abs=3)
    assert value.row("child")["age"] == pytest.approx(8.5, abs=0.2)


@pytest.mark.parametrize(
    ("case", "truth"),
    [
        ("CASE WHEN job IN ('cook', 'nurse') THEN 'hands' ELSE 'desk' END", {"hands": 2000, "desk": 1000}),
        ("CASE job WHEN 'cook' THEN 'kitchen' END", {"kitchen": 1000}),
        ("CASE WHEN NOT job = 'cook' THEN 'other' END", {"other": 2000}),
        ("CASE WHEN age <= 17 OR age > 64 THEN 'outside' ELSE 'inside' END", {"outside": 1590, "inside": 1410}),
        ("CASE WHEN age = 7 THEN 'seven' END", {"seven": 30}),
        ("CASE WHEN 18 > age THEN 'young' ELSE 'grown' END", {"young": 540, "grown": 2460}),
        ("CASE WHEN age + 1 < 18 THEN 'young' ELSE NULL END", {"young": 510}),
        ("CASE WHEN age < 18 THEN NULL ELSE 'grown' END", {"grown": 2460}),
        ("CASE WHEN job < 'd' THEN 'early' ELSE 'late' END", {"early": 2000, "late": 1000}),
        ("FLOOR(age / 50) * 50", {"0": 1500, "50": 1500, "100": 0}),
        ("age % 2", {"0": 1500, "1": 1500}),
        ("age >= 50", {"false": 1500, "true": 1500}),
        ("UPPER(job)", {"CLERK": 1000, "COOK": 1000, "NURSE": 1000}),
        ("CASE WHEN age < 50 AND job = 'cook' THEN 'a' WHEN job <> 'cook' THEN 'b' END", {"a": 500, "b": 2000}),
        ("age < 50 OR job = 'cook'", {"false": 1000, "true": 2000}),
        ("CASE WHEN weight < 65 THEN 'light' WHEN weight >= 65 THEN 'heavy' END", {"light": 1500, "heavy": 1500}),
    ],
)
def test_conditions_decide_as_sql_does(case: str, truth: dict[str, int]) -> None:
    value = answer(f"SELECT {case} AS k, COUNT(*) AS n FROM people GROUP BY k")
    assert dict(zip(value["k"], value["n"].tolist(), strict=True)) == pytest.approx(truth, abs=2)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "SELECT CASE WHEN age + weight < 18 AND job = 'cook' THEN 'a' END AS k, COUNT(*) FROM people GROUP BY k",
            "compares declared columns with constants",
        ),
        (
            f"SELECT CASE WHEN age IN ({', '.join(map(str, range(0, 99, 2)))}) AND weight < 1 "
            f"{' '.join(f'OR weight < {2 + end}' for end in range(60))} "
            "THEN 'a' END AS k, COUNT(*) FROM people GROUP BY k",
            "4096 combinations",
        ),
        ("SELECT CASE WHEN weight <= 65 THEN 'a' END AS k, COUNT(*) FROM people GROUP BY k", "granularity"),
        ("SELECT CASE WHEN age < 18 THEN 'a' END AS k, COUNT(*) FROM people", "not in GROUP BY"),
    ],
)
def test_other_cases_are_refused_by_name(statement: str, said: str) -> None:
    with pytest.raises(RangeError, match=said):
        sl.SQL(statement, epsilon=1).prepare(sl.Schema(SCHEMA))


def test_a_missing_number_is_in_the_group_of_else() -> None:
    table = sl.Table({**ROWS, "age": np.where(np.arange(3000) % 3, 10.0, np.nan)}, schema=SCHEMA, name="people")
    asked = "SELECT CASE WHEN age < 18 THEN 'child' ELSE 'other' END AS k, COUNT(*) AS n FROM people GROUP BY k"
    value = seeded_release(sl.SQL(asked, epsilon=50), table, seed=1).value
    assert dict(zip(value["k"], value["n"].tolist(), strict=True)) == {"child": 2000, "other": 1000}


def test_numbers_of_a_statement_are_predicted_by_their_names() -> None:
    statement = "SELECT job, COUNT(*) AS n, SUM(age) AS total FROM people GROUP BY job"
    truth = dict.fromkeys(["clerk", "cook", "nurse"], 1000)
    plain, told = (answer(statement, epsilon="0.02", prediction=each)
                   for each in (None, {"n": sl.Predicted(truth, sd=1e-3, origin="register")}))  # fmt: skip
    assert np.abs(told["n"] - 1000).max() < np.abs(plain["n"] - 1000).max()
    assert (told["total"] == plain["total"]).all()
    query = sl.SQL(statement, epsilon=1, prediction={"n": sl.Predicted(truth, origin="register")})
    prepared = query.prepare(sl.Schema(SCHEMA))
    assert prepared.claims == sl.SQL(statement, epsilon=1).prepare(sl.Schema(SCHEMA)).claims
    assert prepared.prediction is not None
    assert "register" in prepared.prediction["description"]
    assert prepared.request != sl.SQL(statement, epsilon=1).prepare(sl.Schema(SCHEMA)).request
    assert "prediction=..." in str(query.translation(sl.Schema(SCHEMA)))
    with pytest.raises(RangeError, match="no query of its own"):
        sl.SQL(statement, epsilon=1, prediction={"m": truth}).prepare(sl.Schema(SCHEMA))
    seeded = seeded_release(sl.Count(by="job", epsilon=1), sl.Table(ROWS, schema=SCHEMA), seed=1)
    branded = sl.SQL(statement, epsilon=1, prediction={"n": seeded}).prepare(sl.Schema(SCHEMA)).prediction
    assert branded is not None
    assert "entropy" in branded


def test_a_case_of_several_columns_is_the_same_on_every_engine() -> None:
    """Missing cells and labels that are not declared go where the logic of three values puts them."""
    import polars as pl

    case = "CASE WHEN age >= 50 AND job = 'cook' THEN 'a' WHEN NOT (age >= 50 OR job = 'nurse') THEN 'b' ELSE 'c' END"
    data = {"age": [60, None, 60, 20, None, 20], "weight": [1.0] * 6, "job": ["cook", "cook", None, "clerk", "x", None]}
    statement = f"SELECT {case} AS k, COUNT(*) AS n FROM people GROUP BY k"
    for rows in (data, pl.DataFrame(data), pl.LazyFrame(data)):
        table = sl.Table(rows, schema=SCHEMA, name="people")
        value = seeded_release(sl.SQL(statement, epsilon=10**6), table, seed=1).value
        assert dict(zip(value["k"], value["n"].tolist(), strict=True)) == {"a": 1, "b": 1, "c": 4}
