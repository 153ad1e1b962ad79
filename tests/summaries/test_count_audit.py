"""Attacks on counts by group: one person with many rows must not show more than the claim says; planted bugs do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.contributions import UnitCap
from sidelight.aggregates.group_sums import distinct_counts, group_counts
from sidelight.aggregates.groups import Groups
from sidelight.audit import Audit, audit
from sidelight.noise import Source
from sidelight.session.query import SurePrepared, prepare_query
from sidelight.summaries.count import PreparedCounts, PreparedDistinct
from sidelight.summaries.top_k import PreparedDraws
from sidelight.testing import SeededEntropy

ROWS = 6
LABELS = ["a", "b", "c"]
SCHEMA = [sl.PersonId("id", max_rows=ROWS), sl.Category("group", LABELS, other=None)]
#: With many labels that no row has, counts are not centred.
WIDE = [SCHEMA[0], sl.Category("group", [*LABELS, *map(str, range(97))], other=None)]
OTHERS = {"id": ["x", "y", "z"], "group": ["a", "b", "b"]}
#: All rows of the person in one group, and spread over all.
PERSONS = {"one group": ["a"] * ROWS, "all groups": LABELS * 2}


def tables(rows: list[str], schema: Any = SCHEMA) -> tuple[sl.Table, sl.Table]:
    """Return a table with the person and one without."""
    more = {"id": [*OTHERS["id"], *(["target"] * len(rows))], "group": [*OTHERS["group"], *rows]}
    return sl.Table(more, schema=schema), sl.Table(OTHERS, schema=schema)


def attacked(prepared: SurePrepared, pair: tuple[sl.Table, sl.Table], draws: int, seed: int) -> Audit:
    """Watch a sum of the noisy counts: what one person moves together shows there best."""

    assert isinstance(prepared, PreparedCounts)

    def sampler(table: sl.Table, own: int) -> Callable[[int], list[Any]]:
        source = Source(SeededEntropy(own))
        exact = group_counts(table, prepared.groups, norm=prepared.noise.norm)

        def draws_of(count: int) -> list[Any]:
            often = replace(exact, value=np.tile(np.asarray(exact.value), (count, 1)))  # the same noise, many times
            return list(np.asarray(prepared.noise.on(often).release(source)).sum(axis=1).tolist())

        return draws_of

    return audit(sampler(pair[0], seed), sampler(pair[1], seed + 1), draws=draws)


@pytest.mark.parametrize("rows", PERSONS.values(), ids=PERSONS.keys())
@pytest.mark.parametrize(
    "query",
    [
        sl.Count(by="group", epsilon=1, max_groups=2),
        sl.Count(by="group", epsilon=1, max_groups=3, max_rows_per_group=2),
        sl.Count(by="group", rho="0.5", max_groups=3),
    ],
    ids=["persons", "rows", "gaussian"],
)
def test_no_person_shows_more_than_is_claimed(query: sl.Count, rows: list[str]) -> None:
    pair = tables(rows, WIDE if query.rho else SCHEMA)
    prepared = prepare_query(query, pair[0].schema)
    found = attacked(prepared, pair, 4000, 3)
    assert not any(found.refutes(claim) for claim in prepared.claims)


@pytest.mark.planted("rows counted with the noise of persons")
def test_rows_counted_with_the_noise_of_persons_are_found_out() -> None:
    """The planted bug: everybody's rows count, and the noise is that of one count a person."""
    pair = tables(PERSONS["one group"])
    prepared = prepare_query(sl.Count(by="group", epsilon=1, max_groups=1), pair[0].schema)
    assert isinstance(prepared, PreparedCounts)
    loose = replace(prepared.groups, cap=UnitCap(rows=ROWS, group_codes=1, groups=1, per_group=ROWS))
    wrong = replace(prepared, groups=loose)
    assert attacked(wrong, pair, 4000, 5).refutes(sl.PureDP(1))


def test_distinct_labels_of_one_person_are_bounded() -> None:
    """A person with three labels moves the number by one if one counts; without the cap by three, which shows."""
    nobody: dict[str, list[str]] = {"id": [], "group": []}
    alone = (sl.Table({"id": ["t"] * 3, "group": LABELS}, schema=SCHEMA), sl.Table(nobody, schema=SCHEMA))
    prepared = prepare_query(sl.CountDistinct("group", max_groups=1, epsilon=1), alone[0].schema)
    assert isinstance(prepared, PreparedDistinct)

    def found(groups: Groups) -> Audit:
        def sampler(table: sl.Table, seed: int) -> Callable[[int], list[Any]]:
            source = Source(SeededEntropy(seed))
            exact = distinct_counts(table, groups, "group", norm=prepared.noise.norm)
            often = replace(exact, value=np.full(20_000, int(np.asarray(exact.value))))
            drawn = iter(np.asarray(prepared.noise.on(often).release(source)).tolist())
            return lambda count: [next(drawn) for _ in range(count)]

        return audit(sampler(alone[0], 1), sampler(alone[1], 2), draws=20_000)

    assert not found(prepared.groups).refutes(sl.PureDP(1))
    loose = replace(prepared.groups, cap=UnitCap(rows=ROWS, group_codes=0, groups=1, per_group=ROWS))
    assert found(loose).refutes(sl.PureDP(1))


def test_one_person_moves_each_score_of_a_ranking_by_one() -> None:
    """Drawn labels have the whole ε as their slope, so a person whose rows all count for one label would show."""
    even = {"id": ["x", "y"], "group": ["a", "b"]}
    more = {"id": ["x", "y", *(["t"] * ROWS)], "group": ["a", "b", *(["a"] * ROWS)]}
    pair = (sl.Table(more, schema=SCHEMA), sl.Table(even, schema=SCHEMA))
    prepared = prepare_query(sl.TopK("group", k=1, epsilon=1), pair[0].schema)
    assert isinstance(prepared, PreparedDraws)

    def found(groups: Groups) -> Audit:
        def sampler(table: sl.Table, seed: int) -> Callable[[int], list[Any]]:
            scores, source = group_counts(table, groups, norm="linf"), Source(SeededEntropy(seed))
            return lambda count: [int(prepared.draws.release(scores, source=source)[0]) for _ in range(count)]

        return audit(sampler(pair[0], 1), sampler(pair[1], 2), draws=1000)

    assert not any(found(prepared.groups).refutes(claim) for claim in prepared.claims)
    loose = replace(prepared.groups, cap=UnitCap(rows=ROWS, group_codes=1, groups=ROWS, per_group=ROWS))
    assert found(loose).refutes(sl.PureDP(1))
