"""RW-AdaBatch follows the leader in batches, and how long the next batch may be.

It absorbs reports as long as the leader would hardly change meanwhile, so observers of the actions learn sums of
batches only, and each report hides among the others of its batch (`amplified`).

The delay is the largest whose chance of a missed change of leader is within the tolerance. Delay B is allowed at time t
when the gap is at least `threshold(t, B)`, found by integer bisection (experts proof page, Theorem 5). The chance is
bounded in two ways: n - 1 rivals stand at least k behind the leader, B reports follow, with independent noise N(0, η²)
on each coordinate and gains that move a rival at most cB nearer; both bounds are functions of x = (k - cB)/(η √(2B))
alone (Theorems 3 and 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError, nearest
from sidelight.experts.follow_leader import SumPlayer, ftpl_bound
from sidelight.experts.player import (
    Floats,
    Stream,
    checked_actions,
    checked_gain_range,
    checked_kind,
    checked_scale,
    checked_scales,
    floats,
    restoring,
    written,
)
from sidelight.guarantees import Neighbours

#: "union": Lévy's inequality for each rival, summed; closed form. "paper": the bound of the published Theorem 4.1.
Bound = Literal["union", "paper"]
BOUNDS = ("union", "paper")


@dataclass(frozen=True, kw_only=True)
class DelayRule:
    """Public parameters of the delays.

    Args:
        actions: n, at least 2.
        noise_scale: η, the standard deviation of each coordinate of one report.
        tolerance: a: the rounds of a run lose at most 2 a c √(T ln n) in expectation over never waiting.
        gain_range: c: gains lie in [0, c].
        bound: "union" or "paper" (`change_probability`).
        largest_batch: No batch is larger than this; None for no limit.

    >>> rule = DelayRule(actions=25, noise_scale=5.0)
    >>> rule.delay([100.0, 300.0], 1000).tolist()
    [9, 62]
    """

    actions: int
    noise_scale: float
    tolerance: float = 0.01
    gain_range: float = 1.0
    bound: Bound = "union"
    largest_batch: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", checked_actions(self.actions))
        checked_gain_range(self.gain_range)
        for name in ("noise_scale", "tolerance"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise RangeError(f"{name} must be positive and finite, got {value}")
        if self.largest_batch is not None and self.largest_batch < 1:
            raise RangeError(f"largest_batch must be at least 1, got {self.largest_batch}")
        checked_bound(self.bound)

    def allowed_probability(self, time: ArrayLike, delay: ArrayLike) -> Floats:
        """Return δ_t(B) = a √(ln n / (t + B))."""
        total = np.asarray(time, dtype=np.float64) + np.asarray(delay, dtype=np.float64)
        return np.asarray(self.tolerance * np.sqrt(math.log(self.actions) / total))

    def threshold(self, time: ArrayLike, delay: ArrayLike) -> Floats:
        """Return the smallest gap at which `delay` is allowed: κ(t, B) = cB + η √(2B) ξ(δ_t(B)), increasing in both.

        >>> DelayRule(actions=25, noise_scale=5.0).threshold([100, 1000, 10_000], [1, 5, 50]).round(6).tolist()
        [29.014218, 71.8501, 274.010603]
        """
        wait = np.asarray(delay, dtype=np.float64)
        margin = needed_margin(self.allowed_probability(time, wait), actions=self.actions, bound=self.bound)
        return np.asarray(self.gain_range * wait + self.noise_scale * np.sqrt(2 * wait) * margin)

    def delay(self, gap: ArrayLike, time: ArrayLike) -> NDArray[np.int64]:
        """Return the largest delay allowed at each gap and time, by bisection on the integers."""
        gaps, times = np.broadcast_arrays(np.asarray(gap, dtype=np.float64), np.asarray(time, dtype=np.float64))
        low, high = self._bracket(np.maximum(gaps, 0.0), times)
        if self.largest_batch is not None:
            low, high = np.minimum(low, self.largest_batch - 1), np.minimum(high, self.largest_batch - 1)
        while True:
            open_ = low < high
            if not open_.any():
                return low
            middle = (low + high + 1) // 2
            fits = gaps >= self.threshold(times, middle)
            low, high = np.where(open_ & fits, middle, low), np.where(open_ & ~fits, middle - 1, high)

    def _bracket(self, gaps: Floats, times: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return delays that are surely allowed and surely enough.

        With the margin ξ held fixed, cB + η √(2B) ξ = k is a quadratic in √B. The margin grows with B: its value at
        B = 0 gives a B that is too large, and its value at that B one that is too small.
        """

        def solved(delay: Floats) -> Floats:
            margin = needed_margin(self.allowed_probability(times, delay), actions=self.actions, bound=self.bound)
            half = self.noise_scale * margin / math.sqrt(2)
            root = gaps / (half + np.sqrt(half * half + self.gain_range * gaps) + 1e-300)
            return np.asarray(np.minimum(root * root, 2.0**52))

        above = solved(np.zeros(gaps.shape))
        below = solved(above)
        # room for rounding: one step, and some of the 1e-16 of large numbers
        low = np.maximum(0.0, np.floor(below * (1 - 1e-9)) - 1)
        return low.astype(np.int64), (np.floor(above * (1 + 1e-9)) + 1).astype(np.int64)


