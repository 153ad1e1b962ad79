"""RW-Meta: many learners run on the same noisy reports, and each round one of them is chosen. For drifting data.

Given the learners' actions X, X times the noisy report estimates the gains of all learners at once, with covariance
X D X', D the noise of the coordinates. Fresh noise makes what differences between learners show isotropic (hand-made:
small matrices and one eigendecomposition; experts proof page, Theorem 10), and the choice follows the leader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh as lowest_first

from sidelight.errors import RangeError, RoundError, nearest
from sidelight.experts.learners import Learner, filter_learners, learner_from_state
from sidelight.experts.player import (
    STATE_VERSION,
    Floats,
    Stream,
    checked_actions,
    checked_gain_range,
    checked_kind,
    checked_mask,
    checked_noise,
    checked_report,
    checked_scale,
    checked_scales,
    floats,
    restoring,
    stored_noise,
    written,
)

#: "centred": P Σ P with P = I - 11'/m, the default. "paper": Σ minus its mean entry times 11', which needs more noise.
Variant = Literal["centred", "paper"]
VARIANTS = ("centred", "paper")
#: To be printed with `meta_bound`.
META_CAVEAT = (
    "a guide, not a theorem, for learners that look at the reports: the proof treats the accumulated noise as "
    "independent of their later actions"
)


class RWMeta:
    """Play the action of the learner that leads in noisy total gain.

    Guarantee: none of its own; it sees reports only, so learners and their number are free.

    Accuracy: against the best learner, `meta_bound`; that bound treats the accumulated noise as independent of
    the learners' later actions, which learners that look at reports violate: for them it is a guide, not a theorem.

    Args:
        actions: n.
        noise_scale: η of a round's report, one number or one per coordinate; `update` may give a round its own.
        learners: The learners; by default the three of `filter_learners`, RW-FTPL among them. `usual_learners` are the
            13 of the published experiment.
        floor: c: the added noise reaches at least variance c·t. By default g²/2, which makes the bound on the regret
            least (`meta_bound` with `sharp`) where the reports' own noise is small, λ_max(S_T) <= g²T/2; the source
            has 2g².
        gain_range: g: gains lie in an interval of this length.
        variant: "centred", or the source's "paper".
        decorrelate: False adds no noise at all: better on benign data, no worst case; an experiment.
        stream: The server's draws.
    """

    def __init__(
        self,
        *,
        actions: int,
        noise_scale: ArrayLike,
        learners: Sequence[Learner] | None = None,
        floor: float | None = None,
        gain_range: float = 1.0,
        variant: str = "centred",
        decorrelate: bool = True,
        stream: Stream | None = None,
    ) -> None:
        self.actions = checked_actions(actions)
        self.noise_scale = checked_noise(noise_scale, actions)
        self.stream = Stream() if stream is None else stream
        usual = checked_gain_range(gain_range) ** 2 / 2
        self.floor = checked_scale(usual if floor is None else floor, name="floor")
        if variant not in VARIANTS:
            raise RangeError(f"variant must be 'centred' or 'paper', got {variant!r}")
        self.variant = variant
        self.decorrelate = decorrelate
        if learners is None:
            learners = filter_learners(
                actions=actions, noise_scale=self.noise_scale, stream=self.stream, gain_range=gain_range
            )
        self.learners = list(learners)
        if not self.learners:
            raise RangeError("RW-Meta wants at least one learner, got none")
        self.rounds_played = 0
        #: How many of the last reports are kept: as many as a learner wants to see.
        self.window = max(learner.window for learner in self.learners)
        m = len(self.learners)
        first = float(np.max(self.noise_scale))
        self._gains = first * self.stream.normals("start", m)
        self._covariance = first**2 * np.eye(m)
        #: s², the variance that every learner's total was brought to in the last round.
        self.level = 0.0
        self._reports = self._scales = np.zeros((0, self.actions))
        self._pending: tuple[int, Floats] | None = None

    @property
    def covariance(self) -> Floats:
        """Σ, the covariance of the noise in the learners' totals."""
        return self._covariance.copy()

    def predict(self) -> int:
        """Open the round and return its action; if the chosen learner mixes actions, one drawn from its mixture."""
        row = self.predict_mixture()
        if row.max() == 1.0:
            return int(np.argmax(row))
        uniform = int(self.stream.choice(f"mixture {self.rounds_played + 1}", below=2**53)[0]) / 2**53
        return min(int(np.searchsorted(np.cumsum(row), uniform, side="right")), self.actions - 1)

    def predict_mixture(self) -> Floats:
        """Open the round and return the chosen learner's point of the simplex."""
        if self._pending is None:
            chosen = self._advice()
            self._pending = (self._choose(), chosen)
        index, advice = self._pending
        return np.array(advice[index])

    def update(self, report: ArrayLike, *, noise_scale: ArrayLike | None = None, mask: ArrayLike | None = None) -> None:
        """Close the round with its report."""
        if self._pending is None:
            raise RoundError("update before predict: open the round with predict() first")
        values, sent = checked_report(report, self.actions), checked_mask(mask, self.actions)
        scales = checked_scales(noise_scale, usual=self.noise_scale, actions=self.actions)
        _, advice = self._pending
        self.rounds_played += 1
        for learner in self.learners:
            learner.update(self.rounds_played, values, sent)
        # sums in one order, so that a resumed server has the same bits whatever its BLAS
        self._gains = self._gains + (advice * values).sum(axis=1)
        self._covariance = self._covariance + (scales**2 * advice[:, None, :] * advice[None, :, :]).sum(axis=2)
        if self.window:
            self._reports = _appended(self._reports, values, self.window)
            self._scales = _appended(self._scales, scales, self.window)
        self._pending = None

    def _advice(self) -> Floats:
        time = self.rounds_played + 1
        advice = np.zeros((len(self.learners), self.actions))
        for place, learner in enumerate(self.learners):
            start = len(self._reports) - min(learner.window, len(self._reports))
            action = learner.predict(time, self._reports[start:], self._scales[start:])
            advice[place] = self._point(action, learner, name=f"no opinion {time} {place}")
        return advice

    def _point(self, action: int | Floats | None, learner: Learner, *, name: str) -> Floats:
        if action is None:
            action = int(self.stream.choice(name, below=self.actions)[0])
        point = np.zeros(self.actions)
        if isinstance(action, int | np.integer):
            if not 0 <= action < self.actions:
                raise RangeError(f"{learner!r} named action {action}; actions are 0..{self.actions - 1}")
            point[action] = 1.0
            return point
        given = np.asarray(action, dtype=np.float64)
        if given.shape != point.shape or not (given >= 0).all() or not math.isclose(given.sum(), 1.0, abs_tol=1e-9):
            raise RangeError(f"{learner!r} must name an index or {self.actions} weights that sum to 1")
        return given

    def _choose(self) -> int:
        if not self.decorrelate:
            return int(np.argmax(self._gains))
        seen = seen_covariance(self._covariance, variant=self.variant)  # type: ignore[arg-type]
        time = self.rounds_played + 1
        self.level, root = complement(seen, at_least=max(self.level, self.floor * time))
        draws = self.stream.normals(f"choice {time}", len(self.learners))
        return int(np.argmax(self._gains + (root * draws).sum(axis=1)))

    def state(self) -> dict[str, Any]:
        """Return everything that the next action depends on, an open round's advice included.

        The last rounds' noisy gains are in it, one by one: with one client, or with coordinates, that is its reports.
        """
        pending = None if self._pending is None else {"chosen": self._pending[0], "advice": written(self._pending[1])}
        return {
            "kind": "rw_meta",
            "version": STATE_VERSION,
            "actions": self.actions,
            "noise_scale": stored_noise(self.noise_scale),
            "floor": self.floor,
            "variant": self.variant,
            "decorrelate": self.decorrelate,
            "rounds_played": self.rounds_played,
            "level": self.level,
            "gains": written(self._gains),
            "covariance": written(self._covariance),
            "reports": written(self._reports),
            "scales": written(self._scales),
            "learners": [learner.state() for learner in self.learners],
            "pending": pending,
            "stream": self.stream.state(),
        }

    @classmethod
    @restoring("player")
    def from_state(cls, state: dict[str, Any], *, restore: Callable[[dict[str, Any]], Learner] | None = None) -> RWMeta:
        """Return the player that goes on where the stored one stopped. `restore` reads learners of your own back."""
        checked_kind(state, "rw_meta")
        n = state["actions"]
        read = restore or (lambda each: learner_from_state(each, actions=n))
        player = cls(
            **{name: state[name] for name in ("actions", "noise_scale", "floor", "variant", "decorrelate")},
            learners=[read(each) for each in state["learners"]],
            stream=Stream.from_state(state["stream"]),
        )
        m = len(player.learners)
        player.rounds_played = state["rounds_played"]
        player.level = state["level"]
        player._gains = floats(state["gains"], (m,))
        player._covariance = floats(state["covariance"], (m, m))
        player._reports = floats(state["reports"], (len(state["reports"]), n))
        player._scales = floats(state["scales"], player._reports.shape)
        for kept in (player._reports, player._scales):
            kept.setflags(write=False)
        if state["pending"] is not None:
            player._pending = (state["pending"]["chosen"], floats(state["pending"]["advice"], (m, n)))
        return player


