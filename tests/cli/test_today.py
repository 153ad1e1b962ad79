"""`sidelight today`: a day from a plan file, its repetition, and mistakes that spend nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

import sidelight as sl
from sidelight.cli.daily import read_daily_plan
from sidelight.errors import PlanError, SourceError
from sidelight.quantiles import PrivateHistograms, PubPrev, PubProx, PubTrack

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "plan-files.md"


@pytest.fixture
def example(tmp_path: Path) -> str:
    """The plan of the reference page, next to two days of trips."""
    for number in (15, 16):
        minutes = np.rint(10 * np.random.default_rng(number).gamma(3, 4, 300)) / 10
        text = "minutes\n" + "\n".join(str(value) for value in minutes) + "\n"
        (tmp_path / f"trips-2025-11-{number}.csv").write_text(text)
    (found,) = (
        block
        for block in re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
        if "[sequence]" in block
    )
    return str(found)


def plan_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "daily.toml"
    path.write_text(text)
    return path


def test_two_days_and_one_of_them_again(sidelight: Callable[..., Any], tmp_path: Path, example: str) -> None:
    path = plan_file(tmp_path, example)
    report = tmp_path / "report.html"
    first = sidelight("today", path, "--day", "2025-11-15", "--features", "1,0,0.3", "-o", report)
    assert first.status == 0, first.err
    assert "Trip lengths, 2025-11-15" in first.out
    assert "Declared, not checked: no person is in more than 2 days" in " ".join(first.out.split())
    assert "2025-11-15" in report.read_text()
    assert (tmp_path / "budget.db.trips.state.json").exists()
    second = sidelight("today", path, "--day", "2025-11-16", "--features", "0,1,0.3", "-o", report)
    assert second.status == 0, second.err
    assert "Days released: 2" in second.out
    again = sidelight("today", path, "--day", "2025-11-15", "--features", "1,0,0.3", "-o", report)
    assert again.status == 0, again.err
    assert "at no cost" in again.out
    assert [line for line in again.out.splitlines() if "50 %" in line] == [
        line for line in first.out.splitlines() if "50 %" in line
    ]


def test_json_that_cannot_be_written_after_a_day_is_no_status_of_nothing_spent(
    sidelight: Callable[..., Any], tmp_path: Path, example: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(place: Path, _: object) -> None:
        raise SourceError(f"{place} cannot be written")

    day = ["today", plan_file(tmp_path, example), "--day", "2025-11-15", "--features", "1,0,0.3"]
    day += ["-o", tmp_path / "report.html"]
    with monkeypatch.context() as full:
        full.setattr("sidelight.cli.answers._write", no_room)
        failed = sidelight(*day, "--json", tmp_path / "day.json")
    assert failed.status == 1
    assert "the charges stand: the ledger holds what was paid" in failed.err
    again = sidelight(*day, "--json", tmp_path / "day.json")
    assert again.status == 0
    assert "at no cost" in again.out


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--day", "soon"], "day must be a date"),
        (["--day", "2025-11-15", "--features", "1,x"], "comma-separated numbers"),
        (["--day", "2025-11-15", "--features", "1"], "3 features a day, got 1"),
        (["--day", "2025-11-17", "--features", "1,0,0"], "trips-2025-11-17.csv"),
        (["--day", "2205-11-15", "--features", "1,0,0"], "2205-11-15 has not begun"),
        (["--day", "2025-11-15T10:00+02:00", "--features", "1,0,0"], "day must be a date"),
    ],
    ids=["day", "words", "too few", "no file", "far future", "time zone"],
)
def test_mistakes_are_named_and_spend_nothing(
    sidelight: Callable[..., Any], tmp_path: Path, example: str, options: list[str], match: str
) -> None:
    result = sidelight("today", plan_file(tmp_path, example), *options, "-o", tmp_path / "report.html")
    assert result.status == 2
    assert match in " ".join(result.err.split())
    assert not (tmp_path / "report.html").exists()
    shown = sidelight("ledger", "show", tmp_path / "budget.db")
    assert "2025-11" not in shown.out


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('[ledger]\nurl = "budget.db"\n', "", "needs a \\[ledger\\]"),
        ("[sequence]", "[sequenze]", "no \\[sequence\\] table"),
        ('path = "trips-{day}.csv"', 'path = "trips.csv"', "path must contain {day}"),
        ("features = 3", "feature = 3", "unknown key 'feature'"),
        ('learner = "proximate"', 'learner = "nearest"', "learner = 'nearest'"),
        ('learner = "proximate"', 'learner = "previous"', "belongs to learner"),
        ("plausible = [0, 120]", "plausible = [0]", "plausible"),
        ("plausible = [0, 120]", "plausible = [120, 0]", "plausible"),
        ("location = 10", "location = [10, 11]", "3 levels, got 2"),
        ("days_per_person = 2", "days_per_person = 0", "days_per_person"),
        ("epsilon = 0.5", "epsilon = 0.75", "not even one day"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_mistakes_in_the_plan(
    sidelight: Callable[..., Any], tmp_path: Path, example: str, old: str, new: str, match: str
) -> None:
    assert old in example
    path = plan_file(tmp_path, example.replace(old, new))
    result = sidelight("today", path, "--day", "2025-11-15", "--features", "1,0,0", "-o", tmp_path / "report.html")
    assert result.status in (1, 2)
    assert re.search(match, " ".join(result.err.split())), result.err


def test_run_points_to_today(sidelight: Callable[..., Any], tmp_path: Path, example: str) -> None:
    result = sidelight("run", plan_file(tmp_path, example))
    assert result.status == 2
    assert "sidelight today" in result.err


def test_every_key_reaches_the_learner(tmp_path: Path, example: str) -> None:
    more = (
        'hedge_weight = 0.2\nfallback = {family = "cauchy", location = 9, scale = 4}\nmemory = 30\nmethod = "cocob"\n'
    )
    plan = read_daily_plan(plan_file(tmp_path, example.replace("features = 3\n", f"features = 3\n{more}state = 's'\n")))
    learner = plan.learner
    assert isinstance(learner, PubProx)
    assert (learner.hedge_weight, learner.memory, learner.method, learner.features) == (0.2, 30, "cocob", 3)
    assert plan.state == tmp_path / "s"
    simple = re.sub(r"(features|plausible) = .*\n", "", example).replace('"proximate"', '"previous"')
    assert isinstance(read_daily_plan(plan_file(tmp_path, simple)).learner, PubPrev)
    with pytest.raises(PlanError, match="fallback must be a table, got a list"):
        read_daily_plan(plan_file(tmp_path, simple + 'fallback = [{family = "cauchy", location = 9, scale = 4}]\n'))


def test_a_plan_that_counts_its_days(sidelight: Callable[..., Any], tmp_path: Path, example: str) -> None:
    bare = re.sub(r"(features|plausible|location|scale|learner) = .*\n", "", example)
    assert read_daily_plan(plan_file(tmp_path, bare)).learner == PubTrack()  # without a guess of the location
    more = 'learner = "tracked"\nfeatures = 2\nweekdays = false\nmemory = 30\nhedge_weight = 0.2\n'
    path = plan_file(tmp_path, bare + more + 'prediction = {family = "half_cauchy", scale = 9}\n')
    learner = PubTrack(features=2, weekdays=False, memory=30, hedge_weight=0.2, prediction=sl.priors.HalfCauchy(9))
    assert read_daily_plan(path).learner == learner
    priced = sidelight("plan", path)
    assert priced.status == 0, priced.err
    assert "A day is PureDP(ε = 0.5)" in priced.out
    for number in (15, 16):
        given = ("--day", f"2025-11-{number}", "--features", "1,0", "-o", tmp_path / "report.html")
        released = sidelight("today", path, *given)
        assert released.status == 0, released.err
    assert "counted_quantiles" in released.out
    for wrong, match in (("scale = 2\n", "scale belongs to"), ('fallback = {family = "cauchy"}\n', "it is prediction")):
        refused = sidelight("plan", plan_file(tmp_path, bare + more + wrong))
        assert refused.status == 2
        assert match in " ".join(refused.err.split())


def test_a_plan_that_learns_privately(sidelight: Callable[..., Any], tmp_path: Path, example: str) -> None:
    kept = re.sub(r"(features|plausible|location|scale) = .*\n", "", example).replace('"proximate"', '"private"')
    text = kept.replace("[budget]\nepsilon = 1", "[budget]\nrho = 1")
    text += 'lower = 0\nupper = 60\nrho = "0.01"\nbins = 12\nfloor_weight = 0.4\nboldness = 2\nhedge_weight = 0.2\n'
    path = plan_file(tmp_path, text)
    learner = read_daily_plan(path).learner
    assert learner == PrivateHistograms(0, 60, rho="0.01", bins=12, floor_weight="0.4", boldness=2.0, hedge_weight=0.2)
    priced = sidelight("plan", path)
    assert priced.status == 0, priced.err
    assert "lasts indefinitely" in priced.out
    assert "ZCDP" in priced.out or "GDP" in priced.out
    for number in (15, 16):
        released = sidelight("today", path, "--day", f"2025-11-{number}", "-o", tmp_path / "report.html")
        assert released.status == 0, released.err
    assert "learned_quantiles" in released.out
    wrong = sidelight("plan", plan_file(tmp_path, text + "memory = 3\n"))
    assert wrong.status == 2
    assert 'memory belongs to learner = "tracked" or learner = "proximate"' in wrong.err


def test_a_day_that_no_standard_writer_wrote(sidelight: Callable[..., Any], tmp_path: Path, example: str) -> None:
    """It is refused before the charge, and read where lines are declared; an earlier day needs no file to come back."""
    day = tmp_path / "trips-2025-11-15.csv"
    with day.open("a") as file:
        file.write('7"\n')
    asked = ("--day", "2025-11-15", "--features", "1,0,0.3", "-o", tmp_path / "report.html")
    refused = sidelight("today", plan_file(tmp_path, example), *asked)
    assert refused.status == 2
    assert "line 302: a quotation mark inside a field" in refused.err
    lines = plan_file(tmp_path, example.replace('name = "trips"', 'name = "trips"\nrecords = "lines"'))
    first = sidelight("today", lines, *asked)
    assert first.status == 0, first.err
    assert "Days released: 1" in first.out
    day.unlink()
    again = sidelight("today", lines, *asked)
    assert again.status == 0, again.err
    assert "at no cost" in again.out
