"""A prior as exact integer masses on the fine indices of a grid: what the sampler sees.

Hand-made because a guarantee depends on it: the mass of an outcome must be a positive function of that outcome alone,
and floats are neither. C(j), the mass below index j, is a public, strictly increasing integer function with
C(j+1) - C(j) >= 1, so every outcome is possible whatever the data (quantiles proof page, section 1.4).

Nothing is tabulated: a piece on which all components are lines is computed when a lookup meets it, so that compiling
costs microseconds however large the grid is. A compiled prior never changes: it is public, lies in a prepared query and
outlives the release, and a piece that it remembered would tell where records lie. A selection, a tree of them or a form
with several trees remembers the pieces that it met in a copy of its own (`fresh`), which ends with it.

`Prior`, what every prior can do, is the one seam between predictions and algorithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.grid import Outcomes
from sidelight.mechanisms.rings import Adaptation, Bracket, Masses, adapt
from sidelight.predictions.origin import Origin
from sidelight.predictions.pieces import Height, Pieces, PiecewiseCDF, heights_at
from sidelight.records.numbers import exact_number

#: The numbers that describe a prior: finite floats, meant as the decimals that they print as.
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
        return CompiledPrior(grid.fine_first, grid.fine_last, self.piecewise_cdfs(grid, UNIT)).rehearsed()

    def to_json(self) -> dict[str, object]:
        """Return strings only."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        origin = values.pop("origin")
        numbers = {key: [*map(repr, each)] if isinstance(each, tuple) else repr(each) for key, each in values.items()}
        return {"family": self.family, **numbers, "origin": origin.to_json()}


#: The mass that a prior spreads, on top of the single unit that every index has.
UNIT_BITS = 128
UNIT = 1 << UNIT_BITS
#: A part with less mass in a range is left out of it: its few steps would become point masses.
LEAST_PART = 1 << 20


class ConditionedPart(NamedTuple):
    """Components that are conditioned as one, and the mass that they have in every range."""

    components: int  # how many of the prior's list, in order
    weight: int


