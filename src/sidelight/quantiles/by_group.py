"""`Quantiles` by group, or of rows that pass a condition: what that makes of the query, before any data is opened."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sidelight.accounting import dearest_path
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import check_keys
from sidelight.guarantees import Person, Row, Unit
from sidelight.mechanisms.budget import Budget
from sidelight.quantiles.group_priors import (
    BORROW_SHARE,
    PreparedCellPriors,
    is_by_group,
    total_levels,
    with_cell_priors,
)
from sidelight.quantiles.outcomes import default_prior
from sidelight.quantiles.prepared import (
    GROUP_COLUMNS,
    SIZES_SHARE,
    PreparedGroupQuantiles,
    PreparedQuantiles,
    by_rows,
    counted,
    level_name,
)
from sidelight.quantiles.query_checks import number_of
from sidelight.quantiles.tree import exact_levels
from sidelight.records import Schema
from sidelight.records.expressions import Expression

#: Groups times levels that are released at once: what runs after a charge takes minutes and no more.
MOST_RELEASED = 1 << 16


def _part(query: Any, share: Fraction) -> Any:
    """Return the query with a share of its price; a delta stays whole."""
    budget = query._budget.part(share)
    return replace(query, borrow=None, epsilon=budget.amount if budget.is_pure else None, rho=budget.rho)


def with_own_priors(query: Any, schema: Schema) -> PreparedCellPriors:
    """Return the query with priors of its own for each group, and the total that others borrow from."""
    by_group = is_by_group(query.prediction)
    left = query if query.borrow is None else _part(query, 1 - BORROW_SHARE)
    groups = replace(left, prediction=None if by_group else query.prediction, borrow=None).prepare(schema)
    assert isinstance(groups, PreparedGroupQuantiles)
    total: PreparedQuantiles | None = None
    if query.borrow is not None:
        limits: dict[str, Any] = {"max_groups": None, "max_rows_per_group": None} if query.where is None else {}
        few = replace(_part(query, BORROW_SHARE), delta=None, by=(), prediction=None, **limits)
        prepared = replace(few, levels=total_levels(exact_levels(query.levels))).prepare(schema)
        assert isinstance(prepared, PreparedQuantiles)
        total = prepared
    return with_cell_priors(
        groups,
        prediction=query.prediction if by_group else None,
        total=total,
        default=default_prior(number_of(query, schema)),
        request={**query._price, **({} if query.borrow is None else {"borrow": query.borrow})},
    )


def groups_asked(query: Any, schema: Schema) -> Groups:
    """Check groups and condition against a schema."""
    assert query.where is None or isinstance(query.where, Expression)
    groups = groups_of(
        schema,
        by=query.by,
        where=query.where,
        max_groups=query.max_groups,
        max_rows_per_group=query.max_rows_per_group,
    )
    if groups.label is not None:
        raise SchemaError(
            f"by names {groups.label.name!r}, whose labels nobody declared; quantiles by group need sl.Category"
        )
    return groups


def by_group(query: Any, prepared: PreparedQuantiles, groups: Groups) -> PreparedGroupQuantiles:
    """Return the query with a tree for each group, and the counts that say which of them have rows."""
    assert isinstance(query.by, tuple)
    rule = prepared.rule
    work = groups.cells * (len(rule.levels) + (rule.codes if rule.may_count_codes else 0))
    if work > MOST_RELEASED:
        raise RangeError(
            f"{groups.cells} groups of {len(rule.levels)} levels are more than can be released at once: groups times "
            f"levels (and times values of the grid, where each is counted) must not exceed {MOST_RELEASED}; ask for "
            "fewer groups or levels"
        )
    budget = query._budget.part(SIZES_SHARE)
    noise = budget.on(counted(groups, np.zeros(groups.cells, np.int64), budget))
    cells = tuple(product(*groups.keys))
    keys = tuple(str(each) for each in query.by)
    check_keys(keys, [*(level_name(level) for level in prepared.rule.levels), *GROUP_COLUMNS])
    limits = {"max_groups": query.max_groups, "max_rows_per_group": query.max_rows_per_group, "where": query.where}
    quantiles = prepared.claims.with_unit(groups.unit) if budget.is_pure else by_rows(prepared.claims, groups)
    return PreparedGroupQuantiles(
        claims=dearest_path([[quantiles, noise.claims]]),
        request={
            **prepared.request,
            "kind": "group_quantiles",
            "by": list(keys),
            **{name: str(limit) for name, limit in limits.items() if limit is not None},
        },
        labels=tuple(" / ".join(cell) or "all rows" for cell in cells),
        prediction=prepared.prediction,
        error=prepared.error,
        column=prepared.column,
        tree=prepared.tree,
        grid=prepared.grid,
        priors=prepared.priors,
        compiled=prepared.compiled,
        adaptation=prepared.adaptation,
        score=prepared.score,
        rule=prepared.rule,
        groups=groups,
        keys=keys,
        sizes_budget=budget,
    )


def counted_unit(groups: Groups, budget: Budget) -> Unit:
    """Return the unit with as many rows as count of it in all groups together: what divides the price of a row.

    In rho the price of a row comes from the squares of a unit's rows in each group, and the unit is a row here.
    """
    person = groups.schema.person
    return Row() if person is None or not budget.is_pure else Person(person.name, groups.norms.total)
