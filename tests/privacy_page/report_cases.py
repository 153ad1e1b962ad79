"""The set of cases that Python and the page's JavaScript share: published reports x rows -> bounds.

`python tests/privacy_page/report_cases.py` writes cases.json next to this file; a test checks that the two agree. Rows
are drawn by a small generator of this module, so that the file never changes with a library's version.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.privacy_page import report_bound
from sidelight.privacy_page.build import FitConstants, build_report, features_of
from sidelight.privacy_page.losses import (
    ClippedPoisson,
    Huber,
    LogCosh,
    Logistic,
    Loss,
    SmoothedHinge,
    Softmax,
    SquaredClipped,
    Weights,
)
from sidelight.privacy_page.published import DataDependent, Guarantee, LabelEncoding, PublishedReport, RowEncoding
from sidelight.privacy_page.stepwise_reports import DescentLoss, DescentReport, build_descent_report

FILE = Path(__file__).with_name("cases.json")
CONSTANTS = FitConstants(
    epsilon=1.0, delta=1e-5, regularisation=1.75, sigma=4.5, tolerance=1e-6, sigma_out=3e-4, rounding_step=2.0**-15
)
FEATURES: list[dict[str, Any]] = [
    {"name": "age", "lo": 0, "hi": 100},
    {"name": "income", "lo": -1e5, "hi": 1e6, "to": [-0.5, 0.5]},
    {"name": "sex", "levels": ["F", "M"]},
    {"name": "dose", "lo": 0, "hi": 10, "outside": "reject"},
    {"name": "region", "levels": ["north", "south", "ab c"], "to": [-0.25, 0.75], "outside": "clamp"},
    {"name": "score"},
]
TWO = LabelEncoding(negative="<=50K", positive=">50K")
SWAPPED = LabelEncoding(negative=">50K", positive="<=50K")
THREE = LabelEncoding(classes=["a", "b", "c"])
NUMBER = LabelEncoding(lo=-2.0, hi=6.0)
LOSSES: dict[str, tuple[Loss, LabelEncoding]] = {
    "logistic": (Logistic(weights=Weights(negative=1, positive=1)), TWO),
    "logistic-swapped": (Logistic(weights=Weights(negative=1, positive=1)), SWAPPED),
    "logistic-weighted": (Logistic(weights=Weights(negative=0.5, positive=3)), TWO),
    "log-cosh": (LogCosh(kappa=0.25), NUMBER),
    "huber": (Huber(kappa=0.75), NUMBER),
    "squared-clipped": (SquaredClipped(clip=1.25), NUMBER),
    "smoothed-hinge": (SmoothedHinge(width=0.5), TWO),
    "softmax": (Softmax(), THREE),
    "softmax-weighted": (Softmax(weights=[0.5, 2, 1.25]), THREE),
    "poisson": (ClippedPoisson(clip=1.5), LabelEncoding(lo=0.0, hi=7.0)),
}
SCOPES: list[dict[str, Any]] = [{}, {"scope": "all-n", "n_public": 30000}, {"scope": "everyone"}]


class Draws:
    """Numbers in [0, 1) by a linear congruential generator: the same on every machine."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def __call__(self) -> float:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 11) / 2**53


def reports() -> dict[str, PublishedReport | DescentReport]:
    """Give one report for every loss, scope and way to bound a row, and the paid ones."""
    found: dict[str, PublishedReport | DescentReport] = {}
    draw = Draws(5)
    policies = [("clip", 1.0), ("normalize", None), ("clip", None), ("normalize", 0.5)]
    for number, (name, (loss, label)) in enumerate(LOSSES.items()):
        for turn, scope in enumerate(SCOPES):
            policy, intercept = policies[(number + turn) % len(policies)]
            encoding = _encoding(policy, intercept, label)
            wide = 3 if label.lo is None else 0.75
            theta = [[round(wide * (2 * draw() - 1), 3) for _ in range(encoding.columns)] for _ in label.classes or [0]]
            found[f"{name}/{scope.get('scope', 'one-person')}"] = build_report(
                loss=loss,
                encoding=encoding,
                theta=theta if label.classes else theta[0],
                constants=CONSTANTS,
                rho=1e-6 if turn else 1e-4,
                **scope,
            )
    found |= _paid_reports(draw)
    for name in ("logistic", "softmax"):  # with a choice between predictions before the fit
        loss, label = LOSSES[name]
        encoding = _encoding("clip", 1.0, label)
        theta = [[round(6 * draw() - 3, 3) for _ in range(encoding.columns)] for _ in label.classes or [0]]
        found[f"{name}/predicted"] = build_report(
            loss=loss,
            encoding=encoding,
            theta=theta if label.classes else theta[0],
            constants=replace(CONSTANTS, beforehand=0.1604),
        )
    return found | _descents(draw)


