"""`sidelight plan` and `sidelight run`: prices, idempotence, crashes, refusals, and what is said about each."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight.cli import pricing
from sidelight.errors import (
    BudgetError,
    LedgerDamagedError,
    LedgerError,
    LedgerUnavailableError,
    NoiseError,
    PlanError,
    SidelightError,
    SidelightWarning,
    SourceError,
    StrictError,
)
from sidelight.ledger import decide, open_ledger, reservation
from sidelight.plans import read_plan
from sidelight.records import Table
from sidelight.session import Session, pipeline

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def change(old: str, new: str) -> None:
    path = Path("plan.toml")
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def entries() -> list[Any]:
    with open_ledger("budget.db", create=False) as ledger:
        return ledger.entries()


def leave_unfinished(position: int = 0) -> None:
    """Reserve one query of the plan and die."""
    plan = read_plan("plan.toml")
    prepared = plan.queries[position].prepared
    with open_ledger("budget.db") as ledger:
        scope = ledger.open_scope(plan.scope, budget=plan.budget)
        scope.reserve(prepared.claims, request=prepared.request, key=plan.key(position, label=""))


def test_plan_prices_without_the_data_and_without_a_trace(sidelight: Run) -> None:
    Path("people.csv").unlink()
    result = sidelight("plan", "plan.toml")
    assert result.status == 0, result.err
    for text in [
        "Quartiles of age",
        "PureDP(ε = 0.5)",
        "ranks",
        "to be paid",
        "not a guarantee",
        "declared sums are at most ε = 2.25, with δ up to 1e-6",
    ]:
        assert text in result.out, text
    assert "Sum of ε" in result.out
    assert "does not exist yet" in result.out
    assert not Path("budget.db").exists()


def test_plan_never_opens_the_data(sidelight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> None:
        raise AssertionError("the data was opened")

    monkeypatch.setattr(Table, "__init__", opened)
    assert sidelight("plan", "plan.toml").status == 0
    assert sidelight("run", "plan.toml").status == 3  # the control: running does need the table


def test_run_writes_report_and_json_and_charges_once(sidelight: Run) -> None:
    result = sidelight("run", "plan.toml", "--json", "out.json", "-o", "page.html")
    assert result.status == 0, result.err
    assert "Report: page.html   JSON: out.json" in result.out
    assert "50 %: " in result.out
    assert result.err == ""
    page = Path("page.html").read_text(encoding="utf-8")
    data = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert [item["title"] for item in data["items"]] == ["Quartiles of age", "Quantiles of hours"]
    assert data["account"]["place"] == "budget.db"  # not the folder of this machine
    assert data["account"]["head"] in page
    assert data["account"]["uses"][0]["text"] == "0.75 of 3 (25.0 %)"
    assert "together PureDP(ε\u00a0=\u00a00.75)" in page
    assert "NOT PRIVATE" not in page
    values = data["items"][0]["outcome"]["value"]

    again = sidelight("run", "plan.toml", "--json", "again.json")
    assert again.status == 0, again.err
    assert "2 of 2 charges were paid in an earlier run" in again.out
    repeated = json.loads(Path("again.json").read_text(encoding="utf-8"))
    assert repeated["items"][0]["outcome"]["value"] == values
    assert repeated["account"]["uses"] == data["account"]["uses"]
    assert len(entries()) == 2
    assert "answered before, free" in sidelight("plan", "plan.toml").out


def test_run_explains_what_was_drawn(sidelight: Run) -> None:
    plain = sidelight("run", "plan.toml", "--label", "plain")
    assert "exponential choice" not in plain.out
    told = sidelight("run", "plan.toml", "--explain", "--json", "out.json")
    assert told.status == 0, told.err
    for text in ("price of one", "exponential choice", "a quantile", "rows of one interval"):
        assert text in told.out, text
    spending = json.loads(Path("out.json").read_text(encoding="utf-8"))["items"][0]["outcome"]["circumstances"][
        "spending"
    ]
    assert spending[0]["law"] in told.out
    page = Path("report.html").read_text(encoding="utf-8")
    assert "What was drawn" in page
    assert spending[0]["cost"].replace(" ", "\u00a0") in page or spending[0]["cost"] in page


def test_a_label_that_reads_like_another_does_not_pay_again(sidelight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sidelight("run", "plan.toml", "--label", "monday").status == 0
    for label in ("monday ", " monday", "mon\u2060day", "monday\ufe0f", "mon\tday"):
        for command in ("plan", "run"):
            refused = sidelight(command, "plan.toml", "--label", label)
            assert refused.status == 2, label
            assert "a label " in refused.err
    assert len(entries()) == 2
    with monkeypatch.context() as before:  # what an older version paid for under such a label stays
        before.setattr(pricing, "check_spelling", lambda *_, **__: None)
        assert sidelight("run", "plan.toml", "--label", "tuesday ").status == 0
    assert sidelight("run", "plan.toml", "--label", "tuesday ").status == 0
    assert len(entries()) == 4


def test_a_new_label_or_a_changed_plan_pays_again(sidelight: Run) -> None:
    assert sidelight("run", "plan.toml").status == 0
    assert sidelight("run", "plan.toml", "--label", "2026-11-15").status == 0
    assert len(entries()) == 4
    change("epsilon = 0.25", "epsilon = 0.125")
    assert sidelight("run", "plan.toml").status == 0
    assert len(entries()) == 6


def test_a_plan_that_does_not_fit_spends_nothing(sidelight: Run) -> None:
    change("epsilon = 0.25", "epsilon = 2.6")
    priced = sidelight("plan", "plan.toml")
    assert priced.status == 1
    assert "does not fit" in priced.out
    assert "'Quantiles of hours'" in priced.err
    result = sidelight("run", "plan.toml")
    assert result.status == 1
    for text in [
        "'Quantiles of hours' does not fit",
        "requested ε 2.6",
        "remaining ε 2.5",
        "short of ε 0.1",
        "nothing was spent",
    ]:
        assert text in result.err, result.err
    assert "Traceback" not in result.err
    assert not Path("report.html").exists()
    assert not Path("budget.db").exists()


def test_an_unfinished_attempt_needs_resume_and_pays_twice(sidelight: Run) -> None:
    leave_unfinished()
    assert "unfinished, see --resume" in sidelight("plan", "plan.toml").out
    stuck = sidelight("run", "plan.toml")
    assert stuck.status == 1
    assert "--resume" in stuck.err
    assert [entry.state for entry in entries()] == ["reserved"]
    result = sidelight("run", "plan.toml", "--resume")
    assert result.status == 0, result.err
    assert [entry.state for entry in entries()] == ["failed", "released", "released"]
    assert entries()[1].attempt == 2
    assert "1.25 of 3" in Path("report.html").read_text(encoding="utf-8")


def test_resume_must_fit_too(sidelight: Run) -> None:
    change("epsilon = 3", "epsilon = 1")
    change("delta = 1e-6\n", "")
    leave_unfinished()
    result = sidelight("run", "plan.toml", "--resume")  # 0.5 is gone, 0.75 is asked for
    assert result.status == 1
    assert [entry.state for entry in entries()] == ["reserved"]


def test_what_was_paid_is_shown_when_a_later_query_fails(sidelight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.errors import BudgetError
    from sidelight.session import Session

    release = Session.release

    def refuse_hours(self: Session, query: Any, **options: Any) -> Any:
        if query.column == "hours":  # another process was quicker
            raise BudgetError("it went", requested="ε 1", remaining="ε 0", difference="ε 1")
        return release(self, query, **options)

    monkeypatch.setattr(Session, "release", refuse_hours)
    result = sidelight("run", "plan.toml")
    assert (result.status, result.err) == (1, "error: it went\n")
    page = Path("report.html").read_text(encoding="utf-8")
    assert "Quartiles of age" in page
    assert "Quantiles of hours" not in page


def test_without_a_ledger_nothing_is_remembered_and_it_says_so(sidelight: Run) -> None:
    change('[ledger]\nurl = "budget.db"\n', "")
    assert "charges are not stored" in sidelight("plan", "plan.toml").out
    assert sidelight("run", "plan.toml").status == 0
    assert "is forgotten" in Path("report.html").read_text(encoding="utf-8")
    refused = sidelight("run", "plan.toml", "--label", "today")
    assert refused.status == 2
    assert "--label needs a ledger" in refused.err


def test_queries_priced_together_find_a_delta_and_say_it(sidelight: Run) -> None:
    change("[[query]]", '[pricing]\nqueries = "together"\n\n[[query]]')
    priced = sidelight("plan", "plan.toml")
    assert priced.status == 0, priced.err
    assert "all 2 together at δ = " in priced.out
    assert sidelight("plan", "plan.toml").out == priced.out  # the same plan, the same delta
    change("delta = 1e-6", "")
    assert "has none to choose from" in sidelight("plan", "plan.toml").err


def test_queries_priced_together_are_one_charge(sidelight: Run) -> None:
    change("[[query]]", '[pricing]\nqueries = "together"\ndelta = 5e-8\n\n[[query]]')
    priced = sidelight("plan", "plan.toml")
    assert priced.status == 0, priced.err
    assert "all 2 together" in priced.out
    assert sidelight("run", "plan.toml").status == 0
    assert [entry.state for entry in entries()] == ["released"]
    again = sidelight("run", "plan.toml")
    assert "1 of 1 charges were paid" in again.out
    assert len(entries()) == 1


def test_a_person_with_several_rows(sidelight: Run) -> None:
    lines = Path("people.csv").read_text(encoding="utf-8").splitlines()
    rows = [f"{line},{'id' if i == 0 else i // 2}" for i, line in enumerate(lines)]
    Path("people.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    change("[budget]", '[[column]]\nname = "id"\nkind = "person"\nmax_rows = 2\n\n[budget]')
    result = sidelight("run", "plan.toml")
    assert result.status == 0, result.err
    assert "any one person (with up to 2 rows)" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "arguments", "message"),
    [
        ('path = "people.csv"', 'path = "nobody.csv"', [], "nobody.csv"),
        ('name = "hours"', 'name = "houres"', [], "houres"),
        ("", "", ["-o", "no/such/report.html"], "does not exist"),
        ("", "", ["-o", "."], "is a directory"),
        ("", "", ["--json", "no/out.json"], "does not exist"),
    ],
)
def test_mistakes_are_found_before_anything_is_spent(
    sidelight: Run, old: str, new: str, arguments: list[str], message: str
) -> None:
    change(old, new) if old else None
    change('column = "hours"', 'column = "houres"') if "houres" in new else None
    result = sidelight("run", "plan.toml", *arguments)
    assert result.status == 2, result.err
    assert message in result.err
    assert "Traceback" not in result.err
    assert not Path("budget.db").exists()


def test_a_scope_with_another_budget_is_refused(sidelight: Run) -> None:
    assert sidelight("run", "plan.toml").status == 0
    change("epsilon = 3", "epsilon = 4")
    for command in ("plan", "run"):
        result = sidelight(command, "plan.toml")
        assert result.status == 2
        assert "adds its budget to this one" in result.err


def test_a_thin_tailed_prediction_warns_once(sidelight: Run) -> None:
    change('"cauchy"', '"laplace"')
    result = sidelight("plan", "plan.toml")
    assert result.status == 0
    assert result.err.count("warning:") == 1
    ran = sidelight("run", "plan.toml")
    assert ran.err.count("warning:") == 1


def test_no_warning_of_python_shows_its_source(sidelight: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our warnings get one line each; other libraries' warnings, which may quote cells, are hidden."""

    def noisy(*_: object, **__: object) -> None:
        warnings.warn("cell 93 is strange", RuntimeWarning, stacklevel=1)
        warnings.warn("old name", DeprecationWarning, stacklevel=1)
        warnings.warn("told", SidelightWarning, stacklevel=1)
        warnings.warn("told", SidelightWarning, stacklevel=1)

    monkeypatch.setattr("sidelight.cli.pricing.show_price", noisy)
    result = sidelight("plan", "plan.toml")
    assert result.status == 0
    assert result.err == "warning: told\n"
    change('[ledger]\nurl = "budget.db"\n', "")
    change("epsilon = 3", "epsilon = 30")
    result = sidelight("run", "plan.toml")
    assert result.status == 0
    assert result.err.count("warning:") == 1
    assert ".py" not in result.err


