"""Linear regression by posterior samples compared with output perturbation, our own regressions, and least squares.

The split is that of the thesis' Figure 3.1: 60 % to train on, 10 % taken to be public (they score OPS-PTR's candidates
and say whether the data are well conditioned), 30 % to test on. Delta 1e-6; every method as it comes; a public bound of
the number of rows, the next power of two, for the baselines, which need one.

Where AdaOPS is *predicted* to be at or below log-cosh is decided by the one thing that posterior sampling adapts to:
the smallest eigenvalue of the Gram matrix, for rows of length 1, must be at least twice what its private bound gives
away, z/μ (`is_predicted`); it is read off the public tenth. No UCI set is like that, so two generated sets are added
that are: columns that vary independently, and noise that is symmetric, or skewed. The rule was fixed after a look at
six of the sets, three runs each, in which log-cosh won on most. Two looks at all sets, four runs each, came before
the first table; they set the largest penalty that OPS-PTR tries, and made us drop a rule for AdaOPS' penalty that had
looked better on generated data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from benchmarks import linear_regression_sets
from benchmarks.baselines.posterior_sampling import BalancedOPS, OutputPerturbation
from benchmarks.linear_regression_sets import UCI_WITH_1000_ROWS, Regression
from benchmarks.measuring import print_figures, sized
from sidelight.errors import PrivacyWarning

DELTA = "1e-6"
EPSILONS = (0.1, 1.0)
RUNS = sized(20, 1)
FIRST_SEED = 900
ADAOPS, OPSPTR, BALANCED, OUTPUT, LOG_COSH, DESCENT, PLAIN = (
    "AdaOPS",
    "OPS-PTR",
    "OPS-bal.",
    "OutPert",
    "log-cosh",
    "descent",
    "not private",
)
PRIVATE = (ADAOPS, OPSPTR, BALANCED, OUTPUT, LOG_COSH, DESCENT)


@dataclass(frozen=True)
class Split:
    """Rows and targets three times: private, public, and to test on."""

    train: tuple[np.ndarray, np.ndarray]
    public: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def split(data: Regression, seed: int) -> Split:
    """Return a random 60/10/30 split."""
    order = np.random.default_rng(seed).permutation(len(data.targets))
    parts = np.split(order, [6 * len(order) // 10, 7 * len(order) // 10])
    return Split(*((data.rows[part], data.targets[part]) for part in parts))


def generated(noise: str) -> Regression:
    """Return a well-conditioned set of 80,000 rows, 5 columns; the noise is "symmetric" or "skewed"."""
    rng = np.random.default_rng(17)
    n, d = sized(80_000, 500), 5
    rows = rng.uniform(-1, 1, size=(n, d)) / np.sqrt(d)
    error = 0.2 * rng.standard_normal(n) if noise == "symmetric" else 0.3 * (rng.exponential(size=n) - 1)
    targets = rows @ np.array([0.8, -0.5, 0.3, 0.2, 0.0]) + error
    return Regression(f"{noise} noise", rows, targets, (-1.5, 1.5), f"generated, {n} x {d}")


def sets() -> list[Callable[[], Regression]]:
    """Return what is measured: eight UCI sets of 1000 rows and more, bike sharing, two generated sets."""
    from functools import partial

    uci = [partial(linear_regression_sets.uci, name) for name in UCI_WITH_1000_ROWS]
    return [*uci, linear_regression_sets.bike_sharing, partial(generated, "symmetric"), partial(generated, "skewed")]


def queries(part: Split, epsilon: float) -> dict[str, Any]:
    """Return the queries of one split."""
    from sidelight import stability
    from sidelight.tuning import PublicScore

    x, y = part.public
    common: dict[str, Any] = {
        "features": [f"x{place}" for place in range(x.shape[1])],
        "target": "y",
        "feature_norm": 1,
        "epsilon": str(epsilon),
        "delta": DELTA,
        "rows_at_most": 1 << int(len(part.train[1]) - 1).bit_length(),
    }
    score = PublicScore(lambda answer: -error_of(answer.value, x, y), "squared error on the public tenth")
    return {
        ADAOPS: stability.AdaOPS(**common),
        OPSPTR: stability.OPSPTR(**common, score=score),
        BALANCED: BalancedOPS(**common),
        OUTPUT: OutputPerturbation(**common),
    }


def table_of(rows: np.ndarray, targets: np.ndarray, bounds: tuple[float, float]) -> Any:
    """Return the private rows as a table."""
    import sidelight as sl

    columns = {f"x{place}": np.ascontiguousarray(rows[:, place]) for place in range(rows.shape[1])}
    schema = [*(sl.Number(name) for name in columns), sl.Number("y", lower=bounds[0], upper=bounds[1])]
    return sl.Table(columns | {"y": targets}, schema=schema)


def error_of(value: np.ndarray, rows: np.ndarray, targets: np.ndarray) -> float:
    """Return the mean squared error of coefficients with the intercept last."""
    return float(np.mean((rows @ value[:-1] + value[-1] - targets) ** 2))


def one_run(data: Regression, seed: int, epsilon: float) -> dict[str, float]:
    """Return every method's test error as a share of the target's variance; a refusal predicts the range's middle."""
    from sidelight.noise import OSEntropy, Source
    from sidelight.regression.fit_core import private_fit
    from sidelight.regression.rows import BoundedArrays

    part = split(data, seed)
    table = table_of(*part.train, data.target_range)
    x, y = part.test
    found, ridge = {}, None
    for name, query in queries(part, epsilon).items():
        # the pipeline's steps after the charge; the rows are read once for all four
        prepared = query.prepare(table.schema)
        with Source(OSEntropy(), declared=prepared.numerics) as source:
            ridge = prepared.look(table, source) if ridge is None else ridge
            parameter = prepared.choose(prepared.certify(ridge, source))
            answer = None if parameter is None else prepared.answer(ridge, parameter, source)
        value = np.append(np.zeros(x.shape[1]), sum(data.target_range) / 2)
        found[name] = error_of(getattr(answer, "value", value), x, y) / float(y.var())
    low, high = data.target_range
    with Source(OSEntropy()) as source:
        plan = log_cosh_plan(data.target_range, x.shape[1], epsilon)
        fit = private_fit(plan, BoundedArrays(*part.train, policy=plan.policy), source=source).model()
    found[LOG_COSH] = float(
        np.mean((x @ fit["coefficients"][0] + fit["intercept"][0] + (low + high) / 2 - y) ** 2) / y.var()
    )
    found[DESCENT] = float(np.mean((default_model(part, data.target_range, epsilon).predict(x) - y) ** 2) / y.var())
    return found


