"""`sidelight table`: from a stored release to synthetic rows; it reads the release only and charges nothing."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from synthetic_plan_fixtures import *  # noqa: F403 - fixtures
from synthetic_plan_fixtures import PLAN

import sidelight as sl
from sidelight.ledger import open_ledger
from sidelight.release import outcome_from_json

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what the first run of the plan left; the others are copies of it."""
    return tmp_path_factory.mktemp("first") / "run"


@pytest.fixture
def paid(town: Path, sidelight: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of the plan with its JSON; the private rows are gone afterwards."""
    monkeypatch.chdir(town)
    ran = sidelight("run", "plan.toml", "--json", "releases.json")
    assert ran.status == 0, ran.err
    assert "sidelight table releases.json -o synthetic.csv" in ran.out
    (town / "people.csv").unlink()
    return town / "releases.json"


@pytest.fixture
def stored(town: Path, first_run: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The same for tests that do not spend from the ledger, which refuses a copy of itself: one run for all of them."""
    if first_run.exists():
        monkeypatch.chdir(town)
        (town / "people.csv").unlink()
        shutil.copytree(first_run, town, dirs_exist_ok=True)
    else:
        request.getfixturevalue("paid")
        shutil.copytree(town, first_run)
    return town / "releases.json"


def released(path: Path) -> Any:
    return outcome_from_json(json.dumps(json.loads(path.read_text(encoding="utf-8"))["items"][0]["outcome"]))


def test_from_a_plan_to_synthetic_rows(stored: Path, sidelight: Run) -> None:
    before = stored.parent.joinpath("budget.db").read_bytes()
    made = sidelight("table", stored, "-o", "synthetic.csv")
    assert made.status == 0, made.err
    assert "Nothing was charged" in made.out
    frame = pd.read_csv("synthetic.csv")
    assert list(frame.columns) == ["sex", "job", "age"]
    assert len(frame) == round(released(stored).value["rows"])
    assert set(frame["sex"]) <= {"F", "M", "other"}
    assert frame["age"].dtype == "int64"
    assert frame["age"].between(16, 99).all()
    assert stored.parent.joinpath("budget.db").read_bytes() == before


def test_rows_seed_and_place_in_the_bin(stored: Path, sidelight: Run) -> None:
    for name, options in {
        "a.csv": ["--rows", "50"],
        "b.csv": ["--rows", "50", "--seed", "1"],
        "c.csv": ["--rows", "50"],
        "d.csv": ["--rows", "50", "--within", "middle"],
    }.items():
        assert sidelight("table", stored, "-o", name, *options).status == 0
    texts = {name: Path(f"{name}.csv").read_text(encoding="utf-8") for name in "abcd"}
    assert texts["a"] == texts["c"] != texts["b"]
    assert len(texts["a"].splitlines()) == 51
    assert set(pd.read_csv("d.csv")["age"]) <= {25, 44, 77}
    same = sl.Synthetic(released(stored)).table(50)
    assert pd.read_csv("a.csv")["age"].tolist() == same["age"].tolist()


def test_parquet(stored: Path, sidelight: Run) -> None:
    assert sidelight("table", stored, "-o", "synthetic.parquet", "--rows", 7).status == 0
    frame = pd.read_parquet("synthetic.parquet")
    assert frame.shape == (7, 3)
    assert frame["age"].dtype == "int64"


def test_whole_numbers_stay_whole_where_cells_are_missing(stored: Path, sidelight: Run) -> None:
    rows = "".join(f"F,nurse,{'' if i % 2 else 40}\n" for i in range(2000))
    Path("people.csv").write_text("sex,job,age\n" + rows, encoding="utf-8")
    Path("plan.toml").write_text(PLAN + 'missing = ["age"]\n', encoding="utf-8")
    assert sidelight("run", "plan.toml", "--json", "missing.json").status == 0
    assert sidelight("table", "missing.json", "-o", "synthetic.csv").status == 0
    cells = {line.split(",")[2] for line in Path("synthetic.csv").read_text(encoding="utf-8").splitlines()[1:]}
    assert "" in cells
    assert all(cell.isdigit() for cell in cells - {""})


def test_a_file_is_replaced_only_when_told(stored: Path, sidelight: Run) -> None:
    Path("out.csv").write_text("precious", encoding="utf-8")
    refused = sidelight("table", stored, "-o", "out.csv")
    assert refused.status == 2
    assert "--overwrite" in refused.err
    assert Path("out.csv").read_text(encoding="utf-8") == "precious"
    assert sidelight("table", stored, "-o", "out.csv", "--overwrite").status == 0
    assert Path("out.csv").read_text(encoding="utf-8") != "precious"
    assert stat.S_IMODE(Path("out.csv").stat().st_mode) == stat.S_IMODE(Path("plan.toml").stat().st_mode)
    assert not [path for path in Path().iterdir() if path.name.startswith(".out")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["releases.json", "out.xlsx"], "written as .csv or .parquet"),
        (["releases.json", "none/out.csv"], "does not exist"),
        (["none.json", "out.csv"], "cannot be read"),
        (["plan.toml", "out.csv"], "holds no releases"),
        (["quantiles.json", "out.csv"], "holds no release of kind"),
        (["damaged.json", "out.csv"], "is damaged"),
        (["short.json", "out.csv"], "is damaged"),
        (["releases.json", "out.csv", "--within", "midle"], "did you mean 'middle'"),
        (["releases.json", "out.csv", "--title", "Who works"], "did you mean 'Who works as what'"),
        (["twice.json", "out.csv"], "2 synthetic tables; say which one by its title"),
        (["releases.json", "out.csv", "--rows", "2000000000"], "rows must be"),
        (["releases.json", "out.csv", "--rows", "0"], "--rows"),
    ],
)
def test_mistakes_say_what_to_do(stored: Path, sidelight: Run, arguments: list[str], message: str) -> None:
    data = json.loads(stored.read_text(encoding="utf-8"))
    item = data["items"][0]
    Path("twice.json").write_text(json.dumps({**data, "items": [item, item]}), encoding="utf-8")
    quantile = sl.Quantiles([0.5], epsilon=1, granularity=1).release([1, 2, 3])
    Path("quantiles.json").write_text(quantile.to_json(), encoding="utf-8")
    units = item["outcome"]["value"]["mapping"]["distribution"]["mapping"]
    for name, change in {"damaged": {"units": units["units"][:-20]}, "short": {"points": units["points"] - 1}}.items():
        item["outcome"]["value"]["mapping"]["distribution"]["mapping"] = {**units, **change}
        Path(f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    refused = sidelight("table", arguments[0], "-o", *arguments[1:])
    assert refused.status == 2, refused.out
    assert message in refused.err
    assert not Path("out.csv").exists()
    assert not [path for path in Path().iterdir() if path.name.startswith(".out")]


def test_a_title_chooses_among_several(stored: Path, sidelight: Run) -> None:
    data = json.loads(stored.read_text(encoding="utf-8"))
    data["items"].append({**data["items"][0], "title": "Another"})
    stored.write_text(json.dumps(data), encoding="utf-8")
    assert sidelight("table", stored, "-o", "out.csv", "--title", "Another", "--rows", 3).status == 0


def test_seeded_releases_are_branded(town: Path, sidelight: Run, seeded_json: str) -> None:
    (town / "seeded.json").write_text(seeded_json, encoding="utf-8")
    made = sidelight("table", town / "seeded.json", "-o", town / "out.csv")
    assert made.status == 0
    assert "NOT PRIVATE" in made.err


def test_a_run_says_how_to_get_the_rows_and_shows_no_numbers_of_the_release(paid: Path, sidelight: Run) -> None:
    Path("people.csv").write_text("sex,job,age\n", encoding="utf-8")  # not opened: the release is stored
    again = sidelight("run", "plan.toml")
    assert again.status == 0, again.err
    assert "returned at no cost" in again.out
    assert "run the plan again with --json" in again.out
    assert "rows of sex, job, age; 3 marginals measured" in again.out
    assert "array(" not in again.out
    assert "units" not in again.out


def test_a_release_that_nothing_would_keep_is_not_paid_for(town: Path, sidelight: Run) -> None:
    plan = town / "plan.toml"
    plan.write_text(PLAN.replace('[ledger]\nurl = "budget.db"\n', ""), encoding="utf-8")
    refused = sidelight("run", plan, "--output", town / "r.html")
    assert refused.status == 2
    assert "--json releases.json" in refused.err
    assert not (town / "r.html").exists()
    assert sidelight("run", plan, "--output", town / "r.html", "--json", town / "r.json").status == 0


def test_the_charge_is_one_epsilon(stored: Path, sidelight: Run) -> None:
    for seed in range(3):
        assert sidelight("table", stored, "-o", f"{seed}.csv", "--rows", 2, "--seed", seed).status == 0
    with open_ledger("budget.db", create=False) as ledger:
        assert len(ledger.entries()) == 1
