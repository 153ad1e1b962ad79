"""The examples in the docstrings of the noise package run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import sidelight.noise
import sidelight.testing.seeded

MODULES = [f"sidelight.noise.{module.name}" for module in pkgutil.iter_modules(sidelight.noise.__path__)]


@pytest.mark.parametrize("name", [*MODULES, "sidelight.testing.seeded"])
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    attempted = sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES)
    assert attempted >= 20
