"""The key of a person's id: the same for every spelling of a whole number, on every engine, whatever a reader made."""

from __future__ import annotations

import io
import random

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sidelight.aggregates import cell_counts
from sidelight.aggregates.lookups import by_bytes
from sidelight.records import Category, PersonId, Table
from sidelight.records.person_key import person_key, person_key_sql, spelled, text_key
from sidelight.records.rows import DistinctTexts, WholeIds

WARDS = [f"w{place}" for place in range(8)]


def _texts(count: int) -> list[str]:
    draws = random.Random(20261118)
    signs = "0001279+- \t\n.ae\u00e9\x00\v\f\r\u00a0\u0663"
    made = ["".join(draws.choices(signs, k=draws.randint(1, 7))) for _ in range(count)]
    return [*made, "-0", "+0", "000", "-000 ", "+-7", "--7", "7\n\n", "7\n", "1" * 60, "0" * 60]


def _by_rule(text: str) -> str:
    """The whole number that a text spells, by Python's own reading of one."""
    inner = text.strip(" \t\n\v\f\r")
    digits = inner[1:] if inner[:1] in ("+", "-") else inner
    return str(int(inner)) if digits and set(digits) <= set("0123456789") else text


def test_only_whole_numbers_have_a_shortest_form():
    for text in _texts(20_000):
        assert spelled(text) == _by_rule(text)


def test_duckdb_computes_the_same_keys():
    texts = _texts(20_000)
    rows = duckdb.connect().from_arrow(pa.table({"t": pa.array(texts, pa.large_string())}))
    assert [key for (key,) in rows.project(person_key_sql("t")).fetchall()] == [person_key(text) for text in texts]
    whole = pa.table({"t": pa.array([-7, 0, 7, 10**12])})
    keys = duckdb.connect().from_arrow(whole).project(person_key_sql("CAST(t AS VARCHAR)", whole=True)).fetchall()
    assert [key for (key,) in keys] == [text_key(text) for text in ("-7", "0", "7", "1000000000000")]


def test_keys_of_tables_are_ordered_alike():
    """Where a row is chosen by the texts of its references, whole numbers and padded texts choose the same one."""
    numbers = [10, 9, -3, 100, 0]
    padded = DistinctTexts([f"{number:05d}" for number in numbers], np.arange(5))
    assert by_bytes(WholeIds(np.array(numbers))).tolist() == by_bytes(padded).tolist()
    several = DistinctTexts(["7", "007", "07", None], np.arange(4))
    assert sorted(by_bytes(several).tolist()) == [-1, 0, 1, 2]


def _records(*, odd: bool) -> str:
    """Four hundred people with five rows each and padded ids, and one more with another kind of id."""
    rng = np.random.default_rng(20261118)
    lines = [f"{person:05d},{WARDS[rng.integers(8)]}" for person in range(400) for _ in range(5)]
    return "\n".join(["person,ward", *lines, *(["ann,w0"] if odd else [])]) + "\n"


READERS = {
    "pandas": lambda text: pd.read_csv(io.StringIO(text)),
    "pandas with pyarrow": lambda text: pd.read_csv(io.StringIO(text), dtype_backend="pyarrow"),
    "polars": lambda text: pl.read_csv(io.StringIO(text), infer_schema_length=None),
    "polars, lazy": lambda text: pl.read_csv(io.StringIO(text), infer_schema_length=None).lazy(),
    "arrow": lambda text: pa.Table.from_pandas(pd.read_csv(io.StringIO(text))),
    "duckdb": lambda text: duckdb.connect().from_arrow(pa.Table.from_pandas(pd.read_csv(io.StringIO(text)))),
    "mapping": lambda text: {name: cells.tolist() for name, cells in pd.read_csv(io.StringIO(text)).items()},
}


@pytest.mark.parametrize(
    ("reader", "lowering"),
    [(reader, way) for reader in READERS for way in ("batches", "engine") if (reader, way) != ("mapping", "engine")],
)
def test_one_odd_id_does_not_change_which_rows_of_others_count(reader, lowering):
    """A reader of files makes numbers of padded ids, or texts where one is no number: they choose the same rows."""
    schema = [PersonId("person", max_rows=1), Category("ward", WARDS)]
    counts = [
        cell_counts(Table(READERS[reader](_records(odd=odd)), schema=schema), ["ward"], lowering=lowering).value
        for odd in (False, True)
    ]
    assert int(np.asarray(counts[0]).sum()) == 400
    assert np.abs(np.asarray(counts[1], np.int64) - np.asarray(counts[0], np.int64)).sum() == 1
