"""Counts of a hierarchy: norms of every level, the price paid once, sums that hold, intervals, caps and refusals."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.bounded import ContributionBounds
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import GroupTable
from sidelight.noise import Source
from sidelight.plans.queries import read_query, write_query
from sidelight.plans.section import Section
from sidelight.session.query import prepare_query
from sidelight.summaries import tree_measurement
from sidelight.summaries.count_hierarchy import PreparedHierarchy
from sidelight.summaries.tree_cells import other_cells
from sidelight.summaries.tree_measurement import _bounds
from sidelight.summaries.tree_model import half_widths
from sidelight.testing import SeededEntropy, seeded_release

LEAVES = [f"{a}{b}{c}" for a in "ns" for b in "uvw" for c in "12345"]
SEXES = ["f", "m"]
GEO = sl.Hierarchy("leaf", {"state": 1, "county": 2})
SCHEMA = [sl.Category("leaf", LEAVES, other=None), sl.Category("sex", SEXES, other=None)]
TRUTH = np.random.default_rng(2).poisson(np.random.default_rng(1).gamma(0.4, 60, (30, 2)))


def people() -> sl.Table:
    cells = np.repeat(np.arange(60), TRUTH.reshape(-1))
    return sl.Table({"leaf": [LEAVES[c // 2] for c in cells], "sex": [SEXES[c % 2] for c in cells]}, schema=SCHEMA)


def prepared(**query: Any) -> PreparedHierarchy:
    found = prepare_query(sl.Count(**{"by": [GEO, "sex"], "rho": "0.1", **query}), sl.Schema(SCHEMA))
    assert isinstance(found, PreparedHierarchy)
    return found


def table_of(query: Any, seed: object = 1) -> GroupTable:
    outcome = seeded_release(query, people(), seed=seed)
    assert sl.Release.from_json(outcome.to_json()) == outcome
    assert isinstance(outcome.value, GroupTable)
    return outcome.value


def sums_hold(table: GroupTable, name: str = "count") -> None:
    for above, below in itertools.pairwise(["all", "state", "county", "leaf"]):
        for by in ((), ("sex",)):
            parents, children = table.level(above, *by), table.level(below, *by)
            found = dict.fromkeys(zip(parents["id"], *(parents[key] for key in by), strict=True), 0)
            for key, count in zip(
                zip(children["parent"], *(children[key] for key in by), strict=True), children[name], strict=True
            ):
                found[key] += count
            assert list(found.values()) == pytest.approx(list(parents[name]), abs=1e-6)
    for level in ("county", "leaf"):
        cells = np.asarray(table.level(level, "sex")[name]).reshape(-1, 2).sum(axis=1)
        assert cells == pytest.approx(np.asarray(table.level(level)[name]), abs=1e-6)


@pytest.mark.parametrize("price", [{"epsilon": 1}, {"rho": "0.05"}, {"epsilon": 600}, {"epsilon": 1, "delta": "1e-6"}])
def test_every_level_and_margin_adds_up(price: dict[str, Any]) -> None:
    table = table_of(sl.Count(by=[GEO, "sex"], **price))
    assert table.rows == (1 + 2 + 6 + 30) * 3
    assert table["count"].dtype == np.int64
    assert table["count"].min() >= 0
    sums_hold(table)
    sums_hold(table, "unbiased")


def test_the_price_is_paid_once() -> None:
    assert str(prepared(rho=None, epsilon=1, noise="laplace").claims) == "PureDP(ε = 1)"
    gaussian = prepared(rho=None, mu="0.5", noise="gaussian")
    mu = gaussian.claims.gdp()
    assert mu is not None
    assert 0.4999 < float(mu.mu) <= 0.5
    assert {margin.level for margin in gaussian.measurement.margins} == {0, 1, 2, 3}
    told = prepared(prediction={(leaf, sex): 5 for leaf in LEAVES for sex in SEXES})
    assert prepared().claims == told.claims


def test_one_unit_moves_a_margin_by_its_norms_and_not_by_those_of_the_leaves() -> None:
    """All vectors of a person with up to 3 rows, at most 2 in a cell: never above, attained in nearly all margins."""
    tree = sl.Hierarchy("leaf", {"top": 1}).tree(["a1", "a2", "b1"])
    cells = other_cells((("x", "y"),))
    attained, short_of_leaves = 0, 0
    for rows, per_group in itertools.product((1, 2, 3), (1, 2)):
        fine = ContributionBounds(rows=rows, groups=rows, per_group=per_group)
        bounds = _bounds(tree, cells, fine)
        worst: dict[tuple[int, Any], float] = {}
        for vector in itertools.product(range(per_group + 1), repeat=6):
            if sum(vector) > rows:
                continue
            values = np.array(vector).reshape(3, 2)
            for level in (2, 1, 0):
                for axes in cells.weights:
                    moved = float(np.square(cells.summed(values, axes)).sum())
                    worst[level, axes] = max(worst.get((level, axes), 0.0), moved)
                values = tree.up(values, level) if level else values
        for (level, axes), moved in worst.items():
            assert moved <= bounds[level][axes].l2_squared
            attained += moved == bounds[level][axes].l2_squared
            short_of_leaves += moved > fine.l2_squared
    assert attained >= 34
    assert short_of_leaves > 0  # the planted bug: the norms of the leaves used for all levels


def test_a_person_with_several_rows_pays_for_every_level() -> None:
    schema = sl.Schema([sl.PersonId("id", max_rows=4), *SCHEMA])
    limits = {"max_groups": 4, "max_rows_per_group": 1, "of": "rows"}
    query = sl.Count(by=[GEO, "sex"], rho=1, noise="gaussian", **limits)
    found = prepare_query(query, schema)
    assert isinstance(found, PreparedHierarchy)
    cells = np.zeros((30, 2), np.int64)
    cells[:4, 0] = 1  # four leaves of one county: the total moves by 4
    moved, values = 0.0, cells
    for level in range(3, -1, -1):
        for margin in found.measurement.margins:
            if margin.level == level:
                scale = float(margin.noise.scale)
                moved += float(np.square(found.model.cells.summed(values, margin.axes)).sum()) / scale**2
        values = found.shape.tree.up(values, level) if level else values
    claimed = found.claims.gdp()
    assert claimed is not None
    assert 0.5 * float(claimed.mu) ** 2 < moved <= float(claimed.mu) ** 2 * (1 + 1e-9)
    ratios = {}
    for margin in found.measurement.margins:  # variances in the same ratio at every level (Theorem 4)
        ratios.setdefault(margin.level, []).append(
            float(margin.noise.scale) ** 2 * found.model.cells.weights[margin.axes]
        )
    for each in ratios.values():
        assert max(each) == pytest.approx(min(each), rel=1e-4)
    with pytest.raises(SchemaError, match="do not add up"):
        prepare_query(sl.Count(by=GEO, rho=1, max_groups=2), schema)


@pytest.mark.parametrize("price", [{"rho": "0.1", "noise": "gaussian"}, {"rho": None, "epsilon": "0.5"}])
def test_stated_noise_is_the_noise_and_intervals_cover(price: dict[str, Any]) -> None:
    found = prepared(**price)
    tree, cells = found.shape.tree, found.model.cells
    levels = [TRUTH[tree.order]]
    for level in range(tree.depth, 0, -1):
        levels.insert(0, tree.up(levels[0], level))
    truth = np.concatenate([cells.all_margins(each).reshape(-1) for each in levels])
    off, covered, runs = [], [], 120
    with Source(SeededEntropy("cover")) as source:
        for _ in range(runs):
            (pooled,) = found.measurement.pooled([levels[-1]], source)
            table = found.table_of(pooled, source)
            off.append(table["unbiased"] - truth)
            covered.append((table["low"] <= truth) & (truth <= table["high"]))
    stated = np.asarray(table["noise_sd"])
    ratio = np.sqrt(np.mean(np.square(off), axis=0)) / stated
    leaves = slice(9 * 3, None)
    assert ratio[leaves].mean() == pytest.approx(1.0, abs=0.08)  # a scale 30 % off fails
    assert np.abs(np.mean(off, axis=0) / stated * math.sqrt(runs)).max() < 6  # unbiased
    assert 0.943 < np.mean(covered) < 0.985


@pytest.mark.parametrize(("epsilon", "least"), [(3, 0.9), (6, 0.7), (12, 0.75), (20, 0.75)])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_whole_laplace_noise_is_stated_as_it_is(epsilon: int, least: float, confidence: float) -> None:
    """At large prices whole noise is mostly 0, and has much less variance than 2b²."""
    found = prepare_query(sl.Count(by=[GEO, "sex"], epsilon=epsilon, confidence=confidence), sl.Schema(SCHEMA))
    assert isinstance(found, PreparedHierarchy)
    zeros, off, covered = np.zeros((30, 2), np.int64), [], []
    with Source(SeededEntropy("whole")) as source:
        for _ in range(200):
            (pooled,) = found.measurement.pooled([zeros], source)
            table = found.table_of(pooled, source)
            off.append(table["unbiased"])
            covered.append(np.asarray(table["low"]) <= 0.0)
    made, stated = np.sqrt(np.mean(np.square(off), axis=0)), np.asarray(table["noise_sd"])
    ratio = float(np.sqrt(np.mean(np.square(made / stated))))
    assert least < ratio < 1.15
    assert np.mean(covered) >= confidence


def test_stated_deviations_survive_the_file_and_are_those_of_areas() -> None:
    release = seeded_release(sl.Count(by=[GEO], epsilon=8), people(), seed="file")
    table = sl.Release.from_json(release.to_json()).value
    leaf = table.level("leaf")
    assert leaf["noise_sd"][0] < 0.1  # about 0.2 for noise of 2b²
    area = sl.areas(table, {"one": [leaf["id"][0]]})
    assert area["noise_sd"][0] == pytest.approx(leaf["noise_sd"][0])
    assert area["high"][0] == pytest.approx(leaf["high"][0])


def _stated_over_true(found: PreparedHierarchy, draws: int) -> list[float]:
    """Return for each level the mean over nodes of the variance of totals, as a share of the stated one."""
    squares = [np.zeros(size) for size in found.shape.tree.sizes]
    for draw in range(draws):
        with Source(SeededEntropy(f"several rows {draw}")) as source:
            (pooled,) = found.measurement.pooled([np.zeros((30, 2), np.int64)], source)
        for each, estimate in zip(squares, found.model.estimates(pooled), strict=True):
            each += estimate.sum(axis=1) ** 2
    stated = [found.model.node_variances(level)[:, -1] for level in range(4)]
    return [float(np.mean(each / draws / of)) for each, of in zip(squares, stated, strict=True)]


def test_noise_of_several_rows_is_stated_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals of a person with several rows move further than cells; equal shares by margin would state them wrong."""
    schema = sl.Schema([sl.PersonId("who", max_rows=9), *SCHEMA])
    query = sl.Count(by=[GEO, "sex"], rho="0.05", of="rows", max_groups=8, max_rows_per_group=1)
    found = prepare_query(query, schema)
    assert isinstance(found, PreparedHierarchy)
    # 30 leaves, 400 draws: the standard error of the mean at the leaves is 1.3 %
    assert _stated_over_true(found, 400)[3] == pytest.approx(1, abs=0.08)

    def equal(cells: Any, bounds: Any, wishes: Any, level: int, *, laplace: bool) -> Any:
        del laplace
        return {axes: Fraction(cells.weights[axes]).limit_denominator(10**4) for axes in bounds}

    monkeypatch.setattr(tree_measurement, "_parts", equal)
    planted = prepare_query(query, schema)
    assert isinstance(planted, PreparedHierarchy)
    assert _stated_over_true(planted, 400)[3] > 1.1


