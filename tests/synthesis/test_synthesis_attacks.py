"""Attacks on released synthetic tables by an attacker who knows the transcript.

The noise is replaced by numbers that do not depend on the rows: whatever a neighbour releases then has the same
transcript. All that a release may show is a function of the transcript, so two neighbours must give the same bytes; and
the privacy loss of each step is computed exactly from the law that would have drawn it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ZCDP, Claims, Neighbours, PureDP
from sidelight.guarantees.conversions import gdp_from_bounded_range
from sidelight.mechanisms import additive, exponential
from sidelight.mechanisms.budget import Budget
from sidelight.published.mwem import MWEMPlan
from sidelight.records import Schema, Table
from sidelight.synthesis import query as prepared
from sidelight.synthesis.axes import domain_of
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.engine_plan import MarginalPlan, nominal_claims, sized
from sidelight.synthesis.measurement import Protection
from sidelight.synthesis.prediction import PublicData
from sidelight.synthesis.workload import Workload, linear_queries, marginals, prefixes, ranges
from sidelight.testing import seeded_release

PRICES: tuple[dict[str, Any], ...] = ({"epsilon": 2}, {"rho": "0.7"}, {"epsilon": 1, "delta": "1e-6"})


class Step(NamedTuple):
    """One draw: its law ("select" with a unit, or noise with a scale), the private numbers, and what came out."""

    law: str
    scale: Fraction
    private: list[int]
    outcome: list[int]


def attacked(query: Any, table: Table, *, seed: int) -> tuple[str, Claims, list[Step]]:
    """Release with draws that a seed decides and no row does; return the release, its claims and all steps."""
    rng = np.random.default_rng(seed)
    steps: list[Step] = []
    pending: list[tuple[str, Fraction]] = []

    def noise(law: str) -> Any:
        def draw(size: int, scale: Fraction, source: Any) -> np.ndarray:
            pending.append((law, Fraction(scale)))
            return np.zeros(size, np.int64)

        return draw

    def outcome(bounded: Any, drawn: Any) -> Any:
        exact = np.asarray(bounded.value)
        found = rng.integers(-20, 50, exact.shape)
        steps.append(Step(*pending.pop(), [int(v) for v in exact.flat], [int(v) for v in np.ravel(found)]))
        return found if exact.shape else int(found)

    class Chosen:
        def __init__(self, scores: Any, unit: Fraction, weights: Any) -> None:
            assert weights is None
            self.scores, self.unit = [int(score) for score in scores], Fraction(unit)

        def draw(self, source: Any) -> int:
            place = int(rng.integers(len(self.scores)))
            steps.append(Step("select", self.unit, self.scores, [place]))
            return place

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additive, "discrete_laplace", noise("laplace"))
        patch.setattr(additive, "rounded_gaussian", noise("gaussian"))
        patch.setattr(additive, "_noisy", outcome)
        patch.setattr(exponential, "Categorical", Chosen)
        release = seeded_release(query, table, seed=0)
    return release.to_json(), release.guarantee, steps


def used_share(first: list[Step], second: list[Step], claims: Claims) -> float:
    """Return the share of the claim that two runs with one transcript have used; infinite if the laws differ."""
    if [(a.law, a.scale, len(a.private), a.outcome) for a in first] != [
        (b.law, b.scale, len(b.private), b.outcome) for b in second
    ]:
        return float("inf")
    pure = rho = Fraction(0)
    mu_squared = 0.0
    for a, b in zip(first, second, strict=True):
        moves = [x - y for x, y in zip(a.private, b.private, strict=True)]
        if a.law == "select":
            width = a.scale * (max(moves) - min(moves))  # the range of the loss of an exponential mechanism
            pure, rho = pure + width, rho + width**2 / 8
            mu_squared += float(gdp_from_bounded_range(width)) ** 2 if width else 0.0
        elif a.law == "laplace":
            pure += sum(map(abs, moves)) / a.scale
        else:
            square = sum(move * move for move in moves) / a.scale**2
            rho, mu_squared = rho + square / 2, mu_squared + float(square)
    shares = []
    for claim in claims:
        if isinstance(claim, PureDP):
            assert all(step.law != "gaussian" for step in first)
            shares.append(float(pure / claim.epsilon))
        elif isinstance(claim, ZCDP):
            shares.append(float(rho / claim.rho))
        else:
            assert isinstance(claim, GDP)
            shares.append(mu_squared / float(claim.mu) ** 2)
    return max(shares)


class Pair(NamedTuple):
    """A query and two neighbouring tables."""

    query: sl.SyntheticTable
    tables: tuple[Table, Table]


def pair(rng: np.random.Generator, *, price: dict[str, Any], engine: str) -> Pair:
    """Draw a small schema, a table with odd cells, a neighbour, and a query that may use anything there is."""

    def coin() -> bool:
        return bool(rng.integers(2))

    columns: list[Any] = []
    cells: dict[str, list[Any]] = {}
    for place in range(int(rng.integers(1, 4))):
        name, size = f"c{place}", int(rng.integers(1, 4))
        if coin():
            labels = [f"v{label}" for label in range(size)]
            columns.append(sl.Category(name, labels, other="other" if coin() else None))
            cells[name] = [*labels, "elsewhere", None, 10**30]
        else:
            columns.append(sl.Number(name, lower=0, upper=size, granularity=1))
            cells[name] = [*range(size + 1), float("nan"), float("inf"), -7, 10**400, "text"]
    names = list(cells)
    persons, rows = coin(), None if coin() else int(rng.integers(1, 30))
    schema = Schema([*columns, *([sl.PersonId("who", max_rows=int(rng.integers(1, 4)))] if persons else [])])

    def rows_of(person: str, count: int, *, alike: bool) -> dict[str, list[Any]]:
        found = {n: [cells[n][int(rng.integers(len(cells[n])))] for _ in range(1 if alike else count)] for n in names}
        found = {n: column * count if alike else column for n, column in found.items()}
        return found | {"who": [person] * count}

    def joined(*parts: dict[str, list[Any]]) -> Table:
        return Table(
            {n: [cell for part in parts for cell in part[n]] for n in (*names, "who")}, schema=schema, name="t"
        )

    others = [rows_of(f"p{rng.integers(4)}", 1, alike=False) for _ in range(int(rng.integers(0, 12)))]
    count = int(rng.integers(1, 6)) if persons else 1  # a person may have more rows than count
    ours, theirs = (rows_of(name, count, alike=coin()) for name in ("one", "two"))
    nobody: dict[str, list[Any]] = {n: [] for n in (*names, "who")}
    missing = [name for name in names if coin()]
    domain = domain_of(sl.SyntheticTable(marginals(1), missing=missing, epsilon=1).axes(schema))
    workload = marginals(int(rng.integers(1, len(names) + 1)))
    numbers = [column.name for column in columns if isinstance(column, sl.Number)]
    if numbers and coin():
        workload += (prefixes if coin() else ranges)(numbers[0])
    if engine == "mwem" and coin():
        low, high = float(rng.choice([0.0, -1.0, -0.5])), float(rng.choice([1.0, 0.3]))
        matrix = rng.uniform(low, high, (3, domain.cells))
        matrix[0], matrix[1, ::2] = low, high
        workload += linear_queries(matrix, lower=low, upper=high)
    public = {n: [cells[n][0]] * 3 + [cells[n][int(rng.integers(len(cells[n])))] for _ in range(6)] for n in names}
    query = sl.SyntheticTable(
        workload,
        missing=missing,
        rows=rows,
        rounds=int(rng.integers(1, 5)) if coin() else "auto",
        engine=engine,  # type: ignore[arg-type]
        prediction=PublicData(public, "other people") if engine == "support" or coin() else None,
        **price,
    )
    return Pair(query, (joined(*others, ours), joined(*others, nobody if rows is None else theirs)))


def attack_share(case: Pair, seed: int) -> float:
    (one, claims, first), (other, _, second) = (attacked(case.query, table, seed=seed) for table in case.tables)
    return used_share(first, second, claims) if one == other else float("inf")


@pytest.mark.parametrize("kept_as_rows", [False, True])
@pytest.mark.parametrize("engine", ["marginals", "mwem", "support"])
def test_one_transcript_gives_one_release_and_the_loss_stays_within_the_claim(
    engine: str, kept_as_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept_as_rows:  # as for domains beyond dense ones
        monkeypatch.setattr(prepared, "MOST_DENSE_CELLS", 0)
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shares = [attack_share(pair(rng, price=PRICES[seed % 3], engine=engine), seed) for seed in range(24)]
    assert max(shares) <= 1 + 1e-12
    assert max(shares) > 0.7  # the attack comes near the claim: it would see a sensitivity that is too small


@pytest.mark.parametrize("engine", ["marginals", "mwem"])
def test_the_attack_finds_too_small_a_sensitivity(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protection, "sensitivity", lambda self, norm: Fraction(1, 2))
    monkeypatch.setattr(Protection, "query_sensitivity", lambda self, bounds: Fraction(max(bounds)) / 2)
    rng = np.random.default_rng(0)
    assert max(attack_share(pair(rng, price=PRICES[0], engine=engine), seed) for seed in range(15)) > 1.5


def test_the_attack_finds_a_private_number_in_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = prepared.PreparedTable.run

    def leaky(self: Any, table: Table, source: Any) -> Any:
        answer = plain(self, table, source)
        answer.value["true_rows"] = self.counts(table).exact_rows()
        return answer

    monkeypatch.setattr(prepared.PreparedTable, "run", leaky)
    rng = np.random.default_rng(0)
    found = [attack_share(pair(rng, price=PRICES[0], engine="marginals"), seed) for seed in range(12)]
    assert float("inf") in found


class Stubborn(str):
    """A text that will not be read."""

    def __str__(self) -> str:
        raise RuntimeError("a record")


ODD_CELLS = (10**5000, -(10**5000), Stubborn("x"), float("inf"), "\ud800", b"x", [1], 1j)


@pytest.mark.parametrize("cell", ODD_CELLS, ids=range(len(ODD_CELLS)))
def test_no_cell_decides_whether_a_release_fails(cell: Any) -> None:
    """Python does not write whole numbers of more than 4300 digits: one such cell once failed every release."""
    schema = Schema([sl.Category("a", ["x"]), sl.Number("n", lower=0, upper=1), sl.PersonId("who", max_rows=1)])
    table = Table({name: ["x", cell, 1, "y"] for name in ("a", "n", "who")}, schema=schema)
    release = sl.SyntheticTable(marginals(1), missing=["n"], epsilon=1).release(table)
    assert isinstance(release, sl.Release)


def plans() -> Iterator[tuple[Budget, MarginalPlan | MWEMPlan]]:
    domain, workload = Domain(("a", "b", "c"), (2, 3, 4)), marginals(2)
    for price, neighbours, units in product(PRICES, (Neighbours.ADD_REMOVE, Neighbours.REPLACE), (1, 3)):
        paid = Budget.of(**price)
        common: dict[str, Any] = {
            "domain": domain,
            "workload": workload,
            "price": paid,
            "protection": Protection(neighbours=neighbours, rows_per_unit=units),
            "rows": None if neighbours is Neighbours.ADD_REMOVE else 100,
        }
        for rounds, size, selecting in product((1, 2, 7), ("1/50", "0.9"), ("1/10", "0.7")):
            shares: dict[str, Any] = {
                "size_share": Fraction(size),
                "selection_share": Fraction(selecting),
                "rounds": rounds,
            }
            yield paid, MWEMPlan(**common, **shares)
            yield paid, MarginalPlan(**common, **shares)


def spent(claims: Claims, kind: str) -> Fraction:
    """Return what claims cost in the kind of a price, squared for mu."""
    if kind == "epsilon":
        pure = claims.pure()
        assert pure is not None
        return pure.epsilon
    if kind == "rho":
        zcdp = claims.zcdp()
        assert zcdp is not None
        return zcdp.rho
    gdp = claims.gdp()
    assert gdp is not None
    return gdp.mu**2


def test_no_division_of_a_price_spends_more_than_the_price() -> None:
    for price, plan in plans():
        total = spent(nominal_claims(price, plan.protection), price.kind)
        found = spent(plan.claims, price.kind)
        assert found <= total * (1 + Fraction(1, 10**40))  # mu is a root, rounded up once
        assert found > total * Fraction(9, 10)
        if isinstance(plan, MarginalPlan) and plan.rows is None:

            class Counts:  # `sized` asks for the number of rows and nothing else
                protection = plan.protection

                def exact_rows(self) -> int:
                    return 1000

            with pytest.MonkeyPatch.context() as patch:
                for law in (additive.LaplaceNoise, additive.GaussianNoise):
                    patch.setattr(law, "release", lambda self, source: 1000)
                later = sized(plan, Counts(), source=None)  # type: ignore[arg-type]
            size = spent(plan.size_price.on(plan.protection.bounded(0, "l1")).claims, price.kind)
            assert size + spent(later.claims, price.kind) <= total * (1 + Fraction(1, 10**20))


def test_the_printed_sensitivity_is_never_below_the_class() -> None:
    domain = Domain(("a",), (2,))
    for low, high, neighbours in product((0.0, -0.3, -1.0), (0.2, 1.0), Neighbours):
        if neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
            continue
        common: dict[str, Any] = {
            "domain": domain,
            "workload": linear_queries(np.array([[low, high]]), lower=low, upper=high),
            "price": Budget.of(epsilon=1),
            "protection": Protection(neighbours=neighbours, rows_per_unit=2),
            "rows": 5 if neighbours is Neighbours.REPLACE else None,
        }
        plan = MWEMPlan(**common)
        assert plan.query_sensitivity <= MWEMPlan(**common, sensitivity="printed").query_sensitivity
        x, y = np.array([3, 2]), np.array([1, 4]) if neighbours is Neighbours.REPLACE else np.array([1, 2])
        (block,) = plan.blocks
        assert abs(int(block.answers(x)[0] - block.answers(y)[0])) <= plan.query_sensitivity * block.steps


def test_an_entry_stored_in_parts_is_one_entry() -> None:
    parts = sp.csr_matrix((np.ones(3), np.zeros(3, np.int64), np.array([0, 3])), shape=(1, 2))
    assert parts.data.max() == 1  # every part lies in the bounds; the entry is 3
    assert parts.toarray()[0, 0] == 3
    with pytest.raises(RangeError, match="outside the declared bounds"):
        linear_queries(parts)
    halves = sp.csr_matrix((np.full(2, 0.5), np.zeros(2, np.int64), np.array([0, 2])), shape=(1, 2))
    (block,) = linear_queries(halves).blocks(Domain(("a",), (2,)))
    assert block.answers(np.array([10, 5])).tolist() == [10 * block.steps]


@pytest.mark.parametrize("form", [np.array, sp.csr_matrix])
def test_queries_do_not_change_after_their_bounds_were_checked(form: Any) -> None:
    given = form([[1.0, 0.0]])
    (block,) = linear_queries(given).blocks(Domain(("a",), (2,)))
    (given.data if hasattr(given, "tocsr") else given)[...] = 100.0
    assert block.answers(np.array([1, 0])).tolist() == [block.steps]


def test_the_order_of_public_rows_changes_nothing(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.choice(["x", "y"], 1000), "b": rng.integers(0, 9, 1000)})
    schema = Schema([sl.Category("a", ["x", "y"], other=None), sl.Number("b", lower=0, upper=8, granularity=1)])
    frame.write_parquet(tmp_path / "public.parquet")
    sources = (frame, frame.sample(fraction=1, shuffle=True, seed=1), tmp_path / "public.parquet", frame.lazy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ready = [sl.SyntheticTable(prediction=s, epsilon=1, engine="support").prepare(schema) for s in sources]
    assert len({str(each.request) for each in ready}) == 1
    points = [each.space.codes.tolist() for each in ready]  # type: ignore[union-attr]
    assert all(each == points[0] for each in points)


def test_rows_of_a_domain_beyond_integers_have_one_order_too() -> None:
    rng = np.random.default_rng(0)
    schema = Schema([sl.Number(f"n{place}", lower=0, upper=9, granularity=1) for place in range(20)])  # 10**20 cells
    frame = pl.DataFrame(rng.integers(0, 10, (50, 20)), schema=list(schema.names))
    query = {"epsilon": 1, "engine": "support"}
    one, other = (
        sl.SyntheticTable(prediction=rows, **query).prepare(schema).request  # type: ignore[arg-type]
        for rows in (frame, frame.reverse())
    )
    assert one == other


def test_a_release_that_learns_from_seeded_noise_says_so() -> None:
    table = Table({"a": ["x", "y"] * 20}, schema=[sl.Category("a", ["x", "y"], other=None)])
    earlier = seeded_release(sl.SyntheticTable(marginals(1), epsilon=1), table, seed=1)
    learner = sl.SyntheticTable(marginals(1), epsilon=1, prediction=earlier)
    with pytest.raises(RangeError, match="gives no privacy"):
        learner.release(table)
    told = seeded_release(learner, table, seed=2).prediction  # type: ignore[union-attr]
    assert told is not None
    assert "NOT PRIVATE" in told["description"]
    assert "not private" in str(told["origin"])
    honest = sl.SyntheticTable(marginals(1), epsilon=1).release(table)
    told = sl.SyntheticTable(marginals(1), epsilon=1, prediction=honest).release(table).prediction  # type: ignore[union-attr]
    assert "NOT PRIVATE" not in str(told)


def test_a_marginal_that_would_not_fit_is_refused_before_the_charge() -> None:
    schema = Schema([sl.Category(name, [f"v{label}" for label in range(3000)]) for name in "abc"])
    public = PublicData({name: ["v1", "v2"] for name in "abc"}, "other people")
    with pytest.raises(RangeError, match=r"a x b x c has 2\.7e\+10 cells"):
        sl.SyntheticTable(marginals(3), prediction=public, epsilon=1).prepare(schema)
    sl.SyntheticTable(marginals(2), prediction=public, epsilon=1).prepare(schema)


def test_an_empty_workload_is_refused() -> None:
    with pytest.raises(RangeError, match="asks for something"):
        Workload(())


def test_a_number_of_bins_may_come_from_numpy() -> None:
    schema = Schema([sl.Number("n", lower=0, upper=9, granularity=1)])
    (four,) = sl.SyntheticTable(marginals(1), bins={"n": np.int64(4)}, epsilon=1).axes(schema)
    assert four.size == 4
