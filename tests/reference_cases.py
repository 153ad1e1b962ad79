"""One release of everything public, over generated people and with seeded noise, for the reference bits.

Every kind that a plan knows comes from `report/every_kind.py`; here is what has no plan kind, and the variants of a
query that run through other code. A case gives a query and its table, or does by itself what leads to a release.
Rows are whole numbers of a grid, made without a libm, so that every machine has the same.
"""

from __future__ import annotations

import datetime
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import NearestCentroid

import sidelight as sl
from sidelight.errors import SidelightWarning
from sidelight.ledger import Ledger, LedgerEntry, open_ledger
from sidelight.published.paid_report import PaidFit
from sidelight.regression.losses import LogisticLoss
from sidelight.testing import SeededEntropy, SeededSequence, SeededSession, seeded_release

sys.path.insert(0, str(Path(__file__).parent / "report"))
from every_kind import every_kind

#: A name, a query, and its table or bare numbers.
Case = tuple[str, Any, Any]
PRICE: dict[str, Any] = {"epsilon": 2, "delta": "1e-6"}
RIDGE: dict[str, Any] = {"features": ["a", "b"], "target": "y", "feature_norm": 1, **PRICE}
FIT: dict[str, Any] = {**PRICE, "data_norm": 1}
HALF = [0.5]
QUARTILES = [0.25, 0.5, 0.75]
GUESS = [[0.125, 0.0625], [0.0625, 0.25]]


