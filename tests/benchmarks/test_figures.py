"""The scripts of the figures run from end to end at a tiny size. Whether trends show needs more trials than this."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.figures import figure1, figure2, figure3, figure4, figure5, figure6, picture
from benchmarks.figures.command import Figure, Size
from benchmarks.figures.panel import Curve, Panel, Trend
from benchmarks.figures.releases import Records
from benchmarks.figures.streams import moving, synthetic

import sidelight as sl
from sidelight.predictions import Laplace, Uniform
from sidelight.quantiles import nonprivate_gap, quantile_tree
from sidelight.testing import seeded_release


@pytest.mark.parametrize(
    ("module", "size"),
    [
        pytest.param(figure1, ("--trials", "1"), marks=pytest.mark.slow),
        pytest.param(figure2, ("--trials", "2"), marks=pytest.mark.slow),
        (figure3, ("--trials", "2")),
        pytest.param(figure4, ("--steps", "60"), marks=pytest.mark.slow),
        pytest.param(figure5, ("--steps", "20"), marks=pytest.mark.slow),
        (figure6, ("--steps", "6")),
    ],
)
def test_a_figure_prints_its_table_and_writes_its_picture(module, size, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SIDELIGHT_DATA", str(tmp_path / "nowhere"))  # the stand-ins are generated, and say so
    assert module.FIGURE.run([*size, "--output", str(tmp_path)]) in (0, 1)
    printed = capsys.readouterr().out
    assert "STAND-IN: generated" in printed
    assert "shows   " in printed or "ABSENT  " in printed
    text = (tmp_path / f"figure{module.FIGURE.number}.svg").read_text()
    assert text.count("<svg") == 1
    assert text.rstrip().endswith("</svg>")


@pytest.mark.parametrize(("shows", "status"), [(True, 0), (False, 1)])
def test_the_exit_status_says_whether_the_trends_show(shows, status, tmp_path, capsys):
    panel = Panel("title", "data", "x", np.array([1.0, 2.0]), {"Uniform": Curve(np.array([3.0, 1.0]))})
    figure = Figure(
        number=9,
        title="A test",
        note="",
        measure=lambda size: [panel],
        trends=lambda panels, size: [
            Trend("falls", "3 to 1", False, binding=False),
            Trend("other", f"{size.trials}", shows),
        ],
        quick=Size(trials=7),
        paper=Size(trials=40),
    )
    assert figure.run(["--output", str(tmp_path)]) == status
    assert ("ABSENT  other: 7" in capsys.readouterr().out) == (not shows)


def test_dithered_records_are_released_on_their_step():
    """A prior centred on 40 must release 40: half a step of bias would halve that."""
    tree = quantile_tree([0.5], epsilon="0.0001")
    released = [
        Records.of(np.full(50, 40.0), step=1, seed=(7, t)).release(tree, Laplace(40, 0.5))[0][0] for t in range(200)
    ]
    share = np.mean(np.array(released) == 40)  # 1 - exp(-1) = 0.632, standard error 0.034
    assert 0.43 < share < 0.83
    assert abs(np.mean(released) - 40) < 0.3


def test_simulated_releases_have_the_error_of_real_ones_on_tied_data():
    """The control: without the dither ties bias the tree, and the error is several times as large."""
    rng, levels, trials = np.random.default_rng(9), [i / 10 for i in range(1, 10)], 40
    tree, prior = quantile_tree(levels, epsilon=1), Uniform(0, 120)
    query = sl.Quantiles(levels, epsilon=1, granularity=1, prediction=prior)
    draws = [np.rint(rng.gamma(6, 6.4, 1000)) for _ in range(trials)]
    real = [nonprivate_gap(x, levels, seeded_release(query, x, seed=t).value).mean() for t, x in enumerate(draws)]
    simulated, undithered = (
        np.array([Records.of(x, step=step, seed=(9, t)).release(tree, prior)[1].mean() for t, x in enumerate(draws)])
        for step in (1, None)
    )
    error = np.sqrt((np.var(real) + simulated.var()) / trials)
    assert abs(np.mean(real) - simulated.mean()) < 4 * error
    assert undithered.mean() > 2 * simulated.mean()


def test_all_methods_see_the_same_random_numbers():
    tree = quantile_tree([0.25, 0.75], epsilon=1)
    records = Records.of(np.arange(100.0), step=1, seed=(8, 0))
    first, second = (records.release(tree, Uniform(0, 200)) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_the_synthetic_sequence_moves_along_a_linear_map():
    stream = synthetic(60, count=1, rate=0, seed=1)
    medians = [np.median(step.codes) for step in stream.steps]
    design = np.column_stack([stream.features, np.ones(60)])
    _, squares, *_ = np.linalg.lstsq(design, medians, rcond=None)
    assert squares[0] / 60 < 0.02 * np.var(medians)
    assert {len(step.codes) for step in stream.steps} == {100}


def test_learning_from_releases_beats_never_learning_where_features_say_all():
    stream = synthetic(250, count=1, rate=0, seed=2)
    tree = quantile_tree(stream.levels, epsilon="0.1")
    learned, static = stream.with_learner(tree, stream.proximate()), stream.with_static(tree, stream.bounds)
    assert learned[50:].mean() < 0.9 * static[50:].mean()


def test_a_moving_average_names_the_end_of_its_window():
    x, curves = moving({"Uniform": np.arange(10.0)}, 4, every=2)
    assert x.tolist() == [4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert curves["Uniform"].mean[:2].tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    "names",
    [
        ("public quantiles", *figure2.PRIVATE),
        (figure1.BINARY, figure1.EDGE, figure1.CONDITIONAL, figure1.OURS),
        (*figure5.STATIC, *figure5.LEARNED),
        ("Uniform", "PubPrev", "PubPrev robust", "PubProx", "PubProx robust", "PubProx, our learner"),
    ],
)
def test_methods_of_one_panel_look_different(names):
    assert len({picture.STYLES[name][:2] for name in names}) == len(names)
