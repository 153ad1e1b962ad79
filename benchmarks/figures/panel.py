"""What a figure is made of: panels of curves, and the trends that must show in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Curve:
    """Mean error of one method at each place, with its standard error where several trials give one."""

    mean: np.ndarray
    deviation: np.ndarray | None = None

    @classmethod
    def of(cls, errors: np.ndarray) -> Curve:
        """Average errors of shape (places, trials)."""
        trials = errors.shape[1]
        spread = errors.std(axis=1, ddof=1) / np.sqrt(trials) if trials > 1 else None
        return cls(errors.mean(axis=1), spread)


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `data` says what was measured on, and begins with STAND-IN where that is not the paper's."""

    title: str
    data: str
    x_label: str
    x: np.ndarray
    curves: Mapping[str, Curve]
    y_label: str = "average gap (ranks)"
    log_x: bool = False
    log_y: bool = True
    from_zero: bool = False  # whether the axis of a linear panel begins at 0
    rows: Sequence[int] | None = None  # which places the table shows; all of them when None

    def at(self, name: str, x: float) -> float:
        """Return the mean of a curve at the place nearest to x."""
        return float(self.curves[name].mean[int(np.argmin(np.abs(self.x - x)))])

    def between(self, name: str, low: float, high: float) -> float:
        """Return the mean of a curve over the places in [low, high]."""
        inside = (self.x >= low) & (self.x <= high)
        return float(self.curves[name].mean[inside].mean())

    def table(self) -> str:
        """Return the curves as text, one row a place."""
        lines = [
            f"{self.title}  [{self.data}]",
            f"{self.x_label:>28s}" + "".join(f"{name:>{_width(name)}s}" for name in self.curves),
        ]
        for row in range(len(self.x)) if self.rows is None else self.rows:
            cells = "".join(f"{_cell(curve, row):>{_width(name)}s}" for name, curve in self.curves.items())
            lines.append(f"{self.x[row]:28.4g}{cells}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Trend:
    """Something that the figure must show: in words, with the numbers, and whether it does.

    A trend of the paper's data that a stand-in need not have is not binding: it is printed, and does not fail the run.
    """

    words: str
    numbers: str
    shows: bool
    binding: bool = True

    def line(self) -> str:
        """Return the printed line."""
        verdict = "shows " if self.shows else "ABSENT" if self.binding else "absent (of the paper's data, not binding)"
        return f"{verdict}  {self.words}: {self.numbers}"


def _width(name: str) -> int:
    return max(14, len(name) + 2)


def _cell(curve: Curve, row: int) -> str:
    value = f"{curve.mean[row]:.3g}" if curve.mean[row] < 1000 else f"{curve.mean[row]:.0f}"
    return value if curve.deviation is None else f"{value} ±{curve.deviation[row]:.2g}"