def _bell(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return numbers that look normal, on a grid of 1/256: sums of whole numbers, the same on every machine."""
    return (rng.integers(-256, 257, (12, *shape)).sum(axis=0) / 2).round() / 256


def _people(count: int) -> sl.Table:
    rng = np.random.default_rng(16)
    shared = rng.integers(-64, 65, count)
    a, b = (np.clip(shared + rng.integers(-64, 65, count), -90, 90) / 128 for _ in range(2))
    y = np.clip(a / 2 - b / 4 + rng.integers(-8, 9, count) / 64, -1, 1)
    data = {
        "age": rng.integers(16, 100, count),
        "job": rng.choice(np.array(["cook", "nurse", "driver"], dtype=object), count, p=[0.125, 0.75, 0.125]),
        "a": a,
        "b": b,
        "y": (256 * y).round() / 256,
        "yes": np.where(a - b + rng.integers(-16, 17, count) / 64 > 0, "yes", "no").astype(object),
    }
    schema = [
        sl.Number("age", lower=0, upper=127, granularity=1),
        sl.Category("job", ["cook", "nurse", "driver"]),
        sl.Number("a", lower=-1, upper=1),
        sl.Number("b", lower=-1, upper=1),
        sl.Number("y", lower=-1, upper=1),
        sl.Category("yes", ["no", "yes"], other=None),
    ]
    return sl.Table(data, schema=schema, name="people")


def _of_persons() -> sl.Table:
    rng = np.random.default_rng(17)
    schema = [sl.PersonId("who", max_rows=3), sl.Number("age", lower=0, upper=127, granularity=1)]
    return sl.Table({"who": rng.integers(0, 300, 700), "age": rng.integers(20, 80, 700)}, schema=schema, name="visits")


def _in_groups() -> sl.Table:
    """Return rows of persons with places and words, most of them in several, and a number without bounds."""
    rng = np.random.default_rng(24)
    data = {
        "who": rng.integers(0, 900, 4000),
        "place": rng.choice(np.array([f"p{place}" for place in range(12)], dtype=object), 4000),
        "word": rng.choice(np.array(["north", "south", "east", "rare"], dtype=object), 4000, p=[0.5, 0.25, 0.24, 0.01]),
        "free": 40 + 8 * _bell(rng, (4000,)),
    }
    places = sl.Category("place", [f"p{place}" for place in range(12)], other=None)
    schema = [sl.PersonId("who", max_rows=4), places, sl.Label("word"), sl.Number("free", granularity="1/32")]
    return sl.Table(data, schema=schema, name="places")


def _numbers() -> sl.Table:
    values = 40 + 8 * _bell(np.random.default_rng(18), (2000,))
    return sl.Table({"value": values}, schema=[sl.Number("value", granularity="1/32")], name="numbers")


def _points(means: tuple[tuple[float, float], ...], count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([np.array(mean) + _bell(rng, (count, 2)) for mean in means])


def _cloud(*means: tuple[float, float]) -> sl.Table:
    rows = _points(means, 6000 // len(means), 19)
    return sl.Table({"u": rows[:, 0], "v": rows[:, 1]}, schema=[sl.Number("u"), sl.Number("v")], name="cloud")


def _quantile_cases() -> Iterator[Case]:
    numbers = _numbers()
    priors = {
        "uniform": sl.priors.Uniform(0, 128),
        "cauchy": sl.priors.Cauchy(35, 8),
        "half_cauchy": sl.priors.HalfCauchy(50),
        "laplace": sl.priors.Laplace(35, 8),
        "gaussian": sl.priors.Gaussian(35, 16),
        "histogram": sl.priors.Histogram([0, 32, 64, 128], [0.25, 0.5, 0.25]),
        "mixture": sl.priors.Mixture([0.5, 0.5], [sl.priors.Laplace(30, 4), sl.priors.Uniform(0, 100)]),
        "scale_free": sl.priors.ScaleFree("1/32"),
        "hedge": sl.hedge(sl.priors.Gaussian(35, 2), with_=sl.priors.Cauchy(0, 100)),
        "each": [sl.priors.Laplace(33, 2), sl.priors.Laplace(39, 2), sl.priors.Laplace(45, 2)],
        "public": sl.quantiles.fit_public(
            sl.PublicData(np.arange(20, 60, dtype=float), "public survey"), levels=QUARTILES, size=2000
        ),
    }
    for name, prior in priors.items():
        yield f"quantiles, {name}", sl.Quantiles(QUARTILES, epsilon=1, column="value", prediction=prior), numbers
    forms: dict[str, dict[str, Any]] = {
        "plain": {},
        "tree": {"form": "tree"},
        "cells": {"form": "cells", "size": 400},
        "in rho": {"epsilon": None, "rho": "1/8"},
        "cells in rho": {"epsilon": None, "rho": 1, "form": "cells"},
        "with delta": {"delta": "1e-6"},
    }
    for name, form in forms.items():
        yield (
            f"quantiles, {name}",
            sl.Quantiles(sl.quantiles.even_levels(9), **{"epsilon": "1/2", "column": "value", **form}),
            numbers,
        )
    bounded = sl.Quantiles(HALF, epsilon=1, bounds=(0, 128), granularity="1/4")
    yield "quantiles, bare numbers", bounded, np.arange(300) / 4
    yield "distribution, ages", sl.Distribution("age", epsilon=1), _of_persons()
    yield "quantiles, persons", sl.Quantiles(HALF, epsilon=1, column="age"), _of_persons()
    yield "quantiles, codes", sl.Quantiles(sl.quantiles.even_levels(9), epsilon=1, column="age"), _of_persons()


def _summary_cases() -> Iterator[Case]:
    people, persons = _people(3000), _in_groups()
    groups: dict[str, Any] = {"by": "job"}
    by_age = {**groups, "column": "age"}
    tenth: dict[str, Any] = {"epsilon": "1/2"}
    yield "count, rollup", sl.Count(by=["job", "yes"], rollup=True, **tenth), people
    yield "count, rollup in rho", sl.Count(by=["job", "yes"], rollup=True, rho="1/8"), people
    jobs = {"job": ["cook", "nurse", "driver"], "trade": ["services", "services", "transport"]}
    trades = sl.Hierarchy("job", jobs, levels=["trade"])
    yield "count, hierarchy", sl.Count(by=[trades, "yes"], rho="1/8"), people
    yield "sum, hierarchy", sl.Sum("age", by=trades, rho="1/8"), people
    elsewhere, expected = replace(trades, public_totals={"all": {"all": 120_000}}), {"cook": 4e4, "nurse": 5e4}
    yield "sum, hierarchy with totals", sl.Sum("age", by=elsewhere, rho="1/8", prediction=expected), people
    yield "mean, hierarchy", sl.Mean("age", by=[trades, "yes"], **tenth), people
    yield "count, centred", sl.Count(by="place", max_groups=10, rho="1/8"), persons
    yield "count, persons", sl.Count(by="place", max_groups=2, **tenth), persons
    yield "count, labels", sl.Count(by="word", max_groups=1, **PRICE), persons
    yield "count, labels, gaussian", sl.Count(by="word", max_groups=4, noise="gaussian", **PRICE), persons
    yield "mean, rho", sl.Mean("age", by="job", rho="1/8"), people
    yield "mean, no bounds", sl.Mean("free", by="place", max_groups=2, epsilon=2), persons
    yield "mean, no bounds in rho", sl.Mean("free", rho="1/2", max_groups=2), persons
    yield "mean, by group", sl.Mean("free", by="place", clip="by_group", max_groups=2, epsilon=8), persons
    yield "mean, by group in rho", sl.Mean("free", by="place", clip="by_group", max_groups=2, rho=2), persons
    yield "means", sl.Mean(["a", "b"], by="job", **tenth), people
    yield "means, rho", sl.Mean(["a", "b"], by="job", rho="1/8"), people
    yield "mean, labels", sl.Mean("free", by="word", max_groups=2, **PRICE), persons
    yield "sum, rho", sl.Sum("age", by="job", rho="1/8"), people
    yield "sum, by group", sl.Sum("free", by="place", clip="by_group", max_groups=2, epsilon=8), persons
    yield "variance, rho", sl.Variance("a", by="job", rho="1/8"), people
    yield "summary, rho", sl.Summary("age", by="yes", rho=1), people
    yield "top, drawn", sl.TopK("place", k=2, route="peeling", epsilon=1), persons
    yield "top, drawn in rho", sl.TopK("place", k=2, route="peeling", rho="1/2"), persons
    yield "top, labels", sl.TopK("word", k=2, max_groups=2, **PRICE), persons
    yield "count distinct, rho", sl.CountDistinct("job", rho="1/8"), people
    yield "histogram, private bins", sl.Histogram("age", bins=("private", 4), **tenth), people
    yield "histogram, private bins in rho", sl.Histogram("a", bins=("private", 4), rho="1/2"), people
    yield "quantiles, by group", sl.Quantiles(QUARTILES, epsilon=2, **by_age), people
    yield "quantiles, by group in rho", sl.Quantiles(QUARTILES, rho=1, **by_age), people
    known = {"cook": sl.priors.Cauchy(40, 8), "nurse": sl.priors.Cauchy(50, 8)}
    yield "quantiles, by group with priors", sl.Quantiles(HALF, epsilon=2, prediction=known, **by_age), people
    yield "quantiles, borrowed", sl.Quantiles(HALF, epsilon=2, prediction="total", **by_age), people
    many = sl.quantiles.even_levels(40)
    yield "quantiles, by group, many", sl.Quantiles(many, epsilon=2, **by_age), people
    statement = "SELECT job, COUNT(*), AVG(age), VAR_SAMP(a) FROM people GROUP BY job"
    yield "sql, rho", sl.SQL(statement, rho="1/2"), people
    yield "distribution, rho", sl.Distribution("age", rho="1/8"), people
    yield "distribution, no bounds", sl.Distribution("value", epsilon=1), _numbers()


def _covariance_cases() -> Iterator[Case]:
    people = _people(3000)
    prices: dict[str, dict[str, Any]] = {
        "rho": {"rho": 1},
        "pure": {"epsilon": 1},
        "laplace": {"epsilon": 1, "noise": "laplace"},
        "approx": PRICE,
        "gauss": {"rho": 1, "method": "gauss"},
        "separate": {"rho": 1, "method": "separate"},
        "separate, pure": {"epsilon": 1, "method": "separate"},
        "ies": {"epsilon": 1, "method": "ies"},
        "guess": {"rho": 1, "prediction": GUESS},
        "public rows": {"rho": 1, "prediction": sl.PublicData(_points(((0, 0),), 40, 3) / 8, "census")},
        "mean": {"rho": 1, "centre": "mean"},
        "pairs": {"rho": 1, "centre": "pairs"},
        "rows": {"rho": 1, "rows": 3000},
        "unprojected": {"rho": 1, "project": False},
    }
    for name, given in prices.items():
        yield f"covariance, {name}", sl.Covariance(["a", "b"], radius=1, **given), people
    yield "covariance, persons", sl.Covariance(["age"], radius=128, rho=1), _of_persons()


def _stable_cases() -> Iterator[Case]:
    few, many = _people(3000), _people(30_000)
    score = sl.PublicScore(lambda answer: -abs(float(answer.value[0]) - 0.5), "distance to last year's")
    yield "stable median", sl.StableMedian("age", spread=8, **PRICE), few
    yield "stable median, refused", sl.StableMedian("age", **PRICE), _people(3)
    yield "stable mode", sl.StableMode("job", **PRICE), few
    yield "stable mode, refused", sl.StableMode("yes", **PRICE), _people(3)
    yield "majority vote", sl.MajorityVote("yes", noise_scale=20, **PRICE), few
    yield "stable pca", sl.StablePCA(columns=["a", "b"], components=1, radius=1, **PRICE), many
    for shape in ("isotropic", "hessian"):
        query = sl.StableLogistic(**RIDGE | {"target": "yes"}, penalty=20, shape=shape, rows_at_most=10**5)
        yield f"stable logistic, {shape}", query, many
    yield "adaops", sl.AdaOPS(**RIDGE), many
    yield "opsptr", sl.OPSPTR(**RIDGE, score=score), many


def _gaussian_cases() -> Iterator[Case]:
    one, two = _cloud((3, -2)), _cloud((-40, 0), (40, 10))
    public = _points(((3, -2),), 12, 4)
    parts = _points(((-40, 0), (40, 10)), 20, 5)
    yield "gaussian mean, rho", sl.GaussianMean(prediction=public, rho=1), one
    yield "gaussian mean, laplace", sl.GaussianMean(prediction=public, epsilon=2, noise="laplace"), one
    bounds: dict[str, Any] = {"covariance": [[1.0, 0.0], [0.0, 1.0]], "mean_bound": 100}
    yield "gaussian mean, bounds", sl.GaussianMean(**bounds, **PRICE), one
    yield "gaussian fit, rho", sl.GaussianFit(prediction=public, rho=1), one
    yield "gaussian fit, laplace", sl.GaussianFit(prediction=public, epsilon=8, noise="laplace"), one
    yield "gaussian fit, approx", sl.GaussianFit(prediction=public, **PRICE), one
    yield "gaussian fit, bounds", sl.GaussianFit(mean_bound=100, variance_bound=16, rho=1), one
    for method in ("auto", "project-link-verify", "recursive", "public-cluster"):
        given: dict[str, Any] = {"components": 2, "prediction": parts, "rho": 4, "method": method}
        yield f"gaussian mixture, {method}", sl.SeparatedMixture(**given), two
    yield "gaussian mixture, refused", sl.SeparatedMixture(components=2, prediction=parts, rho=4), _cloud((0, 0))


def _synthetic_cases() -> Iterator[Case]:
    people = _people(3000)
    columns: dict[str, Any] = {"columns": ["job", "yes", "age"], "bins": {"age": 4}}
    rng = np.random.default_rng(6)
    rows = {"job": rng.choice(["cook", "nurse"], 80), "yes": rng.choice(["no", "yes"], 80), "age": np.arange(80)}
    table = sl.PublicData(rows, "census")
    forms: dict[str, dict[str, Any]] = {
        "rho": {"rho": 1},
        "pure": {"epsilon": 1},
        "queries": {"rho": 1, "engine": "queries"},
        "mwem": {"rho": 1, "engine": "mwem", "rounds": 2},
        "support": {"rho": 1, "engine": "support", "prediction": table},
        "loglinear": {"rho": 1, "engine": "loglinear"},
        "prediction": {"rho": 1, "prediction": table, "trust": 0.5},
        "rows": {"rho": 1, "rows": 3000},
    }
    for name, form in forms.items():
        yield f"synthetic table, {name}", sl.SyntheticTable(sl.marginals(2), **columns, **form), people
    for name, workload in {"prefixes": sl.prefixes("age"), "ranges": sl.ranges("age")}.items():
        yield f"synthetic table, {name}", sl.SyntheticTable(workload, **columns, rho=1), people
    matrix = np.eye(4, 3 * 2 + 2)[:, :8]
    asked = sl.linear_queries(matrix, columns=["job", "yes"])
    yield "synthetic table, linear", sl.SyntheticTable(asked, columns=["job", "yes"], rho=1), people


def _other_cases() -> Iterator[Case]:
    people, numbers = _people(3000), _numbers()
    for norm in (None, "2"):
        yield f"adassp, {norm}", sl.AdaSSP(**RIDGE, intercept=norm), people
    yield "adassp, rho", sl.AdaSSP(features=["a"], target="y", feature_norm=1, rho=1, shrinkage="directions"), people
    median = [sl.Quantiles(HALF, epsilon="1/4", column="value", prediction=sl.priors.Cauchy(at, 1)) for at in (0, 40)]
    near = sl.PublicScore(lambda answer: -abs(float(answer.value[0]) - 40), "distance to 40")
    yield "selection, geometric", sl.Selection(candidates=median, score=near, runs=sl.tuning.geometric(4)), numbers
    yield "selection, poisson", sl.Selection(candidates=median, score=near, runs=sl.tuning.Poisson(3)), numbers


#: A model with rows of its own: what is fitted through a session.
MODELS: dict[str, Callable[[SeededSession], Any]] = {
    "logistic regression": lambda paid: sl.LogisticRegression(**FIT, classes=[0, 1], session=paid),
    "logistic regression, three": lambda paid: sl.LogisticRegression(**FIT, classes=[0, 1, 2], session=paid),
    "logistic regression, objective": lambda paid: sl.LogisticRegression(
        **FIT, classes=[0, 1], solver="objective", session=paid
    ),
    "logistic regression, no geometry": lambda paid: sl.LogisticRegression(
        **FIT, classes=[0, 1], solver=sl.DescentSettings(geometry="none"), session=paid
    ),
    "linear regression, objective": lambda paid: sl.LinearRegression(
        **FIT, target_range=(0, 1), solver="objective", session=paid
    ),
    "linear regression, predicted": lambda paid: sl.LinearRegression(
        **FIT, target_range=(0, 1), prediction=sl.CoefficientPrediction(np.zeros(2), 0.5), session=paid
    ),
    "linear svc": lambda paid: sl.LinearSVC(**FIT, classes=[0, 1], session=paid),
    "linear regression": lambda paid: sl.LinearRegression(**FIT, target_range=(0, 1), session=paid),
    "poisson": lambda paid: sl.PoissonRegressor(**FIT, largest_count=2, session=paid),
    "pca": lambda paid: sl.PCA(1, radius=1, rho=1, session=paid),
    "gaussian model": lambda paid: sl.GaussianModel(prediction=_points(((0, 0),), 12, 4) / 8, rho=1, session=paid),
    "gaussian mixture model": lambda paid: sl.GaussianMixture(
        2, prediction=_points(((-40, 0), (40, 10)), 20, 5), rho=4, session=paid
    ),
}


@dataclass(frozen=True)
class Done:
    """What a case left: outcomes, in order, and what the ledger booked for them."""

    name: str
    outcomes: list[Any]
    entries: list[LedgerEntry]


def reference_cases(folder: Path) -> Iterator[Done]:
    """Release everything, each case with a scope of its own on one ledger for tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidelightWarning)  # of budgets that protect little, predictions that may be far
        yield from _all(folder)


