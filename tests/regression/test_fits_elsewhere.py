"""Models of rows that only workers may read: the release of every other engine, bit for bit, or nothing is charged."""

from __future__ import annotations

import pickletools
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sidelight as sl
from away_rows import AwayRows, Blocks, away_table
from sidelight.errors import SourceError
from sidelight.records.rows import KEPT_BLOCK_BYTES
from sidelight.regression.descent.distributed_rows import read, written
from sidelight.regression.model_query import ModelQuery
from sidelight.testing import seeded_release
from sidelight.testing.seeded import SeededSession

TEN = [f"k{place}" for place in range(10)]
WIDE = [f"w{place}" for place in range(300)]
SCHEMA: list[Any] = [
    sl.Number("x", lower=0, upper=100),
    sl.Number("y", lower=-20, upper=60, missing=sl.Fill(7)),
    sl.Category("c", ["a", "b"]),
    sl.Category("k", TEN, other=None),
    sl.Category("w", WIDE),
]
PRICE: dict[str, Any] = {"epsilon": 2, "delta": "1e-6"}


def cells(rows: int = 400) -> pa.Table:
    """Return rows with missing, infinite and unknown cells; one person has a third of them."""
    rng = np.random.default_rng(3)
    x = rng.normal(50, 30, rows)
    y = 0.3 * np.nan_to_num(x) + rng.normal(0, 4, rows)
    x[::31], x[3::47], x[5::53], y[::29] = np.nan, np.inf, -np.inf, np.nan
    return pa.table(
        {
            "x": x,
            "y": y,
            "c": [["a", "b", None, "z"][at] for at in rng.integers(0, 4, rows)],
            "k": [None if at == 10 else f"k{at}" for at in rng.integers(0, 11, rows)],
            "w": [f"w{at}" for at in rng.integers(0, 310, rows)],
            "who": [1 if at % 3 == 0 else None if at % 50 == 1 else at % 90 for at in range(rows)],
        }
    )


GUESS = sl.CoefficientPrediction({"x": 0.3}, intercept=0, origin="a guess")
SCORES = sl.CoefficientPrediction({"x": 0.01}, intercept=0, origin="a guess")
MODELS: dict[str, ModelQuery] = {
    "linear": ModelQuery(model=sl.LinearRegression(**PRICE), target="y", features=["x", "c"]),
    "a number with a prediction": ModelQuery(
        model=sl.LinearRegression(**PRICE, prediction=GUESS), target="y", features=["x"]
    ),
    "logistic": ModelQuery(
        model=sl.LogisticRegression(**PRICE, classes=["a", "b"], class_weight={"a": 2, "b": 1}),
        target="c",
        features=["x", "y"],
    ),
    "classes with a prediction": ModelQuery(
        model=sl.LogisticRegression(**PRICE, classes=["a", "b"], prediction=SCORES), target="c", features=["x"]
    ),
    "ten classes": ModelQuery(model=sl.LogisticRegression(**PRICE), target="k", features=["x", "y", "c"]),
    "without a map": ModelQuery(
        model=sl.LogisticRegression(**PRICE, solver=sl.DescentSettings(geometry="none", passes=3)),
        target="k",
        features=["x", "y"],
    ),
    "sparse rows": ModelQuery(
        model=sl.LinearRegression(**PRICE, solver=sl.DescentSettings(geometry="none", passes=2)),
        target="y",
        features=["x", "w"],
    ),
}


def bits(release: Any) -> list[str]:
    return [float(each).hex() for each in np.asarray(release.value).ravel()]


@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
@pytest.mark.parametrize("name", MODELS)
def test_the_model_of_rows_in_memory(name: str, persons: bool) -> None:
    schema = [*SCHEMA, sl.PersonId("who", max_rows=2)] if persons else SCHEMA
    expected = bits(seeded_release(MODELS[name], sl.Table(cells(), schema=schema), seed=7))
    for parts in (1, 7):
        assert bits(seeded_release(MODELS[name], away_table(cells(), schema, parts=parts), seed=7)) == expected


def test_what_workers_keep_is_cut_into_small_blocks() -> None:
    """Spark hands 10,000 blocks over at once, in a column of at most 2 GB."""
    rows = pa.concat_tables([cells()] * 40)
    for name in ("ten classes", "sparse rows"):
        expected = bits(seeded_release(MODELS[name], sl.Table(rows, schema=SCHEMA), seed=7))
        table = away_table(rows, SCHEMA, parts=2)
        assert bits(seeded_release(MODELS[name], table, seed=7)) == expected
        (kept,) = table.rows.kept  # type: ignore[attr-defined]
        assert all(len(part) > 1 for part in kept.parts)
        assert max(len(block) for part in kept.parts for block in part) < 1.1 * KEPT_BLOCK_BYTES


