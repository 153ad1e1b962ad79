"""Expressions give the same integers on every engine, and those of exact three-valued logic in plain Python."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_conformance import SOURCES, as_numpy, rows

import sidelight as sl
from plain_statistics import row_count
from sidelight.aggregates.coding import EveryRow
from sidelight.aggregates.collect import collect
from sidelight.aggregates.counts import CellCounts
from sidelight.aggregates.predicates import ExpressionCoding, Filtered
from sidelight.errors import SchemaError
from sidelight.guarantees.units import Row
from sidelight.records import Category, Drop, Fill, Number, Schema, Table
from sidelight.records.expressions import (
    Arithmetic,
    Compare,
    CutExpression,
    IsIn,
    IsMissing,
    Joined,
    Literally,
    Lookup,
    Named,
    Not,
    col,
)
from sidelight.records.rows import Wanted

SCHEMA = [
    Number("x", lower="-50.3", upper=97, missing=Drop()),
    Number("y", lower=-5, upper=8, granularity="0.25", missing=Drop()),
    Number("big", lower=-10, upper=10, granularity=3, missing=Fill(5)),
    Category("sex", ["F", "M", "éa"]),
    Category("flag", [True, False], other=None, missing=Drop()),
]
F = Fraction
EXPRESSIONS = {
    "float": col("x") >= F("2.5"),
    "not a float": (col("x") > F("0.29")) | (col("x") == F("-50.3")),
    "beyond": (col("x") < 10**400) & ~(col("x") <= -(10**400)),
    "equal": (col("x") == F("0.29")) | (col("x") != 97),
    "member": col("x").isin([F("1.5"), 0, F("1/3"), 97]),
    "steps": (col("y") >= F("1.1")) & (col("y") != F("2.5")),
    "unknown": ~(col("y") >= 1),
    "three values": (col("y") > 0) | (col("flag") == True) | (col("x") < 0),  # noqa: E712
    "and three": ~((col("y") > 0) & (col("flag") == "false")),
    "missing": col("y").is_missing() | ~col("x").is_missing() & (col("flag") == "true"),
    "never missing": col("big").is_missing() | (col("sex") == "F"),
    "labels": col("sex").isin(["F", "other"]) & (col("sex") != "M"),
    "empty list": ~col("sex").isin([]),
    "arithmetic": 2 * col("y") - col("big") / 3 + F("0.1") >= col("y") * col("big"),
    "negated": -col("y") / -2 < F("0.3"),
    "lookup": col("sex").lookup({"F": "a", "éa": "b"}).isin(["a"]),
    "lookup of numbers": col("y").lookup({F("0.5"): 3, F("0.75"): F("-1/2"), 1: 7, F("0.3"): 1, 9000: 2}, default=0)
    > F("-0.1"),
    "lookup of floats": col("x").lookup({F("1.5"): "one", 97: "end"}) == "end",
    "lookup to arithmetic": col("sex").lookup({"F": 1, "M": F("2.5")}) * 2 + col("big") > 4,
    "cut": col("x").cut([-5, F("0.29"), 3, 90]).isin(["[0.29, 3)", "below -5"]),
    "cut of steps": col("y").cut([-1, F("0.1"), 8], outside="drop") == "[0.1, 8]",
    "cut of floats, dropped": ~(col("x").cut([-50, 0, 97], outside="drop") == "[-50, 0)"),
    "condition missing": ((col("y") > 0) & (col("x") > 0)).is_missing(),
}
OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
CALCULATED = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_DECLARED = {column.name: column for column in SCHEMA}


def cell(name, value):
    """What the schema makes of a cell: an exact number, a label, or None."""
    column = _DECLARED[name]
    if isinstance(column, Category):
        text = None if value in (None, "") else str(value).lower() if isinstance(value, bool) else value
        code = column.missing_code if text is None else column.labels.index(text) if text in column.labels else None
        code = column.unknown_code if code is None and text is not None else code
        return None if code is None else column.labels[code]
    if value is None or math.isnan(value):
        return None if isinstance(column.missing, Drop) else exact(column, Fraction(column.missing.value))
    if math.isinf(value):
        return exact(column, Fraction(10**400 if value > 0 else -(10**400)))
    return exact(column, Fraction(value))


def exact(column, value):
    if column.granularity is None:
        low, high = Fraction(float(column.lower)), Fraction(float(column.upper))
        return min(max(value, low), high)
    value = min(max(value, column.lower), column.upper)
    step = column.granularity
    return step * math.floor(value / step + Fraction(1, 2))


def held(of, constant):
    """Return a constant as the source stores it: the nearest float for a float column."""
    within = isinstance(of, Named) and of.name == "x" and abs(constant) < 10**308
    return Fraction(float(constant)) if within else constant


def evaluate(whole, row):
    """Evaluate in the plainest way: None is missing or unknown."""
    if isinstance(whole, Named):
        return cell(whole.name, row[whole.name])
    if isinstance(whole, Literally):
        return whole.value
    parts = [evaluate(part, row) for part in whole.parts]
    if isinstance(whole, IsMissing):
        return parts[0] is None
    if isinstance(whole, Joined):
        decisive = whole.word == "or"
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    if None in parts:
        return None
    if isinstance(whole, Not):
        return not parts[0]
    if isinstance(whole, Compare):
        left, right = (
            held(other, part) if isinstance(own, Literally) else part
            for own, other, part in zip(whole.parts, reversed(whole.parts), parts, strict=True)
        )
        return OPERATORS[whole.operator](left, right)
    if isinstance(whole, Arithmetic):
        return CALCULATED[whole.operator](*parts)
    if isinstance(whole, IsIn):
        return parts[0] in [held(whole.of, value) for value in whole.values]
    if isinstance(whole, Lookup):
        keys = [held(whole.of, key) if isinstance(parts[0], Fraction) else key for key, _ in whole.entries]
        return whole.entries[keys.index(parts[0])][1] if parts[0] in keys else whole.default
    assert isinstance(whole, CutExpression)
    edges = [held(whole.of, edge) for edge in whole.edges]
    below = sum(edge <= parts[0] for edge in edges)
    if whole.outside == "keep":
        return whole.labels[below]
    if parts[0] == edges[-1]:
        below -= 1
    return whole.labels[below - 1] if 0 < below < len(edges) else None


def all_rows(count):
    table = rows(count)
    return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]


def expected(expression, count):
    found = [evaluate(expression, row) for row in all_rows(count)]
    return [found.count(False), found.count(True)]


@cache
def known(which):
    return expected(EXPRESSIONS[which], 150)


def counted(table, expression, lowering):
    coding = ExpressionCoding(expression, table.schema)
    counts = CellCounts(coding=coding, rows_per_unit=1, unit=Row())
    every = Filtered(EveryRow("x", is_number=True), ExpressionCoding(expression, table.schema))
    passed = CellCounts(coding=every, rows_per_unit=1, unit=Row())
    found = collect(table, counts, lowering=lowering).value.tolist()
    assert collect(table, passed, lowering=lowering).value.tolist() == found[1:]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("predicates")


def in_few_queries(table):
    """Evaluate every expression inside the engine, six in one query: their cost grows faster than their number."""
    expressions = list(EXPRESSIONS.values())
    return [each for first in range(0, len(expressions), 6) for each in in_one_query(table, expressions[first:][:6])]


def in_one_query(table, expressions):
    import narwhals.stable.v2 as nw

    codings = [ExpressionCoding(each, table.schema) for each in expressions]
    wanted = Wanted(
        numbers=tuple(dict.fromkeys(name for coding in codings for name in coding.numbers)),
        texts=tuple(dict.fromkeys(name for coding in codings for name in coding.texts)),
    )
    frame = table.rows.frame(wanted)
    for place, coding in enumerate(codings):
        frame, kept = coding.lower(frame, wanted, [f"x{place}"])
        frame = frame.with_columns(nw.when(kept).then(nw.col(f"x{place}")).otherwise(nw.lit(-1)).alias(f"x{place}"))
    found = frame.select(*(f"x{place}" for place in range(len(codings)))).collect()
    codes = [found[f"x{place}"].to_list() for place in range(len(codings))]
    return [[each.count(0), each.count(1)] for each in codes]


@pytest.mark.parametrize("name", ["pandas", "polars_lazy", "arrow", "csv", "parquet", "duckdb"])
def test_every_engine_agrees_with_plain_python(name, folder, tmp_path):
    empty = Table(SOURCES[name](0, tmp_path), schema=SCHEMA)
    assert in_few_queries(empty) == [[0, 0]] * len(EXPRESSIONS)
    table = Table(SOURCES[name](150, folder), schema=SCHEMA)
    assert in_few_queries(table) == [known(which) for which in EXPRESSIONS]
    for which in ("three values",):
        assert counted(table, EXPRESSIONS[which], "engine") == known(which)
        assert counted(table, EXPRESSIONS[which], "batches") == known(which)


@pytest.mark.parametrize("which", list(EXPRESSIONS))
def test_arrays_agree_with_plain_python(which):
    table = Table(as_numpy(150, None), schema=SCHEMA)
    assert counted(table, EXPRESSIONS[which], "batches") == known(which)
    if which == "three values":
        assert sum(known(which)) < 150  # something is unknown
    assert counted(Table(as_numpy(0, None), schema=SCHEMA), EXPRESSIONS[which], "batches") == [0, 0]


@pytest.mark.parametrize("which", ["lookup", "cut", "cut of steps", "lookup to arithmetic"])
def test_derived_codes_row_by_row(which):
    derived = EXPRESSIONS[which].parts[0] if which != "lookup" else EXPRESSIONS[which].of
    table = Table(as_numpy(150, None), schema=SCHEMA)
    coding = ExpressionCoding(derived, table.schema)
    found = []
    for batch in table.rows.batches(Wanted(numbers=coding.numbers, texts=coding.texts)):
        (codes,), kept = coding.kernel(batch)
        kept = np.ones(batch.length, bool) if kept is None else kept
        found += [code if stays else None for code, stays in zip(codes.tolist(), kept.tolist(), strict=True)]
    shape = coding.shape
    meaning = shape.labels.__getitem__ if hasattr(shape, "labels") else shape.step.__mul__
    meant = [None if code is None else meaning(code) for code in found]
    assert meant == [evaluate(derived, row) for row in all_rows(150)]


numbers = st.fractions(-60, 100) | st.sampled_from([Fraction(1, 4), Fraction(0), Fraction("2.5"), Fraction(97)])
labels = st.sampled_from(["F", "M", "éa", "other"])
names, comparisons = st.sampled_from(["x", "y"]).map(Named), st.sampled_from(list(OPERATORS))
leaves = st.one_of(
    st.builds(Compare, comparisons, names, st.builds(Literally, numbers)),
    st.builds(Compare, comparisons, st.builds(Literally, numbers), st.sampled_from(["big", "y"]).map(Named)),
    st.builds(Compare, st.sampled_from(["==", "!="]), st.just(Named("sex")), st.builds(Literally, labels)),
    st.builds(IsIn, st.just(Named("sex")), st.lists(labels, max_size=3).map(tuple)),
    st.builds(IsIn, names, st.lists(numbers, max_size=3).map(tuple)),
    st.builds(IsMissing, st.sampled_from(["x", "y", "flag", "sex"]).map(Named)),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.builds(Joined, st.sampled_from(["and", "or"]), inner, inner) | st.builds(Not, inner),
    max_leaves=6,
)


@settings(max_examples=60)
@given(conditions)
def test_any_condition_is_that_of_plain_python(condition):
    table = Table(as_numpy(60, None), schema=SCHEMA)
    assert counted(table, condition, "batches") == expected(condition, 60)


def test_where_must_be_a_condition():
    schema = Schema(SCHEMA)
    with pytest.raises(SchemaError, match="where must be a condition"):
        Filtered(EveryRow("x", is_number=True), ExpressionCoding(col("y") + 1, schema))
    with pytest.raises(SchemaError, match="granularity"):
        ExpressionCoding(col("x"), schema)


@pytest.mark.parametrize("person", [False, True])
def test_every_row_of_a_schema_of_labels_alone(person: bool) -> None:
    """A schema without a number is counted by its first text column, also where that cell is missing."""
    schema = Schema([sl.Label("employer"), *([sl.PersonId("p", max_rows=1)] if person else [])])
    every = EveryRow.of(schema)
    assert (every.numbers, every.texts, every.ranges, every.drops) == ((), ("employer",), ((0, 0),), False)
    rows = {"employer": ["a", None, "b", ""], "p": ["x", "x", "y", None]}
    for table in (sl.Table(rows, schema=schema), sl.Table(pl.DataFrame(rows).lazy(), schema=schema)):
        for lowering in ("batches", "engine")[: 1 if table.in_memory else 2]:
            assert row_count(table, lowering=lowering).value == (2 if person else 4)
