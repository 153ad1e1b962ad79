"""The pictures of the figures: one look for all, one colour and line for each method wherever it appears."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.figures.panel import Panel

GREY, OCHRE, BROWN, BLUE, SKY, GREEN, PURPLE, LILAC, RED, INK = (
    "#8b97a3",
    "#d08c1d",
    "#8a5a2b",
    "#1f5f99",
    "#7db3d8",
    "#1f7a55",
    "#74428a",
    "#b894c9",
    "#c0392b",
    "#25303b",
)
#: Colour, line and whether the method is one of ours (drawn stronger).
STYLES: dict[str, tuple[str, str, bool]] = {
    "Uniform": (GREY, "-", False),
    "Cauchy": (OCHRE, "-", False),
    "half-Cauchy": (BROWN, "-", False),
    "public quantiles": (INK, "--", False),
    "public Cauchy": (OCHRE, "-", False),
    "PubFit": (SKY, "-", False),
    "PubFit robust": (BLUE, "-", False),
    "PubFit, our hedge": (GREEN, "-", True),
    "PubPrev": (LILAC, "-", False),
    "PubPrev robust": (PURPLE, "-", False),
    "PubProx": (SKY, "-", False),
    "PubProx robust": (BLUE, "-", False),
    "PubProx, our learner": (GREEN, "-", True),
    "DP-FTRL robust": (RED, "-", False),
    "not private: learns from records": (INK, ":", False),
    "binary": (BLUE, "-", False),
    "K-ary, edge": (RED, "-", False),
    "K-ary, conditional": (OCHRE, "-", False),
    "binary, exact score (ours)": (GREEN, "-", True),
    "Kifer et al. 2012": (OCHRE, "-", False),
    "thesis, Rényi": (SKY, "-", False),
    "thesis, hockey stick": (BLUE, "-", False),
    "our bound": (GREEN, "-", True),
    "Gaussian mechanism (floor)": (INK, "--", False),
    "sidelight": (GREEN, "-", True),
    "DP-SGD, honest": (RED, "-", False),
    "DP-SGD, dishonest": (OCHRE, "-", False),
    "not private": (INK, ":", False),
    "exact loss (never published)": (INK, ":", False),
    "free bound": (GREEN, "-", True),
    "exact loss, paid fit": (OCHRE, ":", False),
    "paid bound": (OCHRE, "-", False),
    "guarantee": (RED, "--", False),
}


def draw(panels: Sequence[Panel], path: Path, *, title: str, note: str, columns: int = 2) -> None:
    """Write the panels as one SVG, with one legend for all."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"font.family": "sans-serif", "svg.hashsalt": "sidelight", "svg.fonttype": "path", "axes.titlesize": 11}
    )
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5.2 * columns, 3.5 * rows + 0.9), squeeze=False)
    for axis in axes.ravel()[len(panels) :]:
        axis.set_visible(False)
    handles: dict[str, object] = {}
    for axis, panel in zip(axes.ravel(), panels, strict=False):
        for name, line in _panel(axis, panel).items():
            handles.setdefault(name, line)
    height = figure.get_size_inches()[1]
    bottom = (0.12 + 0.2 * -(-len(handles) // 4)) / height
    figure.suptitle(title, x=0.015, y=1 - 0.1 / height, ha="left", va="top", fontsize=13, fontweight="bold", color=INK)
    figure.text(0.015, 1 - 0.42 / height, note, ha="left", va="top", fontsize=9, color="#52606d")
    figure.legend(
        list(handles.values()), list(handles), loc="lower center", ncols=4, frameon=False, fontsize=9, handlelength=2.2
    )
    figure.tight_layout(rect=(0, bottom, 1, 1 - 0.4 / height), h_pad=1.6, w_pad=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, facecolor="white", metadata={"Date": None})
    plt.close(figure)


def _panel(axis, panel: Panel) -> dict[str, object]:  # type: ignore[no-untyped-def]
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    lines = {}
    many = len(panel.x) > 40
    for name, curve in panel.curves.items():
        colour, dash, ours = STYLES[name]
        (lines[name],) = axis.plot(
            panel.x,
            curve.mean,
            dash,
            color=colour,
            linewidth=2.4 if ours else 1.6,
            marker=None if many else "o",
            markersize=3.4,
            zorder=4 if dash != "-" else 3 if ours else 2,  # dashed and dotted lines lie on top
        )
        if curve.deviation is not None:
            low = np.maximum(curve.mean - curve.deviation, curve.mean / 2)
            axis.fill_between(panel.x, low, curve.mean + curve.deviation, color=colour, alpha=0.14, linewidth=0)
    if panel.log_x:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axis.xaxis.set_minor_formatter(NullFormatter())
    if panel.log_y:
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high < 1e4 * low else LogLocator(numticks=8))
        axis.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        axis.yaxis.set_minor_formatter(NullFormatter())
    elif panel.from_zero:
        axis.set_ylim(bottom=0)
    stand_in = panel.data.startswith("STAND-IN")
    axis.set_title(panel.title, loc="left", pad=20, color=INK)
    axis.text(
        0, 1.03, panel.data, transform=axis.transAxes, fontsize=8.5, color=RED if stand_in else "#52606d", va="bottom"
    )
    axis.set_xlabel(panel.x_label, fontsize=9.5)
    axis.set_ylabel(panel.y_label, fontsize=9.5)
    axis.grid(axis="y", color="#e4e7eb", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=9)
    return lines
