"""The profile of a selection: falls, floats above the certified value, reads back, composes."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sidelight.accounting import batch
from sidelight.guarantees import GDP, ApproxCurve, Claims, HingedGaussianCurve, Profile, claim_from_json, claim_to_json
from sidelight.guarantees.derived_curves import SelectedCurve
from sidelight.tuning import geometric, selection_claims, selection_epsilon

CURVES = [
    SelectedCurve(HingedGaussianCurve(Fraction(3, 10)), Fraction(3, 4), Fraction(15)),
    SelectedCurve(HingedGaussianCurve(Fraction(1, 100)), Fraction(1, 50), Fraction(15)),
    SelectedCurve(ApproxCurve(Fraction(1, 2), Fraction(1, 10**6)), Fraction(1), Fraction(5, 2)),
]


@pytest.mark.parametrize("curve", CURVES)
def test_it_falls_and_its_floats_lie_just_above(curve: SelectedCurve) -> None:
    points = [Fraction(k, 40) for k in range(0, 121, 3)] + [curve.shift]
    points.sort()
    certified = [curve.delta(x) for x in points]
    assert all(a >= b for a, b in itertools.pairwise(certified))
    fast = curve.floats(np.array([float(x) for x in points]))
    for exactly, value in zip(certified, fast, strict=True):
        assert float(exactly) * (1 - 1e-14) <= value <= float(exactly) * (1 + 1e-9) + 1e-12


def test_a_pure_run_gives_a_tail_without_loss() -> None:
    curve = SelectedCurve(ApproxCurve(Fraction(1)), Fraction(2), Fraction(15))
    assert curve.delta(Fraction(3)) == 0 < curve.delta(Fraction("2.99"))
    assert curve.gaussian_tail_from(1.0) == pytest.approx(3)
    assert CURVES[0].gaussian_tail_from(1.0) is None


@pytest.mark.parametrize("curve", CURVES)
def test_a_claim_is_read_back(curve: SelectedCurve) -> None:
    claim = Profile(curve, CURVES[0])
    assert claim_from_json(claim_to_json(claim)) == claim


def test_the_profile_gives_the_price_at_every_delta_and_composes() -> None:
    base, runs = Claims.of(GDP("0.3")), geometric(15)
    claims = selection_claims(base, runs, delta="1e-6")
    profile = next(c for c in claims if isinstance(c, Profile))
    for delta in ("1e-6", "1e-9"):
        found = Claims.of(profile).approx_at(delta)
        assert found is not None
        assert float(found.epsilon) == pytest.approx(float(selection_epsilon(base, runs, delta=delta)), rel=1e-9)
    twice = batch([claims, claims], delta="1e-6").approx_at("1e-6")
    assert twice is not None
    assert 2 < twice.epsilon < 2 * selection_epsilon(base, runs, delta="5e-7")
