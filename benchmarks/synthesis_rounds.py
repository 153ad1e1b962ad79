"""The error of a synthetic table of Adult by its number of rounds, at (1, 1e-6), without a prediction."""

from __future__ import annotations

from benchmarks.measuring import print_figures, sized
from benchmarks.synthesis import mean_error
from benchmarks.synthesis_data import adult

ROUNDS, RUNS = sized(((7, 14, 21), 2), ((2,), 1))


def measure() -> dict[str, float]:
    """Return the mean error by rounds."""
    case = adult()
    return {f"error_{rounds}": mean_error(case, epsilon=1, delta="1e-6", rounds=rounds, runs=RUNS) for rounds in ROUNDS}


def main() -> None:
    """Print all figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
