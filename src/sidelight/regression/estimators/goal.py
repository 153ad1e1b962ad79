"""What a model is to learn: its loss, and how a target is read. Made of public parameters, before any data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from sidelight.regression.losses import Loss


@dataclass(frozen=True, kw_only=True)
class Goal:
    """The loss, the NumPy kinds that y may have, and for a classifier its classes.

    `middle` is the public number that the loss counts targets from. `one_vs_rest`: one model a class.
    """

    loss: Loss
    target_kinds: str
    classes: NDArray[Any] | None = None
    middle: float = 0.0
    one_vs_rest: bool = False
