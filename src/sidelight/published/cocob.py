"""COCOB (Orabona and Tommasi 2017, Algorithm 2): online learning by betting on coins, without a learning rate.

With it, and with averaged gradient descent, the paper on learning-augmented quantiles fits Laplace priors in one pass;
`sl.quantiles.fit_public` solves the whole problem instead. Hand-made: nothing maintained has COCOB without a
deep-learning framework, and its state must survive the night, every bit of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.predictions.mixture import text_of, texts_of
from sidelight.quantiles.laplace_fit import LaplaceFit, check_scales, fitted, lse_loss

Floats = NDArray[np.float64]

_SMALLEST_GRADIENT: Final = 1e-8
_ARRAYS: Final = ("start", "position", "sum_of_gradients", "largest", "sum_of_sizes", "reward")


@dataclass(frozen=True, kw_only=True, eq=False)
class Cocob:
    """The state of the learner, one independent coin for each coordinate. Build it with `Cocob.at(start)`.

    `position` is where the learner stands, without constraints: clamp on use. A single huge gradient is never forgotten
    (`largest` only grows): clip what is learned from.

    >>> learner = Cocob.at([0.0])
    >>> for _ in range(5):
    ...     learner = learner.step(np.sign(learner.position - 10))
    >>> round(float(learner.position[0]), 9)
    0.055177512
    """

    start: Floats
    position: Floats
    sum_of_gradients: Floats
    largest: Floats
    sum_of_sizes: Floats
    reward: Floats
    caution: float  # alpha: the first steps are start/alpha at most

    @classmethod
    def at(cls, start: ArrayLike, *, caution: float = 100.0) -> Cocob:
        """Return a learner that has seen nothing."""
        first = np.array(start, dtype=np.float64)
        nothing = np.zeros_like(first)
        return cls(
            start=first,
            position=first.copy(),
            sum_of_gradients=nothing,
            largest=np.full_like(first, _SMALLEST_GRADIENT),
            sum_of_sizes=nothing.copy(),
            reward=nothing.copy(),
            caution=caution,
        )

    def step(self, gradient: ArrayLike) -> Cocob:
        """Return the learner after one gradient of the loss at its position (or at the clamped position)."""
        g = -np.asarray(gradient, dtype=np.float64)
        if g.shape != self.position.shape:
            raise RangeError(f"the gradient must have shape {self.position.shape}, got {g.shape}")
        size = np.abs(g)
        largest = np.maximum(self.largest, size)
        sum_of_sizes = self.sum_of_sizes + size
        reward = np.maximum(self.reward + (self.position - self.start) * g, 0.0)  # with the position before the step
        sum_of_gradients = self.sum_of_gradients + g
        stake = sum_of_gradients / (largest * np.maximum(sum_of_sizes + largest, self.caution * largest))
        return replace(
            self,
            position=self.start + stake * (largest + reward),
            sum_of_gradients=sum_of_gradients,
            largest=largest,
            sum_of_sizes=sum_of_sizes,
            reward=reward,
        )

    def to_json(self) -> dict[str, object]:
        """Return the state in hexadecimal floats: every bit comes back."""
        written: dict[str, object] = {
            name: [float(number).hex() for number in getattr(self, name).ravel()] for name in _ARRAYS
        }
        written["shape"] = [str(length) for length in self.start.shape]
        written["caution"] = self.caution.hex()
        return written

    @classmethod
    def from_json(cls, written: Mapping[str, object]) -> Cocob:
        """Read what `to_json` wrote."""
        try:
            shape = tuple(int(length) for length in texts_of(written, "shape"))
            arrays = {
                name: np.array([float.fromhex(text) for text in texts_of(written, name)]).reshape(shape)
                for name in _ARRAYS
            }
            caution = float.fromhex(text_of(written, "caution"))
        except ValueError as error:
            raise RangeError(f"a stored learner cannot be read: {error}") from None
        return cls(**arrays, caution=caution)


def fit_laplace_online(
    a: Floats, b: Floats, *, location: float, scale: float, smallest_scale: float, largest_scale: float
) -> LaplaceFit:
    """Make one pass of COCOB over the rows, from a guess of location and scale; the last iterate is the fit."""
    check_scales(smallest_scale, largest_scale)
    count = a.shape[1]
    theta, phi = Cocob.at(np.full(count, location / scale)), Cocob.at(np.full(count, 1 / scale))
    for low, high in zip(a, b, strict=True):
        used = np.clip(phi.position, 1 / largest_scale, 1 / smallest_scale)
        _, _, d_theta, d_phi = lse_loss(low, high, theta.position, used)
        theta, phi = theta.step(d_theta), phi.step(d_phi)
    return fitted(a, b, theta.position, np.clip(phi.position, 1 / largest_scale, 1 / smallest_scale))


def fit_laplace_averaged(
    a: Floats, b: Floats, *, location: float, scale: float, smallest_scale: float, largest_scale: float
) -> LaplaceFit:
    """Make one pass of projected gradient descent and average the iterates (in theta and phi, where it is convex).

    The steps are those of the paper's Theorem E.2 with its units put right.
    """
    check_scales(smallest_scale, largest_scale)
    rows, count = a.shape
    reach = float(np.max(np.abs(np.where(np.isfinite(a), a, b)), initial=0.0))
    reach = max(reach, float(np.max(np.abs(np.where(np.isfinite(b), b, a)))))
    least, most = 1 / largest_scale, 1 / smallest_scale
    pace = float(np.sqrt(count / rows))
    theta_step, phi_step = reach * most * pace, (most - least) / (2 * (reach + largest_scale)) * pace
    theta, phi = np.full(count, location / scale), np.full(count, np.clip(1 / scale, least, most))
    theta_sum, phi_sum = np.zeros(count), np.zeros(count)
    for low, high in zip(a, b, strict=True):
        theta_sum, phi_sum = theta_sum + theta, phi_sum + phi
        _, _, d_theta, d_phi = lse_loss(low, high, theta, phi)
        theta = np.clip(theta - theta_step * d_theta, -reach * most, reach * most)
        phi = np.clip(phi - phi_step * d_phi, least, most)
    return fitted(a, b, theta_sum / rows, phi_sum / rows)
