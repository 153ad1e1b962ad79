"""The number of rows from all that was released: the law of the average, where it is used, and what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.guarantees import Neighbours
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.synthesis import certify as rows_bound
from sidelight.synthesis.answer_bounds import NoiseTail
from sidelight.synthesis.certify import average_of_sums, bound_rows
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.engine_plan import MarginalPlan, SizedPlan, sized
from sidelight.synthesis.marginal_engine import release_distribution, run_rounds
from sidelight.synthesis.measurement import (
    MarginalMeasurement,
    NoisyRows,
    PrivateMarginals,
    Protection,
    RowsEstimate,
    measure,
    noisy_rows,
)
from sidelight.synthesis.refit import Fitted
from sidelight.synthesis.spaces import Floats
from sidelight.synthesis.workload import Marginal, marginals, ranges
from sidelight.testing import SeededEntropy, seeded_release

PRICES = [Budget.of(epsilon=1), Budget.of(rho="0.05"), Budget.of(epsilon=1, delta="1e-6")]
DOMAIN = Domain(("a", "b", "c"), (3, 2, 8))


def first(value: float, deviation: float) -> NoisyRows:
    return NoisyRows(value=value, law="gaussian", scale=deviation, deviation=deviation)


def measured(values: Sequence[float], deviation: float) -> MarginalMeasurement:
    return MarginalMeasurement(
        marginal=Marginal(("a",)),
        values=np.array(values, np.float64),
        law="gaussian",
        scale=deviation,
        deviation=deviation,
        mean_error=deviation,
    )


def seeded(seed: int) -> Source:
    return Source(SeededEntropy(seed), declared="exact")


def table(rows: int, *, seed: int, domain: Domain = DOMAIN) -> PrivateMarginals:
    rng = np.random.default_rng(seed)
    return PrivateMarginals.from_cells(domain, rng.multinomial(rows, rng.dirichlet(np.full(domain.cells, 0.3))))


# The average


def test_by_hand() -> None:
    start = RowsEstimate(first(90, 10))  # variance 100
    assert start.rows == 90
    once = start.with_sums([measured([30, 70, 0, 4], 5)])  # 104, variance 4 · 25
    assert once.mean == pytest.approx(97)
    twice = once.with_sums([measured([50, 49], 12.5**0.5)])  # 99, variance 25
    assert twice.mean == pytest.approx((90 + 104 + 4 * 99) / 6, rel=1e-12)
    assert twice.rows == 98
    both = start.with_sums([measured([30, 70, 0, 4], 5), measured([50, 49], 12.5**0.5)])
    assert both == twice


def test_it_is_a_number_that_a_table_can_have() -> None:
    assert RowsEstimate(first(-40, 1)).with_sums([measured([-90, 3], 1)]).rows == 1
    assert RowsEstimate(first(2.0**62, 1)).with_sums([measured([2.0**61], 1)]).rows == 2**40
    for deviation in (1e-200, 1e200):  # the squares of these overflow
        found = RowsEstimate(first(10, deviation)).with_sums([measured([20], deviation)])
        assert found.rows == 15


def test_a_public_number_stays() -> None:
    assert RowsEstimate(500.0).with_sums([measured([3, 4], 1e-3)]).rows == 500
    plan = MarginalPlan(
        domain=DOMAIN,
        workload=marginals(2),
        price=PRICES[0],
        protection=Protection(neighbours=Neighbours.REPLACE),
        rows=500,
    )
    counts = PrivateMarginals.from_cells(DOMAIN, np.full(48, 10), protection=plan.protection)  # 20 rows in no cell
    with seeded(1) as source:
        fitted = release_distribution(counts, sized(plan, counts, source=source), source=source)
    assert fitted.rows == 500
    assert fitted.first_rows is None


@given(
    numbers=st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(1, 1000), st.integers(1, 9)), min_size=1),
    start=st.tuples(st.integers(-(10**6), 10**6), st.integers(1, 1000)),
)
def test_the_average_is_the_one_with_inverse_variances(
    numbers: list[tuple[int, int, int]], start: tuple[int, int]
) -> None:
    told = [measured([total, *[0] * (cells - 1)], float(deviation)) for total, deviation, cells in numbers]
    found = RowsEstimate(first(*map(float, start))).with_sums(told)
    variances = [Fraction(start[1]) ** 2, *(Fraction(deviation**2 * cells) for _, deviation, cells in numbers)]
    totals = [start[0], *(total for total, _, _ in numbers)]
    exact = sum(t / v for t, v in zip(totals, variances, strict=True)) / sum(1 / v for v in variances)
    assert found.mean == pytest.approx(float(exact), rel=1e-9, abs=1e-3)
    assert RowsEstimate(found.first, found.sums[::-1]).mean == pytest.approx(found.mean, rel=1e-9, abs=1e-3)


# What the numbers tell


def test_every_partition_tells_the_rows_that_lie_in_a_cell() -> None:
    """Also where rows are left out: the same ones for all partitions, grouped or not."""
    data = {"sex": ["F", "M", None, "X", "F"] * 40, "age": [1.0, 2.0, 3.0, 4.0, float("nan")] * 40}
    columns = [
        sl.Category("sex", ["F", "M"], other=None),
        sl.Number("age", lower=0, upper=8, granularity=1),
    ]
    query = sl.SyntheticTable(marginals(2) + marginals(1) + ranges("age"), epsilon=1, bins={"age": 8})
    prepared = query.prepare(sl.Schema(columns))
    counts = prepared.counts(sl.Table(data, schema=columns))
    sums = {int(each.grouped(counts.exact(each.columns)).sum()) for each in prepared.plan.candidates}
    assert sums == {counts.exact_rows()}
    assert counts.exact_rows() < 200
    codes = PrivateMarginals.from_codes(DOMAIN, DOMAIN.unravel(np.arange(48)))
    grouped = Marginal(("a", "c"), (2, 4))
    assert grouped.grouped(codes.exact(("a", "c"))).sum() == codes.exact_rows() == 48


@pytest.mark.parametrize("price", PRICES)
def test_the_variance_is_the_inverse_of_the_sum_of_inverse_variances(price: Budget) -> None:
    """800 draws: the mean square of a standardized error is 1 ± 0.05 (Gauss), ± 0.09 at most (Laplace, kurtosis 6)."""
    counts = table(300, seed=0)
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(2), price=price)
    found, naive = [], []
    with seeded(3) as source:
        for _ in range(800):
            start = noisy_rows(counts, price=plan.size_price, source=source)
            told = [measure(counts, each, price=plan.measurement_price, source=source) for each in plan.candidates]
            information = start.deviation**-2 + sum(each.deviation**-2 / each.values.size for each in told)
            found.append((RowsEstimate(start).with_sums(told).mean - 300) * information**0.5)
            naive.append((np.mean([start.value, *(each.values.sum() for each in told)]) - 300) * information**0.5)
    assert abs(np.mean(found)) < 0.18  # five deviations
    assert 0.75 < np.mean(np.square(found)) < 1.3
    assert not 0.75 < np.mean(np.square(found)) * 1.3**2 < 1.3  # a law 30 % off
    assert np.mean(np.square(naive)) > 1.1 * np.mean(np.square(found))  # equal weights


def test_selections_do_not_bias_it() -> None:
    """Whole releases that choose partitions of 2 to 24 cells: the error times Σ 1/v has mean 0 and variance E Σ 1/v."""
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(2) + marginals(1), price=Budget.of(epsilon=2), rounds=3)
    counts = table(300, seed=1)
    errors, information, sizes = [], [], set()
    for seed in range(100):
        with seeded(seed) as source:
            fitted = release_distribution(counts, plan, source=source)
        assert fitted.first_rows is not None
        estimate = RowsEstimate(fitted.first_rows).with_sums(fitted.measurements)
        assert estimate.rows == fitted.rows
        known = fitted.first_rows.deviation**-2
        known += sum(each.deviation**-2 / each.values.size for each in fitted.measurements)
        errors.append((estimate.mean - 300) * known)
        information.append(known)
        sizes |= {each.values.size for each in fitted.measurements}
    assert len(sizes) > 3
    scale = float(np.mean(information)) ** 0.5
    assert abs(np.mean(errors)) < 5 * scale / 100**0.5
    assert 0.6 < np.mean(np.square(errors)) / scale**2 < 1.7


# Where it is used


def test_later_rounds_expect_what_earlier_ones_told() -> None:
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(2), price=PRICES[0], rounds=3)
    counts = table(300, seed=2)
    for chosen in (plan, None):
        with seeded(5) as source:
            fitted = release_distribution(counts, chosen or sized(plan, counts, source=source), source=source)
        assert fitted.first_rows is not None
        estimate = RowsEstimate(fitted.first_rows)
        seen = []
        for record in fitted.rounds:
            seen.append(estimate.rows)
            for mass in record.expected:
                assert mass.sum() == pytest.approx(estimate.rows, rel=1e-9)
            estimate = estimate.with_sums([record.measured])
        assert fitted.rows == estimate.rows
        assert len({*seen, fitted.rows, fitted.first_rows.rows}) > 2


def test_a_plan_keeps_the_first_number_as_it_came_out() -> None:
    """A negative number is clamped for the plan and not for the average."""
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(2), price=PRICES[0])
    counts = PrivateMarginals.from_cells(DOMAIN, np.zeros(48, np.int64))
    found = []
    for seed in range(10):
        with seeded(seed) as source:
            later = sized(plan, counts, source=source)
        assert isinstance(later, SizedPlan)
        assert later.rows == max(1, later.first_rows.value)
        found.append(later.first_rows.value)
    assert min(found) < 0 < max(found)


class Full:
    """A model without room for anything."""

    def __init__(self) -> None:
        self.measurements: list[MarginalMeasurement] = []

    def learn(self, measurements: Sequence[MarginalMeasurement]) -> None:
        self.measurements += measurements

    def expected(self, wanted: Sequence[Marginal]) -> list[Floats]:
        return [np.zeros(each.shape(DOMAIN)) for each in wanted]

    def allows(self, marginal: Marginal) -> bool:
        return False


def test_a_model_without_room_gets_the_smallest_marginal() -> None:
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(sets=[["a", "c"], ["a", "b"]]), price=PRICES[0], rounds=2)
    assert plan.candidates[0] == Marginal(("a", "c"))  # 24 cells; a x b has 6
    model = Full()
    with seeded(0) as source:
        run_rounds(table(300, seed=0), plan, model, source=source)
    assert [each.marginal for each in model.measurements] == [Marginal(("a", "b"))] * 2


# The bound


def test_the_bound_on_the_rows_holds_and_needs_its_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    releases: list[tuple[Fitted, int]] = []
    for price, seed in product(PRICES, range(15)):
        plan = MarginalPlan(domain=DOMAIN, workload=marginals(2), price=price, rounds=2)
        rows = (0, 5, 300)[seed % 3]
        with seeded(seed) as source:
            releases.append((release_distribution(table(rows, seed=seed), plan, source=source), rows))

    def outside() -> int:
        found = 0
        for fitted, rows in releases:
            bound = bound_rows(
                fitted.measurements, fitted.rows, first=fitted.first_rows, sizes=[6, 16, 24], failure=0.05 / 9
            )
            found += abs(fitted.rows - rows) > bound
        return found

    assert outside() <= 3
    with monkeypatch.context() as patch:
        patch.setattr(NoiseTail, "sum_level", lambda *given: 0.0)
        assert outside() > 20
    right = rows_bound.average_of_sums
    monkeypatch.setattr(rows_bound, "average_of_sums", lambda told, **named: (right(told, **named)[0], 0.0))
    assert outside() > 15


@pytest.mark.parametrize("price", [Budget.of(epsilon=1), Budget.of(rho="0.05")])
def test_no_choice_of_later_sizes_escapes_the_level_of_the_average(price: Budget) -> None:
    """After a large first error a huge marginal keeps its weight, else a small one takes it away: the worst choice."""
    wide = Domain(("a", "b"), (2, 50))
    counts = PrivateMarginals.from_cells(wide, np.full(100, 4))
    small, large = Marginal(("a",)), Marginal(("a", "b"))
    errors, levels = [], []
    with seeded(7) as source:
        for _ in range(1500):
            told = [measure(counts, Marginal(("b",)), price=price, source=source)]
            later = large if told[0].values.sum() > 400 else small
            told += [measure(counts, later, price=price, source=source)]
            average, level = average_of_sums(told, sizes=[2, 50, 100], each_side=0.05)
            errors.append(average - 400)
            levels.append(level)
    assert np.mean(errors) > 0.1 * np.std(errors)  # the bias that Proposition 9 speaks of
    outside = np.array(errors) > np.array(levels)
    assert outside.mean() < 0.05
    assert (np.array(errors) > 0.5 * np.array(levels)).mean() > 0.05  # and half of it is not enough


# What it is worth


def test_a_small_table_knows_its_size() -> None:
    """500 rows, epsilon 1, one marginal of 2 x 2: the first number is off by up to 100."""
    rng = np.random.default_rng(0)
    data = {name: rng.integers(0, 2, 500) for name in "ab"}
    rows = sl.Table(data, schema=[sl.Category(name, range(2), other=None) for name in "ab"])
    query = sl.SyntheticTable(marginals(sets=[["a", "b"]]), epsilon=1)
    prepared = query.prepare(rows.schema)
    before, after = [], []
    for seed in range(40):
        with seeded(seed) as source:
            fitted = prepared.fit(prepared.counts(rows), source)
        assert fitted.first_rows is not None
        before.append(fitted.first_rows.rows)
        after.append(fitted.rows)
    assert np.std(before) > 40
    assert np.std(before) / np.std(after) > 5  # √(2·50²) against about √(8·1.13²)
    assert sl.Synthetic(seeded_release(query, rows, seed=0)).rows == pytest.approx(500, abs=20)


def test_counts_of_small_tables_are_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = MarginalPlan(domain=DOMAIN, workload=marginals(2), price=PRICES[0])

    def error() -> float:
        found = []
        for seed in range(12):
            counts = table(400, seed=seed)
            with seeded(seed) as source:
                fitted = release_distribution(counts, plan, source=source)
            for each, mass in zip(plan.candidates, fitted.marginals(plan.candidates), strict=True):
                found.append(np.abs(fitted.rows * mass - counts.exact(each.columns)).sum())
        return float(np.mean(found))

    now = error()
    monkeypatch.setattr(RowsEstimate, "with_sums", lambda self, measurements: self)
    assert now < 0.9 * error()
