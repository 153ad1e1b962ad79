"""What `prediction=` takes becomes coefficients and rows in the units of a fit, or is refused before any charge."""

import pickle
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.regression.estimators.table_encoding import TableExamples, encoding_for, labels_of
from sidelight.regression.model_predictions import (
    PredictedCoefficients,
    PredictedFit,
    PublicExamples,
    are_rows_of,
    declared_rows,
    refuse_private_rows,
)
from sidelight.regression.prediction_sources import predictions_of
from sidelight.testing import seeded_release

RNG = np.random.default_rng(5)
ROWS = RNG.uniform(-1, 1, size=(60, 3))
TARGETS = 20 + 5 * ROWS[:, 0]
NUMBER = PredictedFit(features=3, data_norm=Fraction(2), target_range=(0.0, 40.0), middle=20.0, half=20.0)
TWO = PredictedFit(features=3, data_norm=Fraction(2), classes=("no", "yes"))
MANY = PredictedFit(features=3, data_norm=Fraction(2), classes=(0, 1, 2))


def public(rows, words="a published table"):
    return sl.PublicData(rows, words)


def only(given, wanted=NUMBER):
    found = predictions_of(given, wanted)
    assert len(found.candidates) == 1
    return found.candidates[0]


def table_fit(*, target="renewed"):
    schema = sl.Schema(
        [
            sl.Number("age", lower=20, upper=80),
            sl.Category("job", ["cook", "nurse"], other=None),
            sl.Category("renewed", ["no", "yes"], other=None),
            sl.Number("income", lower=0, upper=100),
        ]
    )
    names = ["age", "job"]
    encoding = encoding_for(schema, target=target, features=names)
    if target == "income":
        examples = TableExamples(encoding, schema.number("income"))
        more = {"target_range": (0.0, 100.0), "middle": 50.0, "half": 50.0}
    else:
        column = next(each for each in schema.columns if each.name == "renewed")
        examples = TableExamples(encoding, column, labels_of(column, np.array(["no", "yes"])))
        more = {"classes": ("no", "yes")}
    units = encoding.units
    return PredictedFit(
        features=3, names=units.names, data_norm=Fraction(1), units=units, read_table=examples.public_examples, **more
    )


# --- right ones ---------------------------------------------------------------------------------------------------


def test_coefficients_come_into_the_units_of_the_fit() -> None:
    found = only(sl.CoefficientPrediction([1.0, 0.0, -2.0], 30.0, scale=[1, 2, 3, 4]))
    assert isinstance(found, PredictedCoefficients)
    np.testing.assert_allclose(found.theta[:, 0], [0.1, 0.0, -0.2, 0.5])  # w·2/20, (30 - 20)/20
    np.testing.assert_allclose(np.square(found.basis) @ found.variances[:, 0], [0.01, 0.04, 0.09, 0.04])
    # what both predict for a row is the same
    row = np.array([0.3, -1.0, 0.7])
    assert row / 2 @ found.theta[:3, 0] + found.theta[3, 0] == pytest.approx((row @ [1, 0, -2] + 30 - 20) / 20)


def test_coefficients_of_columns_by_name_are_for_the_columns_as_they_are() -> None:
    wanted = table_fit(target="income")
    given = sl.CoefficientPrediction(
        {"age": 0.5, "job=nurse": 7.0}, 10.0, scale=dict.fromkeys((*wanted.names, "intercept"), 1.0)
    )
    found = only(given, wanted)
    encoding_rows, _ = wanted.read_table(public({"age": [20, 50, 71.0], "job": ["cook", "nurse", "cook"]}))
    outputs = encoding_rows @ found.theta[:-1, 0] + found.theta[-1, 0]
    np.testing.assert_allclose(outputs * 50 + 50, [20.0, 42.0, 45.5], rtol=1e-5)
    # the scales, too: Var(w·age + b) over independent errors of deviation 1 is age² + 1
    spread = np.square(np.hstack([encoding_rows, np.ones((3, 1))]) @ found.basis) @ found.variances[:, 0]
    np.testing.assert_allclose(spread * 50**2, [20**2 + 1 + 1, 50**2 + 2, 71**2 + 2], rtol=1e-4)


