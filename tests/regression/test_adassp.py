"""One-pass ridge regression: comparison with scikit-learn, degenerate data, and claims."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from sidelight.aggregates.collect import collect
from sidelight.errors import BudgetError, RangeError, SchemaError
from sidelight.guarantees import GDP, ApproxDP
from sidelight.noise import Source
from sidelight.published.adassp import AdaSSP, LinearFit, adassp, ridge_from_noisy
from sidelight.records import Number, PersonId, Schema, Table
from sidelight.release import Release, outcome_from_json
from sidelight.session import Session
from sidelight.testing import SeededEntropy, SeededSession, seeded_release
from sidelight.tuning import PublicScore, Selection


def generated(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    return rows, np.clip(rows @ np.linspace(-1, 1, d) + 0.3 + 0.1 * rng.normal(size=n), -2, 2)


def fitted(data: Any, seed: int = 0, **options: Any) -> LinearFit:
    options = {"feature_norm": 1, "target_bounds": (-2, 2), "mu": 1} | options
    return adassp(data, source=Source(SeededEntropy(seed)), **options)


# --- accuracy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0, 50])
def test_with_little_noise_it_is_the_ridge_regression_of_scikit_learn(penalty: int) -> None:
    from sklearn.linear_model import Ridge

    rows, target = generated(5000, 4)
    fit = fitted((rows, target), mu=10**4, penalty=penalty)
    with_constant = np.column_stack([rows, np.full(len(rows), 0.5)])
    ridge = Ridge(alpha=max(penalty, 1e-9), fit_intercept=False).fit(with_constant, target)
    assert fit.coefficients == pytest.approx(ridge.coef_[:4], abs=2e-3)
    assert fit.intercept == pytest.approx(0.5 * ridge.coef_[4], abs=2e-3)
    assert fit.predict(rows) == pytest.approx(ridge.predict(with_constant), abs=5e-3)


def test_an_intercept_is_optional_and_a_wide_target_is_centred() -> None:
    from sklearn.linear_model import LinearRegression

    rows, target = generated(5000, 3)
    through_zero = fitted((rows, target), mu=10**4, intercept=0)
    assert through_zero.intercept == 0
    plain = LinearRegression(fit_intercept=False).fit(rows, target)
    assert through_zero.coefficients == pytest.approx(plain.coef_, abs=2e-3)
    shifted = fitted((rows, target + 100), mu=10**4, target_bounds=(98, 102))
    assert shifted.predict(rows) == pytest.approx(LinearRegression().fit(rows, target).predict(rows) + 100, abs=2e-2)


@pytest.mark.parametrize(("n", "epsilon", "least"), [(2000, "1", 0.8), (20000, "0.1", 0.7)])
def test_it_is_of_use_at_small_budgets(n: int, epsilon: str, least: float) -> None:
    rows, target = generated(n, 5)
    scores = []
    for seed in range(5):
        fit = fitted((rows, target), seed=seed, mu=None, epsilon=epsilon, delta="1e-6")
        scores.append(1 - np.mean((fit.predict(rows) - target) ** 2) / target.var())
    assert np.median(scores) > least


def test_the_penalty_keeps_noise_from_exploding() -> None:
    """Ten rows and a small budget: without the penalty coefficients would be noise divided by almost nothing."""
    rows, target = generated(10, 5)
    sizes = [float(np.linalg.norm(fitted((rows, target), seed=s, mu="0.1").coefficients)) for s in range(40)]
    assert np.median(sizes) < 3
    noisy = np.diag([1.0, 1e-9])
    assert np.linalg.norm(ridge_from_noisy(noisy, np.array([1.0, 1.0]), noise_scale=1.0)) < 1


# --- the scale of the intercept -------------------------------------------------------------------------------------


def workers(n: int = 30_000) -> dict[str, np.ndarray]:
    """Hours by age and education, as in Adult: norms up to 90, intercept 31."""
    rng = np.random.default_rng(3)
    age, education = rng.integers(17, 91, n).astype(float), rng.integers(1, 17, n).astype(float)
    hours = 31.2 + 0.06 * age + 0.7 * education + 12 * rng.normal(size=n)
    return {"age": age, "education": education, "hours": np.clip(hours, 1, 99)}


BOUNDED = [Number("age", lower=17, upper=90), Number("education", lower=1, upper=16)]
HOURS = Number("hours", lower=1, upper=99)


@pytest.mark.parametrize(
    ("features", "options", "epsilon"),
    [
        (BOUNDED, {"feature_norm": 120}, "50"),
        (BOUNDED, {}, "50"),
        (BOUNDED, {}, "4"),
        ([Number("age"), Number("education")], {"feature_norm": 120}, "50"),
    ],
    ids=["bounds and a norm", "bounds", "bounds, small", "a norm"],
)
def test_long_features_do_not_drown_the_intercept(features: Any, options: Any, epsilon: str) -> None:
    columns = workers()
    table = Table(columns, schema=[*features, HOURS])
    asked = AdaSSP(features=["age", "education"], target="hours", epsilon=epsilon, delta="1e-6", **options)
    for seed in range(5):
        release = seeded_release(asked, table, seed=seed)
        assert isinstance(release, Release)
        slope, schooling, constant = release.value
        assert slope == pytest.approx(0.06, abs=0.03)
        assert schooling == pytest.approx(0.7, abs=0.35)
        predicted = constant + slope * columns["age"] + schooling * columns["education"]
        assert np.mean((predicted - columns["hours"]) ** 2) < 0.97 * columns["hours"].var()


def test_features_are_centred_by_their_bounds_where_that_shortens_rows() -> None:
    schema = Schema([*BOUNDED, HOURS])

    def codes(**more: Any) -> Any:
        names = ["age", "education"]
        return AdaSSP(features=names, target="hours", mu=1, **more).prepare(schema).codes

    half = Fraction(73, 2) ** 2 + Fraction(15, 2) ** 2
    for more in ({}, {"feature_norm": 120}):
        found = codes(**more)
        assert half < found.radius**2 < half * (1 + Fraction(1, 10**5))
        assert found.centres == (Fraction(107, 2), Fraction(17, 2))
        assert found.intercept == found.radius / 2
    for more in ({"feature_norm": 30}, {"feature_norm": 120, "intercept": 0}):
        assert codes(**more).centres == (0, 0)
        assert codes(**more).radius == more["feature_norm"]
    without = codes(intercept=0)
    assert without.radius**2 > 90**2 + 16**2 > without.radius**2 * (1 - Fraction(1, 10**5))
    with pytest.raises(SchemaError, match="feature_norm"):
        AdaSSP(features=["age"], target="hours", mu=1).prepare(Schema([Number("age", lower=0), HOURS]))
    with pytest.raises(RangeError, match="negative"):
        AdaSSP(features=["age"], target="hours", mu=1, intercept=-1)


@pytest.mark.parametrize("intercept", [None, 0, 5], ids=["default", "none", "five"])
def test_no_row_of_centred_features_costs_more_than_the_claim(intercept: int | None) -> None:
    """Corners of the box, rows far outside and extreme targets: D'Σ⁻¹D over both releases is at most mu²."""
    schema = Schema([*BOUNDED, HOURS])
    prepared = AdaSSP(features=["age", "education"], target="hours", mu=1, intercept=intercept).prepare(schema)
    (claim,) = prepared.claims
    assert isinstance(claim, GDP)
    largest = 0.0
    for age in (17.0, 90.0, -1e300, 53.5, np.inf):
        for education in (1.0, 16.0, 1e300, 8.5):
            for hours in (1.0, 99.0, -1e9):
                one = Table({"age": [age], "education": [education], "hours": [hours]}, schema=schema)
                moved = collect(one, prepared.statistics)
                gram, cross = (np.asarray(part.value, float) for part in (moved.gram, moved.cross))
                assert np.linalg.norm(gram) <= float(moved.gram.sensitivity) * (1 + 1e-12)
                both = (gram**2).sum() / float(prepared.gram_scale) ** 2
                largest = max(largest, both + (cross**2).sum() / float(prepared.cross_scale) ** 2)
    assert 0.9 * float(claim.mu) ** 2 < largest <= float(claim.mu) ** 2 * (1 + 1e-12)


