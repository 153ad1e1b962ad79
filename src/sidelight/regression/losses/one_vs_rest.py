"""One class against all the others: a logistic loss whose targets come from many declared classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.regression.losses.logistic import LogisticLoss
from sidelight.regression.losses.loss import Floats, Mask, positions_of


@dataclass(frozen=True, kw_only=True)
class OneVsRestLoss(LogisticLoss):
    """The logistic loss with `label` as the positive class and every other declared class as the negative one.

    Guarantee: that of `LogisticLoss`: L = R, β = R²/4, sign-definite.
    """

    classes: tuple[Any, ...]  # two or more
    label: Any

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes) or self.label not in self.classes:
            raise RangeError(f"one against the rest needs one of different classes, got {len(self.classes)}")

    @property
    def name(self) -> str:
        return "logistic_one_vs_rest"

    def admit(self, labels: Any) -> tuple[Floats, Mask]:
        position, keep = positions_of(labels, self.classes)
        return np.where(position == self.classes.index(self.label), 1.0, -1.0)[:, None], keep

    def to_json(self) -> dict[str, str]:
        return super().to_json() | {"label": repr(self.label)}
