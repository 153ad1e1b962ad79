"""Options of counts: totals against cells, intervals of a population, and the best of several predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.session.query import prepare_query
from sidelight.summaries.count_rollup import PreparedRollup
from sidelight.summaries.count_tables import CountReading
from sidelight.summaries.noise_choice import gaussian_variance
from sidelight.summaries.predicted import read_prediction
from sidelight.testing import seeded_release

JOBS = [f"j{n}" for n in range(10)]
SCHEMA = [sl.Category("job", JOBS, other=None), sl.Label("firm"), sl.Number("pay", lower=0, upper=10)]
KEYS = [(job,) for job in JOBS]


def test_a_total_takes_little_of_the_price() -> None:
    """Of 10 cells the total has 19 % of the price."""
    prepared = prepare_query(sl.Count(by="job", rollup=True, mu=1), sl.Schema(SCHEMA[:1]))
    assert isinstance(prepared, PreparedRollup)
    shares = {margin.axes: 1 / margin.noise.variance for margin in prepared.margins}
    assert shares[()] / sum(shares.values()) == pytest.approx(0.19, abs=0.01)


def test_the_best_of_several_predictions_is_taken_and_is_never_worse_than_none() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([400.0, 200, 133, 100, 80, 67, 57, 50, 44, 40])
    good = dict(zip(JOBS, truth * 1.02, strict=True))
    wrong = dict(zip(JOBS, truth[::-1], strict=True))
    worse: dict[str, list[float]] = {"good": [], "both": [], "wrong": []}  # than the raw counts, in their variance
    for predictions, name in (([good], "good"), ([wrong, good], "both"), ([wrong], "wrong")):
        reading = CountReading(prediction=read_prediction(predictions, keys=["job"], names=["count"]))
        for _ in range(1500):
            noisy = truth + np.rint(rng.normal(0, 30, 10))
            drawn = reading.shrunk(noisy, KEYS, variance=gaussian_variance(30))
            worse[name].append(float(np.mean((drawn - truth) ** 2 - (noisy - truth) ** 2)) / gaussian_variance(30))
    mean = {name: float(np.mean(each)) for name, each in worse.items()}
    sd = {name: float(np.std(each)) / math.sqrt(1500) for name, each in worse.items()}
    assert mean["good"] + 5 * sd["good"] < 0
    assert 1 + mean["both"] < 1.12 * (1 + mean["good"])  # within 12 % of the error with the better one alone
    assert mean["wrong"] < 5 * sd["wrong"]


def test_several_predictions_change_no_guarantee_and_are_reported() -> None:
    table = sl.Table({"job": JOBS * 30, "pay": [3.0] * 300}, schema=[SCHEMA[0], SCHEMA[2]])
    one, other = dict.fromkeys(JOBS, 30), dict.fromkeys(JOBS, 900)
    several = sl.Count(by="job", epsilon=1, prediction=[sl.Predicted(other, doubt=0.1), one])
    plain = sl.Count(by="job", epsilon=1)
    prepared = prepare_query(several, table.schema)
    assert prepared.claims == prepare_query(plain, table.schema).claims
    assert prepared.prediction is not None
    assert prepared.prediction["description"].startswith("the best of 2: ")
    assert prepared.request != prepare_query(sl.Count(by="job", epsilon=1, prediction=[one]), table.schema).request
    release = seeded_release(several, table, seed=1)
    assert sl.Release.from_json(release.to_json()) == release
    assert (release.value["unbiased"] == seeded_release(plain, table, seed=1).value["unbiased"]).all()
    sums = [seeded_release(sl.Sum("pay", by="job", epsilon="0.2", prediction=told), table, seed=1).value["sum"]
            for told in (dict.fromkeys(JOBS, 90), [dict.fromkeys(JOBS, 9000), dict.fromkeys(JOBS, 90)])]  # fmt: skip
    assert sums[0] == pytest.approx(sums[1])
    for query in (
        sl.Mean("pay", by="job", epsilon=1, prediction=[one, other]),
        sl.TopK("job", k=2, epsilon=1, route="peeling", prediction=[one, other]),
    ):
        with pytest.raises(RangeError, match="takes one prediction"):
            prepare_query(query, table.schema)
    with pytest.raises(RangeError, match="none of the 10 groups"):
        prepare_query(sl.Count(by="job", epsilon=1, prediction=[one, {"z": 3}]), table.schema)
