"""Everything that `prediction=` of a linear model takes, read before any charge and turned into the units of one fit.

The units: rows divided by `data_norm`, so that they are of length at most 1, and a numeric target counted from the
middle of its range in half ranges. Both solvers start from what stands here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import whole
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.predictions import Origin, PublicData
from sidelight.predictions.origin import joint_origin
from sidelight.records.engines.frames import matrix_of, names_of
from sidelight.records.row_prints import ColumnPrint, row_prints, same_rows
from sidelight.regression.losses import Floats
from sidelight.regression.rows import OnViolation
from sidelight.regression.table_rows import TableUnits
from sidelight.session.suppressed_output import suppress_output

ReadTable = Callable[[PublicData], tuple[Floats, "NDArray[Any] | None"]]


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictedFit:
    """What a prediction has to fit: the public facts about a model.

    Args:
        features: The number of features.
        names: Their names; None for an array.
        data_norm: The bound of a row's norm.
        on_violation: What becomes of longer rows.
        classes: The declared classes, sorted; None for a number.
        target_range: The range of a numeric target.
        middle: The public number that targets are counted from.
        half: Their unit: half of the range; 1 for counts.
        has_intercept: Whether there is a constant column.
        units: For a model of a table: its features' units.
        read_table: For a model of a table: public rows as features and targets (None where they have no target).
    """

    features: int
    names: Sequence[str] | None = None
    data_norm: Fraction
    on_violation: OnViolation = "clip"
    classes: tuple[Any, ...] | None = None
    target_range: tuple[float, float] | None = None
    middle: float = 0.0
    half: float = 1.0
    has_intercept: bool = True
    units: TableUnits | None = None
    read_table: ReadTable | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicExamples:
    """Public rows in the units of a fit: features of length at most 1; targets in half ranges, or places of classes.

    `targets` is None where the public rows have none: they say how features vary, and nothing else.
    """

    features: Floats
    targets: Floats | None
    origin: Origin
    given: tuple[PublicData, ...] = field(repr=False)
    raw: Floats = field(repr=False)

    @property
    def size(self) -> int:
        """The number of public rows."""
        return len(self.features)


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictedCoefficients:
    """Coefficients in the units of a fit, (features + 1, outputs), the intercept last.

    `basis` (features + 1, columns) and `variances` (columns, outputs) say how far off they are: the covariance of an
    output's coefficients is basis·diag(variances)·basisᵀ. Both None: unknown.
    """

    theta: Floats
    origin: Origin
    what: str
    basis: Floats | None = None
    variances: Floats | None = None
    seeded: bool = False


Candidate = PublicExamples | PredictedCoefficients


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """All predictions of one fit: the candidates of its start in the order given, and public rows for a geometry."""

    candidates: tuple[Candidate, ...] = ()
    rows: PublicExamples | None = None

    @property
    def public(self) -> tuple[PublicExamples, ...]:
        """Everything here that is public rows."""
        every = [each for each in (*self.candidates, self.rows) if isinstance(each, PublicExamples)]
        return tuple({id(each): each for each in every}.values())

    @property
    def request(self) -> dict[str, str]:
        """What a ledger holds of them: a fit with other predictions is another question."""
        digest = hashlib.sha256(json.dumps([_digest(each) for each in self._every]).encode()).hexdigest()
        return {"prediction_sha256": digest} if self._every else {}

    @property
    def _every(self) -> list[Candidate]:
        return [*self.candidates, *(each for each in self.public if each.targets is None)]

    @property
    def described(self) -> dict[str, Any] | None:
        """What a release says about them; None where there are none."""
        return described_predictions(self._every, [_words(each) for each in self._every], self.request)


def described_predictions(
    every: Sequence[Any], words: Sequence[str], request: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return what a release says about predictions, each with its words; None where there are none."""
    if not every:
        return None
    return {
        "description": "; ".join(words),
        "origin": joint_origin([each.origin for each in every]).to_json(),
        "sha256": request["prediction_sha256"],
        **({"entropy": SEEDED_BRANDING} if any(getattr(each, "seeded", False) for each in every) else {}),
    }


