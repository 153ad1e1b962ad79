"""Where `cells` cuts a weak tail: inside the records, whether they thin out, end, or grow denser towards their end."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, logistic, uniform

from sidelight.grid import FloatGrid, exact_position
from sidelight.quantiles.forms.cells import _beyond
from sidelight.quantiles.forms.cells_plan import cells_plan
from sidelight.quantiles.forms.interpolation import Breakpoints
from sidelight.quantiles.tree import even_levels

RECORDS = 10_000
LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])


LAWS = {"arcsine": (beta(0.5, 0.5), 2), "U": (beta(0.4, 0.4), 2), "edges": (uniform(), 4), "tails": (logistic(), 4)}


@pytest.mark.parametrize(("law", "fewest"), LAWS.values(), ids=list(LAWS))
def test_cuts_lie_inside_the_records_of_a_weak_tail(law: object, fewest: int) -> None:
    """No cuts beyond all records: they separate nothing of the tail."""
    grid, places = FloatGrid(), np.asarray(law.ppf(LEVELS))  # type: ignore[attr-defined]
    points = tuple(grid.index_of(float(place)) for place in places)
    breakpoints = Breakpoints(grid, points, np.concatenate([[0.0], LEVELS, [1.0]]) * RECORDS)
    plan = cells_plan(even_levels(99), size=RECORDS, epsilon=Fraction(1, 10))
    cuts = _beyond(breakpoints, np.arange(1, 100) / 100, plan)
    shares = np.array([float(law.cdf(float(exact_position(grid, cut)))) for cut in cuts])  # type: ignore[attr-defined]
    below, above = shares[(shares > 0) & (shares < LEVELS[0])], shares[(shares < 1) & (shares > LEVELS[-1])]
    for side in (np.unique(below.round(9)), np.unique((1 - above).round(9))):
        assert side.size >= fewest
        assert np.diff([0.0, *np.sort(side), LEVELS[0]]).max() < 0.065, "no cell holds most of the tail"
