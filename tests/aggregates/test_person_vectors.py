"""Vectors of a person's totals: their norm by brute force, exact sums, and the same integers on every engine."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sidelight as sl
from plain_statistics import with_neighbours
from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.collect_ranks import collect_codes
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.aggregates.person_vectors import PersonVector
from sidelight.aggregates.values import total_of, vector_of
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees.claims import Neighbours

LABELS = ["a", "b", "c"]
NET = sl.col("x") * (1 - sl.col("d"))


def schema_of(lower: int = -3, upper: int = 3) -> sl.Schema:
    number = sl.Number("x", lower=lower, upper=upper, granularity=1)
    share = sl.Number("d", lower=0, upper="0.5", granularity="0.25")
    return sl.Schema([sl.PersonId("who", max_rows=4), sl.Category("g", LABELS, other=None), number, share])


def vector_sums(
    source: Any,
    schema: sl.Schema,
    cut: int,
    of: Any = "x",
    *,
    norm: Any = "l1",
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    lowering: Any = "auto",
) -> Bounded:
    groups = with_neighbours(groups_of(schema, by="g", totals="vector"), neighbours)
    value, limit = vector_of(schema, of, person_total=cut)
    whole = replace(groups, totals=limit)
    table = sl.Table(source, schema=schema)
    return group_statistics(table, whole, [value], kind="whole", norm=norm, lowering=lowering).values[0]


def bundles(values: range, rows: int) -> list[tuple[tuple[str, int], ...]]:
    """Return all multisets of at most `rows` rows of a person."""
    cells = list(product(LABELS[: 3 if rows < 3 else 2], values))
    return [each for size in range(rows + 1) for each in combinations_with_replacement(cells, size)]


def vectors(schema: sl.Schema, cut: int, every: list[tuple[tuple[str, int], ...]]) -> np.ndarray:
    """Return the vector of each bundle: every one is a person, in a group of tables of their own."""
    found = []
    groups = groups_of(schema, by="g", totals="vector")
    value, limit = vector_of(schema, "x", person_total=cut)
    whole = replace(groups, totals=limit)
    for rows in every:
        data = {
            "who": ["p"] * len(rows),
            "g": [row[0] for row in rows],
            "x": np.array([row[1] for row in rows], float),
            "d": np.zeros(len(rows)),
        }
        found.append(group_statistics(sl.Table(data, schema=schema), whole, [value], kind="whole").values[0].value)
    return np.array(found)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_every_vector_has_at_most_its_norm_and_replaced_persons_twice(cut: int) -> None:
    """All bundles of at most two rows in three groups, with signs and without; the bounds are attained."""
    for lower in (-2, 0):
        schema = schema_of(lower, 2)
        found = vectors(schema, cut, bundles(range(lower, 3), 2))
        sizes = np.abs(found).sum(axis=1)
        assert sizes.max() == cut
        apart = found[:, None, :] - found[None, :, :]
        one = np.abs(apart).sum(axis=2)
        squares = (apart**2).sum(axis=2)
        bounds = {}
        for norm in ("l1", "l2"):
            replaced = vector_sums(
                {"who": [], "g": [], "x": [], "d": []}, schema, cut, norm=norm, neighbours=Neighbours.REPLACE
            )
            bounds[norm] = replaced.sensitivity
        assert one.max() == bounds["l1"] == 2 * cut
        assert squares.max() <= bounds["l2"] ** 2
        assert bounds["l2"] ** 2 == pytest.approx((4 if lower < 0 else 2) * cut**2, rel=1e-10)
        if cut <= 2:  # two persons of one row each, in two groups, or with two signs in one
            assert squares.max() == (4 if lower < 0 else 2) * cut**2


def test_longer_bundles_and_other_people_change_nothing() -> None:
    """Three rows in two groups: adding a person to others moves the sums by the person's own vector."""
    schema = schema_of(-2, 2)
    every = bundles(range(-2, 3), 3)
    found = vectors(schema, 3, every)
    assert np.abs(found).sum(axis=1).max() == 3
    others = {"who": ["q", "q", "r", None], "g": ["a", "b", "b", "a"], "x": [2.0, 2.0, -2.0, 1.0], "d": [0.0] * 4}
    alone = np.asarray(vector_sums(others, schema, 3).value)
    for place in range(0, len(every), 7):
        rows = every[place]
        more = {
            "who": [*others["who"], *["p"] * len(rows)],
            "g": [*others["g"], *(row[0] for row in rows)],
            "x": [*others["x"], *(float(row[1]) for row in rows)],
            "d": [*others["d"], *[0.0] * len(rows)],
        }
        assert (np.asarray(vector_sums(more, schema, 3).value) - alone).tolist() == found[place].tolist()


@pytest.mark.planted("vector cut at U in each group", of=("Sum",))
def test_a_cut_in_each_group_is_refuted_by_brute_force() -> None:
    schema = schema_of(0, 2)
    every = bundles(range(3), 2)
    claimed = vector_sums({"who": [], "g": [], "x": [], "d": []}, schema, 2).sensitivity
    assert np.abs(vectors(schema, 2, every)).sum(axis=1).max() <= claimed
    # the planted bug: each group keeps min(|t|, U)
    each = total_of(schema, "x", lower=0, upper=2)
    loose = groups_of(schema, by="g", max_groups=3, totals=True)
    worst = 0
    for rows in every:
        data = {"who": ["p"] * len(rows), "g": [r[0] for r in rows], "x": [float(r[1]) for r in rows]}
        table = sl.Table({**data, "d": [0.0] * len(rows)}, schema=schema)
        worst = max(worst, int(np.abs(group_statistics(table, loose, [each], kind="whole").values[0].value).sum()))
    assert worst > claimed


