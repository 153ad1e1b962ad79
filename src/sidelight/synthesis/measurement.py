"""A measured marginal: the released numbers, their noise, and what they say about a fit. All of it is public.

A first number of rows is released with a small share of the price. Every measured marginal estimates it again: its
cells sum to the number of rows that lie in a cell, the same for all marginals, plus the noise of all its cells. The
numbers are averaged with inverse variances, which are public (synthesis proof page, Proposition 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from math import pi, sqrt
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded, Norm
from sidelight.aggregates.counts import SQRT2
from sidelight.errors import RangeError
from sidelight.guarantees import Neighbours, Row, Unit
from sidelight.mechanisms.additive import Noise
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.spaces import Floats, marginal_sums
from sidelight.synthesis.workload import Marginal

# The private side: exact counts go to noise and to the exact selection, and nowhere else.

Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Protection:
    """Whom a release protects: public, and all that claims need to know about the rows.

    Guarantee: a unit has at most `rows_per_unit` = k rows, and each row lies in one cell of the domain or in none. For
    every partition, adding or removing a unit moves the counts by at most k in l1 and l2; replacing one, by at most 2k
    (l1) and k√2 (l2: both parts are non-negative).
    """

    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields
    rows_per_unit: int = 1

    def sensitivity(self, norm: Norm) -> Fraction:
        """How far one unit moves the counts of a partition."""
        k = self.rows_per_unit
        if self.neighbours is Neighbours.ADD_REMOVE or norm == "linf":
            return Fraction(k)
        return Fraction(2 * k) if norm == "l1" else k * SQRT2

    def query_sensitivity(self, bounds: tuple[int, int]) -> Fraction:
        """How far one unit moves a linear query with integer coefficients in `bounds`: a row may also be in no cell."""
        lower, upper = min(bounds[0], 0), max(bounds[1], 0)
        widest = max(upper, -lower) if self.neighbours is Neighbours.ADD_REMOVE else upper - lower
        return Fraction(self.rows_per_unit * widest)

    def bounded(self, value: Any, norm: Norm) -> Bounded:
        """Join the counts of a partition with their sensitivity."""
        return Bounded(value, self.sensitivity(norm), norm, self.neighbours, self.unit)


class PrivateMarginals:
    """Exact marginals on demand. `count` returns the int64 counts of some columns, one axis a column, in that order.

    Each marginal is asked for once. Build it with `from_cells` where the domain is small enough for one dense table
    (what `cell_counts` of all columns gives), with `from_codes` for coded rows, or with a function that lets an engine
    count.

    >>> domain = Domain(("a", "b"), (2, 3))
    >>> PrivateMarginals.from_codes(domain, np.array([[0, 1], [1, 1]]))
    PrivateMarginals(private, 2 columns, add or remove one row)
    """

    def __init__(
        self,
        domain: Domain,
        count: Callable[[tuple[str, ...]], Integers],
        *,
        protection: Protection | None = None,
        count_many: Callable[[list[tuple[str, ...]]], list[Integers]] | None = None,
    ) -> None:
        self.domain = domain
        self.protection = protection or Protection()
        self._count = count
        self._count_many = count_many
        self._known: dict[tuple[str, ...], Integers] = {}

    @classmethod
    def from_cells(cls, domain: Domain, cells: Any, *, protection: Protection | None = None) -> PrivateMarginals:
        """Take the counts of all cells, an integer array of the domain's shape, and sum them up."""
        flat = np.asarray(cells)
        if flat.dtype.kind not in "iu" or flat.size != domain.cells:
            raise RangeError(f"the domain has {domain.cells} cells; got {flat.dtype} of shape {flat.shape}")
        table = flat.reshape(-1).astype(np.int64, copy=False)

        def count_many(wanted: list[tuple[str, ...]]) -> list[Integers]:
            return marginal_sums(table, domain.sizes, [domain.axes(columns) for columns in wanted])

        return cls(domain, lambda columns: count_many([columns])[0], protection=protection, count_many=count_many)

    @classmethod
    def from_codes(cls, domain: Domain, codes: Any, *, protection: Protection | None = None) -> PrivateMarginals:
        """Take coded rows, rows x columns, all codes inside the domain; each marginal is one pass over them."""
        rows = np.asarray(codes)

        def count(columns: tuple[str, ...]) -> Integers:
            cells = np.bincount(domain.ravel(rows, columns), minlength=domain.cells_of(columns))
            return cells.astype(np.int64, copy=False).reshape(domain.shape_of(columns))

        return cls(domain, count, protection=protection)

    def prepare(self, wanted: Iterable[tuple[str, ...]]) -> None:
        """Count several marginals in one go. Which ones must be public."""
        missing = [columns for columns in dict.fromkeys(wanted) if columns not in self._known]
        if self._count_many is not None and missing:
            self._known |= dict(zip(missing, self._count_many(missing), strict=True))

    def exact(self, columns: tuple[str, ...]) -> Integers:
        """Return the private counts of columns in the domain's order. For selections and noise only."""
        if columns not in self._known:
            self._known[columns] = self._count(columns)
        return self._known[columns]

    def exact_rows(self) -> int:
        """Return the private number of rows."""
        return int(self.exact(self.domain.columns[:1]).sum())

    def __reduce__(self) -> NoReturn:
        raise TypeError("exact private counts are not pickled or copied")

    def __repr__(self) -> str:
        neighbours = f"{self.protection.neighbours} {self.protection.unit}"
        return f"PrivateMarginals(private, {len(self.domain.columns)} columns, {neighbours})"


