"""How long the constant column of a one-pass regression should be, and whether rows should be centred by their ranges.

Features of uneven sizes far from 0, generated; then hours of Adult by age and years of education, if the set is found.
The constant of `AdaSSP` (half as long as a row can be) was chosen on the generated rows; on Adult the trouble was seen.
Run: `python -m benchmarks.intercept_scale`. The page docs/explanation/ridge-regression.md quotes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measuring import print_figures, sized
from benchmarks.real_data import columns, find
from sidelight.aggregates.collect import collect
from sidelight.noise import OSEntropy, Source
from sidelight.published.adassp import AdaSSP
from sidelight.records import Number, Table

EPSILONS = sized(("0.1", "1", "8"), ("1",))
#: Lengths of the constant column relative to the longest row; "1" is one unit of the features, whatever their size.
SHARES = sized((0.25, 0.5, 0.7, 1.0, 1.4), (0.5, 1.0))
DRAWS = sized(21, 1)
ADULT = (Number("age", lower=17, upper=90), Number("education", lower=1, upper=16), Number("hours", lower=1, upper=99))


def generated(rng: np.random.Generator) -> Iterator[tuple[dict[str, np.ndarray], list[Number]]]:
    """Give columns between public bounds anywhere near 0, and a target that is linear in them up to noise."""
    for rows in (2000, 20000):
        for features, uneven in [(2, True), (5, True), (10, True), (2, False), (5, False), (10, False)]:
            low = rng.uniform(-50, 50, features).round(3)
            width = (10 ** rng.uniform(0, 2, features) if uneven else np.full(features, 20.0)).round(3)
            shape = rng.uniform(0.7, 4, 2)
            values = low + width * rng.beta(*shape, (rows, features))
            target = values @ (rng.normal(size=features) / width)
            target = (target - target.mean()) / target.std() + 0.5 * rng.normal(size=rows) + rng.uniform(-3, 3)
            names = [f"x{place}" for place in range(features)]
            bounds = zip(names, low.tolist(), (low + width).round(3).tolist(), strict=True)
            schema = [Number(name, lower=a, upper=b) for name, a, b in bounds]
            goal = Number("y", lower=float(np.floor(target.min() - 1)), upper=float(np.ceil(target.max() + 1)))
            yield dict(zip(names, values.T, strict=True)) | {"y": target}, [*schema, goal]


def queries(schema: list[Number], epsilon: str) -> dict[str, tuple[AdaSSP, list[Number]]]:
    """Give the ways to fit: about 0 or about the middle of the ranges, with every length of the constant."""
    *features, target = schema
    names, price = [each.name for each in features], {"epsilon": epsilon, "delta": "1e-6"}
    ends = [max(abs(float(each.lower or 0)), abs(float(each.upper or 0))) for each in features]
    halves = [float(each.upper or 0) / 2 - float(each.lower or 0) / 2 for each in features]
    far, near = float(np.linalg.norm(ends)), float(np.linalg.norm(halves))
    bare = [*(Number(name) for name in names), target]  # no bounds: rows are taken about 0
    shared = {"features": names, "target": target.name, **price}
    found = {"about 0, constant 1": (AdaSSP(feature_norm=far, intercept=1, **shared), bare)}
    for share in SHARES:
        found[f"about 0, share {share}"] = (AdaSSP(feature_norm=far, intercept=share * far, **shared), bare)
        found[f"centred, share {share}"] = (AdaSSP(intercept=share * near, **shared), schema)
    return found


def errors(data: dict[str, np.ndarray], schema: list[Number], epsilon: str) -> dict[str, float]:
    """Give the median error of every way to fit, as a share of the target's variance."""
    *features, target = schema
    rows, goal = np.column_stack([data[each.name] for each in features]), data[target.name]
    found = {}
    for name, (query, declared) in queries(schema, epsilon).items():
        table = Table(data, schema=declared)
        prepared = query.prepare(table.schema)
        moments = collect(table, prepared.statistics)
        drawn = []
        for _ in range(DRAWS):
            with Source(OSEntropy()) as source:
                predicted = prepared.fit(moments, source).predict(rows)
            drawn.append(float(np.mean((predicted - goal) ** 2) / goal.var()))
        found[name] = float(np.median(drawn))
    return found


def measure() -> dict[str, float]:
    """Give the geometric mean over the generated sets of the median errors, for every epsilon and way to fit."""
    sets = list(generated(np.random.default_rng(0)))
    means: dict[str, float] = {}
    for epsilon in EPSILONS:
        each = [errors(data, schema, epsilon) for data, schema in sets]
        for name in each[0]:
            means[f"epsilon {epsilon}, {name}"] = float(np.exp(np.mean([np.log(one[name]) for one in each])))
    return means


def adult(epsilon: str) -> dict[str, np.ndarray]:
    """Give coefficients of age, education and the intercept, before, now, and without privacy; medians of draws."""
    folder = find("adult")
    if folder is None:
        return {}
    age, education, hours = columns(folder / "train.parquet", "age", "education_num", "hours_per_week")
    data = {"age": age.astype(float), "education": education.astype(float), "hours": hours.astype(float)}
    price = {"features": ["age", "education"], "target": "hours", "epsilon": epsilon, "delta": "1e-6"}
    before = Table(data, schema=[Number("age"), Number("education"), ADULT[2]])
    ways = {
        "about 0, constant 1": (AdaSSP(feature_norm=120, intercept=1, **price), before),
        "now, without bounds": (AdaSSP(feature_norm=120, **price), before),
        "now": (AdaSSP(feature_norm=120, **price), Table(data, schema=list(ADULT))),
    }
    found = {}
    design = np.column_stack([age, education, np.ones(len(age))])
    found["not private"] = np.linalg.lstsq(design, hours, rcond=None)[0]
    for name, (query, table) in ways.items():
        found[name] = np.median([np.asarray(query.release(table).value) for _ in range(DRAWS)], axis=0)
    variance = float(hours.var())
    return {
        name: np.append(value, float(np.mean((design @ value - hours) ** 2)) / variance)
        for name, value in found.items()
    }


if __name__ == "__main__":
    print_figures(measure())
    for epsilon in ("1", "50"):
        for name, values in adult(epsilon).items():
            print(f"Adult, epsilon {epsilon}, {name}: {np.round(values, 3)} (age, education, intercept, error)")
