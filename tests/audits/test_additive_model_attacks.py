"""Attacks on additive models: what one row moves in whole transcripts, exactly, and the law of their noise.

Every sum of a fit is asked again for one row alone, at the public points that the fit went through: its length over the
noise that was drawn is what the row cost. Over all releases the squares are at most mu², and a canary of the largest
gradient in rare cells comes near it. Planted bugs are found.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import sidelight as sl
from sidelight.guarantees import Row
from sidelight.noise import Source
from sidelight.regression.additive import fit as additive_fit
from sidelight.regression.additive.counts import scaled_counts
from sidelight.regression.additive.plan import AdditivePlan, plan_additive
from sidelight.regression.additive.row_sums import CurveErrors, FineCounts, LeadingGram, gradient_of
from sidelight.regression.descent.targets import Targets
from sidelight.testing import SeededEntropy

COLUMNS = (sl.Number("a", lower=0, upper=1), sl.Category("c", ["u", "v", "w"], other=None))
NUMBER = Targets(kind="squared", target_range=(-1.0, 1.0))
CLASSES = Targets(kind="logistic", classes=(0, 1))


class AskedRows:
    """Rows in memory that remember what was asked of them."""

    def __init__(self, codes: np.ndarray, targets: np.ndarray) -> None:
        self.codes, self.targets = codes, targets
        self.asked: list[Any] = []

    def added_up(self, statistic: Any) -> Any:
        self.asked.append(statistic)
        return statistic(self.codes, self.targets)


def transcript(
    targets: Targets, monkeypatch: pytest.MonkeyPatch, *, seed: int, canary: tuple[list[int], float], rows: int = 20
) -> tuple[AdditivePlan, dict[str, list[float]], list[np.ndarray]]:
    """Run one fit; return what the canary costs in each release by its kind, and the drawn noise over its scale."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, 800, rows), rng.integers(0, 2, rows)])
    y = rng.integers(-8000, 8000, (rows, 1)).astype(float) if targets is NUMBER else rng.choice([-1.0, 1.0], (rows, 1))
    plan = plan_additive(
        columns=COLUMNS, targets=targets, line_features=4, epsilon=12, delta="1e-3", unit=Row(), lines="none"
    )
    drawn: list[np.ndarray] = []
    scales: list[float] = []
    for name in ("count_noise", "counts_noise", "gram_noise", "step_noise"):
        original = getattr(AdditivePlan, name)

        def recording(self: Any, value: Any, *args: Any, _original: Any = original, **more: Any) -> Any:
            noise = _original(self, value, *args, **more)
            release = noise.release

            def released(source: Source) -> Any:
                found = release(source)
                scales.append(noise.deviation)
                off = np.asarray(found, float) - np.asarray(value, float)
                upper = off[np.triu_indices(len(off), 1)] * math.sqrt(2) if noise.law == "goe" else off.ravel()
                drawn.append(upper / noise.deviation)
                return found

            object.__setattr__(noise, "release", released)
            return noise

        monkeypatch.setattr(AdditivePlan, name, recording)
    both = AskedRows(codes, y)
    found = additive_fit._curves(plan, both, None, source=Source(SeededEntropy(f"attack {seed}")))  # type: ignore[arg-type]
    monkeypatch.undo()
    row, label = np.array([canary[0]]), np.array([[canary[1]]])
    cost: dict[str, list[float]] = {"count": [], "counts": [], "gram": [], "steps": []}
    left = iter(scales)
    for statistic in both.asked:
        moved = statistic(row, label)
        if isinstance(statistic, FineCounts):
            count, fine, target = statistic.split(moved)
            first = next(left)
            cost["count"].append(count / first)
            for levels in ((16, 128, 1024), (8, 64)):
                vector = scaled_counts(plan.columns, fine, target, levels).astype(float)
                noise = plan.counts_noise(np.zeros(1, np.int64), levels).deviation
                longest = float(np.linalg.norm(vector)) / noise
                cost["counts"].append(longest)
            cost["counts"] = [max(cost["counts"])]
            next(left)
        elif isinstance(statistic, LeadingGram):
            cost["gram"].append(float(np.linalg.norm(moved.astype(float))) / next(left))
        elif isinstance(statistic, CurveErrors):
            vector = gradient_of(moved, found.place.z_tables).astype(float)
            cost["steps"].append(float(np.linalg.norm(vector)) / next(left))
    assert next(left, None) is None
    return plan, cost, drawn


CANARIES: dict[str, tuple[Targets, tuple[list[int], float]]] = {
    "a number at the end, in rare cells": (NUMBER, ([1023, 2], 16384.0)),
    "a missing number": (NUMBER, ([1024, 2], -16384.0)),
    "a class in rare cells": (CLASSES, ([1023, 2], 1.0)),
}


@pytest.mark.parametrize("name", CANARIES)
def test_no_row_costs_more_than_the_claim(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    targets, canary = CANARIES[name]
    nearest = 0.0
    for seed in range(12):
        plan, cost, _ = transcript(targets, monkeypatch, seed=seed, canary=canary)
        for kind, share in (
            ("count", plan.shares.count),
            ("counts", plan.shares.counts),
            ("gram", plan.shares.gram),
            ("steps", plan.shares.steps),
        ):
            spent = sum(each**2 for each in cost[kind])
            assert spent <= float(plan.mu**2 * share) * (1 + 1e-9), (kind, seed)
        whole = sum(each**2 for kind in cost.values() for each in kind)
        assert whole <= float(plan.mu**2)
        nearest = max(nearest, math.sqrt(whole) / float(plan.mu))
    assert nearest > 0.8  # the attack has power: this is what the bound allows


@pytest.mark.planted("too little noise of the steps, the counts or the matrix of an additive model")
@pytest.mark.parametrize("bug", ["a clip halved in the noise", "the target left out of the counts", "a short radius"])
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context() as planted:
        if bug == "a clip halved in the noise":
            own = AdditivePlan.step_noise
            planted.setattr(
                AdditivePlan, "step_noise", lambda self, v, *, clip, passes: own(self, v, clip=clip // 2, passes=passes)
            )
        elif bug == "a short radius":
            gram = AdditivePlan.gram_noise
            planted.setattr(AdditivePlan, "gram_noise", lambda self, value, radius: gram(self, value, radius // 2))
        else:
            planted.setattr(AdditivePlan, "counts_square", lambda self, levels: 4 * (len(levels) + 1))
        failed = 0
        for seed in range(8):
            plan, cost, _ = transcript(NUMBER, monkeypatch, seed=seed, canary=([1023, 2], 16384.0))
            parts = {"steps": plan.shares.steps, "gram": plan.shares.gram, "counts": plan.shares.counts}
            failed += any(sum(e**2 for e in cost[n]) > float(plan.mu**2 * parts[n]) * (1 + 1e-9) for n in parts)
        assert failed


def test_the_law_of_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standardised draws have variance 1 up to rounding; a scale that is 30 % off either way is rejected."""
    drawn = np.concatenate(
        [
            part
            for seed in range(6)
            for part in transcript(NUMBER, monkeypatch, seed=100 + seed, canary=([0, 0], 0.0))[2]
        ]
    )
    assert len(drawn) > 500
    low, high = chi2.ppf([1e-7, 1 - 1e-7], len(drawn)) / len(drawn)

    def accepted(values: np.ndarray) -> bool:
        return bool(low < np.mean(values**2) < high + 0.02)  # rounding adds a twelfth of a count, with these scales

    assert accepted(drawn)
    assert not accepted(1.3 * drawn)
    assert not accepted(drawn / 1.3)
