"""The day's private gradient: no records move it further than is paid for; the law of its noise; attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import sidelight as sl
from ranks_of_codes import ranks_of_codes
from sidelight.audit import audit
from sidelight.mechanisms import prefix_sums as run_module
from sidelight.noise import Source, rounded_gaussian
from sidelight.published.private_histograms import DayStep, GradientPlan
from sidelight.quantiles import PrivateHistograms
from sidelight.quantiles.sequence.plan import SequencePlan
from sidelight.testing import SeededEntropy


def plan_of(
    *, levels: Sequence[Any] = ("0.5",), epsilon: str = "1", days: int | None = 1, rows: int = 1, **learner: Any
) -> GradientPlan:
    """Four bins of ten codes each."""
    given = {"rho": 1, "bins": 4, "floor_weight": "0.1", **learner}
    person = [] if rows == 1 else [sl.PersonId("who", max_rows=rows)]
    plan = SequencePlan(
        query=sl.Quantiles(list(levels), column="x", epsilon=epsilon),
        schema=sl.Schema([sl.Number("x", lower=0, upper=40, granularity=1), *person]),
        learner=PrivateHistograms(0, 40, **given),
        days_per_person=days,
    )
    assert plan.gradients is not None
    return plan.gradients


def codes_of(plan: GradientPlan, records: Sequence[int], masses: np.ndarray) -> np.ndarray:
    """The integers that the noise must hide."""
    ranks = ranks_of_codes(np.sort(np.array(records, dtype=np.int64)), plan.grid, None)
    return plan.sums.quantiser.codes(plan.gradient(ranks, masses).ravel())


def moved(plan: GradientPlan, first: Sequence[int], second: Sequence[int], masses: np.ndarray) -> float:
    difference = codes_of(plan, first, masses) - codes_of(plan, second, masses)
    return math.sqrt(sum(int(each) ** 2 for each in difference))


def masses_with_floor(rng: np.random.Generator, rows: int, floor: float = 0.1) -> np.ndarray:
    """Rows with many entries on the floor."""
    return floor / 4 + (1 - floor) * rng.dirichlet(np.full(4, 0.1), size=rows)


@pytest.mark.parametrize("rows", [1, 3])
def test_no_neighbouring_records_move_the_gradient_further_than_is_paid_for(rows: int) -> None:
    rng = np.random.default_rng(17)
    for trial in range(200):
        levels = ("0.5",) if trial % 2 else ("0.1", "0.5", "0.9")
        plan = plan_of(levels=levels, epsilon=str(rng.choice(["0.01", "1", "6"])), rows=rows)
        records = np.repeat(rng.integers(0, 41, 4), rng.integers(1, 60, 4)).tolist()
        more = rng.integers(0, 41, rows).tolist()
        allowed = float(plan.sums.integer_sensitivity)
        assert moved(plan, records, records + more, masses_with_floor(rng, len(levels))) <= allowed


def attaining(epsilon: float) -> tuple[list[int], list[int], np.ndarray]:
    """Return records, the same with one more, and masses that attain the bound.

    Bins 1 and 2 lie right of the median; the new record falls between them and tilts them by e^epsilon. The number of
    points of bin 1 that count, out of eight, moves the odds from about e^(-epsilon/2) to e^(epsilon/2).
    """
    block = math.ceil(200 / epsilon)
    records = [14] * (2 * block) + [30] * block
    return records, [*records, 20], np.array([[0.925, 0.025, 0.025, 0.025]])


@pytest.mark.parametrize("epsilon", ["0.5", "1"])
def test_records_nearly_attain_the_bound_and_a_gap_that_moves_more_exceeds_it(epsilon: str) -> None:
    """The planted bug: the epsilon of the release is 30 % more than the gradient was calibrated for."""
    plan = plan_of(epsilon=epsilon)
    first, second, masses = attaining(float(epsilon))
    allowed = float(plan.sums.integer_sensitivity)
    assert 0.9 * allowed < moved(plan, first, second, masses) <= allowed
    planted = plan_of(epsilon=str(Fraction(epsilon) * Fraction(13, 10)))
    assert moved(planted, first, second, masses) > allowed


def rows_of_noise(plan: GradientPlan, count: int, seed: str) -> np.ndarray:
    """Released gradients of the same empty day, less the exact one; `count` runs of all their days."""
    masses = np.full((len(plan.tree.levels), 4), 0.25)
    ranks = ranks_of_codes(np.empty(0, np.int64), plan.grid, None)
    exact = plan.gradient(ranks, masses)
    found = []
    with Source(SeededEntropy("private gradient", path=[seed])) as source:
        for _ in range(count):
            step = DayStep(plan=plan, masses=masses, run=plan.sums.start())
            days = [step.take(ranks, source) for _ in range(plan.learner.run_days)]
            found.append([(day["gradient"] - exact) / math.sqrt(plan.sums.row_deviation**2) for day in days])
    return np.array(found).reshape(count, plan.learner.run_days, -1)


def test_the_noise_of_a_day_has_the_planned_law_and_no_other() -> None:
    plan = plan_of(levels=("0.1", "0.5", "0.9"))
    noise = rows_of_noise(plan, 300, "law").ravel()
    for factor, right in ((1.0, True), (1.3, False), (1 / 1.3, False)):
        square = float((noise * factor) @ (noise * factor))
        assert bool(1e-8 < chi2.cdf(square, len(noise)) < 1 - 1e-8) is right


def test_a_run_of_days_has_less_noise_in_its_sum_and_says_how_much() -> None:
    """Of 12 days, one run: the sum's variance is what the releases state, far below that of 12 separate days."""
    plan = plan_of(run_days=12, days=1)
    masses, ranks = np.full((1, 4), 0.25), ranks_of_codes(np.empty(0, np.int64), plan.grid, None)
    step = DayStep(plan=plan, masses=masses, run=plan.sums.start())
    with Source(SeededEntropy("stated")) as source:
        stated = sum(step.take(ranks, source)["gradient_variance"] for _ in range(12))
    sums = rows_of_noise(plan, 200, "run").sum(axis=1).ravel()
    square = float(sums @ sums) * plan.sums.row_deviation**2 / stated
    assert 1e-8 < chi2.cdf(square, len(sums)) < 1 - 1e-8
    assert stated < 0.4 * 12 * plan_of(days=1).sums.row_deviation ** 2