def meta_bound(
    *,
    learners: int,
    rounds: int,
    largest_eigenvalue: float,
    floor: float = 2.0,
    gain_range: float = 1.0,
    sharp: bool = False,
) -> float:
    """Bound the expected regret of RW-Meta against its best learner; see `META_CAVEAT`.

    [max(√c, √(λ_max(S_T)/T)) + 2g²/√c] √(2 T ln m), g the range of the gains. `sharp` keeps the constant of the proof,
    g²/(2√c): least at c = g²/2, or at λ_max(S_T)/T where that is larger.

    >>> round(meta_bound(learners=13, rounds=148, largest_eigenvalue=0.0), 4)
    77.9346
    """
    noise = max(math.sqrt(floor), math.sqrt(largest_eigenvalue / rounds))
    constant = (0.5 if sharp else 2.0) * checked_gain_range(gain_range) ** 2
    return (noise + constant / math.sqrt(floor)) * math.sqrt(2 * rounds * math.log(learners))


def seen_covariance(covariance: Floats, *, variant: Variant = "centred") -> Floats:
    """Return the part of a covariance (or of a stack of them) that the added noise has to complement.

    >>> import numpy as np
    >>> a = np.array([[5.0, 4, 4], [4, 5, 4], [4, 4, 1]])
    >>> [round(float(np.linalg.eigvalsh(seen_covariance(a @ a.T, variant=v))[-1]), 6) for v in ("paper", "centred")]
    [22.2869, 6.333333]
    """
    if variant == "paper":
        return np.asarray(covariance - covariance.mean(axis=(-2, -1), keepdims=True))
    if variant != "centred":
        raise RangeError(f"variant must be 'centred' or 'paper', got {variant!r}; {nearest(str(variant), VARIANTS)}")
    rows = covariance.mean(axis=-1, keepdims=True)
    columns = covariance.mean(axis=-2, keepdims=True)
    return np.asarray(covariance - rows - columns + covariance.mean(axis=(-2, -1), keepdims=True))


def complement(seen: Floats, *, at_least: float) -> tuple[float, Floats]:
    """Return the level s² = max(at_least, λ_max(S)) and a matrix R with R R' = s² I - S: y = R ξ is the noise to add.

    Eigenvalues that rounding made larger than s² count as s²: such an error costs accuracy, never privacy.
    """
    values, vectors = lowest_first((seen + seen.T) / 2)
    level = max(float(at_least), float(values[-1]))
    return level, vectors * np.sqrt(np.maximum(level - values, 0.0))


def _appended(rows: Floats, row: Floats, most: int) -> Floats:
    longer = np.concatenate([rows, row[None]])[-most:]
    longer.setflags(write=False)  # learners see it
    return longer
