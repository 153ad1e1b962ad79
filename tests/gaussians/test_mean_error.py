"""A released mean carries what noise does to it, and says in public numbers what clipping may have done."""

from __future__ import annotations

import re

import numpy as np

import sidelight as sl
from sidelight.gaussians.gaussian_query import mean_error
from sidelight.testing import seeded_release


def _query() -> sl.GaussianFit:
    public = np.random.default_rng(1).normal([10.0, 50.0], [2.0, 5.0], (40, 2))
    return sl.GaussianFit(prediction=sl.PublicData(public, "a survey"), rho="0.05")


def test_noise_of_the_mean_is_within_the_bound() -> None:
    rows = np.random.default_rng(2).normal([10.0, 50.0], [2.0, 5.0], (4000, 2))
    kept = 0
    for seed in range(40):
        release = seeded_release(_query(), _query().table(rows), seed=seed)
        off = np.abs(release.value["mean"] - rows.mean(axis=0)) / rows.std(axis=0)
        kept += bool(off.max() <= release.error_bound(0.95)[0])
    assert kept >= 28  # of a law that keeps it 19 times in 20, fewer come out less than once in a million


def test_skewed_rows_are_off_by_more_and_the_release_says_why() -> None:
    """A planted tail that is clipped: the mean is further off than noise explains, and within what is said of it."""
    rng = np.random.default_rng(3)
    rows = rng.normal([10.0, 50.0], [2.0, 5.0], (4000, 2))
    rows[:200, 0] += 40  # 5 % lie twenty standard deviations out
    release = seeded_release(_query(), _query().table(rows), seed=1)
    assert "pulled in" in release.error.assumption
    told = re.search(r"about ([\d.]+) standard.* up to ([\d.]+) more", release.error.assumption)
    reach, each = float(told[1]), float(told[2])
    assert 3 < reach < 5
    assert abs(each - reach / 100) < 0.01


def test_few_rows_state_no_error_that_they_do_not_keep() -> None:
    """Of 15 rows the covariance is mostly noise, and so is the unit of the error: 1 of 2 releases exceeded it."""
    stated = 0
    for count in (15, 2000):
        rows = np.random.default_rng(4).normal([10.0, 50.0], [2.0, 5.0], (count, 2))
        for seed in range(20):
            release = seeded_release(_query(), _query().table(rows), seed=f"few {count} {seed}")
            assert release.error is None or not release.value["weak"]
            stated += release.error is not None
    assert stated >= 20  # those of many rows


def test_hopeless_noise_has_no_bound_and_no_failure() -> None:
    assert mean_error(float("inf"), 3) is None
    assert mean_error(1e200, 3) is None
    root = mean_error(1.0, 1)
    assert root is not None
    for confidence in (0.5, 0.8, 0.99, 0.999999):  # a tangent is above its root everywhere
        assert root.at(confidence)[0] >= np.sqrt(2 * (np.log(2) + np.log(1 / (1 - confidence))))