def query_cases() -> Iterator[Case]:
    """Return every case that is a query and its table."""
    yield from _quantile_cases()
    yield from _summary_cases()
    yield from _covariance_cases()
    yield from _stable_cases()
    yield from _gaussian_cases()
    yield from _synthetic_cases()
    yield from _other_cases()


def _all(folder: Path) -> Iterator[Done]:
    report = every_kind(folder)
    for kind in report.items:
        yield Done(f"plan: {kind.outcome.query['kind']}, {kind.title.rpartition(' ')[2]}", [kind.outcome], [])
    with open_ledger(folder / "reference.db", testing=True) as ledger:
        for name, query, table in query_cases():
            yield _released(ledger, name, query, table)
        yield from _fits(ledger)
        yield _together(ledger)
        yield _on_views(ledger)
        yield _days(ledger, "days", sl.PubProx(40, 8, features=1, plausible=(0, 100)))
        yield _days(ledger, "days, as before", sl.PubPrev(40, 8))
        yield _days(ledger, "days, counted", sl.PubTrack())
        yield _days(ledger, "days, counted, many levels", sl.PubTrack(), levels=sl.quantiles.even_levels(19))
        learner = sl.quantiles.PrivateHistograms(0, 128, rho="1/4", bins=8)
        yield _days(ledger, "days, private histograms", learner, budget=sl.ApproxDP(99, "1e-6"))
    yield from _reports(folder)


