"""Shrinkage: reference numbers, and total squared error that is never worse than without it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sidelight.errors import RangeError
from sidelight.noise import Source, discrete_laplace, rounded_gaussian
from sidelight.summaries.noise_choice import gaussian_variance, laplace_variance
from sidelight.summaries.shrink import (
    best_of,
    count_doubt,
    directions,
    pull_means,
    shrink,
    shrink_counts,
    sum_doubt,
)
from sidelight.testing import SeededEntropy

Y = [3.0, -1.0, 4.0, 1.0, -5.0]


def test_james_stein_references():
    """R6 of the specification; k = 5/12 and without a grid."""
    found = shrink(Y, 0, variance=4, directions=1).values
    assert found == pytest.approx([2.313196, -0.771065, 3.084261, 0.771065, -3.855326], abs=1e-6)
    found = shrink(Y, 0, variance=4, directions=1, step=0).values
    assert found == pytest.approx([2.307692, -0.769231, 3.076923, 0.769231, -3.846154], abs=1e-6)


def test_count_references():
    y, p = np.array([120.0, 60, 35, 30, 10]), np.array([100.0, 50, 33, 25, 20])
    a = directions(200, count_doubt(p))
    assert a == pytest.approx([0.215983, 0.491099, 0.662115, 0.754539, 0.813008], abs=1e-6)
    drawn = shrink_counts(y, p, variance=200)
    assert drawn.kept == pytest.approx([0.547141, 0, 0, 0, 0], abs=1e-6)
    assert drawn.values == pytest.approx([110.942812, 50, 33, 25, 20], abs=1e-6)
    far = shrink_counts(3 * y, p, variance=200).values
    assert far == pytest.approx([358.770560, 178.602257, 103.956288, 88.926233, 29.822004], abs=1e-6)


def test_exact_small_cells_do_not_drag_a_large_one_along():
    found = shrink_counts([1000, 0, 0, 0], [800, 0, 0, 0], variance=laplace_variance(1)).values
    assert found[0] == pytest.approx(999.897493, abs=1e-6)
    a = directions(laplace_variance(1), count_doubt([800, 0, 0, 0]))
    without = shrink([1000, 0, 0, 0], [800, 0, 0, 0], variance=laplace_variance(1), directions=a, step=0).values
    assert without[0] == pytest.approx(868, abs=0.5)  # the trap


def gaussian_risks(theta, prediction, sd, *, runs, seed, **options):
    """Total squared error of raw and drawn values in each of many runs."""
    rng = np.random.default_rng(seed)
    raw, drawn = np.empty(runs), np.empty(runs)
    for i in range(runs):
        y = theta + rng.normal(size=theta.size) * sd
        raw[i] = ((y - theta) ** 2).sum()
        drawn[i] = ((shrink(y, prediction, variance=sd**2, step=0, **options).values - theta) ** 2).sum()
    return raw, drawn


@pytest.mark.parametrize("groups", [3, 5, 30])
@pytest.mark.parametrize("error", [0.0, 1.0, 5.0, 100.0])
def test_never_worse_under_gaussian_noise(groups, error):
    rng = np.random.default_rng(groups)
    theta = rng.gamma(1.0, 50.0, groups)
    prediction = theta + error * 3 * rng.normal(size=groups)
    a = rng.uniform(0.5, 1.0, groups)
    raw, drawn = gaussian_risks(theta, prediction, 3.0, runs=2000, seed=11, directions=a)
    gain = raw - drawn
    # paired, so that the difference has little noise: 5.5 standard errors below 0 would be one in 5e7
    assert gain.mean() > -5.5 * gain.std() / math.sqrt(gain.size)
    if error == 0 and groups >= 5:
        assert drawn.mean() < 0.6 * raw.mean()


def test_twice_the_weight_loses_the_theorem():
    """The negative control: c beyond twice the allowed value is worse than no shrinkage."""
    theta, sd = np.full(3, 4.0), 1.0
    raw, drawn = gaussian_risks(theta, np.zeros(3), sd, runs=4000, seed=3, directions=1.0)
    assert drawn.mean() < raw.mean()
    rng = np.random.default_rng(3)
    y = theta + rng.normal(size=(4000, 3))
    squares = (y**2).sum(axis=1, keepdims=True)
    strong = y * np.maximum(1 - 4.0 / squares, 0)  # c = 4 instead of 1
    assert ((strong - theta) ** 2).sum(axis=1).mean() > raw.mean()


def released(law, scale, groups, runs):
    with Source(SeededEntropy("released noise", path=[law, str(scale), str(groups)])) as source:
        draw = rounded_gaussian if law == "gaussian" else discrete_laplace
        return draw(runs * groups, Fraction(scale), source).reshape(runs, groups)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [1, 10])
@pytest.mark.parametrize(
    ("truth", "prediction"),
    [
        ([1000, 0, 0, 0], [800, 0, 0, 0]),
        ([50, 40, 30, 20, 10], [10, 20, 30, 40, 50]),
        ([500, 250, 100, 50, 25, 12, 6, 3], [0] * 8),
        ([7, 7, 7], [7, 7, 7]),
    ],
)
def test_never_worse_under_the_integer_noise_that_is_released(law, scale, truth, prediction):
    """Measured, not proved, for Laplace noise; k keeps exact small cells from dragging the large one along."""
    theta, runs = np.array(truth, float), 1500
    noise = released(law, scale, theta.size, runs)
    v = laplace_variance(scale) if law == "laplace" else gaussian_variance(scale)
    drawn = np.array([shrink_counts(theta + z, prediction, variance=v).values for z in noise])
    gain = (noise.astype(float) ** 2).sum(axis=1) - ((drawn - theta) ** 2).sum(axis=1)
    assert gain.mean() >= -5.5 * gain.std() / math.sqrt(runs)


@pytest.mark.parametrize(("groups", "ratio"), [(3, 0.534), (5, 0.279), (10, 0.125), (30, 0.036)])
def test_exact_predictions_gain_what_is_stated(groups, ratio):
    raw, drawn = gaussian_risks(np.zeros(groups), np.zeros(groups), 1.0, runs=4000, seed=5, directions=1.0)
    assert drawn.mean() / raw.mean() == pytest.approx(ratio, abs=0.03)


@pytest.mark.parametrize("groups", [2, 3])
def test_the_change_estimates_the_gain(groups):
    theta = np.linspace(0, 5, 12)
    rng = np.random.default_rng(8)
    changes, gains = [], []
    for _ in range(4000):
        y = theta + rng.normal(size=12)
        a = np.full(12, 0.5 if groups == 2 else 1.0)
        weight = shrink(y, theta + 1, variance=1.0, directions=a, step=0)
        changes.append(weight.change)
        gains.append(((weight.values - theta) ** 2).sum() - ((y - theta) ** 2).sum())
    # the estimate is for the weight without the positive part, which is only better
    assert np.mean(gains) <= np.mean(changes) + 0.1
    assert np.mean(gains) == pytest.approx(np.mean(changes), abs=0.4)


finite = st.floats(-1e6, 1e6)


@settings(max_examples=200, deadline=None)
@given(
    arrays(np.float64, 6, elements=finite),
    arrays(np.float64, 6, elements=st.one_of(finite, st.just(np.nan))),
    st.floats(1e-3, 1e6),
    st.floats(0.0, 10.0),
)
def test_values_stay_between_prediction_and_raw(y, p, variance, relative):
    drawn = shrink(y, p, variance=variance, directions=directions(variance, count_doubt(p, relative=relative)))
    known = np.isfinite(p)
    assert np.isfinite(drawn.values).all()
    assert (drawn.values[~known] == y[~known]).all()
    low, high = np.minimum(y, np.where(known, p, y)), np.maximum(y, np.where(known, p, y))
    slack = 1e-9 * (1 + np.abs(y) + np.abs(np.where(known, p, 0)))
    assert (drawn.values >= low - slack).all()
    assert (drawn.values <= high + slack).all()
    assert ((drawn.kept >= 0) & (drawn.kept <= 1)).all()


def test_units_do_not_matter():
    y, p, v = np.array([5.0, 1.0, 9.0, 4.0]), np.array([4.0, 2.0, 7.0, 4.0]), 3.0
    one = shrink(y, p, variance=v, directions=0.7, step=1.0).values
    thousand = shrink(1000 * y, 1000 * p, variance=v * 1e6, directions=0.7, step=1000.0).values
    assert thousand == pytest.approx(1000 * one, rel=1e-12)


def test_a_dominating_doubt_changes_nothing():
    y = np.array([5.0, 1.0, 9.0])
    assert shrink(y, 0, variance=1, directions=[1.0, 1e-6, 1e-6]).values == pytest.approx(y)
    assert shrink([1.0, 2.0], 0, variance=1, directions=1).values.tolist() == [1.0, 2.0]
    assert shrink([], 0, variance=1, directions=1).values.size == 0


def test_fitted_and_correlated_take_more_off():
    full = shrink(Y, 0, variance=4, directions=1)
    fitted = shrink(Y, 0, variance=4, directions=1, fitted=True)
    correlated = shrink(Y, 0, variance=4, directions=1, largest_eigenvalue=8)
    assert full.kept[0] < fitted.kept[0] < 1
    assert full.kept[0] < correlated.kept[0] < 1


def test_bad_public_numbers_are_refused():
    with pytest.raises(RangeError):
        shrink(Y, 0, variance=-1, directions=1)
    with pytest.raises(RangeError):
        shrink(Y, 0, variance=1, directions=-1)


def test_the_best_of_several_predictions():
    y = np.array([100.0, 51, 32, 25, 21, 17])
    good, bad = shrink_counts(y, y + 1, variance=50), shrink_counts(y, y + 500, variance=50)
    assert best_of([bad, good], y) is good
    assert best_of([], y).values.tolist() == y.tolist()


def group_means(seed, prediction_of, runs=60, groups=200):
    """Ratio of the RMSE of drawn to plain means: pairs on [0, 200], ε = 1, 10 rows a group."""
    rng = np.random.default_rng(seed)
    plain, pulled = 0.0, 0.0
    for _ in range(runs):
        sizes = np.maximum(
            rng.multinomial(10 * groups, 1 / np.arange(1, groups + 1) / (1 / np.arange(1, groups + 1)).sum()), 1
        )
        truth = np.exp(3 + 0.2 * rng.normal(size=groups))
        u = truth / 200
        a = sizes * u + rng.laplace(size=groups)
        b = sizes * (1 - u) + rng.laplace(size=groups)
        p = np.clip(prediction_of(truth, a, b), 0, 200)
        r = 200 * (a * (1 - p / 200) - b * p / 200)
        v = 200**2 * 2 * ((p / 200) ** 2 + (1 - p / 200) ** 2)
        means = pull_means(r, v, a + b, p, lower=0, upper=200).means
        plain += ((np.clip(200 * a / np.maximum(a + b, 1), 0, 200) - truth) ** 2).mean()
        pulled += ((means - truth) ** 2).mean()
    return math.sqrt(pulled / plain)


def test_group_means_gain_from_the_overall_mean_and_from_a_prediction():
    overall = group_means(1, lambda truth, a, b: np.full(truth.size, 200 * a.sum() / (a.sum() + b.sum())))
    public = group_means(2, lambda truth, a, b: truth * 1.05)
    wrong = group_means(3, lambda truth, a, b: truth * 3)
    assert overall < 0.3
    assert public < overall
    assert wrong < 1.0


def test_pulled_means_do_not_depend_on_the_unit():
    rng = np.random.default_rng(6)
    r, v, n = rng.normal(size=20) * 300, np.full(20, 8e4), rng.gamma(1, 50, 20)
    one = pull_means(r, v, n, 70.0, lower=0, upper=200).means
    thousand = pull_means(1000 * r, 1e6 * v, n, 70_000.0, lower=0, upper=200_000).means
    assert thousand == pytest.approx(1000 * one, rel=1e-9)


def test_groups_without_rows_get_the_prediction():
    found = pull_means([5.0, 1e6, 3e6], [1.0, 1.0, 1.0], [-3.0, 1e4, 2e4], [7.0, 30.0, np.nan], lower=0, upper=200)
    assert found.means[0] == 7.0
    assert found.spread > 0
    assert ((found.means >= 0) & (found.means <= 200)).all()
    assert pull_means([], [], [], 1.0, lower=0, upper=2).means.size == 0
    assert pull_means([0.0], [5.0], [10.0], 1.0, lower=0, upper=2).means.tolist() == [1.0]


def test_the_usual_doubt_of_sums():
    assert sum_doubt([100.0], width=10.0).tolist() == [725.0]
