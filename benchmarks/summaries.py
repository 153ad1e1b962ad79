"""Counts and means, one and by group, against the ways of others (`benchmarks.baselines.summaries`): ratios of errors.

Everything of ours goes through the public queries, with seeded noise. Errors are root mean squares over 20 seeds, each
with data of its own. Sizes of groups follow Zipf's law; predictions are what the table's name says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import sidelight as sl
from benchmarks import real_data
from benchmarks.baselines import summaries as others
from benchmarks.measuring import AbsentError, print_figures, sized
from sidelight.testing import seeded_release

Floats = NDArray[np.float64]

SEEDS = sized(20, 1)

# Mean of one column without bounds.
FAMILIES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, rows: rng.normal(50, 10, rows),
    "gamma": lambda rng, rows: rng.gamma(6, 1, rows),
    "exponential": lambda rng, rows: rng.exponential(1, rows),
    "lognormal": lambda rng, rows: rng.lognormal(0, 1, rows),
}
SIZES = sized(((10_000, 0.3), (10_000, 1.0), (100_000, 0.1)), ((2_000, 1.0),))
DRAWS = sized(10, 1)
#: Releases whose error in their interval is more than this many times the best are failures, left out of an error.
FAILURE = 10

# Tables of groups.
GROUPS, ROWS = sized((1000, 10_000), (30, 1_000))
BOUNDS = (0.0, 200.0)


def root_mean_square(errors: Sequence[float] | Floats) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


def ours(query: Any, table: sl.Table, *, seed: object, column: str) -> Floats:
    """Return a column of a release, in the order of the groups."""
    return np.asarray(seeded_release(query, table, seed=f"summaries {seed}").value[column], dtype=np.float64)


def column_of(family: str, rows: int, seed: int) -> Floats:
    """Return values of a family in a unit of their own: bins of factor 2 are luckier in one unit than in another."""
    return FAMILIES[family](np.random.default_rng([seed, rows]), rows) * 2 ** (seed / SEEDS)


def unbounded(values: Floats, epsilon: float, prediction: Any, seed: str) -> tuple[Floats, Floats]:
    """Return our errors without bounds: what noise and bias give in the intervals that were drawn, and what they gave.

    The noise is the one that releases state. Biases of the two ends add up, as in `others.interval_error`.
    """
    table = sl.Table(pd.DataFrame({"x": values}), schema=[sl.Number("x")])
    query = sl.Mean("x", epsilon=epsilon, prediction=prediction)
    expected, actual = [], []
    for draw in range(DRAWS):
        value: Any = seeded_release(query, table, seed=f"summaries {seed} {draw}").value
        low, high = value.notes["clip_lower"], value.notes["clip_upper"]
        bias = np.maximum(low - values, 0).mean() + np.maximum(values - high, 0).mean()
        expected.append(np.hypot(bias, value.noise_sd))
        actual.append(value.mean - values.mean())
    return np.array(expected), np.array(actual)


def means_without_bounds() -> dict[str, float]:
    """Return errors without bounds as ratios: to the best interval, to Google's rule, to the split with wide bounds."""
    figures: dict[str, float] = {}
    failures = []
    for family in FAMILIES:
        for rows, epsilon in SIZES:
            found: dict[str, list[float]] = {"ours": [], "google": [], "wide": [], "actual": []}
            for seed in range(SEEDS):
                values = column_of(family, rows, seed)
                rng = np.random.default_rng([seed, 1])
                best = others.best_interval_error(values, epsilon=epsilon)
                low, high = values.min(), values.max()
                wide = (low - (high - low), high + (high - low))
                expected, actual = unbounded(values, epsilon, None, f"{family} {rows} {epsilon} {seed}")
                google = [others.google_error(values, epsilon=epsilon, rng=rng) for _ in range(DRAWS)]
                found["ours"] += list(expected / best)
                found["actual"] += list(actual[expected <= FAILURE * best] / best)
                found["google"] += [error / best for error in google if error is not None]
                found["wide"].append(others.interval_error(values, bounds=wide, epsilon=epsilon, split=True) / best)
            error = {name: root_mean_square([e for e in each if abs(e) <= FAILURE]) for name, each in found.items()}
            failures.append(float(np.mean(np.array(found["ours"]) > FAILURE)))
            told = ", ".join(f"{name} {value:.2f}" for name, value in error.items())
            print(f"{family}, {rows:,} rows, epsilon {epsilon:g}: {told}, failed {failures[-1]:.3f}", file=sys.stderr)
            ratios = {"best": error["ours"]} | {name: error["ours"] / error[name] for name in ("google", "wide")}
            for name, ratio in ratios.items():
                figures[f"{family}_{name}"] = max(ratio, figures.get(f"{family}_{name}", 0.0))
    return {**figures, "failures": max(failures)}


