"""`Distribution`: the whole distribution of one column with one budget, by cells or codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.aggregates import collect_ranks
from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError, explains_removed
from sidelight.grid import Grid, Outcomes
from sidelight.guarantees import Amount
from sidelight.guarantees.amounts import decimal_text, exact
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions import CompiledPrior, Histogram, Prior, describe, guess, hedge, is_prior, own_prior, released
from sidelight.quantiles.bounds import expected_gap
from sidelight.quantiles.descend import descend
from sidelight.quantiles.forms.rule import Decision, FormRule, codes_of
from sidelight.quantiles.outcomes import check_reach, default_prior, grid_to_json, number_of, outcome_grid, rehearse
from sidelight.quantiles.prepared import as_released, settle_form
from sidelight.quantiles.query import Quantiles
from sidelight.quantiles.tree import even_levels
from sidelight.records import Number, Schema, Table
from sidelight.release import Release, TailBound
from sidelight.release.earlier_dates import calendar_of, later_than
from sidelight.released_distribution import VENTILES, ReleasedDistribution
from sidelight.session import Answer, release_once
from sidelight.session.query import SurePrepared

Numbers = tuple[float, ...]
RankError = tuple[np.ndarray, np.ndarray]  # fixed and per_log of a `TailBound`

#: The levels of a distribution; and those of one with so few records that only a tree of selections works.
MANY = even_levels(999)
FEW = even_levels(15)
#: The weight of the default prior in a prediction from an earlier distribution.
_HEDGE = 0.1


@explains_removed
@dataclass(frozen=True)
class Distribution:
    """Release the whole distribution of one column: everything that can be read off a cumulative distribution, at once.

    Guarantee: PureDP(epsilon), or ZCDP(rho), for the schema's unit (one row, or one person with the declared number of
    rows) under adding or removing one; exact on the machine (quantiles proof page, Theorems 7 and 8).

    Accuracy: every rank is off by about as much as with 999 quantiles: 25 records at epsilon 1 and 10,000 records;
    `release.value.band(x)` bounds all ranks at once, `release.error_bound(0.95)` those of the quantiles that are shown.
    Data in undeclared tight clusters is harder: declare the
    granularity (docs/how-to/many-quantiles.md).

    Args:
        column: The column of a table; not for a bare array.
        epsilon, rho: The price, as one of the two.
        prediction: A prior, or an earlier release of a distribution, which is hedged.
        granularity: Of a bare array: the public step on which its values lie, such as 1 for ages.
        bounds: Of a bare array: public bounds, (0, 120) or (0, None). They may be left out, and wide ones do no harm.
        size: About how many records there are, if that is public; it saves the two percent that a count costs.

    >>> ages = list(range(18, 90)) * 20
    >>> release = Distribution(epsilon=1, granularity=1, bounds=(0, 120)).release(ages)
    >>> bool(0.4 < release.value.cdf(53) < 0.6)
    True
    """

    column: str | None = None
    epsilon: Amount | None = field(default=None, kw_only=True)
    rho: Amount | None = field(default=None, kw_only=True)
    prediction: Prior | Release | None = field(default=None, kw_only=True)
    granularity: Amount | None = field(default=None, kw_only=True)
    bounds: tuple[float | None, float | None] = field(default=(None, None), kw_only=True)
    size: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._as_quantiles()  # a budget or a size that cannot work is found now
        if is_prior(self.prediction):
            object.__setattr__(self, "prediction", own_prior(self.prediction))
        elif self.prediction is not None and not isinstance(self.prediction, Release):
            raise RangeError(
                "prediction must be a prior such as sl.priors.Cauchy(location, scale), or an earlier release of a "
                f"distribution, got {type(self.prediction).__name__}"
            )
        if isinstance(self.prediction, Release):
            prior_of(self.prediction)

    def _as_quantiles(self) -> Quantiles:
        """Return the same question about quantiles: what is declared and what it may cost is read there."""
        return Quantiles(
            [0.5],
            epsilon=self.epsilon,
            rho=self.rho,
            column=self.column,
            granularity=self.granularity,
            bounds=self.bounds,
            size=self.size,
        )

    def declare(self) -> Number:
        """Return the declaration of a bare array: its granularity and bounds as written in the query."""
        return self._as_quantiles().declare()

    def prepare(self, schema: Schema) -> PreparedDistribution:
        """Check the query against the schema, choose the grid and the prior, and price it. Opens no data."""
        number = number_of(self._as_quantiles(), schema)
        grid = outcome_grid(number)
        prior = self._prior(number)
        check_reach(prior, grid)
        rehearse(number, grid)
        budget = Budget.of(epsilon=self.epsilon, rho=self.rho)

        def rule(levels: Sequence[Fraction]) -> FormRule:
            return FormRule(
                form="auto",
                levels=tuple(levels),
                codes=codes_of(grid),
                budget=budget,
                delta=None,
                unit=schema.unit,
                size=self.size,
            )

        many, few = rule(MANY), rule(FEW)
        small = many.settled is not None and many.settled.form == "tree"
        if small and self.size is None:
            raise RangeError("so small a budget buys no distribution; ask for a few quantiles, or for more budget")
        price = {"epsilon": self.epsilon, "rho": self.rho}
        return PreparedDistribution(
            claims=few.claims if small else many.claims,
            request={
                "kind": "distribution",
                "column": number.name,
                **{key: decimal_text(exact(each, name=key)) for key, each in price.items() if each is not None},
                **({} if self.size is None else {"size": str(self.size)}),
                "grid": grid_to_json(grid),
                "priors": [prior.to_json()],
            },
            labels=tuple(f"{100 * level:.10g} %" for level in VENTILES),
            prediction=None
            if self.prediction is None
            else {"description": describe(prior), "priors": [prior.to_json()], "origin": prior.origin.to_json()},
            error=None,
            column=number.name,
            grid=grid,
            prior=prior,
            compiled=prior.compile(grid),
            many=many,
            few=few,
        )

    def _prior(self, number: Number) -> Prior:
        if self.prediction is None:
            return default_prior(number)
        if isinstance(self.prediction, Release):
            return hedge(prior_of(self.prediction, number), with_=default_prior(number), weight=_HEDGE)
        return self.prediction

    def release(self, data: Any) -> Release[ReleasedDistribution]:
        """Release from a bare array, Series or column, or a table, with exactly this query's budget and no ledger."""
        return release_once(self, data)


