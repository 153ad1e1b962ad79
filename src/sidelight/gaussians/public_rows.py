"""Public rows of a Gaussian: what a user may pass, checked before anything is charged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.covariance import PublicRows
from sidelight.errors import RangeError
from sidelight.predictions.origin import Origin, public

Floats = NDArray[np.float64]
#: Numbers beyond could overflow a square; nobody measures in such units.
_LARGEST = 1e30
#: An eigenvalue of the correlation matrix below this share says that the rows span no space of full dimension.
_SINGULAR = 1e-10
#: With fewer rows a column may look a thousand times too narrow by chance.
_TELLING = 5


@dataclass(frozen=True, eq=False, repr=False)
class PublicPoints:
    """Rows that anyone may see, from (about) the distribution of the private ones, and where they come from."""

    rows: Floats
    origin: Origin

    @property
    def width(self) -> int:
        """How many columns they have."""
        return int(self.rows.shape[1])

    @property
    def distinct(self) -> int:
        """How many different rows there are: a copy says nothing new."""
        return len(np.unique(self.rows, axis=0))

    @property
    def center(self) -> Floats:
        """Their mean."""
        return np.asarray(self.rows.mean(axis=0))

    @property
    def trace(self) -> float:
        """The trace of their covariance; 0 for a single row and for copies of one row."""
        if self.distinct < 2:
            return 0.0
        return float(((self.rows - self.center) ** 2).sum()) / (len(self.rows) - 1)

    @property
    def ratio(self) -> float:
        """The largest ratio of two columns' variances that these rows show; 1 where they are too few to show one."""
        variances = self.rows.var(axis=0)
        seen = variances[variances > 0]
        return float(seen.max() / seen.min()) if self.distinct >= _TELLING and seen.size else 1.0

    def whitening(self) -> Floats | None:
        """Return A with A S Aᵀ = I for their covariance S; None where S is singular (few, copied, constant columns).

        By way of the correlation matrix, so that the units of the columns do not matter.
        """
        if self.distinct < self.width + 1:
            return None
        deviations = self.rows - self.center
        scales = np.sqrt((deviations**2).sum(axis=0) / (len(self.rows) - 1))
        if not (scales > _SINGULAR * np.abs(self.rows).max(axis=0)).all():
            return None
        scaled = deviations / scales
        values, vectors = np.linalg.eigh(scaled.T @ scaled / (len(self.rows) - 1))
        if values[0] < _SINGULAR * values[-1]:
            return None
        return np.asarray((vectors / np.sqrt(values)) @ vectors.T / scales)

    def for_columns(self, width: int) -> PublicPoints:
        """Check that there is one number for each column."""
        if self.width != width:
            raise RangeError(
                f"public rows must have one number for each of the {width} columns, got rows of {self.width}; give the "
                "columns in the query's order"
            )
        return self

    @property
    def digest(self) -> str:
        """The SHA-256 of the numbers, for the ledger."""
        return hashlib.sha256(np.ascontiguousarray(self.rows, "<f8").tobytes()).hexdigest()

    def described(self) -> Mapping[str, Any]:
        """Return what a release says about them."""
        some = "one public row" if len(self.rows) == 1 else f"{len(self.rows)} public rows"
        return {"description": f"{some} ({self.origin})", "origin": self.origin.to_json(), "sha256": self.digest}

    def __repr__(self) -> str:
        return f"PublicPoints({len(self.rows)} rows of {self.width}, {self.origin})"


def as_public_points(given: Any) -> PublicPoints:
    """Read public rows: an array, a frame of numbers, `PublicRows` with a description, or points read before.

    Raises:
        RangeError: no rows, a missing or infinite number, numbers beyond 1e30, or a private table.
    """
    if isinstance(given, PublicPoints):
        return given
    if hasattr(given, "schema") and hasattr(given, "engine"):
        raise RangeError("a sidelight.Table is a private source and cannot be public data; pass published rows")
    origin = public(given.description) if isinstance(given, PublicRows) else public("public rows")
    try:
        rows = np.array(given.rows if isinstance(given, PublicRows) else given, np.float64)
    except (TypeError, ValueError):
        raise RangeError("public rows must be a two-dimensional array of numbers, one row a record") from None
    if rows.ndim == 1 and rows.size:
        rows = rows[None, :]  # one row, written as a list
    if rows.ndim != 2 or not rows.size:
        raise RangeError(
            f"public rows must be at least one row of numbers, got an array of shape {rows.shape}; one row gives a "
            "centre, two a scale, and more than there are columns the shape"
        )
    if not np.isfinite(rows).all():
        raise RangeError("public rows must hold finite numbers only; leave out rows that miss one")
    if np.abs(rows).max() > _LARGEST:
        raise RangeError("public rows must lie within 1e30 of 0; change the unit of the columns")
    rows.setflags(write=False)
    return PublicPoints(rows, origin)
