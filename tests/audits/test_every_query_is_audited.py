"""Every query and estimator is attacked: found by walking the registry, so that none can be forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.audit_oversold import attacked_oversold
from benchmarks.audit_queries import ELSEWHERE, QUICK, cases, names
from benchmarks.planted_bugs import files, planted_in

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


def test_every_query_and_estimator_has_a_planted_bug() -> None:
    """By a mark that names it, in the file that the registry calls its audit, or by the test below."""
    from sidelight.registry import ENTRIES

    bugs = {str(Path(file).relative_to(TESTS)): planted_in(Path(file).read_text(encoding="utf-8")) for file in files()}
    named = {name for found in bugs.values() for whose in found.values() for name in whose}
    own = {entry.name for entry in ENTRIES if any(not whose for whose in bugs.get(entry.audit, {}).values())}
    assert names() - named - own - OVERSOLD == set()
    assert named <= names(), "a mark names what is not public"


#: Sold at a 32nd of its price, each of these is refuted by some hundreds of runs, in about two seconds.
OVERSOLD = {"StableMedian", "StableMode", "StablePCA", "TopK"}
#: The same attack does not see these; the price of a majority vote buys its test, not its noise.
NOT_SEEN = {"AdaOPS", "OPSPTR", "StableLogistic", "MajorityVote"}


@pytest.mark.planted(
    "a query that is sold at a 32nd of its price",
    of=("StableMedian", "StableMode", "StablePCA", "TopK"),
)
@pytest.mark.parametrize("name", sorted(OVERSOLD))
def test_a_query_sold_far_below_its_price_is_refuted(name: str) -> None:
    ((_, found),) = attacked_oversold([name])
    assert found.refuted, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CASES) - OVERSOLD))
def test_more_queries_sold_far_below_their_price(name: str) -> None:
    ((_, found),) = attacked_oversold([name])
    assert found.refuted == (name not in NOT_SEEN), str(found)
