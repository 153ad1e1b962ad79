"""Can one record decide how another is read? Every source kind times every hostile cell times every kind of column.

A table of twelve ordinary records is read, then the same table with one more record, put first, in the middle or last,
whose one cell is hostile. The codes of the twelve, all that a statistic ever sees of them, must be the same; at most
one code may be added; and nothing may be raised, warned of or printed. A coupling is a trial where that fails. Cells
that a typed source cannot hold (a text in a column of whole numbers) are left out: its library refuses them.

Columns with a declared reading (decimal commas, other dates, aliases, ids in one spelling) are tried in every source of
texts but patterns of files with types of their own, which are refused by their footers before a charge. Of derived
columns (a constant where a cell is missing, parts of dates) the codes of the expressions are compared.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.audit_sources import CELLS, SOURCES, NotWritableError, Source
from benchmarks.measuring import sized
from sidelight.aggregates.coding import CategoryCoding, Coding, CombinedCoding, NumberCoding
from sidelight.aggregates.collect import coded_frame, coded_rows
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.predicates import ExpressionCoding
from sidelight.grid import Grid
from sidelight.records import Category, Date, Fill, Number, PersonId, Table
from sidelight.records.expressions import Expression, col

GRID = Grid(resolution=Fraction(1, 4), first=-400, last=400, snap="nearest")
#: Of the trials: all of them.
EVERY = sized(1, 4000)
MARK = Number("mark", missing=Fill(-1))
BASE: dict[str, list[Any]] = {
    "number": [float(place) for place in range(21, 33)],
    # the last ones are one number where something made floats of them; none is what a hostile cell may be read as
    "integer": [*range(21, 31), 2**60 + 1, 2**60 + 3],
    "text": [f"v{place}" for place in range(1, 13)],
}
#: Labels that repeat, not in their order: what is remembered of one batch may be used for the next.
FEW = [1, 0] * 6
#: Of columns with a declared reading: their ordinary cells, and the declaration.
READ: dict[str, tuple[list[str], Any]] = {
    "read number": (
        [f"{'1.0' if place % 2 else ''}{place},5" for place in range(21, 33)],
        Number("cell", decimal=",", thousands=".", missing_texts=["k.A.", "12"], missing=Fill("-3.5")),
    ),
    "read date": (
        [f"{place}.0{1 + place % 3}.2020" for place in range(17, 29)],
        Date("cell", start="2020-01-01", end="2020-12-31", formats=["%d.%m.%Y", "iso"], missing_texts=["12"]),
    ),
    "read category": (
        [f"{' ' * (place % 2)}{'vV'[place % 2]}{place}" for place in range(1, 13)],
        Category(
            "cell", [f"v{place}" for place in range(1, 9)], aliases={"v1": ["v9", "v10"]}, casefold=True, strip=True
        ),
    ),
    "read person": (
        [f"{' ' * (place % 2)}{'vV'[place % 2]}{place}" for place in range(1, 13)],
        PersonId("cell", max_rows=1, casefold=True, strip=True, missing_texts=["no number", "12"]),
    ),
}
_WITH_STEPS = Number("cell", lower=-400, upper=400, granularity="0.25")
#: Of derived columns: their ordinary cells, the declaration of the column that they read, and the expressions.
DERIVED: dict[str, tuple[list[Any] | None, Any, list[Expression]]] = {
    "filled number": (None, _WITH_STEPS, [col("cell").fill_missing(-3.5), col("cell").fill_missing(24) >= 24]),
    "filled real number": (None, Number("cell"), [col("cell").fill_missing(0.1) < 30]),
    "filled category": (
        None,
        Category("cell", [f"v{place}" for place in range(1, 9)], other=None),
        [col("cell").fill_missing("none"), col("cell").fill_missing("v8")],
    ),
    "date parts": (
        [f"2020-{1 + place:02d}-{place + 17}" for place in range(12)],
        Date("cell", start="2020-01-01", end="2020-12-31"),
        [
            col("cell").month.fill_missing("none"),
            col("cell").weekday,
            col("cell").start_of("quarter"),
            col("cell").fill_missing("2020-06-30").month,
        ],
    ),
}
#: Sources in which readings and derived columns are not tried: files that differ in type, and columns that are tried
#: in frames.
_NOT_READ = ("parquet pattern", "mapping of pandas", "mapping of polars", "mapping of arrow", "arrow chunks")
_FILLED_NUMBERS = ("filled number", "filled real number")
KINDS = {
    "number": ("number", *_FILLED_NUMBERS),
    "integer": ("number", "category", "few labels", "person", *_FILLED_NUMBERS),
    "text": ("category", "person", *READ, "filled category", "date parts"),
}
PLACES = {"first": 0, "middle": 6, "last": 12}


@dataclass(frozen=True)
class Trial:
    """One source, one kind of column, one cell, one place."""

    source: str
    flavour: str
    kind: str
    cell: str
    place: str


@dataclass(frozen=True)
class Finding:
    """A trial in which the records were not read as they were without the hostile one."""

    trial: Trial
    what: str


def trials(*, every: int = 1) -> Iterator[Trial]:
    """Give all trials, or every so manieth."""
    count = 0
    for name, source in SOURCES.items():
        for flavour in source.flavours:
            for kind in KINDS[flavour]:
                if (kind.endswith("person") and source.bare) or (kind.endswith("number") and source.labels):
                    continue
                if (kind in READ or kind in DERIVED) and name.startswith(_NOT_READ):
                    continue
                for turn, cell in enumerate(CELLS):
                    if kind == "few labels" and cell in ("true", "false"):  # to pandas these are 1 and 0
                        continue
                    in_turn = source.slow or kind in READ or kind in DERIVED
                    for place in [list(PLACES)[turn % 3]] if in_turn else PLACES:
                        if count % every == 0:
                            yield Trial(name, flavour, kind, cell, place)
                        count += 1


def run(chosen: Sequence[Trial]) -> tuple[int, list[Finding]]:
    """Return how many trials could be written at all, and what was found."""
    tried, found = 0, []
    known: dict[tuple[str, str, str], Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for trial in chosen:
            source = SOURCES[trial.source]
            key = (trial.source, trial.flavour, trial.kind)
            if key not in known:
                known[key] = _read(source, trial, _base(trial), Path(folder), None)
                if any(isinstance(codes, str) for codes in known[key].values()):  # then nothing could be found out
                    found.append(Finding(trial, f"cannot be read at all: {known[key]}"))
            cells = list(_base(trial))
            cells.insert(PLACES[trial.place], CELLS[trial.cell])
            try:
                after = _read(source, trial, cells, Path(folder), PLACES[trial.place])
            except NotWritableError:
                continue
            tried += 1
            what = _difference(known[key], after)
            if what is not None:
                found.append(Finding(trial, what))
    return tried, found


def measure() -> dict[str, float]:
    """Return the number of couplings, and of the trials in which they were looked for."""
    tried, found = run(list(trials(every=EVERY)))
    return {"couplings": float(len(found)), "trials": float(tried), "sources": float(len(SOURCES))}


def main() -> None:
    """Print what was found, by source."""
    tried, found = run(list(trials(every=EVERY)))
    for (source, what), number in sorted(Counter((each.trial.source, each.what) for each in found).items()):
        names = sorted({each.trial.cell for each in found if (each.trial.source, each.what) == (source, what)})
        print(f"{source:32s} {number:5d}  {what}: {', '.join(names)}")
    print(f"{len(found)} couplings in {tried} trials over {len(SOURCES)} kinds of source")


def _base(trial: Trial) -> list[Any]:
    cells = {**READ, **DERIVED, "few labels": (FEW,)}.get(trial.kind, (None,))[0]
    return BASE[trial.flavour] if cells is None else cells


def _read(source: Source, trial: Trial, cells: list[Any], folder: Path, place: int | None) -> dict[str, Any]:
    """Return what a reader could see: the codes by each way of reading them, or the type of an error, and warnings."""
    marks = [float(mark) for mark in range(12)]
    if place is not None:
        marks.insert(place, 99.0)
    data = source.write(marks, cells, trial.flavour, folder, place)
    seen: dict[str, Any] = {}
    printed: list[object] = []
    with warnings.catch_warnings(record=True) as caught, _unraisable_into(printed):
        warnings.simplefilter("always")
        for lowering in ("batches", "engine") if source.runs_expressions else ("batches",):
            try:
                seen[lowering] = _codes(Table(data, schema=_schema(source, trial)), source, trial, lowering)
            except BaseException as error:
                if type(error) is KeyboardInterrupt:
                    raise
                seen[lowering] = type(error).__name__
    seen["warnings"] = sorted({type(each.message).__name__ for each in caught} | ({"printed"} if printed else set()))
    return seen


@contextmanager
def _unraisable_into(found: list[object]) -> Iterator[None]:
    """Collect what Python would print because it cannot raise it."""
    before, sys.unraisablehook = sys.unraisablehook, lambda report: found.append(type(report))
    try:
        yield
    finally:
        sys.unraisablehook = before


def _schema(source: Source, trial: Trial) -> list[Any]:
    declared = {**READ, **DERIVED}
    column: Any = (
        declared[trial.kind][1]
        if trial.kind in declared
        else {
            "number": lambda: Number("cell", missing=Fill("-3.5")),
            "category": lambda: Category("cell", [str(cell) for cell in BASE[trial.flavour]]),
            "few labels": lambda: Category("cell", ["0", "1"], other=None),
            "person": lambda: PersonId("cell", max_rows=1),
        }[trial.kind]()
    )
    return [column] if source.bare else [MARK, column]


def _codes(table: Table, source: Source, trial: Trial, lowering: str) -> Counter[tuple[int, ...]]:
    parts: list[Coding] = [] if source.bare else [NumberCoding("mark", FixedPoint.on_grid(MARK, GRID))]
    if trial.kind in ("number", "read number", "read date"):
        parts.append(NumberCoding("cell", FixedPoint.on_grid(table.schema.number("cell"), GRID)))
    elif trial.kind in ("category", "few labels", "read category"):
        parts.append(CategoryCoding(table.schema.category("cell")))
    elif trial.kind in DERIVED:
        parts += [ExpressionCoding(each, table.schema) for each in DERIVED[trial.kind][2]]
    coding = CombinedCoding(tuple(parts))
    if lowering == "engine":
        frame, columns = coded_frame(table, coding)
        batches = list(table.rows.stream(frame, columns))
    else:
        batches = list(coded_rows(table, coding))
    return Counter(
        row for batch in batches for row in zip(*(np.asarray(column).tolist() for column in batch), strict=True)
    )


def _difference(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """Say how the records of the smaller table were read differently; None: they were not."""
    if set(after["warnings"]) - set(before["warnings"]):
        return f"warns ({', '.join(after['warnings'])})"
    for lowering in before:
        first, second = before[lowering], after[lowering]
        if lowering == "warnings" or first == second:
            continue
        if isinstance(first, str) or isinstance(second, str):
            return f"raises {second}" if isinstance(second, str) else f"raises no {first}"
        if first - second:
            return f"moves {sum((first - second).values())} records"
        if sum((second - first).values()) > 1:
            return "adds more than one record"
    return None


if __name__ == "__main__":
    main()