def means_with_prediction() -> dict[str, float]:
    """Return ratios to the best interval at n epsilon = 300; a public sample predicts the centre and the spread."""
    rows, epsilon, public_rows = 3000, 0.1, 1000
    figures = {}
    for family in ("normal", "gamma"):
        ratios: list[float] = []
        for seed in range(SEEDS):
            values = column_of(family, rows, seed)
            quartiles = np.quantile(column_of(family, public_rows, seed), [0.25, 0.5, 0.75])
            prediction = sl.priors.Cauchy(float(quartiles[1]), float(quartiles[2] - quartiles[0]))
            best = others.best_interval_error(values, epsilon=epsilon)
            ratios += list(unbounded(values, epsilon, prediction, f"predicted {family} {seed}")[0] / best)
        kept = [ratio for ratio in ratios if ratio <= FAILURE]
        figures |= {f"{family}_median": float(np.median(ratios)), f"{family}_error": root_mean_square(kept)}
        print(f"{family}, predicted: failed {1 - len(kept) / len(ratios):.3f}", file=sys.stderr)
    return figures


def opendp_mean(bounds: tuple[float, float], rows: int, epsilon: float) -> Callable[[Floats], float]:
    """Return OpenDP's own mean: the number of rows is public there, and neighbours replace a row (distance 2)."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics")
    domain = dp.vector_domain(dp.atom_domain(bounds=bounds, nan=False), size=rows)
    mean = (domain, dp.symmetric_distance()) >> dp.t.then_mean()
    release = dp.binary_search_chain(lambda scale: mean >> dp.m.then_laplace(scale), d_in=2, d_out=epsilon)
    return lambda values: float(release(values))


def diffprivlib_mean(bounds: tuple[float, float], epsilon: float) -> Callable[[Floats], float] | None:
    """Return diffprivlib's own mean, None where it is not installed."""
    try:
        from diffprivlib import tools  # type: ignore[import-not-found]
    except ImportError:
        return None
    return lambda values: float(tools.mean(values, epsilon=epsilon, bounds=bounds))


def means_with_bounds() -> dict[str, float]:
    """Return errors of 1000 means of 500 rows, bounds declared and nothing else known, as ratios to the others'."""
    groups, rows, epsilon, bounds, asked = 1000, 500, 1.0, (0.0, 100.0), 200
    rows_of = partial(np.split, indices_or_sections=groups)
    labels = names(groups)
    by_opendp = opendp_mean(bounds, rows, epsilon)
    by_diffprivlib = diffprivlib_mean(bounds, epsilon)
    schema = [sl.Category("group", labels, other=None), sl.Number("x", lower=bounds[0], upper=bounds[1])]
    query = sl.Mean("x", by="group", epsilon=epsilon)
    errors: dict[str, list[float]] = {"ours": [], "split": [], "opendp": [], "diffprivlib": []}
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 2])
        values = np.clip(rng.normal(45, 15, groups * rows), *bounds)
        each = rows_of(values)
        truth = np.array([part.mean() for part in each])
        table = sl.Table(pd.DataFrame({"group": np.repeat(labels, rows), "x": values}), schema=schema)
        counts = np.full(groups, float(rows))
        errors["ours"] += list(ours(query, table, seed=("bounds", seed), column="mean_plain") - truth)
        split = others.split_means(counts, truth * rows, bounds=bounds, epsilon=epsilon, rng=rng)
        errors["split"] += list(split - truth)
        for place in range(asked):
            part, goal = each[place], truth[place]
            errors["opendp"].append(by_opendp(part) - goal)
            if by_diffprivlib is not None:
                errors["diffprivlib"].append(by_diffprivlib(part) - goal)
            else:
                draws = others.known_count_mean(part, bounds=bounds, epsilon=epsilon, rng=rng, draws=10)
                errors["diffprivlib"] += list(draws - goal)
    error = {name: root_mean_square(each) for name, each in errors.items()}
    return {f"vs_{name}": error["ours"] / error[name] for name in error if name != "ours"}


def names(groups: int) -> list[str]:
    """Return labels."""
    return [f"group {number:04d}" for number in range(groups)]


