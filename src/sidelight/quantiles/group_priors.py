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

from sidelight.accounting import dearest_path
from sidelight.errors import RangeError
from sidelight.grid import Grid, Outcomes
from sidelight.group_table import GroupTable
from sidelight.noise import Source
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.predictions import Cauchy, Prior, hedge, is_prior, own_prior
from sidelight.predictions.origin import Origin, guess, released
from sidelight.quantiles.outcomes import check_reach
from sidelight.quantiles.prepared import CellPrior, PreparedGroupQuantiles, PreparedQuantiles, level_name
from sidelight.records import Table
from sidelight.release import Release
from sidelight.session import Answer
from sidelight.session.query import SurePrepared

Cell: TypeAlias = tuple[str, ...]
#: Of the price, for the quantiles of all rows that groups borrow from.
BORROW_SHARE = Fraction(18, 100)
#: The weight of knowing nothing beside a borrowed or an earlier value.
_HEDGE = 0.1
_FARTHEST = 1e300


def is_by_group(prediction: Any) -> bool:
    """Return whether a prediction is about groups: a mapping from labels, or an earlier table by group."""
    value = prediction.value if isinstance(prediction, Release) else prediction
    return isinstance(value, (Mapping, GroupTable))


@dataclass(frozen=True, eq=False)
class CellPriors:
    """The priors of each group, one for each level; None where nothing is known."""

    priors: Mapping[Cell, tuple[Prior, ...]]
    origin: Origin
    seeded: bool = False

    def compiled(self, grid: Outcomes) -> dict[Cell, CellPrior]:
        """Return them with their exact masses on a grid."""
        return {cell: compiled_on(grid, priors) for cell, priors in self.priors.items()}

    @property
    def description(self) -> dict[str, Any]:
        """What a release says about them."""
        told = {"/".join(cell): [prior.to_json() for prior in priors] for cell, priors in self.priors.items()}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode("utf-8")).hexdigest()
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
) -> CellPriors:
    """Read priors by group: {label: prior, or one for each level}, or an earlier release of quantiles by group.

    Args:
        prediction: What the user gave.
        cells: The labels of each group.
        keys: The key columns.
        names: What the levels are called in a table: "q25", ...
        default: The prior of someone who knows the bounds only, hedged with.
        grid: Of the outcomes.
    """
    seeded = isinstance(prediction, Release) and not prediction.private
    table = prediction.value if isinstance(prediction, Release) else prediction
    if isinstance(table, GroupTable):
        entry = prediction.circumstances.entry_id if isinstance(prediction, Release) else None
        told = "an earlier table by group" if entry is None else ""
        origin = guess(told) if entry is None else released(entry, "made with seeded noise" if seeded else "")
        found = _of_table(table, keys=keys, names=names, default=default, grid=grid)
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
    table: GroupTable, *, keys: Sequence[str], names: Sequence[str], default: Prior, grid: Outcomes
) -> dict[Cell, tuple[Prior, ...]]:
    """Return priors around the values of an earlier release, as wide as its levels lie apart; of supported groups."""
    if tuple(table.keys_of_groups) != tuple(keys):
        told, wanted = ", ".join(table.keys_of_groups), ", ".join(keys)
        raise RangeError(f"the earlier table is by {told or 'nothing'}, and this one by {wanted}")
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
            found[cell] = around([float(table[name][place]) for name in names], spread, default=default, grid=grid)
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

    Args:
        groups: The groups' part.
        cells: The labels of each group.
        known: The priors of groups of which something is known.
        total: The quantiles of all rows that the others borrow from.
        default: The prior of someone who knows nothing.
    """

    groups: PreparedGroupQuantiles
    cells: tuple[Cell, ...]
    known: Mapping[Cell, CellPrior]
    total: PreparedQuantiles | None
    default: Prior

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
        told = GroupTable(keys=value.keys_of_groups, groups=value.groups, columns=columns, notes=notes | value.notes)
        return replace(answer, value=told)


def with_cell_priors(
    groups: PreparedGroupQuantiles,
    *,
    prediction: Any,
    total: PreparedQuantiles | None,
    default: Prior,
    request: Mapping[str, str],
) -> PreparedCellPriors:
    """Return prepared quantiles by group whose groups have priors of their own. Opens no data.

    Args:
        groups: The groups' part, with its share of the price.
        prediction: A prediction by group, or None.
        total: The quantiles of all rows that groups borrow from, with their share, or None.
        default: The prior of someone who knows the bounds only.
        request: What the ledger is told otherwise than of the groups' part: the whole price, and who borrows.

    Raises:
        RangeError: the prediction has none of the groups, or reaches outside the grid.
    """
    cells = tuple(product(*groups.groups.keys))
    told, description, known = {**groups.request, **request}, groups.prediction, {}
    if prediction is not None:
        names = tuple(map(level_name, groups.rule.levels))
        read = read_cell_priors(
            prediction, cells=cells, keys=groups.keys, names=names, default=default, grid=groups.grid
        )
        for prior in {each for priors in read.priors.values() for each in priors}:
            check_reach(prior, groups.grid)
        known, description = read.compiled(groups.grid), read.description
        told["prediction"] = description["sha256"]
    return PreparedCellPriors(
        claims=groups.claims if total is None else dearest_path([[total.claims, groups.claims]]),
        request=told,
        labels=groups.labels,
        prediction=description,
        error=None,
        groups=groups,
        cells=cells,
        known=known,
        total=total,
        default=default,
    )


def compiled_on(grid: Outcomes, priors: tuple[Prior, ...]) -> CellPrior:
    """Return priors with their exact masses on a grid."""
    return CellPrior(priors, tuple(prior.compile(grid) for prior in priors))


def _read_all(answer: Answer) -> Sequence[float]:
    """Return the quantiles of all rows, in the order of their levels: a vector, or the one row of a table."""
    value = answer.value
    if isinstance(value, GroupTable):
        return [float(value[name][0]) for name in value.columns if name.startswith("q")]
    return [float(each) for each in value]


def total_levels(levels: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the levels that are released of all rows: the wanted ones and the quartiles.

    >>> len(total_levels([Fraction(1, 2)]))
    3
    """
    return tuple(sorted({*levels, Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)}))