def declared_rows(rows: Any, *, rows_at_most: int | None = None) -> int | None:
    """Check `rows=`, a public number of rows; a wrong one costs accuracy only.

    >>> declared_rows(5000), declared_rows(None)
    (5000, None)
    """
    if rows is None:
        return None
    advice = (
        "it is about how many rows there are, as far as that is public; leave it out if it is not: a noisy count is "
        "then paid for"
    )
    found = whole(rows, name="rows", most=10**15, advice=advice)
    if rows_at_most is not None and found > rows_at_most:
        raise RangeError(f"rows is {found}, and rows_at_most says that there are no more than {rows_at_most}")
    return found


def refuse_private_rows(public: Sequence[Any], private: Any) -> None:
    """Refuse public rows that are the private ones or cut from them: by memory, or by content.

    That is no public fact, but one for the owner of the rows, who gets an error and nothing else: no charge, no
    release.

    Args:
        public: The public rows that were read: each says where they are (`given`) and what they hold (`raw`).
        private: The features that are fitted, as an array, a sparse matrix or a frame; nothing is said of other things.

    Raises:
        RangeError: public rows are private ones. The message has no count and no cell.
    """
    for each in public:
        shared = any(data.shares_memory_with(private) for data in each.given)
        if shared or are_rows_of(each.raw, private):
            raise RangeError(
                "the public rows of the prediction are rows that are fitted, or a copy or a part of them: whatever is "
                "learned from them is not paid for, and no guarantee would hold. Give rows that anyone may see, of "
                "other people; or leave the prediction out. Nothing was charged"
            )


def are_rows_of(public: Floats, private: Any) -> bool:
    """Return whether public rows are, by content, private ones, or private ones among them.

    >>> rows = np.random.default_rng(0).normal(size=(50, 3))
    >>> are_rows_of(rows[10:30], rows), are_rows_of(rows[:20], rows[20:])
    (True, False)
    """
    with suppress_output():  # this is before the charge: a warning about a cell would tell that it is there
        matrix = _matrix(private)
        return _same(public, matrix) or _same(matrix, public)


def _matrix(private: Any) -> Any:
    """Return a frame or a list as an array; whatever cannot be read stays what it is."""
    try:
        if names_of(private) is not None:
            return matrix_of(private)
        return np.array(private, np.float64) if isinstance(private, list | tuple) else private
    except Exception:  # of its cells nothing may be said
        return None


def _same(part: Any, whole: Any) -> bool:
    """Return whether rows are, by content, among others; False for what cannot be compared."""
    try:
        mine, theirs = row_prints(part), row_prints(whole)
        if mine is None or theirs is None or len(part.shape) != 2 or len(whole.shape) != 2:
            return False
        if part.shape[1] != whole.shape[1]:
            return False
        if part.shape[1] == 1 and isinstance(part, np.ndarray) and isinstance(whole, np.ndarray):
            return ColumnPrint(part[:, 0]).is_part_of(ColumnPrint(whole[:, 0]))
        return same_rows(mine, theirs)
    except Exception:  # cells of which nothing may be said
        return False


def _words(each: Candidate) -> str:
    if isinstance(each, PublicExamples):
        return f"{each.size} public rows{'' if each.targets is not None else ' without targets'} ({each.origin})"
    return f"{each.what} ({each.origin})" + (", NOT PRIVATE: seeded noise" if each.seeded else "")


def _digest(each: Candidate) -> str:
    parts = (
        [each.features, each.targets] if isinstance(each, PublicExamples) else [each.theta, each.basis, each.variances]
    )
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(b"none" if part is None else np.ascontiguousarray(part, np.float64).tobytes())
    return hashed.hexdigest()
