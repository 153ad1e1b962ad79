"""Means and variances from noisy integer sums: identities of the integers, values within bounds, first-order noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.summaries.moments import from_count_and_sums, from_pair, from_triple

LEVELS = 64


class Span:
    """An interval of values, as t = -1..1 stands for it."""

    lower, upper, width, centre, half = -10.0, 30.0, 40.0, 10.0, 20.0


SPAN = Span()


def mean_of(moments, span):
    return span.centre + span.half * moments.means


def sum_of(moments, span):
    return span.centre * moments.count + span.half * moments.sums


def sum_variance(moments, span):
    return span.centre**2 * moments.count_variance + span.half**2 * moments.total_variance


def mean_noise_variance(moments, span):
    return span.half**2 * moments.mean_noise_variance


def residuals(moments, span, prediction):
    r, v = moments.residuals((np.asarray(prediction) - span.centre) / span.half)
    return span.half * r, span.half**2 * v


def variance_of(moments, span, *, ddof=1):
    return span.half**2 * moments.variances(ddof=ddof)


def variance_noise(moments, span):
    return span.half**4 * moments.variance_noise


def deviation_of(moments, span, *, ddof=1):
    return np.sqrt(variance_of(moments, span, ddof=ddof))


def test_integer_identities():
    """R3 of the specification, for every code of every number of levels up to 64."""
    for m in range(1, 65):
        c = np.arange(m + 1)
        e = 2 * c - m
        assert (c + (m - c) == m).all()
        assert (c**2 + 2 * c * (m - c) + (m - c) ** 2 == m * m).all()
        assert ((e * m) ** 2 + (m * m - e * e) ** 2 <= m**4).all()
        assert (c**2 - (m - c) ** 2 == e * m).all()
        assert (c**2 + (m - c) ** 2 - 2 * c * (m - c) == e * e).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, LEVELS), min_size=2, max_size=50))
def test_without_noise_everything_is_right(codes):
    c = np.array(codes)
    x = SPAN.lower + SPAN.width * c / LEVELS
    e = 2 * c - LEVELS
    m = LEVELS
    readings = [
        from_triple((c**2).sum(), (2 * c * (m - c)).sum(), ((m - c) ** 2).sum(), levels=m * m, variance=1.0),
        from_count_and_sums(
            c.size,
            m * e.sum(),
            (m * m - e * e).sum(),
            levels=m * m,
            count_variance=1.0,
            total_variance=1.0,
            rest_variance=1.0,
        ),
    ]
    for moments in readings:
        assert moments.count[0] == pytest.approx(c.size)
        assert mean_of(moments, SPAN)[0] == pytest.approx(x.mean())
        assert sum_of(moments, SPAN)[0] == pytest.approx(x.sum(), abs=1e-9)
        assert variance_of(moments, SPAN)[0] == pytest.approx(x.var(ddof=1), abs=1e-9)
        assert variance_of(moments, SPAN, ddof=0)[0] == pytest.approx(x.var(), abs=1e-9)
        assert deviation_of(moments, SPAN, ddof=0)[0] == pytest.approx(x.std(), abs=1e-6)
    pair = from_pair(c.sum(), (m - c).sum(), levels=m, variance=1.0)
    assert mean_of(pair, SPAN)[0] == pytest.approx(x.mean())
    r, _ = residuals(pair, SPAN, 4.0)
    assert r[0] == pytest.approx((x - 4.0).sum(), abs=1e-9)
    with pytest.raises(RangeError, match="triple"):
        variance_of(pair, SPAN)


@settings(max_examples=200, deadline=None)
@given(*[st.integers(-(10**9), 10**9)] * 3)
def test_any_noise_gives_values_within_the_bounds(a, b, d):
    for moments in (
        from_triple(a, b, d, levels=LEVELS, variance=10.0),
        from_count_and_sums(a, b, d, levels=LEVELS, count_variance=1.0, total_variance=2.0, rest_variance=3.0),
    ):
        assert SPAN.lower <= mean_of(moments, SPAN)[0] <= SPAN.upper
        assert 0 <= variance_of(moments, SPAN, ddof=0)[0] <= (SPAN.width / 2) ** 2
        assert 0 <= variance_of(moments, SPAN)[0] <= 2 * (SPAN.width / 2) ** 2  # of two rows, at both bounds
        assert variance_noise(moments, SPAN)[0] > 0
        assert mean_noise_variance(moments, SPAN)[0] > 0
    assert SPAN.lower <= mean_of(from_pair(a, b, levels=LEVELS, variance=1.0), SPAN)[0] <= SPAN.upper


def simulated(kind, *, rows=20_000, runs=20_000, scale=500.0, seed=1):
    """Noisy readings of one data set: means, variances, sums, and the first of the readings."""
    rng = np.random.default_rng(seed)
    c = np.round(rng.beta(2, 5, rows) * LEVELS).astype(np.int64)
    e, m = 2 * c - LEVELS, LEVELS
    if kind == "pair":
        noise = np.round(rng.normal(size=(2, runs)) * scale)
        return from_pair(c.sum() + noise[0], (m - c).sum() + noise[1], levels=m, variance=scale**2)
    if kind == "triple":
        noise = np.round(rng.normal(size=(3, runs)) * scale * m)
        sums = ((c**2).sum(), (2 * c * (m - c)).sum(), ((m - c) ** 2).sum())
        parts = (s + z for s, z in zip(sums, noise, strict=True))
        return from_triple(*parts, levels=m * m, variance=(scale * m) ** 2)
    noise = np.round(rng.normal(size=(3, runs)) * scale)
    return from_count_and_sums(
        rows + noise[0] / 10, m * e.sum() + noise[1] * m, (m * m - e * e).sum() + noise[2] * m,
        levels=m * m, count_variance=(scale / 10) ** 2, total_variance=(scale * m) ** 2,
        rest_variance=(scale * m) ** 2,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["pair", "triple", "disc"])
def test_noise_levels_are_those_of_the_draws(kind):
    moments = simulated(kind)
    stated = math.sqrt(np.median(mean_noise_variance(moments, SPAN)))
    assert mean_of(moments, SPAN).std() == pytest.approx(stated, rel=0.04)
    assert sum_of(moments, SPAN).std() == pytest.approx(math.sqrt(sum_variance(moments, SPAN)), rel=0.04)
    r, v = residuals(moments, SPAN, 2.0)
    assert r.std() == pytest.approx(math.sqrt(v[0]), rel=0.04)
    assert moments.count.std() == pytest.approx(math.sqrt(moments.count_variance), rel=0.04)
    if kind != "pair":
        stated = math.sqrt(np.median(variance_noise(moments, SPAN)))
        assert variance_of(moments, SPAN).std() == pytest.approx(stated, rel=0.04)
        assert moments.squares.std() == pytest.approx(math.sqrt(moments.squares_variance), rel=0.04)


def test_the_pair_has_half_the_variance_of_the_usual_split():
    """sd (w/(nε))√(1+τ²) to first order, against ε/2 each on a centred sum and a count."""
    n, epsilon, u = 10_000, 1.0, 0.3
    variance = 2 * (LEVELS / epsilon) ** 2
    pair = from_pair(u * n * LEVELS, (1 - u) * n * LEVELS, levels=LEVELS, variance=variance)
    tau = 2 * u - 1
    sd = math.sqrt(mean_noise_variance(pair, SPAN)[0])
    assert sd == pytest.approx(SPAN.width / (n * epsilon) * math.sqrt(1 + tau**2), rel=1e-9)
    half = 2 * (2 / epsilon) ** 2
    split = from_count_and_sums(n, tau * n, 0.0, levels=1, count_variance=half, total_variance=half, rest_variance=0.0)
    assert sd / math.sqrt(mean_noise_variance(split, SPAN)[0]) == pytest.approx(math.sqrt(0.5), rel=1e-9)


def test_the_spread_costs_the_mean_at_most_an_eighth():
    for u in (0.5, 0.8, 1.0):
        n, tau = 1000, 2 * u - 1
        pair = from_pair(u * n, (1 - u) * n, levels=1, variance=2.0)
        triple = from_triple(u * n, 0.0, (1 - u) * n, levels=1, variance=2.0)
        ratio = math.sqrt(mean_noise_variance(triple, SPAN)[0] / mean_noise_variance(pair, SPAN)[0])
        assert ratio == pytest.approx(math.sqrt((2 + 3 * tau**2) / (2 + 2 * tau**2)), rel=1e-9)
        assert ratio <= 1.12


def test_predictions_out_of_range_are_taken_at_the_bound():
    pair = from_pair([64.0], [64.0], levels=LEVELS, variance=1.0)
    assert residuals(pair, SPAN, 1e9)[0][0] == residuals(pair, SPAN, SPAN.upper)[0][0]
    assert residuals(pair, SPAN, math.nan)[0][0] == residuals(pair, SPAN, SPAN.centre)[0][0]
