"""The smooth sensitivity of votes is smooth: over all neighbours, also where every teacher agrees, and from scratch.

The second half shares no formula with the package: the cost of a vote is written down again from Papernot et al. (2018)
in 60 digits, and the least smooth bound of all, Nissim, Raskhodnikova and Smith's, is searched for over the votes
themselves, where quantiles, cells and windows do not exist. Whatever is smooth and above the local sensitivity is above
that one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from benchmarks.baselines.smooth_votes import SmoothBound, SmoothVotes

from sidelight.audit import audit
from sidelight.noise import Source
from sidelight.stability.pate.proposals import FINE, VoteCost, quantiles_of
from sidelight.testing import SeededEntropy

BETA = 1 / 125
Votes = tuple[int, ...]


def bound_for(noise_scale: float, order: float, classes: int) -> SmoothBound:
    cost = VoteCost(noise_scale=noise_scale, order=order, classes=classes)
    return SmoothBound(cost=cost, smoothness=BETA, sensitivity_scale=15, sum_scale=15, failure=5e-6)


def log_sensitivity(bound: SmoothBound, votes: Any) -> float:
    return math.log(bound.sensitivity(quantiles_of(votes, bound.cost, tie_margin=1 / FINE)))


def worst_move(bound: SmoothBound, teachers: int, first: list[int]) -> float:
    """Return the largest |ln S - ln S'| / beta for a teacher who leaves the first class for the second."""
    others = [0] * (bound.cost.classes - 2)

    def logs(most: int) -> float:
        return log_sensitivity(bound, [[most, teachers - most, *others]])

    return max(abs(logs(most) - logs(most - 1)) for most in first) / BETA


