"""Which values may come out: the public grid of a release, and the prior when nobody predicts anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.grid import CODE_LIMIT, Grid
from sidelight.predictions import Prior, ScaleFree, Uniform
from sidelight.records import Number

#: Steps within the scale of a prior, or within declared bounds: a step is about a millionth of what is known.
STEPS = 2**20
#: The step when nothing at all is known: values from 2**-20 to 2**40 in size are told apart.
BLIND_RESOLUTION = Fraction(1, 2**20)


def outcome_grid(number: Number, priors: Sequence[Prior], *, resolution: Fraction | None = None) -> Grid:
    """Choose the grid from public knowledge: granularity, else bounds, else the scale of the prediction.

    Data on a declared granularity is snapped to the nearest step; other data is rounded down to the step.
    """
    if number.granularity is not None:
        if resolution is not None:
            raise RangeError(
                f"column {number.name!r} has granularity {number.granularity}, so resolution={resolution} is idle; "
                "leave one of them out"
            )
        step, snap = Fraction(number.granularity), "nearest"
    else:
        step, snap = _step_of(number, priors) if resolution is None else resolution, "floor"
    if step <= 0:
        raise RangeError(f"resolution must be positive, got {step}")
    # Bounds are rounded inwards: no value outside them is ever released. Records beyond them are clamped.
    first = -CODE_LIMIT if number.lower is None else math.ceil(Fraction(number.lower) / step)
    last = CODE_LIMIT if number.upper is None else math.floor(Fraction(number.upper) / step)
    first, last = max(first, -CODE_LIMIT), min(last, CODE_LIMIT)
    if first > last:
        raise RangeError(
            f"no multiple of {step} lies within [{number.lower}, {number.upper}], the bounds of {number.name!r}; "
            "use a finer granularity or resolution, or wider bounds"
        )
    return Grid(resolution=step, first=first, last=last, snap="nearest" if snap == "nearest" else "floor")


def default_prior(number: Number) -> Prior:
    """Return the prior of someone who predicts nothing: uniform within the bounds, else every scale alike."""
    if number.lower is not None and number.upper is not None and number.lower < number.upper:
        return Uniform(float(number.lower), float(number.upper))
    one_sided = number.lower is not None and number.lower >= 0
    return ScaleFree(signs="positive" if one_sided else "both")


def _step_of(number: Number, priors: Sequence[Prior]) -> Fraction:
    scales = [prior.scale_hint for prior in priors if prior.scale_hint is not None]
    if scales:
        return _power_of_two(min(scales)) / STEPS
    if number.lower is not None and number.upper is not None and number.lower < number.upper:
        return _power_of_two(float(number.upper - number.lower)) / STEPS
    return BLIND_RESOLUTION


def _power_of_two(size: float) -> Fraction:
    """Return the largest power of two that is not above `size`: then x / step is exact in floating point."""
    return Fraction(2) ** (math.frexp(size)[1] - 1)
