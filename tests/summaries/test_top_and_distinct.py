"""The most frequent labels, and how many different ones there are: routes, limits, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.group_sums import group_counts
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import GroupTable
from sidelight.records.expressions import col
from sidelight.session.query import prepare_query
from sidelight.summaries.top_k import PreparedDraws, PreparedTop
from sidelight.testing import seeded_release

DRUGS = ["a", "b", "c", "d", "e"]
SIZES = [50, 400, 200, 0, 300]
DRUG = sl.Category("drug", DRUGS, other=None)
SITE = sl.Category("site", ["n", "s"], other=None)


def rows() -> dict[str, list[Any]]:
    drug = [name for name, size in zip(DRUGS, SIZES, strict=True) for _ in range(size)]
    return {"drug": drug, "site": ["n" if place % 2 else "s" for place in range(len(drug))]}


def table() -> sl.Table:
    return sl.Table(rows(), schema=[DRUG, SITE])


def visits(column: Any = DRUG, persons: int = 200) -> sl.Table:
    """Return persons with 5 rows each: even ones have the drugs a, b, c twice over, odd ones b alone."""
    data: dict[str, list[Any]] = {"id": [], "drug": [], "site": []}
    for n in range(persons):
        for drug in ["a", "b", "c", "a", "b"] if n % 2 == 0 else ["b"] * 5:
            data["id"].append(f"p{n}")
            data["drug"].append(drug)
            data["site"].append("n")
    return sl.Table(data, schema=[sl.PersonId("id", max_rows=5), column, SITE])


def value_of(query: Any, data: sl.Table, seed: int = 1) -> GroupTable:
    outcome = seeded_release(query, data, seed=seed)
    assert isinstance(outcome, sl.Release)
    assert sl.Release.from_json(outcome.to_json()) == outcome
    assert isinstance(outcome.value, GroupTable)
    return outcome.value


def test_rows_are_sorted_by_noisy_counts() -> None:
    found = value_of(sl.TopK("drug", k=3, epsilon=1), table())
    assert found["drug"] == ["b", "e", "c"]
    assert found["rank"].tolist() == [1, 2, 3]
    assert np.abs(found["noisy_count"] - [400, 300, 200]).max() < 20
    assert value_of(sl.TopK("drug", k=50, epsilon=1), table()).rows == 5


TIES = [f"L{place:02d}" for place in range(40)]


def _ties(column: Any, *, persons: bool) -> sl.Table:
    """Return 40 labels of 50 rows each; with persons 50 of them, who have all labels."""
    data: dict[str, Any] = {"lab": np.repeat(TIES, 50)}
    schema = [column]
    if persons:
        data["id"] = np.tile([f"p{n}" for n in range(50)], 40)
        schema.append(sl.PersonId("id", max_rows=40))
    return sl.Table(data, schema=schema)


@pytest.mark.parametrize(
    ("column", "persons", "options"),
    [
        (sl.Category("lab", TIES, other=None), False, {"epsilon": 1}),
        (sl.Category("lab", TIES, other=None), False, {"epsilon": "0.1"}),
        (sl.Category("lab", TIES, other=None), False, {"rho": "0.05", "route": "histogram"}),
        (sl.Category("lab", TIES, other=None), True, {"rho": "0.5", "route": "histogram", "max_groups": 40}),  # centred
        (sl.Label("lab"), False, {"epsilon": 1, "delta": "1e-6"}),
        (sl.Label("lab"), False, {"epsilon": 1, "delta": "1e-6", "known": TIES[:20]}),
    ],
    ids=["laplace", "much noise", "gaussian", "centred", "labels", "known labels"],
)
def test_intervals_of_the_chosen_labels_hold_together_under_ties(
    column: Any, persons: bool, options: dict[str, Any]
) -> None:
    """Of 40 equal labels the three with the highest noise are chosen, which an interval for each misses."""
    data, query = _ties(column, persons=persons), sl.TopK("lab", k=3, **options)
    runs = 200
    found = [value_of(query, data, seed=seed) for seed in range(runs)]
    held = sum(all((each["low"] <= 50) & (each["high"] >= 50)) for each in found)
    assert held >= 170  # of a share of 0.95, below with probability under 1e-6
    assert all("unbiased" not in each.columns and "too high on average" in repr(each) for each in found)
    assert all(each["low"].dtype == each["high"].dtype for each in found)
    # the highest of the noisy numbers is far above 50, and is not called unbiased
    assert np.mean([each["noisy_count"][0] for each in found]) > 50 + float(found[0]["noise_sd"][0])


def test_groups_that_a_statement_chose_by_their_numbers_say_so() -> None:
    asked = "SELECT drug, COUNT(*) AS n FROM t GROUP BY drug"
    for more, chosen in (
        (" ORDER BY n DESC LIMIT 2", True),
        (" HAVING COUNT(*) > 9", True),
        (" ORDER BY drug LIMIT 2", False),
    ):
        release = seeded_release(sl.SQL(asked + more, epsilon=1), table(), seed=1)
        assert ("chosen: by released numbers" in str(release)) is chosen


@pytest.mark.parametrize(
    ("limits", "price", "route"),
    [
        ({"max_groups": 2}, {"epsilon": 1}, PreparedTop),
        ({"max_groups": 3}, {"epsilon": 1}, PreparedDraws),
        ({}, {"epsilon": 1}, PreparedDraws),
        ({"max_groups": 1}, {"rho": "0.1"}, PreparedDraws),
        ({"max_groups": 2, "route": "peeling"}, {"epsilon": 1}, PreparedDraws),
        ({"max_groups": 3, "route": "histogram"}, {"epsilon": 1}, PreparedTop),
    ],
)
def test_routes(limits: dict[str, Any], price: dict[str, Any], route: type) -> None:
    query = sl.TopK("drug", k=2, **limits, **price)
    assert isinstance(prepare_query(query, visits().schema), route)


def test_labels_are_drawn_without_a_bound_on_the_labels_of_a_person() -> None:
    query = sl.TopK("drug", k=2, epsilon=2)
    assert value_of(query, visits()).columns == ("rank",)
    assert value_of(query, visits())["drug"][0] == "b"
    claims = prepare_query(query, visits().schema).claims
    pure = claims.pure()
    assert pure is not None
    assert pure.epsilon == 2
    sharper = prepare_query(sl.TopK("drug", k=5, epsilon="0.1", delta="1e-6"), visits().schema)
    assert isinstance(sharper, PreparedDraws)
    assert sharper.draws.step_epsilon >= sl.PureDP("0.02").epsilon


def test_a_person_moves_each_score_by_one() -> None:
    """The slope is the whole ε only if no label's score moves by more than one."""
    prepared = prepare_query(sl.TopK("drug", k=2, epsilon=2), visits().schema)
    assert isinstance(prepared, PreparedDraws)
    scores = group_counts(visits(), prepared.groups, norm="linf")
    assert scores.sensitivity == 1
    fewer = group_counts(visits(persons=199), prepared.groups, norm="linf")
    assert np.abs(np.asarray(scores.value) - np.asarray(fewer.value)).max() == 1
    assert np.asarray(scores.value).tolist() == [100, 200, 100, 0, 0]


