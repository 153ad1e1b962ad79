"""The rows that stand for a graphical model: not too many, not too few, the same again; whole releases with mbi."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import MissingPackageError, RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.synthesis import graphical
from sidelight.synthesis.domain import Domain, Mass, distinct_rows
from sidelight.synthesis.engine_plan import MarginalPlan
from sidelight.synthesis.graphical import check_graphical, drawn_rows
from sidelight.synthesis.refit import Fitted
from sidelight.synthesis.workload import marginals
from sidelight.testing import seeded_release

needs_mbi = pytest.mark.skipif(importlib.util.find_spec("mbi") is None, reason="mbi is not installed")
SCHEMA = [sl.Category(name, ["x", "y", "z"], other=None) for name in "abcde"]


class Coin:
    """A model of two columns in place of mbi's; remembers how many rows were drawn."""

    def __init__(self) -> None:
        self.drawn: list[int] = []

    def draw_rows(self, count: int) -> np.ndarray:
        self.drawn.append(count)
        first = np.arange(count) * 4 // count == 0  # a quarter of the rows
        return np.stack([first, first], axis=1).astype(np.int64)


@pytest.mark.parametrize("rows", [1.0, 3.0, 123_456.0, 2.0**40])
def test_a_released_number_of_rows_far_off_neither_fills_the_memory_nor_empties_the_table(
    rows: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphical, "load_mbi", lambda: None)
    prepared = sl.SyntheticTable(rho=1, engine="graphical").prepare(
        sl.Schema([sl.Category(name, ["x", "y"], other=None) for name in "ab"])
    )
    coin = Coin()
    domain = prepared.domain
    value = prepared.value(Fitted(domain=domain, rows=rows, space=None, weights=None, measurements=(), graphical=coin))
    assert coin.drawn == [drawn_rows(rows, 2)]
    assert 100_000 <= coin.drawn[0] <= 10_000_000
    mass = Mass.from_value(value["distribution"], domain)
    assert mass.marginal(("a",)) == pytest.approx([0.75, 0.25], abs=1e-5)  # with 1 or 3 rows it would be far off
    assert value["rows"] == rows


def test_a_workload_without_a_marginal_that_fits_is_refused_before_any_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphical, "load_mbi", lambda: None)
    plan: dict[str, Any] = {"price": Budget.of(rho=1)}
    wide = Domain(("a", "b", "c"), (4000, 4000, 4000))
    for workload in (marginals(2), marginals(2) + marginals(1)):
        with pytest.raises(RangeError, match=r"1.6e\+07"):  # not one that cannot be measured, even if others can
            MarginalPlan(workload=workload, domain=wide, **plan)
    narrow = Domain(("a", "b", "c"), (3300, 3300, 3300))
    with pytest.raises(RangeError, match=r"smallest marginal of the workload.*1.09e\+07"):
        check_graphical(MarginalPlan(workload=marginals(2), domain=narrow, **plan))
    check_graphical(MarginalPlan(workload=marginals(2) + marginals(1), domain=narrow, **plan))


def test_an_older_mbi_is_refused_before_any_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SimpleNamespace(update=lambda *_: None)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=config))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "mbi", SimpleNamespace(estimation=SimpleNamespace()))  # type: ignore[arg-type]
    with pytest.raises(MissingPackageError, match=r"mbi 2.0 or later.*--upgrade 'sidelight\[graphical\]'"):
        sl.SyntheticTable(rho=1, engine="graphical").prepare(sl.Schema(SCHEMA))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(2, 3), (1,), (5, 1, 4), (1 << 40, 1 << 40, 3), (1 << 61, 2, 2)]))
def test_distinct_rows_are_those_of_numpy(seed: int, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.choice(rng.integers(0, size, 3), 40) for size in sizes], axis=1)
    points, times = distinct_rows(codes, sizes)
    expected, counted = np.unique(codes, axis=0, return_counts=True)
    assert points.tolist() == expected.tolist()
    assert times.tolist() == counted.tolist()


def codes_of(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 3, 4000)
    names = np.array(["x", "y", "z"])
    moved = [np.where(rng.random(4000) < 0.8, base, rng.integers(0, 3, 4000)) for _ in "abcde"]
    return {name: names[codes].tolist() for name, codes in zip("abcde", moved, strict=True)}


@needs_mbi
@pytest.mark.slow
def test_a_whole_release_is_close_to_the_rows_and_comes_out_the_same_again() -> None:
    data = codes_of(0)
    query = sl.SyntheticTable(sl.marginals(2), rho=2, engine="graphical", rounds=5)
    graphical.load_mbi()  # importing it draws from NumPy's global generator
    state = np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]
    releases = [seeded_release(query, sl.Table(data, schema=SCHEMA), seed=3) for _ in range(2)]
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index,union-attr]
    first, second = (sl.Synthetic(each) for each in releases)
    assert first.release.value["distribution"] == second.release.value["distribution"]
    measured = {each.columns for each in first.measurements}
    assert len(measured) == 5
    for columns in measured:
        truth = np.zeros((3, 3))
        np.add.at(truth, tuple(np.searchsorted(["x", "y", "z"], data[name]) for name in columns), 1 / 4000)
        answer = first.answer(columns)
        assert not isinstance(answer, list)
        assert np.abs(answer.shares - truth).sum() < 0.05
        assert answer.bound is not None
    assert len(first.table(500, library="pyarrow")) == 500
