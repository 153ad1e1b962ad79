"""Targets of the audits: promises that an attack from outside broke, attacked again."""

from __future__ import annotations

from benchmarks import audit_couplings, audit_failures, audit_overspending
from benchmarks.target import Target

TARGETS = [
    Target("overspent-charges", audit_overspending.measure, "overspent", "<=", 0),
    Target("record-couplings", audit_couplings.measure, "couplings", "<=", 0),
    Target("unpaid-failures", audit_failures.measure, "failures", "<=", 0),
]