def _released(ledger: Ledger, name: str, query: Any, data: Any) -> Done:
    """Release with a charge; bare numbers and neighbours by replacement, which no scope counts, without one."""
    if isinstance(data, sl.Table) and getattr(query, "rows", None) is None:
        return _done(ledger, name, [_session(ledger, name, data).release(query)])
    return Done(name, [seeded_release(query, data, seed=name)], [])


def _session(ledger: Ledger, name: str, table: sl.Table) -> SeededSession:
    return SeededSession(table, budget=sl.ApproxDP(1000, "1/10"), ledger=ledger, scope=name, seed=name)


def _done(ledger: Ledger, name: str, outcomes: list[Any]) -> Done:
    return Done(name, outcomes, list(ledger.scope(name).entries()))


def _fits(ledger: Ledger) -> Iterator[Done]:
    people = sl.Table({"row": np.empty(0)}, schema=[sl.Number("row")], name="people")
    rng = np.random.default_rng(20)
    rows = rng.integers(-64, 65, (2000, 2)) / 128
    target = (rows[:, 0] > rows[:, 1] / 2).astype(int) + (rows[:, 1] > 0.25)
    far = _points(((-40, 0), (40, 10)), 3000, 21)
    for name, make in MODELS.items():
        model = make(_session(ledger, name, people))
        classes = 3 if "three" in name or "against" in name or name == "poisson" else 2
        model.fit(*((far,) if "mixture" in name else (rows, np.minimum(target, classes - 1))))
        yield _done(ledger, name, [model.release_])
        if name == "logistic regression":  # scored with numbers that are the same on every machine
            model.coef_, model.intercept_ = np.array([[1.0, -0.5]]), np.zeros(1)
            score = model.dp_score(rows, np.minimum(target, 1), epsilon=1, session=_session(ledger, "score", people))
            yield _done(ledger, "score", [score])
    given: dict[str, Any] = {"X": rows, "y": np.minimum(target, 1), "data_norm": 1, "epsilon": 1, "delta": "1e-5"}
    for preset in ("gradient", "thesis"):
        name, query = f"paid report, {preset}", PaidFit(loss=LogisticLoss(classes=(0, 1)), preset=preset, **given)
        yield _done(ledger, name, [_session(ledger, name, people).release(query)])
    x = np.concatenate([_points(((0, 0),), 1000, 22), _points(((8, 0),), 1000, 23)])
    given = {"teachers": 40, "classes": ["cat", "dog"], "noise_scale": 10, "n_jobs": 1}
    for name, proposal in {"pate": None, "pate, proposals": "auto"}.items():
        pate = sl.PATE(NearestCentroid(), proposal=proposal, session=_session(ledger, name, people), **given)
        ids = [f"owner {place}" for place in range(2000)]
        pate.fit(X=x, y=np.repeat(["cat", "dog"], 1000), record_ids=ids, queries=x[::100])
        yield _done(ledger, name, [pate.release_])