def test_public_rows_are_read_with_the_target_last_as_a_pair_and_by_name() -> None:
    whole = only(public(np.column_stack([ROWS, TARGETS])))
    pair = only((public(ROWS), public(TARGETS)))
    assert isinstance(whole, PublicExamples)
    assert isinstance(pair, PublicExamples)
    np.testing.assert_array_equal(whole.features, pair.features)
    np.testing.assert_array_equal(whole.targets, pair.targets)
    assert np.linalg.norm(whole.features, axis=1).max() <= 1
    np.testing.assert_allclose(whole.targets, np.clip(TARGETS, 0, 40) / 20 - 1)
    frame = {"b": ROWS[:, 1], "y": TARGETS, "a": ROWS[:, 0], "c": ROWS[:, 2]}
    named = only(public(frame), replace(NUMBER, names=("a", "b", "c")))
    np.testing.assert_array_equal(named.features, whole.features)
    np.testing.assert_array_equal(named.targets, whole.targets)


def test_public_labels_may_be_texts_and_missing_values_drop_their_row() -> None:
    labels = np.where(ROWS[:, 0] > 0, "yes", "no").astype(object)
    labels[3] = "perhaps"
    rows = ROWS.copy()
    rows[5, 1] = np.nan
    found = only((public(rows), public(labels)), TWO)
    assert found.size == 58
    assert set(found.targets) == {0.0, 1.0}
    np.testing.assert_array_equal(found.targets[:3], (ROWS[:3, 0] > 0).astype(float))


def test_public_rows_of_a_table_are_encoded_as_the_private_ones() -> None:
    frame = {"age": [25.0, 70.0] * 10, "job": ["cook", "nurse"] * 10, "renewed": ["no", "yes"] * 10}
    found = only(public(frame), table_fit())
    np.testing.assert_allclose(
        found.features[:2], [[-25 / 30 / 2**0.5, 2**-0.5, 0], [20 / 30 / 2**0.5, 0, 2**-0.5]], rtol=1e-5
    )
    np.testing.assert_array_equal(found.targets[:2], [0, 1])
    del frame["renewed"]
    without = predictions_of(public(frame), table_fit())
    assert without.candidates == ()
    assert without.rows.size == 20


def test_rows_without_targets_are_no_candidate_but_say_how_features_vary() -> None:
    found = predictions_of(public(ROWS), NUMBER)
    assert found.candidates == ()
    assert found.rows is not None
    assert "without targets" in found.described["description"]


def test_several_predictions_keep_their_order_and_the_longest_rows_are_the_geometry() -> None:
    both = predictions_of(
        [
            public(np.column_stack([ROWS, TARGETS])[:20]),
            sl.CoefficientPrediction([1, 2, 3]),
            (public(ROWS), public(TARGETS)),
        ],
        NUMBER,
    )
    assert [type(each).__name__ for each in both.candidates] == [
        "PublicExamples",
        "PredictedCoefficients",
        "PublicExamples",
    ]
    assert both.rows is both.candidates[2]
    assert both.described["origin"]["kind"] == "guess"
    assert predictions_of(None, NUMBER).described is None


def fitted(**more):
    X = np.clip(RNG.normal(size=(500, 3)) / 4, -1, 1)
    model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=["no", "yes"], **more)
    return model.fit(X, np.where(X[:, 0] > 0, "yes", "no"))


def test_an_earlier_model_is_a_prediction() -> None:
    model = fitted()
    found = only(model, TWO)
    np.testing.assert_allclose(found.theta[:-1, 0], 2 * model.coef_[0])
    np.testing.assert_allclose(found.theta[-1], model.intercept_)
    assert not found.seeded
    same = only(model.release_, TWO)
    np.testing.assert_array_equal(found.theta, same.theta)
    assert "which no ledger names" in predictions_of(model, TWO).described["description"]


def test_a_release_in_the_columns_own_units_is_a_prediction() -> None:
    schema = [
        sl.Number("age", lower=20, upper=80),
        sl.Category("job", ["cook", "nurse"], other=None),
        sl.Category("renewed", ["no", "yes"], other=None),
    ]
    rows = {"age": np.tile([25.0, 70.0], 500), "job": ["cook", "nurse"] * 500, "renewed": ["no", "yes"] * 500}
    table = sl.Table(rows, schema=schema)
    model = sl.LogisticRegression(epsilon=1, delta="1e-6")
    release = sl.ModelQuery(model=model, target="renewed").release(table)
    wanted = table_fit()
    found = only(release, wanted)
    own = wanted.units.own(found.theta[:-1].T, found.theta[-1])
    np.testing.assert_allclose(own, release.value, rtol=1e-9)


