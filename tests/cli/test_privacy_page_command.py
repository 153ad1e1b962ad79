"""`sidelight privacy-page`: writes the page, or refuses with the name of the field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight.privacy_page.page import privacy_page

Run = Callable[..., Any]

REPORT: dict[str, Any] = {
    "schema": "privacy-report/1",
    "mechanism": "objective-perturbation",
    "neighbours": "add-or-remove-one-row",
    "guarantee": {"epsilon": 1.0, "delta": 1e-5},
    "loss": {"name": "log-cosh", "kappa": 0.25},
    "encoding": {
        "features": [{"name": "age", "lo": 0.0, "hi": 100.0}],
        "row_policy": "clip",
        "data_norm": 1.0,
        "intercept_value": 1.0,
        "label": {"lo": 0.0, "hi": 10.0},
    },
    "theta": [0.5, -1.1],
    "lambda": 2.0,
    "sigma": 5.0,
    "mu_out": 0.005,
    "slack": 0.001,
    "rho": 1e-6,
    "q": 5.1035540029,
    "scope": "one-person",
    "maximum": 1.5,
    "data_dependent": None,
}


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("report.json").write_text(json.dumps(REPORT), encoding="utf-8")
    return Path("report.json")


def test_the_page_is_written(sidelight: Run, report: Path) -> None:
    result = sidelight("privacy-page", report)
    assert result.status == 0, result.err
    assert result.out.startswith("Privacy page: privacy-page.html (")
    assert Path("privacy-page.html").read_text(encoding="utf-8") == privacy_page(REPORT)
    assert sidelight("privacy-page", report, "-o", "mine.html").status == 0
    assert Path("mine.html").read_bytes() == Path("privacy-page.html").read_bytes()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sigma": None}, "field sigma"),
        ({"schema": "privacy-report/2"}, 'field schema: this version reads "privacy-report/1"'),
        ({"seed": 7}, "field seed: unknown"),
        ({"lambda": -1.0}, "field lambda"),
        ({"encoding": REPORT["encoding"] | {"n": 3}}, "field encoding.n: unknown"),
        ({"theta": [0.5]}, "field theta: must have 2 entries"),
        ({"guarantee": {"epsilon": 1.0}}, "field guarantee.delta: missing"),
    ],
)
def test_another_report_is_refused_with_the_field(
    sidelight: Run, report: Path, change: dict[str, Any], field: str
) -> None:
    report.write_text(json.dumps(REPORT | change), encoding="utf-8")
    result = sidelight("privacy-page", report)
    assert result.status == 2
    assert field in result.err
    assert result.err.startswith("error: 'report.json' is not a valid privacy report: ")
    assert not Path("privacy-page.html").exists()


@pytest.mark.parametrize("missing", sorted(REPORT))
def test_every_field_is_needed(sidelight: Run, report: Path, missing: str) -> None:
    report.write_text(json.dumps({key: value for key, value in REPORT.items() if key != missing}), encoding="utf-8")
    result = sidelight("privacy-page", report)
    assert result.status == 2
    assert f"field {missing}: missing" in result.err


def test_files_that_cannot_be_read_or_written_are_mistakes(sidelight: Run, report: Path) -> None:
    assert "cannot be read" in sidelight("privacy-page", "no.json").err
    assert sidelight("privacy-page", "no.json").status == 2
    unwritable = sidelight("privacy-page", report, "-o", Path("no") / "page.html")
    assert unwritable.status == 2
    assert "does not exist" in unwritable.err
    assert "is a directory" in sidelight("privacy-page", report, "-o", Path()).err
    report.write_bytes(b"\xff\xfe\x00")
    assert sidelight("privacy-page", report).status == 2
    report.write_text("[" * 100_000, encoding="utf-8")
    deep = sidelight("privacy-page", report)
    assert deep.status == 2
    assert deep.err.count("\n") == 1