def _together(ledger: Ledger) -> Done:
    session = _session(ledger, "together", _people(3000))
    asked = [sl.Quantiles(HALF, epsilon="1/4", column="age"), sl.Covariance(["a", "b"], radius=1, rho="1/8")]
    return _done(ledger, "together", session.release_together(asked, delta="1e-6"))


def _on_views(ledger: Ledger) -> Done:
    owner = np.arange(300) % 120
    visits = {"person": owner, "ward": np.where(owner % 3, "a", "b"), "days": np.arange(300) % 9}
    columns = [sl.PersonId("person", max_rows=3), sl.Category("ward", ["a", "b"]), sl.Number("days", lower=0, upper=9)]
    clinic = sl.Database({"visit": sl.Table(visits, schema=columns)}, name="clinic")
    given: dict[str, Any] = {"budget": sl.ApproxDP(1000, "1/10"), "ledger": ledger, "scope": "views", "seed": "views"}
    session = SeededSession(clinic, **given)
    people = sl.per_person(clinic, of="visit", visits=sl.fold.count("visit", upper=3))
    rows = session.release(sl.Count(by="ward", epsilon=1, max_groups=2), of="visit")
    pairs = clinic.pairs("visit", "visit", where=sl.col("left.days") >= 3, max_rows=2)
    mean = session.release(sl.Mean("visits", epsilon=1), of=people)
    return _done(ledger, "views", [rows, mean, session.release(sl.Count(of="rows", epsilon=1), of=pairs)])