def default_model(part: Split, target_range: tuple[float, float], epsilon: float) -> Any:
    """Return `sl.LinearRegression` as it comes, on the same private rows: what a user has who decides nothing."""
    import sidelight as sl

    model = sl.LinearRegression(epsilon=str(epsilon), delta=DELTA, data_norm=1, target_range=target_range)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # the same rows again and again: it is a benchmark
        return model.fit(*part.train)


@cache
def log_cosh_plan(target_range: tuple[float, float], features: int, epsilon: float) -> Any:
    """Plan what `sl.LinearRegression` fits by default, once: its price takes longer than a fit."""
    from sidelight.regression.losses import LogCoshLoss
    from sidelight.regression.plan import plan_linear

    low, high = target_range
    scale = (Fraction(high) - Fraction(low)) / 8
    loss = LogCoshLoss(scale=scale, target_range=target_range, target_centre=low / 2 + high / 2)
    return plan_linear(loss=loss, features=features, epsilon=str(epsilon), delta=DELTA, data_norm=1)


def plain_error(data: Regression, seed: int) -> float:
    """NOT PRIVATE: the same of least squares."""
    part = split(data, seed)
    rows = np.column_stack([part.train[0], np.ones(len(part.train[1]))])
    value = np.linalg.lstsq(rows, part.train[1], rcond=None)[0]
    return error_of(value, *part.test) / float(part.test[1].var())


