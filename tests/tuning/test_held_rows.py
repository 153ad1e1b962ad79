"""Scores that hold private rows, by content: copies, parts, orders, types, frames. And public rows, which pass."""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, PureDP
from sidelight.published.adassp import AdaSSP
from sidelight.records.row_prints import ColumnPrint, row_prints, same_rows
from sidelight.tuning import Fit, ModelScore, tune
from sidelight.tuning.reachable_tables import ReachableTable
from sidelight.tuning.scores import refuse_private_rows

RNG = np.random.default_rng(0)
ROWS = RNG.uniform(-0.5, 0.5, (1000, 3))
SPLIT = RNG.permutation(1000)
PUBLIC = RNG.uniform(-0.5, 0.5, (80, 3))
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "y"])


def holding(held: Any) -> Callable[[Any], float]:
    def judge(model: Any, held: Any = held) -> float:
        return 0.0

    return judge


@dataclass(slots=True)
class Slotted:
    value: Any


@cache
def cached_rows() -> Any:
    return np.random.default_rng(0).uniform(-0.5, 0.5, (1000, 3))


cached_rows()

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
    "a list of one column": ROWS[:, 0].tolist(),
    "records": FRAME.to_dict("records"),
    "a list of arrays": list(ROWS.copy()),
    "slots": Slotted(ROWS[:, 0].copy()),
    "a list of objects": [Slotted(float(value)) for value in ROWS[:, 0]],
    "a list of objects with attributes": [SimpleNamespace(name="row", value=float(value)) for value in ROWS[:, 0]],
    "a class": type("Holder", (), {"rows": ROWS.copy()}),
    "an object of such a class": type("Holder", (), {"rows": ROWS.copy()})(),
    "deep": SimpleNamespace(a={"b": [({"c": deque([(ROWS.copy(),)])},)]}),
    "deque": deque(ROWS[:, 0].tolist()),
    "array.array": array("d", ROWS[:, 0]),
    "memoryview": memoryview(ROWS[:, 0].copy()),
    "bytes": ROWS[:, 0].tobytes(),
    "bytes of single precision": ROWS[:, 0].astype(np.float32).tobytes(),
    "bytes after a header": b"head" + ROWS.tobytes(),
    "bytes in a list": [ROWS.tobytes()],
    "set": set(ROWS[:, 0].tolist()),
    "sorted": tuple(sorted(ROWS[:, 0].tolist())),
    "from one to another": dict(ROWS[:, :2].tolist()),
    "by name": {str(place): row for place, row in enumerate(ROWS.tolist())},
    "decimals": [Decimal(value) for value in ROWS[:, 0].tolist()],
    "fractions": [Fraction(value) for value in ROWS[:, 0].tolist()],
    "texts of numbers": [repr(value) for value in ROWS[:, 0].tolist()],
    "a text array": ROWS[:, 0].astype(str),
    "a frame of texts": FRAME.astype(str),
    "named fields": FRAME.to_records(),
    "on its side": ROWS.T.copy(),
    "three axes": ROWS[:900].reshape(9, 100, 3).copy(),
    "cells one after the other": ROWS.ravel().tolist(),
    "a generator": (row for row in ROWS.copy()),
    "a cache": cached_rows,
    "a partial": partial(print, ROWS.copy()),
    "a list's own method": ROWS.tolist().__getitem__,
    "a property": property(holding(ROWS.copy())),
    "an iterator": iter([ROWS.copy()]),
    "each three times": np.repeat(ROWS, 3, axis=0),
    "a column, mixed": np.concatenate([ROWS[:400, 0], PUBLIC[:, 1], RNG.uniform(-0.5, 0.5, 270)]),
    "a column, filled up": np.concatenate([ROWS[:400, 0], np.full(4000, -1.0)]),
    "an arrow column": pa.chunked_array([ROWS[:, 0]]),
    "a polars column": pl.Series(ROWS[:, 0]),
}
CIRCLE: list[Any] = [PUBLIC]
CIRCLE.append({"again": CIRCLE})
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
    "a public list": PUBLIC[:, 0].tolist(),
    "public bytes": PUBLIC.tobytes(),
    "a counter": list(range(1000)),
    "itself in itself": CIRCLE,
}


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


def test_candidates_with_private_rows_are_refused_as_they_are_alone() -> None:
    model = sl.LinearRegression(epsilon=1, delta="1e-6", prediction=sl.PublicData(FRAME.copy(), "the rows themselves"))
    candidate, nothing = sl.ModelQuery(model=model, target="y"), sl.PublicScore(lambda _: 0.0, "nothing")
    ranges = [sl.Number(name, lower=-1, upper=1) for name in FRAME]
    session = sl.Session(sl.Table(FRAME, schema=ranges), budget=sl.ApproxDP(9, "1e-5"))
    unspent = str(session.spent)
    for query in (candidate, sl.Selection(candidates=[candidate], score=nothing, delta="1e-5")):
        with pytest.raises(RangeError, match="public rows of the prediction are rows that are fitted"):
            session.release(query)
    assert str(session.spent) == unspent


