"""No package lets NumPy or a data frame infer a type from a user's cells.

`np.asarray(frame)` has one type for all cells, chosen by all of them: one record's text makes texts of everybody's
numbers. Code that takes rows reads them cell by cell (`records`, `stability/pate/typed_rows.py`), or names the type.
This test walks the source; each finding is fixed, or allowed here by name with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sidelight

SOURCE = Path(sidelight.__file__).parent
#: Names under which functions take what a user gave: rows, labels, ids, frames.
GIVEN = {"X", "y", "rows", "targets", "labels", "record_ids", "queries", "data", "frame", "column", "columns", "values"}
MAKERS = {"asarray", "asanyarray", "array", "ascontiguousarray", "stack", "vstack", "column_stack"}
METHODS = {"to_numpy", "__array__"}
#: Packages whose task it is to read cells, each with tests of its own: tests/records, tests/audits.
READERS = ("records", "aggregates")
ALLOWED = {
    "gaussians/row_reader.py:PairedRows.read": "columns that a table's engine read: float64",
    "gaussians/row_reader.py:CleanBlocks.__call__": "columns that a table's engine read: float64",
    "group_table.py:_column": "released numbers",
    "noise/integers_and_coins.py:_integers": "integers that the library made; others are refused by type",
    "predictions/public_data.py:PublicData.__post_init__": "public data",
    "predictions/public_data.py:PublicData.column": "public data",
    "regression/rows.py:bounded_rows": "rows that Examples or an engine read already; others are refused by type",
    "regression/estimators/additive_query.py:split_by": "released numbers",
    "regression/curator.py:_bends": "rows that were bounded: float64",
    "regression/estimators/examples.py:targets_of": "arrays of others, by their own type",
    "regression/estimators/examples.py:Examples.read": "each cell of the array is read by itself afterwards",
    "regression/estimators/examples.py:examples": "only the length is taken; the cells are read one by one later",
    "regression/estimators/examples.py:_with_shape": "only the shape is taken; the cells are read one by one later",
    "regression/losses/loss.py:_each": "arrays, refused before by type where they are not like the declared classes",
    "regression/curator.py:nonprivate_check_rows": "says by its name that it is not private",
    "stability/pate/typed_rows.py:Form.build": "columns that were read cell by cell",
    "stability/pate/typed_rows.py:form_of": "public queries",
    "stability/pate/typed_rows.py:_frame_parts": "a column that has a number type; each number becomes a float64",
    "summaries/count.py:PreparedDistinct.run.within": "released numbers",
    "summaries/tree_prior.py:_Pass._fitted": "released numbers",
    "tuning/scores.py:rows_of": "to find copies of private rows, before the charge; nothing of it is released",
    "tuning/reachable_tables.py:ReachableTable.columns": "to find copies of private rows, before the charge",
    "synthesis/answers.py:MeasuredMarginal.to_value": "released numbers",
}


def unsafe(tree: ast.AST) -> Iterator[str]:
    """Name the functions that make an array of a user's rows without naming the type."""

    def walk(node: ast.AST, place: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            place = (*place, node.name)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            typed = any(keyword.arg == "dtype" for keyword in node.keywords) or len(node.args) > 1
            made = node.func.attr in MAKERS and bool(node.args) and _given(node.args[0]) and not typed
            if made or (node.func.attr in METHODS and _given(node.func.value)):
                yield ".".join(place)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, place)

    return walk(tree, ())


def _given(node: ast.expr) -> bool:
    """Say whether an expression is a user's rows: a name, an attribute of such a name, or a part of one."""
    if isinstance(node, ast.Subscript):
        return _given(node.value)
    return (isinstance(node, ast.Name) and node.id in GIVEN) or (isinstance(node, ast.Attribute) and node.attr in GIVEN)


def found() -> dict[str, int]:
    counts: dict[str, int] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        text = file.read_text(encoding="utf-8")
        if not name.startswith(READERS) and any(f".{word}(" in text for word in (*MAKERS, *METHODS)):
            for function in unsafe(ast.parse(text)):
                counts[f"{name}:{function}"] = counts.get(f"{name}:{function}", 0) + 1
    return counts


def test_nobody_takes_the_type_of_rows_from_their_cells() -> None:
    assert found().keys() == ALLOWED.keys(), "read the cells one by one, or name the type; see the top of this file"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(X): return np.asarray(X)", 1),
        ("def f(frame): return frame.to_numpy()", 1),
        ("def f(self): return np.array(self.rows[1:])", 1),
        ("def f(X): return np.asarray(X, dtype=float) + np.asarray(X, float)", 0),
        ("def f(other): return np.asarray(other)", 0),
    ],
)
def test_the_walk_finds_what_it_should(text: str, count: int) -> None:
    assert len(list(unsafe(ast.parse(text)))) == count
