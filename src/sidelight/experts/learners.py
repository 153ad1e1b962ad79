"""Learners for RW-Meta: each names an action from past noisy reports. Any learner is allowed; none costs privacy.

Ready-made are those of the published experiment, rolling Gaussian regressions: a straight line through the last reports
of each coordinate, its slope held back, read off one step ahead. For a given window that is a fixed weighted sum of the
reports. And forecasts that know the noise of the reports (`filter_learners`): a bank of Kalman filters, weighed by
evidence. What differs between coordinates is what an argmax needs, so the mean of the round is taken off. Of the rest a
model says how far apart coordinates are, and how long they stay as they are: for ever, for some rounds, with a slope,
or that they alternate. A noisy report is drawn towards the mean of all and towards its own past by as much as its noise
calls for. How well a model foresaw all past reports decides how much it counts (experts proof page, section 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError
from sidelight.experts.player import (
    Floats,
    Mask,
    Stream,
    checked_actions,
    checked_gain_range,
    checked_mask,
    checked_noise,
    checked_scale,
    floats,
    restoring,
    written,
)

WINDOWS = (8, 16, 32, 64)
#: Weak, medium and strong: near linear extrapolation, in between, near a moving average.
STRENGTHS = (0.05, 0.3, 3.0)
#: How far apart the gains of different actions usually are, as a part of the range [0, 1].
SPREAD = 0.05
#: How much evidence of drift the two filters of `filter_learners` want: none beforehand, and some.
DOUBTS = (0.0, 1.0)
#: How far apart the gains of different actions can be, as parts of their range.
SPREADS = (0.03, 0.1, 0.3)
#: Of the noise of a report: what is seen exactly would leave nothing to weigh models by.
_LEAST_VARIANCE = 1e-12
#: In units of the range: far beyond any gain, and its square can still be weighed.
_FARTHEST = 1e100


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


@dataclass(frozen=True, kw_only=True)
class DriftModel:
    """x' = φx + s + N(0, p), s' = ρs + N(0, q), x ~ N(0, τ²) at first; a report sees x + N(0, r) with its known noise.

    `doubt` is how many nats of evidence a wary learner wants before it believes the model as readily as no drift.
    """

    spread: float
    persistence: float
    moves: float
    slope: float = 0.0
    slope_moves: float = 0.0
    blur: float = 0.0
    doubt: float = 0.0


def _lasting(spread: float, rounds: float, *, blur: float = 0.0, sign: int = 1) -> DriftModel:
    persistence = sign * float(np.exp(-1.0 / rounds))
    doubt = 0.0 if np.isinf(rounds) else 2.0 + float(np.log(60 / rounds)) + (2.0 if sign < 0 else 0.0)
    moves = spread**2 * (1 - persistence**2)
    return DriftModel(spread=spread, persistence=persistence, moves=moves, blur=blur * spread**2, doubt=doubt)


def _sloping(spread: float) -> DriftModel:
    persistence = float(np.exp(-1 / 60))
    moves, slope_moves = 0.1 * spread**2 * (1 - persistence**2), 0.05 * spread**2
    return DriftModel(
        spread=spread, persistence=persistence, moves=moves, slope=0.6, slope_moves=slope_moves, doubt=4.0
    )


MODELS = tuple(
    model
    for spread in SPREADS
    for model in (
        *(_lasting(spread, rounds) for rounds in (np.inf, 60.0, 20.0, 8.0, 3.0)),
        *(_lasting(spread, rounds, blur=0.3) for rounds in (np.inf, 60.0, 20.0, 8.0)),
        _lasting(spread, 10.0, sign=-1),
        _sloping(spread),
    )
)
_COLUMNS = {
    name: np.array([[getattr(model, name)] for model in MODELS])
    for name in ("spread", "persistence", "moves", "slope", "slope_moves", "blur", "doubt")
}
#: What a bank remembers, besides the number of rounds.
_ARRAYS = ("level", "trend", "level_variance", "cross", "trend_variance", "evidence")


class Filters:
    """The bank. Arrays are (runs, models, coordinates); a server has one run.

    `absorb` takes the reports of a round; `forecast` is then of the next, up to a number that all coordinates share.
    """

    def __init__(self, *, actions: int, gain_range: float = 1.0, runs: int = 1) -> None:
        shape = (runs, len(MODELS), actions)
        self.gain_range = checked_gain_range(gain_range)
        self.rounds = 0
        self.level, self.trend, self.cross = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        slope = _COLUMNS["slope"]
        self.level_variance = np.zeros(shape) + _COLUMNS["spread"] ** 2
        self.trend_variance = np.zeros(shape) + _COLUMNS["slope_moves"] / (1 - slope * slope)
        self.evidence = np.zeros(shape[:2])

    def absorb(self, reports: Floats, variances: Floats, sent: Mask) -> None:
        """Take reports (runs, coordinates) with noise of known variances; what was not sent tells nothing."""
        if sent.any():
            noise = np.where(sent, np.clip(variances / self.gain_range**2, _LEAST_VARIANCE, _FARTHEST**2), np.inf)
            share = 1.0 / (noise + _COLUMNS["spread"] ** 2)  # of each model its own mean of the round
            given = np.clip(reports[:, None, :] / self.gain_range, -_FARTHEST, _FARTHEST)
            seen = given - (share * given).sum(axis=2, keepdims=True) / share.sum(axis=1)[:, None]
            self._correct(seen, noise, sent)
        self._advance()

    def _correct(self, seen: Floats, noise: Floats, sent: Mask) -> None:
        total = self.level_variance + noise + _COLUMNS["blur"]
        miss = np.where(sent, seen - self.level, 0.0)
        known = np.where(sent, np.log(np.where(sent, total, 1.0)) + miss * miss / total, 0.0)
        self.evidence = self.evidence - 0.5 * known.sum(axis=2)
        gain, slope_gain = self.level_variance / total, self.cross / total
        self.level = self.level + gain * miss
        self.trend = self.trend + slope_gain * miss
        self.trend_variance = self.trend_variance - slope_gain * self.cross
        self.cross = self.cross - gain * self.cross
        self.level_variance = self.level_variance - gain * self.level_variance

    def _advance(self) -> None:
        phi, rho = _COLUMNS["persistence"], _COLUMNS["slope"]
        self.level = phi * self.level + self.trend
        self.trend = rho * self.trend
        self.level_variance = (
            phi * phi * self.level_variance + 2 * phi * self.cross + self.trend_variance + _COLUMNS["moves"]
        )
        self.cross = rho * (phi * self.cross + self.trend_variance)
        self.trend_variance = rho * rho * self.trend_variance + _COLUMNS["slope_moves"]
        self.rounds += 1

    def forecast(self, *, doubt: float = 0.0) -> Floats:
        """Return the forecasts (runs, coordinates): of all models by their evidence, drift doubted `doubt` times."""
        weights = self.evidence - doubt * _COLUMNS["doubt"][:, 0]
        with np.errstate(under="ignore"):  # a model without any weight has none
            weights = np.exp(weights - weights.max(axis=1, keepdims=True))
            weights = weights / weights.sum(axis=1, keepdims=True)
            return np.asarray((weights[:, :, None] * self.level).sum(axis=1))


class FilterLearner:
    """Play the action with the largest forecast of the bank.

    Args:
        actions: n.
        doubt: 0 believes in drift as readily as in none. At 1 a model of drift counts only after it foresaw the reports
            better than no drift by 2 nats and more: slower to follow, and no worse than RW-FTPL where nothing drifts.
        gain_range: Gains lie in an interval of this length: what far apart means.
    """

    window = 1  # the report and its noise are seen once, when the next action is asked for

    def __init__(self, *, actions: int, doubt: float = 0.0, gain_range: float = 1.0) -> None:
        if not (np.isfinite(doubt) and doubt >= 0):
            raise RangeError(f"doubt must be finite and not negative, got {doubt}; 0 and 1 are usual")
        self.actions = checked_actions(actions)
        self.doubt = float(doubt)
        self._bank = Filters(actions=actions, gain_range=gain_range)
        self._sent: Mask | None = None

    def predict(self, time: int, reports: Floats, scales: Floats) -> int | None:
        """Take the last report if it is new, and return the largest forecast; None before the first."""
        del time
        if self._sent is not None:
            self._bank.absorb(reports[-1:], scales[-1] ** 2, self._sent)
            self._sent = None
        return int(np.argmax(self._bank.forecast(doubt=self.doubt)[0])) if self._bank.rounds else None

    def update(self, time: int, report: Floats, mask: Mask) -> None:
        """Remember which coordinates were sent: `predict` sees the report with its noise."""
        del time, report
        self._sent = mask

    def state(self) -> dict[str, Any]:
        """Return the state of the bank."""
        return {
            "learner": "filters",
            "actions": self.actions,
            "doubt": self.doubt,
            "gain_range": self._bank.gain_range,
            "rounds": self._bank.rounds,
            "sent": None if self._sent is None else self._sent.tolist(),
            **{name: written(getattr(self._bank, name)) for name in _ARRAYS},
        }

    @classmethod
    def _restored(cls, state: dict[str, Any], *, actions: int) -> FilterLearner:
        if state["actions"] != actions:
            raise RangeError(f"a stored filter is of {state['actions']} actions, and the player has {actions}")
        learner = cls(**{name: state[name] for name in ("actions", "doubt", "gain_range")})
        learner._bank.rounds = state["rounds"]
        for name in _ARRAYS:
            setattr(learner._bank, name, floats(state[name], getattr(learner._bank, name).shape))
        if state["sent"] is not None:
            learner._sent = checked_mask(state["sent"], actions)
        return learner

    def __repr__(self) -> str:
        return f"FilterLearner(doubt={self.doubt:g})"


def usual_learners(*, actions: int, noise_scale: ArrayLike, stream: Stream) -> list[Learner]:
    """Return the 13 learners of the published experiment: 4 windows times 3 strengths, and RW-FTPL."""
    rolling: list[Learner] = [RollingRegression(window=w, strength=r) for w in WINDOWS for r in STRENGTHS]
    return [*rolling, LeaderLearner(actions=actions, noise_scale=noise_scale, stream=stream.child("leader"))]


def filter_learners(*, actions: int, noise_scale: ArrayLike, stream: Stream, gain_range: float = 1.0) -> list[Learner]:
    """Return the default learners of RW-Meta: filters that accept drift readily and slowly, and RW-FTPL."""
    filters: list[Learner] = [FilterLearner(actions=actions, doubt=doubt, gain_range=gain_range) for doubt in DOUBTS]
    return [*filters, LeaderLearner(actions=actions, noise_scale=noise_scale, stream=stream.child("leader"))]


@restoring("learner")
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
