"""Rows made short enough, one by one: the map that the norm bound of the privacy proof rests on.

Every row is treated by itself, in an order of operations that does not depend on its neighbours in memory, so removing
one record changes no other. The clipped row is a float row whose exact norm is at most the bound: factors are rounded
down by more than the error of the computed norm. Hand-made for that reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount, positive
from sidelight.records.engines.arrays import as_numbers
from sidelight.records.engines.frames import column_array, matrix_of, names_of
from sidelight.regression.losses import Floats
from sidelight.regression.losses.loss import positions_of

OnViolation = Literal["clip", "normalize"]
_ULP = 2.0**-53
_CHUNK = 4096


def is_sparse(rows: Any) -> bool:
    """Return whether rows come as a SciPy sparse matrix or array."""
    return hasattr(rows, "tocsr") and hasattr(rows, "nnz")


def bounded_rows(
    rows: Any, *, data_norm: Fraction, on_violation: OnViolation, tight_norms: bool = True
) -> tuple[Any, Floats, NDArray[np.bool_]]:
    """Bound the rows; give them (dense or CSR), an upper bound of their norms, and which ones are finite.

    "clip" shortens what is too long, "normalize" gives every row but zero the full length. Without `tight_norms` the
    upper bound is `data_norm` for every row, and rows that are surely short are left as they are at once.
    """
    if is_sparse(rows):
        return _bounded_sparse(rows, data_norm, on_violation)
    dense = np.asarray(rows)
    if dense.ndim != 2 or dense.dtype.kind not in "fiub":
        raise RangeError(f"rows must be a two-dimensional array of numbers, got {dense.ndim} dimensions, {dense.dtype}")
    dense = np.array(dense, dtype=np.float64, order="C")  # a copy: the caller's array is never touched
    if tight_norms or on_violation != "clip":
        return _bounded_dense(dense, data_norm, on_violation)
    keep = np.ones(len(dense), bool)
    rest = np.flatnonzero(~_surely_short(dense, float(data_norm)))
    if len(rest):
        dense[rest], _, keep[rest] = _bounded_dense(dense[rest], data_norm, on_violation)
    return dense, np.full(len(dense), math.nextafter(float(data_norm), math.inf)), keep


def _surely_short(dense: Floats, bound: float) -> NDArray[np.bool_]:
    """Tell which rows are finite and so much shorter than the bound that no order of summation says otherwise.

    A sum of at most 1024 squares errs by less than 2⁻⁴² of itself, and by what vanishes: nothing beside such a bound.
    So every one of these rows is left as it is by `_bounded_dense`, too.
    """
    if dense.shape[1] > 1024 or not 2.0**-400 < bound < 2.0**400:
        return np.zeros(len(dense), bool)
    with np.errstate(all="ignore"):  # a square may overflow, which is too long
        return np.asarray(np.einsum("ij,ij->i", dense, dense) <= bound * bound * (1 - 2.0**-36))


def _bounded_dense(
    dense: Floats, data_norm: Fraction, on_violation: OnViolation
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Bound rows in place."""
    keep = np.asarray(np.isfinite(dense).all(axis=1))
    dense[~keep] = 0.0
    norms = np.empty(dense.shape[0])
    for start in range(0, dense.shape[0], _CHUNK):
        part = dense[start : start + _CHUNK]
        exponent = _exponents(np.max(np.abs(part), axis=1, initial=0.0))
        scaled = part * np.ldexp(1.0, -exponent)[:, None]  # exact, but for what vanishes beside the largest entry
        total = np.zeros(part.shape[0])
        for column in np.ascontiguousarray(scaled.T):  # one after the other: the same sum wherever the row stands
            total += column * column
        shrink, norms[start : start + _CHUNK] = _factors(
            np.sqrt(total), exponent, data_norm, on_violation, dense.shape[1]
        )
        changed = np.flatnonzero(shrink != 1.0)
        part[changed] = scaled[changed] * shrink[changed, None]
    return dense, norms, keep


@dataclass(frozen=True)
class NonPrivateRowCheck:
    """Exact counts of private rows: NOT PRIVATE, not to be published, not to be used to choose a parameter."""

    rows: int
    too_long: int
    not_finite: int
    unknown_label: int

    def __str__(self) -> str:
        return (
            f"NOT PRIVATE, for the data owner only: of {self.rows} rows {self.too_long} are longer than data_norm and "
            f"would be shortened, {self.not_finite} have a value that is missing or not finite, {self.unknown_label} "
            "a label that is not declared; these take no part"
        )


