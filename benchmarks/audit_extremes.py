"""Extreme public parameters, at random and in combination, for every query of the registry, on empty and tiny tables.

Each limit of a parameter may be right alone and what is computed from two of them still overflow. A query is made,
prepared, charged and run as a session does it, with seeded noise: it is released, refused by a priced test, or refused
before the charge by an error of this library. Everything else counts: an error after the charge, and an error of Python
before it.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from math import inf, nextafter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized
from sidelight.errors import BudgetError, SidelightError
from sidelight.ledger import open_ledger
from sidelight.registry import ENTRIES
from sidelight.session.pipeline import _run_one
from sidelight.session.query import prepare_query
from sidelight.testing import SeededEntropy, SeededSession
from sidelight.testing.sequences import SeededSequence

#: Combinations of each kind that the target line tries.
TRIES = 40
SIZES = (5e-324, 1e-310, 1e-150, 1e-30, 1e-12, 0.1, 1, 1000, 2**53 + 2, 1e18, 1e38, 1e150, 1e300, 1.79e308, 10**400)
PRICES = ("1e-300", "1e-18", "1e-12", "1e-6", "0.001", "0.1", 50, 10**6, 10**18, "1e300")
DELTAS = ("1e-300", "1e-30", "1e-9", "0.01", "0.5", "0.999999999999")
LEVELS: tuple[Any, ...] = (
    *([0.5], [0.25, 0.5, 0.75], sl.quantiles.even_levels(9), sl.quantiles.even_levels(40), ["1e-9", "0.5"]),
    *(["0.0001", "0.0002", 0.9999], [*(f"0.{k}" for k in range(1, 9)), "0.99999999999999999"], ["1e-20", 0.5]),
    *([f"0.5{k:09d}" for k in range(1, 10)], [0.5, "0.50000000000000001"], ["1e-9", *sl.quantiles.even_levels(9)]),
)
COUNTS = (1, 2, 3, 1000, 10**6, 10**12, 10**18, 2**63, 10**30)
SHARES = ("1e-300", "1e-12", "0.1", "0.5", "0.999999999999")

#: Under a hierarchy; no row is left out of it, so that totals may be exact.
LEAVES = sl.Category("g", list("xyz"), other="z")

Made = tuple[list[Any], Any]


class Dice:
    """Draws of public parameters; most are ordinary, so that the extreme ones meet something that works."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def one(self, *values: Any) -> Any:
        """Draw one of some values."""
        return self.random.choice(values)

    def size(self, usual: Any = 1) -> Any:
        """Draw a positive number, every second one extreme."""
        return self.usually(usual, *SIZES)

    def usually(self, usual: Any, *values: Any) -> Any:
        """Draw a usual value, or as often one of some others."""
        return usual if self.random.random() < 0.5 else self.one(*values)

    def some(self, **options: Callable[[], Any]) -> dict[str, Any]:
        """Draw each option with one chance in four."""
        return {name: draw() for name, draw in options.items() if self.random.random() < 0.25}

    def price(self, *kinds: str) -> dict[str, Any]:
        """Draw a price of one of some kinds: epsilon, epsilon and delta, rho, mu."""
        kind = self.one(*kinds)
        if kind == "delta":
            return {"epsilon": self.usually(1, *PRICES), "delta": self.usually("1e-6", *DELTAS)}
        return {kind: self.usually(1, *PRICES)}

    def bounds(self, *, must: bool = False) -> dict[str, Any]:
        """Draw the bounds of a number."""
        size = self.size()
        near = size + 1 if isinstance(size, int) else nextafter(size, inf)
        pairs: list[dict[str, Any]] = [
            *({"lower": -10, "upper": 10}, {"lower": -size, "upper": size}, {"lower": 0, "upper": size}),
            *({"lower": size, "upper": near}, {"lower": -1e300, "upper": 1e300}, {"lower": -1e-300, "upper": 1}),
        ]
        return self.usually(pairs[0], *pairs, *([] if must else [{}, {"lower": size}, {"upper": -size}]))

    def number(self, name: str, *, must: bool = False) -> Any:
        """Declare a number."""
        return sl.Number(name, **self.bounds(must=must), **self.some(granularity=self.size))

    def label(self, name: str) -> Any:
        """Declare a category."""
        return sl.Category(name, list("xyz"), other=None)

    def grouped(self) -> dict[str, Any]:
        """Draw what queries by group take."""
        return {
            **({"by": "c"} if self.random.random() < 0.6 else {}),
            **self.price("epsilon", "delta", "rho", "mu"),
            **self.some(confidence=lambda: self.one(1e-300, 0.5, 0.999999999999, 1 - 2**-53)),
        }

    def condition(self) -> Any:
        """Draw a condition on the number "a" with a constant, every second one extreme."""
        return self.one(*conditions(self.size()))

    def spread(self) -> dict[str, Any]:
        """Draw what means and sums take."""
        return self.some(clip=lambda: self.one("private", "by_group", "declared"))