def test_an_attack_on_the_root_refutes_a_planted_bug_and_not_the_claim() -> None:
    """A row more or less: the likelihood ratio of all noisy margins keeps to GDP(μ); with a level free it does not."""
    found = prepared(rho=None, mu="0.8", noise="gaussian", by=GEO)
    claimed = float(found.claims.gdp().mu)  # type: ignore[union-attr]
    shifts = {margin.level: 1 / float(margin.noise.scale) for margin in found.measurement.margins}
    assert math.sqrt(sum(each**2 for each in shifts.values())) <= claimed
    without = math.sqrt(sum(each**2 for level, each in shifts.items() if level != 3))
    assert without < 0.9 * claimed  # a claim that forgot the leaves would be refuted by the same numbers
    with Source(SeededEntropy("attack")) as source:
        wins = 0.0
        for _ in range(150):
            row = np.zeros((30, 1), np.int64)
            row[0] = 1
            scores = []
            for values in (row * 0, row):
                (pooled,) = found.measurement.pooled([values], source)
                scores.append(
                    sum(float(y[0, 0]) * shifts[level] ** 2 for level, y in enumerate(pooled) if y is not None)
                )
            wins += (scores[1] > scores[0]) + 0.5 * (scores[1] == scores[0])
    expected = 0.5 * math.erfc(-claimed / 2)  # Φ(μ/√2)
    assert wins / 150 < expected + 6 * 0.5 / math.sqrt(150)


