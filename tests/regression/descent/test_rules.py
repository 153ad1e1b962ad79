"""The numbers of descent: shares, clips, passes, the noise of an average, shrinkage, and the geometry."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.budget import Budget
from sidelight.regression.descent.geometry import NoisyGram, PublicMoments, from_gram, guarded, without_map
from sidelight.regression.descent.rules import clip_share, schedule, shares
from sidelight.regression.descent.shrinkage import (
    AverageNoise,
    arrived_share,
    likely_size,
    most_evidence,
    shrink,
    stein_share,
    tail_noise,
)


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [
        ("0.1", 0.027544650244),
        ("0.3", 0.076968174976),
        ("1", 0.236704380663),
        ("3", 0.647726530689),
        ("8", 1.531545117566),
    ],
)
def test_mu_of_epsilon(epsilon: str, mu: float) -> None:
    assert float(gdp_within(Fraction(epsilon), Fraction("1e-6"))) == pytest.approx(mu, abs=1e-11)


@pytest.mark.parametrize(
    ("kind", "residual", "expected"),
    [
        ("squared", None, [1, 0.748331, 0.473286, 0.334664, 0.236643, 0.165279, 0.15]),
        ("logistic", None, [0.5, 0.5, 0.5, 0.353553, 0.25, 0.174608, 0.12]),
        ("softmax", None, [1, 1, 1, 0.707107, 0.5, 0.349215, 0.25]),
        ("squared", 0.1, [0.4, 0.2683282, 0.1697056, 0.12, 0.12, 0.12, 0.12]),
    ],
)
def test_clips(kind: Any, residual: float | None, expected: list[float]) -> None:
    found = [clip_share(kind, x, residual=residual) for x in (0.005, 0.02, 0.05, 0.1, 0.2, 0.41, 1)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("epsilon", "spread"), [("0.1", 0.013899772574), ("1", 0.119454923589)])
def test_the_spread_of_the_choice(epsilon: str, spread: float) -> None:
    part = Budget.of(epsilon=epsilon, delta="1e-6").part(Fraction(1, 10))
    assert float(part.spread) == pytest.approx(spread, rel=1e-9)
    assert float(part.amount) ** 0.5 == pytest.approx({"0.1": 0.008710383212, "1": 0.074852497504}[epsilon], rel=1e-9)


def test_the_noise_of_an_average() -> None:
    found = tail_noise(np.array([1.0, 0.5, 0.1, 2.8 * 0.35, 2.8 * 0.05]), passes=16, tail=12)
    np.testing.assert_allclose(found, [0.08333333, 0.29626919, 2.95627217, 0.08648005, 2.083852], atol=1e-8)


def test_how_far_an_average_has_come() -> None:
    found = 1 - arrived_share(np.array([1.0, 0.5, 0.1]), passes=16, tail=12)
    np.testing.assert_allclose(found, [0, 0.00520706, 0.35309849], atol=1e-8)


def test_shrinkage_by_evidence() -> None:
    distance, noise = np.array([[0.3, -0.1, 0.05, 0.2]]).T, np.array([[0.01, 0.01, 0.02, 0.02]]).T
    trust = np.array([[0.02, 0.02, 0.01, 0.01]]).T
    assert most_evidence(distance, noise, trust) == 1
    known = AverageNoise(variance=noise[:, 0], arrived=np.array([1, 1, 0.5, 1]), h=np.ones(4))
    towards = shrink(distance, known, kind="squared", rule="evidence", start=np.zeros((4, 1)), trust=trust)
    np.testing.assert_allclose(towards.theta / distance, [[2 / 3], [2 / 3], [1 / 3], [1 / 3]])
    for intercept in (True, False):
        slopes = 4 - intercept
        factor = likely_size(distance[:slopes, 0], noise[:slopes, 0], known.arrived[:slopes], total=slopes)
        alone = shrink(distance, known, kind="squared", rule="evidence", intercept=intercept)
        wanted = [factor / (factor + 0.01)] * 2 + [0.5 * factor / (0.25 * factor + 0.02), factor / (factor + 0.02)]
        wanted[3:] = [1.0] if intercept else wanted[3:]
        np.testing.assert_allclose((alone.theta / distance)[:, 0], wanted)
        assert alone.factor == factor
    for rule, kind in (("none", "squared"), ("evidence", "logistic")):
        kept = shrink(distance, known, kind=kind, rule=rule)  # type: ignore[arg-type]
        np.testing.assert_array_equal(kept.theta, distance)
        assert kept.factor is None


def test_the_risk_of_stein_shrinkage() -> None:
    """Theorem H in eight dimensions: risks 1.30, 3.29, 6.95 against bounds 2, 4, 7."""
    rng = np.random.default_rng(5)
    for square, expected, bound in ((0, 1.30, 2.0), (3, 3.29, 4.0), (30, 6.95, 7.0)):
        shift = np.zeros(8)
        shift[0] = math.sqrt(square)
        drawn = shift + rng.normal(size=(20_000, 8))
        kept = np.array([stein_share(each[:, None], np.ones((8, 1))) for each in drawn])
        risk = float(np.mean(np.sum((kept[:, None] * drawn - shift) ** 2, axis=1)))
        assert risk == pytest.approx(expected, abs=0.12)
        assert risk < bound + 0.1


def test_shares_add_up() -> None:
    kinds, geometries = ("squared", "logistic", "softmax"), ("private", "public", "none")
    for kind, geometry, candidates, declared in itertools.product(kinds, geometries, (True, False), (True, False)):
        found = shares(kind, geometry, candidates=candidates, rows_declared=declared)  # type: ignore[arg-type]
        assert found.gram + found.count + found.choice + found.offset + found.steps == 1
        assert (found.offset > 0) == (kind != "squared")
        assert min(found.gram, found.count, found.choice) >= 0 < found.steps
        assert (found.choice > 0) == candidates
        assert (found.gram > 0) == (geometry != "none")
        assert (found.count > 0) == (geometry != "private" and not declared)
    assert shares("squared", "public", candidates=True, rows_declared=False).steps == Fraction(67, 100)
    assert shares("logistic", "private", candidates=False, rows_declared=False).steps == Fraction(87, 100)
    alone = shares("logistic", "private", candidates=False, rows_declared=False, intercept=False)
    assert (alone.offset, alone.steps) == (0, Fraction(9, 10))


def test_passes_and_steps() -> None:
    more: dict[str, Any] = {"trace": 3.0, "columns": 9, "intercept": True, "outputs": 1, "mu_steps": 1.0}
    calm, noisy = schedule("squared", rows=1000, **more), schedule("squared", rows=20, **more)
    assert (calm.noise, calm.passes, calm.tail) == (2 * 3 / 1000, 16, 12)
    assert (noisy.passes, noisy.tail) == (8, 6)
    assert calm.step == 1.2
    assert calm.clip == 2 * calm.clip_share
    public = schedule("logistic", rows=1000, **more, step_factor=0.25)
    assert public.step == 2.8 * 0.25
    assert schedule("softmax", rows=1000, **more, step_factor=0.0).step == pytest.approx(0.28)
    several = schedule("softmax", rows=1000, **more | {"outputs": 10})
    assert several.noise == pytest.approx(2 * math.sqrt(9 * 10 / 2) / 1000)
    assert schedule("squared", rows=1000, **more, rows_per_unit=3).noise == pytest.approx(3 * calm.noise)
    assert schedule("squared", rows=1000, **more, passes=5).passes == 5
    assert (calm.constant_step, noisy.constant_step) == (1.2, 1.8)  # few steps, a long way
    assert schedule("logistic", rows=1000, **more).tail == 4  # noise 0.006: early points are still on their way
    assert schedule("logistic", rows=500, **more).tail == 12


@pytest.mark.parametrize(("d", "factors"), [(20, [1.889, 1.171, 1.040, 1]), (100, [2.620, 1.248, 1.055, 1])])
def test_why_rows_are_stretched_by_three_quarters(d: int, factors: list[float]) -> None:
    values = 1 / np.arange(1, d + 1)
    for power, expected in zip((0, 0.5, 0.75, 1), factors, strict=True):
        found = np.sum(values ** (1 - power)) * np.sum(values ** (power - 1)) / d**2
        assert found == pytest.approx(expected, abs=6e-4)


def exact_gram(rows: np.ndarray) -> NoisyGram:
    beside = np.column_stack([rows, np.full(len(rows), 0.5)])
    return NoisyGram(matrix=beside.T @ beside, noise_scale=1e-3)


def test_slopes_of_nothing_go_and_slopes_of_something_stay() -> None:
    """A null target keeps its constant alone; strong slopes are kept nearly whole."""
    rng = np.random.default_rng(3)
    variance, arrived = np.full(20, 0.01), np.full(20, 0.6)
    noise = np.sqrt(variance) * rng.normal(size=(200, 20))
    kept = [shrunk_share(row, variance, arrived) for row in noise]
    assert np.mean(kept) < 0.25
    strong = [shrunk_share(arrived * rng.normal(size=20) + row, variance, arrived) for row in noise[:20]]
    assert min(strong) > 0.9


def shrunk_share(slopes: np.ndarray, variance: np.ndarray, arrived: np.ndarray) -> float:
    """Return what is left of the length of slopes."""
    average = np.append(slopes, 0.8)[:, None]
    known = AverageNoise(variance=np.append(variance, 0.01), arrived=np.append(arrived, 1.0), h=np.ones(21))
    found = shrink(average, known, kind="squared", rule="evidence").theta
    assert found[-1, 0] == 0.8
    return float(np.linalg.norm(found[:-1]) / np.linalg.norm(slopes))


class TestGeometry:
    ROWS = np.random.default_rng(0).normal(size=(4000, 3)) * [0.2, 0.05, 0.01] + [0.3, 0.0, -0.1]

    def test_coordinates_and_back(self) -> None:
        for intercept in (True, False):
            geometry = from_gram(exact_gram(self.ROWS), intercept=intercept)
            weights = np.array([[1.0], [-2.0], [0.5]])
            constant = np.array([0.7]) if intercept else np.zeros(1)
            back, offset = geometry.unmapped(geometry.mapped(weights, constant))
            np.testing.assert_allclose(back, weights)
            np.testing.assert_allclose(offset, constant)
            assert geometry.map is not None
            z = (self.ROWS - geometry.centre) @ geometry.map
            if intercept:
                z = np.column_stack([z, np.ones(len(z))])
            predicted = z @ geometry.mapped(weights, constant)
            np.testing.assert_allclose(predicted, self.ROWS @ weights + constant)
        plain = without_map(3, rows=10)
        theta = plain.mapped(weights, np.array([0.7]))
        assert theta[-1, 0] == 1.4  # the constant column is ½
        assert plain.unmapped(theta)[1][0] == pytest.approx(0.7)

    def test_a_sure_matrix_stretches_all_the_way_and_a_noisy_one_less(self) -> None:
        """Where its noise is below the mean variance of a column; several classes are stretched half the way."""
        varied = np.square([0.2, 0.05, 0.01])
        for noise, outputs, full, power in (
            (0.05, 1, True, 1.0),
            (40.0, 1, True, 0.75),
            (0.05, 1, False, 0.75),
            (0.05, 3, True, 0.5),
        ):
            gram = replace(exact_gram(self.ROWS), noise_scale=noise)
            geometry = from_gram(gram, rows=4000, outputs=outputs, full=full)
            ridge = 0.25 * noise * math.sqrt(6) / 4000
            wanted = (varied + ridge) ** -power
            assert geometry.map is not None
            found = np.sum(geometry.map**2, axis=0)[::-1]
            np.testing.assert_allclose(found / found[0], wanted / wanted[0], rtol=0.1)

    def test_rows_are_counted_one_deviation_too_many(self) -> None:
        gram = exact_gram(self.ROWS)
        assert gram.rows == pytest.approx(4000 + 4e-3)
        empty = NoisyGram(matrix=np.full((4, 4), -5.0), noise_scale=2.0)
        assert empty.rows == 8
        assert np.isfinite(from_gram(empty).h).all()

    def test_h_is_the_mean_square_of_a_column(self) -> None:
        geometry = from_gram(exact_gram(self.ROWS))
        assert geometry.map is not None
        z = (self.ROWS - geometry.centre) @ geometry.map
        np.testing.assert_allclose(np.mean(z**2, axis=0), geometry.h[:-1], rtol=1e-3)
        assert geometry.h.max() <= 1 + 1e-9
        assert geometry.h[-1] == 1
        assert 1 <= geometry.trace <= geometry.h[:-1].sum() + 1e-9

    def test_the_guard_widens_what_was_constant_in_public_rows(self) -> None:
        narrow = self.ROWS[:400].copy()
        narrow[:, 0] = narrow[0, 0]
        public = PublicMoments.of(narrow)
        assert public.enough
        geometry = guarded(public, exact_gram(self.ROWS), rows=4000)
        assert geometry.map is not None
        z = (self.ROWS - geometry.centre) @ geometry.map
        second = z.T @ z / len(z)
        assert np.linalg.eigvalsh(second).max() < 2  # steps of a descent converge
        wide = NoisyGram(matrix=np.zeros((4, 4)), noise_scale=1e-3)
        without = guarded(public, wide, rows=4000)
        assert without.map is not None
        z = (self.ROWS - without.centre) @ without.map
        assert np.linalg.eigvalsh(z.T @ z / len(z)).max() > 4  # and here they would not

    def test_what_the_matrix_says_without_its_noise(self) -> None:
        clean, rows = from_gram(exact_gram(self.ROWS)), self.ROWS
        assert clean.likely is not None
        np.testing.assert_allclose(clean.likely, clean.h, rtol=0.02)
        off, off_without = 0.0, 0.0
        for seed in range(30):
            found = from_gram(self.with_noise(400.0, seed), rows=len(rows))
            assert found.map is not None
            assert found.likely is not None
            true = np.var((rows - found.centre) @ found.map, axis=0)
            off += np.abs(found.h[:-1] - true).sum()
            off_without += np.abs(found.likely[:-1] - true).sum()
        assert off_without < 0.85 * off

    def with_noise(self, scale: float, seed: int) -> NoisyGram:
        drawn = np.random.default_rng(seed).normal(size=(4, 4)) * scale
        upper = np.triu(drawn, 1) / math.sqrt(2)
        matrix = exact_gram(self.ROWS).matrix + upper + upper.T + np.diag(np.diag(drawn))
        return NoisyGram(matrix=matrix, noise_scale=scale)

    def test_the_step_of_a_public_geometry(self) -> None:
        public = PublicMoments.of(self.ROWS[:12])
        assert guarded(public, exact_gram(self.ROWS), rows=4000).step_factor == pytest.approx((1 - 0.5) ** 2)
        assert not PublicMoments.of(self.ROWS[:11]).enough
