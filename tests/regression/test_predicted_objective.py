"""Predictions in objective perturbation, on every model: what they cost, what they are worth, and what is refused."""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import BudgetError, RangeError, SidelightError
from sidelight.guarantees.conversions import gdp_within
from sidelight.noise import Source
from sidelight.privacy_page import report_bound
from sidelight.regression.losses import LogCoshLoss, LogisticLoss, PoissonLoss, SmoothedHingeLoss, SoftmaxLoss
from sidelight.regression.model_predictions import PredictedFit
from sidelight.regression.predicted_objective import plan_with_predictions, row_losses
from sidelight.regression.prediction_sources import predictions_of
from sidelight.regression.rows import BoundedArrays, RowPolicy
from sidelight.testing import SeededEntropy

RNG = np.random.default_rng(31)
D = 4
WEIGHTS = np.array([3.0, -2.0, 1.5, 0.5])


def rows_of(n, seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, size=(n, D)) / 2, rng


def number(n, seed):
    X, rng = rows_of(n, seed)
    return X, X @ WEIGHTS + 0.3 * rng.normal(size=n)


def classes(n, seed):
    X, rng = rows_of(n, seed)
    return X, (X @ WEIGHTS * 2 + rng.logistic(size=n) > 0).astype(int)


def three(n, seed):
    X, rng = rows_of(n, seed)
    scores = np.stack([X @ WEIGHTS, -(X @ WEIGHTS), np.zeros(n)], axis=1) * 3
    return X, np.argmax(scores + rng.gumbel(size=(n, 3)), axis=1)


def counts(n, seed):
    X, rng = rows_of(n, seed)
    return X, rng.poisson(np.exp(X @ WEIGHTS * 0.4 + 0.5))


PRICE = {"epsilon": 1, "delta": "1e-6", "data_norm": 1}
MODELS = {
    "regression": (
        number,
        lambda **more: sl.LinearRegression(**PRICE | more, target_range=(-4, 4), solver="objective", loss="log_cosh"),
    ),
    "huber": (
        number,
        lambda **more: sl.LinearRegression(**PRICE | more, target_range=(-4, 4), solver="objective", loss="huber"),
    ),
    "logistic": (classes, lambda **more: sl.LogisticRegression(**PRICE | more, classes=[0, 1], solver="objective")),
    "softmax": (three, lambda **more: sl.LogisticRegression(**PRICE | more, classes=[0, 1, 2], solver="objective")),
    "svc": (classes, lambda **more: sl.LinearSVC(**PRICE | more, classes=[0, 1])),
    "poisson": (counts, lambda **more: sl.PoissonRegressor(**PRICE | more, largest_count=12)),
}


def pair(rows, targets):
    return sl.PublicData(rows, "a published sample"), sl.PublicData(targets, "a published sample")


@pytest.mark.parametrize("name", list(MODELS))
def test_public_rows_help_every_model(name):
    draw, make = MODELS[name]
    (X, y), (P, yp), (T, yt) = draw(600, 1), draw(300, 2), draw(4000, 3)
    alone, helped = [], []
    for seed in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sl.NotPrivateWarning)
            alone.append(make(epsilon="0.2", random_state=seed).fit(X, y).score(T, yt))
            model = make(epsilon="0.2", random_state=seed, prediction=pair(P, yp), rows=600).fit(X, y)
        helped.append(model.score(T, yt))
        assert model.prediction_.given == 1
        assert "300 public rows" in model.prediction_.description
    assert np.mean(helped) > np.mean(alone) + 0.03
    assert model.privacy_.epsilon == Fraction(1, 5)


@pytest.mark.parametrize("name", list(MODELS))
def test_stated_coefficients_and_earlier_models_are_taken(name):
    draw, make = MODELS[name]
    X, y = draw(400, 1)
    first = make().fit(X, y)
    other = draw(400, 5)
    again = make(prediction=first, rows=400).fit(*other)
    stated = sl.CoefficientPrediction(
        np.atleast_2d(first.coef_) if name == "softmax" else first.coef_, first.intercept_
    )
    both = make(prediction=[stated, first, pair(*draw(60, 6))]).fit(*other)
    assert again.prediction_.given == 1
    assert both.prediction_.given == 3
    assert both.prediction_.chosen in (0, 1, 2, None)
    assert np.isfinite(both.coef_).all()