def conditions(constant: Any) -> tuple[Any, ...]:
    """Return conditions on the number "a" with a positive constant, one of each kind of expression."""
    x = sl.col("a")
    return (
        *(x >= constant, x < -constant, x == constant, x.isin([1, constant]), x.cut([constant]).is_missing()),
        *(x.fill_missing(constant) >= 0, x.fill_missing(-constant).is_missing(), x * constant >= 0, x / constant > 1),
        *(x.lookup({constant: "u"}) == "u", x.lookup({1: 0, 2: 0}, default=0) + constant > 0),
    )


#: Declarations of the number that conditions are on: floats, steps with and without bounds, and far ones.
CONDITIONED: tuple[dict[str, Any], ...] = (
    *({}, {"lower": 0, "upper": 300}, {"granularity": 1}, {"lower": -5, "upper": 300, "granularity": "0.5"}),
    *({"lower": 3 * 10**18, "upper": 4 * 10**18, "granularity": 1}, {"granularity": "1e-300"}),
)


def failing_conditions() -> Iterator[tuple[str, int, str]]:
    """Try every kind of condition with every constant, without rows and with one; yield what came of each."""
    cases = [
        (declared, place, size) for declared in CONDITIONED for size in SIZES for place in range(len(conditions(1)))
    ]
    for number, (declared, place, size) in enumerate(cases):
        for rows in (0, 1):
            try:
                made = [sl.Number("a", **declared)], sl.Count(where=conditions(size)[place], epsilon=1)
                found = _run(made, rows=rows, seed=f"conditions {number}")
            except SidelightError:
                found = "refused"
            if found not in ("released", "refused"):
                print(f"condition {number}: {found}", file=sys.stderr)
            yield "condition", number, found


def _quantiles(dice: Dice) -> Made:
    grouped = dice.some(by=lambda: "c")
    more = dice.some(
        form=lambda: dice.one("tree", "select", "cells", "codes"),
        prediction=lambda: sl.priors.Cauchy(dice.one(0, dice.size()), dice.size()),
    )
    if not grouped:
        more |= dice.some(size=lambda: dice.one(*COUNTS))
    price = dice.price("epsilon", "delta", "rho")
    query = sl.Quantiles(dice.usually([0.5], *LEVELS), column="a", **price, **more, **grouped)
    return [dice.number("a"), dice.label("c")], query


def _distribution(dice: Dice) -> Made:
    more = dice.some(size=lambda: dice.one(*COUNTS))
    return [dice.number("a")], sl.Distribution("a", **dice.price("epsilon", "rho"), **more)


def _sequence(dice: Dice, learner: Any, price: dict[str, Any]) -> Made:
    return [dice.number("a", must=True)], (sl.Quantiles(dice.usually([0.5], *LEVELS), column="a", **price), learner)


def _learned(dice: Dice) -> Made:
    more = dice.some(bins=lambda: dice.one(2, 24, 10**6), floor_weight=lambda: dice.one(*SHARES), boldness=dice.size)
    learner = sl.PrivateHistograms(*dice.bounds(must=True).values(), rho=dice.one(*PRICES), **more)
    return _sequence(dice, learner, dice.price("epsilon", "rho"))