def test_without_rows_in_the_score_no_row_is_read_before_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.tuning import selection as module

    monkeypatch.setattr(module, "rows_of", lambda _: pytest.fail("the data was opened"))
    session = sl.Session(sl.Table(FRAME, schema=SCHEMA), budget=sl.ApproxDP(9, "1e-5"))
    session.release(selection(None))


def test_rows_in_a_module_are_found_where_the_code_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("rows_of_a_study")
    module.__dict__.update(private=ROWS.copy(), public=PUBLIC)
    monkeypatch.setitem(sys.modules, "rows_of_a_study", module)

    def on_private(model: Any) -> float:
        import rows_of_a_study  # type: ignore[import-not-found]

        return float(rows_of_a_study.private.sum())

    def on_public(model: Any) -> float:
        import rows_of_a_study

        return float(rows_of_a_study.public.sum())

    private_rows = [ReachableTable(ROWS)]
    refuse_private_rows([on_public], private_rows)
    with pytest.raises(RangeError, match="private rows"):
        refuse_private_rows([on_private], private_rows)
    with pytest.raises(RangeError, match="private rows"):
        refuse_private_rows([lambda _: module.private], private_rows)


def test_names_of_attributes_are_no_globals() -> None:
    namespace: dict[str, Any] = {"y": ROWS, "public": SimpleNamespace(y=PUBLIC)}
    exec("def score(model): return public.y.sum()", namespace)
    refuse_private_rows([namespace["score"]], [ReachableTable(ROWS)])


def test_no_code_of_the_writer_runs() -> None:
    class Trap:
        __slots__ = ("inside",)

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

        def __iter__(self) -> Any:
            raise AssertionError("iterated")

        __len__ = __getitem__ = __array__ = __float__ = __bool__ = __eq__ = __iter__  # type: ignore[assignment]
        __hash__ = None  # type: ignore[assignment]

        @property
        def __class__(self) -> Any:
            raise AssertionError("asked for its class")

        @property
        def rows(self) -> Any:
            raise AssertionError("read")

    class TrapList(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise AssertionError("iterated")

        __len__ = __getitem__ = __iter__  # type: ignore[assignment]

    refuse_private_rows(
        [holding([Trap(), TrapList([1.0, 2.0])]), holding(Trap()), holding([Trap()] * 30)], [ReachableTable(ROWS)]
    )
    with pytest.raises(RangeError, match="private rows"):
        refuse_private_rows([holding(TrapList(ROWS[:, 0].tolist()))], [ReachableTable(ROWS)])


@pytest.mark.parametrize("held", [pl.DataFrame(PUBLIC).lazy(), {"rows": [pl.LazyFrame({"a": [1]})]}])
def test_a_lazy_frame_cannot_be_compared(held: Any) -> None:
    with pytest.raises(RangeError, match="lazy frame"):
        selection(held)


def test_rows_of_small_whole_numbers_coincide_by_chance() -> None:
    private, public = (np.random.default_rng(seed).integers(0, 9, (3000, 2)) for seed in (1, 2))
    first, second = row_prints(private), row_prints(public)
    assert first is not None
    assert second is not None
    assert not same_rows(second, first)
    assert same_rows(first[::-1], first)


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


def columns_drawn(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Columns as tables have them: what two samples of one law have in common is between everything and nothing."""
    amounts = np.exp(rng.normal(10, 0.7, size))
    return {
        "labels": rng.integers(0, 2, size),
        "ages": rng.integers(18, 90, size),
        "amounts": np.round(amounts),
        "rounded amounts": np.round(amounts, -2),
        "two decimals": np.round(rng.normal(size=size), 2),
        "three decimals": np.round(rng.normal(size=size), 3),
        "counter": np.arange(size),
        "steps": np.linspace(0, 1, size),
        "minutes": 1.7e9 + 60 * np.arange(size),
        "counts": rng.poisson(300, size),
        "zeros and amounts": np.where(rng.random(size) < 0.7, 0, np.round(amounts / 100, 2)),
        "seconds": rng.integers(0, 86400, size),
        "identifiers": rng.integers(10**8, 10**9, size),
        "half round": np.where(rng.random(size) < 0.5, np.round(amounts), amounts),
        "measurements": rng.normal(size=size),
    }


@pytest.mark.slow
def test_no_public_column_is_refused_and_mixed_ones_are(record_property: Any) -> None:
    refused = missed = trials = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        private_rows, public_rows = int(rng.integers(60, 20_000)), int(rng.integers(20, 5_000))
        private, public, same_length = (columns_drawn(rng, size) for size in (private_rows, public_rows, private_rows))
        for name, cells in private.items():
            whole = ColumnPrint(cells)
            trials += 2
            refused += ColumnPrint(public[name]).is_part_of(whole) + ColumnPrint(same_length[name]).is_part_of(whole)
        for name in ("identifiers", "measurements"):
            mixed = np.concatenate([private[name], same_length[name][: int(0.8 * private_rows)]])
            missed += not ColumnPrint(rng.permutation(mixed)).is_part_of(ColumnPrint(private[name]))
    record_property(
        "audit",
        f"scores on private columns: {trials} public columns of {len(private)} laws beside private ones of that law, "
        f"and 120 private columns mixed 5 to 4 with public values; {refused} public ones were refused, {missed} mixed "
        "ones passed",
    )
    assert (refused, missed) == (0, 0)
