"""Sequences of data sets with public features, and the error of releasing each with a prediction learned so far.

Simulated releases (NOT PRIVATE, on public data only). A learner sees past released values and public features; the
reference, which is not private, sees the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import sidelight as sl
from benchmarks.baselines.nonprivate_online import nonprivate_online
from benchmarks.figures.panel import Curve
from benchmarks.figures.releases import Records
from benchmarks.learning import Days
from benchmarks.measuring import sized
from sidelight.predictions import Prior, guess
from sidelight.published.released_learners import PubPrev, PubProx, first_guess
from sidelight.quantiles import quantile_tree
from sidelight.quantiles.tree import QuantileTree

ORIGIN = guess("learned along a simulated sequence")
#: What "not robust" still is mixed with, as in the authors' code.
BARELY: dict[str, object] = {"hedge_weight": 1e-6, "fallback": sl.priors.Uniform(-1e6, 1e6)}
YARDSTICK = "not private: learns from records"
#: How many places of a moving average are kept: more would only be jagged.
PLACES = sized(120, 4)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """The steps in order, with what is known beforehand."""

    name: str
    data: str
    steps: Sequence[Records]
    features: np.ndarray
    levels: Sequence[float]
    granularity: float
    location: float
    scale: float
    plausible: tuple[float, float]
    bounds: Sequence[Prior]
    nonnegative: bool = False

    @property
    def statics(self) -> dict[str, Sequence[Prior] | Prior]:
        """The priors that never learn."""
        known: dict[str, Sequence[Prior] | Prior] = {
            "Uniform": self.bounds,
            "Cauchy": sl.priors.Cauchy(self.location, self.scale),
        }
        return known | ({"half-Cauchy": sl.priors.HalfCauchy(self.location)} if self.nonnegative else {})

    def previous(self, **rest: object) -> PubPrev:
        """Return the learner that predicts the last release."""
        return PubPrev(self.location, self.scale, **rest)  # type: ignore[arg-type]

    def proximate(self, **rest: object) -> PubProx:
        """Return the learner of a linear map."""
        width = self.features.shape[1]
        return PubProx(self.location, self.scale, features=width, plausible=self.plausible, **rest)  # type: ignore[arg-type]

    def with_static(self, tree: QuantileTree, priors: Sequence[Prior] | Prior, *, every: int = 1) -> np.ndarray:
        """Return the average gap of every such step with priors that never change."""
        return np.array([step.release(tree, priors)[1].mean() for step in self.steps[::every]])

    def with_learner(self, tree: QuantileTree, learner: PubPrev | PubProx, *, every: int = 1) -> np.ndarray:
        """Return the average gap of every step with priors learned from the releases before it."""
        learned = learner.begin(len(tree.levels), granularity=self.granularity)
        gaps = []
        for step, features in zip(self.steps, self.features, strict=True):
            given = features if isinstance(learner, PubProx) else features[:0]
            priors = first_guess(learner).priors(*learned.predict(given), origin=ORIGIN, nonnegative=self.nonnegative)
            released, gap = step.release(tree, priors)
            learned = learned.learn(given, released)
            gaps.append(gap.mean())
        return np.array(gaps[::every])

    def with_yardstick(self, tree: QuantileTree, learner: PubProx, *, every: int = 1) -> np.ndarray:
        """Return the same for the learner that sees the records. No method."""
        seen = ((step.dithered, f) for step, f in zip(self.steps, self.features, strict=True))
        locations, scales = nonprivate_online(seen, tree.levels, learner, granularity=self.granularity)
        gaps = []
        for step, location, scale in zip(self.steps[::every], locations[::every], scales[::every], strict=True):
            priors = first_guess(learner).priors(location, scale, origin=ORIGIN, nonnegative=self.nonnegative)
            gaps.append(step.release(tree, priors)[1].mean())
        return np.array(gaps)


def synthetic(steps: int, *, count: int, rate: float, seed: int) -> Stream:
    """Generate the paper's Synthetic: quantiles that move with ten public features along a fixed linear map."""
    rng = np.random.default_rng(seed)
    weights, ends = rng.standard_normal(10), np.sort(rng.standard_normal(count + 2))
    features = rng.standard_normal((steps, 10))
    days = []
    for t, place in enumerate((features @ weights).tolist()):
        sizes = -(-100 // (count + 1)) + rng.poisson(rate, count + 1)
        values = place + np.repeat(ends[:-1], sizes) + rng.random(sizes.sum()) * np.repeat(np.diff(ends), sizes)
        days.append(Records.of(values, step=None, seed=(seed, t)))
    return Stream(
        name="Synthetic",
        data="generated, as in the paper",
        steps=days,
        features=features,
        levels=[i / (count + 1) for i in range(1, count + 1)],
        granularity=1e-8,
        location=0,
        scale=1,
        plausible=(-100, 100),
        bounds=[sl.priors.Uniform(-100, 100)] * count,
    )


def bike_trips(series: Days, levels: Sequence[float], *, steps: int, seed: int) -> Stream:
    """Take the first days of the trips (no day is left out: how many trips a day has is private)."""
    kept = series.values[:steps]
    days = [Records.of(minutes, step=1 / 60, seed=(seed, t)) for t, minutes in enumerate(kept)]
    data = (
        f"STAND-IN: generated trips, T = {len(days)}"
        if series.generated
        else f"{series.name}: {len(days)} of the paper's 2,500 days"
    )
    return Stream(
        name="CitiBike",
        data=data,
        steps=days,
        features=series.features[:steps],
        levels=levels,
        granularity=1 / 60,
        location=10,
        scale=1,
        plausible=(0, 120),
        bounds=[sl.priors.Uniform(0, 50 / (1 - level)) for level in levels],
        nonnegative=True,
    )


def by_epsilon(stream: Stream, epsilons: np.ndarray) -> dict[str, np.ndarray]:
    """Return the average gap by epsilon and step of the static priors and the robust learners."""
    gaps: dict[str, list[np.ndarray]] = {}
    for epsilon in epsilons.tolist():
        tree = quantile_tree(stream.levels, epsilon=f"{epsilon:.9f}")
        for name, priors in stream.statics.items():
            gaps.setdefault(name, []).append(stream.with_static(tree, priors))
        learners = {
            "PubPrev robust": stream.previous(),
            "PubProx robust": stream.proximate(method="cocob"),
            "PubProx, our learner": stream.proximate(),
        }
        for name, learner in learners.items():
            gaps.setdefault(name, []).append(stream.with_learner(tree, learner))
    return {name: np.array(each) for name, each in gaps.items()}


def moving(gaps: dict[str, np.ndarray], window: int, *, every: int = 1) -> tuple[np.ndarray, dict[str, Curve]]:
    """Return the step at the end of every window, and the mean over the window."""
    window = max(1, window // every)
    window = min(window, *(len(each) for each in gaps.values()))
    kernel = np.full(window, 1 / window)
    length = len(next(iter(gaps.values()))) - window + 1
    shown = np.linspace(0, length - 1, min(length, PLACES)).astype(int)
    curves = {name: Curve(np.convolve(each, kernel, mode="valid")[shown]) for name, each in gaps.items()}
    return every * (window + shown), curves
