"""Release quantiles in the form that the rule chose, other than the tree, with details and an error bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sidelight.aggregates.ranks import Ranks
from sidelight.noise import Source
from sidelight.quantiles.bounds import as_released
from sidelight.quantiles.forms.bound import codes_bound, select_bound
from sidelight.quantiles.forms.cells import CellsRelease, release_cells
from sidelight.quantiles.forms.cells_bound import cells_bound
from sidelight.quantiles.forms.codes import CodesPlan, CountedRounds, release_codes
from sidelight.quantiles.forms.focus import LevelPriors
from sidelight.quantiles.forms.least_squares import UNCOUNTED
from sidelight.quantiles.forms.rule import Decision, FormRule, Found
from sidelight.quantiles.forms.select import SelectedCells, SelectPlan, release_selected
from sidelight.quantiles.forms.skeleton import predicted_skeleton
from sidelight.release import TailBound


def release_form(
    rule: FormRule, decision: Decision, ranks: Ranks, *, size: int | None, priors: LevelPriors, source: Source
) -> Found:
    """Release the levels of a rule by `codes`, `select` or `cells`.

    Guarantee: `decision.budget` for adding or removing one record; exact on the machine. What is returned was released:
    no private count is in it.
    """
    levels, budget = rule.levels, decision.budget
    if decision.form == "codes":
        counting = CodesPlan(codes=rule.codes, budget=budget)
        indices, counted = release_codes(ranks, levels, grid=priors.grid, plan=counting, source=source)
        return Found(indices, _codes_details(counting, counted), codes_bound(counting, counted, levels))
    assert size is not None  # declared, or released
    if decision.form == "select":
        selecting = SelectPlan.of(budget, size=size)
        indices, selected = release_selected(ranks, levels, plan=selecting, priors=priors, source=source)
        error = _stated(select_bound(selecting, selected, levels), priors, indices, selected.points)
        return Found(indices, _select_details(selecting, selected), error)
    plan = decision.cells_plan(levels, size)
    cells = release_cells(
        ranks,
        levels,
        plan=plan,
        kind=budget.kind,
        priors=priors,
        source=source,
        skeleton=predicted_skeleton(plan.skeleton_levels, priors=priors) if decision.predicted else None,
    )
    error = _stated(cells_bound(cells), priors, cells.indices, cells.skeleton)
    return Found(cells.indices, cells_details(cells), error)


def _stated(error: TailBound, priors: LevelPriors, *released: Sequence[int]) -> TailBound:
    """Return a bound as it is stated; released values and points may show ties that nobody declared."""
    return as_released(error, priors.grid, *(map(priors.grid.value, each) for each in released))


def cells_details(cells: CellsRelease) -> dict[str, Any]:
    """Return what `cells` released on the way, in strings: points, noisy counts, and which leaves lack them."""
    return {
        "plan": cells.plan.to_json(),
        "skeleton": _texts(cells.skeleton),
        "points": _texts(cells.points),
        "counts": [_texts(each.counts[each.variances < UNCOUNTED].tolist()) for each in cells.rounds],
        "flagged": _texts(np.flatnonzero(cells.flags).tolist()),
        "uncounted": _texts(np.flatnonzero(cells.sides).tolist()),
    }


def _select_details(plan: SelectPlan, cells: SelectedCells) -> dict[str, Any]:
    return {"plan": plan.to_json(), "points": _texts(cells.points), "counts": [_texts(cells.noisy.tolist())]}


def _codes_details(plan: CodesPlan, counted: CountedRounds) -> dict[str, Any]:
    return {"width": str(plan.width), "counts": [_texts(each.tolist()) for each in counted.noisy]}


def _texts(numbers: Any) -> list[str]:
    return [str(int(each)) if each == int(each) else repr(each) for each in numbers]