# --- degenerate data --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        (np.empty((0, 3)), np.empty(0)),
        (np.zeros((50, 3)), np.zeros(50)),
        (np.ones((50, 3)), np.full(50, 2.0)),
        (np.full((50, 3), np.nan), np.full(50, np.nan)),
        (np.full((5, 3), np.inf), np.full(5, -np.inf)),
        (np.full((5, 3), 1e308), np.full(5, 1e308)),
        (np.array([[1e-320, 0, 0]]), np.array([5e-324])),
    ],
    ids=["empty", "zero", "constant", "missing", "infinite", "huge", "tiny"],
)
def test_no_data_raises_or_gives_a_number_that_is_none(data: Any) -> None:
    for seed in range(3):
        fit = fitted(data, seed=seed)
        assert np.isfinite(fit.coefficients).all()
        assert np.isfinite(fit.intercept)


def test_rows_with_a_missing_value_take_no_part() -> None:
    rows, target = generated(300, 2)
    spoiled = np.vstack([rows, [[np.nan, 0.5], [0.1, 0.2]]])
    with_missing = fitted((spoiled, np.append(target, [1.0, np.nan])), seed=7)
    assert np.array_equal(with_missing.coefficients, fitted((rows, target), seed=7).coefficients)


@pytest.mark.parametrize(
    "odd", ["secret cell", None, [0.1], {}, 10**400, 1j, object()], ids=lambda odd: type(odd).__name__
)
def test_no_cell_of_a_list_or_an_array_raises_or_changes_another_row(odd: Any) -> None:
    rows, target = generated(200, 2)
    listed, goal = rows.tolist(), target.tolist()
    # a number beyond the floats is read as an infinity: shortened as a long row is, or clamped as a large target is
    left_out = fitted((rows, target))
    wanted = fitted((np.vstack([rows, [0.1, np.inf]]), np.append(target, 0.5))) if isinstance(odd, int) else left_out
    untyped = np.vstack([rows.astype(object), np.array([[0.1, None]])])
    untyped[-1, 1] = odd
    counted = {list: 0.1, int: 2.0}.get(type(odd))  # a target in a row of its own is that target
    with_target = left_out if counted is None else fitted((np.vstack([rows, [0.1, 0.2]]), np.append(target, counted)))
    for data, wanted_of_it in (
        (([*listed, [0.1, odd]], [*goal, 0.5]), wanted),
        ((untyped, [*goal, 0.5]), wanted),
        (([*listed, [0.1, 0.2]], [*goal, odd]), with_target),
    ):
        found = fitted(data)
        assert found.coefficients.tolist() == wanted_of_it.coefficients.tolist()
        assert found.intercept == wanted_of_it.intercept


