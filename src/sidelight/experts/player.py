"""What a player is: it names an action for the round, then takes the round's noisy report. Its state is JSON.

A round is `predict`, then `update`. `predict` twice in a round gives the same action; `update` without `predict` is an
error. Players see noisy reports only, so nothing they do costs privacy.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Player(Protocol):
    """Chooses one action a round from noisy reports."""

    @property
    def actions(self) -> int:
        """How many actions there are, n."""
        ...

    @property
    def rounds_played(self) -> int:
        """How many rounds were closed by `update`."""
        ...

    def predict(self) -> int:
        """Open the round and return its action; again and again the same until `update`."""
        ...

    def update(self, report: ArrayLike, *, noise_scale: ArrayLike | None = None, mask: ArrayLike | None = None) -> None:
        """Close the round with its report.

        `noise_scale` is its noise, one number or one per coordinate, where not the usual; `mask` tells what was sent.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Return everything that the next action depends on, ready for JSON."""
        ...


def checked_report(report: ArrayLike, actions: int) -> Floats:
    """Return the report as n finite floats. A NaN must never enter a running sum: it would stay for ever."""
    values = np.array(report, dtype=np.float64)  # a copy: nobody changes it afterwards
    if values.shape != (actions,):
        raise RangeError(f"a report has {actions} coordinates, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise RangeError("a report holds finite numbers only; treat a missing coordinate as missing, not as NaN")
    values.setflags(write=False)
    return values


def checked_mask(mask: ArrayLike | None, actions: int) -> Mask:
    """Return which coordinates were sent by a client; all of them unless said otherwise."""
    if mask is None:
        return np.ones(actions, dtype=np.bool_)
    sent = np.array(mask, dtype=np.bool_)
    if sent.shape != (actions,):
        raise RangeError(f"a mask has {actions} entries, got shape {sent.shape}")
    sent.setflags(write=False)
    return sent


def checked_scale(scale: float, *, name: str = "noise_scale") -> float:
    """Return a standard deviation that is positive and finite."""
    if not (math.isfinite(scale) and scale > 0):
        raise RangeError(f"{name} must be positive and finite, got {scale}; a report without noise is not private")
    return float(scale)


def checked_noise(scale: ArrayLike, actions: int) -> float | Floats:
    """Return the usual noise of a report: one number, or one per coordinate where clients have noise of their own."""
    if np.ndim(scale) == 0:
        return checked_scale(float(scale))  # type: ignore[arg-type]
    scales = checked_scales(scale, usual=1.0, actions=actions)
    scales.setflags(write=False)
    return scales


def stored_noise(scale: float | Floats) -> float | list[float]:
    """Return what `checked_noise` reads back, ready for JSON."""
    return scale if isinstance(scale, float) else [float(each) for each in scale]


def checked_scales(scale: ArrayLike | None, *, usual: ArrayLike, actions: int) -> Floats:
    """Return the noise of each coordinate of a report: the usual one unless given, one number or one per coordinate."""
    given = np.asarray(usual if scale is None else scale, dtype=np.float64)
    if given.shape not in ((), (actions,)):
        raise RangeError(f"noise_scale is one number or one for each of {actions} coordinates, got shape {given.shape}")
    scales = np.array(np.broadcast_to(given, (actions,)))
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        raise RangeError("noise_scale must be positive and finite; a report without noise is not private")
    return scales


def checked_whole(value: int, *, name: str, least: int = 1) -> int:
    """Return a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RangeError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return value


def checked_actions(actions: int) -> int:
    """Return a number of actions of at least 2."""
    return checked_whole(actions, name="actions", least=2)
