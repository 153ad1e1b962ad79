"""Nothing private leaves by a side door: not in a text, an error, a log, a ledger, a report or any file written."""

from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import sqlite3
import tempfile
import traceback
from fractions import Fraction
from pathlib import Path

import markers
import numpy as np
import pytest
from markers import columns, files_below, found_in, found_in_bytes, found_in_error, schema

import sidelight as sl
from sidelight.aggregates import Bounded, collect_ranks
from sidelight.errors import ReleaseFailedError, SchemaError, SidelightError, SourceError
from sidelight.grid import Grid
from sidelight.guarantees import Neighbours, Row
from sidelight.mechanisms import RanksWithin
from sidelight.noise import OSEntropy, Source
from sidelight.quantiles import prepared as prepared_module
from sidelight.report import Item, Report, render
from sidelight.session.accounts import OneOffAccount, UnrecordedReservation
from sidelight.session.pipeline import release_through

QUERY = sl.Quantiles([0.25, 0.5, 0.75], column="age", epsilon=1)


def sources(folder: Path):
    """Yield the same marked rows in every kind of source; the files written for it are returned in `written`."""
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = columns()
    frame = pd.DataFrame(data)
    frame.to_csv(folder / "people.csv", index=False)
    pq.write_table(pa.table(data), folder / "people.parquet")
    return {
        "lists": data,
        "numpy": {"age": np.array(data["age"]), "id": np.array(data["id"])},
        "pandas": frame,
        "polars": pl.DataFrame(data),
        "lazy": pl.DataFrame(data).lazy(),
        "arrow": pa.table(data),
        "duckdb": duckdb.connect().from_arrow(pa.table(data)),
        "csv": folder / "people.csv",
        "parquet": folder / "people.parquet",
    }


SOURCES = ["lists", "numpy", "pandas", "polars", "lazy", "arrow", "duckdb", "csv", "parquet"]