def test_a_good_guess_with_a_scale_is_believed_and_a_bad_one_is_not_chosen():
    X, y = number(5000, 1)
    (T, yt) = number(4000, 2)
    make = MODELS["regression"][1]
    right = sl.CoefficientPrediction(WEIGHTS, 0.0, scale=0.2)
    wrong = sl.CoefficientPrediction(-5 * WEIGHTS, 3.0, scale=0.2)
    good, alone = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sl.NotPrivateWarning)
        for seed in range(4):
            good.append(make(epsilon="0.1", rows=5000, prediction=right, random_state=seed).fit(X, y).score(T, yt))
            alone.append(make(epsilon="0.1", random_state=seed).fit(X, y).score(T, yt))
        bad = make(epsilon=1, rows=5000, prediction=wrong, random_state=1).fit(X, y)
    assert np.mean(good) > np.mean(alone)
    assert bad.prediction_.chosen is None
    assert bad.score(T, yt) > 0.5


def test_epsilon_is_divided_and_adds_up_exactly():
    X, y = number(400, 1)
    model = MODELS["regression"][1](prediction=pair(*number(50, 2))).fit(X, y)
    request = model.release_.query
    parts = [Fraction(request[name]) for name in ("fit_epsilon", "choice_epsilon", "count_epsilon")]
    assert sum(parts) <= 1
    assert sum(parts) > Fraction(999999, 1000000)
    mu = float(gdp_within(Fraction(1), Fraction(1, 10**6)))
    assert float(parts[1]) == pytest.approx(0.119454923589, abs=1e-9)  # reference of the specification
    assert float(parts[2]) == pytest.approx(math.sqrt(0.03) * mu, rel=1e-9)
    guarantee = model.guarantee_.approx_at("1e-6")
    assert guarantee.epsilon == 1
    declared = MODELS["regression"][1](prediction=pair(*number(50, 2)), rows=400).fit(X, y)
    assert declared.release_.query["count_epsilon"] == "0"
    assert declared.prediction_.rows == 400
    assert declared.privacy_.noise_scale < model.privacy_.noise_scale
    assert str(declared.prediction_)


def test_the_composed_losses_are_within_the_price():
    X, y = classes(400, 1)
    model = MODELS["logistic"][1](prediction=pair(*classes(50, 2))).fit(X, y)
    assert model.privacy_.pld().get_epsilon_for_delta(1e-6) <= 1.0001


def test_a_session_is_charged_once_for_all_of_it():
    table = sl.Table({"row": np.zeros(400)}, schema=[sl.Number("row")])
    session = sl.Session(table, budget=sl.ApproxDP("1.2", "1e-5"))
    X, y = classes(400, 1)
    MODELS["logistic"][1](prediction=pair(*classes(50, 2)), session=session).fit(X, y)
    with pytest.raises(BudgetError):
        MODELS["logistic"][1](epsilon="0.3", session=session).fit(X, y)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"prediction": sl.CoefficientPrediction([1.0])}, "one number a feature"),
        ({"prediction": sl.CoefficientPrediction([1, 2, 3, 4], classes=[0, 2])}, "must be the same"),
        ({"prediction": pair(*classes(8, 2))}, "at least 10"),
        ({"prediction": sl.PublicData(classes(80, 2)[0], "rows")}, "without targets"),
        ({"prediction": pair(*classes(80, 2)), "rows": 0}, "rows must be a whole number"),
        ({"rows": 2.5}, "rows must be a whole number"),
        ({"prediction": pair(*classes(80, 2)), "odds": 0}, "odds"),
        ({"prediction": pair(*classes(80, 2)), "rows": 10, "rows_at_most": 5}, "rows_at_most"),
    ],
)
def test_mistakes_are_refused_before_the_charge(more, message):
    table = sl.Table({"row": np.zeros(400)}, schema=[sl.Number("row")])
    session = sl.Session(table, budget=sl.ApproxDP("1.2", "1e-5"))
    X, y = classes(400, 1)
    for name in ("logistic", "svc"):
        with pytest.raises(RangeError, match=message):
            MODELS[name][1](session=session, **more).fit(X, y)
    MODELS["logistic"][1](session=session).fit(X, y)  # nothing was spent


