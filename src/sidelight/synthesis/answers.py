"""Answers to queries from a released distribution: standard errors where measured, bounds on the error beyond that.

A query is measured if some measured marginal contains its columns: then the noise that was added there, which is
public, and how far the fit left the noisy numbers give a standard error. Any other answer is model-based: what the
fitted distribution says. What could have been measured has a bound on its error in either case; what could not, has
none.

Of the error bounds a few numbers stay with a release. For whole marginals one number each: how far all its counts
together can be off. It bounds every query on its columns, and every marginal that it contains. Single queries, on
measured marginals or of `engine="mwem"`, have one number for all of a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.guarantees.claims import SEEDED
from sidelight.readable import at_most
from sidelight.synthesis.domain import CellNoise, Domain, Mass, cell_deviation
from sidelight.synthesis.measurement import RowsEstimate
from sidelight.synthesis.query_blocks import CellQueries, MatrixQueries, QueryBlock, RangeQueries
from sidelight.synthesis.workload import Marginal, Workload

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MeasuredMarginal:
    """A marginal that was measured: its noisy counts and the standard deviation of their noise. Public."""

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    values: NDArray[Any]
    deviation: float

    @property
    def fine(self) -> bool:
        """Whether no values were grouped."""
        return all(width == 1 for width in self.widths)

    @property
    def noise(self) -> CellNoise:
        """The noise of a cell."""
        return CellNoise(self.columns, self.deviation)

    def to_value(self) -> dict[str, Any]:
        """Return what a release holds of it."""
        return {
            "columns": list(self.columns),
            "widths": list(self.widths),
            "values": np.asarray(self.values),
            "noise_deviation": self.deviation,
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> MeasuredMarginal:
        """Read what `to_value` wrote."""
        return cls(
            tuple(value["columns"]),
            tuple(value["widths"]),
            np.asarray(value["values"]),
            float(value["noise_deviation"]),
        )


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers to the queries of one set of columns.

    `counts` are numbers of rows; for a marginal one axis a column, in the order of `columns`. `errors` are standard
    errors of the same shape: of the noise, and of how far the fit left the noisy numbers; None if model-based. `shares`
    divide by the number of rows.

    With probability `confidence` over the noise no count is off by more than `bound` rows and, of a marginal, all of
    them together by no more than `bound_of_sum`; so for all answers of a release at once. None where nothing released
    bounds them.
    """

    columns: tuple[str, ...]
    counts: Floats
    errors: Floats | None
    rows: float
    bound: float | None = None
    bound_of_sum: float | None = None
    confidence: float = 0.0
    private: bool = True  # false of a release with seeded noise

    @property
    def measured(self) -> bool:
        """Whether the columns were measured together."""
        return self.errors is not None

    @property
    def shares(self) -> Floats:
        """The counts as shares of all rows."""
        return np.asarray(self.counts / self.rows)

    def in_order(self, columns: Sequence[str]) -> Answers:
        """Return the answers of a marginal with its axes in another order of the same columns."""
        names = tuple(columns)
        places = [self.columns.index(name) for name in names]
        errors = None if self.errors is None else np.transpose(self.errors, places)
        return replace(self, columns=names, counts=np.transpose(self.counts, places), errors=errors)

    def __repr__(self) -> str:
        what = f"{self.counts.size} answers on {' x '.join(self.columns)}"
        how = "model-based"
        if self.errors is not None:
            how = f"standard errors up to {at_most(float(self.errors.max()))} rows"
        far = "no bound"
        if self.bound is not None:
            far = f"off by at most {at_most(self.bound)} rows with {self.confidence:.0%} confidence"
        return f"Answers({', '.join([what, how, far, *([] if self.private else [SEEDED])])})"


