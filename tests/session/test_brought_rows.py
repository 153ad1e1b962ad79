"""Estimators that bring their rows along: noise for one row is never sold as noise for a person with several."""

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.guarantees import ZCDP, Person
from sidelight.testing import SeededSession

_RNG = np.random.default_rng(7)
_X = _RNG.normal(0, 1, (600, 2))
_PUBLIC = _RNG.normal(0, 1, (8, 2))


def _models(session):
    yield sl.PCA(1, radius=3, rho="0.1", session=session)
    yield sl.GaussianModel(prediction=_PUBLIC, rho="0.1", session=session)
    yield sl.GaussianMixture(2, prediction=_PUBLIC, rho="0.1", session=session)


def _session(max_rows):
    ids = [str(place // max_rows) for place in range(len(_X))]
    columns = [sl.PersonId("id", max_rows=max_rows), sl.Number("a"), sl.Number("b")]
    table = sl.Table({"id": ids, "a": _X[:, 0], "b": _X[:, 1]}, schema=columns)
    return SeededSession(table, budget=ZCDP(1, unit=Person("id", max_rows)), seed=3)


@pytest.mark.parametrize("max_rows", [1, 5])
@pytest.mark.parametrize("place", range(3))
def test_rows_without_persons_are_refused_before_any_charge(place, max_rows):
    """A cap of one row caps the session's table: in an array a person may have thousands."""
    session = _session(max_rows)
    with pytest.raises(RangeError, match="bring a table that declares the persons"):
        list(_models(session))[place].fit(_X)
    assert "Σρ 0 of" in str(session.spent)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("place", range(2))
def test_a_table_of_persons_with_one_row_is_taken(place):
    session = _session(1)
    model = list(_models(session))[place].fit(session.table)
    assert model.guarantee_.unit == Person("id", 1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_table_that_declares_its_persons_is_charged_for_all_their_rows():
    session = _session(5)
    model = sl.GaussianModel(prediction=_PUBLIC, rho="0.1", session=session).fit(session.table)
    assert model.guarantee_.unit == Person("id", 5)
    alone = sl.GaussianModel(prediction=_PUBLIC, rho="0.1").fit(_X)
    assert model.release_.value["noise"]["count"] == pytest.approx(5 * alone.release_.value["noise"]["count"])


def test_persons_of_another_column_are_refused():
    columns = [sl.PersonId("household", max_rows=5), sl.Number("a"), sl.Number("b")]
    homes = sl.Table({"household": ["1"] * len(_X), "a": _X[:, 0], "b": _X[:, 1]}, schema=columns)
    with pytest.raises(RangeError, match="household"):
        sl.GaussianModel(prediction=_PUBLIC, rho="0.1", session=_session(5)).fit(homes)
