"""Extreme public numbers: each is refused or leaves sensitivities as they are.

A prediction of 2**52 radius² once drowned S - nW in rounding errors that distinguished single rows. Here every
unbounded public number that is combined with private ones gets extreme values, on neighbouring tables that get the
same noisy answers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from at_the_seam import compare

import sidelight as sl
from mapped_moments import mapped_moments
from sidelight.covariance import Choice
from sidelight.errors import SidelightError
from sidelight.published.eigenvector_covariance import _distances, _steps_apart, difference, on_integers

EXTREMES = (1e300, 1e-300, 2.0**52, 2.0**53 + 2, 5e-324, 1.7e308, 1e16, 1.0)
RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(40, 3)) * [0.6, 0.3, 0.2]
#: One large eigenvalue, in no direction of the columns: its rounding errors are those of all others.
FAR = np.outer([1.0, 0.7, 0.4], [1.0, 0.7, 0.4])
CODES = RNG.integers(0, 3, (40, 2))

Case = Callable[[float], tuple[Any, Any]]


def numbers(count: int = 3, **declared: Any) -> list[sl.Number]:
    return [sl.Number(f"x{place}", **declared) for place in range(count)]


def plain(make: Callable[[float], Any], **declared: Any) -> Case:
    return lambda size: (make(size), numbers(**declared))


def scaled(size: float, rows: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        return np.nan_to_num(size * rows)


def covariance(**fixed: Any) -> Case:
    return plain(lambda size: sl.Covariance(radius=2, prediction=size * FAR, **fixed))


def synthetic(size: float) -> tuple[Any, Any]:
    schema = [sl.Number("x0", lower=-size, upper=size), sl.Category("c", ["a", "b", "c"])]
    query = sl.SyntheticTable(sl.marginals(2), bins={"x0": [-size, 0.0, size]}, rho="0.5")
    return query, schema


CASES: dict[str, Case] = {
    "covariance, separate": covariance(epsilon=1, method="separate"),
    "covariance, separate, Gaussian": covariance(rho=1, method="separate"),
    "covariance, sampled eigenvectors": covariance(epsilon=1, method="ies"),
    "covariance, chosen": covariance(epsilon=1, method="separate", choice=Choice()),
    "covariance, chosen by a threshold": covariance(epsilon=1, method="ies", choice=Choice(form="threshold")),
    "covariance, shrunk": covariance(rho=1),
    "covariance, mean": covariance(rho=1, centre="mean", method="separate"),
    "covariance, radius": plain(lambda size: sl.Covariance(radius=size, rho=1)),
    "covariance, centre": plain(lambda size: sl.Covariance(radius=2, centre=[size, -size, 0.0], rho=1)),
    "covariance, bounds": lambda size: (sl.Covariance(radius=2, epsilon=1), numbers(lower=-size, upper=size)),
    "covariance, rows": plain(lambda size: sl.Covariance(radius=2, rho=1, rows=max(1, int(size)), method="separate")),
    "Gaussian, public rows": plain(lambda size: sl.GaussianFit(prediction=scaled(size, ROWS[:8]), rho=1)),
    "Gaussian, public rows, far": plain(lambda size: sl.GaussianFit(prediction=ROWS[:8] + size, rho=1)),
    "Gaussian, scale": plain(lambda size: sl.GaussianFit(prediction=ROWS[:1], scale=size, rho=1)),
    "Gaussian, condition": plain(lambda size: sl.GaussianFit(prediction=ROWS[:3], condition=max(size, 1), rho=1)),
    # differences of pairs: with a public number of rows, one pair changes
    "Gaussian, mean bound": plain(lambda size: sl.GaussianFit(mean_bound=size, variance_bound=1, rho=1, rows=40)),
    "Gaussian, variance bound": plain(lambda size: sl.GaussianFit(mean_bound=1, variance_bound=size, rho=1, rows=40)),
    "Gaussian mean, covariance": plain(
        lambda size: sl.GaussianMean(prediction=ROWS[:1], covariance=size * np.eye(3), rho=1)
    ),
    "Gaussian mean, bound": plain(lambda size: sl.GaussianMean(mean_bound=size, rho=1)),
    "mixture, public rows": plain(
        lambda size: sl.SeparatedMixture(prediction=scaled(size, ROWS[:20]), components=1, rho=1, on_failure="single")
    ),
    "synthetic table, bounds": synthetic,
    "least squares, norm": lambda size: (
        sl.AdaSSP(features=["x0", "x1"], target="x2", feature_norm=size, rho=1),
        numbers(lower=-1, upper=1),
    ),
    "least squares, target": lambda size: (
        sl.AdaSSP(features=["x0", "x1"], target="x2", feature_norm=1, rho=1),
        [*numbers(2), sl.Number("x2", lower=-size, upper=size)],
    ),
    "least squares, intercept": lambda size: (
        sl.AdaSSP(features=["x0", "x1"], target="x2", feature_norm=1, intercept=size, rho=1),
        numbers(lower=-1, upper=1),
    ),
    "least squares, penalty": lambda size: (
        sl.AdaSSP(features=["x0", "x1"], target="x2", feature_norm=1, penalty=size, rho=1),
        numbers(lower=-1, upper=1),
    ),
}


def table_of(schema: list[Any], rows: np.ndarray) -> sl.Table:
    columns: dict[str, Any] = {}
    for place, column in enumerate(schema):
        if isinstance(column, sl.Category):
            columns[column.name] = np.array(column.labels)[CODES[: len(rows), 0]]
        else:
            columns[column.name] = rows[:, place]
    return sl.Table(columns, schema=schema)


def walk(name: str, size: float, *, seed: int) -> int:
    """Compare a query on neighbours; return how many statistics were met, 0 if the number was refused beforehand."""
    try:
        query, schema = CASES[name](size)
        table = table_of(schema, ROWS)
        prepared = query.prepare(table.schema)
        claims = prepared.claims
    except SidelightError:
        return 0  # by public numbers, before any charge
    changed = ROWS.copy()
    changed[-1] = [-3.0, 40.0, 1e200]
    replaced = getattr(query, "rows", None) is not None
    neighbour = table_of(schema, changed if replaced else ROWS[:-1])
    largest, loss, met = compare(prepared, table, neighbour, seed=seed)
    assert largest <= 1, f"{name} at {size}: {float(largest)} times the sensitivity"
    pure, concentrated = claims.pure(), claims.zcdp()
    spread = float(pure.epsilon) if pure is not None else sqrt(8 * float(concentrated.rho)) if concentrated else log(2)
    assert loss <= spread * (1 + 1e-9), f"{name} at {size}: a selection loses {loss} of {spread}"
    assert met
    return met


@pytest.mark.parametrize("name", [name for name in CASES if name != "mixture, public rows"])
def test_no_public_number_outgrows_a_sensitivity(name: str) -> None:
    assert sum(walk(name, size, seed=1) for size in (1e300, 2.0**52, 1.0)) > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_public_number_at_every_size(record_property: Any) -> None:
    met = {(name, size): walk(name, size, seed=seed) for seed in (2, 3) for name in CASES for size in EXTREMES}
    refused = sum(not count for count in met.values())
    record_property(
        "audit",
        f"public numbers that drown private ones: {len(CASES)} public parameters at {len(EXTREMES)} sizes from 5e-324 "
        f"to 1.7e308, neighbours with the same noisy answers; {refused} of {len(met)} refused before a charge, "
        f"0 statistics moved further than their sensitivity",
    )
    assert sum(count > 0 for count in met.values()) > len(met) // 3


@pytest.mark.parametrize("size", EXTREMES)
@pytest.mark.parametrize("rows", [1.0, 1000.0, 1e13, 1e25])
def test_the_difference_to_a_prediction_moves_as_the_second_moment_does(size: float, rows: float) -> None:
    data = np.tile(ROWS, (25, 1))
    both = [mapped_moments(each, radius=2) for each in (data, data[:-1])]
    for prediction in (size * np.eye(3), size * FAR):
        matrices = [difference(moments, prediction, rows=rows) for moments in both]
        values = [on_integers(both[0], np.linalg.eigvalsh(matrix), pure=True) for matrix in matrices]
        moved = sum(abs(int(a) - int(b)) for a, b in zip(*(each.value.tolist() for each in values), strict=True))
        # beyond 2**33 rows the noise of the count, and so that of the matrix, is larger than what floats lose
        assert moved <= values[0].sensitivity * (1 if rows <= 1000 else max(1, rows * 2**-40))
        for how in (Choice(), Choice(shift_invariant=True)):
            scores = [_distances(moments, [prediction, 0 * prediction], rows=rows, how=how) for moments in both]
            apart = abs(int(scores[0][0] - scores[0][1]) - int(scores[1][0] - scores[1][1]))
            assert apart <= _steps_apart(both[0], how, pair=False) * (1 if rows <= 1000 else max(1, rows * 2**-40))


def test_the_seam_finds_what_floats_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake that was there: the difference taken in floats, of a prediction of any size."""
    from sidelight.covariance import query
    from sidelight.published import eigenvector_covariance as eigenvector_methods

    def in_floats(moments: Any, prediction: Any, *, rows: float) -> Any:
        return moments.second.value.astype(np.float64) - prediction * (rows / float(moments.scale) ** 2)

    monkeypatch.setattr(eigenvector_methods, "difference", in_floats)
    monkeypatch.setattr(query.PredictedMatrix, "within", lambda self, largest: self)
    with pytest.raises(AssertionError, match="times the sensitivity"):
        all(walk("covariance, separate", 2.0**power, seed=1) for power in range(40, 56))
