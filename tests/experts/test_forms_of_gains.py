"""What a gain is worth never shows, whatever holds the gains; what holds them may be refused, by its type alone."""

from __future__ import annotations

import ctypes
import warnings
from array import array
from collections import UserList, deque
from collections.abc import Sequence

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sidelight.errors import RangeError
from sidelight.experts import Reporter, Reporting
from sidelight.experts.reporter import bounded_codes
from sidelight.ledger import open_ledger

TERMS = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="presence", rounds=10, fill="0.25")
FILL, THIRD = bounded_codes([0.25, 0.3, 0.3], TERMS).tolist()[:2]


@pytest.mark.parametrize(
    "gains",
    [
        np.ma.array(["patient Smith", "0.3", "0.2"], mask=[False, False, True]),
        np.ma.array([[1], 0.3, None], dtype=object, mask=[False, False, False]),
        np.ma.array([10**400, 0.3, 0.1], dtype=object, mask=[False, False, True]),
        np.ma.array([np.nan, 0.3, 0.1], mask=[False, False, True]),
    ],
)
def test_a_masked_array_of_anything_neither_raises_nor_warns(gains):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bounded_codes(gains, TERMS).tolist() == [FILL, THIRD, FILL]


def test_a_masked_array_of_records_or_of_no_dimension_is_read_as_missing():
    records = np.ma.array([(1, 2.0)] * 3, dtype=[("a", int), ("b", float)])
    assert bounded_codes(records, TERMS).tolist() == [FILL] * 3
    one = Reporting.from_json(TERMS.to_json() | {"kind": "coordinate"})
    assert bounded_codes(np.ma.masked, one).tolist() == [FILL]


@pytest.mark.parametrize("values", [[0.1, 0.2, 0.3], [0.1, 0.2, 0.1]])
@pytest.mark.parametrize("container", [set, frozenset, lambda values: dict(enumerate(values))])
def test_containers_without_an_order_are_refused_whatever_they_hold(container, values):
    # a set has as many entries as its values differ: a wrong length would tell that two gains are equal
    with pytest.raises(RangeError, match="order of the actions"):
        bounded_codes(container(values), TERMS)


@pytest.mark.parametrize(
    "gains",
    [
        np.full((3, 1), 0.3),
        np.full((1, 3), 0.3),
        pd.DataFrame([[0.3, 0.3, 0.3]]),  # iterating over it would report the names of its columns
        pl.DataFrame([[0.3], [0.3], [0.3]]),
        np.ma.array(np.full((3, 2), 0.3)),
    ],
)
def test_tables_are_refused_by_their_shape(gains):
    with pytest.raises(RangeError, match="reports 3 gains a round, got shape"):
        bounded_codes(gains, TERMS)


