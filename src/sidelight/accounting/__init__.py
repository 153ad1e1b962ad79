"""What ran, added up into what is promised: fixed batches, parallel parts, adaptive filters, calibration."""

from sidelight.accounting.advice import advice_on_routes, granted_with_routes
from sidelight.accounting.batch import BatchPrice, batch, price_batch
from sidelight.accounting.calibrate import (
    Accuracy,
    Calibrated,
    DiscreteLaplace,
    RoundedGaussian,
    Selection,
    calibrate,
    gaussian_noise_scale,
)
from sidelight.accounting.charges import Charge, Route, Totals, amount_of, capacity_quanta, charge_quanta
from sidelight.accounting.filters import Rule
from sidelight.accounting.loss_distributions import to_dp_event, to_pld
from sidelight.accounting.opening import ROUTES
from sidelight.accounting.parallel import dearest_path
from sidelight.accounting.remaining import (
    Remaining,
    Shortfall,
    Spent,
    find_remaining,
    find_shortfall,
    find_spent,
    what_would_fit,
)

__all__ = [
    "ROUTES",
    "Accuracy",
    "BatchPrice",
    "Calibrated",
    "Charge",
    "DiscreteLaplace",
    "Remaining",
    "RoundedGaussian",
    "Route",
    "Rule",
    "Selection",
    "Shortfall",
    "Spent",
    "Totals",
    "advice_on_routes",
    "amount_of",
    "batch",
    "calibrate",
    "capacity_quanta",
    "charge_quanta",
    "dearest_path",
    "find_remaining",
    "find_shortfall",
    "find_spent",
    "gaussian_noise_scale",
    "granted_with_routes",
    "price_batch",
    "to_dp_event",
    "to_pld",
    "what_would_fit",
]
