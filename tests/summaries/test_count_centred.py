"""Persons in nearly any number of groups: less noise by centring, the same claim, and the same counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.group_sums import group_counts
from sidelight.audit import audit, one_by_one
from sidelight.noise import Source
from sidelight.session.query import prepare_query
from sidelight.summaries.count import PreparedCounts
from sidelight.summaries.count_centred import CentredCounts, PreparedCentred
from sidelight.testing import SeededEntropy

SITES = [f"s{place}" for place in range(6)]


def table(persons: int = 120, *, missing: bool = False) -> sl.Table:
    """Return persons that are in none to all of six sites; the first column may be missing in every row."""
    data: dict[str, list[Any]] = {"note": [], "id": [], "site": []}
    for n in range(persons):
        for site in [*SITES[: n % 7], None]:
            data["note"].append(None if missing else 1.0)
            data["id"].append(f"p{n}")
            data["site"].append(site)
    schema = [sl.Number("note"), sl.PersonId("id", max_rows=7), sl.Category("site", SITES, other=None)]
    return sl.Table(data, schema=schema)


def prepared_for(query: sl.Count) -> PreparedCentred:
    found = prepare_query(query, table().schema)
    assert isinstance(found, PreparedCentred)
    return found


@pytest.mark.parametrize("price", [{"mu": "0.5"}, {"rho": "0.125"}, {"epsilon": 1, "delta": "1e-6"}])
def test_it_has_less_noise_at_the_same_claim(price: dict[str, Any]) -> None:
    prepared = prepared_for(sl.Count(by="site", max_groups=6, **price))
    claimed = prepared.claims.gdp()
    assert claimed is not None
    expected = (math.sqrt(6) + 1) / 2 / float(claimed.mu)  # instead of √6/μ
    assert math.sqrt(prepared.plan.variance) == pytest.approx(expected, rel=0.02)
    plain = prepare_query(sl.Count(by="site", max_groups=1, **price), table().schema)
    assert isinstance(plain, PreparedCounts)


def test_counts_and_stated_noise_are_right() -> None:
    prepared = prepared_for(sl.Count(by="site", max_groups=6, mu=1))
    truth = np.array([sum(n % 7 > place for n in range(120)) for place in range(6)])
    with Source(SeededEntropy(4)) as source:
        tables = [prepared.run(table(), source).value for _ in range(200)]
    off = np.array([each["unbiased"] - truth for each in tables])
    assert np.sqrt(np.mean(off**2)) == pytest.approx(tables[0]["noise_sd"][0], rel=0.15)
    assert abs(off.mean()) < 6 * tables[0]["noise_sd"][0] / math.sqrt(200)
    assert np.mean([(each["low"] <= truth) & (truth <= each["high"]) for each in tables]) > 0.93
    assert all(each["count"].dtype == np.int64 for each in tables)


@pytest.mark.parametrize("missing", [False, True])
def test_everybody_in_a_group_is_among_all_persons(missing: bool) -> None:
    """A condition of the proof: persons in a cell count in n, despite missing values."""
    prepared = prepared_for(sl.Count(by="site", max_groups=6, mu=1))
    rows = table(missing=missing)
    assert group_counts(rows, prepared.everybody).value == 120
    only = table(missing=missing)
    assert np.asarray(group_counts(only, prepared.groups).value).max() <= 120


@pytest.mark.planted("a third of the noise of counts of persons", of=("Count",))
@pytest.mark.parametrize("sites", [0, 6])
def test_no_person_shows_more_than_is_claimed(sites: int) -> None:
    """Watched along the direction in which this person moves the released integers, where it shows best."""
    prepared = prepared_for(sl.Count(by="site", max_groups=6, mu=1))
    schema = list(prepared.groups.schema.columns)
    others = {"note": [1.0] * 2, "id": ["x", "y"], "site": ["s0", "s1"]}
    own = [*SITES[:sites], None]
    more = {"note": [*others["note"], *([1.0] * len(own))], "id": ["x", "y", *(["t"] * len(own))],
            "site": [*others["site"], *own]}  # fmt: skip
    plan = prepared.plan
    moved = np.array([1] * sites + [0] * (6 - sites)) * 64 - plan.steps

    def attacked(plan: CentredCounts) -> bool:
        loose = replace(prepared, plan=plan)

        def sampler(data: dict[str, list[Any]], seed: int) -> Callable[[int], list[float]]:
            rows, source = sl.Table(data, schema=schema), Source(SeededEntropy(seed))
            exact = np.asarray(group_counts(rows, prepared.groups).value).reshape(-1)
            persons = int(np.asarray(group_counts(rows, prepared.everybody).value))

            def watched() -> float:
                n, centred = loose.noisy(exact, persons, source)
                return float(n / float(plan.count_scale) ** 2 + centred @ moved / float(plan.cell_scale) ** 2)

            return one_by_one(watched)

        return audit(sampler(more, 1), sampler(others, 2), draws=1200).refutes(sl.GDP(1))

    assert not attacked(plan)
    # the planted bug: a third of the noise that the claim needs
    assert attacked(replace(plan, count_scale=plan.count_scale / 3, cell_scale=plan.cell_scale / 3))


def test_a_prediction_changes_no_claim() -> None:
    one, other = (
        prepared_for(sl.Count(by="site", max_groups=6, mu="0.1", prediction=told))
        for told in (None, dict.fromkeys(SITES, 50))
    )
    assert one.claims == other.claims
    with Source(SeededEntropy(1)) as source:
        first = one.run(table(), source).value
    with Source(SeededEntropy(1)) as source:
        second = other.run(table(), source).value
    assert first["unbiased"].tolist() == second["unbiased"].tolist()
    assert first["count"].tolist() != second["count"].tolist()