@pytest.mark.parametrize("kind", ["array", "frame", "list"])
def test_public_rows_that_are_the_private_ones_are_refused_before_the_charge(kind):
    pandas = pytest.importorskip("pandas")
    X, y = classes(400, 1)
    given = {"array": X, "frame": pandas.DataFrame(X), "list": X.tolist()}[kind]
    table = sl.Table({"row": np.zeros(400)}, schema=[sl.Number("row")])
    session = sl.Session(table, budget=sl.ApproxDP("1.2", "1e-5"))
    for part in (X[:100], X[::3].copy(), X):
        with pytest.raises(RangeError, match="Nothing was charged"):
            MODELS["svc"][1](session=session, prediction=pair(part, y[: len(part)])).fit(given, y)
    MODELS["svc"][1](session=session).fit(given, y)


def test_public_rows_of_the_tables_own_rows_are_refused_before_the_charge(tmp_path):
    rng = np.random.default_rng(1)
    frame = {"age": rng.uniform(20, 80, 300), "renewed": rng.choice(["no", "yes"], 300)}
    schema = [sl.Number("age", lower=20, upper=80), sl.Category("renewed", ["no", "yes"], other=None)]
    path = tmp_path / "people.csv"
    path.write_text(
        "age,renewed\n" + "\n".join(f"{a!r},{b}" for a, b in zip(frame["age"].tolist(), frame["renewed"], strict=True))
    )
    table = sl.Table(frame, schema=schema)
    for given in (frame, str(path)):
        model = sl.LinearSVC(epsilon=1, delta="1e-6", prediction=sl.PublicData(given, "a file"))
        with pytest.raises(RangeError, match="Nothing was charged"):
            model.fit_table(table, target="renewed")
    other = {"age": rng.uniform(20, 80, 50), "renewed": rng.choice(["no", "yes"], 50)}
    model = sl.LinearSVC(epsilon=1, delta="1e-6", prediction=sl.PublicData(other, "another file"))
    assert model.fit_table(sl.Table(frame, schema=schema), target="renewed").prediction_.given == 1


def test_a_model_with_seeded_noise_is_no_prediction_of_a_private_one():
    X, y = classes(400, 1)
    make = MODELS["svc"][1]
    with pytest.warns(sl.NotPrivateWarning):
        seeded = make(random_state=3).fit(X, y)
    with pytest.raises(RangeError, match="seeded noise"):
        make(prediction=seeded).fit(*classes(400, 2))
    with pytest.warns(sl.NotPrivateWarning):
        assert make(prediction=seeded, random_state=4).fit(*classes(400, 2)).prediction_.given == 1


def test_no_private_row_raises():
    make = MODELS["svc"][1]
    prediction = pair(*classes(50, 2))
    for rows, labels in (
        (np.empty((0, D)), np.empty(0)),
        (np.full((30, D), np.nan), np.zeros(30)),
        (np.full((30, D), 1e300), np.ones(30)),
        (np.zeros((30, D)), np.full(30, 7)),
        (np.array([[None, "x", 1.0, object()]] * 30, dtype=object), np.array([None, "a", 1] * 10, dtype=object)),
    ):
        assert np.isfinite(make(prediction=prediction).fit(rows, labels).coef_).all()


def test_the_report_of_a_person_includes_the_choice():
    X, y = classes(400, 1)
    plain = MODELS["logistic"][1]().fit(X, y)
    model = MODELS["logistic"][1](prediction=pair(*classes(50, 2))).fit(X, y)
    report = model.privacy_report()
    assert report["beforehand"] == pytest.approx(float(model.privacy_.beforehand))
    assert report["beforehand"] >= model.privacy_.beforehand
    assert "beforehand" not in plain.privacy_report()
    row = dict.fromkeys(["x0", "x1", "x2", "x3"], 0.1)
    without = {**report, "beforehand": None}
    assert report_bound(report, row, "1") == pytest.approx(report_bound(without, row, "1") + report["beforehand"])
    assert report_bound(report, row, "1") <= report["maximum"]
    assert report["guarantee"]["epsilon"] == 1


