"""Without DuckDB and pyarrow, the extra `files`: what works, what is refused before a charge, and in which words."""

from __future__ import annotations

from pathlib import Path
from pkgutil import walk_packages

import pytest

import sidelight as sl
from benchmarks import install_size

FILES = {"duckdb", "pyarrow"}
SAYS = 'pip install "sidelight[files]"'
#: The rooms of DuckDB and Arrow: whatever else imports them at its top would take everything else with it.
_OF_FILES = {"arrow", "arrow_cells", "csv", "csv_records", "declared_stream", "duckdb", "duckdb_sources"} | {
    "parquet",
    "parquet_files",
    "postgres",
    "spark",
}
_IMPORTS = """
from importlib import import_module
for name in sys.argv[1:]:
    try:
        import_module(name)
    except ImportError as error:
        print(name)
"""
_SETTING = """
import os, numpy as np, sidelight as sl
def said(action):
    try:
        action()
        print("nothing")
    except sl.errors.MissingPackageError as error:
        print(error)
schema = [sl.Number("age", lower=0, upper=120, granularity=1), sl.Category("job", ["cook", "nurse"])]
rows = {"age": [31, 47] * 50, "job": ["cook", "nurse"] * 50}
"""


@pytest.mark.quick_cases(1)
def test_every_module_is_imported_without_them_except_the_engines_that_are_theirs(tmp_path: Path) -> None:
    names = [each.name for each in walk_packages(sl.__path__, "sidelight.") if not each.name.endswith("__main__")]
    ran = install_size.runs(_IMPORTS, FILES, *names, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stdout.split()) == {f"sidelight.records.engines.{name}" for name in _OF_FILES}


@pytest.mark.quick_cases(1)
def test_the_first_section_runs_where_nothing_optional_is_installed() -> None:
    blocked = install_size.optional(install_size.declared()[0])
    assert blocked >= {*FILES, "sklearn", "matplotlib", "pandas", "polars", "psycopg", "httpx"}
    assert not blocked & {"sidelight", "numpy", "scipy", "dp_accounting", "sqlalchemy", "typer"}
    assert install_size.failed_examples(blocked) == []


def test_the_first_section_is_seen_to_fail() -> None:
    (said,) = install_size.failed_examples({"numpy"})
    assert "No module named 'numpy'" in said


def test_the_section_about_a_file_needs_the_extra_that_it_installs_and_no_other() -> None:
    requirements, extras = install_size.declared()
    assert 'pip install ".[files]"' in install_size.section(install_size.OWN_FILE)
    assert install_size.failed_commands(install_size.optional([*requirements, *extras["files"]])) == []
    failed = install_size.failed_commands({"pyarrow"})
    assert failed[0].startswith("init: error: this source needs pyarrow, which is not installed; " + SAYS)


def test_what_is_counted_is_what_is_declared() -> None:
    requirements, extras = install_size.declared()
    base, files = install_size.closure(requirements), install_size.closure(extras["files"])
    assert set(files) >= FILES
    assert not FILES & set(base)
    assert {"numpy", "scipy", "sqlalchemy", "pydantic-core"} <= set(base)
    assert min(base["numpy"], base["scipy"], files["duckdb"], files["pyarrow"]) > 10
    with pytest.raises(ValueError, match="no section 'Nowhere'"):
        install_size.section("Nowhere")


_REFUSED = (
    "sl.Table('v.csv', schema=schema)",
    "sl.Table('parts', schema=schema)",
    "sl.Table('postgresql://user@host/database', table='people', schema=schema)",
    "sl.Synthetic(synthetic).table(rows=3, library='pyarrow')",
    "sl.Synthetic(synthetic).write('rows.csv')",
    "write_table(pd.DataFrame(rows), 'rows.parquet', ending='.parquet')",
    "counts.value.to_arrow()",
    "counts.value.to_parquet('counts.parquet')",
    "sl.Count(epsilon=1).release(sl.Table(pl.LazyFrame({'age': ['1,5']}), schema=[read]))",
)


def test_one_message_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("age,job\n31,cook\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "v.parquet").write_text("PAR1")
    setting = f"""{_SETTING}
import pandas as pd, polars as pl
from sidelight.synthesis.synthetic_rows import write_table
read = sl.Number("age", lower=0, upper=120, decimal=",")
people = sl.Table(rows, schema=schema)
counts = sl.Count(by="job", epsilon=1).release(people)
synthetic = sl.SyntheticTable(sl.marginals(1), bins={{"age": 4}}, epsilon=1).release(people)
"""
    ran = install_size.runs(setting + "".join(f"said(lambda: {each})\n" for each in _REFUSED), FILES, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()
    assert len(said) == len(_REFUSED)
    assert [line for line in said if SAYS not in line] == []
    assert {each.name for each in tmp_path.iterdir()} == {"v.csv", "parts"}


def test_a_plan_on_a_file_is_refused_before_its_ledger_is_made(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("age\n31\n")
    (tmp_path / "plan.toml").write_text(
        '[source]\npath = "v.csv"\n[[column]]\nname = "age"\nkind = "number"\nlower = 0\nupper = 110\n'
        '[budget]\nepsilon = 1\n[ledger]\nurl = "sqlite:///budget.db"\nscope = "a"\n'
        '[[query]]\nkind = "count"\nepsilon = 0.5\n'
    )
    code = "from sidelight.cli import main\nsys.argv[0] = 'sidelight'\nmain()\n"
    for command in ("run", "check"):
        ran = install_size.runs(code, FILES, command, "plan.toml", folder=tmp_path)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert SAYS in ran.stderr
        assert "Traceback" not in ran.stderr
    assert {file.name for file in tmp_path.iterdir()} == {"v.csv", "plan.toml"}
    assert install_size.runs(code, FILES, "plan", "plan.toml", folder=tmp_path).returncode == 0


def test_frames_and_columns_in_memory_need_neither(tmp_path: Path) -> None:
    code = f"""{_SETTING}
import pandas as pd, polars as pl
rows |= {{"day": [np.datetime64("2024-03-01").item()] * 99 + [None], "who": [str(row // 2) for row in range(100)]}}
schema += [sl.Date("day", start="2024-01-01", end="2024-12-31"), sl.PersonId("who", max_rows=2)]
frame, columns = pl.DataFrame(rows), {{name: pl.Series(cells) for name, cells in rows.items()}}
typed = frame.with_columns(pl.col("job").cast(pl.Categorical), pl.col("who").cast(pl.Int64))
several = pd.DataFrame(rows).astype({{"job": "category", "age": "Int64"}})
late = sl.col("day") >= "2024-02-01"
for place, source in enumerate([rows, pd.DataFrame(rows), several, frame, typed, frame.lazy(), columns]):
    people = sl.Table(source, schema=schema, name="people")
    session = sl.Session(people, budget=sl.PureDP(5000), ledger=f"sqlite:///{{place}}.db")
    counts = session.release(sl.Count(of="rows", epsilon=100))
    means = session.release(sl.Mean("age", by="job", max_groups=2, where=late, epsilon=1000))
    asked = session.sql("SELECT job, COUNT(*) FROM people GROUP BY job", max_groups=2, epsilon=100)
    print(round(counts.value["count"][0]), *means.value["mean"][:2].round(), asked.value.rows)
"""
    ran = install_size.runs(code, FILES, folder=tmp_path)
    assert ran.stdout.splitlines() == ["100 31.0 47.0 3"] * 7, ran.stderr
