"""Numeric targets, optionally clamped to a declared public range: a map of each record by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.regression.losses.loss import Floats, Mask, numbers_of

Range = tuple[float, float] | None


def check_range(target_range: Range, centre: float = 0.0) -> None:
    """Refuse a range that is empty or not finite."""
    if not np.isfinite(centre):
        raise RangeError(f"target_centre must be a finite number, got {centre}")
    if target_range is not None and not (
        np.isfinite(target_range[0]) and np.isfinite(target_range[1]) and target_range[0] < target_range[1]
    ):
        raise RangeError(f"target_range must be two finite numbers, the lower first, got {target_range}")


def admit_numbers(labels: Any, target_range: Range, centre: float = 0.0) -> tuple[Floats, Mask]:
    """Read the targets, clamp them, and count them from a public centre; without a range they stay within ±1e15."""
    targets, keep = numbers_of(labels)
    low, high = target_range or (centre - 1e15, centre + 1e15)
    return np.clip(targets, low, high) - centre, keep


def describe_range(target_range: Range, centre: float) -> dict[str, str]:
    """Write them for a request, with strings only."""
    written = {"target_range": repr(target_range)} if target_range else {}
    return written | ({"target_centre": repr(centre)} if centre else {})
