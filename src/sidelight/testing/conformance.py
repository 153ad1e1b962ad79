"""Does an engine give the same integers as all others? A kit that the author of an engine runs on generated tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeVar

from sidelight.aggregates import cell_counts, clipped_moments, collect_ranks
from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.collect import Lowering
from sidelight.aggregates.group_sums import Kind as StatisticKind
from sidelight.aggregates.group_sums import group_counts, group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.values import value_of
from sidelight.covariance import Covariance
from sidelight.errors import ConformanceError
from sidelight.gaussians import GaussianFit
from sidelight.grid import Grid
from sidelight.noise import Source
from sidelight.quantiles import Quantiles
from sidelight.records import Category, Column, Drop, Fill, Number, PersonId, Table
from sidelight.records.expressions import Literally
from sidelight.records.rows import Wanted
from sidelight.records.source_protocols import DistributedRows
from sidelight.summaries.count import Count
from sidelight.summaries.mean import Mean
from sidelight.summaries.sum import Sum
from sidelight.testing.seeded import SeededEntropy, seeded_release

Kind = Literal["float", "integer", "boolean", "text"]
Cell = TypeVar("Cell")

_FLOATS = (
    *(1.5, -2.5, math.nan, None, math.inf, -math.inf, 1e300, -1e300, -0.0, 0.0, 5e-324, -2.2250738585072014e-308),
    *(0.49999999999999994, 2.5, 0.29, 97.0, 1e15, -7.25, 2.5, 2.5, 1.7976931348623157e308),
)
_WHOLE = (1, -3, None, 2**53 + 1, 2**53 - 1, 7, 0, -(2**62), 5, 2**63 - 1, -(2**63), 9007199254740993)
_LABELS = (
    *("F", "M", "", None, "F ", " F", "f", "é", "e\u0301", "NULL", "nan", "None", "a,b", 'a"b', "a\nb", "F\tM", "🙂"),
    *("\u200b", "1", "1.0", "true", "x" * 300, "';--", "\\N", "#", "ward=A"),
)
_IDS = ("7", "007", "7.0", None, "", "ann", "Ann", "ann ", "é", "e\u0301", "9007199254740993", "9007199254740992", "-0")


@dataclass(frozen=True, kw_only=True)
class EngineTable:
    """A generated table for an engine under test.

    Args:
        name: What is special about it.
        kinds: The type of each column, in the order that the engine is to hold them.
        parts: The rows, cut into partitions; each is a mapping of names to cells, None where one is missing.
        retried: Partitions whose first reading is to fail, in engines that read a failed one again.
        schema: What is declared of the columns.
    """

    name: str
    kinds: Mapping[str, Kind]
    parts: tuple[Mapping[str, list[Any]], ...]
    retried: tuple[int, ...]
    schema: tuple[Column, ...]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """All rows, one partition behind the other."""
        return {name: [cell for part in self.parts for cell in part[name]] for name in self.kinds}


class _Draws:
    """Whole numbers from a seed, the same on every machine."""

    def __init__(self, seed: int | str) -> None:
        self._entropy = SeededEntropy(f"engine conformance {seed}")

    def below(self, limit: int) -> int:
        """Return a number in 0..limit-1."""
        return int.from_bytes(self._entropy.read(8), "little") % limit

    def one(self, cells: Sequence[Cell]) -> Cell:
        """Return one of several."""
        return cells[self.below(len(cells))]

    def shuffled(self, cells: Sequence[Cell]) -> list[Cell]:
        """Return all of several in another order."""
        found = list(cells)
        for place in range(len(found) - 1, 0, -1):
            other = self.below(place + 1)
            found[place], found[other] = found[other], found[place]
        return found


_KINDS: dict[str, Kind] = {
    "x": "float",
    "y": "float",
    "big": "integer",
    "label": "text",
    "flag": "boolean",
    "grade": "integer",
    "who": "text",
    "number": "integer",
}
_SCHEMA: tuple[Column, ...] = (
    Number("x", lower="-50.3", upper=97, missing=Drop()),
    Number("y", lower=-8, upper=8, granularity="1/8", missing=Fill("1.5")),
    Number("big"),
    Category("label", ["F", "M", "é", "nan", 'a"b', "a\nb"]),
    Category("flag", [True, False], other=None, missing=Drop()),
    Category("grade", [1, 2], missing=Fill(2)),
)


def engine_tables(
    *, rows: int, seed: int | str = 0, partitions: Sequence[int] = (1, 7), quick: bool = False
) -> list[EngineTable]:
    """Return tables with some rows, for rows and for persons of two kinds of ids, cut in several ways, and small ones.

    Of no rows and of one there is one table each: more of them would show nothing new. With `quick`, the tables for
    rows alone.
    """
    persons = (None, PersonId("who", max_rows=3), PersonId("number", max_rows=2))
    found = []
    for count, ways, units in ((0, (1,), persons[1:2]), (1, (2,), persons[:1]), (rows, partitions, persons)):
        for cuts in ways:
            for person in units[:1] if quick and count == rows else () if quick else units:
                words = f"{count} rows in {cuts} partitions, {'rows' if person is None else person.name} seed {seed}"
                found.append(_table(words, count, cuts, person, _Draws(words)))
    return found


def _table(words: str, count: int, cuts: int, person: PersonId | None, draws: _Draws) -> EngineTable:
    names = draws.shuffled(list(_KINDS))
    rows = draws.shuffled([_row(draws, place) for place in range(count)])
    bounds = sorted(draws.below(count + 1) for _ in range(cuts - 1))
    if cuts > 2:
        bounds[1] = bounds[0]  # at least one is empty
    ends = list(zip([0, *bounds], [*bounds, count], strict=True))
    parts = tuple({name: [row[name] for row in rows[start:end]] for name in names} for start, end in ends)
    schema = _SCHEMA if person is None else (*_SCHEMA, person)
    retried = tuple(place for place in range(cuts) if draws.below(3) == 0)
    return EngineTable(
        name=words, kinds={name: _KINDS[name] for name in names}, parts=parts, retried=retried, schema=schema
    )


def _row(draws: _Draws, place: int) -> dict[str, Any]:
    plain = (draws.below(1 << 20) - (1 << 19)) / (1 << 12)
    crowd = draws.below(5) < 3  # one person has most of the rows
    return {
        "x": draws.one(_FLOATS) if draws.below(3) else plain,
        "y": draws.one(_FLOATS) if draws.below(4) == 0 else draws.below(101) / 8 - 5,
        "big": draws.one(_WHOLE),
        "label": draws.one(_LABELS),
        "flag": draws.one((True, None, False)),
        "grade": draws.one((1, 2, None, 9)),
        "who": "ann" if crowd else draws.one(_IDS) if draws.below(2) else f"p{draws.below(40)}",
        "number": 2**53 + 1 if crowd else draws.one(_WHOLE) if draws.below(2) else place % 40,
    }


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
    for column in grids:
        yield f"counts of {column} on a grid", _whole(cell_counts(table, [column], grids=grids, lowering=lowering))
    for columns in (["label"], ["flag", "grade"]):
        yield f"counts by {columns}", _whole(cell_counts(table, columns, lowering=lowering))
    coarse = {"y": Grid(resolution=Fraction(5), first=-2, last=3)}
    yield "counts by a label and a number", _whole(cell_counts(table, ["label", "y"], grids=coarse, lowering=lowering))
    everything = groups_of(table.schema)
    yield "rows", _whole(group_counts(table, everything, lowering=lowering))
    constant = value_of(table.schema, Literally(Fraction(5, 2)))  # it needs no column at all
    summed = group_statistics(table, everything, [constant], lowering=lowering)
    yield "sum of a constant", [_whole(each) for each in (summed.counts, *summed.values)]
    kinds: tuple[StatisticKind, ...] = ("whole", "pair", "triple", "disc")
    for kind in kinds:
        summed = group_statistics(table, everything, [value_of(table.schema, "x")], kind=kind, lowering=lowering)
        yield f"sum as {kind}", [_whole(each) for each in summed.values]
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
        "sums of all groups": Sum("y", by=["grade", "flag"], epsilon=1),
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
