"""The auditor of queries: honest ones stand and are bounded closely, broken ones are found by its own search."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from broken_mechanisms import BROKEN, HONEST, PERSONS, SCHEMA, of

import sidelight as sl
from sidelight.audit import QueryAudit, audit_query, audit_runs
from sidelight.audit.attacks import Seen, _worth, judge, look, measures_of
from sidelight.audit.pairs import Pair, PairSearch, columns_of
from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import RDP, Claims, Neighbours, RenyiOrders
from sidelight.noise import Source
from sidelight.stability.pate import NoisyLabels
from sidelight.testing import SeededEntropy

ONE = Claims.of(sl.PureDP(1))
#: Bugs that show in a part of the runs only.
FINE = ("the private number of rows divides", "a prior fitted to the private rows")


@pytest.mark.parametrize("name", HONEST)
def test_honest_mechanisms_stand(name: str) -> None:
    found = audit_runs(HONEST[name], SCHEMA, claims=ONE, kind=name, runs=800, tries=16)
    assert not found.refuted
    assert 0.5 < found.share < 1.1  # the attack has teeth
    assert found.raised == (0, 0)


@pytest.mark.parametrize("bug", [pytest.param(bug, marks=pytest.mark.planted(bug)) for bug in BROKEN])
def test_broken_mechanisms_are_refuted(bug: str) -> None:
    found = audit_runs(BROKEN[bug], SCHEMA, claims=ONE, kind=bug, runs=1200 if bug in FINE else 400, tries=20)
    assert found.refuted, str(found)


@pytest.mark.slow
@pytest.mark.planted("noise 30 % too small")
def test_noise_that_is_30_percent_too_small_is_refuted() -> None:
    two = Claims.of(sl.PureDP(2))
    for share, wanted in ((Fraction(1), False), (Fraction(7, 10), True)):
        run = of(lambda rows, share=share: len(rows.x) + rows.noise(share / 2)[0])
        assert audit_runs(run, SCHEMA, claims=two, kind="count", runs=12_000, tries=8).refuted is wanted


@pytest.mark.planted("sensitivity of adding taken for replacing")
def test_the_sensitivity_of_adding_is_not_that_of_replacing() -> None:
    claims = ONE.under(neighbours=Neighbours.REPLACE)
    signed = of(lambda rows: float(np.round(2 * rows.clamped - 4).sum()) + rows.noise(Fraction(4, 3))[0])
    found = audit_runs(signed, SCHEMA, claims=claims, kind="sum", runs=400, tries=14)
    assert found.refuted
    assert found.neighbours == "replace"
    honest = of(lambda rows: float(np.round(2 * rows.clamped - 4).sum()) + rows.noise(8)[0])
    assert not audit_runs(honest, SCHEMA, claims=claims, kind="sum", runs=400, tries=14).refuted


@pytest.mark.planted("rows counted where a person was promised")
def test_a_person_with_several_rows_is_found() -> None:
    claims = ONE.with_unit(PERSONS.unit)
    counted = of(lambda rows: 2 * len(rows.x) + rows.noise(1)[0])
    assert audit_runs(counted, PERSONS, claims=claims, kind="count", runs=400, tries=16).refuted
    assert not audit_query(sl.Count(epsilon=1), PERSONS, runs=200, tries=8).refuted


@pytest.mark.planted("noise of a library query, a tenth of what it has to be")
def test_a_library_query_with_too_little_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.mechanisms.additive import LaplaceNoise

    query = sl.Count(where=sl.col("x") > 1, epsilon=2)
    assert not audit_query(query, SCHEMA, runs=400, tries=4).refuted
    real = LaplaceNoise.release
    monkeypatch.setattr(LaplaceNoise, "release", lambda self, source: _shrunk(self, real(self, source)))
    assert audit_query(query, SCHEMA, runs=400, tries=4).refuted


def _shrunk(noise: object, released: object) -> object:
    value = np.asarray(noise.bounded.value)  # type: ignore[attr-defined]
    return value + np.round((np.asarray(released) - value) / 10).astype(np.int64)


def test_both_relations_and_their_claims() -> None:
    found = audit_query(sl.Count(epsilon=1), SCHEMA, runs=80, tries=4, neighbours=Neighbours.REPLACE)
    assert found.neighbours == "replace"
    assert found.best.claimed == 2
    claims, local = (ONE.under(neighbours=each) for each in (Neighbours.REPLACE, Neighbours.LOCAL))
    with pytest.raises(RangeError, match="says nothing about"):
        audit_runs(HONEST["count"], SCHEMA, claims=claims, kind="", neighbours=Neighbours.ADD_REMOVE)
    with pytest.raises(RangeError, match="one report"):
        audit_runs(HONEST["count"], SCHEMA, claims=local, kind="")


def test_what_is_judged_was_not_looked_at_before() -> None:
    """Where both laws are the same, an attack chosen on the runs that judge it would find something."""
    rng = np.random.default_rng(1)

    def drawn() -> list[Seen]:
        numbers = [{f"n{place}": value for place, value in enumerate(rng.normal(size=30))} for _ in range(400)]
        return [Seen(numbers=each, raised=False, seconds=0.0) for each in numbers]

    found = [judge((drawn(), drawn()), ONE, delta=None, failure=0.05, surely=1e-7)[0].refuted for _ in range(12)]
    assert sum(value > 0 for value in found) <= 7  # of 12 at 5 %: eight or more has probability below 1e-7


@pytest.mark.parametrize("claim", [sl.PureDP(1), sl.ZCDP("0.5"), sl.GDP(1)], ids=str)
def test_an_attack_is_chosen_by_what_its_event_is_worth_however_often_it_comes(claim: sl.PureDP) -> None:
    """A column's event may come in more than half of the runs that choose it: its worth is still a number."""
    rng = np.random.default_rng(2)
    seen = [
        [Seen(numbers={"noise": rng.normal(), "told": float(rng.random() < share)}, raised=False, seconds=0.0)]
        for share in (0.95, 0.1)
        for _ in range(200)
    ]
    first, second = ([each for (each,) in part] for part in (seen[:200], seen[200:]))
    ((_, claimed, measure),) = measures_of(Claims.of(claim), delta=None)
    column = tuple(np.array([each.numbers["told"] for each in part]) for part in (first, second))
    assert _worth(column, measure, 0.05, among=200) > claimed
    (found,) = judge((first, second), Claims.of(claim), delta=None, failure=0.05, surely=1e-7)
    assert found.refuted > claimed


