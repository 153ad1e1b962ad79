"""One record decides nothing about another: every source, every hostile cell, every kind of column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.audit_couplings import CELLS, SOURCES, Trial, run, trials

from benchmarks import audit_couplings
from sidelight.aggregates.expression_values import BatchScope
from sidelight.records import Table, cells
from sidelight.records.engines import arrays, arrow_cells


def told(found: Any) -> str:
    return "\n".join(f"{each.trial}: {each.what}" for each in found)


def test_a_sample_finds_nothing() -> None:
    """Some cells in every kind of source; `make audit` runs all."""
    tried, found = run(list(trials(every=499)))
    assert not found, told(found)
    assert tried > 8


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_nothing_is_found_anywhere(record_property: Any) -> None:
    chosen = list(trials())
    tried, found = run(chosen)
    record_property(
        "audit",
        f"records coupled: {len(SOURCES)} kinds of source, {len(CELLS)} hostile cells, numbers, labels and ids, put "
        f"first, in the middle and last, {tried} trials; {len(found)} moved, raised or warned",
    )
    assert not found, told(found)
    assert tried > 10_000


def test_what_was_mended_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that lets NumPy choose the type of a column, and one that warns, are found."""
    null = Trial("mapping of polars Int64", "integer", "category", "null", "middle")
    assert run([null])[1] == []
    monkeypatch.setattr(audit_couplings, "Table", _by_numpy)
    assert [found.what for found in run([null])[1]] == ["raises SchemaError"]
    monkeypatch.undo()
    complex_cell = Trial("list", "number", "number", "NumPy complex", "first")
    assert run([complex_cell])[1] == []
    monkeypatch.setattr(cells, "_NO_NUMBER", ())
    assert [found.what for found in run([complex_cell])[1]] == ["warns (ComplexWarning)"]


@pytest.mark.parametrize("cell", ["null", "text"])
def test_dictionaries_that_arrow_joins_would_be_found(monkeypatch: pytest.MonkeyPatch, cell: str) -> None:
    """One null, or one text more than an index of 8 bits has room for, made it fail."""
    trial = Trial("arrow own dictionaries of string", "text", "person", cell, "middle")
    assert run([trial])[1] == []
    by_chunks = arrow_cells.distinct_of_arrow

    def joined(column: Any, known: Any = None) -> Any:
        return by_chunks(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, known)

    monkeypatch.setattr(arrow_cells, "distinct_of_arrow", joined)
    assert [found.what for found in run([trial])[1]] == ["raises ArrowInvalid"]


@pytest.mark.parametrize(("kind", "cell"), [("date parts", "a date"), ("filled number", "null")])
def test_derived_columns_that_look_at_other_records_would_be_found(
    monkeypatch: pytest.MonkeyPatch, kind: str, cell: str
) -> None:
    """Parts of dates that move with the number of records, and a fill that moves the numbers that are there."""
    trial = Trial("mapping of lists", "text" if kind == "date parts" else "number", kind, cell, "middle")
    monkeypatch.setitem(CELLS, "a date", "2020-01-02")
    assert run([trial])[1] == []
    choose = BatchScope.choose
    monkeypatch.setattr(BatchScope, "choose", lambda scope, value, *table: choose(scope, value + len(value), *table))
    monkeypatch.setattr(BatchScope, "where", lambda scope, known, value, fill: value + (0 if known.all() else 1))
    assert [found.what.split()[0] for found in run([trial])[1]] == ["moves"]


def _by_numpy(data: Any, schema: Any) -> Table:
    return Table({name: np.asarray(column) for name, column in data.items()}, schema=schema)


def test_objects_are_put_into_arrays_as_they_are() -> None:
    given = [[1], np.array([1, 2]), "a"]
    assert arrays.untyped(given).tolist()[0] == [1]
