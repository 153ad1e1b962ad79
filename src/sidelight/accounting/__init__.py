"""What ran, added up into what is promised: fixed batches, parallel parts, adaptive filters."""

from sidelight.accounting.batch import BatchPrice, batch, price_batch, worst_case_branch
from sidelight.accounting.charges import Charge, Route, Totals, amount_of, capacity_quanta, charge_quanta
from sidelight.accounting.filters import Rule
from sidelight.accounting.loss_distributions import to_dp_event, to_pld
from sidelight.accounting.prices import ROUTES, gaussian_noise_scale, related
from sidelight.accounting.remaining import (
    Remaining,
    Shortfall,
    Spent,
    advice_on_routes,
    find_remaining,
    find_shortfall,
    find_spent,
    granted_with_routes,
    what_would_fit,
)

__all__ = [
    "ROUTES",
    "BatchPrice",
    "Charge",
    "Remaining",
    "Route",
    "Rule",
    "Shortfall",
    "Spent",
    "Totals",
    "advice_on_routes",
    "amount_of",
    "batch",
    "capacity_quanta",
    "charge_quanta",
    "find_remaining",
    "find_shortfall",
    "find_spent",
    "gaussian_noise_scale",
    "granted_with_routes",
    "price_batch",
    "related",
    "to_dp_event",
    "to_pld",
    "what_would_fit",
    "worst_case_branch",
]
