"""Totals that a law has published exactly: another relation of neighbours, its price, and where it is refused."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import ClaimError, RangeError, SchemaError
from sidelight.guarantees.claims import NOT_PROTECTED
from sidelight.guarantees.encoding import claim_from_json, claim_to_json
from sidelight.guarantees.implications import implies
from sidelight.noise import Source
from sidelight.report.words import promise, together
from sidelight.session.query import prepare_query
from sidelight.summaries.tree_measurement import LevelMargin, _scale
from sidelight.testing import SeededEntropy, seeded_release

LEAVES, SEXES = ["a1", "a2", "b1", "b2"], ["f", "m"]
GEO = sl.Hierarchy("leaf", {"town": 1})
SCHEMA = [sl.Category("leaf", LEAVES), sl.Category("sex", SEXES)]
LAW = sl.Invariant("town", reason="Towns Act, s. 4")
KEPT = sl.Neighbours.KEPT


def table(rows: list[tuple[str, str]]) -> sl.Table:
    return sl.Table({"leaf": [row[0] for row in rows], "sex": [row[1] for row in rows]}, schema=SCHEMA)


PEOPLE = table([("a1", "f")] * 40 + [("a2", "m")] * 7 + [("b2", "f")] * 90 + [("b1", "m")] * 3)


@pytest.mark.parametrize("by", [[GEO], [GEO, "sex"]])
@pytest.mark.parametrize("price", [{"rho": "0.1"}, {"epsilon": 1}])
def test_totals_are_exact_and_every_claim_says_so(by: list[Any], price: dict[str, Any]) -> None:
    release = seeded_release(sl.Count(by=by, invariants=LAW, **price), PEOPLE, seed=1)
    value: Any = release.value
    towns = value.level("town")
    assert towns["count"].tolist() == [47, 93, 0]
    assert towns["unbiased"] == pytest.approx([47, 93, 0], abs=1e-9)
    assert towns["noise_sd"].tolist() == [0, 0, 0]
    assert value.level("all")["count"].tolist() == [140]
    leaves = value.level("leaf")
    found = dict.fromkeys(towns["id"], 0)
    for parent, count in zip(leaves["parent"], leaves["count"], strict=True):
        found[parent] += count
    assert list(found.values()) == [47, 93, 0]
    assert min(leaves["noise_sd"][:4]) > 0  # the last is the only leaf of its town
    assert release.guarantee.neighbours is KEPT
    assert "town: Towns Act, s. 4" in str(release.guarantee)
    assert NOT_PROTECTED in value.notes["published_exactly"]
    assert sl.Release.from_json(release.to_json()) == release
    said = promise(release.guarantee)
    assert "Towns Act, s. 4" in said.plain
    assert NOT_PROTECTED in said.caveat
    assert said.beliefs == ()  # they speak of somebody who is in the data or not


def test_the_norms_are_those_of_a_replacement() -> None:
    """What a query asks is what it claims: the same rho has the root of two times the noise."""
    flat = sl.Hierarchy("leaf", {"town": 1})
    one, two = (
        prepare_query(sl.Count(by=flat, rho="0.1", noise="gaussian", invariants=law), sl.Schema(SCHEMA))
        for law in (None, sl.Invariant("all", reason="the number is public"))
    )
    norms = [{(m.level): m.norms.l2_squared for m in each.measurement.margins} for each in (one, two)]  # type: ignore[attr-defined]
    assert set(norms[0].values()) == {1}
    assert set(norms[1].values()) == {2}


def exact_values(prepared: Any, rows: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    met: list[Any] = []
    before = LevelMargin.bounded

    def caught(self: LevelMargin, values: Any, unit: Any) -> Any:
        met.append((self, before(self, values, unit)))
        return met[-1][1]

    with monkeypatch.context() as patch, Source(SeededEntropy("kept neighbours")) as source:
        patch.setattr(LevelMargin, "bounded", caught)
        answer = prepared.run(table(rows), source)
    return [met, answer.value]


@pytest.mark.parametrize("price", [{"rho": "0.5", "noise": "gaussian"}, {"epsilon": 1}])
def test_all_kept_neighbours(price: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Theorem 8 (a) by brute force: within the claim, attained, and beyond the norms of adding (the planted bug)."""
    prepared: Any = prepare_query(sl.Count(by=[GEO, "sex"], invariants=LAW, **price), sl.Schema(SCHEMA))
    cells = list(itertools.product(LEAVES, SEXES))
    base = [("a1", "f"), ("b2", "m"), ("b2", "m")]
    found = {cell: exact_values(prepared, [*base, cell], monkeypatch) for cell in cells}
    used, beyond = 0.0, 0
    for one, other in itertools.permutations(cells, 2):
        (first, told), (second, other_told) = found[one], found[other]
        totals = [each.level("town")["count"].tolist() for each in (told, other_told)]
        if one[0][0] != other[0][0]:
            assert totals[0] != totals[1]  # (c): told apart with certainty, so no claim speaks of this pair
            continue
        assert totals[0] == totals[1]
        loss = 0.0
        for (margin, bounded), (_, against) in zip(first, second, strict=True):
            off = np.abs(np.asarray(bounded.value) - np.asarray(against.value)).astype(float)
            power = 1 if bounded.norm == "l1" else 2
            moved = float((off**power).sum() ** (1 / power))
            assert moved <= float(bounded.sensitivity) * (1 + 1e-9)
            beyond += moved > 1.0  # the norm of adding or removing one row
            loss += (moved / _scale(margin, prepared.measurement.unit)) ** power
        claimed = float(prepared.claims.pure().epsilon) if power == 1 else float(prepared.claims.gdp().mu) ** 2
        assert loss <= claimed * (1 + 1e-9)
        used = max(used, loss / claimed)
    assert used > 0.98
    assert beyond > 0