class SaysNoType:
    """An array for NumPy only."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self._values.astype(dtype or self._values.dtype)


FINE = Reporting(actions=3, mu=1, sensitivity="1e-6", neighbours="presence", rounds=1)


@pytest.mark.parametrize(
    "gains",
    [
        np.array([0.1, 0.2, 0.3], dtype=np.float16),
        np.array([0.1, 0.2, 0.3], dtype=np.float32),
        np.ma.array([0.1, 0.2, 0.3], dtype=np.float32),
        pd.Series([0.1, 0.2, 0.3], dtype="Float32"),
        pl.Series([0.1, 0.2, 0.3], dtype=pl.Float32),
        pa.array([0.1, 0.2, 0.3], pa.float32()),
        pa.array(np.array([0.1, 0.2, 0.3], np.float16)),
        array("f", [0.1, 0.2, 0.3]),
        (ctypes.c_float * 3)(0.1, 0.2, 0.3),
        np.array([0.1, 0.2, 0.3], dtype=">f4"),
        np.array([0.1, 0.2, 0.3], dtype=">f2"),
        np.array([0.1, 0.2, 0.3], dtype=np.complex64),
        np.array([0.1, 0.2, 0.3], dtype=np.complex128),
        np.array([b"0.1", b"0.2", b"0.3"]),
        pd.Series([0.1, 0.2, 0.3], dtype="float[pyarrow]"),
        pd.Series(np.array([0.1, 0.2, 0.3], np.float16), dtype="halffloat[pyarrow]"),
        pd.Series(np.array([0.1, 0.2, 0.3], np.float32)).astype("category"),
        pd.Series(np.array([0.1, 0.2, 0.3], np.float32)).astype(pd.SparseDtype("float32")),
        pa.array([0.1, 0.2, 0.3], pa.float32()).dictionary_encode(),
        SaysNoType(np.array([0.1, 0.2, 0.3], np.float32)),
    ],
)
def test_coarse_floats_are_refused(gains):
    with pytest.raises(RangeError, match="float64"):
        bounded_codes(gains, FINE)


@pytest.mark.parametrize(
    "gains",
    [
        np.array([0.1, 0.2, 0.3], dtype=">f8"),
        pd.Series([0.1, 0.2, 0.3], dtype="double[pyarrow]"),
        pd.Series([0.1, 0.2, 0.3]).astype("category"),
        pd.Series([0.1, 0.2, 0.3]).astype(pd.SparseDtype("float64")),
        pa.array([0.1, 0.2, 0.3]).dictionary_encode(),
        deque([0.1, 0.2, 0.3]),
        SaysNoType(np.array([0.1, 0.2, 0.3])),
    ],
)
def test_fine_floats_are_read_from_whatever_holds_them(gains):
    assert bounded_codes(gains, FINE).tolist() == bounded_codes([0.1, 0.2, 0.3], FINE).tolist()


@pytest.mark.parametrize(
    "container",
    [
        np.array,
        lambda gains: np.array(gains, dtype=np.dtypes.StringDType()),
        lambda gains: np.ma.array(gains, mask=[False] * 3),
        pd.Series,
        lambda gains: pd.Series(gains, dtype="string"),
        lambda gains: pd.Series(gains).astype("category"),
        pl.Series,
        pa.array,
        lambda gains: pa.array(gains).dictionary_encode(),
        tuple,
    ],
)
@pytest.mark.parametrize("text", ["\u0663", "1_0", " 0.5 ", "\u20030.5", "nan", "0x1"])
def test_no_text_decides_how_another_is_read(container, text):
    # NumPy reads digits of every script, and reads all texts of an array or none
    whole, broken = (bounded_codes(container([text, "0.3", last]), TERMS).tolist() for last in ("0.3", "x"))
    assert whole[:2] == broken[:2]
    assert (whole[1], broken[2]) == (THIRD, FILL)


class Entries(Sequence):
    """A sequence that NumPy does not know, and whose type it would take from the entries."""

    def __init__(self, gains):
        self._gains = [*gains]

    def __len__(self):
        return len(self._gains)

    def __getitem__(self, place):
        return self._gains[place]


#: Containers that say nothing of the type of their entries.
UNTYPED = [
    list,
    tuple,
    deque,
    UserList,
    Entries,
    lambda gains: objects(gains),
    lambda gains: np.ma.array(objects(gains)),
]
COARSE = [np.float32(0.3), np.float16(0.3), np.array(0.3, np.float32)]


def objects(gains):
    found = np.empty(len(gains), dtype=object)
    for place, gain in enumerate(gains):
        found[place] = gain
    return found


@pytest.mark.parametrize("container", UNTYPED)
@pytest.mark.parametrize("coarse", COARSE, ids=repr)
def test_no_entry_decides_whether_an_untyped_container_is_refused(container, coarse):
    # if only coarse floats were refused, the last of them would decide whether there is a report
    for last, code in ((coarse, FILL), (0.3, THIRD), (None, FILL), (np.float64(0.3), THIRD)):
        assert bounded_codes(container([coarse, coarse, last]), TERMS).tolist() == [FILL, FILL, code]
        assert bounded_codes(container([last, coarse, 0.3]), TERMS).tolist() == [code, FILL, THIRD]


@pytest.mark.parametrize("container", UNTYPED)
@pytest.mark.parametrize("gain", [*COARSE, None, "0.3", float("nan")], ids=repr)
def test_the_only_gain_of_a_coordinate_does_not_decide_either(container, gain):
    terms = Reporting.from_json(TERMS.to_json() | {"kind": "coordinate"})
    assert bounded_codes(container([gain]), terms).tolist() == [THIRD if gain == "0.3" else FILL]
    if not isinstance(gain, np.ndarray):
        assert bounded_codes(gain, terms).tolist() == [THIRD if gain == "0.3" else FILL]


def test_reports_are_made_whatever_the_gains_are():
    for last in (None, np.float32(1.0), 0.5):
        with Reporter("ward", TERMS, ledger=open_ledger("sqlite://", testing=True)) as reporter:
            assert reporter.report(1, [np.float32(0.25), np.float32(0.2), last]).round == 1


def test_coarse_floats_would_break_the_sensitivity():
    # the reason: two gains that differ by less than 1e-6 are 490 times as far apart once they were rounded to 16 bits
    low = 0.5 + 2.0**-12 - 2.0**-22
    pair = [np.float16(x).astype(np.float64) for x in (low, low + 2.0**-20)]
    apart = np.subtract(*(bounded_codes([x] * 3, FINE)[0] for x in reversed(pair))) * FINE.grid
    assert apart > 400 * FINE.exact_sensitivity
    exact = np.subtract(*(bounded_codes([x] * 3, FINE)[0] for x in (low + 2.0**-20, low))) * FINE.grid
    assert exact <= FINE.grid_sensitivity
