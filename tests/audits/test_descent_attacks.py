"""Attacks on models by descent: whole transcripts of neighbouring tables do not refute GDP(mu), planted bugs are found.

The exact privacy loss of a transcript is known (`benchmarks.descent_transcripts`). Its mean over runs gives
delta(epsilon) itself, not a bound from one statistic, and one canary row of the largest gradient makes it as large as
it gets.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.descent_transcripts import Transcript, recording, transcript_of
from scipy.stats import norm

from sidelight.noise import Source
from sidelight.predictions.origin import guess
from sidelight.regression.descent import fit as descent_fit
from sidelight.regression.descent.fit import descend
from sidelight.regression.descent.geometry import PublicMoments
from sidelight.regression.descent.integer_rows import GeometryMap, clipped_errors, predictors, whole_norms
from sidelight.regression.descent.mapped_rows import CodedExamples, MappedRows, parts_of
from sidelight.regression.descent.plan import DescentPlan, plan_descent
from sidelight.regression.descent.row_sums import integer_gradient
from sidelight.regression.descent.starts import StartChoice
from sidelight.regression.descent.targets import Targets
from sidelight.regression.model_predictions import PredictedCoefficients
from sidelight.regression.rows import BoundedArrays
from sidelight.testing import SeededEntropy

NUMBER = Targets(kind="squared", target_range=(-1, 1))
CLASSES = Targets(kind="logistic", classes=(0, 1))
GUESS = PredictedCoefficients(theta=np.array([[0.9], [-0.5]]), origin=guess(), what="a guess")
PUBLIC = PublicMoments.of(np.random.default_rng(3).uniform(-0.9, 0.9, (40, 1)))
TABLE = np.array([[0.3], [-0.6]])
#: The canary: a row of the full norm whose gradient is clipped at almost every point.
CANARY = np.array([[1.0]])
EPSILONS = (0.0, 0.5, 1.0, 2.0)
SETTINGS: dict[str, tuple[Targets, list[Any], Any, dict[str, Any]]] = {
    "number": (NUMBER, [0.5, -0.2], -1.0, {}),
    "number, predicted": (NUMBER, [0.5, -0.2], -1.0, {"candidates": (GUESS,)}),
    "number, public rows": (NUMBER, [0.5, -0.2], 1.0, {"candidates": (GUESS,), "public": PUBLIC}),
    "classes": (CLASSES, [1, 0], 0, {}),
    "three classes": (Targets(kind="softmax", classes=(0, 1, 2)), [1, 0], 2, {}),
    "classes, predicted": (CLASSES, [1, 0], 0, {"candidates": (GUESS,)}),
    "no map": (NUMBER, [0.5, -0.2], -1.0, {"geometry": "none"}),
    # the prediction has one row for it and one against, and the canary's vote decides
    "even votes": (NUMBER, [0.5, -0.9], -1.0, {"candidates": (GUESS,), "odds": 1}),
}
QUICK = [("number, predicted", True), ("number, public rows", False), ("classes, predicted", True), ("classes", False)]


def losses_of(setting: str, *, runs: int, seed: int, add: bool) -> tuple[np.ndarray, float]:
    """Return the privacy losses of transcripts with the canary against without it (or the reverse), and the claim."""
    targets, labels, label, more = SETTINGS[setting]
    plan = plan_descent(targets=targets, features=1, epsilon=6, delta="1e-3", data_norm=1, **more)
    tables = [(np.vstack([TABLE, CANARY]), [*labels, label]), (TABLE, labels)]
    rows = [BoundedArrays(x, np.array(y), policy=plan.policy) for x, y in (tables if add else tables[::-1])]
    with Source(SeededEntropy(seed)) as source:
        found = [transcript_of(plan, rows, source=source).loss() for _ in range(runs)]
    return np.array(found), float(plan.mu)


def excess(losses: np.ndarray, mu: float) -> float:
    """Return by how many standard errors delta exceeds that of GDP(mu), at the worst epsilon."""
    worst = -math.inf
    for epsilon in EPSILONS:
        parts = np.maximum(0.0, -np.expm1(epsilon - losses))
        claimed = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        error = max(float(parts.std(ddof=1)) / math.sqrt(len(parts)), 1e-4)
        worst = max(worst, (float(parts.mean()) - claimed) / error)
    return worst


@pytest.mark.parametrize(("setting", "add"), QUICK)
def test_transcripts_do_not_refute_the_claim(setting: str, add: bool) -> None:
    losses, mu = losses_of(setting, runs=100, seed=7, add=add)
    assert excess(losses, mu) < 5
    assert losses.mean() > 0.2 * mu**2 / 2  # the canary is felt: an attack that sees nothing proves nothing


@pytest.mark.slow
@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize("setting", list(SETTINGS))
def test_many_transcripts_do_not_refute_the_claim(setting: str, add: bool) -> None:
    losses, mu = losses_of(setting, runs=1500, seed=8, add=add)
    assert excess(losses, mu) < 5


@pytest.mark.planted("noise for half the clip", of=("LinearRegression", "LogisticRegression"))
def test_noise_for_half_the_clip_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = DescentPlan.step_noise
    monkeypatch.setattr(
        DescentPlan, "step_noise", lambda plan, value, *, clip, passes: real(plan, value, clip=clip // 2, passes=passes)
    )
    losses, mu = losses_of("number", runs=100, seed=9, add=True)
    assert excess(losses, mu) > 5


@pytest.mark.planted("a choice that nobody paid for", of=("LinearRegression", "LogisticRegression"))
def test_a_choice_that_is_not_paid_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice draws at ten times its budget, like one that was not accounted for."""
    losses, mu = losses_of("even votes", runs=100, seed=10, add=False)
    assert excess(losses, mu) < 5
    monkeypatch.setattr(StartChoice, "step", property(lambda choice: 10 * choice.spread / choice.rows_per_unit))
    losses, mu = losses_of("even votes", runs=100, seed=10, add=False)
    assert excess(losses, mu) > 5


