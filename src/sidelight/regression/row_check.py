"""How many rows a fit would change: for the data owner alone, before anything is released. Not private."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.guarantees import Amount, positive
from sidelight.records.engines.arrays import as_numbers
from sidelight.records.engines.frames import column_array, matrix_of, names_of
from sidelight.regression.clipping import bounded_rows, is_sparse
from sidelight.regression.losses.loss import positions_of


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