def test_caps_hold_for_every_printed_half_width() -> None:
    table = table_of(sl.Count(by=[replace(GEO, caps={"county": 14, "state": 30}), "sex"], rho="0.1"))
    for level, cap in (("county", 14), ("state", 30)):
        cells = table.level(level, "sex")
        half = (np.asarray(cells["high"]) - np.asarray(cells["low"])) / 2
        assert half.max() <= cap + 1e-9
    with pytest.raises(RangeError, match=r"county ±0.1 needs mu of at least"):
        prepared(by=[replace(GEO, caps={"county": 0.1}), "sex"], noise="gaussian")


def of_caps(query: Any, caps: dict[str, float], unit: float = 1.0) -> float:
    """Return the largest half-width of a cell of a capped level, as a share of its cap."""
    found: Any = prepare_query(query, sl.Schema([*SCHEMA, sl.Number("age", lower=-8, upper=12, granularity=4)]))
    model = found.measurement.model
    return max(
        model.stated(model.pooled_at(model.tree.names.index(name)), 0.95)[1][:, : model.cells.size].max() * unit / cap
        for name, cap in caps.items()
    )


@pytest.mark.parametrize("mu", ["1.2", "1.7", "2", "3"])
def test_a_cap_is_met_or_refused_where_rounding_is_much_of_the_noise(mu: str) -> None:
    """At sigma of 0.3 to 0.8 rounding to whole numbers makes the variance 12 to 33 % larger."""
    found = []
    for cap in np.linspace(0.95, 1.09, 4) * {"1.2": 2.2132, "1.7": 1.7094, "2": 1.528, "3": 1.185}[mu]:
        caps = {"leaf": float(cap)}
        try:
            found.append(of_caps(sl.Count(by=replace(GEO, caps=caps), mu=mu), caps))
        except RangeError:
            found.append(math.inf)
    assert found[0] == math.inf
    assert 0.9 < min(found) <= found[-1] <= 1 + 1e-9
    assert all(each <= 1 + 1e-9 or each == math.inf for each in found)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("caps", "others"),
    [
        ({"leaf": 1.3}, []),
        ({"leaf": 2.0}, ["sex"]),
        ({"state": 3.0}, []),
        ({"leaf": 19.61}, []),  # about where half of one is no longer added: who pays more must not get it again
        ({"leaf": 0.4}, ["sex"]),
        ({"county": 2.2, "leaf": 1.9}, []),
    ],
)
def test_a_refusal_names_the_least_price_that_meets_the_caps(caps: Any, others: list[str], law: str) -> None:
    query = partial(sl.Count, by=[replace(GEO, caps=caps), *others], noise=law)
    with pytest.raises(RangeError, match="of at least") as error:
        of_caps(query(**({"rho": "1e-5"} if law == "gaussian" else {"epsilon": "1e-3"})), caps)
    name, amount = re.findall(r"needs (\w+) of at least ([0-9.]+);", str(error.value))[0]
    assert name == {"gaussian": "mu", "laplace": "epsilon"}[law]
    assert of_caps(query(**{name: amount}), caps) <= 1 + 1e-9
    with pytest.raises(RangeError, match="of at least"):
        of_caps(query(**{name: 0.97 * float(amount)}), caps)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_more_noise_has_no_smaller_interval(law: str) -> None:
    for confidence in (0.5, 0.95, 0.999):
        _, reach = half_widths(np.linspace(0, 12, 2001) ** 2, law, confidence)
        assert (np.diff(reach) > -1e-12).all()


