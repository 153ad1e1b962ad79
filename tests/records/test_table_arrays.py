"""Tables over arrays in memory: what is checked at construction, and what a batch holds."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import groups_of
from sidelight.errors import RangeError, SchemaError
from sidelight.records import Category, Number, PersonId, Table
from sidelight.records.rows import Wanted


def read(table, *, numbers=(), texts=(), rows=3):
    batches = list(table.rows.batches(Wanted(numbers=numbers, texts=texts), rows=rows))
    columns = [[batch.numbers[name] for batch in batches] for name in numbers]
    columns += [[batch.texts[name] for batch in batches] for name in texts]
    return [np.concatenate(parts).tolist() if parts else [] for parts in columns]


def test_forms_of_arrays():
    assert read(Table([1, "2", None, 3.5], schema=[Number("x")]), numbers=("x",))[0][:2] == [1.0, 2.0]
    matrix = np.arange(6).reshape(3, 2)
    table = Table(matrix, schema=[Number("a"), Number("b")])
    assert read(table, numbers=("b", "a")) == [[1, 3, 5], [0, 2, 4]]
    mapping = Table({"s": np.array(["x", ""]), "unused": [0, 0]}, schema=[Category("s", ["x"])])
    assert read(mapping, texts=("s",)) == [["x", None]]
    assert read(Table(np.empty(0), schema=[Number("x")]), numbers=("x",)) == [[]]


def test_masked_arrays_are_missing_where_masked():
    masked = np.ma.masked_array([1, 2, 3], mask=[False, True, False])
    (values,) = read(Table(masked, schema=[Number("x")]), numbers=("x",))
    assert np.array_equal(values, [1.0, np.nan, 3.0], equal_nan=True)
    words = np.ma.masked_array(["a", "b"], mask=[True, False])
    assert read(Table(words, schema=[Category("x", ["a"])]), texts=("x",)) == [[None, "b"]]


def test_float64_is_never_copied_or_changed():
    values = np.array([1.0, np.nan, 2.0])
    batch = next(Table(values, schema=[Number("x")]).rows.batches(Wanted(numbers=("x",))))
    assert np.shares_memory(batch.numbers["x"], values)


def test_shows_nothing_private():
    table = Table(np.array([123456.0] * 7), schema=[Number("x")], name="people")
    assert repr(table) == "Table('people', engine='numpy', columns=['x'])"
    assert repr(next(table.rows.batches(Wanted(numbers=("x",))))) == "Batch(private)"


def test_missing_column_names_the_nearest():
    with pytest.raises(SchemaError, match=r"no column 'agee'.*did you mean 'age'"):
        Table({"age": [1]}, schema=[Number("agee")])


@pytest.mark.parametrize(
    ("column", "declared"),
    [
        (np.array(["a"]), Number("x")),
        (np.array([1j]), Number("x")),
        (np.array(["2020-01-01"], "datetime64[D]"), Number("x")),
        (np.array([1.5]), Category("x", ["a"])),
        (np.array([b"a"]), Category("x", ["a"])),
    ],
)
def test_wrong_type(column, declared):
    with pytest.raises(SchemaError, match=f"'x' is declared as {type(declared).__name__} but the source holds"):
        Table(column, schema=[declared])


def test_person_ids_are_whole_numbers_or_text():
    with pytest.raises(SchemaError, match="'p' is declared as PersonId but"):
        Table({"x": [1], "p": np.array([1.0])}, schema=[Number("x"), PersonId("p", max_rows=1)])


@pytest.mark.parametrize("cells", [[1, 2], ["a", 2], [1.5], [], [None]])
@pytest.mark.parametrize("declared", [Number("x"), Category("x", ["a"])])
def test_no_list_raises_for_its_cells(cells, declared):
    """A type guessed from the cells would be an error that depends on them."""
    assert Table(cells, schema=[declared]).engine == "numpy"


@pytest.mark.parametrize(
    "source",
    [
        np.zeros((2, 3)),
        np.zeros(()),
        np.zeros((2, 2, 2)),
        5,
        object(),
        {"a": [1, 2], "b": [1]},
        {"a": np.zeros((2, 2))},
    ],
)
def test_wrong_shape(source):
    with pytest.raises(SchemaError) as caught:
        Table(source, schema=[Number("a"), Number("b")])
    assert "length 2" not in str(caught.value)  # the number of rows is private


@pytest.mark.parametrize(
    "cells",
    [
        [{"age": 30.0}, {"age": 31.0}],
        [(1.0,), (2.0,)],
        [timedelta(1), timedelta(2)],
        [date(2020, 1, 1), [3]],
    ],
)
def test_a_list_in_which_no_cell_can_be_a_number_is_refused(cells):
    """Every cell would be missing, and a release of nothing would be paid for."""
    with pytest.raises(SchemaError, match="'x' is declared as Number but the source is a list in which no cell is one"):
        Table(cells, schema=[Number("x")])
    with pytest.raises(SchemaError, match="'x' is declared as Number"):
        Table({"x": cells}, schema=[Number("x")])
    for further in ([2.5, None], [None, None]):  # two records that are nothing of the kind
        assert Table([*cells, *further], schema=[Number("x")]).engine == "numpy"


def test_a_list_of_rows_is_refused_with_what_to_write():
    with pytest.raises(SchemaError, match=r"pandas.DataFrame\(rows\)"):
        Table([{"a": 1, "b": 2}], schema=[Number("a"), Number("b")])


@pytest.mark.parametrize("name", [3, None, ["age"], True, b"age"])
def test_a_name_that_is_no_text_is_refused_in_words(name):
    table = Table({"age": [1.0, 2.0]}, schema=[Number("age")])
    if name is not None:  # a table of one column needs none
        with pytest.raises(SchemaError, match="name of one declared column is wanted, got"):
            sl.Quantiles([0.5], column=name, epsilon=1).release(table)
    if not isinstance(name, list | bytes):
        with pytest.raises(SchemaError, match="by takes names of columns"):
            sl.Count(by=name, epsilon=1)
    if name is None:
        with pytest.raises(SchemaError, match="must be a list of labels, got NoneType"):
            Category("job", name)


@pytest.mark.parametrize("limit", ["3", 2.5, True, [1]])
def test_parameters_of_another_type_are_refused_in_words(limit):
    """They were compared with numbers, which raised a TypeError that named no parameter."""
    for name in ("max_groups", "max_rows_per_group"):
        with pytest.raises(RangeError, match=f"{name} must be a whole number from 1 to"):
            sl.Sum("age", epsilon=1, **{name: limit})
    with pytest.raises(RangeError, match="confidence must lie strictly between 0 and 1"):
        sl.Count(epsilon=1, confidence=limit)
    table = Table({"age": [1.0, 2.0]}, schema=[Number("age", lower=0, upper=9)])
    if limit is not True:
        with pytest.raises(RangeError, match=r"trust must lie in 0\.\.1, got"):
            sl.SyntheticTable(sl.marginals(1), epsilon=1, trust=limit).release(table)
    with pytest.raises(RangeError, match=r"a statement is a text|one SELECT was wanted"):
        sl.Session(table, budget=sl.PureDP(1)).sql(limit, epsilon=1)


def test_spark_has_its_place():
    pretend = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(OSError, match="Spark"):
        Table(pretend, schema=[Number("a")])


def test_whole_numbers_in_the_other_byte_order_are_read_as_those_of_the_machine():
    """A type of the other order is none of NumPy's names: numbers beyond 2**63 failed or wrapped."""
    huge = [2**63 + 1, 2**63 + 2] * 20
    for cells in (huge, [*huge, 5], [1, 2] * 20, [2**64 - 1] * 3):
        labels = [str(2**63 + 1), str(2**63 + 2)]
        counts = []
        for order in "<>":
            table = Table({"k": np.array(cells, f"{order}u8")}, schema=[Category("k", labels, other="others")])
            counts.append(group_counts(table, groups_of(table.schema, by="k")).value.tolist())
            columns = {"who": np.array(cells, f"{order}u8"), "x": np.zeros(len(cells))}
            people = Table(columns, schema=[PersonId("who", max_rows=1), Number("x", lower=0, upper=1)])
            assert group_counts(people, groups_of(people.schema)).value == len(set(cells))
            ids = [batch.person for batch in people.rows.batches(Wanted(numbers=(), texts=(), person="who"))]
            texts = {text for each in ids for text in each.tolist()}
            assert texts == set(map(str, cells))
        assert counts[0] == counts[1]
