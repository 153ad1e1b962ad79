"""The published numbers of a tiny example, and the scales of both engines."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from sidelight.guarantees import Neighbours
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Categorical, Source
from sidelight.published.mwem import MWEMPlan, PrintedSteps
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.engine_plan import MarginalPlan
from sidelight.synthesis.measurement import PrivateMarginals, Protection
from sidelight.synthesis.query_blocks import MATRIX_STEPS
from sidelight.synthesis.selection import AnsweredQuery, QuerySpace
from sidelight.synthesis.spaces import DenseSpace
from sidelight.synthesis.workload import linear_queries, marginals
from sidelight.testing import SeededEntropy

SWAP = Protection(neighbours=Neighbours.REPLACE)
TINY = Domain(("cell",), (4,))
COUNTS = np.array([5, 3, 1, 1])
QUERIES = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]], float)


def tiny_plan(**settings: Any) -> MWEMPlan:
    settings = {"price": Budget.of(epsilon=1), "rounds": 1} | settings
    return MWEMPlan(domain=TINY, workload=linear_queries(QUERIES), protection=SWAP, rows=10, **settings)


def scores_of(plan: MWEMPlan) -> np.ndarray:
    counts = PrivateMarginals.from_cells(TINY, COUNTS, protection=SWAP)
    queries = QuerySpace(plan.blocks, DenseSpace(TINY))
    return np.abs(queries.exact(counts) - queries.on_grid(10 * queries.answers(np.full(4, 0.25))))


def law_of(plan: MWEMPlan) -> np.ndarray:
    unit = float(plan.selection_price.spread / (2 * plan.query_sensitivity * MATRIX_STEPS))
    weights = np.exp(unit * scores_of(plan))
    return weights / weights.sum()


REFERENCES: list[tuple[dict[str, Any], tuple[float, float], float]] = [
    ({"sensitivity": "printed"}, (0.281088, 0.218912), 4.0),
    ({}, (0.311230, 0.188770), 2.0),
    ({"rounds": 4}, (0.265605, 0.234395), 8.0),
    ({"rounds": 4, "price": Budget.of(rho="0.1")}, (0.289202, 0.210798), 6.324555),
]


@pytest.mark.parametrize(("settings", "masses", "scale"), REFERENCES)
def test_tiny_example_selects_and_blurs_as_published(
    settings: dict[str, Any], masses: tuple[float, float], scale: float
) -> None:
    plan = tiny_plan(**settings)
    assert scores_of(plan).tolist() == [3 * MATRIX_STEPS, 3 * MATRIX_STEPS, MATRIX_STEPS, MATRIX_STEPS]
    assert law_of(plan) == pytest.approx([masses[0], masses[0], masses[1], masses[1]], abs=5e-7)
    assert plan.noise_scale == pytest.approx(scale, abs=5e-7)


def test_tiny_selection_range_in_zcdp() -> None:
    plan = tiny_plan(rounds=4, price=Budget.of(rho="0.1"))
    assert float(plan.selection_price.spread) == pytest.approx(0.316228, abs=5e-7)


def test_tiny_update() -> None:
    plan = tiny_plan()
    queries = QuerySpace(plan.blocks, DenseSpace(TINY))
    weights = np.full(4, 0.25)
    answer = AnsweredQuery(place=0, block=plan.blocks[0], inside=0, value=8.5, scale=2.0)
    PrintedSteps(queries, weights, rows=10.0).learn(answer)
    assert weights == pytest.approx([0.271819, 0.271819, 0.228181, 0.228181], abs=5e-7)


def test_exact_selection_has_the_gumbel_law() -> None:
    plan = tiny_plan()
    law = law_of(plan)
    unit = plan.selection_price.spread / (2 * plan.query_sensitivity * MATRIX_STEPS)
    draw = Categorical(scores_of(plan), unit)
    trials = 40_000
    with Source(SeededEntropy(1), declared="exact") as source:
        hits = Counter(draw.draw(source) for _ in range(trials))
    observed = np.array([hits[place] for place in range(4)])
    gumbel = np.random.default_rng(0).gumbel(size=(10**6, 4)) + float(unit) * scores_of(plan)
    noisy_max = np.bincount(gumbel.argmax(axis=1), minlength=4)

    def statistic(counts: np.ndarray, masses: np.ndarray) -> float:
        expected = masses * counts.sum()
        return float(((counts - expected) ** 2 / expected).sum())

    limit = chi2.isf(1e-7, 3)
    assert statistic(observed, law) < limit
    assert statistic(noisy_max, law) < limit
    wrong = np.exp(1.3 * float(unit) * scores_of(plan))
    assert statistic(noisy_max, wrong / wrong.sum()) > limit


WIDE = Domain(tuple("abcdef"), (4, 3, 5, 2, 6, 4))


@pytest.mark.parametrize(
    ("price", "spread", "scale"),
    [(Budget.of(rho="0.5"), 0.258199, 3.651484), (Budget.of(epsilon=1), 1 / 60, 13.3333333)],
)
def test_marginal_engine_scales(price: Budget, spread: float, scale: float) -> None:
    plan = MarginalPlan(domain=WIDE, workload=marginals(3), price=price, protection=SWAP, rows=5000)
    assert plan.total_rounds == 6
    assert float(plan.selection_price.spread) == pytest.approx(spread, abs=5e-7)
    noise = plan.deviation if price.kind == "rho" else plan.mean_error
    assert noise == pytest.approx(scale, abs=5e-6)


def test_claims_are_the_price_and_known_before_data() -> None:
    pure = MarginalPlan(domain=WIDE, workload=marginals(2), price=Budget.of(epsilon=1))
    claim = pure.claims.pure()
    assert claim is not None
    assert claim.epsilon == 1
    started = MarginalPlan(domain=WIDE, workload=marginals(2), price=Budget.of(rho="0.1"))
    zcdp = started.claims.zcdp()
    assert zcdp is not None
    assert Fraction(99, 1000) < zcdp.rho <= Fraction(1, 10)
    both = MarginalPlan(domain=WIDE, workload=marginals(2), price=Budget.of(epsilon=1, delta="1e-6"))
    approx = both.claims.approx_at("1e-6")
    assert approx is not None
    assert Fraction(99, 100) < approx.epsilon <= 1
    assert both.claims.numerics == "exact"
