"""The rules between releases: brute force on tiny inputs. None of them matters for privacy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from sidelight.regression.additive.basis import basis_of, coordinates, smoothing_basis, water_filling
from sidelight.regression.additive.counts import (
    ColumnCells,
    ColumnCounts,
    cells_of_category,
    cells_of_number,
    column_counts,
    target_level,
    together,
)
from sidelight.regression.additive.steps import Scales, SmoothingState, curvature, leading


def cells(counts: list[float], *, missing: bool = False, number: bool = True) -> ColumnCells:
    inside = len(counts) - missing
    return ColumnCells(
        cell_of=np.arange(len(counts)),
        counts=np.array(counts, float),
        centres=(np.arange(inside) + 0.5) / inside if number else np.empty(0),
        missing=missing,
        fine=np.array(counts, float),
    )


def scales(kind: str = "squared", *, rows: float = 5000.0, mu: float = 0.2) -> Scales:
    return Scales(
        kind=kind,  # type: ignore[arg-type]
        columns=2,
        rows=rows,
        base=0.1,
        variance=0.1 if kind == "squared" else 0.2,
        mu_steps=mu,
        mu_gram=mu / 3,
        rows_per_unit=1,
    )


class TestBasis:
    @pytest.mark.parametrize("missing", [False, True])
    @pytest.mark.parametrize("number", [False, True])
    @pytest.mark.parametrize("counts", [[5.0, 90.0], [10.0, 40.0, 30.0, 20.0, 7.0], list(np.linspace(1, 50, 32))])
    def test_components_have_mean_0_variance_1_and_are_orthogonal(
        self, counts: list[float], number: bool, missing: bool
    ) -> None:
        found = cells([*counts, *([12.0] if missing else [])], missing=missing, number=number)
        basis, p = basis_of(found), found.masses
        assert 1 <= basis.values.shape[1] <= 12
        np.testing.assert_allclose(p @ basis.values, 0, atol=1e-9)
        np.testing.assert_allclose((basis.values * p[:, None]).T @ basis.values, np.eye(len(basis.priors)), atol=1e-8)
        assert abs(basis.priors.sum() - 1) < 1e-9
        if number and not missing and len(counts) > 2:
            assert np.argmax(basis.priors) == 0
            assert np.corrcoef(np.arange(len(counts)), basis.values[:, 0])[0, 1] > 0.5  # the first is nearly a line

    def test_one_cell_has_no_component(self) -> None:
        assert smoothing_basis(np.array([1.0]), np.array([0.5])).values.shape == (1, 0)
        alone = coordinates([cells([10.0]), cells([5.0, 6.0])], scale=1.0, noise=0.1)
        assert alone.dimension == 2
        nothing = coordinates([cells([10.0])], scale=1.0, noise=0.1)
        assert nothing.dimension == 1
        assert nothing.z_tables[0].shape == (1, 0)

    def test_water_filling_is_the_minimum(self) -> None:
        """Of Σ κλN/(κλ + N) + a²Q with N = a²Q/v, the intercept's noise included."""
        gains, noise = np.array([1.0, 0.5, 0.25, 0.01]), 0.05

        def cost(v: np.ndarray) -> float:
            total = 1 + v.sum()
            return float((gains * noise * total / (gains * v + noise * total)).sum() + noise * total)

        v, total = water_filling(gains, noise)
        assert abs(total - 1 - v.sum()) < 1e-9
        best = minimize(cost, np.full(4, 0.3), bounds=[(0, 1)] * 4, options={"ftol": 1e-15, "gtol": 1e-12})
        assert cost(v) <= best.fun + 1e-9
        assert v[3] == 0


class TestCounts:
    def test_levels_agree_by_weighted_least_squares(self) -> None:
        """The two ways through the tree are the least-squares fit of all noisy counts, as one solve says."""
        rng = np.random.default_rng(1)
        levels, deviation = (2, 8), 3.0
        noisy = [rng.uniform(0, 50, level) for level in levels]
        missing = rng.uniform(0, 9, 2)
        from sidelight.records import Number

        released = np.concatenate([[*noisy[0], missing[0]], [*noisy[1], missing[1]], np.zeros(16)]) * 2.0
        (found,), _ = column_counts([Number("x", lower=0, upper=1)], released, levels=levels, deviation=deviation)
        rows = 130.0
        finest, lost = found.tied(rows)
        assert abs(finest.sum() + lost - rows) < 1e-9
        # unknowns: eight fine counts and the missing one; measurements: all levels, and an exact total
        design = np.vstack([np.kron(np.eye(2), np.ones(4)), np.eye(8)])
        whole = np.zeros((13, 9))
        whole[:10, :8] = design
        whole[10, 8] = whole[11, 8] = 1.0
        whole[12] = 1e6
        measured = np.concatenate([*noisy, missing, [1e6 * rows]])
        wanted = np.linalg.lstsq(whole, measured, rcond=None)[0]
        np.testing.assert_allclose(np.append(finest, lost), wanted, atol=1e-4)

    def test_cells_hold_enough_rows(self) -> None:
        rng = np.random.default_rng(2)
        for deviation in (1.0, 30.0, 400.0):
            counts = rng.poisson(20, 1024) + rng.normal(0, deviation / 8, 1024)
            found = ColumnCounts(levels=(counts,), missing=0.0, variances=(deviation**2, deviation**2))
            rows = 20480.0
            made = cells_of_number(found, rows=rows, deviation=deviation)
            assert made.cell_of[0] == 0
            assert (np.diff(made.cell_of[:1024]) >= 0).all()
            assert made.cell_of[1024] == -1
            assert len(made.counts) <= 33
            if deviation < 100:
                assert made.counts[:-1].min() >= max(rows / 32, 3 * deviation) * 0.999
            assert abs(made.masses.sum() - 1) < 1e-12
        few = cells_of_number(found, rows=rows / 20, deviation=deviation)
        assert few.coarse
        assert len(few.counts) == 6

    def test_rare_labels_share_a_cell(self) -> None:
        found = ColumnCounts(levels=(np.array([900.0, 3.0, 95.0, 2.0]),), missing=0.0, variances=(1.0, 0.0))
        made = cells_of_category(found, rows=1000.0, deviation=5.0)
        assert made.cell_of.tolist() == [0, 2, 1, 2]
        assert len(made.counts) == 3

    def test_the_level_of_the_target(self) -> None:
        half = target_level("squared", np.full(16, 100.0), rows=1600.0, deviation=1.0)
        assert abs(half.base) < 1e-12
        assert abs(half.variance - 1 / 3) < 0.01  # of an even target
        hidden = target_level("squared", np.full(16, 1.0), rows=16.0, deviation=1.0)
        assert (hidden.base, hidden.variance) == (0.0, 0.08)
        classes = target_level("logistic", np.array([-5.0, 299.0]), rows=300.0, deviation=3.0)
        assert abs(classes.variance - 0.99 * 0.01) < 1e-12
        assert together([(100.0, 4.0), (110.0, 4.0)]) == pytest.approx(105 + 2**0.5)
        assert together([(-100.0, 4.0)]) == 22


