"""What a choice among one person's rows sees of a column: codes, which are known, and what enters the mix.

Undeclared labels are mixed by a hash of their text: their codes are places among everybody's labels, and a choice among
one person's rows that followed them would depend on the others. How two of them compare does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sidelight.aggregates.expression_values import BatchScope, code_of
from sidelight.aggregates.key_numbers import NONE, Whole
from sidelight.records import Label
from sidelight.records.expression_shapes import LabelShape, RealShape, StepShape
from sidelight.records.expressions import Expression, Named
from sidelight.records.numbers import nearest_float
from sidelight.records.person_key import text_key
from sidelight.records.rows import Batch, DistinctTexts

#: The range of `text_key`.
HASHES = (0, (1 << 60) - 1)


@dataclass(frozen=True, eq=False, repr=False)
class ColumnCodes:
    """A value of each row: its code, whether it is known, what enters the mix, and what a code stands for."""

    codes: Whole
    known: Any
    mixed: Whole
    range: tuple[int, int]
    worth: Callable[[int], float | str]
    is_text: bool

    def at(self, kept: Any) -> ColumnCodes:
        """Return some of the rows."""
        return replace(self, codes=self.codes[kept], known=self.known[kept], mixed=self.mixed[kept])


def codes_read(of: Expression, scope: BatchScope) -> ColumnCodes:
    """Return the codes of a column or derived number."""
    schema, batch = scope.schema, scope.batch
    column = next((each for each in schema.columns if isinstance(of, Named) and each.name == of.name), None)
    if isinstance(column, Label):
        return _label_codes(column, batch)
    shape = of.check(schema)
    value, known = code_of(of, scope)
    there = np.ones(batch.length, bool) if known is None else for_rows(known, batch)
    if isinstance(shape, RealShape):  # the bits of a float; -0.0 is 0.0
        bits = (np.broadcast_to(np.asarray(value, np.float64), (batch.length,)) + 0.0).view(np.int64)
        ends = (-(1 << 59), (1 << 59) - 1)
        return ColumnCodes(bits, there, bits >> 4, ends, lambda code: float(np.int64(code).view(float)), is_text=False)
    found = np.broadcast_to(np.asarray(value, np.int64), (batch.length,))
    if isinstance(shape, LabelShape):
        labels = shape.labels
        return ColumnCodes(found, there, found, (0, len(labels) - 1), labels.__getitem__, is_text=True)
    assert isinstance(shape, StepShape)
    ends, step = (shape.first, shape.last), shape.step
    return ColumnCodes(found, there, found, ends, lambda code: nearest_float(code * step), is_text=False)


def for_rows(mask: Any, batch: Batch) -> Any:
    """Return a condition for each row of a batch, also where it is one for all of them."""
    return np.broadcast_to(np.asarray(mask, bool), (batch.length,))


def _label_codes(column: Label, batch: Batch) -> ColumnCodes:
    """Number undeclared labels in the order of their bytes."""
    texts = batch.texts[column.name]
    assert isinstance(texts, DistinctTexts)
    labels = [column.label_of(cell) for cell in texts.cells]
    there = sorted(
        {label for label in labels if label is not None}, key=lambda text: text.encode("utf-8", "surrogatepass")
    )
    place = {label: number for number, label in enumerate(there)}
    cells = [NONE if label is None else place[label] for label in labels]
    codes = np.array([*cells, NONE], np.int64)[texts.places]
    hashes = np.array([*(0 if label is None else text_key(label) for label in labels), 0], np.int64)[texts.places]
    return ColumnCodes(codes, codes != NONE, hashes, HASHES, there.__getitem__, is_text=True)
