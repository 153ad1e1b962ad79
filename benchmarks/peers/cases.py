"""The questions that everybody is asked: generated data by seed, what is public, and how an answer is judged.

Nothing here knows who answers. Rows are drawn by NumPy from a seed, so that every machine asks the same; real sets
are in `real_cases`. One tenth as many further rows of the same law are the public sample of "with a prediction".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.programs.trial import pair_counts, pairs_of
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.tree import even_levels

Floats = NDArray[np.float64]
Data = dict[str, Any]
TRIALS = 24
#: Rows of the public sample for each row of the private data.
PUBLIC_SHARE = 0.1
DELTA = "1e-6"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question: its data, its budget for adding or removing a row, what is public, and the error of an answer."""

    name: str
    task: str
    title: str
    #: The rows, in words.
    rows: str
    #: The error, in words.
    measure: str
    draw: Callable[[int], Data]
    error: Callable[[Data, Floats], float]
    epsilon: str = "1"
    #: None for a pure budget.
    delta: str | None = None
    public: Mapping[str, Any] = field(default_factory=dict)
    trials: int = TRIALS

    def data(self) -> list[Data]:
        """Return the data sets, one a trial."""
        return [self.draw(trial) for trial in range(self.trials)]


def root_mean_square(errors: Floats) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


# Counts and means by group.
GROUPS, ROWS, BOUNDS = 100, 20_000, (0.0, 100.0)
_WEIGHTS = 1 / np.arange(1, GROUPS + 1)
_LEVELS = np.random.default_rng(21).normal(45, 10, GROUPS)


def grouped(trial: int) -> Data:
    """Generate groups with sizes after Zipf's law, and values in [0, 100] with a mean a group."""
    rng = np.random.default_rng([trial, 1])
    total = int(ROWS * (1 + PUBLIC_SHARE))
    group = rng.choice(GROUPS, total, p=_WEIGHTS / _WEIGHTS.sum())
    x = np.clip(rng.normal(_LEVELS[group], 15), *BOUNDS)
    data = {"group": group[:ROWS], "x": x[:ROWS], "public_group": group[ROWS:], "public_x": x[ROWS:]}
    return data | group_truth(data, GROUPS)


def group_truth(data: Data, groups: int) -> Data:
    """Return the true counts and means; the mean of an empty group is NaN and not judged."""
    counts = np.bincount(data["group"], minlength=groups).astype(np.float64)
    if "x" not in data:
        return {"true_counts": counts}
    with np.errstate(invalid="ignore"):
        return {"true_counts": counts, "true_means": np.bincount(data["group"], data["x"], minlength=groups) / counts}


def counts_error(data: Data, answer: Floats) -> float:
    """Return the root mean square over the groups."""
    return root_mean_square(answer - data["true_counts"])


def means_error(data: Data, answer: Floats) -> float:
    """Return the root mean square over the groups that have rows."""
    return root_mean_square((answer - data["true_means"])[data["true_counts"] > 0])


# Quantiles.
def normal(trial: int) -> Data:
    """Generate a standard normal column."""
    x = np.random.default_rng([trial, 2]).standard_normal(11_000)
    return {"x": x[:10_000], "public_x": x[10_000:]}


def gap_of(count: int, *, granularity: float | None = None) -> Callable[[Data, Floats], float]:
    """Return the error of quantiles: the largest number of ranks that one of them is off."""
    levels = even_levels(count)

    def error(data: Data, answer: Floats) -> float:
        outputs = answer if granularity is None else np.rint(answer / granularity) * granularity
        return float(nonprivate_gap(data["x"], levels, outputs).max())

    return error


def level_numbers(count: int) -> list[float]:
    """Return the levels as others take them."""
    return [place / (count + 1) for place in range(1, count + 1)]


# Covariance.
def unit_rows(columns: int) -> Callable[[int], Data]:
    """Return what generates rows of length 1 with a spectrum of 1/i."""

    def draw(trial: int) -> Data:
        rng = np.random.default_rng([trial, 3, columns])
        rows = rng.standard_normal((11_000, columns)) / np.sqrt(np.arange(1, columns + 1))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        return {"rows": rows[:10_000], "public_rows": rows[10_000:]}

    return draw


