"""What `Quantiles` refuses before any data is opened: parameters that contradict each other or cannot be meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidelight.errors import RangeError, SchemaError
from sidelight.predictions import PublicData, is_prior
from sidelight.records import Number, Schema

#: What is computed after a release, of each level beside each other, must fit into memory.
MOST_LEVELS = 5000


def check_parameters(query: Any, *, levels: int) -> None:
    """Refuse parameters of a query of so many levels that cannot work; what it may cost is checked elsewhere."""
    if levels > MOST_LEVELS:
        raise RangeError(
            f"at most {MOST_LEVELS} levels can be asked for at once, got {levels}; sl.Distribution(column, "
            "epsilon=...) knows every quantile, and costs as much"
        )
    if not query.by and (query.max_groups is not None or query.max_rows_per_group is not None) and query.where is None:
        raise RangeError("max_groups and max_rows_per_group are for quantiles by group; give by=, or leave them out")
    if query.adaptation not in ("conditional", "edge"):
        raise RangeError(f'adaptation must be "conditional" or "edge", got {query.adaptation!r}')
    if query.score not in ("exact", "floor"):
        raise RangeError(f'score must be "exact" or "floor", got {query.score!r}')
    if isinstance(query.branching, bool) or not (isinstance(query.branching, int) and query.branching >= 2):
        raise RangeError(f"branching must be a whole number of at least 2, got {query.branching!r}")
    if query._of_a_tree and query.form not in ("auto", "tree"):
        raise RangeError(
            f'{" and ".join(query._of_a_tree)} belong to form="tree", got form={query.form!r}; leave them out'
        )
    if query.cells not in ("selected", "predicted"):
        raise RangeError(f'cells must be "selected" or "predicted", got {query.cells!r}')
    if query.cells == "predicted" and (query.form != "cells" or query.prediction is None):
        raise RangeError('cells="predicted" wants form="cells" and a prediction; give both, or leave it out')
    if query.size is not None and (isinstance(query.size, bool) or not isinstance(query.size, int) or query.size < 1):
        raise RangeError(f"size must be a public whole number of rows, at least 1, got {query.size!r}")
    if query.size is not None and (query.by or query.where is not None):
        raise RangeError("size is the number of all rows, and by group every group's is released; leave it out")
    if query.borrow not in (None, "total"):
        raise RangeError(f"borrow must be 'total' or left out, got {query.borrow!r}")
    if not query.by and query._for_each_group:
        raise RangeError("borrow and predictions by group are for quantiles by group; give by=")
    if query.cells == "predicted" and query._for_each_group:
        raise RangeError('cells="predicted" wants one prediction for all groups; leave cells out, or borrow')
    for prior in query._given:
        if not is_prior(prior):
            fit = "; sl.quantiles.fit_public(...) makes priors of it" if isinstance(prior, PublicData) else ""
            raise RangeError(
                f"prediction must be a prior such as sl.priors.Cauchy(location, scale), got {type(prior).__name__}{fit}"
            )
    if isinstance(query.prediction, Sequence) and len(query.prediction) != levels:
        raise RangeError(
            f"prediction must be one prior, or one for each of the {levels} levels, got {len(query.prediction)}"
        )


def number_of(query: Any, schema: Schema) -> Number:
    """Return the column that a query asks about, as its schema declares it."""
    if query.column is None:
        if len(schema.columns) == 1 and isinstance(schema.columns[0], Number):
            return schema.columns[0]
        raise SchemaError(
            f"which column? The schema has {', '.join(column.name for column in schema.columns)}; "
            "write Quantiles(..., column=...)"
        )
    number = schema.number(query.column)
    doubled = [name for name in ("granularity", "lower", "upper") if getattr(query, name) is not None]
    if doubled:
        raise SchemaError(
            f"what is known of column {query.column!r} stands in its schema, and the query has "
            f"{' and '.join(doubled)}; declare sl.Number({query.column!r}, {doubled[0]}=...) and leave it out here"
        )
    return number
