"""The measured table of `docs/explanation/engines.md`: every target of the group `engines`, in words.

`python -m benchmarks.engines_page` prints it, and `--write` writes it into the page. What cannot be measured here says
why, and one script that fails does not hide the others' numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from benchmarks import measuring
from benchmarks.groups.engines import TARGETS
from benchmarks.target import Target
from benchmarks.targets import runs_of

PAGE = measuring.written(Path(__file__).parent.parent / "docs" / "explanation" / "engines.md")
BEGIN, END = "<!-- written by benchmarks.engines_page -->", "<!-- end of what is written -->"
#: What a figure is, in words.
WORDS: Mapping[str, str] = {
    "deciles": "nine deciles of 1e7 rows of Parquet, by DuckDB's own",
    "deciles_exponent": "how its time grows from 1e6 to 1e7 rows (exponent)",
    "deciles_of_folders": "the same rows in 50 folders, by one file",
    "counts": "counts by three columns of 1e7 rows, by DuckDB's own",
    "counts_of_folders": "the same rows in 50 folders, by one file",
    "gigabytes": "peak memory of all of these, DuckDB's own included (GB)",
    "deciles_1e8": "nine deciles of 1e8 rows of Parquet, of hundredths, by DuckDB's own",
    "exponent_1e8": "how its time grows from 1e6 to 1e8 rows (exponent)",
    "counts_1e8": "counts by three columns of 1e8 rows, by DuckDB's own",
    "gigabytes_1e8": "peak memory of both (GB)",
    "moments": "second moments of 20 columns of 1e7 rows, by NumPy's",
    "moments_wall": "its seconds by processor seconds (0.5: two cores all the time)",
    "moments_gigabytes": "its peak memory (GB)",
    "csv": "one column of 2e6 rows of CSV, by DuckDB's own",
    "persons": "nine deciles of persons, at most 5 of 1e7 rows each, by DuckDB's cap and quantile",
    "persons_gigabytes": "its peak memory (GB)",
    "logistic": "logistic fit of 20 columns and a text target, 1e6 rows of Parquet, by pandas and scikit-learn",
    "logistic_in_memory": "the same with all rows in memory as NumPy's own texts and floats, by scikit-learn",
    "logistic_1e7": "the same of 1e7 rows of Parquet, by pandas and scikit-learn",
    "logistic_gigabytes": "its peak memory (GB)",
    "spark_deciles": "nine deciles of 1e7 rows on Spark (seconds, local mode), by Spark SQL's percentiles",
    "spark_counts": "counts by three columns of 1e7 rows on Spark (seconds), by Spark SQL's",
    "spark_moments": "second moments of 20 columns of 1e7 rows on Spark (seconds), by Spark SQL's sums",
}


def row(target: Target, value: float) -> str:
    """Return the line of a target: what it is, what was measured, and what was wanted."""
    measured = f"not measured: {target.skipped}" if target.skipped else f"{value:.2f}"
    missed = "" if target.skipped or target.line("", value)[1] else ": missed"
    return f"| {WORDS[target.figure]} | {measured}{missed} | {target.limit:g} |"


def written(page: str, table: str) -> str:
    """Return the page with another table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    """Measure all targets, print the table, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    write = parser.parse_args().write
    lines = ["| | measured | wanted |", "| --- | --- | --- |"]
    with ExitStack() as stack:
        figures = runs_of("engines", (), stack)
        for target in TARGETS:
            found = {} if target.skipped else figures[target.script]()
            lines.append(row(target, found.get(target.figure, float("nan"))))
            print(lines[-1], flush=True)
    if write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), "\n".join(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