def is_predicted(data: Regression, epsilon: float) -> bool:
    """Say, from the public tenth, whether the smallest eigenvalue is at least twice what its bound gives away."""
    from sidelight.mechanisms.tests_and_bounds import upper_quantile
    from sidelight.stability.propose_test_release import order_budget

    part = split(data, FIRST_SEED)
    x = part.public[0]
    rows = np.column_stack([x, np.ones(len(x))]) / np.sqrt(2)
    smallest = float(np.linalg.eigvalsh(rows.T @ rows)[0]) * len(part.train[1]) / len(x)
    budget = order_budget(Fraction(str(epsilon)), Fraction(DELTA) * Fraction(2, 3))
    given_away = upper_quantile(Fraction(DELTA) / 6) / budget.mu(Fraction(15, 100))
    return smallest >= 2 * given_away


@cache
def table(runs: int = RUNS) -> dict[str, dict[str, Any]]:
    """Return for each set the medians of every method at each epsilon, and what is predicted."""
    found: dict[str, dict[str, Any]] = {}
    for make in sets():
        data = make()
        medians = []
        for epsilon in EPSILONS:
            results = [one_run(data, FIRST_SEED + run, epsilon) for run in range(runs)]
            medians.append({name: float(np.median([each[name] for each in results])) for name in PRIVATE})
        found[data.name] = {
            "note": data.note,
            "medians": medians,
            "predicted": [is_predicted(data, epsilon) for epsilon in EPSILONS],
            PLAIN: float(np.median([plain_error(data, FIRST_SEED + run) for run in range(min(runs, 5))])),
        }
    return found


def measure() -> dict[str, float]:
    """Return the figures of the targets; the table is printed whatever it shows."""
    found = table()
    print(text(found))
    figures: dict[str, float] = {}
    kept = {name for name, each in found.items() if "generated" not in each["note"]}
    for place, epsilon in enumerate(EPSILONS):
        ratios = {
            name: min(each["medians"][place][ADAOPS], each["medians"][place][OPSPTR]) / each["medians"][place][OUTPUT]
            for name, each in found.items()
        }
        kept &= {name for name, ratio in ratios.items() if ratio <= 1}
        figures[f"worst_vs_output_epsilon_{epsilon:g}"] = max(ratios.values())
        predicted = [each for each in found.values() if each["predicted"][place]]
        against = [
            min(each["medians"][place][ADAOPS], each["medians"][place][OPSPTR]) / each["medians"][place][LOG_COSH]
            for each in predicted
        ]
        figures[f"predicted_sets_epsilon_{epsilon:g}"] = float(len(predicted))
        figures[f"worst_vs_log_cosh_where_predicted_epsilon_{epsilon:g}"] = max(against, default=float("inf"))
    print("at or below output perturbation at every epsilon:", ", ".join(sorted(kept)))
    figures["sets_at_or_below_output"] = float(len(kept))
    return figures


def text(found: dict[str, dict[str, Any]]) -> str:
    """Return the table."""
    lines = [f"median test error / variance of the target, delta {DELTA}, {RUNS} runs; * predicted against log-cosh"]
    for place, epsilon in enumerate(EPSILONS):
        lines.append(f"{f'epsilon {epsilon:g}':44s}" + "".join(f"{name:>10s}" for name in PRIVATE) + f"{PLAIN:>13s}")
        for name, each in found.items():
            label = f"{name}{'*' if each['predicted'][place] else ''} [{each['note']}]"
            cells = "".join(f"{each['medians'][place][method]:10.4f}" for method in PRIVATE)
            lines.append(f"{label:44s}{cells}{each[PLAIN]:13.4f}")
    return "\n".join(lines)


def main() -> None:
    """Print every figure."""
    print_figures(measure())


if __name__ == "__main__":
    main()
