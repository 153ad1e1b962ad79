"""RW-FTPL follows the leader of the noisy sums: the clients' privacy noise is the perturbation, without a horizon.

With it: what theory promises of its regret, and what a deployment may say of its gain without knowing true gains.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sidelight.errors import RangeError, RoundError
from sidelight.experts.player import (
    STATE_VERSION,
    Floats,
    Stream,
    checked_actions,
    checked_gain_range,
    checked_kind,
    checked_noise,
    checked_report,
    floats,
    restoring,
    stored_noise,
    written,
)


class SumPlayer:
    """What the players of the largest noisy sum share."""

    def __init__(self, start: Floats, stream: Stream) -> None:
        self.stream = stream
        self.rounds_played = 0
        self._open = False
        self._sums = start

    def predict(self) -> int:
        """Open the round and return its action: the largest sum, the lowest index among equals."""
        self._open = True
        return int(np.argmax(self._sums))

    def _checked(self, report: ArrayLike) -> Floats:
        if not self._open:
            raise RoundError("update before predict: open the round with predict() first")
        return checked_report(report, len(self._sums))

    def _state(self) -> dict[str, Any]:
        return {
            "version": STATE_VERSION,
            "actions": len(self._sums),
            "rounds_played": self.rounds_played,
            "open": self._open,
            "sums": written(self._sums),
            "stream": self.stream.state(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.rounds_played = state["rounds_played"]
        self._open = state["open"]
        self._sums = floats(state["sums"], self._sums.shape)


class RWFTPL(SumPlayer):
    """Play the action with the largest sum of an initial draw and all noisy reports so far.

    Guarantee: none of its own; every action is a function of reports, which are private before they arrive.

    Accuracy: expected regret at most (η + 2c²/η) √(2 T ln n) for gains in an interval of length c that were fixed in
    advance (experts proof page, Theorem 2; `ftpl_bound`). With unequal noise: the largest η in the first place, the
    smallest in the second; `server_noise` lifts the smallest.

    Args:
        actions: n.
        noise_scale: η, of each coordinate of a round's report; one number, or one per coordinate.
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
        stream = Stream() if stream is None else stream
        scale = np.hypot(self.noise_scale, self.server_noise)
        super().__init__(scale * stream.normals("start", self.actions), stream)

    @property
    def sums(self) -> Floats:
        """The noisy sums G, initial draw included: N(Σ g, (t+1) diag(η²))."""
        return self._sums.copy()

    def update(self, report: ArrayLike, *, noise_scale: ArrayLike | None = None, mask: ArrayLike | None = None) -> None:
        """Close the round with its report."""
        del noise_scale, mask
        self._sums = self._sums + self._checked(report)
        self.rounds_played += 1
        if self.server_noise:
            name = f"server noise {self.rounds_played}"
            self._sums = self._sums + self.server_noise * self.stream.normals(name, self.actions)
        self._open = False

    def state(self) -> dict[str, Any]:
        """Return everything that the next action depends on."""
        own = {"kind": "rw_ftpl", "noise_scale": stored_noise(self.noise_scale), "server_noise": self.server_noise}
        return self._state() | own

    @classmethod
    @restoring("player")
    def from_state(cls, state: dict[str, Any]) -> RWFTPL:
        """Return the player that goes on where the stored one stopped."""
        checked_kind(state, "rw_ftpl")
        names = ("actions", "noise_scale", "server_noise")
        player = cls(**{name: state[name] for name in names}, stream=Stream.from_state(state["stream"]))
        player._restore(state)
        return player


def ftpl_bound(
    *, actions: int, rounds: int, noise_scale: ArrayLike, gain_range: float = 1.0, sharp: bool = False
) -> float:
    """Bound the expected regret of RW-FTPL: (η + 2c²/η) √(2 T ln n); least, 4c √(T ln n), at η = √2 c.

    With one η a coordinate: (η_max + 2c²/η_min) √(2 T ln n) (experts proof page, Theorem 12). `sharp` keeps the
    constant of the proof, c²/(2η): least, 2c √(T ln n), at η = c/√2.

    >>> round(ftpl_bound(actions=24, rounds=148, noise_scale=0.5), 4)
    138.019
    """
    constant = (0.5 if sharp else 2.0) * checked_gain_range(gain_range) ** 2
    largest, smallest = float(np.max(noise_scale)), float(np.min(noise_scale))
    return (largest + constant / smallest) * math.sqrt(2 * rounds * math.log(actions))
