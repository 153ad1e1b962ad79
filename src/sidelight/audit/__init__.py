"""Attacks on privacy claims: draw a mechanism on two neighbouring inputs and bound from below what it gives away."""

from sidelight.audit.exact import exact_epsilon, exact_hockey_stick, exact_mu, exact_rho
from sidelight.audit.query_audit import QueryAudit, audit_query, audit_runs
from sidelight.audit.sampled import (
    Audit,
    DistinguishingEvent,
    LowerBound,
    Sampler,
    at_least,
    at_most,
    audit,
    one_by_one,
)

__all__ = [
    "Audit",
    "DistinguishingEvent",
    "LowerBound",
    "QueryAudit",
    "Sampler",
    "at_least",
    "at_most",
    "audit",
    "audit_query",
    "audit_runs",
    "exact_epsilon",
    "exact_hockey_stick",
    "exact_mu",
    "exact_rho",
    "one_by_one",
]