def change_probability(margin: ArrayLike, *, actions: int, bound: Bound = "union") -> Floats:
    """Return the bound of the probability that the leader changes, at the margin x; 1 where x is not positive enough.

    >>> change_probability([3.529296, 5.0], actions=25).round(6).tolist()
    [0.01, 1.4e-05]
    """
    from scipy.special import ndtr

    x = np.asarray(margin, dtype=np.float64)
    if checked_bound(bound) == "union":
        return np.asarray(np.where(x > 0, np.minimum(1.0, (2 * actions - 2) * ndtr(-x)), 1.0))
    return paper_tail(x - _expected_rivals(actions))


def needed_margin(probability: ArrayLike, *, actions: int, bound: Bound = "union") -> Floats:
    """Return the smallest margin x at which the bound is at most `probability`; in closed form for "union".

    >>> needed_margin([1e-2, 1e-4, 1e-6], actions=25).round(6).tolist()
    [3.529296, 4.602891, 5.483638]
    """
    from scipy.special import ndtri

    d = np.asarray(probability, dtype=np.float64)
    if checked_bound(bound) == "union":
        return np.asarray(np.maximum(0.0, -ndtri(np.minimum(d, 1.0) / (2 * actions - 2))))
    return _expected_rivals(actions) + paper_tail_inverse(d)


def paper_tail(b: ArrayLike) -> Floats:
    """Return 2 Φ(-√2 b) + 2 √π φ(b) [Φ(b) - Φ(-b)] for b > 0, else 1: Theorem 4.1, its lost factor 2 restored.

    >>> paper_tail([0.5, 1, 2, 3]).round(8).tolist()
    [0.95740539, 0.7428856, 0.1873623, 0.01569017]
    """
    from scipy.special import erf

    b = np.asarray(b, dtype=np.float64)
    inside = np.maximum(b, 1e-300)
    return np.asarray(np.where(b > 0, np.minimum(1.0, np.exp(_log_paper_tail(inside, erf))), 1.0))


def paper_tail_inverse(probability: ArrayLike) -> Floats:
    """Return the b > 0 with `paper_tail(b) = probability`, by a monotone interpolant of its logarithm.

    Accuracy: 1e-9 on b in [1e-3, 40]. At probability 1 or more it is 0; below the last knot it is extended by 40,
    which a probability of a float cannot pass.
    """
    d = np.clip(np.asarray(probability, dtype=np.float64), 1e-300, 1.0)
    return np.asarray(np.maximum(0.0, _paper_interpolant()(np.log(d))))


def checked_bound(bound: str) -> Bound:
    """Return the name of a bound, or say which there are."""
    if bound not in BOUNDS:
        raise RangeError(f"bound must be 'union' or 'paper', got {bound!r}; {nearest(str(bound), BOUNDS)}")
    return "union" if bound == "union" else "paper"


def _expected_rivals(actions: int) -> float:
    return math.sqrt(math.log(2 * actions - 2))  # E/(η √(2B)) of the source's proof


def _log_paper_tail(b: Floats, erf: Callable[[Floats], Floats]) -> Floats:
    from scipy.special import log_ndtr

    # φ(b) √π = e^(-b²/2)/√2, and Φ(b) - Φ(-b) = erf(b/√2)
    first = math.log(2) + log_ndtr(-math.sqrt(2) * b)
    second = math.log(math.sqrt(2)) - b * b / 2 + np.log(erf(b / math.sqrt(2)))
    return np.asarray(np.logaddexp(first, second))


@cache
def _paper_interpolant() -> Callable[[Floats], Floats]:
    from scipy.interpolate import PchipInterpolator
    from scipy.special import erf

    b = np.concatenate([np.geomspace(1e-3, 0.2, 2000, endpoint=False), np.linspace(0.2, 40, 20_000)])
    logs = _log_paper_tail(b, erf)
    order = np.argsort(logs)
    inverse: Callable[[Floats], Floats] = PchipInterpolator(logs[order], b[order], extrapolate=True)
    return inverse