def state_of(kind: str = "squared", **more: float) -> SmoothingState:
    number = scales(kind, **more)
    place = coordinates([cells([40.0] * 8), cells([30.0] * 6)], scale=number.prior, noise=number.noise)
    size = place.dimension
    return SmoothingState(
        scales=number,
        place=place,
        curvature=np.diag(np.append(1.0, place.v)),
        theta=np.zeros(size),
        start=np.zeros(size),
        mean=0.0,
        spread=place.priors / place.v,
        intercept=number.unsure_intercept,
        kappa=np.full(2, number.prior),
        drawn=number.prior,
        noisy=0.1,
    )


class TestSteps:
    def test_without_noise_a_few_steps_find_the_minimum(self) -> None:
        state = state_of(rows=1e6, mu=10.0)
        rng = np.random.default_rng(3)
        root = np.sqrt(np.append(1.0, state.place.v))
        spread = np.append(1.0, np.sqrt(state.place.priors / state.place.v))
        wanted = rng.normal(0, 0.05, state.place.dimension) * spread
        for _ in range(6):
            gradient = state.scales.rows * (state.curvature @ (state.theta - wanted))
            state = state.after(gradient, 1.0)
        assert np.abs((state.theta - wanted) * root).max() < 1e-3
        assert state.stayed == 0

    def test_em_never_lowers_the_marginal_likelihood(self) -> None:
        """With the pull of κ₁, which is one more component of a column whose square is κ₁."""
        state = state_of(rows=500.0)
        rng = np.random.default_rng(4)
        gradient = rng.normal(0, 60, state.place.dimension)

        def likelihood(kappa: np.ndarray) -> float:
            a = state.scales.rows * state.curvature
            noise = 900.0 * np.eye(len(a)) + state.scales.rows * state.residual * state.curvature
            prior = np.diag(np.append(state.intercept, kappa[state.place.owner] * state.spread))
            covariance = a @ prior @ a + noise
            _, logdet = np.linalg.slogdet(covariance)
            pull = (np.log(kappa) + state.drawn / kappa).sum()
            return float(-0.5 * (logdet + gradient @ np.linalg.solve(covariance, gradient) + pull))

        kappa, found = state.kappa, []
        for _ in range(6):
            found.append(likelihood(kappa))
            kappa = replace(state, kappa=kappa).after(gradient, 900.0).kappa
        assert (np.diff(found) >= -1e-9).all()
        assert found[-1] > found[0] + 1e-3

    def test_nothing_finite_leaves_the_point(self) -> None:
        state = state_of()
        found = state.after(np.full(state.place.dimension, np.inf), 1.0)
        np.testing.assert_array_equal(found.theta, state.theta)
        assert found.stayed == 1

    def test_a_step_has_a_longest_length(self) -> None:
        state = state_of("logistic", rows=1e6)
        far = state.after(np.full(state.place.dimension, -1e9), 1.0)
        assert float(far.theta @ far.curvature @ far.theta) <= 4 * (1 + 1e-9)

    def test_curvature_sees_copies_of_columns_and_stays_positive(self) -> None:
        state = state_of()
        place = coordinates([cells([40.0] * 8), cells([40.0] * 8)], scale=1.0, noise=1e-4)
        most = 2
        gram = np.eye(4)
        gram[0, 2] = gram[2, 0] = gram[1, 3] = gram[3, 1] = 0.95
        found = curvature(place, gram, most=most, edge=0.05, numbers=np.array([True, True]))
        assert np.linalg.eigvalsh(found).min() > 0
        second = 1 + len(place.weights[0])
        expected = 0.95 * np.sqrt(place.v[0] * place.weights[1][0])
        assert found[1, second] == pytest.approx(expected, rel=0.1)
        assert found[0, 1:].tolist() == [0.0] * (place.dimension - 1)
        assert leading(replace(state.scales, mu_gram=1e9), place) == 12
        assert leading(replace(state.scales, mu_gram=1e-9), place) == 1
