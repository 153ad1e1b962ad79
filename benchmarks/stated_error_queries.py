"""Queries that state an error, each with what reads its statements, and how its releases are made."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.stated_error_claims import (
    Reader,
    above,
    band,
    bins_of,
    bounds,
    cell_errors,
    count,
    deviation,
    distribution_ranks,
    drawn,
    in_bins,
    in_deviations,
    intervals,
    marginals,
    mean,
    middle,
    operator_norm,
    ranks,
    spread,
    total,
    unbiased,
    wrong_label,
)
from benchmarks.stated_error_laws import GROUPS, HALVES, Case
from sidelight.ledger import open_ledger
from sidelight.session.pipeline import _run_one
from sidelight.session.query import prepare_query
from sidelight.testing import SeededEntropy, SeededSequence


@dataclass(frozen=True)
class Asked:
    """A query, how its releases are made, and what they state."""

    name: str
    query: Callable[[Case], Any]
    reads: tuple[Reader, ...]
    #: How many times the usual number of releases: what is cheap can be refuted more sharply.
    times: float = 1.0
    #: How many times the law's rows: ties are seen where there are many rows in each.
    rows: int = 1
    #: Laws that its stated assumption leaves out, by name.
    outside: tuple[str, ...] = ()
    release: Callable[[Asked, Case, str, int], Iterator[tuple[Case, Any]]] | None = None

    def releases(self, case: Case, seed: str, count: int) -> Iterator[tuple[Case, Any]]:
        """Yield releases with the table that each is of; a refusal states nothing. The query is prepared once."""
        if self.release is not None:
            yield from self.release(self, case, seed, count)
            return
        prepared = prepare_query(self.query(case), case.table.schema)
        for place in range(count):
            found, _ = _run_one(prepared, case.table, entropy=SeededEntropy(f"{seed} {place}"))
            if not isinstance(found, sl.Refused):
                yield case, found


# Models: predictions against those of the model that the statement names.


def predictions(case: Case, release: Any) -> np.ndarray:
    """Return how far predictions of y are from those of least squares, in the root mean square of rows."""
    x, y = case.columns["x"], case.columns["y"]
    design = np.column_stack([x, np.ones_like(x)])
    best = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    told = _regression(case).scores(release.value, case.columns, case.schema)
    return np.sqrt(np.mean((np.ravel(told) - best) ** 2, keepdims=True))


def probabilities(case: Case, release: Any) -> np.ndarray:
    """Return how far probabilities are from those of the best model, in points: of the class that is furthest off."""
    query = _classes(case, **({} if release.query["loss"] == "logistic" else {"target": "g"}))
    scores = query.scores(release.value, case.columns, case.schema)
    off = np.sqrt(np.mean((_chances(scores) - _best_chances(case, query.target)) ** 2, axis=0))
    return 100 * off.max(keepdims=True)


def _chances(scores: np.ndarray) -> np.ndarray:
    scores = np.asarray(scores)
    if scores.ndim == 1 or scores.shape[1] == 1:
        positive = 1 / (1 + np.exp(-np.ravel(scores)))
        return np.column_stack([1 - positive, positive])
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=1, keepdims=True))


def _best_chances(case: Case, target: str) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    known = case.__dict__.setdefault("best chances", {})
    if target not in known:
        rows = np.column_stack([case.columns["x"], case.columns["y"]])
        rows = (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-12)
        labels = case.columns[target]
        order = {"h": HALVES, "g": GROUPS}[target]
        chances = np.zeros((case.rows, len(order)))
        model = LogisticRegression(C=1e4, max_iter=2000).fit(rows, labels)
        for place, label in enumerate(model.classes_):
            chances[:, order.index(label)] = model.predict_proba(rows)[:, place]
        known[target] = chances
    return np.asarray(known[target])


def _sparse(engine: Any) -> sl.SyntheticTable:
    bins = {"x": 40, "y": 40}
    return sl.SyntheticTable(sl.marginals(2), columns=["x", "y"], bins=bins, epsilon="0.5", engine=engine)


def _regression(case: Case, **more: Any) -> Any:
    model = sl.LinearRegression(epsilon=1, delta="1e-6", **more)
    return sl.ModelQuery(model=model, target="y", features=["x"])


def _classes(case: Case, *, target: str = "h", **more: Any) -> Any:
    labels = list({"h": HALVES, "g": GROUPS}[target])
    model = sl.LogisticRegression(epsilon=1, delta="1e-6", classes=labels, **more)
    return sl.ModelQuery(model=model, target=target, features=["x", "y"])


def _days(asked: Asked, case: Case, seed: str, count: int) -> Iterator[tuple[Case, Any]]:
    """Release one day after the other, each of other rows of the same law."""
    first = datetime.date(2025, 1, 6)
    with open_ledger("sqlite://", testing=True) as ledger:
        kept: dict[str, Any] = {"budget": sl.PureDP(10_000), "ledger": ledger, "scope": "days"}
        sequence = SeededSequence(asked.query(case), sl.PubTrack(), seed=seed, schema=case.schema, **kept)
        for place in range(count):
            day = Case(case.law, 1000 * case.seed + place, case.rows)
            yield day, sequence.release(day.table, day=first + datetime.timedelta(place))


DECILES = [place / 10 for place in range(1, 10)]
PRICE: dict[str, Any] = {"epsilon": 2, "delta": "1e-6"}
NOT_GAUSSIAN = ("geometric counts", "five values", "zeros beside a lognormal", "a narrow spike", "a heavy tail",
                "money in hundreds", "seven clusters")  # fmt: skip


def _radius(case: Case) -> float:
    return float(np.hypot(case.law.upper, case.law.upper))


def _covariance(case: Case) -> Any:
    """Return the known covariance of a query, which is that of the rows."""
    return np.cov(case.columns["x"], case.columns["y"])


def _largest(answer: Any) -> float:
    return float(answer.value["unbiased"][0])


#: Public names whose statements are tried by tests of their own: bounds of objective perturbation, which are theorems
#: about the model without noise.
ELSEWHERE = dict.fromkeys(("LinearSVC", "ModelQuery", "PoissonRegressor"), "regression/test_model_error.py")

ASKED = (
    Asked("Count", lambda _: sl.Count(epsilon="0.5"), (intervals(count), bounds(unbiased(count))), times=2),
    Asked("Count by group", lambda _: sl.Count(by="g", epsilon="0.5"), (intervals(count), bounds(unbiased(count)))),
    Asked(
        "Count by group, 99 %",
        lambda _: sl.Count(by="g", rho="0.05", confidence=0.99),
        (intervals(count, confidence=0.99),),
    ),
    Asked("Count, rollup", lambda _: sl.Count(by=["g", "h"], rollup=True, epsilon=1), (intervals(count),)),
    Asked(
        "Count, rollup, 99.9 %",
        lambda _: sl.Count(by=["g", "h"], rollup=True, epsilon=1, confidence=0.999),
        (intervals(count, confidence=0.999),),
        times=8,
    ),
    Asked("Histogram", lambda case: sl.Histogram("x", bins=bins_of(case), epsilon="0.5"), (bounds(in_bins),)),
    Asked(
        "CountDistinct",
        lambda _: sl.CountDistinct("g", epsilon=1),
        (intervals(lambda rows: float(len(np.unique(rows["g"])))),),
    ),
    Asked("TopK", lambda _: sl.TopK("g", k=3, epsilon=1), (intervals(count), bounds(unbiased(count, "noisy_count")))),
    Asked("TopK, peeling", lambda _: sl.TopK("g", k=3, epsilon=1, route="peeling"), (bounds(drawn),)),
    Asked("Sum", lambda _: sl.Sum("x", epsilon=1), (intervals(total), bounds(unbiased(total)))),
    Asked("Sum by group", lambda _: sl.Sum("x", by="g", epsilon=1), (intervals(total), bounds(unbiased(total)))),
    Asked("Mean", lambda _: sl.Mean("x", epsilon=1), (intervals(mean),)),
    Asked("Mean by group", lambda _: sl.Mean("x", by="g", epsilon=1), (intervals(mean),)),
    Asked(
        "Mean by group, 99 %",
        lambda _: sl.Mean("x", by="g", rho="0.5", confidence=0.99),
        (intervals(mean, confidence=0.99),),
    ),
    Asked("Proportion by group", lambda _: sl.Proportion(sl.col("h") == "q", by="g", epsilon=1), (intervals(above),)),
    Asked("Variance by group", lambda _: sl.Variance("x", by="g", epsilon=1), (intervals(spread),)),
    Asked("StandardDeviation", lambda _: sl.StandardDeviation("x", epsilon=1), (intervals(deviation),)),
    Asked("Summary", lambda _: sl.Summary("x", by="h", epsilon=2), (intervals(mean),)),
    Asked(
        "SQL",
        lambda _: sl.SQL("SELECT g, COUNT(*), AVG(x) FROM rows GROUP BY g", epsilon=1),
        (intervals(mean, low="mean_x_low", high="mean_x_high"),),
    ),
    Asked(
        "SQL, sum",
        lambda _: sl.SQL("SELECT g, SUM(x) FROM rows GROUP BY g", epsilon=1),
        (intervals(total, low="sum_x_low", high="sum_x_high"),),
    ),
    Asked("Quantiles", lambda _: sl.Quantiles(DECILES, column="x", epsilon=1), (bounds(ranks(DECILES)),), rows=8),
    Asked(
        "Quantiles, median", lambda _: sl.Quantiles([0.5], column="x", epsilon="0.3"), (bounds(ranks([0.5])),), rows=8
    ),
    Asked(
        "Quantiles, cells",
        lambda _: sl.Quantiles(sl.quantiles.even_levels(20), column="x", epsilon=1, form="cells"),
        (bounds(ranks([(place + 1) / 21 for place in range(20)])),),
        rows=8,
    ),
    Asked("Distribution", lambda _: sl.Distribution("x", epsilon=1), (bounds(distribution_ranks), band), rows=8),
    Asked(
        "PubTrack",
        lambda _: sl.Quantiles([0.25, 0.5, 0.75], column="x", epsilon=1),
        (bounds(ranks([0.25, 0.5, 0.75])),),
        rows=4,
        release=_days,
    ),
    Asked(
        "Covariance",
        lambda case: sl.Covariance(["x", "y"], radius=_radius(case), rho="0.5"),
        (bounds(operator_norm(centred=False)),),
    ),
    Asked(
        "Covariance about the mean",
        lambda case: sl.Covariance(["x", "y"], radius=_radius(case), rho="0.5", centre="mean"),
        (bounds(operator_norm(centred=True)),),
    ),
    Asked(
        "GaussianFit",
        lambda case: sl.GaussianFit(["x", "y"], prediction=case.public, rho="0.5"),
        (bounds(in_deviations),),
        outside=NOT_GAUSSIAN,
    ),
    Asked(
        "GaussianMean",
        lambda case: sl.GaussianMean(["x", "y"], prediction=case.public, covariance=_covariance(case), rho="0.5"),
        (bounds(in_deviations),),
        outside=NOT_GAUSSIAN,
    ),
    # the largest of several answers is kept, which is the hardest case for its bound
    Asked(
        "Selection",
        lambda _: sl.Selection(
            candidates=[sl.Count(epsilon="0.5")], score=sl.PublicScore(_largest, "the answer"), delta="1e-6"
        ),
        (bounds(lambda case, release: np.abs(np.asarray(release.value["value"]["unbiased"], float) - case.rows)),),
    ),
    Asked("StableMedian", lambda case: sl.StableMedian("x", spread=case.law.upper / 20, **PRICE), (bounds(middle),)),
    Asked("StableMode", lambda _: sl.StableMode("g", **PRICE), (bounds(wrong_label),)),
    Asked("SyntheticTable", lambda _: sl.SyntheticTable(sl.marginals(2), columns=["g", "h"], rho="0.1"), (marginals,)),
    Asked("SyntheticTable, mostly empty cells", lambda _: _sparse("marginals"), (cell_errors,), times=0.3, rows=5),
    Asked(
        "SyntheticTable, mostly empty cells, loglinear",
        lambda _: _sparse("loglinear"),
        (cell_errors,),
        times=0.3,
        rows=5,
    ),
    Asked("LinearRegression", _regression, (bounds(predictions),)),
    Asked("LogisticRegression", _classes, (bounds(probabilities),)),
    Asked("LogisticRegression, five classes", lambda case: _classes(case, target="g"), (bounds(probabilities),)),
)
