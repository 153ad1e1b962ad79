"""Texts of a class of their own: what comes out is plain text, which nothing in a cell can make raise later."""

from __future__ import annotations

from fractions import Fraction
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


class Named(Fraction):
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


class Shouting(str):
    """A text whose methods would raise as soon as a private cell met them."""

    __slots__ = ()

    def __str__(self) -> str:
        return self

    def __eq__(self, other: object) -> bool:
        raise ValueError("was compared")

    __hash__ = str.__hash__


def test_declared_texts_of_a_class_become_plain() -> None:
    """Names, labels, `other`, fill values and constants meet private cells: nothing of a subclass is left of them."""
    category = sl.Category(Shouting("c"), [Shouting("a"), "b"], other=Shouting("z"), missing=sl.Fill(Shouting("z")))
    texts: list[Any] = [category.name, *category.categories, category.other, *category.labels]
    texts += [category.missing.value]  # type: ignore[union-attr]
    texts += [sl.Label(Shouting("l"), missing=sl.Fill(Shouting("none"))).missing.value]  # type: ignore[union-attr]
    texts += [column.name for column in (sl.Number(Shouting("x")), sl.PersonId(Shouting("p"), max_rows=1))]
    texts += [sl.col(Shouting("c")).name]
    for expression in (
        sl.col("c") == Shouting("a"),
        sl.col("c").isin([Shouting("a")]),
        sl.col("c").lookup({Shouting("a"): Shouting("k")}, default=Shouting("d")),
    ):
        for part in expression.walk():
            held = [getattr(part, name, None) for name in ("name", "value", "values", "entries", "default")]
            texts += _texts(held)
    assert all(type(text) is str for text in texts), [type(text) for text in texts]
    assert len(texts) > 15


def _texts(held: Any) -> list[Any]:
    if isinstance(held, (list, tuple)):
        return [text for each in held for text in _texts(each)]
    return [held] if isinstance(held, str) else []


def test_a_schema_of_such_texts_counts_as_one_of_plain_texts() -> None:
    rows = {"c": ["a", "b", "q", None, "a"]}
    odd = [sl.Category(Shouting("c"), [Shouting("a"), Shouting("b")], other=Shouting("z"))]
    plain = [sl.Category("c", ["a", "b"], other="z")]
    where = sl.col(Shouting("c")) == Shouting("a")
    found, expected = (
        seeded_release(sl.Count(by="c", where=where, epsilon=5), sl.Table(rows, schema=schema), seed=1).value
        for schema in (odd, plain)
    )
    assert str(found) == str(expected)
