"""Attacks on counts by group: one person with many rows must not show more than the claim says; planted bugs do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.contributions import UnitCap
from sidelight.aggregates.group_sums import group_counts
from sidelight.audit import Audit, audit
from sidelight.noise import Source
from sidelight.session.query import SurePrepared, prepare_query
from sidelight.summaries.count import PreparedCounts
from sidelight.testing import SeededEntropy

ROWS = 6
LABELS = ["a", "b", "c"]
SCHEMA = [sl.PersonId("id", max_rows=ROWS), sl.Category("group", LABELS, other=None)]
OTHERS = {"id": ["x", "y", "z"], "group": ["a", "b", "b"]}
#: All rows of the person in one group, and spread over all.
PERSONS = {"one group": ["a"] * ROWS, "all groups": LABELS * 2}


def tables(rows: list[str]) -> tuple[sl.Table, sl.Table]:
    """Return a table with the person and one without."""
    more = {"id": [*OTHERS["id"], *(["target"] * len(rows))], "group": [*OTHERS["group"], *rows]}
    return sl.Table(more, schema=SCHEMA), sl.Table(OTHERS, schema=SCHEMA)


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
    pair = tables(rows)
    prepared = prepare_query(query, pair[0].schema)
    found = attacked(prepared, pair, 4000, 3)
    assert not any(found.refutes(claim) for claim in prepared.claims)


def test_rows_counted_with_the_noise_of_persons_are_found_out() -> None:
    """The planted bug: everybody's rows count, and the noise is that of one count a person."""
    pair = tables(PERSONS["one group"])
    prepared = prepare_query(sl.Count(by="group", epsilon=1, max_groups=1), pair[0].schema)
    assert isinstance(prepared, PreparedCounts)
    loose = replace(prepared.groups, cap=UnitCap(rows=ROWS, group_codes=1, groups=1, per_group=ROWS))
    wrong = replace(prepared, groups=loose)
    assert attacked(wrong, pair, 4000, 5).refutes(sl.PureDP(1))