def answer_block(
    block: QueryBlock, mass: Mass, measured: Sequence[MeasuredMarginal], bounds: ErrorBounds, *, rows: float
) -> Answers:
    """Answer the queries of one block."""
    found = np.asarray(block.answers(mass.marginal(block.columns)), np.float64) * rows / block.steps
    noisy = _noisy(block.columns, mass.domain, measured)
    errors = None if noisy is None else noisy.errors(block, found)
    of_sum = None
    if isinstance(block, CellQueries):
        found = found.reshape(block.shape)
        errors = None if errors is None else errors.reshape(block.shape)
        of_sum = bounds.of_sum(block.columns)
    return Answers(block.columns, found, errors, rows, bounds.of_block(block), of_sum, bounds.confidence)


def answer_workload(
    workload: Workload, mass: Mass, measured: Sequence[MeasuredMarginal], bounds: ErrorBounds, *, rows: float
) -> list[Answers]:
    """Answer every block of a workload."""
    return [answer_block(block, mass, measured, bounds, rows=rows) for block in workload.blocks(mass.domain)]


@dataclass(frozen=True, eq=False)
class _Noisy:
    """The noisy counts of some columns: of all measured marginals that contain them, and the deviation of a cell."""

    counts: Floats
    deviation: float

    def errors(self, block: QueryBlock, found: Floats) -> Floats:
        """Return standard errors of the fitted answers: √(s² + r²) for noise of s and r = fitted - noisy answer.

        With n the error of the noisy answer, that of the fit is n + r, of mean square s² + r² + 2·E[n·r]. The fit
        follows its noisy numbers by at most as much as they move, so E[n·r] <= 0 (synthesis proof page, section 11).
        """
        apart = found - np.asarray(block.answers(self.counts), np.float64).reshape(found.shape) / block.steps
        return np.asarray(np.hypot(self.deviation * np.sqrt(_squares(block)), apart))


def _noisy(columns: tuple[str, ...], domain: Domain, measured: Sequence[MeasuredMarginal]) -> _Noisy | None:
    """Return the noisy counts with the least variance; None if no measured marginal contains the columns."""
    held = [each for each in measured if each.fine and set(columns) <= set(each.columns)]
    if not held:
        return None
    deviation = cell_deviation(columns, domain, [each.noise for each in held])
    counts = np.zeros(domain.shape_of(columns))
    for each in held:
        others = tuple(place for place, name in enumerate(each.columns) if name not in columns)
        weight = (deviation / cell_deviation(columns, domain, [each.noise])) ** 2
        counts += weight * np.asarray(each.values, np.float64).reshape(domain.shape_of(each.columns)).sum(axis=others)
    return _Noisy(counts, deviation)


def _squares(block: QueryBlock) -> Floats:
    """Return Σ q² of each query over the cells of its columns."""
    if block.bounds == (0, 1) and block.steps == 1:  # q² = q
        return np.asarray(block.answers(np.ones(block.shape)), np.float64)
    return np.array([float((block.coefficients(place) ** 2).sum()) for place in range(block.count)])


def contradicted_rows(measured: Sequence[MeasuredMarginal], rows: float) -> float | None:
    """Return the number of rows that measured counts sum to, if it clearly is not the public number; else None."""
    sums = tuple((float(np.sum(each.values)), each.deviation * sqrt(np.size(each.values))) for each in measured)
    estimate = RowsEstimate(None, sums=sums)
    return estimate.rows if sums and estimate.contradicts(rows) else None


def expected_errors(
    mass: Mass, workload: Workload, measured: Sequence[MeasuredMarginal], bounds: ErrorBounds, *, rows: float
) -> list[dict[str, Any]]:
    """Return for each marginal of a workload how it was answered, which error is expected, and its bounds.

    The expected total-variation error is √(2/π) Σ s / (2 rows) over the standard errors s of the cells; the fit usually
    does better, because marginals support each other. `bound` is for each single count, in rows; `bound_share` the same
    as a share of the rows; `total_variation_bound` for all counts together.
    """
    lines: list[dict[str, Any]] = []
    for marginal in workload.partitions(mass.domain, closure=False):
        noisy = _noisy(marginal.columns, mass.domain, measured) if marginal.fine else None
        cells = marginal.cells(mass.domain)
        size = max(rows, 1.0)
        block = CellQueries(marginal.columns, marginal.shape(mass.domain))
        expected = None
        if noisy is not None:
            errors = noisy.errors(block, mass.marginal(marginal.columns).ravel() * rows)
            expected = min(sqrt(2 / np.pi) * float(errors.sum()) / (2 * size), 1.0)
        bound, of_sum = (bounds.of_block(block), bounds.of_sum(marginal.columns)) if marginal.fine else (None, None)
        lines.append(
            {
                "columns": list(marginal.columns),
                "cells": cells,
                "basis": "model-based" if noisy is None else "measured",
                "noise_deviation": None if noisy is None else noisy.deviation,
                "expected_error": expected,
                "bound": bound,
                "bound_share": None if bound is None else bound / size,
                "total_variation_bound": None if of_sum is None else of_sum / (2 * size),
            }
        )
    return lines