def test_the_choice_is_part_of_the_price() -> None:
    alone, predicted = (
        plan_descent(targets=NUMBER, features=1, epsilon=1, delta="1e-6", data_norm=1, candidates=candidates)
        for candidates in ((), (GUESS,))
    )
    assert "choice" not in alone.squares
    assert predicted.squares["choice"] > Fraction(99, 1000) * predicted.mu**2
    assert sum(predicted.squares.values()) <= predicted.mu**2


# --- what one row can do to the integers ------------------------------------------------------------------------------


def extreme_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return short and long rows with targets at both ends: gradients of a short row are nearly all intercept."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(300, 3)) * 10.0 ** rng.uniform(-6, 1, (300, 1))
    return rows, np.where(rng.random(300) < 0.5, -1.0, 1.0)


def longest_gradient(norms_of: Any = whole_norms) -> float:
    """Return the longest clipped gradient of one row at a far point, over the clip."""
    plan = plan_descent(targets=NUMBER, features=3, epsilon=1, delta="1e-6", data_norm=1)
    rows, labels = extreme_rows()
    table = BoundedArrays(rows, labels, policy=plan.policy)
    with Source(SeededEntropy(6)) as source:
        geometry = descend(plan, table, source=source).geometry
    mapping, clip = GeometryMap(geometry=geometry), 2**24
    code = mapping.theta_codes(np.full((4, 1), 3.0))
    longest = 0.0
    blocks = MappedRows(CodedExamples(table, data_norm=1.0), mapping).blocks()
    for z, _, targets in (part for block in blocks for part in parts_of(block)):
        errors = clipped_errors(NUMBER.errors(predictors(z, code), targets), norms_of(z), clip)
        longest = max(longest, float(np.sqrt(np.max(np.sum((z * errors) ** 2, axis=1)))))
    return longest / clip


def test_no_row_has_a_longer_gradient_than_the_noise_is_made_for() -> None:
    assert 0.99 < longest_gradient() <= 1.0


@pytest.mark.planted("a clip that forgets the constant column", of=("LinearRegression", "LogisticRegression"))
def test_a_clip_that_forgets_the_constant_column_is_found() -> None:
    assert longest_gradient(lambda z: whole_norms(z[:, :-1])) > 1.5


def test_a_row_adds_its_own_vector_to_the_last_bit() -> None:
    """Whatever the other rows are; with a float map this fails (`test_integer_rows`)."""
    plan = plan_descent(targets=NUMBER, features=20, epsilon=1, delta="1e-6", data_norm=1)
    rng = np.random.default_rng(7)
    rows, labels = rng.normal(size=(40, 20)) / 9, rng.uniform(-1, 1, 40)
    with Source(SeededEntropy(6)) as source:
        geometry = descend(plan, BoundedArrays(rows, labels, policy=plan.policy), source=source).geometry
    mapping = GeometryMap(geometry=geometry)

    def total(some: slice) -> np.ndarray:
        bounded = BoundedArrays(rows[some], labels[some], policy=plan.policy)
        mapped = MappedRows(CodedExamples(bounded, data_norm=1.0), mapping)
        return integer_gradient(NUMBER, mapped, np.full((21, 1), 0.123), mapping, clip=2**26)

    one_by_one = sum(total(slice(place, place + 1)) for place in range(40))
    np.testing.assert_array_equal(one_by_one, total(slice(None)))


@pytest.mark.planted("the private number of rows in a model", of=("LinearRegression", "LogisticRegression"))
def test_the_private_number_of_rows_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same answers, tables of 2 and of 3 rows give the same model; with the true number in it they do not."""

    def models() -> list[np.ndarray]:
        plan = plan_descent(targets=NUMBER, features=1, epsilon=6, delta="1e-3", data_norm=1)
        transcript, found = Transcript(), []
        with Source(SeededEntropy(11)) as source, recording(transcript):
            for transcript.run, n in enumerate((2, 3)):
                x = np.vstack([TABLE, CANARY])[:n]
                found.append(descend(plan, BoundedArrays(x, x[:, 0], policy=plan.policy), source=source).coefficients)
        return found

    honest = models()
    np.testing.assert_array_equal(honest[0], honest[1])
    real = descent_fit.released_coordinates

    def leaking(plan: DescentPlan, rows: Any, *, source: Source) -> Any:
        after, found = real(plan, rows, source=source)
        return after, replace(found, rows=float(sum(len(targets) for _, targets in rows.blocks(dense=True))))

    monkeypatch.setattr(descent_fit, "released_coordinates", leaking)
    leaked = models()
    assert not np.array_equal(leaked[0], leaked[1])
