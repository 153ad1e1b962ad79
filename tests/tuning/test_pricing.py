"""The price of a selection: reference numbers, exact laws of small selections below it, planted bugs above it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection_laws import (
    Pgf,
    both_ways,
    largest_loss,
    randomised_response,
    renyi,
    rounded_gaussian_masses,
    selected,
)

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Claims,
    HingedGaussianCurve,
    Profile,
    PureDP,
    exact,
)
from sidelight.tuning import (
    Poisson,
    Runs,
    TruncatedNegativeBinomial,
    geometric,
    logarithmic,
    ratio_bound,
    renyi_curve,
    selection_claims,
    selection_epsilon,
)

LAWS: list[tuple[Runs, Pgf]] = [
    (geometric(15), Pgf("geometric", eta=1, gamma=1 / 15)),
    (geometric(2), Pgf("geometric 2", eta=1, gamma=1 / 2)),
    (TruncatedNegativeBinomial(0, gamma="1/30"), Pgf("logarithmic", eta=0, gamma=1 / 30)),
    (TruncatedNegativeBinomial("1/2", gamma="1/16"), Pgf("half", eta=0.5, gamma=1 / 16)),
    (TruncatedNegativeBinomial("-1/2", gamma="1/10"), Pgf("minus half", eta=-0.5, gamma=1 / 10)),
    (TruncatedNegativeBinomial(3, gamma="1/4"), Pgf("three", eta=3, gamma=1 / 4)),
    (Poisson(10), Pgf("poisson", mean=10)),
    (Poisson("0.5"), Pgf("poisson half", mean=0.5)),
]
IDS = [pgf.name for _, pgf in LAWS]
#: The orders of the specification's reference numbers.
ORDERS = [Fraction(k, 10) for k in range(11, 110)] + [Fraction(k) for k in (*range(11, 64), 128, 256, 512, 1024)]


# --- reference numbers ----------------------------------------------------------------------------------------------


def test_the_profile_theorem_on_a_gaussian_base() -> None:
    base = Claims.of(GDP("0.3"))
    thirty = geometric(30)
    assert float(selection_epsilon(base, thirty, delta="1e-6")) == pytest.approx(2.280743, rel=1e-6)
    assert float(ratio_bound(base, thirty)) / 2 == pytest.approx(0.390144, rel=2e-6)
    assert float(selection_epsilon(base, geometric(15), delta="1e-6")) == pytest.approx(2.089592, rel=1e-6)
    logarithm = TruncatedNegativeBinomial(0, gamma="1/30")
    assert float(selection_epsilon(base, logarithm, delta="1e-6")) == pytest.approx(1.816564, rel=1e-6)


@pytest.mark.parametrize(
    ("runs", "published"),
    [
        (logarithmic(10), 0.693839),
        (TruncatedNegativeBinomial("1/2", gamma="0.0625"), 0.775738),
        (geometric(10), 0.849245),
        (Poisson(10), 0.897764),
        (Poisson("15.4"), 1.146607),
    ],
    ids=str,
)
def test_no_more_than_papernot_and_steinke_on_a_renyi_base(runs: Runs, published: float) -> None:
    base = Claims.of(RDP({order: order / 200 for order in ORDERS}))
    delta = Fraction(1, 10**5)
    curve = renyi_curve(base, runs)
    assert curve is not None
    assert float(curve.epsilon(delta)) < published + 2e-6


def test_the_base_of_those_numbers() -> None:
    base = Claims.of(RDP({order: order / 200 for order in ORDERS}))
    found = base.approx_at("1e-5")
    assert found is not None
    assert float(found.epsilon) == pytest.approx(0.375291, abs=1e-6)


def test_the_corollary_for_approximate_runs() -> None:
    """(3ε*, δ*/γ) for the geometric law, if δ* <= γ(e^ε* - 1)/(1 - γ): ours is at most that."""
    epsilon, delta, gamma = Fraction(1, 2), Fraction(1, 10**8), Fraction(1, 15)
    ours = selection_epsilon(Claims.of(ApproxDP(epsilon, delta)), geometric(15), delta=delta / gamma)
    assert 2 * epsilon < ours <= 3 * epsilon


@pytest.mark.parametrize("runs", [runs for runs, _ in LAWS], ids=IDS)
def test_pure_runs_cost_at_most_the_published_multiple(runs: Runs) -> None:
    for epsilon in (Fraction(1, 100), Fraction(1), Fraction(5)):
        pure = selection_claims(Claims.of(PureDP(epsilon)), runs).pure()
        assert pure is not None
        if isinstance(runs, TruncatedNegativeBinomial):
            assert epsilon < pure.epsilon < (2 + runs.eta) * epsilon
        else:
            assert float(pure.epsilon) == pytest.approx(float(epsilon) + float(runs.rate) * np.tanh(float(epsilon) / 2))


# --- the exact law of small selections ------------------------------------------------------------------------------


@pytest.mark.parametrize(("runs", "pgf"), LAWS, ids=IDS)
def test_all_neighbours_of_randomised_response_stay_within_the_pure_price(runs: Runs, pgf: Pgf) -> None:
    worst = {}
    for epsilon in (0.2, 1.0, 3.0):
        pure = selection_claims(Claims.of(PureDP(exact(epsilon, name="epsilon"))), runs).pure()
        assert pure is not None
        losses = []
        for outcomes in (2, 3, 5):
            laws = [selected(list(randomised_response(epsilon, outcomes, place)), pgf) for place in range(outcomes)]
            losses += [largest_loss(p, q) for p, q in itertools.permutations(laws, 2)]
        assert max(losses) <= float(pure.epsilon) + 1e-9
        worst[epsilon] = max(losses) / float(pure.epsilon)
    assert max(worst.values()) > 0.4  # the bound is not empty


@given(
    data=st.data(),
    law=st.sampled_from(LAWS),
    outcomes=st.integers(2, 6),
)
@settings(max_examples=15, deadline=None)
def test_any_finite_mechanism_stays_within_its_claims(
    data: st.DataObject, law: tuple[Runs, Pgf], outcomes: int
) -> None:
    """Pure mechanisms at random: pure price, (ε, δ) at several δ, and Rényi divergences, both directions."""
    runs, pgf = law
    weights = st.lists(st.floats(0.05, 1), min_size=outcomes, max_size=outcomes)
    p = np.array(data.draw(weights))
    q = np.array(data.draw(weights))
    p, q = p / p.sum(), q / q.sum()
    epsilon = Fraction(float(np.abs(np.log(p / q)).max()) * (1 + 1e-9) + 1e-9).limit_denominator(10**9) + Fraction(
        1, 10**8
    )
    first, second = selected(list(p), pgf), selected(list(q), pgf)
    claims = selection_claims(Claims.of(PureDP(epsilon)), runs, delta="0.01")
    pure = claims.pure()
    assert pure is not None
    assert largest_loss(first, second) <= float(pure.epsilon) + 1e-9
    for item in claims.items:
        assert both_ways(first, second, float(item.epsilon)) <= float(item.delta) + 1e-12
    curve = renyi_curve(Claims.of(PureDP(epsilon)), runs)
    assert curve is not None
    for order, bound in curve.points[::7]:
        assert max(renyi(first, second, float(order)), renyi(second, first, float(order))) <= float(bound) + 1e-9


GAUSSIAN_LAWS = [(geometric(30), Pgf("", eta=1, gamma=1 / 30)), *LAWS]


@pytest.mark.parametrize(("runs", "pgf"), GAUSSIAN_LAWS, ids=["geometric 30", *IDS])
def test_the_best_of_rounded_gaussians_stays_below_delta(runs: Runs, pgf: Pgf) -> None:
    """Base μ = 0.3, score = the noisy value, against the exact law: δ at the claimed ε, and Rényi divergences."""
    base = Claims.of(GDP("0.3"))
    p = rounded_gaussian_masses(40.0, 1 / 0.3, 81)
    q = rounded_gaussian_masses(41.0, 1 / 0.3, 81)
    first, second = selected(p, pgf), selected(q, pgf)
    for delta in ("1e-6", "1e-3"):
        epsilon = selection_epsilon(base, runs, delta=delta)
        found = both_ways(first, second, float(epsilon))
        assert 0 < found <= float(Fraction(delta))
    claims = selection_claims(base, runs, delta="1e-6")
    profile = next(c for c in claims if isinstance(c, Profile))
    for x in (0.0, 0.25, 0.5, 1.0, 2.0, 3.0):
        assert both_ways(first, second, x) <= float(profile.delta(Fraction(x)))
    curve = next(c.curve for c in claims if isinstance(c, RDP))
    rho = claims.zcdp()
    assert rho is not None
    for order, bound in curve.points[::5]:
        exactly = max(renyi(first, second, float(order)), renyi(second, first, float(order)))
        assert exactly <= float(bound)
        assert exactly <= float(rho.rho * order)


def test_the_published_poisson_theorem_fails_below_a_mean_of_one() -> None:
    """log(mean)/(α-1) is negative there, and a divergence never is; ours counts the chance of no run."""
    base = Claims.of(RDP({2: "0.001", 8: "0.004"}))
    ours = renyi_curve(base, Poisson("0.5"))
    assert ours is not None
    printed = 0.001 + 0.5 * 0.001 + float(mp.log(mp.mpf("0.5")))
    assert printed < 0 < ours.points[0][1]


# --- planted bugs ---------------------------------------------------------------------------------------------------


@pytest.mark.planted("a search sold at the price of one run")
def test_reporting_the_cost_of_one_run_is_refuted() -> None:
    p, q = (randomised_response(1.0, 3, place) for place in (0, 2))
    first, second = (selected(list(law), Pgf("", eta=1, gamma=1 / 15)) for law in (p, q))
    assert largest_loss(first, second) > 1.5  # the cost of one run is 1
    gaussians = [selected(rounded_gaussian_masses(c, 1 / 0.3, 81), Pgf("", eta=1, gamma=1 / 15)) for c in (40.0, 41.0)]
    one_run = Claims.of(GDP("0.3")).approx_at("1e-6")
    assert one_run is not None
    assert both_ways(*gaussians, float(one_run.epsilon)) > 1e-6


@pytest.mark.planted("a fixed number of runs at the price of a random one")
def test_a_fixed_number_of_runs_breaks_the_price_of_a_random_one() -> None:
    pure = selection_claims(Claims.of(PureDP(1)), geometric(15)).pure()
    assert pure is not None
    p, q = (randomised_response(1.0, 2, place) for place in (0, 1))
    first, second = (selected(list(law), Pgf("", fixed=15)) for law in (p, q))
    assert largest_loss(first, second) > 4 * float(pure.epsilon)


@pytest.mark.planted("the number of runs revealed")
def test_revealing_the_number_of_runs_breaks_the_price() -> None:
    """Given K = 40, which the law allows, the loss is that of 40 runs."""
    pure = selection_claims(Claims.of(PureDP(1)), geometric(15)).pure()
    assert pure is not None
    p, q = (randomised_response(1.0, 2, place) for place in (0, 1))
    shown = [selected(list(law), Pgf("", fixed=40)) for law in (p, q)]
    assert largest_loss(shown[0], shown[1]) > float(pure.epsilon)


@pytest.mark.planted("a number of runs that is cut off")
def test_a_cut_off_number_of_runs_breaks_the_price() -> None:
    """K = min(K, 10) has another generating function: nearly x^10, and nearly the loss of ten runs."""
    gamma = mp.mpf("1e-6")

    def cut(x: mp.mpf) -> mp.mpf:
        early = sum((gamma * (1 - gamma) ** (k - 1) * x**k for k in range(1, 10)), mp.mpf(0))
        return early + (1 - gamma) ** 9 * x**10

    pure = selection_claims(Claims.of(PureDP(1)), TruncatedNegativeBinomial(1, gamma="1e-6")).pure()
    assert pure is not None
    low, high = (mp.mpf(randomised_response(1.0, 2, place)[0]) for place in (1, 0))
    assert float(mp.log(cut(high) / cut(low))) > 3 * float(pure.epsilon)


# --- refusals and shapes --------------------------------------------------------------------------------------------


def test_a_delta_that_the_runs_exceed_is_refused() -> None:
    with pytest.raises(ClaimError, match="smaller"):
        selection_claims(Claims.of(ApproxDP(1, "1e-6")), geometric(15), delta="1e-6")
    with pytest.raises(RangeError, match="delta"):
        selection_claims(Claims.of(GDP("0.3")), geometric(15))


def test_a_profile_in_two_directions_is_priced_by_the_larger() -> None:
    remove, add = HingedGaussianCurve(Fraction(1, 4), Fraction(1, 20)), HingedGaussianCurve(Fraction(1, 4))
    both = selection_epsilon(Claims.of(Profile(remove, add)), geometric(15), delta="1e-6")
    better = selection_epsilon(Claims.of(Profile(add, add)), geometric(15), delta="1e-6")
    worse = selection_epsilon(Claims.of(Profile(remove, remove)), geometric(15), delta="1e-6")
    assert better < both == worse


def test_more_claims_never_cost_more() -> None:
    runs = geometric(15)
    alone = selection_epsilon(Claims.of(ZCDP("0.045")), runs, delta="1e-6")
    more = selection_epsilon(Claims.of(ZCDP("0.045"), GDP("0.3")), runs, delta="1e-6")
    assert more < alone


def test_the_context_is_kept() -> None:
    claims = selection_claims(Claims.of(PureDP(1, numerics="idealized")), geometric(15), delta="1e-6")
    assert claims.numerics == "idealized"


def test_the_table_of_the_explanation_page() -> None:
    base = Claims.of(GDP("0.3"))
    single = base.approx_at("1e-6")
    assert single is not None
    assert round(float(single.epsilon), 3) == 1.292
    for runs, shown in [(logarithmic(10), 1.849), (geometric(15), 2.090), (Poisson(10), 2.472)]:
        assert round(float(selection_epsilon(base, runs, delta="1e-6")), 3) == shown


@pytest.mark.parametrize(
    ("runs", "name", "multiples"),
    [
        (logarithmic(10), "logarithmic", (1.95, 1.94, 1.47, 1.37)),
        (geometric(15), "geometric", (2.75, 2.72, 1.68, 1.52)),
        (Poisson(10), "Poisson", (6.00, 5.62, 1.97, 1.83)),
    ],
)
def test_the_multiples_of_the_explanation_page(runs: Runs, name: str, multiples: tuple[float, ...]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "tuning.md").read_text()
    (row,) = (line for line in page.split("\n") if f"best of a {name} number" in line)
    assert row.split(" | ")[2:] == [f"{each:.2f}" for each in multiples[:-1]] + [f"{multiples[-1]:.2f} |"]
    for base, shown in zip((PureDP("0.1"), PureDP(1), GDP("0.1"), GDP(1)), multiples, strict=True):
        one = Claims.of(base)
        if isinstance(base, PureDP):
            found = selection_claims(one, runs).pure()
            assert found is not None
            multiple = float(found.epsilon / base.epsilon)
        else:
            single = one.approx_at("1e-6")
            assert single is not None
            multiple = float(selection_epsilon(one, runs, delta="1e-6") / single.epsilon)
        assert round(multiple, 2) == shown


@pytest.mark.parametrize(("runs", "pgf"), LAWS, ids=IDS)
def test_runs_that_reveal_with_probability_delta_stay_below_it_and_nearly_reach_it(runs: Runs, pgf: Pgf) -> None:
    """Reveal with probability δ*, else randomised response, in every order of scores: E[K] δ* is nearly attained."""
    epsilon, delta = 1.0, 1e-4
    base = Claims.of(ApproxDP(1, "1e-4"))
    allowed = Fraction(runs.mean().upper) * Fraction(1, 10**4) * (1 + Fraction(1, 10**9))
    claimed = float(selection_epsilon(base, runs, delta=allowed))
    truth = np.exp(epsilon) / (1 + np.exp(epsilon))
    p = np.array([delta, 0, (1 - delta) * truth, (1 - delta) * (1 - truth)])
    q = np.array([0, delta, (1 - delta) * (1 - truth), (1 - delta) * truth])
    found = [
        both_ways(selected(list(p[list(order)]), pgf), selected(list(q[list(order)]), pgf), claimed)
        for order in itertools.permutations(range(4))
    ]
    assert 0.99 * float(allowed) < max(found) <= float(allowed)


# --- the exact integral ---------------------------------------------------------------------------------------------


def selected_log_density(x: mp.mpf, centre: mp.mpf, pgf: Pgf) -> mp.mpf:
    """log φ(x - c)·f'(Φ(x - c)), by 1 - Φ where that has the digits: 1 - (1-γ)z = γ + (1-γ)(1-z)."""
    y = x - centre
    beyond = mp.ncdf(-y)
    normal = -y * y / 2 - mp.log(2 * mp.pi) / 2
    if pgf.mean is not None:
        return normal + mp.log(pgf.mean) - pgf.mean * beyond
    assert pgf.eta is not None
    assert pgf.gamma is not None
    g = mp.mpf(pgf.gamma)
    rest = mp.log(g + (1 - g) * beyond)
    if pgf.eta == 0:
        return normal + mp.log((1 - g) / -mp.log(g)) - rest
    return normal + mp.log(pgf.eta * (1 - g) / (g ** (-pgf.eta) - 1)) - (pgf.eta + 1) * rest


