"""Quantiles by group with what is known of each: a prior for every group, an earlier release, or the total's quantiles.

Priors are public before the release, or released by a part of it that was paid for: they move accuracy, never the
guarantee of the groups' trees.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from sidelight.accounting import worst_case_branch
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import Grid, Outcomes
from sidelight.group_table import GroupTable, check_keys
from sidelight.guarantees import Person, Row, Unit
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.predictions import Cauchy, Prior, hedge, is_prior, own_prior
from sidelight.predictions.origin import Origin, guess, released
from sidelight.quantiles.outcomes import check_reach, default_prior, number_of
from sidelight.quantiles.prepared import (
    GROUP_COLUMNS,
    SIZES_SHARE,
    CellPrior,
    PreparedGroupQuantiles,
    PreparedQuantiles,
    by_rows,
    counted,
    level_name,
)
from sidelight.quantiles.tree import exact_levels
from sidelight.records import Number, Schema, Table
from sidelight.records.expressions import Expression
from sidelight.release import Release
from sidelight.release.earlier_dates import calendar_of, later_than
from sidelight.session import Answer
from sidelight.session.query import SurePrepared

Cell: TypeAlias = tuple[str, ...]
#: Of the price, for the quantiles of all rows that groups borrow from.
BORROW_SHARE = Fraction(18, 100)
#: The weight of the uninformative prior in a mixture with a borrowed or an earlier value.
_HEDGE = 0.1
_FARTHEST = 1e300


def is_by_group(prediction: Any) -> bool:
    """Return whether a prediction is about groups: a mapping from labels, or an earlier table by group."""
    value = prediction.value if isinstance(prediction, Release) else prediction
    return isinstance(value, (Mapping, GroupTable))


@dataclass(frozen=True, eq=False)
class CellPriors:
    """The priors of groups of which something is known, one for each level."""

    priors: Mapping[Cell, tuple[Prior, ...]]
    origin: Origin
    seeded: bool = False

    @property
    def description(self) -> dict[str, Any]:
        """What a release says about them."""
        written = {"/".join(cell): [prior.to_json() for prior in priors] for cell, priors in self.priors.items()}
        digest = hashlib.sha256(json.dumps(written, sort_keys=True).encode("utf-8")).hexdigest()
        found = {
            "description": f"predicted quantiles of {len(self.priors)} groups ({self.origin})",
            "origin": self.origin.to_json(),
            "sha256": digest,
        }
        return {**found, "entropy": SEEDED_BRANDING} if self.seeded else found


def read_cell_priors(
    prediction: Any,
    *,
    cells: Sequence[Cell],
    keys: Sequence[str],
    names: Sequence[str],
    default: Prior,
    grid: Outcomes,
    number: Number,
) -> CellPriors:
    """Read priors by group: {label: prior, or one for each level}, or an earlier release of quantiles by group.

    Dates of a release, which says how they count, are counted from the start of the column that is predicted.
    """
    seeded = isinstance(prediction, Release) and not prediction.private
    table = prediction.value if isinstance(prediction, Release) else prediction
    if isinstance(table, GroupTable):
        entry = prediction.circumstances.entry_id if isinstance(prediction, Release) else None
        note = "made with seeded noise" if seeded else ""
        origin = guess("an earlier table by group") if entry is None else released(entry, note)
        dates = number.name, calendar_of(number)
        later = later_than(prediction.query, *dates) if isinstance(prediction, Release) else 0
        found = _of_table(table, keys=keys, names=names, default=default, grid=grid, later=later)
    else:
        found, origin = {}, guess("a prior for each group")
        for label, given in table.items():
            cell = tuple(map(str, label)) if isinstance(label, tuple) else (str(label),)
            priors = tuple(given) if isinstance(given, Sequence) else (given,)
            if len(priors) not in (1, len(names)) or not all(is_prior(each) for each in priors):
                raise RangeError(
                    f"the prediction of group {'/'.join(cell)!r} must be a prior such as sl.priors.Cauchy(location, "
                    f"scale), or one for each of the {len(names)} levels"
                )
            priors = tuple(own_prior(each) for each in priors)
            found[cell] = priors * len(names) if len(priors) == 1 else priors
    there = set(cells)
    if not any(cell in there for cell in found):
        came = "/".join(next(iter(found))) if found else "nothing"
        raise RangeError(
            f"the prediction has none of the {len(cells)} groups: they are named like {'/'.join(cells[0])!r}, and it "
            f"has {came!r}; name groups as the schema does, in the order of by"
        )
    return CellPriors({cell: priors for cell, priors in found.items() if cell in there}, origin, seeded)


def _of_table(
    table: GroupTable, *, keys: Sequence[str], names: Sequence[str], default: Prior, grid: Outcomes, later: int
) -> dict[Cell, tuple[Prior, ...]]:
    """Return priors around the values of an earlier release, as wide as its levels lie apart; of supported groups."""
    if tuple(table.keys_of_groups) != tuple(keys):
        came = ", ".join(table.keys_of_groups) or "nothing"
        raise RangeError(f"the earlier table is by {came}, and this one by {', '.join(keys)}")
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise RangeError(f"the earlier table has no column {missing[0]!r}; it has {', '.join(table.columns)}")
    levels = [name for name in table.columns if name[:1] == "q" and name[1:].replace(".", "").isdigit()]
    supported = table["supported"].tolist() if "supported" in table.columns else [True] * table.rows
    found = {}
    for place, cell in enumerate(table.groups):
        values = [float(table[name][place]) for name in levels]
        if supported[place] and all(map(math.isfinite, values)):
            spread = (max(values) - min(values)) / 2
            if len(levels) == 1:  # groups lie apart as far as nothing else says
                others = sorted(float(each) for each in table[levels[0]])
                spread = (others[(3 * len(others)) // 4] - others[len(others) // 4]) / 2
            found[cell] = around(
                [float(table[name][place]) - later for name in names], spread, default=default, grid=grid
            )
    return found


def around(values: Sequence[float], spread: float, *, default: Prior, grid: Outcomes) -> tuple[Prior, ...]:
    """Return a prior for each value: a Cauchy of this spread next to knowing nothing."""
    least = float(grid.resolution) if isinstance(grid, Grid) else max(map(abs, values)) * 2.0**-40 or 2.0**-20
    width = min(max(spread, least), _FARTHEST)
    return tuple(hedge(Cauchy(value, width), with_=default, weight=_HEDGE) for value in values)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCellPriors(SurePrepared):
    """Quantiles by group whose groups have priors of their own, given or borrowed from the quantiles of all rows.

    Guarantee: that of both parts together. The total is released first; the groups' trees then run with priors that
    are public, or made of what was released.
    """

    groups: PreparedGroupQuantiles
    cells: tuple[Cell, ...]  # the labels of each group
    known: Mapping[Cell, CellPrior]  # the priors of groups of which something is known
    total: PreparedQuantiles | None  # the quantiles of all rows that the others borrow from
    default: Prior  # of someone who knows nothing

    def run(self, table: Table, source: Source) -> Answer:
        """Release the total if groups borrow from it, then each group's quantiles with its own priors."""
        usual = CellPrior(self.groups.priors, self.groups.compiled)
        notes: dict[str, float] = {}
        if self.total is not None:
            values = dict(zip(self.total.rule.levels, _read_all(self.total.run(table, source)), strict=True))
            spread = (max(values.values()) - min(values.values())) / 2
            chosen = [values[level] for level in self.groups.rule.levels]
            usual = compiled_on(self.groups.grid, around(chosen, spread, default=self.default, grid=self.groups.grid))
            names = map(level_name, self.groups.rule.levels)
            notes = {f"all_{name}": value for name, value in zip(names, chosen, strict=True)}
        answer = self.groups.run(table, source, by_cell=[self.known.get(cell, usual) for cell in self.cells])
        if not notes:
            return answer
        value = answer.value
        columns = {name: value[name] for name in value.columns}
        noted = GroupTable(keys=value.keys_of_groups, groups=value.groups, columns=columns, notes=notes | value.notes)
        return replace(answer, value=noted)


