"""`sl.Covariance` through the release pipeline: engines, prices, options, mistakes, round trips and laws."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.covariance import Choice, PredictedMatrix, correlation, nearest_covariance
from sidelight.errors import BudgetError, RangeError, SchemaError, SidelightError, StrictError
from sidelight.predictions.origin import public
from sidelight.testing import SeededSession, seeded_release


def rows_of(n: int, d: int, *, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spectrum = 1 / np.arange(1.0, d + 1)
    rows = rng.standard_normal((n, d)) * np.sqrt(0.64 * spectrum / spectrum.sum())
    return rows * np.minimum(1, 1 / np.linalg.norm(rows, axis=1))[:, None]


def table_of(rows: np.ndarray) -> sl.Table:
    return sl.Table(rows, schema=[sl.Number(f"x{place}") for place in range(rows.shape[1])])


ROWS = rows_of(2000, 6)
TRUTH = ROWS.T @ ROWS / len(ROWS)
PRICES: list[dict[str, Any]] = [
    {"rho": "0.5"},
    {"epsilon": 1},
    {"epsilon": 1, "noise": "laplace"},
    {"epsilon": 1, "delta": "1e-6"},
]


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("rows", [None, 2000])
def test_releases_are_near_the_truth_within_their_bound(price: dict[str, Any], rows: int | None) -> None:
    release = seeded_release(sl.Covariance(radius=1, rows=rows, **price), table_of(ROWS), seed=1)
    assert isinstance(release, sl.Release)
    error = np.abs(np.linalg.eigvalsh(release.value["matrix"] - TRUTH)).max()
    assert error <= release.error_bound(0.999)[0]
    assert np.linalg.eigvalsh(release.value["matrix"]).min() >= -1e-12
    np.testing.assert_array_equal(release.value["matrix"], release.value["matrix"].T)
    np.testing.assert_array_equal(release.value["noisy"], release.value["noisy"].T)
    assert release.labels == ("x0", "x1", "x2", "x3", "x4", "x5")
    assert sl.outcome_from_json(release.to_json()) == release
    assert "covariance" in release._repr_html_()
    assert "operator norm" in str(release)


@pytest.mark.parametrize("rows", [0, True, 1000.0, float("nan"), float("inf"), 2**300])
def test_a_public_number_of_rows_is_a_whole_number(rows: Any) -> None:
    with pytest.raises(RangeError, match="the public number of rows, must be a whole number"):
        sl.Covariance(radius=1, rho="0.5", rows=rows)


def test_price_is_what_was_asked_for_and_no_more() -> None:
    table = table_of(ROWS)
    zcdp = sl.Covariance(radius=1, rho="0.5").prepare(table.schema).claims.zcdp()
    assert zcdp is not None
    assert Fraction(1, 2) * Fraction(999_999, 1_000_000) < zcdp.rho <= Fraction(1, 2)
    pure = sl.Covariance(radius=1, epsilon=1).prepare(table.schema)
    assert pure.claims.pure() is not None
    assert pure.claims.pure().epsilon == 1  # type: ignore[union-attr]
    assert pure.numerics == "idealized"
    assert sl.Covariance(radius=1, epsilon=1, noise="laplace").prepare(table.schema).numerics == "exact"
    swap = sl.Covariance(radius=1, rho="0.5", rows=2000).prepare(table.schema).claims
    assert swap.neighbours is sl.Neighbours.REPLACE
    approx = sl.Covariance(radius=1, epsilon=1, delta="1e-6").prepare(table.schema).claims.approx_at("1e-6")
    assert approx is not None
    assert approx.epsilon <= 1


def test_noise_scales_of_the_reference() -> None:
    schema = table_of(rows_of(2, 10)).schema
    gauss = sl.Covariance(radius=1, rho="0.5", rows=1000).prepare(schema)
    assert gauss.plan.noise_scale(1000) == pytest.approx(0.00141421, rel=1e-5)
    wishart = sl.Covariance(radius=1, epsilon=1, rows=1000).prepare(schema)
    assert wishart.plan.noise_scale(1000) == pytest.approx(0.0066332, rel=1e-5)
    added = sl.Covariance(radius=1, rho="0.5").prepare(schema)
    assert added.plan.noise_scale(1) == pytest.approx(1 / math.sqrt(2 * 0.5 * 0.97), rel=1e-9)
    assert sl.Covariance(radius=3, rho="0.5").prepare(schema).plan.noise_scale(1) == pytest.approx(
        9 * added.plan.noise_scale(1)
    )


def test_every_engine_gives_the_same_release(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl

    names = ["a", "b", "c"]
    rows = ROWS[:200, :3]
    frame = pd.DataFrame(rows, columns=names)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    pl.DataFrame(rows, schema=names).write_parquet(tmp_path / "rows.parquet")
    sources = [
        rows,
        frame,
        pl.DataFrame(rows, schema=names),
        tmp_path / "rows.parquet",
        tmp_path / "rows.csv",
        {name: rows[:, place] for place, name in enumerate(names)},
    ]
    query = sl.Covariance(names, radius=1, rho="0.5")
    schema = [sl.Number(name) for name in names]
    found = [seeded_release(query, sl.Table(source, schema=schema), seed=3).value["noisy"] for source in sources]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


def test_a_frame_or_an_array_by_itself() -> None:
    import pandas as pd

    frame = pd.DataFrame(ROWS[:, :2], columns=["a", "b"])
    assert sl.Covariance(radius=1, rho=1).release(frame).labels == ("a", "b")
    assert sl.Covariance(["b"], radius=1, rho=1).release(frame).value["matrix"].shape == (1, 1)
    assert sl.Covariance(radius=1, epsilon=1).release(ROWS[:, :1]).guarantee.pure() is not None
    with pytest.raises(SchemaError, match="which columns"):
        sl.Covariance(radius=1, rho=1).release([[1.0, 2.0]])


@pytest.mark.parametrize("method", ["denoise", "gauss"])
def test_zero_rows_and_fewer_rows_than_columns(method: Any) -> None:
    guess = np.diag([0.3, 0.2, 0.1, 0.1, 0.1, 0.1])
    for price in PRICES:
        query = sl.Covariance(radius=1, prediction=guess, method=method, **price)
        empty = seeded_release(query, table_of(np.empty((0, 6))), seed=5)
        assert isinstance(empty, sl.Release)
        assert empty.guarantee == seeded_release(query, table_of(ROWS[:3]), seed=5).guarantee
        if method == "denoise":
            np.testing.assert_array_equal(empty.value["matrix"], guess)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"radius": 0, "rho": 1}, "radius must be positive"),
    ({"radius": -1, "rho": 1}, "radius must not be negative"),
    ({"radius": 1}, "price"),
    ({"radius": 1, "rho": 1, "epsilon": 1}, "price"),
    ({"radius": 1, "rho": 0}, "rho"),
    ({"radius": 1, "rho": 1, "delta": 0.1}, "delta"),
    ({"radius": 1, "rho": 1, "method": "denoize"}, "did you mean 'denoise'"),
    ({"radius": 1, "rho": 1, "noise": "wishart"}, "for this price"),
    ({"radius": 1, "epsilon": 1, "noise": "goe"}, "for this price"),
    ({"radius": 1, "epsilon": 1, "noise": "gumbel"}, "must be one of its choices"),
    ({"radius": 1, "rho": 1, "centre": "median"}, "must be one of its choices"),
    ({"radius": 1, "rho": 1, "centre": [0.0]}, "centre must have one number"),
    ({"radius": 1, "rho": 1, "rows": 0}, "rows"),
    ({"radius": 1, "rho": 1, "rows": True}, "rows"),
    ({"radius": 1, "rho": 1, "prediction": np.eye(3)}, "shape"),
    ({"radius": 1, "rho": 1, "prediction": [np.eye(2), np.eye(3)]}, "shape"),
    ({"radius": 1, "rho": 1, "prediction": np.ones((2, 3))}, "square"),
    ({"radius": 1, "rho": 1, "prediction": [[1, math.nan], [math.nan, 1]]}, "finite"),
    ({"radius": 1, "rho": 1, "prediction": [[1, math.inf], [math.inf, 1]]}, "finite"),
    ({"radius": 1, "rho": 1, "prediction": [[1, 0.2], [0.1, 1]]}, "symmetric"),
    ({"radius": 1, "rho": 1, "prediction": sl.PublicData([1.0, 2.0], "census")}, "two-dimensional"),
    ({"radius": 1, "rho": 1, "prediction": sl.PublicData(np.ones((4, 3)), "census")}, "shape"),
]


@pytest.mark.parametrize(("mistake", "message"), BAD)
def test_mistakes_are_found_before_any_charge(mistake: dict[str, Any], message: str) -> None:
    session = sl.Session(table_of(ROWS[:, :2]), budget=sl.ZCDP(100))
    before = session.spent
    with pytest.raises(SidelightError, match=message):
        session.release(sl.Covariance(**mistake))
    assert session.spent == before


def test_rounding_of_a_computed_prediction_is_forgiven() -> None:
    skewed = np.array([[1.0, 0.2], [0.2 + 1e-12, 1.0]])
    found = PredictedMatrix(skewed)
    np.testing.assert_array_equal(found.matrix, found.matrix.T)


def test_a_session_charges_and_refuses() -> None:
    session = sl.Session(table_of(ROWS), budget=sl.ZCDP(1))
    session.release(sl.Covariance(radius=1, rho="0.6"))
    with pytest.raises(BudgetError):
        session.release(sl.Covariance(radius=1, rho="0.6"))
    strict = sl.Session(table_of(ROWS), budget=sl.PureDP(10), strict=True)
    with pytest.raises(StrictError):
        strict.release(sl.Covariance(radius=1, epsilon=1))
    assert strict.release(sl.Covariance(radius=1, epsilon=1, noise="laplace")).private


def test_prediction_is_named_with_its_origin_and_digest() -> None:
    query = sl.Covariance(radius=1, rho=1, prediction=[sl.PublicData(ROWS[:100], "census of 2020"), TRUTH])
    release = seeded_release(query, table_of(ROWS), seed=1)
    assert isinstance(release, sl.Release)
    assert release.prediction is not None
    assert "census of 2020" in release.prediction["description"]
    assert len(release.prediction["sha256"]) == 2
    assert release.query["predictions"] == release.prediction["sha256"]
    assert PredictedMatrix(TRUTH, public("x")).digest == PredictedMatrix(TRUTH).digest


def test_good_predictions_help_and_bad_ones_do_not_hurt() -> None:
    rows = rows_of(2000, 30, seed=4)
    truth, table = rows.T @ rows / 2000, table_of(rows)
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(30, 30)))[0]
    errors = {
        name: np.median(
            [np.linalg.norm(seeded_release(query, table, seed=seed).value["matrix"] - truth) for seed in range(12)]
        )
        for name, query in {
            "plain": sl.Covariance(radius=1, rho="0.1", method="gauss", project=False),
            "perfect": sl.Covariance(radius=1, rho="0.1", prediction=truth),
            "bad": sl.Covariance(radius=1, rho="0.1", prediction=rotation @ truth @ rotation.T),
        }.items()
    }
    assert errors["perfect"] < 0.15 * errors["plain"]
    assert errors["bad"] < 1.03 * errors["plain"]


@pytest.mark.parametrize("price", PRICES[:3])
def test_centring(price: dict[str, Any]) -> None:
    rows = rows_of(40_000, 3, seed=2) * 0.3 + [0.4, -0.2, 0.1]
    truth = np.cov(rows.T, bias=True)
    table = table_of(rows)
    for centre, tolerance in (([0.4, -0.2, 0.1], 0.01), ("mean", 0.01), ("pairs", 0.012)):
        release = seeded_release(sl.Covariance(radius=1, centre=centre, **price), table, seed=2)
        assert np.abs(release.value["matrix"] - truth).max() < tolerance
    named = seeded_release(sl.Covariance(radius=1, centre="mean", **price), table, seed=2)
    np.testing.assert_allclose(named.value["mean"], rows.mean(axis=0), atol=0.01)


def test_trace_can_be_limited_and_projection_left_out() -> None:
    tiny = table_of(ROWS[:30])
    free = seeded_release(sl.Covariance(radius=1, rho="0.05", method="gauss", project=False), tiny, seed=8)
    np.testing.assert_array_equal(free.value["matrix"], free.value["noisy"])
    assert np.linalg.eigvalsh(free.value["matrix"]).min() < 0
    limited = seeded_release(sl.Covariance(radius=1, rho="0.05", method="gauss"), tiny, seed=8)
    assert np.trace(limited.value["matrix"]) <= 1 + 1e-12


def test_projection_never_moves_away_from_a_covariance() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        square = rng.normal(size=(5, 5))
        truth, other = square @ square.T, rng.normal(size=(5, 5)) * 3
        noisy = truth + (other + other.T) / 2
        assert np.linalg.norm(nearest_covariance(noisy) - truth) <= np.linalg.norm(noisy - truth) + 1e-12


def test_correlations() -> None:
    release = seeded_release(sl.Covariance(radius=1, rho=1), table_of(ROWS), seed=1)
    found = correlation(release)
    assert (np.diag(found) == 1).all()
    assert np.abs(found).max() <= 1
    assert correlation([[0.0, 0.1], [0.1, 1.0]]).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(RangeError):
        correlation([1.0, 2.0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("centre", [None, "mean", "pairs"])
def test_no_data_raises_or_warns(centre: Any) -> None:
    rows = ROWS[:8].copy()
    rows[0] = [np.nan, 1, 1, 1, 1, 1]
    rows[1] = np.inf
    rows[2] = 1e300
    rows[3] = -0.0
    for data in (rows, rows[:1], np.zeros((3, 6)), np.full((2, 6), np.nan)):
        for price in PRICES[:3]:
            release = seeded_release(sl.Covariance(radius=1, centre=centre, **price), table_of(data), seed=1)
            assert np.isfinite(release.value["matrix"]).all()


def test_persons_are_protected_with_all_their_rows() -> None:
    data = {"who": np.array([f"p{i // 2}" for i in range(400)]), "a": ROWS[:400, 0], "b": ROWS[:400, 1]}
    schema = [sl.PersonId("who", max_rows=2), sl.Number("a"), sl.Number("b")]
    table = sl.Table(data, schema=schema)
    for centre in (None, "pairs"):
        prepared = sl.Covariance(["a", "b"], radius=1, rho="0.5", centre=centre).prepare(table.schema)
        single = sl.Covariance(radius=1, rho="0.5", centre=centre).prepare(table_of(ROWS[:, :2]).schema)
        assert prepared.plan.noise_scale(1) == pytest.approx(2 * single.plan.noise_scale(1), rel=1e-6)
        assert prepared.claims.unit == table.schema.unit
    assert seeded_release(sl.Covariance(radius=1, rho="0.5"), table, seed=1).labels == ("a", "b")


def test_the_session_brands_seeded_noise() -> None:
    session = SeededSession(table_of(ROWS), budget=sl.ZCDP(10), seed=1)
    assert not session.release(sl.Covariance(radius=1, rho=1)).private


def _spread(scale: float, *, price: dict[str, Any], rows: int | None, draws: int = 60) -> float:
    """The mean square of the noise of many releases, in units of its claimed expectation."""
    query = sl.Covariance(radius=1, method="gauss", project=False, rows=rows, **price)
    data = ROWS[:300]
    table, truth = table_of(data), data.T @ data
    total = 0.0
    for seed in range(draws):
        value = seeded_release(query, table, seed=seed).value
        noise = (value["noisy"] * max(value["rows"], 1.0) - truth) * scale
        claimed = value["noise_scale"] * max(value["rows"], 1.0)
        cells = 36 if price.get("noise") == "laplace" else 21  # d² entries, or d(d+1)/2 in GOE units
        total += float((noise**2).sum()) / (cells * claimed**2)
    return total / draws


@pytest.mark.parametrize("price", PRICES[:3])
@pytest.mark.parametrize("rows", [None, 300])
def test_noise_has_the_stated_size_and_30_percent_off_is_seen(price: dict[str, Any], rows: int | None) -> None:
    # 60 matrices of 21 entries: the mean square has a relative deviation of about 5 % (9 % for Wishart noise)
    assert _spread(1.0, price=price, rows=rows) == pytest.approx(1.0, abs=0.35)
    assert _spread(1.3, price=price, rows=rows) != pytest.approx(1.0, abs=0.35)


METHODS: list[dict[str, Any]] = [
    {"method": "separate", "rho": "0.5"},
    {"method": "separate", "epsilon": 1},
    {"method": "separate", "epsilon": 1, "noise": "laplace"},
    {"method": "ies", "epsilon": 1},
    {"method": "separate", "rho": "0.5", "prediction": TRUTH, "choice": Choice()},
    {"method": "separate", "epsilon": 1, "prediction": [TRUTH, np.eye(6)], "choice": Choice(shift_invariant=True)},
    {"method": "ies", "epsilon": 1, "prediction": TRUTH, "choice": Choice(form="threshold")},
]


@pytest.mark.parametrize("settings", METHODS)
@pytest.mark.parametrize("centre", [None, "mean", "pairs"])
@pytest.mark.parametrize("rows", [None, 2000])
def test_methods_of_the_literature(settings: dict[str, Any], centre: Any, rows: int | None) -> None:
    query = sl.Covariance(radius=1, centre=centre, rows=rows, **settings)
    release = seeded_release(query, table_of(ROWS), seed=4)
    assert isinstance(release, sl.Release)
    assert np.linalg.norm(release.value["matrix"] - TRUTH) < 0.35
    assert release.circumstances.numerics == "idealized"
    total = release.guarantee.zcdp() if "rho" in settings else release.guarantee.pure()
    assert total is not None
    amount = total.rho if isinstance(total, sl.ZCDP) else total.epsilon
    assert amount <= Fraction("0.5" if "rho" in settings else "1")
    assert sl.outcome_from_json(release.to_json()) == release
    if "choice" in settings:
        assert release.value["chosen"] in (0, 1, None)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"method": "ies", "rho": 1}, "pure price"),
        ({"rho": 1, "prediction": np.eye(2), "choice": Choice()}, "for free"),
        ({"rho": 1, "method": "separate", "prediction": [np.eye(2), np.eye(2)]}, "one prediction"),
        ({"rho": 1, "method": "separate", "choice": Choice()}, "no prediction"),
    ],
)
def test_methods_take_what_they_can_use(mistake: dict[str, Any], message: str) -> None:
    with pytest.raises(RangeError, match=message):
        sl.Covariance(radius=1, **mistake)
