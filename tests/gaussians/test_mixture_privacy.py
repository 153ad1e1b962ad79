"""What a mixture fit costs: sensitivities, the law of the noise, claims, and an audit with a planted bug."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import sidelight as sl
from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.collect import collect
from sidelight.gaussians.mixture import search as counting
from sidelight.gaussians.mixture.partition import (
    Ball,
    NearestCentroid,
    Projection,
    RegionFrame,
    SplitTree,
    ball_tree,
    region_moments,
)
from sidelight.gaussians.mixture.search import check_statistics, count_checks, noisy_rows
from sidelight.guarantees import Neighbours
from sidelight.guarantees.claim_sets import claims_to_replace
from sidelight.guarantees.units import Row
from sidelight.noise import Source
from sidelight.published import recursive_mixture as recursive
from sidelight.published.recursive_mixture import NodeCandidates, ShellRow, ShellScores, TerrificBall
from sidelight.testing import SeededEntropy

COLUMNS = (sl.Number("x0"), sl.Number("x1"))
REGIONS = ball_tree([Ball(np.zeros(2), 6.0, np.arange(1)), Ball(np.array([20.0, 0.0]), 5.0, np.arange(1))])
CELLS = NearestCentroid(
    REGIONS,
    (
        Projection(np.zeros(2), np.eye(2), np.array([[-2.0, 0.0], [2.0, 0.0]])),
        Projection(np.array([20.0, 0.0]), np.eye(2), np.array([[0.0, 0.0]])),
    ),
)


def table_of(rows: np.ndarray) -> sl.Table:
    return sl.Table(rows, schema=COLUMNS)


def seeded(seed: int) -> Source:
    return Source(SeededEntropy(seed), declared="exact")


coordinates = st.floats(allow_nan=True, allow_infinity=True, width=32) | st.floats(-30, 30)
rows_strategy = st.lists(st.tuples(coordinates, coordinates), min_size=0, max_size=12)


@settings(max_examples=60, deadline=None)
@given(rows=rows_strategy, extra=st.tuples(coordinates, coordinates))
def test_a_row_moves_the_check_counts_by_at_most_root_two(rows: list[Any], extra: Any) -> None:
    statistics = check_statistics(table_of(np.zeros((1, 2))).schema, COLUMNS, CELLS)
    before = collect(table_of(np.array(rows, np.float64).reshape(-1, 2)), statistics)
    after = collect(table_of(np.array([*rows, extra], np.float64)), statistics)
    moved = np.asarray(after.value) - np.asarray(before.value)
    assert (moved >= 0).all()
    assert moved[:3].sum() + moved[-1] == 1  # in one cell, or dropped
    assert float(moved @ moved) <= float(before.sensitivity) ** 2
    assert float(before.sensitivity) == pytest.approx(np.sqrt(2))


def shell_scores(rows: np.ndarray, *, threshold: int = 7) -> tuple[Bounded, ...]:
    balls = (TerrificBall(np.zeros(2), 1.0, 4.0), TerrificBall(np.array([3.0, 0.0]), 0.5, 2.0))
    coding = ShellRow(
        columns=COLUMNS,
        tree=SplitTree(REGIONS.splits, REGIONS.leaves),
        nodes=(NodeCandidates(np.zeros(2), np.eye(2), balls), NodeCandidates(np.array([20.0, 0.0]), np.eye(2), ())),
    )
    scores = ShellScores(coding=coding, threshold=threshold, rows_per_unit=1, unit=Row())
    return collect(table_of(rows), scores)


@settings(max_examples=60, deadline=None)
@given(rows=rows_strategy, extra=st.tuples(coordinates, coordinates))
def test_a_row_moves_every_score_by_at_most_one(rows: list[Any], extra: Any) -> None:
    before, none = shell_scores(np.array(rows, np.float64).reshape(-1, 2))
    after, _ = shell_scores(np.array([*rows, extra], np.float64))
    assert np.abs(np.asarray(after.value) - np.asarray(before.value)).max() <= before.sensitivity == 10
    assert none.shape == (0,)


def test_scores_by_hand() -> None:
    # widened radii of (1, 4): 4^¼ = 1.414 and 2.828; five rows inside, one in the shell, three beyond
    rows = np.array([[0.1, 0], [0.2, 0], [1.4, 0], [-1.4, 0], [0, 1.41], [0, 2.0], [0, 2.9], [0, 5], [-5, 0]])
    scores, _ = shell_scores(rows, threshold=7)
    assert np.asarray(scores.value)[0] == min(10 * 5 - 7, 10 * 3 - 7, 3 - 10)


def check_z_scores(draws: int, *, factor: float = 1.0) -> np.ndarray:
    """Noise of the check counts in units of the deviation that the price says: 1/√ρ."""
    table, rho = table_of(np.zeros((5, 2))), Fraction(1, 100)
    found = []
    truth = np.zeros(7)
    cell = CELLS.label([np.zeros(1)] * 2)[0]
    truth[[cell, 3 + cell]] = 5  # in the middle between two centroids
    for seed in range(draws):
        with seeded(seed) as source:
            checks = count_checks(table, COLUMNS, CELLS, rho=rho * Fraction(1 / factor**2), source=source)
        found.append((np.concatenate([checks.rows, checks.ambiguous, [checks.dropped]]) - truth) / 10.0)
    return np.concatenate(found)


def test_the_noise_of_the_checks_has_variance_one_over_rho_and_30_percent_off_is_seen() -> None:
    assert stats.kstest(check_z_scores(500), "norm").pvalue > 1e-7
    assert stats.kstest(check_z_scores(500, factor=0.7), "norm").pvalue < 1e-7
    assert stats.kstest(check_z_scores(500, factor=1.3), "norm").pvalue < 1e-7


def test_the_stated_deviations() -> None:
    with seeded(1) as source:
        checks = count_checks(table_of(np.zeros((5, 2))), COLUMNS, CELLS, rho=Fraction(1, 20), source=source)
    assert checks.deviation == pytest.approx(1 / np.sqrt(0.05), rel=1e-6)
    rows = []
    for seed in range(200):
        with seeded(seed) as source:
            noisy = noisy_rows(table_of(np.zeros((50, 2))), COLUMNS, rho=Fraction(1, 200), source=source)
        rows.append((noisy - 50) / 10)
    assert stats.kstest(rows, "norm").pvalue > 1e-7


def test_the_exponential_mechanism_has_the_law_of_its_price() -> None:
    scores = Bounded(np.array([0, 10, 20]), Fraction(10), "linf", Neighbours.ADD_REMOVE, Row())
    rho = Fraction(1, 2)  # ε = 2: odds e^(score/1) for scores 0, 1, 2
    with seeded(3) as source:
        drawn = [recursive.choose(scores, rho=rho, source=source) for _ in range(4000)]
    law = np.exp([0.0, 1.0, 2.0])
    counts = np.bincount(drawn, minlength=3)
    assert stats.chisquare(counts, 4000 * law / law.sum()).pvalue > 1e-7
    off = np.exp(np.array([0.0, 1.0, 2.0]) * 1.3)
    assert stats.chisquare(counts, 4000 * off / off.sum()).pvalue < 1e-7


PUBLIC = np.concatenate([np.random.default_rng(0).normal(c, 1, (12, 2)) for c in (0.0, 12.0)])


@pytest.mark.parametrize("method", ["project-link-verify", "recursive", "public-cluster"])
def test_claims_are_the_price_for_adding_or_removing_and_four_times_for_replacing(method: Any) -> None:
    query = sl.SeparatedMixture(components=2, prediction=PUBLIC, rho="0.5", method=method)
    claims = query.prepare(sl.Schema(COLUMNS)).claims
    zcdp = claims.zcdp()
    assert zcdp is not None
    assert Fraction("0.499999999") < zcdp.rho <= Fraction(1, 2)
    assert claims.neighbours is Neighbours.ADD_REMOVE
    replaced = claims_to_replace(claims).zcdp()
    assert replaced is not None
    assert replaced.rho == 4 * zcdp.rho  # trap: a replaced row leaves one cell and enters another
    assert (claims.gdp() is not None and claims.gdp().mu ** 2 <= 1) or method == "recursive"  # type: ignore[union-attr]
    assert not any(isinstance(claim, sl.GDP) for claim in claims) or method != "recursive"


def test_the_phases_add_up_to_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """One share for every mechanism: nothing is spent twice or outside the shares."""
    from sidelight.gaussians.mixture import link_verify, prepared
    from sidelight.gaussians.mixture import prepared as components

    spent: dict[str, Fraction] = {}

    def spy(module: Any, name: str) -> None:
        original = getattr(module, name)

        def wrapped(*given: Any, **settings: Any) -> Any:
            spent[name] = spent.get(name, Fraction(0)) + settings["rho"]
            return original(*given, **settings)

        monkeypatch.setattr(module, name, wrapped)

    for module, names in (
        (link_verify, ("noisy_rows", "region_moments", "count_checks")),
        (recursive, ("noisy_rows", "region_moments", "choose")),
        (components, ("estimate_cells", "estimate_gaussian")),
    ):
        for name in names:
            spy(module, name)
    rows = np.concatenate([np.random.default_rng(1).normal(c, 1, (3000, 2)) for c in (0.0, 12.0)])
    for method, confirmations in (("project-link-verify", 0), ("public-cluster", 0), ("recursive", 1)):
        spent.clear()
        query = sl.SeparatedMixture(components=2, prediction=PUBLIC, rho=1, method=method)  # type: ignore[arg-type]
        ready = query.prepare(sl.Schema(COLUMNS))
        with seeded(5) as source:
            answer = ready.run(table_of(rows), source)
        assert isinstance(answer, prepared.Answer), method
        total = sum(spent.values(), Fraction(0))
        if method == "recursive":
            # one node was split at the first level; its confirmation is twice the selection
            total += 2 * spent["choose"] * confirmations
            assert total <= ready.setting.rho
        else:
            assert total == ready.setting.rho


FAR = np.array([[5.99, 0.0]])  # inside the ball, at its edge, and far from every other row: it weighs as much as can be


def moment_scores(rows: np.ndarray, rho: Fraction, draws: int, *, base: int) -> np.ndarray:
    """The best statistic for telling the neighbours apart: tr(MQ), Q the direction in which they differ."""
    direction = np.outer(FAR[0], FAR[0]) / float((FAR**2).sum())
    found, table = [], table_of(rows)
    frames = [RegionFrame(np.zeros(2), 6.0), RegionFrame(np.array([20.0, 0.0]), 5.0)]
    for seed in range(draws):
        with seeded(base + seed) as source:
            moment = region_moments(table, COLUMNS, REGIONS, frames, rho=rho, source=source)[0]
        found.append(float((moment * direction).sum()))
    return np.array(found)


def check_scores(rows: np.ndarray, rho: Fraction, draws: int, *, base: int) -> np.ndarray:
    """The row at the edge is in cell 1 and not ambiguous; one in the middle moves both counts."""
    found, table = [], table_of(rows)
    for seed in range(draws):
        with seeded(base + seed) as source:
            checks = count_checks(table, COLUMNS, CELLS, rho=rho, source=source)
        found.append(float(checks.rows[0] + checks.ambiguous[0]))
    return np.array(found)


def refutes(first: np.ndarray, second: np.ndarray, mu: float) -> bool:
    """Whether two samples are further apart than GDP(mu) allows: threshold test with slack for 5.5 deviations."""
    middle = np.median(np.concatenate([first, second]))
    advantage = float((second > middle).mean() - (first > middle).mean())
    limit = float(2 * stats.norm.cdf(mu / 2) - 1)
    return advantage > limit + 5.5 * np.sqrt(0.5 / len(first))


@pytest.mark.parametrize("scores", [moment_scores, check_scores])
def test_audit_of_directions_and_checks(scores: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attack on one outlier: it stays within the price, and true counts are found."""
    draws, rho = 400, Fraction(1, 2)
    base = np.zeros((0, 2))
    extra = FAR if scores is moment_scores else np.array([[-0.1, 0.0]])
    first = scores(base, rho, draws, base=0)
    second = scores(np.concatenate([base, extra]), rho, draws, base=10**6)
    assert not refutes(first, second, 1.0)
    assert refutes(first, second, 0.3)  # the audit has the power to see a claim that is too good
    if scores is check_scores:
        monkeypatch.setattr(
            counting.GaussianNoise, "release", lambda noise, _: np.asarray(noise.bounded.value)
        )  # true counts
        first = scores(base, rho, draws, base=0)
        second = scores(np.concatenate([base, extra]), rho, draws, base=10**6)
        assert refutes(first, second, 1.0)
    else:
        first = scores(base, 30 * rho, draws, base=0)  # a fifth of the noise
        second = scores(np.concatenate([base, extra]), 30 * rho, draws, base=10**6)
        assert refutes(first, second, 1.0)


