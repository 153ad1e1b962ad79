"""`Quantiles` fitted to a schema, of all rows and by group: the one place where a query of quantiles touches rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from sidelight.aggregates import collect_ranks
from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.coding import NumberCoding
from sidelight.aggregates.collect_ranks import collect_group_ranks, encoding_of, is_additive_by_group
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.ranks import Ranks
from sidelight.grid import Grid, Outcomes, digits_of
from sidelight.group_table import GroupTable
from sidelight.guarantees import GDP, ZCDP, Claim, Claims, Neighbours, PureDP, Row
from sidelight.mechanisms.additive import in_int64
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions import CompiledPrior, Prior
from sidelight.quantiles.bounds import expected_gap
from sidelight.quantiles.descend import descend
from sidelight.quantiles.forms.rule import Decision, FormResult, FormRule
from sidelight.quantiles.tree import QuantileTree
from sidelight.records import Table
from sidelight.release import TailBound
from sidelight.session import Answer
from sidelight.session.query import SurePrepared

#: A group has support if its noisy count exceeds this many standard deviations of its noise.
_SUPPORT = 3


def settle_form(
    rule: FormRule, ranks: Ranks, source: Source, *, count: int | None = None
) -> tuple[Decision, int | None, float | None, dict[str, str]]:
    """Return the form, the public number of records, the deviation of its noise, and what to say of a released count.

    `count` is a number of the records that was released and paid for elsewhere.
    """
    if rule.settled is not None:
        return rule.settled, rule.size, None, {}
    deviation, details = None, {}
    if (budget := rule.count_budget) is not None:
        noise = budget.on(Bounded(ranks.size, Fraction(1), "l1", Neighbours.ADD_REMOVE, Row()))
        count, deviation = int(noise.release(source)), float(noise.deviation)
        details = {"count": str(count), "count_deviation": f"{noise.deviation:.6g}"}
    assert count is not None
    return rule.after_count(count), max(count, 1), deviation, details


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedQuantiles(SurePrepared):
    """A `Quantiles` query fitted to a schema: its tree, its grid, its priors as integer masses, and the rule of forms.

    The tree is what the query is without another form, and says what the levels are.
    """

    column: str
    tree: QuantileTree
    grid: Outcomes
    priors: tuple[Prior, ...]
    compiled: tuple[CompiledPrior, ...]
    rule: FormRule

    @property
    def is_additive(self) -> bool:
        """Whether rows are only added up."""
        return True

    def run(self, table: Table, source: Source) -> Answer:
        """Count ranks in one pass over the column and release the levels."""
        return self.answer(self.ranks(table, source), source)

    def ranks(self, table: Table, source: Source) -> Ranks:
        """Count the ranks of the column in one pass. Private."""
        return collect_ranks(table, self.column, self.grid, source)

    def answer(self, ranks: Ranks, source: Source, *, count: int | None = None) -> Answer:
        """Release the levels in the form that the rule says, after the count that it may need.

        `count` is a number of the records that was released and paid for elsewhere.
        """
        decision, size, deviation, details = settle_form(self.rule, ranks, source, count=count)
        found = self._release(decision, ranks, size, deviation, source)
        value = np.array([self.grid.value(index) for index in found.indices])
        if decision.form == "tree" and self.rule.settled is not None:
            # as announced, the query says everything; but values may show ties, and then no error is likely
            said = None if self.error is None else as_released(self.error, self.grid, value.tolist())
            return Answer(value=value, error=None if said is self.error else said)
        # released values and points may show undeclared ties; of the codes of a grid they say nothing
        shown = None if decision.form == "codes" else (value.tolist(), found.points)
        error = None if found.error is None else partial(_stated, found.error, self.grid, shown)
        return Answer(value=value, error=error, details={"form": decision.form, **details, **found.details})

    def _release(
        self, decision: Decision, ranks: Ranks, size: int | None, deviation: float | None, source: Source
    ) -> FormResult:
        if decision.form == "tree":
            tree = self.tree if self.rule.settled else self.rule.tree(decision.budget)
            return self._descend(tree, ranks, size, deviation, source)
        return self._release_form(decision, ranks, size, source)

    def _release_form(self, decision: Decision, ranks: Ranks, size: int | None, source: Source) -> FormResult:
        """Release the levels by `codes`, `select` or `cells`.

        Guarantee: `decision.budget` for adding or removing one record; exact on the machine. What is returned was
        released: no private count is in it.
        """
        # a tree alone does not load the other forms
        from sidelight.quantiles.forms.cell_selection import LevelPriors
        from sidelight.quantiles.forms.cells import predicted_breakpoints, release_cells
        from sidelight.quantiles.forms.cells_bound import cells_bound
        from sidelight.quantiles.forms.codes import CodesPlan, codes_bound, release_codes
        from sidelight.quantiles.forms.select import SelectPlan, release_selected, select_bound

        levels, budget = self.rule.levels, decision.budget
        if decision.form == "codes":
            counting = CodesPlan(codes=self.rule.codes, budget=budget)
            indices, counted = release_codes(ranks, levels, grid=self.grid, plan=counting, source=source)
            bound = partial(codes_bound, counting, counted, levels)
            return FormResult(indices, counted.details(counting), bound)
        assert size is not None  # declared, or released
        priors = LevelPriors(self.grid, levels, self.priors, self.compiled)
        if decision.form == "select":
            selecting = SelectPlan.of(budget, size=size)
            indices, selected = release_selected(ranks, levels, plan=selecting, priors=priors, source=source)
            bound = partial(select_bound, selecting, selected, levels)
            return FormResult(indices, selected.details(selecting), bound, selected.points)
        plan = decision.cells_plan(levels, size)
        first = predicted_breakpoints(plan.breakpoint_levels, priors=priors) if decision.predicted else None
        cells = release_cells(ranks, levels, plan=plan, kind=budget.kind, priors=priors, source=source, first=first)
        return FormResult(cells.indices, cells.details, partial(cells_bound, cells), cells.first_points)

    def _descend(
        self, tree: QuantileTree, ranks: Ranks, size: int | None, deviation: float | None, source: Source
    ) -> FormResult:
        indices = descend(tree, ranks, priors=self.compiled, source=source)
        if tree is self.tree:
            return FormResult(indices, {})
        bound = partial(expected_gap, tree, self.priors, self.grid, size=size, deviation=deviation)
        return FormResult(indices, {}, bound)


#: Of the budget of quantiles by group, for the counts that say which groups have rows.
SIZES_SHARE = Fraction(1, 10)
#: The columns of quantiles by group besides keys and levels.
GROUP_COLUMNS = ("count", "count_unbiased", "supported")


class CellPrior(NamedTuple):
    """The priors of one group, one for each level, and their masses on the grid."""

    priors: tuple[Prior, ...]
    compiled: tuple[CompiledPrior, ...]


def counted(groups: Groups, sizes: Any, budget: Budget) -> Bounded:
    """Return the sizes of groups with how far one unit moves them, in the norm that a budget's noise needs."""
    return groups.norms.bounded(sizes, budget.norm, groups.unit)


