"""Reports of descents: lengths of the published path are above those of the integers, and the bound holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.privacy_page import DescentReport, bounds_of_rows, read_report, report_bound
from sidelight.privacy_page.stepwise_reports import RATES, from_variance, path_variance, row_slack
from sidelight.regression.descent.geometry import Geometry
from sidelight.regression.descent.integer_rows import GeometryMap, clipped_errors, predictors, row_codes, whole_norms
from sidelight.regression.descent.targets import Targets
from sidelight.regression.table_rows import RowEncoder

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(900, 5)) * 0.3
NUMBERS = ROWS @ [1.0, -0.5, 0.2, 0, 0] + 0.2 * RNG.normal(size=900)
PRICE: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "data_norm": 1}
CLASSES = np.digitize(NUMBERS, [-0.2, 0.2])


def models() -> dict[str, tuple[Any, np.ndarray, np.ndarray]]:
    """Give fitted models, their targets as users have them, and as the report's arithmetic does."""
    public = sl.PublicData(np.column_stack([ROWS[:60] / 2 + 0.01, NUMBERS[:60]]), "some rows")
    two, signs = (NUMBERS > 0).astype(int), np.where(NUMBERS > 0, 1.0, -1.0)
    number = {"target_range": (-1, 2), **PRICE}
    clamped = np.clip(NUMBERS, -1, 2)  # as the page reads a target
    return {
        "squared": (sl.LinearRegression(**number), NUMBERS, clamped),
        "predicted": (sl.LinearRegression(prediction=public, rows=800, **number), NUMBERS, clamped),
        "no intercept": (sl.LinearRegression(fit_intercept=False, **number), NUMBERS, clamped),
        "logistic": (
            sl.LogisticRegression(classes=[0, 1], class_weight={0: 1, 1: 3}, on_violation="normalize", **PRICE),
            two,
            signs,
        ),
        "softmax": (sl.LogisticRegression(classes=[0, 1, 2], **PRICE), CLASSES, CLASSES.astype(float)),
        "plain": (
            sl.LogisticRegression(classes=[0, 1, 2], solver=sl.DescentSettings(geometry="none"), **PRICE),
            CLASSES,
            CLASSES.astype(float),
        ),
    }


