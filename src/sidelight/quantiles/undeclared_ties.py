"""What released quantiles show about ties, lattices and spikes that nobody declared: then no error is called likely."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from sidelight.grid import Grid, Outcomes, digits_of
from sidelight.release import TailBound

#: Significant digits of a decimal that records without a step hardly ever have: one in 300,000 of the floats' codes.
_SHORT = 9
#: Released values nearer to each other than this share of their median distance show a spike; of many values less.
_COINCIDE, _COINCIDE_IN_ALL = 1e-4, 1e-2
#: Records without a larger step have released values on one so rarely.
_LEAST_STEP, _LEAST_VALUES = 5, 3
#: So many released values show nothing by their distances, and are off together.
_HIDES = 2


def shows_ties(values: Iterable[float], grid: Outcomes) -> bool:
    """Return whether released values show undeclared ties: they coincide, or nearly, or lie on a lattice.

    On floats a short decimal is met by chance in one of 300,000 values, but whole numbers are expected by the prior:
    only where all are whole do they say something. On declared steps all values may be multiples of a larger step.
    """
    found = sorted(values)
    if isinstance(grid, Grid):
        codes = {round(Fraction(value) / grid.resolution) for value in found}
        return grid.snap == "nearest" and len(codes) >= _LEAST_VALUES and math.gcd(*codes) >= _LEAST_STEP
    distances = sorted(high - low for low, high in pairwise(found))
    nearest = min(_COINCIDE, _COINCIDE_IN_ALL / max(len(distances), 1))
    if distances and distances[0] <= nearest * distances[len(distances) // 2]:
        return True
    whole = [value.is_integer() for value in found]
    if all(whole) and len(found) >= _LEAST_VALUES:
        return True
    return any(not each and digits_of(value) <= _SHORT for value, each in zip(found, whole, strict=True))


def as_released(error: TailBound, grid: Outcomes, *released: Iterable[float]) -> TailBound:
    """Return a bound as it is stated after a release: without its likely error where released values show ties.

    Two values on floats show nothing, and beside a narrow spike they were beyond the likely error nearly always, which
    single values never were: it is not stated for two.
    """
    found = [tuple(each) for each in released]
    hidden = not isinstance(grid, Grid) and any(len(each) == _HIDES for each in found)
    return replace(error, likely=None) if hidden or any(shows_ties(each, grid) for each in found) else error
