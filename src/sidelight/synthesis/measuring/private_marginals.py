"""The private side: exact integer marginals of the rows with their sensitivities. Nothing else sees the rows.

The exact numbers go to noise and to the exact selection, and nowhere else; they are neither shown nor stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded, Norm
from sidelight.aggregates.counts import SQRT2
from sidelight.errors import RangeError
from sidelight.guarantees import Neighbours, Row, Unit
from sidelight.synthesis.cells.domain import Domain
from sidelight.synthesis.cells.spaces import marginal_sums

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
