"""Nothing private leaves by the command line: not printed, not in a report, JSON or ledger, whatever goes wrong.

The plan reads the marked rows of `markers`; each attack lets something fail, and everything that was printed or written
is searched, with `--traceback` and without.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import markers
import pytest
from markers import columns, files_below, found_in, found_in_bytes
from typer.testing import CliRunner

from sidelight.cli.app import app
from sidelight.quantiles import prepared as prepared_module

PLAN = """
[source]
path = "given/people.csv"
name = "people"
records = "lines"

[[column]]
name = "age"
lower = 0
upper = 120
granularity = 1

[[column]]
name = "id"
kind = "person"
max_rows = 2

[budget]
epsilon = 3

[ledger]
url = "budget.db"

[[query]]
kind = "quantiles"
column = "age"
levels = [0.25, 0.5, 0.75]
epsilon = 1

[[query]]
kind = "quantiles"
title = "Second"
column = "age"
levels = [0.5]
epsilon = 0.5
"""
JUNK = b'zeugin-41b,zeugin-41b\n"987654.321,zeugin-41b\n987654.321abc,"zeugin-41b\n987654.321\xff,zeugin-41b\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plan; the private rows are in `given`, everything else below it was written by a command."""
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    Path("given").mkdir()
    pd.DataFrame(columns()).to_csv("given/people.csv", index=False)
    with Path("given/people.csv").open("ab") as file:
        file.write(JUNK)
    Path("plan.toml").write_text(PLAN, encoding="utf-8")
    return tmp_path


def command(*arguments: str) -> SimpleNamespace:
    """Run the command line in this process, as the shell would see it; an error that is raised is printed by Python."""
    import traceback

    result = CliRunner().invoke(app, list(arguments))
    err = result.stderr
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        err += "".join(traceback.format_exception(result.exception))
    return SimpleNamespace(status=result.exit_code, out=result.stdout, err=err)


RUN = ("run", "plan.toml", "--json", "releases.json")


def assert_clean(result: SimpleNamespace, *, but: tuple[str, ...] = ()) -> None:
    """Search what was printed and every file but the given ones."""
    assert found_in(result.out) == []
    # A traceback prints source lines: this file's own are not a leak.
    assert found_in("\n".join(line for line in result.err.splitlines() if not line.startswith("    "))) == []
    for path in files_below(Path.cwd(), but=set()):
        if path.relative_to(Path.cwd()).parts[0] != "given" and path.name not in but:
            assert found_in_bytes(path.read_bytes()) == [], path.name


both = pytest.mark.parametrize("options", [(), ("--traceback",)], ids=["plain", "traceback"])


@both
def test_a_run_over_cells_that_cannot_be_read_is_quiet(options):
    result = command(*options, *RUN)
    assert (result.status, result.err) == (0, "")
    assert {path.name for path in Path.cwd().iterdir()} >= {"report.html", "releases.json", "budget.db"}
    assert_clean(result)
    for more in (["ledger", "show", "budget.db"], ["ledger", "verify", "budget.db"], ["plan", "plan.toml"], RUN):
        assert_clean(command(*options, *more))
    assert_clean(command(*options, "ledger", "export", "budget.db", "-o", "events.jsonl"))
    assert_clean(command(*options, "report", "releases.json", "-o", "again.html"))


ERRORS = [
    ValueError("could not convert 987654.321"),
    KeyError("zeugin-41b"),
    MemoryError("987654.321"),
    UnicodeDecodeError("utf-8", b"zeugin-41b", 0, 1, "987654.321"),
    OSError(5, "zeugin-41b", "987654.321"),
]


@both
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
def test_an_error_inside_a_release_is_not_quoted(monkeypatch, options, error, second):
    """Also in the second query: the report of the first is written all the same."""
    real, calls = prepared_module.collect_ranks, []

    def collect(*arguments):
        calls.append(1)
        if len(calls) > second:
            raise error
        return real(*arguments)

    monkeypatch.setattr(prepared_module, "collect_ranks", collect)
    result = command(*options, *RUN)
    assert result.status == 1
    assert Path("report.html").exists() == second
    assert_clean(result)
    assert_clean(command("ledger", "show", "budget.db"))


@both
def test_a_defect_outside_a_release_is_named_and_not_quoted(monkeypatch, options):
    """Only the type and position of an unexpected error, which may quote anything."""
    from sidelight.plans import sources

    def table(*arguments, **options):
        try:
            raise KeyError("zeugin-41b")
        except KeyError as error:
            failure = ValueError("could not convert 987654.321", {"id": "zeugin-41b"})
            failure.add_note("zeugin-41b")
            raise failure from error

    monkeypatch.setattr(sources, "Table", table)
    result = command(*options, *RUN)
    assert result.status == 3
    assert "ValueError" in result.err
    assert_clean(result)
    assert ("test_command_line.py" in result.err) == bool(options)


@both
def test_a_source_that_vanishes_is_told_by_its_name(monkeypatch, options):
    """Before the run it is a mistake; between the check of the header and the rows, a failed release."""
    assert_clean(command(*options, "plan", "plan.toml"))
    from sidelight.session import Session

    real = Session.release

    def vanish(*arguments, **more):
        Path("given/people.csv").unlink(missing_ok=True)
        return real(*arguments, **more)

    monkeypatch.setattr(Session, "release", vanish)
    result = command(*options, *RUN)
    assert result.status in (1, 2)
    assert_clean(result)
    gone = command(*options, "run", "plan.toml", "--label", "new")
    assert gone.status == 2
    assert "there is no file" in gone.err
    assert_clean(gone)


