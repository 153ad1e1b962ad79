"""Quantiles by group with what is known of each: a prior for every group, an earlier release, or the total's quantiles.

Priors are public before the release, or released by a part of it that was paid for: they move accuracy, never the
guarantee of the groups' trees.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

from sidelight.errors import RangeError
from sidelight.grid import Grid, Outcomes
from sidelight.group_table import GroupTable
from sidelight.noise import Source
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.predictions import Cauchy, CompiledPrior, Prior, hedge
from sidelight.predictions.origin import Origin, guess, released
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


class PreparedGroups(Protocol):
    """Quantiles by group, prepared: run with a prior for each level of each cell."""

    @property
    def grid(self) -> Outcomes:
        """The grid of outcomes."""

    def run(
        self, table: Table, source: Source, *, by_cell: Sequence[tuple[CompiledPrior, ...]] | None = None
    ) -> Answer:
        """Release with these priors instead of the usual ones."""


@dataclass(frozen=True, eq=False)
class CellPriors:
    """The priors of each group, one for each level; None where nothing is known."""

    priors: Mapping[Cell, tuple[Prior, ...]]
    origin: Origin
    seeded: bool = False

    def compiled(self, grid: Outcomes) -> dict[Cell, tuple[CompiledPrior, ...]]:
        """Return them as exact masses on a grid."""
        return {cell: tuple(prior.compile(grid) for prior in priors) for cell, priors in self.priors.items()}

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
            if len(priors) not in (1, len(names)) or not all(isinstance(each, Prior) for each in priors):
                raise RangeError(
                    f"the prediction of group {'/'.join(cell)!r} must be a prior such as sl.priors.Cauchy(location, "
                    f"scale), or one for each of the {len(names)} levels"
                )
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
        compiled: The usual prior of each level.
        known: The compiled priors of groups of which something is known.
        total: The quantiles of all rows that the others borrow from.
        read_total: How the total's values are read from its answer.
        places: Where the groups' levels stand among those of the total.
        names: What the levels are called in the table.
        default: The prior of someone who knows nothing.
    """

    groups: PreparedGroups
    cells: tuple[Cell, ...]
    compiled: tuple[CompiledPrior, ...]
    known: Mapping[Cell, tuple[CompiledPrior, ...]]
    total: SurePrepared | None
    read_total: Callable[[Answer], Sequence[float]] | None
    places: tuple[int, ...]
    names: tuple[str, ...]
    default: Prior

    def run(self, table: Table, source: Source) -> Answer:
        """Release the total if groups borrow from it, then each group's quantiles with its own priors."""
        usual: tuple[CompiledPrior, ...] = self.compiled
        notes: dict[str, float] = {}
        if self.total is not None and self.read_total is not None:
            values = [float(each) for each in self.read_total(self.total.run(table, source))]
            spread = (values[-1] - values[0]) / 2
            chosen = [values[place] for place in self.places]
            grid = self.groups.grid
            usual = tuple(prior.compile(grid) for prior in around(chosen, spread, default=self.default, grid=grid))
            notes = {f"all_{name}": value for name, value in zip(self.names, chosen, strict=True)}
        answer = self.groups.run(table, source, by_cell=[self.known.get(cell, usual) for cell in self.cells])
        if not notes:
            return answer
        value = answer.value
        columns = {name: value[name] for name in value.columns}
        told = GroupTable(keys=value.keys_of_groups, groups=value.groups, columns=columns, notes=notes)
        return Answer(value=told, labels=answer.labels)


def total_levels(levels: Sequence[Fraction]) -> tuple[tuple[Fraction, ...], tuple[int, ...]]:
    """Return the levels that are released of all rows, quartiles among them, and where the wanted ones stand.

    >>> total_levels([Fraction(1, 2)])[1]
    (1,)
    """
    every = tuple(sorted({*levels, Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)}))
    assert all(one < other for one, other in pairwise(every))
    return every, tuple(every.index(level) for level in levels)
