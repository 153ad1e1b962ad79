"""What a descent claims: its parts as exact fractions, the choice and two adaptive steps by enumeration."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from contextlib import nullcontext
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Person, Row
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions.origin import guess
from sidelight.regression.descent import mapped_rows
from sidelight.regression.descent.fit import descend
from sidelight.regression.descent.geometry import PublicMoments
from sidelight.regression.descent.integer_rows import LOSS_LEVELS, offset_sensitivity, softmax_losses
from sidelight.regression.descent.plan import DescentPlan, plan_descent
from sidelight.regression.descent.row_sums import OffsetSum
from sidelight.regression.descent.rules import odds_of
from sidelight.regression.descent.starts import StartChoice
from sidelight.regression.descent.targets import Targets
from sidelight.regression.model_predictions import PredictedCoefficients
from sidelight.regression.rows import BoundedArrays
from sidelight.testing import SeededEntropy

NUMBER = Targets(kind="squared", target_range=(-1, 1))
TWO = Targets(kind="logistic", classes=(0, 1))
PUBLIC = PublicMoments.of(np.random.default_rng(0).normal(size=(100, 2)) / 9)
GUESS = PredictedCoefficients(theta=np.ones((3, 1)), origin=guess(), what="a guess")


def planned(**more: Any) -> DescentPlan:
    given: dict[str, Any] = {"targets": NUMBER, "features": 2, "epsilon": 1, "delta": "1e-6", "data_norm": 1}
    return plan_descent(**given | more)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"rows": 500},
    {"public": PUBLIC},
    {"public": PUBLIC, "candidates": (GUESS,)},
    {"public": PUBLIC, "candidates": (GUESS,), "rows": 500},
    {"candidates": (GUESS, GUESS)},
    {"geometry": "none"},
    {"geometry": "none", "rows": 500, "candidates": (GUESS,)},
    {"unit": Person("who", 7), "candidates": (GUESS,)},
    {"targets": TWO},
    {"targets": TWO, "geometry": "none", "unit": Person("who", 3)},
    {"targets": TWO, "intercept": False},
    {"targets": Targets(kind="softmax", classes=(0, 1, 2), class_weights=(1, 2, 3))},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_the_parts_cost_no_more_than_the_whole(settings: dict[str, Any], epsilon: str) -> None:
    plan = planned(**settings, epsilon=epsilon)
    assert isinstance(plan.mu, Fraction)
    assert plan.mu**2 * Fraction(999, 1000) < sum(plan.squares.values()) <= plan.mu**2
    for name, square in plan.squares.items():
        share = getattr(plan.shares, name)
        assert share * plan.mu**2 * Fraction(999, 1000) < square <= share * plan.mu**2
    for passes, clip in itertools.product((8, 16, 3), (1, 12345, 2**31)):
        steps = plan.step_noise(np.zeros((3, 1), np.int64), clip=clip, passes=passes)
        one = steps.claims.gdp()
        assert one is not None
        assert passes * one.mu**2 <= plan.mu**2 * plan.shares.steps  # however many, and wherever they are clipped
        assert steps.scale == Fraction(plan.rows_per_unit * clip) / one.mu
    found = plan.claims.gdp()
    assert found is not None
    assert found.mu == plan.mu
    assert plan.claims.numerics == "exact"


def test_a_person_gets_as_much_more_noise_as_they_have_rows() -> None:
    one, seven = planned(), planned(unit=Person("who", 7))
    assert seven.claims.gdp() == GDP(one.mu, unit=Person("who", 7))
    gram, step = np.zeros((3, 3), np.int64), np.zeros((3, 1), np.int64)
    assert float(seven.gram_noise(gram).scale / one.gram_noise(gram).scale) == pytest.approx(7)
    ratio = seven.step_noise(step, clip=99, passes=8).scale / one.step_noise(step, clip=99, passes=8).scale
    assert float(ratio) == pytest.approx(7)
    alone, together = planned(candidates=(GUESS,)), planned(candidates=(GUESS,), unit=Person("who", 7))
    assert alone.choice is not None
    assert together.choice is not None
    assert together.choice.spread == alone.choice.spread
    assert together.choice.step * 7 == alone.choice.step


def test_the_steps_are_charged_before_they_are_counted() -> None:
    """A mutation: 16 passes with steps priced for 8 cost twice the claim."""
    plan = planned()
    one = plan.step_noise(np.zeros((3, 1), np.int64), clip=99, passes=8).claims.gdp()
    assert one is not None
    assert 16 * one.mu**2 > plan.mu**2 * plan.shares.steps


def probabilities(choice: StartChoice, losses: Any) -> list[float]:
    masses = [w * math.exp(-float(choice.step) * loss) for w, loss in zip(choice.weights, losses, strict=True)]
    return [mass / sum(masses) for mass in masses]


def make_choice(*, candidates: int = 2, odds: Any = 9, rows_per_unit: int = 1) -> StartChoice:
    budget = Budget.of(mu=Fraction(1, 2))
    return StartChoice(
        candidates=candidates, budget=budget, odds=odds_of(odds), unit=Row(), rows_per_unit=rows_per_unit
    )


class TestChoice:
    @pytest.mark.parametrize("rows", [1, 3])
    def test_neighbours_move_the_logarithms_within_the_spread(self, rows: int) -> None:
        choice = make_choice(rows_per_unit=rows)
        rng, widest = np.random.default_rng(1), 0.0
        cases = [np.array(each) * LOSS_LEVELS * rows for each in itertools.product((0, 1), repeat=3)]
        for _ in range(100):
            losses = rng.integers(0, 5 * LOSS_LEVELS, 3)
            for more in (*cases, rng.integers(0, rows * LOSS_LEVELS + 1, 3)):
                ratios = np.log(probabilities(choice, losses)) - np.log(probabilities(choice, losses + more))
                widest = max(widest, float(np.ptp(ratios)))
        assert widest <= float(choice.spread) * (1 + 1e-9)
        assert widest > 0.99 * float(choice.spread)  # and it is attained

    @pytest.mark.planted("a gradient that forgets a person's other rows", of=("LinearRegression", "LogisticRegression"))
    def test_a_unit_that_forgets_the_rows_of_a_person_fails(self) -> None:
        choice = make_choice(rows_per_unit=1)
        more = np.array([3 * LOSS_LEVELS, 0, 0])  # three rows of one person
        ratios = np.log(probabilities(choice, [0, 0, 0])) - np.log(probabilities(choice, more))
        assert np.ptp(ratios) > 2 * float(choice.spread)

    def test_weights(self) -> None:
        assert make_choice(candidates=1).weights == (9, 1)
        assert make_choice(candidates=3).weights == (3, 3, 3, 1)
        assert make_choice(candidates=2, odds="1/2").weights == (1, 1, 4)
        for wrong in (0, -1, "1e9"):
            with pytest.raises(RangeError, match="odds"):
                odds_of(wrong)

    def test_draws_follow_the_law(self) -> None:
        choice = make_choice(candidates=1)
        losses = np.array([4 * LOSS_LEVELS, 0])
        with Source(SeededEntropy(4)) as source:
            drawn = [choice.draw(losses, source) is None for _ in range(4000)]
        p = probabilities(choice, losses)[1]
        assert abs(np.mean(drawn) - p) < 5 * math.sqrt(p * (1 - p) / 4000)

    def test_losses_are_within_their_bounds(self) -> None:
        rng = np.random.default_rng(3)
        for targets in (Targets(kind="logistic", classes=(0, 1)), Targets(kind="softmax", classes=(0, 1, 2))):
            u = np.rint(rng.normal(size=(3000, targets.outputs)) * 2.0 ** rng.uniform(10, 50, (3000, 1)))
            labels = targets.admit(rng.integers(0, max(2, targets.outputs), 3000))[0]
            losses = targets.losses(u, labels)
            assert losses.min() >= 0
            assert losses.max() == LOSS_LEVELS
        assert softmax_losses(np.zeros((1, 4)), np.array([2])).tolist() == [LOSS_LEVELS // 2]


def rounded_gaussian_masses(scale: float, reach: int) -> dict[int, float]:
    return {k: float(norm.cdf((k + 0.5) / scale) - norm.cdf((k - 0.5) / scale)) for k in range(-reach, reach + 1)}


@pytest.mark.parametrize(
    ("epsilon", "expected", "bound"),
    [
        (0.0, 0.3282559, 0.3286268),
        (0.5, 0.1779087, 0.1782541),
        (1.0, 0.0770007, 0.0772254),
        (2.0, 6.59678e-3, 6.62936e-3),
        (3.0, 1.76917e-4, 1.78083e-4),
    ],
)
def test_two_adaptive_steps_by_enumeration(epsilon: float, expected: float, bound: float) -> None:
    """A row adds at most 5 to each of two integer sums; which sign the second time depends on the first answer."""
    clip, mu = 5, 0.6
    scale = clip / mu
    masses = rounded_gaussian_masses(scale, 90)
    keys = np.array(sorted(masses))
    here = np.array([masses[k] for k in keys])
    there = np.array([masses.get(k - clip, 0.0) for k in keys])
    tail = {sign: np.array([masses.get(k - sign * clip, 0.0) for k in keys]) for sign in (1, -1)}
    worst = 0.0
    rules = (lambda k: 1, lambda k: -1, lambda k: 1 if k > 2 else -1, lambda k: 1 if k % 2 else -1)
    for rule in rules:
        delta = 0.0
        for place, k in enumerate(keys):
            shifted = tail[rule(int(k))]
            delta += float(np.sum(np.maximum(there[place] * shifted - math.exp(epsilon) * here[place] * here, 0)))
        worst = max(worst, delta)
    mu_both = mu * math.sqrt(2)
    claimed = float(
        norm.cdf(-epsilon / mu_both + mu_both / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu_both - mu_both / 2)
    )
    assert claimed == pytest.approx(bound, rel=1e-4)
    assert worst == pytest.approx(expected, rel=2e-3)
    assert worst <= claimed


class TestRuns:
    def run(self, plan: DescentPlan, n: int = 400, *, seed: int = 1) -> Any:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-0.5, 0.5, (n, plan.features))
        labels = X[:, 0] if not plan.targets.classes else rng.integers(0, len(plan.targets.classes), n)
        rows = BoundedArrays(X, labels, policy=plan.policy)
        with Source(SeededEntropy(seed)) as source:
            return descend(plan, rows, source=source)

    @pytest.mark.parametrize("settings", SETTINGS, ids=str)
    @pytest.mark.parametrize("n", [0, 1, 400])
    def test_every_setting_runs_whatever_the_rows_are(self, settings: dict[str, Any], n: int) -> None:
        found = self.run(planned(**settings), n)
        assert np.isfinite(found.coefficients).all()
        assert np.isfinite(found.intercept).all()

    def test_the_private_number_of_rows_is_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With the releases of another table, a fit of no rows is the fit of that table, to the last bit."""
        plan = planned()
        released: list[Any] = []
        for name in ("gram_noise", "step_noise"):
            original = getattr(DescentPlan, name)

            def recorded(self: DescentPlan, value: Any, *, _original: Any = original, **more: Any) -> Any:
                noise = _original(self, value, **more)
                if len(models) == 0:
                    released.append(noise.release(source))
                    return Fixed(noise.scale, released[-1])
                return Fixed(noise.scale, released.pop(0))

            monkeypatch.setattr(DescentPlan, name, recorded)
        X = np.random.default_rng(1).uniform(-0.5, 0.5, (400, 2))
        models: list[Any] = []
        for rows in (X, X[:0]):
            with Source(SeededEntropy(1)) as source:
                models.append(descend(plan, BoundedArrays(rows, rows[:, 0], policy=plan.policy), source=source))
        assert released == []
        np.testing.assert_array_equal(models[0].coefficients, models[1].coefficients)
        assert models[0].value()["rows"] == models[1].value()["rows"]