def hostile() -> dict[str, Any]:
    rng = np.random.default_rng(36)
    size = 400
    return {
        "who": [None if place % 31 == 0 else f"p{place}" for place in rng.integers(0, 40, size)],
        "g": [[*LABELS, "z", None][place] for place in rng.integers(0, 5, size)],
        "x": [None if place == 9 else float(place) for place in rng.integers(-7, 10, size)],
        "d": [float(each) / 4 for each in rng.integers(0, 3, size)],
    }


@pytest.mark.parametrize("of", ["x", NET], ids=str)
@pytest.mark.parametrize("cut", [2, 7, 10**6])
def test_engines_give_the_same_integers(of: Any, cut: int) -> None:
    schema, data = schema_of(-5, 5), hostile()
    expected = vector_sums(data, schema, cut, of)
    sources = {
        "arrow": pa.table(data),
        "pandas": pa.table(data).to_pandas(),
        "polars": pl.DataFrame(data),
        "lazy": pl.DataFrame(data).lazy(),
        "duckdb": duckdb.connect().from_arrow(pa.table(data)),
    }
    for name, source in sources.items():
        for lowering in ("batches", "engine"):
            found = vector_sums(source, schema, cut, of, lowering=lowering)
            assert found.value.tolist() == expected.value.tolist(), (name, lowering)
    order = np.random.default_rng(1).permutation(400)
    shuffled = {name: [cells[place] for place in order] for name, cells in data.items()}
    assert vector_sums(shuffled, schema, cut, of).value.tolist() == expected.value.tolist()


def test_uncut_vectors_are_the_sums_of_all_rows() -> None:
    """A million rows of one person, each of them as large as a row may be: nothing wraps, and no row is left out."""
    size = (1 << 20) + 5
    number = sl.Number("x", granularity=1)
    schema = sl.Schema([sl.PersonId("who", max_rows=2), sl.Category("g", LABELS, other=None), number])
    data = {"who": np.zeros(size, np.int64), "g": ["a"] * size, "x": np.full(size, -(2.0**40))}
    value, limit = vector_of(schema, "x", person_total=2**60)
    groups = replace(groups_of(schema, by="g", totals="vector"), totals=limit)
    found = group_statistics(sl.Table(data, schema=schema), groups, [value], kind="whole").values[0].value
    assert (int(found[0]) * value.whole_step, *found[1:]) == (-limit.most * limit.unit, 0, 0)
    few = {"who": [1] * 5, "g": ["b"] * 5, "x": [3.0] * 5}
    for source in (few, pl.DataFrame(few)):
        value, limit = vector_of(schema, "x", person_total=100)
        groups = replace(groups_of(schema, by="g", totals="vector"), totals=limit)
        assert group_statistics(sl.Table(source, schema=schema), groups, [value], kind="whole").values[0].value[1] == 15


@pytest.mark.parametrize("source", [dict, pl.DataFrame, lambda data: duckdb.connect().from_arrow(pa.table(data))])
def test_the_size_of_a_person_is_one_record(source: Any) -> None:
    schema = schema_of(-5, 5)
    data = {"who": ["p", "p", "p", "q"], "g": ["a", "b", "b", "c"], "x": [-4.0, 5.0, -2.0, 1.0], "d": [0.0] * 4}
    groups = groups_of(schema, by="g", totals="vector")
    codes = collect_codes(sl.Table(source(data), schema=schema), total_of(schema, "x").coding, groups)
    assert (codes.size, codes.tie_at(1)[0], codes.tie_at(2)[0]) == (2, 1, 7)
    assert groups.norms.total == 1


def test_units_hold_at_most_two_to_the_thirty() -> None:
    schema = schema_of()
    for of, cut in product(("x", NET), (1, 10**3, 10**9, 10**12, 2**70)):
        value, limit = vector_of(schema, of, person_total=cut)
        assert limit.most * limit.unit <= 2**60
        assert limit.most == value.farthest <= 2**29
        assert value.upper == -value.lower == limit.most * value.step
        assert float(value.upper) == pytest.approx(min(cut, 2**60 * value.step / limit.unit), rel=1e-8)


def test_what_has_no_norm_is_refused() -> None:
    schema = schema_of()
    groups: Groups = groups_of(schema, by="g", totals="vector")
    value, limit = vector_of(schema, "x", person_total=3)
    table = sl.Table({"who": [], "g": [], "x": [], "d": []}, schema=schema)
    for wrong, kind in [
        (groups, "whole"),
        (replace(groups, totals=limit), "pair"),
        (replace(groups, totals=replace(limit, most=4)), "whole"),
        (replace(groups, totals=PersonVector(most=3, cut=False)), "whole"),
    ]:
        with pytest.raises(RangeError, match="vectors of persons"):
            group_statistics(table, wrong, [value], kind=kind)  # type: ignore[arg-type]
    found = group_statistics(table, replace(groups, totals=limit), [value], kind="whole")
    assert found.counts.sensitivity == 3  # a person may be in every group
    labels = sl.Schema([sl.PersonId("who", max_rows=2), sl.Label("g"), sl.Number("x", granularity=1)])
    with pytest.raises(SchemaError, match="max_groups"):
        groups_of(labels, by="g", totals="vector")
    wide = sl.Schema([sl.PersonId("who", max_rows=2), sl.Number("x", lower=-(10**6), upper=10**6, granularity="1e-9")])
    with pytest.raises(SchemaError, match="both bounds"):
        vector_of(wide, sl.col("x") * 2, person_total=1)
    floats = sl.Schema([sl.PersonId("who", max_rows=2), sl.Number("x", lower=0, upper=1)])
    with pytest.raises(SchemaError, match="granularity"):
        vector_of(floats, sl.col("x") * 2, person_total=Fraction(1))
