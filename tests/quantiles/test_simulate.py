"""The float simulator: its law (R1, R2), its agreement with the exact sampler, and the bounds on what it shows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from benchmarks.baselines.quantile_simulation import (
    node_cells,
    nonprivate_quality,
    simulate_quantile,
    simulate_quantiles,
)
from scipy.stats import chisquare, ks_2samp, kstest, laplace

from ranks_of_codes import ranks_of_codes
from sidelight.errors import RangeError
from sidelight.grid import Grid
from sidelight.noise import Source
from sidelight.predictions import Cauchy, Gaussian, HalfCauchy, Histogram, Laplace, Mixture, Uniform
from sidelight.quantiles.bounds import gap_bounds_tree
from sidelight.quantiles.descend import descend
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.tree import balanced_branching, even_levels, quantile_tree
from sidelight.testing import SeededEntropy

DATA = (1, 2, 4, 7, 11)
TRIALS = 6000

FLOOR_HALF = [
    (
        Uniform(0, 16),
        ".0498402568972201 .0821726916836055 .270959729298888 .246518075050816 .19936102758888 .15114821948059",
    ),
    (
        Cauchy(5, 3),
        ".144995818750651 .052714100572808 .283980608536433 .337969097371902 .116975736106423 .0633646386617828",
    ),
    (
        HalfCauchy(5),
        ".0894723555725816 .136839895449716 .362526421105644 .206111527934297 .0877619324601513 .11728786747761",
    ),
    (
        Laplace(5, 2),
        ".0402606624287148 .0430612165629997 .310039506120398 .503026489746255 .0946287570862317 .00898336805540102",
    ),
    (
        Gaussian(5, 3),
        ".0555403872752947 .0677097828900513 .34889686121533 .379555810363325 .139894874982066 .00840228327393264",
    ),
    (
        Mixture([0.9, 0.1], [Laplace(5, 2), Cauchy(5, 3)]),
        ".0492064508420194 .0438857024468465 .307813726427536 .488928372551546 .0965374891014558 .0136282586305962",
    ),
    (
        Histogram([0, 4, 8, 12, 16], [0.1, 0.4, 0.3, 0.2]),
        ".021034131536463 .034679420074871 .11435339506597 .416153040898452 .273443709974019 .140336302450226",
    ),
]
EXACT_HALF = [
    (
        Uniform(0, 16),
        ".0176876291558901 .0480799609229785 .261389768179907 .39208465226986 .192319843691914 .0884381457794505",
    ),
    (
        Cauchy(5, 3),
        ".0493021724729029 .0295518463304736 .262478505978257 .515026164420019 .108118707848257 .0355226029500904",
    ),
    (
        Laplace(5, 2),
        ".0115675657165213 .0203983291554252 .242143367282917 .647729441942707 .0739058262909217 .0042554696115078",
    ),
]
EXACT_THREE_TENTHS = [
    (
        Uniform(0, 16),
        ".0562937261390789 .234898738494526 .469797476989053 .168881178417237 .053963399257599 .0161654807025062",
    ),
    (
        Cauchy(5, 3),
        ".152089327558084 .139940528385582 .457254673603216 .215017105867996 .0294048087749573 .00629355581016523",
    ),
    (
        Gaussian(5, 3),
        ".0540792240345395 .166857762842528 .521488597239688 .224155784646102 .0326439469790135 .000774684258128928",
    ),
]
CASES = [
    *((prior, law, 0.5, 1, "floor") for prior, law in FLOOR_HALF),
    *((prior, law, 0.5, 1, "exact") for prior, law in EXACT_HALF),
    *((prior, law, 0.3, 2, "exact") for prior, law in EXACT_THREE_TENTHS),
]


def numbers(text):
    return [float(word) for word in text.split()]


@pytest.mark.parametrize(("prior", "law", "level", "epsilon", "score"), CASES, ids=lambda c: type(c).__name__)
def test_reference_interval_probabilities(prior, law, level, epsilon, score):
    """R1."""
    (pick,) = quantile_tree(level, epsilon=epsilon).picks
    found = node_cells(np.array(DATA, dtype=float), prior, pick, score=score).probabilities()
    assert found == pytest.approx(numbers(law), rel=1e-12)


@pytest.mark.parametrize(
    ("adaptation", "score", "law"),
    [  # three intervals, then the point masses at the lower and the upper end
        ("edge", "exact", ".0792780410493691 .525625502369111 .0940260490052609 .186204966109269 .11486544146699"),
        ("edge", "floor", ".0999493092874739 .401935230056027 .118542770844371 .234756781350452 .144815908461676"),
        ("conditional", "exact", ".113427792883185 .752043564998231 .134528642118584"),
        ("conditional", "floor", ".161097533339092 .647836133993387 .191066332667521"),
    ],
)
def test_reference_adapted_probabilities(adaptation, score, law):
    """R2: Cauchy(5, 3) on [2.5, 10), records 4 and 7; records outside the range are not seen."""
    (pick,) = quantile_tree(0.5, epsilon=1).picks
    data = np.array([1.0, 2.0, 4.0, 7.0, 10.0, 30.0])
    edges = np.concatenate(([-np.inf], data, [np.inf]))
    prior = Cauchy(5, 3)
    options = {"low": 2.5, "high": 10.0, "adaptation": adaptation, "score": score}
    found = node_cells(data, prior, pick, **options)
    again = node_cells(data, prior, pick, **options, log_masses=prior.log_mass(edges[:-1], edges[1:]))
    assert found.probabilities() == pytest.approx(numbers(law), rel=1e-12)
    assert again.probabilities() == pytest.approx(numbers(law), rel=1e-12)


def p_value(drawn, law):
    counts = np.bincount(np.searchsorted(DATA, drawn), minlength=len(law))
    return chisquare(counts, np.array(law) / np.sum(law) * len(drawn)).pvalue


@pytest.mark.parametrize("method", ["inverse", "gumbel"])
def test_draws_follow_the_law(method):
    """And 30 % more budget than the law says is seen."""
    law = numbers(EXACT_THREE_TENTHS[1][1])
    rng = np.random.default_rng(41)
    options = {"prior": Cauchy(5, 3), "rng": rng, "trials": TRIALS, "method": method}
    assert p_value(simulate_quantile(DATA, 0.3, epsilon=2, **options), law) > 1e-8
    assert p_value(simulate_quantile(DATA, 0.3, epsilon="2.6", **options), law) < 1e-8


def test_the_draw_inside_an_interval_follows_the_prior():
    """Without data the output is a draw of the prior itself."""
    rng = np.random.default_rng(6)
    drawn = simulate_quantile([], 0.5, epsilon=1, prior=Laplace(5, 2), rng=rng, trials=TRIALS)
    assert kstest(drawn, laplace(5, 2).cdf).pvalue > 1e-8
    assert kstest(drawn, laplace(5, 2.6).cdf).pvalue < 1e-8


@pytest.mark.parametrize(("count", "wide"), [(9, False), (9, True)])
def test_simulator_and_exact_sampler_agree(count, wide):
    """Same data, same tree: the outputs of both, level by level, are one distribution."""
    trials = 400
    rng = np.random.default_rng(3)
    values = rng.standard_normal(300)
    branching = balanced_branching(count) if wide else 2
    tree = quantile_tree(even_levels(count), epsilon=1, branching=branching, budget_power="1.5" if wide else 0)
    simulated = simulate_quantiles(values, tree, priors=Cauchy(0, 1), rng=rng, trials=trials)
    grid = Grid(resolution=Fraction(1, 2**20), dither_bits=0)
    prior = Cauchy(0, 1).compile(grid)
    with Source(SeededEntropy(12)) as source:
        ranks = ranks_of_codes(np.sort(np.floor(values * 2**20).astype(np.int64)), grid, None)
        released = [descend(tree, ranks, priors=prior, source=source) for _ in range(trials)]
    exact = np.array([[grid.value(index) for index in outputs] for outputs in released])
    for level in range(count):
        assert ks_2samp(simulated[:, level], exact[:, level]).pvalue > 1e-8
    quieter = quantile_tree(even_levels(count), epsilon="0.2", branching=branching)
    other = simulate_quantiles(values, quieter, priors=Cauchy(0, 1), rng=rng, trials=trials)
    assert min(ks_2samp(other[:, level], exact[:, level]).pvalue for level in range(count)) < 1e-8


@pytest.mark.parametrize(
    ("wide", "adaptation", "score"),
    [(False, "conditional", "exact"), (False, "conditional", "floor"), (True, "edge", "exact")],
)
def test_errors_respect_the_tree_bound(wide, adaptation, score):
    """With psi from a flat prior on equally spaced data, the bound at beta = 0.2 fails in at most 20 % of trials."""
    n, trials, beta = 400, 200, 0.2
    values = np.arange(n) + 0.5
    levels = even_levels(7)
    branching = balanced_branching(7) if wide else 2
    tree = quantile_tree(levels, epsilon=1, branching=branching)
    # Restricted priors only grow, and the best interval of a node may be cut to a short one: a tenth of the width.
    bounds = np.array(gap_bounds_tree(tree, beta=beta, psi=0.1 / n, adaptation=adaptation, score=score))
    drawn = simulate_quantiles(
        values,
        tree,
        priors=Uniform(0, n),
        rng=np.random.default_rng(4),
        trials=trials,
        adaptation=adaptation,
        score=score,
    )
    gaps = np.array([nonprivate_gap(values, levels, outputs) for outputs in drawn])
    assert np.mean(np.any(gaps > bounds, axis=1)) <= beta
    assert np.any(gaps > bounds / 20)  # the bound is not vacuous


def test_single_bound_holds_and_is_not_loose():
    """gap <= best + (2 Delta / epsilon) log(1 / (beta psi)), psi measured on the very data."""
    values, beta = np.arange(200) + 0.5, 0.1
    psi = nonprivate_quality(values, 0.3, Uniform(0, 200))[0]
    (bound,) = gap_bounds_tree(quantile_tree(0.3, epsilon=1), beta=beta, psi=psi)
    drawn = simulate_quantile(values, 0.3, epsilon=1, prior=Uniform(0, 200), rng=np.random.default_rng(2), trials=3000)
    gaps = np.abs(np.searchsorted(values, drawn) - 60)
    assert np.mean(gaps > bound) <= beta
    assert np.mean(gaps > bound / 20) > beta


def test_a_prior_without_mass_in_the_range_still_draws():
    """All data far outside a bounded prior: outputs stay sorted and finite."""
    tree = quantile_tree(even_levels(3), epsilon=50)
    for adaptation in ("conditional", "edge"):
        drawn = simulate_quantiles(
            np.arange(100.0, 200.0),
            tree,
            priors=Uniform(0, 1),
            rng=np.random.default_rng(1),
            trials=20,
            adaptation=adaptation,
        )
        assert np.all(np.isfinite(drawn))
        assert np.all(np.diff(drawn, axis=1) >= 0)


def test_one_prior_for_each_level():
    tree = quantile_tree(even_levels(3), epsilon=1)
    with pytest.raises(RangeError, match="3 levels"):
        simulate_quantiles(DATA, tree, priors=[Uniform(0, 16)], rng=np.random.default_rng(1))
