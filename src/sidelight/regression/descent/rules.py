"""The rules of descent: how the budget is divided, how many passes, where gradients are clipped, how long a step is.

Functions of public and of released numbers alone. The constants were fitted to generated data; none of them matters
for privacy (descent proof page).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, exact

Kind = Literal["squared", "logistic", "softmax"]
GeometryKind = Literal["private", "public", "none"]
#: What was released of the columns after the first matrix: nothing, counts of distances, or these and a second matrix.
SecondLook = Literal["none", "counts", "matrix"]

#: Public rows a feature from which a geometry is made of them.
PUBLIC_ROWS_A_FEATURE = 4
#: Features up to which a geometry is released, and those of sparse rows, which a map makes dense.
_MOST_MAPPED, _MOST_SPARSE_MAPPED = 1000, 100
#: Upper bounds of the loss's curvature.
CURVATURE: dict[Kind, float] = {"squared": 1.0, "logistic": 0.25, "softmax": 0.5}
_GRAM: dict[Kind, Fraction] = {"squared": Fraction(1, 4), "logistic": Fraction(1, 10), "softmax": Fraction(1, 10)}
#: Of a second look at the columns, out of the steps' share: the counts of distances, and the matrix.
_SCALES, _SECOND_GRAM = Fraction(1, 20), Fraction(3, 20)
_GUARD, _COUNT, _CHOICE = Fraction(1, 5), Fraction(3, 100), Fraction(1, 10)
#: Of the last sum, which sets the constants of classes.
_OFFSET = Fraction(3, 100)
_MOST_ODDS = 10**6
#: Passes with a large and with a small noise, and the noise between.
_PASSES, _FEW_PASSES, _MUCH_NOISE = 16, 8, 0.2
#: Noise up to which fewer points are averaged.
_LITTLE_NOISE = 0.01
#: The step of the constant column where passes are few.
_LONG_STEP = 1.8
#: Without a geometry: passes, the step in rows, what of a step is kept for the next, the clip.
PLAIN_PASSES, PLAIN_STEP, PLAIN_MOMENTUM, PLAIN_CLIP = 20, 2.0, 0.9, 1.0


def most_mapped(*, sparse: bool) -> int:
    """Return up to how many features a geometry is released unless the user says which."""
    return _MOST_SPARSE_MAPPED if sparse else _MOST_MAPPED


@dataclass(frozen=True, kw_only=True)
class Shares:
    """What each part gets of mu²; they add up to 1.

    Args:
        gram: Of the noisy Gram matrix.
        count: Of the noisy number of rows.
        choice: Of the choice between predictions and none.
        offset: Of the sum of (probability - label), which sets the constants of classes.
        steps: Of all steps together.
        scales: Of the counts of distances, where there was a second look at the columns.
        second_gram: Of its Gram matrix.
    """

    gram: Fraction
    count: Fraction
    choice: Fraction
    offset: Fraction
    steps: Fraction
    scales: Fraction = Fraction(0)
    second_gram: Fraction = Fraction(0)

    def with_look(self, look: SecondLook) -> Shares:
        """Return the same with a second look at the columns, which the steps pay for."""
        scales = Fraction(0) if look == "none" else _SCALES
        matrix = _SECOND_GRAM if look == "matrix" else Fraction(0)
        return replace(self, steps=self.steps - scales - matrix, scales=scales, second_gram=matrix)


def shares(
    kind: Kind, geometry: GeometryKind, *, candidates: bool, rows_declared: bool, intercept: bool = True
) -> Shares:
    """Return how mu² is divided; what a part does not need goes to the steps.

    >>> shares("squared", "private", candidates=False, rows_declared=False).steps
    Fraction(3, 4)
    >>> shares("logistic", "public", candidates=True, rows_declared=True).steps
    Fraction(67, 100)
    """
    gram = {"private": _GRAM[kind], "public": _GUARD, "none": Fraction(0)}[geometry]
    count = Fraction(0) if rows_declared or geometry == "private" else _COUNT
    choice = _CHOICE if candidates else Fraction(0)
    offset = _OFFSET if kind != "squared" and intercept else Fraction(0)
    steps = 1 - gram - count - choice - offset
    return Shares(gram=gram, count=count, choice=choice, offset=offset, steps=steps)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The steps of one descent: all of it follows from released numbers.

    Args:
        noise: The noise of one full step relative to the step (x of the proof page); above 1 the noise outweighs the
            rows.
        passes: How many steps.
        tail: How many of the last points are averaged.
        clip_share: The clip of a residual (c).
        clip: The clip of a row's gradient (C = c·q).
        step: The length of a step (η), in units of one over rows times curvature.
        constant_step: The same for the constant column.
    """

    noise: float
    passes: int
    tail: int
    clip_share: float
    clip: float
    step: float
    constant_step: float

    def lengths(self, columns: int, *, intercept: bool) -> NDArray[np.float64]:
        """Return the length of a step in each column of z, the constant one last."""
        found = np.full(columns, self.step)
        if intercept:
            found[-1] = self.constant_step
        return found


