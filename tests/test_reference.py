"""The API reference: every public name stands on one page of it, and every docstring says what a user needs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import sidelight as sl

DOCS = Path(__file__).parents[1] / "docs"


def _api_pages() -> Any:
    spec = importlib.util.spec_from_file_location("sidelight_api_pages", DOCS / "api_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


api_pages = _api_pages()


def test_every_public_name_stands_on_one_page(tmp_path: Path) -> None:
    api_pages.write(tmp_path)
    text = "\n".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    for name in set(sl.__all__) - {"__version__"}:
        assert text.count(f":: sidelight.{name}\n") == 1, name


def test_a_public_name_without_a_page_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sl, "__all__", [*sl.__all__, "Forgotten"])
    with pytest.raises(ValueError, match="see to Forgotten"):
        api_pages.pages()


def test_a_page_with_a_name_that_is_not_public_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_pages, "PAGES", {**api_pages.PAGES, "More": ("Quantiles", "Lost")})
    with pytest.raises(ValueError, match="see to Lost, Quantiles"):
        api_pages.pages()


def test_plain_docstrings_become_restructured_text() -> None:
    lines = ["Guarantee: with |x| and", "`a*b` more.", "", "    Accuracy: good.", "", ">>> 2 * 3", "6 * 1"]
    api_pages.as_restructured_text(lines)
    assert lines == [
        *("Guarantee:", "    with \\|x\\| and", "    `a*b` more.", "", "    Accuracy:", "        good.", ""),
        *(">>> 2 * 3", "6 * 1"),
    ]
