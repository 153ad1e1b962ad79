"""Runs of RW-Meta in step: a round is one matrix product, or one bank of filters, and one stack of eigenproblems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.baselines.experts.ftpl import checked_gains, scales_of
from sidelight.experts.learners import DOUBTS, SPREAD, STRENGTHS, WINDOWS, Filters, forecast_weights, shrunk
from sidelight.experts.meta import Variant, seen_covariance
from sidelight.experts.player import Floats


@dataclass(frozen=True, kw_only=True)
class SimulatedMeta:
    """What each run gained, and what each of its learners would have: those of `names`, RW-FTPL last."""

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
    learners: Literal["regressions", "filters"] = "regressions",
) -> SimulatedMeta:
    """Run RW-Meta `runs` times on the same T x n gains.

    `noise_scale` is η: one, one per round, or T x n; 0 means no privacy. `learners` are the 13 of the published
    experiment, or the filters that `RWMeta` runs by default.
    """
    true = checked_gains(gains)
    rounds, n = true.shape
    scales = scales_of(noise_scale, (rounds, n))
    panel = _Regressions(runs, n, rng) if learners == "regressions" else _Bank(runs, n, rng)
    m = len(panel.names) + 1
    first = float(scales[0].max())
    totals = first * rng.standard_normal((runs, m))
    covariance = np.broadcast_to(first**2 * np.eye(m), (runs, m, m)).copy()
    sums = scales[0] * rng.standard_normal((runs, n))
    level = np.zeros(runs)
    gain, learner_gains = np.zeros(runs), np.zeros((runs, m))
    largest = np.zeros(runs)
    every = np.arange(runs)
    for t, (now, scale) in enumerate(zip(true, scales, strict=True), start=1):
        choice = np.empty((runs, m), dtype=np.int64)
        choice[:, -1] = np.argmax(sums, axis=1)
        choice[:, :-1] = panel.choices()
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
        panel.see(report, scale)
    names = (*panel.names, "RW-FTPL")
    return SimulatedMeta(gain=gain, learner_gains=learner_gains, names=names, largest_eigenvalue=largest)


class _Bank:
    """The filters of all runs, read with and without doubt."""

    def __init__(self, runs: int, actions: int, rng: np.random.Generator) -> None:
        self.names = tuple(f"filters, doubt {doubt:g}" for doubt in DOUBTS)
        self._filters = Filters(actions=actions, runs=runs)
        self._shape, self._rng = (runs, actions), rng

    def choices(self) -> Floats:
        runs, actions = self._shape
        if not self._filters.rounds:
            return np.asarray(self._rng.integers(0, actions, (runs, len(DOUBTS))))
        return np.stack([self._filters.forecast(doubt=each).argmax(axis=1) for each in DOUBTS], axis=1)

    def see(self, report: Floats, scale: Floats) -> None:
        self._filters.absorb(report, scale**2, np.ones(self._shape[1], dtype=np.bool_))


class _Regressions:
    """The 12 regressions of all runs, over the last reports."""

    def __init__(self, runs: int, actions: int, rng: np.random.Generator) -> None:
        self._pairs = [(w, r) for w in WINDOWS for r in STRENGTHS]
        self.names = tuple(f"window {w}, strength {r:g}" for w, r in self._pairs)
        self._longest = max(WINDOWS)
        self._window = np.zeros((2 * self._longest, runs, actions))  # the last reports, in [stop - seen : stop]
        self._scales = np.zeros((2 * self._longest, actions))
        self._stop = self._seen = 0
        self._rng = rng

    def choices(self) -> Floats:
        """Return the action of each regression in each run."""
        seen, (_, runs, actions) = self._seen, self._window.shape
        if seen == 0:
            return np.asarray(self._rng.integers(0, actions, (runs, len(self._pairs))))
        reports, scales = (each[self._stop - seen : self._stop] for each in (self._window, self._scales))
        weights = np.zeros((len(self._pairs), seen))
        for row, (w, r) in zip(weights, self._pairs, strict=True):
            row[seen - min(w, seen) :] = forecast_weights(min(w, seen), r)
        forecasts = (weights @ reports.reshape(seen, -1)).reshape(len(self._pairs), runs, actions)
        variances = (weights**2 @ scales**2)[:, None, :]
        return np.asarray(np.argmax(shrunk(forecasts, variances, spread=SPREAD), axis=2).T)

    def see(self, report: Floats, scale: Floats) -> None:
        longest = self._longest
        if self._stop == len(self._window):
            for kept in (self._window, self._scales):
                kept[: longest - 1] = kept[self._stop - longest + 1 :]
            self._stop, self._seen = longest - 1, min(self._seen, longest - 1)
        self._window[self._stop], self._scales[self._stop] = report, scale
        self._stop, self._seen = self._stop + 1, min(self._seen + 1, longest)
