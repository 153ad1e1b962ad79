"""All marginals at once: shares and prices, the law of the noise, the points, the fit, bounds, and what is refused."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import NoiseError, RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.synthesis.domain import Domain, distinct_rows
from sidelight.synthesis.engine_plan import nominal_claims
from sidelight.synthesis.loglinear import POINTS_WEIGHT, LogLinearPlan, fit_weights
from sidelight.synthesis.measurement import MarginalMeasurement, PrivateMarginals, Protection, measure
from sidelight.synthesis.refit import Refit
from sidelight.synthesis.spaces import SupportSpace
from sidelight.synthesis.tree_points import column_tables, draw_points, spanning_forest
from sidelight.synthesis.workload import Marginal, marginals
from sidelight.testing import SeededEntropy, seeded_release

NIST = Domain(tuple("abcdefghij"), (20, 2, 7, 9, 3, 3, 13, 11, 7, 2))
SMALL = Domain(("a", "b", "c"), (3, 4, 2))
SCHEMA = [sl.Category(name, range(size), other=None) for name, size in zip(SMALL.columns, SMALL.sizes, strict=True)]
PRICES: list[dict[str, Any]] = [{"epsilon": 1}, {"rho": "0.1"}, {"epsilon": 1, "delta": "1e-6"}]


def rows_of(count: int, seed: int = 0) -> np.ndarray:
    """Columns that hang together in a chain."""
    rng = np.random.default_rng(seed)
    a = rng.choice(3, count, p=[0.5, 0.3, 0.2])
    b = np.where(rng.random(count) < 0.7, a, rng.integers(0, 4, count))
    c = np.where(rng.random(count) < 0.8, b % 2, rng.integers(0, 2, count))
    return np.stack([a, b, c], axis=1)


def frame(codes: np.ndarray) -> dict[str, np.ndarray]:
    return {name: codes[:, place] for place, name in enumerate(SMALL.columns)}


def table(count: int, seed: int = 0) -> sl.Table:
    return sl.Table(frame(rows_of(count, seed)), schema=SCHEMA)


def plan_of(domain: Domain = SMALL, **price: Any) -> LogLinearPlan:
    return LogLinearPlan(domain=domain, workload=marginals(2), price=Budget.of(**price))


def scales(plan: LogLinearPlan) -> np.ndarray:
    nothing = plan.protection.bounded(np.zeros(2, np.int64), plan.price.norm)
    return np.array([float(each.on(nothing).scale) for each in plan.prices])


def exact_measurement(codes: np.ndarray, domain: Domain, columns: tuple[str, ...], deviation: float) -> Any:
    values = np.bincount(domain.ravel(codes, columns), minlength=domain.cells_of(columns)).astype(float)
    return MarginalMeasurement(
        marginal=Marginal(columns),
        values=values.reshape(domain.shape_of(columns)),
        law="gaussian",
        scale=deviation,
        deviation=deviation,
        mean_error=deviation * 0.8,
    )


def test_the_noise_of_the_specification() -> None:
    found = scales(plan_of(NIST, epsilon=1, delta="1e-6"))
    assert len(found) == 45
    assert found.min() == pytest.approx(16, abs=0.5)
    assert found.max() == pytest.approx(65, abs=0.5)
    cells = np.array([each.cells(NIST) for each in plan_of(NIST, rho=1).candidates])
    equal = cells.sum() * sqrt(45) * float(1 / sqrt((1 / found**2).sum()))
    assert (cells * found).sum() / equal == pytest.approx(0.857, abs=0.001)


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_the_whole_price_is_spent_and_no_other_shares_have_less_noise(price: dict[str, Any]) -> None:
    plan = plan_of(NIST, **price)
    assert sum(plan.shares) == 1
    whole = nominal_claims(plan.price, plan.protection)
    for name in ("pure", "zcdp", "gdp"):
        mine, most = getattr(plan.claims, name)(), getattr(whole, name)()
        if mine is not None and most is not None:
            amount = {"pure": "epsilon", "zcdp": "rho", "gdp": "mu"}[name]
            assert getattr(most, amount) * Fraction(999, 1000) <= getattr(mine, amount) <= getattr(most, amount)
    cells = np.array([each.cells(NIST) for each in plan.candidates])
    power = 1.0 if plan.price.is_pure else 0.5
    shares = np.array([float(each) for each in plan.shares])
    least = (cells * shares**-power).sum()
    for first, second in combinations(range(0, 45, 4), 2):
        for moved in (0.1, -0.1):
            other = shares.copy()
            other[first] += moved * min(shares[first], shares[second])
            other[second] -= moved * min(shares[first], shares[second])
            assert (cells * other**-power).sum() > least * (1 - 1e-6)


@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize("replaced", [False, True])
def test_all_neighbours_stay_within_the_price(price: dict[str, Any], replaced: bool) -> None:
    """Every pair of rows: the privacy loss of all marginals together, by the scales that run."""
    more: dict[str, Any] = {"rows": 40} if replaced else {}
    prepared = sl.SyntheticTable(engine="loglinear", **more, **price).prepare(sl.Schema(SCHEMA))
    plan = prepared.plan
    assert isinstance(plan, LogLinearPlan)
    sizes = scales(plan)
    one_norm, two_norm = [], []
    rows = SMALL.unravel(np.arange(SMALL.cells))
    for first in range(len(rows)):
        for second in range(len(rows)) if replaced else [-1]:
            changed = []
            for each in plan.candidates:
                change = np.zeros(each.cells(SMALL))
                change[SMALL.ravel(rows[[first]], each.columns)] += 1
                if second >= 0:
                    change[SMALL.ravel(rows[[second]], each.columns)] -= 1
                changed.append(change)
            one_norm.append(sum(np.abs(each).sum() / size for each, size in zip(changed, sizes, strict=True)))
            two_norm.append(sum((each**2).sum() / size**2 for each, size in zip(changed, sizes, strict=True)))
    budget = float(plan.price.amount) * (2 if plan.price.kind == "rho" else 1)
    worst = max(one_norm) if plan.price.is_pure else max(two_norm)
    assert budget * 0.999 <= worst <= budget * (1 + 1e-12)


@pytest.mark.planted("a marginal that is not charged")
def test_the_meter_refuses_shares_of_more_than_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = sl.SyntheticTable(engine="loglinear", rho=1)
    seeded_release(honest, table(50), seed=1)
    shares = LogLinearPlan.shares.func  # type: ignore[attr-defined]
    monkeypatch.setattr(LogLinearPlan, "shares", property(lambda plan: (*shares(plan)[:-1], 2 * shares(plan)[-1])))
    with pytest.raises(NoiseError, match="drew more than it claims"):
        seeded_release(honest, table(50), seed=1)


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_the_noise_has_its_scale_and_a_scale_a_third_off_is_found(price: dict[str, Any]) -> None:
    plan = plan_of(**price)
    counts = PrivateMarginals.from_codes(SMALL, rows_of(300), protection=Protection())
    found = []
    with Source(SeededEntropy("loglinear"), declared="exact") as source:
        for _ in range(150):
            for each, paid in zip(plan.candidates, plan.prices, strict=True):
                made = measure(counts, each, price=paid, source=source)
                found.append(((made.values - counts.exact(each.columns)) / made.deviation).ravel())
    squares = float((np.concatenate(found) ** 2).mean())
    tolerance = 5.5 * sqrt(5 / sum(map(len, found)))  # the fourth moment of Laplace is six times the squared variance
    assert abs(squares - 1) < tolerance < 1 - 1 / 1.3**2


def test_a_forest_has_the_largest_weight_of_all() -> None:
    rng = np.random.default_rng(0)
    pairs = list(combinations(range(5), 2))
    for _ in range(20):
        weights = rng.random(len(pairs))
        chosen = {tuple(sorted(each)) for each in spanning_forest(5, pairs, weights.tolist())}
        mine = sum(weights[pairs.index(each)] for each in chosen)
        best = 0.0
        for tree in combinations(range(len(pairs)), 4):
            group = list(range(5))
            for place in tree:
                first, second = (group[each] for each in pairs[place])
                group = [first if each == second else each for each in group]
            if len(set(group)) == 1:
                best = max(best, float(weights[list(tree)].sum()))
        assert mine == pytest.approx(best)
    assert spanning_forest(3, [(0, 2)], [1.0]) == [(0, 2)]


def test_points_of_a_chain_have_its_pairs() -> None:
    codes = rows_of(100_000)
    held = [exact_measurement(codes, SMALL, pair, 1e-3) for pair in combinations(SMALL.columns, 2)]
    tables = column_tables(SMALL, held, rows=100_000.0)
    for (first, second), found in tables.pairs.items():
        exact = np.histogram2d(codes[:, first], codes[:, second], [range(SMALL.sizes[a] + 1) for a in (first, second)])
        assert np.allclose(found, exact[0] / 100_000, atol=1e-5)
    with Source(SeededEntropy("points")) as source:
        drawn = draw_points(tables, 20_000, source=source)[:10_000]  # of the strongest tree
    for first, second in ((0, 1), (1, 2)):
        shares = np.bincount(drawn[:, first] * 4 + drawn[:, second], minlength=16) / len(drawn)
        expected = np.zeros(16)
        for (a, b), share in np.ndenumerate(tables.pairs[first, second]):
            expected[a * 4 + b] = share
        assert (np.abs(shares - expected) <= 6 * np.sqrt(expected / len(drawn)) + 1e-3).all()


def test_noise_alone_draws_independent_points() -> None:
    with Source(SeededEntropy("noise")) as source:
        codes = np.tile(SMALL.unravel(np.arange(24)), (50, 1))  # every cell alike
        counts = PrivateMarginals.from_codes(SMALL, codes, protection=Protection())
        held = [measure(counts, Marginal(("a", "b")), price=Budget.of(rho="0.01"), source=source)]
    tables = column_tables(SMALL, held, rows=1200.0)
    assert list(tables.pairs) == [(0, 1)]
    assert np.allclose(tables.one_way[2], 0.5)  # a column that nothing measured
    assert tables.information()[0] < 0.02


def test_the_fit_is_the_refit_of_the_other_engines() -> None:
    codes = rows_of(500)
    rng = np.random.default_rng(1)
    held = [exact_measurement(codes, SMALL, pair, 5.0) for pair in combinations(SMALL.columns, 2)]
    for each in held:
        each.values[...] += rng.normal(0, 5, each.values.shape)
    space = SupportSpace(SMALL, SMALL.unravel(np.arange(0, 24, 1)))
    start = rng.dirichlet(np.ones(24))
    other = Refit(space, start, rows=500.0, prior_weight=POINTS_WEIGHT)
    for each in held:
        other.add(each)
    other.fit(sweeps=400, tolerance=1e-9)
    assert np.allclose(fit_weights(space, start, held, rows=500.0), other.weights, atol=1e-6)


def test_bounds_hold_and_the_same_noise_gives_the_same_table() -> None:
    failures = 0
    codes = rows_of(800, 4)
    for seed in range(12):
        query = sl.SyntheticTable(engine="loglinear", **PRICES[seed % 3])
        synthetic = sl.Synthetic(seeded_release(query, table(800, 4), seed=seed))
        bad = abs(synthetic.rows - 800) > synthetic.bounds.rows  # type: ignore[operator]
        for pair in combinations(SMALL.columns, 2):
            exact = exact_measurement(codes, SMALL, pair, 1.0).values
            found = synthetic.answer(list(pair))
            assert not isinstance(found, list)
            assert found.bound is not None
            assert found.bound_of_sum is not None
            bad |= bool((np.abs(found.counts - exact) > found.bound).any())
            bad |= float(np.abs(found.counts - exact).sum()) > found.bound_of_sum
        failures += bad
    assert failures <= 7  # each fails with probability 0.05 at most
    first, second = (seeded_release(sl.SyntheticTable(engine="loglinear", rho=1), table(90), seed=3) for _ in range(2))
    assert first.value["distribution"] == second.value["distribution"]


def test_large_tables_take_it_and_small_ones_do_not() -> None:
    large = sl.Schema([sl.Category(f"c{place}", range(10), other=None) for place in range(8)])
    prepared = sl.SyntheticTable(rho=1).prepare(large)
    assert prepared.engine == "loglinear"
    assert prepared.request["engine"] == "loglinear"
    assert sl.SyntheticTable(rho=1).prepare(sl.Schema(SCHEMA)).engine == "marginals"
    with pytest.raises(RangeError, match="leave rounds out"):
        sl.SyntheticTable(rho=1, rounds=5).prepare(large)
    with pytest.raises(RangeError, match="weights of all cells"):
        sl.SyntheticTable(rho=1, engine="loglinear", prediction=np.ones(24)).prepare(sl.Schema(SCHEMA))
    wide = sl.Schema([sl.Category(f"c{place}", range(3000), other=None) for place in range(4)])
    with pytest.raises(RangeError, match="coarser bins"):
        sl.SyntheticTable(rho=1).prepare(wide)


def test_triples_are_measured_where_a_public_number_of_rows_fills_them() -> None:
    asked: dict[str, Any] = {"workload": sl.marginals(3), "engine": "loglinear", "rho": 1}
    few, many, none = (
        sl.SyntheticTable(**asked, **more).prepare(sl.Schema(SCHEMA)).plan.candidates
        for more in ({"rows": 239}, {"rows": 240}, {})
    )
    pairs = tuple(map(Marginal, combinations(SMALL.columns, 2)))
    assert few == none == pairs
    assert many == (Marginal(SMALL.columns),)


@pytest.mark.parametrize("price", [{"epsilon": "1e-18"}, {"rho": "1e-18"}, {"epsilon": "1e6"}], ids=str)
@pytest.mark.parametrize("known", ["nothing", "rows", "releases"])
def test_no_size_of_noise_fails(price: dict[str, Any], known: str) -> None:
    import pandas as pd

    earlier = seeded_release(sl.SyntheticTable(rho=1, engine="loglinear"), table(300), seed=5)
    public = sl.PublicData(pd.DataFrame(frame(rows_of(50))), "generated")
    given = {"nothing": None, "rows": public, "releases": [earlier]}[known]
    query = sl.SyntheticTable(engine="loglinear", prediction=given, **price)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in (0, 1, 500):
            found = sl.Synthetic(seeded_release(query, table(count), seed=count))
            assert np.isfinite(found.answer(["a", "b"]).counts).all()  # type: ignore[union-attr]
            assert found.mass.total > 0


def test_public_rows_help_and_wrong_ones_cost_little() -> None:
    import pandas as pd

    exact = [exact_measurement(rows_of(400, 7), SMALL, pair, 1.0).values / 400 for pair in combinations("abc", 2)]
    wrong = rows_of(400, 8)[:, [0, 1, 2]].copy()
    wrong[:, 0] = 2 - wrong[:, 0]

    def error(given: np.ndarray | None) -> float:
        known = None if given is None else sl.PublicData(pd.DataFrame(frame(given)), "generated")
        total = 0.0
        for seed in range(6):
            query = sl.SyntheticTable(engine="loglinear", epsilon="0.2", prediction=known)
            made = sl.Synthetic(seeded_release(query, table(400, 7), seed=seed))
            for pair, shares in zip(combinations("abc", 2), exact, strict=True):
                total += float(np.abs(made.answer(list(pair)).shares - shares).sum())  # type: ignore[union-attr]
        return total

    alone, good, bad = error(None), error(rows_of(4000, 9)), error(wrong)
    assert good < 0.8 * alone
    assert bad < 1.25 * alone


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(2, 3), (1,), (5, 1, 4), (1 << 40, 1 << 40, 3), (1 << 61, 2, 2)]))
def test_distinct_rows_are_those_of_numpy(seed: int, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.choice(rng.integers(0, size, 3), 40) for size in sizes], axis=1)
    points, times = distinct_rows(codes, sizes)
    expected, counted = np.unique(codes, axis=0, return_counts=True)
    assert points.tolist() == expected.tolist()
    assert times.tolist() == counted.tolist()
