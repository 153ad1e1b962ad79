"""The thesis' own calibration by Rényi divergences, to compare figures with; and a fit charged many times."""

from __future__ import annotations

from fractions import Fraction

import pytest
from benchmarks.baselines.objective_perturbation import thesis_renyi_regularisation

from sidelight.errors import RangeError
from sidelight.guarantees import Claims
from sidelight.mechanisms.objective_calibration import calibrate_objective
from sidelight.mechanisms.objective_perturbation import LossShape

F = Fraction


@pytest.mark.parametrize(("epsilon", "lam"), [(0.1, 43.817), (1, 3.708), (8, 0.6434)])
def test_reference_regularisation(epsilon: float, lam: float) -> None:
    found = thesis_renyi_regularisation(epsilon, 1e-5, gradient=2**0.5, curvature=0.5)
    assert found == pytest.approx(lam, rel=4e-4)


def test_too_little_noise_leaves_nothing() -> None:
    with pytest.raises(RangeError, match="leaves nothing"):
        thesis_renyi_regularisation(1, 1e-5, gradient=1, curvature=0.25, noise_factor=0.5)


def test_the_closed_theorem_needs_less_regularisation_than_the_thesis() -> None:
    shape = LossShape(gradient=F(1), curvature=F(1, 4), envelope="logistic", sign_definite=True)
    for epsilon in ("0.1", "1", "8"):
        ours = calibrate_objective(shape, epsilon=epsilon, delta="1e-5")
        assert float(ours.regularisation) < thesis_renyi_regularisation(
            float(epsilon), 1e-5, gradient=1, curvature=0.25
        )


@pytest.mark.parametrize("k", [1, 10])
def test_loss_distributions_of_fits_add_up_below_their_zcdp(k: int) -> None:
    """Two independent ways to the same composition: numerical, per direction, and by the zCDP of both profiles."""
    shape = LossShape(gradient=F(1), curvature=F(1, 4), envelope="logistic", sign_definite=True)
    fit = calibrate_objective(shape, epsilon="0.5", delta="1e-6")
    numerical = fit.loss_distribution(step=1e-3).self_compose(k).get_epsilon_for_delta(1e-6)
    rho = Claims.of(fit.profile()).zcdp()
    assert rho is not None
    concentrated = Claims.of(type(rho)(k * rho.rho)).approx_at("1e-6")
    assert concentrated is not None
    assert numerical <= float(concentrated.epsilon) <= (1.6 if k == 1 else 1.35) * numerical