@both
@pytest.mark.parametrize(
    "change",
    [
        ("\nage,", "\nagee,"),
        ("age,id\n", '"age,id\n'),
        ("age,id\n", "age,id\r"),
        ("age,id\n", "987654.321,zeugin-41b\n"),
        ("\n", "\r"),
    ],
    ids=repr,
)
def test_a_header_that_does_not_fit_quotes_no_record(options, change):
    path = Path("given/people.csv")
    text = "\n" + path.read_bytes().decode("latin-1")
    changed = text.replace(*change) if change == ("\n", "\r") else text.replace(change[0], change[1], 1)
    path.write_bytes(changed[1:].encode("latin-1"))
    result = command(*options, *RUN)
    assert result.status == 2
    assert_clean(result)


@both
@pytest.mark.parametrize("suffix", ["parquet", "csv.gz"])
def test_a_broken_file_is_told_and_not_quoted(options, suffix):
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(f"given/people.{suffix}")
    if suffix == "parquet":
        pq.write_table(pa.table(columns()), path, compression="none", use_dictionary=False)
        content = bytearray(path.read_bytes())
        content[4:9000] = b"987654.321" * 900
    else:
        content = bytearray(gzip.compress(Path("given/people.csv").read_bytes()))[:-2000]
    path.write_bytes(content[: len(content)])
    plan = PLAN.replace("people.csv", f"people.{suffix}")
    plan = plan.replace('records = "lines"\n', "") if suffix == "parquet" else plan
    Path("plan.toml").write_text(plan, encoding="utf-8")
    result = command(*options, *RUN)
    assert result.status in (1, 2)
    assert_clean(result)


@both
def test_a_file_that_no_standard_writer_wrote_is_told_by_a_line_and_leaves_nothing(options):
    """The refusal is for the owner: nothing is charged, written or quoted."""
    Path("plan.toml").write_text(PLAN.replace('records = "lines"\n', ""), encoding="utf-8")
    assert command(*options, "plan", "plan.toml").status == 0
    result = command(*options, *RUN)
    line = len(columns()["age"]) + 4  # the third line of the junk, behind the header, closes what the second opened
    assert result.status == 2
    assert f"people.csv', line {line}: text behind" in result.err
    assert_clean(result)
    assert {path.name for path in Path.cwd().iterdir()} == {"given", "plan.toml"}


@both
def test_a_budget_that_is_used_up_says_public_numbers_only(options):
    for label in ("a", "b", "c"):
        result = command(*options, *RUN, "--label", label)
        assert_clean(result)
    assert result.status == 1
    assert "does not fit the budget" in result.err


CORRUPTIONS = {
    "no database": lambda path: path.write_bytes(b"zeugin-41b 987654.321" * 500),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "edited": lambda path: edit(path, "UPDATE event SET body = replace(body, 'people', 'zeugin-41b')"),
    "no JSON": lambda path: edit(path, "UPDATE event SET body = 'zeugin-41b'"),
    "other columns": lambda path: edit(path, "ALTER TABLE event RENAME COLUMN body TO [987654.321]"),
}


def edit(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute(statement)
    connection.commit()
    connection.close()


@both
@pytest.mark.parametrize("kind", list(CORRUPTIONS))
def test_a_corrupt_ledger_is_told_and_not_quoted(options, kind):
    command(*RUN)
    CORRUPTIONS[kind](Path("budget.db"))
    aside = ("budget.db", "budget.db-wal", "budget.db-shm")
    for arguments in (
        ("ledger", "verify", "budget.db"),
        (*RUN, "--label", "again"),
        ("ledger", "show", "budget.db"),
        ("plan", "plan.toml"),
    ):
        result = command(*options, *arguments)
        if arguments[1] == "verify":
            assert result.status in (1, 2)
        assert result.status != 3, result.err
        if arguments[0] != "ledger" or kind != "edited":  # the ledger's own words may be shown to who keeps it
            assert_clean(result, but=aside)


@both
def test_stored_releases_that_are_broken_are_not_quoted(options):
    for content in ("zeugin-41b", '{"zeugin-41b": 987654.321}', '[{"value": "987654.321"}]', "[" * 100_000, "\ud800"):
        Path("given/bad.json").write_text(content, encoding="utf-8", errors="surrogatepass")
        result = command(*options, "report", "given/bad.json", "-o", "page.html")
        assert result.status == 2
        assert_clean(result)


SLOW = """
import sys, time
from sidelight.quantiles import prepared as query
real = query.collect_ranks
def collect(table, column, grid, source):
    record, person = {value}, {person!r}
    open("begun", "w").close()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        raise {raised}
    return real(table, column, grid, source)
query.collect_ranks = collect
from sidelight.cli.app import app
sys.argv[0] = "sidelight"
app()
"""


@pytest.mark.parametrize(
    ("options", "raised"),
    [(("--traceback",), "KeyboardInterrupt"), ((), "SystemExit(f'{record} {person}')")],
    ids=["key", "exit"],
)
def test_an_interrupted_run_shows_nothing(options, raised):
    """A process of its own: what Python prints when it ends counts too."""
    program = SLOW.format(value=markers.VALUE, person=markers.PERSON, raised=raised)
    process = subprocess.Popen(
        [sys.executable, "-c", program, *options, *RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not Path("begun").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert Path("begun").exists(), err
    assert process.returncode != 0
    assert_clean(SimpleNamespace(out=out, err=err))
    assert_clean(command("ledger", "show", "budget.db"))


def test_the_search_finds_what_is_printed():
    for out, err in (("987654.321", ""), ("", "error: zeugin-41b"), ("4873 rows", "")):
        with pytest.raises(AssertionError):
            assert_clean(SimpleNamespace(out=out, err=err))
    Path("left.tmp").write_text("x,987654.321\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        assert_clean(SimpleNamespace(out="", err=""))