def test_a_prediction_is_a_base_measure_and_never_a_claim() -> None:
    plain = sl.TopK("drug", k=1, epsilon="1e-6")
    informed = sl.TopK("drug", k=1, epsilon="1e-6", prediction={"d": 1000})
    one, other = (prepare_query(query, visits().schema) for query in (plain, informed))
    assert one.claims == other.claims
    assert other.prediction is not None
    drawn = [value_of(informed, visits(persons=2), seed=seed)["drug"][0] for seed in range(60)]
    assert drawn.count("d") > 40  # almost no data: the prediction decides, with 0.92
    by_counts = sl.TopK("drug", k=2, epsilon="0.01", prediction=dict(zip(DRUGS, SIZES, strict=True)))
    assert value_of(by_counts, table())["drug"] == ["b", "e"]


def test_undeclared_labels() -> None:
    found = value_of(sl.TopK("drug", k=2, epsilon=1, delta="1e-6"), sl.Table(rows(), schema=[sl.Label("drug"), SITE]))
    assert found["drug"] == ["b", "e"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: sl.TopK("drug", k=0, epsilon=1), "at least 1"),
        (lambda: sl.TopK("dose", k=1, epsilon=1), "not declared"),
        (lambda: sl.TopK("drug", k=1, epsilon=1, route="best"), "route"),
        (lambda: sl.TopK("drug", k=1, epsilon=1, route="histogram"), "max_groups = 1"),
        (lambda: sl.TopK("drug", k=1, epsilon=1, prediction={"z": 1}), "none of the 5 groups"),
        (lambda: sl.CountDistinct(epsilon=1), "either the labels"),
        (lambda: sl.CountDistinct("drug", persons=True, epsilon=1), "either the labels"),
        (lambda: sl.CountDistinct("dose", epsilon=1), "not declared"),
        (lambda: sl.CountDistinct("drug", by="site", epsilon=1), "max_groups"),
    ],
)
def test_mistakes_are_found_before_anything_is_charged(query: Any, said: str) -> None:
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(query(), visits().schema)


