"""What learned predictions are worth: public data for one release, past releases for a daily one; and what they cost.

One release: nine deciles of 100 private rows of the Adult census data (test file), predicted from its training file, 40
draws of the rows and the noise, mean average gap in ranks against Uniform priors on the usual bounds. Shifted: the same
with 15 years added to every private age. Daily: trip lengths of every day, predicted from past releases, weekday,
season and weather, mean over all days. Every release is the real mechanism with its whole epsilon (seeded noise).
Where the data sets are not there, generated stand-ins take their place, and the table says so.
"""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import sidelight as sl
from benchmarks import real_data
from benchmarks.baselines.nonprivate_online import nonprivate_online
from benchmarks.baselines.public_quantiles import public_quantiles
from benchmarks.daily_sequences import Days, calendar
from benchmarks.measuring import print_figures, sized
from sidelight.errors import HedgeWarning
from sidelight.predictions import Prior, guess
from sidelight.published.released_learners import first_guess
from sidelight.quantiles import fit_public, nonprivate_gap
from sidelight.quantiles.sequence.day import query_of_day
from sidelight.quantiles.sequence.plan import SequencePlan
from sidelight.testing import seeded_release

DECILES = [i / 10 for i in range(1, 10)]
TRIALS = sized(160, 2)
ROWS = 100


@dataclass(frozen=True)
class Column:
    """One column of one release."""

    name: str
    public: np.ndarray
    private: np.ndarray
    lower: int
    upper: int
    generated: bool


def columns() -> list[Column]:
    """Return the ages and hours of Adult, or generated ones."""
    folder = real_data.find("adult")
    if folder is None:
        rng = np.random.default_rng(1)
        ages = [np.rint(17 + rng.gamma(2.2, 9.8, count)) for count in (32_000, 16_000)]
        hours = [
            np.where(rng.random(count) < 0.5, 40, np.rint(rng.normal(40, 13, count)).clip(1, 99))
            for count in (32_000, 16_000)
        ]
        return [Column("age", *ages, 10, 120, True), Column("hours", *hours, 0, 168, True)]
    names = {"age": "age", "hours": "hours_per_week"}
    found = []
    for short, lower, upper in (("age", 10, 120), ("hours", 0, 168)):
        (public,), (private,) = (
            real_data.columns(folder / f"{part}.parquet", names[short]) for part in ("train", "test")
        )
        found.append(Column(short, public.astype(float), private.astype(float), lower, upper, False))
    return found


def released_gap(query: sl.Quantiles, draws: Sequence[np.ndarray]) -> float:
    """Return the mean over the draws and the levels of the gap in ranks of real releases."""
    gaps = [
        nonprivate_gap(rows, DECILES, seeded_release(query, rows, seed=seed).value).mean()
        for seed, rows in enumerate(draws)
    ]
    return float(np.mean(gaps))


def one_release(column: Column, *, epsilon: str, shift: float = 0.0) -> dict[str, float]:
    """Return the error of every way of using the public data."""
    rng = np.random.default_rng(7)
    draws = [rng.choice(column.private, ROWS, replace=False) + shift for _ in range(TRIALS)]
    sample = sl.PublicData(column.public, f"{column.name}, public file")
    ways: dict[str, Sequence[Prior] | Prior] = {
        "uniform": sl.priors.Uniform(column.lower, column.upper),
        "plain": fit_public(sample, levels=DECILES, size=ROWS, granularity=1, hedge_weight=0),
        "light": fit_public(
            sample, levels=DECILES, size=ROWS, granularity=1, hedge_weight=0.1, fallback=sl.priors.HalfCauchy(40)
        ),
        "robust": fit_public(sample, levels=DECILES, size=ROWS, granularity=1),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HedgeWarning)
        errors = {
            name: released_gap(sl.Quantiles(DECILES, epsilon=epsilon, granularity=1, prediction=prior), draws)
            for name, prior in ways.items()
        }
    flat = public_quantiles(sample, levels=DECILES)
    return {**errors, "public": float(np.mean([nonprivate_gap(rows, DECILES, flat).mean() for rows in draws]))}


