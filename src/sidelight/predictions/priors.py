"""What every prior can do, the one seam between predictions and algorithms, and how its numbers are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.grid import Outcomes
from sidelight.predictions.compiled import UNIT, CompiledPrior, PiecewiseCDF
from sidelight.predictions.origin import Origin
from sidelight.records.numbers import exact_number

# How the numbers that describe a prior are read: finite floats, meant as the decimals that they print as.

Numeric = float | int | str | Decimal | Fraction


def finite(value: Numeric, *, name: str) -> float:
    """Read a finite number."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(exact_number(value, name=name) if isinstance(value, (str, Decimal, Fraction)) else value)
    except (TypeError, ValueError, OverflowError):  # exact_number's refusal is a ValueError, too
        shown = repr(value)[:40]
        raise RangeError(f"{name} must be a finite number, got {shown}; write it as a decimal") from None
    if not math.isfinite(number):
        raise RangeError(f"{name} must be a finite number, got {number}; a prior has no infinite parameter")
    return number


def exact_positive(value: Numeric, *, name: str, advice: str) -> Fraction:
    """Read a number above zero exactly."""
    number = exact_number(value, name=name)
    if number <= 0:
        raise RangeError(f"{name} must be positive, got {value}; {advice}")
    return number


def positive(value: Numeric, *, name: str) -> float:
    """Read a finite number above zero."""
    number = finite(value, name=name)
    if number <= 0:
        raise RangeError(f"{name} must be positive, got {number}; give the typical distance of a wrong guess")
    return number


def as_decimal(number: float) -> Fraction:
    """Return the shortest decimal that reads back as this float: 0.3 means 3/10, as it does in a grid's resolution."""
    return Fraction(repr(number))


def text_of(written: Mapping[str, object], key: str) -> str:
    """Return a field that must be there as text."""
    value = written.get(key)
    if not isinstance(value, str):
        raise RangeError(f"a stored prior needs the field {key!r} as text, got {value!r}")
    return value


def texts_of(written: Mapping[str, object], key: str) -> list[str]:
    """Return a field that must be there as a list of texts."""
    value = written.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RangeError(f"a stored prior needs the field {key!r} as a list of texts, got {value!r}")
    return value


class Prior(Protocol):
    """A public law on the outputs: where the answer is expected. It changes accuracy, never the guarantee.

    `compile` and `piecewise_cdfs` serve the release path (only integers reach the records). The others are floats for
    simulation, bounds and diagnostics, vectorised, and stable in the tails; intervals are (lower, upper].

    For type checkers alone: release code asks priors about records, so which classes are priors is a closed list,
    `mixture.LAWS`.
    """

    @property
    def origin(self) -> Origin:
        """Return where the prediction came from."""

    @property
    def needs_hedge(self) -> bool:
        """Return whether being wrong costs ranks in proportion to the mistake, so that mixing is advised."""

    def log_mass(self, lower: ArrayLike, upper: ArrayLike) -> NDArray[np.float64]:
        """Return log mu((lower, upper]), -inf for an empty interval."""

    def inverse_in(self, lower: ArrayLike, upper: ArrayLike, v: ArrayLike) -> NDArray[np.float64]:
        """Map uniform v in (0, 1) to a draw from mu restricted to (lower, upper]."""

    def cdf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((-inf, x])."""

    def sf(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return mu((x, inf)), accurate where it is tiny."""

    def piecewise_cdfs(self, grid: Outcomes, weight: int) -> tuple[PiecewiseCDF, ...]:
        """Return integer cumulative masses on the grid that add up to at most `weight`, each with its own knots."""

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""

    def to_json(self) -> dict[str, object]:
        """Return nested strings; `prior_from_json` is the inverse."""


class PriorLaw:
    """What the laws share: exact masses on a grid, and a description in strings that `prior_from_json` reads."""

    family: str

    def piecewise_cdfs(self, grid: Outcomes, weight: int) -> tuple[PiecewiseCDF, ...]:
        """Return integer cumulative masses on the grid, as in `Prior`."""
        raise NotImplementedError

    def compile(self, grid: Outcomes) -> CompiledPrior:
        """Return the exact integer masses that a release on this grid uses."""
        return CompiledPrior(grid.fine_first, grid.fine_last, self.piecewise_cdfs(grid, UNIT))

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        origin = values.pop("origin")
        numbers = {key: [*map(repr, each)] if isinstance(each, tuple) else repr(each) for key, each in values.items()}
        return {"family": self.family, **numbers, "origin": origin.to_json()}
