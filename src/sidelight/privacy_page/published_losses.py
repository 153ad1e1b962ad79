"""The losses that a published report can name, each with its public constants."""

from __future__ import annotations

from typing import Annotated

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]


class Weights(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"negative": "-1", "positive": "1"}
):
    """Public class weights, by the sign of the label."""

    negative: Positive
    positive: Positive


class Logistic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="name", tag="logistic"):
    """f = w·log(1 + exp(-y·u))."""

    weights: Weights


class LogCosh(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="name", tag="log-cosh"):
    """f = κ²·log cosh((u - y)/κ)."""

    kappa: Positive


class Huber(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="name", tag="huber"):
    """f' = u - y, cut at ±κ."""

    kappa: Positive


class SquaredClipped(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="name", tag="squared-clipped"
):
    """f' = u - y, cut at ±C/‖x‖."""

    clip: Positive


class SmoothedHinge(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="name", tag="smoothed-hinge"
):
    """f' = -y·clamp((1 + w - y·u)/(2w), 0, 1)."""

    width: Positive


class Poisson(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="name", tag="poisson"):
    """f' = exp(u) - y, cut at ±C/‖x‖."""

    clip: Positive


class Softmax(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="name", tag="softmax"):
    """f = -w_y·log p_y, p = softmax(u); the classes are in the label, and `weights`, where present, in their order."""

    weights: Annotated[list[Positive], msgspec.Meta(min_length=2)] | None = None


Loss = Logistic | LogCosh | Huber | SquaredClipped | SmoothedHinge | Poisson | Softmax
