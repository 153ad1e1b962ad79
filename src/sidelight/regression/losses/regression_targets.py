"""Numeric targets, optionally clamped to a declared public range: a map of each record by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.regression.losses.loss import Floats, Mask, numbers_of

Range = tuple[float, float] | None


def check_range(target_range: Range) -> None:
    """Refuse a range that is empty or not finite."""
    if target_range is not None and not (
        np.isfinite(target_range[0]) and np.isfinite(target_range[1]) and target_range[0] < target_range[1]
    ):
        raise RangeError(f"target_range must be two finite numbers, the lower first, got {target_range}")


def admit_numbers(labels: Any, target_range: Range) -> tuple[Floats, Mask]:
    """Read the targets; without a range they are clamped to ±1e15 so that no sum can overflow."""
    targets, keep = numbers_of(labels)
    low, high = target_range or (-1e15, 1e15)
    return np.clip(targets, low, high), keep
