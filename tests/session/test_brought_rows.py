"""Estimators that bring their rows along: noise is never sold for another unit than the one it is for."""

from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.collect import coded_rows
from sidelight.errors import RangeError
from sidelight.guarantees import ZCDP, Person
from sidelight.records import Schema
from sidelight.session.paid_estimator import ExternalRows
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


_COLUMNS = [sl.Number("a", lower=-1, upper=1), sl.Number("b", lower=-1, upper=1)]
_PERSONS = [sl.PersonId("who", max_rows=1), *_COLUMNS]


def _of_persons(*left_out):
    """Return rows of which one of a person counts: where that is left out, the other one does."""
    rows = [row for place, row in enumerate([("p", 1, 0), ("p", 0, 1), ("q", 0.5, 0.5)]) if place not in left_out]
    return sl.Table(dict(zip(("who", "a", "b"), map(list, zip(*rows, strict=True)), strict=True)), schema=_PERSONS)


def _session_of_rows():
    return SeededSession(sl.Table({"a": [1, 0, 0.5], "b": [0, 1, 0.5]}, schema=_COLUMNS), budget=ZCDP(1), seed=3)


@pytest.mark.parametrize("place", range(3))
def test_rows_with_persons_are_refused_in_a_session_of_rows_before_any_charge(place):
    """Removing the row of a person that counts makes another one count: two steps for the price of one."""
    session = _session_of_rows()
    model = list(_models(session))[place]
    with pytest.raises(RangeError, match=r"declare the persons in the session's table as well.*Nothing was charged"):
        model.fit(_of_persons())
    assert "Σρ 0 of" in str(session.spent)
    assert not hasattr(model, "release_")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("place", range(2))
def test_rows_with_persons_are_for_the_person_without_a_session(place):
    assert list(_models(None))[place].fit(_of_persons()).guarantee_.unit == Person("who", 1)


def test_external_rows_used_directly_are_refused_in_a_session_of_rows():
    session, query = _session_of_rows(), sl.Covariance(radius=1, rho="0.5", centre=[0, 0])
    table = _of_persons()
    for asked in (table.schema, Schema(_COLUMNS)):  # priced for a person, and for a row of a table that is capped
        with pytest.raises(RangeError, match="Nothing was charged"):
            session.release(ExternalRows(prepared=query.prepare(asked), rows=table))
    with pytest.raises(RangeError, match="prepare it for the schema of X"):
        ExternalRows(prepared=query.prepare(Schema(_COLUMNS)), rows=table).release(None)
    assert "Σρ 0 of" in str(session.spent)


def test_one_row_fewer_of_a_person_is_two_steps():
    """What the refusal prevents: without its row that counts, a person has another one that counts."""

    def counted(table):
        coding = ClippedVector(columns=tuple(_COLUMNS), radius=Fraction(2), levels=1 << 10, centres=(Fraction(0),) * 2)
        return {tuple(row) for codes in coded_rows(table, coding) for row in np.transpose(codes).tolist()}

    whole = counted(_of_persons())
    assert max(len(whole ^ counted(_of_persons(place))) for place in range(3)) == 2