def _counted(dice: Dice) -> Made:
    proximate = dice.random.random() < 0.5
    return _sequence(
        dice,
        sl.PubProx(dice.size(), dice.size(), plausible=tuple(dice.bounds(must=True).values()))
        if proximate
        else sl.PubTrack(**dice.some(memory=dice.size, hedge_weight=lambda: dice.one(1e-300, 0.5, 0.999999))),
        dice.price("epsilon", "rho"),
    )


def _model(dice: Dice, kind: type, target: Any, **usual: Any) -> Made:
    more = dice.some(
        prediction=lambda: sl.CoefficientPrediction({"a": dice.size()}, scale=dice.size()),
        odds=dice.size,
        rows=lambda: dice.one(*COUNTS),
        intercept_value=dice.size,
    )
    if kind in (sl.LinearRegression, sl.LogisticRegression):
        more |= dice.some(solver=lambda: "objective", passes=lambda: dice.one(1, 7, 1000))
    more |= dice.some(regularisation=dice.size, theta_norm=dice.size, tolerance=dice.size) if "solver" in more else {}
    model = kind(**dice.price("delta", "delta", "epsilon"), **usual, **more)
    return [dice.number("a", must=True), target], sl.ModelQuery(model=model, target=target.name, features=["a"])


def _additive(dice: Dice, kind: type, target: Any, **usual: Any) -> Made:
    more = dice.some(
        prediction=lambda: sl.CoefficientPrediction({"a": dice.size()}, scale=dice.size()),
        odds=dice.size,
        rows=lambda: dice.one(*COUNTS),
        lines=lambda: "none",
        monotone=lambda: {"a": "increasing"},
        on_missing=lambda: "drop",
    )
    model = kind(**dice.price("delta", "delta", "epsilon"), **usual, **more)
    return [dice.number("a", must=True), target], sl.ModelQuery(model=model, target=target.name, features=["a"])


def _rows_of(dice: Dice, width: int) -> Any:
    return np.random.default_rng(1).normal(size=(12, width)) * float(min(dice.size(), 1.7e308) / 8)


def _linear(**names: str) -> Callable[[Dice], Made]:
    """Make a fit by sufficient statistics or stability of two features."""

    def made(dice: Dice) -> Made:
        kind = getattr(sl, names["name"])
        more = dice.some(intercept=dice.size, rows_at_most=lambda: dice.one(*COUNTS))
        if kind is sl.AdaSSP:
            more = dice.some(intercept=dice.size, penalty=dice.size, gram_share=lambda: dice.one(*SHARES))
        if kind is sl.OPSPTR:
            more["score"] = sl.PublicScore(_nothing, "nothing")
        price = dice.price("rho", "mu", "delta") if kind is sl.AdaSSP else dice.price("delta")
        target = dice.label("c") if kind is sl.StableLogistic else dice.number("b", must=True)
        query = kind(features=["a"], target=target.name, feature_norm=dice.size(), **price, **more)
        return [dice.number("a", must=True), target], query

    return made


def _nothing(value: Any) -> float:
    return 0.0


def _of_groups(name: str) -> Callable[[Dice], Made]:
    """Make a mean, sum, variance or summary."""

    def made(dice: Dice) -> Made:
        more = dice.grouped() | ({} if name == "Proportion" else dice.spread())
        column: Any = dice.usually(sl.col("c") == "x", dice.condition()) if name == "Proportion" else "a"
        if name == "Sum" and dice.random.random() < 0.3:
            return [dice.number("a", must=True), LEAVES], sl.Sum("a", **_by_halves(dice, dice.size))
        return [dice.number("a", must=name != "Mean"), dice.label("c")], getattr(sl, name)(column, **more)

    return made


def _by_halves(dice: Dice, total: Callable[[], Any], **known: Any) -> dict[str, Any]:
    """Draw what sums and counts of a hierarchy take."""
    known |= dice.some(
        caps=lambda: {"half": dice.size()},
        public_totals=lambda: {"half": {"p": total(), "q": dice.one(0, total())}},
    )
    return {
        "by": [sl.Hierarchy("g", {"g": ["x", "y", "z"], "half": ["p", "p", "q"]}, levels=["half"], **known)],
        **dice.price("epsilon", "delta", "rho", "mu"),
        **dice.some(prediction=lambda: {"x": dice.size(), "y": dice.one(0, -1, dice.size())}),
    }


