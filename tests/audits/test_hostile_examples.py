"""Whatever stands in a row, a label, an id or a gain: no model and no client raises, warns or prints because of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid

import sidelight as sl
from hostile_cells import CELLS, RawText
from sidelight.errors import SchemaError
from sidelight.experts import Reporting
from sidelight.experts.reporter import bounded_codes
from sidelight.records.engines.arrays import untyped
from sidelight.regression.estimators.examples import examples
from sidelight.regression.losses.loss import positions_of
from sidelight.stability.pate.teachers import class_indices, shares_of
from sidelight.stability.pate.typed_rows import form_of
from sidelight.testing import seeded_release

HOSTILE = {name: cell for name, cell in CELLS.items() if type(cell) is not RawText}
ROWS = [[0.5, 0.25], [0.125, -0.5], [-0.25, 0.75]]
LABELS = [0, 1, 1]
WORST = ["masked", "list", "pair", "array of two", "range", "quarrelsome text", "leaving float", "spoofed class"]


def _table(cell: Any, form: str) -> Any:
    rows = [*ROWS, [0.1, cell]]
    if form == "list":
        return rows
    if form == "tuple":
        return tuple(map(tuple, rows))
    if form == "list of arrays":
        return [untyped(row) for row in rows]
    return np.stack([untyped(row) for row in rows])


@pytest.fixture(autouse=True)
def _every_warning_is_an_error() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("form", ["list", "tuple", "list of arrays", "array"])
def test_rows_are_read_cell_by_cell(form: str) -> None:
    for name, cell in HOSTILE.items():
        found, _ = examples(_table(cell, form), [*LABELS, 0], target_kinds="Ofiub").read()
        wanted, _ = examples(_table(cell, "array"), [*LABELS, 0], target_kinds="Ofiub").read()
        assert found[:3].tolist() == ROWS, name
        np.testing.assert_array_equal(found, wanted, err_msg=name)
        form_of(np.array(ROWS)).read(_table(cell, form))


@pytest.mark.parametrize("classes", [(0, 1), ("0", "1")])
def test_labels_ids_and_gains_are_read_cell_by_cell(classes: tuple[Any, ...]) -> None:
    given = [classes[label] for label in LABELS]
    terms = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="presence", rounds=10, fill="0.25")
    ordinary = bounded_codes([0.1, 0.2, 0.3], terms).tolist()
    ids = shares_of(["a", "b", "c"], teachers=9, key=b"k" * 16).tolist()
    for name, cell in HOSTILE.items():
        for labels in ([*given, cell], untyped([*given, cell])):
            read = examples(np.zeros((4, 1)), labels, target_kinds="OUTfiub").read()[1]
            assert positions_of(read, classes)[0][:3].tolist() == LABELS, name
            assert class_indices(labels, np.array(classes))[:3].tolist() == LABELS, name
        assert shares_of(["a", "b", "c", cell], teachers=9, key=b"k" * 16)[:3].tolist() == ids, name
        for gains in ([0.1, cell, 0.3], untyped([0.1, cell, 0.3])):
            assert bounded_codes(gains, terms)[[0, 2]].tolist() == ordinary[::2], name


def test_a_coarse_gain_among_others_is_missing_in_every_container() -> None:
    terms = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="presence", rounds=10, fill="0.25")
    wanted = bounded_codes([0.1, None, 0.3], terms).tolist()
    for gains in ([0.1, np.float16(0.2), 0.3], untyped([0.1, np.float32(0.2), 0.3])):
        assert bounded_codes(gains, terms).tolist() == wanted


@pytest.mark.parametrize("name", WORST)
def test_models_are_fitted_whatever_stands_in_a_list(name: str) -> None:
    cell = HOSTILE[name]
    table = sl.Table({"a": [0.0]}, schema=[sl.Number("a")], name="t")
    for rows, labels in ((_table(cell, "list"), [*LABELS, 0]), ([*ROWS, [0.1, 0.1]], [*LABELS, cell])):
        session = sl.Session(table, budget=sl.ApproxDP(3, "1e-5"), routes=["basic"])
        sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1], session=session).fit(rows, labels)


def test_teachers_are_taught_whatever_stands_in_a_list() -> None:
    rng = np.random.default_rng(1)
    rows = [*rng.normal(size=(30, 2)).tolist()]
    model = sl.PATE(NearestCentroid(), LogisticRegression(), teachers=3, classes=[0, 1], noise_scale=20, proposal=None)
    cell = HOSTILE["spoofed class"]
    ids = [*map(str, range(30)), cell]
    model.set_params(n_jobs=1).fit([*rows, [0.1, cell]], [0, 1] * 15 + [cell], record_ids=ids, queries=rows)


def test_a_list_of_pairs_is_not_a_column() -> None:
    with pytest.raises(SchemaError, match="which columns"):
        seeded_release(sl.Covariance(radius=3, rho=1), [[1.0, 2.0], [2.0, 1.0]], seed=1)