def test_an_audit_survives_its_json_and_says_what_it_found() -> None:
    found = audit_query(sl.Histogram("x", bins=[1, 3], rho="0.5"), SCHEMA, runs=80, tries=4)
    assert QueryAudit.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert str(found).startswith("histogram: GDP(μ = 1) stands; refuted up to")
    assert audit_query(sl.Count(epsilon=1), SCHEMA, runs=10_000, tries=60, seconds=0.5).runs < 4000


def test_an_audit_can_be_repeated() -> None:
    first, second = (audit_query(sl.Count(epsilon=1), SCHEMA, runs=40, tries=6, seed=3) for _ in range(2))
    assert (first.judged, first.pair) == (second.judged, second.pair)


def test_pairs_are_neighbours() -> None:
    for schema, neighbours in ((SCHEMA, Neighbours.ADD_REMOVE), (PERSONS, Neighbours.REPLACE)):
        with Source(SeededEntropy(1)) as source:
            search, pairs = PairSearch(schema, neighbours=neighbours, source=source), []

            def score(pair: Pair, pairs: list[Pair] = pairs) -> float:
                pairs.append(pair)
                return float(len(pairs) % 7)

            search.best(score, tries=300)
        assert len(set(map(str, pairs))) > 20
        for pair in pairs:
            first, second = pair.units()
            rest = list(first)
            rest.remove(pair.unit)
            other = list(second)
            if pair.instead is not None:
                other.remove(pair.instead)
            assert rest == other
            lengths = {len(cells) for cells in columns_of(first, schema).values()}
            assert lengths == {sum(len(unit) for unit in first)}
        exceeds = any(len(pair.unit) > schema.rows_per_unit for pair in pairs)
        assert exceeds is (schema.person is not None)  # the cap has to be enforced, so it is tried


def test_whatever_is_raised_is_an_outcome() -> None:
    pair = Pair(common=(), unit=((1.0, "a"),))
    seen = look(lambda table, entropy: 1 / 0, pair.tables(SCHEMA)[0], SeededEntropy(0))
    assert (dict(seen.numbers), seen.raised) == ({"raised ZeroDivisionError": 1.0}, True)


@pytest.mark.parametrize(("wrong", "words"), [({"runs": 10}, "multiple of 4"), ({"tries": 0}, "at least 1")])
def test_mistakes_are_refused(wrong: dict[str, int], words: str) -> None:
    with pytest.raises(RangeError, match=words):
        audit_query(sl.Count(epsilon=1), SCHEMA, **wrong)
    with pytest.raises(RangeError, match="failure"):
        audit_query(sl.Count(epsilon=1), SCHEMA, failure=1.5)
    with pytest.raises(ClaimError, match="give a delta"):
        judge(([], []), Claims.of(RDP(RenyiOrders.of({2: "0.1"}))), delta=None, failure=0.05, surely=1e-7)


def test_a_schema_with_a_date_is_audited() -> None:
    visit = sl.Date("visit", start="2020-01-01", end="2025-12-31")
    query = sl.Count(where=sl.col("visit") >= "2022-01-01", epsilon=1)
    assert not audit_query(query, [visit], runs=100, tries=6).refuted


def test_a_query_that_brings_votes_or_rows_of_its_own_is_not_attacked() -> None:
    votes = NoisyLabels(votes=[[51, 49]], noise_scale=40)
    with pytest.raises(RangeError, match="brings rows or votes of its own"):
        audit_query(votes, SCHEMA, runs=40, tries=2)