@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_release_shows_nothing_private_wherever_one_looks(kind, persons, tmp_path, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    given = tmp_path / "given"
    given.mkdir()
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("TMPDIR", str(work))
    monkeypatch.setattr(tempfile, "tempdir", None)
    table = sl.Table(sources(given)[kind], schema=schema(persons=persons), name="people")
    with sl.open_ledger(f"sqlite:///{work}/budget.db") as ledger:
        session = sl.Session(table, budget=sl.ApproxDP(3, "1e-6"), ledger=ledger)
        release = session.release(QUERY, key="first")
        texts = [
            *(repr(thing) for thing in (table, table.schema, session, ledger, session.remaining, session.spent)),
            *(str(thing) for thing in (table, session.remaining, session.spent, ledger, QUERY)),
            session.statement(),
            *(f"{each!r}{each}{each.to_json()}{each._repr_html_()}" for each in [release]),
            repr(ledger.events()) + repr(ledger.entries()) + repr(ledger.scopes()),
        ]
        ledger.export(work / "events.jsonl")
        page = render(Report(title="Ages", day="2026-01-01", items=(Item(title="Ages", outcome=release),)))
        texts.append(page)
    printed = capfd.readouterr()
    texts += [printed.out, printed.err, *(record.getMessage() for record in caplog.records)]
    for text in texts:
        assert found_in(text) == []
    for path in files_below(work, but=set()):
        assert found_in_bytes(path.read_bytes()) == [], path.name


def test_a_batch_and_an_event_show_nothing_private():
    session = sl.Session(sl.Table(columns(), schema=schema(persons=True), name="people"), budget=sl.ApproxDP(3, "1e-6"))
    for release in session.release_together([QUERY, QUERY], delta="1e-7"):
        assert found_in(f"{release!r}{release}{release.to_json()}{release.to_dp_event()!r}") == []


def test_the_search_itself_finds_what_it_should():
    for private in ("value 987654.321", "id=zeugin-41b", "n = 4873", "[4872]", '"4873"'):
        assert found_in(private)
    by_chance = ("12345678-1234-4873-8abc-123456789abc", "0f" * 20 + "987654" + "ab" * 9, "2026-01-01T00:00:00.987654Z")
    for harmless in ("0.4873", "a14873f", "14873", "4873.5", *by_chance):
        assert not found_in(harmless)
    assert found_in_bytes(np.array([markers.VALUE]).tobytes())
    assert found_in_error(ValueError("bad cell 987654.321"))
    attached = SchemaError("public")  # as `raise ... from None` leaves it: not printed, but there
    attached.__context__, attached.__suppress_context__ = ValueError(str(markers.VALUE)), True
    assert found_in_error(attached)


def test_aggregates_do_not_show_what_they_hold():
    table = sl.Table(columns(), schema=schema(persons=False))
    grid = Grid(resolution=Fraction(1), first=0, last=2**30, snap="nearest")
    with Source(OSEntropy()) as source:
        ranks = collect_ranks(table, "age", grid, source)
        held = [ranks, RanksWithin(ranks, 0, 2**50), source, table.rows]
        bounded = Bounded(markers.ROWS, Fraction(1), "l1", Neighbours.ADD_REMOVE, Row())
        vector = Bounded(np.array([987654321, markers.ROWS]), Fraction(1), "l1", Neighbours.ADD_REMOVE, Row())
        for thing in (*held, bounded, vector):
            assert found_in(f"{thing!r} {thing}") == []


def fails_inside(monkeypatch, error):
    """Let the release fail after the data was opened, with an error that quotes a record."""

    def collect(table, column, grid, source):
        values = [cell for batch in table.rows.batches(_wanted(column)) for cell in batch.numbers[column]]
        assert markers.VALUE in values
        raise error

    monkeypatch.setattr(prepared_module, "collect_ranks", collect)


def _wanted(column):
    from sidelight.records.rows import Wanted

    return Wanted(numbers=(column,))


@pytest.mark.parametrize(
    "error",
    [
        ValueError("could not convert 987654.321"),
        KeyError(987654.321),
        MemoryError("987654.321"),
        UnicodeDecodeError("utf-8", b"zeugin-41b", 0, 1, "987654.321"),
        RuntimeError({"row": {"id": "zeugin-41b"}}),
        GeneratorExit("987654.321"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_inside_a_release_quotes_nothing(monkeypatch, tmp_path, caplog, error):
    caplog.set_level(logging.DEBUG)
    fails_inside(monkeypatch, error)
    path = tmp_path / "budget.db"
    table = sl.Table(columns(), schema=schema(persons=False), name="people")
    with sl.open_ledger(f"sqlite:///{path}") as ledger:
        session = sl.Session(table, budget=sl.PureDP(3), ledger=ledger)
        with pytest.raises(ReleaseFailedError) as caught:
            session.release(QUERY)
        assert found_in_error(caught.value) == []
        assert found_in(repr(ledger.events())) == []
        assert [entry.state for entry in ledger.entries()] == ["failed"]
    for file in files_below(tmp_path, but=set()):
        assert found_in_bytes(file.read_bytes()) == []
    assert not [record for record in caplog.records if found_in(record.getMessage())]


def test_the_cause_of_an_error_of_ours_is_not_shown_either(monkeypatch):
    # A SidelightError may pass, because its own text is public; what it was raised from need not be.
    inner = ValueError("could not convert 987654.321")
    outer = SourceError("the rows could not be read")
    outer.__cause__ = inner
    fails_inside(monkeypatch, outer)
    with pytest.raises(SidelightError) as caught:
        QUERY_ON_ARRAY.release(columns()["age"])
    assert found_in_error(caught.value) == []


QUERY_ON_ARRAY = sl.Quantiles([0.5], epsilon=1, bounds=(0, 120), granularity=1)


def test_a_ledger_that_fails_while_the_failure_is_recorded_attaches_nothing(monkeypatch):
    class Broken(OneOffAccount):
        def reserve(self, claims, *, request, key=None, **rest):
            class Reservation(UnrecordedReservation):
                def fail(self):
                    raise OSError("disk full")

            return Reservation()

    fails_inside(monkeypatch, ValueError("could not convert 987654.321"))
    table = sl.Table(columns(), schema=schema(persons=False))
    with pytest.raises((OSError, SidelightError)) as caught:
        release_through(QUERY, table, Broken(), entropy=OSEntropy())
    assert found_in_error(caught.value) == []


def test_frames_of_a_withheld_error_hold_no_rows(monkeypatch):
    """A crash reporter prints the local variables of a traceback's frames."""
    fails_inside(monkeypatch, ValueError("987654.321"))
    with pytest.raises(ReleaseFailedError) as caught:
        QUERY_ON_ARRAY.release(np.array(columns()["age"]))
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    inside = [frame for frame in frames if "sidelight" in frame.f_globals.get("__name__", "")]
    assert inside
    for frame in inside:
        if frame.f_code.co_name not in ("release", "release_once"):  # these have the caller's own array as argument
            assert found_in(repr(frame.f_locals)) == [], frame.f_code.co_name


JUNK = ["987654.321abc", '"987654.321', "zeugin-41b", "9" * 400, "\x00", "1e999", "--5", "nan(987654)", "0x987654"]


@pytest.mark.parametrize("kind", ["csv", "lists", "pandas", "polars", "duckdb"])
@pytest.mark.parametrize("junk", JUNK)
def test_cells_that_are_no_numbers_are_missing_and_never_quoted(kind, junk, tmp_path, capfd, recwarn):
    import duckdb
    import pandas as pd
    import polars as pl

    cells = ["31", "47", junk, "52"]
    if kind == "csv":
        escaped = junk.replace('"', '""')
        (tmp_path / "x.csv").write_text("age,b\n" + "".join(f'"{c if c != junk else escaped}",1\n' for c in cells))
        source = tmp_path / "x.csv"
    elif kind == "lists":
        source = {"age": [31, 47, junk, 52]}
    elif kind == "pandas":
        source = pd.DataFrame({"age": pd.array(cells, dtype="string")})
    elif kind == "polars":
        source = pl.DataFrame({"age": cells})
    else:
        source = duckdb.connect().sql(
            "SELECT * FROM (VALUES {}) AS t(age)".format(", ".join("('" + c.replace("'", "''") + "')" for c in cells))
        )
    if kind in ("pandas", "polars", "duckdb"):  # typed text where a number is declared: said before any row is read
        with pytest.raises(SchemaError) as caught:
            sl.Table(source, schema=schema(persons=False))
        assert found_in_error(caught.value) == []
        return
    table = sl.Table(source, schema=schema(persons=False))
    release = sl.Quantiles([0.5], column="age", epsilon=1).release(table)
    assert 0 <= release.value[0] <= 120
    printed = capfd.readouterr()
    assert found_in(printed.out + printed.err) == []
    assert not [warning for warning in recwarn if found_in(str(warning.message))]


def test_mistakes_of_the_user_are_told_without_a_look_at_the_rows():
    table = sl.Table(columns(), schema=schema(persons=True))
    wrong = [
        lambda: sl.Quantiles([0.5], column="agee", epsilon=1).release(table),
        lambda: sl.Quantiles([0.5], column="id", epsilon=1).release(table),
        lambda: sl.Quantiles([0.5], epsilon=1, granularity=1, column="age").release(table),
        lambda: sl.Table(columns(), schema=[sl.Number("hours")]),
        lambda: sl.Table({"age": np.array(columns()["age"])}, schema=[sl.Category("age", ["a"])]),
        lambda: sl.Table({"age": np.array(columns()["age"]), "id": [1, 2]}, schema=schema(persons=True)),
        lambda: sl.Table(np.array(columns()["age"])[:, None, None], schema=schema(persons=False)),
        lambda: sl.Session(columns()["age"], budget=sl.PureDP(1)),
        lambda: sl.Quantiles([0.5], epsilon=1, prediction=[markers.VALUE]),
    ]
    for mistake in wrong:
        with pytest.raises((SidelightError, TypeError)) as caught:
            mistake()
        assert found_in_error(caught.value) == []


def test_two_neighbours_print_the_same():
    more = columns()
    fewer = {name: [cell for place, cell in enumerate(cells) if place != 17] for name, cells in more.items()}
    tables = [sl.Table(data, schema=schema(persons=True), name="people") for data in (more, fewer)]
    assert repr(tables[0]) == repr(tables[1])
    assert tables[0].schema.digest() == tables[1].schema.digest()
    sessions = [sl.Session(table, budget=sl.PureDP("0.5")) for table in tables]
    errors = []
    for session in sessions:
        with pytest.raises(sl.errors.BudgetError) as caught:
            session.release(QUERY)
        errors.append(caught.value)
    first, second = ((str(e), repr(e), e.args, e.requested, e.remaining, e.difference) for e in errors)
    assert first == second
    first, second = (session.release(sl.Quantiles([0.5], column="age", epsilon="0.5")) for session in sessions)
    assert first.error == second.error
    assert first.guarantee == second.guarantee
    assert first.query == second.query
    assert first.circumstances == second.circumstances
    assert str(sessions[0].remaining) == str(sessions[1].remaining)


def test_the_ledger_file_holds_no_time_of_the_run_and_no_size(tmp_path):
    """Equal events in ledgers of different data, except ids, request times, hashes and values."""
    import json

    bodies = []
    for rows in (10, 5000):
        path = tmp_path / f"{rows}.db"
        with sl.open_ledger(f"sqlite:///{path}") as ledger:
            table = sl.Table({"age": np.full(rows, 40.0)}, schema=schema(persons=False), name="people")
            sl.Session(table, budget=sl.PureDP(3), ledger=ledger).release(QUERY, key="k")
        connection = sqlite3.connect(path)
        events = connection.execute("SELECT kind, at_utc, body FROM event ORDER BY seq").fetchall()
        connection.close()
        (reserved,) = [at for kind, at, _ in events if kind == "reserve"]
        (released,) = [at for kind, at, _ in events if kind == "release"]
        assert reserved == released  # how long the run took is a function of the data
        plain = []
        for kind, _, body in events:
            content = json.loads(body)
            if kind == "release":
                content = json.loads(content["text"])
                content.pop("value")
                content["error"].pop(
                    "likely", None
                )  # whether there is one follows from the values: equal ones show ties
            if kind == "open":
                content = sorted(content)
            plain.append((kind, content))
        bodies.append(plain)
    assert bodies[0] == bodies[1]


def test_releases_cannot_carry_the_data_along():
    """What a release refers to, however deep, is neither the table nor an array of its size."""
    age = np.array(columns()["age"])
    release = QUERY_ON_ARRAY.release(age)
    copied = pickle.loads(pickle.dumps(release))
    assert np.array_equal(copied.value, release.value)
    seen, waiting = set(), [release]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type) or callable(thing) or thing.__class__.__name__ == "module":
            continue
        seen.add(id(thing))
        assert thing is not age
        assert not isinstance(thing, (sl.Table, Source))
        assert not (isinstance(thing, np.ndarray) and thing.size > 100)
        waiting += gc.get_referents(thing)


def test_sessions_and_accounts_are_not_copied():
    table = sl.Table(columns(), schema=schema(persons=False))
    session = sl.Session(table, budget=sl.PureDP(1))
    with pytest.raises(TypeError, match="budget"):
        pickle.dumps(session)
    with pytest.raises(TypeError, match="budget"):
        copy.deepcopy(session)


def test_a_forked_child_does_not_get_the_budget_a_second_time():
    table = sl.Table(columns(), schema=schema(persons=False))
    session = sl.Session(table, budget=sl.PureDP(1))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.release(QUERY)
            os.write(writer, b"released")
        except SidelightError:
            os.write(writer, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert session.release(QUERY).private
    assert os.read(reader, 100) == b"refused"