def covariance_error(data: Data, answer: Floats) -> float:
    """Return the Frobenius distance to the second moments or to the covariance, whichever the answer is nearer to."""
    rows = data["rows"]
    truths = (rows.T @ rows / len(rows), np.cov(rows.T))
    return float(min(np.linalg.norm(answer - truth) for truth in truths))


# Regression.
def lines(columns: int) -> Callable[[int], Data]:
    """Return what generates rows in the unit ball with a linear target in [-1, 1]."""
    slopes = np.random.default_rng([4, columns]).normal(size=columns)
    slopes *= 0.6 / np.linalg.norm(slopes)

    def draw(trial: int) -> Data:
        rng = np.random.default_rng([trial, 4, columns])
        rows = in_the_ball(rng, 13_000, columns)
        truth = 0.2 + rows @ slopes
        return split_rows(rows, np.clip(truth + rng.normal(0, 0.1, len(rows)), -1, 1), truth)

    return draw


def classes(columns: int) -> Callable[[int], Data]:
    """Return what generates rows of length 1 with labels 0 and 1 after the logistic law."""
    slopes = np.random.default_rng([5, columns]).normal(size=columns)
    slopes *= 8 / np.linalg.norm(slopes)

    def draw(trial: int) -> Data:
        rng = np.random.default_rng([trial, 5, columns])
        rows = rng.standard_normal((13_000, columns))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        chance = 1 / (1 + np.exp(-rows @ slopes))
        return split_rows(rows, (rng.random(len(rows)) < chance).astype(np.int64), chance)

    return draw


def in_the_ball(rng: np.random.Generator, rows: int, columns: int) -> Floats:
    """Return points that are uniform in the unit ball."""
    points = rng.standard_normal((rows, columns))
    points *= (rng.random(rows) ** (1 / columns) / np.linalg.norm(points, axis=1))[:, None]
    return np.asarray(points)


def split_rows(rows: Floats, target: NDArray[Any], truth: Floats) -> Data:
    """Return 10,000 private rows, 1000 public ones and 2000 to test, with what is true there."""
    return {
        "rows": rows[:10_000],
        "target": target[:10_000],
        "public_rows": rows[10_000:11_000],
        "public_target": target[10_000:11_000],
        "test_rows": rows[11_000:],
        "truth": truth[11_000:],
    }


def linear_error(data: Data, answer: Floats) -> float:
    """Return the root mean square distance of predictions to the true line."""
    return root_mean_square(answer - data["truth"])


def logistic_error(data: Data, answer: Floats) -> float:
    """Return how many more labels in a hundred are expected to be wrong than with the best rule there is."""
    chance = data["truth"]
    wrong = (answer > 0.5) != (chance > 0.5)
    return float(100 * np.mean(np.where(wrong, np.abs(2 * chance - 1), 0)))


def row_facts(columns: int) -> dict[str, Any]:
    """Return what is public about rows of length at most 1."""
    return {"data_norm": 1.0, "row_bounds": [[-1.0] * columns, [1.0] * columns]}


# Marginals.
SIZES = [2, 3, 4, 5, 6, 8]
_HIDDEN = np.random.default_rng(6)
_SHARES = [_HIDDEN.dirichlet(np.full(size, 0.7), 5) for size in SIZES]


def categories(trial: int) -> Data:
    """Generate columns of categories that depend on each other through a hidden class."""
    rng = np.random.default_rng([trial, 6])
    hidden = rng.integers(0, 5, 11_000)
    columns = [(rng.random(11_000)[:, None] > np.cumsum(share, axis=1)[hidden]).sum(axis=1) for share in _SHARES]
    rows = np.minimum(np.stack(columns, axis=1), np.array(SIZES) - 1)
    return {"rows": rows[:10_000], "public_rows": rows[10_000:]}