def test_tables_of_no_rows_and_of_one() -> None:
    for rows in (0, 1):
        some = cells().slice(0, rows)
        for name in ("linear", "ten classes"):
            expected = bits(seeded_release(MODELS[name], sl.Table(some, schema=SCHEMA), seed=7))
            assert bits(seeded_release(MODELS[name], away_table(some, SCHEMA, parts=2), seed=7)) == expected


def test_an_estimator_fits_a_table_and_rows_are_read_once() -> None:
    table = away_table(cells(), [*SCHEMA, sl.PersonId("who", max_rows=2)])
    assert isinstance(table.rows, AwayRows)
    model = sl.LogisticRegression(
        **PRICE, classes=["a", "b"], session=SeededSession(table, budget=sl.ApproxDP(9, 1e-3), seed=4)
    )
    model.fit_table(table, target="c", features=["x"])
    assert model.coef_.shape == (1, 1)
    assert table.rows.asked == 0  # every pass asked what the workers had kept
    (kept,) = table.rows.kept
    assert kept.asked >= 9
    assert kept.dropped


class Fails(AwayRows):
    """Workers that fail after some questions."""

    def pinned(self, wanted: Any, step: Any) -> Blocks:
        found = super().pinned(wanted, step)
        ask = found.ask

        def sometimes(step: Any) -> Any:
            if found.asked == 3:
                raise SourceError("a worker failed")
            return ask(step)

        found.ask = sometimes  # type: ignore[method-assign]
        return found


def test_a_worker_that_fails_leaves_a_charge_and_nothing_kept(tmp_path: Any) -> None:
    table = away_table(cells(), SCHEMA)
    table._rows = Fails(cells(), parts=3)  # type: ignore[attr-defined]
    session = sl.Session(table, budget=sl.ApproxDP(9, 1e-3), ledger=f"sqlite:///{tmp_path}/l.db")
    before = str(session.spent)
    with pytest.raises(SourceError, match="a worker failed"):
        session.release(MODELS["linear"])
    assert str(session.spent) != before
    (kept,) = table.rows.kept  # type: ignore[attr-defined]
    assert kept.dropped


@pytest.mark.parametrize(
    "model",
    [
        sl.LogisticRegression(**PRICE, classes=["a", "b"], solver="objective"),
        sl.LogisticRegression(**PRICE, classes=["a", "b"], solver="objective", prediction=SCORES, rows=400),
        sl.LinearSVC(**PRICE, classes=["a", "b"]),
    ],
    ids=["objective", "objective with a prediction", "support vectors"],
)
def test_objective_perturbation_is_refused_before_the_charge(model: Any) -> None:
    table = away_table(cells(), SCHEMA)
    session = sl.Session(table, budget=sl.ApproxDP(9, 1e-3))
    before = str(session.spent)
    with pytest.raises(SourceError, match=r"files, DuckDB and frames in memory.*solver='descent'.*Nothing was charged"):
        session.release(ModelQuery(model=model, target="c", features=["x"]))
    with pytest.raises(SourceError, match="Nothing was charged"):
        model.fit_table(table, target="c", features=["x"])
    assert str(session.spent) == before
    assert table.rows.asked == 0  # type: ignore[attr-defined]
    assert table.rows.kept == []  # type: ignore[attr-defined]


def test_workers_load_no_estimators() -> None:
    """What a worker unpickles names the modules that it loads: scikit-learn takes a second, and may be missing."""
    table = away_table(cells(20), SCHEMA)
    seeded_release(MODELS["ten classes"], table, seed=1)
    assert isinstance(table.rows, AwayRows)
    (kept,) = table.rows.kept
    sent = [*table.rows.sent, *kept.sent]
    assert len(sent) > 9
    names = {
        each
        for step in sent
        for _, each, _ in pickletools.genops(step)
        if isinstance(each, str) and "sidelight." in each
    }
    assert "sidelight.regression.table_rows" in names
    program = f"import importlib, sys\nfor each in {sorted(names)}: importlib.import_module(each)\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "sklearn" not in loaded
    assert "duckdb" not in loaded


def test_blocks_are_written_and_read_without_a_pickle() -> None:
    from scipy.sparse import csr_array

    codes, targets = np.array([[16384.0, -3, 0], [0, 0, 7]]), np.array([[2.0], [-16384]])
    for given in (codes, csr_array(codes), codes[:0]):
        found, read_targets = read(written(given, targets[: given.shape[0]]))
        np.testing.assert_array_equal(found.toarray() if hasattr(found, "toarray") else found, codes[: given.shape[0]])
        np.testing.assert_array_equal(read_targets, targets[: given.shape[0]])
        assert type(found) is type(given)
