"""Statistics by group: the same integers on every engine, and no unit moves them further than they say."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import product

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_conformance import SOURCES, rows

from plain_statistics import with_neighbours
from sidelight.aggregates.bounded import ContributionBounds, sqrt_up
from sidelight.aggregates.collect_ranks import collect_codes, collect_group_ranks, collect_ranks
from sidelight.aggregates.group_sums import GroupSums, distinct_counts, group_counts, group_statistics, statistics_of
from sidelight.aggregates.groups import declared_max_groups, groups_of
from sidelight.aggregates.values import LEVELS, total_of, value_of
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import Grid
from sidelight.guarantees.claims import Neighbours
from sidelight.noise import Source
from sidelight.records import Category, Drop, Fill, Label, Number, PersonId, Schema, Table
from sidelight.records.expressions import col
from sidelight.testing import SeededEntropy

SCHEMA = [
    Number("x", lower="-50.3", upper=97, missing=Drop()),
    Number("y", lower=-5, upper=8, granularity="0.25", missing=Drop()),
    Number("big", granularity=1, missing=Fill(5)),
    Category("sex", ["F", "M", "éa"]),
    Category("flag", [True, False], other=None, missing=Drop()),
]
PERSON = PersonId("who", max_rows=12)
BINS = col("y").cut([-1, 2])


def statistics(table, lowering):
    """Every statistic by group, as plain integers."""
    schema = table.schema
    limits = {"max_groups": 2, "max_rows_per_group": 4} if schema.person else {}
    found = {}
    for name, by in {"none": (), "sex": "sex", "three": ["sex", BINS, "flag"]}.items():
        groups = groups_of(schema, by=by, where=(col("x") > -40) | (col("flag") == "true"), **limits)
        values = [value_of(schema, "x"), value_of(schema, "y", upper=3), value_of(schema, col("y") * 2 - 1)]
        for kind in ("pair", "triple", "disc") if name == "sex" else ("pair",):
            result = group_statistics(table, groups, values, kind=kind, lowering=lowering)
            found[name, kind] = [np.asarray(each.value).tolist() for each in (result.counts, *result.values)]
    groups = groups_of(schema, by="flag", **limits)
    share = value_of(schema, col("sex") == "F")
    found["share"] = group_statistics(table, groups, [share], lowering=lowering).values[0].value.tolist()
    found["distinct"] = distinct_counts(table, groups, "sex", lowering=lowering).value.tolist()
    if schema.person:
        totals = groups_of(schema, by="sex", max_groups=2, totals=True)
        total = total_of(schema, "big", lower=-20, upper=2**50)
        result = group_statistics(table, totals, [total], lowering=lowering)
        found["totals"] = [result.counts.value.tolist(), result.values[0].value.tolist()]
    return found


def ranks_by_group(table):
    limits = {"max_groups": 2, "max_rows_per_group": 4} if table.schema.person else {}
    groups = groups_of(table.schema, by="sex", where=col("y") < 6, **limits)
    grid = Grid(resolution=Fraction(1, 8), dither_bits=0)
    with Source(SeededEntropy("by group")) as source:
        parts = [*collect_group_ranks(table, "x", grid, source, groups=groups)]
        parts.append(collect_ranks(table, "x", grid, source, groups=groups))
        return [[ranks.size, *(ranks.order(k) for k in range(1, ranks.size + 1))] for ranks in parts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("group_sums")


_REFERENCE = {}


ENGINES = ["numpy", "pandas", "polars_lazy", "arrow", "csv", "parquet", "duckdb"]
SLOW = ["arrow", "csv", "parquet"]  # DuckDB runs the windows of all of them


@pytest.mark.parametrize(
    ("name", "person"),
    [(name, False) for name in ENGINES]
    + [pytest.param(name, True, marks=[pytest.mark.slow] if name in SLOW else []) for name in ENGINES],
)
def test_every_engine_gives_the_same_integers(name, person, folder, tmp_path):
    schema = [*SCHEMA, *([PERSON] if person else [])]
    if person not in _REFERENCE:
        reference = Table(SOURCES["numpy"](300, folder), schema=schema)
        _REFERENCE[person] = statistics(reference, "batches"), ranks_by_group(reference)
    expected, ranks = _REFERENCE[person]
    table = Table(SOURCES[name](300, folder), schema=schema)
    if name != "numpy":
        assert statistics(table, "engine") == expected
    if table.rows.length is not None or not person:
        assert statistics(table, "batches") == expected
    assert ranks_by_group(table) == ranks
    if person:
        return
    empty = Table(SOURCES[name](0, tmp_path), schema=schema)
    assert set(np.ravel(statistics(empty, "auto")["three", "pair"][0])) == {0}


def test_the_reference_itself_is_right():
    """Against plain Python, for rows."""
    table = Table(SOURCES["numpy"](300, None), schema=SCHEMA)
    groups = groups_of(table.schema, by=["sex", "flag"])
    value = value_of(table.schema, "y")
    assert (value.levels, value.lower, value.upper, value.code_step) == (52, -5, 8, Fraction(1, 4))
    for kind in ("sum", "pair", "centred", "triple", "disc"):
        result = group_statistics(table, groups, [value], kind=kind)
        counts, sums = Counter(), defaultdict(lambda: np.zeros(3, object))
        m, factor = value.levels, value.factor
        given = rows(300)
        for y, sex, flag in zip(given["y"], given["sex"], given["flag"], strict=True):
            if y is None or math.isnan(y) or flag is None:
                continue
            key = (sex if sex in ("F", "M", "éa") else "other", str(flag).lower())
            c = math.floor(min(max(Fraction(y), -5), 8) * 4 + Fraction(1, 2)) + 20
            e = 2 * c - m
            counts[key] += 1
            sums[key] += {
                "sum": [c, 0, 0],
                "pair": [c, m - c, 0],
                "centred": [e, 0, 0],
                "triple": np.array([c * c, 2 * c * (m - c), (m - c) ** 2], object) * factor // m,
                "disc": [e * factor, (m * m - e * e) * factor // m, 0],
            }[kind]
        found = result.values[0].value
        found = found[None] if found.ndim == 2 else found
        for at in np.ndindex(groups.shape):
            key = tuple(labels[place] for labels, place in zip(groups.keys, at, strict=True))
            assert result.counts.value[at] == counts[key]
            assert [int(part[at]) for part in found] == list(sums[key][: len(found)])
        assert result.counts.value.sum() > 100


@pytest.mark.parametrize("levels", [*range(1, 65), 2**15, 2**15 + 1, 2**20, 2**30 - 1, 2**30])
def test_the_vectors_of_one_row(levels):
    """R3: they add up to the same number for every code, are not negative, and no longer than they say."""
    schema = Schema([Number("x", lower=0, upper=levels, granularity=1)])
    value = value_of(schema, "x")
    assert value.levels == levels
    assert value.square_levels <= LEVELS
    codes = range(levels + 1) if levels <= 64 else [0, 1, 2, levels // 3, levels // 2, levels - 1, levels]
    for c in codes:
        p, r, product_ = value.upper_square(c), value.lower_square(c), value.product(c)
        e = 2 * c - levels
        assert min(p, r, product_, value.square_levels - p - r) >= 0
        assert (e * value.factor) ** 2 + product_**2 <= value.square_levels**2
        # the moments come out: t = e / M
        t = Fraction(e, levels)
        tolerance = 0 if levels <= 2**15 else Fraction(2, value.square_levels)
        assert abs(Fraction(p - r, value.square_levels) - t) <= tolerance
        assert abs(Fraction(product_, value.square_levels) - (1 - t * t)) <= tolerance


def test_norms_by_brute_force():
    """R1: all ways to put at most k rows into groups, at most g of them, at most m in each."""
    for k, g, m in product(range(1, 6), repeat=3):
        norms = ContributionBounds(rows=k, groups=g, per_group=m)
        vectors = [v for v in product(range(m + 1), repeat=g) if sum(v) <= k]
        assert norms.l0 == max(sum(x > 0 for x in v) for v in vectors)
        assert norms.l1 == max(map(sum, vectors))
        assert norms.l2_squared == max(sum(x * x for x in v) for v in vectors)
        assert norms.linf == max(map(max, vectors))
        if g * (m + 1) <= 9:
            replaced = ContributionBounds(rows=k, groups=g, per_group=m, neighbours=Neighbours.REPLACE)
            moves = [[a - b for a, b in zip(u + (0,) * g, (0,) * g + v, strict=True)] for u in vectors for v in vectors]
            assert replaced.l0 == max(sum(x != 0 for x in w) for w in moves)
            assert replaced.l1 == max(sum(map(abs, w)) for w in moves)
            assert replaced.l2_squared == max(sum(x * x for x in w) for w in moves)
            assert replaced.linf == max(max(map(abs, w)) for w in moves)


@pytest.mark.slow
def test_norms_by_brute_force_to_eight():
    """R1 in full: partitions instead of all vectors."""

    def partitions(total, parts, largest):
        yield ()
        if parts:
            for first in range(1, min(total, largest) + 1):
                for rest in partitions(total - first, parts - 1, first):
                    yield (first, *rest)

    for k, g, m in product(range(1, 9), repeat=3):
        norms = ContributionBounds(rows=k, groups=g, per_group=m)
        found = list(partitions(k, g, m))
        assert norms.l2_squared == max(sum(x * x for x in v) for v in found)
        assert (norms.l0, norms.l1) == (max(map(len, found)), max(map(sum, found)))


@pytest.mark.parametrize(
    ("limits", "square"), [((10, 3, 4), 36), ((10, 10, 1), 10), ((10, 10, 10), 100), ((7, 3, 3), 19)]
)
def test_norms_of_the_specification(limits, square):
    k, g, m = limits
    norms = ContributionBounds(rows=k, groups=g, per_group=m)
    assert norms.l2_squared == square
    assert norms.sensitivity("l2", 3) >= 3 * Fraction(math.isqrt(square * 10**12), 10**6)
    signed = ContributionBounds(rows=k, groups=g, per_group=m, neighbours=Neighbours.REPLACE)
    assert signed.sensitivity("l2", signed=True) == sqrt_up(4 * square)
    assert signed.sensitivity("l2") == sqrt_up(2 * square)
    assert sqrt_up(2) ** 2 > 2 > (sqrt_up(2) - Fraction(1, 2**40)) ** 2


records = st.tuples(
    st.sampled_from("pqr"), st.sampled_from(["a", "b", "c", None]), st.floats(allow_nan=True) | st.floats(-2, 2)
)


def small(pairs, max_rows):
    columns = list(zip(*pairs, strict=True)) or [(), (), ()]
    return Table(
        {"p": list(columns[0]), "c": list(columns[1]), "x": np.array(columns[2], np.float64)},
        schema=[
            PersonId("p", max_rows=max_rows),
            Category("c", ["a", "b"]),
            Number("x", lower=-1, upper=1, granularity="0.25"),
        ],
    )


@settings(max_examples=80)
@given(st.lists(records, max_size=14), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.sampled_from("pqr"))
def test_no_person_moves_a_statistic_further_than_it_says(pairs, k, g, m, who):
    tables = [small(pairs, k), small([pair for pair in pairs if pair[0] != who], k)]
    groups = groups_of(tables[0].schema, by="c", max_groups=g, max_rows_per_group=m)
    value = value_of(tables[0].schema, "x")
    for kind, norm in [
        ("pair", "l1"),
        ("pair", "l2"),
        ("triple", "l1"),
        ("centred", "l2"),
        ("disc", "l2"),
        ("sum", "linf"),
    ]:
        found = [group_statistics(table, groups, [value], kind=kind, norm=norm) for table in tables]
        for one, two in ((found[0].counts, found[1].counts), (found[0].values[0], found[1].values[0])):
            moved = (one.value - two.value).ravel().astype(object)
            size = {
                "l1": sum(map(abs, moved)) ** 2,
                "l2": sum(each * each for each in moved),
                "linf": max(map(abs, moved), default=0) ** 2,
            }[norm]
            assert size <= one.sensitivity**2
    counts = [distinct_counts(table, groups_of(tables[0].schema, max_rows_per_group=m), "c") for table in tables]
    assert abs(int(counts[0].value - counts[1].value)) <= counts[0].sensitivity == min(m, k)
    totals = groups_of(tables[0].schema, by="c", max_groups=g, totals=True)
    total = total_of(tables[0].schema, "x", lower="-1.5", upper=2)
    both = [group_statistics(table, totals, [total]).values[0] for table in tables]
    assert np.abs(both[0].value - both[1].value).sum() <= both[0].sensitivity == g * 14


@settings(max_examples=40)
@given(st.lists(records, max_size=8), records, records, st.sampled_from(["pair", "centred", "triple", "disc"]))
def test_no_replaced_row_moves_a_statistic_further_than_it_says(pairs, first, second, kind):
    """Rows are units: no person is declared. Signed statistics pay twice."""
    schema = [Category("c", ["a", "b"]), Number("x", lower=-1, upper=1, granularity="0.25")]
    found = []
    for row in (first, second):
        columns = list(zip(*pairs, row, strict=True))
        table = Table({"c": list(columns[1]), "x": np.array(columns[2], np.float64)}, schema=schema)
        groups = with_neighbours(groups_of(table.schema, by="c"), Neighbours.REPLACE)
        found.append(group_statistics(table, groups, [value_of(table.schema, "x")], kind=kind, norm="l2").values[0])
    moved = (found[0].value - found[1].value).ravel().astype(object)
    assert sum(each * each for each in moved) <= found[0].sensitivity ** 2


def test_the_factor_for_signed_statistics_is_needed():
    """t = 1 replaced by -1 moves the centred sum by twice the levels, more than the square root of two of them."""
    schema = [Number("x", lower=-1, upper=1, granularity="0.25")]
    tables = [Table({"x": [end]}, schema=schema) for end in (-1.0, 1.0)]
    groups = with_neighbours(groups_of(tables[0].schema), Neighbours.REPLACE)
    found = [
        group_statistics(table, groups, [value_of(table.schema, "x")], kind="centred", norm="l2").values[0]
        for table in tables
    ]
    assert abs(found[0].value - found[1].value) == found[0].sensitivity == 16


def test_adding_a_row_moves_the_pair_by_its_code():
    columns = {"c": ["a", "b", "a"], "x": [0.5, -1.0, math.nan]}
    schema = [Category("c", ["a", "b"]), Number("x", lower=-1, upper=1, granularity="0.25")]

    def pairs(more):
        table = Table({name: [*cells, *more.get(name, [])] for name, cells in columns.items()}, schema=schema)
        return group_statistics(table, groups_of(table.schema, by="c"), [value_of(table.schema, "x")]).values[0].value

    moved = pairs({"c": ["a"], "x": [0.25]}) - pairs({})
    assert moved.tolist() == [[5, 0, 0], [3, 0, 0]]
    assert not (pairs({"c": ["a"], "x": [math.nan]}) - pairs({})).any()


def chosen_groups(source, schema, by):
    table = Table(source, schema=schema)
    groups = groups_of(table.schema, by=by, max_groups=3)
    found = group_statistics(table, groups)
    if found.present is not None:
        return {key[0]: int(count) for key, count in zip(found.present, found.counts.value, strict=True)}
    return dict(zip(groups.keys[0], found.counts.value.tolist(), strict=True))


@pytest.mark.parametrize("label", [False, True], ids=["declared", "not declared"])
def test_a_person_in_twenty_groups_moves_the_same_three_everywhere(label, tmp_path):
    names = [f"g{number:02d}" for number in range(20)]
    mine = [("ann", name) for name in names for _ in range(1 + int(name[1:]) // 4)]
    others = [(f"other {number}", names[number % 20]) for number in range(200)]
    schema = [Label("c") if label else Category("c", names, other=None), PersonId("p", max_rows=100)]
    sources = {
        "numpy": lambda frame: {name: frame[name].tolist() for name in frame},
        "pandas": lambda frame: frame,
        "polars": lambda frame: pl.from_pandas(frame).lazy(),
        "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
        "duckdb": lambda frame: duckdb.connect().from_arrow(pa.Table.from_pandas(frame, preserve_index=False)),
        "csv": lambda frame: written(frame, "csv"),
        "parquet": lambda frame: written(frame, "parquet"),
    }

    def written(frame, ending):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.{ending}"
        getattr(frame, f"to_{ending}")(path, index=False)
        return path

    moved = []
    for convert in sources.values():
        for crowd in (others, []):
            with_ann = pd.DataFrame([*mine, *crowd], columns=["p", "c"]).sample(frac=1, random_state=3)
            without = pd.DataFrame(crowd, columns=["p", "c"]).astype("str")
            more, less = chosen_groups(convert(with_ann), schema, "c"), chosen_groups(convert(without), schema, "c")
            moved.append(
                {name: count - less.get(name, 0) for name, count in more.items() if count != less.get(name, 0)}
            )
    assert len(moved[0]) == 3
    assert all(each == moved[0] for each in moved)
    assert all(count == 1 + int(name[1:]) // 4 for name, count in moved[0].items())


def test_the_choice_of_groups_does_not_prefer_large_ones():
    """One group of 30 rows and nine of one row: each is chosen by a tenth of the people."""
    names = [f"g{number}" for number in range(10)]
    people = [(f"p{number}", name) for number in range(1500) for name in ["g0"] * 30 + names[1:]]
    table = Table(
        {"p": [who for who, _ in people], "c": [name for _, name in people]},
        schema=[Category("c", names, other=None), PersonId("p", max_rows=50)],
    )
    persons = groups_of(table.schema, by="c", max_groups=1, max_rows_per_group=1)
    counts = group_counts(table, persons).value
    assert counts.sum() == 1500
    assert abs(counts - 150).max() < 70  # six standard deviations


@settings(max_examples=30)
@given(st.lists(records, max_size=14), st.randoms(use_true_random=False))
def test_where_commutes_with_the_order_of_rows(pairs, shuffler):
    shuffled = list(pairs)
    shuffler.shuffle(shuffled)
    found = []
    for each in (pairs, shuffled):
        table = small(each, 3)
        groups = groups_of(table.schema, by="c", where=col("x") > 0, max_groups=2)
        found.append(group_counts(table, groups).value.tolist())
    assert found[0] == found[1]


def test_undeclared_labels():
    table = Table(
        {
            "e": ["Acme", " acme ", None, "", "Béta", "Be\u0301ta", "acme"],
            "c": ["a", "b", "a", "a", "a", "a", "a"],
            "x": [1, 2, 3, 4, 5, 6, None],
        },
        schema=[
            Label("e", casefold=True),
            Category("c", ["a", "b"], other=None),
            Number("x", lower=0, upper=8, granularity=1),
        ],
    )
    groups = groups_of(table.schema, by=["e", "c"])
    found = group_statistics(table, groups, [value_of(table.schema, "x")], norm="l1")
    assert found.present == (("a", "acme"), ("b", "acme"), ("a", "béta"))
    assert found.counts.value.tolist() == [1, 1, 2]
    assert found.values[0].value.tolist() == [[1, 2, 11], [7, 6, 5]]
    assert distinct_counts(table, groups_of(table.schema, by="c"), "e").value.tolist() == [2, 1]
    assert distinct_counts(table, groups_of(table.schema), "e").value == 2
    empty = group_statistics(table, groups_of(table.schema, by="e", where=col("x") > 100))
    assert empty.present == ()
    assert empty.counts.value.shape == (0,)
    ranks = collect_codes(table, value_of(table.schema, "x").coding, groups)
    assert ranks.size == 4


@pytest.mark.parametrize(
    "source", [{"c": [], "x": []}, {"c": [None, "z"], "x": [1.0, None]}, {"c": ["a", "a"], "x": ["?", None]}]
)
def test_nothing_to_count_raises_no_error(source):
    """Empty tables, groups and columns give zeros of the public shape."""
    schema = [Category("c", ["a", "b"], other=None), Number("x", lower=0, upper=1), PersonId("p", max_rows=2)]
    for person in (False, True):
        ids = {"p": ["q"] * len(source["c"])} if person else {}
        table = Table(source | ids, schema=schema[: 2 + person])
        groups = groups_of(table.schema, by="c", max_groups=1)
        for kind in ("pair", "triple", "disc", "centred"):
            found = group_statistics(table, groups, [value_of(table.schema, "x")], kind=kind)
            assert not found.counts.value.any()
            assert not found.values[0].value.any()
        assert distinct_counts(table, groups_of(table.schema, where=col("x") > 0), "c").value == 0


def test_totals_of_persons():
    table = Table(
        {"p": ["a", "a", "b", "b", "c", None], "x": [3, 4, 100, 100, math.nan, 5]},
        schema=[PersonId("p", max_rows=1), Number("x", lower=0, upper=60, granularity=1)],
    )
    groups = groups_of(table.schema, totals=True)
    total = total_of(table.schema, "x", lower=0, upper=100)
    found = group_statistics(table, groups, [total])
    assert found.counts.value == 2
    assert found.values[0].value.tolist() == [107, 93]
    assert found.values[0].sensitivity == 100
    codes = collect_codes(table, total.coding, groups)
    assert [codes.tie_at(k)[0] for k in (1, 2)] == [7, 120]
    wide = total_of(table.schema, "x", lower=0, upper=2**40)
    assert wide.divisor > 1 or wide.levels <= LEVELS
    with pytest.raises(RangeError, match="total_of"):
        group_statistics(table, groups, [value_of(table.schema, "x")])


def test_totals_at_the_end_of_the_integers():
    """2**20 steps of 2**40 each: the sum of more rows than count stays within 64 bits."""
    big = 1e300
    table = Table({"p": ["a"] * 5, "x": [big] * 5}, schema=[PersonId("p", max_rows=1), Number("x", granularity=1)])
    value = total_of(table.schema, "x")
    assert value.levels <= LEVELS
    assert collect_codes(table, value.coding, groups_of(table.schema, totals=True)).tie_at(1)[0] == 5 * 2**40


@pytest.mark.parametrize("kind", ["sum", "whole", "pair", "centred", "triple", "disc"])
def test_one_row_more_moves_the_statistics_of_ten_thousand_million_no_further(kind):
    """Sums beyond 2**62 were held there one by one: a disc moved by a row in one of its sums and not in the other."""
    schema = Schema([Number("x", lower=0, upper=1)])
    groups, value, norm = groups_of(schema), value_of(schema, "x"), "l2" if kind == "disc" else "l1"
    sums = GroupSums(groups=groups, values=(value,), kind=kind)

    def added_up(rows, times=0):
        state = sums.fold(sums.empty(), (np.full(1, rows, np.int64),))
        for _ in range(times):
            state = sums.merge(state, state)
        return state

    many = added_up(LEVELS, 33)
    before = statistics_of(groups, many, (value,), kind=kind, norm=norm).values[0]
    for code in (0, LEVELS // 3, LEVELS // 2, LEVELS):
        after = statistics_of(groups, sums.merge(many, added_up(code)), (value,), kind=kind, norm=norm).values[0]
        moved = (np.asarray(after.value, object) - np.asarray(before.value, object)).ravel()
        size = sum(int(each) ** 2 for each in moved) if norm == "l2" else sum(abs(int(each)) for each in moved) ** 2
        assert size <= before.sensitivity**2
    assert np.asarray(before.value).ravel()[0] >= 2**61


def test_intervals_of_values():
    schema = Schema(
        [
            Number("x"),
            Number("far", lower=10**9, upper=10**9 + 1),
            Number("cents", lower=0, upper=100, granularity="0.01"),
        ]
    )
    value = value_of(schema, "x", lower=-3, upper=5)
    assert 2**28 < value.levels <= LEVELS
    assert (value.lower, value.upper) == (-3, 5)
    assert value_of(schema, "cents").levels == 10000
    assert value_of(schema, "far").levels >= 2**20
    for odd in ({"lower": 5, "upper": 5}, {"lower": 7, "upper": 3}, {"lower": -(10**400), "upper": 10**400}):
        assert value_of(schema, "x", **odd).levels >= 1  # a released interval never raises
    assert value_of(schema, "cents", lower=200, upper=300).upper <= 101
    assert value_of(schema, "cents", lower=-300, upper=-200).lower == 0
    with pytest.raises(SchemaError, match="needs an interval"):
        value_of(schema, "x", lower=0)


def test_public_mistakes():
    schema = Schema([Category("c", ["a"]), Number("x"), Label("e"), Label("f"), PersonId("p", max_rows=9)])
    for by, words in [
        ("x", r"public bins.*cut"),
        ("cc", "did you mean 'c'"),
        (["c", "c"], "twice"),
        (["e", "f"], "two columns"),
        (col("x") > 1, "gives none"),
        (3, "by takes names"),
        ([3], "by takes names"),
    ]:
        with pytest.raises(SchemaError, match=words):
            groups_of(schema, by=by, max_groups=2)
    with pytest.raises(SchemaError, match="9 rows may lie in 9 groups"):
        groups_of(schema, by="c")
    with pytest.raises(SchemaError, match="agee"):
        groups_of(schema, where=col("agee") > 1)
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(RangeError, match="max_groups"):
            groups_of(schema, by="c", max_groups=wrong)
    with pytest.raises(SchemaError, match="PersonId"):
        groups_of(Schema([Category("c", ["a"])]), by="c", totals=True)
    once = Schema([Category("c", ["a"], per_person=1), Category("d", ["b"], per_person=2), PersonId("p", max_rows=9)])
    assert groups_of(once, by="c").norms == ContributionBounds(rows=9, groups=1, per_group=9)
    assert declared_max_groups(once, ["c", "d"]) == 2
    assert groups_of(once).norms.l2_squared == 81
