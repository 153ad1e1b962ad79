"""Audits of selection and measurement: the claims stand, and planted bugs are found out. Laws of the noise."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import inf, log
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from sidelight.audit import audit
from sidelight.guarantees import Neighbours, PureDP
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.published.mwem import MWEMPlan
from sidelight.synthesis import selection
from sidelight.synthesis import single_queries as mwem
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.measurement import PrivateMarginals, Protection, measure
from sidelight.synthesis.selection import SCORE_STEPS, QuerySpace, select_marginal
from sidelight.synthesis.spaces import DenseSpace
from sidelight.synthesis.workload import Marginal, linear_queries
from sidelight.testing import SeededEntropy

DOMAIN = Domain(("a", "b"), (2, 2))
CANDIDATES = [Marginal(("a",)), Marginal(("b",)), Marginal(("a", "b"))]
PRICE = Budget.of(epsilon=2)


def tables(rows: int) -> Iterator[np.ndarray]:
    for cells in product(range(rows + 1), repeat=4):
        if sum(cells) == rows:
            yield np.array(cells)


def pairs(neighbours: Neighbours) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs of tables of at most 3 rows that differ in one row."""
    for rows in (1, 2, 3):
        for x in tables(rows):
            for origin in np.flatnonzero(x):
                less = x.copy()
                less[origin] -= 1
                if neighbours is Neighbours.ADD_REMOVE:
                    yield x, less
                    continue
                for target in range(4):
                    y = less.copy()
                    y[target] += 1
                    yield x, y


def selection_law(
    x: np.ndarray, protection: Protection, expected: list[np.ndarray], pick: Any
) -> dict[Marginal, float]:
    """Return the exact law of the code that runs, by looking at what it hands to the sampler."""
    seen: dict[str, Any] = {}

    def look(scores: Any, *, spread: Fraction, source: Any) -> int:
        exponents = np.asarray(scores.value) * float(spread / (2 * scores.sensitivity))
        masses = np.exp(exponents - exponents.max())
        seen["law"] = masses / masses.sum()
        return 0

    counts = PrivateMarginals.from_cells(DOMAIN, x, protection=protection)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "choose", look)
        open_ones = pick(counts, expected)
        select_marginal(
            counts,
            [CANDIDATES[place] for place in open_ones],
            [expected[place] for place in open_ones],
            [0.3 * CANDIDATES[place].cells(DOMAIN) for place in open_ones],
            price=PRICE,
            source=None,  # type: ignore[arg-type]  # no draw is made
        )
    return dict(zip([CANDIDATES[place] for place in open_ones], seen["law"].tolist(), strict=True))


def largest_range(protection: Protection, pick: Any) -> float:
    """Return the largest range of the privacy loss over all pairs: max log ratio minus min log ratio."""
    rng = np.random.default_rng(0)
    fits = [rng.dirichlet(np.ones(4)) for _ in range(4)]
    worst = 0.0
    for weights in fits:
        space = DenseSpace(DOMAIN)
        expected = [3 * mass for mass in space.marginals(weights, CANDIDATES)]
        for x, y in pairs(protection.neighbours):
            one, other = (selection_law(z, protection, expected, pick) for z in (x, y))
            if set(one) != set(other):
                return inf
            losses = [log(one[key] / other[key]) for key in one]
            worst = max(worst, max(losses) - min(losses))
    return worst


def everything(counts: Any, expected: Any) -> list[int]:
    return list(range(len(CANDIDATES)))


@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.REPLACE])
def test_every_selection_keeps_its_range(neighbours: Neighbours) -> None:
    found = largest_range(Protection(neighbours=neighbours), everything)
    assert 0.3 * 2 < found <= 2 + 1e-9


@pytest.mark.planted("a mask from the private score")
def test_a_mask_from_the_private_score_is_found_out() -> None:
    def peeking(counts: Any, expected: Any) -> list[int]:
        pairs = zip(CANDIDATES, expected, strict=True)
        errors = [selection.distances(counts.exact(m.columns).ravel(), e.ravel(), [0])[0] for m, e in pairs]
        return [place for place, error in enumerate(errors) if error > 2.0 * SCORE_STEPS] or [0]

    assert largest_range(Protection(), peeking) == inf


@pytest.mark.planted("too small a sensitivity of a marginal")
def test_too_small_a_sensitivity_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Protection, "sensitivity", lambda self, norm: Fraction(1, 2))
    assert largest_range(Protection(neighbours=Neighbours.REPLACE), everything) > 2.5


