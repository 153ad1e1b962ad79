"""The Schatten-p regulariser on matrices: small regret when a few directions matter (trace norm, spectral dual)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Schatten:
    """phi(W) = (curvature/2) ||W||_p^2, p = 1 + 1/log d, on all matrices (d the smaller side, at least 3).

    The default curvature log(d) exp(2 log d / (1 + log d)) makes it 1-strongly convex in the trace norm; 3 log d of the
    literature is too small from d = 4 on (regret constant only, learning proof page, section 3). Symmetric matrices
    travel as their diagonal and sqrt(2) times their upper triangle, so that the noise is a Gaussian orthogonal one.

    Args:
        rows: Of the matrices.
        columns: None for symmetric matrices.
        trace_norm: The comparator's trace norm at most; enters step size and regret bound only.
        curvature: Another kappa.
    """

    rows: int
    columns: int | None = None
    trace_norm: float = 1.0
    curvature: float | None = None

    def __post_init__(self) -> None:
        if self.dimension < 3:
            raise RangeError(f"a Schatten regulariser needs sides of at least 3, got {self.shape}; use Euclidean")
        if not self.trace_norm > 0 or not self.kappa > 0:
            raise RangeError("trace_norm and curvature must be positive")

    @property
    def symmetric(self) -> bool:
        """Whether only symmetric matrices are meant."""
        return self.columns is None

    @property
    def shape(self) -> tuple[int, ...]:
        """Both sides."""
        return (self.rows, self.rows if self.columns is None else self.columns)

    @property
    def dimension(self) -> int:
        """d: the largest possible rank."""
        return min(self.shape)

    @property
    def size(self) -> int:
        """d (d+1) / 2 for symmetric matrices, all entries otherwise."""
        return self.rows * (self.rows + 1) // 2 if self.columns is None else self.rows * self.columns

    @property
    def kappa(self) -> float:
        """The curvature that is used."""
        if self.curvature is not None:
            return self.curvature
        log_d = math.log(self.dimension)
        return log_d * math.exp(2 * log_d / (1 + log_d))

    @property
    def radius_squared(self) -> float:
        """phi of a comparator: ||W||_p is at most the trace norm."""
        return self.kappa / 2 * self.trace_norm**2

    @property
    def gaussian_width(self) -> float:
        """E of the spectral norm: sqrt(2 d) for the symmetric one, sqrt(rows) + sqrt(columns) otherwise."""
        return math.sqrt(2 * self.rows) if self.columns is None else math.sqrt(self.rows) + math.sqrt(self.columns)

    @property
    def dual_lipschitz(self) -> float:
        """The spectral norm is at most the Frobenius norm."""
        return 1.0

    def to_vector(self, gradient: ArrayLike) -> Floats:
        """Return the entries; of a symmetric matrix the diagonal, then sqrt(2) times the upper triangle."""
        matrix = np.asarray(gradient, dtype=np.float64).reshape(self.shape)
        if not self.symmetric:
            return matrix.reshape(self.size)
        upper = np.triu_indices(self.rows, 1)
        return np.concatenate([np.diag(matrix), (matrix[upper] + matrix.T[upper]) / math.sqrt(2)])

    def to_matrix(self, vector: Floats) -> Floats:
        """Undo `to_vector`."""
        if not self.symmetric:
            return np.asarray(vector, dtype=np.float64).reshape(self.shape)
        matrix = np.zeros(self.shape)
        matrix[np.triu_indices(self.rows, 1)] = vector[self.rows :] / math.sqrt(2)
        return np.asarray(matrix + matrix.T + np.diag(vector[: self.rows]))

    def minimiser(self, gradient_sum: Floats, *, step_size: float) -> Floats:
        """Return -(step/kappa) times g with singular values ||z||_q (z_i/||z||_q)^(q-1), q = 1 + log d."""
        matrix = self.to_matrix(gradient_sum)
        q = 1 + math.log(self.dimension)
        if self.symmetric:
            values, left = np.linalg.eigh(matrix)
            right = left.T
        else:
            left, values, right = np.linalg.svd(matrix, full_matrices=False)
        largest = float(np.abs(values).max())
        if largest == 0:
            return np.zeros(self.shape)
        shares = np.abs(values) / largest  # at most 1, so no power overflows
        norm = float(np.sum(shares**q)) ** (1 / q)
        mapped = np.sign(values) * largest * norm * (shares / norm) ** (q - 1)
        return np.asarray(-(step_size / self.kappa) * (left * mapped) @ right)
