"""Targets of the audits: promises that an attack from outside broke, attacked again."""

from __future__ import annotations

from benchmarks import (
    audit_couplings,
    audit_engines,
    audit_failures,
    audit_kills,
    audit_memory,
    audit_meter,
    audit_overspending,
    audit_queries,
    audit_tight,
    fuzzing,
    membership,
    planted_bugs,
    power_loss,
    stated_errors,
)
from benchmarks.target import Target

#: No line measures seconds of work: what is limited in time (`audit_queries`) keeps to a time that it is given.
SIDE_BY_SIDE = True
TARGETS = [
    Target("overspent-charges", audit_overspending.measure, "overspent", "<=", 0),
    Target("record-couplings", audit_couplings.measure, "couplings", "<=", 0),
    Target("engine-disagreements", audit_engines.measure, "disagreements", "<=", 0),
    Target("unpaid-failures", audit_failures.measure, "failures", "<=", 0),
    Target("memory-after-charge-gb", audit_memory.measure, "gb", "<=", 2),
    Target("refuted-claims", audit_queries.measure, "refuted", "<=", 0),
    Target("queries-without-audit", audit_queries.measure, "without", "<=", 0),
    Target("failures-by-rows", audit_queries.measure, "raised", "<=", 0),
    Target("share-of-tight-claims", audit_tight.measure, "share", ">=", 0.6),
    Target("refuted-tight-claims", audit_tight.measure, "refuted", "<=", 0),
    Target("seconds-of-quick-audits", audit_queries.measure, "seconds", "<=", 600),
    Target("planted-bugs-caught", planted_bugs.measure, "caught", ">=", 30),
    Target("planted-bugs-missed", planted_bugs.measure, "missed", "<=", 0),
    Target("planted-bugs-not-run", planted_bugs.measure, "not run", "<=", 10),
    Target("stated-errors-refuted", stated_errors.measure, "refuted", "<=", 0),
    Target("stated-three-times-too-wide", stated_errors.measure, "wide", "<=", 0),
    Target("unmetered-queries", audit_meter.measure, "unmetered", "<=", 0),
    Target("meter-overclaims", audit_meter.measure, "refused", "<=", 0),
    Target("meter-planted-missed", audit_meter.measure, "planted missed", "<=", 0),
    Target("meter-overhead", audit_meter.measure, "overhead", "<=", 1.05),
    Target("runs-without-reference", audit_meter.measure, "runs without reference", "<=", 0),
    Target("kills", audit_kills.measure, "kills", ">=", 200),
    Target("charges-lost-by-kills", audit_kills.measure, "lost", "<=", 0),
    Target("charges-doubled-by-kills", audit_kills.measure, "doubled", "<=", 0),
    Target("lost-with-the-power", power_loss.measure, "lost", "<=", 0),
    Target("broken-with-the-power", power_loss.measure, "broken", "<=", 0),
    Target("fuzzed-inputs", fuzzing.measure, "inputs", ">=", 500),
    Target("defects-by-fuzzing", fuzzing.measure, "defects", "<=", 0),
    Target("membership-without-protection", membership.measure, "unprotected", ">=", 1),
    Target("membership-claims-refuted", membership.measure, "refuted", "<=", 0),
]
