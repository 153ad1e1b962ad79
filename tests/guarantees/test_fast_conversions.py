"""Conversions of a calibrated fit are quick, quiet, and still upper bounds."""

from __future__ import annotations

import time
import warnings
from fractions import Fraction

import numpy as np
import pytest

from sidelight.guarantees import GDP, ZCDP, Claims, EnvelopeCurve, HingedGaussianCurve, Profile, claims_to_replace
from sidelight.guarantees.derived_curves import MostCurve, TwoStepCurve, gaussian_upper
from sidelight.guarantees.encoding import curve_from_json
from sidelight.guarantees.envelope_curve import _cells, _summed
from sidelight.mechanisms.objective_calibration import calibrate_objective
from sidelight.mechanisms.objective_perturbation import LossShape

F = Fraction
LOGISTIC = LossShape(gradient=F(1), curvature=F(1, 4), envelope="logistic", sign_definite=True)


def test_replace_is_quick_quiet_and_has_gdp_and_zcdp() -> None:
    claims = calibrate_objective(LOGISTIC, epsilon=1, delta="1e-6").claims(epsilon=1, delta="1e-6")
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replaced = claims_to_replace(claims)
        at = replaced.approx_at("1e-6")
    assert time.process_time() - start < 5  # a second on an idle machine; it took minutes
    assert at is not None
    assert 1 < float(at.epsilon) < 2.2
    mu, rho = claims.gdp(), claims.zcdp()
    assert mu is not None
    assert rho is not None
    assert GDP(2 * mu.mu).mu in {c.mu for c in replaced if isinstance(c, GDP)}
    assert ZCDP(4 * rho.rho).rho in {c.rho for c in replaced if isinstance(c, ZCDP)}


@pytest.mark.parametrize("more", [{"regularisation": "0.5"}, {"noise_scale": 5}, {}])
def test_calibrations_are_quick(more: dict[str, object]) -> None:
    start = time.process_time()
    calibrate_objective(LOGISTIC, epsilon="0.987", delta="1e-6", **more)  # type: ignore[arg-type]
    assert time.process_time() - start < 2  # 0.2 s on an idle machine; it took 3 to 5


@pytest.mark.parametrize("output", [F(0), F(1, 200), F(1, 20)])
def test_sums_from_the_right_are_the_plain_sums(output: Fraction) -> None:
    """The fast sum against the same cells added one by one, from above and within rounding."""
    curve = EnvelopeCurve(F(1, 4), F(2), "logistic", output)
    mass, left, right, chord = _cells(curve)
    x = np.linspace(0, 1.9, 23)
    fast = _summed(curve, x)
    from sidelight.guarantees.envelope_curve import _concave_until

    for point, value in zip(x, fast, strict=True):
        loss = np.where(point - left <= _concave_until(float(output)), chord, right)
        plain = float(np.dot(mass, gaussian_upper(float(output), point - loss)))
        assert plain <= value * (1 + 1e-12) <= plain * (1 + 1e-8) + 1e-25


def test_far_points_overflow_nothing() -> None:
    two = TwoStepCurve(HingedGaussianCurve(F(1, 4)), HingedGaussianCurve(F(1, 4), F(1, 10)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = two.floats(np.array([0.0, 1.0, 50.0, 5000.0]))
    assert np.isfinite(values).all()
    assert (np.diff(values) <= 1e-290).all()
    assert float(two.delta(F(1))) <= float(values[1]) * (1 + 1e-9)


def test_the_largest_of_several() -> None:
    small, large = HingedGaussianCurve(F(1, 4)), HingedGaussianCurve(F(1, 3))
    most = MostCurve((small, large))
    assert most.delta(F(1)) == large.delta(F(1))
    assert most.gaussian_tail_from(0.3) is None
    assert most.gaussian_tail_from(0.5) is not None
    assert curve_from_json(most.to_json()) == most
    found = Claims.of(Profile(most, most)).gdp()
    assert found is not None
    assert float(found.mu) == pytest.approx(1 / 3, rel=1e-4)


def test_the_profile_of_an_envelope_with_output_noise_does_not_rise_where_its_closed_form_begins() -> None:
    """Each form is an upper bound; the closed one has a term that is 1/2 or so at the threshold, and a plan failed."""
    for output in ("0.008", "0.0032", "0.0013"):
        curve = EnvelopeCurve(mu=Fraction("0.0644"), ratio=Fraction("0.9996"), output_mu=Fraction(output))
        edge = curve.threshold
        points = [
            edge - Fraction(1, 10**6),
            edge,
            edge + Fraction(1, 1000),
            edge + Fraction(1, 10),
            edge + 5,
            edge + 900,
        ]
        deltas = [curve.delta(x) for x in points]
        assert deltas == sorted(deltas, reverse=True)
        assert deltas[1] < Fraction(1, 10**6)