def pair_error(sizes: list[int]) -> Callable[[Data, Floats], float]:
    """Return the error of marginals: the mean over pairs of the total-variation distance, in percent."""
    ends = np.cumsum([sizes[first] * sizes[second] for first, second in pairs_of(sizes)])[:-1]

    def error(data: Data, answer: Floats) -> float:
        truth = np.split(pair_counts(data["rows"], sizes), ends)
        shares = [np.maximum(table, 0) / max(np.maximum(table, 0).sum(), 1) for table in np.split(answer, ends)]
        found = [np.abs(share - table / table.sum()).sum() / 2 for share, table in zip(shares, truth, strict=True)]
        return float(100 * np.mean(found))

    return error


def generated() -> list[Case]:
    """Return the cases on generated data."""
    by_group: dict[str, Any] = {
        "groups": GROUPS,
        "rows_at_most": 100_000,
    }
    zipf = f"{ROWS:,} generated rows in {GROUPS} groups, sizes after Zipf's law"
    ranks = "the largest of the errors, in ranks"
    linear_words = "root mean square distance of 2000 predictions to the true line, whose targets lie in [-1, 1]"
    return [
        *(
            Case(
                name=f"counts at epsilon {epsilon}",
                task="counts",
                title=f"Counts by group, ε = {epsilon}",
                rows=zipf,
                measure="root mean square error of a count",
                draw=grouped,
                error=counts_error,
                epsilon=epsilon,
                public=by_group,
            )
            for epsilon in ("1", "0.1")
        ),
        Case(
            name="means",
            task="means",
            title="Means by group",
            rows=f"{zipf}; values in the declared bounds 0 to 100",
            measure="root mean square error of a mean",
            draw=grouped,
            error=means_error,
            public=by_group | {"bounds": list(BOUNDS)},
        ),
        *(
            Case(
                name=f"{count} quantiles",
                task="quantiles",
                title=f"{count} quantiles",
                rows="10,000 generated values, standard normal; declared bounds -10 to 10",
                measure=ranks,
                draw=normal,
                error=gap_of(count),
                public={"levels": level_numbers(count), "bounds": [-10.0, 10.0]},
            )
            for count in (9, 99)
        ),
        *(
            Case(
                name=f"covariance of {columns} columns",
                task="covariance",
                title=f"Covariance of {columns} columns",
                rows=f"10,000 generated rows of length 1 in {columns} columns, variances falling as 1/i",
                measure="Frobenius norm of the error",
                draw=unit_rows(columns),
                error=covariance_error,
                public={"radius": 1.0},
            )
            for columns in (5, 20)
        ),
        *(
            Case(
                name=f"linear regression on {columns} column{'s' if columns > 1 else ''}",
                task="linear",
                title=f"Linear regression on {columns} column{'s' if columns > 1 else ''}",
                rows="10,000 generated rows of length at most 1, a line with noise of 0.1",
                measure=linear_words,
                draw=lines(columns),
                error=linear_error,
                delta=DELTA,
                public={"target_range": [-1.0, 1.0], **row_facts(columns)},
            )
            for columns in (1, 5)
        ),
        Case(
            name="logistic regression",
            task="logistic",
            title="Logistic regression on 10 columns",
            rows="10,000 generated rows of length 1, labels after the logistic law",
            measure="wrong labels in a hundred beyond those of the best rule there is, expected, over 2000 rows",
            draw=classes(10),
            error=logistic_error,
            delta=DELTA,
            public=row_facts(10),
        ),
        *(
            Case(
                name="marginals" if delta is None else "marginals with a delta",
                task="marginals",
                title=f"All pairs of six columns{'' if delta is None else ', with a δ'}",
                rows="10,000 generated rows of 2, 3, 4, 5, 6 and 8 categories that depend on each other",
                measure="total-variation distance of the two shares of rows, mean over the 15 pairs, in percent",
                draw=categories,
                error=pair_error(SIZES),
                delta=delta,
                public={"sizes": SIZES, "rows_at_most": 100_000},
            )
            for delta in (None, DELTA)
        ),
    ]