@pytest.mark.parametrize("noise_scale", [0.25, 1, 3, 20])
@pytest.mark.parametrize(("teachers", "classes", "order"), [(5, 2, 25), (293, 2, 25), (293, 4, 3), (2000, 2, 8)])
def test_one_teacher_moves_it_by_beta_at_most(noise_scale: float, teachers: int, classes: int, order: float) -> None:
    """Unanimous, even and hopeless votes, and some between; the last ones lie far beyond the table of the changes."""
    spread = np.linspace(1, teachers, 25).astype(int).tolist()
    close = range(max(1, teachers // 2 - 2), teachers // 2 + 3)
    first = sorted({1, 2, *close, *spread, teachers - 1, teachers})
    assert worst_move(bound_for(noise_scale, order, classes), teachers, first) <= 1 + 1e-9


def test_the_votes_of_the_attack_have_nearly_one_sensitivity() -> None:
    """293 to 0 against 292 to 1 with noise 3: the logarithm moved by 692 beta."""
    assert worst_move(bound_for(3, 25, 2), 293, [293]) <= 1 + 1e-9


def test_quantiles_beyond_all_floats_are_the_end_of_the_table() -> None:
    bound = bound_for(3, 25, 2)
    end = bound.sensitivity(np.array([35.0]))
    assert bound.sensitivity(np.array([np.inf])) == bound.sensitivity(np.array([1e300])) == end


def draws(votes: list[list[int]], proposal: SmoothVotes, name: str) -> Any:
    def draw(times: int) -> list[str]:
        with Source(SeededEntropy(name), declared="idealized") as source:
            passed = [proposal.clear(np.array(votes), 3.0, source) for _ in range(times)]
        return ["released" if each else "refused" for each in passed]

    return draw


def cut_off(self: SmoothBound, quantiles: np.ndarray) -> float:
    """The planted bug: windows of quantiles beyond the table, which end before they reach it."""
    table, step = self._table, self.cost.step
    reaches = np.arange(math.ceil(table.size * table.width / step) + 2, dtype=np.float64)
    low, high = table.window(quantiles, reaches[:, None] * step)
    sums = table.maximum(low, high).sum(axis=1)
    least = 1e-9 * self.cost.order / self.cost.noise_scale**2
    return max(least, float((np.exp(-self.smoothness * reaches) * sums).max()))


@pytest.mark.slow
@pytest.mark.parametrize("bug", [False, True])
def test_the_attack_on_unanimous_votes(bug: bool, monkeypatch: pytest.MonkeyPatch, record_property: Any) -> None:
    """One teacher in 293 decided whether labels came out: 300 of 300 against 0 of 300 at a claim of (0.502, 1e-5)."""
    if bug:
        monkeypatch.setattr(SmoothBound, "sensitivity", cut_off)
    proposal = SmoothVotes(budget="0.02", delta="1e-5")
    assert float(proposal.price.epsilon) == pytest.approx(0.502, abs=1e-3)
    here, there = (draws(votes, proposal, f"smooth {votes}") for votes in ([[293, 0]], [[292, 1]]))
    if bug:
        passed = here(300).count("released"), there(300).count("released")
        assert passed == (300, 0)
    else:
        found = audit(here, there, draws=300)
        assert not found.refutes(proposal.price)
        record_property("audit", "smooth sensitivity: 300 releases each of 293:0 and 292:1 votes; claim not refuted")


# from scratch --------------------------------------------------------------------------------------------------------


@cache
def cost_from_scratch(votes: Votes, sigma: int, order: int) -> mpmath.mpf:
    """The Rényi cost of one vote, as Theorem 6 of Papernot et al. (2018) has it, with the tie margin of the grid."""
    with mpmath.workdps(60):
        winner = max(range(len(votes)), key=lambda j: (votes[j], -j))
        gaps = [votes[winner] - votes[j] - mpmath.mpf(1) / FINE for j in range(len(votes)) if j != winner]
        q = mpmath.fsum(mpmath.erfc(gap / (2 * sigma)) / 2 for gap in gaps)
        q = min(q, 1 - mpmath.mpf(1) / len(votes))
        plain = mpmath.mpf(order) / sigma**2
        m2 = sigma * mpmath.sqrt(-mpmath.log(q))
        m1 = m2 + 1
        e1, e2 = m1 / sigma**2, m2 / sigma**2
        if m2 <= 1 or m1 < order or q * mpmath.exp(e2) >= 1:
            return plain
        if q > mpmath.exp((m2 - 1) * e2) / (m1 / (m1 - 1) * m2 / (m2 - 1)) ** m2:
            return plain
        a = (1 - q) / (1 - (q * mpmath.exp(e2)) ** ((m2 - 1) / m2))
        b = mpmath.exp(e1) / q ** (1 / (m1 - 1))
        found = mpmath.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1)
        return min(plain, found)


def moved(votes: Votes) -> Iterator[Votes]:
    for source, target in itertools.permutations(range(len(votes)), 2):
        if votes[source]:
            after = list(votes)
            after[source] -= 1
            after[target] += 1
            yield tuple(after)


def least_smooth_bound(votes: Votes, everywhere: list[Votes], sigma: int, order: int) -> float:
    """S* = max over all votes of exp(-beta d) times what one teacher changes there; d teachers must move."""

    def local(at: Votes) -> mpmath.mpf:
        here = cost_from_scratch(at, sigma, order)
        return max(abs(here - cost_from_scratch(after, sigma, order)) for after in moved(at))

    def apart(at: Votes) -> int:
        return sum(abs(x - y) for x, y in zip(at, votes, strict=True)) // 2

    return float(max(math.exp(-BETA * apart(at)) * local(at) for at in everywhere))


def all_votes(teachers: int, classes: int) -> list[Votes]:
    ranges = itertools.product(range(teachers + 1), repeat=classes - 1)
    return [(*head, teachers - sum(head)) for head in ranges if sum(head) <= teachers]


@pytest.mark.parametrize(
    ("teachers", "classes", "sigma", "order"), [(120, 2, 1, 4), (120, 2, 3, 8), (60, 2, 10, 4), (12, 3, 1, 4)]
)
def test_it_is_above_the_least_smooth_bound_and_bounds_every_change(
    teachers: int, classes: int, sigma: int, order: int
) -> None:
    """Smoothness and upper bounds for all votes of a few teachers and all neighbours."""
    bound, everywhere = bound_for(sigma, order, classes), all_votes(teachers, classes)
    found = {votes: bound.sensitivity(quantiles_of([votes], bound.cost, tie_margin=1 / FINE)) for votes in everywhere}
    for votes in everywhere:
        here = cost_from_scratch(votes, sigma, order)
        code = float(bound.cost.at(quantiles_of([votes], bound.cost, tie_margin=1 / FINE))[0])
        assert code >= float(here) * (1 - 1e-9) - 1e-50  # it stops falling at the end of the table
        for after in moved(votes):
            assert abs(math.log(found[votes] / found[after])) <= BETA * (1 + 1e-9)
            change = abs(float(here - cost_from_scratch(after, sigma, order)))
            assert change <= min(found[votes], found[after]) * (1 + 1e-9)
    for votes in everywhere[:: max(1, len(everywhere) // 12)]:
        assert found[votes] >= least_smooth_bound(votes, everywhere, sigma, order) * (1 - 1e-9)


def test_two_queries_of_which_one_teacher_moves_both() -> None:
    """The sum over queries: d teachers move both votes d times; all pairs of votes of 14 teachers, noise 1."""
    teachers, sigma, order = 14, 1, 4
    bound = bound_for(sigma, order, 2)
    costs = [cost_from_scratch((most, teachers - most), sigma, order) for most in range(teachers + 1)]

    def within(most: int) -> range:
        return range(max(0, most - 1), min(teachers, most + 1) + 1)

    pairs = list(itertools.product(range(teachers + 1), repeat=2))
    local = {
        (x, y): max(abs(costs[x] + costs[y] - costs[s] - costs[t]) for s in within(x) for t in within(y))
        for x, y in pairs
    }
    found = {
        (x, y): bound.sensitivity(quantiles_of([[x, teachers - x], [y, teachers - y]], bound.cost, tie_margin=1 / FINE))
        for x, y in pairs
    }
    for x, y in pairs:
        least = max(math.exp(-BETA * max(abs(x - s), abs(y - t))) * float(local[s, t]) for s, t in pairs)
        assert found[x, y] >= least * (1 - 1e-9)
        for s, t in itertools.product(within(x), within(y)):
            assert abs(math.log(found[x, y] / found[s, t])) <= BETA * (1 + 1e-9)
