"""Targets of the audits: promises that an attack from outside broke, attacked again."""

from __future__ import annotations

from benchmarks import audit_couplings, audit_failures, audit_overspending, audit_queries, planted_bugs
from benchmarks.target import Target

TARGETS = [
    Target("overspent-charges", audit_overspending.measure, "overspent", "<=", 0),
    Target("record-couplings", audit_couplings.measure, "couplings", "<=", 0),
    Target("unpaid-failures", audit_failures.measure, "failures", "<=", 0),
    Target("refuted-claims", audit_queries.measure, "refuted", "<=", 0),
    Target("queries-without-audit", audit_queries.measure, "without", "<=", 0),
    Target("failures-by-rows", audit_queries.measure, "raised", "<=", 0),
    Target("share-of-tight-claims", audit_queries.measure, "tight", ">=", 0.6),
    Target("seconds-of-quick-audits", audit_queries.measure, "seconds", "<=", 600),
    Target("planted-bugs-caught", planted_bugs.measure, "caught", ">=", 30),
    Target("planted-bugs-missed", planted_bugs.measure, "missed", "<=", 0),
]
