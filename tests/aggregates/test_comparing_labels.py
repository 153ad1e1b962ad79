"""Two columns of labels compared: the same on arrays and inside engines, with three values of truth."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

import sidelight as sl
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import groups_of
from sidelight.errors import SchemaError
from sidelight.records.expressions import Not

CELLS = ["x", "y", "zebra", "yak", None]
PAIRS = list(product(CELLS, CELLS))


def _table(source: Any, *, other: str | None) -> sl.Table:
    return sl.Table(
        source, schema=[sl.Category("a", ["x", "y"], other=other), sl.Category("b", ["x", "y"], other=other)]
    )


def _sources(folder: Path) -> list[Any]:
    import polars as pl
    import pyarrow as pa
    from pyarrow import parquet

    columns = {"a": [one for one, _ in PAIRS], "b": [two for _, two in PAIRS]}
    parquet.write_table(pa.table(columns), folder / "pairs.parquet")
    return [columns, pa.table(columns), pl.DataFrame(columns), folder / "pairs.parquet"]


def _count(table: sl.Table, where: Any) -> int:
    return int(group_counts(table, groups_of(table.schema, where=where)).value)


@pytest.mark.parametrize("other", [None, "other"])
def test_engines_agree_with_the_definition(tmp_path: Path, other: str | None) -> None:
    def label(cell: str | None) -> str | None:
        return cell if cell in ("x", "y") else other

    def truth(one: str | None, two: str | None) -> bool | None:
        known = label(one) is not None and label(two) is not None and not label(one) == label(two) == other
        return label(one) == label(two) if known else None

    same = sl.col("a") == sl.col("b")
    wanted = [sum(truth(*pair) is value for pair in PAIRS) for value in (True, False)]
    for source in _sources(tmp_path):
        table = _table(source, other=other)
        found = [_count(table, same), _count(table, Not(same))]
        assert found == [_count(table, Not(sl.col("b") != sl.col("a"))), _count(table, sl.col("a") != sl.col("b"))]
        assert found == wanted


def test_other_labels_and_other_orders_are_refused() -> None:
    columns: list[Any] = [sl.Category("a", ["x", "y"]), sl.Category("b", ["y", "x"]), sl.Category("c", ["x"])]
    columns += [sl.Category("d", ["x", "y"]), sl.Number("n", granularity=1)]
    table = sl.Table({name: [] for name in "abcdn"}, schema=columns)
    for where in (
        sl.col("a") == sl.col("b"),
        sl.col("a") == sl.col("c"),
        sl.col("a") == sl.col("n"),
        sl.col("a") < sl.col("d"),
    ):
        with pytest.raises(SchemaError):
            groups_of(table.schema, where=where)
