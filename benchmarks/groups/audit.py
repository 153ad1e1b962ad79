"""The audits: what an attack from outside must not find."""

from __future__ import annotations

from benchmarks import audit_couplings
from benchmarks.target import Target

TARGETS = [
    Target("record-couplings", audit_couplings.measure, "couplings", "<=", 0),
]
