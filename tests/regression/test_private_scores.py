"""`dp_score`: two counts with discrete Laplace noise; and the branded check of rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import sidelight as sl
from sidelight.errors import BudgetError, RangeError, SchemaError
from sidelight.regression.estimators.private_score import linear_scores
from sidelight.testing import SeededSession

pytestmark = pytest.mark.usefixtures("prices_once")
PEOPLE = sl.Table({"row": np.empty(0)}, schema=[sl.Number("row")], name="people")


def rows(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(3).uniform(-0.5, 0.5, (n, 2))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def model() -> sl.LogisticRegression:
    fitted = sl.LogisticRegression(epsilon=2, delta="1e-6", data_norm=1, classes=[0, 1])
    fitted.fit(*rows(50))
    fitted.coef_, fitted.intercept_ = np.array([[1.0, 0.0]]), np.array([0.0])  # right for every row
    return fitted


def counts(release: Any) -> tuple[float, float]:
    return release.value["right"], release.value["wrong"]


def noises(model: Any, *, epsilon: float, runs: int) -> np.ndarray:
    """Give the noise of many scores of the same ten rows."""
    session = SeededSession(PEOPLE, budget=sl.PureDP(9999), seed=7)
    X, y = rows(10)
    found = [counts(model.dp_score(X, y, epsilon=epsilon, session=session)) for _ in range(runs)]
    return np.array(found) - [10, 0]


class TestScore:
    def test_a_score_is_a_release_with_its_price(self, model: Any) -> None:
        release = model.dp_score(*rows(), epsilon=1)
        assert release.guarantee.implies(sl.PureDP(1))
        assert not release.guarantee.implies(sl.PureDP("0.99"))
        assert release.circumstances.numerics == "exact"
        assert release.private
        assert 0.9 < release.value["score"] <= 1
        assert sl.Release.from_json(release.to_json()) == release

    def test_counts_are_of_the_rows_that_can_be_used(self, model: Any) -> None:
        X, y = rows(6)
        odd = np.vstack([X, X]).astype(object)
        odd[6:, 1] = [np.nan, np.inf, None, "text", object(), 10**400]
        labels = [*y.tolist(), *y.tolist()]
        for X_, y_ in ((odd, labels), (np.vstack([X, X]), [*y.tolist(), 7, None, "a", np.nan, object(), -1])):
            right, wrong = counts(model.dp_score(X_, y_, epsilon=1000))
            assert (right, wrong) == (6, 0)
        assert counts(model.dp_score(csr_array(X), 1 - y, epsilon=1000)) == (0, 6)
        assert counts(model.dp_score(X[:0], y[:0], epsilon=1000)) == (0, 0)
        assert counts(model.dp_score(X * 1e200, y, epsilon=1000)) == (6, 0)

    def test_the_law_of_the_noise(self, model: Any) -> None:
        found = noises(model, epsilon=1, runs=1400)[:, 0]  # the other count is 0, and none is published below it
        a = np.exp(-1.0)

        def far(a: float) -> float:
            """Chi-square distance of |noise| from the discrete Laplace law, in standard deviations."""
            size = np.abs(found)
            chances = np.array([(1 - a) / (1 + a) * (1 if k == 0 else 2 * a**k) for k in range(4)])
            chances = np.append(chances, 1 - chances.sum())
            seen = np.array([*(np.sum(size == k) for k in range(4)), np.sum(size >= 4)])
            expected = chances * len(size)
            return float((np.sum((seen - expected) ** 2 / expected) - 4) / np.sqrt(8))

        assert far(a) < 8
        assert far(np.exp(-1.3)) > 8  # the control: noise 30 % smaller is found out
        assert np.abs(np.corrcoef(noises(model, epsilon=1, runs=300).T)[0, 1]) < 0.35
        assert noises(model, epsilon=1, runs=50)[:, 1].min() == 0

    def test_it_charges_a_session(self, model: Any) -> None:
        session = sl.Session(PEOPLE, budget=sl.PureDP("1.5"))
        model.dp_score(*rows(20), epsilon=1, session=session)
        with pytest.raises(BudgetError):
            model.dp_score(*rows(20), epsilon=1, session=session)

    def test_a_key_remembers_it(self, model: Any, tmp_path: Any) -> None:
        session = sl.Session(PEOPLE, budget=sl.PureDP("1.5"), ledger=f"sqlite:///{tmp_path / 'budget.db'}")
        first = model.dp_score(*rows(20), epsilon=1, session=session, key="score")
        assert model.dp_score(*rows(20), epsilon=1, session=session, key="score").value == first.value

    def test_mistakes(self, model: Any) -> None:
        X, y = rows(20)
        for data, text in (((X[:, :1], y), "2 features"), ((X, y[:3]), "same length"), ((X, None), "None")):
            with pytest.raises(SchemaError, match=text):
                model.dp_score(*data, epsilon=1)
        with pytest.raises(RangeError, match="epsilon"):
            model.dp_score(X, y, epsilon=0)
        with pytest.raises(RangeError, match="key"):
            model.dp_score(X, y, epsilon=1, key="score")
        with pytest.raises(SchemaError, match="fit_table"):
            model.dp_score(PEOPLE, epsilon=1, target="row")
        schema = [sl.Number("row"), sl.PersonId("who", max_rows=3)]
        many = sl.Table({"row": np.empty(0), "who": np.empty(0, int)}, schema=schema)
        with pytest.raises(RangeError, match="one"):
            model.dp_score(X, y, epsilon=1, session=sl.Session(many, budget=sl.PureDP(3)))

    def test_tables_and_several_classes(self) -> None:
        schema = [sl.Number("x", lower=-1, upper=1), sl.Category("y", ["a", "b", "c"], other=None)]
        x = np.linspace(-1, 1, 900)
        people = sl.Table({"x": x, "y": np.repeat(["a", "b", "c"], 300).astype(object)}, schema=schema)
        fitted = sl.LogisticRegression(epsilon=8, delta="1e-6").fit_table(people, target="y")
        truth = np.repeat(["a", "b", "c"], 300)
        right, wrong = counts(fitted.dp_score(people, target="y", epsilon=1000))
        assert right == np.sum(fitted.predict(people) == truth)
        assert right + wrong == 900


class TestRowCheck:
    def test_it_counts_and_says_that_it_is_not_private(self) -> None:
        X = np.array([[0.6, 0.8], [0.3, 0.4], [3.0, 4.0], [np.nan, 0.0], [np.inf, 0.0], [9.0, 9.0]])
        found = sl.nonprivate_check_rows(X, 1, y=[0, 1, 0, 1, 0, 5], classes=[0, 1])
        assert (found.rows, found.too_long, found.not_finite, found.unknown_label) == (6, 1, 2, 1)
        assert str(found).startswith("NOT PRIVATE")
        assert "NonPrivate" in repr(found)
        assert sl.nonprivate_check_rows(csr_array(X), "0.4").too_long == 4

    def test_it_agrees_with_the_fit(self) -> None:
        from fractions import Fraction

        from sidelight.regression.rows import bounded_rows

        X = np.random.default_rng(1).normal(size=(500, 3)) / 2
        clipped, _, _ = bounded_rows(X, data_norm=Fraction(1), on_violation="clip")
        assert sl.nonprivate_check_rows(X, 1).too_long == np.any(clipped != X, axis=1).sum()

    def test_mistakes(self) -> None:
        with pytest.raises(SchemaError, match="two dimensions"):
            sl.nonprivate_check_rows(np.zeros(3), 1)
        with pytest.raises(SchemaError, match="classes"):
            sl.nonprivate_check_rows(np.zeros((3, 1)), 1, y=[0, 1, 1])
        with pytest.raises(RangeError, match="data_norm"):
            sl.nonprivate_check_rows(np.zeros((3, 1)), -1)


def test_no_row_changes_the_class_of_another() -> None:
    """Classes that tie but for the order of a sum: a matrix product decides some of them by how many rows there are."""

    class Tied:
        release_, intercept_ = SimpleNamespace(query={"on_violation": "clip"}), np.zeros(3)

        def __init__(self, coefficients: np.ndarray) -> None:
            self.coef_ = coefficients

    rng = np.random.default_rng(3)
    for width in [*range(3, 40)] * 3:
        weights = rng.normal(size=width)
        model = Tied(np.stack([weights[::-1], weights, np.full(width, -10.0)]))
        row = np.abs(weights + weights[::-1])
        alone, beside = row[None], np.vstack([row, np.zeros((rng.integers(1, 9), width))])
        assert np.array_equal(linear_scores(model, alone)[0][0], linear_scores(model, beside)[0][0])
        assert np.allclose(linear_scores(model, beside)[0], beside @ model.coef_.T, rtol=1e-12, atol=1e-12)
