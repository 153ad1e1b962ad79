"""Does an engine give the same integers as all others? A kit that the author of an engine runs on generated tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

from sidelight.aggregates import cell_counts, clipped_moments, clipped_sum, collect_ranks, grid_counts, row_count
from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.collect import Lowering
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.values import value_of
from sidelight.covariance import Covariance
from sidelight.errors import ConformanceError
from sidelight.gaussians import GaussianFit
from sidelight.grid import Grid
from sidelight.guarantees import Neighbours
from sidelight.noise import Source
from sidelight.quantiles import Quantiles
from sidelight.records import Table
from sidelight.records.expressions import Literally
from sidelight.records.rows import DistributedRows, Wanted
from sidelight.summaries.count import Count
from sidelight.summaries.mean import Mean
from sidelight.testing.doors import seeded_release
from sidelight.testing.engine_tables import EngineTable, engine_tables
from sidelight.testing.seeded import SeededEntropy


def engine_conformance(
    open_table: Callable[[EngineTable], Any],
    *,
    rows: int = 120,
    partitions: tuple[int, ...] = (1, 7),
    seeds: int = 1,
    quick: bool = False,
) -> int:
    """Check that an engine gives the same integers, and the same releases under seeded noise, as plain Python lists do.

    The tables hold what breaks engines: nulls, NaN, infinities, -0.0, subnormal numbers, ties, whole numbers beyond
    2**53, hostile labels and ids, one person with most of the rows, one row and none, empty partitions, shuffled rows
    and swapped columns. Each is read by batches and, where the engine runs expressions, by those; and once more after
    a reading that was given up in the middle, as a retried task does.

    Args:
        open_table: Gets an `EngineTable` and returns what `sl.Table` is to read: a frame, a path, a relation; or
            a table with the schema of it.
            `parts` are the partitions, `kinds` the types of the columns, `retried` the partitions whose first
            reading is to fail, where the engine has such things.
        rows: How many rows the larger tables have.
        partitions: Into how many partitions they are cut; (1, 7, 200) in a long run.
        seeds: How many tables of each form.
        quick: Leaves out persons and the tables of one row and of none.

    Returns:
        How many comparisons were made.

    Raises:
        ConformanceError: Something differs; the message names the table, the statistic and both results. The rows are
            generated, so nothing in it is private.

    >>> from sidelight.testing import engine_conformance
    >>> engine_conformance(lambda table: table.columns, rows=20, partitions=(1,)) > 50
    True
    """
    compared = 0
    for seed in range(seeds):
        for trial in engine_tables(rows=rows, seed=seed, partitions=partitions, quick=quick):
            expected = dict(_results(Table(trial.columns, schema=trial.schema), "auto"))
            opened = open_table(trial)
            table = opened if isinstance(opened, Table) else Table(opened, schema=trial.schema)
            compared += _compare(trial, table, expected)
    return compared


def _compare(trial: EngineTable, table: Table, expected: Mapping[str, Any]) -> int:
    compared = 0
    lowerings = _lowerings(table)
    for lowering in lowerings:
        _give_up(table)
        for name, value in _results(table, lowering, sums=lowering != "auto" or len(lowerings) == 1):
            if value != expected[name]:
                raise ConformanceError(
                    f"{table.engine}, {lowering}: {name} of {trial.name} should be {expected[name]}, got {value}; an "
                    "engine gives the integers that plain lists give"
                )
            compared += 1
    return compared


def _lowerings(table: Table) -> tuple[Lowering, ...]:
    """Return the ways that the engine has; persons of rows that are elsewhere are always bounded by the engine."""
    runs = table.rows.frame(Wanted(numbers=("x",))) is not None
    elsewhere = table.schema.person is not None and table.rows.length is None
    if not runs:
        return ("auto",)
    return ("engine", "auto") if elsewhere else ("batches", "engine", "auto")


def _give_up(table: Table) -> None:
    """Begin to read and stop after the first batch: the next reading must not notice."""
    if isinstance(table.rows, DistributedRows):
        return  # it hands no batches over; partitions are retried by `EngineTable.retried`
    batches = table.rows.batches(Wanted(numbers=("x",), texts=("label",)))
    with suppress(StopIteration):
        next(batches)
    close = getattr(batches, "close", None)
    if close is not None:
        close()


def _results(table: Table, lowering: Lowering, *, sums: bool = True) -> Iterator[tuple[str, Any]]:
    if sums:
        yield from _statistics(table, lowering)
    if lowering == "auto":  # ranks and releases choose their own way
        yield from _ranks(table)
        yield from _releases(table)


def _statistics(table: Table, lowering: Lowering) -> Iterator[tuple[str, Any]]:
    """Return every kind of sum, as plain integers."""
    grids = {
        "x": Grid(resolution=Fraction("0.7"), first=-80, last=150),
        "y": Grid(resolution=Fraction(1, 4), first=-9, last=33, snap="nearest"),
        "big": Grid(resolution=Fraction(2**53, 3), first=-8, last=8),
    }
    for column, grid in grids.items():
        yield f"counts of {column} on a grid", _whole(grid_counts(table, column, grid, lowering=lowering))
    for columns in (["label"], ["flag", "grade"]):
        yield f"counts by {columns}", _whole(cell_counts(table, columns, lowering=lowering))
    coarse = {"y": Grid(resolution=Fraction(5), first=-2, last=3)}
    yield "counts by a label and a number", _whole(cell_counts(table, ["label", "y"], grids=coarse, lowering=lowering))
    yield "rows", row_count(table, lowering=lowering).value
    constant = value_of(table.schema, Literally(Fraction(5, 2)))  # it needs no column at all
    summed = group_statistics(table, groups_of(table.schema), [constant], lowering=lowering)
    yield "sum of a constant", [_whole(each) for each in (summed.counts, *summed.values)]
    yield "sum", clipped_sum(table, "x", step="0.001", centre="0.3", lowering=lowering).value
    swapped = clipped_sum(table, "x", step=Fraction(1, 2**33), neighbours=Neighbours.REPLACE, lowering=lowering)
    yield "sum of fine steps", swapped.value
    for levels in (1, 2**14):
        found = clipped_moments(
            table, ["x", "y", "big"], radius="61.7", levels=levels, centres={"x": "0.1"}, lowering=lowering
        )
        yield f"moments of {levels} levels", [_whole(each) for each in (found.count, found.total, found.second)]


def _whole(statistic: Bounded) -> Any:
    """Return a statistic as plain integers, which compare without surprises."""
    return statistic.value if isinstance(statistic.value, int) else statistic.value.tolist()


def _ranks(table: Table) -> Iterator[tuple[str, Any]]:
    grids = (Grid(resolution=Fraction(1, 2**30)), Grid(resolution=Fraction(1), snap="nearest"))
    for name, grid in zip(("fine", "coarse"), grids, strict=True):
        with Source(SeededEntropy("engine conformance")) as source:
            ranks = collect_ranks(table, "x", grid, source)
            yield f"ranks on a {name} grid", [ranks.order(k) for k in range(1, ranks.size + 1)]


def _releases(table: Table) -> Iterator[tuple[str, Any]]:
    """Return what leaves: the same noise on the same integers is the same release."""
    groups: dict[str, Any] = {} if table.schema.person is None else {"max_groups": 3}
    queries: dict[str, Any] = {
        "quantiles": Quantiles([0.25, 0.5], column="x", epsilon=1),
        "count by group": Count(by=["grade", "flag"], epsilon=1, **groups),
        "mean by group": Mean("y", by="grade", epsilon=1, **groups),
        "covariance": Covariance(columns=["x", "y"], radius=60, epsilon=1),
        **_models(),
    }
    for name, query in queries.items():
        outcome = seeded_release(query, table, seed="engine conformance")
        yield f"released {name}", repr(getattr(outcome, "value", outcome))


def _models() -> dict[str, Any]:
    """Return models of few passes: a number, classes, and a Gaussian."""
    from sidelight.regression.estimators import (
        LinearRegression,
        LogisticRegression,
    )  # scikit-learn takes a second to load
    from sidelight.regression.model_query import ModelQuery

    price: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "passes": 2}
    classes = LogisticRegression(classes=["F", "M", "nan"], **price)
    return {
        "linear model": ModelQuery(model=LinearRegression(**price), target="y", features=["x", "flag"]),
        "model of three classes": ModelQuery(model=classes, target="label", features=["x", "y", "grade"]),
        "Gaussian": GaussianFit(["x", "y"], prediction=[[-40, 1], [90, 2], [10, -3], [20, 7]], rho=1),
    }