@pytest.mark.parametrize(("run_days", "days"), [(1, 1), (1, None), (6, 1), (6, 3), (6, None)])
def test_every_day_is_charged_rho_whatever_the_run(run_days: int, days: int | None) -> None:
    plan = plan_of(run_days=run_days, days=days, rho="0.05")
    claim = plan.claims.zcdp()
    assert claim is not None
    assert Fraction("0.05") * (1 - Fraction(1, 10**9)) < claim.rho <= Fraction("0.05")


def attack(plan: GradientPlan, monkeypatch: Any, *, draws: int, seed: str) -> Any:
    """Project a whole run on how it differs when one record is in its first two days, against in neither."""
    first, second, masses = attaining(1.0)
    exact = [codes_of(plan, records, masses) for records in (first, second)]
    in_days = min(plan.sums.participations, 2)
    coefficients = plan.sums.factorisation.coefficients.astype(float)
    difference = (exact[1] - exact[0]).astype(float)
    days = plan.learner.run_days
    shift = np.zeros((days, len(difference)))
    for t in range(in_days):
        shift[t:] += coefficients[: days - t, None] * difference
    direction = shift / np.linalg.norm(shift)
    ranks = [ranks_of_codes(np.array(sorted(each), dtype=np.int64), plan.grid, None) for each in (first, second)]
    known = {id(each): plan.gradient(each, masses) for each in ranks}  # two data sets: computed once, for speed
    monkeypatch.setattr(GradientPlan, "gradient", lambda plan, ranks, masses: known[id(ranks)])

    def sampler(added: bool) -> Callable[[int], list[float]]:
        source = Source(SeededEntropy("attack", path=[f"{seed} {added}"]))

        def sample(count: int) -> list[float]:
            found = []
            for _ in range(count):
                rows: list[np.ndarray] = []
                step = DayStep(plan=plan, masses=masses, run=plan.sums.start())
                for t in range(days):
                    released = step.take(ranks[added and t < in_days], source)["gradient"].ravel()
                    rows.append(released / float(plan.sums.quantiser.quantum))
                blurred = [sum(coefficients[t - s] * rows[s] for s in range(t + 1)) for t in range(days)]
                found.append(float((direction * np.array(blurred)).sum()))
            return found

        return sample

    return audit(sampler(False), sampler(True), draws=draws)


@pytest.mark.parametrize(("run_days", "days"), [(1, 1), (2, 2)])
def test_an_attack_cannot_refute_what_the_days_were_charged_and_refutes_half_the_noise(
    run_days: int, days: int, monkeypatch: Any
) -> None:
    """Someone in one day of one, and in both days of a run of two, against one or two days' claims."""
    plan = plan_of(run_days=run_days, days=days, rho="0.5")
    charged = plan.sums.claims  # for someone in `days` days of the run: equal to the charge of that number of days
    with monkeypatch.context() as patch:
        honest = attack(plan, patch, draws=2000, seed=f"honest {run_days}")
    assert not honest.refutes(charged)
    assert honest.mu().value > 0.5
    monkeypatch.setattr(
        run_module, "_noise", lambda made, source: rounded_gaussian(made.size, made.noise_scale / 2, source)
    )
    assert attack(plan, monkeypatch, draws=2000, seed=f"halved {run_days}").refutes(charged)


@pytest.mark.planted("one day too few declared")
def test_one_day_too_few_declared_is_found() -> None:
    """The planted bug: a run calibrated for one day a person, and a person in two."""
    honest, planted = plan_of(run_days=3, days=2, rho="0.5"), plan_of(run_days=3, days=1, rho="0.5")
    assert planted.sums.noise_scale < honest.sums.noise_scale
    shift = honest.sums.factorisation.coefficients[:3].astype(float)
    both = shift + np.concatenate([[0.0], shift[:2]])
    one_day = float(honest.sums.integer_sensitivity) / 2
    squared = one_day**2 * float(both @ both)
    charged = 2 * Fraction(1, 2) * 2  # two days of rho = 1/2, as mu^2
    assert squared / float(honest.sums.noise_scale) ** 2 <= charged
    assert squared / float(planted.sums.noise_scale) ** 2 > charged


def test_a_floor_below_the_declared_one_is_a_bug_that_the_search_sees() -> None:
    plan = plan_of(epsilon="1")
    first, second, _ = attaining(1.0)
    low = np.array([[0.95, 0.0125, 0.0125, 0.025]])
    assert moved(plan, first, second, low) > float(plan.sums.integer_sensitivity)


def test_mistakes() -> None:
    wrong: list[dict[str, Any]] = [{"bins": 1}, {"bins": True}, {"floor_weight": "1.5"}, {"rho": 0}, {"rho": "1e-13"}]
    wrong += [{"hedge_weight": "0.1"}, {"boldness": 0}, {"run_days": 0}]
    for each in wrong:
        with pytest.raises(sl.errors.RangeError):
            plan_of(**each)
    with pytest.raises(sl.errors.RangeError, match="bins apart"):
        PrivateHistograms(5, 5, rho=1)
    assert replace(PrivateHistograms(0, 1, rho="0.1"), rho="0.2").rho == Fraction(1, 5)