def gaussian_selection_divergence(order: Fraction, pgf: Pgf, *, mu: str, away: bool) -> mp.mpf:
    """D_α between the best of N(0, 1) scores and the best of N(μ, 1) scores, by the trapezoidal rule in 30 digits.

    The integrand is analytic and falls like a Gaussian, so that the rule's error falls exponentially in 1/step; logs
    are added, never densities subtracted: nothing cancels, which floats do at orders above about 100.
    """
    with mp.workdps(30):
        a = mp.mpf(order.numerator) / order.denominator
        first, second = (mp.mpf(mu), mp.mpf(0)) if away else (mp.mpf(0), mp.mpf(mu))
        middle = a * first + (1 - a) * second
        step = mp.mpf(1) / 5
        low, high = int((min(middle, 0) - 13) / step), int((max(middle, 0) + 13) / step)
        total = mp.exp(-mp.mpf(pgf.mean)) if pgf.mean is not None else mp.mpf(0)
        for k in range(low, high):
            x = k * step
            both = a * selected_log_density(x, first, pgf) + (1 - a) * selected_log_density(x, second, pgf)
            total += step * mp.exp(both)
        return mp.log(total) / (a - 1)


def check_exact_integrals(runs: Runs, pgf: Pgf, orders: tuple[Fraction, ...]) -> float:
    curve = renyi_curve(Claims.of(GDP("0.3")), runs)
    assert curve is not None
    price, closest = dict(curve.points), 0.0
    for order in orders:
        for away in (False, True):
            exactly = gaussian_selection_divergence(order, pgf, mu="0.3", away=away)
            share = float(exactly / (mp.mpf(price[order].numerator) / price[order].denominator))
            assert 0 < share < 1
            closest = max(closest, share)
    return closest


@pytest.mark.parametrize(("runs", "pgf"), [GAUSSIAN_LAWS[0], LAWS[2], LAWS[-1]], ids=["geometric", "log", "poisson"])
def test_the_exact_integral_at_mu_three_tenths_is_below_the_renyi_price(runs: Runs, pgf: Pgf) -> None:
    check_exact_integrals(runs, pgf, (Fraction(4), Fraction(32)))


@pytest.mark.slow
def test_exact_integrals_of_all_laws_are_below_the_renyi_price(record_property: Any) -> None:
    """In floats a ratio of up to 1.11 was left unresolved at μ = 0.3: it was cancellation. In 30 digits it is 0.995."""
    orders = (Fraction(5, 4), Fraction(2), Fraction(4), Fraction(32), Fraction(256))
    shares = [check_exact_integrals(runs, pgf, orders) for runs, pgf in GAUSSIAN_LAWS]
    assert max(shares) == pytest.approx(0.99466, abs=1e-4)
    said = (
        f"Renyi price of selections: exact integrals of {len(shares)} laws at 5 orders, both ways; largest share 0.995"
    )
    record_property("audit", said)