def schedule(
    kind: Kind,
    *,
    trace: float,
    columns: int,
    intercept: bool,
    outputs: int,
    rows: float,
    mu_steps: float,
    step_factor: float | None = None,
    residual: float | None = None,
    rows_per_unit: int = 1,
    passes: int | None = None,
) -> Schedule:
    """Return passes, clip and step.

    Args:
        kind: The loss.
        trace: The mean square of a mapped row, without its constant column.
        columns: The columns of a mapped row.
        intercept: Whether one of them is constant.
        outputs: Predictors of a row.
        rows: The released or declared number of rows.
        mu_steps: What all steps together may cost.
        step_factor: The factor (1 - √(d/m))² of a public geometry; None for a released one.
        residual: The residual deviation of public rows that the start came from, in half ranges; else None.
        rows_per_unit: How many rows a person may have.
        passes: A number of passes instead of the rule's.
    """
    length = math.sqrt(trace + intercept)
    size = columns * outputs / 2 if outputs > 2 else columns
    noise = rows_per_unit * length * math.sqrt(size) / (mu_steps * rows)
    taken = passes if passes is not None else _PASSES if noise <= _MUCH_NOISE else _FEW_PASSES
    share = clip_share(kind, noise, residual=residual)
    step = constant = 1.2 if kind == "squared" else 2.8
    if step_factor is not None:
        step = (1.0 if kind == "squared" else 2.8) * max(0.1, step_factor)
        # what is not known of the covariance does not touch the constant column
        constant = constant if kind == "squared" and residual is None else step
    if kind == "squared" and residual is None and noise > _MUCH_NOISE:
        # the constant of a skewed target has a long way to go from the middle of its range, in few clipped steps
        constant = _LONG_STEP
    return Schedule(
        noise=noise,
        passes=taken,
        # early points of a classifier are still on their way; where there is little noise, fewer are averaged
        tail=max(1, taken // 4 if kind != "squared" and noise <= _LITTLE_NOISE else taken * 3 // 4),
        clip_share=share,
        clip=share * length,
        step=step,
        constant_step=constant,
    )


def clip_share(kind: Kind, noise: float, *, residual: float | None = None) -> float:
    """Return c: larger where the noise is small, about one residual where it is not.

    >>> round(clip_share("squared", 0.05), 6), clip_share("softmax", 0.2)
    (0.473286, 0.5)
    """
    if kind == "squared" and residual is not None:
        return min(1.0, residual * min(4.0, 1.2 * max(1.0, math.sqrt(0.1 / noise))))
    if kind == "squared":
        return min(max(0.4 * math.sqrt(0.07 / noise), 0.15), 1.0)
    if kind == "logistic":
        return min(max(0.5 * math.sqrt(0.05 / noise), 0.12), 0.5)
    return min(max(math.sqrt(0.05 / noise), 0.25), 1.0)


def odds_of(given: Amount) -> Fraction:
    """Check the odds of a prediction against none.

    >>> odds_of(9)
    Fraction(9, 1)
    """
    odds = exact(given, name="odds")
    if not Fraction(1, _MOST_ODDS) <= odds <= _MOST_ODDS or odds.denominator > _MOST_ODDS:
        raise RangeError(
            f"odds must lie between 1e-6 and 1e6, got {given}; 9 believes a prediction nine times as much as none, and "
            "1 as much"
        )
    return odds


class FitShares(Protocol):
    """The shares of mu² that every fit has."""

    @property
    def count(self) -> Fraction: ...
    @property
    def choice(self) -> Fraction: ...
    @property
    def steps(self) -> Fraction: ...