class Fixed:
    """A noise whose release is known."""

    def __init__(self, scale: Fraction, answer: Any) -> None:
        self.scale, self._answer = scale, answer

    def release(self, source: Source) -> Any:
        del source
        return self._answer


WEIGHTED = (None, (1, 3), (5, 1, 2), (1, 1, 9, 2))


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_moves_the_last_sum_by_at_most_its_sensitivity(classes: int, weighted: bool) -> None:
    """Neighbours by brute force: random rows, points near and far, every label; and the bound is nearly attained."""
    more = {"class_weights": WEIGHTED[classes - 1]} if weighted else {}
    targets = Targets(kind="logistic" if classes == 2 else "softmax", classes=tuple(range(classes)), **more)
    bound, largest = offset_sensitivity(targets.outputs), 0.0
    rng = np.random.default_rng([classes, weighted])
    for size in (1, 2**10, 2**16, 2**24, 2**30):
        z = np.column_stack([rng.integers(-(2**20), 2**20, (400, 3)), np.full(400, 2**12)]).astype(np.float64)
        statistic = OffsetSum(targets=targets, code=np.rint(rng.normal(size=(4, targets.outputs)) * size), last=0)
        labels = targets.admit(rng.integers(0, classes, 400))[0]
        whole = statistic((z, np.ones(400, np.int64), labels))
        assert whole.dtype == np.int64
        for row in range(400):
            left = np.delete(np.arange(400), row)
            moved = whole - statistic((z[left], np.ones(399, np.int64), labels[left]))
            assert int(moved @ moved) <= bound**2
            largest = max(largest, float(moved @ moved) ** 0.5)
    assert largest > 0.99 * bound
    assert offset_sensitivity(3) ** 2 >= 2 * 2**28 > (offset_sensitivity(3) - 1) ** 2


