"""Calibration: the reference numbers, and every answer proved again in higher precision."""

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.mechanisms.objective_calibration import calibrate_objective
from sidelight.mechanisms.objective_perturbation import LossShape

LOGISTIC = LossShape(gradient=Fraction(1), curvature=Fraction(1, 4), envelope="logistic", sign_definite=True)
LOG_COSH = LossShape(gradient=Fraction(1), curvature=Fraction(1), envelope="log_cosh")
SIGNED = LossShape(gradient=Fraction(1), curvature=Fraction(1, 4), sign_definite=True)
GENERAL = LossShape(gradient=Fraction(1), curvature=Fraction(1, 4))
SOFTMAX = LossShape(gradient=Fraction("1.41421356237309504881"), curvature=Fraction(1, 2), classes=10)

TABLE = [
    # eps, sigma_G, lambda_min, AMP sigma, lambda, sigma_out, 1.3 sigma_G, lambda, thesis lambda, log-cosh sigma, lambda
    ("0.1", 30.74956613, 9.94739809, 30.75826583, 10.32213430, 2.97984e-4, 39.974436, 9.873253, 12.505978, 32.486035,
     19.905691),
    ("1", 3.73063163, 0.96532019, 3.73160253, 0.99421920, 3.75330e-4, 4.849821, 0.880710, 1.293265, 3.884141, 1.935842),
    ("8", 0.60022907, 0.10652090, 0.60037290, 0.10869968, 5.52323e-4, 0.780298, 0.032923, 0.291529, 0.616514, 0.214696),
]  # fmt: skip


def pair(fit):
    return float(fit.noise_scale), float(fit.regularisation)


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_reference_calibration(row):
    epsilon, sigma, lam, amp_sigma, amp_lam, output, generic, generic_lam, thesis_lam, cosh_sigma, cosh_lam = row

    def fit(shape, **more):
        return calibrate_objective(shape, epsilon=epsilon, delta="1e-5", **more)

    assert pair(fit(LOGISTIC, output_share=0)) == pytest.approx((sigma, lam), rel=1e-8)
    full = fit(LOGISTIC)
    assert pair(full) == pytest.approx((amp_sigma, amp_lam), rel=1e-8, abs=6e-9)
    assert float(full.output_noise_scale) == pytest.approx(output, rel=2e-6)
    assert float(full.noise_scale) / sigma <= 1.0003
    assert pair(fit(SIGNED, output_share=0)) == pytest.approx((generic, generic_lam), rel=1e-6, abs=6e-7)
    thesis = fit(SIGNED, output_share=0, bound="thesis")
    assert pair(thesis) == pytest.approx((generic, thesis_lam), rel=1e-6, abs=6e-7)
    assert pair(fit(LOG_COSH, output_share=0)) == pytest.approx((cosh_sigma, cosh_lam), abs=6e-7, rel=1e-6)


@pytest.mark.parametrize(
    ("lam", "ours", "thesis"),
    [("0.5", 5.999663, 11.541407), ("1", 4.697073, 5.304500), ("2", 4.182071, 4.430046), ("5", 3.904564, 4.076269),
     ("20", 3.773345, 3.929471)],
)  # fmt: skip
def test_reference_noise_for_a_given_regularisation(lam, ours, thesis):
    common = {"epsilon": 1, "delta": "1e-5", "regularisation": lam, "output_share": 0}
    assert float(calibrate_objective(SIGNED, **common).noise_scale) == pytest.approx(ours, abs=6e-7)
    assert float(calibrate_objective(SIGNED, bound="thesis", **common).noise_scale) == pytest.approx(thesis, abs=6e-7)


def test_reference_noise_without_a_sign_and_for_ten_classes():
    common = {"epsilon": 1, "delta": "1e-5", "output_share": 0}
    general = calibrate_objective(GENERAL, regularisation=20, **common)
    assert float(general.noise_scale) == pytest.approx(3.884141, abs=6e-7)
    joint = calibrate_objective(SOFTMAX, **common)
    assert float(joint.regularisation) == pytest.approx(10)
    assert float(joint.noise_scale) == pytest.approx(6.48, abs=6e-3)


def high_precision_delta(mu, x):
    s, y = mpmath.mpf(mu.numerator) / mu.denominator, mpmath.mpf(x.numerator) / x.denominator
    return mpmath.ncdf(s / 2 - y / s) - mpmath.exp(y) * mpmath.ncdf(-s / 2 - y / s)


