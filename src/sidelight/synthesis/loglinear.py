"""Engine "loglinear": every marginal of the workload measured once, and one log-linear fit on drawn points.

For domains of any size, without any other package. Where most marginals are worth measuring, choosing among them buys
nothing and costs a tenth of the price and all of the time; so nothing is chosen. Large tables get the smaller noise.
The fit is the refit of the other engines in its dual form, on points that are drawn from released counts
(synthesis proof page, section 10).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import log
from typing import TypeAlias

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees import Claims
from sidelight.mechanisms.budget import Budget, together
from sidelight.noise import Source
from sidelight.progress import progress
from sidelight.synthesis.domain import Codes, Domain, distinct_rows
from sidelight.synthesis.engine_plan import check_sizes
from sidelight.synthesis.measurement import (
    MarginalMeasurement,
    PrivateMarginals,
    Protection,
    RowsEstimate,
    measure,
    released_digest,
)
from sidelight.synthesis.pooling import CountsPredictor, EarlierCounts, calibrated, pooled, relations_explained
from sidelight.synthesis.prior import MOST_RAW, DistributionPrior, EarlierReleases, PublicRowsPrior
from sidelight.synthesis.refit import Evidence, Fitted
from sidelight.synthesis.spaces import MOST_DENSE_CELLS, Floats, SupportSpace
from sidelight.synthesis.synthetic_rows import PublicEntropy
from sidelight.synthesis.tree_points import column_tables, draw_points
from sidelight.synthesis.workload import LinearQueries, Marginal, Marginals, Workload

#: Rows drawn for points; fewer of very many marginals, so that a step of the fit stays short, but never fewer than...
DRAWS, MOST_WORK, LEAST_DRAWS = 120_000, 60_000_000, 20_000
#: How much the drawn points count against the measurements: less than that needs more points.
POINTS_WEIGHT = 0.1
#: Steps of L-BFGS and how many of them it remembers.
STEPS, MEMORY = 80, 20
#: Marginals of three and more columns are measured where each cell has this many rows on average; else their pairs.
ROWS_PER_CELL = 10
#: All measured cells together: their counts, noise and factors stay in memory.
MOST_CELLS = 2 * MOST_DENSE_CELLS


@dataclass(frozen=True, kw_only=True)
class LogLinearPlan:
    """All marginals at once: which ones, and what each has of the price.

    Guarantee: `claims`, for whatever the rows are: one measurement of each marginal, composed (synthesis proof page,
    Theorem 3). The number of rows is not asked for: every measured marginal tells it.

    Args:
        domain, workload: What rows look like, and what should be answered well.
        price: The total.
        protection: Whom it protects.
        rows: The public number of rows, for replacing one; None for adding and removing.
        rows_like: About how many rows the table has, by public numbers; None if nothing says.
    """

    domain: Domain
    workload: Workload
    price: Budget
    protection: Protection = Protection()  # noqa: RUF009  # frozen
    rows: int | None = None
    rows_like: int | None = None

    def __post_init__(self) -> None:
        check_sizes(self.protection, rows=self.rows, rounds=None)
        largest = max(self.candidates, key=lambda each: each.cells(self.domain))
        cells = sum(each.cells(self.domain) for each in self.candidates)
        if largest.cells(self.domain) > MOST_DENSE_CELLS or cells > MOST_CELLS:
            raise RangeError(
                f"the {len(self.candidates)} marginals to measure have {cells:.3g} cells, the largest, {largest}, "
                f"{largest.cells(self.domain):.3g}; at most {MOST_CELLS:.2g} can be measured, of one marginal "
                f"{MOST_DENSE_CELLS:.2g}; ask for fewer columns, or coarser bins"
            )
        _ = self.claims

    @cached_property
    def candidates(self) -> tuple[Marginal, ...]:
        """The marginals that are measured, each once."""
        return tuple(dict.fromkeys(self._wanted()))

    def _wanted(self) -> Iterator[Marginal]:
        like = self.rows if self.rows_like is None else self.rows_like
        for part in self.workload.parts:
            for each in part.partitions(self.domain, closure=not isinstance(part, Marginals)):
                few = len(each.columns) <= 2 or isinstance(part, LinearQueries)
                if few or (like is not None and ROWS_PER_CELL * each.cells(self.domain) <= like):
                    yield each
                else:
                    yield from map(Marginal, combinations(each.columns, 2))

    @cached_property
    def shares(self) -> tuple[Fraction, ...]:
        """What each marginal has of the price: ∝ cells^(2/3) for Gaussian, cells^(1/2) for Laplace noise.

        The sum over all cells of the noise's deviation is then the least (synthesis proof page, Proposition 10).
        """
        power = 1 / 2 if self.price.is_pure else 2 / 3
        weights = [max(round(1024 * each.cells(self.domain) ** power), 1) for each in self.candidates]
        return tuple(Fraction(weight, sum(weights)) for weight in weights)

    @cached_property
    def prices(self) -> tuple[Budget, ...]:
        """The price of each marginal."""
        return tuple(self.price.part(share) for share in self.shares)

    @cached_property
    def claims(self) -> Claims:
        """What the whole release costs."""
        nothing = self.protection.bounded(np.zeros(2, np.int64), self.price.norm)
        return together([(1, each.on(nothing).claims) for each in self.prices])

    @property
    def draws(self) -> int:
        """How many rows are drawn for points."""
        return max(min(DRAWS, MOST_WORK // len(self.candidates)), LEAST_DRAWS)


#: Predictions that are rows, or can be drawn as rows.
KnownRows: TypeAlias = PublicRowsPrior | EarlierReleases


def known_rows(prior: DistributionPrior | None) -> KnownRows | None:
    """Return a prediction that this engine takes; refuse any other, before any charge."""
    if prior is None or isinstance(prior, (PublicRowsPrior, EarlierReleases)):
        return prior
    raise RangeError(
        "engine='loglinear' takes public rows or earlier releases as a prediction; weights of all cells need a dense "
        "engine"
    )


def release_loglinear(
    counts: PrivateMarginals, plan: LogLinearPlan, *, prior: KnownRows | None = None, source: Source
) -> Fitted:
    """Release a distribution on drawn points that fits all marginals of the plan.

    Guarantee: `plan.claims`, exact on the machine.
    """
    counts.prepare(each.columns for each in plan.candidates)
    with progress("measuring marginals", total=len(plan.candidates)) as step:
        measured = []
        for each, price in zip(plan.candidates, plan.prices, strict=True):
            measured.append(measure(counts, each, price=price, source=source))
            step()
    estimate = RowsEstimate(None if plan.rows is None else float(plan.rows)).with_sums(measured)
    # from here on released and public numbers alone: the draws need no secret
    with Source(PublicEntropy(released_digest(measured).hex())) as public:
        fitted = _fitted(plan, measured, measured, rows=estimate.rows, source=public)
        if prior is None:
            return fitted
        known, codes = _known(prior, fitted, plan.draws)
        explained = prior.trust * relations_explained(fitted, [known.counts(each.marginal).means for each in measured])
        counted = {name for each in plan.candidates for name in each.columns}
        others = [Marginal((name,)) for name in plan.domain.columns if name not in counted]
        evidence = pooled(fitted, known, wanted=others, trust=prior.trust)
        return _fitted(
            plan, measured, evidence, rows=estimate.rows, source=public, codes=codes, share=MOST_RAW * explained
        )


def _fitted(
    plan: LogLinearPlan,
    measured: Sequence[MarginalMeasurement],
    evidence: Sequence[Evidence],
    *,
    rows: float,
    source: Source,
    codes: Codes | None = None,
    share: float = 0.0,
) -> Fitted:
    """Draw points from the evidence and fit them to it; `share` of their weight starts on predicted rows."""
    tables = column_tables(plan.domain, evidence, rows=rows)
    drawn = draw_points(tables, plan.draws, source=source)
    weights = np.full(len(drawn), (1.0 - share) / len(drawn))
    if codes is not None and share > 0.0:
        drawn = np.concatenate([drawn, codes])
        weights = np.concatenate([weights, np.full(len(codes), share / len(codes))])
    points, start = distinct_rows(drawn, plan.domain.sizes, weights)
    space = SupportSpace(plan.domain, points)
    return Fitted(
        domain=plan.domain,
        rows=rows,
        space=space,
        weights=fit_weights(space, start, evidence, rows=rows),
        measurements=tuple(measured),
    )


def _known(prior: KnownRows, fitted: Fitted, draws: int) -> tuple[CountsPredictor, Codes]:
    """Return what a prediction says of counts, and at most about `draws` of its rows, all with the same weight."""
    if isinstance(prior, PublicRowsPrior):
        # sorted: every this many of them are spread over all kinds of rows
        return calibrated(fitted, prior.codes, trust=prior.trust), prior.codes[:: -(-len(prior.codes) // draws)]
    each_draws = max(draws // len(prior.releases), 1)
    parts = []
    for release in prior.releases:
        sums = np.cumsum(release.weights)
        steps = (np.arange(each_draws) + 0.5) / each_draws * sums[-1]
        places = np.minimum(np.searchsorted(sums, steps), len(sums) - 1)
        support = release.support
        parts.append(release.domain.unravel(places) if support is None else support[places])
    return EarlierCounts(prior.releases, prior.noises, rows=fitted.rows), np.concatenate(parts)


def fit_weights(space: SupportSpace, start: Floats, evidence: Sequence[Evidence], *, rows: float) -> Floats:
    """Return the weights W ∝ w·exp(Σ θ) that minimise Σ (N·M W - y)²/(2σ²) + τN·KL(W ‖ w), with one θ a measured cell.

    The dual, log Z(θ) - ⟨θ, y⟩/N + (τ/2N) Σ σ²θ², is smooth and convex without constraints: L-BFGS. Cells are scaled by
    about the second derivative, which halves the steps. A function of released numbers; the number of steps is bounded.
    """
    from scipy.optimize import minimize

    cells = [space.cells(each.marginal) for each in evidence]
    ends = np.cumsum([0, *(each.values.size for each in evidence)])
    places = [slice(first, last) for first, last in pairwise(ends.tolist())]
    shares = np.concatenate([each.values.reshape(-1) for each in evidence]) / rows
    squares = np.concatenate([np.broadcast_to(each.deviation, each.values.shape).reshape(-1) for each in evidence]) ** 2
    stiffness = POINTS_WEIGHT * squares / rows  # τσ²/N
    scales = 1.0 / np.sqrt(np.maximum(shares, np.sqrt(squares) / rows) + stiffness)
    with np.errstate(divide="ignore"):
        first_logs = np.log(start / start.sum())

    def weights_of(theta: Floats) -> tuple[Floats, float]:
        logs = first_logs.copy()
        for place, inside in zip(places, cells, strict=True):
            logs += theta[place][inside]
        top = float(logs.max())
        grown = np.exp(logs - top)
        total = float(grown.sum())
        return grown / total, top + log(total)

    def dual(scaled: Floats) -> tuple[float, Floats]:
        theta = scaled * scales
        weights, log_total = weights_of(theta)
        masses = [
            np.bincount(inside, weights, place.stop - place.start) for place, inside in zip(places, cells, strict=True)
        ]
        slope = np.concatenate(masses) - shares + stiffness * theta
        return log_total - float(theta @ shares) + float(stiffness @ theta**2) / 2, slope * scales

    options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "maxcor": MEMORY, "ftol": 0.0, "gtol": 1e-9}
    found = minimize(dual, np.zeros(len(shares)), jac=True, method="L-BFGS-B", options=options)
    return weights_of(found.x * scales)[0]
