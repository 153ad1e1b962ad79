"""Nothing outside of what is publicly possible is published: every query at hopeless prices, with few rows or none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.covariance import correlation
from sidelight.testing import SeededSession, seeded_release

SLACK = 1 + 1e-9
RNG = np.random.default_rng(4)
PUBLIC = RNG.uniform(0, 100, (8, 2))
NUMBERS = [sl.Number("a", lower=0, upper=100), sl.Number("b", lower=0, upper=100)]


def table_of(rows: int) -> sl.Table:
    data = RNG.uniform(0, 100, (rows, 2))
    labels = np.array(["x", "y", "z"])[RNG.integers(0, 3, rows)]
    schema = [*NUMBERS, sl.Category("c", ["x", "y", "z"])]
    return sl.Table({"a": data[:, 0], "b": data[:, 1], "c": labels}, schema=schema)


TABLES = {rows: table_of(rows) for rows in (0, 1, 60)}


def semidefinite(matrix: Any, *, largest: float) -> None:
    """No variance below 0 or above a quarter of the squared range, no correlation beyond 1."""
    assert np.isfinite(matrix).all()
    assert np.linalg.eigvalsh(matrix).min() >= -1e-9 * largest
    assert np.diag(matrix).max() <= largest * SLACK
    assert np.abs(correlation(matrix)).max() <= 1


def within(values: Any) -> None:
    assert np.isfinite(values).all()
    assert (np.asarray(values) >= 0).all()
    assert (np.asarray(values) <= 100).all()


def gaussian(value: Any) -> None:
    within(value["mean"])
    assert value["rows"] >= 0
    if "covariance" in value:
        semidefinite(value["covariance"], largest=2500)


def ranged(value: Any) -> None:
    gaussian(value)
    assert np.linalg.norm(value["mean"]) <= 90 * SLACK
    if "covariance" in value:
        assert np.linalg.eigvalsh(value["covariance"]).max() <= 1000 * SLACK


def mixture(value: Any) -> None:
    for mean, matrix in zip(value["means"], value["covariances"], strict=True):
        within(mean)
        semidefinite(matrix, largest=2500)
    assert (value["weights"] >= 0).all()
    assert sum(value["weights"]) == pytest.approx(1)
    assert value["rows"] >= 0
    for name in ("rows", "ambiguous", "dropped"):
        assert value["checks"] is None or np.min(value["checks"][name]) >= 0


def quantiles(value: Any) -> None:
    within(value)
    assert (np.diff(value) >= 0).all()


def covariance(value: Any) -> None:
    semidefinite(value["matrix"], largest=1e4)
    assert np.trace(value["matrix"]) <= 1e4 * SLACK
    assert value["rows"] >= 0


def centred(value: Any) -> None:
    semidefinite(value["matrix"], largest=2500)
    within(value["mean"])


QUERIES: dict[str, tuple[Any, Any]] = {
    "quantiles": (sl.Quantiles([0.1, 0.5, 0.9], column="a", epsilon="1e-6"), quantiles),
    "median": (sl.StableMedian("a", epsilon="1e-3", delta="0.4", spread=5, resolution=1), within),
    "covariance": (sl.Covariance(["a", "b"], radius=100, rho="1e-8"), covariance),
    "covariance, pure": (sl.Covariance(["a", "b"], radius=100, epsilon="1e-4"), covariance),
    "covariance, separate": (
        sl.Covariance(["a", "b"], radius=100, epsilon="1e-4", method="separate", prediction=np.eye(2)),
        covariance,
    ),
    "covariance, mean": (sl.Covariance(["a", "b"], radius=200, epsilon="1e-4", centre="mean"), centred),
    "Gaussian": (sl.GaussianFit(["a", "b"], prediction=PUBLIC, rho="1e-8"), gaussian),
    "Gaussian, pure": (sl.GaussianFit(["a", "b"], prediction=PUBLIC, epsilon="1e-5"), gaussian),
    "Gaussian, ranges": (sl.GaussianFit(["a", "b"], mean_bound=90, variance_bound=1000, rho="1e-8"), ranged),
    "Gaussian, gap": (sl.GaussianFit(["a", "b"], prediction=PUBLIC, gap="0.2", rho="1e-8"), gaussian),
    "Gaussian mean": (
        sl.GaussianMean(["a", "b"], prediction=PUBLIC[:1], covariance=800 * np.eye(2), rho="1e-8"),
        gaussian,
    ),
    "Gaussian mean, range": (
        sl.GaussianMean(["a", "b"], mean_bound=90, covariance=800 * np.eye(2), rho="1e-8"),
        ranged,
    ),
    "mixture": (
        sl.SeparatedMixture(
            ["a", "b"], prediction=np.concatenate([PUBLIC, PUBLIC + 900]), components=2, rho="1e-6", on_failure="single"
        ),
        mixture,
    ),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("rows", TABLES)
def test_no_query_publishes_what_cannot_be(name: str, rows: int) -> None:
    query, check = QUERIES[name]
    for seed in range(1 if name == "mixture" else 3):
        outcome = seeded_release(query, TABLES[rows], seed=seed)
        if isinstance(outcome, sl.Release):
            check(outcome.value)


@pytest.mark.slow
def test_many_hopeless_releases(record_property: Any) -> None:
    published = 0
    for query, check in QUERIES.values():
        for table in TABLES.values():
            for seed in range(10, 30):
                outcome = seeded_release(query, table, seed=seed)
                if isinstance(outcome, sl.Release):
                    check(outcome.value)
                    published += 1
    record_property(
        "audit",
        f"impossible releases: {len(QUERIES)} queries at hopeless prices with {', '.join(map(str, TABLES))} rows; "
        f"{published} published, 0 outside of what their declarations allow",
    )
    assert published > 500


@pytest.mark.parametrize("price", [{"epsilon": "1e-4"}, {"rho": "1e-7"}])
def test_synthetic_tables_are_distributions(price: dict[str, Any]) -> None:
    query = sl.SyntheticTable(sl.marginals(2), bins={"a": [0, 30, 60, 100], "b": [0, 50, 100]}, **price)
    for rows in TABLES:
        synthetic = sl.Synthetic(seeded_release(query, TABLES[rows], seed=rows))
        for columns in (["a"], ["c"], ["a", "b"]):
            answers = synthetic.answer(columns)
            assert (answers.shares >= 0).all()
            assert answers.shares.sum() == pytest.approx(1)
        table = synthetic.table(rows=20)
        within(np.asarray(table["a"], np.float64))
        assert set(np.asarray(table["c"]).tolist()) <= {"x", "y", "z", "other"}


def test_principal_components_explain_no_more_than_there_is() -> None:
    rows = RNG.normal(size=(50, 3))
    for seed in range(3):
        session = SeededSession(
            sl.Table(rows, schema=[sl.Number(f"x{i}") for i in range(3)]), budget=sl.ZCDP(1), seed=seed
        )
        release = session.release(sl.Covariance(radius=2, rho="1e-6", centre="mean"))
        model = sl.PCA.from_release(release)
        assert (model.explained_variance_ >= 0).all()
        assert model.explained_variance_.sum() <= 4 * SLACK
        assert model.explained_variance_ratio_.sum() <= SLACK
        assert np.linalg.norm(model.mean_) <= 2 * SLACK
        assert model.explained_variance_error_ <= 4 * SLACK
