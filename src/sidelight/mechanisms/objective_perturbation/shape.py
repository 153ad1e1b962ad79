"""What the privacy proof needs to know of a loss: how steep, how curved, and how the two hang together."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sidelight.errors import RangeError

Envelope = Literal["flat", "logistic", "log_cosh"]


@dataclass(frozen=True, kw_only=True)
class LossShape:
    """Bounds of one record's loss f(xᵀθ; y), over all records that the clipping lets through and all θ.

    Args:
        gradient: L, at least |f'|·‖x‖.
        curvature: β, at least f''·‖x‖². (For several classes: the largest eigenvalue of one record's Hessian.)
        envelope: How f''·‖x‖² is bounded where |f'|·‖x‖ = t·L: "flat" by β, "logistic" by 4β·t(1-t), "log_cosh" by
            β(1-t²).
        sign_definite: Whether f' keeps its sign as θ varies, for every fixed record.
        classes: The number of classes of a joint softmax, else None.
    """

    gradient: Fraction
    curvature: Fraction
    envelope: Envelope = "flat"
    sign_definite: bool = False
    classes: int | None = None

    def __post_init__(self) -> None:
        if self.gradient <= 0 or self.curvature <= 0:
            raise RangeError("a loss shape needs a positive bound of the gradient and of the curvature")
        if self.classes is not None and (self.classes < 2 or self.envelope != "flat"):
            raise RangeError(f"a softmax has at least two classes and a flat envelope, got {self.classes}")