def _count(dice: Dice) -> Made:
    if dice.random.random() < 0.4:
        exact = dice.some(invariants=lambda: sl.Invariant("half", reason="a law"))
        return [LEAVES], sl.Count(**_by_halves(dice, lambda: dice.one(*COUNTS), **exact))
    more = dice.some(rollup=lambda: True)
    if dice.random.random() < 0.6:
        return [dice.number("a"), dice.label("c")], sl.Count(where=dice.condition(), **dice.grouped(), **more)
    return [dice.label("c")], sl.Count(**dice.grouped(), **more)


def _covariance(dice: Dice) -> Made:
    more = dice.some(
        method=lambda: dice.one("denoise", "separate"),
        prediction=lambda: np.eye(2) * float(min(dice.size(), 1.7e308)),
        rows=lambda: dice.one(*COUNTS),
        centre=lambda: dice.one("mean", "pairs", [0.0, float(min(dice.size(), 1.7e308))]),
    )
    price = dice.price("rho", "epsilon", "delta")
    return [sl.Number("a"), dice.number("b")], sl.Covariance(["a", "b"], radius=dice.size(), **price, **more)


def _gaussian(dice: Dice) -> Made:
    more: dict[str, Any] = {"mean_bound": dice.size(), "variance_bound": dice.size()}
    if dice.random.random() < 0.5:
        more = {"prediction": _rows_of(dice, 2), **dice.some(scale=dice.size)}
    more |= dice.some(condition=dice.size, gap=dice.size, rows=lambda: dice.one(*COUNTS), steps=lambda: dice.one(1, 9))
    return [sl.Number("a"), sl.Number("b")], sl.GaussianFit(["a", "b"], **dice.price("rho", "delta"), **more)


def _gaussian_mean(dice: Dice) -> Made:
    more: dict[str, Any] = {"mean_bound": dice.size()}
    if dice.random.random() < 0.5:
        more = {"prediction": _rows_of(dice, 2), "covariance": np.eye(2) * float(min(dice.size(), 1.7e308))}
    more |= dice.some(chance=lambda: dice.one(*SHARES), rows=lambda: dice.one(*COUNTS), steps=lambda: dice.one(1, 9))
    return [sl.Number("a"), sl.Number("b")], sl.GaussianMean(["a", "b"], **dice.price("rho", "delta"), **more)


def _mixture(dice: Dice) -> Made:
    more = dice.some(condition=dice.size, least_weight=lambda: dice.one(*SHARES), on_failure=lambda: "single")
    query = sl.SeparatedMixture(
        ["a", "b"], components=dice.one(1, 2), prediction=_rows_of(dice, 2), **dice.price("rho", "delta"), **more
    )
    return [sl.Number("a"), sl.Number("b")], query


def _synthetic(dice: Dice) -> Made:
    more = dice.some(
        trust=lambda: dice.one(1e-300, 0.5, 1.0),
        rows=lambda: dice.one(*COUNTS),
        rounds=lambda: dice.one(1, 5),
        engine=lambda: dice.one("marginals", "mwem", "loglinear"),
    )
    query = sl.SyntheticTable(sl.marginals(1), bins={"a": dice.one(1, 2, 7)}, **dice.price("rho", "delta"), **more)
    return [dice.number("a", must=True), dice.label("c")], query


def _median(dice: Dice) -> Made:
    more = dice.some(spread=dice.size, resolution=dice.size, test_share=lambda: dice.one(*SHARES))
    return [dice.number("a", must=True)], sl.StableMedian("a", **dice.price("delta"), **more)


def _components(dice: Dice) -> Made:
    more = dice.some(gap_share=lambda: dice.one(*SHARES), rows_at_most=lambda: dice.one(*COUNTS))
    query = sl.StablePCA(columns=["a", "b"], components=1, radius=dice.size(), **dice.price("delta"), **more)
    return [sl.Number("a"), sl.Number("b")], query