def test_more_mistakes() -> None:
    labelled = sl.Schema([sl.Label("drug"), SITE])
    with pytest.raises(SchemaError, match="cannot be drawn"):
        prepare_query(sl.TopK("drug", k=1, epsilon=1, delta="1e-6", route="peeling"), labelled)
    with pytest.raises(SchemaError, match="declared labels"):
        prepare_query(sl.CountDistinct("site", by="drug", epsilon=1), labelled)
    with pytest.raises(SchemaError, match="PersonId"):
        prepare_query(sl.CountDistinct(persons=True, epsilon=1), labelled)


@pytest.mark.parametrize("column", [DRUG, sl.Label("drug")], ids=["declared", "label"])
def test_distinct_labels_and_persons(column: Any) -> None:
    labels = value_of(sl.CountDistinct("drug", max_groups=3, epsilon=60), visits(column))
    assert labels.unbiased == 3
    assert labels.distinct == 3
    few = value_of(sl.CountDistinct("drug", max_groups=1, epsilon=60), visits(column))
    assert few.unbiased == 3  # one label of each person, and there are 200
    persons = value_of(sl.CountDistinct(persons=True, by="site", max_groups=1, epsilon=60), visits(column))
    assert persons["unbiased"].tolist() == [200, 0]
    rowwise = value_of(sl.CountDistinct("drug", by="site", epsilon=60), sl.Table(rows(), schema=[column, SITE]))
    assert rowwise["unbiased"].tolist() == [4, 4]


def test_noise_of_distinct_labels_grows_with_what_a_person_may_add() -> None:
    one, five = (
        prepare_query(sl.CountDistinct("drug", max_groups=limit, epsilon=1), visits().schema).noise.scale  # type: ignore
        for limit in (1, None)
    )
    assert (one, five) == (1, 5)
    both = sl.CountDistinct("drug", by="site", max_groups=2, max_rows_per_group=2, epsilon=1)
    assert prepare_query(both, visits().schema).noise.scale == 4  # type: ignore[attr-defined]
    person = sl.CountDistinct(persons=True, by="site", max_groups=2, epsilon=1)
    assert prepare_query(person, visits().schema).noise.scale == 2  # type: ignore[attr-defined]


def test_numbers_stay_within_what_there_can_be() -> None:
    for seed in range(5):
        found = value_of(sl.CountDistinct("drug", epsilon="0.1", where=col("site") == "n"), table(), seed)
        assert 0 <= found.distinct <= 5
        assert 0 <= found.low <= found.high <= 5
    nobody = sl.Table({"drug": [], "site": []}, schema=[DRUG, SITE])
    assert value_of(sl.CountDistinct("drug", by="site", epsilon=1), nobody).rows == 2
    assert value_of(sl.TopK("drug", k=2, epsilon=1), nobody).rows == 2
