"""The description of a synthetic table's query: what changes the release changes it, and a ledger sees that."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import sidelight as sl
from sidelight.errors import LedgerError
from sidelight.synthesis import linear_queries, prefixes, ranges

SEX = sl.Category("sex", ["F", "M"], other=None)
AGE = sl.Number("age", lower=0, upper=3, granularity=1)
MATRIX = np.array([[1.0, 0, 1, 0], [0, 0, 1, 1]])
PUBLIC = {"sex": ["F", "M", "F"], "age": [0, 1, 3]}


def request_of(workload: Any = None, *, schema: Any = (SEX, AGE), **given: Any) -> Any:
    query = sl.SyntheticTable(sl.marginals(2) if workload is None else workload, **{"rho": 1, **given})
    return query.prepare(sl.Schema(schema)).request


def public() -> Any:
    import pandas as pd

    return pd.DataFrame(PUBLIC)


CHANGED: dict[str, Any] = {
    "as it is": lambda: request_of(),
    "one-way": lambda: request_of(sl.marginals(1, ["age"])),
    "prefixes": lambda: request_of(prefixes("age")),
    "ranges": lambda: request_of(ranges("age")),
    "sets": lambda: request_of(sl.marginals(sets=[["age"], ["sex"]])),
    "matrix": lambda: request_of(linear_queries(MATRIX, columns=["age"])),
    "another entry": lambda: request_of(linear_queries(MATRIX * 0.5, columns=["age"])),
    "another order": lambda: request_of(linear_queries(MATRIX[::-1], columns=["age"])),
    "wider bounds": lambda: request_of(linear_queries(MATRIX, columns=["age"], lower=-1)),
    "two parts": lambda: request_of(sl.marginals(2) + prefixes("age")),
    "a prediction": lambda: request_of(prediction=public()),
    "less trust": lambda: request_of(prediction=public(), trust=0.5),
    "other kept": lambda: request_of(schema=(sl.Category("sex", ["F"], other="M"), AGE)),
    "missing to F": lambda: request_of(schema=(sl.Category("sex", ["F", "M"], other=None, missing=sl.Fill("F")), AGE)),
    "missing to 2": lambda: request_of(
        schema=(SEX, sl.Number("age", lower=0, upper=3, granularity=1, missing=sl.Fill(2)))
    ),
    "missing kept": lambda: request_of(missing=["age"]),
    "mwem": lambda: request_of(engine="mwem"),
    "queries": lambda: request_of(engine="queries"),
    "rounds": lambda: request_of(rounds=1),
    "rows": lambda: request_of(rows=100),
    "price": lambda: request_of(rho=2),
}


def test_no_two_different_queries_have_one_description() -> None:
    found = {name: make() for name, make in CHANGED.items()}
    for first, second in combinations(found, 2):
        assert found[first] != found[second], (first, second)


def test_the_same_query_has_the_same_description_however_it_is_written() -> None:
    dense, sparse = (
        request_of(linear_queries(each, columns=["age"])) for each in (MATRIX.tolist(), csr_matrix(MATRIX))
    )
    assert dense == sparse
    assert request_of(sl.marginals(2, ["age", "sex"])) == request_of(sl.marginals(2))
    stored_zero = csr_matrix(([1.0, 0, 1, 1, 1], ([0, 0, 0, 1, 1], [0, 1, 2, 2, 3])), shape=(2, 4))
    assert stored_zero.nnz == 5
    assert request_of(linear_queries(stored_zero, columns=["age"])) == dense


def test_a_description_is_made_of_texts() -> None:
    def texts(value: Any) -> bool:
        if isinstance(value, dict):
            return all(isinstance(key, str) and texts(entry) for key, entry in value.items())
        return all(texts(entry) for entry in value) if isinstance(value, list) else isinstance(value, str)

    assert all(texts(dict(make())) for make in CHANGED.values())


@pytest.mark.parametrize(
    "changed",
    [
        {"workload": linear_queries(1 - MATRIX, columns=["age"])},
        {"workload": prefixes("age")},
        {"trust": 0.5},
    ],
)
def test_a_ledger_gives_no_stored_answer_to_another_query(tmp_path: Path, changed: dict[str, Any]) -> None:
    table = sl.Table({"sex": ["F", "M"] * 20, "age": [0, 1, 2, 3] * 10}, schema=[SEX, AGE])
    given: dict[str, Any] = {"workload": linear_queries(MATRIX, columns=["age"]), "prediction": public(), "rho": "0.1"}
    session = sl.Session(table, budget=sl.ZCDP(1), ledger=tmp_path / "budget.db", scope="people")
    first = session.release(sl.SyntheticTable(**given), key="monday")
    assert session.release(sl.SyntheticTable(**given), key="monday") == first
    with pytest.raises(LedgerError, match="for another request"):
        session.release(sl.SyntheticTable(**{**given, **changed}), key="monday")


def test_a_ledger_notices_another_policy_for_missing_cells(tmp_path: Path) -> None:
    filled = sl.Number("age", lower=0, upper=3, granularity=1, missing=sl.Fill(2))
    cells = {"sex": ["F", "M"] * 20, "age": [0, 1, 2, None] * 10}
    query = sl.SyntheticTable(rho="0.1")

    def session(number: sl.Number) -> sl.Session:
        table = sl.Table(cells, schema=[SEX, number])
        return sl.Session(table, budget=sl.ZCDP(1), ledger=tmp_path / "budget.db", scope="people")

    session(AGE).release(query, key="monday")
    with pytest.raises(LedgerError, match="for another request"):
        session(filled).release(query, key="monday")