AGES = RNG.uniform(0, 100, size=(2, 2000))
OLD = [sl.Number(name, lower=0, upper=100) for name in ("a", "b", "y")]


@pytest.fixture(scope="module")
def of_a_table():
    """An earlier model of y = 0.8·a + 0.1·b."""
    rows = {"a": AGES[0], "b": AGES[1], "y": 0.8 * AGES[0] + 0.1 * AGES[1]}
    return sl.LinearRegression(epsilon=20, delta="1e-6").fit_table(sl.Table(rows, schema=OLD), target="y")


def of_columns(columns, given):
    """Return what a prediction says of rows, as a fit of a table of these columns reads it."""
    encoding = encoding_for(sl.Schema(columns), target="y", features=None)
    more = {"target_range": (0.0, 100.0), "middle": 50.0, "half": 50.0, "units": encoding.units}
    fit = PredictedFit(features=len(encoding.names), names=encoding.names, data_norm=Fraction(1), **more)
    found = only(given, fit)
    table = sl.Table({each.name: AGES["ab".index(each.name)] for each in columns[:-1]}, schema=columns[:-1])
    return found, encoding.matrix(table) @ found.theta[:-1, 0] * 50 + found.theta[-1, 0] * 50 + 50


def test_a_release_of_a_table_is_read_as_its_model(of_a_table) -> None:
    release = sl.Release.from_json(of_a_table.release_.to_json())
    outputs = of_a_table._rows({"a": AGES[0], "b": AGES[1]}) @ np.ravel(of_a_table.coef_) + of_a_table.intercept_
    wide = [sl.Number("a", lower=-50, upper=1000), *OLD[1:]]
    for columns in (OLD, wide):  # as it was fitted, and in the units of other ranges
        for given in (of_a_table, release):
            found, said = of_columns(columns, given)
            np.testing.assert_allclose(said, outputs, atol=0.01)  # cells are coded in 2**20 steps
            assert (found.basis is not None) == (columns is OLD)
    for columns in ([OLD[1], OLD[0], OLD[2]], [OLD[0], sl.Number("c", lower=0, upper=100), OLD[2]]):
        for given in (of_a_table, release):
            with pytest.raises(RangeError, match="in the same order"):
                of_columns(columns, given)
    with pytest.raises(RangeError, match="a table, this one is fitted to an array"):
        predictions_of(release, replace(NUMBER, features=2))
    older = replace(release, query={name: each for name, each in release.query.items() if name != "columns"})
    with pytest.raises(RangeError, match="does not say for which"):
        of_columns(OLD, older)
    assert only(older, replace(NUMBER, features=2)).theta.shape == (3, 1)  # it may be of an array


def test_earlier_models_of_dates_count_from_their_own_start() -> None:
    def declared(year, unit="day"):
        when = sl.Date("when", start=f"{year}-01-01", end=f"{year}-12-31", unit=unit)
        return [when, sl.Number("y", lower=0, upper=100)]

    def said(given, columns):
        encoding = encoding_for(sl.Schema(columns), target="y", features=None)
        more = {"target_range": (0.0, 100.0), "middle": 50.0, "half": 50.0, "units": encoding.units}
        found = only(given, PredictedFit(features=1, names=encoding.names, data_norm=Fraction(1), **more))
        day = encoding.matrix(sl.Table({"when": np.array(["2021-07-02"], "M8[D]")}, schema=columns[:1]))
        return float((day @ found.theta[:-1, 0])[0] + found.theta[-1, 0]) * 50 + 50

    days = np.arange(365)
    table = {"when": np.datetime64("2019-01-01") + np.tile(days, 10), "y": np.tile(days, 10) / 10.0}
    earlier = sl.Table(table, schema=declared(2019))
    model = sl.LinearRegression(epsilon=50, delta="1e-6").fit_table(earlier, target="y")
    slope, start = model.release_.value["coefficients"], model.release_.value["intercept"]
    query = sl.ModelQuery(model=sl.LinearRegression(epsilon=50, delta="1e-6"), target="y").release(earlier)
    own = model.encoding_.units.own(np.atleast_2d(slope), np.atleast_1d(start) + 50)
    for given, (line, constant) in ((model, own), (model.release_, own), (query, query.value)):
        assert said(given, declared(2021)) == pytest.approx(constant + line * (731 + 182), rel=1e-5)
        assert said(given, declared(2021)) > 80  # the line of 2019 goes on: 91, and not 18 again
        with pytest.raises(RangeError, match="'when' in days, and here it counts in hours"):
            said(given, declared(2021, "hour"))
        with pytest.raises(RangeError, match="in days, and here it counts in numbers"):
            of_columns([sl.Number("when", lower=0, upper=364), OLD[2]], given)
    older = replace(query, query={name: each for name, each in query.query.items() if name != "columns"})
    with pytest.raises(RangeError, match="does not say for which"):
        said(older, declared(2019))


