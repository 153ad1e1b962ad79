"""The tree on ranks: the half-open split, sorted outputs, degenerate data, and the law of the real sampler."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from exact_tree_law import SmallRanks, law_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from ranks_of_codes import ranks_of_codes
from scripted_source import SCRIPTED
from sidelight.errors import RangeError
from sidelight.grid import Grid
from sidelight.noise import Source
from sidelight.predictions import Cauchy, Gaussian, Uniform
from sidelight.quantiles import descend as descend_module
from sidelight.quantiles.descend import descend
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.tree import balanced_branching, even_levels, quantile_tree
from sidelight.testing import SeededEntropy

SMALL = Grid(resolution=Fraction(1), first=0, last=7, dither_bits=0)


def ranks_of(codes, grid=SMALL, source=None):
    return ranks_of_codes(np.sort(np.asarray(codes, dtype=np.int64)), grid, source)


@settings(max_examples=200)
@given(
    codes=st.lists(st.integers(0, 7), max_size=12),
    count=st.integers(1, 9),
    branching=st.integers(2, 5),
    choices=st.randoms(use_true_random=False),
)
def test_every_record_meets_exactly_one_path(codes, count, branching, choices):
    """Whatever is released, the records of a node are split over its gaps without overlap, and never its brothers'."""
    tree = quantile_tree(even_levels(count), epsilon=1, branching=branching)
    codes.sort()
    seen = []

    def scripted(view, target, epsilon, prior, first, last, source, *, score):
        seen.append((first, last, [view.order(k) for k in range(1, view.size + 1)]))
        assert [view.below(j) for j in range(9)] == [sum(c < j for c in seen[-1][2]) for j in range(9)]
        return choices.randint(first, last)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descend_module, "select_rank", scripted)
        outputs = descend(tree, SmallRanks(tuple(codes)), priors=Uniform(0, 8).compile(SMALL), source=SCRIPTED)
    assert list(outputs) == sorted(outputs)
    views = iter(seen)
    for node in tree.nodes():
        low = 0 if node.lower is None else outputs[node.lower]
        high = 7 if node.upper is None else outputs[node.upper]
        wanted = [c for c in codes if low <= c and (node.upper is None or c < high)]
        for pick in node.picks:
            assert next(views) == (low, high, wanted)
            assert low <= outputs[pick.position] <= high


def test_a_released_last_index_is_no_open_end():
    """Records at the last index belong to the node without an upper ancestor only, whatever was released."""
    tree = quantile_tree(even_levels(3), epsilon=1)
    views = []

    def scripted(view, target, epsilon, prior, first, last, source, *, score):
        views.append(view.size)
        return last

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descend_module, "select_rank", scripted)
        descend(tree, SmallRanks((2, 7, 7)), priors=Uniform(0, 8).compile(SMALL), source=SCRIPTED)
    assert views == [3, 1, 2]  # all; those below the released 7; those at it


@pytest.mark.parametrize("score", ["exact", "floor"])
@pytest.mark.parametrize("adaptation", ["conditional", "edge"])
@pytest.mark.parametrize("branching", [2, 4])
@pytest.mark.parametrize(
    "codes",
    [[], [3], [5] * 40, [0] * 20 + [7] * 20, list(range(8)) * 5],
    ids=["empty", "one", "equal", "ends", "spread"],
)
def test_outputs_are_sorted_and_inside_the_grid_on_any_data(codes, branching, adaptation, score):
    tree = quantile_tree(even_levels(9), epsilon=1, branching=branching)
    prior = Cauchy(4, 2).compile(SMALL)
    with Source(SeededEntropy(11)) as source:
        for _ in range(5):
            outputs = descend(tree, ranks_of(codes), priors=prior, source=source, adaptation=adaptation, score=score)
            assert list(outputs) == sorted(outputs)
            assert all(0 <= index <= 7 for index in outputs)


@pytest.mark.parametrize("epsilon", ["0.000001", 1, 1000])
def test_outputs_on_an_unbounded_dithered_grid(epsilon):
    """Tiny and huge budgets, records far outside the prior's bulk, heavy ties: always an answer, always sorted."""
    grid = Grid(resolution=Fraction(1, 10), dither_bits=20, snap="nearest")
    with Source(SeededEntropy(5)) as source:
        codes = [-(2**60)] * 3 + [250] * 500 + [251] * 300 + [2**60] * 2
        ranks = ranks_of(codes, grid, source)
        priors = [Cauchy(30, 1).compile(grid), Gaussian(25, 1).compile(grid), Uniform(20, 30).compile(grid)]
        outputs = descend(quantile_tree(even_levels(3), epsilon=epsilon), ranks, priors=priors, source=source)
    assert list(outputs) == sorted(outputs)
    assert all(grid.fine_first <= index <= grid.fine_last for index in outputs)
    if epsilon == 1000:
        assert [grid.value(index) for index in outputs] == [25.0, 25.0, 25.1]


def test_a_grid_of_one_outcome():
    grid = Grid(resolution=Fraction(1), first=4, last=4, dither_bits=0)
    with Source(SeededEntropy(5)) as source:
        prior, tree = Uniform(4, 5).compile(grid), quantile_tree(even_levels(3), epsilon=1)
        assert descend(tree, ranks_of([4, 4], grid), priors=prior, source=source) == (4, 4, 4)


