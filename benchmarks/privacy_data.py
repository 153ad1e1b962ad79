"""The three data sets of the thesis's figures on privacy losses, encoded by public ranges as a report declares them.

Ranges are round numbers that one would choose without the data; values beyond are clamped. A number goes to
[-1, 1], a category to one column a level, and all are divided by the root of the number of columns, so that no row is
longer than 1. Where a set is missing, generated people of its shape stand in, and the name says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks import real_data
from benchmarks.measuring import sized

NUMBERS_CREDIT = {
    "limit_bal": (0, 1e6),
    "age": (18, 100),
    **{f"pay_{i}": (-2, 9) for i in (0, 2, 3, 4, 5, 6)},
    **{f"bill_amt{i}": (-1e6, 1e6) for i in range(1, 7)},
    **{f"pay_amt{i}": (0, 1e6) for i in range(1, 7)},
}
LEVELS_CREDIT = {"sex": ["1", "2"], "education": list("0123456"), "marriage": list("0123")}
NUMBERS_KIDNEY = {
    "age": (0, 100),
    "bp": (40, 200),
    "sg": (1, 1.03),
    "al": (0, 5),
    "su": (0, 5),
    "bgr": (0, 500),
    "bu": (0, 400),
    "sc": (0, 50),
    "sod": (50, 200),
    "pot": (0, 50),
    "hemo": (0, 20),
    "pcv": (0, 60),
    "wbcc": (0, 30000),
    "rbcc": (0, 8),
}
LEVELS_KIDNEY = {
    "rbc": ["normal", "abnormal"],
    "pc": ["normal", "abnormal"],
    "pcc": ["notpresent", "present"],
    "ba": ["notpresent", "present"],
    "htn": ["no", "yes"],
    "dm": ["no", "yes"],
    "cad": ["no", "yes"],
    "appet": ["good", "poor"],
    "pe": ["no", "yes"],
    "ane": ["no", "yes"],
}
NUMBERS_WINE = {
    "fixed_acidity": (0, 20),
    "volatile_acidity": (0, 2),
    "citric_acid": (0, 2),
    "residual_sugar": (0, 70),
    "chlorides": (0, 1),
    "free_sulfur_dioxide": (0, 300),
    "total_sulfur_dioxide": (0, 500),
    "density": (0.95, 1.05),
    "ph": (2, 5),
    "sulphates": (0, 2),
    "alcohol": (5, 20),
}
LEVELS_WINE = {"color": ["red", "white"]}


@dataclass(frozen=True)
class People:
    """Encoded rows, their labels, how they were encoded, and where they come from."""

    source: str
    rows: np.ndarray
    labels: np.ndarray
    features: list[dict[str, Any]]


@cache
def credit_default() -> People:
    """Return 30 000 clients and whether they defaulted (0 or 1)."""
    return _load("credit_default", "default_next_month", NUMBERS_CREDIT, LEVELS_CREDIT, sized(30_000, 500))


@cache
def kidney_disease() -> People:
    """Return 400 patients and whether they have the disease (0 or 1); a missing number is the middle of its range."""
    return _load("kidney_disease", "class", NUMBERS_KIDNEY, LEVELS_KIDNEY, 400)


@cache
def wine_quality() -> People:
    """Return 6 497 wines and their score, 0 to 10."""
    return _load("wine_quality", "quality", NUMBERS_WINE, LEVELS_WINE, 6_497)


def _load(name: str, label: str, numbers: dict[str, Any], levels: dict[str, list[str]], size: int) -> People:
    half = (len(numbers) + len(levels)) ** -0.5
    features = [{"name": n, "lo": lo, "hi": hi, "to": [-half, half]} for n, (lo, hi) in numbers.items()]
    features += [{"name": n, "levels": each, "to": [0.0, half], "outside": "clamp"} for n, each in levels.items()]
    folder = real_data.find(name)
    if folder is None:
        return _generated(name, features, size)
    cells = real_data.columns(folder / f"{name}.parquet", label, *numbers, *levels)
    table = dict(zip([label, *numbers, *levels], cells, strict=True))
    columns = []
    for number, (lo, hi) in numbers.items():
        values = np.asarray(table[number], dtype=np.float64)
        share = (np.clip(np.where(np.isnan(values), (lo + hi) / 2, values), lo, hi) - lo) / (hi - lo)
        columns.append(half * (2 * share - 1))
    for category, each in levels.items():
        texts = np.asarray(table[category]).astype(str)
        columns += [half * (texts == level) for level in each]
    targets = np.asarray(table[label])
    if targets.dtype.kind not in "iuf":
        targets = (targets.astype(str) == "ckd").astype(int)
    return People(name, np.column_stack(columns).astype(np.float64), targets.astype(np.float64), features)


def _generated(name: str, features: list[dict[str, Any]], size: int) -> People:
    generator = np.random.default_rng(22)
    width = sum(len(each.get("levels", [0])) for each in features)
    rows = generator.uniform(-1, 1, size=(size, width)) * generator.beta(2, 3, size=(1, width)) / width**0.5
    score = rows @ generator.normal(size=width) * 6
    if name == "wine_quality":
        labels = np.clip(np.rint(6 + score / np.std(score) + generator.normal(size=size) / 2), 0, 10)
    else:
        labels = (score + generator.logistic(size=size) > 1).astype(np.float64)
    return People(f"STAND-IN: generated in the shape of {name}", rows, labels, features)
