"""Tasks of Spark that fail: once, so that Spark tries them again, or always, with a cell in what they say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

SECRET = "x13x"


def fails_first(batches: Iterator[Any]) -> Iterator[Any]:
    """Hand rows on as they are; the first attempt of every other partition fails after its first batch."""
    from pyspark import TaskContext

    task = TaskContext.get()
    for batch in batches:
        yield batch
        if task.attemptNumber() == 0 and task.partitionId() % 2 == 0:
            raise ValueError("this attempt is to fail")


def fails(batches: Iterator[Any]) -> Iterator[Any]:
    """Fail, and quote cells."""
    for batch in batches:
        raise ValueError(f"a cell says {SECRET}: {batch.column(0).to_pylist()}")
    yield from ()


def by_value(function: Any) -> Any:
    """Return a function that workers need not import: they do not know this file."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return function