def test_a_release_of_an_array_is_not_of_a_table_or_of_other_names() -> None:
    import pandas as pd

    model = sl.LinearRegression(epsilon=1, delta="1e-6", data_norm=2, target_range=(0, 40))
    release = model.fit(pd.DataFrame(ROWS, columns=["a", "b", "c"]), TARGETS).release_
    for names in (None, ("a", "b", "c")):
        assert only(release, replace(NUMBER, names=names)).theta.shape == (4, 1)
    with pytest.raises(RangeError, match="in the same order"):
        predictions_of(release, replace(NUMBER, names=("c", "b", "a")))
    with pytest.raises(RangeError, match="it is of an array"):
        predictions_of(release, table_fit(target="income"))


def test_stored_noise_is_carried_through_the_units() -> None:
    model = fitted()
    ways, centre = RNG.normal(size=(3, 3)), RNG.normal(size=3) / 4
    value = {**model.release_.value, "map": ways, "centre": centre, "noise": np.array([0.1, 0.2, 0.3, 0.4])}
    found = only(replace(model.release_, value=value), TWO)
    # simulate: coordinates with these variances, to coefficients, to this fit's units (data_norm 2)
    draws = RNG.normal(size=(200_000, 4)) * np.sqrt([0.1, 0.2, 0.3, 0.4])
    weights = draws[:, :3] @ ways.T
    constants = draws[:, 3] - weights @ centre
    simulated = np.cov(np.column_stack([2 * weights, constants]).T)
    stated = found.basis @ np.diag(found.variances[:, 0]) @ found.basis.T
    np.testing.assert_allclose(stated, simulated, atol=0.05 * np.abs(simulated).max())
    older = only(sl.CoefficientPrediction(replace(model.release_, value=value), age=2), TWO)
    np.testing.assert_allclose(older.variances, 3 * found.variances)


def test_stated_predictions_are_copied_and_pickled() -> None:
    given = sl.CoefficientPrediction([1.0, 2.0, 3.0], 1.0, origin="a paper")
    again = pickle.loads(pickle.dumps(given))
    np.testing.assert_array_equal(only(again).theta, only(given).theta)
    rows = pickle.loads(pickle.dumps(public(ROWS)))
    assert len(rows.rows) == 60


# --- wrong ones ---------------------------------------------------------------------------------------------------