@pytest.mark.planted("a true count in the checks of a mixture", of=("SeparatedMixture", "GaussianMixture"))
def test_a_true_count_in_the_checks_would_show_the_planted_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug, through the pipeline: with true counts a refusal's text reveals the outlier."""
    query = sl.SeparatedMixture(components=2, prediction=PUBLIC[:12], rho="0.5", method="project-link-verify")
    ready = query.prepare(sl.Schema(COLUMNS))
    rows = np.random.default_rng(2).uniform(-1, 1, (600, 2))  # nothing to certify

    def texts(data: np.ndarray, seeds: range) -> set[str]:
        found = set()
        for seed in seeds:
            with seeded(seed) as source:
                answer = ready.run(table_of(data), source)
            found.add(getattr(answer, "reason", ""))
        return found

    assert len(texts(rows, range(6))) == 6  # every number in it is noisy
    monkeypatch.setattr(counting.GaussianNoise, "release", lambda noise, _: noise.bounded.value)
    with_bug = {sum(_rows_of(text)) for text in texts(rows, range(6))}
    with_bug_and_row = {sum(_rows_of(text)) for text in texts(np.concatenate([rows, [[0.1, 0.1]]]), range(6))}
    assert not with_bug & with_bug_and_row


def _rows_of(text: str) -> list[int]:
    import re

    return [int(found) for found in re.findall(r"about (-?\d+) rows, ", text)]
