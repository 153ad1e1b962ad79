"""What releases state about their errors, compared with the rows: one function for each form of a statement.

Each query of `ASKED` comes with the functions that read its releases. A statement is a name, the confidence that the
release states, and whether it was true of this release; names are the same in every release of a query.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.stated_error_laws import GROUPS, HALVES, Case
from sidelight.ledger import open_ledger
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.session.door import _run_one
from sidelight.session.query import prepare_query
from sidelight.testing import SeededEntropy, SeededSequence

Statement = tuple[str, float, bool]
Reader = Callable[[Case, Any], Iterable[Statement]]
#: Numbers are compared up to rounding.
_ROUNDING = 1 + 1e-9
CONFIDENCES = (0.95, 0.99)


@dataclass(frozen=True)
class Asked:
    """A query, how its releases are made, and what they state."""

    name: str
    query: Callable[[Case], Any]
    reads: tuple[Reader, ...]
    #: How many times the usual number of releases: what is cheap can be refuted more sharply.
    times: float = 1.0
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


# Tables by group: intervals of one row each.

Truth = Callable[[dict[str, Any]], float]


def intervals(truth: Truth, *, low: str = "low", high: str = "high", confidence: float = 0.95) -> Reader:
    """Return what reads the intervals of a table by group, row by row; of groups without rows only counts and sums."""

    def read(case: Case, release: Any) -> Iterator[Statement]:
        table = release.value
        for place, group in enumerate(table.groups):
            rows = _rows_of(case, table.keys_of_groups, group)
            true = truth({name: column[rows] for name, column in case.columns.items()})
            if np.isfinite(true):
                slack = abs(true) * 1e-9
                kept = table[low][place] - slack <= true <= table[high][place] + slack
                yield f"{low} to {high} of {'/'.join(group) or 'all'}", confidence, bool(kept)

    return read


def _rows_of(case: Case, keys: Iterable[str], group: tuple[str, ...]) -> np.ndarray:
    rows = np.ones(case.rows, bool)
    for key, label in zip(keys, group, strict=True):
        if label != "all":
            rows &= case.columns[key] == label
    return rows


def count(rows: dict[str, Any]) -> float:
    """Return the number of rows."""
    return float(len(rows["x"]))


def total(rows: dict[str, Any]) -> float:
    """Return the sum of x."""
    return float(rows["x"].sum())


def mean(rows: dict[str, Any]) -> float:
    """Return the mean of x."""
    return float(rows["x"].mean()) if len(rows["x"]) else np.nan


def above(case_rows: dict[str, Any]) -> float:
    """Return the share of rows of the second half."""
    return float(np.mean(case_rows["h"] == "q")) if len(case_rows["h"]) else np.nan


def spread(rows: dict[str, Any]) -> float:
    """Return the sample variance of x."""
    return float(np.var(rows["x"], ddof=1)) if len(rows["x"]) > 1 else np.nan


def deviation(rows: dict[str, Any]) -> float:
    """Return the sample standard deviation of x."""
    return float(np.sqrt(spread(rows)))


# Bounds of `release.error`: all entries at once.


def bounds(errors: Callable[[Case, Any], np.ndarray]) -> Reader:
    """Return what reads `error_bound` at each confidence, from the errors of the entries."""

    def read(case: Case, release: Any) -> Iterator[Statement]:
        if release.error is None:
            return
        found = np.asarray(errors(case, release))
        for confidence in CONFIDENCES:
            bound = release.error_bound(confidence)
            yield f"error_bound({confidence})", confidence, bool((found <= bound * _ROUNDING + 1e-12).all())

    return read


def unbiased(truth: Truth) -> Callable[[Case, Any], np.ndarray]:
    """Return the errors of the column `unbiased`."""

    def errors(case: Case, release: Any) -> np.ndarray:
        table = release.value
        rows = [_rows_of(case, table.keys_of_groups, group) for group in table.groups]
        true = [truth({name: column[each] for name, column in case.columns.items()}) for each in rows]
        return np.abs(np.asarray(table["unbiased"], float) - true).max(keepdims=True)

    return errors


BINS = (0.1, 0.3, 0.5, 0.7)


def bins_of(case: Case) -> list[float]:
    """Return public bins of x."""
    return [case.law.lower + share * (case.law.upper - case.law.lower) for share in BINS]


def in_bins(case: Case, release: Any) -> np.ndarray:
    """Return the errors of a histogram with public bins."""
    edges = [-np.inf, *bins_of(case), np.inf]
    found = np.asarray(release.value["unbiased"], float)
    true = np.histogram(case.columns["x"], edges)[0]
    assert len(found) >= len(true)
    return np.abs(found - _padded(true, len(found))).max(keepdims=True)


def _padded(true: np.ndarray, size: int) -> np.ndarray:
    """Return the counts of a table that also has rows for what lies beyond the declared bounds."""
    beyond = size - len(true)
    return true if not beyond else np.concatenate([np.zeros(beyond // 2), true, np.zeros(beyond - beyond // 2)])


def drawn(case: Case, release: Any) -> np.ndarray:
    """Return by how many rows a drawn label has fewer than the best one that was left."""
    left = {label: int((case.columns["g"] == label).sum()) for label in GROUPS}
    worst = 0
    for (label,) in release.value.groups:
        worst = max(worst, max(left.values()) - left.pop(label))
    return np.array([worst])


def ranks(levels: Iterable[float]) -> Callable[[Case, Any], np.ndarray]:
    """Return the errors of quantiles in ranks."""
    asked = list(levels)
    return lambda case, release: nonprivate_gap(case.columns["x"], asked, np.asarray(release.value))


def distribution_ranks(case: Case, release: Any) -> np.ndarray:
    """Return the errors of the levels that a distribution carries bounds of."""
    size = len(release.error.fixed)
    levels = [place / (size + 1) for place in range(1, size + 1)]
    return nonprivate_gap(case.columns["x"], levels, np.asarray(release.value.quantile(levels)))


def band(case: Case, release: Any) -> Iterator[Statement]:
    """Read the band of a distribution, at the values that occur."""
    values = np.unique(case.columns["x"])
    low, high = release.value.band(values)
    true = np.searchsorted(np.sort(case.columns["x"]), values, "right") / case.rows
    yield "band", 0.95, bool(((low <= true * _ROUNDING) & (true <= high * _ROUNDING)).all())


def operator_norm(centred: bool) -> Callable[[Case, Any], np.ndarray]:
    """Return the error of a matrix in operator norm."""

    def errors(case: Case, release: Any) -> np.ndarray:
        rows = np.column_stack([case.columns["x"], case.columns["y"]])
        true = np.cov(rows.T, bias=True) if centred else rows.T @ rows / len(rows)
        return np.abs(np.linalg.eigvalsh(release.value["matrix"] - true)).max(keepdims=True)

    return errors


def in_deviations(case: Case, release: Any) -> np.ndarray:
    """Return the largest error of a mean, in standard deviations of its column."""
    rows = np.column_stack([case.columns["x"], case.columns["y"]])
    return np.abs((release.value["mean"] - rows.mean(axis=0)) / rows.std(axis=0)).max(keepdims=True)


def middle(case: Case, release: Any) -> np.ndarray:
    """Return the error of a median."""
    ordered = np.sort(case.columns["x"])
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return np.array([max(low - release.value, release.value - high, 0.0)])


def wrong_label(case: Case, release: Any) -> np.ndarray:
    """Return 1 where the released label is not the most frequent one."""
    labels, counts = np.unique(case.columns["g"], return_counts=True)
    return np.array([float(release.value not in labels[counts == counts.max()])])


def marginals(case: Case, release: Any) -> Iterator[Statement]:
    """Read the bounds of a synthetic table's answers: all of a release hold at once."""
    synthetic = sl.Synthetic(release)
    for columns in (("g",), ("g", "h")):
        answers: Any = synthetic.answer(columns)
        if answers.bound is None:
            continue
        labels = (GROUPS, HALVES)[: len(columns)]
        rows = [case.columns[name] for name in columns]
        true = np.zeros([len(each) for each in labels])
        for place in np.ndindex(true.shape):
            true[place] = np.logical_and.reduce(
                [row == each[at] for row, each, at in zip(rows, labels, place, strict=True)]
            ).sum()
        off = np.abs(np.asarray(answers.counts) - true)
        name = "/".join(columns)
        yield f"bound of {name}", answers.confidence, bool(off.max() <= answers.bound * _ROUNDING)
        if answers.bound_of_sum is not None:
            yield f"bound_of_sum of {name}", answers.confidence, bool(off.sum() <= answers.bound_of_sum * _ROUNDING)