def _vote(dice: Dice) -> Made:
    more = dice.some(test_share=lambda: dice.one(*SHARES))
    return [dice.label("c")], sl.MajorityVote("c", noise_scale=dice.size(20), **dice.price("delta"), **more)


def _selection(dice: Dice) -> Made:
    price = dice.price("epsilon", "rho")
    candidates = [sl.Quantiles([level], column="a", **price) for level in (0.25, 0.5)]
    score = sl.PublicScore(_nothing, "nothing")
    return [dice.number("a")], sl.Selection(candidates=candidates, score=score, delta=dice.one(None, *DELTAS))


def _histogram(dice: Dice) -> Made:
    size = float(min(dice.size(), 1.7e308))
    bins = dice.some(bins=lambda: dice.one([-size, 0, size], [0, 5e-324], 3, 1000, sl.priors.Cauchy(0, dice.size())))
    return [dice.number("a", must=True), dice.label("c")], sl.Histogram("a", **dice.grouped(), **bins)


def _top_k(dice: Dice) -> Made:
    more = dice.some(route=lambda: dice.one("peeling", "histogram"))
    return [dice.label("c")], sl.TopK("c", k=dice.one(1, 3, 10**9), **dice.price("epsilon", "delta", "rho"), **more)


def _sql(dice: Dice) -> Made:
    statement = dice.one(
        "SELECT c, COUNT(*), AVG(a), MEDIAN(a) FROM rows GROUP BY c",
        "SELECT SUM(a), STDDEV(a) FROM rows WHERE a > 1e300",
        "SELECT COUNT(*) FROM rows WHERE a * a * a > 1e200",
    )
    return [dice.number("a", must=True), dice.label("c")], sl.SQL(statement, **dice.price("epsilon", "delta", "rho"))


def _scored(kind: type, dice: Dice) -> Made:
    return _model(dice, kind, dice.label("c"), classes=list("xyz") if kind is sl.LogisticRegression else ["x", "y"])


MAKERS: dict[str, Callable[[Dice], Made]] = {
    "quantiles": _quantiles,
    "distribution": _distribution,
    "learned_quantiles": _learned,
    "counted_quantiles": _counted,
    "count": _count,
    "histogram": _histogram,
    "count_distinct": lambda dice: (
        [dice.label("c")],
        sl.CountDistinct("c", **dice.price("epsilon", "delta", "rho", "mu")),
    ),
    "top_k": _top_k,
    "covariance": _covariance,
    "gaussian": _gaussian,
    "gaussian_mean": _gaussian_mean,
    "gaussian_mixture": _mixture,
    "synthetic_table": _synthetic,
    "adassp": _linear(name="AdaSSP"),
    "linear_regression": lambda dice: _model(dice, sl.LinearRegression, dice.number("b", must=True)),
    "additive_regression": lambda dice: _additive(dice, sl.AdditiveRegressor, dice.number("b", must=True)),
    "additive_classifier": lambda dice: _additive(dice, sl.AdditiveClassifier, dice.label("c"), classes=["x", "y"]),
    "linear_svc": lambda dice: _scored(sl.LinearSVC, dice),
    "logistic_regression": lambda dice: _scored(sl.LogisticRegression, dice),
    "linear_model": lambda dice: _model(
        dice, sl.PoissonRegressor, dice.number("b", must=True), largest_count=dice.size(10)
    ),
    "stable_median": _median,
    "stable_mode": lambda dice: ([dice.label("c")], sl.StableMode("c", **dice.price("delta"))),
    "stable_logistic_regression": _linear(name="StableLogistic"),
    "stable_principal_components": _components,
    "majority_vote": _vote,
    "posterior_sample": _linear(name="AdaOPS"),
    "selected_posterior_sample": _linear(name="OPSPTR"),
    "selection": _selection,
    "mean": _of_groups("Mean"),
    "proportion": _of_groups("Proportion"),
    "sql": _sql,
    "sum": _of_groups("Sum"),
    "variance": _of_groups("Variance"),
    "standard_deviation": _of_groups("StandardDeviation"),
    "summary": _of_groups("Summary"),
}
assert set(MAKERS) == {entry.kind for entry in ENTRIES}


