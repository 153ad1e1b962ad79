"""The traps of data release: sensitivities, masks, seeds of error, bad input before any charge."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Neighbours
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.published.mwem import MWEMPlan
from sidelight.synthesis import marginal_engine as engine
from sidelight.synthesis import single_queries as mwem
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.engine_plan import MarginalPlan
from sidelight.synthesis.marginal_engine import release_distribution
from sidelight.synthesis.measurement import MarginalMeasurement, PrivateMarginals, Protection
from sidelight.synthesis.prior import FitSetting, GivenWeights, PublicRowsPrior, UniformPrior
from sidelight.synthesis.selection import SCORE_STEPS, distances, open_candidates
from sidelight.synthesis.single_queries import release_by_single_queries
from sidelight.synthesis.spaces import DenseSpace, public_support
from sidelight.synthesis.workload import Marginal, linear_queries, marginals, prefixes, ranges
from sidelight.testing import SeededEntropy

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))
SWAP = Protection(neighbours=Neighbours.REPLACE)
ADD = Protection()


def codes_of(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 2, rows)
    return np.stack([base + rng.integers(0, 2, rows), base * 2 + rng.integers(0, 2, rows), base], axis=1)


def released(plan: MarginalPlan, codes: np.ndarray, *, seed: int = 0, **choices: Any) -> Any:
    counts = PrivateMarginals.from_codes(plan.domain, codes, protection=plan.protection)
    with Source(SeededEntropy(seed), declared="exact") as source:
        return release_distribution(counts, plan, source=source, **choices)


@pytest.mark.parametrize(("protection", "bounds", "wanted"), [
    (SWAP, (-1, 1), 2), (SWAP, (0, 1), 1), (ADD, (-1, 1), 1), (ADD, (0, 1), 1),
    (Protection(neighbours=Neighbours.REPLACE, rows_per_unit=3), (-1, 1), 6),
])  # fmt: skip
def test_query_sensitivities(protection: Protection, bounds: tuple[int, int], wanted: int) -> None:
    assert protection.query_sensitivity(bounds) == wanted


def test_a_whole_marginal_is_one_statistic() -> None:
    # all cells share the budget: the scale does not depend on how many there are
    assert [float(SWAP.sensitivity(norm)) for norm in ("l1", "l2")] == pytest.approx([2, 2**0.5])
    assert [float(ADD.sensitivity(norm)) for norm in ("l1", "l2")] == [1, 1]


def test_scores_move_by_the_sensitivity_and_not_more() -> None:
    rng = np.random.default_rng(0)
    largest = {True: 0, False: 0}
    for _ in range(2000):
        x, expected = rng.integers(0, 5, 6), rng.random(6) * 5
        swap = bool(rng.integers(2))
        y = x.copy()
        y[rng.integers(6)] += 1
        if swap and y[(place := int(rng.integers(6)))] > 0:
            y[place] -= 1
        moved = abs(int(distances(x, expected, [0])[0] - distances(y, expected, [0])[0]))
        limit = SWAP if swap else ADD
        assert moved <= limit.sensitivity("l1") * SCORE_STEPS  # in integers: no allowance for rounding is needed
        largest[swap] = max(largest[swap], moved)
    assert largest == {True: 2 * SCORE_STEPS, False: SCORE_STEPS}


def test_negative_queries_under_replacement_pay_for_two() -> None:
    matrix = np.array([[1.0, -1.0, 0.0], [0.5, 0.0, -0.5]])
    domain = Domain(("a",), (3,))
    common: dict[str, Any] = {
        "domain": domain,
        "price": Budget.of(epsilon=1),
        "protection": SWAP,
        "rows": 10,
        "rounds": 1,
    }
    signed = MWEMPlan(workload=linear_queries(matrix, lower=-1), **common)
    counting = MWEMPlan(workload=linear_queries(np.abs(matrix)), **common)
    assert signed.query_sensitivity == 2
    assert counting.query_sensitivity == 1
    assert signed.noise_scale == 2 * counting.noise_scale


def test_the_mask_sees_released_numbers_only_and_comes_before_the_draw() -> None:
    assert set(inspect.signature(open_candidates).parameters) == {"candidates", "expected", "measurements"}
    assert "counts" not in inspect.signature(mwem.SingleQueryPlan.open_places).parameters
    candidates = [Marginal(("a",)), Marginal(("b",))]
    noise = {"law": "gaussian", "scale": 1.0, "deviation": 1.0, "mean_error": 0.8}
    met = MarginalMeasurement(marginal=candidates[0], values=np.array([10.0, 11.0, 9.0]), **noise)  # type: ignore[arg-type]
    expected = [np.array([10.0, 10.0, 10.0]), np.zeros(4)]
    assert open_candidates(candidates, expected, [met]) == [1]
    far = [np.array([20.0, 0.0, 10.0]), np.zeros(4)]
    assert open_candidates(candidates, far, [met]) == [0, 1]
    assert open_candidates(candidates[:1], expected[:1], [met]) == [0]  # never nothing to choose from


def test_a_masked_marginal_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(2), price=Budget.of(rho=10), rounds=3)
    seen: list[int] = []
    original = engine.select_marginal

    def watched(counts: Any, candidates: Any, *rest: Any, **named: Any) -> int:
        seen.append(len(candidates))
        return original(counts, candidates, *rest, **named)

    monkeypatch.setattr(engine, "select_marginal", watched)
    fitted = released(plan, codes_of(5000))
    assert seen == [3, 2, 1]
    assert len({each.marginal for each in fitted.measurements}) == 3


def test_the_fit_is_a_function_of_released_numbers() -> None:
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(2), price=Budget.of(rho="0.01"), rounds=1)
    for seed in range(3):
        fitted = released(plan, codes_of(300, seed=seed), seed=seed)
        again = engine.WeightModel(
            DenseSpace(DOMAIN),
            UniformPrior(),
            FitSetting(mean_cells=plan.mean_cells, deviation=plan.deviation, rows=fitted.rows),
        )
        again.learn(fitted.measurements)
        again.finish()
        assert np.array_equal(again.weights, fitted.weights)


def test_structure_of_the_release_does_not_depend_on_rows() -> None:
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(2), price=Budget.of(epsilon=1))
    for rows in (np.zeros((0, 3), np.int64), codes_of(1), codes_of(10_000)):
        fitted = released(plan, rows)
        assert len(fitted.measurements) == plan.total_rounds
        assert fitted.rows >= 1
        assert np.isfinite(fitted.weights).all()


def test_bad_input_is_refused_before_any_charge() -> None:
    price = Budget.of(epsilon=1)
    with pytest.raises(SchemaError, match="no column 'd'"):
        MarginalPlan(domain=DOMAIN, workload=marginals(2, ["a", "d"]), price=price)
    with pytest.raises(RangeError, match="need as many columns"):
        MarginalPlan(domain=DOMAIN, workload=marginals(4), price=price)
    with pytest.raises(RangeError, match="public exactly where"):
        MarginalPlan(domain=DOMAIN, workload=marginals(2), price=price, protection=SWAP)
    with pytest.raises(RangeError, match="outside the declared bounds"):
        linear_queries(np.array([[-0.5, 1.0]]))
    with pytest.raises(RangeError, match="scale the queries"):
        linear_queries(np.array([[2.0]]), upper=2)
    with pytest.raises(RangeError, match=r"1e\+09 cells.*engine='loglinear'"):
        DenseSpace(Domain(tuple("abcdefghi"), (10,) * 9))
    with pytest.raises(RangeError, match="has 5 cells and the domain 24"):
        GivenWeights(domain=DOMAIN, given=np.ones(5))
    other = PublicRowsPrior(domain=Domain(("a", "b"), (3, 4)), codes=np.zeros((1, 2), np.int64))
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(2), price=price)
    with pytest.raises(RangeError, match="predict the release's own domain"):
        released(plan, codes_of(10), prior=other)
    with pytest.raises(RangeError, match="exactly one of rho"):
        Budget.of(rho=1, epsilon=1)


def test_support_covers_public_rows_and_says_what_it_misses() -> None:
    domain = Domain(tuple(f"c{place}" for place in range(14)), (10,) * 14)  # 1e14 cells
    rng = np.random.default_rng(0)
    private = np.minimum(rng.integers(0, 3, (4000, 1)) + rng.integers(0, 2, (4000, 14)), 9)
    public = private[:1500].copy()
    private[:800, :2] = 9  # a region that no public row has
    with Source(SeededEntropy(0)) as source:
        space = public_support(domain, public, source=source)
    assert space.points > 1500 / 2
    plan = MarginalPlan(domain=domain, workload=marginals(2, ["c0", "c1", "c2"]), price=Budget.of(rho=5), rounds=3)
    fitted = released(plan, private, prior=PublicRowsPrior(domain=domain, codes=public), space=space)
    assert fitted.support is not None
    assert (Marginal(("c0", "c1")), (9, 9)) in fitted.missed_regions()
    truth = np.bincount(private[:, 2], minlength=10) / 4000
    assert np.abs(fitted.marginal(["c2"]) - truth).sum() < 0.2


def test_mwem_runs_on_every_kind_of_query() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.random((5, 24)) * 2 - 1
    workload = marginals(1) + prefixes("b") + ranges("b") + linear_queries(matrix, lower=-1)
    counts = PrivateMarginals.from_codes(DOMAIN, codes_of(4000))
    errors = {}
    for name, plan_type in {"printed": MWEMPlan, "improved": mwem.SingleQueryPlan}.items():
        plan = plan_type(domain=DOMAIN, workload=workload, price=Budget.of(rho=5), rounds=30)
        with Source(SeededEntropy(0), declared="exact") as source:
            fitted = release_by_single_queries(counts, plan, source=source)
        assert len(fitted.answered) == 30
        queries = mwem.QuerySpace(plan.blocks, DenseSpace(DOMAIN))
        exact = queries.exact(counts) / (1 << 20)
        errors[name] = float(np.abs(queries.answers(fitted.weights) * 4000 - exact).mean())
    uniform = float(np.abs(queries.answers(np.full(24, 1 / 24)) * 4000 - exact).mean())
    assert errors["improved"] < errors["printed"] < uniform
