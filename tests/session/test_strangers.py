"""Requests of somebody who may not see a row: no row is looked at before the charge, and failures look alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sidelight as sl
from probes import PreparedProbe, Unreadable
from sidelight.errors import NoiseError, RangeError, ReleaseFailedError, SourceError, StrictError
from sidelight.guarantees import Claims, PureDP
from sidelight.noise import OSEntropy, Source
from sidelight.records import Schema, Table
from sidelight.session import Answer
from sidelight.session.accounts import OneOffAccount
from sidelight.session.paid_estimator import ExternalRows
from sidelight.session.pipeline import release_batch_through, release_through
from sidelight.session.query import Prepared
from sidelight.testing import SeededEntropy

_RNG = np.random.default_rng(11)
_ROWS = np.round(_RNG.uniform(0, 1, (400, 3)), 3)
_SCHEMA = [sl.Number(name, lower=0, upper=1) for name in "xyz"]
_COLUMNS = dict(zip("xyz", _ROWS.T, strict=True))
PEOPLE = Table(_COLUMNS, schema=_SCHEMA, name="people")


class Counted(OneOffAccount):
    """An account that knows whether it was charged."""

    charged = False

    def reserve(self, claims: Claims, **rest: Any) -> Any:
        self.charged = True
        return super().reserve(claims, **rest)


class Asked:
    """A query whose run is whatever a test wants."""

    def __init__(self, run: Callable[[Table, Source], Any]) -> None:
        self._run = run

    def prepare(self, schema: Schema) -> Prepared:
        return PreparedProbe(claims=Claims.of(PureDP(1)), request={"kind": "probe"}, function=self._run)


def ask(query: Any, table: Table, *, owner: bool = False) -> tuple[str, bool]:
    """Return what was answered, in one word, and whether it was charged."""
    account = Counted()
    try:
        release_through(query, table, account, entropy=SeededEntropy(3), owner=owner)
    except (RangeError, SourceError) as refused:
        return type(refused).__name__, account.charged
    return "released", account.charged


def with_public_rows(rows: Any) -> sl.ModelQuery:
    """Return a model that starts from rows which are said to be public."""
    named = sl.PublicData(dict(zip("xyz", rows.T, strict=True)), "rows that I know")
    return sl.ModelQuery(model=sl.LinearRegression(epsilon=1, delta="1e-6", prediction=named), target="z")


def test_nine_known_rows_and_a_guess_are_no_free_answer() -> None:
    """Half of 20 rows are found or not: for the owner that is a warning of a mistake, for others a noiseless answer."""
    known, strange = _ROWS[:9], _RNG.uniform(0, 1, (10, 3)) / 1.1
    right = with_public_rows(np.concatenate([known, _ROWS[200:201], strange]))
    wrong = with_public_rows(np.concatenate([known, [[0.5005001, 0.2, 0.3]], strange]))
    assert ask(right, PEOPLE, owner=True) == ("RangeError", False)
    assert ask(wrong, PEOPLE, owner=True) == ("released", True)
    assert ask(right, PEOPLE) == ask(wrong, PEOPLE) == ("released", True)


def test_no_row_is_looked_at_before_the_charge() -> None:
    class Looking(PreparedProbe):
        def check_rows(self, table: Table) -> None:
            table.rows  # noqa: B018

    class Query(Asked):
        def prepare(self, schema: Schema) -> Prepared:
            return Looking(claims=Claims.of(PureDP(1)), request={"kind": "probe"}, function=self._run)

    closed = Unreadable({"x": [1.0]}, schema=[sl.Number("x")])
    query = Query(lambda table, source: Answer(value=1))
    assert ask(query, closed) == ("released", True)
    with pytest.raises(AttributeError, match="opened"):
        ask(query, closed, owner=True)


def test_a_statement_about_another_table_is_refused_by_its_name_alone() -> None:
    closed = Unreadable({"x": [1.0]}, schema=[sl.Number("x", lower=0, upper=1)], name="people")
    assert ask(sl.SQL("SELECT COUNT(*) FROM persons", epsilon=1), closed) == ("RangeError", False)
    assert ask(sl.SQL("SELECT COUNT(*) FROM People", epsilon=1), PEOPLE) == ("released", True)


@pytest.mark.parametrize("text", ["x,y,z\n0.5,0.5,1\n", 'x,y,z\n0.5,"0.5,1\n'], ids=["whole", "malformed"])
@pytest.mark.parametrize("records", ["standard", "lines"])
def test_a_csv_file_is_refused_whatever_it_holds(tmp_path: Path, text: str, records: Any) -> None:
    """Whether it is well formed, and at which line it is not, depends on a record."""
    file = tmp_path / "people.csv"
    file.write_text(text)
    table = Table(file, schema=_SCHEMA, records=records)
    account = Counted()
    with pytest.raises(SourceError, match=r"write the table to Parquet. Nothing was charged$") as refused:
        release_through(sl.Count(epsilon=1), table, account, entropy=OSEntropy(), owner=False)
    assert "line" not in str(refused.value).replace("csv-lines", "")
    assert not account.charged


def test_typed_files_are_asked(tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    pl.DataFrame(_COLUMNS).write_parquet(file)
    assert ask(sl.Count(epsilon=1), Table(file, schema=_SCHEMA)) == ("released", True)


def test_rows_of_the_senders_own_are_refused() -> None:
    inner = sl.Count(epsilon=1).prepare(PEOPLE.schema)
    assert ask(ExternalRows(prepared=inner, rows=PEOPLE), PEOPLE) == ("RangeError", False)


@pytest.mark.parametrize(
    "error", [SourceError("a"), NoiseError("b"), StrictError("c"), ReleaseFailedError("d"), ValueError("cell 31")]
)
def test_all_failures_after_the_charge_are_one(error: Exception) -> None:
    """One error for all failures after the charge: four classes revealed which check failed."""

    def run(table: Table, source: Source) -> Answer:
        raise error

    found = []
    for given in (error, ValueError("another")):
        error = given
        with pytest.raises(ReleaseFailedError) as failed:
            release_through(Asked(run), PEOPLE, Counted(), entropy=OSEntropy(), owner=False)
        found.append((type(failed.value), str(failed.value), failed.value.__cause__, failed.value.__context__))
    assert found[0] == found[1]


def test_a_batch_has_the_same_rule() -> None:
    right = with_public_rows(np.concatenate([_ROWS[:9], _ROWS[200:201], _RNG.uniform(0, 1, (10, 3)) / 1.1]))
    with pytest.raises(RangeError, match="Nothing was charged"):
        release_batch_through([right], PEOPLE, Counted(), delta="1e-6", entropy=SeededEntropy(3))
    released = release_batch_through([right], PEOPLE, Counted(), delta="1e-6", entropy=SeededEntropy(3), owner=False)
    assert len(released) == 1
    assert inspect.signature(release_through).parameters["owner"].default is True