# --- the choice -----------------------------------------------------------------------------------------------------

LOSSES = [
    LogisticLoss(classes=(0, 1)),
    SmoothedHingeLoss(classes=(0, 1)),
    SoftmaxLoss(classes=(0, 1, 2)),
    LogCoshLoss(scale=1, target_range=(-4.0, 4.0)),
    PoissonLoss(largest_count=12, clip=3),
]


def planned(loss, **more):
    classes = getattr(loss, "classes", None)
    wanted = PredictedFit(features=D, data_norm=Fraction(1), classes=classes, target_range=(-4.0, 4.0), half=4.0)
    shape = (len(classes), D) if classes and len(classes) > 2 else (D,)
    given = sl.CoefficientPrediction(RNG.normal(size=shape), np.zeros(shape[:-1]), **more)
    candidates = predictions_of(given, wanted).candidates
    return plan_with_predictions(
        candidates, half=4.0, middle=0.0, loss=loss, features=D, epsilon=1, delta="1e-6", data_norm=1
    )


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_loss_of_a_row_is_a_number_of_its_own(loss):
    """The same loss in 0..1024 among any other rows, block sizes, dense or sparse."""
    from scipy.sparse import csr_array

    plan = planned(loss)
    rows, labels = RNG.normal(size=(101, D)) * 3, RNG.integers(0, 3 if loss.outputs > 1 else 2, 101)
    theta = RNG.normal(size=(D + 1, loss.outputs)) * 4
    whole = row_losses(plan.fit, plan.fit.policy.block(rows, labels), theta, half=4.0)
    assert whole.dtype == np.int64
    assert ((whole >= 0) & (whole <= 1024)).all()
    assert len(np.unique(whole)) > 5
    order = RNG.permutation(101)
    np.testing.assert_array_equal(
        row_losses(plan.fit, plan.fit.policy.block(rows[order], labels[order]), theta, half=4.0), whole[order]
    )
    for size in (1, 7):
        parts = [plan.fit.policy.block(rows[i : i + size], labels[i : i + size]) for i in range(0, 101, size)]
        found = np.concatenate([row_losses(plan.fit, part, theta, half=4.0) for part in parts])
        np.testing.assert_array_equal(found, whole)
    sparse = row_losses(plan.fit, plan.fit.policy.block(csr_array(rows), labels), theta, half=4.0)
    assert np.abs(sparse - whole).max() <= 1  # another order of the same sum
    for far in (1e300, -1e300):
        assert (row_losses(plan.fit, plan.fit.policy.block(rows, labels), theta * far, half=4.0) >= 0).all()


def test_log_ratios_of_the_choice_lie_within_its_epsilon():
    """Neighbouring tables of losses: exact probabilities, all log-ratios in an interval of length ε₀."""
    plan = planned(LogCoshLoss(scale=1, target_range=(-4.0, 4.0)))
    spread, step = float(plan.choice.spread), float(plan.choice.step)
    weights = np.array(plan.choice.weights, float)
    assert weights.tolist() == [9.0, 1.0]

    def chances(losses):
        logs = np.log(weights) - step * np.asarray(losses, float)
        return logs - np.logaddexp.reduce(logs)

    for _ in range(200):
        losses = RNG.integers(0, 10**5, 2)
        ratios = chances(losses) - chances(losses + RNG.integers(0, 1025, 2))
        assert ratios.max() - ratios.min() <= spread * (1 + 1e-9)
        assert np.abs(ratios).max() <= spread * (1 + 1e-9)
    worst = chances([0, 0]) - chances([0, 1024])
    assert worst.max() - worst.min() == pytest.approx(spread)  # it is reached: half the unit's cost would be a bug


