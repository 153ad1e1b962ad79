"""Profiles in closed form: the reference numbers, quadrature, the output noise, and JSON."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import Claims, EnvelopeCurve, HalfNormalCurve, HingedGaussianCurve, HingedGaussiansCurve
from sidelight.guarantees.encoding import curve_from_json
from sidelight.guarantees.envelope_curve import envelope_loss
from sidelight.mechanisms.objective_perturbation import LossShape, ObjectivePerturbation

ROOT_2 = Fraction("1.4142135623730950488016887242097")
TABLE = [
    ("1", "1", "20", "5", "0", 2.005934479e-1, 1.234815948e-1, 7.965567455e-2, 1.585194189e-1),
    ("1", "1", "20", "5", "0.25", 3.714500550e-2, 1.815760199e-2, 1.142542505e-2, 2.285085010e-2),
    ("1", "1", "20", "5", "1", 1.311889553e-7, 6.159441252e-8, 1.754633332e-8, 3.509266664e-8),
    ("1", "1", "5", "10", "0.1", 1.862897735e-1, 1.157505489e-1, 8.751768146e-3, 1.750353629e-2),
    ("1", "1", "5", "10", "0.5", 1.939846764e-4, 2.363486868e-5, 6.856582456e-9, 1.371316491e-8),
    ("1", "0.25", "2", "4", "1", 5.126778002e-5, 2.011242011e-5, 2.924272105e-6, 5.848544210e-6),
    (None, "0.5", "3", "4", "2", 4.295907262e-8, 1.401819079e-8, 1.220065664e-9, 2.440131328e-9),
]


def mechanism(gradient, curvature, lam, sigma, *, bound="tight", sign_definite=False, **more):
    shape = LossShape(gradient=Fraction(gradient), curvature=Fraction(curvature), sign_definite=sign_definite)
    return ObjectivePerturbation(
        shape=shape, noise_scale=Fraction(sigma), regularisation=Fraction(lam), bound=bound, **more
    )


@pytest.mark.parametrize("row", TABLE)
def test_reference_profiles(row):
    gradient, curvature, lam, sigma, epsilon, thesis, remove, add, add_general = row
    gradient = ROOT_2 if gradient is None else gradient
    signed = mechanism(gradient, curvature, lam, sigma, sign_definite=True).deltas(epsilon)
    general = mechanism(gradient, curvature, lam, sigma).deltas(epsilon)
    printed = mechanism(gradient, curvature, lam, sigma, bound="thesis").deltas(epsilon)
    assert [float(x) for x in signed] == pytest.approx([remove, add], rel=2e-9)
    assert [float(x) for x in general] == pytest.approx([remove, add_general], rel=2e-9)
    assert [float(x) for x in printed] == pytest.approx([thesis, thesis], rel=2e-9)


@pytest.mark.parametrize(
    ("lam", "sigma", "thesis", "ours", "gaussian", "kifer"),
    [("20", "5", 0.810872, 0.774312, 0.725522, 2.057964), ("5", "10", 0.581480, 0.522991, 0.340669, 1.008375)],
)
def test_reference_epsilons_of_figure_4_1(lam, sigma, thesis, ours, gaussian, kifer):
    from benchmarks.baselines.objective_perturbation import gaussian_epsilon, kifer_epsilon

    found = [
        Claims.of(mechanism(1, 1, lam, sigma, bound=bound, sign_definite=True).profile()).approx_at("1e-5").epsilon
        for bound in ("thesis", "tight")
    ]
    assert [float(x) for x in found] == pytest.approx([thesis, ours], abs=6e-7)
    assert float(gaussian_epsilon(noise_scale=sigma, delta="1e-5")) == pytest.approx(gaussian, abs=6e-7)
    older = kifer_epsilon(noise_scale=float(sigma), regularisation=float(lam), delta=1e-5, gradient=1, curvature=1)
    assert older == pytest.approx(kifer, abs=6e-7)


def test_our_bound_confirms_the_older_theorem_and_the_thesis_bound_does_not():
    from benchmarks.baselines.objective_perturbation import kifer_noise_scale, kifer_regularisation

    sigma, lam = kifer_noise_scale(1, "1e-5"), kifer_regularisation(1, curvature=1)
    assert float(max(mechanism(1, 1, lam, sigma).deltas(1))) == pytest.approx(2.2e-11, rel=0.05)
    assert float(max(mechanism(1, 1, lam, sigma, bound="thesis").deltas(1))) == pytest.approx(6.3e-5, rel=0.02)


def test_envelope_of_the_logistic_loss():
    curve = EnvelopeCurve(Fraction(1, 8), Fraction(2, 5))
    found = envelope_loss(curve, np.array([-40.0, -16.0, 0.0, 16.0, 32.0]) / 8)
    expected = [0.0, 0.0126345998, 0.0973061868, 0.2678926348, 0.5078125]
    assert found == pytest.approx(expected, abs=3e-8)
    assert (found >= np.array(expected) - 1e-10).all()


@pytest.mark.parametrize(
    ("lam", "epsilon", "expected"),
    [("0.5", "1", 1.0903e-5), ("0.2", "1", 6.0547e-3), ("1", "1", 2.924272e-6), ("1", "0.5", 3.87293e-3)],
)
def test_reference_removal_of_the_logistic_loss(lam, epsilon, expected):
    curve = EnvelopeCurve(Fraction(1, 4), 1 / Fraction(lam))
    found = float(curve.delta(Fraction(epsilon)))
    assert expected * (1 - 1e-5) <= found <= expected * (1 + 3e-4)


def brute_losses(curve, v):
    t = np.linspace(0.0, 1.0, 2001)
    bump = t * (1 - t) if curve.shape == "logistic" else 1 - t * t
    s = float(curve.mu)
    return np.max(np.log1p(float(curve.ratio) * bump) + s * s * t * t / 2 + s * np.multiply.outer(v, t), axis=1)


@pytest.mark.parametrize("shape", ["logistic", "log_cosh"])
@pytest.mark.parametrize("output", ["0", "0.02"])
def test_envelope_curve_is_above_quadrature_and_close(shape, output):
    curve = EnvelopeCurve(Fraction("0.4"), Fraction("0.8"), shape, Fraction(output))
    mu = float(curve.output_mu)
    grid = np.linspace(-8, 8, 2001)
    loss, weight = brute_losses(curve, grid), norm.pdf(grid)
    for x in (0.05, 0.3, 0.7, float(curve.threshold) * 0.98):
        y = x - loss
        if mu:
            inner = norm.cdf(mu / 2 - y / mu) - np.exp(y) * norm.cdf(-mu / 2 - y / mu)
        else:
            inner = np.maximum(0.0, -np.expm1(y))
        exact = float(np.trapezoid(inner * weight, grid))
        found = float(curve.delta(Fraction(x)))
        table = float(curve.floats(np.array([x]))[0])
        assert exact * (1 - 2e-3) - 1e-12 <= found <= exact * (1 + 8e-3) + 1e-12
        # both are upper bounds; the chord of the table may be the smaller one
        assert exact * (1 - 2e-3) <= table <= found * 1.02 + 1e-9


@pytest.mark.parametrize("curve", [
    HingedGaussiansCurve(Fraction("0.3"), Fraction("0.2"), 1, Fraction("0.05")),
    HingedGaussiansCurve(Fraction("0.3"), Fraction("0.2"), 4, Fraction("0.05")),
    HalfNormalCurve(Fraction("0.3"), Fraction("0.1"), Fraction("0.05")),
])  # fmt: skip
def test_output_noise_lemma_against_simulation_by_quadrature(curve):
    """The closed form with output noise lies above the exact law, integrated over both noises, and not far above."""
    s, c, mu = float(curve.mu), float(curve.shift), float(curve.output_mu)
    z = np.linspace(-9, 9, 4001)
    weight = norm.pdf(z) * (z[1] - z[0])
    count = getattr(curve, "count", 1)
    if isinstance(curve, HalfNormalCurve):
        loss, mass = c + s * s / 2 + np.abs(s * z), weight
    else:  # the largest of `count` independent ones: one admissible joint law
        law = np.diff(norm.cdf(np.append(z, 9.01)) ** count)
        loss, mass = c + np.maximum(0.0, s * s / 2 + s * z), law
    for x in (0.0, 0.1, 0.25, 0.5, 0.9):
        y = x - loss
        inner = norm.cdf(mu / 2 - y / mu) - np.exp(y) * norm.cdf(-mu / 2 - y / mu)
        exact = float(np.dot(mass, inner))
        found = float(curve.delta(Fraction(x)))
        assert exact * (1 - 0.02) <= found <= exact * (1.6 if count > 1 else 1.2) + 0.012
        assert float(curve.floats(np.array([x]))[0]) == pytest.approx(found, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    s=st.floats(0.01, 3), c=st.floats(0, 2), x=st.floats(0, 6), kind=st.sampled_from(["hinged", "half"])
)  # fmt: skip
def test_closed_forms_match_quadrature(s, c, x, kind):
    mu, shift = Fraction(s), Fraction(c)
    if kind == "hinged":
        curve, loss = HingedGaussianCurve(mu, shift), lambda z: c + max(0.0, s * s / 2 + s * z)
    else:
        curve, loss = HalfNormalCurve(mu, shift), lambda z: c + s * s / 2 + abs(s * z)
    points = sorted({0.0, -s / 2, *(p for p in ((x - c) / s - s / 2, -(x - c) / s + s / 2) if -30 < p < 30)})
    cuts = [-38.0, *points, 38.0]
    exact = sum(
        quad(lambda z: max(0.0, -math.expm1(x - loss(z))) * norm.pdf(z), a, b, epsabs=1e-15, epsrel=1e-12)[0]
        for a, b in itertools.pairwise(cuts)
        if b > a
    )
    found = float(curve.delta(Fraction(x)))
    assert found == pytest.approx(exact, rel=1e-8, abs=1e-13)
    assert float(curve.floats(np.array([x]))[0]) >= found * (1 - 1e-12)


CURVES = [
    HingedGaussiansCurve(Fraction("0.3"), Fraction("0.2"), 4, Fraction("0.05")),
    HalfNormalCurve(Fraction("0.3"), Fraction("0.1"), Fraction("0.05")),
    HalfNormalCurve(Fraction("0.3")),
    EnvelopeCurve(Fraction("0.3"), Fraction("0.6")),
    EnvelopeCurve(Fraction("0.3"), Fraction("0.6"), "log_cosh", Fraction("0.01")),
]


@pytest.mark.parametrize("curve", CURVES)
def test_curves_survive_json_and_fall(curve):
    assert curve_from_json(curve.to_json()) == curve
    x = np.linspace(0.0, 3.0, 301)
    values = curve.floats(x)
    assert (np.diff(values) <= 1e-9).all()
    assert ((values >= 0) & (values <= 1)).all()


@pytest.mark.parametrize("curve", CURVES)
def test_tails_fall_below_the_gaussian_from_where_they_say(curve):
    from sidelight.guarantees.curves import gaussian_floats

    for factor in (1.2, 1.5, 3.0):
        mu = float(curve.mu) * factor
        start = curve.gaussian_tail_from(mu)
        assert start is not None
        x = start + np.linspace(0.0, 4 * mu, 200)
        assert (curve.floats(x) <= gaussian_floats(mu, x) * (1 + 1e-9) + 1e-250).all()
    assert curve.gaussian_tail_from(float(curve.mu) * 0.9) is None


def test_unknown_envelope_and_bad_parameters_are_refused():
    with pytest.raises(ClaimError, match="envelope"):
        EnvelopeCurve(Fraction(1), Fraction(1), "cubic")
    with pytest.raises(RangeError, match="needs a regularisation above the curvature"):
        mechanism(1, 1, 1, 5, bound="thesis").deltas(1)
    softmax = ObjectivePerturbation(
        shape=LossShape(gradient=Fraction(1), curvature=Fraction(1), classes=3),
        noise_scale=Fraction(1),
        regularisation=Fraction(2),
        bound="thesis",
    )
    with pytest.raises(ClaimError, match="softmax"):
        softmax.deltas(1)
    with pytest.raises(RangeError, match="output noise"):
        mechanism(1, 1, 1, 5, tolerance=Fraction(1, 100))
    with pytest.raises(RangeError, match="positive"):
        mechanism(1, 1, 0, 5)