@settings(max_examples=12, deadline=None)
@given(
    epsilon=st.decimals("0.02", "12", places=2),
    exponent=st.integers(2, 12),
    kind=st.sampled_from(["logistic", "log_cosh", "signed", "general", "softmax"]),
)
def test_calibrated_points_are_proved_again_in_sixty_digits(epsilon, exponent, kind):
    """Independent of the library's decimals: mpmath, and the formulas written down a second time."""
    shape = {"logistic": LOGISTIC, "log_cosh": LOG_COSH, "signed": SIGNED, "general": GENERAL, "softmax": SOFTMAX}[kind]
    delta = Fraction(1, 10**exponent)
    fit = calibrate_objective(shape, epsilon=epsilon, delta=delta)
    at, output = Fraction(epsilon), fit.output_mu
    m, ratio = fit.mu**2 / 2, shape.curvature / fit.regularisation
    assert 0 < output <= fit.mu / 50
    with mpmath.workdps(60):
        whole = Fraction(
            str(mpmath.sqrt(mpmath.mpf((fit.mu**2 + output**2).numerator) / (fit.mu**2 + output**2).denominator))
        )
        whole *= 1 + Fraction(1, 10**50)
        if kind in ("logistic", "log_cosh"):
            edge = max(Fraction(0), 4 * ratio - m) if kind == "logistic" else max(ratio, 2 * ratio - m)
            assert edge < at
            remove = high_precision_delta(whole, at) + high_precision_delta(output, at - edge)
        else:
            classes = shape.classes or 2
            log = mpmath.log(1 + mpmath.mpf(ratio.numerator) / ratio.denominator)
            if shape.classes:
                per = 2 * ratio / classes
                log = (classes - 1) * mpmath.log(1 + mpmath.mpf(per.numerator) / per.denominator)
            rest = at - Fraction(str(log))
            assert rest > 0
            remove = (classes - 1) * high_precision_delta(whole, rest) + high_precision_delta(output, rest) / 2
        many = {"softmax": 9, "general": 2, "log_cosh": 2}.get(kind, 1)
        add = many * high_precision_delta(whole, at)
        if kind in ("logistic", "signed", "softmax"):
            add += high_precision_delta(output, at) / 2
        limit = mpmath.mpf(1) / 10**exponent
        assert remove <= limit
        if kind not in ("general", "log_cosh") or at >= m:
            assert add <= limit


def test_more_regularisation_is_free_and_less_costs_noise():
    common = {"epsilon": 1, "delta": "1e-5"}
    usual = calibrate_objective(LOGISTIC, **common)
    assert calibrate_objective(LOGISTIC, regularisation=5, **common).noise_scale == usual.noise_scale
    less = calibrate_objective(LOGISTIC, regularisation="0.5", **common)
    assert float(usual.noise_scale) * 1.05 < float(less.noise_scale) < 5.0
    assert max(less.deltas(1)) <= Fraction(1, 10**5)


def test_theta_norm_raises_the_regularisation():
    guess = calibrate_objective(LOGISTIC, epsilon=1, delta="1e-5", theta_norm=8, dimension=100)
    assert float(guess.regularisation) == pytest.approx(10 * float(guess.noise_scale) / 8, rel=1e-9)
    with pytest.raises(RangeError, match="dimension"):
        calibrate_objective(LOGISTIC, epsilon=1, delta="1e-5", theta_norm=8)


def test_parameters_that_do_not_reach_the_target_are_refused():
    with pytest.raises(RangeError, match="do not prove"):
        calibrate_objective(LOGISTIC, epsilon=1, delta="1e-5", noise_scale=3, regularisation=10)
    with pytest.raises(RangeError, match="meets the target"):
        calibrate_objective(SIGNED, epsilon=1, delta="1e-5", noise_scale=3)
    with pytest.raises(RangeError, match="delta"):
        calibrate_objective(LOGISTIC, epsilon=1, delta=1)
    with pytest.raises(RangeError, match="epsilon"):
        calibrate_objective(LOGISTIC, epsilon=0, delta="1e-5")


def test_claims_refuse_what_was_not_calibrated():
    fit = calibrate_objective(LOGISTIC, epsilon=1, delta="1e-5")
    assert fit.claims(epsilon=1, delta="1e-5").numerics == "idealized"
    with pytest.raises(RangeError, match="do not prove"):
        fit.claims(epsilon="0.9", delta="1e-5")


@pytest.mark.parametrize(("epsilon", "delta"), [("0.01", "0.3"), ("0.5", "0.9"), ("30", "1e-12"), ("1e-4", "1e-9")])
def test_unusual_targets_are_met(epsilon, delta):
    for shape in (LOGISTIC, LOG_COSH):
        fit = calibrate_objective(shape, epsilon=epsilon, delta=delta)
        assert max(fit.deltas(epsilon)) <= Fraction(delta)


def test_what_is_kept_is_kept_for_exact_numbers() -> None:
    """1 == True, and 0.1 == Fraction(0.1) though it is read as 1/10: a price that is asked for again is read first."""
    one = calibrate_objective(LOGISTIC, epsilon=1, delta="1e-5")
    assert calibrate_objective(LOGISTIC, epsilon="1.0", delta=1e-5) is one
    with pytest.raises(RangeError, match="bool"):
        calibrate_objective(LOGISTIC, epsilon=True, delta="1e-5")
    with pytest.raises(RangeError, match="bool"):
        one.claims(epsilon=True, delta="1e-5")
    written, stored = (calibrate_objective(LOGISTIC, epsilon=each, delta="1e-5") for each in (0.1, Fraction(0.1)))
    assert written.claims(epsilon="0.1", delta="1e-5")
    assert max(stored.deltas(Fraction(0.1))) <= Fraction(1, 10**5)
    assert calibrate_objective(LOGISTIC, epsilon=Fraction(1, 10), delta="1e-5") is written