#: The columns of a block of queries, and their kind.
QueryKey: TypeAlias = tuple[tuple[str, ...], str]


@dataclass(frozen=True, eq=False, kw_only=True)
class ErrorBounds:
    """Bounds in rows that all hold at once with probability `confidence`, over the noise, for whatever rows.

    `rows` bounds how far the number of rows that count is from the released number; None if unknown. `marginals` bounds
    the sum of the errors of all counts of a marginal, `queries` the largest error of the queries on some columns, by
    their kind.
    """

    confidence: float
    rows: float | None = None
    marginals: Mapping[Marginal, float] = field(default_factory=dict, repr=False)
    queries: Mapping[QueryKey, float] = field(default_factory=dict, repr=False)

    def of_sum(self, columns: Sequence[str]) -> float | None:
        """Bound the sum of all errors of a marginal; None where nothing that contains it has a bound."""
        wanted = set(columns)
        held = [bound for each, bound in self.marginals.items() if each.fine and wanted <= set(each.columns)]
        return min(held, default=None)

    def of_block(self, block: QueryBlock) -> float | None:
        """Bound the error of every single answer of a block; None where none is known.

        With coefficients in [l, u], errors d of the cells and their sum t: |Σ q d| <= (u - l)/2 · ‖d‖₁ + |u + l|/2 ·
        |t|, and at most max(|l|, |u|) · ‖d‖₁.
        """
        known = self.queries.get((block.columns, kind_of(block)))
        found = [] if known is None else [known]
        total = self.of_sum(block.columns)
        if total is not None:
            lower, upper = (bound / block.steps for bound in block.bounds)
            found.append(max(abs(lower), abs(upper)) * total)
            if self.rows is not None:
                found.append((upper - lower) / 2 * total + abs(upper + lower) / 2 * self.rows)
        return min(found, default=None)

    def to_value(self) -> dict[str, Any]:
        """Return what a release holds of it."""
        return {
            "confidence": self.confidence,
            "rows": self.rows,
            "marginals": [
                {"columns": list(each.columns), "widths": list(each.widths), "bound": bound}
                for each, bound in self.marginals.items()
            ],
            "queries": [
                {"columns": list(columns), "kind": kind, "bound": bound}
                for (columns, kind), bound in self.queries.items()
            ],
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any] | None) -> ErrorBounds:
        """Read what `to_value` wrote; a release of before holds nothing."""
        if value is None:
            return cls(confidence=0.0)
        return cls(
            confidence=float(value["confidence"]),
            rows=None if value["rows"] is None else float(value["rows"]),
            marginals={
                Marginal(tuple(each["columns"]), tuple(each["widths"])): float(each["bound"])
                for each in value["marginals"]
            },
            queries={(tuple(each["columns"]), str(each["kind"])): float(each["bound"]) for each in value["queries"]},
        )


def kind_of(block: QueryBlock) -> str:
    """Name the queries of a block, so that the same ones are recognised later; those of a matrix by a digest.

    >>> kind_of(CellQueries(("a",), (2,)))
    'cells'
    """
    if isinstance(block, MatrixQueries):
        return f"matrix {block.digest[:16]}"
    if isinstance(block, RangeQueries):
        return "dyadic ranges" if block.dyadic else "ranges"
    return "cells" if isinstance(block, CellQueries) else "prefixes"
