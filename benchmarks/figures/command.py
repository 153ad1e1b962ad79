"""The command line that all figures share: measure, print, draw, and say whether the trends show."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures.panel import Panel, Trend
from benchmarks.figures.picture import draw

HONEST = (
    "ε is what is spent; the code of the published figures may spend up to 2.75 times the ε it names (nine levels)."
)


@dataclass(frozen=True)
class Size:
    """How much to run: trials of one release, steps of a sequence, and whether the grids are the paper's."""

    trials: int
    steps: int = 0
    full: bool = False


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure: what it measures, what must show, and how large it is, quick and full."""

    number: int | str
    title: str
    note: str
    measure: Callable[[Size], list[Panel]]
    trends: Callable[[list[Panel], Size], list[Trend]]
    quick: Size
    paper: Size
    name: str = ""  # of the module and the picture; figure1 and so on where it is empty
    remark: str = HONEST

    def run(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command; return 1 when a trend does not show."""
        name = self.name or f"figure{self.number}"
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks.figures.{name}", description=self.title)
        parser.add_argument("--output", type=Path, default=Path("build/figures"), help="folder of the picture")
        parser.add_argument("--full", action="store_true", help="the paper's size; takes long")
        parser.add_argument("--trials", type=int, help="how many data sets (figures of one release) to average")
        parser.add_argument("--steps", type=int, help="how many steps (figures of a sequence), at most")
        given = parser.parse_args(arguments)
        size = self.paper if given.full else self.quick
        size = Size(given.trials or size.trials, given.steps or size.steps, given.full)
        start = time.process_time()
        panels = self.measure(size)
        path = given.output / f"{name}.svg"
        draw(panels, path, title=f"Figure {self.number}. {self.title}", note=self.note)
        print(f"Figure {self.number}. {self.title}\n{self.note}\n{self.remark}\n")
        print("\n\n".join(panel.table() for panel in panels) + "\n")
        trends = self.trends(panels, size)
        for trend in trends:
            print(trend.line())
        print(f"\n{path} ({time.process_time() - start:.0f} s of processor time)", flush=True)
        return 0 if all(trend.shows or not trend.binding for trend in trends) else 1

    def main(self) -> None:
        """Run as a program."""
        sys.exit(self.run())
