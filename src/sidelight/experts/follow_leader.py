"""The two players that follow the leader of the noisy sums: RW-FTPL every round, RW-AdaBatch in batches.

The clients' privacy noise is the perturbation; no horizon anywhere. RW-AdaBatch absorbs reports as long as the leader
would hardly change meanwhile, so observers of the actions learn sums of batches only, and each report hides among the
others of its batch (`amplified`). Beside them: what theory promises of their regret, and what a deployment may say of
it without knowing true gains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError, RoundError
from sidelight.experts.amplification import Amplified, amplified
from sidelight.experts.delay import Bound, DelayRule
from sidelight.experts.player import (
    Floats,
    checked_actions,
    checked_noise,
    checked_report,
    checked_scale,
    checked_scales,
    stored_noise,
)
from sidelight.experts.states import STATE_VERSION, Stream, checked_kind, floats, written
from sidelight.guarantees import Neighbours


class RWFTPL:
    """Play the action with the largest sum of an initial draw and all noisy reports so far.

    Guarantee: none of its own; every action is a function of reports, which are private before they arrive.

    Accuracy: expected regret at most (η + 2c²/η) √(2 T ln n) for gains in an interval of length c that were fixed in
    advance (experts proof page, Theorem 2; `ftpl_bound`). With unequal noise: the largest η in the first place, the
    smallest in the second; `server_noise` lifts the smallest.

    Args:
        actions: n.
        noise_scale: η, of each coordinate of a round's report; one number, or one a coordinate.
        stream: The server's draws; a fresh one unless given.
        server_noise: Standard deviation of noise that the server adds to every report: with weak privacy (η below √2 c)
            the bound improves if η² + server_noise² = 2c².

    >>> player = RWFTPL(actions=3, noise_scale=0.1)
    >>> for _ in range(50):
    ...     action = player.predict()
    ...     player.update([0.0, 1.0, 0.0])
    >>> player.predict()
    1
    """

    def __init__(
        self, *, actions: int, noise_scale: ArrayLike, stream: Stream | None = None, server_noise: float = 0.0
    ) -> None:
        self.actions = checked_actions(actions)
        self.noise_scale = checked_noise(noise_scale, actions)
        if not (math.isfinite(server_noise) and server_noise >= 0):
            raise RangeError(f"server_noise must be finite and not negative, got {server_noise}")
        self.server_noise = float(server_noise)
        self.stream = Stream() if stream is None else stream
        self.rounds_played = 0
        self._open = False
        start = np.hypot(self.noise_scale, self.server_noise)
        self._sums = start * self.stream.normals("start", self.actions)

    @property
    def sums(self) -> Floats:
        """The noisy sums G, initial draw included: N(Σ g, (t+1) diag(η²))."""
        return self._sums.copy()

    def predict(self) -> int:
        """Open the round and return its action: the largest sum, the lowest index among equals."""
        self._open = True
        return int(np.argmax(self._sums))

    def update(self, report: ArrayLike, *, noise_scale: ArrayLike | None = None, mask: ArrayLike | None = None) -> None:
        """Close the round with its report."""
        del noise_scale, mask
        if not self._open:
            raise RoundError("update before predict: open the round with predict() first")
        self._sums = self._sums + checked_report(report, self.actions)
        self.rounds_played += 1
        if self.server_noise:
            name = f"server noise {self.rounds_played}"
            self._sums = self._sums + self.server_noise * self.stream.normals(name, self.actions)
        self._open = False

    def state(self) -> dict[str, Any]:
        """Return everything that the next action depends on."""
        return {
            "kind": "rw_ftpl",
            "version": STATE_VERSION,
            "actions": self.actions,
            "noise_scale": stored_noise(self.noise_scale),
            "server_noise": self.server_noise,
            "rounds_played": self.rounds_played,
            "open": self._open,
            "sums": written(self._sums),
            "stream": self.stream.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> RWFTPL:
        """Return the player that goes on where the stored one stopped."""
        checked_kind(state, "rw_ftpl")
        player = cls(
            actions=state["actions"],
            noise_scale=state["noise_scale"],
            server_noise=state["server_noise"],
            stream=Stream.from_state(state["stream"]),
        )
        player.rounds_played = state["rounds_played"]
        player._open = state["open"]
        player._sums = floats(state["sums"], (player.actions,))
        return player


class RWAdaBatch:
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
        self.stream = Stream() if stream is None else stream
        self.rounds_played = 0
        self._open = False
        self._delay = 0
        self._sums = self.rule.noise_scale * self.stream.normals("start", actions)
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
    ) -> Amplified:
        """Return the guarantee of the report of round `time` against observers.

        `mu` is that of the report itself, for the relation `neighbours`.
        """
        return amplified(self.rule, mu=mu, time=time, clip_failure=clip_failure, neighbours=neighbours)

    def predict(self) -> int:
        """Open the round and return its action: the leader of the absorbed sums, the lowest index among equals."""
        self._open = True
        return int(np.argmax(self._sums))

    def update(self, report: ArrayLike, *, noise_scale: ArrayLike | None = None, mask: ArrayLike | None = None) -> None:
        """Close the round; the report goes into the buffer, and the buffer into the sums when its delay has run out."""
        del mask
        if not self._open:
            raise RoundError("update before predict: open the round with predict() first")
        values = checked_report(report, self.actions)
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
        return {
            "kind": "rw_adabatch",
            "version": STATE_VERSION,
            "actions": self.actions,
            "noise_scale": self.noise_scale,
            "tolerance": self.rule.tolerance,
            "gain_range": self.rule.gain_range,
            "bound": self.rule.bound,
            "largest_batch": self.rule.largest_batch,
            "rounds_played": self.rounds_played,
            "open": self._open,
            "delay": self._delay,
            "boundaries": list(self._boundaries),
            "sums": written(self._sums),
            "buffer": written(self._buffer),
            "stream": self.stream.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> RWAdaBatch:
        """Return the player that goes on where the stored one stopped, in the middle of a batch or not."""
        checked_kind(state, "rw_adabatch")
        names = ("actions", "noise_scale", "tolerance", "gain_range", "bound", "largest_batch")
        player = cls(**{name: state[name] for name in names}, stream=Stream.from_state(state["stream"]))
        player.rounds_played = state["rounds_played"]
        player._open = state["open"]
        player._delay = state["delay"]
        player._boundaries = [int(round_) for round_ in state["boundaries"]]
        player._sums = floats(state["sums"], (player.actions,))
        player._buffer = floats(state["buffer"], (player.actions,))
        return player


def ftpl_bound(*, actions: int, rounds: int, noise_scale: ArrayLike, gain_range: float = 1.0) -> float:
    """Bound the expected regret of RW-FTPL: (η + 2c²/η) √(2 T ln n); least, 4c √(T ln n), at η = √2 c.

    With one η a coordinate: (η_max + 2c²/η_min) √(2 T ln n) (experts proof page, Theorem 12).

    >>> round(ftpl_bound(actions=24, rounds=148, noise_scale=0.5), 4)
    138.019
    """
    c = gain_range
    largest, smallest = float(np.max(noise_scale)), float(np.min(noise_scale))
    return (largest + 2 * c * c / smallest) * math.sqrt(2 * rounds * math.log(actions))


def adabatch_bound(
    *, actions: int, rounds: int, noise_scale: float, tolerance: float = 0.01, gain_range: float = 1.0
) -> float:
    """Bound the expected regret of RW-AdaBatch: that of RW-FTPL plus 2 a c √(T ln n)."""
    plain = ftpl_bound(actions=actions, rounds=rounds, noise_scale=noise_scale, gain_range=gain_range)
    return plain + 2 * tolerance * gain_range * math.sqrt(rounds * math.log(actions))


@dataclass(frozen=True, kw_only=True)
class NoisyAccount:
    """What a deployment knows of its gain from noisy reports alone.

    `gain` is unbiased with standard error `standard_error`. The best fixed action's gain is overestimated by the
    largest noisy sum; `best_action_at_least` is a lower confidence bound, at level 1 - p for all actions together.
    """

    gain: float
    standard_error: float
    best_action_at_least: float


def noisy_account(
    sums: ArrayLike, *, played_gain: float, rounds: int, noise_scale: float, failure: float = 0.025
) -> NoisyAccount:
    """Account for a deployment: `sums` are G with their initial draw, `played_gain` the sum of played entries."""
    from scipy.special import ndtri

    totals: Floats = np.asarray(sums, dtype=np.float64)
    z = -float(ndtri(failure / totals.size))
    return NoisyAccount(
        gain=played_gain,
        standard_error=noise_scale * math.sqrt(rounds),
        best_action_at_least=float(totals.max()) - z * noise_scale * math.sqrt(rounds + 1),
    )
