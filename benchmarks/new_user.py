"""A new user's session, written down: from a fresh CSV file to a report, and whether the report is right.

from benchmarks.measuring import sized


Counted, not timed: how many commands it takes, how many lines of TOML are edited by hand, and how many of the released
numbers lie further from the truth than the release itself says. Run `python -m benchmarks.new_user` to see the session.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import sized

VISITS, PEOPLE = sized((200_000, 39_480), (600, 120))
WARDS = ("surgery", "heart", "children", "emergency")
HEADER = (
    *("visit_no", "patient", "sex", "age", "ward", "visit", "minutes", "cost"),
    *("doctor", "city", "complaint", "paid by"),
)
#: The session, as it is typed; none of the answers is learned from the rows.
COMMANDS = (
    "init visits.csv --person patient --max-rows 5 --number age:0:110:1 --number minutes:0:600:1 --number cost:0:5000 "
    "--category sex:F,M:1 --category ward:surgery,heart,children,emergency --date visit:2020-01-01:2025-12-31 "
    "--epsilon 3 --delta 1e-6",
    "check plan.toml",
    "plan plan.toml",
    "run plan.toml --json releases.json",
)


def write_visits(path: Path, *, visits: int = VISITS, people: int = PEOPLE) -> dict[str, Any]:
    """Write a CSV file as hospitals have them (quotes, missing cells, dates) and return what is true of it."""
    draw = np.random.default_rng(21)
    who = np.concatenate([np.arange(people), draw.integers(0, people, visits - people)])
    draw.shuffle(who)
    sex = draw.choice(["F", "M"], people)
    born = draw.integers(1930, 2015, people)
    ward = draw.choice(WARDS, visits, p=[0.3, 0.25, 0.15, 0.3])
    days = draw.integers(0, 2192, visits)
    minutes = np.rint(draw.gamma(4, 20, visits)).astype(int)
    cost = np.round(draw.gamma(3, 120, visits), 2)
    gone = draw.random((3, visits)) < 0.02
    first = date(2020, 1, 1)
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(HEADER)
        for place in range(visits):
            person, day = int(who[place]), first + timedelta(days=int(days[place]))
            rows.writerow(
                [
                    place,
                    f"P{person:06d}",
                    sex[person],
                    "" if gone[0, place] else day.year - int(born[person]),
                    ward[place],
                    "" if gone[1, place] else day.isoformat(),
                    minutes[place],
                    "" if gone[2, place] else cost[place],
                    f"Dr. {chr(65 + place % 26)}, Ward {place % 7}",
                    ("Ulm", "Graz", 'St. "Anna"')[place % 3],
                    "cough,\nand fever" if place % 50 == 0 else 'says "well"',
                    "insurance",
                ]
            )
    return {"people": people, "F": int((sex == "F").sum()), "minutes": float(np.median(minutes))}


def session(folder: Path) -> tuple[list[subprocess.CompletedProcess[str]], dict[str, Any], int]:
    """Type the commands in a folder; return what each said, what is true, and how many lines of the plan that ran are
    not those that `init` wrote."""
    truth = write_visits(folder / "visits.csv")
    said: list[subprocess.CompletedProcess[str]] = []
    written: list[str] = []
    for command in COMMANDS:
        typed = [sys.executable, "-m", "sidelight", *command.split()]
        said.append(subprocess.run(typed, cwd=folder, capture_output=True, text=True, check=False))
        if command.startswith("init") and (folder / "plan.toml").exists():
            written = (folder / "plan.toml").read_text().splitlines()
    ran = (folder / "plan.toml").read_text().splitlines() if written else []
    return said, truth, len(set(written) ^ set(ran))


def wrong_numbers(folder: Path, truth: Mapping[str, Any]) -> int:
    """Count the released numbers that are not what the file says, within a generous margin for noise and the cap."""
    if not (folder / "releases.json").exists() or not (folder / "report.html").exists():
        return 3
    items = {item["title"]: item["outcome"] for item in json.loads((folder / "releases.json").read_text())["items"]}

    def column(title: str, name: str) -> list[float]:
        return [float(each) for each in dict(items[title]["value"]["groups"]["columns"])[name]["values"]]

    everybody = column("How many people", "count")[0]
    women = column("People by sex", "count")[0]
    median = items["Quartiles of minutes, of rows"]["value"]["array"][1]
    wrong = [abs(everybody - truth["people"]) > 200, abs(women - truth["F"]) > 200]
    return sum([*wrong, abs(median - truth["minutes"]) > 3])


def measure() -> Mapping[str, float]:
    """Count commands, edited lines and wrong numbers of the session; a command that fails counts as a hundred."""
    with tempfile.TemporaryDirectory() as name:
        said, truth, edited = session(Path(name))
        failed = sum(each.returncode != 0 for each in said)
        return {
            "commands": float(len(COMMANDS) + 100 * failed),
            "edited": float(edited),
            "wrong": float(wrong_numbers(Path(name), truth)),
        }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        done, _, _ = session(Path(place))
        for typed_command, result in zip(COMMANDS, done, strict=True):
            print(f"$ sidelight {typed_command}\n{result.stdout}{result.stderr}")
        print((Path(place) / "plan.toml").read_text())
