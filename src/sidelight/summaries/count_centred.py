"""Centred counts: less noise for persons who may be in many groups.

Instead of the counts v the integers n and 64·v - steps·n are released. A person who is in many groups moves them less
than the counts themselves (summaries proof page, section 2), and the counts follow from both.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Unpack

import numpy as np

from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, Claims, Context, Neighbours, native_claims, positive
from sidelight.guarantees.intervals import root_up
from sidelight.mechanisms.additive import SeveralGaussians
from sidelight.noise import Source, scale_up
from sidelight.records import Table
from sidelight.session.query import Answer
from sidelight.summaries.count_tables import PreparedGroupCounts, Whole, readable_counts
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.intervals import gaussian_bound
from sidelight.summaries.noise_choice import IntegerNoise, choose_noise, gaussian_variance

_STEPS = 64
#: Centred counts have noise in common; for a gain below 5 % of the standard deviation that is not worth it.
_WORTH = 0.9


@dataclass(frozen=True, kw_only=True)
class CentredCounts:
    """The noise scales of n and of 64·count - steps·n in each cell; a cell is (that + steps·n̂)/64.

    Guarantee: GDP(mu) for adding or removing one unit that is in at most `groups` of `cells` cells.
    """

    mu: Fraction
    steps: int
    count_scale: Fraction
    cell_scale: Fraction
    variance: float  # of a cell
    moved: int  # 64² D: by how much at most a unit moves the cells, squared

    def claims(self, **context: Unpack[Context]) -> Claims:
        """Return what the noisy count and cells prove together."""
        return native_claims(GDP(self.mu, **context), mechanism="rounded_gaussian")


def centred_counts(*, cells: int, groups: int, mu: Amount) -> CentredCounts:
    """Return the best centre for Gaussian counts of G = cells, g = groups; with groups << cells it is 0 (steps = 0).

    A cell has the standard deviation (√D + c)/μ instead of √g/μ, D = g(1-2c) + G c² (summaries proof page, section 2).

    >>> best = centred_counts(cells=100, groups=50, mu=1)
    >>> best.steps, round(best.variance ** 0.5, 2)
    (29, 5.48)
    """
    if not 1 <= groups <= cells:
        raise RangeError(f"a unit has from 1 to {cells} of {cells} cells, got groups={groups}")
    shift = positive(mu, name="mu")

    def spread(steps: int) -> int:
        """64² D: the most that a unit's cells move, squared."""
        return _STEPS**2 * groups - 2 * _STEPS * steps * groups + cells * steps * steps

    steps = min(range(_STEPS // 2 + 1), key=lambda s: sqrt(spread(s)) + s)
    if steps == 0:
        scale = scale_up(root_up(Fraction(spread(0))) / shift)
        return CentredCounts(
            mu=shift,
            steps=0,
            count_scale=Fraction(0),
            cell_scale=scale,
            variance=gaussian_variance(scale) / _STEPS**2,
            moved=spread(0),
        )
    # α² = c√D: the count's share of μ² is α²/(α² + D) = c/(c + √D)
    share = Fraction(round(steps / (steps + sqrt(spread(steps))) * 2**20), 2**20)
    count_scale = scale_up(root_up(1 / share) / shift)
    cell_scale = scale_up(root_up(spread(steps) / (1 - share)) / shift)
    noise = gaussian_variance(cell_scale) + steps**2 * gaussian_variance(count_scale)
    return CentredCounts(
        mu=shift,
        steps=steps,
        count_scale=count_scale,
        cell_scale=cell_scale,
        variance=noise / _STEPS**2,
        moved=spread(steps),
    )


def centred_noise(query: Grouped, groups: Groups, noise: IntegerNoise) -> CentredCounts | None:
    """Return how to centre counts where that has less noise than the best plain noise; public numbers only.

    Only for Gaussian noise, and for persons that count once in each group and are added or removed: others have no
    proof.
    """
    norms = groups.norms
    once = norms.linf == 1 and norms.neighbours is Neighbours.ADD_REMOVE and groups.schema.person is not None
    pure = query.epsilon is not None and query.delta is None
    if query.law == "laplace" or pure or not once or norms.l0 < 2 or groups.cells < 2:
        return None
    gaussian = choose_noise(norms, "gaussian", **query.price)
    assert gaussian.mu is not None
    best = centred_counts(cells=groups.cells, groups=min(norms.l0, groups.cells), mu=gaussian.mu)
    return best if best.steps and best.variance < _WORTH * noise.variance else None


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCentred(PreparedGroupCounts):
    """Centred counts of declared groups, ready to run."""

    everybody: Groups
    plan: CentredCounts

    def run(self, table: Table, source: Source) -> Answer:
        """Count persons by group and in all, add noise to both integers, and put the counts together."""
        exact = np.asarray(group_counts(table, self.groups).value).reshape(-1)
        persons = int(np.asarray(group_counts(table, self.everybody).value))
        noisy_persons, centred = self.noisy(exact, persons, source)
        plan, size = self.plan, len(self.cells)
        values = (centred + plan.steps * noisy_persons) / _STEPS
        shared = (plan.steps / _STEPS) ** 2 * gaussian_variance(plan.count_scale)
        own = plan.variance - shared
        shrunk = self.reading.shrunk(values, self.cells, variance=plan.variance, largest_eigenvalue=own + size * shared)
        sd = sqrt(plan.variance)
        confidence = self.reading.confidence
        sure = gaussian_bound(sd, confidence=confidence, cells=size)
        readable = readable_counts(shrunk, values, bound=sure, source=source)
        # of the sum of two rounded normal laws in 64ths: the normal quantile and one step of rounding for each
        reach = (gaussian_bound(_STEPS * sd, confidence=confidence) + 1 + plan.steps / 2) / _STEPS
        columns = {
            "count": readable,
            "unbiased": values,
            "noise_sd": np.full(size, sd),
            "low": np.maximum(values - reach, 0.0),
            "high": np.maximum(values + reach, 0.0),
        }
        return self.answer(columns)

    def noisy(self, exact: Whole, persons: int, source: Source) -> tuple[int, Whole]:
        """Return n and 64·v - steps·n with noise: all that is released, and all that a count is made of.

        For a person in at most g groups the second moves by at most 64·√D and n by 1; a person in no group moves the
        second by steps·√G, which is no more. The scales of both are those of GDP(mu) together.
        """
        plan = self.plan
        noise = SeveralGaussians(
            scales=(plan.count_scale, plan.cell_scale),
            corners=((Fraction(1), Fraction(plan.moved)),),
            neighbours=self.groups.norms.neighbours,
            unit=self.groups.unit,
            theorem="summaries proof page, section 2",
        )
        count, cells = noise.release([np.array([persons]), _STEPS * exact - plan.steps * persons], source)
        return int(count[0]), cells.astype(np.int64)


def everybody_of(groups: Groups) -> Groups:
    """Return the same rows in one group, each person once: those who pass the condition, in whatever group or none."""
    return groups_of(groups.schema, where=groups.where, max_rows_per_group=1)


def plain_noise(plan: CentredCounts) -> IntegerNoise:
    """Return a noise of the same standard deviation, for a bound on the error."""
    scale = Fraction(sqrt(plan.variance)).limit_denominator(2**20)
    return IntegerNoise(kind="gaussian", scale=scale, variance=plan.variance, mu=plan.mu)
