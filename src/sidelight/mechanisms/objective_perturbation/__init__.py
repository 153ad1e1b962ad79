"""Objective perturbation: noise in the objective makes its minimum private, at the cost of the Gaussian mechanism."""

from sidelight.mechanisms.objective_perturbation.calibration import OUTPUT_SHARE, calibrate_objective
from sidelight.mechanisms.objective_perturbation.directions import Bound, add_curve, remove_curve
from sidelight.mechanisms.objective_perturbation.mechanism import ObjectivePerturbation
from sidelight.mechanisms.objective_perturbation.noise import (
    grid_exponent,
    grid_indices,
    linear_term,
    noisy_point,
    on_grid,
)
from sidelight.mechanisms.objective_perturbation.renyi import ORDERS, renyi_curve
from sidelight.mechanisms.objective_perturbation.shape import Envelope, LossShape

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
