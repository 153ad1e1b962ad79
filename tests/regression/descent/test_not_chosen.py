"""Public rows that were not scaled as X is are refused, and a prediction that is not chosen changes nothing at all."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.regression.descent.starts import StartChoice

RNG = np.random.default_rng(12)
X = RNG.uniform(-0.4, 0.4, (2000, 4))
Y = np.clip(X @ [1, -1, 0.5, 0] + 0.1 * RNG.normal(size=2000), -1, 1)
OTHER = RNG.uniform(-0.4, 0.4, (300, 4))
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "data_norm": 1}
NARROW = OTHER * [1, 1, 0.01, 0]
WRONG = {
    "rows": sl.PublicData(np.column_stack([OTHER, -(OTHER @ [1, -1, 0.5, 0])]), "wrong targets"),
    "narrow rows": sl.PublicData(np.column_stack([NARROW, NARROW @ [1, 1, 1, 1]]), "other rows"),
    "coefficients": sl.CoefficientPrediction([9.0, 9, 9, 9], 0.5),
}


@pytest.mark.parametrize("solver", ["descent", "objective"])
def test_public_rows_that_are_too_long_are_refused_before_the_charge(solver: str) -> None:
    table = sl.Table({"row": np.empty(0)}, schema=[sl.Number("row")])
    session = sl.Session(table, budget=sl.ApproxDP(2, "1e-5"))
    given = sl.PublicData(np.column_stack([OTHER * 50, OTHER[:, 0]]), "not scaled")
    model = sl.LinearRegression(target_range=(-1, 1), prediction=given, solver=solver, session=session, **PRICE)
    before = str(session.spent)
    with pytest.raises(RangeError, match=r"of the 300 public rows of the prediction are longer than data_norm \(1\)"):
        model.fit(X, Y)
    assert str(session.spent) == before
    model.set_params(on_violation="normalize", session=None).fit(X, Y)  # every row gets the same length


def released(monkeypatch: pytest.MonkeyPatch, model: type, targets: np.ndarray, **more: Any) -> Any:
    """Return a seeded release for which no prediction is chosen."""
    monkeypatch.setattr(StartChoice, "draw", lambda self, losses, source: None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(random_state=3, **PRICE, **more).fit(X, targets).release_


@pytest.mark.parametrize("kind", ["number", "classes"])
@pytest.mark.parametrize("pair", list(itertools.combinations(WRONG, 2)), ids=str)
def test_a_prediction_that_is_not_chosen_changes_no_bit(
    kind: str, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any two that are not chosen give the same release under the same noise: neither says anything in it."""
    number = kind == "number"
    model, targets = (sl.LinearRegression, Y) if number else (sl.LogisticRegression, (Y > 0).astype(int))
    settings: dict[str, Any] = {"target_range": (-1, 1)} if number else {"classes": [0, 1]}

    def given(name: str) -> Any:
        if number or name == "coefficients":
            return WRONG[name]
        rows = OTHER if name == "rows" else NARROW
        return (sl.PublicData(rows, "rows"), sl.PublicData((rows[:, 0] < 0).astype(int), "labels"))

    one, other = (released(monkeypatch, model, targets, prediction=given(name), **settings) for name in pair)
    assert one.value.keys() == other.value.keys()
    for name in one.value:
        np.testing.assert_array_equal(one.value[name], other.value[name])
    assert one.error == other.error


def test_it_is_a_fit_without_a_prediction_but_for_the_price_of_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = released(monkeypatch, sl.LinearRegression, Y, target_range=(-1, 1))
    passed = released(monkeypatch, sl.LinearRegression, Y, target_range=(-1, 1), prediction=WRONG["narrow rows"])
    # the matrix has the same share and, before the first step, the same noise: the same coordinates, bit for bit
    np.testing.assert_array_equal(alone.value["map"], passed.value["map"])
    np.testing.assert_array_equal(alone.value["centre"], passed.value["centre"])
    assert alone.value["rows"] == passed.value["rows"]
    model = sl.LinearRegression(target_range=(-1, 1), prediction=WRONG["rows"], **PRICE).fit(X, Y)
    assert model.privacy_.chosen is None
    assert model.privacy_.geometry == "private"


def test_chosen_public_rows_are_the_geometry() -> None:
    good = sl.PublicData(np.column_stack([OTHER, OTHER @ [1, -1, 0.5, 0]]), "the same law")
    model = sl.LinearRegression(target_range=(-1, 1), prediction=good, **PRICE).fit(X, Y)
    assert (model.privacy_.chosen, model.privacy_.geometry) == (0, "public")
    asked = sl.LinearRegression(
        target_range=(-1, 1), prediction=WRONG["rows"], solver=sl.DescentSettings(geometry="public"), **PRICE
    ).fit(X, Y)
    assert asked.privacy_.geometry == "public"  # who asks for it by name gets it


@pytest.mark.parametrize(
    ("norm", "limits"),
    [("1e-12", (-1e300, 1e300)), ("1e-40", (0, 1e290)), ("1e40", (0, 1e-270)), ("1", (0, 1e308))],
)
def test_units_of_coefficients_that_are_no_numbers_are_refused_before_the_charge(
    norm: str, limits: tuple[float, float]
) -> None:
    model = sl.LinearRegression(**PRICE | {"data_norm": norm}, target_range=limits)
    with pytest.raises(RangeError, match="count in other units"):
        model.fit(X, Y)


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("geometry", ["auto", "none"])
@pytest.mark.parametrize(("norm", "limits"), [("1", (-1e300, 1e300)), ("1e-12", (0, 1e288)), ("1e40", (0, 1e-259))])
def test_extreme_units_are_released(norm: str, limits: tuple[float, float], geometry: str, rows: int) -> None:
    for epsilon in ("1e-18", "1e6"):
        settings = PRICE | {"data_norm": norm, "epsilon": epsilon}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = sl.LinearRegression(
                **settings, target_range=limits, solver=sl.DescentSettings(geometry=geometry)
            ).fit(X[:rows], Y[:rows])
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.release_.error.at(0.95)[0])
