"""Tables say which rows they are about, which means are pooled, and misspelt names come first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.report import Item, Report, render
from sidelight.session import release_once
from sidelight.testing import SeededEntropy

DISTRICTS = [f"D{place}" for place in range(9)]
PERSON = sl.PersonId("id", max_rows=3)
SCHEMA = [PERSON, sl.Category("district", DISTRICTS, other=None), sl.Number("fee", lower=0, upper=1)]
DRAW = np.random.default_rng(3)
TABLE = sl.Table(
    {
        "id": [f"p{row // 4}" for row in range(2000)],
        "district": DRAW.choice(DISTRICTS, 2000),
        "fee": DRAW.random(2000),
    },
    schema=SCHEMA,
    name="visits",
)
LIMITS = {"by": "district", "max_groups": 2, "epsilon": 0.3}
CAPPED = "at most 3 rows of a person, in at most 2 groups"


def released(query: object, table: sl.Table = TABLE) -> sl.Release:
    found = release_once(query, table, entropy=SeededEntropy("rows"))  # type: ignore[arg-type]
    assert isinstance(found, sl.Release)
    return found


def page(release: sl.Release) -> str:
    return render(Report(title="x", day="2026-01-01", items=(Item(title="y", outcome=release),)))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (sl.Count(of="rows", **LIMITS), CAPPED),
        (sl.Count(**LIMITS), "each person once, in at most 2 groups"),
        (sl.Count(epsilon=1), "each person once"),
        (sl.Mean("fee", **LIMITS), CAPPED),
        (sl.StandardDeviation("fee", **LIMITS), CAPPED),
        (sl.Sum("fee", max_rows_per_group=3, **LIMITS), CAPPED),
        (sl.Quantiles([0.5], column="fee", **LIMITS), CAPPED),
        (sl.Quantiles([0.5], column="fee", epsilon=1), "at most 3 rows of a person"),
        (sl.SQL("SELECT district, COUNT(*) FROM visits GROUP BY district", epsilon=1, max_groups=2), CAPPED),
        (sl.SQL("SELECT district, SUM(fee), AVG(fee) FROM visits GROUP BY district", epsilon=1, max_groups=2), CAPPED),
    ],
    ids=lambda each: type(each).__name__,
)
def test_every_table_and_the_report_name_the_rows_that_count(query: object, words: str) -> None:
    release = released(query)
    assert release.rows_counted is not None
    assert words in release.rows_counted
    assert words in str(release)
    assert words in release._repr_html_()
    assert words in page(release)
    assert words in str(release.to_dict()["rows_counted"])
    assert sl.Release.from_json(release.to_json()).rows_counted == release.rows_counted
    assert "holds the true number" not in page(release)


def test_rows_without_persons_have_no_caps() -> None:
    table = sl.Table({"fee": [0.5] * 10}, schema=[sl.Number("fee", lower=0, upper=1)])
    assert released(sl.Count(epsilon=1), table).rows_counted is None


def test_pooled_means_are_said_and_rounded_alike() -> None:
    release = released(sl.Mean("fee", **LIMITS))
    table = release.value
    nearer = abs(table["mean"] - table["mean"].mean()) < abs(table["mean"] - table["mean_plain"])
    assert table["pooled"].any()
    assert table["pooled"].tolist() == nearer.tolist()  # all are drawn to one number here
    assert "pooled: the number is mostly the mean of all groups" in str(release)
    html = page(release)
    assert "Pooled: yes" in html
    assert html.count('data-title="pooled">yes<') == int(table["pooled"].sum())
    shown = {row.split("</td>")[0] for row in html.split('<td data-title="mean">')[1:]}
    assert len(shown) == 1 == len({round(each, 12) for each in table["mean"].tolist()})


def test_large_groups_are_not_pooled() -> None:
    table = sl.Table(
        {"district": np.repeat(DISTRICTS, 2000), "fee": np.repeat(np.linspace(0, 1, 9), 2000)}, schema=SCHEMA[1:]
    )
    release = released(sl.Mean("fee", by="district", epsilon=5), table)
    assert not release.value["pooled"].any()
    assert "Pooled" not in page(release)


def test_groups_without_support_are_said_in_the_report() -> None:
    table = sl.Table({"district": ["D0"] * 2000, "fee": [0.5] * 2000}, schema=SCHEMA[1:])
    release = released(sl.Mean("fee", by="district", epsilon=1), table)
    assert not release.value["supported"].all()
    assert "Supported: no" in page(release)
    sql = released(sl.SQL('SELECT district, AVG(fee) FROM "t" GROUP BY district', epsilon=1), table)
    assert sql.value["supported"].dtype == bool
    assert "Supported: no" in page(sql)


@pytest.mark.parametrize(
    "query",
    [
        sl.Count(by="distrikt", epsilon=1),
        sl.Count(by=["district", "distrikt"], rollup=True, epsilon=1),
        sl.Count(by=sl.col("distrikt").lookup({"D0": "a"}, default="b"), epsilon=1),
        sl.Count(by="district", where="distrikt == 'D1'", epsilon=1),
        sl.CountDistinct("distrikt", by="district", epsilon=1),
        sl.Histogram("fee", bins=[0, 1], by="distrikt", epsilon=1),
        sl.Sum("fee", by="distrikt", epsilon=1),
        sl.Mean(["fee", "distrikt"], by="district", epsilon=1),
        sl.Proportion("fee > 0.5", by="distrikt", epsilon=1),
        sl.Variance("fee", by="distrikt", epsilon=1),
        sl.Summary("fee", by="distrikt", epsilon=1),
        sl.Quantiles([0.5], column="fee", by="distrikt", epsilon=1),
        sl.SQL("SELECT distrikt, COUNT(*) FROM visits GROUP BY distrikt", epsilon=1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_misspelt_name_comes_before_any_question(query: sl.Count) -> None:
    with pytest.raises(sl.errors.SchemaError, match="'distrikt' is not declared; did you mean 'district'"):
        query.release(TABLE)


@pytest.mark.parametrize("price", [{"epsilon": 1}, {"epsilon": 20}, {"rho": "0.1"}])
@pytest.mark.parametrize(("ones", "rows"), [(1, 2), (1, 3), (2, 4), (10, 20), (100, 200), (240, 500), (1, 20), (3, 3)])
def test_spreads_of_two_values_are_covered(ones: int, rows: int, price: dict[str, Any]) -> None:
    """Of half zeros and half ones the variance is the largest there is, of a sample more than of a population."""
    values = np.repeat([1.0, 0.0], [ones, rows - ones])
    labels = [f"g{place}" for place in range(400)]
    table = sl.Table(
        {"g": np.repeat(labels, rows), "x": np.tile(values, 400)},
        schema=[sl.Category("g", labels, other=None), sl.Number("x", lower=0, upper=1, granularity=1)],
    )
    for kind in (sl.StandardDeviation, sl.Variance):
        for ddof in (0, 1):
            found = released(kind("x", by="g", ddof=ddof, **price), table).value
            true = values.std(ddof=ddof) if kind is sl.StandardDeviation else values.var(ddof=ddof)
            missed = (found["low"] > true + 1e-6) | (found["high"] < true - 1e-6)
            assert missed.sum() <= 45  # more have a probability below 1e-6 at 95 %
            shown = found["sd" if kind is sl.StandardDeviation else "variance"]
            assert ((found["low"] <= shown) & (shown <= found["high"])).all()


def test_standard_deviations_are_covered() -> None:
    """400 groups with the same skewed, rounded rows: more than 45 misses at 95 % have probability below 1e-6."""
    values = np.minimum(np.round(np.random.default_rng(1).exponential(8, 150)), 100)
    labels = [f"g{place}" for place in range(400)]
    table = sl.Table(
        {"g": np.repeat(labels, 150), "x": np.tile(values, 400)},
        schema=[sl.Category("g", labels, other=None), sl.Number("x", lower=0, upper=100)],
    )
    for price in ({"epsilon": 1}, {"rho": 0.1}):
        found = released(sl.StandardDeviation("x", by="g", **price), table).value
        for name, true in (("", values.std(ddof=1)), ("mean_", values.mean()), ("count_", 150)):
            missed = (found[f"{name}low"] > true + 0.001) | (found[f"{name}high"] < true - 0.001)
            assert missed.sum() <= 45
        assert np.median(found["high"] - found["low"]) < 40  # it says something