def exact_variance(report: DescentReport, targets: Targets, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return V from the integers of the fit itself."""
    d = rows.shape[1]
    geometry = Geometry(
        map=None if report.map is None else np.array(report.map),
        inverse=None,
        centre=np.array(report.centre),
        h=np.ones(d + report.intercept),
        trace=1.0,
        rows=1.0,
        counted=1.0,
        intercept=report.intercept,
        kind="none" if report.map is None else "private",
    )
    mapping = GeometryMap(geometry=geometry)
    codes = row_codes(rows, report.encoding.data_norm)
    z = mapping.mapped(codes).astype(np.float64)
    norms = whole_norms(z, mapping.last)
    clip = int(report.clip * 2.0**mapping.gradient_bits)
    admitted, _ = targets.admit(labels)
    lengths = np.sqrt(np.sum(z * z, axis=1) + float(mapping.last) ** 2)
    total = (report.mu_gram * (np.sum(codes**2, axis=1) + 2.0**26) / (2.0**28 + 2.0**26)) ** 2 + report.mu_count**2
    for point in report.points:
        u = predictors(z, mapping.theta_codes(np.array(point).T), mapping.last)
        errors = clipped_errors(targets.errors(u, admitted), norms, clip)
        total = total + (lengths * np.linalg.norm(errors, axis=1) / clip * report.mu_step) ** 2
    return np.asarray(total)


@pytest.mark.parametrize("name", list(models()))
def test_the_page_is_above_the_integers_and_near_them(name: str) -> None:
    model, labels, encoded = models()[name]
    model.fit(ROWS, labels)
    report = read_report(model.privacy_report())
    assert isinstance(report, DescentReport)
    from sidelight.privacy_page.bound import bounded_rows

    rows = bounded_rows(report.encoding, ROWS * RNG.choice([1, 4], size=(900, 1)))
    targets = {
        "squared": Targets(kind="squared", target_range=(-1, 2), target_centre=report.loss.middle or 0.0),
        "logistic": Targets(kind="logistic", classes=(0, 1), class_weights=(1, 3)),
        "softmax": Targets(kind="softmax", classes=(0, 1, 2)),
    }[report.loss.name]
    exact = exact_variance(report, targets, rows, labels)
    found = path_variance(report, rows / report.encoding.data_norm, encoded)
    assert (found >= exact).all()
    assert (found <= 1.05 * exact + 1e-4).all()
    bounds = bounds_of_rows(report, ROWS, encoded)
    assert bounds.max() <= report.maximum
    one = report_bound(model.privacy_report(), ROWS[0].tolist(), labels[0].item())
    assert one == pytest.approx(bounds[0])


def test_the_slack_of_a_row_counts_both_cuts() -> None:
    """Numbers of a table are cut to 2^-20 and multiplied by a share just below 1, so that a whole code falls short."""
    encoder = RowEncoder((sl.Number("x", lower=-1, upper=1),))
    values = (np.arange(1, 1 << 14) * 64 + 1 - 2.0**-11) * 2.0**-20
    (entries,) = encoder.rows((np.trunc(values * 2**20),))
    off = np.abs(values - row_codes(entries, 1.0)[:, 0] * 2.0**-14).max()
    assert 2.0**-14 * (1 + 2.0**-7) < off <= row_slack(None, 1)
    four = np.sqrt(4) * (off + 2.0**-13)  # mapped by the identity, and rounded to 2^-12
    assert four <= row_slack(np.eye(4), 4)


def adversary(rule: int, spent: np.ndarray, summed: np.ndarray, largest: float) -> np.ndarray:
    """Give the next length of a row, from what was seen: always, only while behind, only while ahead, by the sum."""
    if rule == 0:
        return np.full_like(spent, largest)
    if rule == 1:
        return np.where(summed > 0, 0.0, largest)
    if rule == 2:
        return np.where(summed < 0, 0.2 * largest, largest)
    return largest * np.exp(-np.abs(summed))


@pytest.mark.parametrize("rule", range(4))
def test_the_bound_of_a_sum_whose_variance_is_random(rule: int) -> None:
    """20,000 paths at rho = 0.01: by the union over the rates far fewer fail. A tenth of the logarithm fails."""
    rng, paths, rho = np.random.default_rng(rule), 20_000, 0.01
    spent, summed = np.zeros(paths), np.zeros(paths)
    for _ in range(16):
        length = adversary(rule, spent, summed, 0.5)
        summed += length * rng.normal(size=paths)
        spent += length**2
    log_term = math.log(2 * len(RATES) / rho)
    failed = np.mean(np.abs(summed) > from_variance(spent, RATES, log_term) - spent / 2)
    assert failed <= 0.01
    weak = np.mean(np.abs(summed) > from_variance(spent, RATES, log_term / 10) - spent / 2)
    assert weak > 0.01


def test_what_a_descent_has_no_report_for() -> None:
    model = sl.LinearRegression(target_range=(-1, 2), **PRICE).fit(ROWS[:200], NUMBERS[:200])
    with pytest.raises(RangeError, match="one person"):
        model.privacy_report(scope="everyone")
    with pytest.raises(RangeError, match="rho"):
        model.privacy_report(rho=2)
    wide = sl.LinearRegression(target_range=(-1, 2), solver=sl.DescentSettings(geometry="none"), **PRICE)
    wide.fit(np.zeros((20, 300)), np.zeros(20))
    with pytest.raises(RangeError, match="256 features"):
        wide.privacy_report()
    report = model.privacy_report()
    report["points"][0][0] = report["points"][0][0][:-1]
    with pytest.raises(SchemaError, match="points"):
        read_report(report)
