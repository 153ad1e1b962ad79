"""How far off a tree of selections is wherever the records lie and tie (quantiles proof page, section 4.7).

Every outcome of a public grid has a least share of the prior's mass. A selection finds the best outcome against all
others, whatever records are around it, at the price of the logarithm of that share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise

from sidelight.grid import CODE_LIMIT, FLOAT_CODE_LIMIT, Grid, Outcomes, digits_of
from sidelight.predictions import Mixture, Prior, ScaleFree
from sidelight.predictions.compiled import UNIT_BITS
from sidelight.predictions.scale_free import EVERYWHERE_BITS

#: Equal records that the bound allows for where no size is public: each 2**20 of them share one fine index.
EQUAL_RECORDS = 2**20
#: How many groups of so many equal records there may be: more than 2**40 records are on no machine.
_GROUPS = 2**20
#: The part of the failure probability that is kept for fine indices with more records than expected.
_CROWDED = 2.0**-10


def log_least_share(prior: Prior, grid: Outcomes) -> float:
    """Return log(1/psi), psi the least share of the prior that any fine index has, in every range.

    Every index has a unit of 2**128 (proof page, section 1.4). The scale-free prior gives each more: on floats its part
    that is even in the index, on steps a cell of at most as many codes as the largest one.
    """
    indices = grid.fine_last - grid.fine_first + 1
    unit = UNIT_BITS * math.log(2) + math.log1p(indices / 2**UNIT_BITS)
    if isinstance(prior, Mixture):
        shares = zip(prior.priors, prior.weights, strict=True)
        return min(unit, *(log_least_share(part, grid) - math.log(weight) for part, weight in shares))
    if not isinstance(prior, ScaleFree):
        return unit
    fine = grid.dither_bits * math.log(2)
    if isinstance(grid, Grid):
        if prior.resolution is not None or (prior.signs == "positive" and grid.first < 0):
            return unit
        largest = min(max(abs(grid.first), abs(grid.last)), CODE_LIMIT - 1) + 1
        return min(unit, math.log(prior.cells()) + math.log(largest) + fine + _ROUNDING)
    if prior.signs == "positive" and grid.first < 0:
        return unit
    codes = (2 if prior.signs == "both" else 1) * (FLOAT_CODE_LIMIT + 1)
    return min(unit, EVERYWHERE_BITS * math.log(2) + math.log(codes) + fine + _ROUNDING)


#: What the floors of the integer masses, and the unit that every index has besides, change a share by.
_ROUNDING = 1e-6


def equal_at_one_index(equal: int, dither_bits: int) -> tuple[float, float]:
    """Return a line a + b log(1/beta) that no fine index's number of records exceeds, but with probability beta/1024.

    Up to `equal` records of one code take 2**dither_bits indices at random: m of them share one with probability at
    most 2**dither_bits (equal / 2**dither_bits)**m / m!, for each of the groups that there may be.

    >>> [round(each, 2) for each in equal_at_one_index(2**20, 20)]
    [18.0, 0.34]
    """
    expected = equal / 2**dither_bits
    most = math.log(2.0**dither_bits * _GROUPS / _CROWDED)
    count = max(1, math.ceil(math.e * expected))
    while most + count * math.log(expected) - math.lgamma(count + 1) > 0:
        count += 1
    return float(count), 1 / math.log((count + 1) / expected)


#: Significant digits of a decimal that records without a step hardly ever have: one in 300,000 of the floats' codes.
_SHORT = 9
#: Records without a larger step have released values on one so rarely.
_LEAST_STEP, _LEAST_VALUES = 5, 3


def shows_ties(values: Iterable[float], grid: Outcomes) -> bool:
    """Return whether released values show ties that nobody declared: they coincide, or lie on a lattice.

    A function of released numbers. On floats a short decimal is met by chance alone in one of 300,000 values, but whole
    numbers are expected by the prior: only where all are whole do they say something. On declared steps values show a
    larger step if all are multiples of it.
    """
    found = sorted(values)
    if isinstance(grid, Grid):
        codes = {round(Fraction(value) / grid.resolution) for value in found}
        return grid.snap == "nearest" and len(codes) >= _LEAST_VALUES and math.gcd(*codes) >= _LEAST_STEP
    if any(low == high for low, high in pairwise(found)):
        return True
    whole = [value.is_integer() for value in found]
    if all(whole) and len(found) >= _LEAST_VALUES:
        return True
    return any(not each and digits_of(value) <= _SHORT for value, each in zip(found, whole, strict=True))
