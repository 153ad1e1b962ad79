"""Whole numbers of NumPy in public requests: taken, kept as Python's, and no truth value or duration among them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import SidelightError
from sidelight.experts import Reporting
from sidelight.guarantees import Person
from sidelight.mechanisms.truncated_laplace import LabelCounts
from sidelight.quantiles.public import check_size
from sidelight.session.query import prepare_query
from sidelight.synthesis.workload import marginals

PRICE: dict[str, Any] = {"epsilon": 1}
SCHEMA = sl.Schema(
    [
        sl.PersonId("who", max_rows=3),
        sl.Category("drug", ["a", "b", "c"], other=None),
        sl.Number("age", lower=0, upper=100, granularity=1),
    ]
)
PLACES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "max_rows": (lambda n: sl.PersonId("who", max_rows=n), "max_rows"),
    "max_rows of Person": (lambda n: Person("who", n), "max_rows"),
    "features": (lambda n: sl.PubTrack(features=n), "features"),
    "groups": (lambda n: LabelCounts(counts=np.array([3, 1]), groups=n), "groups"),
    "max_rows of PersonVia": (lambda n: sl.PersonVia("order", to="orders", max_rows=n), "max_rows"),
    "per_person": (lambda n: sl.Category("drug", ["a"], per_person=n), "per_person"),
    "k": (lambda n: sl.TopK("drug", k=n, max_groups=1, **PRICE), "k"),
    "bins": (lambda n: sl.Histogram("age", bins=n, **PRICE), "bins"),
    "max_groups": (lambda n: sl.Count(by=["drug"], max_groups=n, **PRICE), "max_groups"),
    "max_rows_per_group": (lambda n: sl.Count(by=["drug"], max_rows_per_group=n, **PRICE), "max_rows_per_group"),
    "size": (lambda n: sl.Quantiles([0.5], size=n, **PRICE), "size"),
    "rows": (lambda n: sl.SyntheticTable(rows=n, rho=1), "rows"),
    "rounds": (
        lambda n: Reporting(actions=4, mu=1, sensitivity=1, neighbours="presence", rounds=n),
        "rounds",
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint16])
def test_integers_of_numpy_are_kept_as_those_of_python(place: str, kind: Callable[[int], Any]) -> None:
    make, name = PLACES[place]
    made, plain = make(kind(2)), make(2)
    assert type(getattr(made, name)) is int
    assert repr(made) == repr(plain)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("given", [True, np.True_, 2.0, np.float64(2), np.timedelta64(2, "D")], ids=repr)
def test_what_is_no_whole_number_is_refused(place: str, given: Any) -> None:
    with pytest.raises(SidelightError):
        PLACES[place][0](given)


@pytest.mark.parametrize("bins", [("private", np.int64(5)), np.int64(5)], ids=["private", "even"])
def test_requests_store_what_they_store_of_python(bins: Any) -> None:
    plain = ("private", 5) if isinstance(bins, tuple) else 5
    pairs = [
        (
            sl.Histogram("age", bins=bins, max_rows_per_group=1, max_groups=1, **PRICE),
            sl.Histogram("age", bins=plain, max_rows_per_group=1, max_groups=1, **PRICE),
        ),
        (sl.TopK("drug", k=np.int64(2), max_groups=np.int32(1), **PRICE), sl.TopK("drug", k=2, max_groups=1, **PRICE)),
        (
            sl.Quantiles([0.5], column="age", size=np.int64(90), **PRICE),
            sl.Quantiles([0.5], column="age", size=90, **PRICE),
        ),
    ]
    for made, wanted in pairs:
        requests = [prepare_query(query, SCHEMA).request for query in (made, wanted)]
        assert json.dumps(requests[0]) == json.dumps(requests[1])


def test_functions_take_them_too() -> None:
    assert type(check_size(np.int64(9))) is int
    assert repr(marginals(np.int64(2))) == repr(marginals(2))
    assert sl.fold.count("orders", upper=np.int64(5)).to_json() == sl.fold.count("orders", upper=5).to_json()