WRONG = [
    (sl.CoefficientPrediction([1.0, 2.0]), NUMBER, "one number a feature, 3"),
    (sl.CoefficientPrediction([1.0, 2.0, float("nan")]), NUMBER, "finite"),
    (sl.CoefficientPrediction(["a", "b", "c"]), NUMBER, "must be numbers"),
    (sl.CoefficientPrediction([1, 2, 3], [1, 2]), NUMBER, "intercept has 2"),
    (sl.CoefficientPrediction([1, 2, 3], scale=-1), NUMBER, "above 0"),
    (sl.CoefficientPrediction([1, 2, 3], scale=[1, 1, 1]), NUMBER, "scale is one number for all, or 4"),
    (sl.CoefficientPrediction({"a": 1}), NUMBER, "have none"),
    (sl.CoefficientPrediction({"agee": 1}), table_fit(), "did you mean"),
    (sl.CoefficientPrediction([[1, 2, 3], [1, 2, 3]], [0, 0]), MANY, "3 classes"),
    (sl.CoefficientPrediction([1, 2, 3], classes=["a", "b"]), TWO, "must be the same"),
    (sl.CoefficientPrediction([1, 2, 3], classes=["a", "b"]), NUMBER, "model of classes"),
    (sl.CoefficientPrediction([1, 2, 3], 5.0), replace(NUMBER, has_intercept=False, middle=0.0), "intercept"),
    (public(ROWS[:, :2]), NUMBER, "4 in all"),
    (public(np.column_stack([ROWS, TARGETS])[:9]), NUMBER, "at least 10"),
    ((public(ROWS), public(TARGETS[:50])), NUMBER, "60 public rows and 50"),
    ((public(ROWS), public(np.array(["a", "b"] * 30))), TWO, "none of the declared classes"),
    ((public(ROWS), public(np.array(["no"] * 60))), TWO, "one class"),
    ((public(ROWS), TARGETS), NUMBER, "a tuple"),
    (public(ROWS), table_fit(), "names of its columns"),
    (public({"age": [1.0] * 20, "work": ["cook"] * 20}), table_fit(), "'job'"),
    (ROWS, NUMBER, "sl.PublicData"),
    ([], NUMBER, "between 1 and"),
    ("rows.csv", NUMBER, "sl.PublicData"),
    (sl.LogisticRegression(), TWO, "not fitted"),
]


@pytest.mark.parametrize(("given", "wanted", "message"), WRONG, ids=range(len(WRONG)))
def test_what_makes_no_sense_is_refused(given, wanted, message) -> None:
    with pytest.raises((RangeError, SchemaError), match=message):
        predictions_of(given, wanted)


def test_models_of_other_libraries_tables_and_other_releases_are_answered_with_a_hint() -> None:
    from sklearn.linear_model import LinearRegression

    with pytest.raises(RangeError, match="CoefficientPrediction"):
        predictions_of(LinearRegression().fit(ROWS, TARGETS), NUMBER)
    with pytest.raises(RangeError, match="private"):
        predictions_of(sl.Table({"a": [1.0]}, schema=[sl.Number("a")]), NUMBER)
    with pytest.raises(RangeError, match="no prediction of a linear model"):
        predictions_of(sl.Quantiles([0.5], epsilon=1, granularity=1).release([1, 2, 3]), NUMBER)
    with pytest.raises(RangeError, match="age"):
        sl.CoefficientPrediction([1.0], age=2)


def test_other_classes_and_widths_of_an_earlier_model_are_refused() -> None:
    model = fitted()
    with pytest.raises(RangeError, match="must be the same"):
        predictions_of(model, replace(TWO, classes=("a", "b")))
    with pytest.raises(RangeError, match="model of classes"):
        predictions_of(model, NUMBER)
    with pytest.raises(RangeError, match=r"3 feature\(s\)"):
        predictions_of(model, replace(TWO, features=2))
    with pytest.raises(RangeError, match="array"):
        predictions_of(model, table_fit())


def test_a_release_with_seeded_noise_is_branded() -> None:
    query = sl.ModelQuery(model=sl.LogisticRegression(epsilon=1, delta="1e-6"), target="renewed")
    schema = [
        sl.Number("age", lower=20, upper=80),
        sl.Category("job", ["cook", "nurse"], other=None),
        sl.Category("renewed", ["no", "yes"], other=None),
    ]
    rows = {"age": np.tile([25.0, 70.0], 50), "job": ["cook", "nurse"] * 50, "renewed": ["no", "yes"] * 50}
    release = seeded_release(query, sl.Table(rows, schema=schema), seed=1)
    found = predictions_of(release, table_fit())
    assert "NOT PRIVATE" in found.described["description"]
    assert found.described["entropy"] == "seeded: not private"


@pytest.mark.parametrize("rows", [0, -5, 2.5, "many", True, float("nan"), 10**16])
def test_rows_without_sense_are_refused(rows) -> None:
    with pytest.raises(RangeError, match="rows must be a whole number"):
        declared_rows(rows)


def test_more_rows_than_there_can_be_are_refused() -> None:
    assert declared_rows(np.int64(7), rows_at_most=7) == 7
    with pytest.raises(RangeError, match="rows_at_most"):
        declared_rows(8, rows_at_most=7)


