"""Sparse rows are read each by itself: an entry that is stored in parts is their sum in stored order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sidelight
from sidelight.records.row_prints import row_prints
from sidelight.records.sparse_rows import csr_rows
from sidelight.stability.pate.typed_rows import form_of

#: Parts whose sum depends on their order: large ones cancel after or before small ones are added.
PARTS = np.tile([0.6 * 2.0**53, 0.5, -0.6 * 2.0**53], 20)


def stored(copies: int, *more: tuple[int, float]) -> Any:
    """Return rows of 60 parts of column 0 and one entry of column 1, then one row of more entries, as CSR."""
    columns, values = [*[0] * len(PARTS), 1], [*PARTS.tolist(), 0.1]
    ends = [len(columns) * row for row in range(copies + 1)]
    indices, data = columns * copies, values * copies
    if more:
        indices += [column for column, _ in more]
        data += [value for _, value in more]
        ends.append(len(indices))
    return scipy.sparse.csr_array((np.array(data), np.array(indices), np.array(ends)), shape=(len(ends) - 1, 2))


def sum_in_order(values: np.ndarray) -> float:
    total = 0.0
    for value in values.tolist():
        total += value
    return total


@pytest.mark.parametrize("form", ["csr", "coo", "csc"])
@pytest.mark.parametrize("more", [((0, 0.1), (1, 0.1)), ((1, 0.1), (0, 0.1)), ((1, 0.1), (1, 0.1), (0, 0.2), (1, -3))])
def test_one_more_row_changes_no_other(form: str, more: tuple[tuple[int, float], ...]) -> None:
    alone, longer = (csr_rows(rows.asformat(form)).toarray() for rows in (stored(50), stored(50, *more)))
    assert (alone == longer[:50]).all()
    assert alone[0].tolist() == [sum_in_order(PARTS), 0.1]
    assert longer[50].tolist() == [sum(v for c, v in more if c == 0), sum(v for c, v in more if c == 1)]


def test_other_forms_are_read_as_they_are_written() -> None:
    dense = np.where(np.random.default_rng(3).random((9, 8)) < 0.4, np.arange(72.0).reshape(9, 8) - 30, 0.0)
    for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
        given = scipy.sparse.csr_matrix(dense).asformat(form)
        found = csr_rows(given)
        assert (found.toarray() == dense).all()
        assert found.dtype == np.float64
        assert (given.toarray() == dense).all()
    assert csr_rows(scipy.sparse.csr_array((0, 4))).shape == (0, 4)
    assert csr_rows(scipy.sparse.csr_array((3, 4))).toarray().tolist() == [[0.0] * 4] * 3


def test_teachers_and_prints_see_the_same_rows() -> None:
    more = ((1, 0.1), (0, 0.1))
    form = form_of(scipy.sparse.csr_array(np.eye(2)))
    alone, longer = (form.read(rows.tocoo()).take(np.arange(50)) for rows in (stored(50), stored(50, *more)))
    assert (alone.toarray() == longer.toarray()).all()
    first, second = row_prints(stored(50).tocoo()), row_prints(stored(50, *more).tocoo())
    assert first is not None
    assert second is not None
    assert (first == second[:50]).all()


#: Matrices that are public: queries of a synthetic table, rows that teachers are asked about, and their parameters.
PUBLIC = {
    "stability/pate/content_digest.py": 1,
    "stability/pate/typed_rows.py": 1,
    "synthesis/query_blocks.py": 2,
    "synthesis/workload.py": 2,
}


def test_sparse_rows_are_read_in_one_place() -> None:
    package = Path(sidelight.__file__).parent
    calls = re.compile(r"\.(tocsr|sum_duplicates|sort_indices|sorted_indices|asformat)\(")
    found = {
        str(path.relative_to(package)): len(calls.findall(path.read_text("utf-8"))) for path in package.rglob("*.py")
    }
    assert {path: times for path, times in found.items() if times} == PUBLIC
