"""Two values of a public parameter are two requests, so that one key of a ledger never answers for both.

A key returns what it bought before if request and claims are the same. So every constructor parameter of every query
must be in one of them, or on a list with the reason why its value changes no answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sidelight as sl
from sidelight.covariance.plan import Choice
from sidelight.errors import SidelightError
from sidelight.guarantees import Neighbours
from sidelight.published.adaops import AdaOPS
from sidelight.published.adassp import AdaSSP
from sidelight.published.ops_ptr import OPSPTR
from sidelight.published.stable_logistic import StableLogistic
from sidelight.registry import ENTRIES
from sidelight.session.query import prepare_query
from sidelight.stability.pate.labels import NoisyLabels
from sidelight.stability.pate.proposals import ClearVotes

SCHEMA = sl.Schema(
    [
        sl.Number("a", lower=-1, upper=1, granularity="0.01"),
        sl.Number("b", lower=-1, upper=1, granularity="0.01"),
        sl.Number("y", lower=-1, upper=1),
        sl.Category("g", ["x", "y", "z"]),
        sl.Category("h", ["no", "yes"], other=None),
        sl.Category("k", ["no", "yes"], other=None),
    ]
)
PEOPLE = sl.Schema([sl.PersonId("who", max_rows=4), sl.Label("word"), *SCHEMA.columns])
PUBLIC = np.random.default_rng(0).normal(size=(12, 2))
SCORE, OTHER_SCORE = (sl.PublicScore(len, name) for name in ("one description", "another description"))  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Case:
    """A query, other values of its parameters, and for parameters that change no answer the reason.

    `only` gives a value together with what it needs.
    """

    kind: Any
    base: Mapping[str, Any]
    other: Mapping[str, Any]
    same: Mapping[str, str] = dataclasses.field(default_factory=dict)
    schema: sl.Schema = SCHEMA

    def request(self, **changes: Any) -> str:
        """Return what a key is compared by, but for the claims."""
        return str(prepare_query(self.kind(**{**self.base, **changes}), self.schema).request)


def only(value: Any, **needs: Any) -> Any:
    """Say that a value of a parameter needs values of others."""
    return Needing(value, needs)


@dataclasses.dataclass(frozen=True)
class Needing:
    value: Any
    needs: Mapping[str, Any]


GROUPED: dict[str, Any] = {
    "by": only("g", max_groups=1),
    "where": "a > 0",
    "epsilon": 2,
    "delta": "1e-6",
    "rho": only(1, epsilon=None),
    "mu": only(1, epsilon=None),
    "max_groups": only(2, by="g"),
    "max_rows_per_group": only(2, by="g", max_groups=1),
    "confidence": 0.8,
}
UNGROUPED = {name: change for name, change in GROUPED.items() if name not in ("by", "max_groups", "max_rows_per_group")}
WORDS: dict[str, Any] = {"by": "word", "delta": "1e-6", "max_groups": 2}
PRICED: dict[str, Any] = {
    "rho": "0.5",
    "epsilon": only(1, rho=None),
    "delta": only("1e-6", rho=None, epsilon=1),
}
LINEAR: dict[str, Any] = {"features": ["b", "a"], "feature_norm": 2}
TESTED: dict[str, Any] = {"epsilon": 2, "delta": "1e-7"}
#: Of a bare array: they become the declaration of its column, and a session's request has a digest of declarations.
OF_ARRAYS = dict.fromkeys(("granularity", "bounds"), "for bare arrays, whose column they declare")
WIDTHS = pd.DataFrame({"a": ["[-1, 0)", "[0, 1]"], "count": [3, 4]})

CASES = [
    Case(
        sl.Covariance,
        {
            "columns": ["a", "b"],
            "radius": 1,
            "rho": 1,
            "prediction": np.eye(2),
            "method": "separate",
            "choice": Choice(),
        },
        {
            "columns": ["b", "a"],
            "radius": 2,
            **PRICED,
            "prediction": np.eye(2) / 2,
            "method": only("denoise", choice=None),
            "noise": only("laplace", method="denoise", choice=None, rho=None, epsilon=1),
            "centre": "mean",
            "rows": 100,
            "project": False,
            "choice": Choice(shift_invariant=True),
        },
    ),
    Case(
        sl.Covariance,
        {
            "columns": ["a", "b"],
            "radius": 1,
            "rho": 1,
            "prediction": np.eye(2),
            "method": "separate",
            "choice": Choice(),
        },
        {"choice": Choice(form="threshold")},
    ),
    Case(
        sl.GaussianFit,
        {"columns": ["a", "b"], "prediction": PUBLIC, "rho": 1},
        {
            "columns": ["b", "a"],
            "prediction": PUBLIC + 1,
            **PRICED,
            "condition": 7,
            "scale": 3,
            "gap": "0.1",
            "mean_bound": only(1, prediction=None, variance_bound=1),
            "variance_bound": only(2, prediction=None, mean_bound=1),
            "steps": only(3, gap="0.1"),
            "rows": 100,
            "noise": only("laplace", rho=None, epsilon=1),
            "constants": "proven",
        },
    ),
    Case(
        sl.GaussianMean,
        {"columns": ["a", "b"], "prediction": PUBLIC, "rho": 1},
        {
            "columns": ["b", "a"],
            "prediction": PUBLIC + 1,
            "covariance": 2 * np.eye(2),
            "mean_bound": only(1, prediction=None),
            **PRICED,
            "steps": 1,
            "chance": "0.1",
            "rows": 100,
            "noise": only("laplace", rho=None, epsilon=1),
        },
    ),
    Case(
        sl.SeparatedMixture,
        {"columns": ["a", "b"], "components": 2, "prediction": PUBLIC, "rho": 1},
        {
            "columns": ["b", "a"],
            "components": 1,
            "prediction": PUBLIC + 1,
            "rho": "0.5",
            "epsilon": only(2, rho=None, delta="1e-6"),
            "delta": only("1e-6", rho=None, epsilon=1),
            "method": "recursive",
            "least_weight": "0.3",
            "condition": 7,
            "on_failure": "single",
        },
    ),
    Case(
        AdaOPS,
        {"features": ["a", "b"], "target": "y", "feature_norm": 1, "epsilon": 1, "delta": "1e-6"},
        {
            **LINEAR,
            **TESTED,
            "target": only("b", features=["a", "y"]),
            "intercept": 3,
            "rows_at_most": 7,
            "eigenvalue_share": "0.3",
            "norm_share": "0.3",
            "order": 70,
        },
    ),
    Case(
        AdaSSP,
        {"features": ["a", "b"], "target": "y", "feature_norm": 1, "mu": 1},
        {
            **LINEAR,
            "target": only("b", features=["a", "y"]),
            "mu": 2,
            "rho": only(1, mu=None),
            "epsilon": only(1, mu=None, delta="1e-6"),
            "delta": only("1e-7", mu=None, epsilon=1),
            "intercept": 2,
            "penalty": 2,
            "gram_share": "0.3",
            "shrinkage": "uniform",
        },
    ),
    Case(
        OPSPTR,
        {"features": ["a", "b"], "target": "y", "feature_norm": 1, "epsilon": 1, "delta": "1e-6", "score": SCORE},
        {
            **LINEAR,
            **TESTED,
            "target": only("b", features=["a", "y"]),
            "score": OTHER_SCORE,
            "runs": sl.tuning.geometric(3),
            "penalties": [1, 2],
            "intercept": 3,
            "rows_at_most": 7,
        },
    ),
    Case(
        StableLogistic,
        {"features": ["a", "b"], "target": "h", "feature_norm": 1, "epsilon": 1, "delta": "1e-6"},
        {
            **LINEAR,
            **TESTED,
            "target": "k",
            "intercept": 3,
            "penalty": 9,
            "shape": "hessian",
            "rows_at_most": 7,
            "strength_share": "0.3",
            "order": only(70, shape="hessian"),
        },
    ),
    Case(
        sl.Distribution,
        {"column": "a", "epsilon": 1},
        {
            "column": "b",
            "epsilon": 2,
            "rho": only(1, epsilon=None),
            "prediction": sl.priors.Cauchy(0, 1),
            "size": 100,
        },
        OF_ARRAYS,
    ),
    Case(
        sl.Quantiles,
        {"levels": [0.5], "epsilon": 1, "column": "a"},
        {
            "levels": [0.25],
            "epsilon": 2,
            "delta": only("1e-6", by="g"),
            "rho": only(1, epsilon=None),
            "column": "b",
            "prediction": sl.priors.Cauchy(0, 1),
            "form": "select",
            "size": 100,
            "by": "g",
            "where": "b > 0",
            "max_groups": only(2, by="g"),
            "max_rows_per_group": only(2, by="g"),
        },
        OF_ARRAYS,
    ),
    Case(
        sl.StablePCA,
        {"columns": ["a", "b"], "components": 1, "radius": 1, "epsilon": 1, "delta": "1e-6"},
        {"columns": ["a", "y"], "components": only(2, columns=["a", "b", "y"]), "radius": 2, **TESTED}
        | {"gap_share": "0.3", "rows_at_most": 5},
    ),
    Case(
        sl.StableMedian,
        {"column": "a", "epsilon": 1, "delta": "1e-6"},
        {
            "column": "b",
            **TESTED,
            "spread": "0.5",
            "test_share": only("0.1", spread="0.5"),
            "resolution": only("0.1", column="y"),
        }
        | {"neighbours": Neighbours.REPLACE},
    ),
    Case(
        sl.StableMode,
        {"column": "g", "epsilon": 1, "delta": "1e-6"},
        {"column": "h", **TESTED, "neighbours": Neighbours.REPLACE},
    ),
    Case(
        sl.MajorityVote,
        {"column": "h", "noise_scale": 5, "epsilon": 1, "delta": "1e-6"},
        {"column": "k", "noise_scale": 6, **TESTED, "test_share": "0.1"},
    ),
    Case(
        NoisyLabels,
        {"votes": [[9, 1], [8, 2]] * 5, "noise_scale": 3},
        {
            "noise_scale": 4,
            "proposal": ClearVotes(budget="0.1", order=8, delta="1e-6"),
            "teachers_per_unit": 3,
            "question": "which digit",
        },
        {"votes": "private; what they are votes on is the public `question`"},
    ),
    Case(
        sl.Count,
        {"epsilon": 1},
        {**GROUPED, "prediction": 3, "of": "rows", "noise": only("gaussian", delta="1e-6")}
        | {"rollup": only(True, by=["g", "h"], max_groups=1), "known": only(["w"], **WORDS)},
        schema=PEOPLE,
    ),
    Case(
        sl.CountDistinct,
        {"column": "g", "epsilon": 1},
        {**GROUPED, "column": "h", "persons": only(True, column=None), "prediction": 3},
        schema=PEOPLE,
    ),
    Case(
        sl.Histogram,
        {"column": "a", "epsilon": 1, "max_groups": 1},
        {
            **GROUPED,
            "max_groups": 2,
            "by": "g",
            "max_rows_per_group": 2,
            "prediction": only(WIDTHS, bins=[-1, 0, 1]),
            "column": "b",
            "bins": 3,
            "outside": only("drop", bins=[0, 0.5]),
            "of": "rows",
        },
        schema=PEOPLE,
    ),
    *(
        Case(
            kind,
            {"column": "a", "epsilon": 1},
            {**GROUPED, "prediction": sl.priors.Cauchy(0, 1), "column": "b", "clip": (0, 1), **more}
            | {"known": only(["w"], **WORDS)},
            schema=PEOPLE,
        )
        for kind, more in (
            (sl.Mean, {"of": "rows"}),
            (sl.Sum, {"person_total": 3}),
            (sl.Variance, {"ddof": 0}),
            (sl.StandardDeviation, {"ddof": 0}),
            (sl.Summary, {"clip": "private"}),
        )
    ),
    Case(
        sl.Proportion,
        {"column": "a > 0", "epsilon": 1},
        {**GROUPED, "column": "b > 0", "of": "rows", "known": only(["w"], **WORDS)},
        {"clip": "a share lies in [0, 1]", "prediction": "as of `Mean`, whose subclass this is"},
        schema=PEOPLE,
    ),
    Case(
        sl.TopK,
        {"column": "g", "k": 1, "epsilon": 1},
        {**UNGROUPED, "column": "h", "k": 2, "route": only("peeling", max_groups=1), "of": "rows"}
        | {"max_groups": only(2, route="histogram"), "known": only(["w"], column="word", delta="1e-6", max_groups=1)},
        {"prediction": "refused by this query", "max_rows_per_group": "refused by this query"},
        schema=PEOPLE,
    ),
    Case(
        sl.SQL,
        {"statement": "SELECT COUNT(*) FROM t", "epsilon": 1},
        {
            "statement": "SELECT COUNT(*) FROM t WHERE a > 0",
            "epsilon": 2,
            "delta": "1e-6",
            "rho": only(1, epsilon=None),
            "mu": only(1, epsilon=None),
            "max_groups": only(2, statement="SELECT g, COUNT(*) FROM t GROUP BY g"),
            "max_rows_per_group": 2,
            "prediction": only({"n": 3}, statement="SELECT COUNT(*) AS n FROM t"),
            "person_total": only(3, statement="SELECT SUM(a) FROM t"),
            "confidence": 0.8,
        },
        {
            "dialect": "how the statement is read: the request has what was read",
            "max_rows": "for a JOIN: tests/summaries",
        },
        schema=PEOPLE,
    ),
    Case(
        sl.Selection,
        {
            "candidates": [sl.Quantiles([0.5], column="a", epsilon=1), sl.Quantiles([0.25], column="a", epsilon=1)],
            "score": SCORE,
        },
        {
            "candidates": [sl.Quantiles([0.5], column="a", epsilon=1), sl.Quantiles([0.75], column="a", epsilon=1)],
            "score": OTHER_SCORE,
            "runs": sl.tuning.geometric(3),
            "delta": "1e-6",
        },
    ),
    Case(
        sl.SyntheticTable,
        {"columns": ["a", "h"], "bins": {"a": 4}, "epsilon": 1},
        {
            "workload": sl.marginals(1),
            "columns": ["h", "a"],
            "bins": {"a": 5},
            "missing": ("a",),
            "prediction": pd.DataFrame({"a": [0.0], "h": ["no"]}),
            "trust": 0.5,
            "rho": only(1, epsilon=None),
            "epsilon": 2,
            "delta": "1e-6",
            "rows": 10,
            "rounds": 1,
            "engine": "loglinear",
        },
    ),
]


def _fitted(kind: Any, target: str, other: Mapping[str, Any], **base: Any) -> Case:
    """Return the case of an estimator as a query."""

    def query(**given: Any) -> sl.ModelQuery:
        features = given.pop("features", ["a", "b"])
        return sl.ModelQuery(model=kind(**given), target=given.pop("target", target), features=features)

    query.__name__ = kind.__name__
    same = {
        "session": "a model of a query has none",
        "random_state": "seeded noise, which no ledger stores",
        "columns": "of `fit`; a query takes those of the table",
        "data_norm": "of `fit`; a query takes the declared bounds",
        "target_range": "of `fit`; a query takes the declared bounds",
        "on_violation": "of `fit`; a query takes the declared bounds",
        "on_missing": "of `fit`; rows of a table that miss a number are dropped or filled as declared",
        "solver": "one choice, where no other value is given",
        "classes": "of `fit`; a query takes the declared labels, or names them",
    }
    guess = sl.CoefficientPrediction({"a": 1.0}, scale=1.0)
    usual = {"epsilon": 2, "delta": "1e-7", "prediction": guess, "rows": only(500, prediction=guess)}
    usual["odds"] = only(3, prediction=guess)
    return Case(query, {"epsilon": 1, "delta": "1e-6", **base}, {**usual, **other, "features": ["a"]}, same)


LINES = {"fit_intercept": False}
CURVES = {"lines": "none", "monotone": {"a": "increasing"}, "on_missing": "drop"}
MODELS = [
    _fitted(sl.LinearRegression, "y", {**LINES, "loss": only("huber", solver="objective"), "solver": "objective"}),
    _fitted(sl.LogisticRegression, "h", {**LINES, "class_weight": {"no": 2, "yes": 1}, "solver": "objective"}),
    _fitted(sl.LinearSVC, "h", {**LINES, "width": "0.25"}),
    _fitted(sl.PoissonRegressor, "y", {**LINES, "clip": 3, "largest_count": 6}, largest_count=5),
    _fitted(sl.AdditiveRegressor, "y", CURVES),
    _fitted(sl.AdditiveClassifier, "h", CURVES),
]


def _changes() -> Iterator[Any]:
    for case in (*CASES, *MODELS):
        for name in case.other:
            yield pytest.param(case, name, id=f"{case.kind.__name__}-{name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("case", "name"), list(_changes()))
def test_another_value_is_another_request(case: Case, name: str) -> None:
    given = case.other[name]
    change = given if isinstance(given, Needing) else Needing(given, {})
    changed = case.request(**{**change.needs, name: change.value})
    assert changed != case.request()
    try:
        without = case.request(**change.needs)
    except SidelightError:
        return  # not allowed without: rho=None and no other price
    assert changed != without


@pytest.mark.parametrize("case", [*CASES, *MODELS], ids=lambda case: case.kind.__name__)
def test_no_parameter_is_left_out(case: Case) -> None:
    named = {name for each in (*CASES, *MODELS) if each.kind is case.kind for name in (*each.other, *each.same)}
    if dataclasses.is_dataclass(case.kind):
        assert {each.name for each in dataclasses.fields(case.kind) if each.init} <= named
    else:
        assert set(getattr(sl, case.kind.__name__)().get_params()) <= named


def test_no_query_is_left_out() -> None:
    """A query of the registry that is new must be added above."""
    known = {case.kind.__name__ for case in (*CASES, *MODELS)} | {"ModelQuery"}  # that of the models
    days = {"PubTrack", "PrivateHistograms"}  # of a sequence, whose keys are the places of its days
    assert {entry.name for entry in ENTRIES} == known - {"NoisyLabels", "PoissonRegressor"} | days
