"""Scores that hold private rows, by content: copies, parts, orders, types, frames. And public rows, which pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, PureDP
from sidelight.records.row_prints import row_prints, same_rows
from sidelight.regression.adassp import AdaSSP
from sidelight.tuning import Fit, ModelScore, tune

RNG = np.random.default_rng(0)
ROWS = RNG.uniform(-0.5, 0.5, (1000, 3))
SPLIT = RNG.permutation(1000)
PUBLIC = RNG.uniform(-0.5, 0.5, (80, 3))
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "y"])

PRIVATE_FORMS: dict[str, Any] = {
    "itself": ROWS,
    "view": ROWS[100:200],
    "strided view": ROWS[::7],
    "copy": ROWS.copy(),
    "copy of a part": ROWS[100:200].copy(),
    "fancy part": ROWS[SPLIT[:300]],
    "other order": ROWS[SPLIT],
    "single precision": ROWS.astype(np.float32),
    "other byte order": ROWS.astype(">f8"),
    "column-major": np.asfortranarray(ROWS),
    "list": ROWS[:50].tolist(),
    "sparse": csr_array(ROWS[:50]),
    "some public rows among them": np.vstack([PUBLIC[:40], ROWS[:60]]),
    "frame": FRAME,
    "part of a frame": FRAME.sample(frac=0.3, random_state=1),
    "polars": pl.from_pandas(FRAME),
    "columns": {name: FRAME[name].to_numpy() for name in FRAME},
    "one column": ROWS[:, 1].copy(),
    "beside another column": np.column_stack([np.arange(1000.0), ROWS]),
    "some columns": ROWS[:, 1:].copy(),
    "a frame of some columns": pd.DataFrame({"other": ROWS[:, 2]}),
    "objects": ROWS.astype(object),
    "in a tuple": (ROWS.copy(), None),
    "one row": ROWS[5:6].copy(),
}
PUBLIC_FORMS: dict[str, Any] = {
    "public": PUBLIC,
    "public, single": PUBLIC.astype(np.float32),
    "public frame": pd.DataFrame(PUBLIC, columns=["a", "b", "y"]),
    "scaled": ROWS * 2,  # the writer's word: it cannot be found
    "few public rows that are private too": np.vstack([PUBLIC[:60], ROWS[:20]]),
    "empty": np.empty((0, 3)),
    "texts": np.array([["a", "b", "c"]]),
    "texts and numbers": np.array([[None, "b", 1]], dtype=object),
    "ragged": [[1.0], [2.0, 3.0]],
    "number": 3.0,
}


def holding(held: Any) -> Callable[[Any], float]:
    def judge(model: Any, held: Any = held) -> float:
        return 0.0

    return judge


def searched(held: Any, rows: Any = ROWS) -> Any:
    fit = Fit(run=lambda source: float(rows.sum() > 0), claims=Claims.of(PureDP(1)))
    return tune([fit], score=ModelScore(function=holding(held), description="error"))


@pytest.mark.parametrize("name", PRIVATE_FORMS)
def test_a_score_on_private_rows_is_refused_by_content(name: str) -> None:
    with pytest.raises(RangeError, match="private rows") as caught:
        searched(PRIVATE_FORMS[name])
    assert not any(sign.isdigit() for sign in str(caught.value))


@pytest.mark.parametrize("name", PUBLIC_FORMS)
def test_a_score_on_other_rows_is_not(name: str) -> None:
    searched(PUBLIC_FORMS[name])


def test_rows_held_out_of_the_same_array_are_refused() -> None:
    with pytest.raises(RangeError, match="private rows"):
        searched(ROWS[800:], rows=ROWS[:800])


SCHEMA = [sl.Number("a"), sl.Number("b"), sl.Number("y", lower=-1, upper=1)]
TABLE_FORMS = [
    "copy",
    "fancy part",
    "other order",
    "single precision",
    "list",
    "frame",
    "part of a frame",
    "polars",
    "columns",
]


def selection(held: Any) -> sl.Selection:
    candidates = [AdaSSP(features=["a", "b"], target="y", feature_norm=1, mu="0.3", penalty=p) for p in (0, 10)]
    return sl.Selection(candidates=candidates, score=sl.PublicScore(holding(held), "error"), delta="1e-6")


@pytest.mark.parametrize("source", [FRAME, pl.from_pandas(FRAME), {name: FRAME[name].to_numpy() for name in FRAME}])
@pytest.mark.parametrize("name", TABLE_FORMS)
def test_a_selection_is_refused_before_the_charge(name: str, source: Any) -> None:
    table = sl.Table(source, schema=SCHEMA)
    session = sl.Session(table, budget=sl.ApproxDP(9, "1e-5"))
    spent = str(session.spent)
    with pytest.raises(RangeError, match="private rows"):
        session.release(selection(PRIVATE_FORMS[name]))
    assert str(session.spent) == spent


@pytest.mark.parametrize("name", PUBLIC_FORMS)
def test_a_selection_with_public_rows_is_not(name: str) -> None:
    session = sl.Session(sl.Table(FRAME, schema=SCHEMA), budget=sl.ApproxDP(9, "1e-5"))
    session.release(selection(PUBLIC_FORMS[name]))


def test_without_rows_in_the_score_no_row_is_read_before_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.tuning import selection as module

    monkeypatch.setattr(module, "rows_of", lambda _: pytest.fail("the data was opened"))
    session = sl.Session(sl.Table(FRAME, schema=SCHEMA), budget=sl.ApproxDP(9, "1e-5"))
    session.release(selection(None))


def test_rows_of_small_whole_numbers_coincide_by_chance() -> None:
    private, public = (np.random.default_rng(seed).integers(0, 9, (3000, 2)) for seed in (1, 2))
    first, second = row_prints(private), row_prints(public)
    assert first is not None
    assert second is not None
    assert not same_rows(second, first, columns=2)
    assert same_rows(first[::-1], first, columns=2)


def test_prints_are_the_rows_and_not_their_place_or_form() -> None:
    rows = np.array([[0.0, 1.5, np.nan], [-0.0, 1.5, np.nan], [1.5, 0.0, np.nan], [0.0, 0.0, 0.0]])
    prints = row_prints(rows)
    assert prints is not None
    assert prints[0] == prints[1]
    assert len(set(prints.tolist())) == 3
    np.testing.assert_array_equal(row_prints(csr_array(np.nan_to_num(rows))), row_prints(np.nan_to_num(rows)))
    whole = np.random.default_rng(3).normal(size=(3000, 2))
    np.testing.assert_array_equal(row_prints(whole)[10:20], row_prints(whole[10:20]))  # type: ignore[index]
    assert row_prints("text") is None
    assert row_prints(np.zeros((2, 2, 2))) is None


def disguised(rows: np.ndarray, rng: np.random.Generator) -> Any:
    """Some of the rows in some form: parts, orders, types, more or fewer columns, and what holds them."""
    taken = rows[rng.permutation(len(rows))[: rng.integers(25, len(rows))]]
    if rng.random() < 0.3:
        taken = np.column_stack([rng.normal(size=len(taken)), taken])
    elif rng.random() < 0.3 and taken.shape[1] > 1:
        taken = taken[:, : taken.shape[1] - 1]
    taken = taken.astype(rng.choice([np.float64, np.float32]))
    names = [f"c{place}" for place in rng.permutation(taken.shape[1])]
    forms: list[Callable[[], Any]] = [
        lambda: taken,
        lambda: np.asfortranarray(taken),
        lambda: taken.tolist(),
        lambda: pd.DataFrame(taken, columns=names),
        lambda: pl.DataFrame(taken, schema=names),
        lambda: dict(zip(names, taken.T, strict=True)),
        lambda: [None, {"inner": taken}],
    ]
    return forms[rng.integers(len(forms))]()


@pytest.mark.slow
def test_no_disguise_passes_and_no_public_rows_are_refused(record_property: Any) -> None:
    passed = refused = 0
    trials = 300
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        shape = (int(rng.integers(60, 2000)), int(rng.integers(1, 6)))
        private, public = rng.normal(size=shape), rng.normal(size=shape)
        try:
            searched(disguised(private, rng), rows=private)
            passed += 1
        except RangeError:
            pass
        try:
            searched(disguised(public, rng), rows=private)
        except RangeError:
            refused += 1
    record_property(
        "audit",
        f"scores on private rows: {trials} copies in random parts, orders, types, columns and containers, and {trials} "
        f"of public rows; {passed} private ones passed, {refused} public ones were refused",
    )
    assert (passed, refused) == (0, 0)
