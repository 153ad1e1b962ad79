"""The benchmarks of linear models run from end to end on generated stand-ins, and prepare each row by itself."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.groups import regression
from benchmarks.linear_sets import Labelled

from benchmarks import (
    dp_sgd,
    linear_classes,
    linear_errors,
    linear_forecasts,
    linear_models,
    linear_predictions,
    linear_regression_accuracy,
    linear_regression_sets,
    linear_sets,
    linear_speed,
)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("SIDELIGHT_DATA", str(tmp_path / "nowhere"))


@pytest.mark.parametrize("make", [linear_sets.adult, linear_sets.four_or_nine, linear_sets.words])
def test_missing_sets_are_generated_and_say_so(make):
    data = make()
    assert data.note.startswith("STAND-IN: generated")
    assert np.linalg.norm(data.rows, axis=1).max() <= 1 + 1e-12
    assert set(np.unique(data.labels)) == {0, 1}


def test_regression_sets_are_generated_and_say_so():
    for data in (linear_regression_sets.bike_sharing(), linear_regression_sets.uci("protein")):
        assert data.note.startswith("STAND-IN: generated")
        assert np.linalg.norm(data.rows, axis=1).max() <= 1 + 1e-12


def test_ranges_come_from_the_public_tenth_alone():
    """Changing a private row changes that row and no other; changing a public one may change all."""
    rng = np.random.default_rng(4)
    rows, targets, public = rng.standard_normal((200, 3)), rng.standard_normal(200), np.arange(200) < 20
    before = linear_regression_sets._by_public_tenth("set", rows, targets, public, "test")
    other = rows.copy()
    other[50] = 1e6
    after = linear_regression_sets._by_public_tenth("set", other, targets, public, "test")
    assert np.flatnonzero((before.rows != after.rows).any(axis=1)).tolist() == [30]
    assert np.linalg.norm(after.rows, axis=1).max() <= 1 + 1e-12
    assert before.target_range == after.target_range
    other[5] = 1e6
    moved = linear_regression_sets._by_public_tenth("set", other, targets, public, "test")
    assert (moved.rows != before.rows).any(axis=1).mean() > 0.9


def test_splits_are_disjoint_and_differ():
    data = Labelled("numbers", np.arange(50.0)[:, None], np.arange(50), "test")
    (_, train), (_, test) = data.split(1)
    assert sorted([*train, *test]) == list(range(50))
    assert len(test) == 10
    assert data.split(2)[1][1].tolist() != test.tolist()


def test_a_table_of_accuracies_names_every_method(monkeypatch):
    monkeypatch.setattr(dp_sgd, "noise_multiplier", lambda rows, **_: 1.0)  # the search is another test's, and slow
    rng = np.random.default_rng(5)
    rows = linear_sets.unit(rng.standard_normal((900, 3)))
    data = Labelled("small", rows, (rows[:, 0] > 0).astype(int), "generated")
    found = linear_models.table(data, epsilons=(8.0,), splits=2, sgd_splits=1)
    assert found[linear_models.OURS].shape == (1, 2)
    assert found[linear_models.HONEST].shape == (1, 1)
    assert found[linear_models.OURS].min() > 0.85
    printed = linear_models.text(data, found, epsilons=(8.0,))
    assert all(name in printed for name in found)


def test_the_script_of_the_adult_targets_measures_what_they_ask_for(monkeypatch):
    rows = linear_sets.unit(np.random.default_rng(7).standard_normal((400, 2)))
    small = Labelled("Adult", rows, (rows[:, 0] > 0).astype(int), "STAND-IN: generated")
    monkeypatch.setattr(linear_sets, "adult", lambda: small)
    monkeypatch.setattr(linear_models, "DRAWS", 1)
    monkeypatch.setattr(dp_sgd, "noise_multiplier", lambda rows, **_: 1.0)
    found = linear_models.measure()
    asked = {target.figure for target in regression.TARGETS if target.script is linear_models.measure}
    assert asked <= set(found)
    same = [
        linear_models.our_accuracy(small, linear_models.FIRST_SEED + n, 8.0) for n in range(linear_models.SGD_SPLITS)
    ]
    lead = 100 * np.mean(same) - found["adult_honest_epsilon_8"]  # on the splits that DP-SGD ran on
    assert found["adult_lead_over_honest_epsilon_8"] == pytest.approx(lead)
    assert found["generated_adult"] == 1


def test_the_noise_of_a_logistic_fit_is_the_gaussian_mechanisms():
    assert 1 <= linear_models.noise_ratio() <= 1.001


def test_a_set_is_won_by_the_smaller_error():
    won = {"descent": np.array([0.9]), "AdaSSP": np.array([0.8])}
    lost = {"descent": np.array([0.7]), "AdaSSP": np.array([0.8])}
    assert linear_regression_accuracy.share_won({"a": won, "b": won, "c": lost}, 0) == pytest.approx(2 / 3)


def test_small_sets_give_the_figures_of_their_targets(monkeypatch):
    monkeypatch.setattr(linear_classes, "accuracies", lambda data, epsilon: np.array([0.5, 0.7]))
    found = linear_classes.measure()
    asked = {target.figure for target in regression.TARGETS if target.script is linear_classes.measure}
    assert asked <= set(found)
    assert found["digits_epsilon_1"] == pytest.approx(0.6)


def test_shares_of_cells_count_what_they_say():
    near = {"tenth alone": [0.5, 0.5], "private": [0.2, 0.6], "with the tenth": [0.495, 0.7], "old default": [0.3, 0.6]}
    found = {"a": {name: np.array(values) for name, values in near.items()} | {"tenth shuffled": np.array([0.5])}}
    shares = linear_predictions.shares(found)
    asked = {target.figure for target in regression.TARGETS if target.script is linear_predictions.measure}
    assert asked <= set(shares)
    assert shares["share_near_the_better"] == 1.0
    assert shares["share_above_both"] == shares["share_near_the_old_default"] == 0.5
    assert shares["cost_of_shuffled"] == pytest.approx(0.1)


@pytest.mark.parametrize("shape", linear_predictions.SHAPES)
def test_absurd_predictions_are_absurd_in_both_forms_and_the_sets_are_not(shape):
    data = linear_predictions.absurd_set(shape, 5)
    assert np.linalg.norm(data.rows, axis=1).max() <= 1 + 1e-12
    x, y = data.test
    fitted = np.linalg.lstsq(np.column_stack([data.rows, np.ones(len(data.rows))]), data.targets, rcond=None)[0]
    assert linear_predictions.determination(x @ fitted[:-1] + fitted[-1], y) > 0.25
    wide = np.column_stack([data.public[0], np.ones(len(data.public[0]))])
    by_rows = np.linalg.lstsq(wide, data.public[1], rcond=None)[0]
    for slopes, constant in ((data.coefficients, data.intercept), (by_rows[:-1], by_rows[-1])):
        assert linear_predictions.determination(x @ slopes + constant, y) < -1


def test_errors_are_counted_from_what_they_are_stated_beside(monkeypatch):
    monkeypatch.setattr(linear_errors, "FITS", 2)
    for case in linear_errors.CASES:
        found = linear_errors.ratios(case, "gauss", 5, (500, 3, 2.0))
        assert len(found) == 2
        assert all(0 < each < 3 for each in found)
    assert linear_errors.Held(np.array([0.5, 1.0, 1.5, 2.0])).share == 0.5
    monkeypatch.setattr(linear_errors, "ratios", lambda *_: [0.5])
    asked = {target.figure for target in regression.TARGETS if target.script is linear_errors.measure}
    assert asked <= set(linear_errors.measure())
    monkeypatch.setattr(linear_errors, "WEIGHTED_CELLS", ((500, 1.0),))
    monkeypatch.setattr(linear_errors, "WEIGHTED_FITS", 1)
    assert set(linear_errors.measure_weighted()) == {"weighted"}


def test_a_prediction_is_measured_beside_what_it_is_compared_with(monkeypatch):
    monkeypatch.setattr(linear_predictions, "EPSILONS", (1.0,))
    monkeypatch.setattr(linear_predictions, "DRAWS", 1)
    monkeypatch.setattr(linear_predictions, "OLD_DRAWS", 1)
    found = linear_predictions.cells(linear_regression_sets.uci("airfoil"), splits=1)
    assert all(values.shape == (1,) for values in found.values())
    assert "airfoil" in linear_predictions.text({"airfoil": found})


def test_a_parquet_file_is_fitted_in_few_passes(tmp_path):
    path = tmp_path / "rows.parquet"
    linear_speed.write_parquet(path, rows=3000)
    found = linear_speed.fit_parquet(path, rows=3000)
    assert 1 <= found["parquet_passes"] <= 17
    assert found["parquet_cores"] > 0


def test_forecasts_are_measured_beside_what_came(monkeypatch):
    monkeypatch.setattr(linear_forecasts, "CELLS", ((300, 3, 1.0, 6),))
    monkeypatch.setattr(linear_forecasts, "SHAPES", ("gauss",))
    found = linear_forecasts.measure()
    asked = {target.figure for target in regression.TARGETS if target.script is linear_forecasts.measure}
    assert asked <= set(found)
    assert 0.5 < found["number_public_rows_median"] < 2
    right = linear_forecasts.Outcome(forecast=0.5, realised=0.5, within=True)
    wrong = linear_forecasts.Outcome(forecast=1.0, realised=0.5, within=False)
    told = linear_forecasts.figures({"number, public rows": [right, wrong, wrong]})
    assert told["number_public_rows_median"] == 2
    assert told["number_public_rows_within"] == pytest.approx(1 / 3)


def test_every_target_of_the_group_is_a_figure_of_its_script():
    assert len({target.name for target in regression.TARGETS}) == len(regression.TARGETS)
    assert {target.script.__module__.split(".")[1] for target in regression.TARGETS} == {
        "linear_base_rates",
        "linear_classes",
        "linear_errors",
        "linear_forecasts",
        "linear_models",
        "linear_predictions",
        "linear_regression_accuracy",
        "linear_speed",
        "peers",
        "wide_ranges",
    }
