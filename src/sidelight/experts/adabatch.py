"""RW-AdaBatch: RW-FTPL that absorbs reports in batches, as long as the leader would hardly change meanwhile.

Observers of the actions learn sums of batches only, so each report hides among the others of its batch (`amplified`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError, RoundError
from sidelight.experts.amplification import Amplified, amplified
from sidelight.experts.delay import DelayRule
from sidelight.experts.leader_change import Bound
from sidelight.experts.player import checked_report, checked_scale, checked_scales
from sidelight.experts.states import STATE_VERSION, checked_kind, floats, written
from sidelight.experts.stream import Stream
from sidelight.guarantees import Neighbours


class RWAdaBatch:
    """Play the leader of the absorbed sums; absorb a batch when its delay has run out.

    Guarantee: `amplified(mu, time)` against observers of actions and batch boundaries, for gains fixed in advance
    (experts proof page, Theorem 8). Against everybody else: that of the reports.

    Accuracy: the expected regret is at most that of RW-FTPL plus 2 a c √(T ln n) (`regret.adabatch_bound`).

    The noise of every round must be the same: reports with less noise than `noise_scale` are padded to it here, with
    more they are refused. Gains must lie in [0, gain_range]: clients clip before their noise.
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
