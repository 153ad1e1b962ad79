"""Which values may come out: the column, the public grid of a release, and the prior without a prediction."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sidelight.aggregates.collect_ranks import encoding_of
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import CODE_LIMIT, MANTISSA_BITS, FloatGrid, Grid, Outcomes
from sidelight.guarantees.amounts import decimal_text
from sidelight.predictions import Mixture, Prior, ScaleFree, Uniform, guess
from sidelight.records import Number, Schema
from sidelight.records.numbers import check_steps

#: Steps within declared bounds, for a release that needs equal steps: each is about a millionth of the range.
STEPS = 2**20


def number_of(query: Any, schema: Schema) -> Number:
    """Return the column that a query asks about, as its schema declares it."""
    if query.column is None:
        if len(schema.columns) == 1 and isinstance(schema.columns[0], Number):
            return schema.columns[0]
        raise SchemaError(
            f"which column? The schema has {', '.join(column.name for column in schema.columns)}; "
            "write Quantiles(..., column=...)"
        )
    number = schema.number(query.column)
    lower, upper = query.bounds
    said = {"granularity": query.granularity, "lower": lower, "upper": upper}
    doubled = [name for name, given in said.items() if given is not None]
    if doubled:
        raise SchemaError(
            f"what is known of column {query.column!r} stands in its schema, and the query has "
            f"{' and '.join(doubled)}; declare sl.Number({query.column!r}, {doubled[0]}=...) and leave it out here"
        )
    return number


def outcome_grid(number: Number) -> Outcomes:
    """Choose the grid from public knowledge: the declared granularity, else all floats.

    Data on a declared granularity is snapped to the nearest step. The
    floats have a relative step of 2**-48 whatever the bounds: bounds cut the range and never set a step.
    """
    if number.granularity is not None:
        return step_grid(number)
    lowest = FloatGrid.lowest if number.lower is None else _float_inside(number.lower, up=True)
    highest = FloatGrid.highest if number.upper is None else _float_inside(number.upper, up=False)
    if lowest > highest:
        raise RangeError(
            f"no floating-point number lies within [{number.lower}, {number.upper}], the bounds of {number.name!r}; "
            "declare wider bounds"
        )
    return FloatGrid(lowest=lowest, highest=highest)


def step_grid(number: Number, *, resolution: Fraction | None = None) -> Grid:
    """Return a grid of equal steps: the granularity, the resolution, or a millionth of the declared bounds."""
    if number.granularity is not None and resolution is not None:
        raise RangeError(
            f"column {number.name!r} has granularity {number.granularity}, so resolution={resolution} is idle; "
            "leave one of them out"
        )
    if number.granularity is not None:
        step = Fraction(number.granularity)
    elif resolution is not None:
        step = resolution
    elif number.lower is not None and number.upper is not None:
        # the largest power of two within the range: then x / step is exact in floating point
        step = Fraction(2) ** (math.frexp(float(number.upper - number.lower))[1] - 1) / STEPS
    else:
        raise RangeError(f"column {number.name!r} has no bounds, so a step must be given: granularity or resolution")
    if step <= 0:
        raise RangeError(f"resolution must be positive, got {step}")
    check_steps(number.name, step, number.lower, number.upper)
    # Bounds are rounded inwards: no value outside them is ever released. Records beyond them are clamped.
    first = -CODE_LIMIT if number.lower is None else math.ceil(Fraction(number.lower) / step)
    last = CODE_LIMIT if number.upper is None else math.floor(Fraction(number.upper) / step)
    if first > last:
        raise RangeError(
            f"no multiple of {step} lies within [{number.lower}, {number.upper}], the bounds of {number.name!r}; "
            "use a finer granularity or resolution, or wider bounds"
        )
    return Grid(resolution=step, first=first, last=last, snap="floor" if number.granularity is None else "nearest")


def check_reach(prior: Prior, grid: Outcomes) -> None:
    """Refuse a prediction that expects the answer where a grid without bounds ends: its records would be clamped."""
    if isinstance(prior, Mixture):
        for part in prior.priors:
            check_reach(part, grid)
    elif isinstance(grid, Grid) and not isinstance(prior, ScaleFree):
        limit = float(CODE_LIMIT * grid.resolution)
        above = grid.last == CODE_LIMIT and float(prior.sf(limit)) > 0.5
        below = grid.first == -CODE_LIMIT and float(prior.cdf(-limit)) > 0.5
        if above or below:
            raise RangeError(
                f"the prediction expects the answer more than 2**61 steps of {decimal_text(grid.resolution)} from 0, "
                f"where values are cut at {limit:.4g}; use a coarser granularity or resolution, or neither of them"
            )


@lru_cache(maxsize=64)  # of public numbers; what fails is not remembered
def rehearse(number: Number, grid: Outcomes) -> None:
    """Code the two ends and read them back: public work that must not fail for the first time after a charge."""
    encoding_of(number, grid).codes(np.array([-np.inf, np.inf]))
    for index in (grid.fine_first, grid.fine_last):
        if not math.isfinite(grid.value(index)):
            raise RangeError(f"the ends of {number.name!r} are no floating-point numbers; declare narrower bounds")


def default_prior(number: Number) -> Prior:
    """Return the prior of someone who predicts nothing: every scale alike, balanced with the bounds if there are two.

    Inside bounds it is half uniform, half scale-free, and each half is conditioned on its own, so that wide bounds cost
    at most (2Δ/ε) log 2 ranks a node against none (quantiles proof page, Theorem 6).
    """
    one_sided = number.lower is not None and number.lower >= 0
    scale_free = ScaleFree(signs="positive" if one_sided else "both")
    if number.lower is None or number.upper is None:
        return scale_free
    lower, upper = float(number.lower), float(number.upper)
    if not lower < upper or math.isinf(upper - lower):
        return scale_free
    origin = guess("no knowledge but the bounds")
    return Mixture([0.5, 0.5], [Uniform(lower, upper), scale_free], origin=origin, conditioned="parts")


def grid_to_json(grid: Outcomes) -> dict[str, str]:
    """Describe a grid for ledger and report, in strings."""
    ends = {"first": str(grid.first), "last": str(grid.last), "dither_bits": str(grid.dither_bits)}
    if isinstance(grid, Grid):
        return {"resolution": decimal_text(grid.resolution), **ends, "snap": grid.snap}
    bounds = {"lowest": repr(grid.lowest), "highest": repr(grid.highest)}
    return {"kind": "float", "mantissa": str(MANTISSA_BITS), **bounds, **ends}


def _float_inside(bound: Fraction, *, up: bool) -> float:
    """Return the double nearest to a bound on its inner side."""
    limit = FloatGrid.highest
    value = float(min(max(bound, Fraction(-limit)), Fraction(limit)))
    if up and value < bound:
        return min(math.nextafter(value, math.inf), limit)
    if not up and value > bound:
        return max(math.nextafter(value, -math.inf), -limit)
    return value