def test_a_refused_cap_of_sums_names_a_price_that_meets_it() -> None:
    query = partial(sl.Sum, "age", by=[replace(GEO, caps={"leaf": 30.0})])
    with pytest.raises(RangeError, match="of at least") as error:
        of_caps(query(rho="1e-5"), {"leaf": 30.0})
    amount = str(error.value).split("mu of at least ")[1].split(";")[0]
    assert 0.97 < of_caps(query(mu=amount), {"leaf": 30.0}, unit=4) <= 1 + 1e-9


def test_impossible_cells_are_zero_and_their_rows_are_left_out_before_counting() -> None:
    query = sl.Count(by=[replace(GEO, impossible='leaf == "nu1" and sex == "m"'), "sex"], rho="0.1")
    cells = table_of(query).level("leaf", "sex").row("nu1", "nu", "m")
    assert cells["count"] == cells["unbiased"] == cells["noise_sd"] == cells["high"] == 0
    women = replace(GEO, impossible='sex == "m"')
    everywhere = table_of(sl.Count(by=[women, "sex"], rho="0.1"))
    assert everywhere.level("all", "sex").row("all", "", "m")["count"] == 0
    sums_hold(everywhere)
    sure = sl.Count(by=[women, "sex"], epsilon=600)
    assert table_of(sure).level("all").row("all", "")["count"] == TRUTH[:, 0].sum()


