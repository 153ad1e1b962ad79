"""Learning predictions: the free average of past releases."""

from __future__ import annotations

import numpy as np
import pytest

import sidelight as sl
from sidelight.covariance.matrices import learned_prediction
from sidelight.errors import RangeError
from sidelight.testing import seeded_release


def rows_of(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    spectrum = 1 / np.arange(1.0, d + 1)
    rows = rng.standard_normal((n, d)) * np.sqrt(0.64 * spectrum / spectrum.sum())
    return rows / np.maximum(np.linalg.norm(rows, axis=1), 1)[:, None]


def table_of(rows: np.ndarray) -> sl.Table:
    return sl.Table(rows, schema=[sl.Number(f"x{place}") for place in range(rows.shape[1])])


def test_past_releases_predict_for_free() -> None:
    rng = np.random.default_rng(2)
    plain, learned = [], []
    days: list[sl.Release] = []
    for day in range(12):
        rows = rows_of(500, 20, rng)
        truth, table = rows.T @ rows / 500, table_of(rows)
        without = seeded_release(sl.Covariance(radius=1, rho="0.1", rows=500), table, seed=day)
        query = sl.Covariance(radius=1, rho="0.1", rows=500, prediction=learned_prediction(days) if days else None)
        release = seeded_release(query, table, seed=1000 + day)
        assert isinstance(release, sl.Release)
        days.append(release)
        plain.append(np.linalg.norm(without.value["matrix"] - truth))
        learned.append(np.linalg.norm(release.value["matrix"] - truth))
    assert np.median(learned[6:]) < 0.7 * np.median(plain)


def test_the_unshrunk_matrices_enter_with_their_precision() -> None:
    rng = np.random.default_rng(3)
    table = table_of(rows_of(500, 4, rng))
    releases = [
        seeded_release(sl.Covariance(radius=1, rho=rho, rows=500, prediction=np.eye(4)), table, seed=1)
        for rho in ("0.1", "0.4")
    ]
    found = learned_prediction(releases)  # type: ignore[arg-type]
    noisy = [release.value["noisy"] for release in releases]
    expected = 0.2 * noisy[0] + 0.8 * noisy[1]  # precisions 1/σ² are as ρ
    np.testing.assert_allclose(found.matrix, expected, atol=1e-9)
    assert np.abs(releases[0].value["noisy"] - releases[0].value["matrix"]).max() > 0  # the trap: shrunk ones differ


def test_entries_of_a_ledger_are_named(tmp_path: object) -> None:
    rng = np.random.default_rng(4)
    session = sl.Session(
        table_of(rows_of(100, 3, rng)), budget=sl.ZCDP(10), ledger=f"sqlite:///{tmp_path}/budget.db", scope="days"
    )
    release = session.release(sl.Covariance(radius=1, rho="0.5"))
    assert isinstance(release, sl.Release)
    origin = learned_prediction([release]).origin
    assert origin.kind == "released"
    assert origin.entries == (release.circumstances.entry_id,)


def test_mistakes() -> None:
    with pytest.raises(RangeError, match="at least one release"):
        learned_prediction([])
    with pytest.raises(RangeError, match="Covariance"):
        learned_prediction([sl.Quantiles(0.5, epsilon=1, granularity=1).release([1, 2, 3])])


def test_releases_of_other_columns_radii_or_centres_are_not_averaged() -> None:
    rng = np.random.default_rng(5)
    table = table_of(rows_of(100, 2, rng))
    first = sl.Covariance(radius=1, rho=1).release(table)
    names = first.labels
    for other in (
        sl.Covariance(list(reversed(names)), radius=1, rho=1),
        sl.Covariance(radius=2, rho=1),
        sl.Covariance(radius=1, rho=1, centre=[0.1, 0.1]),
    ):
        with pytest.raises(RangeError, match="other columns, radii or centres"):
            learned_prediction([first, other.release(table)])
    learned_prediction([first, sl.Covariance(list(names), radius="1.0", rho="0.5").release(table)])