# Models: predictions against those of the model that the statement names.


def predictions(case: Case, release: Any) -> np.ndarray:
    """Return how far predictions of y are from those of least squares, in the root mean square of rows."""
    x, y = case.columns["x"], case.columns["y"]
    design = np.column_stack([x, np.ones_like(x)])
    best = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    told = _regression(case).scores(release.value, case.columns, case.schema)
    return np.sqrt(np.mean((np.ravel(told) - best) ** 2, keepdims=True))


def probabilities(case: Case, release: Any) -> np.ndarray:
    """Return how far probabilities are from those of the best model, in the root mean square of rows, in points."""
    query = _classes(case, **({} if release.query["loss"] == "logistic" else {"target": "g"}))
    scores = query.scores(release.value, case.columns, case.schema)
    return 100 * np.sqrt(
        np.mean((_chances(scores) - _best_chances(case, query.target)) ** 2, keepdims=True).ravel()[:1]
    )


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


ASKED = (
    Asked("Count", lambda _: sl.Count(epsilon="0.5"), (intervals(count), bounds(unbiased(count))), times=4),
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
        times=4,
    ),
    Asked("Histogram", lambda case: sl.Histogram("x", bins=bins_of(case), epsilon="0.5"), (bounds(in_bins),)),
    Asked(
        "CountDistinct",
        lambda _: sl.CountDistinct("g", epsilon=1),
        (intervals(lambda rows: float(len(np.unique(rows["g"])))),),
    ),
    Asked("TopK", lambda _: sl.TopK("g", k=3, epsilon=1), (bounds(unbiased(count)),)),
    Asked("TopK, peeling", lambda _: sl.TopK("g", k=3, epsilon=1, route="peeling"), (bounds(drawn),)),
    Asked("Sum", lambda _: sl.Sum("x", epsilon=1), (intervals(total), bounds(unbiased(total))), times=2),
    Asked("Sum by group", lambda _: sl.Sum("x", by="g", epsilon=1), (intervals(total), bounds(unbiased(total)))),
    Asked("Mean", lambda _: sl.Mean("x", epsilon=1), (intervals(mean),), times=2),
    Asked("Mean by group", lambda _: sl.Mean("x", by="g", epsilon=1), (intervals(mean),)),
    Asked(
        "Mean by group, 99 %",
        lambda _: sl.Mean("x", by="g", rho="0.5", confidence=0.99),
        (intervals(mean, confidence=0.99),),
    ),
    Asked("Proportion by group", lambda _: sl.Proportion(sl.col("h") == "q", by="g", epsilon=1), (intervals(above),)),
    Asked("Variance", lambda _: sl.Variance("x", epsilon=1), (intervals(spread),)),
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
    Asked("Quantiles", lambda _: sl.Quantiles(DECILES, column="x", epsilon=1), (bounds(ranks(DECILES)),)),
    Asked("Quantiles, median", lambda _: sl.Quantiles([0.5], column="x", epsilon="0.3"), (bounds(ranks([0.5])),)),
    Asked(
        "Quantiles, cells",
        lambda _: sl.Quantiles(sl.quantiles.even_levels(20), column="x", epsilon=1, form="cells"),
        (bounds(ranks([(place + 1) / 21 for place in range(20)])),),
    ),
    Asked("Distribution", lambda _: sl.Distribution("x", epsilon=1), (bounds(distribution_ranks), band)),
    Asked(
        "PubTrack",
        lambda _: sl.Quantiles([0.25, 0.5, 0.75], column="x", epsilon=1),
        (bounds(ranks([0.25, 0.5, 0.75])),),
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
    Asked("StableMedian", lambda case: sl.StableMedian("x", spread=case.law.upper / 20, **PRICE), (bounds(middle),)),
    Asked("StableMode", lambda _: sl.StableMode("g", **PRICE), (bounds(wrong_label),)),
    Asked("SyntheticTable", lambda _: sl.SyntheticTable(sl.marginals(2), columns=["g", "h"], rho="0.1"), (marginals,)),
    Asked("LinearRegression", _regression, (bounds(predictions),)),
    Asked("LogisticRegression", _classes, (bounds(probabilities),)),
    Asked("LogisticRegression, five classes", lambda case: _classes(case, target="g"), (bounds(probabilities),)),
)
