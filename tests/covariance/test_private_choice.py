"""The paid choice: reference coefficients, its law, invariance, an attack on the worst pair, and bad input."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from mapped_moments import mapped_moments
from sidelight.audit import audit
from sidelight.covariance import Choice
from sidelight.errors import RangeError, StrictError
from sidelight.guarantees import PureDP
from sidelight.guarantees.claims import Neighbours
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.published import eigenvector_covariance as module
from sidelight.published.eigenvector_covariance import (
    choice_claims,
    choose_prediction,
    use_prediction,
)
from sidelight.testing import SeededEntropy

PURE = Budget.of(epsilon=1)
ADD, SWAP = Neighbours.ADD_REMOVE, Neighbours.REPLACE
SHIFTED, THRESHOLD = Choice(shift_invariant=True), Choice(form="threshold")


def public(kind, size=10):
    return mapped_moments(np.zeros((0, size)), radius=1, neighbours=kind)


def choice_coefficient(moments, *, choice=None, pair=True, **price):
    """Return the exponential mechanism's factor on the distances of the sums."""
    steps = Budget.of(**price).spread / module._steps_apart(moments, choice or Choice(), pair=pair)
    return float(steps * module._STEPS / moments.second_in_trace.sensitivity / moments.scale**2)


def threshold_scale(moments, *, choice=THRESHOLD, **price):
    """Return the noise of the difference of two distances."""
    steps = Budget.of(**price).on(module._threshold(moments, choice, value=0)).scale
    return float(steps / module._STEPS * moments.second_in_trace.sensitivity * moments.scale**2)


def test_reference_scales_of_a_swap() -> None:
    """n = 1000, λ = .1 of ε = 1 or ρ = .5; coefficients on the matrix of one row are n times those of the sum."""
    moments = public(SWAP)
    assert 1000 * choice_coefficient(moments, epsilon="0.1") == pytest.approx(50, rel=1e-5)
    assert 1000 * choice_coefficient(moments, rho="0.05") == pytest.approx(316.23, rel=1e-5)
    assert threshold_scale(moments, epsilon="0.1") / 1000 == pytest.approx(0.02, rel=1e-5)
    assert threshold_scale(moments, rho="0.05") / 1000 == pytest.approx(0.0063246, rel=1e-5)
    assert 1000 * choice_coefficient(moments, epsilon="0.1", choice=SHIFTED) == pytest.approx(25, rel=1e-5)
    assert 1000 * choice_coefficient(moments, epsilon="0.1", pair=False) == pytest.approx(25, rel=1e-5)
    shifted = Choice(form="threshold", shift_invariant=True)
    assert threshold_scale(moments, epsilon="0.1", choice=shifted) / 1000 == pytest.approx(0.04, rel=1e-5)


def test_scales_of_adding_and_removing() -> None:
    moments = public(ADD)
    for choice, pair in ((None, True), (None, False), (SHIFTED, True)):
        assert choice_coefficient(moments, epsilon="0.1", choice=choice, pair=pair) == pytest.approx(0.05, rel=1e-5)
        assert choice_coefficient(moments, rho="0.05", choice=choice, pair=pair) == pytest.approx(0.1**0.5, rel=1e-5)
    assert threshold_scale(moments, epsilon="0.1") == pytest.approx(20, rel=1e-5)
    assert threshold_scale(moments, rho="0.05") == pytest.approx((2 / 0.05) ** 0.5, rel=1e-5)


@pytest.mark.parametrize("kind", [ADD, SWAP])
def test_claims_before_any_row(kind) -> None:
    moments = public(kind)
    for choice in (None, SHIFTED, THRESHOLD):
        pure = choice_claims(moments, budget=Budget.of(epsilon="0.1"), choice=choice)
        assert (pure.pure().epsilon, pure.numerics, pure.neighbours) == (Fraction("0.1"), "idealized", kind)
        rho = choice_claims(moments, budget=Budget.of(rho="0.05"), choice=choice).zcdp().rho
        assert Fraction("0.04999999") < rho <= Fraction("0.05") + Fraction(1, 10**30)
    assert choice_claims(moments, budget=Budget.of(epsilon="0.1")).zcdp().rho == Fraction("0.1") ** 2 / 8


ROWS = np.array([[0.6, 0.0], [0.0, 0.8], [0.3, 0.4], [0.5, 0.5]])
SUM = ROWS.T @ ROWS
GUESS = np.array([[0.25, 0.1], [0.1, 0.2]])


def distance(matrix, *, shift=False):
    values = np.linalg.eigvalsh(matrix)
    return np.abs(values - np.median(values) * shift).sum()


def law_fits(hits, draws, probability):
    return stats.binomtest(hits, draws, probability).pvalue


