"""Counts of persons who are in nearly any number of the groups: less a share of all persons, with less noise.

Instead of the counts v the integers n and 64·v - steps·n are released. A person who is in many groups moves them less
than the counts themselves (summaries proof page, section 2), and the counts follow from both.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.guarantees import Neighbours
from sidelight.mechanisms.additive import SeveralGaussians
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count_tables import Reading, Whole, table_of
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.intervals import gaussian_bound
from sidelight.summaries.noise_choice import CentredCounts, Noise, centred_counts, choose_noise, gaussian_variance
from sidelight.summaries.nonnegative import readable_counts
from sidelight.summaries.predicted import Group

_STEPS = 64
#: Centred counts have noise in common; for a gain below 5 % of the standard deviation that is not worth it.
_WORTH = 0.9


def centred_noise(query: Grouped, groups: Groups, noise: Noise) -> CentredCounts | None:
    """Return how to centre counts where that has less noise than the counts themselves; public numbers only.

    Only for Gaussian noise, and for persons that count once in each group and are added or removed: others have no
    proof.

    Args:
        query: The price; one of epsilon alone has no Gaussian noise.
        groups: The checked groups.
        noise: The best plain noise of this price.
    """
    norms = groups.norms
    once = norms.linf == 1 and norms.neighbours is Neighbours.ADD_REMOVE and groups.schema.person is not None
    pure = query.epsilon is not None and query.delta is None
    if query.noise == "laplace" or pure or not once or norms.l0 < 2 or groups.cells < 2:
        return None
    gaussian = choose_noise(norms, **query.price, noise="gaussian")
    assert gaussian.mu is not None
    best = centred_counts(cells=groups.cells, groups=min(norms.l0, groups.cells), mu=gaussian.mu)
    return best if best.steps and best.variance < _WORTH * noise.variance else None


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCentred(SurePrepared):
    """Centred counts of declared groups, ready to run."""

    groups: Groups
    everybody: Groups
    plan: CentredCounts
    cells: tuple[Group, ...]
    keys: tuple[str, ...]
    reading: Reading
    counted: str

    @property
    def adds_up(self) -> bool:
        """Whether rows are only added up."""
        return self.groups.label is None

    def run(self, table: Table, source: Source) -> Answer:
        """Count persons by group and in all, add noise to both integers, and put the counts together."""
        exact = np.asarray(group_counts(table, self.groups).value).reshape(-1)
        persons = int(np.asarray(group_counts(table, self.everybody).value))
        noisy_persons, centred = self.noisy(exact, persons, source)
        plan, size = self.plan, len(self.cells)
        values = (centred + plan.steps * noisy_persons) / _STEPS
        shared = (plan.steps / _STEPS) ** 2 * gaussian_variance(plan.count_scale)
        own = plan.variance - shared
        drawn_values = self.reading.drawn(
            values, self.cells, variance=plan.variance, largest_eigenvalue=own + size * shared
        )
        sd = sqrt(plan.variance)
        confidence = self.reading.confidence
        sure = gaussian_bound(sd, confidence=confidence, cells=size)
        readable = readable_counts(drawn_values, values, bound=sure, source=source)
        # of the sum of two rounded normal laws in 64ths: the normal quantile and one step of rounding for each
        reach = (gaussian_bound(_STEPS * sd, confidence=confidence) + 1 + plan.steps / 2) / _STEPS
        columns = {
            "count": readable,
            "unbiased": values,
            "noise_sd": np.full(size, sd),
            "low": np.maximum(values - reach, 0.0),
            "high": np.maximum(values + reach, 0.0),
        }
        return Answer(value=table_of(self.keys, self.cells, columns, of=self.counted, **self.groups.notes))

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


def plain_noise(plan: CentredCounts) -> Noise:
    """Return a noise of the same standard deviation, for a bound on the error."""
    scale = Fraction(sqrt(plan.variance)).limit_denominator(2**20)
    return Noise(kind="gaussian", scale=scale, variance=plan.variance, mu=plan.mu)
