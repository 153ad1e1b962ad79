"""Logistic regression by output perturbation, with a privately tested strength of convexity (stability proof page)."""

from sidelight.stability.glm.divergence import largest_shaped_precision, minimum_move, shaped_divergence
from sidelight.stability.glm.logistic import StableLogistic

__all__ = ["StableLogistic", "largest_shaped_precision", "minimum_move", "shaped_divergence"]