#: What is this many deviations of noise away is worth a word.
CLEARLY = 4.0
#: A number of rows beyond this is noise, and would not fit the integers of scores.
MOST_ROWS = 1 << 40


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginalMeasurement:
    """Counts of a partition with noise of one scale.

    `deviation` is the noise's standard deviation, `mean_error` its mean absolute value; `scale` is the Gaussian's
    deviation or the Laplace b.
    """

    marginal: Marginal
    values: Floats = field(repr=False)
    law: Literal["gaussian", "laplace"]
    scale: float
    deviation: float
    mean_error: float

    def residual(self, expected: Floats) -> float:
        """Return the mean distance between the released and the expected counts, in mean absolute errors of the noise.

        About 1 where the fit leaves nothing but noise. A function of released numbers alone.
        """
        return float(np.abs(self.values - expected).mean()) / self.mean_error


def noise_of(price: Budget, protection: Protection) -> dict[str, Any]:
    """Return the noise that a budget buys for a partition: law, scale, deviation and mean absolute value."""
    return _described(price.on(protection.bounded(np.zeros(2, np.int64), price.norm)))


def _described(noise: Noise) -> dict[str, Any]:
    scale = float(noise.scale)
    mean_error = scale if noise.law == "laplace" else scale * sqrt(2 / pi)  # b, or σ√(2/π)
    return {"law": noise.law, "scale": scale, "deviation": noise.deviation, "mean_error": mean_error}


def measure(counts: PrivateMarginals, marginal: Marginal, *, price: Budget, source: Source) -> MarginalMeasurement:
    """Release a whole marginal: all its cells share one budget, because a row lies in one of them.

    Guarantee: the claims of `price.on` the partition, exact on the machine.
    """
    exact = marginal.grouped(counts.exact(marginal.columns))
    noise = price.on(counts.protection.bounded(exact, price.norm))
    return MarginalMeasurement(
        marginal=marginal, values=np.asarray(noise.release(source), np.float64), **_described(noise)
    )


def released_digest(measurements: Sequence[MarginalMeasurement]) -> bytes:
    """Return the SHA-256 of released counts: a seed for draws that are post-processing."""
    found = sha256()
    for each in measurements:
        found.update(str(each.marginal).encode() + np.ascontiguousarray(each.values, "<f8").tobytes())
    return found.digest()


@dataclass(frozen=True, kw_only=True)
class NoisyRows:
    """The number of rows with noise, as it came out: `value` may be negative. `scale`: as for `MarginalMeasurement`."""

    value: float
    law: Literal["gaussian", "laplace"]
    scale: float
    deviation: float

    @property
    def rows(self) -> float:
        """The nearest number that a table can have."""
        return possible_rows(self.value)


def noisy_rows(counts: PrivateMarginals, *, price: Budget, source: Source) -> NoisyRows:
    """Release the number of rows.

    Guarantee: the claims of `price.on` one count, exact on the machine.
    """
    noise = price.on(counts.protection.bounded(counts.exact_rows(), "l1"))
    return NoisyRows(
        value=float(noise.release(source)),
        law="laplace" if price.is_pure else "gaussian",
        scale=float(noise.scale),
        deviation=noise.deviation,
    )


def possible_rows(number: float) -> float:
    """Return the nearest whole number from 1 to 2**40.

    >>> possible_rows(-3.0), possible_rows(12.6)
    (1.0, 13.0)
    """
    return float(round(min(max(number, 1.0), float(MOST_ROWS))))


@dataclass(frozen=True)
class RowsEstimate:
    """The first noisy number of rows with the sums of measured marginals; or a public number, which nothing changes.

    None where no first number was asked for: then the sums alone tell it, and there must be one. Each of `sums` has its
    standard deviation with it.

    >>> first = NoisyRows(value=90.0, law="gaussian", scale=10.0, deviation=10.0)
    >>> RowsEstimate(first, sums=((100.0, 5.0),)).rows  # (90 + 4 · 100)/5
    98.0
    """

    first: NoisyRows | float | None
    sums: tuple[tuple[float, float], ...] = ()

    @property
    def noisy(self) -> NoisyRows | None:
        """The first number; None if it is public."""
        return self.first if isinstance(self.first, NoisyRows) else None

    def with_sums(self, measurements: Sequence[MarginalMeasurement]) -> RowsEstimate:
        """Return the estimate in the light of further measurements: the sum of c cells has c times their variance."""
        if isinstance(self.first, float):
            return self
        sums = [(float(each.values.sum()), each.deviation * sqrt(each.values.size)) for each in measurements]
        return replace(self, sums=(*self.sums, *sums))

    @property
    def mean(self) -> float:
        """Σ tᵢ/vᵢ / Σ 1/vᵢ over all numbers t and their variances v; it may be negative, and is rarely whole."""
        return self.first if isinstance(self.first, float) else self._average()[0]

    def contradicts(self, rows: float) -> bool:
        """Return whether the noisy numbers are clearly those of another number of rows: four deviations away."""
        mean, deviation = self._average()
        return abs(mean - rows) > CLEARLY * deviation

    def _average(self) -> tuple[float, float]:
        """Return the mean of the noisy numbers and its standard deviation."""
        first = [(self.first.value, self.first.deviation)] if isinstance(self.first, NoisyRows) else []
        numbers = [*first, *self.sums]
        # relative to the best one: the squares of deviations of any size neither overflow nor vanish
        least = min(deviation for _, deviation in numbers)
        weights = [(least / deviation) ** 2 for _, deviation in numbers]
        mean = sum(w * number for w, (number, _) in zip(weights, numbers, strict=True)) / sum(weights)
        return mean, least / sqrt(sum(weights))

    @property
    def rows(self) -> float:
        """The nearest whole number from 1 to 2**40."""
        return possible_rows(self.mean)