@pytest.mark.parametrize("others", [[], ["sex"]])
def test_public_totals_stay_and_cost_nothing(others: list[Any]) -> None:
    counts = TRUTH.sum(axis=1)
    totals = {
        "county": {key: int(counts[[leaf[:2] == key for leaf in LEAVES]].sum()) for key in {x[:2] for x in LEAVES}}
    }
    plain = prepare_query(sl.Count(by=[GEO, *others], rho="0.1"), sl.Schema(SCHEMA))
    query = sl.Count(by=[replace(GEO, public_totals=totals), *others], rho="0.1")
    known = prepare_query(query, sl.Schema(SCHEMA))
    assert abs(float(plain.claims.gdp().mu) - float(known.claims.gdp().mu)) < 1e-6  # type: ignore[union-attr]
    table = table_of(query)
    county = table.level("county")
    assert dict(zip(county["id"], county["count"].tolist(), strict=True)) == totals["county"]
    assert county["noise_sd"].max() == 0
    assert set(county["exact"]) == {"public"}
    assert ((table["exact"] == "public") == (table["noise_sd"] == 0)).all()
    assert "exact" not in table_of(sl.Count(by=[GEO, *others], rho="0.1")).columns
    area = sl.areas(table, {"n": [leaf for leaf in LEAVES if leaf[0] == "n"], "everything": LEAVES})
    whole = np.flatnonzero(area["noise_sd"] == 0)  # the totals of both
    assert len(whole) == 2
    for name in ("unbiased", "low", "high"):
        assert county[name].tolist() == county["count"].tolist()
        assert area[name][whole].tolist() == area["count"][whole].tolist()
    assert table.notes["public_totals_far_off"] == 0
    for name in ("all", "state"):
        assert table.level(name)["noise_sd"].max() == 0
    if others:
        sums_hold(table)
    wrong = replace(GEO, public_totals={**totals, "all": {"all": 1}})
    with pytest.raises(RangeError, match="do not add up"):
        prepare_query(sl.Count(by=[wrong, *others], rho=1), sl.Schema(SCHEMA))


def test_a_cell_that_cannot_be_is_not_called_exact() -> None:
    """Its 0 is public as well, but no total fixes it; and labels of the long form belong to no other column."""
    geo = replace(GEO, public_totals={"all": {"all": int(TRUTH[:, 0].sum())}}, impossible='sex == "m"')
    table = table_of(sl.Count(by=[geo, "sex"], rho="0.1"))
    assert not any(table.level("leaf", "sex")["exact"])
    assert table.level("all", "sex")["exact"].tolist() == ["public", ""]  # the total is that of the only possible cell
    for name in ("level", "parent", "exact"):
        schema = sl.Schema([SCHEMA[0], sl.Category(name, SEXES)])
        with pytest.raises(RangeError, match="collide"):
            prepare_query(sl.Count(by=[GEO, name], rho="0.1"), schema)


def test_an_area_that_is_a_node_has_the_interval_of_the_node() -> None:
    release = seeded_release(sl.Count(by=[GEO, "sex"], rho="0.1"), people(), seed=4)
    found = sl.areas(release, {"nu": LEAVES[:5], "mixed": [LEAVES[0], LEAVES[20]]})
    node = release.value.level("county", "sex").row("nu", "n", "f")
    assert found.row("nu", "f") == pytest.approx(node)
    with pytest.raises(RangeError, match="no leaf"):
        sl.areas(release, {"x": ["zzz"]})
    for confidence in (0, 1, 95, -0.1, float("nan"), "x"):
        with pytest.raises(RangeError, match="strictly between 0 and 1"):
            sl.areas(release, {"x": LEAVES[:1]}, confidence=confidence)  # type: ignore[arg-type]
    for areas in ([LEAVES[0]], {"x": LEAVES[0]}):  # the letters of a text are not its leaves
        with pytest.raises(RangeError, match="lists of leaves by name"):
            sl.areas(release, areas)  # type: ignore[arg-type]