class RWAdaBatch(SumPlayer):
    """Play the leader of the absorbed sums; absorb a batch when its delay has run out.

    Guarantee: `amplified(mu, time)` against observers of actions and batch boundaries, for gains fixed in advance
    (experts proof page, Theorem 8). Against everybody else: that of the reports.

    Accuracy: the expected regret is at most that of RW-FTPL plus 2 a c √(T ln n) (`adabatch_bound`).

    The noise of every round and coordinate must be the same: reports with less noise than `noise_scale`, those of a
    large client say, are padded to it here (experts proof page, Theorem 13), with more they are refused. Gains must lie
    in [0, gain_range]: clients clip before their noise.
    """

    def __init__(
        self,
        *,
        actions: int,
        noise_scale: float,
        tolerance: float = 0.01,
        gain_range: float = 1.0,
        bound: Bound = "union",
        largest_batch: int | None = None,
        stream: Stream | None = None,
    ) -> None:
        self.rule = DelayRule(
            actions=actions,
            noise_scale=checked_scale(noise_scale),
            tolerance=tolerance,
            gain_range=gain_range,
            bound=bound,
            largest_batch=largest_batch,
        )
        stream = Stream() if stream is None else stream
        super().__init__(self.rule.noise_scale * stream.normals("start", actions), stream)
        self._delay = 0
        self._buffer = np.zeros(actions)
        self._boundaries: list[int] = []

    @property
    def actions(self) -> int:
        """How many actions there are, n."""
        return self.rule.actions

    @property
    def noise_scale(self) -> float:
        """η, of each coordinate of each round."""
        return self.rule.noise_scale

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The rounds after which a batch was absorbed; public."""
        return tuple(self._boundaries)

    def amplified(
        self, *, mu: float, time: int, clip_failure: float = 0.0, neighbours: Neighbours = Neighbours.LOCAL
    ) -> Any:
        """Return the guarantee (`Amplified`) of the report of round `time` against observers.

        `mu` is that of the report itself, for the relation `neighbours`.
        """
        published = import_module("sidelight.published.amplification")  # which is built on this package
        return published.amplified(self.rule, mu=mu, time=time, clip_failure=clip_failure, neighbours=neighbours)

    def update(self, report: ArrayLike, *, noise_scale: ArrayLike | None = None, mask: ArrayLike | None = None) -> None:
        """Close the round; the report goes into the buffer, and the buffer into the sums when its delay has run out."""
        del mask
        values = self._checked(report)
        given = checked_scales(noise_scale, usual=self.noise_scale, actions=self.actions)
        if (given > self.noise_scale * (1 + 1e-12)).any():
            raise RangeError(
                f"RW-AdaBatch wants reports with noise of at most {self.noise_scale}, got {given.max()}; start it with "
                "the largest noise that a round can have"
            )
        self.rounds_played += 1
        if (given < self.noise_scale).any():
            padding = np.sqrt(np.maximum(0.0, self.noise_scale**2 - given**2))
            values = values + padding * self.stream.normals(f"padding {self.rounds_played}", self.actions)
        self._buffer = self._buffer + values
        if self._delay > 0:
            self._delay -= 1
        else:
            self._absorb()
        self._open = False

    def _absorb(self) -> None:
        self._sums = self._sums + self._buffer
        self._buffer = np.zeros(self.actions)
        self._boundaries.append(self.rounds_played)
        second, first = np.partition(self._sums, self.actions - 2)[-2:]
        self._delay = int(self.rule.delay(first - second, self.rounds_played))

    def state(self) -> dict[str, Any]:
        """Return everything that the next action depends on. Of absorbed batches it holds sums only, never reports."""
        own = {
            "kind": "rw_adabatch",
            "delay": self._delay,
            "boundaries": list(self._boundaries),
            "buffer": written(self._buffer),
        }
        return self._state() | asdict(self.rule) | own

    @classmethod
    @restoring("player")
    def from_state(cls, state: dict[str, Any]) -> RWAdaBatch:
        """Return the player that goes on where the stored one stopped, in the middle of a batch or not."""
        checked_kind(state, "rw_adabatch")
        rule = {each.name: state[each.name] for each in fields(DelayRule)}
        player = cls(**rule, stream=Stream.from_state(state["stream"]))
        player._restore(state)
        player._delay = state["delay"]
        player._boundaries = [int(round_) for round_ in state["boundaries"]]
        player._buffer = floats(state["buffer"], (player.actions,))
        return player


def adabatch_bound(
    *, actions: int, rounds: int, noise_scale: float, tolerance: float = 0.01, gain_range: float = 1.0
) -> float:
    """Bound the expected regret of RW-AdaBatch: that of RW-FTPL plus 2 a c √(T ln n)."""
    plain = ftpl_bound(actions=actions, rounds=rounds, noise_scale=noise_scale, gain_range=gain_range)
    return plain + 2 * tolerance * gain_range * math.sqrt(rounds * math.log(actions))
