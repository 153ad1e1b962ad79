"""What people pass by mistake is answered with what was wanted, before any charge; what they print is short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sidelight as sl
from sidelight.errors import LedgerError, RangeError, SchemaError
from sidelight.testing import seeded_release

PEOPLE = sl.Table({"age": [31, 47] * 50}, schema=[sl.Number("age", granularity=1)], name="people")
MEDIAN = sl.Quantiles([0.5], column="age", epsilon="0.1")


@pytest.mark.parametrize("budget", [1, "1", (1, 1e-6), None])
def test_a_budget_says_its_kind(budget: Any) -> None:
    with pytest.raises(RangeError, match=r"sl\.PureDP\(1\) or sl\.ApproxDP"):
        sl.Session(PEOPLE, budget=budget)


def test_a_ledger_may_be_a_path(tmp_path: Path) -> None:
    session = sl.Session(PEOPLE, budget=sl.PureDP(1), ledger=tmp_path / "budget.db")
    session.release(MEDIAN)
    assert repr(session) == f"Session('people', budget=PureDP(ε = 1), ledger={str(tmp_path / 'budget.db')!r})"
    with pytest.raises(LedgerError, match="got int"):
        sl.Session(PEOPLE, budget=sl.PureDP(1), ledger=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("query", "got"), [("median", "got str"), (sl.Quantiles, "got the class Quantiles")])
def test_an_invalid_query_is_not_charged(query: Any, got: str) -> None:
    session = sl.Session(PEOPLE, budget=sl.PureDP(1))
    with pytest.raises(RangeError, match=got):
        session.release(query)
    assert session.remaining.epsilon == 1
    assert repr(session) == "Session('people', budget=PureDP(ε = 1))"


@pytest.mark.parametrize("data", [pd.DataFrame({"age": [1]}), {"age": [1]}])
def test_a_frame_is_not_one_column(data: Any) -> None:
    with pytest.raises(SchemaError, match=r"which has named columns; write sl\.Table"):
        sl.Quantiles([0.5], epsilon=1).release(data)
    with pytest.raises(SchemaError, match=r"sl\.Table\(data, schema=\[sl\.Number\('age'\)\]\)"):
        MEDIAN.release(data)


def test_a_release_prints_itself_with_its_brand() -> None:
    seeded = seeded_release(MEDIAN, PEOPLE, seed=1)
    assert repr(seeded).startswith("NOT PRIVATE")
    assert repr(seeded) == str(seeded)


def test_a_model_leads_with_epsilon_and_delta() -> None:
    model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1], solver="objective")
    release = model.fit([[0.5], [-0.5]] * 200, [1, 0] * 200).release_
    assert str(release.guarantee).startswith("ApproxDP(ε = 1, δ = 1e-6; idealized), ")
    assert len(repr(release)) < 500


def test_a_model_by_descent_says_its_mu_and_what_it_was_asked_for() -> None:
    model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1])
    release = model.fit([[0.5], [-0.5]] * 200, [1, 0] * 200).release_
    assert str(release.guarantee) == "GDP(μ = 0.236705)"
    assert str(model.privacy_).startswith("(1, 1e-6)-DP")
    assert len(repr(release)) < 800


def test_a_refusal_says_that_it_has_no_value() -> None:
    wards = sl.Table({"ward": ["A", "B"] * 20}, schema=[sl.Category("ward", ["A", "B"])])
    refused = sl.StableMode("ward", epsilon=1, delta="1e-6").release(wards)
    assert isinstance(refused, sl.Refused)
    assert repr(refused).startswith("refused: ")
    with pytest.raises(AttributeError, match="a refusal has no value"):
        refused.value  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(refused, "value")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "other JSON"),
        ("{}", "other JSON"),
        ({}, "got dict"),
        ('{"format": "99", "circumstances": {}}', "upgrade sidelight"),
    ],
)
def test_an_invalid_stored_release_is_named(text: Any, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        sl.Release.from_json(text)


def test_a_sequence_wants_a_ledger_and_a_budget_of_a_kind(tmp_path: Path) -> None:
    def sequence(**changed: Any) -> sl.Sequence:
        given: dict[str, Any] = {"budget": sl.PureDP(1), "ledger": tmp_path / "budget.db", "scope": "people"}
        return sl.Sequence(MEDIAN, sl.PubPrev(location=40, scale=10), schema=PEOPLE.schema, **(given | changed))

    with pytest.raises(RangeError, match=r"sl\.PureDP\(1\)"):
        sequence(budget=1)
    with pytest.raises(LedgerError, match="got NoneType"):
        sequence(ledger=None)
    assert not (tmp_path / "budget.db").exists()
    assert sequence().release({"age": [31, 47]}, day="2026-11-15").private


def test_a_key_is_a_text_and_a_bound_is_no_price(tmp_path: Path) -> None:
    session = sl.Session(PEOPLE, budget=sl.PureDP(1), ledger=tmp_path / "budget.db")
    with pytest.raises(LedgerError, match="printable text of 1 to 500 characters, got int"):
        session.release(MEDIAN, key=5)  # type: ignore[call-overload]
    with pytest.raises(RangeError, match=r"data_norm must be positive, got 0$"):
        sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=0, classes=[0, 1]).fit([[1.0]], [1])
    with pytest.raises(RangeError, match="epsilon must be positive, got 0; a release without a cost"):
        sl.PureDP(0)