def _table(schema: list[Any], rows: int) -> sl.Table:
    numbers, labels = np.array([0.5, -1e300, 3.0])[:rows], np.array(["x", "?", "y"], dtype=object)[:rows]
    return sl.Table({each.name: numbers if isinstance(each, sl.Number) else labels for each in schema}, schema=schema)


def _run(made: Made, *, rows: int, seed: str) -> str:
    """Release in a session or a sequence; return "released", or the error with whether it was charged."""
    schema, query = made
    table = _table(schema, rows)
    if isinstance(query, tuple):
        return _run_days(query, table, seed=seed)
    if getattr(query, "invariants", None):
        return _run_alone(query, table, seed=seed)
    session = SeededSession(table, budget=sl.ApproxDP(10**6, "0.9"), seed=seed)
    before = str(session.spent)
    try:
        session.release(query)
    except BudgetError:
        pass
    except SidelightError as error:
        return "refused" if str(session.spent) == before else _failure("after the charge", error)
    except Exception as error:
        return _failure("after the charge" if str(session.spent) != before else "before the charge", error)
    else:
        return "released"
    return _run_alone(query, table, seed=seed)  # a price beyond every budget


def _run_alone(query: Any, table: sl.Table, *, seed: str) -> str:
    """Run a query as a release without a session does."""
    prepared = prepare_query(query, table.schema)
    try:
        _run_one(prepared, table, entropy=SeededEntropy(seed))
    except Exception as error:
        return _failure("after the charge", error)
    return "released"


def _run_days(asked: tuple[Any, Any], table: sl.Table, *, seed: str) -> str:
    query, learner = asked
    in_rho = query.rho is not None or isinstance(learner, sl.PrivateHistograms)
    with tempfile.TemporaryDirectory() as folder:
        ledger = open_ledger(f"sqlite:///{Path(folder) / 'budget.db'}", testing=True)
        try:
            days = SeededSequence(
                *(query, learner),
                schema=table.schema,
                budget=sl.ZCDP(10**6) if in_rho else sl.PureDP(10**6),
                ledger=ledger,
                scope="days",
                seed=seed,
            )
            for day in ("2025-11-03", "2025-11-04", "2025-11-05"):
                days.release(table, day=day)
        except BudgetError:  # as it should: nothing is left after a day
            return "released"
        except Exception as error:
            charged = bool(list(ledger.entries()))
            if isinstance(error, SidelightError) and not charged:
                return "refused"
            return _failure("after the charge" if charged else "before the charge", error)
        finally:
            ledger.close()
    return "released"


def _failure(when: str, error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} {when} ({Path(place.filename).name}:{place.lineno}): {error}"[:300]


def outcome(kind: str, number: int) -> str:
    """Return "released", "refused", or what failed, of one combination of public parameters of a kind."""
    dice, seed = Dice(f"{kind} {number}"), f"extremes {kind} {number}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = MAKERS[kind](dice)
        except SidelightError:
            return "refused"
        except Exception as error:
            return _failure("before the charge", error)
        try:
            return _run(made, rows=dice.one(0, 0, 1, 3), seed=seed)
        except SidelightError:  # the table or the session, which were not charged
            return "refused"
        except Exception as error:
            return _failure("before the charge", error)


def failing(tries: int = TRIES, *, first: int = 0) -> Iterator[tuple[str, int, str]]:
    """Try combinations of every kind; yield what came of each."""
    for kind in MAKERS:
        for number in range(first, first + tries):
            found = outcome(kind, number)
            if found not in ("released", "refused"):
                print(f"{kind} {number}: {found}", file=sys.stderr)
            yield kind, number, found
    yield from failing_conditions()


def main(tries: int = sized(TRIES, 1)) -> None:
    """Print what came of the combinations."""
    told = [found for *_, found in failing(tries)]
    print({"released": told.count("released"), "refused": told.count("refused"), "all": len(told)})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TRIES)
