"""Logistic regression of any number of rows: it is private, and nothing visible depends on it but with noise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import sidelight as sl
from sidelight.audit import audit
from sidelight.errors import NotCertifiedError, RangeError
from sidelight.guarantees import GDP, ApproxDP
from sidelight.guarantees.conversions import gdp_within
from sidelight.noise import OSEntropy, Source
from sidelight.published import stable_logistic as logistic
from sidelight.published.logistic_divergence import Precision, private_precision
from sidelight.published.stable_logistic import COUNT_FAILURE, StableLogistic
from sidelight.regression.fit_core import certified_minimum
from sidelight.regression.losses import LogisticLoss
from sidelight.regression.objective import Objective, certify, error_bound
from sidelight.regression.rows import BoundedArrays, RowPolicy
from sidelight.release import Refused, Release
from sidelight.stability.propose_test_release import order_budget
from sidelight.testing import SeededEntropy, seeded_release

SCHEMA = [sl.Number("a"), sl.Number("b"), sl.Category("y", ["no", "yes"], other=None)]
GIVEN: dict[str, Any] = {"features": ["a", "b"], "target": "y", "feature_norm": 1, "epsilon": 1, "delta": "1e-6"}
DECLARED = 60


def table(n: int, *, steep: float = 1.0) -> sl.Table:
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, size=(n, 2)) / np.sqrt(2)
    y = np.where(rng.random(n) < expit(steep * (x @ [4, -3])), "yes", "no")
    return sl.Table({"a": x[:, 0], "b": x[:, 1], "y": y}, schema=SCHEMA)


@pytest.mark.parametrize("shape", ["isotropic", "hessian"])
def test_far_more_rows_than_were_declared_are_no_error(shape: Any) -> None:
    data = table(100_000)
    release = seeded_release(StableLogistic(**GIVEN, penalty=3, shape=shape, rows_at_most=1), data, seed=1)
    assert isinstance(release, Release)
    assert release.value[0] > 0 > release.value[1]


def test_floats_end_where_a_tolerance_takes_no_account_of_the_rows() -> None:
    """No certificate at a tolerance below the precision of floats, which the noisy bound avoids."""
    data = table(100_000)
    with pytest.raises(NotCertifiedError):
        certified_minimum(_objective(data, penalty=3), tolerance=1e-13, exponent=-100)


def _objective(data: sl.Table, *, penalty: int) -> Objective:
    loss = LogisticLoss(classes=(0, 1))
    policy = RowPolicy(loss=loss, features=3, data_norm=Fraction(1), intercept=None)
    rows: Any = logistic._coded(StableLogistic(**GIVEN), sl.Schema(SCHEMA))
    x, y = (np.concatenate(part) for part in zip(*rows.batches(data), strict=True))
    return Objective(
        rows=BoundedArrays(x, y, policy=policy),
        loss=loss,
        row_norm=Fraction(1),
        regularisation=Fraction(penalty),
        linear=np.zeros((3, 1)),
    )


@pytest.mark.parametrize("n", [1, 50, 5000, 60_000])
def test_up_to_the_bound_every_minimum_is_certified_with_room(n: int) -> None:
    """Theorem 14's lemma: the certificate's own error is below 0.28 of the tolerance for as many rows as the bound."""
    objective = _objective(table(n, steep=20), penalty=2)
    tolerance = Precision(n, 2.0).tolerance
    point = certified_minimum(objective, tolerance=tolerance, exponent=-100)
    assert error_bound(objective, point, rows=n, exact=True) <= 0.28 * tolerance
    assert certify(objective, point, tolerance=tolerance).norm <= 0.7 * tolerance


def test_the_three_steps_share_one_budget() -> None:
    for shape in ("isotropic", "hessian"):
        for share in ("0.15", "0.5"):
            query = StableLogistic(**GIVEN, penalty=5, shape=shape, strength_share=share)
            proposal: Any = query.prepare(sl.Schema(SCHEMA))
            failing = Fraction(proposal.count_failure) + Fraction(proposal.failure)
            left = Fraction("1e-6") * (1 - Fraction(1, 6) - COUNT_FAILURE)
            assert failing + left <= Fraction("1e-6") * (1 + Fraction(1, 10**12))
            gaussian = proposal.count_mu**2 + proposal.strength_mu**2
            if shape == "isotropic":
                total = gaussian + proposal.rest**2
                whole = float(gdp_within(Fraction(1), left)) ** 2
            else:
                budget = order_budget(Fraction(1), left)
                total = float(budget.order) * gaussian / 2 + proposal.rest
                whole = float(budget.divergence)
            assert whole * (1 - 1e-9) < total <= whole


def test_the_number_declared_is_for_the_penalty_alone() -> None:
    few, many = (StableLogistic(**GIVEN, penalty=5, rows_at_most=n).prepare(sl.Schema(SCHEMA)) for n in (1, 10**9))
    for name in ("rows", "penalty", "count_mu", "strength_mu", "rest", "order", "count_failure", "failure", "within"):
        assert getattr(few, name) == getattr(many, name)
    assert few.claims == many.claims


def bounds(rows: int, mu: float, seed: str) -> Callable[[int], Any]:
    def draw(count: int) -> Any:
        with Source(SeededEntropy(f"{seed} {rows}")) as source:
            given: dict[str, Any] = {"penalty": 2.0, "mu": mu, "failure": 1e-6, "source": source}
            return [private_precision(rows, **given).rows for _ in range(count)]

    return draw


@pytest.mark.planted("a bound of the rows with too little noise", of=("StableLogistic",))
def test_the_bound_of_the_rows_is_private_and_holds() -> None:
    found = audit(bounds(10**4, 1.0, "right"), bounds(10**4 + 1, 1.0, "right"), draws=2000)
    assert not found.refutes(GDP(1))
    assert found.refutes(GDP("0.3"))  # the attack sees something
    assert audit(bounds(10**4, 2.0, "wrong"), bounds(10**4 + 1, 2.0, "wrong"), draws=2000).refutes(GDP(1))  # planted
    assert min(bounds(10**4, 1.0, "low")(500)) >= 10**4 + 1
    with Source(OSEntropy()) as source:
        assert private_precision(0, penalty=2.0, mu=0.01, failure=0.999, source=source).rows >= 1


def outcomes(n: int, seed: str) -> Callable[[int], list[str]]:
    """What an attacker sees of whole releases: refused, or the sign of a coefficient."""
    query = StableLogistic(**GIVEN, penalty=2, rows_at_most=DECLARED)
    data, place = table(n), iter(range(10**9))

    def draw(count: int) -> list[str]:
        found = [seeded_release(query, data, seed=f"{seed} {n} {next(place)}") for _ in range(count)]
        return ["refused" if isinstance(each, Refused) else str(each.value[0] > 0) for each in found]

    return draw


def test_one_row_more_than_declared_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = ApproxDP(1, "1e-6")
    found = audit(outcomes(DECLARED, "a"), outcomes(DECLARED + 1, "a"), draws=200)
    assert not found.refutes(claim)
    assert "refused" not in outcomes(DECLARED + 1, "b")(20)

    def declared(rows: int, *, penalty: float, **_: Any) -> Precision:
        """Planted: the declared number decides, so that a larger table is always refused, and a smaller one never."""
        return Precision(DECLARED if rows <= DECLARED else 1e-30, penalty if rows <= DECLARED else 1e-30)

    monkeypatch.setattr(logistic, "private_precision", declared)
    leaky = audit(outcomes(DECLARED, "c"), outcomes(DECLARED + 1, "c"), draws=200)
    assert leaky.refutes(claim)


def test_a_bound_that_failed_is_a_refusal_that_was_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic, "private_precision", lambda rows, **_: Precision(1e-30, 1e-30))
    for shape in ("isotropic", "hessian"):
        query = StableLogistic(**GIVEN, penalty=2, shape=shape)
        found = seeded_release(query, table(500), seed=1)
        assert isinstance(found, Refused)
        assert found.guarantee == query.prepare(sl.Schema(SCHEMA)).claims


def test_the_longest_minimum_is_covered() -> None:
    """The tolerance counts |θ|² <= 1.4 n/λ; separable rows come as near to it as rows can."""
    x, y = np.ones((2000, 1)), np.ones(2000)
    for penalty in (1.01, 10.0, 500.0):
        found = minimize(
            lambda t, penalty=penalty: np.logaddexp(0, -y * (x @ t)).sum() + penalty / 2 * t @ t, np.zeros(1)
        ).x
        assert found @ found <= 1.4 * 2000 / penalty


@pytest.mark.parametrize("intercept", ["1e160", "-1"])
def test_an_intercept_that_no_row_can_have_is_refused_before_the_charge(intercept: str) -> None:
    with pytest.raises(RangeError, match="intercept"):
        StableLogistic(**GIVEN, intercept=intercept).prepare(table(5).schema)
