"""Our own library, by its public names and with its defaults; `..._predicted` also gets a public sample."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.peers.programs.trial import Data, Job, main, pairs_of

#: Where the public samples come from.
ORIGIN = "a public sample"
#: The largest number of levels for which priors are fitted.
MOST_FITTED = 20


def counts(job: Job, *, predicted: bool = False) -> Callable[[Data], Any]:
    """Counts by group; predicted: the shares of a public sample, scaled to a noisy total by the library."""
    import sidelight as sl

    schema = [sl.Category("group", range(job["groups"]), other=None)]

    def release(data: Data) -> np.ndarray:
        prediction = None
        if predicted:
            public = np.bincount(data["public_group"], minlength=job["groups"]) / job["public_share"]
            prediction = sl.Predicted(dict(enumerate(map(float, public))), origin=ORIGIN)
        query = sl.Count(by="group", epsilon=job["epsilon"], prediction=prediction)
        return np.asarray(query.release(sl.Table({"group": data["group"]}, schema=schema)).value["count"])

    return release


def means(job: Job, *, predicted: bool = False, sized: bool = False) -> Callable[[Data], Any]:
    """Means by group; predicted: those of a public sample with their standard errors; sized: sizes are declared."""
    import sidelight as sl

    lower, upper = job["bounds"]
    schema = [sl.Category("group", range(job["groups"]), other=None), sl.Number("x", lower=lower, upper=upper)]

    def release(data: Data) -> np.ndarray:
        prediction = None
        if predicted:
            known = pd.DataFrame({"group": data["public_group"], "x": data["public_x"]})
            each = known.groupby("group")["x"].agg(["mean", "count"])
            each["noise_sd"] = known["x"].std() / np.sqrt(each.pop("count"))
            prediction = sl.Predicted(each.reset_index(), origin=ORIGIN)
        # a size is at least 1; the mean of a group without rows is not judged
        counted = np.maximum(np.bincount(data["group"], minlength=job["groups"]), 1).tolist()
        sizes = sl.GroupSizes(dict(enumerate(counted))) if sized else None
        query = sl.Mean("x", by="group", epsilon=job["epsilon"], prediction=prediction, known=sizes)
        table = sl.Table({"group": data["group"], "x": data["x"]}, schema=schema)
        return np.asarray(query.release(table).value["mean"])

    return release


def quantiles(job: Job, *, predicted: bool = False) -> Callable[[Data], Any]:
    """All levels together; predicted: the values of a public sample."""
    import sidelight as sl

    lower, upper = job["bounds"]
    levels = [Fraction(level).limit_denominator(1000) for level in job["levels"]]
    grid = {"granularity": job["granularity"]} if job.get("granularity") else {}

    def release(data: Data) -> np.ndarray:
        prediction = None
        if predicted:
            prediction = _fitted(data["public_x"], levels, job["public_share"], grid)
        query = sl.Quantiles(levels, epsilon=job["epsilon"], bounds=(lower, upper), prediction=prediction, **grid)
        return np.asarray(query.release(data["x"]).value)

    return release


def _fitted(sample: np.ndarray, levels: list[Fraction], share: float, grid: dict[str, Any]) -> Any:
    """Return a prior for each level, fitted to a public sample; of many levels, which takes minutes, one for all."""
    import sidelight as sl

    if len(levels) <= MOST_FITTED:
        about = round(len(sample) / share)
        return sl.quantiles.fit_public(sl.PublicData(sample, ORIGIN), levels=levels, size=about, **grid)
    first, middle, third = np.quantile(sample, [0.25, 0.5, 0.75])
    return sl.priors.Cauchy(float(middle), float(third - first) / 2)


def covariance(job: Job, *, predicted: bool = False) -> Callable[[Data], Any]:
    """The second moments of rows about 0; predicted: those of a public sample."""
    import sidelight as sl

    def release(data: Data) -> np.ndarray:
        prediction = sl.PublicData(data["public_rows"], ORIGIN) if predicted else None
        query = sl.Covariance(radius=job["radius"], epsilon=job["epsilon"], prediction=prediction)
        return np.asarray(query.release(data["rows"]).value["matrix"])

    return release


def linear(job: Job, *, predicted: bool = False) -> Callable[[Data], Any]:
    """Predictions for the test rows; predicted: a public sample of rows with their targets."""
    import sidelight as sl

    def release(data: Data) -> np.ndarray:
        model = sl.LinearRegression(
            epsilon=job["epsilon"],
            delta=job["delta"],
            data_norm=job["data_norm"],
            target_range=tuple(job["target_range"]),
            prediction=_public_rows(data) if predicted else None,
        )
        return np.asarray(model.fit(data["rows"], data["target"]).predict(data["test_rows"]))

    return release


def logistic(job: Job, *, predicted: bool = False, constant: bool = True) -> Callable[[Data], Any]:
    """Labels for the test rows; predicted: a public sample of rows with their labels; with or without a constant."""
    import sidelight as sl

    def release(data: Data) -> np.ndarray:
        model = sl.LogisticRegression(
            epsilon=job["epsilon"],
            delta=job["delta"],
            data_norm=job["data_norm"],
            classes=[0, 1],
            fit_intercept=constant,
            prediction=_public_rows(data) if predicted else None,
        )
        return np.asarray(model.fit(data["rows"], data["target"]).predict(data["test_rows"]))

    return release


def additive(job: Job, *, predicted: bool = False) -> Callable[[Data], Any]:
    """Numbers, or probabilities of the second class, for the test rows; predicted: a public sample of rows."""
    import sidelight as sl

    columns = [
        sl.Category(f"x{place}", [str(label) for label in range(size)], other=None)
        if bounds is None
        else sl.Number(f"x{place}", lower=bounds[0], upper=max(bounds[1], bounds[0] + 1e-6))
        for place, (bounds, size) in enumerate(zip(job["bounds"], job["labels"], strict=True))
    ]

    def cells(rows: Any) -> dict[str, Any]:
        labels = [bounds is None for bounds in job["bounds"]]
        return {
            f"x{place}": rows[:, place].astype(int).astype(str) if label else rows[:, place]
            for place, label in enumerate(labels)
        }

    def release(data: Data) -> np.ndarray:
        price = {"epsilon": job["epsilon"], "delta": job["delta"], "columns": columns}
        if predicted:
            known = data["public_target"] if job["target_range"] else data["public_target"].astype(int)
            price["prediction"] = sl.PublicData({**cells(data["public_rows"]), "target": known}, ORIGIN)
        if job["target_range"] is None:
            classifier = sl.AdditiveClassifier(**price, classes=[0, 1])
            fitted = classifier.fit(cells(data["rows"]), data["target"].astype(int))
            return fitted.predict_proba(cells(data["test_rows"]))[:, 1]
        model = sl.AdditiveRegressor(**price, target_range=tuple(job["target_range"]))
        return model.fit(cells(data["rows"]), data["target"]).predict(cells(data["test_rows"]))

    return release


def _public_rows(data: Data) -> Any:
    import sidelight as sl

    return sl.PublicData(np.column_stack([data["public_rows"], data["public_target"]]), ORIGIN)


def marginals(job: Job, *, predicted: bool = False) -> Callable[[Data], Any]:
    """All pairs of columns as answers of a synthetic table; with a delta where the job has one."""
    import sidelight as sl

    sizes = job["sizes"]
    names = [f"c{place}" for place in range(len(sizes))]
    schema = [sl.Category(name, range(size), other=None) for name, size in zip(names, sizes, strict=True)]
    price = {"epsilon": job["epsilon"], **({"delta": job["delta"]} if job.get("delta") else {})}

    def release(data: Data) -> np.ndarray:
        public = sl.PublicData(pd.DataFrame(data["public_rows"], columns=names), ORIGIN) if predicted else None
        query = sl.SyntheticTable(sl.marginals(2), prediction=public, **price)
        table = sl.Table(pd.DataFrame(data["rows"], columns=names), schema=schema)
        synthetic = sl.Synthetic(query.release(table))
        answers = [synthetic.answer([names[first], names[second]]) for first, second in pairs_of(sizes)]
        return np.concatenate([np.asarray(answer.counts, dtype=np.float64).ravel() for answer in answers])

    return release


if __name__ == "__main__":
    alone = (counts, means, quantiles, covariance, linear, logistic, additive, marginals)
    methods: dict[str, Any] = {method.__name__: method for method in alone}
    methods |= {f"{name}_predicted": partial(method, predicted=True) for name, method in methods.items()}
    methods |= {
        "means_with_sizes": partial(means, sized=True),
        "logistic_without_constant": partial(logistic, constant=False),
    }
    main("sidelight", methods)
