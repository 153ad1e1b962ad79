"""What an engine releases: a distribution on the domain, the number of rows, and the measurements behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.synthesis.domain import Codes, Domain
from sidelight.synthesis.measurement import MarginalMeasurement, NoisyRows
from sidelight.synthesis.selection import AnsweredQuery, MarginalRound, QueryRound
from sidelight.synthesis.spaces import Floats, Space, SupportSpace
from sidelight.synthesis.workload import Marginal

#: A released cell this many deviations above 0 without a point of the support is worth a word.
_CLEARLY_THERE = 4.0


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted:
    """A released distribution. `weights` belong to the points of `space`; with a graphical model both are None.

    `measurements` are whole marginals, `answered` the single queries of `engine="mwem"`; error bounds are computed from
    `rounds` and `query_rounds`. `first_rows` is the first noisy number of rows; None if it is public, or `rows` itself.

    Everything here is released: functions of noisy numbers, the prior and nothing else.
    """

    domain: Domain
    rows: float
    space: Space | None
    weights: Floats | None = field(repr=False)
    measurements: tuple[MarginalMeasurement, ...] = field(repr=False)
    first_rows: NoisyRows | None = None
    answered: tuple[AnsweredQuery, ...] = field(default=(), repr=False)
    rounds: Sequence[MarginalRound] = field(default=(), repr=False)
    query_rounds: Sequence[QueryRound] = field(default=(), repr=False)
    graphical: Any = field(default=None, repr=False)

    @property
    def support(self) -> Codes | None:
        """The rows that carry weight, coded; None if these are all cells of the domain in their order."""
        return self.space.codes if isinstance(self.space, SupportSpace) else None

    def marginals(self, wanted: Sequence[Marginal]) -> list[Floats]:
        """Return the fitted mass of each cell of each partition; times `rows` it estimates the counts."""
        if self.space is None:
            return [each.grouped(self.graphical.marginal(each.columns)) for each in wanted]
        assert self.weights is not None
        return self.space.marginals(self.weights, wanted)

    def marginal(self, columns: Sequence[str]) -> Floats:
        """Return the fitted mass of each combination of columns, axes in the order given."""
        names = tuple(columns)
        order = self.domain.in_order(names)
        if len(order) != len(names):
            raise RangeError("a marginal names each of its columns once")
        (found,) = self.marginals([Marginal(order)])
        return np.transpose(found, [order.index(name) for name in names])

    def weights_on(self, space: Space) -> Floats:
        """Return the masses at the points of another space of the same domain."""
        if self.space is None or self.weights is None:
            raise RangeError("a graphical model has no list of weights; predict from a dense release or from its rows")
        mine, theirs = self.support, space.codes if isinstance(space, SupportSpace) else None
        if mine is None:
            return self.weights if theirs is None else self.weights[self.domain.ravel(theirs)]
        if theirs is None:
            return np.asarray(np.bincount(self.domain.ravel(mine), self.weights, self.domain.cells), np.float64)
        known = dict(zip(map(bytes, np.ascontiguousarray(mine)), self.weights.tolist(), strict=True))
        return np.array([known.get(row, 0.0) for row in map(bytes, np.ascontiguousarray(theirs))])

    def measured(self, columns: Sequence[str]) -> MarginalMeasurement | None:
        """Return the last measurement of exactly these columns; None if their marginal is model-based."""
        order = self.domain.in_order(columns)
        found = [each for each in self.measurements if each.marginal == Marginal(order)]
        return found[-1] if found else None

    def missed_regions(self) -> list[tuple[Marginal, tuple[int, ...]]]:
        """Return measured cells that clearly have rows but no point of the support: the public rows miss this region.

        From released numbers; empty for dense domains.
        """
        if not isinstance(self.space, SupportSpace):
            return []
        found = []
        covered = self.space.marginals(np.ones(self.space.points), [each.marginal for each in self.measurements])
        for each, points in zip(self.measurements, covered, strict=True):
            missed = np.argwhere((points == 0) & (each.values > _CLEARLY_THERE * each.deviation))
            found += [(each.marginal, tuple(int(code) for code in cell)) for cell in missed]
        return found
