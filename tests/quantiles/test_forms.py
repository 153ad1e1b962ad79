"""The forms end to end: which is chosen, what it costs, data that could break it, groups, sequences and predictions."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sidelight as sl
from ranks_of_codes import ranks_of_codes
from sidelight.aggregates.collect_ranks import encoding_of
from sidelight.errors import HedgeWarning, RangeError
from sidelight.guarantees import Row
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions import ScaleFree
from sidelight.quantiles import even_levels, nonprivate_gap, quantile_tree
from sidelight.quantiles.descend import descend
from sidelight.quantiles.forms.rule import COUNT_SHARE, FormRule
from sidelight.quantiles.outcomes import outcome_grid
from sidelight.testing import SeededEntropy, seeded_release


def rule(
    count: int, *, form="auto", codes=2**60, price=("epsilon", 1), delta=None, size=None, unit=None, counted=False
):
    return FormRule(
        form=form,
        levels=even_levels(count),
        codes=codes,
        budget=Budget(price[0], Fraction(price[1])),
        delta=None if delta is None else Fraction(delta),
        unit=unit or Row(),
        size=size,
        counted=counted,
    )


# --- which form -----------------------------------------------------------------------------------------------------


def test_the_rule_reads_public_numbers_and_the_released_count():
    for count in (*range(1, 8), 15):
        assert rule(count).settled.form == "tree"
        assert rule(count).settled.budget == Budget("epsilon", Fraction(1))
    assert rule(7, codes=121).settled.form == "tree"
    assert rule(8, codes=100).settled.form == "codes"
    assert rule(8, codes=101).settled is None, "a few levels of many records are selected: a count says so"
    assert rule(8, codes=300).after_count(2000).form == rule(14, codes=101, size=2999).settled.form == "codes"
    assert rule(8, codes=300).after_count(4000).form == rule(14, codes=101, size=3000).settled.form == "select"
    assert rule(15, codes=300).settled.form == "codes"
    for count in (8, 14, 16, 999):
        assert rule(count, codes=301).settled is None
        assert rule(count).after_count(400).form == "tree"
        assert rule(count).after_count(-5).form == "tree"
        assert rule(count).after_count(400).budget.amount == 1 - COUNT_SHARE
    assert [rule(9).after_count(size).form for size in (2_000, 3_200, 10**7)] == ["cells", "select", "select"]
    assert rule(16).after_count(10**5).form == "cells"
    assert rule(9, size=10**5).settled.budget.amount == 1  # a declared size saves the count


def test_the_rule_in_rho_keeps_the_tree_up_to_150_levels():
    assert rule(149, price=("rho", "0.1")).settled.form == "tree"
    assert rule(150, price=("rho", "0.1")).settled is None
    assert rule(150, price=("rho", "0.1")).after_count(100).form == "tree"
    assert rule(150, price=("rho", "0.1")).after_count(10**4).form == "cells"


@pytest.mark.parametrize("epsilon", ["0.1", 1, 2, 4])
@pytest.mark.parametrize("delta", ["1e-6", "1e-9"])
def test_with_a_delta_the_pure_forms_win_at_ten_thousand_records(epsilon, delta):
    for count in (49, 199, 999):
        chosen = rule(count, price=("epsilon", epsilon), delta=delta).after_count(10**4)
        assert chosen.form == "cells"
        assert chosen.budget.is_pure


def test_with_a_large_delta_a_deep_tree_in_rho_wins_and_says_both():
    release = sl.Quantiles(even_levels(255), epsilon="0.1", delta="0.01", form="tree").prepare(one_column())
    assert release.tree.rho is not None
    assert release.claims.implies(sl.ApproxDP("0.1", "0.01"))
    assert release.claims.zcdp().rho <= release.tree.rho


def one_column(**known):
    return sl.Schema([sl.Number("value", **known)])


# --- what it costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counted", [False, True])
def test_the_claim_covers_every_count_that_may_come(counted):
    """Section 11, test 4: exact budget sums on every branch; zCDP of the worst-case branch."""
    grids = [(8, 2**60), (14, 2**60), (16, 2**60), (99, 2**60), (999, 2**60), (8, 101), (14, 300)]
    for (count, codes), epsilon in product(grids, ("0.01", 1, 7)):
        asked = rule(count, codes=codes, price=("epsilon", epsilon), counted=counted)
        share = Fraction(0) if counted else COUNT_SHARE
        count_rho = (share * Fraction(epsilon)) ** 2 / 2
        (stated,) = (claim.rho for claim in asked.claims if isinstance(claim, sl.ZCDP))
        for exponent in range(13):
            size = 10**exponent
            decision = asked.after_count(size)
            assert decision.budget.amount == Fraction(epsilon) * (1 - share)
            claims = asked._claims(decision, size)
            assert claims.pure().epsilon == Fraction(epsilon) * (1 - share)
            assert claims.zcdp().rho + count_rho <= stated
        assert asked.claims.pure().epsilon == Fraction(epsilon)


def test_the_zcdp_claim_is_that_of_the_specification():
    assert rule(99).claims.zcdp().rho <= Fraction(257, 1000)
    assert rule(9, size=10**4).claims.zcdp().rho < Fraction(17, 100)
    assert rule(20, codes=121).claims.zcdp().rho <= Fraction(273, 1000)
    assert rule(199, price=("rho", "0.1")).claims.zcdp().rho == Fraction(1, 10)


def test_a_person_with_several_rows_divides_the_price():
    person = sl.Schema([sl.Number("value"), sl.PersonId("who", max_rows=5)])
    pure = sl.Quantiles(even_levels(99), epsilon=1, column="value").prepare(person)
    assert pure.rule.after_count(10**6).budget.amount == Fraction(49, 250)
    assert pure.claims.pure() == sl.PureDP(1, unit=person.unit)
    concentrated = sl.Quantiles(even_levels(199), rho=1, column="value").prepare(person)
    assert concentrated.rule.after_count(10**6).budget.amount == Fraction(49, 50 * 25)
    assert concentrated.claims.zcdp() == sl.ZCDP(1, unit=person.unit)


# --- few levels are as they were ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(1, 8))
def test_up_to_seven_levels_nothing_changed(count):
    """Section 11, test 8: the law, the bits and the request of the tree."""
    values, levels = np.random.default_rng(3).normal(size=500), even_levels(count)
    release = seeded_release(sl.Quantiles(levels, epsilon=1), values, seed=5)
    grid = outcome_grid(sl.Number("value"))
    with Source(SeededEntropy(5)) as source:
        codes = np.sort(encoding_of(sl.Number("value"), grid).codes(values))
        tree, prior = quantile_tree(levels, epsilon=1), ScaleFree().compile(grid)
        found = descend(tree, ranks_of_codes(codes, grid, source), priors=prior, source=source)
    assert release.value.tolist() == [grid.value(index) for index in found]
    assert release.guarantee == tree.claims
    assert release.details is None
    assert "form" not in release.query


# --- data that could break it ---------------------------------------------------------------------------------------

HARD = {
    "nothing": [],
    "missing": [math.nan] * 20,
    "one": [3.0],
    "all equal": [7.0] * 3000,
    "two atoms": [0.0] * 1500 + [1e-300] * 1500,
    "the ends": [-math.inf, math.inf, 1.7e308, -1.7e308] * 500,
    "tiny": np.linspace(-1e-320, 1e-320, 3000),
    "far": 1e15 + np.arange(3000.0),
    "heavy": np.exp(np.tan(np.linspace(-1.57, 1.57, 3000)) / 4),
    "a gap": np.concatenate([np.linspace(0, 1, 1500), np.linspace(1e6, 1e6 + 1, 1500)]),
}
KNOWN = [{}, {"bounds": (-5, 5)}, {"granularity": 1}, {"bounds": (0, 40), "granularity": 1}]
PRICES = [{"epsilon": 1}, {"epsilon": "0.001"}, {"epsilon": 2000}, {"rho": "0.5"}]


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("form", ["select", "cells", "codes", "auto"])
def test_no_data_raises(form, name):
    """Section 11, test 7: every public branch, on data that forces it; values in order, within the bounds, no count."""
    for known, price in product(KNOWN, PRICES):
        if (form == "codes" and len(known) < 2) or (form in ("select", "codes") and "rho" in price):
            continue
        with np.errstate(all="raise", under="ignore"):
            release = seeded_release(
                sl.Quantiles(even_levels(12), form=form, **known, **price), np.array(HARD[name], float), seed=1
            )
        assert np.isfinite(release.value).all()
        assert (np.diff(release.value) >= 0).all()
        assert release.value.min() >= known.get("bounds", (-math.inf, math.inf))[0]
        assert release.value.max() <= known.get("bounds", (-math.inf, math.inf))[1]
        assert sl.Release.from_json(release.to_json()) == release


def test_three_rounds_of_counts_on_much_data():
    values = np.random.default_rng(1).normal(size=600_000)
    levels = even_levels(49)
    release = seeded_release(sl.Quantiles(levels, epsilon=2), values, seed=2)
    assert len(release.details["counts"]) == 3
    assert nonprivate_gap(values, levels, release.value).max() < 100


def test_what_is_released_on_the_way_is_all_noisy():
    """Nothing private is in the text: keys are known, and no list of exact counts stands in it."""
    values = np.random.default_rng(4).normal(size=4000)
    release = seeded_release(sl.Quantiles(even_levels(30), epsilon=1), values, seed=4)
    details = json.loads(release.to_json())["details"]
    known = {"form", "count", "count_deviation", "plan", "skeleton", "points", "counts", "flagged", "uncounted"}
    assert details.keys() == known
    grid = outcome_grid(sl.Number("value"))
    cuts = [grid.value(int(point)) for point in details["points"]]
    exact = np.delete(np.histogram(values, [-np.inf, *cuts, np.inf])[0], list(map(int, details["uncounted"])))
    noisy = np.array([float(each) for each in details["counts"][-1]])
    assert (exact != noisy).mean() > 0.5


# --- groups, sequences, predictions ---------------------------------------------------------------------------------


def test_groups_take_the_form_of_their_own_count():
    rng = np.random.default_rng(5)
    rows = {"x": rng.normal(size=12_000), "g": np.array(["a"] * 11_900 + ["b"] * 100, dtype=object)}
    table = sl.Table(rows, schema=[sl.Number("x"), sl.Category("g", ["a", "b"], other=None)])
    for price in ({"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}):
        release = seeded_release(sl.Quantiles(even_levels(19), column="x", by="g", **price), table, seed=6)
        assert [each["form"] for each in release.details["groups"]] == ["cells", "tree"]
        assert all("count" not in each for each in release.details["groups"])  # bought once, for all groups
        found = [release.value[f"q{5 * i}"][0] for i in range(1, 20)]
        assert nonprivate_gap(rows["x"][:11_900], even_levels(19), found).max() < 80
        assert release.guarantee.implies(sl.ApproxDP(1, "1e-6"))
    concentrated = sl.Quantiles(even_levels(19), column="x", by="g", rho=1).prepare(table.schema)
    assert concentrated.claims.zcdp().rho <= Fraction(10001, 10000)


def test_a_sequence_of_many_levels_learns(tmp_path):
    sequence = sl.Sequence(
        sl.Quantiles(even_levels(19), column="x", epsilon="0.5"),
        sl.PubPrev(location=0, scale=1),
        schema=[sl.Number("x")],
        budget=sl.PureDP(2),
        ledger=f"sqlite:///{tmp_path}/budget.db",
        scope="days",
    )
    rng = np.random.default_rng(7)
    for day in ("2025-11-03", "2025-11-04"):
        values = rng.normal(size=5000)
        release = sequence.release({"x": values}, day=day)
        assert release.details["form"] == "cells"
        assert nonprivate_gap(values, even_levels(19), release.value).max() < 200
    assert release.prediction["origin"]["kind"] == "released"


@pytest.mark.parametrize("count", [9, 49])
def test_a_wrong_prediction_costs_little_and_a_right_one_nothing(count):
    values, levels = np.random.default_rng(8).normal(size=4000), even_levels(count)
    robust = ScaleFree()
    errors = {}
    for name, prior in {
        "none": None,
        "right": sl.hedge(sl.priors.Gaussian(0, 1), with_=robust),
        "wrong": sl.hedge(sl.priors.Gaussian(100, 1), with_=robust),
        "each": [sl.hedge(sl.priors.Laplace(float(level), 1), with_=robust) for level in levels],
    }.items():
        query = sl.Quantiles(levels, epsilon=1, prediction=prior)
        found = [nonprivate_gap(values, levels, seeded_release(query, values, seed=s).value).max() for s in range(6)]
        errors[name] = np.mean(found)
    assert max(errors.values()) < 60


def test_cells_from_a_right_prediction_help_where_rows_are_few():
    """Section 7: a gain of 20 to 35 % at epsilon · n = 1000."""
    rng, levels = np.random.default_rng(9), even_levels(49)
    known = sl.hedge(
        sl.priors.Histogram(np.quantile(rng.normal(size=1000), np.linspace(0, 1, 41)), [1 / 40] * 40), with_=ScaleFree()
    )
    errors: dict[str, list[float]] = {"cells": [], "predicted": []}
    for cells, found in errors.items():
        query = sl.Quantiles(levels, epsilon="0.25", prediction=known, form=cells)
        for seed in range(12):
            values = np.random.default_rng(seed).normal(size=4000)
            with warnings.catch_warnings():
                warnings.simplefilter("error" if cells == "cells" else "ignore")
                release = seeded_release(query, values, seed=seed)
            found.append(nonprivate_gap(values, levels, release.value).max())
    assert np.mean(errors["predicted"]) < np.mean(errors["cells"])
    assert release.details["plan"]["skeleton"] == "0"
    assert release.guarantee.pure() == sl.PureDP("0.25")
    with pytest.warns(HedgeWarning, match="2000"):
        sl.Quantiles(levels, epsilon=1, prediction=known, form="predicted").prepare(one_column())


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 1, "form": "wide"}, "form must be one of"),
        ({"rho": 1, "form": "select"}, "pure price"),
        ({"epsilon": 1, "rho": 1}, "exactly one"),
        ({}, "exactly one"),
        ({"epsilon": 1, "delta": 2}, "delta must lie"),
        ({"epsilon": 1, "size": 0}, "size must be"),
        ({"epsilon": 1, "size": 2.5}, "size must be"),
        ({"epsilon": Fraction(1, 2**41), "form": "cells"}, "2\\*\\*-40"),
        ({"epsilon": 1, "form": "predicted"}, "wants a prediction"),
    ],
)
def test_prices_and_forms_that_do_not_fit_are_refused(options, words):
    with pytest.raises(RangeError, match=words):
        sl.Quantiles(even_levels(9), **options)


def test_codes_want_a_bounded_grid():
    with pytest.raises(RangeError, match="2\\*\\*16"):
        sl.Quantiles(even_levels(9), epsilon=1, form="codes").release([1.0])


def test_a_tiny_price_is_left_to_the_tree():
    assert rule(99, price=("epsilon", Fraction(1, 2**41))).settled.form == "tree"
