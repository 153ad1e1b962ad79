"""Advice at the command line uses the terms of plans, not of the Python API."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sidelight
from sidelight.cli.failures import in_plan_words

SOURCE = Path(sidelight.__file__).parent
#: Packages whose errors a plan or a statement can meet.
ASKED = ("summaries", "aggregates", "records", "quantiles")
#: Of them, what only databases raise, whose plans have words of their own.
DATABASES = ("omop_tables.py", "database.py", "fold.py", "keys.py", "linked_tables.py", "views.py")


def raised() -> list[str]:
    """Return the text of every error that these packages raise, with an "x" for what is filled in."""
    found = []
    for package in ASKED:
        for file in (each for each in (SOURCE / package).rglob("*.py") if each.name not in DATABASES):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    found += [_text(argument) for argument in node.exc.args]
    return found


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "'x'"


def test_no_error_message_uses_python_terms() -> None:
    texts = raised()
    assert len(texts) > 200
    assert any("sl." in text for text in texts)
    left = [told for text in texts if "sl." in (told := in_plan_words(text))]
    assert left == []


@pytest.mark.parametrize(
    ("python", "plan"),
    [
        ("give public bins: sl.col('age').cut([...])", "give public bins: cut(age, [...])"),
        ("(sl.col('age') >= 18) & (sl.col('sex') == 'F')", "(age >= 18) and (sex == 'F')"),
        ("declare missing=sl.Fill(...)", "declare missing = {fill = ...}"),
        (
            "such as sl.priors.Cauchy(40_000, 15_000)",
            'such as {family = "cauchy", location = 40000, scale = 15000}',
        ),
        ("release them with sl.Count(by=...)", 'release them with a [[query]] of kind = "count", by = ...'),
        ("use max_groups=1, or of='rows'", 'use max_groups = 1, or of = "rows"'),
        ("persons=True needs a PersonId", "persons = true needs a PersonId"),
    ],
)
def test_the_words_of_a_plan(python: str, plan: str) -> None:
    assert in_plan_words(python) == plan


def test_nothing_else_is_changed() -> None:
    for text in ("epsilon = 0.5 is too much", "the file 'a=b.csv' is not there", "x == 1, y <= 2, z >= 3"):
        assert in_plan_words(text) == text
