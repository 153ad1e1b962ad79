"""How good a model will be, before it is fitted: forecast from public numbers and its prediction.

The same fit runs several times with seeded noise on rows that are drawn from what is public (`public_law`), as many as
are stated, and is scored on other such rows. No private row is read, nothing is charged, and nothing is guaranteed: it
is as good as the public rows are like the private ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import positive
from sidelight.guarantees.amounts import whole
from sidelight.noise import Source
from sidelight.predictions import PublicData
from sidelight.records import Category, Number, Schema, Table
from sidelight.regression.coefficient_prediction import CoefficientPrediction
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.estimators.examples import Examples
from sidelight.regression.estimators.fit_query import PreparedFit, SeededBytes
from sidelight.regression.estimators.goal import Goal, check_parameters, needed
from sidelight.regression.estimators.table_encoding import TableEncoding
from sidelight.regression.losses import Floats
from sidelight.regression.model_predictions import PredictedCoefficients, Predictions, PublicExamples, declared_rows
from sidelight.regression.plan import LinearPlan
from sidelight.regression.predicted_objective import PredictedPlan
from sidelight.regression.public_rows import Basis, Dice, Law, LawOfRows, LawOfShape, Population
from sidelight.regression.rows import bounded_rows
from sidelight.session.query import public_numbers

#: What a score is.
Measure = Literal["R²", "accuracy"]
#: Rows of a forecast where their number is not stated.
USUAL_ROWS = 10_000
#: Simulated fits: the next one lies between the least and the largest of nine with probability 8/10.
DRAWS = 9
#: How much larger or smaller an error may be than those of the simulated fits, so that 8 of 10 fits lie between, by
#: what it rests on and what is forecast: chosen on sets as `benchmarks/linear_forecasts.py` generates them, with other
#: seeds; it shows how often the range then holds.
_BEYOND: dict[tuple[Basis, str], float] = {
    ("public rows", "R²"): 1.025,
    ("public rows", "accuracy"): 1.18,
    ("declared shape", "R²"): 1.0,
    ("declared shape", "accuracy"): 1.0,
}
#: Cells of generated rows: beyond, fewer rows are drawn, and the noise falls with them.
_CELLS, _FEWEST_ROWS = 1_000_000, 2000
TEST_ROWS = 2000


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """How good a model is likely to be on new rows. Not a guarantee.

    Args:
        score: The middle of the simulated fits: R² of a regression, the accuracy of a classifier.
        low: The score that another fit falls short of in one of ten cases: of the least of the simulated fits, with
            errors larger by what nine of them did not show on generated sets.
        high: The same above.
        error: The middle of the errors: the root of the mean squared error in the target's unit, or the share of wrong
            labels.
        measure: What the score is.
        alone: What the prediction alone scores on public rows that it has not seen; None without public rows.
        best: What the best model of its kind scores under the same laws; what privacy and the number of rows leave of
            it is `score`.
        rows: How many private rows it is for; of objective perturbation with a prediction at most as many as are drawn.
        stated: Whether that number was stated.
        basis: "public rows", or "declared shape": columns that fill their ranges, and a target of which they explain
            any share, one as probable as the other.
        public_rows: How many public rows it rests on.
        draws: How many fits were simulated.
    """

    score: float
    low: float
    high: float
    error: float
    measure: Measure
    alone: float | None
    best: float
    rows: int
    stated: bool
    basis: Basis
    public_rows: int
    draws: int

    def __str__(self) -> str:
        usual = f"({self.low:.3g} to {self.high:.3g} in 8 of 10 cases, by {self.draws} simulated fits)"
        name = "root mean squared error" if self.measure == "R²" else "share of wrong labels"
        text = f"{self.measure} about {self.score:.3g} {usual}, {name} about {self.error:.3g}; {self.rows:,} rows"
        text += "" if self.stated else " (say how many: rows=...)"
        if self.basis == "declared shape":
            return f"{text} of the declared shape, generated: yours may differ"
        alone = "" if self.alone is None else f", whose own prediction has {self.alone:.3g}"
        return f"{text} like the {self.public_rows:,} public ones{alone}"


class ForecastMixin:
    """`forecast`, for every model of a number or of classes."""

    #: Whether what the model predicts is linear in the features, or the class with the largest such output.
    _has_forecast: ClassVar[bool] = True

    def forecast(
        self,
        schema: Schema | Table | None = None,
        *,
        target: str | None = None,
        features: int | Sequence[str] | None = None,
        rows: int | None = None,
        draws: int = DRAWS,
    ) -> Forecast:
        """Return how good this model is likely to be on new rows, before it is fitted. Reads no private row.

        With public rows as `prediction=` their law is what is fitted; with anything else rows are generated from what
        is declared, and the answer says so.

        Guarantee: none is needed: it is a function of public numbers; of a table its schema alone is looked at.

        Accuracy: on generated data that it had not seen it was right in the median; see "How good private linear
        models are" and "Additive models" for the spread.

        Args:
            schema: For a model of a table: its declarations (or the table, of which nothing else is read).
            target: The column to predict, as in `fit_table`.
            features: The columns to predict from, as in `fit_table`; for arrays and a linear model the number of
                features, if the prediction does not say it.
            rows: About how many private rows there will be, a public number; default `rows` of the model.
            draws: How many fits are simulated.

        Returns:
            The forecast: a score, its range, and the error.

        >>> import numpy as np, sidelight as sl
        >>> model = sl.LinearRegression(epsilon=1, delta="1e-6", data_norm=1, target_range=(0, 10))
        >>> found = model.forecast(features=3, rows=20_000)
        >>> found.basis, bool(0.3 < found.score < 0.6)
        ('declared shape', True)
        """
        if not self._has_forecast:
            raise RangeError(f"there is no forecast for {type(self).__name__}: it is for numbers and for classes")
        draws = whole(draws, name="draws", most=1000, advice="9 is a usual choice")
        with public_numbers(type(self).__name__), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit says it again
            return self._simulated(schema, target=target, features=features, rows=rows, draws=draws)

    def _simulated(self, schema: Any, *, target: str | None, features: Any, rows: int | None, draws: int) -> Forecast:
        """Simulate the fits of a linear model."""
        model: Any = self
        goal, encoding, query = _described(model, schema, target=target, features=features)
        size, stated = rows_of_forecast(rows, model.rows, getattr(model._settings, "rows_at_most", None))
        return _forecast(model, goal, query.prepare(schema_of(schema)), encoding, rows=size, stated=stated, draws=draws)


def rows_of_forecast(*given: int | None) -> tuple[int, bool]:
    """Return for how many rows a forecast is, the first number that is given, and whether one is."""
    stated = next((each for each in given if each is not None), None)
    size = USUAL_ROWS if stated is None else declared_rows(stated)
    assert size is not None
    return size, stated is not None


def _described(model: Any, schema: Any, *, target: str | None, features: Any) -> tuple[Goal, TableEncoding | None, Any]:
    if schema is not None:
        if target is None:
            raise SchemaError("a forecast for a table wants target=..., the column to predict")
        if isinstance(features, int):
            raise SchemaError("features of a table are names of columns; the schema says how many they are")
        goal, encoding, query = model._query_of_columns(schema_of(schema), target=target, features=features)
    else:
        if target is not None or (
            features is not None and (isinstance(features, bool) or not isinstance(features, int))
        ):
            raise SchemaError("a forecast without a schema is for arrays: give features=20, the number of columns")
        width = _width(model.prediction) if features is None else features
        if width is None or width < 1:
            raise RangeError(
                "a forecast needs features=..., the number of columns of X: the prediction does not say it"
            )
        encoding = None
        model._check_solver()
        goal = model._goal()
        check_parameters(model)
        needed(model, "data_norm")
        found = Examples(np.empty((0, width)), np.empty(0), width)
        read = model._predictions(goal, data_norm=model.data_norm, features=width, names=None)
        query = model._query(goal, found, read, data_norm=model.data_norm)
    return goal, encoding, query


def schema_of(given: Any) -> Schema:
    """Return the declarations that a forecast is for."""
    if isinstance(given, Table):
        return given.schema
    if given is None:
        return Schema([Number("row")])
    if isinstance(given, Schema):
        return given
    if isinstance(given, list | tuple) and all(isinstance(each, Number | Category) for each in given):
        return Schema(list(given))
    raise SchemaError(f"a forecast wants a sl.Schema or a sl.Table, got {type(given).__name__}; it reads no rows")


def _width(prediction: Any) -> int | None:
    """Return how many features a prediction for arrays has."""
    first = prediction[0] if isinstance(prediction, list) and prediction else prediction
    if isinstance(first, tuple) and first and isinstance(first[0], PublicData):
        return int(np.shape(first[0].numbers_of(None))[-1])
    if isinstance(first, PublicData):
        width = len(first.names) if first.names is not None else int(np.shape(first.numbers_of(None))[-1])
        return width - 1
    if isinstance(first, CoefficientPrediction) and not first.earlier and not hasattr(first.coefficients, "keys"):
        return int(np.shape(first.coefficients)[-1])
    return getattr(first, "n_features_in_", None)


def _law(predictions: Predictions, goal: Goal, groups: Sequence[int], *, intercept: bool) -> tuple[Law, int]:
    """Return the law of the largest public rows with targets; else of the declared shape with what is stated."""
    classes = 0 if goal.classes is None else len(goal.classes)
    outputs = classes if classes > 2 else 1
    known = [each for each in predictions.public if each.targets is not None]
    if known:
        most: PublicExamples = max(known, key=lambda each: each.size)
        return LawOfRows(most, classes=classes, outputs=outputs, intercept=intercept), most.size
    stated = [each for each in predictions.candidates if isinstance(each, PredictedCoefficients)]
    return LawOfShape(
        groups=groups, classes=classes, outputs=outputs, intercept=intercept, stated=stated[0] if stated else None
    ), 0


def _forecast(
    model: Any,
    goal: Goal,
    prepared: PreparedFit,
    encoding: TableEncoding | None,
    *,
    rows: int,
    stated: bool,
    draws: int,
) -> Forecast:
    width = prepared.examples.features
    groups = [1] * width
    if encoding is not None:
        groups = [1 if isinstance(column, Number) else len(column.labels) for column in encoding.columns]
    law, public_rows = _law(prepared.predictions, goal, groups, intercept=bool(model.fit_intercept))
    fewer = fewer_rows(rows, width)
    if isinstance(prepared.plan, PredictedPlan):  # public rows and stated coefficients weigh against all rows
        rows = fewer
    norm = Fraction(1) if model.data_norm is None else positive(model.data_norm, name="data_norm")

    def fitted(population: Population, dice: Dice, source: Source) -> Floats:
        return _fitted(prepared, population, goal, norm=norm, rows=fewer, of=rows, dice=dice, source=source)

    def tested(new: Floats) -> Floats:
        if model.on_violation != "normalize":
            return new
        return np.asarray(bounded_rows(new, data_norm=Fraction(1), on_violation="normalize")[0])

    measure: Measure = "R²" if goal.classes is None else "accuracy"
    return simulated(
        law, fitted, tested, draws, measure, half=goal.half, rows=rows, stated=stated, public_rows=public_rows
    )


def simulated(
    law: Any,
    fitted: Callable[[Any, Dice, Source], Any],
    tested: Callable[[Any], Any],
    draws: int,
    measure: Measure,
    *,
    half: float,
    rows: int,
    stated: bool,
    public_rows: int,
) -> Forecast:
    """Return the forecast of fits to populations of a law: scores and errors of each, and what the truth scores.

    `fitted` fits rows of a population with seeded noise; `tested` makes other such rows what a model is asked about.
    """
    scores, bests = [], []
    for draw in range(draws):
        with Source(SeededBytes(draw)) as source:
            dice = Dice(source)
            population = law.population(dice, at=(draw + 0.5) / draws)
            model = fitted(population, dice, source)
            new = tested(population.drawn(TEST_ROWS, dice)[0])
            scores.append(population.score(model, new))
            bests.append(population.score(population.truth, new)[0])
    found, errors = np.array(scores).T
    beyond = _BEYOND[law.basis, measure] ** (2 if measure == "R²" else 1)  # 1 - R² is a square of errors
    low = 1 - (1 - float(found.min())) * beyond
    return Forecast(
        score=float(np.median(found)),
        low=low if measure == "R²" else max(low, 0.0),  # no share of right labels is below 0
        high=1 - (1 - float(found.max())) / beyond,
        error=float(np.median(errors)) * (half if measure == "R²" else 1.0),
        measure=measure,
        alone=law.alone,
        best=float(np.median(bests)),
        rows=rows,
        stated=stated,
        basis=law.basis,
        public_rows=public_rows,
        draws=draws,
    )


def fewer_rows(rows: int, width: int) -> int:
    """Return how many rows are drawn of rows of a width."""
    return min(rows, max(_FEWEST_ROWS, _CELLS // width))


def _for_fewer(plan: LinearPlan, *, share: Fraction) -> LinearPlan:
    """Return a plan that does to a share of the rows what the plan does to all of them."""
    whole = plan.mechanism
    less = replace(
        whole,
        noise_scale=whole.noise_scale * share,
        regularisation=whole.regularisation * share,
        tolerance=whole.tolerance * share,
    )
    fewer = replace(plan, mechanism=less)
    fewer.__dict__["claims"] = plan.claims  # the cached price: nothing of a simulation is released
    return fewer


def _fitted(
    prepared: PreparedFit,
    population: Population,
    goal: Goal,
    *,
    norm: Fraction,
    rows: int,
    of: int,
    dice: Dice,
    source: Source,
) -> Floats:
    """Fit rows of a population with seeded noise; return coefficients in the units of the fit, intercept last.

    Of many rows fewer are drawn, with less noise that makes up for it: what it does to a step of descent is the same
    for n rows at mu and for n/k rows at k·mu, and to a minimum with λ, σ and τ over k.
    """
    features, drawn = population.drawn(rows, dice)
    targets = drawn * goal.half + goal.middle if goal.classes is None else goal.classes[drawn.astype(np.int64)]
    plan = prepared.plan
    if isinstance(plan, DescentPlan) and rows < of:
        declared = None if plan.rows is None else max(1, plan.rows * rows // of)
        plan = replace(plan, mu=plan.mu * Fraction(of, rows), rows=declared)
    elif isinstance(plan, LinearPlan) and rows < of:
        plan = _for_fewer(plan, share=Fraction(rows, of))
    fit = replace(prepared, plan=plan, examples=Examples(features * float(norm), targets, features.shape[1]))
    empty = Table({"row": np.empty(0)}, schema=[Number("row")])
    value = fit.run(empty, source).value
    weights = np.asarray(value["coefficients"]).T * (float(norm) / goal.half)
    return np.vstack([weights, np.asarray(value["intercept"])[None, :] / goal.half])
