"""RW-FTPL: follow the leader of the noisy sums. The clients' privacy noise is the perturbation; no horizon anywhere."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError, RoundError
from sidelight.experts.leader_change import Floats
from sidelight.experts.player import checked_actions, checked_report, checked_scale
from sidelight.experts.states import STATE_VERSION, checked_kind, floats, written
from sidelight.experts.stream import Stream


class RWFTPL:
    """Play the action with the largest sum of an initial draw and all noisy reports so far.

    Guarantee: none of its own; every action is a function of reports, which are private before they arrive.

    Accuracy: expected regret at most (η + 2c²/η) √(2 T ln n) for gains in an interval of length c that were fixed in
    advance (experts proof page, Theorem 2; `regret.ftpl_bound`).

    Args:
        actions: n.
        noise_scale: η, of each coordinate of a round's report.
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
        self, *, actions: int, noise_scale: float, stream: Stream | None = None, server_noise: float = 0.0
    ) -> None:
        self.actions = checked_actions(actions)
        self.noise_scale = checked_scale(noise_scale)
        if not (math.isfinite(server_noise) and server_noise >= 0):
            raise RangeError(f"server_noise must be finite and not negative, got {server_noise}")
        self.server_noise = float(server_noise)
        self.stream = Stream() if stream is None else stream
        self.rounds_played = 0
        self._open = False
        start = math.hypot(self.noise_scale, self.server_noise)
        self._sums = start * self.stream.normals("start", self.actions)

    @property
    def sums(self) -> Floats:
        """The noisy sums G, initial draw included: N(Σ g, (t+1) η² I)."""
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
            "noise_scale": self.noise_scale,
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
