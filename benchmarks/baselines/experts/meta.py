"""Runs of RW-Meta with the 13 usual learners, in step: a round is one matrix product and one stack of eigenproblems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.baselines.experts.ftpl import checked_gains, scales_of
from sidelight.experts.learners import SPREAD, STRENGTHS, WINDOWS, forecast_weights, shrunk
from sidelight.experts.meta import Variant, seen_covariance
from sidelight.experts.player import Floats


@dataclass(frozen=True, kw_only=True)
class SimulatedMeta:
    """What each run gained, and what each of its learners would have: 12 regressions as in `names`, then RW-FTPL."""

    gain: Floats
    learner_gains: Floats
    names: tuple[str, ...]
    largest_eigenvalue: Floats

    @property
    def ftpl_gain(self) -> Floats:
        """The gain of RW-FTPL on the same reports."""
        return np.asarray(self.learner_gains[:, -1])


def simulate_meta(
    gains: ArrayLike,
    *,
    noise_scale: ArrayLike,
    runs: int,
    rng: np.random.Generator,
    floor: float = 2.0,
    variant: Variant = "centred",
    decorrelate: bool = True,
) -> SimulatedMeta:
    """Run RW-Meta `runs` times on the same T x n gains; `noise_scale` is η: one, one a round, or T x n; 0 is no
    privacy."""
    true = checked_gains(gains)
    rounds, n = true.shape
    scales = scales_of(noise_scale, (rounds, n))
    pairs = [(w, r) for w in WINDOWS for r in STRENGTHS]
    m, longest = len(pairs) + 1, max(WINDOWS)
    first = float(scales[0].max())
    totals = first * rng.standard_normal((runs, m))
    covariance = np.broadcast_to(first**2 * np.eye(m), (runs, m, m)).copy()
    sums = scales[0] * rng.standard_normal((runs, n))
    level = np.zeros(runs)
    window = np.zeros((2 * longest, runs, n))  # the last reports, in window[stop - seen : stop]
    stop = seen = 0
    gain, learner_gains = np.zeros(runs), np.zeros((runs, m))
    largest = np.zeros(runs)
    every = np.arange(runs)
    for t, (now, scale) in enumerate(zip(true, scales, strict=True), start=1):
        choice = np.empty((runs, m), dtype=np.int64)
        choice[:, -1] = np.argmax(sums, axis=1)
        choice[:, :-1] = _forecasts(window[stop - seen : stop], scales[t - 1 - seen : t - 1], pairs, rng, runs=runs)
        if decorrelate:
            values, vectors = np.linalg.eigh(seen_covariance(covariance, variant=variant))
            largest = values[:, -1]
            level = np.maximum(np.maximum(level, floor * t), largest)
            spread = np.sqrt(np.maximum(level[:, None] - values, 0.0)) * rng.standard_normal((runs, m))
            noisy = totals + (vectors @ spread[:, :, None])[:, :, 0]
        else:
            noisy = totals
        leader = np.argmax(noisy, axis=1)
        gain += now[choice[every, leader]]
        learner_gains += now[choice]
        report = now + scale * rng.standard_normal((runs, n))
        totals += np.take_along_axis(report, choice, axis=1)
        covariance += (scale**2)[choice][:, :, None] * (choice[:, :, None] == choice[:, None, :])
        sums += report
        if stop == len(window):
            window[: longest - 1] = window[stop - longest + 1 :]
            stop, seen = longest - 1, min(seen, longest - 1)
        window[stop] = report
        stop, seen = stop + 1, min(seen + 1, longest)
    names = (*(f"window {w}, strength {r:g}" for w, r in pairs), "RW-FTPL")
    return SimulatedMeta(gain=gain, learner_gains=learner_gains, names=names, largest_eigenvalue=largest)


def _forecasts(
    reports: Floats,
    scales: Floats,
    pairs: list[tuple[int, float]],
    rng: np.random.Generator,
    *,
    runs: int,
) -> Floats:
    """Return the action of each regression in each run, from reports of shape (seen, runs, n), scales (seen, n)."""
    seen, actions = len(reports), scales.shape[1]
    if seen == 0:
        return np.asarray(rng.integers(0, actions, (runs, len(pairs))))
    weights = np.zeros((len(pairs), seen))
    for row, (w, r) in zip(weights, pairs, strict=True):
        row[seen - min(w, seen) :] = forecast_weights(min(w, seen), r)
    forecasts = (weights @ reports.reshape(seen, -1)).reshape(len(pairs), runs, actions)
    variances = (weights**2 @ scales**2)[:, None, :]
    return np.asarray(np.argmax(shrunk(forecasts, variances, spread=SPREAD), axis=2).T)