def test_names_from_the_plan_are_not_read_as_markup(sidelight: Run) -> None:
    change('title = "Quartiles of age"', 'title = "[red]Quartiles[/red] [link=x]"')
    assert "[red]Quartiles[/red] [link=x]" in sidelight("plan", "plan.toml").out
    assert sidelight("run", "plan.toml").status == 0


def test_a_file_that_no_standard_writer_wrote_is_refused_unless_lines_are_declared(sidelight: Run) -> None:
    with Path("people.csv").open("a", encoding="utf-8") as file:
        file.write('41,4"0\n')
    refused = sidelight("run", "plan.toml")
    assert refused.status == 2
    assert "people.csv', line 402: a quotation mark inside a field that does not begin with one" in refused.err
    assert 'records = "lines"' in refused.err
    assert not Path("budget.db").exists()
    assert not Path("report.html").exists()
    change('name = "people"', 'name = "people"\nrecords = "lines"')
    assert sidelight("run", "plan.toml").status == 0
    assert len(entries()) == 2


@pytest.mark.parametrize("place", ["budget.db", "./budget.db", "people.csv", "plan.toml"])
@pytest.mark.parametrize("option", ["-o", "--json"])
def test_no_output_replaces_what_is_read(sidelight: Run, place: str, option: str) -> None:
    """A report over the ledger would give the whole budget back."""
    assert sidelight("run", "plan.toml").status == 0
    before = Path(place).read_bytes() if place != "budget.db" and place != "./budget.db" else b""
    result = sidelight("run", "plan.toml", "--label", "again", option, place)
    assert result.status == 2
    assert "would be lost" in result.err or "would give back what was spent" in result.err
    assert len(entries()) == 2
    assert not before or Path(place).read_bytes() == before


