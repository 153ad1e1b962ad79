"""`sl.GaussianFit` and `sl.GaussianMean` in the release pipeline: sources, prices, records, mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError, SidelightError, StrictError
from sidelight.testing import seeded_release

RNG = np.random.default_rng(0)
ROWS = RNG.normal([1000, -5, 0.1], [3, 1, 0.05], (4000, 3))
PUBLIC = RNG.normal([1000, -5, 0.1], [3, 1, 0.05], (6, 3))
NAMES = ["a", "b", "c"]


def fit(**settings: Any) -> sl.GaussianFit:
    return sl.GaussianFit(**{"prediction": PUBLIC, "rho": "0.5", **settings})


def released(query: Any, data: Any, seed: int = 1) -> Any:
    return seeded_release(query, data if isinstance(data, sl.Table) else query.table(data), seed=seed)


def test_every_source_gives_the_same(tmp_path: Path) -> None:
    """Arrays of both orders, frames and Parquet."""
    import pandas as pd
    import polars as pl

    frame = pd.DataFrame(ROWS, columns=NAMES)
    frame.to_parquet(tmp_path / "rows.parquet")
    schema = [sl.Number(name) for name in NAMES]
    sources = [ROWS, np.asfortranarray(ROWS), frame, pl.DataFrame(ROWS, schema=NAMES), tmp_path / "rows.parquet"]
    values = [released(fit(), sl.Table(each, schema=schema)).value for each in sources]
    for value in values[1:]:
        np.testing.assert_allclose(value["mean"], values[0]["mean"])
        np.testing.assert_allclose(value["covariance"], values[0]["covariance"])
    assert released(fit(), frame).labels == tuple(NAMES)
    assert released(fit(columns=["c", "a", "b"], prediction=PUBLIC[:, [2, 0, 1]]), frame).labels == ("c", "a", "b")


def test_a_release_can_be_written_and_read() -> None:
    release = released(fit(prediction=sl.PublicData(PUBLIC, "a pilot study")), ROWS)
    again = sl.Release.from_json(release.to_json())
    np.testing.assert_array_equal(again.value["covariance"], release.value["covariance"])
    assert release.kind == "gaussian"
    assert release.prediction["description"] == "6 public rows (public: a pilot study)"
    assert sorted(release.value) == ["covariance", "mean", "noise", "rows", "start", "steps", "weak"]
    assert all(isinstance(entry, str | list) for entry in release.query.values())
    json.dumps(dict(release.query))
    assert "mean" in str(release)
    assert str(released(fit(rho="1e-6"), ROWS)).count("weak")


@pytest.mark.parametrize(
    ("price", "kind", "numerics"),
    [
        ({"rho": "0.5"}, "zcdp", "exact"),
        ({"rho": None, "epsilon": 1}, "pure", "idealized"),
        ({"rho": None, "epsilon": 1, "noise": "laplace"}, "pure", "exact"),
        ({"rho": None, "epsilon": 1, "delta": "1e-6"}, "zcdp", "exact"),
    ],
)
def test_prices(price: dict[str, Any], kind: str, numerics: str) -> None:
    release = released(fit(**price), ROWS)
    assert getattr(release.guarantee, kind)() is not None
    assert release.guarantee.numerics == numerics


def test_the_budget_is_kept_to_the_last_digit() -> None:
    table = fit().table(ROWS)
    session = sl.Session(table, budget=sl.ZCDP("0.5"))
    session.release(fit())
    with pytest.raises(SidelightError, match="budget"):
        session.release(fit(rho="1e-9"))
    pure = sl.Session(table, budget=sl.PureDP(1), strict=True)
    with pytest.raises(StrictError):
        pure.release(fit(rho=None, epsilon=1))
    pure.release(fit(rho=None, epsilon=1, noise="laplace"))


def test_replacing_a_row() -> None:
    release = released(fit(rows=4000), ROWS)
    assert release.value["rows"] == 4000
    assert release.value["noise"]["count"] == 0
    assert release.guarantee.context["neighbours"] is sl.Neighbours.REPLACE
    noisy = released(fit(), ROWS).value["noise"]
    assert release.value["noise"]["covariance"] == pytest.approx(
        noisy["covariance"] * np.sqrt(2 * 0.48 / 0.51), rel=0.02
    )


def test_persons_are_protected_whole() -> None:
    """Three rows a person: three times the noise."""
    person = sl.Table(
        {"id": np.arange(4000) // 3, **dict(zip(NAMES, ROWS.T, strict=True))},
        schema=[sl.PersonId("id", max_rows=3), *(sl.Number(name) for name in NAMES)],
    )
    release, alone = released(fit(), person), released(fit(), ROWS)
    assert release.value["noise"]["covariance"] == pytest.approx(3 * alone.value["noise"]["covariance"], rel=0.05)
    np.testing.assert_allclose(release.value["mean"], [1000, -5, 0.1], atol=0.5)
    assert "person" in str(release.guarantee.context["unit"])
    with pytest.raises(SchemaError, match="persons"):
        released(fit(gap="0.5"), person)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"prediction": None}, "no public rows"),
        ({"prediction": np.empty((0, 3))}, "at least one row"),
        ({"prediction": PUBLIC[:, :2]}, "each of the 3 columns"),
        ({"prediction": [[1.0, np.nan, 2.0], [0.0, 0.0, 0.0]]}, "finite"),
        ({"prediction": [[1.0, np.inf, 2.0], [0.0, 0.0, 0.0]]}, "finite"),
        ({"prediction": [[1e40, 0.0, 2.0], [0.0, 0.0, 0.0]]}, "1e30"),
        ({"prediction": PUBLIC[:1]}, "scale"),
        ({"prediction": np.repeat(PUBLIC[:1], 9, axis=0)}, "scale"),
        ({"prediction": "rows"}, "array of numbers"),
        ({"prediction": fit().table(ROWS)}, "private source"),
        ({"gap": 1}, "below 1"),
        ({"gap": "0.5", "prediction": PUBLIC[:3]}, "4 public rows"),
        ({"gap": "0.5", "prediction": np.repeat(PUBLIC[:2], 9, axis=0)}, "4 public rows"),
        ({"constants": "proven", "prediction": PUBLIC[:3]}, "4 public rows"),
        ({"constants": "best"}, "must be one of its choices"),
        ({"condition": "0.5"}, "condition"),
        ({"scale": 0}, "scale"),
        ({"steps": 3}, "steps"),
        ({"gap": "0.5", "steps": 0}, "steps"),
        ({"rows": 0}, "rows"),
        ({"rho": None}, "price"),
        ({"rho": "1e-12"}, "1e-9"),
        ({"noise": "laplace"}, "noise"),
        ({"mean_bound": 3}, "public rows replace"),
        ({"prediction": None, "mean_bound": 3}, "variance_bound"),
        ({"prediction": None, "mean_bound": 1e30, "variance_bound": 1}, "mean_bound"),
        ({"columns": "abc"}, "list of names"),
        ({"columns": ["a", "b"]}, "each of the 2 columns"),
    ],
)
def test_mistakes_cost_nothing(mistake: dict[str, Any], message: str) -> None:
    session = sl.Session(sl.Table(ROWS, schema=[sl.Number(name) for name in NAMES]), budget=sl.ZCDP(1))
    before = str(session.spent)
    with pytest.raises((RangeError, SchemaError), match=message):
        session.release(fit(**mistake))
    assert str(session.spent) == before


@pytest.mark.parametrize(
    "public",
    [
        np.repeat(PUBLIC[:2], 9, axis=0),  # copies
        np.column_stack([PUBLIC[:, :2], np.ones(6)]),  # a constant column
        PUBLIC[:, [0, 0, 1]],  # a column twice
    ],
)
def test_degenerate_public_rows_give_a_ball(public: np.ndarray) -> None:
    release = released(fit(prediction=public), public[0] + RNG.standard_normal((4000, 3)))
    assert release.value["start"] == "ball"


def test_public_rows_that_contradict_the_condition_are_believed() -> None:
    """Columns in units a thousand times apart: more steps than the declared ratio of variances would take."""
    public = RNG.standard_normal((5, 6)) * [1, 1, 1, 1, 1, 1e-3]
    rows = RNG.standard_normal((20_000, 6)) * [1, 1, 1, 1, 1, 1e-3]
    value = released(fit(prediction=public), rows).value
    np.testing.assert_allclose(value["covariance"][5, 5], 1e-6, rtol=0.2)
    even = released(fit(prediction=RNG.standard_normal((5, 6))), rows).value
    assert even["steps"] < value["steps"]


def test_one_public_row_with_a_scale() -> None:
    release = released(fit(prediction=PUBLIC[0], scale=4), ROWS)
    np.testing.assert_allclose(release.value["mean"], [1000, -5, 0.1], atol=1.0)


def test_known_covariance_and_one_public_row() -> None:
    """The mean by one row, in the metric of the covariance; plain CoinPress needs the range."""
    covariance = np.diag([9, 1, 0.0025])
    query = sl.GaussianMean(prediction=PUBLIC[0], covariance=covariance, rho="0.5")
    found = np.array([released(query, ROWS, seed).value["mean"] for seed in range(5)])
    off = (np.median(found, axis=0) - [1000, -5, 0.1]) / [3, 1, 0.05]
    assert np.abs(off).max() < 0.1
    assert released(query, ROWS).value["steps"] == 2
    near, far = (
        sl.GaussianMean(mean_bound=bound, covariance=covariance, rho="0.5", rows=4000) for bound in (2000, 10**7)
    )
    assert released(near, ROWS).value["noise"]["mean"] < released(far, ROWS).value["noise"]["mean"]


def test_one_shot_and_two_steps() -> None:
    rows, public = RNG.standard_normal((1000, 50)) + 1000, RNG.standard_normal((1, 50)) + 1000
    one, two = (sl.GaussianMean(prediction=public, rho="0.5", rows=1000, steps=steps) for steps in (1, 2))
    value = released(one, rows).value
    assert value["noise"]["mean"] == pytest.approx(2 * 16.924112 / 1000, rel=1e-6)
    assert released(two, rows).value["noise"]["mean"] < 0.75 * value["noise"]["mean"]
    assert np.linalg.norm(value["mean"] - 1000) < 0.7


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"prediction": None}, "exactly one"),
        ({"mean_bound": 3}, "exactly one"),
        ({"covariance": np.eye(2)}, "shape"),
        ({"covariance": np.zeros((3, 3))}, "positive"),
        ({"covariance": [[1, 2, 0], [0, 1, 0], [0, 0, 1]]}, "symmetric"),
        ({"covariance": [[np.nan]]}, "finite"),
        ({"covariance": "x"}, "numbers"),
        ({"chance": 0}, "chance"),
        ({"steps": 99}, "steps"),
        ({"prediction": PUBLIC[:1, :2]}, "columns"),
    ],
)
def test_mistakes_of_a_mean(mistake: dict[str, Any], message: str) -> None:
    with pytest.raises(RangeError, match=message):
        released(sl.GaussianMean(**{"prediction": PUBLIC[:1], "rho": 1, **mistake}), ROWS)


def test_bare_arrays() -> None:
    column = sl.GaussianFit(prediction=[[1.0], [3.0], [2.5]], rho=1).release(RNG.normal(2, 1, (3000, 1)))
    assert column.value["mean"].shape == (1,)
    line = seeded_release(sl.GaussianFit(prediction=[[1.0], [3.0]], rho=1), RNG.normal(2, 1, 3000), seed=1)
    assert line.value["covariance"][0, 0] == pytest.approx(1, abs=0.3)
    with pytest.raises(SchemaError, match="which columns"):
        fit().release([1.0, 2.0])
    with pytest.raises(SchemaError, match="columns"):
        fit(columns=NAMES).declare()


def test_the_prior_keeps_its_name() -> None:
    assert sl.priors.Gaussian(0, 1).__class__.__module__.startswith("sidelight.predictions")