def nonprivate_check_rows(X: Any, data_norm: Amount, y: Any = None, *, classes: Any = None) -> NonPrivateRowCheck:  # noqa: N803
    """Count the rows that a fit would shorten or leave out. NOT PRIVATE: for the data owner, before any release.

    A `data_norm` chosen because of the answer is a parameter read off the data, which no guarantee covers. If many rows
    are too long, look for a public reason why the bound was wrong.

    Args:
        X: Rows: an array, a sparse matrix or a frame.
        data_norm: The public bound of a row's Euclidean norm.
        y: Their labels, to be compared with `classes`.
        classes: The declared labels.

    Returns:
        Exact counts of private rows, not to be published.

    >>> import numpy as np
    >>> nonprivate_check_rows(np.array([[0.5, 0.5], [3.0, 4.0], [np.nan, 0.0]]), data_norm=1)
    NonPrivateRowCheck(rows=3, too_long=1, not_finite=1, unknown_label=0)
    """
    bound = positive(data_norm, name="data_norm")
    if not is_sparse(X):
        raw = matrix_of(X) if names_of(X) is not None else np.asanyarray(X)
        if raw.ndim != 2:
            raise SchemaError(f"X must have two dimensions, rows and columns, got {raw.ndim}")
        X = as_numbers(raw.reshape(-1)).reshape(raw.shape)  # noqa: N806
    unbounded, norms, finite = bounded_rows(X, data_norm=Fraction(10) ** 300, on_violation="clip")
    known = np.ones(unbounded.shape[0], dtype=bool)
    if y is not None:
        if classes is None:
            raise SchemaError("labels can only be checked against classes=[...]")
        _, known = positions_of(column_array(y).reshape(-1), tuple(classes))
    long = finite & known & (norms > float(bound) * (1 + 1e-9))
    return NonPrivateRowCheck(
        rows=int(unbounded.shape[0]),
        too_long=int(long.sum()),
        not_finite=int((~finite).sum()),
        unknown_label=int((~known).sum()),
    )


def _bounded_sparse(rows: Any, data_norm: Fraction, mode: OnViolation) -> tuple[Any, Floats, NDArray[np.bool_]]:
    """Bound CSR rows: stored values only, nothing is densified."""
    from scipy.sparse import csr_array

    matrix = csr_array(rows, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    n, features = matrix.shape
    owner = np.repeat(np.arange(n), np.diff(matrix.indptr))
    keep = np.ones(n, dtype=bool)
    keep[owner[~np.isfinite(matrix.data)]] = False
    matrix.data[~keep[owner]] = 0.0
    largest = np.zeros(n)
    np.maximum.at(largest, owner, np.abs(matrix.data))
    exponent = _exponents(largest)
    part = matrix.data * np.ldexp(1.0, -exponent)[owner]
    total = np.bincount(owner, weights=part * part, minlength=n)  # in stored order, row by row
    shrink, norms = _factors(np.sqrt(total), exponent, data_norm, mode, features)
    changed = shrink[owner] != 1.0
    matrix.data[changed] = part[changed] * shrink[owner][changed]
    return matrix, norms, keep


def _exponents(largest: Floats) -> NDArray[np.int64]:
    """Return the power of two that brings a row to size 1; within ±1000, so that it and its inverse are floats."""
    return np.clip(np.where(largest > 0, np.frexp(largest)[1], 0), -1000, 1000).astype(np.int64)


def _factors(
    scaled_norm: Floats, exponent: NDArray[np.int64], data_norm: Fraction, mode: OnViolation, features: int
) -> tuple[Floats, Floats]:
    """Return factors for the rows scaled by 2^-exponent (1: leave as it is) and upper bounds of the norms afterwards.

    The computed norm is within (features + 4) ulp of the true one; `slack` is more than twice that.
    """
    slack = (2 * features + 32) * _ULP
    bound = float(data_norm)
    if Fraction(bound) > data_norm:
        bound = math.nextafter(bound, 0.0)
    with np.errstate(over="ignore"):
        norm = np.ldexp(scaled_norm, exponent)  # may be infinite, which is too long
    full = np.divide(bound * (1 - slack), scaled_norm, out=np.zeros_like(scaled_norm), where=scaled_norm > 0)
    long = norm > bound * (1 - slack)
    change = (long | (mode == "normalize")) & (scaled_norm > 0)
    factors = np.where(change, full, 1.0)
    # squares of entries below 1e-150 of the largest vanish, and so may a row of size 1e-301: hence the floor
    return factors, np.where(long | change, bound, np.maximum(norm * (1 + slack), 1e-290))