def test_arrays_are_refused_for_shape_and_type_alone() -> None:
    rows, target = generated(5, 2)
    for X, y, message in (
        ([[0.1, 0.2], [0.1]], [0, 1], "differ in length"),
        (rows, target[:4], "same length"),
        (rows.astype(str), target, "must hold numbers"),
        (rows, target.astype(str), "y must hold numbers"),
        (rows[:, 0], target, "two dimensions"),
        (csr_array(rows), target, "toarray"),
    ):
        with pytest.raises(SchemaError, match=message):
            fitted((X, y))


def test_long_rows_are_shortened_and_targets_clamped() -> None:
    rows, target = generated(300, 2)
    stretched = np.vstack([rows, [[30.0, 40.0]]])
    shortened = np.vstack([rows, [[0.6, 0.8]]])
    long_fit = fitted((stretched, np.append(target, 99.0)), seed=3)
    assert np.array_equal(long_fit.coefficients, fitted((shortened, np.append(target, 2.0)), seed=3).coefficients)


# --- claims -----------------------------------------------------------------------------------------------------------

SCHEMA = Schema([Number("a"), Number("b"), Number("y", lower=-2, upper=2)])


def query(**changes: Any) -> AdaSSP:
    return AdaSSP(**({"features": ["a", "b"], "target": "y", "feature_norm": 1, "mu": "0.5"} | changes))


def table(n: int = 500) -> Table:
    rows, target = generated(n, 2)
    return Table({"a": rows[:, 0], "b": rows[:, 1], "y": target}, schema=SCHEMA, name="points")


def test_the_claim_is_what_was_asked_for_and_never_more() -> None:
    for changes, most in [
        ({}, Fraction(1, 2)),
        ({"mu": None, "rho": "0.125"}, Fraction(1, 2)),
        ({"gram_share": "0.9"}, Fraction(1, 2)),
    ]:
        (claim,) = query(**changes).prepare(SCHEMA).claims
        assert isinstance(claim, GDP)
        assert most * (1 - Fraction(1, 2**40)) < claim.mu <= most + Fraction(1, 10**30)
    approx = query(mu=None, epsilon=1, delta="1e-6").prepare(SCHEMA).claims
    assert approx.implies(ApproxDP(1, "1e-6"))
    assert not approx.implies(ApproxDP("0.99", "1e-6"))


def test_the_noise_is_that_of_the_claim() -> None:
    """Exact loss of one added row, from the scales that are used: D'Σ⁻¹D over both releases is at most mu²."""
    prepared = query().prepare(SCHEMA)
    (claim,) = prepared.claims
    assert isinstance(claim, GDP)
    rng = np.random.default_rng(1)
    sigma, tau = float(prepared.gram_scale), float(prepared.cross_scale)
    largest = 0.0
    for _ in range(200):
        a, b = (v := rng.normal(size=2)) / np.linalg.norm(v) * rng.choice([0.3, 1, 5])
        one = Table({"a": [a], "b": [b], "y": [rng.choice([-2.0, 2.0, 9.0])]}, schema=SCHEMA)
        moved = collect(one, prepared.statistics)
        gram = np.asarray(moved.gram.value, float)
        inside = np.diag(gram) @ np.diag(gram) / sigma**2
        above = (np.triu(gram, 1) ** 2).sum() / (sigma**2 / 2)
        largest = max(largest, float(inside + above + (np.asarray(moved.cross.value, float) ** 2).sum() / tau**2))
    assert 0.98 * float(claim.mu) ** 2 < largest <= float(claim.mu) ** 2 * (1 + 1e-12)