def by_rows(claims: Claims, groups: Groups) -> Claims:
    """Return what quantiles of groups cost a unit, from what those of one group cost a row.

    Guarantee: a unit with r_g rows in group g costs r_g² times the rho of a row there (group privacy), and the groups'
    releases are independent given what was released before: their rho add up, to l2_squared times it at most; mu
    squared does the same, and epsilon adds up over all rows.
    """
    norms = groups.norms
    found: list[Claim] = []
    if (pure := claims.pure()) is not None:
        found.append(PureDP(norms.total * pure.epsilon, **pure.context))
    if (zcdp := claims.zcdp()) is not None:
        found.append(ZCDP(norms.l2_squared * zcdp.rho, **zcdp.context))
    if (gdp := claims.gdp()) is not None:
        found.append(GDP.from_squares(norms.l2_squared * gdp.mu**2, **gdp.context))
    return Claims.of(*found).with_unit(groups.unit)


def level_name(level: Fraction) -> str:
    """Return what the column of a level is called in a table by group.

    >>> level_name(Fraction(1, 4)), level_name(Fraction(999, 1000))
    ('q25', 'q99.9')
    """
    return f"q{float(100 * level):.10g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedGroupQuantiles(PreparedQuantiles):
    """`Quantiles` by group, or of rows that pass a condition: the same for each group, and their sizes.

    Guarantee: groups hold disjoint rows, and so do the nodes and cells of one step of all groups together: a row meets
    one path in one group, a person with K rows at most K of them, which is what the claims say of its unit. The sizes
    are released once, for all groups, and say which form each group takes.
    """

    groups: Groups
    keys: tuple[str, ...]
    sizes_budget: Budget

    @property
    def is_additive(self) -> bool:
        """Whether rows are only added up."""
        number = self.groups.schema.number(self.column)
        return is_additive_by_group(NumberCoding(self.column, encoding_of(number, self.grid)), self.groups)

    def run(self, table: Table, source: Source, *, by_cell: Sequence[CellPrior] | None = None) -> Answer:
        """Count ranks in one pass over the column, count the rows of each group, and release its levels.

        `by_cell` are priors of each group's own, one for each level; public, or released before.
        """
        by_group = collect_group_ranks(table, self.column, self.grid, source, groups=self.groups)
        sizes = np.array([ranks.size for ranks in by_group], np.int64)
        noise = self.sizes_budget.on(counted(self.groups, sizes, self.sizes_budget))
        counts = in_int64(noise.release(source))
        own = by_cell or [CellPrior(self.priors, self.compiled)] * len(by_group)
        norms, answers, partition = self.groups.norms, [], source.partition()
        for place, (ranks, count, priors) in enumerate(zip(by_group, counts.tolist(), own, strict=True)):
            unit = Fraction(norms.total), Fraction(norms.l2_squared)
            with source.over(partition=partition, group=place, rows_of_unit=unit):
                mine = replace(self, priors=priors.priors, compiled=priors.compiled)
                answers.append(mine.answer(ranks, source, count=count))
        values = np.array([answer.value for answer in answers])
        columns: dict[str, Any] = {level_name(level): values[:, place] for place, level in enumerate(self.rule.levels)}
        beside = (np.maximum(counts, 0), counts, counts > _SUPPORT * noise.deviation)
        columns |= dict(zip(GROUP_COLUMNS, beside, strict=True))
        cells = tuple(product(*self.groups.keys))
        forms = [answer.details for answer in answers if answer.details]
        return Answer(
            value=GroupTable(keys=self.keys, groups=cells, columns=columns, notes=self.groups.notes),
            details={"groups": forms} if forms else None,
        )