# --- public rows that are private ones ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cut",
    [
        lambda X: X,
        lambda X: X[:30],
        lambda X: X[::2].copy(),
        lambda X: X[::-1].astype(np.float32),
        lambda X: np.asfortranarray(X[RNG.permutation(len(X))[:40]]),
        lambda X: np.vstack([X[:40], RNG.normal(size=(20, 3))]),
    ],
)
def test_public_rows_cut_from_the_private_ones_are_refused(cut) -> None:
    private = RNG.normal(size=(300, 3))
    part = cut(private)
    for given in (public(part), (public(part), public(np.arange(len(part), dtype=float)))):
        with pytest.raises(RangeError, match="Nothing was charged"):
            refuse_private_rows(predictions_of(given, NUMBER).public, private)


def test_a_view_is_refused_by_its_memory_where_contents_tell_nothing() -> None:
    private = np.tile([[0.5, 0.25, 1.0], [0.0, 0.5, 1.0]], (50, 1))  # two kinds of rows
    found = predictions_of(public(private[20:60]), NUMBER)
    with pytest.raises(RangeError, match="Nothing was charged"):
        refuse_private_rows(found.public, private)
    refuse_private_rows(predictions_of(public(np.array(private[20:60])), NUMBER).public, np.array(private[:20]))


def test_other_rows_of_the_same_law_pass_and_odd_private_things_raise_for_nobody() -> None:
    found = predictions_of(public(RNG.uniform(-1, 1, (300, 3))), NUMBER)
    for private in (
        RNG.normal(size=(300, 3)),
        np.full((3, 3), np.nan),
        np.array([[object()] * 3]),
        None,
        np.empty((0, 3)),
        "x",
    ):
        refuse_private_rows(found.public, private)
    one = replace(NUMBER, features=1)
    private = RNG.uniform(-1, 1, (300, 1))
    with pytest.raises(RangeError):
        refuse_private_rows(predictions_of(public(private[:100].tolist()), one).public, private)
    refuse_private_rows(predictions_of(public(RNG.uniform(-1, 1, (100, 1))), one).public, private)


def test_public_rows_follow_the_policies_of_the_schema() -> None:
    """Missing cells are dropped or filled, undeclared labels become the other one: as private rows."""
    schema = sl.Schema(
        [
            sl.Number("age", lower=20, upper=80, missing=sl.Fill(50)),
            sl.Number("hours", lower=0, upper=80),
            sl.Category("job", ["cook", "nurse", "other"], other="other"),
            sl.Number("income", lower=0, upper=100),
        ]
    )
    encoding = encoding_for(schema, target="income", features=None)
    examples = TableExamples(encoding, schema.number("income"))
    frame = {
        "age": [30.0, np.nan, 60.0, 40.0] * 10,
        "hours": [40.0, 40.0, np.nan, 10.0] * 10,
        "job": ["cook", "pilot", "nurse", "nurse"] * 10,
        "income": [10.0, 20.0, 30.0, 400.0] * 10,
    }
    rows, targets = examples.public_examples(public(frame))
    private = sl.Table(frame, schema=schema)
    both = list(examples.batches(private))
    np.testing.assert_array_equal(rows, np.concatenate([part for part, _ in both]))
    np.testing.assert_array_equal(targets, np.concatenate([part for _, part in both]))
    assert len(rows) == 30  # no hours: left out
    assert rows[1, 0] == 0  # an age of 50, the middle
    np.testing.assert_array_equal(rows[1, 2:] > 0, [False, False, True])
    assert targets.max() == pytest.approx(100)


ODD_CELLS = [np.complex128(1 + 1j), np.longdouble("1e400"), np.ma.masked]


@pytest.mark.parametrize("cell", ODD_CELLS, ids=["complex", "beyond a double", "masked"])
def test_no_cell_warns_while_public_rows_are_compared(cell) -> None:
    """This is before the charge: a warning would tell that the cell is there."""
    rows = [list(row) for row in ROWS]
    rows[7][1] = cell
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not are_rows_of(RNG.normal(size=(30, 3)), rows)


def test_coefficients_beyond_all_sums_are_refused_before_the_charge() -> None:
    narrow = replace(NUMBER, target_range=(0.0, 1.2e-208), middle=6e-209, half=6e-209)
    with pytest.raises(RangeError, match="too large"):
        predictions_of(sl.CoefficientPrediction([1e100, 0, 0]), narrow)