def days() -> Days:
    """Return Citi Bike trips in minutes by day with weekday, season and weather, or generated days."""
    folder = real_data.find("citibike_jc")
    if folder is None:
        return _generated_days(400)
    date, seconds = real_data.columns(folder / "trips.parquet", "date", "duration_s")
    weather = dict(_weather(folder / "weather_central_park.parquet"))
    date = date.astype("datetime64[D]")
    starts = np.flatnonzero(np.r_[True, date[1:] != date[:-1]])
    found, features, dates = [], [], []
    for day, minutes in zip(date[starts], np.split(seconds / 60.0, starts[1:]), strict=True):
        if day in weather:
            found.append(minutes)
            dates.append(day.astype(datetime.date))
            features.append([*calendar(dates[-1]), *weather[day]])
    return _trips("Citi Bike, Jersey City", found, features, dates, generated=False)


def _trips(
    name: str,
    values: Sequence[np.ndarray],
    features: Sequence[Sequence[float]],
    dates: Sequence[datetime.date],
    *,
    generated: bool,
) -> Days:
    """Trip lengths in minutes with the settings of the paper: guess 10 ± 1, Uniform on [0, 50/(1-q)]."""
    return Days(
        name,
        values,
        np.array(features),
        generated,
        sl.Number("minutes", lower=0, granularity="1/60"),
        10,
        1,
        (0, 120),
        [(0, 50 / (1 - level)) for level in DECILES],
        dates,
    )


def flights() -> Days | None:
    """Return departure delays from New York by day with weekday, season and weather; None where the data is not."""
    folder = real_data.find("nycflights13")
    if folder is None:
        return None
    date, delay = real_data.columns(folder / "flights.parquet", "date", "dep_delay_min")
    names = ("date", "temp_mean", "wind_speed_mean", "precip_sum", "visib_mean")
    weather_date, *numbers = real_data.columns(folder / "weather_daily.parquet", *names)
    weather_date, date = weather_date.astype("datetime64[D]"), date.astype("datetime64[D]")
    table = np.nan_to_num(np.array(numbers, dtype=float).T / np.array([100, 10, 1, 10]))
    found, features, dates = [], [], []
    for day in np.unique(date):
        delays = delay[date == day]
        here = table[weather_date == day]
        average = here.mean(axis=0) if len(here) else np.zeros(table.shape[1])
        found.append(delays[np.isfinite(delays)])
        dates.append(day.astype(datetime.date))
        features.append([*calendar(dates[-1]), *average.tolist()])
    bounds = [(-30.0, 30 / (1 - level)) for level in DECILES]
    number = sl.Number("minutes", granularity=1)
    return Days("flights, New York", found, np.array(features), False, number, 0, 5, (-30, 300), bounds, dates)


def _weather(path: object) -> list[tuple[np.datetime64, list[float]]]:
    names = ("tmin", "tmax", "awnd", "prcp", "snow", "snwd")
    date, *numbers = real_data.columns(path, "date", *names)  # type: ignore[arg-type]
    scales = np.array([100, 100, 10, 10, 10, 10])
    table = np.nan_to_num(np.array(numbers, dtype=float).T / scales)
    return list(zip(date.astype("datetime64[D]"), table.tolist(), strict=True))


def _generated_days(count: int) -> Days:
    """Generate trips whose typical length follows weekday, season and a weather that is known beforehand."""
    rng = np.random.default_rng(3)
    first = datetime.date(2021, 1, 1)
    values, features, dates = [], [], []
    for t in range(count):
        day = first + datetime.timedelta(t)
        weather = rng.normal(size=6) / 5
        typical = 6.5 + 2.5 * (day.weekday() >= 5) + 1.5 * np.sin(2 * np.pi * t / 365.25) + weather[0]
        values.append(np.rint(60 * typical * np.exp(0.6 * rng.standard_normal(rng.poisson(600)))) / 60)
        dates.append(day)
        features.append([*calendar(day), *weather.tolist()])
    return _trips("generated trips", values, features, dates, generated=True)