def test_the_strength_of_a_prediction_minimises_the_mean_square_error():
    """a = s²/v + σ²/(h·v) against a fine search, and λ* = (m/n)·σ²/s² of public rows."""
    h, v, sigma, s = 50.0, 0.3, 20.0, 0.7

    def error(a):
        return (a * a * v + sigma**2 + h * s**2) / (h + a) ** 2

    best = s**2 / v + sigma**2 / (h * v)
    tried = np.exp(np.linspace(-3, 10, 200_001))
    assert error(best) <= error(tried).min() * (1 + 1e-9)
    plan = planned(LogCoshLoss(scale=1, target_range=(-4.0, 4.0)), scale=0.5)
    (centre,) = plan.centres
    few = centre.regulariser(rows=100.0, noise_scale=5.0, least=0.5)
    many = centre.regulariser(rows=1e6, noise_scale=5.0, least=0.5)
    assert (few.factor >= many.factor).all()
    np.testing.assert_allclose(many.factor**2 + 0.5, np.maximum(centre.precision, 0.5), rtol=0.1)


def test_however_few_rows_are_counted_the_fit_is_certified():
    """The strongest belief that the rule can have, on no rows and on many."""
    for loss in LOSSES:
        plan = planned(loss, scale=1e-9)
        for n in (0, 300):
            rows = BoundedArrays(RNG.normal(size=(n, D)), RNG.integers(0, 2, n), policy=plan.fit.policy)
            with Source(SeededEntropy(f"strong {loss.name} {n}")) as source:
                fit, chosen, counted = plan.run(rows, source=source)
            assert np.isfinite(fit.released).all()
            assert counted > 0
            if chosen is not None:
                assert np.abs(fit.released - plan.centres[0].theta).max() < 1


def test_the_private_number_of_rows_is_never_used():
    """A planted bug would show: with a declared number the strength is the same for any table."""
    plan = replace(planned(LogisticLoss(classes=(0, 1))), rows=500, count=None)
    found = []
    for n in (10, 4000):
        rows = BoundedArrays(np.zeros((n, D)), np.zeros(n), policy=plan.fit.policy)
        with Source(SeededEntropy("rows")) as source:
            fit, chosen, counted = plan.run(rows, source=source)
        assert counted == 500
        if chosen is not None:
            found.append(fit.objective.public.factor)
    for each in found:
        np.testing.assert_array_equal(each, found[0])
    assert found


def test_policies_of_public_rows_are_those_of_private_ones():
    policy = RowPolicy(loss=LogisticLoss(classes=(0, 1)), features=D, data_norm=Fraction(1), intercept=1.0)
    plan = plan_with_predictions(
        predictions_of(
            pair(10 * classes(60, 1)[0], classes(60, 1)[1]),
            PredictedFit(features=D, data_norm=Fraction(1), classes=(0, 1), on_violation="normalize"),
        ).candidates,
        half=1.0, middle=0.0, loss=policy.loss, features=D, epsilon=1, delta="1e-6", data_norm=1,
    )  # fmt: skip
    block = plan.centres[0].block
    assert block.size == 60
    assert np.linalg.norm(block.features, axis=1).max() <= 1


@pytest.mark.parametrize("solver", ["descent", "objective"])
def test_a_key_is_of_one_prediction(solver, tmp_path):
    """A stored model is never the answer to a fit with another prediction."""
    ledger = sl.open_ledger(f"sqlite:///{tmp_path / 'budget.db'}")
    table = sl.Table({"row": np.zeros(400)}, schema=[sl.Number("row")], name="rows")
    session = sl.Session(table, budget=sl.ApproxDP(9, "1e-4"), ledger=ledger)
    X, y = classes(400, 1)

    def fit(prediction):
        model = sl.LogisticRegression(**PRICE, classes=[0, 1], solver=solver, session=session, prediction=prediction)
        return model.fit(X, y, key="model")

    first = fit(sl.CoefficientPrediction(WEIGHTS))
    np.testing.assert_array_equal(fit(sl.CoefficientPrediction(WEIGHTS)).coef_, first.coef_)
    for other in (
        sl.CoefficientPrediction(-WEIGHTS),
        sl.CoefficientPrediction(WEIGHTS, scale=1),
        pair(*classes(50, 2)),
        None,
    ):
        with pytest.raises(SidelightError, match="key"):
            fit(other)
