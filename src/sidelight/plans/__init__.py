"""Plan files: a TOML text that names source, schema, budget, ledger and queries, read and written by one definition.

The keys of a table are the parameters of the class that it makes (`tables.table_of`); `registry.PlanKeys` says where a
kind of query differs. The same tables read a section, write it from a query, and describe it as JSON schema.
"""

from sidelight.plans.plan import Plan, PlannedQuery, read_plan
from sidelight.plans.queries import query_table, read_query, write_query
from sidelight.plans.section import FolderResolver, NameResolver, Resolver, Section

__all__ = [
    "FolderResolver",
    "NameResolver",
    "Plan",
    "PlannedQuery",
    "Resolver",
    "Section",
    "query_table",
    "read_plan",
    "read_query",
    "write_query",
]
