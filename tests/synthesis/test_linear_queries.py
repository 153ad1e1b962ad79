"""Linear queries: the engine that is chosen for them, the refit of single answers, rounds, price and accuracy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.published.mwem import MWEMPlan
from sidelight.synthesis import linear_queries
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.engine_choice import query_sizes
from sidelight.synthesis.engine_plan import nominal_claims
from sidelight.synthesis.refit import QueryRefit
from sidelight.synthesis.selection import AnsweredQuery, QuerySpace
from sidelight.synthesis.single_queries import SingleQueryPlan, worthwhile_answers
from sidelight.synthesis.spaces import DenseSpace
from sidelight.testing import seeded_release

PRICES: list[dict[str, Any]] = [{"rho": "0.05"}, {"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}]


def column(cells: int) -> sl.Number:
    return sl.Number("value", lower=0, upper=cells - 1, granularity=1)


def asked(matrix: Any, **given: Any) -> sl.SyntheticTable:
    cells = matrix.shape[1]
    price = {} if "epsilon" in given else {"rho": "0.05"}
    return sl.SyntheticTable(linear_queries(matrix), bins={"value": cells}, **price | given)


def ranges_of(count: int, cells: int, rng: np.random.Generator) -> np.ndarray:
    ends = np.sort(rng.integers(0, cells, (count, 2)), axis=1)
    places = np.arange(cells)
    return ((places >= ends[:, :1]) & (places <= ends[:, 1:])).astype(float)


def engine_for(matrix: Any, **given: Any) -> str:
    return asked(matrix, **given).prepare(sl.Schema([column(matrix.shape[1])])).engine


def fitted_to(matrix: np.ndarray, values: list[float], *, deviation: float, prior: Any = None) -> QueryRefit:
    domain = Domain(("value",), (matrix.shape[1],))
    (block,) = linear_queries(matrix, lower=-1).blocks(domain)
    queries = QuerySpace([block], DenseSpace(domain))
    start = np.full(domain.cells, 1 / domain.cells) if prior is None else prior
    refit = QueryRefit(queries, start, rows=1000.0, deviation=deviation)
    for place, value in enumerate(values):
        refit.learn(AnsweredQuery(place=place, block=block, inside=place, value=value, scale=deviation))
    refit.finish()
    return refit


def test_one_answer_is_met_at_once_where_the_published_step_leaves_most_of_its_error() -> None:
    query = np.array([[1.0, 1, 0, 0, 0, 0, 0, 0]])
    refit = fitted_to(query, [700.0], deviation=1.0)
    assert 1000 * (query[0] @ refit.weights) == pytest.approx(700, abs=0.1)
    published = 0.25 * np.exp((700 - 250) / 2000)  # the mass of the query after one step, not normalised
    assert 1000 * published / (published + 0.75) < 400  # the negative control


def test_the_refit_is_the_minimum_that_its_page_says() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.uniform(-1, 1, (3, 5))
    prior = rng.dirichlet(np.ones(5))
    values, deviation = [120.0, -80.0, 310.0], 25.0

    def objective(logits: np.ndarray) -> float:
        weights = np.exp(logits - logits.max())
        weights /= weights.sum()
        apart = np.array(values) - 1000 * (np.rint(matrix * 2**20) / 2**20) @ weights
        divergence = float((weights * np.log(weights / prior)).sum())
        return float((apart**2).sum()) / (2 * deviation**2) + 0.05 * 1000 * divergence

    best = minimize(objective, np.log(prior), method="BFGS", options={"gtol": 1e-9})
    expected = np.exp(best.x - best.x.max())
    found = fitted_to(matrix, values, deviation=deviation, prior=prior).weights
    assert found == pytest.approx(expected / expected.sum(), abs=1e-4)
    assert found != pytest.approx(prior, abs=1e-2)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e7, 1e7), min_size=1, max_size=4), st.floats(1e-3, 1e6))
def test_no_answer_breaks_the_refit(values: list[float], deviation: float) -> None:
    matrix = np.random.default_rng(0).integers(0, 2, (4, 6)).astype(float)
    weights = fitted_to(matrix, values, deviation=deviation).weights
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)


def test_many_queries_on_few_cells_take_the_marginal_and_one_on_many_cells_is_asked_itself() -> None:
    rng = np.random.default_rng(0)
    assert engine_for((rng.random((500, 50)) < 0.5).astype(float)) == "marginals"
    assert engine_for((rng.random((200, 500)) < 0.02).astype(float)) == "marginals"
    assert engine_for((rng.random((1, 20_000)) < 0.5).astype(float)) == "queries"
    assert engine_for(ranges_of(200, 500, rng)) == "queries"
    halves = (rng.random((50, 1000)) < 0.5).astype(float)
    assert engine_for(halves, epsilon=1, rows=1000) == "queries"
    assert engine_for(halves, epsilon=1, rows=10**8) == "marginals"  # cells with many rows keep nothing of the noise


def test_a_sparse_matrix_and_a_complement_are_chosen_for_alike() -> None:
    rng = np.random.default_rng(1)
    matrix = (rng.random((40, 300)) < 0.1).astype(float)
    dense, sparse, rest = (
        query_sizes(linear_queries(each).parts[0])  # type: ignore[arg-type]
        for each in (matrix, csr_matrix(matrix), 1 - matrix)
    )
    assert dense == pytest.approx(sparse)
    assert dense[1] == pytest.approx(rest[1])


def test_queries_beside_marginals_are_asked_one_by_one_only_if_that_helps() -> None:
    schema = sl.Schema([column(500), sl.Category("sex", ["F", "M"], other=None)])
    rng = np.random.default_rng(2)
    few = linear_queries((rng.random((200, 500)) < 0.02).astype(float), columns=["value"])
    wide = linear_queries(ranges_of(200, 500, rng), columns=["value"])
    given: dict[str, Any] = {"bins": {"value": 500}, "rho": "0.05"}
    assert sl.SyntheticTable(few + sl.marginals(2), **given).prepare(schema).engine == "marginals"
    assert sl.SyntheticTable(few + wide + sl.marginals(2), **given).prepare(schema).engine == "queries"
    assert sl.SyntheticTable(sl.marginals(2), **given).prepare(schema).engine == "marginals"


@pytest.mark.parametrize("engine", ["auto", "marginals", "queries", "mwem"])
def test_a_matrix_of_another_shape_is_refused_before_any_charge(engine: Any) -> None:
    query = sl.SyntheticTable(linear_queries(np.ones((2, 7))), bins={"value": 6}, rho=1, engine=engine)
    with pytest.raises(RangeError, match="has 7 columns, but value has 6 cells"):
        query.prepare(sl.Schema([column(6)]))


def test_mwem_stays_as_published_and_queries_does_not() -> None:
    matrix, schema = np.eye(4), sl.Schema([column(4)])
    published = asked(matrix, engine="mwem").prepare(schema).plan
    improved = asked(matrix, engine="queries").prepare(schema).plan
    assert isinstance(published, MWEMPlan)
    assert type(improved) is SingleQueryPlan
    assert published.total_rounds == 1
    assert published.for_rows(1e6) is published
    assert improved.for_rows(1e6) is not improved


def plan_of(price: dict[str, Any], *, queries: int = 300, cells: int = 500, **given: Any) -> SingleQueryPlan:
    matrix = np.random.default_rng(0).integers(0, 2, (queries, cells)).astype(float)
    shared: dict[str, Any] = {"domain": Domain(("value",), (cells,)), "workload": linear_queries(matrix)}
    return SingleQueryPlan(**shared, price=Budget.of(**price), **given)


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("rows", [1.0, 500.0, 5e4, 2.0**40])
def test_whatever_the_rows_say_the_rounds_cost_no_more_than_the_claim(price: dict[str, Any], rows: float) -> None:
    plan = plan_of(price)
    settled = plan.for_rows(rows)
    assert settled.rounds is not None
    for claim in nominal_claims(plan.price, plan.protection):
        assert settled.claims.implies(claim)
    dearer = replace(settled, price=settled.price.part(2))  # the negative control
    assert not all(dearer.claims.implies(claim) for claim in nominal_claims(plan.price, plan.protection))


@pytest.mark.parametrize("price", PRICES)
def test_more_rows_allow_more_rounds_up_to_queries_and_cells(price: dict[str, Any]) -> None:
    found = [worthwhile_answers(plan_of(price), rows) for rows in (1.0, 500.0, 5e3, 5e4, 1e9)]
    assert found == sorted(found)
    assert found[0] == 1
    assert 3 <= found[1] <= 40
    assert found[-1] == 300
    assert worthwhile_answers(plan_of(price, queries=300, cells=20), 1e9) == 20
    assert plan_of(price, rounds=7).for_rows(1e9).total_rounds == 7


def test_auto_beats_the_published_algorithm_which_returns_its_start() -> None:
    rng = np.random.default_rng(0)
    cells, rows = 200, 5000
    density = np.exp(np.cumsum(rng.normal(0, 6 / np.sqrt(cells), cells)))
    counts = rng.multinomial(rows, density / density.sum())
    table = sl.Table({"value": np.repeat(np.arange(cells), counts)}, schema=[column(cells)])
    for matrix, engine in ((ranges_of(60, cells, rng), "queries"), (np.eye(cells), "marginals")):
        truth = matrix @ counts
        even = np.abs(matrix.mean(axis=1) * rows - truth).mean()
        chosen, published = (
            sl.Synthetic(seeded_release(asked(matrix, **given), table, seed=4)) for given in ({}, {"engine": "mwem"})
        )
        assert chosen.release.value["engine"] == engine
        asked_again = linear_queries(matrix)
        found, usual = (np.abs(each.answer(asked_again).counts - truth).mean() for each in (chosen, published))
        assert found < 0.25 * even
        assert usual > 0.9 * even


def test_the_bounds_of_refitted_answers_hold() -> None:
    rng = np.random.default_rng(5)
    matrix = ranges_of(30, 40, rng)
    counts = rng.multinomial(3000, rng.dirichlet(np.ones(40)))
    table = sl.Table({"value": np.repeat(np.arange(40), counts)}, schema=[column(40)])
    slack = []
    for seed in range(20):
        made = sl.Synthetic(seeded_release(asked(matrix, engine="queries", rho=1), table, seed=seed))
        answers: Any = made.answer(linear_queries(matrix))
        assert answers.bound is not None
        slack.append(answers.bound - np.abs(answers.counts - matrix @ counts).max())
    assert min(slack) > 0  # worst cases, all of them: 95 % is promised
    assert np.median(slack) < 500
