"""Objective perturbation: noise in the objective makes its minimum private, at the cost of the Gaussian mechanism."""

from sidelight.mechanisms.objective_perturbation.calibration import OUTPUT_SHARE, calibrate_objective
from sidelight.mechanisms.objective_perturbation.mechanism import (
    ORDERS,
    Bound,
    Envelope,
    LossShape,
    ObjectivePerturbation,
    add_curve,
    grid_exponent,
    grid_indices,
    linear_term,
    noisy_point,
    on_grid,
    remove_curve,
    renyi_curve,
)

__all__ = [
    "ORDERS",
    "OUTPUT_SHARE",
    "Bound",
    "Envelope",
    "LossShape",
    "ObjectivePerturbation",
    "add_curve",
    "calibrate_objective",
    "grid_exponent",
    "grid_indices",
    "linear_term",
    "noisy_point",
    "on_grid",
    "remove_curve",
    "renyi_curve",
]
