"""The error bounds of a release: a few numbers that stay with it, and what they say about an answer.

For whole marginals one number each: how far all its counts together can be off. It bounds every query on its columns,
and every marginal that it contains. Single queries, on measured marginals or of `engine="mwem"`, have one number for
all of a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sidelight.synthesis.cells.query_blocks import CellQueries, MatrixQueries, QueryBlock, RangeQueries
from sidelight.synthesis.cells.workload import Marginal

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
