"""Privacy reports: whether bounds hold against exact losses, and how far below the worst case they lie.

Exact losses need the noise of a fit and everyone's rows; here the people are generated, or a published data set.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone

import sidelight as sl
from benchmarks import linear_sets, privacy_data
from benchmarks.descent_transcripts import Transcript, recording_fits
from benchmarks.measuring import print_figures, sized
from sidelight.privacy_page import bounds_of_rows

PEOPLE = sized(1000, 60)
FITS = sized(5, 1)
#: People whose exact loss is computed for each descent: 1000 in all.
REMOVED = sized(50, 1)
RHOS = (1e-6, 0.1)


def measure() -> Mapping[str, float]:
    """Return for both solvers the worst ratio of bound to exact loss, violations, and the median on credit_default."""
    found: dict[str, float] = {}
    for solver, ratios_of in (("objective", _objective_ratios), ("descent", _descent_ratios)):
        tight, loose = (np.concatenate([pair[place] for pair in ratios_of().values()]) for place in (0, 1))
        bounds, report = _credit_default(solver)
        print(
            f"{solver}, {privacy_data.credit_default().source}: median bound {np.median(bounds):.3f}, nine in ten "
            f"below {np.quantile(bounds, 0.9):.3f}, nobody above {report['maximum']:.3f}; the guarantee is epsilon 1"
        )
        print(f"{solver}, {adult_line(solver)}")
        found |= {
            f"worst_bound_over_exact_{solver}": float(np.min(tight)),
            f"violations_at_rho_1_in_10_{solver}": float(np.mean(loose < 1)),
            f"median_over_epsilon_{solver}": float(np.median(bounds) / report["guarantee"]["epsilon"]),
        }
    return found


@cache
def _objective_ratios() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return bound / |exact loss| of generated people for models of every loss, several fits each.

    At rho = 1e-6, and at rho = 0.1, where a bound that is too small would be seen.
    """
    found = {}
    for name, (model, (rows, labels, encoded)) in _models("objective").items():
        each: list[list[np.ndarray]] = [[], []]
        for _ in range(FITS):
            model.fit_keeping_noise(rows, labels, i_am_the_curator=True)
            exact = 1e-300 + np.abs(model._true_losses(rows, labels, member="yes", i_am_the_curator=True))
            for ratios, rho in zip(each, RHOS, strict=True):
                ratios.append(bounds_of_rows(model.privacy_report(rho=rho), rows, encoded) / exact)
        found[name] = _shown(f"objective, {name}", each)
    return found


@cache
def _descent_ratios() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the same for descents: each fit is made again without a person, with the answers that it gave.

    The exact loss is that of everything a descent releases; fewer people a fit, because each takes a fit.
    """
    found = {}
    people = np.arange(0, PEOPLE, max(1, PEOPLE // REMOVED))
    for name, (model, (rows, labels, encoded)) in _models("descent").items():
        each: list[list[np.ndarray]] = [[], []]
        for _ in range(FITS):
            transcript, exact = Transcript(), []
            with recording_fits(transcript):
                model.fit(rows, labels)
                reports = [model.privacy_report(rho=rho) for rho in RHOS]
                transcript.run = 1
                for person in people:
                    transcript.met[1].clear()
                    clone(model).fit(np.delete(rows, person, axis=0), np.delete(labels, person))
                    exact.append(abs(transcript.loss()))
            for ratios, report in zip(each, reports, strict=True):
                ratios.append(bounds_of_rows(report, rows[people], encoded[people]) / (1e-300 + np.array(exact)))
        found[name] = _shown(f"descent, {name}", each)
    return found


def _shown(name: str, each: list[list[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    tight, loose = (np.concatenate(ratios) for ratios in each)
    print(
        f"{name:28s} bound / exact: least {tight.min():.2f}, median {np.median(tight):.1f}; "
        f"at rho = 0.1 {np.mean(loose < 1):.2%} violated"
    )
    return tight, loose


def _models(solver: str) -> dict[str, tuple[Any, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    rng = np.random.default_rng(1000)
    rows = rng.normal(size=(PEOPLE, 8)) / 3
    score = rows @ rng.normal(size=8) * 2
    binary = (score + rng.logistic(size=PEOPLE) > 0).astype(int)
    several = np.argmax(rows @ rng.normal(size=(8, 3)) * 3 + rng.gumbel(size=(PEOPLE, 3)), axis=1)
    number = np.clip(score + rng.normal(size=PEOPLE) / 2, -4, 4)
    public: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "data_norm": 1}
    solved = public | {"solver": solver}
    two, three = (rows, binary, 2 * binary - 1), (rows, several, several)
    regression = (rows, number, number)
    of_both = {
        "logistic": (sl.LogisticRegression(classes=[0, 1], **solved), two),
        "logistic, eps 8": (sl.LogisticRegression(classes=[0, 1], **solved | {"epsilon": 8}), two),
        "softmax": (sl.LogisticRegression(classes=[0, 1, 2], **solved), three),
    }
    if solver == "descent":
        return of_both | {"squared": (sl.LinearRegression(target_range=(-4, 4), **solved), regression)}
    return of_both | {
        "smoothed hinge": (sl.LinearSVC(classes=[0, 1], **public), two),
        "log-cosh": (sl.LinearRegression(target_range=(-4, 4), **solved), regression),
        "huber": (sl.LinearRegression(target_range=(-4, 4), loss="huber", **solved), regression),
        "squared, clipped": (sl.LinearRegression(target_range=(-4, 4), loss="squared_clipped", **solved), regression),
    }


def _credit_default(solver: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the bounds of all clients at epsilon 1, and the report.

    The data set is public. Over private rows the distribution of the bounds may not be shown.
    """
    people = privacy_data.credit_default()
    model = sl.LogisticRegression(epsilon=1, delta="1e-5", data_norm=1, classes=[0, 1], solver=solver)
    report = model.fit(people.rows, people.labels.astype(int)).privacy_report(features=people.features)
    return bounds_of_rows(report, people.rows, 2 * people.labels - 1), report


def adult_line(solver: str) -> str:
    """Return what people of the census incomes read at epsilon 1."""
    people = linear_sets.adult()
    model = sl.LogisticRegression(
        epsilon=1, delta="1e-5", data_norm=1, classes=[0, 1], on_violation="normalize", solver=solver
    )
    report = model.fit(people.rows, people.labels).privacy_report()
    quantiles = np.quantile(bounds_of_rows(report, people.rows, 2 * people.labels - 1), (0.5, 0.9, 0.99, 1))
    return f"{people.note}: bounds at 50 / 90 / 99 / 100 % " + " / ".join(f"{value:.3f}" for value in quantiles)


if __name__ == "__main__":
    print_figures(measure())