def test_priors_are_checked_before_the_data_is_asked():
    tree = quantile_tree(even_levels(3), epsilon=1)
    prior, other = Uniform(0, 8).compile(SMALL), Uniform(0, 8).compile(Grid(resolution=Fraction(1), first=0, last=9))
    with pytest.raises(RangeError, match="each of the 3 levels"):
        descend(tree, None, priors=[prior, prior], source=SCRIPTED)
    with pytest.raises(RangeError, match="same grid"):
        descend(tree, None, priors=[prior, other, prior], source=SCRIPTED)


CODES = [1, 1, 2, 4, 4, 4, 6]


def drawn_counts(tree, prior, trials, *, adaptation):
    counts: dict[tuple[int, ...], int] = {}
    with Source(SeededEntropy(2026)) as source:
        for _ in range(trials):
            outputs = descend(tree, ranks_of(CODES), priors=prior, source=source, adaptation=adaptation)
            counts[outputs] = counts.get(outputs, 0) + 1
    return counts


def fit(counts, law, trials):
    """Return the p-value of a chi-square test, cells with fewer than 5 expected draws together."""
    assert counts.keys() <= law.keys()
    expected = {outputs: float(p) * trials for outputs, p in law.items()}
    common = [outputs for outputs, mean in expected.items() if mean >= 5]
    pairs = [(counts.get(outputs, 0), expected[outputs]) for outputs in common]
    pairs.append((trials - sum(seen for seen, _ in pairs), trials - sum(mean for _, mean in pairs)))
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in pairs if mean > 0)
    return float(chi2.sf(statistic, len(pairs) - 1))


@pytest.mark.parametrize(
    ("count", "branching", "adaptation"), [(3, 2, "conditional"), (3, 2, "edge"), (2, 3, "conditional")]
)
def test_the_joint_law_of_the_release(count, branching, adaptation, monkeypatch):
    """The real sampler down the tree has the brute-force law; the law of a budget 30 % larger must fail."""
    trials = 3000
    tree = quantile_tree(even_levels(count), epsilon=2, branching=branching)
    prior = Cauchy(3, 1).compile(SMALL)
    counts = drawn_counts(tree, prior, trials, adaptation=adaptation)
    right = law_of(tree, CODES, prior, monkeypatch, adaptation=adaptation)
    assert sum(right.values()) == pytest.approx(1)
    assert fit(counts, right, trials) > 1e-7
    louder = quantile_tree(even_levels(count), epsilon="2.6", branching=branching)
    wrong = law_of(louder, CODES, prior, monkeypatch, adaptation=adaptation)
    assert fit(counts, wrong, trials) < 1e-7


def mean_gap_of_ages(rows, *, dither_bits, trials=40):
    """The mean tie-aware gap of nine deciles of whole ages, rounded Gamma(6, 6.4), epsilon 1."""
    grid = Grid(resolution=Fraction(1), first=0, last=150, dither_bits=dither_bits, snap="nearest")
    prior, levels = Uniform(10, 120).compile(grid), even_levels(9)
    tree, rng, gaps = quantile_tree(levels, epsilon=1), np.random.default_rng(1), []
    with Source(SeededEntropy(4)) as source:
        for _ in range(trials):
            ages = np.rint(rng.gamma(6, 6.4, size=rows)).clip(0, 150)
            ranks = ranks_of(ages, grid, source)
            outputs = descend(tree, ranks, priors=prior, source=source)
            gaps.append(nonprivate_gap(ages, levels, [grid.value(index) for index in outputs]).mean())
    return np.mean(gaps)


def test_dithering_spreads_ties():
    """Section 2: 1.6 ranks with dither against 4.1 without at 1000 ages; at 10000 the undithered tree is far off."""
    assert 0.8 < mean_gap_of_ages(1000, dither_bits=20) < 2.6
    assert mean_gap_of_ages(1000, dither_bits=0) > 3
    assert mean_gap_of_ages(10_000, dither_bits=20) < 0.6
    assert mean_gap_of_ages(10_000, dither_bits=0) > 15


def test_a_wide_tree_of_many_levels():
    """99 levels in one release, K of the paper, on dithered data: sorted, and near where they belong."""
    grid = Grid(resolution=Fraction(1, 1000), first=-10_000, last=10_000)
    levels = even_levels(99)
    rng = np.random.default_rng(1)
    with Source(SeededEntropy(7)) as source:
        ranks = ranks_of(np.floor(rng.standard_normal(20_000) * 1000).astype(np.int64), grid, source)
        prior = Uniform(-10, 10).compile(grid)
        for branching in (2, balanced_branching(99)):
            tree = quantile_tree(levels, epsilon=10, branching=branching)
            outputs = descend(tree, ranks, priors=prior, source=source)
            assert list(outputs) == sorted(outputs)
            gaps = [abs(ranks.below(j) - q * 20_000) for j, q in zip(outputs, levels, strict=True)]
            assert max(gaps) < 200
