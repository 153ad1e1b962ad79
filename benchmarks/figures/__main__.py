"""`make figures`: every figure at its quick size. Exit status 1 when a trend does not show."""

import sys

from benchmarks.figures import figure1, figure2, figure3, figure4, figure5, figure6


def main() -> int:
    """Run them in order; arguments are those of each figure."""
    figures = [module.FIGURE for module in (figure1, figure2, figure3, figure4, figure5, figure6)]
    return max([figure.run() for figure in figures])


if __name__ == "__main__":
    sys.exit(main())
