"""Every public query with every number at an edge, priced: run as a process that one can give up waiting for.

Reads the number of a case from each line of its input, and answers with a line: what came of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.naive_bayes import GaussianNB

import sidelight as sl
from sidelight.errors import SidelightError
from sidelight.experts import Reporting
from sidelight.predictions import guess
from sidelight.quantiles.sequence.plan import SequencePlan
from sidelight.stability.pate import ClearVotes, NoisyLabels
from sidelight.tuning import geometric

#: Nothing, one, the least and the largest floats, what amounts may be at most, what no amount is.
EDGES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 5e-324, 1e-300, "1e-999", 1e-12, 0.999999999999, 1e12, 1e300, "1e999", 2**63, 10**400),
    *(float("inf"), float("nan")),
)

SCHEMA = sl.Schema(
    [
        sl.Number("age", lower=0, upper=100, granularity=1),
        sl.Number("hours", lower=0, upper=99, granularity=1),
        sl.Category("sex", ["F", "M"], other=None),
    ]
)
PUBLIC = np.random.default_rng(1).normal(size=(40, 2)) + np.repeat([[0.0, 0.0], [50.0, 50.0]], 20, axis=0)
X = ["age", "hours"]


def touched(prepared: Any) -> Any:
    """Ask for everything that is known before the charge."""
    return prepared.claims.approx_at("1e-6"), str(prepared.claims), prepared.request, prepared.numerics


def priced(make: Callable[..., Any], schema: sl.Schema = SCHEMA) -> Callable[..., Any]:
    return lambda **given: touched(make(**given).prepare(schema))


def estimator(make: Callable[..., Any], **rest: Any) -> Callable[..., Any]:
    def fit(**given: Any) -> Any:
        query = sl.ModelQuery(
            model=make(**rest, **given), target="sex" if "classes" in rest else "hours", features=["age"]
        )
        return touched(query.prepare(SCHEMA))

    return fit


def person(**given: Any) -> Any:
    """The rows of a person are a public number, too."""
    schema = sl.Schema([*SCHEMA.columns, sl.PersonId("id", **given)])
    return touched(sl.StableMedian("age", epsilon=1, delta="1e-6").prepare(schema))


def learning(**given: Any) -> Any:
    """A day of a sequence that learns privately."""
    ends = (given.pop("lower", 0), given.pop("upper", 100))
    plan = SequencePlan(
        query=sl.Quantiles([0.5], column="age", epsilon=given.pop("epsilon", 1)),
        schema=SCHEMA,
        learner=sl.PrivateHistograms(*ends, **given),
        days_per_person=2,
    )
    day = plan.with_prediction(plan.priors(plan.begin(), np.empty(0), guess("uniform"))).prepare(SCHEMA)
    return plan.claims.approx_at("1e-6"), plan.digest, touched(day)


#: The query, its ordinary numbers, and which of them are tried at every edge.
QUERIES: dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[str, ...]]] = {
    "Quantiles": (
        priced(lambda level, **rest: sl.Quantiles([level], column="age", **rest)),
        {"level": 0.5, "epsilon": 1},
        ("level", "epsilon"),
    ),
    "Sequence that learns privately": (
        learning,
        {"rho": "0.01"},
        ("rho", "lower", "upper", "bins", "floor_weight", "boldness", "run_days", "hedge_weight", "epsilon"),
    ),
    "Covariance": (
        priced(lambda **rest: sl.Covariance(X, **rest)),
        {"radius": 100, "rho": "0.1"},
        ("radius", "rho", "rows"),
    ),
    "Covariance by epsilon": (
        priced(lambda **rest: sl.Covariance(X, radius=100, **rest)),
        {"epsilon": 1, "delta": "1e-6"},
        ("epsilon", "delta"),
    ),
    "GaussianFit": (
        priced(lambda **rest: sl.GaussianFit(X, prediction=PUBLIC, **rest)),
        {"epsilon": 1, "delta": "1e-6"},
        ("epsilon", "delta", "condition", "scale", "gap", "steps", "rows"),
    ),
    "SeparatedMixture": (
        priced(lambda **rest: sl.SeparatedMixture(X, prediction=PUBLIC, **rest)),
        {"components": 2, "rho": "0.5"},
        ("components", "rho", "least_weight", "condition"),
    ),
    "SyntheticTable": (
        priced(lambda **rest: sl.SyntheticTable(sl.marginals(1), columns=["sex"], **rest)),
        {"rho": "0.1"},
        ("rho", "rows", "rounds", "trust"),
    ),
    "AdaSSP": (
        priced(lambda **rest: sl.AdaSSP(features=["age"], target="hours", **rest)),
        {"feature_norm": 100, "rho": "0.1"},
        ("feature_norm", "rho", "intercept", "penalty", "gram_share"),
    ),
    "AdaOPS": (
        priced(lambda **rest: sl.AdaOPS(features=["age"], target="hours", **rest)),
        {"feature_norm": 100, "epsilon": 1, "delta": "1e-6"},
        ("feature_norm", "epsilon", "delta", "intercept", "rows_at_most", "eigenvalue_share", "order"),
    ),
    "StableLogistic": (
        priced(lambda **rest: sl.StableLogistic(features=["age"], target="sex", **rest)),
        {"feature_norm": 100, "epsilon": 1, "delta": "1e-6"},
        ("feature_norm", "epsilon", "delta", "intercept", "penalty", "rows_at_most", "strength_share", "order"),
    ),
    "StableMedian": (
        priced(lambda **rest: sl.StableMedian("age", **rest)),
        {"epsilon": 1, "delta": "1e-6"},
        ("epsilon", "delta", "spread", "test_share", "resolution"),
    ),
    "StableMode": (
        priced(lambda **rest: sl.StableMode("sex", **rest)),
        {"epsilon": 1, "delta": "1e-6"},
        ("epsilon", "delta"),
    ),
    "MajorityVote": (
        priced(lambda **rest: sl.MajorityVote("sex", **rest)),
        {"noise_scale": 10, "epsilon": "0.5", "delta": "1e-6"},
        ("noise_scale", "epsilon", "delta", "test_share"),
    ),
    "StablePCA": (
        priced(lambda **rest: sl.StablePCA(columns=X, components=1, **rest)),
        {"radius": 100, "epsilon": 1, "delta": "1e-6"},
        ("radius", "epsilon", "delta", "gap_share", "rows_at_most"),
    ),
    "LogisticRegression": (
        estimator(sl.LogisticRegression, classes=["F", "M"]),
        {"epsilon": 1, "delta": "1e-6", "data_norm": 1},
        ("epsilon", "delta", "data_norm"),
    ),
    "LinearRegression": (
        estimator(sl.LinearRegression),
        {"epsilon": 1, "delta": "1e-6", "data_norm": 1},
        ("epsilon", "delta", "data_norm"),
    ),
    "NoisyLabels": (
        priced(lambda **rest: NoisyLabels(votes=[[9, 1]], **rest)),
        {"noise_scale": 10},
        ("noise_scale", "teachers_per_unit"),
    ),
    "ClearVotes": (
        lambda **rest: ClearVotes(**rest).price,
        {"budget": "0.1", "order": 25, "test_scale": 10, "delta": "1e-5"},
        ("budget", "order", "test_scale", "delta"),
    ),
    "Reporting": (
        lambda **rest: (found := Reporting(**rest), found.grid_bits),
        {"actions": 3, "rounds": 10, "mu": 1, "sensitivity": 2, "neighbours": "replace"},
        ("actions", "rounds", "mu", "sensitivity", "gain_range", "fill", "max_rounds_per_person"),
    ),
    "PATE": (
        lambda queries, **rest: sl.PATE(GaussianNB(), classes=[0, 1], **rest).price(queries),
        {"queries": 10, "teachers": 250, "noise_scale": 40, "delta": "1e-5", "expected_votes": 0.95},
        ("queries", "teachers", "noise_scale", "delta", "expected_votes"),
    ),
    "Selection": (
        priced(
            lambda mean, **rest: sl.Selection(
                candidates=[sl.Covariance(X, radius=100, rho="0.01")],
                score=sl.PublicScore(lambda answer: 0.0, "none"),
                runs=geometric(mean),
                **rest,
            )
        ),
        {"mean": 15, "delta": "1e-6"},
        ("mean", "delta"),
    ),
    "PersonId": (person, {"max_rows": 3}, ("max_rows",)),
    "ApproxDP": (lambda **rest: str(sl.ApproxDP(**rest)), {"epsilon": 1, "delta": "1e-6"}, ("epsilon", "delta")),
    "GDP": (lambda mu: sl.Claims.of(sl.GDP(mu)).approx_at("1e-6"), {"mu": 1}, ("mu",)),
    "ZCDP": (lambda rho: sl.Claims.of(sl.ZCDP(rho)).approx_at("1e-6"), {"rho": 1}, ("rho",)),
    "approx_at": (
        lambda delta: [sl.Claims.of(claim).approx_at(delta) for claim in (sl.GDP(1), sl.ZCDP(1))],
        {"delta": "1e-6"},
        ("delta",),
    ),
}

CASES = [(query, parameter, edge) for query, (_, _, tried) in QUERIES.items() for parameter in tried for edge in EDGES]


def outcome(case: tuple[str, str, Any]) -> str:
    """Return "priced", "refused", or the unexpected error."""
    query, parameter, edge = case
    make, ordinary, _ = QUERIES[query]
    try:
        make(**{**ordinary, parameter: edge})
    except SidelightError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    return "priced"


if __name__ == "__main__":
    for line in sys.stdin:
        print(outcome(CASES[int(line)]).replace("\n", " "), flush=True)
