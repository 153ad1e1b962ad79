"""The figures of linear models: the privacy figure whole, the accuracy figure on small generated sets."""

from __future__ import annotations

import numpy as np
from benchmarks.figures import linear_accuracy, linear_privacy, picture
from benchmarks.linear_sets import Labelled

from benchmarks import dp_sgd, linear_sets


def test_the_privacy_figure_shows_the_known_numbers(tmp_path, capsys):
    assert linear_privacy.FIGURE.run(["--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "2.057964 (2012), 0.810872 (thesis), 0.774312 (ours), 0.725522 (Gaussian)" in printed
    assert "1.008375 (2012), 0.581480 (thesis), 0.522991 (ours), 0.340669 (Gaussian)" in printed
    assert "ABSENT" not in printed
    assert (tmp_path / "linear_privacy.svg").read_text().rstrip().endswith("</svg>")


def test_the_accuracy_figure_prints_and_draws(tmp_path, capsys, monkeypatch):
    def small() -> Labelled:
        rows = linear_sets.unit(np.random.default_rng(6).standard_normal((700, 3)))
        return Labelled("Synthetic-L", rows, (rows[:, 0] > 0).astype(int), "STAND-IN: generated")

    monkeypatch.setattr(linear_accuracy, "SETS", (small,))
    monkeypatch.setattr(dp_sgd, "noise_multiplier", lambda rows, **_: 1.0)  # the search is another test's, and slow
    assert linear_accuracy.FIGURE.run(["--output", str(tmp_path), "--trials", "1"]) == 0  # a stand-in binds nothing
    printed = capsys.readouterr().out
    assert "above honest DP-SGD" in printed
    assert (tmp_path / "linear_accuracy.svg").exists()


def test_methods_of_the_linear_panels_look_different():
    for names in (
        (
            linear_privacy.KIFER,
            linear_privacy.RENYI,
            linear_privacy.THESIS,
            linear_privacy.OURS,
            linear_privacy.GAUSSIAN,
        ),
        ("sidelight", "DP-SGD, honest", "DP-SGD, dishonest", "not private"),
    ):
        assert len({picture.STYLES[name][:2] for name in names}) == len(names)
