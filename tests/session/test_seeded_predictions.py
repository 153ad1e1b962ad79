"""A release with seeded noise holds what it was made of: no real release predicts with it."""

from __future__ import annotations

from typing import Any

import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.release import outcome_from_json
from sidelight.testing import seeded_release

GROUPS = [chr(97 + place) for place in range(12)]
TABLE = sl.Table(
    {"g": [group for place, group in enumerate(GROUPS) for _ in range(100 + 7 * place)]},
    schema=[sl.Category("g", GROUPS, other=None)],
    name="people",
)
COUNTS = seeded_release(sl.Count(by="g", epsilon=50), TABLE, seed=1)
ROWS = seeded_release(sl.SyntheticTable(sl.marginals(1), epsilon=50), TABLE, seed=1)


@pytest.mark.parametrize(
    "query",
    [
        sl.Count(by="g", epsilon="0.001", prediction=COUNTS),
        sl.Count(by="g", epsilon="0.001", prediction=sl.Predicted(COUNTS, doubt=0.1)),
        sl.Count(by="g", epsilon="0.001", prediction=outcome_from_json(COUNTS.to_json())),
        sl.SyntheticTable(sl.marginals(1), epsilon="0.001", prediction=ROWS),
    ],
    ids=["bare", "doubted", "stored", "synthetic"],
)
def test_a_real_release_refuses_it_before_the_charge(query: Any) -> None:
    session = sl.Session(TABLE, budget=sl.PureDP(1))
    before = str(session.spent)
    with pytest.raises(RangeError, match="seeded noise, which gives no privacy"):
        session.release(query)
    with pytest.raises(RangeError, match="seeded noise, which gives no privacy"):
        query.release(TABLE)
    assert str(session.spent) == before
    assert not seeded_release(query, TABLE, seed=2).private  # a test may, and is branded


def test_neither_known_labels_nor_one_of_several_candidates_may_be_seeded() -> None:
    table = sl.Table({"employer": ["acme"] * 90 + ["zeta"]}, schema=[sl.Label("employer")], name="people")
    shown = seeded_release(sl.Count(by="employer", epsilon=50, delta="0.1"), table, seed=1)
    with pytest.raises(RangeError, match="gives no privacy"):
        sl.Count(by="employer", epsilon=1, known=shown).release(table)
    candidates = [sl.Count(by="g", epsilon=1, prediction=told) for told in (COUNTS, dict.fromkeys(GROUPS, 100))]
    search = sl.Selection(candidates=candidates, score=sl.PublicScore(lambda answer: 0.0, "nothing"))
    with pytest.raises(RangeError, match="gives no privacy"):
        search.release(TABLE)


def test_a_real_one_predicts() -> None:
    real = sl.Count(by="g", epsilon=1).release(TABLE)
    assert sl.Count(by="g", epsilon=1, prediction=real).release(TABLE).private
