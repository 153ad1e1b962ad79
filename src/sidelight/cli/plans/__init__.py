"""Plan files: a TOML text that names source, schema, budget, ledger and queries."""

from sidelight.cli.plans.plan import Plan, PlannedQuery, read_plan

__all__ = ["Plan", "PlannedQuery", "read_plan"]
