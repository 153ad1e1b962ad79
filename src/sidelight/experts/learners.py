"""Learners for RW-Meta: each names an action from past noisy reports. Any learner is allowed; none costs privacy.

Ready-made are filters that know the noise (`filter_learners`), and those of the published experiment: rolling Gaussian
regressions, a straight line through the last reports of each coordinate, its slope held back, read off one step ahead.
For a given window that is a fixed weighted sum of the reports.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError
from sidelight.experts.filters import FilterLearner
from sidelight.experts.player import Floats, Mask, checked_actions, checked_noise, checked_scale
from sidelight.experts.states import Stream, floats, written

WINDOWS = (8, 16, 32, 64)
#: Weak, medium and strong: near linear extrapolation, in between, near a moving average.
STRENGTHS = (0.05, 0.3, 3.0)
#: How far apart the gains of different actions usually are, as a part of the range [0, 1].
SPREAD = 0.05
#: How much evidence of drift the two filters of `filter_learners` want: none beforehand, and some.
DOUBTS = (0.0, 1.0)


class Learner(Protocol):
    """Names an action for a round. Deterministic given its state and the reports."""

    @property
    def window(self) -> int:
        """How many past reports `predict` wants to see; 0 if it keeps what it needs itself."""
        ...

    def predict(self, time: int, reports: Floats, scales: Floats) -> int | Floats | None:
        """Return an action (an index, or a point of the simplex), None for no opinion: a random action is then played.

        `reports` holds the last reports, oldest first, at most `window` of them; `scales` the noise of each of their
        entries. Both read-only.
        """
        ...

    def update(self, time: int, report: Floats, mask: Mask) -> None:
        """Take the report of round `time`, read-only; `mask` tells which coordinates a client sent."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what the learner remembers, ready for JSON, with its class under "learner"."""
        ...


@lru_cache(maxsize=4096)
def forecast_weights(window: int, strength: float) -> Floats:
    """Return the weights, oldest first, of the forecast from `window` reports; they sum to 1. Read-only.

    Ridge regression on [1, s/w], s = -w..-1, with penalty r·w on the slope alone, read off at s = 0.

    >>> forecast_weights(8, 0.3)[:2].round(8).tolist()
    [0.04447853, 0.06748466]
    """
    if window < 1 or not strength >= 0:
        raise RangeError(f"window must be at least 1 and strength not negative, got {window} and {strength}")
    if window == 1:
        weights = np.ones(1)
    else:
        place = np.arange(-window, 0) / window
        design = np.stack([np.ones(window), place], axis=1)
        penalty = np.diag([1e-9, max(strength * window, 1e-9)])  # 1e-9: a matrix that can always be inverted
        weights = np.linalg.solve(design.T @ design + penalty, design.T)[0]
        weights = weights / weights.sum()
    weights.setflags(write=False)
    return weights


def shrunk(forecasts: Floats, variances: Floats, *, spread: float) -> Floats:
    """Return forecasts (last axis: actions) drawn towards their mean by τ²/(τ² + v); as they are if all v are equal."""
    if (variances == variances[..., :1]).all():
        return forecasts
    centre = forecasts.mean(axis=-1, keepdims=True)
    return np.asarray(centre + (forecasts - centre) * (spread**2 / (spread**2 + variances)))


class RollingRegression:
    """Play the action with the largest forecast of a rolling Gaussian regression.

    Where the coordinates have unequal noise, a forecast is drawn towards the mean of all by as much as its own noise
    calls for: the posterior mean under a normal prior of deviation `spread`. With equal noise that changes no choice.

    Accuracy: a forecast has noise of variance η² Σ weights²: 0.147 η² for window 8, 0.016 η² for window 64 (strong).
    """

    def __init__(self, *, window: int, strength: float, spread: float = SPREAD) -> None:
        forecast_weights(window, strength)
        self.window = window
        self.strength = float(strength)
        self.spread = checked_scale(spread, name="spread")

    def predict(self, time: int, reports: Floats, scales: Floats) -> int | None:
        """Return the largest forecast; the first report's largest coordinate after one report, None before."""
        del time
        recent, noise = reports[-self.window :], scales[-self.window :]
        if not len(recent):
            return None
        weights = forecast_weights(len(recent), self.strength)[:, None]
        # summed row by row, in one order: the same bits on every machine, whatever its BLAS
        forecast = (weights * recent).sum(axis=0)
        return int(np.argmax(shrunk(forecast, (weights * weights * noise * noise).sum(axis=0), spread=self.spread)))

    def update(self, time: int, report: Floats, mask: Mask) -> None:
        """Nothing to remember: the window is kept by RW-Meta, once for all learners."""
        del time, report, mask

    def state(self) -> dict[str, Any]:
        """Return the parameters."""
        return {
            "learner": "rolling_regression",
            "window": self.window,
            "strength": self.strength,
            "spread": self.spread,
        }

    def __repr__(self) -> str:
        return f"RollingRegression(window={self.window}, strength={self.strength})"


class LeaderLearner:
    """RW-FTPL as a learner: the largest sum of an initial draw and all reports."""

    window = 0

    def __init__(self, *, actions: int, noise_scale: ArrayLike, stream: Stream) -> None:
        self._sums = checked_noise(noise_scale, actions) * stream.normals("start", checked_actions(actions))

    def predict(self, time: int, reports: Floats, scales: Floats) -> int:
        """Return the leader."""
        del time, reports, scales
        return int(np.argmax(self._sums))

    def update(self, time: int, report: Floats, mask: Mask) -> None:
        """Add the report."""
        del time, mask
        self._sums = self._sums + report

    def state(self) -> dict[str, Any]:
        """Return the sums."""
        return {"learner": "leader", "sums": written(self._sums)}

    @classmethod
    def _restored(cls, sums: Floats) -> LeaderLearner:
        learner = cls.__new__(cls)
        learner._sums = sums
        return learner

    def __repr__(self) -> str:
        return "LeaderLearner()"


def usual_learners(*, actions: int, noise_scale: ArrayLike, stream: Stream) -> list[Learner]:
    """Return the 13 learners of the published experiment: 4 windows times 3 strengths, and RW-FTPL."""
    rolling: list[Learner] = [RollingRegression(window=w, strength=r) for w in WINDOWS for r in STRENGTHS]
    return [*rolling, LeaderLearner(actions=actions, noise_scale=noise_scale, stream=stream.child("leader"))]


def filter_learners(*, actions: int, noise_scale: ArrayLike, stream: Stream, gain_range: float = 1.0) -> list[Learner]:
    """Return what RW-Meta runs unless told otherwise: filters that believe in drift readily and slowly, and RW-FTPL."""
    filters: list[Learner] = [FilterLearner(actions=actions, doubt=doubt, gain_range=gain_range) for doubt in DOUBTS]
    return [*filters, LeaderLearner(actions=actions, noise_scale=noise_scale, stream=stream.child("leader"))]


def learner_from_state(state: dict[str, Any], *, actions: int) -> Learner:
    """Return a ready-made learner from its state."""
    match state.get("learner"):
        case "rolling_regression":
            return RollingRegression(window=state["window"], strength=state["strength"], spread=state["spread"])
        case "filters":
            return FilterLearner._restored(state, actions=actions)
        case "leader":
            return LeaderLearner._restored(floats(state["sums"], (actions,)))
        case other:
            raise RangeError(
                f"no ready-made learner is called {other!r}; pass `restore` to read your own learners back"
            )
