"""Which form releases the quantiles: a rule of public numbers and, for many levels, of a released count of the records.

Every branch costs at most the budget, so that a pure price does not depend on the count; every other claim is made
before the count is drawn, hence for the worst-case branch (quantiles proof page, Theorem 8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from sidelight.accounting import worst_case_branch
from sidelight.errors import RangeError
from sidelight.grid import Outcomes
from sidelight.guarantees import ZCDP, ApproxDP, Claims, Context, PureDP, Unit
from sidelight.guarantees.claim_sets import for_unit
from sidelight.guarantees.conversions import zcdp_within
from sidelight.guarantees.units import rows_of_unit
from sidelight.mechanisms.budget import Budget
from sidelight.quantiles.tree import QuantileTree, quantile_tree, tree_depth
from sidelight.release import TailBound

if TYPE_CHECKING:  # a median needs none of the other forms, and does not load them
    from sidelight.quantiles.forms.cells_plan import CellsPlan

Form = Literal["auto", "tree", "select", "cells", "codes"]
Chosen = Literal["tree", "select", "cells", "codes"]
FORMS: tuple[Form, ...] = ("auto", "tree", "select", "cells", "codes")

#: What the count of the records costs, of the budget.
COUNT_SHARE = Fraction(1, 50)
#: Up to this many levels the tree is best; and for 15, which it holds without a gap.
_FEW_LEVELS = 7
_FULL_TREE = 15
#: From this many levels on interpolation beats selection.
_MANY_LEVELS = 15
#: A grid with so few codes is counted code by code; one with this many can be, if that is asked for. From this many on
#: a few levels of many records are better selected.
FEW_CODES = 300
_GROUPED_CODES = 101
MOST_CODES = 2**16
#: What the bound of `select` is made of grows with the square of its levels.
_MOST_SELECTED = 1000
#: epsilon · records below which only the tree works; from which on `select` does.
_LEAST_SIGNAL = 500
_SELECT_SIGNAL = 3000
#: In rho, from this many levels and this 2 √ρ · records on, counts beat the tree.
_LEVELS_IN_RHO = 150
_SIGNAL_IN_RHO = 5000
#: A price of one row below which a form would divide it into less than a selection can take: then the tree is left.
_SMALLEST_ROW_PRICE = Fraction(1, 2**40)
#: zCDP of the most expensive plan of `cells` over epsilon²: the least share of the breakpoints, two rounds of counts.
_DEAREST_CELLS = Fraction(26737, 100000)
#: The same with predicted breakpoints: two rounds of counts have everything.
_PREDICTED_CELLS = Fraction(29001, 100000)
#: That of codes in groups: .35 and .65 of the budget for counts.
_DEAREST_CODES = Fraction(2725, 10000)
#: Largest gaps of trees times the epsilon of a node, by the number of levels: measured on normal data.
_MEASURED_TREES = {1: 1.2, 3: 2.2, 9: 3.7, 49: 5.8, 99: 7.0, 199: 9.2, 999: 10.8}
#: The largest gap of `select` times epsilon, measured.
_MEASURED_SELECT = 10.9


def codes_of(grid: Outcomes) -> int:
    """Return how many codes a grid has: a public number."""
    return grid.last - grid.first + 1


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A form and what one row may spend in it; whether the cells of `cells` are taken from a prediction."""

    form: Chosen
    budget: Budget
    predicted: bool = False

    def cells_plan(self, levels: tuple[Fraction, ...], size: int) -> CellsPlan:
        """Return the plan of `cells` for about this number of records."""
        from sidelight.quantiles.forms.cells_plan import cells_plan

        budget = self.budget
        return cells_plan(levels, size=size, epsilon=budget.epsilon, rho=budget.rho, predicted=self.predicted)


@dataclass(frozen=True, eq=False)
class FormResult:
    """What a form released: a fine index for each level, what it was read from, and points.

    What bounds its error is computed when somebody asks, of what was released.
    """

    indices: tuple[int, ...]
    details: Mapping[str, Any]
    error: Callable[[], TailBound] | None = None
    points: tuple[int, ...] = ()  # that were selected on the way


