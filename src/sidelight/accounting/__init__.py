"""What ran, added up into what is promised: fixed batches, parallel parts, adaptive filters, calibration."""

from sidelight.accounting.filters import ROUTES, Rule
from sidelight.accounting.parallel import dearest_path
from sidelight.accounting.quanta import QUANTUM, amount_of, capacity_quanta, charge_quanta
from sidelight.accounting.remaining import Remaining, Shortfall, Spent
from sidelight.accounting.totals import Charge, Route, Totals

__all__ = [
    "QUANTUM",
    "ROUTES",
    "Charge",
    "Remaining",
    "Route",
    "Rule",
    "Shortfall",
    "Spent",
    "Totals",
    "amount_of",
    "capacity_quanta",
    "charge_quanta",
    "dearest_path",
]
