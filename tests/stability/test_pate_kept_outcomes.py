"""Which outcome of a work folder a fit takes, and which it pays for again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import NearestCentroid

import sidelight as sl
from sidelight.errors import BudgetError, SourceError
from sidelight.stability.pate.work_folder import WorkFolder

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 2, 200)
X = RNG.normal(size=(200, 2)) + 3 * Y[:, None]
IDS = [f"patient {place}" for place in range(200)]
QUERIES = RNG.normal(size=(20, 2)) + 1.5


def fit(folder: Path, session: sl.Session | None = None, *, key: str | None = None, noise_scale: int = 9) -> sl.PATE:
    model = sl.PATE(NearestCentroid(), teachers=8, classes=[0, 1], noise_scale=noise_scale, n_jobs=1, session=session)
    return model.fit(X, Y, record_ids=IDS, queries=QUERIES, work_folder=folder, key=key)


def opened(ledger: Path | None, *, budget: sl.Claim | None = None, scope: str | None = None) -> sl.Session:
    people = sl.Table({"p": IDS, "v": Y}, schema=[sl.PersonId("p", max_rows=1), sl.Number("v")], name="people")
    address = None if ledger is None else f"sqlite:///{ledger}"
    return sl.Session(people, budget=budget or sl.ApproxDP(8, "1e-4"), ledger=address, scope=scope)


def test_what_no_budget_paid_for_is_not_taken_by_a_session(tmp_path: Path) -> None:
    free = fit(tmp_path / "work")
    session = opened(tmp_path / "budget.db")
    before = str(session.remaining)
    model = fit(tmp_path / "work", session)
    assert str(session.remaining) != before
    assert model.release_.circumstances.entry_id is not None
    assert model.guarantee_.unit == session.table.schema.unit
    assert fit(tmp_path / "work").release_.to_json() == free.release_.to_json()  # and its own is still there


@pytest.mark.parametrize("key", [None, "labels"])
def test_a_budget_that_is_too_small_refuses_whatever_the_folder_holds(tmp_path: Path, key: str | None) -> None:
    fit(tmp_path / "work")
    fit(tmp_path / "work", opened(tmp_path / "large.db"))
    with pytest.raises(BudgetError):
        fit(tmp_path / "work", opened(tmp_path / "small.db", budget=sl.ApproxDP("0.01", "1e-6")), key=key)


def test_the_entry_of_its_own_ledger_is_taken_also_after_a_restart(tmp_path: Path) -> None:
    first = fit(tmp_path / "work", opened(tmp_path / "budget.db"))
    session = opened(tmp_path / "budget.db")
    before = str(session.remaining)
    assert fit(tmp_path / "work", session).release_.to_json() == first.release_.to_json()
    assert str(session.remaining) == before
    other = opened(tmp_path / "budget.db", scope="another scope")
    assert fit(tmp_path / "work", other).release_.circumstances.entry_id != first.release_.circumstances.entry_id


def test_a_key_is_answered_by_the_ledger(tmp_path: Path) -> None:
    session = opened(tmp_path / "budget.db")
    fit(tmp_path / "work", session)
    named = fit(tmp_path / "work", session, key="labels")  # another request, which was not paid for yet
    assert len(session._account.entries()) == 2  # type: ignore[union-attr]
    assert fit(tmp_path / "work", session, key="labels").release_.to_json() == named.release_.to_json()
    assert len(session._account.entries()) == 2  # type: ignore[union-attr]


def test_a_session_without_a_ledger_charges_again(tmp_path: Path) -> None:
    """It cannot tell its own release from that of a session whose budget is gone with its process."""
    session = opened(None)
    fit(tmp_path / "work", session)
    spent = str(session.spent)
    fit(tmp_path / "work", session)
    assert str(session.spent) != spent
    assert not list((tmp_path / "work").glob("outcome-*"))


def test_two_fits_do_not_work_in_one_folder_at_once(tmp_path: Path) -> None:
    with WorkFolder.at(tmp_path).alone(), pytest.raises(SourceError, match="another fit works in this work_folder"):
        fit(tmp_path)
    first = fit(tmp_path)  # the lock is free again
    assert fit(tmp_path).release_.to_json() == first.release_.to_json()