def _days(ledger: Ledger, name: str, learner: Any, *, levels: Any = tuple(QUARTILES), budget: Any = None) -> Done:
    query = sl.Quantiles(levels, epsilon="1/2", column="value")
    schema = [sl.Number("value", granularity="1/32")]
    rest: dict[str, Any] = {
        "schema": schema,
        "ledger": ledger,
        "scope": name,
        "budget": budget or sl.PureDP(9),
        "seed": 1,
    }
    sequence = SeededSequence(query, learner, **rest)
    outcomes = []
    for place in range(3):
        values = 40 + 4 * place + 8 * _bell(np.random.default_rng(30 + place), (300,))
        given: dict[str, Any] = {"features": [float(place % 2)]} if name == "days" else {}
        day = datetime.date(2026, 1, 1) + datetime.timedelta(place)
        outcomes.append(sequence.release({"value": values}, day=day, **given))
    return _done(ledger, name, outcomes)


def _reports(folder: Path) -> Iterator[Done]:
    for neighbours in ("presence", "move"):
        terms = sl.experts.Reporting(actions=3, mu=1, sensitivity="0.1", neighbours=neighbours, rounds=2)
        with open_ledger(folder / f"{neighbours}.db", testing=True) as ledger:
            reporter = sl.experts.Reporter("ward", terms, ledger=ledger, entropy=SeededEntropy("ward"))
            reports = [reporter.report(round_, [0.25, 0.5, 0.75]) for round_ in (1, 2)]
            yield Done(f"experts, {neighbours}", reports, list(reporter.scope.entries()))