def test_persons_are_protected_with_all_their_rows() -> None:
    schema = Schema([*SCHEMA.columns, PersonId("who", max_rows=3)])
    prepared = query().prepare(schema)
    single = query().prepare(SCHEMA)
    assert prepared.claims.unit == schema.unit
    assert float(prepared.gram_scale) == pytest.approx(3 * float(single.gram_scale))


def test_through_the_door() -> None:
    session = SeededSession(table(), budget=ApproxDP(3, "1e-6"), seed=1)
    release = session.release(query())
    assert isinstance(release, Release)
    assert release.labels == ("a", "b", "intercept")
    assert release.circumstances.numerics == "exact"
    assert outcome_from_json(release.to_json()).to_json() == release.to_json()
    with pytest.raises(BudgetError):
        Session(table(), budget=ApproxDP("0.1", "1e-6")).release(query())
    assert isinstance(query().release(table()), Release)


def test_it_can_be_tuned_honestly() -> None:
    """A penalty chosen on public rows: the search is charged, and costs more than one fit."""
    rows, target = generated(200, 2, seed=9)
    points = np.column_stack([rows, np.ones(200)])
    score = PublicScore(lambda answer: -float(np.mean((points @ answer.value - target) ** 2)), "error on public rows")
    search = Selection(candidates=[query(penalty=p) for p in (0, 10, 1000)], score=score, delta="1e-6")
    release = seeded_release(search, table(), seed=5)
    assert isinstance(release, Release)
    assert not release.guarantee.implies(query().prepare(SCHEMA).claims.approx_at("1e-6"))  # type: ignore[arg-type]


def test_mistakes_are_named() -> None:
    for wrong in ({"mu": None}, {"rho": 1}, {"mu": None, "epsilon": 1}, {"gram_share": 1}, {"feature_norm": 0}):
        with pytest.raises(RangeError):
            query(**wrong)
    with pytest.raises(SchemaError, match="bound"):
        query(target="a", features=["b"]).prepare(SCHEMA)
    with pytest.raises(SchemaError, match="far from 0"):
        query().prepare(Schema([Number("a"), Number("b"), Number("y", lower=10**6, upper=10**6 + 1)]))
    with pytest.raises(SchemaError, match="target_bounds"):
        adassp((np.ones((2, 1)), np.ones(2)), feature_norm=1, mu=1, source=Source(SeededEntropy(0)))
    with pytest.raises(SchemaError, match="features"):
        adassp(table(), feature_norm=1, mu=1, source=Source(SeededEntropy(0)))
    with pytest.raises(SchemaError, match="Table"):
        query().declare()
    assert isinstance(
        adassp(table(), features=["a"], target="y", feature_norm=1, mu=1, source=Source(SeededEntropy(0))), LinearFit
    )


def test_directions_that_the_data_determine_are_not_shrunk() -> None:
    """One strong and one weak direction: the paper's penalty shrinks both, ours the weak one alone."""
    gram, cross = np.diag([1000.0, 1.0]), np.array([1000.0, 1.0])
    ours = ridge_from_noisy(gram, cross, noise_scale=100.0)
    paper = ridge_from_noisy(gram, cross, noise_scale=100.0, shrinkage="uniform")
    level = 100 * (2 + np.sqrt(2 * np.log(40)))
    assert ours[0] == pytest.approx(1.0)
    assert ours[1] == pytest.approx(1 / (level / 2))
    assert paper == pytest.approx([1000 / (999 + level), 1 / level])
    assert ridge_from_noisy(gram, cross, noise_scale=1e-9, penalty=1.0) == pytest.approx([1000 / 1001, 0.5])
    with pytest.raises(RangeError, match="directions"):
        AdaSSP(features=["x"], target="y", feature_norm=1, mu=1, shrinkage="direction")  # type: ignore[arg-type]


def test_directions_beat_one_penalty_for_all_on_generated_rows() -> None:
    rng = np.random.default_rng(5)
    rows = rng.uniform(-0.3, 0.3, size=(4000, 8)) * np.array([3, 1, 1, 1, 1, 1, 1, 1]) / 2
    target = np.clip(rows @ np.array([1.0, 0.3, -0.3, 0.2, 0, 0, 0, 0]), -1, 1)
    errors: dict[str, list[float]] = {"directions": [], "uniform": []}
    for shrinkage, found in errors.items():
        for seed in range(10):
            with Source(SeededEntropy(seed)) as source:
                fit = adassp(
                    (rows, target), feature_norm=1, target_bounds=(-1, 1), mu="0.1", shrinkage=shrinkage, source=source
                )
            found.append(float(np.mean((fit.predict(rows) - target) ** 2)))
    assert np.median(errors["directions"]) < 0.9 * np.median(errors["uniform"])