@pytest.mark.planted("sensitivity of adding for replaced negative queries")
def test_negative_queries_under_replacement_with_sensitivity_one_are_found_out() -> None:
    domain = Domain(("a",), (2,))
    plan = MWEMPlan(
        domain=domain,
        workload=linear_queries(np.array([[1.0, -1.0]]), lower=-1),
        price=Budget.of(epsilon=2),
        protection=Protection(neighbours=Neighbours.REPLACE),
        rows=4,
        rounds=1,
    )
    queries = QuerySpace(plan.blocks, DenseSpace(domain))

    def sampler(cells: list[int], seed: int) -> Any:
        counts = PrivateMarginals.from_cells(domain, np.array(cells), protection=plan.protection)
        seeds = iter(range(seed, 10**9, 10))

        def run(count: int) -> list[float]:
            with Source(SeededEntropy(next(seeds)), declared="exact") as source:
                return [mwem._measure(counts, queries, 0, plan, source).value for _ in range(count)]

        return run

    def attacked() -> Any:
        return audit(sampler([3, 1], 1), sampler([2, 2], 2), draws=4000)

    claim = PureDP(1, neighbours=Neighbours.REPLACE)  # half of epsilon is for the answer
    assert plan.query_sensitivity == 2
    assert not attacked().refutes(claim)
    plan.__dict__["query_sensitivity"] = Fraction(1)  # the planted bug: right for counting queries only
    assert attacked().refutes(claim)


CELLS = np.array([40, 10, 25, 25])


@pytest.mark.parametrize(("price", "kind"), [(Budget.of(epsilon=1), "epsilon"), (Budget.of(rho="0.5"), "rho")])
def test_measurements_keep_their_claims_and_weak_noise_does_not(price: Budget, kind: str) -> None:
    protection = Protection(neighbours=Neighbours.REPLACE)
    whole = Marginal(("a", "b"))
    swapped = CELLS + np.array([1, -1, 0, 0])

    def sampler(cells: np.ndarray, paid: Budget, seed: int) -> Any:
        counts = PrivateMarginals.from_cells(DOMAIN, cells, protection=protection)

        seeds = iter(range(seed, 10**9, 10))

        def run(count: int) -> list[float]:
            with Source(SeededEntropy(next(seeds)), declared="exact") as source:
                found = [measure(counts, whole, price=paid, source=source).values.ravel() for _ in range(count)]
            return [float(v[0] - v[1]) for v in found]

        return run

    claims = price.on(protection.bounded(np.zeros(4, np.int64), price.norm)).claims
    honest = audit(sampler(CELLS, price, 1), sampler(swapped, price, 2), draws=1600)
    assert not honest.refutes(claims)
    cheating = Budget(price.kind, price.amount * (4 if kind == "epsilon" else 16))  # a quarter of the noise
    planted = audit(sampler(CELLS, cheating, 1), sampler(swapped, cheating, 2), draws=1600)
    assert planted.refutes(claims)


@pytest.mark.parametrize("price", [Budget.of(epsilon="0.1"), Budget.of(rho="0.005")])
def test_the_law_of_a_measured_marginal(price: Budget) -> None:
    domain = Domain(("a",), (20_000,))
    counts = PrivateMarginals.from_cells(domain, np.full(20_000, 7), protection=Protection())
    with Source(SeededEntropy(3), declared="exact") as source:
        found = measure(counts, Marginal(("a",)), price=price, source=source)
    noise = np.sort(found.values - 7)

    def gap(scale: float) -> float:
        if price.kind == "rho":
            law = ndtr((noise + 0.5) / scale)
        else:
            tail = np.exp(-1 / scale) ** np.floor(np.abs(noise) + (noise >= 0)) / (1 + np.exp(-1 / scale))
            law = np.where(noise >= 0, 1 - tail, tail)
        empirical = np.searchsorted(noise, noise, "right") / len(noise)
        return float(np.abs(empirical - law).max())

    limit = 2.9 / np.sqrt(len(noise))  # Kolmogorov: 2 exp(-2 · 2.9²) = 1e-7
    assert gap(found.scale) < limit
    assert gap(found.scale * 1.3) > limit
    assert gap(found.scale / 1.3) > limit
    assert found.scale == pytest.approx(10)