def daily(series: Days, *, epsilon: str) -> dict[str, float]:
    """Return the mean error over all days of Uniform priors, the learners and the non-private yardstick."""
    query = sl.Quantiles(DECILES, epsilon=epsilon, column="minutes")
    schema = sl.Schema([series.number])
    guesses = (series.location, series.scale)
    proximate = {"features": series.features.shape[1], "plausible": series.plausible}
    learners = {
        "previous": sl.PubPrev(*guesses),
        "proximate": sl.PubProx(*guesses, **proximate),  # type: ignore[arg-type]
        "cocob": sl.PubProx(*guesses, **proximate, method="cocob"),  # type: ignore[arg-type]
    }
    errors: dict[str, list[float]] = {"uniform": [], **{name: [] for name in learners}}
    plans = {
        name: SequencePlan(query=query, schema=schema, learner=learner, days_per_person=None)
        for name, learner in learners.items()
    }
    learned = {name: plan.begin() for name, plan in plans.items()}
    bounds = [sl.priors.Uniform(*each) for each in series.bounds]
    bare = SequencePlan(query=query, schema=schema, learner=learners["previous"], days_per_person=None)
    for t, (minutes, features) in enumerate(zip(series.values, series.features, strict=True)):
        table = sl.Table({"minutes": minutes}, schema=schema)
        flat = seeded_release(bare.with_prediction(tuple(bounds)), table, seed=t)
        errors["uniform"].append(float(nonprivate_gap(minutes, DECILES, flat.value).mean()))
        for name, plan in plans.items():
            given = np.empty(0) if name == "previous" else features
            priors = plan.priors(learned[name], given, guess("past releases of this benchmark"))
            release = seeded_release(plan.with_prediction(priors), table, seed=t)
            learned[name] = learned[name].learn(given, release.value)
            errors[name].append(float(nonprivate_gap(minutes, DECILES, release.value).mean()))
    errors["tracked"] = tracked(series, DECILES, epsilon=epsilon).tolist()
    return {name: float(np.mean(each)) for name, each in errors.items()}


def tracked(series: Days, levels: Sequence[float], *, epsilon: str) -> np.ndarray:
    """Return the error of every day of `PubTrack`, which has the weekday by itself and knows no location."""
    query = sl.Quantiles(levels, epsilon=epsilon, column="minutes")
    learner = sl.PubTrack(features=series.features.shape[1] - 7)
    plan = SequencePlan(query=query, schema=sl.Schema([series.number]), learner=learner, days_per_person=None)
    learned, gaps = plan.begin(), []
    for t, (minutes, features) in enumerate(zip(series.values, series.features, strict=True)):
        public = plan.numbers(features[7:], series.dates[t])
        day = query_of_day(plan, learned, public, about={}, origin=guess("past releases of this benchmark"))
        release = seeded_release(day, sl.Table({"minutes": minutes}, schema=plan.schema), seed=t)
        learned = plan.learn(learned, public, release)
        gaps.append(float(nonprivate_gap(minutes, levels, release.value).mean()))
    return np.array(gaps)


def yardstick(series: Days, *, epsilon: str) -> float:
    """NOT PRIVATE: the error if the same learner saw the true intervals of earlier days; no method can use it."""
    learner = sl.PubProx(series.location, series.scale, features=series.features.shape[1], plausible=series.plausible)
    schema = sl.Schema([series.number])
    granularity = float(series.number.granularity or 1)
    pairs = zip(series.values, series.features, strict=True)
    location, scale = nonprivate_online(pairs, DECILES, learner, granularity=granularity)
    query = sl.Quantiles(DECILES, epsilon=epsilon, column="minutes")
    gaps = []
    for t, values in enumerate(series.values):
        nonnegative = series.number.lower == 0
        priors = first_guess(learner).priors(
            location[t], scale[t], origin=guess("NOT PRIVATE"), nonnegative=nonnegative
        )
        release = seeded_release(
            replace(query, prediction=priors), sl.Table({"minutes": values}, schema=schema), seed=t
        )
        gaps.append(float(nonprivate_gap(values, DECILES, release.value).mean()))
    return float(np.mean(gaps))


def fit_seconds() -> float:
    """Return the time of a fit of nine levels from 30,000 public rows (best of three, SciPy already loaded)."""
    sample = sl.PublicData(17 + np.random.default_rng(5).gamma(2.2, 9.8, 30_000), "generated")
    fit_public(sample, levels=DECILES, size=ROWS)
    return min(_seconds(lambda: fit_public(sample, levels=DECILES, size=ROWS)) for _ in range(3))


