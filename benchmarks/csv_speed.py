"""How fast are CSV files looked through and read, as a ratio to DuckDB's own reader (with all columns declared as
text)?

Three files of the same people: plain; every field in quotation marks; with a comment of several lines. The
best of several runs counts, in seconds and in processor seconds. "Scan" is the pass before the first charge, "read" the
pass that fills the columns of two numbers, as a release does it. Peak memory is that of a fresh process that does both
on a file of `--gigabytes`.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from benchmarks.measuring import peak_gigabytes, processor_time, sized, timed
from sidelight.records import Number, Table
from sidelight.records.engines.csv import scan
from sidelight.records.rows import Wanted

ROWS = sized(1_000_000, 1_000)
REPEATS = sized(4, 1)
NUMBERS = ("age", "income")
WORDS = np.array(["came, and", "left", 'said "ow"', "line\nbreak", "the patient"])


def write_files(folder: Path, rows: int) -> dict[str, Path]:
    """Write the three files."""
    rng = np.random.default_rng(20261115)
    frame = pd.DataFrame(
        {
            "id": np.arange(rows),
            "age": rng.integers(0, 100, rows),
            "income": rng.lognormal(10, 1, rows).round(2),
            "sex": rng.choice(["F", "M"], rows),
            "code": rng.integers(0, 10**9, rows),
        }
    )
    paths = {name: folder / f"{name}.csv" for name in ("plain", "quoted", "comments")}
    frame.to_csv(paths["plain"], index=False)
    frame.to_csv(paths["quoted"], index=False, quoting=csv.QUOTE_ALL)
    comments = [" ".join(WORDS[chosen]) for chosen in rng.integers(0, WORDS.size, (1000, 4))]
    frame.assign(comment=[comments[number % 1000] for number in range(rows)]).to_csv(paths["comments"], index=False)
    return paths


def read(path: Path) -> int:
    """Read the two numbers of all records; return how many there are. A first reading looks the file through, too."""
    table = Table(path, schema=[Number(name) for name in NUMBERS])
    return sum(batch.length for batch in table.rows.batches(Wanted(numbers=NUMBERS)))


def read_with_duckdb(path: Path) -> int:
    """Let DuckDB do the same with its own reader."""
    casts = ", ".join(f"sum(TRY_CAST({name} AS DOUBLE))" for name in NUMBERS)
    found = duckdb.connect().sql(f"SELECT count(*), {casts} FROM read_csv('{path}', all_varchar=true)").fetchall()
    return int(found[0][0])


def main() -> None:
    """Print a line for each file; with `--gigabytes`, peak memory as well."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--gigabytes", type=float, default=0.0)
    parser.add_argument("--peak-of", type=Path)
    given = parser.parse_args(sys.argv[1:] if __name__ == "__main__" else [])
    if given.peak_of:
        count = read(given.peak_of)
        print(f"{count} {peak_gigabytes():.3f}")
        return
    with tempfile.TemporaryDirectory() as folder:
        print(
            f"{'file':10} {'scan MB/s':>10} {'scan + read':>12} {'rows/s':>10} {'x DuckDB':>9} "
            f"{'x DuckDB, processor':>20}"
        )
        for name, path in write_files(Path(folder), given.rows).items():
            megabytes = path.stat().st_size / 1e6
            jobs = {"scan": lambda path=path: scan(str(path), ","), "ours": lambda path=path: read(path)}
            jobs["duckdb"] = lambda path=path: read_with_duckdb(path)
            walls = {job: min(timed(jobs[job]) for _ in range(REPEATS)) for job in jobs}
            cores = {job: min(processor_time(jobs[job]) for _ in range(REPEATS)) for job in jobs}
            ratio, cpu_ratio = walls["ours"] / walls["duckdb"], cores["ours"] / cores["duckdb"]
            print(
                f"{name:10} {megabytes / walls['scan']:10.0f} {megabytes / walls['ours']:7.0f} MB/s "
                f"{given.rows / walls['ours']:10.3g} {ratio:9.2f} {cpu_ratio:20.2f}"
            )
        if given.gigabytes:
            print(_peak(Path(folder), given.gigabytes))


def _peak(folder: Path, gigabytes: float) -> str:
    path = folder / "large.csv"
    content = (folder / "comments.csv").read_bytes()
    header, _, body = content.partition(b"\n")
    with path.open("wb") as file:
        file.write(header + b"\n")
        while file.tell() < gigabytes * 1e9:
            file.write(body)
    command = [sys.executable, "-m", "benchmarks.csv_speed", "--peak-of", str(path)]
    count, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return f"a file of {path.stat().st_size / 1e9:.1f} GB, {int(count):,} records: peak memory {peak} GB"


if __name__ == "__main__":
    main()