def zipf_sizes(groups: int, rows: int) -> NDArray[np.int64]:
    """Return sizes of groups by Zipf's law, whole numbers that add up to about `rows`."""
    weights = 1 / np.arange(1, groups + 1)
    return np.rint(rows * weights / weights.sum()).astype(np.int64)


def group_means() -> dict[str, float]:
    """Return errors of 1000 means with declared bounds as ratios to the split: nothing known, means off by 5 %, wrong.

    Values are lognormal(3 + 0.2 z, 0.5) with z of the group. Public means are those of the law of a group, not of its
    rows. Empty groups have no mean and are left out.
    """
    epsilon, labels, sizes = 1.0, names(GROUPS), zipf_sizes(GROUPS, ROWS)
    schema = [sl.Category("group", labels, other=None), sl.Number("x", lower=BOUNDS[0], upper=BOUNDS[1])]
    errors: dict[str, list[float]] = {"split": [], "default": [], "public": [], "wrong": []}
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 3])
        scatter = rng.standard_normal(GROUPS)
        law = np.exp(3 + 0.2 * scatter + 0.5**2 / 2)
        groups = np.repeat(np.arange(GROUPS), sizes)
        values = np.clip(rng.lognormal(3 + 0.2 * scatter[groups], 0.5), *BOUNDS)
        sums = np.bincount(groups, values, minlength=GROUPS)
        truth = sums / np.maximum(sizes, 1)
        table = sl.Table(pd.DataFrame({"group": np.array(labels)[groups], "x": values}), schema=schema)
        public = law * (1 + 0.05 * rng.standard_normal(GROUPS))
        tables = {"default": None, "public": public, "wrong": np.minimum(3 * law, BOUNDS[1])}
        filled = sizes > 0
        split = others.split_means(sizes.astype(float), sums, bounds=BOUNDS, epsilon=epsilon, rng=rng)
        errors["split"] += list((split - truth)[filled])
        for name, predicted in tables.items():
            prediction = None if predicted is None else dict(zip(labels, map(float, predicted), strict=True))
            query = sl.Mean("x", by="group", epsilon=epsilon, prediction=prediction)
            errors[name] += list((ours(query, table, seed=("means", seed), column="mean") - truth)[filled])
    error = {name: root_mean_square(each) for name, each in errors.items()}
    return {name: error[name] / error["split"] for name in error if name != "split"}


def group_counts() -> dict[str, float]:
    """Return errors of 1000 counts as ratios to the noise: nothing known, a prediction off by 20 %, the worst of four.

    The wrong predictions: all groups equal, the order of the groups reversed, all groups empty, all too large by 30 %.
    """
    epsilon, labels, sizes = 0.1, names(GROUPS), zipf_sizes(GROUPS, ROWS)
    groups = np.repeat(np.arange(GROUPS), sizes)
    table = sl.Table(
        pd.DataFrame({"group": np.array(labels)[groups]}), schema=[sl.Category("group", labels, other=None)]
    )
    errors: dict[str, list[float]] = {}
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 4])
        tables = {
            "default": None,
            "public": np.maximum(sizes * (1 + 0.2 * rng.standard_normal(GROUPS)), 0),
            "uniform": np.full(GROUPS, ROWS / GROUPS),
            "reversed": sizes[::-1],
            "zero": np.zeros(GROUPS),
            "large": 1.3 * sizes,
        }
        for name, predicted in tables.items():
            prediction = None if predicted is None else dict(zip(labels, map(float, predicted), strict=True))
            query = sl.Count(by="group", epsilon=epsilon, prediction=prediction)
            value = seeded_release(query, table, seed=f"summaries counts {seed}").value
            errors.setdefault(name, []).extend(np.asarray(value["count"], dtype=np.float64) - sizes)
            if name == "default":
                raw = np.asarray(value["unbiased"], dtype=np.float64) - sizes
                errors.setdefault("raw", []).extend(raw)
    error = {name: root_mean_square(each) for name, each in errors.items()}
    ratios = {name: error[name] / error["raw"] for name in error if name != "raw"}
    print("counts: " + ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items()), file=sys.stderr)
    return {**ratios, "wrong": max(ratios[name] for name in ("uniform", "reversed", "zero", "large"))}


