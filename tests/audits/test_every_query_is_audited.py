"""Every query and estimator is attacked: found by walking the registry, so that none can be forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.audit_queries import ELSEWHERE, QUICK, cases, names

from sidelight.audit import audit_query
from sidelight.audit.query_audit import audit_runs
from sidelight.records import Schema
from sidelight.session.query import prepare_query

TESTS = Path(__file__).parents[1]
CASES = cases()


def test_every_query_and_estimator_has_an_audit() -> None:
    assert names() - set(CASES) - set(ELSEWHERE) == set()
    assert len(CASES) > 25
    for name, file in ELSEWHERE.items():
        assert (TESTS / file).is_file(), name


def test_a_new_query_without_an_audit_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.registry import ENTRIES, Entry

    new = Entry(kind="new", name="Tomorrow", home="", page="", audit="")
    monkeypatch.setattr("benchmarks.audit_queries.ENTRIES", (*ENTRIES, new))
    assert names() - set(cases()) - set(ELSEWHERE) == {"Tomorrow"}


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_audit_refutes_nothing(name: str) -> None:
    query, schema = CASES[name]
    found = audit_query(query, schema, runs=320, tries=6)
    assert not found.refuted, str(found)
    assert found.raised == (0, 0)


@pytest.mark.planted("a release that says how many rows there are")
def test_quick_audits_have_teeth() -> None:
    """The same number of runs refutes each of these claims where the number of rows leaves with the answer."""
    for name in ("Quantiles", "StableMode"):
        query, schema = CASES[name]
        prepared = prepare_query(query, Schema(schema))

        def leaking(table: Any, entropy: Any) -> Any:
            return int(table.rows.length)

        found = audit_runs(leaking, Schema(schema), claims=prepared.claims, kind=name, runs=320, tries=6)
        assert found.refuted


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_audit_refutes_nothing(name: str, record_property: Any) -> None:
    query, schema = CASES[name]
    found = audit_query(query, schema, seconds=10)
    record_property("audit", f"claims of queries: {name}: refuted up to {found.share:.2f} of {found.best.claim}")
    assert not found.refuted, str(found)
    assert found.raised == (0, 0)