def test_what_implies_what() -> None:
    """A claim for any replacement holds for kept neighbours; adding and removing by two steps; never back."""
    kept: Any = {"neighbours": KEPT, "kept": "town: law"}
    assert implies(sl.GDP(1, neighbours=sl.Neighbours.REPLACE), sl.GDP(1, **kept))
    assert implies(sl.GDP(1), sl.GDP(2, **kept))
    assert not implies(sl.GDP(1), sl.GDP("1.9", **kept))
    assert implies(sl.GDP(1, **kept), sl.ZCDP("0.5", **kept))
    assert not implies(sl.GDP("0.1", **kept), sl.GDP(1))
    assert not implies(sl.GDP("0.1", **kept), sl.GDP(1, neighbours=sl.Neighbours.REPLACE))
    assert not implies(sl.GDP("0.1", **kept), sl.GDP(1, neighbours=KEPT, kept="county: law"))
    assert not implies(sl.GDP("0.1", neighbours=sl.Neighbours.LOCAL), sl.GDP(1, **kept))
    assert claim_from_json(claim_to_json(sl.PureDP(1, **kept))) == sl.PureDP(1, **kept)
    with pytest.raises(ClaimError, match="kept is a text"):
        sl.PureDP(1, kept="town: law")
    several = [sl.Claims.of(sl.PureDP(1, neighbours=KEPT, kept=each)) for each in ("town: law", "county: law")]
    assert together(several) is None  # other totals are other pairs: nothing holds for both together
    assert together(several[:1] * 2) == 2


def test_no_session_ledger_or_budget_takes_it(tmp_path: Path) -> None:
    query = sl.Count(by=GEO, rho="0.001", invariants=LAW)
    session = sl.Session(PEOPLE, budget=sl.ZCDP(1))
    with pytest.raises(ClaimError, match="by itself"):
        session.release(query)
    assert session.remaining == sl.Session(PEOPLE, budget=sl.ZCDP(1)).remaining
    kept = sl.Session(PEOPLE, budget=sl.ZCDP(1), ledger=tmp_path / "ledger.db", scope="people")
    with pytest.raises(ClaimError, match="replace one by another"):
        kept.release(query)
    for budget in (sl.ZCDP(1, neighbours=KEPT), sl.ZCDP(1, neighbours=KEPT, kept="town: law")):
        with pytest.raises(ClaimError, match="no budget counts"):
            sl.Session(PEOPLE, budget=budget)


@pytest.mark.parametrize(
    ("query", "schema", "said"),
    [
        ({"where": 'sex == "f"'}, SCHEMA, "leave where out"),
        ({"impossible": 'sex == "f"', "by": [GEO, "sex"]}, SCHEMA, "leave impossible out"),
        ({"public_totals": {"all": {"all": 3}}}, SCHEMA, "leave public_totals out"),
        ({}, [sl.Category("leaf", LEAVES, other=None)], "can leave rows out"),
        ({}, [sl.Category("leaf", LEAVES, missing=sl.Drop())], "can leave rows out"),
        ({"max_groups": 1}, [sl.PersonId("id", max_rows=1), *SCHEMA], "the row is protected"),
        ({"invariants": sl.Invariant("leaf", reason="law")}, SCHEMA, "nothing to measure"),
        ({"invariants": sl.Invariant("street", reason="law")}, SCHEMA, "no level"),
    ],
)
def test_what_could_leave_a_row_out_is_refused(query: dict[str, Any], schema: list[Any], said: str) -> None:
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(sl.Count(**{"by": GEO, "rho": "0.1", "invariants": LAW, **query}), sl.Schema(schema))


def test_an_invariant_needs_its_reason_and_a_hierarchy() -> None:
    with pytest.raises(RangeError, match="reason"):
        sl.Invariant("town", reason=" ")
    with pytest.raises(RangeError, match=r"sl\.Hierarchy"):
        sl.Count(by="leaf", rho=1, invariants=LAW)
    with pytest.raises(RangeError, match="one or a list"):
        sl.Count(by=GEO, rho=1, invariants="town")  # type: ignore[arg-type]
