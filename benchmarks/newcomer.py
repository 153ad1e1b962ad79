"""A checklist of what a newcomer stumbled over in the first hour, as far as a program can see it.

Each check is a sentence that is to hold and a function that finds out; `python -m benchmarks.newcomer` prints them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import sidelight as sl
from sidelight.cli.explain import glossary
from sidelight.errors import SidelightError
from sidelight.summaries.grouped import TABLE_COLUMNS
from sidelight.testing import seeded_release

DOCS = Path(__file__).resolve().parent.parent / "docs"
_SCHEMA = [
    sl.PersonId("member", max_rows=4),
    sl.Number("age", lower=0, upper=110, granularity=1),
    sl.Category("district", ["north", "south", "east", "west", "harbour"], per_person=1, other=None),
    sl.Date("day", start="2025-01-01", end="2025-12-31"),
]
_INIT = (
    "init loans.csv --person member --max-rows 4 --number age:0:110:1 --category district:north,south:1 "
    "--date day:2025-01-01:2025-12-31"
)


def sidelight(folder: Path, words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    command = [sys.executable, "-m", "sidelight", *words.split()]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def months() -> bool:
    """Group by month and weekday in Python."""
    day = sl.col("day")
    parts = [getattr(day, part, None) for part in ("month", "year", "weekday")]
    if any(part is None for part in parts):
        return False
    table = sl.dummy(_SCHEMA, 300)
    return all(sl.Count(by=part, max_groups=2, epsilon=1).release(table).value.rows >= 1 for part in parts)


def persons() -> bool:
    """There are means of persons and means of rows, and the release says which."""
    table = sl.dummy(_SCHEMA, 300)
    said = [str(sl.Mean("age", of=of, epsilon=1).release(table)) for of in ("persons", "rows")]
    return "each person once" in said[0] and "at most 4 rows of a person" in said[1]


def predicted() -> bool:
    """What a predicted table gave is printed, and the error that is said falls with a good one."""
    table = sl.dummy(_SCHEMA, 2000)
    exact = seeded_release(sl.Count(by="district", epsilon=10_000), table, seed="truth").value
    known = dict(zip(exact["district"], exact["count"].tolist(), strict=True))
    uses = [
        seeded_release(sl.Count(by="district", epsilon="0.02", prediction=known), table, seed=f"{draw}").prediction_use
        for draw in range(10)
    ]
    return all(use is not None and "shrinkage weight" in str(use) for use in uses) and bool(
        np.mean([use.likely_sd for use in uses]) < 0.9 * np.mean([use.noise_sd for use in uses])
    )


def series_and_columns() -> bool:
    """A Series predicts, a frame with several numbers takes `column=`, and without it the error says so."""
    import pandas as pd

    frame = pd.DataFrame({"district": ["north", "south"], "a": [1, 2], "b": [3, 4]})
    table = sl.dummy(_SCHEMA, 100)
    sl.Count(by="district", epsilon=1, prediction=frame.set_index("district")["a"]).release(table)
    sl.Count(by="district", epsilon=1, prediction=sl.Predicted(frame, column="b")).release(table)
    try:
        sl.Count(by="district", epsilon=1, prediction=frame).release(table)
    except SidelightError as error:
        return "column=" in str(error)
    return False


def first_plan() -> bool:
    """The first plan of `init` forecasts useful numbers, whose titles say who counts; a useless price is named."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loans.csv").write_text("member,age,district,day\n", encoding="utf-8")
        if sidelight(folder, _INIT).returncode:
            return False
        plan = (folder / "plan.toml").read_text(encoding="utf-8")
        said = sidelight(folder, "plan plan.toml").stdout
        poor = re.sub(r"(?m)^epsilon = 0\..*$", "epsilon = 0.0001", plan)
        (folder / "poor.toml").write_text(poor, encoding="utf-8")
        named = "USELESS" in sidelight(folder, "plan poor.toml").stdout
        return "each person once" in plan and "People by district" in plan and "USELESS" not in said and named


