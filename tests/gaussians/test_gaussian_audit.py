"""Attacks on whole releases through the pipeline: the claims hold, and planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import erf, exp, sqrt
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.mapped_vector import RowMap, moments_by_cell
from sidelight.errors import NoiseError
from sidelight.gaussians import row_reader as requests
from sidelight.gaussians.row_reader import MeasurementRequest
from sidelight.gaussians.step_arithmetic import BudgetSplit
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.meter import Meter
from sidelight.mechanisms.noisy_moments import count_noise
from sidelight.noise import Source
from sidelight.testing import SeededEntropy, seeded_release

TRIALS = 100
#: A difference of two shares over this number of trials exceeds this bound with probability below 1e-6.
SLACK = 5.0 * sqrt(0.5 / TRIALS)
ROWS = np.random.default_rng(0).standard_normal((40, 2))
PUBLIC = np.random.default_rng(1).standard_normal((4, 2))
FAR = np.vstack([ROWS, [[1e6, 1e6]]])  # one record more, far away: clipped to the longest row there can be
CENTER = PUBLIC[:1].mean(axis=0)
SCORES: dict[str, Callable[[Any], float]] = {
    "rows": lambda value: value["rows"],
    "mean": lambda value: float((value["mean"] - CENTER).sum()) * value["rows"],
    "covariance": lambda value: float(np.linalg.slogdet(value["covariance"])[1]),
    "extent": lambda value: float(np.log(np.abs(value["mean"]).max())),
}


def advantages(query: Any, first: np.ndarray = ROWS, second: np.ndarray = FAR) -> dict[str, float]:
    """Return TPR - FPR of the threshold at the median, for every score: the largest either way."""
    values = []
    for rows, seeds in ((first, 0), (second, 10**6)):
        table = query.table(rows)
        values.append([seeded_release(query, table, seed=seeds + seed).value for seed in range(TRIALS)])
    found = {}
    for name, score in SCORES.items():
        if name == "covariance" and "covariance" not in values[0][0]:
            continue
        without, present = (np.array([score(value) for value in each]) for each in values)
        middle = np.median(np.concatenate([without, present]))
        found[name] = float(abs((present > middle).mean() - (without > middle).mean()))
    return found


def limit(price: dict[str, Any]) -> float:
    """Return the largest advantage that the price allows."""
    if "rho" in price:
        return erf(sqrt(2 * float(price["rho"])) / (2 * sqrt(2)))
    return (exp(price["epsilon"]) - 1) / (exp(price["epsilon"]) + 1)


@pytest.mark.parametrize(
    "query",
    [
        sl.GaussianFit(prediction=PUBLIC, rho="0.125"),
        sl.GaussianFit(prediction=PUBLIC, epsilon=1),
        sl.GaussianFit(prediction=PUBLIC, gap="0.2", rho="0.125"),
        sl.GaussianMean(prediction=PUBLIC[:1], rho="0.125", steps=1),
    ],
    ids=["zCDP", "pure", "pairs", "mean"],
)
def test_claims_stand(query: Any) -> None:
    price = {"rho": query.rho} if query.rho is not None else {"epsilon": query.epsilon}
    for name, found in advantages(query).items():
        assert found <= limit(price) + SLACK, name


@pytest.mark.planted("the true number of rows in a Gaussian fit", of=("GaussianFit", "GaussianMean", "GaussianModel"))
def test_using_the_true_number_of_rows_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: n itself instead of its noisy version."""
    monkeypatch.setattr(BudgetSplit, "count", lambda self, moments, share, source: float(moments.count.value))
    found = advantages(sl.GaussianMean(prediction=PUBLIC[:1], rho="0.125", steps=1))
    assert found["rows"] > limit({"rho": "0.125"}) + SLACK


@pytest.mark.planted("clipping at the longest private row", of=("GaussianFit", "GaussianMean", "GaussianModel"))
def test_clipping_at_the_longest_private_row_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a radius that looks at the rows; the noise then tells of the longest one."""
    original = requests.RowReader.answer

    def longest(self: Any, request: MeasurementRequest) -> Any:
        if request.of == "rows":
            array = np.stack([self._table.rows.columns[name] for name in self._columns])
            mapped = request.row_map.matrix @ (array - request.row_map.centre[:, None])
            radius = max(float(np.linalg.norm(mapped, axis=0).max()), 1e-3)
            row_map = RowMap.of(2, centre=request.row_map.centre, matrix=request.row_map.matrix, radius=radius)
            request = MeasurementRequest(row_map, "rows", second=request.second)
        return original(self, request)

    monkeypatch.setattr(requests.RowReader, "answer", longest)
    found = advantages(sl.GaussianMean(prediction=PUBLIC[:1], rho="0.125", steps=1))
    assert found["extent"] > limit({"rho": "0.125"}) + SLACK


@pytest.mark.planted("too little noise of a Gaussian fit", of=("GaussianFit", "GaussianMean", "GaussianModel"))
def test_too_little_noise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a twelfth of the noise on the sums. The meter refuses the first release; without it, the attack wins."""
    original = BudgetSplit.total
    monkeypatch.setattr(
        BudgetSplit, "total", lambda self, moments, share, source: original(self, moments, share * 144, source)
    )
    query = sl.GaussianMean(prediction=PUBLIC[:1], rho="0.125", steps=1)
    with pytest.raises(NoiseError, match="more than it claims"):
        seeded_release(query, query.table(ROWS), seed=0)
    monkeypatch.setattr(Meter, "add", lambda self, price, part, again=False: None)
    monkeypatch.setattr(Meter, "settle", lambda self: None)
    found = advantages(sl.GaussianMean(prediction=PUBLIC[:1], rho="0.125", steps=1))
    assert found["mean"] > limit({"rho": "0.125"}) + SLACK


@dataclass(frozen=True)
class Sides:
    """Two cells, by the sign of the first column."""

    cells: int = 2

    def label(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        return (columns[0] > 0).astype(np.int64)


def test_replacing_a_row_costs_more_than_adding_one_where_there_are_cells() -> None:
    """Parallel composition is for adding and removing: a record that changes cells moves two sizes.

    At GDP(1) for each, the difference of the sizes tells the two data sets apart better than GDP(1) allows, and no
    better than GDP(2), which is four times the rho.
    """
    trials = 1500
    slack = 5.0 * sqrt(0.5 / trials)
    maps = [RowMap.of(1, centre=None, matrix=None, radius=1)] * 2
    before, after = np.array([[-1.0], [1.0]]), np.array([[1.0], [1.0]])
    differences = []
    for seed, rows in enumerate((before, after)):
        cells = moments_by_cell(rows, maps=maps, rule=Sides())
        source = Source(SeededEntropy(seed), declared="exact")
        split = BudgetSplit(budget=Budget.of(rho="0.5"), moments=cells[0])
        noises = [count_noise(cell, Budget.of(rho="0.5")) for cell in cells]
        noisy = [[noise.release(source) for noise in noises] for _ in range(trials)]
        assert split.count_deviation(Fraction(1)) == pytest.approx(1.0)
        differences.append(np.array([right - left for left, right in noisy]))
    found = float((differences[1] >= 2).mean() - (differences[0] >= 2).mean())
    assert found > limit({"rho": "0.5"}) + slack
    assert found <= limit({"rho": "2"}) + slack