def test_the_law_of_both_forms_and_laws_thirty_percent_off() -> None:
    moments = mapped_moments(ROWS, radius=1)
    score = distance(SUM - 4 * GUESS) - np.trace(SUM)
    source, draws = Source(SeededEntropy("choice")), 4000

    def hits(**arguments):
        return sum(use_prediction(moments, rows=4, prediction=GUESS, source=source, **arguments) for _ in range(draws))

    eta, scale, pure = 2.5 / 2, 2 / 2.5, Budget.of(epsilon="2.5")
    for arguments, law in (
        ({"budget": pure}, lambda factor: 1 / (1 + np.exp(eta * score / factor))),
        (
            {"budget": pure, "choice": THRESHOLD},
            lambda factor: stats.laplace.cdf(-score / scale / factor),
        ),
        ({"budget": Budget.of(rho=2), "choice": THRESHOLD}, lambda factor: stats.norm.cdf(-score / factor)),
    ):
        found = hits(**arguments)
        assert law_fits(found, draws, law(1.0)) > 1e-8
        assert law_fits(found, draws, law(1.3)) < 1e-8


def test_the_law_among_several_and_one_thirty_percent_off() -> None:
    moments = mapped_moments(ROWS, radius=1)
    guesses = [np.zeros((2, 2)), GUESS, np.eye(2), 0.5 * GUESS]
    source, draws = Source(SeededEntropy("several")), 4000
    how = {"rows": 4, "predictions": guesses, "budget": Budget.of(epsilon=2), "source": source}
    found = np.bincount([choose_prediction(moments, **how) for _ in range(draws)], minlength=4)

    def expected(eta):
        weights = np.exp(-eta * np.array([distance(SUM - 4 * each) for each in guesses]))
        return draws * weights / weights.sum()

    assert stats.chisquare(found, expected(1.0)).pvalue > 1e-8
    assert stats.chisquare(found, expected(1.3)).pvalue < 1e-8


def test_the_shift_invariant_choice_ignores_multiples_of_the_identity() -> None:
    moments = mapped_moments(np.tile(ROWS, (200, 1)), radius=1)
    near = SUM / 4 + 5 * np.eye(2)
    with Source(SeededEntropy("shift")) as source:
        arguments = {"rows": 800, "prediction": near, "budget": PURE, "source": source}
        assert not any(use_prediction(moments, **arguments) for _ in range(20))
        assert all(use_prediction(moments, **arguments, choice=SHIFTED) for _ in range(20))
        pair = {"rows": 800, "predictions": [np.diag([0.3, 0.0]), near], "budget": Budget.of(rho=1), "source": source}
        assert {choose_prediction(moments, **pair, choice=SHIFTED) for _ in range(20)} == {1}
        assert {choose_prediction(moments, **pair) for _ in range(20)} == {0}


def attack(seed, coefficient=None, *, monkeypatch=None):
    """Attack the worst swap for T: one row (1, 0) against (0, 1), with a prediction far along the first axis."""
    if coefficient is not None:
        monkeypatch.setattr(module, "_steps_apart", lambda moments, how, *, pair: Fraction(coefficient))
    samplers = []
    for row in ([1.0, 0.0], [0.0, 1.0]):
        moments = mapped_moments(np.array([row]), radius=1, neighbours=SWAP)
        source = Source(SeededEntropy(seed).child(str(row)))

        def sample(count, moments=moments, source=source):
            # rows · W = diag(2, 0): T is 0 for the first row and 2 for the second
            return [
                use_prediction(moments, rows=2, prediction=np.diag([1.0, 0.0]), budget=PURE, source=source)
                for _ in range(count)
            ]

        samplers.append(sample)
    return audit(*samplers, draws=6000)


def test_an_attack_cannot_refute_the_choice_and_does_refute_half_the_sensitivity(monkeypatch) -> None:
    honest = attack("honest")
    assert not honest.refutes(PureDP(1))
    assert honest.epsilon().value > 0.3
    assert attack("halved", 2**19, monkeypatch=monkeypatch).refutes(PureDP(1))


def test_a_choice_that_cannot_be_made_is_can_be_refused_early() -> None:
    """Before any charge: `choose_prediction` would refuse it only when the budget is spent."""
    for candidates, choice in ((1, Choice()), (3, THRESHOLD)):
        with pytest.raises(RangeError):
            choice.check(candidates)
    Choice().check(3)
    THRESHOLD.check(2)


def test_bad_choices_are_refused_and_strict_sources_too() -> None:
    moments, source = mapped_moments(ROWS, radius=1), Source(SeededEntropy(0))
    with pytest.raises(RangeError, match="form"):
        Choice(form="best")
    with pytest.raises(RangeError, match="two predictions"):
        choose_prediction(moments, rows=4, predictions=[GUESS], budget=PURE, source=source)
    with pytest.raises(RangeError, match="threshold"):
        choose_prediction(moments, rows=4, predictions=[GUESS] * 2, budget=PURE, choice=THRESHOLD, source=source)
    with pytest.raises(RangeError, match="shape"):
        use_prediction(moments, rows=4, prediction=np.eye(3), budget=PURE, source=source)
    strict = Source(SeededEntropy(0), declared="exact")
    with pytest.raises(StrictError):
        use_prediction(moments, rows=4, prediction=GUESS, budget=PURE, source=strict)


def test_no_rows_never_raise() -> None:
    source = Source(SeededEntropy("none"))
    for rows in (np.zeros((0, 2)), np.full((2, 2), np.nan), np.full((2, 2), 1e300)):
        moments = mapped_moments(rows, radius=1)
        for choice in (None, SHIFTED, THRESHOLD):
            use_prediction(moments, rows=-5.0, prediction=1e20 * np.eye(2), budget=PURE, choice=choice, source=source)