def test_many_cells_of_other_columns_need_no_matrix_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 2,000 cells only they are measured; C is diagonal, and written out it would take gigabytes."""
    small = other_cells((("a", "b"), ("c", "d", "e")), pooled=False)
    dense = small.covariance()
    assert small.variances.tolist() == np.diag(dense).tolist()
    assert small.row_sums().tolist() == dense.sum(axis=1).tolist()
    rest, total = small.factors
    both = [(small.places(axes)[:, None] == range(small.width(axes))).astype(float) for axes in small.shown]
    wanted = np.concatenate([np.einsum("ac,ab,bc->c", each, dense, each) for each in both])
    assert (rest + total).tolist() == pytest.approx(wanted.tolist(), rel=1e-12)
    monkeypatch.setattr(type(small), "covariance", lambda *_, **__: pytest.fail("a matrix of all pairs of cells"))
    many = [f"{place:05}" for place in range(3000)]
    rows = sl.Table({"leaf": LEAVES * 100, "job": many}, schema=[SCHEMA[0], sl.Category("job", many, other=None)])
    prediction = {(leaf, job): 1.0 for leaf in LEAVES for job in many[:5]}
    found = seeded_release(sl.Count(by=[GEO, "job"], rho=8, prediction=prediction), rows, seed=1).value
    assert found.level("all")["unbiased"][0] == pytest.approx(3000, abs=6 * found.level("all")["noise_sd"][0])


def test_a_prediction_moves_counts_only() -> None:
    leaves = [f"{a:02}{b:02}{c:02}" for a in range(4) for b in range(10) for c in range(10)]
    truth = np.random.default_rng(3).poisson(200, 400)
    geo = sl.Hierarchy("leaf", {"state": 2, "county": 4})
    table = sl.Table(
        {"leaf": np.repeat(np.array(leaves, object), truth)}, schema=[sl.Category("leaf", leaves, other=None)]
    )
    told = dict.fromkeys(leaves, 200.0)
    wrong = {leaf: float(10 ** (place % 4)) for place, leaf in enumerate(leaves)}
    plain, good, bad, again = (
        seeded_release(sl.Count(by=geo, rho="0.0005", prediction=each), table, seed=2).value
        for each in (None, told, wrong, [told, wrong])
    )
    assert plain["unbiased"].tolist() == good["unbiased"].tolist() == bad["unbiased"].tolist()
    assert plain["low"].tolist() == good["low"].tolist()
    errors = [float(np.sqrt(np.mean((t.level("leaf")["count"] - truth) ** 2))) for t in (plain, good, bad, again)]
    assert errors[1] < 0.7 * errors[0]
    assert errors[2] < 1.1 * errors[0]
    assert errors[3] < 0.7 * errors[0]
    assert good.notes["prediction_used"] == [1]
    assert bad.notes["prediction_used"] == [0]
    followed = good.notes["prediction_by_level"]
    assert list(followed) == ["leaf"]  # 40 counties are too few to learn from
    assert followed["leaf"]["cells"] == 1
    assert 0.3 < followed["leaf"]["weight"] < 1
    assert 1 < followed["leaf"]["doubt"] < 60  # Poisson counts of 200 are off by 14
    assert bad.notes["prediction_by_level"]["leaf"] == {"cells": 0.0, "weight": 0.0, "doubt": 0.0}
    release = seeded_release(sl.Count(by=geo, rho=1), table, seed=3)
    later = seeded_release(sl.Count(by=geo, rho="0.0005", prediction=release.value), table, seed=5).value
    assert later.notes["prediction_used"] == [1]  # a release is a prediction for the next one as it is


def test_sums_and_means_add_up_and_cover() -> None:
    rng = np.random.default_rng(6)
    data = {"leaf": rng.choice(np.array(LEAVES, object), 6000), "age": rng.integers(0, 100, 6000)}
    table = sl.Table(data, schema=[SCHEMA[0], sl.Number("age", lower=0, upper=127, granularity=1)])
    total = seeded_release(sl.Sum("age", by=GEO, rho="0.1"), table, seed=1).value
    counties = total.level("county")
    county = np.array([leaf[:2] for leaf in data["leaf"]])
    truth = [data["age"][county == key].sum() for key in counties["id"]]
    means = np.array([data["age"][county == key].mean() for key in counties["id"]])
    assert np.abs(counties["unbiased"] - truth).max() < 6 * counties["noise_sd"].max()
    by_parent = np.asarray(total.level("leaf")["sum"]).reshape(6, 5).sum(axis=1)
    assert by_parent == pytest.approx(np.asarray(counties["sum"]), rel=1e-9)
    assert total["sum"].min() >= 0
    prices: list[dict[str, Any]] = [{"rho": "0.1"}, {"epsilon": 1}]
    for price in prices:
        missed = 0
        for seed in range(10):
            mean = seeded_release(sl.Mean("age", by=GEO, **price), table, seed=seed).value.level("county")
            missed += int(((means < mean["low"]) | (means > mean["high"])).sum())
        assert missed < 18  # of 60; 3 are expected
    share = seeded_release(sl.Proportion("age >= 50", by=GEO, rho="0.1"), table, seed=1).value.level("all")
    assert share["proportion"][0] == pytest.approx(0.5, abs=0.05)


def totals(**states: int) -> sl.Hierarchy:
    return replace(GEO, public_totals={"state": states})


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: sl.Count(by=[GEO, sl.Hierarchy("sex", {"x": 1})], rho=1), "two hierarchies"),
        (lambda: sl.Count(by=GEO, rho=1, rollup=True), "all totals already"),
        (lambda: sl.Count(by=replace(GEO, caps={"town": 3}), rho=1), "no level 'town'"),
        (lambda: sl.Count(by=replace(GEO, caps=[("county", 3)]), rho=1), "half-widths by level"),
        (
            lambda: sl.Count(by=replace(GEO, public_totals={"leaf": dict.fromkeys(LEAVES, 3)}), rho=1),
            "nothing to measure",
        ),
        (lambda: sl.Count(by=replace(GEO, impossible='sex == "f"'), rho=1), "is none of them"),
        (lambda: replace(GEO, impossible=3), "or its text"),
        (lambda: sl.Mean("age", by=replace(GEO, caps={"county": 3}), rho=1), "caps of a hierarchy is for a count or"),
        (lambda: sl.Sum("age", by=replace(GEO, impossible='leaf == "nu1"'), rho=1), "not for a sum"),
        (lambda: sl.Count(by=GEO, rho=1, known=["nu1"]), "known has no effect"),
        (lambda: sl.Sum("age", by=GEO, rho=1, known=["nu1"]), "known has no effect"),
        (lambda: sl.Count(by=totals(n=2**52, s=2**52), rho=1), r"2\*\*53 or more"),
        (lambda: sl.Count(by=totals(n=2**64, s=0), rho=1), r"2\*\*53 or more"),
        (lambda: sl.Variance("age", by=GEO, rho=1), "a hierarchy is for sl.Count"),
        (lambda: sl.Histogram("age", bins=3, by=GEO, rho=1), "a hierarchy is for sl.Count"),
        (lambda: sl.Hierarchy("leaf", {"sex": 1, "leaf": 2}), "different names"),
        (lambda: sl.Count(by=[sl.Hierarchy("leaf", {"sex": 1}), "sex"], rho=1), "another name"),
        (lambda: sl.Count(by=sl.Hierarchy("leaf", {"x": 3}), rho=1), "longer than its ancestors"),
        (lambda: sl.Hierarchy("leaf", people(), levels=["x"]), "private rows"),
        (lambda: sl.Hierarchy("leaf", {"leaf": ["a", "a"], "x": ["1", "2"]}, levels=["x"]), "two different ancestors"),
        (lambda: sl.Hierarchy("leaf", {"leaf": ["a"], "x": [None]}, levels=["x"]), "fill=True"),
        (lambda: sl.Hierarchy("leaf", {"leaf": ["a", "b"], "x": ["1"]}, levels=["x"]), "different lengths"),
        (lambda: sl.Count(by=sl.Hierarchy("leaf", {"leaf": ["a"], "x": ["1"]}, levels=["x"]), rho=1), "no ancestors"),
    ],
)
def test_mistakes_are_found_before_anything_is_charged(query: Any, said: str) -> None:
    schema = sl.Schema([*SCHEMA, sl.Number("age", lower=0, upper=10)])
    with pytest.raises((SchemaError, RangeError), match=said):
        prepare_query(query(), schema)


def test_a_node_in_two_places_is_refused_and_fill_repeats_a_level() -> None:
    frame = {"leaf": ["a", "b", "c"], "x": ["1", "2", "2"], "y": ["u", "u", None]}
    with pytest.raises(SchemaError, match="lies in two nodes"):
        sl.Hierarchy("leaf", frame, levels=["x", "y"], fill=True).tree(["a", "b", "c"])
    tree = sl.Hierarchy("leaf", {**frame, "y": ["u", "v", None]}, levels=["x", "y"], fill=True).tree(["c", "a", "b"])
    assert tree.ids[2] == ("u", "2", "v")
    other = sl.Hierarchy("leaf", {"top": 1}).tree(["na", "other", "ob", "oz"], other="other")
    assert other.ids[1] == ("n", "o", "other")


def test_a_plan_says_it_and_files_hold_it(tmp_path: Path) -> None:
    condition = 'sex == "m" and leaf == "nu1"'
    query = sl.Count(by=[replace(GEO, caps={"county": 14.0}, impossible=condition), "sex"], rho="0.1")
    written = write_query(query)
    prefixes = {"state": 1, "county": 2}
    limits = {"caps": {"county": 14.0}, "impossible": condition}
    assert written["by"] == [{"column": "leaf", "prefixes": prefixes, **limits}, "sex"]
    again = read_query(Section({**written}, "query"))
    assert prepare_query(again, sl.Schema(SCHEMA)).request == prepare_query(query, sl.Schema(SCHEMA)).request
    table = table_of(sl.Count(by=[GEO, "sex"], rho="0.1"))
    table.to_csv(tmp_path / "t.csv")
    head, first, *rest = (tmp_path / "t.csv").read_text().splitlines()
    assert head == '"level","id","parent","sex","count","unbiased","noise_sd","low","high"'
    assert first.startswith('"all","all","","f",')
    assert len(rest) == table.rows - 1
    pytest.importorskip("pyarrow")
    table.to_parquet(tmp_path / "t.parquet")
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").num_rows == table.rows


def test_the_column_of_labels_has_the_name_that_a_map_has(tmp_path: Path) -> None:
    """It is a name of the output: in files, areas, predictions and the request, and never in a number."""
    mapped = replace(GEO, id_column="GEOID")
    written = write_query(sl.Count(by=[mapped, "sex"], rho="0.1"))
    assert written["by"][0]["id_column"] == "GEOID"
    query = read_query(Section({**written}, "query"))
    table, plain = table_of(query), table_of(sl.Count(by=[GEO, "sex"], rho="0.1"))
    assert table.keys_of_groups == ("level", "GEOID", "parent", "sex")
    assert table["count"].tolist() == plain["count"].tolist()
    assert table.level("county")["GEOID"] == plain.level("county")["id"]
    table.level("county").to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().startswith('"GEOID","parent","count",')
    north = {"north": [leaf for leaf in LEAVES if leaf[0] == "n"]}
    assert sl.areas(table, north) == sl.areas(plain, north)
    asked = [prepare_query(sl.Count(by=each, rho=1), sl.Schema(SCHEMA)).request for each in (GEO, mapped)]
    assert asked[1] == {**asked[0], "id_column": "GEOID"}
    first = seeded_release(sl.Count(by=mapped, rho=1), people(), seed=1)
    second = seeded_release(sl.Count(by=mapped, rho="0.1", prediction=first), people(), seed=2)
    assert "prediction_used" in second.value.notes
    with pytest.raises(SchemaError, match="id_column"):
        replace(GEO, id_column="")
    for name in ("level", "parent", "count", "exact", "sex"):
        with pytest.raises(RangeError, match="collide"):
            prepare_query(sl.Count(by=[replace(GEO, id_column=name), "sex"], rho=1), sl.Schema(SCHEMA))


def test_long_tables_are_stored_as_codes() -> None:
    leaves = [f"{a:03}{b:02}" for a in range(100) for b in range(50)]
    table = sl.Table({"leaf": leaves}, schema=[sl.Category("leaf", leaves, other=None)])
    release = seeded_release(sl.Count(by=sl.Hierarchy("leaf", {"top": 3}), rho=1), table, seed=1)
    assert '"packed"' in release.to_json()
    assert sl.Release.from_json(release.to_json()) == release
    flat = seeded_release(sl.Count(by="leaf", rho=1), table, seed=1)
    assert sl.Release.from_json(flat.to_json()).value.row("00000") == flat.value.row("00000")


def test_a_mean_of_persons_is_another_request_than_one_of_rows() -> None:
    schema = sl.Schema(
        [
            sl.PersonId("p", max_rows=3),
            sl.Category("tract", ["11", "12", "21"], other=None),
            sl.Number("x", lower=0, upper=9),
        ]
    )
    asked: dict[str, Any] = {"by": sl.Hierarchy("tract", {"state": 1}), "epsilon": 1, "max_groups": 2}
    rows = sl.Mean("x", **asked).prepare(schema)
    persons = sl.Mean("x", **asked, of="persons").prepare(schema)
    assert rows.request != persons.request


def test_noise_that_is_mostly_zero_has_narrow_intervals_that_hold() -> None:
    names = [f"{top}{leaf}" for top in "ab" for leaf in range(4)]
    rows = np.repeat(names, np.arange(1, 9))
    schema = [sl.Category("place", names, other=None)]
    query = sl.Count(by=[sl.Hierarchy("place", {"top": 1})], epsilon=20)
    found = [seeded_release(query, sl.Table({"place": rows}, schema=schema), seed=seed).value for seed in range(40)]
    truth = np.array([36, 10, 26, *range(1, 9)])
    missed = sum(((each["low"] > truth + 1e-6) | (each["high"] < truth - 1e-6)).sum() for each in found)
    assert missed <= 0.05 * 40 * len(truth)
    assert np.median((found[0]["high"] - found[0]["low"]) / 2) < 0.4  # with half of a row added 0.65