# What released quantiles show about undeclared ties, lattices and spikes: then no error is called likely.


#: Significant digits of a decimal that records without a step hardly ever have: one in 300,000 of the floats' codes.
_SHORT = 9
#: Released values nearer to each other than this share of their median distance show a spike; of many values less.
_COINCIDE, _COINCIDE_IN_ALL = 1e-4, 1e-2
#: Records without a larger step have released values on one so rarely.
_LEAST_STEP, _LEAST_VALUES = 5, 3
#: This many released values show nothing by their distances, and are off together.
_HIDES = 2


def shows_ties(values: Iterable[float], grid: Outcomes) -> bool:
    """Return whether released values show undeclared ties: they coincide, or nearly, or lie on a lattice.

    On floats a short decimal is met by chance in one of 300,000 values, but whole numbers are expected by the prior:
    only where all are whole do they say something. On declared steps all values may be multiples of a larger step.
    """
    found = sorted(values)
    if isinstance(grid, Grid):
        codes = {round(Fraction(value) / grid.resolution) for value in found}
        return grid.snap == "nearest" and len(codes) >= _LEAST_VALUES and math.gcd(*codes) >= _LEAST_STEP
    distances = sorted(high - low for low, high in pairwise(found))
    nearest = min(_COINCIDE, _COINCIDE_IN_ALL / max(len(distances), 1))
    if distances and distances[0] <= nearest * distances[len(distances) // 2]:
        return True
    whole = [value.is_integer() for value in found]
    if all(whole) and len(found) >= _LEAST_VALUES:
        return True
    return any(not each and digits_of(value) <= _SHORT for value, each in zip(found, whole, strict=True))


def as_released(error: TailBound, grid: Outcomes, *released: Iterable[float]) -> TailBound:
    """Return a bound as it is stated after a release: without its likely error where released values show ties.

    Two values on floats show nothing, and next to a narrow spike they were beyond the likely error nearly always: it is
    not stated for two. A single value shows as little; it was beyond it in half of the releases where the edge of such
    a spike lay within 20 ranks, and elsewhere hardly ever.
    """
    found = [tuple(each) for each in released]
    hidden = not isinstance(grid, Grid) and any(len(each) == _HIDES for each in found)
    return replace(error, likely=None) if hidden or any(shows_ties(each, grid) for each in found) else error


def _stated(
    bound: Callable[[], TailBound], grid: Outcomes, released: tuple[Sequence[float], Sequence[int]] | None
) -> TailBound:
    """Compute a bound from released numbers; with released values and points, without what these contradict."""
    with np.errstate(all="ignore"):  # as within a release: it says nothing
        found = bound()
    return found if released is None else as_released(found, grid, released[0], map(grid.value, released[1]))
