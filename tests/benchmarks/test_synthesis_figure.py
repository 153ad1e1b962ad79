"""The figure of synthetic tables runs from end to end on a tiny table, and its trends can fail."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.figures import synthesis_predictions as figure
from benchmarks.figures.command import Size
from benchmarks.figures.panel import Curve, Panel
from benchmarks.synthesis_data import Case


def tiny() -> Case:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 1100)
    rows = np.stack([first, (first + (rng.random(1100) < 0.1)) % 3, rng.integers(0, 2, 1100)], axis=1)
    return Case(("a", "b", "c"), (3, 3, 2), rows[:800], rows[800:])


def test_it_prints_its_tables_and_writes_its_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SIDELIGHT_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(figure, "adult", tiny)
    monkeypatch.setattr(figure, "QUICK_ROWS", (50,))
    assert figure.FIGURE.run(["--trials", "1", "--output", str(tmp_path)]) in (0, 1)
    printed = capsys.readouterr().out
    assert "STAND-IN: generated" in printed
    for name in (figure.ALONE, figure.PUBLIC, figure.WRONG, figure.ITSELF, figure.PRINTED):
        assert name in printed
    assert (tmp_path / "synthesis_predictions.svg").read_text().rstrip().endswith("</svg>")


@pytest.mark.parametrize(
    ("change", "absent"),
    [
        ({}, set()),
        ({figure.PUBLIC: [0.5, 0.01]}, {0, 4}),
        ({figure.WRONG: [0.5, 0.02]}, {1}),
        ({figure.PRINTED: [0.5, 0.04]}, {2}),
        ({figure.ALONE: [0.5, 0.15], figure.WRONG: [0.5, 0.15]}, {2, 3}),
    ],
)
def test_a_trend_that_does_not_show_is_found(change, absent):
    usual = {
        figure.ALONE: [0.5, 0.01],
        figure.PUBLIC: [0.1, 0.01],
        figure.WRONG: [0.5, 0.01],
        figure.PRINTED: [0.6, 0.5],
    }
    curves = {name: Curve(np.array(values)) for name, values in {**usual, **change}.items()}
    price = Panel("", "", "", np.array([0.1, 1.0]), curves)
    rows = Panel("", "", "", np.array([10.0, 100.0]), {name: Curve(each.mean[::-1]) for name, each in curves.items()})
    found = figure.trends([price, rows], Size(trials=1))
    assert {place for place, trend in enumerate(found) if not trend.shows} == absent
