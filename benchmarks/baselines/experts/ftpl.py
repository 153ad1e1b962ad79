"""Runs of RW-FTPL on known gains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.experts.player import Floats


@dataclass(frozen=True, kw_only=True)
class SimulatedRuns:
    """What each run gained in all, and how often it changed its action."""

    gain: Floats
    switches: NDArray[np.int64]


def checked_gains(gains: ArrayLike) -> Floats:
    """Return T x n finite gains."""
    true = np.asarray(gains, dtype=np.float64)
    if true.ndim != 2 or true.shape[0] < 1 or true.shape[1] < 2 or not np.isfinite(true).all():
        raise RangeError(f"gains must be finite, T x n with n at least 2, got shape {true.shape}")
    return true


def scales_of(noise_scale: ArrayLike, shape: tuple[int, int]) -> Floats:
    """Return η of each round and coordinate, from one number, one a round or all; 0 means no privacy."""
    given = np.asarray(noise_scale, dtype=np.float64)
    scales = np.broadcast_to(given[:, None] if given.ndim == 1 else given, shape)
    if not (np.isfinite(scales).all() and (scales >= 0).all()):
        raise RangeError("noise_scale must be finite and not negative: one, one for each round, or T x n")
    return scales


def simulate_ftpl(
    gains: ArrayLike,
    *,
    noise_scale: ArrayLike,
    runs: int,
    rng: np.random.Generator,
) -> SimulatedRuns:
    """Run RW-FTPL `runs` times on the same T x n gains; `noise_scale` is η: one, one a round, or T x n."""
    true = checked_gains(gains)
    scales = scales_of(noise_scale, (len(true), true.shape[1]))
    n = true.shape[1]
    sums = scales[0] * rng.standard_normal((runs, n))
    total, switches = np.zeros(runs), np.zeros(runs, dtype=np.int64)
    played = np.argmax(sums, axis=1)
    noise = np.empty((runs, n))
    for gain, scale in zip(true, scales, strict=True):
        action = np.argmax(sums, axis=1)
        total += gain[action]
        switches += action != played
        played = action
        rng.standard_normal(out=noise)
        noise *= scale
        noise += gain
        sums += noise
    return SimulatedRuns(gain=total, switches=switches)
