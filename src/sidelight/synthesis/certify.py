"""From the rounds of an engine and the distribution that is released to error bounds: post-processing.

The distance is taken to the distribution as it is packed into the release, rounded, because that is what
answers.

Every sum of a measured marginal tells the number of rows, and so do the first noisy number and the average of all sums.
Around each lies an interval that holds the number of rows; the bound is the distance to the far end of what they have
in common (synthesis proof page, Theorem 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, log2, sqrt

import numpy as np

from sidelight.synthesis.answer_bounds import NoiseTail, bound_marginals, bound_measured_queries, bound_queries
from sidelight.synthesis.answers import ErrorBounds, kind_of
from sidelight.synthesis.domain import Mass
from sidelight.synthesis.engine_plan import MarginalPlan
from sidelight.synthesis.loglinear import LogLinearPlan
from sidelight.synthesis.measurement import MarginalMeasurement, NoisyRows
from sidelight.synthesis.refit import Fitted
from sidelight.synthesis.selection import QuerySpace
from sidelight.synthesis.single_queries import SingleQueryPlan
from sidelight.synthesis.spaces import DenseSpace, Floats, Space, SupportSpace
from sidelight.synthesis.workload import Marginal

CONFIDENCE = 0.95

#: Of the failure probability, for the first noisy number of rows: fixed, because that number has a say in how many
#: rounds there are, and so in how often the rest is divided.
FIRST_SHARE = 0.05

#: More than the rounding of floats, relative to a bound and to the number of rows.
_ROUNDING = 1e-9


def certified(fitted: Fitted, mass: Mass, plan: MarginalPlan | LogLinearPlan | SingleQueryPlan) -> ErrorBounds:
    """Bound the errors of the answers of a release that was made by this plan.

    Guarantee: costs nothing, a function of released numbers. All bounds hold at once with probability 95 % over the
    noise, for whatever rows the counts are of; all but the first number of rows share the probability evenly (synthesis
    proof page, Theorem 8).
    """
    if isinstance(plan, SingleQueryPlan):
        return _certified_queries(fitted, mass, plan)
    if not fitted.measurements:
        return ErrorBounds(confidence=CONFIDENCE)
    known = [each for record in fitted.rounds for each in record.candidates]
    measured = [each.marginal for each in fitted.measurements]
    ungrouped = [Marginal(each.columns) for each in measured if not each.fine]
    wanted = list(dict.fromkeys([*known, *measured, *ungrouped]))
    final = dict(zip(wanted, released_counts(mass, wanted, rows=fitted.rows), strict=True))
    # a selection, and norm, sum and single queries of the noise, for each measurement; and the number of rows
    first_failure = 0.0 if fitted.first_rows is None else FIRST_SHARE * (1.0 - CONFIDENCE)
    failure = (1.0 - CONFIDENCE - first_failure) / (4 * len(fitted.measurements) + 1)
    sizes = [each.cells(plan.domain) for each in plan.candidates]
    rows = bound_rows(
        fitted.measurements,
        fitted.rows,
        first=fitted.first_rows,
        sizes=sizes,
        failure=failure,
        first_failure=first_failure,
    )
    sums = bound_marginals(fitted.rounds, fitted.measurements, final, failure=failure)
    queries = bound_measured_queries(fitted.measurements, final, failure=failure)
    most = 2 * fitted.rows + rows  # all counts of the table and all of the release
    return ErrorBounds(
        confidence=CONFIDENCE,
        rows=_outwards(rows, fitted.rows),
        marginals={each: _outwards(min(bound, most), fitted.rows) for each, bound in sums.items()},
        queries={key: _outwards(bound, fitted.rows) for key, bound in queries.items()},
    )


def _certified_queries(fitted: Fitted, mass: Mass, plan: SingleQueryPlan) -> ErrorBounds:
    queries = QuerySpace(plan.blocks, _space(mass))
    final = fitted.rows * queries.answers(_masses(mass))
    law = "laplace" if plan.price.kind == "epsilon" else "gaussian"
    failure = (1.0 - CONFIDENCE) / (2 * len(fitted.answered))
    bounds = bound_queries(fitted.query_rounds, final, law=law, failure=failure)
    ends = np.cumsum([block.count for block in plan.blocks])
    largest = [float(part.max()) for part in np.split(bounds, ends[:-1])]
    return ErrorBounds(
        confidence=CONFIDENCE,
        queries={
            (block.columns, kind_of(block)): _outwards(bound, fitted.rows)
            for block, bound in zip(plan.blocks, largest, strict=True)
            if np.isfinite(bound)
        },
    )


def released_counts(mass: Mass, wanted: Sequence[Marginal], *, rows: float) -> list[Floats]:
    """Return the counts that a release answers for partitions."""
    return [rows * each for each in _space(mass).marginals(_masses(mass), wanted)]


def _space(mass: Mass) -> Space:
    return DenseSpace(mass.domain) if mass.support is None else SupportSpace(mass.domain, mass.support)


def _masses(mass: Mass) -> Floats:
    return np.asarray(mass.units / mass.total, np.float64)


def _outwards(bound: float, rows: float) -> float:
    return bound * (1.0 + _ROUNDING) + rows * _ROUNDING


def bound_rows(
    measurements: Sequence[MarginalMeasurement],
    rows: float,
    *,
    first: NoisyRows | None,
    sizes: Sequence[int],
    failure: float,
    first_failure: float | None = None,
) -> float:
    """Bound how far the number of rows that count is from `rows`, with probability 1 - failure - first_failure.

    `first` is None where the number of rows is public, which says nothing about rows that lie in no cell. `sizes` are
    the numbers of cells that a measurement could have had. `rows` may be any function of released numbers.

    Where `first` has a say in how many measurements there are, its own part of the probability must be fixed before it
    is drawn: `first_failure`. Without it, their number was fixed, and all is part of `failure`.
    """
    each_side = failure / (2 * (len(measurements) + 2))
    numbers = [
        (float(each.values.sum()), NoiseTail(each.law, each.scale).sum_level(each.values.size, each_side))
        for each in measurements
    ]
    numbers.append(average_of_sums(measurements, sizes=sizes, each_side=each_side))
    if first is not None:
        its_side = each_side if first_failure is None else first_failure / 2
        numbers.append((first.value, NoiseTail(first.law, first.scale).sum_level(1, its_side)))
    least = max(number - level for number, level in numbers)
    most = min(number + level for number, level in numbers)
    return max(most - rows, rows - max(least, 0.0), 0.0)


def average_of_sums(
    measurements: Sequence[MarginalMeasurement], *, sizes: Sequence[int], each_side: float
) -> tuple[float, float]:
    """Return the average of the sums with inverse variances, and what its error exceeds with at most this probability.

    Which sizes come later depends on earlier noise, and so do the weights. Chernoff's method bears that for values of
    its parameter that are fixed before: some that suit all sizes that were possible, each with its part of the
    probability.
    """
    least = min(each.deviation for each in measurements)
    weights = [(least / each.deviation) ** 2 / each.values.size for each in measurements]
    whole = sum((least / each.deviation) ** 2 for each in measurements)  # the weights if each had one cell
    smallest, largest = min(sizes), max(sizes)
    count = 1 + ceil(log2(largest / smallest) / 2)
    cost = log(count / each_side)
    tilts = np.sqrt(2 * cost / whole * np.geomspace(smallest, largest, count)) / least
    if measurements[0].law == "laplace":  # θ times a weight must stay below 1/b; let one do so whatever the sizes are
        tilts[0] = min(tilts[0], 0.9 * sqrt(2) * smallest / least)
    levels = [
        sum(
            each.values.size * NoiseTail(each.law, each.scale).log_moment(tilt * weight)
            for each, weight in zip(measurements, weights, strict=True)
        )
        / tilt
        + cost / tilt
        for tilt in tilts.tolist()
    ]
    total = sum(weight * float(each.values.sum()) for each, weight in zip(measurements, weights, strict=True))
    return total / sum(weights), min(levels) / sum(weights)
