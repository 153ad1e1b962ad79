"""The examples in the docstrings of guarantees and accounting run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import sidelight.accounting
import sidelight.guarantees

MODULES = [
    name
    for package in (sidelight.guarantees, sidelight.accounting)
    for _, name, _ in pkgutil.iter_modules(package.__path__, package.__name__ + ".")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = sum(len(t.examples) for name in MODULES for t in finder.find(importlib.import_module(name)))
    assert found > 40