@pytest.mark.parametrize("error", [LedgerUnavailableError, LedgerDamagedError, LedgerError])
def test_an_outcome_that_cannot_be_written_is_no_status_of_nothing_spent(
    sidelight: Run, monkeypatch: pytest.MonkeyPatch, error: type[LedgerError]
) -> None:
    """The second query of a plan is charged and lost: the first is in the report, and the status asks for attention."""
    settle, calls = decide.settle, []

    def fails(*given: Any, **named: Any) -> str:
        calls.append(named)
        if len(calls) == 2:
            raise error("the reason")
        return settle(*given, **named)

    monkeypatch.setattr(reservation, "OUTCOME_SECONDS", 0.0)
    monkeypatch.setattr(decide, "settle", fails)
    result = sidelight("run", "plan.toml", "--json", "out.json")
    assert result.status == 1
    assert "The charge of entry" in result.err
    assert "nothing was written" not in result.err
    assert [each.state for each in entries()][:2] == ["released", "reserved"]
    written = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert not written["ok"]
    assert Path("report.html").exists()
    assert sidelight("run", "plan.toml").status == 1  # it is unfinished
    assert sidelight("run", "plan.toml", "--resume", "--label", "another").status == 0


@pytest.mark.parametrize("error", [SourceError, StrictError, NoiseError])
def test_what_fails_after_the_charge_has_the_status_of_a_charge(
    sidelight: Run, monkeypatch: pytest.MonkeyPatch, error: type[SidelightError]
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise error("the reason")

    monkeypatch.setattr(pipeline, "_run_one", fails)
    result = sidelight("run", "plan.toml")
    assert (result.status, result.err.strip()) == (1, "error: the reason. Its charge stands")


def _no_room(_: object, path: Path) -> Path:
    raise PlanError(f"{str(path)!r} cannot be written: No space left on device")


def test_what_was_paid_is_shown_when_the_report_cannot_be_written(
    sidelight: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidelight.cli.running.write_report", _no_room)
    result = sidelight("run", "plan.toml", "--json", "out.json")
    assert result.status == 1
    assert "50 %: " in result.out
    assert "No space left on device. There is no report, and the charges stand" in result.err
    data = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert [item["title"] for item in data["items"]] == ["Quartiles of age", "Quantiles of hours"]
    assert "output" not in data
    assert len(entries()) == 2


def test_a_report_that_cannot_be_written_hides_no_earlier_error(
    sidelight: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Session.release

    def refuse_hours(self: Session, query: Any, **more: Any) -> Any:
        if getattr(query, "column", None) == "hours":
            raise BudgetError("no more", requested="1", remaining="0", difference="1")
        return release(self, query, **more)

    monkeypatch.setattr(Session, "release", refuse_hours)
    monkeypatch.setattr("sidelight.cli.running.write_report", _no_room)
    result = sidelight("run", "plan.toml")
    assert result.status == 1
    assert "50 %: " in result.out
    assert "There is no report, and the charges stand" in result.err
    assert result.err.rstrip().splitlines()[-1].startswith("error: no more")
