"""The amplified guarantee: reference values, the identity of the mixture, and whom it does not protect from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import sidelight as sl
from sidelight.errors import ClaimError, RangeError
from sidelight.experts import DelayRule, amplified, central_guarantee, gaussian_trade_off, worst_over
from sidelight.guarantees import Claims, Event, Neighbours
from sidelight.guarantees.curves import gaussian_floats
from sidelight.ledger import open_ledger
from sidelight.published.amplification import _SLACK, Amplified

UNION, PAPER = (DelayRule(actions=25, noise_scale=5.0, bound=bound) for bound in ("union", "paper"))


@pytest.mark.parametrize(("rule", "first", "second"), [(UNION, 2.1251e-2, 2.7006e-3), (PAPER, 2.8187e-2, 3.6253e-3)])
def test_reference_deltas(rule, first, second):
    assert amplified(rule, mu=1.0, time=10_000).delta([1.0, 2.0]) == pytest.approx([first, second], rel=0.01)


@pytest.mark.parametrize(
    ("rule", "time", "gains"),
    [
        (PAPER, 1000, (1.89, 2.24, 2.32)),
        (UNION, 1000, (2.37, 2.90, 3.03)),
        (PAPER, 10_000, (4.50, 5.77, 6.08)),
        (UNION, 10_000, (5.97, 7.75, 8.18)),
    ],
)
def test_reference_gains(rule, time, gains):
    epsilon = np.array([1.0, 2.0, 4.0])
    found = gaussian_floats(1.0, epsilon) / amplified(rule, mu=1.0, time=time).delta(epsilon)
    assert found == pytest.approx(gains, abs=0.01)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6), st.floats(0.1, 3), st.floats(0, 6))
def test_profile_and_trade_off_say_the_same(weights, mu, epsilon):
    w = np.array(weights) / sum(weights)
    mixture = Amplified(mu=mu, sizes=np.arange(1.0, 1 + w.size) ** 2, weights=w)
    alpha, beta = mixture.trade_off(epsilon)
    assert float(mixture.delta(epsilon)) - _SLACK == pytest.approx(float(1 - np.exp(epsilon) * alpha - beta), abs=1e-12)


def test_early_reports_get_nothing():
    first = amplified(UNION, mu=1.0, time=1)
    epsilon = np.linspace(0, 6, 20)
    assert first.delta(epsilon) == pytest.approx(gaussian_floats(1.0, epsilon), abs=2e-12)
    alpha = np.linspace(0.01, 0.99, 9)
    a, b = first.trade_off(np.linspace(-9, 9, 20001))
    assert np.interp(alpha, a[::-1], b[::-1]) == pytest.approx(gaussian_trade_off(1.0, alpha), abs=1e-5)
    late = float(amplified(UNION, mu=1.0, time=1000).delta(1.0))
    assert worst_over(UNION, mu=1.0, times=(1, 1000), epsilon=1.0) > late


def test_epsilon_inverts_delta_and_averaging_starts_lower():
    guarantee = amplified(UNION, mu=1.0, time=10_000)
    epsilon = guarantee.epsilon(1e-6)
    assert float(guarantee.delta(epsilon)) <= 1e-6 < float(guarantee.delta(epsilon - 1e-6))
    averaged = amplified(UNION, mu=1.0, time=10_000, reports_per_round=4)
    assert averaged.mu == 0.5
    with pytest.raises(RangeError):
        guarantee.epsilon(1e-13)


def test_the_claim_is_for_observers_and_no_ledger_charges_it():
    claim = amplified(UNION, mu=1.0, time=10_000, neighbours=Neighbours.LOCAL_MOVE).claim(1.0)
    assert (claim.audience, claim.numerics, claim.unit) == ("observers_only", "idealized", Event())
    with open_ledger("sqlite://", testing=True) as ledger:
        scope = ledger.open_scope("x", budget=sl.GDP(3, unit=Event(), neighbours=Neighbours.LOCAL_MOVE))
        with pytest.raises(ClaimError, match="observers"):
            scope.reserve(Claims.of(claim), request={"kind": "test"})


def test_without_arguments_the_central_guarantee_is_mu():
    assert central_guarantee(1.0) == sl.GDP(1, neighbours=Neighbours.LOCAL, unit=Event())


def test_clipping_of_reports_is_paid_for():
    plain, clipped = (amplified(UNION, mu=1.0, time=1000, clip_failure=f) for f in (0.0, 1e-6))
    assert float(clipped.delta(1.0) - plain.delta(1.0)) == pytest.approx((1 + np.e) * 1e-6)


@pytest.mark.parametrize("s", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("b", [2, 5])
def test_a_sum_of_rounded_gaussians_is_nearly_a_rounding_of_the_gaussian_sum(s, b):
    """Theorem 9: total variation at most ((2M+1)(b+1) 2.1 + 4) exp(-π² s²/2), M = b/2 + π s² √b; not 0."""
    k = np.arange(-200, 201)
    one = norm.cdf((k + 0.5) / s) - norm.cdf((k - 0.5) / s)
    total = one
    for _ in range(b - 1):
        total = np.convolve(total, one)[200:-200]
    # round(N + b - 1 uniforms) has at k the density of N(0, b s²) + b uniforms: by its characteristic function
    step = 2 * np.pi / 2000
    w = np.arange(-int(30 / s / step), int(30 / s / step) + 1) * step
    ideal = (np.exp(-b * s**2 * w**2 / 2) * np.sinc(w / 2 / np.pi) ** b * np.cos(np.outer(k, w))).sum(axis=1) * step
    ideal /= 2 * np.pi
    distance = np.abs(total - ideal).sum() / 2
    reach = b / 2 + np.pi * s**2 * np.sqrt(b)
    assert distance <= ((2 * reach + 1) * (b + 1) * 2.1 + 4) * np.exp(-(np.pi**2) * s**2 / 2)
    assert ideal.sum() == pytest.approx(1, abs=1e-9)