def step_milliseconds() -> dict[str, float]:
    """Return the time of a daily step of nine levels with 14 features: predict, release, learn; without the sort.

    "in memory" has no ledger; it is processor time, which a busy machine does not change. "durable" is the whole
    `Sequence.release` with ledger and state on disk, by the clock; the tenth part of the days that was quickest.
    """
    import tempfile
    from pathlib import Path

    from sidelight.ledger import open_ledger
    from sidelight.testing import SeededSequence

    series = _generated_days(40)
    schema = [sl.Number("minutes", lower=0, granularity="1/60")]
    query = sl.Quantiles(DECILES, epsilon="0.1", column="minutes")
    learner = sl.PubProx(10, 1, features=14, plausible=(0, 120))
    plan = SequencePlan(query=query, schema=sl.Schema(schema), learner=learner, days_per_person=None)
    learned, memory, durable = plan.begin(), [], []
    with tempfile.TemporaryDirectory() as folder, open_ledger(Path(folder) / "ledger.db", testing=True) as ledger:
        sequence = SeededSequence(
            query, learner, schema=schema, budget=sl.PureDP(9), ledger=ledger, scope="trips", seed=1
        )
        for t, (minutes, features) in enumerate(zip(series.values, series.features, strict=True)):
            table = sl.Table({"minutes": minutes}, schema=plan.schema)
            start = time.process_time()
            priors = plan.priors(learned, features, guess("benchmark"))
            release = seeded_release(plan.with_prediction(priors), table, seed=t)
            learned = learned.learn(features, release.value)
            memory.append(time.process_time() - start - _seconds(lambda x=minutes: np.sort(x)))
            day = datetime.date(2026, 1, 1) + datetime.timedelta(t)
            durable.append(
                _seconds(lambda d=day, x=minutes, f=features: sequence.release({"minutes": x}, day=d, features=f))
            )
    return {"in memory": 1e3 * float(np.median(memory)), "durable": 1e3 * float(np.quantile(durable, 0.1))}


def _seconds(work: object) -> float:
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start


def measure() -> dict[str, float]:
    """Return the figures of the targets; ratios are against Uniform priors at the same epsilon."""
    figures: dict[str, float] = {}
    ratios: dict[str, list[float]] = {"0.1": [], "1": []}
    for column in columns():
        for epsilon, all_of in ratios.items():
            errors = one_release(column, epsilon=epsilon)
            all_of.append(errors["robust"] / errors["uniform"])
            for name, error in errors.items():
                figures[f"{column.name}_{name}_epsilon_{epsilon}"] = error
        if column.name == "age":
            for epsilon in ratios:
                moved = one_release(column, epsilon=epsilon, shift=15)
                for name in ("uniform", "plain", "light", "robust", "public"):
                    figures[f"shifted_age_{name}_epsilon_{epsilon}"] = moved[name]
                figures[f"shifted_vs_uniform_epsilon_{epsilon}"] = moved["robust"] / moved["uniform"]
        figures["generated_columns"] = float(column.generated)
    for epsilon, all_of in ratios.items():
        figures[f"public_fit_vs_uniform_epsilon_{epsilon}"] = max(all_of)
    series = days()
    errors = daily(series, epsilon="0.1")
    figures |= {f"daily_{name}_epsilon_0.1": error for name, error in errors.items()}
    figures["daily_vs_uniform_epsilon_0.1"] = errors["tracked"] / errors["uniform"]
    figures["daily_nonprivate_yardstick_epsilon_0.1"] = yardstick(series, epsilon="0.1")
    figures["generated_days"] = float(series.generated)
    second = flights()
    if second is not None:
        errors = daily(second, epsilon="0.1")
        figures |= {f"flights_{name}_epsilon_0.1": error for name, error in errors.items()}
        figures["flights_vs_uniform_epsilon_0.1"] = errors["tracked"] / errors["uniform"]
        figures["flights_nonprivate_yardstick_epsilon_0.1"] = yardstick(second, epsilon="0.1")
    figures["fit_seconds"] = fit_seconds()
    steps = step_milliseconds()
    figures["step_milliseconds"] = steps["in memory"]
    figures["durable_step_milliseconds"] = steps["durable"]
    return figures


def main() -> None:
    """Print every figure."""
    print_figures(measure())


if __name__ == "__main__":
    main()
