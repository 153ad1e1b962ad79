"""Gains whose best action moves around: the acceptance example for drifting data."""

from __future__ import annotations

import numpy as np

from sidelight.experts.player import Floats


def simulate_rotating_gains(
    *,
    actions: int,
    rounds: int,
    rng: np.random.Generator,
    period: float = 96.0,
) -> Floats:
    """Return T x n gains clip(0.08 + 0.5 max(0, cos 2π(t - iP/n)/P)^8 + N(0, 0.02²), 0, 1): a bump that wanders."""
    t = np.arange(1, rounds + 1)[:, None]
    place = np.arange(actions)[None, :] * period / actions
    bump = np.maximum(0.0, np.cos(2 * np.pi * (t - place) / period)) ** 8
    return np.asarray(np.clip(0.08 + 0.5 * bump + 0.02 * rng.standard_normal(bump.shape), 0.0, 1.0))
