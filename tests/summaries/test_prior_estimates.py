"""Predictions of means without a stated accuracy: shrinkage weights, cost, and worst-case loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.summaries.clip_subject import ClipInterval
from sidelight.summaries.mean_table import MeanReading, clean_shares, shrinkage_weight
from sidelight.summaries.moments import Floats, MeasuredGroups, from_pair
from sidelight.summaries.predicted import read_prediction


def excess(best: float, evidence: float, *, belief: float = 1.0) -> float:
    """Return S·E(b̂ - b*)² by simulation: what fitting the slope costs, in noise variances over all groups."""
    rng = np.random.default_rng(3)
    deviations = rng.normal(size=8)
    counts, draws = np.full(8, 10.0), 4000
    deviations *= np.sqrt(evidence / (counts**2 * deviations**2).sum())
    found = []
    for noise in rng.normal(size=(draws, 8)):
        residuals = counts * best * deviations + noise
        if belief == 1.0:
            share = shrinkage_weight(residuals, np.ones(8), counts, deviations)
        else:
            share = (float((counts * deviations * residuals).sum()) + belief) / (evidence + belief)
        found.append(share)
    return float(evidence * np.mean((np.array(found) - best) ** 2))


@pytest.mark.parametrize("best", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("evidence", [0.1, 1.0, 10.0, 1000.0])
def test_fitting_the_share_costs_less_than_one_noise_variance(best: float, evidence: float) -> None:
    assert excess(best, evidence) < evidence / (evidence + 1) + 0.1


def test_more_belief_would_cost_more() -> None:
    assert excess(0.0, 10.0, belief=8.0) > 1.2


def reading_of(prediction: Floats | None, names: list[str]) -> MeanReading:
    table = None
    if prediction is not None:
        told = dict(zip(names, prediction.tolist(), strict=True))
        table = read_prediction(told, keys=["g"], names=["mean"])
    return MeanReading(name="mean", table=table)


def errors(groups: int, rows: int, epsilon: float, rounds: int) -> dict[str, float]:
    """Return errors of means of lognormal groups of Zipf sizes, by prediction, as ratios to those without one."""
    rng = np.random.default_rng(groups + rows)
    names = [f"g{n}" for n in range(groups)]
    total: dict[str, float] = {}
    for _ in range(rounds):
        shares = 1 / np.arange(1, groups + 1)
        sizes = rng.multinomial(rows, shares / shares.sum())
        law = np.exp(3.125 + 0.2 * rng.standard_normal(groups))
        truth = np.clip(law * (1 + 0.53 * rng.standard_normal(groups) / np.sqrt(np.maximum(sizes, 1))), 0, 200)
        t = truth / 100 - 1
        pair = [sizes * (1 + sign * t) / 2 + rng.laplace(0, 1 / epsilon, groups) for sign in (1, -1)]
        measured = MeasuredGroups(
            moments=from_pair(*pair, levels=1, variance=2 / epsilon**2),
            interval=ClipInterval(lower=0, upper=200),  # type: ignore[arg-type]
            lower=0.0,
            upper=200.0,
            pair=(*pair, 1 / epsilon),
            names=tuple((name,) for name in names),
        )
        told = {
            "none": None,
            "off by 5 %": truth * (1 + 0.05 * rng.standard_normal(groups)),
            "times 3": np.minimum(3 * truth, 200),
            "a third": truth / 3,
            "of other groups": rng.permutation(truth),
            "the same for all": np.full(groups, 60.0),
            "of a tenth": law * (1 + 0.53 * rng.standard_normal(groups) / np.sqrt(np.maximum(sizes / 10, 0.5))),
        }
        for name, prediction in told.items():
            drawn = reading_of(prediction, names).columns(measured)["mean"]
            total[name] = total.get(name, 0.0) + float(np.mean((drawn - truth) ** 2))
    return {name: float(np.sqrt(each / total["none"])) for name, each in total.items()}


@pytest.mark.parametrize(("groups", "rows", "epsilon", "rounds"), [(1000, 10_000, 1.0, 6), (100, 10_000, 0.3, 40)])
def test_a_wrong_prediction_is_hardly_worse_than_none_and_a_good_one_far_better(
    groups: int, rows: int, epsilon: float, rounds: int
) -> None:
    found = errors(groups, rows, epsilon, rounds)
    assert found["off by 5 %"] < 0.55
    for name in ("times 3", "a third"):  # the level is wrong, and which groups are above it is right
        assert found[name] < 0.85
    for name in ("of other groups", "the same for all", "of a tenth"):
        assert found[name] < 1.08


def test_noise_that_falls_with_size_is_seen_and_scatter_is_not_taken_for_it() -> None:
    rng = np.random.default_rng(5)
    sizes = rng.lognormal(3, 1.5, 300)
    scatter = rng.standard_normal(300)
    sampled = clean_shares(scatter + rng.standard_normal(300) * np.sqrt(30 / sizes), sizes)
    wanted = (1 + 30 / sizes.max()) / (1 + 30 / sizes)
    assert np.abs(sampled - wanted).max() < 0.2
    assert clean_shares(scatter, sizes).min() > 0.7
    # nothing to learn from: the shrinkage weight of the prediction is 1
    for deviations in ([5.0, -5.0], [0.0] * 9, []):
        assert (clean_shares(deviations, np.ones(len(deviations))) == 1).all()


@pytest.mark.parametrize("price", [{"epsilon": 700}, {"mu": 300}, {"rho": 40000}])
@pytest.mark.parametrize("told", [None, {"a": 0.5, "b": 0.1, "c": 0.3, "d": 0.0}])
@pytest.mark.parametrize("more", [0, 1])
def test_noise_of_no_variance_fails_for_no_empty_group(
    price: dict[str, Any], told: dict[str, float] | None, more: int
) -> None:
    """Whether a release fails after the charge would say whether the group `d` has a row."""
    labels, values = (["a", "b", "c"] * 50 + ["d"])[: 150 + more], ([0, 1, 1] * 50 + [1])[: 150 + more]
    schema = [sl.Category("g", ["a", "b", "c", "d"], other=None), sl.Number("x", lower=0, upper=1, granularity=1)]
    table = sl.Table({"g": labels, "x": values}, schema=schema)
    queries: list[Any] = [
        kind("x", by="g", **price) for kind in (sl.Mean, sl.Sum, sl.Variance, sl.StandardDeviation, sl.Summary)
    ]
    if told is not None:
        queries = [kind("x", by="g", prediction=told, **price) for kind in (sl.Mean, sl.Sum)]
        queries.append(sl.Count(by="g", prediction={label: 40 * value for label, value in told.items()}, **price))
    queries.append(sl.Proportion(sl.col("x") == 1, by="g", **price))
    for query in queries:
        with np.errstate(all="raise"):
            assert isinstance(query.release(table), sl.Release), query
