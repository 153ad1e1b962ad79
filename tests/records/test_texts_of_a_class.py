"""Texts of a class of their own: what comes out is plain text, which nothing in a cell can make raise later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.records.cells import text_of
from sidelight.testing import seeded_release


class Unhashable(str):
    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self


class Quarrelsome(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self

    def __eq__(self, other: object) -> bool:
        raise ValueError("quotes a record")

    def __hash__(self) -> int:
        return hash("a")

    def __bool__(self) -> bool:
        raise ValueError("quotes a record")

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        raise ValueError("quotes a record")


class Named:
    def __str__(self) -> str:
        return Unhashable("q")


ODD = [Unhashable("q"), Quarrelsome("q"), Named()]


@pytest.mark.parametrize("cell", ODD, ids=lambda cell: type(cell).__name__)
def test_a_text_of_its_own_class_becomes_plain(cell: Any) -> None:
    found = text_of(cell)
    assert type(found) is str
    assert "".join(found) == "q"


def test_plain_cells_are_what_they_were() -> None:
    assert [text_of(cell) for cell in ("", "a", np.str_("a"), 1.0, 0.5, True)] == [None, "a", "a", "1", "0.5", "true"]


@pytest.mark.parametrize("cell", ODD, ids=lambda cell: type(cell).__name__)
@pytest.mark.parametrize("role", ["label", "person"])
def test_one_such_cell_is_an_unknown_label_or_a_person(cell: Any, role: str) -> None:
    column: sl.Category | sl.PersonId = (
        sl.Category("c", ["a", "b"]) if role == "label" else sl.PersonId("c", max_rows=2)
    )
    query: Any = sl.SyntheticTable(epsilon=1) if role == "label" else sl.Quantiles([0.5], column="v", epsilon=1)
    schema = [sl.Number("v", lower=0, upper=20), column]
    releases = []
    for odd in (cell, "q"):
        cells: list[Any] = ["a", "b"] * 10
        cells[3] = odd
        table = sl.Table({"v": list(range(20)), "c": cells}, schema=schema)
        releases.append(seeded_release(query, table, seed=1).to_json())
    assert releases[0] == releases[1]