def test_the_noise_of_the_last_sum_is_that_of_its_share() -> None:
    for targets, sensitivity in ((TWO, 2**14), (Targets(kind="softmax", classes=(0, 1, 2)), 23171)):
        for unit, rows in ((Row(), 1), (Person("who", 7), 7)):
            plan = planned(targets=targets, unit=unit)
            noise = plan.offset_noise(np.zeros(targets.outputs, np.int64))
            cost = noise.claims.gdp()
            assert cost is not None
            assert noise.scale == Fraction(rows * sensitivity) / cost.mu
            assert plan.shares.offset * plan.mu**2 * Fraction(999, 1000) < cost.mu**2 <= plan.shares.offset * plan.mu**2


def test_a_range_of_targets_whose_codes_would_be_no_numbers_is_refused() -> None:
    """2¹⁴ over half the range must be finite: a target at its centre would be NaN, and decide the whole sum."""
    with pytest.raises(RangeError, match="within 1e-300"):
        planned(targets=Targets(kind="squared", target_range=(0.0, 1e-304)))
    codes, _ = Targets(kind="squared", target_range=(0.0, 1e-289)).admit(np.array([0.0, 5e-290, 1e-289]))
    assert np.isfinite(codes).all()


def test_the_number_of_rows_does_not_decide_whether_progress_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """No visible difference between short tables, cached after the first pass, and longer ones."""
    shown: list[str] = []
    monkeypatch.setattr(mapped_rows, "progress", lambda name, total: shown.append(name) or nullcontext(lambda: None))
    for few in (True, False):
        rows = SimpleNamespace(in_memory=few)
        mapped_rows.CodedExamples.progress(SimpleNamespace(_rows=rows), 3)  # type: ignore[arg-type]
    assert shown == ["steps of descent"] * 2


@pytest.mark.parametrize("weights", [(1e-10, 1), (1, 1e10)])
def test_class_weights_that_would_be_no_integers_are_refused(weights: tuple[float, float]) -> None:
    Targets(kind="logistic", classes=(0, 1), class_weights=(1e-8, 1))
    with pytest.raises(RangeError, match="within a factor of a billion"):
        Targets(kind="logistic", classes=(0, 1), class_weights=weights)


def test_a_plan_of_a_million_sparse_features_holds_no_matrix() -> None:
    tracemalloc.start()
    try:
        planned(targets=TWO, geometry="none", features=2**20, sparse=True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 30
    finally:
        tracemalloc.stop()
