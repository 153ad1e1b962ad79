"""Rows made short enough, one by one: the map that the norm bound of the privacy proof rests on.

Every row is treated by itself, in an order of operations that does not depend on its neighbours in memory, so removing
one record changes no other. The clipped row is a float row whose exact norm is at most the bound: factors are rounded
down by more than the error of the computed norm. Hand-made for that reason.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.regression.losses import Floats

OnViolation = Literal["clip", "normalize"]
_ULP = 2.0**-53
_CHUNK = 4096


def is_sparse(rows: Any) -> bool:
    """Return whether rows come as a SciPy sparse matrix or array."""
    return hasattr(rows, "tocsr") and hasattr(rows, "nnz")


def bounded_rows(rows: Any, *, data_norm: Fraction, on_violation: OnViolation) -> tuple[Any, Floats, NDArray[np.bool_]]:
    """Bound the rows; give them (dense or CSR), an upper bound of their norms, and which ones are finite.

    "clip" shortens what is too long, "normalize" gives every row but zero the full length.
    """
    if is_sparse(rows):
        return _bounded_sparse(rows, data_norm, on_violation)
    dense = np.asarray(rows)
    if dense.ndim != 2 or dense.dtype.kind not in "fiub":
        raise RangeError(f"rows must be a two-dimensional array of numbers, got {dense.ndim} dimensions, {dense.dtype}")
    dense = np.array(dense, dtype=np.float64, order="C")  # a copy: the caller's array is never touched
    keep = np.isfinite(dense).all(axis=1)
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