def _descents(draw: Draws) -> dict[str, DescentReport]:
    """Give reports of descents: every loss, with a map and without, with a constant column and without."""
    found = {}
    losses = {
        "squared": (DescentLoss(name="squared", middle=2.0, half=4.0), NUMBER),
        "logistic": (DescentLoss(name="logistic", weights=[0.5, 1.0]), TWO),
        "softmax": (DescentLoss(name="softmax", weights=[0.25, 1.0, 0.75]), THREE),
    }
    for turn, (name, (loss, label)) in enumerate(losses.items()):
        encoding = _encoding("clip", None, label)
        size, intercept = encoding.columns, turn != 1
        outputs = len(label.classes or [0])

        def drawn(*shape: int, wide: float = 1.0) -> np.ndarray:
            count = math.prod(shape)
            return np.array([round(wide * (2 * draw() - 1), 3) for _ in range(count)]).reshape(shape)

        found[f"{name}/descent"] = build_descent_report(
            guarantee=Guarantee(epsilon=1.0, delta=1e-5),
            loss=loss,
            encoding=encoding,
            mapping=None if turn == 2 else drawn(size, size, wide=3.0),
            centre=drawn(size, wide=0.2),
            intercept=intercept,
            points=drawn(4, size + intercept, outputs),
            clip=1.5,
            mu_step=0.125,
            mu_gram=0.07,
            mu_count=0.03 * turn,
            beforehand=0.1 * turn,
            rho=1e-6,
        )
    return found


def _encoding(policy: Any, intercept: float | None, label: LabelEncoding) -> RowEncoding:
    return RowEncoding(
        features=features_of(FEATURES), row_policy=policy, data_norm=1.5, intercept_value=intercept, label=label
    )


def _paid_reports(draw: Draws) -> dict[str, PublishedReport]:
    found = {}
    for name, hessian, scale in (
        ("logistic", True, 40.0),
        ("logistic-weighted", True, 4.0),
        ("log-cosh", True, 12.0),
        ("huber", False, 1.0),
        ("logistic-swapped", False, 1.0),
    ):
        loss, label = LOSSES[name]
        encoding = _encoding("clip", 1.0, label)
        size = encoding.columns
        matrix = [[0.0] * size for _ in range(size)]
        for i in range(size):
            for j in range(i + 1):
                entry = round(2 * draw() - 1, 3) + (scale if i == j else 0.0)
                matrix[i][j] = matrix[j][i] = entry
        paid = DataDependent(
            gradient=[round(10 * draw() - 5, 3) for _ in range(size)],
            sigma2=6.5,
            hessian=matrix if hessian else None,
            sigma3=0.5 if hessian else None,
            kappa=5.25 if hessian else None,
            zeta=0.0025 if hessian else None,
            q=5.2293,
        )
        found[f"{name}/paid{'' if hessian else '-gradient'}"] = build_report(
            loss=loss,
            encoding=encoding,
            theta=[round(6 * draw() - 3, 3) for _ in range(size)],
            constants=CONSTANTS,
            data_dependent=paid,
        )
    return found


def rows(draw: Draws) -> Iterator[dict[str, Any]]:
    """Give rows without end: ordinary ones, ends of ranges, values far outside, long rows, a zero row."""
    yield {"age": 0, "income": 450000.0, "sex": "F", "dose": 0, "region": "nowhere", "score": 0}
    yield {"age": 150, "income": -1e9, "sex": "M", "dose": 10, "region": "ab c", "score": 1e200}
    yield {"age": -3, "income": 1e6, "sex": "F", "dose": 5, "region": "south", "score": -1e4}
    while True:
        yield {
            "age": round(100 * draw()),
            "income": round(1.1e6 * draw() - 1e5, 2),
            "sex": "FM"[int(2 * draw())],
            "dose": round(10 * draw(), 4),
            "region": ["north", "south", "ab c", "elsewhere"][int(4 * draw())],
            "score": round(2 * draw() - 1, 6),
        }


def labels(label: LabelEncoding, draw: Draws) -> Iterator[Any]:
    """Give labels without end, beyond the range of a number too."""
    names = label.classes or [label.negative, label.positive]
    while True:
        yield round((4 * draw() - 2) ** 3 / 2, 3) if label.lo is not None else names[int(len(names) * draw())]


def cases() -> dict[str, Any]:
    """Give the whole file: reports by name, rows with their bounds, and rows that are refused with the field."""
    written, draw = [], Draws(7)
    known = reports()
    for name, report in known.items():
        paid = report.data_dependent is not None
        people = zip(range(12), rows(draw), labels(report.encoding.label, draw), strict=False)
        for turn, row, label in people:
            member = ("unknown", "yes", "no")[turn % 3] if paid else "unknown"
            bound = report_bound(report, row, label, member=member)
            written.append({"report": name, "row": row, "label": label, "member": member, "bound": bound})
    return {
        "about": "Written by report_cases.py; bounds have the digits that bring the same double back.",
        "reports": {name: report.to_dict() for name, report in known.items()},
        "cases": written,
        "refused": list(_refused(known["logistic/one-person"], known["log-cosh/one-person"])),
    }


def _refused(classes: Any, number: Any) -> Iterator[dict[str, Any]]:
    good = {"age": 30, "income": 1000.0, "sex": "F", "dose": 1, "region": "north", "score": 0.5}
    for name, report, change, label in (
        ("logistic/one-person", classes, {"age": None}, ">50K"),
        ("logistic/one-person", classes, {"age": "thirty"}, ">50K"),
        ("logistic/one-person", classes, {"sex": "X"}, ">50K"),
        ("logistic/one-person", classes, {"dose": 10.5}, ">50K"),
        ("logistic/one-person", classes, {"dose": -0.001}, ">50K"),
        ("logistic/one-person", classes, {"score": ""}, ">50K"),
        ("logistic/one-person", classes, {}, "50K"),
        ("log-cosh/one-person", number, {}, "much"),
        ("log-cosh/one-person", number, {"income": "1,000"}, 1.0),
    ):
        row = good | change
        try:
            report_bound(report, row, label)
        except SchemaError as error:
            yield {"report": name, "row": row, "label": label, "field": str(error).split(":")[0]}


def write() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(cases(), indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    write()