def prior_of(release: Release, number: Number | None = None) -> Histogram:
    """Return an earlier release of a distribution as a prediction for the next one.

    Args:
        release: What `sl.Distribution` released; not one made with seeded noise, which gives no privacy.
        number: The column that it predicts, whose dates may count from another start.

    Returns:
        A histogram that names the release's ledger entry as its origin. Hedge it (`sl.hedge`): where the new data went
        elsewhere it has no mass. `sl.Distribution(..., prediction=release)` does so by itself.

    >>> release = Distribution(epsilon=1, bounds=(0, 9), granularity=1).release([3, 4, 4, 5] * 200)
    >>> prior_of(release).origin.kind
    'guess'
    """
    value = release.value
    if not isinstance(value, ReleasedDistribution):
        raise RangeError(f"a prediction of a distribution is an earlier one, got a {release.kind} release")
    if not release.private:
        raise RangeError(
            "this distribution was made with seeded noise, which gives no privacy; nor would a prediction with it"
        )
    values, shares = value["values"], value["shares"]
    if number is not None:
        values = values - later_than(release.query, number.name, calendar_of(number))
    if value.steps:
        half = (value.granularity or 1.0) / 2
        edges, masses = np.append(values - half, values[-1] + half), np.diff(shares, prepend=0.0)
    else:
        edges, first = np.unique(values, return_index=True)
        masses = np.diff(np.append(shares[first], 1.0))
        if edges.size == 1:
            edges = np.array([edges[0], np.nextafter(edges[0] + abs(edges[0]) * 1e-9, np.inf)])
        masses = masses[: edges.size - 1]
    entry = release.circumstances.entry_id
    origin = released(entry) if entry else guess("an earlier distribution, which no ledger names")
    return Histogram(edges.tolist(), np.maximum(masses, 1e-9).tolist(), origin=origin)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDistribution(SurePrepared):
    """A `Distribution` fitted to a schema: its grid, its prior, and the rule of forms for many levels and for few."""

    column: str
    grid: Outcomes
    prior: Prior
    compiled: CompiledPrior
    many: FormRule
    few: FormRule

    is_additive = True

    def run(self, table: Table, source: Source) -> Answer:
        """Count ranks in one pass over the column, and release the distribution in the form that the rule says."""
        ranks = collect_ranks(table, self.column, self.grid, source)
        decision, size, deviation, found = settle_form(self.many, ranks, source)
        least, details = float(size or 1), dict[str, Any](found)
        if deviation is not None:
            least = max(int(found["count"]) - 2 * deviation, 1.0)
        details["form"] = decision.form
        if decision.form == "codes":
            return self._codes(decision, ranks, details, source)
        assert size is not None
        if decision.form == "tree":
            return self._tree(decision, ranks, size, least, deviation, details, source)
        return self._cells(decision, ranks, size, details, source)

    def _codes(self, decision: Decision, ranks: Ranks, details: dict[str, Any], source: Source) -> Answer:
        # forms are loaded where they are used
        from sidelight.quantiles.forms.codes import CodesPlan, codes_bound, moved_ranks, release_codes
        from sidelight.quantiles.forms.count_noise import least_total

        plan = CodesPlan(codes=self.many.codes, budget=decision.budget)
        _, counted = release_codes(ranks, MANY, grid=self.grid, plan=plan, source=source)
        total = float(counted.ranks[-1])
        codes = range(self.grid.first, self.grid.last + 1)
        values = np.array([self.grid.value(code << self.grid.dither_bits) for code in codes])
        shares = counted.ranks[1:] / total
        # the ranks between codes, where the distribution jumps, and those that are shown: one bound for all of them
        levels = np.unique(np.concatenate([shares[:-1], VENTILES]))
        error = codes_bound(plan, counted, levels.tolist(), both_sides=True)
        fixed, per_log = (np.asarray(each) for each in (error.fixed, error.per_log))
        at, shown = np.searchsorted(levels, shares[:-1]), np.searchsorted(levels, VENTILES)
        # Made to rise, a rank is off by as much more as it was moved; that of the last code is not off.
        rank_error = np.append(fixed[at] + moved_ranks(counted)[:-1], 0.0), np.append(per_log[at], 0.0)
        shown_error = replace(error, fixed=tuple(fixed[shown].tolist()), per_log=tuple(per_log[shown].tolist()))
        details["counts"] = [[str(int(each)) for each in noisy.tolist()] for noisy in counted.noisy]
        least = least_total(counted.rounds, total)
        return self._answer(values, shares, total, rank_error, shown_error, details, least=least, steps=True)

    def _cells(self, decision: Decision, ranks: Ranks, size: int, details: dict[str, Any], source: Source) -> Answer:
        from sidelight.quantiles.forms.cell_selection import LevelPriors
        from sidelight.quantiles.forms.cells import release_cells
        from sidelight.quantiles.forms.cells_bound import cells_bound
        from sidelight.quantiles.forms.count_noise import least_total

        found = release_cells(
            ranks,
            MANY,
            plan=decision.cells_plan(MANY, size),
            kind=decision.budget.kind,
            priors=LevelPriors(self.grid, MANY, [self.prior] * len(MANY), [self.compiled] * len(MANY)),
            source=source,
        )
        values = np.array([self.grid.value(index) for index in found.indices])
        details |= found.details
        least = least_total(found.rounds, found.total)
        points = map(self.grid.value, found.first_points)
        error = as_released(cells_bound(found), self.grid, values.tolist(), points)
        return self._read_off(values, MANY, found.total, error, details, least=least)

    def _tree(
        self,
        decision: Decision,
        ranks: Ranks,
        size: int,
        least: float,
        deviation: float | None,
        details: dict[str, Any],
        source: Source,
    ) -> Answer:
        tree = self.few.tree(decision.budget)
        indices = descend(tree, ranks, priors=self.compiled, source=source)
        values = np.array([self.grid.value(index) for index in indices])
        priors = [self.prior] * len(FEW)
        error = expected_gap(tree, priors, self.grid, size=size, deviation=deviation)
        error = as_released(error, self.grid, values.tolist())
        return self._read_off(values, FEW, float(size), error, details, least=least)

    def _read_off(
        self,
        values: np.ndarray,
        levels: Sequence[Fraction],
        total: float,
        error: TailBound,
        details: dict[str, Any],
        *,
        least: float,
    ) -> Answer:
        """Put released quantiles together; what is shown lies between two of them and is bounded by both."""
        shares, asked = np.array([float(level) for level in levels]), np.array(VENTILES)
        below = np.maximum(np.searchsorted(shares, asked + 1e-12) - 1, 0)
        above = np.minimum(np.searchsorted(shares, asked - 1e-12), shares.size - 1)
        away = [np.abs(asked - shares[side]) * total for side in (below, above)]

        def between(fixed: Numbers, per_log: Numbers) -> tuple[Numbers, Numbers]:
            off, slope = np.asarray(fixed), np.asarray(per_log)
            further = np.maximum(off[below] + away[0], off[above] + away[1])
            return tuple(further.tolist()), tuple(np.maximum(slope[below], slope[above]).tolist())

        return self._answer(
            values,
            shares,
            total,
            _rank_error(error),
            error.changed(between),
            details,
            least=least,
            likely=None if error.likely is None else _rank_error(error.likely),
        )

    def _answer(
        self,
        values: np.ndarray,
        shares: np.ndarray,
        total: float,
        rank_error: RankError,
        error: TailBound,
        details: dict[str, Any],
        *,
        least: float,
        steps: bool = False,
        likely: RankError | None = None,
    ) -> Answer:
        """Put the released numbers together, with the bounds of each rank: what `error` states, and the likely one.

        Bounds are in ranks of all the records that there are, and shares are of them: not of as many as were released
        but of the `least` number that there may be.
        """

        def scaled(bound: RankError) -> RankError:
            return bound[0] * (total / least), bound[1] * (total / least)

        value = ReleasedDistribution(
            values=values,
            shares=shares,
            total=total,
            steps=steps,
            granularity=float(self.grid.resolution) if isinstance(self.grid, Grid) else None,
            rank_error=scaled(rank_error),
            likely=None if likely is None else scaled(likely),
        )
        return Answer(value=value, error=error, details=details)


def _rank_error(bound: TailBound) -> RankError:
    return np.asarray(bound.fixed), np.asarray(bound.per_log)