def transcript() -> bool:
    """The tutorial of commands shows commands and released numbers, and no Python runs them."""
    page = (DOCS / "tutorials" / "five-minutes-on-your-own-file.md").read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL))
    commands = {line.split()[2] for line in blocks.splitlines() if line.startswith("$ sidelight ")}
    return {"init", "check", "plan", "run"} <= commands and "50 %: " in blocks and "subprocess" not in page


def home_page() -> bool:
    """The home page shows a released value."""
    return re.search(r"(?m)^  50 %: \d", (DOCS / "index.md").read_text(encoding="utf-8")) is not None


def notebook() -> bool:
    """A page about notebooks shows HTML, a plot and a frame."""
    page = DOCS / "tutorials" / "in-a-notebook.md"
    words = ("_repr_html_", ".plot()", "to_pandas()", "sl.dummy")
    return page.exists() and all(word in page.read_text(encoding="utf-8") for word in words)


def explained() -> bool:
    """`explain` knows every printed column."""
    return {name for names in TABLE_COLUMNS.values() for name in names} <= set(glossary())


def outputs() -> bool:
    """Every command that writes a file takes -o."""
    from typer.main import get_command

    from sidelight.cli.app import app

    writing = ("demo", "init", "dummy", "run", "audit", "sql", "today", "disclose", "report", "table", "privacy-page")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    return all(any("-o" in each.opts for each in commands[name].params) for name in writing)


def inside_bins() -> bool:
    """Numbers inside wide bins fall where the released shares fall, and a bin of its own keeps the zeros."""
    draw = np.random.default_rng(5)
    fees = np.where(draw.random(4000) < 0.7, 0, np.minimum(draw.exponential(1.9, 4000), 20))
    table = sl.Table({"fee": fees}, schema=[sl.Number("fee", lower=0, upper=20)])
    wide = sl.Synthetic(sl.SyntheticTable(sl.marginals(1), bins={"fee": 4}, epsilon=2).release(table))
    means = [float(wide.table(within=within)["fee"].mean()) for within in ("smooth", "uniform")]
    apart = sl.SyntheticTable(sl.marginals(1), bins={"fee": [0, "0.01", 1, 5, 20]}, epsilon=2).release(table)
    near = abs(float(sl.Synthetic(apart).table()["fee"].mean()) - fees.mean()) < 0.25 * fees.mean()
    warned = "bin of its own" in (DOCS / "tutorials" / "a-synthetic-table.md").read_text(encoding="utf-8")
    return means[0] < 0.9 * means[1] and near and warned


def site() -> bool:
    """The site has formulas, styles and a name in its footer without a network, and the README says how to build it."""
    conf = (DOCS / "conf.py").read_text(encoding="utf-8")
    style = (DOCS / "_static" / "sidelight.css").read_text(encoding="utf-8")
    home = (DOCS / "index.md").read_text(encoding="utf-8")
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    return (
        'html_math_renderer = "mathml"' in conf
        and "copyright" in conf
        and "pre-wrap" in style
        and "dark" in style
        and all(f"{part}/index" in home for part in ("tutorials", "how-to", "reference", "explanation", "proofs"))
        and "make docs" in readme
    )


def tried() -> bool:
    """Dummy data is made from a plan, marked, and a trial of the plan spends nothing of its budget."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "loans.csv").write_text("member,age,district,day\n", encoding="utf-8")
        done = [sidelight(folder, each) for each in (_INIT, "dummy plan.toml --plan trial.toml", "run trial.toml")]
        marked = (folder / "dummy.csv").exists() and "not real" in (folder / "dummy.csv").read_text(encoding="utf-8")
        return not any(each.returncode for each in done) and marked and not (folder / "budget.db").exists()


CHECKS: tuple[Callable[[], bool], ...] = (
    *(months, persons, predicted, series_and_columns, first_plan, transcript, home_page, notebook, explained, outputs),
    *(inside_bins, site, tried),
)


def measure() -> Mapping[str, float]:
    """Count the checks that do not hold."""
    return {"open": float(sum(not check() for check in CHECKS))}


if __name__ == "__main__":
    for each in CHECKS:
        print(f"{'ok  ' if each() else 'OPEN'} {(each.__doc__ or '').strip()}")
