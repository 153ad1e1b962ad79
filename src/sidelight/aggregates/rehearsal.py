"""A rehearsal of what rows will meet: expressions, folds and lookups on a few rows made of the schema alone.

A public number that a kernel cannot hold is a mistake of the user, to be found before anything is charged. Kernels meet
constants when they meet a batch, and a table or view without rows has none: whether such a release fails after its
charge would tell whether there is a row. So every expression is evaluated on generated rows while a query is prepared:
one with all cells missing, one at the lower ends, one at the upper ends, and one in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sidelight.errors import RangeError, SidelightError
from sidelight.records import Category, Column, Label, Number, Schema
from sidelight.records.numbers import nearest_float
from sidelight.records.rows import Batch, DistinctTexts

#: How many rows are generated.
ROWS = 4


def generated_rows(schema: Schema, names: Iterable[str]) -> Batch:
    """Return rows of the named columns that depend on the declarations alone.

    >>> from sidelight.records import Number
    >>> generated_rows(Schema([Number("age", lower=0, upper=110)]), ["age"]).numbers["age"].tolist()
    [nan, 0.0, 110.0, 55.0]
    """
    wanted = set(names)
    columns = [each for each in schema.columns if each.name in wanted]
    numbers = {each.name: np.array(_numbers(each)) for each in columns if isinstance(each, Number)}
    texts = {each.name: _texts(each) for each in columns if isinstance(each, (Category, Label))}
    return Batch(ROWS, numbers, texts)


def _numbers(column: Number) -> list[float]:
    low = -math.inf if column.lower is None else nearest_float(column.lower)
    high = math.inf if column.upper is None else nearest_float(column.upper)
    middle = low / 2 + high / 2 if math.isfinite(low + high) else min(max(0.0, low), high)
    return [math.nan, low, high, middle]


def _texts(column: Column) -> DistinctTexts:
    labels = column.categories if isinstance(column, Category) else ("a",)
    return DistinctTexts([None, labels[0], labels[-1], labels[len(labels) // 2]], np.arange(ROWS))


@contextmanager
def rehearsed(what: Any) -> Iterator[None]:
    """Turn any error of work on generated rows into a refusal in words; no row of a person is involved."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (SidelightError, RecursionError):  # who prepares a query says in words what too many parts are
        raise
    except Exception as error:
        raise RangeError(
            f"{what} cannot be evaluated: one of its public numbers, or of the schema's, is too large, too small or "
            f"too far from the others ({type(error).__name__}). Nothing was charged; change the unit of a column, or "
            "give a number of a more usual size"
        ) from None
