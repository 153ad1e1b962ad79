"""Answers to queries from a released distribution, each with its standard error, and whether it was measured.

A query is measured if some measured marginal contains its columns: the noise that was added there, which is public,
bounds what the answer can be off. Any other answer is model-based: what the fitted distribution says, no promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.synthesis.domain import Domain
from sidelight.synthesis.packing import Mass
from sidelight.synthesis.query_blocks import CellQueries, QueryBlock
from sidelight.synthesis.workload import Workload

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """A marginal that was measured: its noisy counts and the standard deviation of their noise. Public."""

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    values: NDArray[Any]
    deviation: float

    @property
    def fine(self) -> bool:
        """Whether no values were grouped."""
        return all(width == 1 for width in self.widths)

    def to_value(self) -> dict[str, Any]:
        """Return what a release holds of it."""
        return {
            "columns": list(self.columns),
            "widths": list(self.widths),
            "values": np.asarray(self.values),
            "noise_deviation": self.deviation,
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Measured:
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
    errors of the same shape, of the noise alone; None if model-based. `shares` divide by the number of rows.
    """

    columns: tuple[str, ...]
    counts: Floats
    errors: Floats | None
    rows: float

    @property
    def measured(self) -> bool:
        """Whether the privacy noise bounds the error."""
        return self.errors is not None

    @property
    def shares(self) -> Floats:
        """The counts as shares of all rows."""
        return np.asarray(self.counts / self.rows)

    def __repr__(self) -> str:
        what = f"{self.counts.size} answers on {' x '.join(self.columns)}"
        if self.errors is None:
            return f"Answers({what}, model-based)"
        return f"Answers({what}, standard errors up to {float(self.errors.max()):.3g} rows)"


def answer_block(block: QueryBlock, mass: Mass, measured: Sequence[Measured], *, rows: float) -> Answers:
    """Answer the queries of one block."""
    found = np.asarray(block.answers(mass.marginal(block.columns)), np.float64) * rows / block.steps
    deviation = _deviation(block.columns, mass.domain, measured)
    errors = None if deviation is None else deviation * np.sqrt(_squares(block))
    if isinstance(block, CellQueries):
        found = found.reshape(block.shape)
        errors = None if errors is None else errors.reshape(block.shape)
    return Answers(block.columns, found, errors, rows)


def answer_workload(workload: Workload, mass: Mass, measured: Sequence[Measured], *, rows: float) -> list[Answers]:
    """Answer every block of a workload."""
    return [answer_block(block, mass, measured, rows=rows) for block in workload.blocks(mass.domain)]


def _deviation(columns: tuple[str, ...], domain: Domain, measured: Sequence[Measured]) -> float | None:
    """Return the standard deviation of one cell of a marginal, from the best weighting of what covers it.

    A cell of the columns is a sum of cells(T)/cells(S) cells of a measured marginal T that contains them.
    """
    information = 0.0
    for each in measured:
        if each.fine and set(columns) <= set(each.columns):
            summed = prod(domain.shape_of(each.columns)) / prod(domain.shape_of(columns))
            information += 1.0 / (each.deviation**2 * summed)
    return None if information == 0.0 else 1.0 / sqrt(information)


def _squares(block: QueryBlock) -> Floats:
    """Return Σ q² of each query over the cells of its columns."""
    if block.bounds == (0, 1) and block.steps == 1:  # q² = q
        shape = getattr(block, "shape")  # noqa: B009  # every block has one; the protocol does not ask for it
        return np.asarray(block.answers(np.ones(shape)), np.float64)
    return np.array([float((block.coefficients(place) ** 2).sum()) for place in range(block.count)])


def expected_errors(
    mass: Mass, workload: Workload, measured: Sequence[Measured], *, rows: float
) -> list[dict[str, Any]]:
    """Say of each marginal of a workload how it was answered and what error its noise alone would make.

    The expected total-variation error of the noisy marginal is √(2/π) σ cells / (2 rows); the fit usually does better,
    because marginals support each other.
    """
    lines: list[dict[str, Any]] = []
    for marginal in workload.partitions(mass.domain, closure=False):
        deviation = _deviation(marginal.columns, mass.domain, measured) if marginal.fine else None
        cells = marginal.cells(mass.domain)
        expected = None if deviation is None else min(sqrt(2 / np.pi) * deviation * cells / (2 * max(rows, 1.0)), 1.0)
        lines.append(
            {
                "columns": list(marginal.columns),
                "cells": cells,
                "basis": "model-based" if deviation is None else "measured",
                "noise_deviation": deviation,
                "expected_error": expected,
            }
        )
    return lines