@dataclass(frozen=True, kw_only=True)
class FormRule:
    """The public side of a release of quantiles: what was asked, what it may cost, and which form that makes."""

    form: Form  # what was asked for
    levels: tuple[Fraction, ...]
    codes: int  # how many codes the grid has
    budget: Budget  # of one unit, in epsilon or in rho
    delta: Fraction | None  # of an (epsilon, delta); then a tree in rho may be taken
    unit: Unit
    size: int | None  # a declared public number of records
    counted: bool = False  # whether a count of the records is released anyway, and paid for elsewhere
    predicted: bool = False  # whether `cells` takes its first breakpoints from the prediction

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise RangeError(f"form must be one of {', '.join(map(repr, FORMS))}, got {self.form!r}")
        if self.form == "codes" and self.codes > MOST_CODES:
            raise RangeError(
                'form="codes" counts every value of a bounded grid, and this one has more than 2**16; declare lower, '
                "upper and a coarser granularity, or leave form out"
            )
        if self.form == "select" and len(self.levels) > _MOST_SELECTED:
            raise RangeError(
                f'form="select" is for about ten levels, and takes up to {_MOST_SELECTED}, got {len(self.levels)}; '
                "leave form out"
            )
        if self.form in ("select", "codes") and not self.budget.is_pure:
            raise RangeError(f'form="{self.form}" has a pure price; give epsilon instead of rho, or leave form out')
        if self.form in ("select", "cells") and self._row_price < _SMALLEST_ROW_PRICE:
            raise RangeError(
                f'form="{self.form}" divides the budget, and one row has less than 2**-40 here; leave form out'
            )

    @property
    def rows(self) -> int:
        """How many rows a unit has at most: its price is divided among them."""
        return rows_of_unit(self.unit)

    @cached_property
    def settled(self) -> Decision | None:
        """The decision, where no count of the records is needed for it; else None."""
        if self.size is not None:
            return self.decide(self.size, share=Fraction(1))
        form = self._form(None)
        return None if form is None else self._decided(form, Fraction(1), None)

    @property
    def count_budget(self) -> Budget | None:
        """What one row pays for the count of the records; None where none is bought."""
        if self.settled is not None or self.counted:
            return None
        return self._of_row(self.budget.part(COUNT_SHARE))

    def after_count(self, size: int) -> Decision:
        """Decide with a count of the records that was released."""
        return self.decide(max(size, 1), share=Fraction(1) if self.counted else 1 - COUNT_SHARE)

    def decide(self, size: int, *, share: Fraction) -> Decision:
        """Decide for a public number of records and a share of the budget."""
        form = self._form(size, share)
        assert form is not None
        return self._decided(form, share, size)

    def tree(self, budget: Budget) -> QuantileTree:
        """Return the binary tree of the levels for what one row may spend."""
        return quantile_tree(self.levels, epsilon=budget.epsilon, rho=budget.rho)

    @cached_property
    def claims(self) -> Claims:
        """What the release promises, whatever the count of the records will be."""
        if self.settled is not None:
            row = self._claims(self.settled, self.size)
            return self.with_delta(for_unit(row, self.unit))
        context: Context = {**Claims.of(PureDP(1)).context, "unit": self.unit}
        if self.delta is not None:
            return Claims.of(ApproxDP(self.budget.amount, self.delta, **context))
        if not self.budget.is_pure:
            return Claims.of(ZCDP(self.budget.amount, **context))
        share = Fraction(0) if self.counted else COUNT_SHARE
        form = _PREDICTED_CELLS if self.predicted else _DEAREST_CODES if self._may_be_codes else _DEAREST_CELLS
        worst = share**2 / 2 + (1 - share) ** 2 * form
        epsilon = self.budget.amount
        return Claims.of(PureDP(epsilon, **context), ZCDP(worst * epsilon**2, **context))

    # --- the rule -----------------------------------------------------------------------------------------------------

    @property
    def _row_price(self) -> Fraction:
        """The epsilon of one row, or its rho, which is about its square."""
        return self._of_row(self.budget).amount

    def _of_row(self, budget: Budget) -> Budget:
        return budget.part(Fraction(1, self.rows if budget.is_pure else self.rows**2))

    @property
    def _may_be_codes(self) -> bool:
        """Whether the grid is counted code by code unless something is better: public numbers say so."""
        return self.form == "auto" and self.budget.is_pure and self.codes <= FEW_CODES

    @property
    def may_count_codes(self) -> bool:
        """Whether every code of the grid may be counted, as far as public numbers say."""
        return self.form == "codes" or self._may_be_codes

    def _form(self, size: int | None, share: Fraction = Fraction(1)) -> Chosen | None:
        """Return the form, or None if it depends on the number of records and that is not given."""
        many = len(self.levels)
        if self.form in ("tree", "codes"):
            return self.form
        if self.form == "auto":
            if many <= _FEW_LEVELS or self._row_price < _SMALLEST_ROW_PRICE:
                return "tree"
            if self._may_be_codes and (self.codes < _GROUPED_CODES or many >= _MANY_LEVELS):
                return "codes"
            if many == _FULL_TREE or (not self.budget.is_pure and many < _LEVELS_IN_RHO):
                return "tree"
        if size is None:
            return None
        if self.form != "auto":
            return self.form
        amount = float(self._row_price * share)
        if not self.budget.is_pure:
            return "cells" if 2 * math.sqrt(amount) * size >= _SIGNAL_IN_RHO else "tree"
        if many < _MANY_LEVELS and amount * size >= _SELECT_SIGNAL:
            return "select"
        if self._may_be_codes:
            return "codes"
        return "tree" if amount * size < _LEAST_SIGNAL else "cells"

    def _decided(self, form: Chosen, share: Fraction, size: int | None) -> Decision:
        """Return the form with its budget; with a delta the tree in rho, if its forecast is smaller."""
        pure = Decision(form=form, budget=self._of_row(self.budget.part(share)), predicted=self.predicted)
        if self.delta is None or form == "codes" or self.form in ("select", "cells"):
            return pure
        rho = Budget("rho", zcdp_within(self.budget.amount * share, self.delta))
        tree = Decision(form="tree", budget=self._of_row(rho))
        return tree if self._forecast(tree, size) < self._forecast(pure, size) else pure

    def _forecast(self, decision: Decision, size: int | None) -> float:
        """Forecast the largest gap, to compare forms: public numbers only."""
        many = len(self.levels)
        if decision.form == "tree":
            depth = tree_depth(many, branching=2)
            amount = float(decision.budget.amount)
            node = amount / depth if decision.budget.is_pure else math.sqrt(8 * amount / depth)
            (low, least), (high, most) = _around(many)
            share = (math.log(many) - math.log(low)) / (math.log(high) - math.log(low)) if high > low else 0.0
            return (least + share * (most - least)) / node
        if decision.form == "select":
            return _MEASURED_SELECT / float(decision.budget.amount)
        from sidelight.quantiles.forms.cells_plan import gap_forecast

        return gap_forecast(self.levels, size=max(size or 1, 1), epsilon=decision.budget.amount).largest

    # --- what it costs ------------------------------------------------------------------------------------------------

    def _claims(self, decision: Decision, size: int | None) -> Claims:
        """Return what a decision costs one row, by the parts that it meets one after another."""
        budget = decision.budget
        if decision.form == "tree":
            return self.tree(budget).claims
        from sidelight.quantiles.forms.codes import CodesPlan
        from sidelight.quantiles.forms.select import SelectPlan

        if decision.form == "codes":
            parts = CodesPlan(codes=self.codes, budget=budget).rounds
            return worst_case_branch([[Claims.of(PureDP(part.amount)) for part in parts]])
        assert size is not None
        if decision.form == "select":
            plan = SelectPlan.of(budget, size=size)
            counts = Claims.of(PureDP(plan.counts.amount))
            return worst_case_branch([[_selected(plan.points), counts, _selected(plan.targets)]])
        if not budget.is_pure:
            return Claims.of(ZCDP(budget.amount))
        cells = decision.cells_plan(self.levels, size)
        half = [_selected(Budget("epsilon", cells.breakpoints / 2))] * 2 if cells.breakpoints > 0 else []
        counted = [Claims.of(PureDP(each)) for each in (cells.coarse, cells.middle, cells.fine) if each > 0]
        return worst_case_branch([[*half, *counted]])

    def with_delta(self, claims: Claims) -> Claims:
        """Add the (epsilon, delta) that was asked for, where a tree in rho proves it."""
        if self.delta is None or self.settled is None or self.settled.budget.is_pure:
            return claims
        return Claims.of(*claims, ApproxDP(self.budget.amount, self.delta, **claims.context))


def _selected(budget: Budget) -> Claims:
    """Return what a tree of selections costs one row: on no path more than one selection of the whole budget would."""
    epsilon = budget.amount
    return Claims.of(PureDP(epsilon), ZCDP(epsilon**2 / 8))


def _around(many: int) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return the measured trees next to a number of levels; twice the last one beyond it."""
    known = list(_MEASURED_TREES.items())
    above = next((place for place, (levels, _) in enumerate(known) if levels >= many), len(known) - 1)
    below = above if known[above][0] <= many else above - 1
    return known[below], known[above]