def adult_hours() -> dict[str, float]:
    """Return the error of Adult's mean hours by occupation and education vs the split, a public tenth as prediction."""
    folder = _real("adult", "adult/train.parquet")
    keys, column = ["occupation", "education"], "hours_per_week"
    frame = pd.read_parquet(folder / "train.parquet", columns=[*keys, column]).dropna().astype(dict.fromkeys(keys, str))
    public = [np.random.default_rng([seed, 5]).random(len(frame)) < 0.1 for seed in range(SEEDS)]
    return _real_means("Adult", frame, keys, column, bounds=(1, 99), epsilon=1.0, public=public)


def flight_delays() -> dict[str, float]:
    """Return the error of mean departure delays by carrier and month vs the split, some days as prediction.

    Rows are flights from New York in 2013; the public part is the first day of each month, a thirtieth, a sample by
    time and not by chance. Delays are clamped to -30..300 minutes for all.
    """
    folder = _real("nycflights13", "nycflights13/flights.parquet")
    frame = pd.read_parquet(folder / "flights.parquet", columns=["date", "carrier", "dep_delay_min"]).dropna()
    date = pd.to_datetime(frame.pop("date"))
    frame = frame.assign(
        month=date.dt.strftime("%m"),
        carrier=frame["carrier"].astype(str),
        dep_delay_min=frame["dep_delay_min"].astype(np.float64).clip(-30, 300),
    )
    public = [(date.dt.day == 1).to_numpy()] * SEEDS
    keys = ["carrier", "month"]
    return _real_means("flights", frame, keys, "dep_delay_min", bounds=(-30, 300), epsilon=1.0, public=public)


def _real(name: str, needed: str) -> Path:
    folder = real_data.find(name)
    if folder is None:
        raise AbsentError(f"{name} is not here; SIDELIGHT_DATA names the folder that holds {needed}")
    return folder


def _real_means(
    told: str,
    frame: pd.DataFrame,
    keys: list[str],
    column: str,
    *,
    bounds: tuple[float, float],
    epsilon: float,
    public: list[np.ndarray],
) -> dict[str, float]:
    """Return errors of means by two columns vs the split; `public` tells for each seed which rows are known.

    Ours: the means of the public rows with their standard errors. Bare: without them, as if small samples were as good
    as large ones. Default: nothing known.
    """
    labels = {key: sorted(frame[key].unique()) for key in keys}
    pairs = pd.MultiIndex.from_product([labels[key] for key in keys], names=keys)
    number = sl.Number(column, lower=bounds[0], upper=bounds[1])
    schema = [*(sl.Category(key, labels[key], other=None) for key in keys), number]
    errors: dict[str, list[float]] = {"split": [], "ours": [], "bare": [], "default": []}
    for seed, is_public in enumerate(public):
        rng = np.random.default_rng([seed, 6])
        known = frame[is_public].groupby(keys)[column].agg(["mean", "count"])
        private = frame[~is_public]
        found = private.groupby(keys)[column].agg(["count", "sum"]).reindex(pairs, fill_value=0)
        counts, sums = found["count"].to_numpy(np.float64), found["sum"].to_numpy(np.float64)
        filled = counts > 0
        truth = sums / np.maximum(counts, 1)
        split = others.split_means(counts, sums, bounds=bounds, epsilon=epsilon, rng=rng)
        errors["split"] += list((split - truth)[filled])
        table = sl.Table(private, schema=schema)
        known["noise_sd"] = frame[is_public][column].std() / np.sqrt(known.pop("count"))  # each mean's standard error
        predicted = sl.Predicted(known.reset_index(), origin=f"public rows of {told}")
        bare = sl.Predicted(known[["mean"]].reset_index(), origin=f"public rows of {told}")
        for name, prediction in (("ours", predicted), ("bare", bare), ("default", None)):
            query = sl.Mean(column, by=keys, epsilon=epsilon, prediction=prediction)
            errors[name] += list((ours(query, table, seed=(told, seed), column="mean") - truth)[filled])
    error = {name: root_mean_square(each) for name, each in errors.items()}
    ratios = {name: error[name] / error["split"] for name in error if name != "split"}
    print(f"{told}: " + ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items()), file=sys.stderr)
    return ratios


def measure() -> dict[str, float]:
    """Return all ratios by name."""
    parts = (means_without_bounds, means_with_prediction, means_with_bounds, group_means, group_counts)
    parts += (adult_hours, flight_delays)
    return {f"{part.__name__} {name}": value for part in parts for name, value in part().items()}


def main() -> None:
    """Print all ratios."""
    print_figures(measure())


if __name__ == "__main__":
    main()
