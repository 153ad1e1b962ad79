"""Sampling attacks on released quantiles: the worst pairs known do not refute the claims, planted bugs are refuted.

The exact attacks on the tree are elsewhere (`test_tree_exhaustively`); here everything runs as a user runs it, from the
schema and the table to the released number, with seeded noise. The prior sits at 0 and at 2..4 and the records at 1, so
that a record added at 4 moves the odds of the two sides by the whole epsilon.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from planted import halve_the_sensitivity

import sidelight as sl
from sidelight.audit import audit, one_by_one
from sidelight.noise import Source
from sidelight.quantiles.tree import quantile_tree
from sidelight.records import Table
from sidelight.testing import SeededEntropy, seeded_release

NUMBER = sl.Number("x", lower=0, upper=4, granularity=1)
#: The values that each released number stands for.
CELLS = [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5]
#: The odds of 2..4 against 0 before the data speaks.
FEW = math.exp(-5)
LOW = sl.priors.Histogram(CELLS, [1.0, 1e-9, FEW / 3, FEW / 3, FEW / 3])


def sampler(query, rows, name, *, schema=(NUMBER,)):
    """Run the prepared query repeatedly: the release without charges and records."""
    table = Table(rows, schema=list(schema))
    prepared = query.prepare(table.schema)
    source = Source(SeededEntropy("quantile attacks", path=[name]))
    return one_by_one(lambda: tuple(prepared.run(table, source).value.tolist()))


def attacked(query, first, second, *, draws, schema=(NUMBER,)):
    table = Table(first, schema=list(schema))
    found = audit(
        sampler(query, first, "first", schema=schema), sampler(query, second, "second", schema=schema), draws=draws
    )
    return found, query.prepare(table.schema).claims


def rows(*values):
    return {"x": np.array(values, dtype=float)}


MEDIAN = sl.Quantiles([0.5], column="x", epsilon=3, prediction=LOW)


@pytest.mark.parametrize("draws", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_the_median_of_few_records_holds_its_claims(draws):
    found, claims = attacked(MEDIAN, rows(1, 1), rows(1, 1, 4), draws=draws)
    assert not found.refutes(claims)
    assert draws < 20_000 or found.epsilon().value > 1.8  # enough draws to see most of it


@pytest.mark.planted("half the sensitivity of a quantile")
def test_a_halved_sensitivity_is_refuted(monkeypatch):
    halve_the_sensitivity(monkeypatch)
    found, claims = attacked(MEDIAN, rows(1, 1), rows(1, 1, 4), draws=2800)
    assert found.refutes(claims)


PERSONS = (NUMBER, sl.PersonId("id", max_rows=2))
OTHERS = {"x": np.array([1.0] * 4), "id": np.array(["a", "b", "c", "d"], dtype=object)}
WITH_EVE = {"x": np.array([1.0] * 4 + [4.0] * 4), "id": np.array(["a", "b", "c", "d", *["eve"] * 4], dtype=object)}


@pytest.mark.parametrize("draws", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_person_with_more_rows_than_declared_holds_the_claims(draws):
    found, claims = attacked(MEDIAN, OTHERS, WITH_EVE, draws=draws, schema=PERSONS)
    assert not found.refutes(claims)


@pytest.mark.planted("a contribution cap that is not enforced")
def test_a_contribution_cap_that_is_not_enforced_is_refuted(monkeypatch):
    monkeypatch.setattr("sidelight.aggregates.collect.cap_arrays", lambda persons, codes, ranges, k: codes)
    found, claims = attacked(MEDIAN, OTHERS, WITH_EVE, draws=2800, schema=PERSONS)
    assert found.refutes(claims)


#: Records at 1 and 3. The median goes to 2 and the upper quartile to 4 far more often once there is a record at 5: each
#: of the two nodes on its path moves the odds by the whole of its budget.
WIDE_CELLS = [*CELLS, 5.5]
QUARTILES = sl.Quantiles(
    ["0.25", "0.5", "0.75"],
    column="x",
    epsilon=4,
    prediction=[
        sl.priors.Histogram(WIDE_CELLS, [1, 1, 1, 1, 1, 1]),
        sl.priors.Histogram(WIDE_CELLS, [1.0, 1e-9, math.exp(-7), 1e-9, 1e-9, 1e-9]),
        sl.priors.Histogram(WIDE_CELLS, [1e-9, 1e-9, 1.0, 1e-9, math.exp(-3), 1e-9]),
    ],
)
WIDE = (sl.Number("x", lower=0, upper=5, granularity=1),)
BEFORE, AFTER = rows(1, 1, 3), rows(1, 1, 3, 5)


@pytest.mark.slow
def test_quartiles_hold_their_claims():
    found, claims = attacked(QUARTILES, BEFORE, AFTER, draws=12_000, schema=WIDE)
    assert not found.refutes(claims)


@pytest.mark.planted("a path's budget spent at each node")
@pytest.mark.slow
def test_a_budget_that_is_not_divided_along_the_path_is_refuted(monkeypatch):
    claims = QUARTILES.prepare(Table(BEFORE, schema=list(WIDE)).schema).claims

    def undivided(levels, *, epsilon, **rest):
        return quantile_tree(levels, epsilon=2 * epsilon, **rest)

    monkeypatch.setattr("sidelight.quantiles.query._known_tree", undivided)
    found, _ = attacked(QUARTILES, BEFORE, AFTER, draws=12_000, schema=WIDE)
    assert found.refutes(claims)  # the mu that is claimed falls first


HONEST = {
    "empty": (rows(), rows(4)),
    "ties": (rows(2, 2, 2, 2), rows(2, 2, 2, 2, 2)),
    "beyond the upper bound": (rows(1, 3), rows(1, 3, 1e300)),
    "beyond the lower bound": (rows(1, 3), rows(1, 3, -math.inf)),
    "missing": (rows(1, 3), rows(1, 3, math.nan)),
}
DECILES = [f"0.{i}" for i in range(1, 10)]


@pytest.mark.parametrize("pair", HONEST)
@pytest.mark.parametrize("levels", [["0.5"], ["0.25", "0.5", "0.75"]], ids=["median", "quartiles"])
def test_awkward_neighbours_hold_the_claims(pair, levels):
    found, claims = attacked(sl.Quantiles(levels, column="x", epsilon=1), *HONEST[pair], draws=400)
    assert not found.refutes(claims)


@pytest.mark.slow
@pytest.mark.parametrize("pair", HONEST)
def test_awkward_neighbours_hold_the_claims_for_deciles(pair):
    found, claims = attacked(sl.Quantiles(DECILES, column="x", epsilon=2), *HONEST[pair], draws=3000)
    assert not found.refutes(claims)


def test_a_missing_value_leaves_no_trace_at_all():
    query = sl.Quantiles(["0.25", "0.5"], column="x", epsilon=1)
    first = sampler(query, rows(1, 3), "same")(200)
    second = sampler(query, rows(1, math.nan, 3), "same")(200)
    assert first == second


def test_through_the_door_itself():
    """The whole door, with its paperwork, on the median: few draws, so only a gross leak would be seen."""
    query = sl.Quantiles([0.5], column="x", epsilon=1, prediction=LOW)

    def through(data, name):
        table = Table(data, schema=[NUMBER])
        seeds = iter(range(10**9))
        return one_by_one(lambda: float(seeded_release(query, table, seed=f"{name}{next(seeds)}").value[0]))

    found = audit(through(rows(1, 1), "a"), through(rows(1, 1, 4), "b"), draws=400)
    assert not found.refutes(sl.PureDP(1))