def compiled_on(grid: Outcomes, priors: tuple[Prior, ...]) -> CellPrior:
    """Return priors with their exact masses on a grid."""
    return CellPrior(priors, tuple(prior.compile(grid) for prior in priors))


def _read_all(answer: Answer) -> Sequence[float]:
    """Return the quantiles of all rows, in the order of their levels: a vector, or the one row of a table."""
    value = answer.value
    if isinstance(value, GroupTable):
        return [float(value[name][0]) for name in value.columns if name.startswith("q")]
    return [float(each) for each in value]


#: Groups times levels that are released at once: what runs after a charge takes minutes and no more.
MOST_RELEASED = 1 << 16


def _part(query: Any, share: Fraction) -> Any:
    """Return the query with a share of its price; a delta stays whole."""
    budget = query._budget.part(share)
    return replace(
        query, prediction=query.stated_prediction, epsilon=budget.amount if budget.is_pure else None, rho=budget.rho
    )


def with_own_priors(query: Any, schema: Schema) -> PreparedCellPriors:
    """Return the query with priors of its own for each group, and the total that others borrow from. Opens no data.

    Raises:
        RangeError: the prediction has none of the groups, or reaches outside the grid.
    """
    by_group = is_by_group(query.stated_prediction)
    left = _part(query, 1 - BORROW_SHARE) if query.borrows else query
    groups = replace(left, prediction=None if by_group else query.stated_prediction).prepare(schema)
    assert isinstance(groups, PreparedGroupQuantiles)
    total: PreparedQuantiles | None = None
    request = {**groups.request, **query._price}
    if query.borrows:
        limits: dict[str, Any] = {"max_groups": None, "max_rows_per_group": None} if query.where is None else {}
        few = replace(_part(query, BORROW_SHARE), delta=None, by=(), prediction=None, **limits)
        levels = tuple(sorted({*exact_levels(query.levels), *map(Fraction, ("1/4", "1/2", "3/4"))}))
        prepared = replace(few, levels=levels).prepare(schema)
        assert isinstance(prepared, PreparedQuantiles)
        total, request["borrow"] = prepared, "total"
    number, cells = number_of(query, schema), tuple(product(*groups.groups.keys))
    default = default_prior(number)
    description, known = groups.prediction, {}
    if by_group:
        names = tuple(map(level_name, groups.rule.levels))
        read = read_cell_priors(
            query.stated_prediction,
            cells=cells,
            keys=groups.keys,
            names=names,
            default=default,
            grid=groups.grid,
            number=number,
        )
        for prior in {each for priors in read.priors.values() for each in priors}:
            check_reach(prior, groups.grid)
        known = {cell: compiled_on(groups.grid, priors) for cell, priors in read.priors.items()}
        description = read.description
        request["prediction"] = description["sha256"]
    return PreparedCellPriors(
        claims=groups.claims if total is None else worst_case_branch([[total.claims, groups.claims]]),
        request=request,
        labels=groups.labels,
        prediction=description,
        error=None,
        groups=groups,
        cells=cells,
        known=known,
        total=total,
        default=default,
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
            f"by names {groups.label.name!r}, whose labels are not declared; quantiles by group need sl.Category"
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
        claims=worst_case_branch([[quantiles, noise.claims]]),
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
