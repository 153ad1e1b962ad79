"""Tables 4.1 and 4.2 of the thesis: test accuracy on Synthetic-L and Adult, compared with the printed numbers.

`python -m benchmarks.figures.linear_tables`, on two splits; `--full` for the thesis's ten.
"""

from __future__ import annotations

import argparse

from benchmarks import linear_models, linear_sets
from benchmarks.measuring import sized


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="ten splits, as in the thesis; minutes")
    splits = linear_models.SPLITS if parser.parse_args().full else 2
    for number, make in (("4.1", linear_sets.synthetic_low), ("4.2", linear_sets.adult))[: sized(None, 1)]:
        data = make()
        print(
            f"Table {number}. " + linear_models.text(data, linear_models.table(data, splits=splits, old=True)) + "\n",
            flush=True,
        )


if __name__ == "__main__":
    main()
