"""The most frequent label, exactly, wherever it wins clearly; a refusal elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates import cell_counts
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount, Neighbours, decimal_text, exact
from sidelight.mechanisms.tests_and_bounds import LaplaceTest
from sidelight.noise import Source
from sidelight.records import Category, Number, Schema, Table
from sidelight.release import Outcome, TailBound
from sidelight.session import Answer, release_once
from sidelight.stability.budgets import row_budget
from sidelight.stability.engine import PreparedTest, propose_and_test

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class StableMode:
    """Release the most frequent label of a category if few records cannot overturn it, else refuse.

    Guarantee: ApproxDP(epsilon, delta) for the schema's unit, exact on the machine (stability proof page, Theorems 1
    and 5). All of epsilon goes to the test; the label that comes out is the true one.

    Accuracy: never wrong. Refuses unless the winner leads by some ln(1/delta)/epsilon records.

    Args:
        column: A `Category` column of two labels or more; may be left out where it is the only one.
        epsilon, delta: The price.
        neighbours: ADD_REMOVE, or REPLACE for a public number of rows.

    >>> from sidelight.records import Category
    >>> votes = Table({"city": ["Bonn"] * 90 + ["Ulm"] * 30}, schema=[Category("city", ["Bonn", "Ulm"])])
    >>> StableMode("city", epsilon=1, delta="1e-6").release(votes).value
    'Bonn'
    """

    column: str | None = None
    epsilon: Amount = field(kw_only=True)
    delta: Amount = field(kw_only=True)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, kw_only=True)

    def __post_init__(self) -> None:
        if self.neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
            raise RangeError(f"the mode's neighbours are ADD_REMOVE or REPLACE, got {self.neighbours}")

    def prepare(self, schema: Schema) -> PreparedTest[Counts]:
        """Check the query against the schema and price it. Opens no data."""
        category = _category(self.column, schema)
        if len(category.labels) < 2:
            raise SchemaError(f"column {category.name!r} has one label only: its mode is known without data")
        budget = row_budget(self.epsilon, self.delta, unit=schema.unit, neighbours=self.neighbours)
        return propose_and_test(
            _Proposal(category, self.neighbours),
            test=LaplaceTest(epsilon=budget.epsilon, false_pass=budget.delta),
            budget=budget,
            request={
                "kind": "stable_mode",
                "column": category.name,
                "epsilon": decimal_text(exact(self.epsilon, name="epsilon")),
                "delta": decimal_text(exact(self.delta, name="delta")),
                "neighbours": self.neighbours.value,
            },
            refusal="a few records could overturn the most frequent label",
            error=_never_wrong(float(budget.epsilon), float(budget.delta)),
        )

    def release(self, data: Table) -> Outcome:
        """Release from a table with exactly this query's budget and no ledger."""
        return release_once(self, data)

    def declare(self) -> Number:
        """Refuse a bare array: the labels must be declared, or a rare one leaks."""
        raise SchemaError("a mode wants sl.Table(data, schema=[sl.Category(name, labels)]): labels are public")


def _never_wrong(epsilon: float, delta: float) -> TailBound:
    """Return the error of what is answered, 0, with the lead at which 19 of 20 runs answer."""
    lead = ceil((log(1 / (2 * delta)) + log(10)) / epsilon) + 1  # the threshold, and noise of one run in twenty
    told = f"it is answered at all: a label that leads by about {lead:,} rows is, one that leads by few is refused"
    return TailBound(unit="labels", assumption=told, fixed=(0.0,), per_log=(0.0,))


@dataclass(frozen=True)
class _Proposal:
    category: Category
    neighbours: Neighbours

    def look(self, table: Table, source: Source) -> Counts:
        return np.asarray(cell_counts(table, [self.category.name]).value)

    def distance(self, secret: Counts, *, cap: int) -> int:
        return min(cap, mode_distance(secret.tolist(), neighbours=self.neighbours))

    def release(self, secret: Counts, source: Source) -> Answer:
        return Answer(value=self.category.labels[int(np.argmax(secret))], labels=("mode",))


def mode_distance(counts: Sequence[int], *, neighbours: Neighbours) -> int:
    """Return how many records must change until one more can overturn the winner; ties go to the first label.

    The gap to label j closes by one (add or remove) or by two (replace) with each record (Theorem 5).

    >>> mode_distance([50, 30, 20], neighbours=Neighbours.ADD_REMOVE)
    20
    >>> mode_distance([50, 30, 20], neighbours=Neighbours.REPLACE)
    10
    """
    winner = max(range(len(counts)), key=lambda j: (counts[j], -j))
    gap = min(counts[winner] - count + (j > winner) for j, count in enumerate(counts) if j != winner)
    return gap - 1 if neighbours is Neighbours.ADD_REMOVE else -(-gap // 2) - 1


def _category(column: str | None, schema: Schema) -> Category:
    categories = [each for each in schema.columns if isinstance(each, Category)]
    if column is not None:
        return schema.category(column)
    if len(categories) != 1:
        raise SchemaError("which column? Write StableMode(column, ...)")
    return categories[0]
