"""The charge comes before the data: a refused or mistaken request opens nothing, and a granted one is on disk first."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import BudgetError, LedgerError, RangeError, ReleaseFailedError, SchemaError, SidelightError
from sidelight.records import Table
from sidelight.records.engines.arrays import ArrayRows
from sidelight.records.rows import BATCH_ROWS
from sidelight.testing import SeededSession

SCHEMA = [sl.Number("age", lower=0, upper=120, granularity=1)]
MEDIAN = sl.Quantiles([0.5], column="age", epsilon=1)


class WatchedRows(ArrayRows):
    """Rows that do something when they are read, before any cell is looked at."""

    def __init__(self, action):
        super().__init__({"age": np.array([40.0])})
        self._action = action

    def batches(self, wanted, *, rows=BATCH_ROWS):
        self._action()
        return super().batches(wanted, rows=rows)


class Touched(BaseException):
    """Raised by reading a row. No handler for ordinary errors can swallow it."""


def forbidden():
    raise Touched


def table_that(action):
    table = Table({"age": [40.0]}, schema=SCHEMA, name="people")
    table._rows = WatchedRows(action)
    return table


def test_the_trap_works():
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        sl.Session(table_that(forbidden), budget=sl.PureDP(1)).release(MEDIAN)
    assert isinstance(caught.value, (Touched, ReleaseFailedError))


def refused_requests(session):
    yield lambda: session.release(sl.Quantiles([0.5], column="age", epsilon="1.5")), BudgetError
    yield lambda: session.release_together([MEDIAN, MEDIAN], delta="1e-9"), (BudgetError, SidelightError)
    yield lambda: session.release(sl.Quantiles([0.5], column="hours", epsilon="0.1")), SchemaError
    yield lambda: session.release(sl.Quantiles([0.5], column="age", bounds=(3, None), epsilon="0.1")), SchemaError
    yield lambda: session.release(sl.Quantiles([1.5], column="age", epsilon="0.1")), RangeError
    yield lambda: session.release(sl.Quantiles([0.5], column="age", epsilon="0.1", bounds=3)), RangeError
    yield lambda: session.release_together([], delta="1e-9"), RangeError


@pytest.mark.parametrize("ledger", [False, True], ids=["process", "ledger"])
def test_no_row_is_read_for_a_request_that_is_refused_or_wrong(ledger, tmp_path):
    place = f"sqlite:///{tmp_path}/budget.db" if ledger else None
    session = sl.Session(table_that(forbidden), budget=sl.PureDP(1), ledger=place)
    before = str(session.spent), str(session.remaining)
    for request, error in refused_requests(session):
        with pytest.raises(error):
            request()
    assert (str(session.spent), str(session.remaining)) == before


def test_pricing_and_building_read_no_row(tmp_path):
    table = table_that(forbidden)
    prepared = MEDIAN.prepare(table.schema)
    assert prepared.claims.pure() is not None
    assert repr(table)
    assert sl.Session(table, budget=sl.PureDP(1), ledger=f"sqlite:///{tmp_path}/budget.db").statement()


def test_the_charge_is_committed_before_a_row_is_read(tmp_path):
    path = tmp_path / "budget.db"
    seen = []

    def look():
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)  # a second connection sees committed rows only
        try:
            kinds = [kind for (kind,) in connection.execute("SELECT kind FROM event ORDER BY seq")]
            states = connection.execute("SELECT state FROM entry").fetchall()
        finally:
            connection.close()
        with sl.open_ledger(f"sqlite:///{path}") as other:
            left = other.scope("people").remaining()
        seen.append((kinds[-1], states, str(left)))

    session = sl.Session(table_that(look), budget=sl.PureDP(2), ledger=f"sqlite:///{path}")
    before = str(session.remaining)
    session.release(MEDIAN)
    (last_event, states, left_while_reading), *_ = seen
    assert last_event == "reserve"
    assert states == [("reserved",)]
    assert left_while_reading == str(session.remaining) != before


def test_a_second_session_cannot_spend_what_the_first_has_reserved(tmp_path):
    place = f"sqlite:///{tmp_path}/budget.db"
    caught = []

    def compete():
        rival = sl.Session(Table([1.0], schema=SCHEMA, name="people"), budget=sl.PureDP(1), ledger=place)
        with pytest.raises(BudgetError) as error:
            rival.release(MEDIAN)
        caught.append(error.value)

    sl.Session(table_that(compete), budget=sl.PureDP(1), ledger=place).release(MEDIAN)
    assert caught


def test_a_run_that_dies_stays_charged(tmp_path):
    place = f"sqlite:///{tmp_path}/budget.db"

    def interrupted():
        raise KeyboardInterrupt

    session = sl.Session(table_that(interrupted), budget=sl.PureDP(1), ledger=place)
    with pytest.raises(KeyboardInterrupt):
        session.release(MEDIAN)
    with pytest.raises(BudgetError):
        sl.Session(Table([1.0], schema=SCHEMA, name="people"), budget=sl.PureDP(1), ledger=place).release(MEDIAN)


def test_a_stored_answer_reads_no_row_and_draws_no_noise(tmp_path):
    place = f"sqlite:///{tmp_path}/budget.db"
    first = sl.Session(Table([40.0] * 9, schema=SCHEMA, name="people"), budget=sl.PureDP(1), ledger=place)
    released = first.release(MEDIAN, key="monday")
    again = sl.Session(table_that(forbidden), budget=sl.PureDP(1), ledger=place).release(MEDIAN, key="monday")
    assert np.array_equal(again.value, released.value)


def test_one_key_does_not_answer_another_question(tmp_path):
    place = f"sqlite:///{tmp_path}/budget.db"
    session = sl.Session(Table([40.0] * 9, schema=SCHEMA, name="people"), budget=sl.PureDP(3), ledger=place)
    session.release(MEDIAN, key="monday")
    with pytest.raises(LedgerError):
        session.release(sl.Quantiles([0.25], column="age", epsilon=1), key="monday")


def test_two_runs_of_one_release_have_different_noise():
    data = Table(np.linspace(0, 1, 5), schema=[sl.Number("x", lower=0, upper=1)], name="numbers")
    query = sl.Quantiles([0.5], column="x", epsilon="0.01")  # nearly a draw from 2**20 values
    assert len({float(query.release(data).value[0]) for _ in range(8)}) > 4
    session = sl.Session(data, budget=sl.PureDP(1))
    assert len({float(session.release(query).value[0]) for _ in range(8)}) > 4


def test_one_query_twice_in_a_batch_has_different_noise():
    data = Table(np.linspace(0, 1, 5), schema=[sl.Number("x", lower=0, upper=1)], name="numbers")
    session = sl.Session(data, budget=sl.ApproxDP(1, "1e-6"))
    values = session.release_together([sl.Quantiles([0.5], column="x", epsilon="0.01")] * 8, delta="1e-7")
    assert len({float(each.value[0]) for each in values}) > 4


def test_seeded_noise_is_branded_and_kept_out_of_real_ledgers(tmp_path):
    table = Table([40.0] * 9, schema=SCHEMA, name="people")
    release = SeededSession(table, seed=1, budget=sl.PureDP(3)).release(MEDIAN)
    assert not release.private
    assert "NOT PRIVATE" in str(release)
    assert not sl.outcome_from_json(release.to_json()).private
    with sl.open_ledger(f"sqlite:///{tmp_path}/real.db") as real, pytest.raises(LedgerError):
        SeededSession(table, seed=1, ledger=real, budget=sl.PureDP(3))
    assert MEDIAN.release(table).private