class CompiledPrior:
    """C(j) = (j - first) + the mass of all components below j, that below `first` subtracted.

    With `parts` each part is conditioned to first..last on its own, so that its weight is the same in every range:
    C(j) = (j - first) + sum over parts of floor(weight * (T(j) - T(first)) / (T(last + 1) - T(first))).

    Guarantee: C depends on j alone, strictly increases, and `inverse` is its exact inverse: for every position below
    `total`, C(inverse(position)) <= position < C(inverse(position) + 1).
    """

    __slots__ = ("_parts", "_pieces", "_recent", "_shares", "_shift", "_single", "first", "last", "total")

    def __init__(
        self,
        first: int,
        last: int,
        components: Sequence[PiecewiseCDF],
        *,
        parts: Sequence[ConditionedPart] = (),
        pieces: Pieces | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self._pieces = Pieces(components) if pieces is None else pieces
        self._parts = tuple(parts)

    def __getattr__(self, name: str) -> Any:
        """Look at the ends of the range when a mass is first asked for: many priors are only adapted to others."""
        if name not in ("_recent", "_single", "total", "_shares", "_shift"):
            raise AttributeError(name)
        first, last = self.first, self.last
        recent = self._pieces.at(first)
        low, high = heights_at(recent, first), heights_at(self._pieces.at(last + 1), last + 1)
        total, shift, start = last + 1 - first, -first, 0
        if not self._parts:
            shift -= sum(low)
            total += sum(high) - sum(low)
        shares: list[tuple[int, int, int, int, int]] = []
        for part in self._parts:
            end = start + part.components
            base, rise = sum(low[start:end]), sum(high[start:end]) - sum(low[start:end])
            if rise >= LEAST_PART:
                shares.append((start, end, base, part.weight, rise))
                total += part.weight  # at the end it has risen by all of its rise
            start = end
        self._recent, self._shift, self.total = recent, shift, total
        #: Whether one line says it all, which is then evaluated in place.
        self._single = not self._parts and len(recent[2]) == 1 and isinstance(recent[2][0], tuple)
        #: For each part: from which line to which, its height at `first`, its weight, and what it rises.
        self._shares = shares
        return getattr(self, name)

    def rehearsed(self) -> CompiledPrior:
        """Return it after a look at the ends of its range: what can fail, fails now, and threads may share it."""
        _ = self.total
        return self

    def fresh(self) -> CompiledPrior:
        """Return the same masses for one run, which remembers there what it looked up; those of a run as they are."""
        if self._pieces.kept:
            return self
        own = CompiledPrior.__new__(CompiledPrior)
        for name in CompiledPrior.__slots__:
            setattr(own, name, getattr(self, name))
        own._pieces = self._pieces.fresh()
        return own

    def cumulative(self, index: int) -> int:
        """Return C(index), the mass of all outcomes below it; clamped beyond the ends."""
        if index <= self.first:
            return 0
        if index > self.last:
            return self.total
        start, end, lines = self._recent
        if not start <= index < end:  # the records around a quantile mostly lie in one piece
            start, end, lines = piece = self._pieces.at(index)
            if self._pieces.kept:
                self._recent = piece
        return self._value(lines, index)

    def inverse(self, position: int, around: Bracket | None = None) -> int:
        """Return the index j with C(j) <= position < C(j+1), for 0 <= position < total.

        Whoever knows C(low) <= position < C(high) gives these `around` it, and spares the search for them.
        """
        low, value, high, high_value = around or self._bracket(position)
        # C(low) = value <= position < C(high) = high_value: look at the piece on the line between, or in the middle.
        by_line = True
        while True:
            near = low + (position - value) * (high - low) // (high_value - value) if by_line else (low + high) // 2
            by_line = not by_line
            start, end, lines = self._pieces.all_lines_at(near)
            if start <= low and high <= end:
                return self._within(lines, position, low, value, high, high_value)
            start, end = max(start, low), min(end, high)
            if (bottom := self._value(lines, start)) > position:
                high, high_value = start, bottom
                continue
            if (top := self._value(lines, end - 1)) > position:
                return self._within(lines, position, start, bottom, end - 1, top)
            if end == high or (above := self.cumulative(end)) > position:
                return end - 1
            low, value = end, above

    def _bracket(self, position: int) -> Bracket:
        """Return indices around a position, with their masses."""
        start, end, _ = self._recent
        # Bracket the position by doubling steps away from where the last question was: most lie near it.
        step, low = end - start, max(start, self.first)
        value = high_value = self.cumulative(low)
        high = low
        while value > position:
            high, high_value = low, value
            low = max(low - step, self.first)
            value = self.cumulative(low)
            step *= 2
        while high_value <= position:
            low, value = high, high_value
            high = min(high + step, self.last + 1)
            high_value = self.cumulative(high)
            step *= 2
        return low, value, high, high_value

    def adapted(self, first: int, last: int, adaptation: Adaptation) -> Masses:
        """Return the prior of a tree node whose outcomes are first..last."""
        if self._parts and adaptation == "conditional" and self.first <= first <= last <= self.last:
            if (first, last) == (self.first, self.last):
                return self
            return CompiledPrior(first, last, (), parts=self._parts, pieces=self._pieces)
        return adapt(self, first, last, adaptation)

    def _within(self, lines: tuple[Height, ...], position: int, low: int, bottom: int, high: int, top: int) -> int:
        """Find the index inside one piece, C(low) = bottom <= position < C(high) = top: a guess on the line, put right.

        The lines must hold from `low` to `high` - 1.
        """
        if self._single:
            # C(j) = floor(((slope + divisor) j + offset + shift * divisor) / divisor) <= position, solved for j
            slope, offset, divisor = lines[0]  # type: ignore[misc]
            return min(((position + 1 - self._shift) * divisor - offset - 1) // (slope + divisor), high - 1)
        step = 1
        while high - low > 1:
            # The floors leave the line by a few units; where they are coarse (a part conditioned to little mass) the
            # guesses close in from both ends by doubling steps, so that the search is never longer than a bisection.
            guess = low + (position - bottom) * (high - low) // (top - bottom)
            guess = min(max(guess, low + 1), high - 1)
            value = self._value(lines, guess)
            if value <= position:
                low, bottom = guess, value
                ahead = min(low + step, high)
                if ahead < high and (value := self._value(lines, ahead)) > position:
                    high, top = ahead, value
                elif ahead < high:
                    low, bottom = ahead, value
            else:
                high, top = guess, value
                behind = max(high - step, low)
                if behind > low and (value := self._value(lines, behind)) <= position:
                    low, bottom = behind, value
                elif behind > low:
                    high, top = behind, value
            step *= 2
        return low

    def _value(self, lines: tuple[Height, ...], index: int) -> int:
        """Return C(index) from the lines of the piece that holds it: all in place, because calls take as long."""
        value = index + self._shift
        if not self._parts:
            for line in lines:
                if isinstance(line, tuple):
                    slope, offset, divisor = line
                    value += (slope * index + offset) // divisor
                else:
                    value += line.at(index)
            return value
        for start, end, base, weight, rise in self._shares:
            height = -base
            for line in lines[start:end]:
                if isinstance(line, tuple):
                    slope, offset, divisor = line
                    height += (slope * index + offset) // divisor
                else:
                    height += line.at(index)
            value += weight * height // rise
        return value

    def __repr__(self) -> str:
        return f"CompiledPrior(first={self.first}, last={self.last})"
