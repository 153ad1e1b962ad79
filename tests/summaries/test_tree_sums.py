"""Sums of a hierarchy with public totals and predictions: they agree, gain, and change neither claim nor intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.audit import audit_query
from sidelight.errors import RangeError
from sidelight.session.query import prepare_query
from sidelight.summaries import tree_numbers
from sidelight.summaries.tree_whole import nonnegative_tree
from sidelight.testing import seeded_release

LEAVES = [f"{town}{leaf:02}" for town in "abcdefgh" for leaf in range(20)]
GEO = sl.Hierarchy("leaf", {"town": 1})
_RNG = np.random.default_rng(12)
_SIZE = _RNG.gamma(0.8, 60.0, len(LEAVES))
ROWS = np.repeat(LEAVES, _RNG.poisson(_SIZE))
SEXES = _RNG.choice(["f", "m"], len(ROWS))
SPEND = _RNG.integers(0, 51, len(ROWS)).astype(float)


def schema(lower: float = 0, upper: float = 50) -> list[Any]:
    return [
        sl.Category("leaf", LEAVES, other=None),
        sl.Category("sex", ["f", "m"], other=None),
        sl.Number("spend", lower=lower, upper=upper, granularity=1),
    ]


def people(sign: float = 1.0) -> sl.Table:
    ends = (0, 50) if sign > 0 else (-50, 0)
    return sl.Table({"leaf": ROWS, "sex": SEXES, "spend": sign * SPEND}, schema=schema(*ends))


TRUE = {leaf: float(SPEND[leaf == ROWS].sum()) for leaf in LEAVES}
TOWNS = {town: sum(value for leaf, value in TRUE.items() if leaf[0] == town) for town in "abcdefgh"}


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("others", [[], ["sex"]])
@pytest.mark.parametrize("price", [{"rho": "0.05"}, {"epsilon": 1}])
def test_public_totals_of_sums_are_kept_and_everything_adds_up(others: Any, price: Any, sign: float) -> None:
    known = {"town": {town: sign * value for town, value in TOWNS.items()}}
    query = sl.Sum("spend", by=[replace(GEO, public_totals=known), *others], **price)
    table: Any = seeded_release(query, people(sign), seed="known sums").value
    towns = table.level("town")
    for column in ("sum", "unbiased"):
        assert towns[column] == pytest.approx([sign * value for value in TOWNS.values()], rel=1e-9)
    assert towns["noise_sd"].tolist() == pytest.approx([0] * 8, abs=1e-6)
    assert set(towns["exact"]) == {"public"}
    leaves = table.level("leaf")
    assert not any(leaves["exact"])
    assert (sign * leaves["sum"]).min() >= 0
    assert leaves["sum"].reshape(8, 20).sum(axis=1) == pytest.approx(towns["sum"], rel=1e-9)
    if others:
        cells = table.level("leaf", "sex")
        assert (sign * cells["sum"]).min() >= -1e-9
        assert cells["sum"].reshape(-1, 2).sum(axis=1) == pytest.approx(leaves["sum"], abs=1e-6)
    plain = seeded_release(sl.Sum("spend", by=[GEO, *others], **price), people(sign), seed="known sums").value
    assert leaves["noise_sd"].max() <= plain.level("leaf")["noise_sd"].max() * (1 + 1e-9)


def test_real_totals_of_a_two_way_family() -> None:
    tree = GEO.tree(LEAVES[:40])
    rng = np.random.default_rng(3)
    leaves = rng.normal(2.0, 3.0, (40, 3))
    towns, whole = np.array([11.5, 40.25]), np.array([51.75])
    levels = [leaves.sum(axis=0)[None], leaves.reshape(2, 20, 3).sum(axis=1), leaves]
    sds, possible = [np.full(3, 3.0)] * 3, [np.ones((size, 3), bool) for size in tree.sizes]
    found = nonnegative_tree(tree, levels, sds, possible, totals=[whole, towns])
    assert found[0].sum() == pytest.approx(51.75)
    assert found[1].sum(axis=1) == pytest.approx(towns)
    assert found[1].sum(axis=0) == pytest.approx(found[0][0])
    assert found[2].reshape(2, 20, 3).sum(axis=1) == pytest.approx(found[1])
    assert min(each.min() for each in found) >= 0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_prediction_helps_and_a_wrong_one_hardly_harms(sign: float) -> None:
    """Over 12 draws the error at the leaves falls by a fifth; claims, `unbiased` and intervals stay as they are."""
    price: dict[str, Any] = {"rho": "0.0008"}
    rng = np.random.default_rng(13)
    near = {leaf: sign * value * float(np.exp(0.1 * rng.normal())) for leaf, value in TRUE.items()}
    wrong = dict(zip(LEAVES, reversed(list(near.values())), strict=True))
    truth = sign * np.array(list(TRUE.values()))
    errors = dict.fromkeys(("none", "near", "wrong"), 0.0)
    asked = {"none": None, "near": near, "wrong": wrong}
    queries = {name: sl.Sum("spend", by=GEO, prediction=told, **price) for name, told in asked.items()}
    claims = [prepare_query(each, people(sign).schema).claims for each in queries.values()]
    assert claims[0] == claims[1] == claims[2]
    for draw in range(12):
        tables = {
            name: seeded_release(query, people(sign), seed=f"predicted sums {draw}").value
            for name, query in queries.items()
        }
        for column in ("unbiased", "low", "high", "noise_sd"):
            assert tables["near"][column].tolist() == tables["none"][column].tolist()
        for name, table in tables.items():
            errors[name] += float(((table.level("leaf")["sum"] - truth) ** 2).mean())
    assert errors["near"] < 0.64 * errors["none"]
    assert errors["wrong"] < 1.05 * errors["none"]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_areas_of_one_leaf_have_its_interval(sign: float) -> None:
    release = seeded_release(sl.Sum("spend", by=GEO, rho="0.0001"), people(sign), seed="areas")
    leaves: Any = release.value.level("leaf")
    found = sl.areas(release, {leaf: [leaf] for leaf in LEAVES})
    for column in ("low", "high"):
        assert (sign * found[column]).min() >= 0
        assert found[column] == pytest.approx(leaves[column], rel=1e-9, abs=1e-6)


def test_absurd_predictions_are_not_used() -> None:
    for told in (1e100, -1e100, 0.0):
        query = sl.Sum("spend", by=GEO, rho="0.001", prediction=dict.fromkeys(LEAVES, told))
        table: Any = seeded_release(query, people(), seed="absurd").value
        assert np.isfinite(table["sum"]).all()


def test_the_gain_does_not_depend_on_the_unit() -> None:
    """Sums in cents of values in cents are a hundred times those in whole units, with a prediction as well."""
    cents = sl.Table(
        {"leaf": ROWS, "spend": 100 * SPEND},
        schema=[schema()[0], sl.Number("spend", lower=0, upper=5000, granularity=100)],
    )
    tables = []
    for table, scale in ((people(), 1), (cents, 100)):
        told = {leaf: scale * value for leaf, value in TRUE.items()}
        query = sl.Sum("spend", by=GEO, rho="0.001", prediction=told)
        tables.append(seeded_release(query, table, seed="units").value)
    assert tables[1]["sum"] == pytest.approx(100 * tables[0]["sum"], rel=1e-6, abs=1e-3)
    assert tables[0].notes["prediction_used"] == tables[1].notes["prediction_used"] == [1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"by": replace(GEO, public_totals={"town": {"a": 1.0}})}, "lack"),
        ({"by": replace(GEO, public_totals={"town": {**TOWNS, "a": float("nan")}})}, "numbers"),
        ({"by": replace(GEO, public_totals={"town": {**TOWNS, "a": 1e308}})}, "1e100"),
        ({"by": replace(GEO, public_totals={"town": {**TOWNS, "a": -1.0}})}, "sign"),
        ({"by": replace(GEO, public_totals={"town": TOWNS, "all": {"all": 1.0}})}, "add up"),
        ({"by": replace(GEO, public_totals={"leaf": TRUE})}, "nothing to measure"),
        (
            {
                "by": replace(
                    GEO, public_totals={"level": ["town"] * 9, "id": [*TOWNS, "a"], "value": [*TOWNS.values(), 1.0]}
                )
            },
            "twice",
        ),
        ({"by": GEO, "prediction": {"nowhere": 1.0}}, "none of the"),
        ({"by": GEO, "prediction": sl.priors.Cauchy(20, 5), "clip": (0, 50)}, "by group"),
    ],
)
def test_what_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(RangeError, match=said):
        prepare_query(sl.Sum("spend", rho="0.1", **more), sl.Schema(schema()))


def test_values_of_both_signs_have_totals_and_no_predictions() -> None:
    both = sl.Schema(schema(-50, 50))
    with pytest.raises(RangeError, match="below and above 0"):
        prepare_query(sl.Sum("spend", by=GEO, rho="0.1", prediction=TRUE), both)
    table = sl.Table({"leaf": ROWS, "sex": SEXES, "spend": SPEND}, schema=both)
    query = sl.Sum("spend", by=replace(GEO, public_totals={"town": TOWNS}), rho="0.1")
    value: Any = seeded_release(query, table, seed=3).value
    assert value.level("town")["sum"] == pytest.approx(list(TOWNS.values()), rel=1e-9)


def test_public_totals_that_cancel_agree_with_a_total_of_nothing() -> None:
    """What is left of large numbers that cancel is their rounding, and no contradiction."""
    towns = dict(zip("abcdefgh", [0.1, 0.2, -0.3, 1e9, -1e9, 7.7, -7.7, 0.0], strict=True))
    both = sl.Schema(schema(-50, 50))
    query = sl.Sum("spend", by=replace(GEO, public_totals={"town": towns, "all": {"all": 0.0}}), rho="0.1")
    prepared: Any = prepare_query(query, both)
    assert len(prepared.totals) == 2
    wrong = replace(GEO, public_totals={"town": towns, "all": {"all": 10.0}})
    with pytest.raises(RangeError, match="add up"):
        prepare_query(replace(query, by=wrong), both)


@pytest.mark.parametrize("others", [[], ["sex"]])
@pytest.mark.parametrize("price", [{"rho": "0.05"}, {"epsilon": 1}])
def test_a_note_counts_the_public_totals_that_the_noisy_numbers_contradict(others: Any, price: Any) -> None:
    """Right totals contradict nothing, within a chance of 1e-3 of a branded seed; of wrong ones each is counted."""
    for off, wanted in ((0.0, 0), (40_000.0, 2)):
        known = {"town": {town: value + (off if town in "ac" else 0.0) for town, value in TOWNS.items()}}
        query = sl.Sum("spend", by=[replace(GEO, public_totals=known), *others], **price)
        assert seeded_release(query, people(), seed="contradicted").value.notes["public_totals_far_off"] == wanted
    rows = {"town": {town: int((np.char.find(ROWS, town) == 0).sum()) for town in TOWNS}}
    assert (
        seeded_release(
            sl.Count(by=[replace(GEO, public_totals=rows), *others], **price), people(), seed="contradicted"
        ).value.notes["public_totals_far_off"]
        == 0
    )
    rows["town"]["b"] += 3_000
    assert (
        seeded_release(
            sl.Count(by=[replace(GEO, public_totals=rows), *others], **price), people(), seed="contradicted"
        ).value.notes["public_totals_far_off"]
        == 1
    )


@pytest.mark.planted("sums of a hierarchy with the noise of an eighth of their width", of=("Sum",))
def test_the_attack_refutes_noise_for_an_eighth_of_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of the sums as they are is attacked with those of all other queries (`benchmarks.audit_queries`)."""
    declared = [sl.Category("leaf", ["a1", "a2", "b1"], other=None), sl.Number("x", lower=0, upper=9, granularity=1)]
    query = sl.Sum("x", by=[replace(GEO, public_totals={"all": {"all": 30}})], epsilon=1)
    before = tree_numbers.measure_tree
    monkeypatch.setattr(
        tree_numbers, "measure_tree", lambda *given, width, **more: before(*given, width=width / 8, **more)
    )
    assert audit_query(query, declared, runs=160, tries=4, seed=1).refuted
