"""Exports as people have them, in six locales: is every number of the report right, by the documented commands alone?

Each export is written with the signs, dates, labels, texts for missing and stray spaces of a program somewhere, and is
read in two ways. With *options* its owner knows how the program writes, and says so to `init`. With *proposals* the
owner declares bounds and labels alone, lets `check` propose how the cells are read, and puts what it proposes into the
plan. Then `run` releases at a price at which noise is negligible. Errors are a number that differs from the truth of
the file, a cell that `check` still cannot read, and a command that fails.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from benchmarks.measuring import sized
from sidelight.cli.app import app
from sidelight.plans.toml_text import toml_lines, toml_value

PEOPLE, EXPORTS = sized((400, 14), (40, 1))
FIRST, DAYS, LARGEST = date(2021, 1, 1), 1500, 100_000


@dataclass(frozen=True)
class Export:
    """How a program somewhere writes its files."""

    name: str
    decimal: str
    thousands: str
    day: str  # of strftime
    labels: Mapping[str, Sequence[str]]  # a label, and the texts that stand for it
    missing: Sequence[str] = ()
    delimiter: str = ";"
    mark: bool = False  # a byte-order mark
    ids: Sequence[str] = ("{}",)
    options: Sequence[str] = ()
    columns: Sequence[str] = ("id", "sex", "cost", "day")
    line_end: str = "\n"
    crores: bool = False  # groups of two digits, as in India


_SIGNS = {"de": (",", "."), "fr": (",", "\u202f"), "us": (".", ","), "ch": (".", "\u2019"), "se": (",", "\u00a0")}
_GERMAN = {"M": ("M", "m", "männlich"), "W": ("W", "w", "weiblich")}
_SPELT = ("--casefold", "--strip")
_CLINIC = ("Fall-Nr.", "Geschlecht", "Kosten (EUR)", "Aufnahme")
ALL = (
    Export("a clinic in Germany", *_SIGNS["de"], "%d.%m.%Y", _GERMAN, ("k.A.", "-"), mark=True, options=_SPELT,
           columns=_CLINIC, line_end="\r\n"),
    Export("a spreadsheet in Germany", *_SIGNS["de"], "%d.%m.%y", {"M": ("m",), "W": ("w",)}, ("#NV",), mark=True,
           options=("--casefold",)),
    Export("a register in Austria", *_SIGNS["de"], "%d.%m.%Y %H:%M", _GERMAN, ("unbekannt",),
           ids=("P{}", " P{} ", "p{}"), options=_SPELT),
    Export("a library in France", *_SIGNS["fr"], "%d/%m/%Y", {"F": ("F", "femme", "Femme "), "H": ("H", "homme")},
           ("n.c.", "?"), options=_SPELT, columns=("lecteur", "sexe", "coût", "jour de prêt")),
    Export("a hospital in France", *_SIGNS["fr"], "%d-%m-%Y", {"F": ("2",), "H": ("1",)}, ("ND",), delimiter="\t"),
    Export("a shop in the United States", *_SIGNS["us"], "%m/%d/%Y", {"F": ("Female", "F"), "M": ("Male", "M")},
           ("N/A", "null"), delimiter=",", options=("--casefold",)),
    Export("a claims system in the United States", *_SIGNS["us"], "%m/%d/%Y %I:%M %p", {"F": ("F",), "M": ("M",)},
           ("NULL",), delimiter="|"),
    Export("a warehouse in the United States", ".", "", "%Y%m%d", {"F": ("f", "F "), "M": ("m", "M")}, ("", "NA"),
           delimiter=",", options=_SPELT),
    Export("an insurer in Switzerland", *_SIGNS["ch"], "%d.%m.%Y", {"m": ("m", "M"), "f": ("f", "F")}, ("k. A.",),
           options=("--casefold",)),
    Export("a canton in Switzerland", *_SIGNS["ch"], "%Y/%m/%d", {"m": ("homme",), "f": ("femme",)}, ("–",), mark=True),
    Export("a register in Sweden", *_SIGNS["se"], "%Y-%m-%d", {"K": ("K", "kvinna"), "M": ("M", "man")},
           ("uppgift saknas",), options=_SPELT),
    Export("an office in Sweden", ",", "", "%Y.%m.%d", {"K": ("k", "K"), "M": ("m", "M")}, ("--",), ids=("{}", "{} "),
           options=_SPELT, delimiter="\t"),
    Export("a bank in India", *_SIGNS["us"], "%d-%b-%Y", {"F": ("F", "f"), "M": ("M", "m")}, ("NIL",), delimiter=",",
           crores=True, options=("--casefold",)),
    Export("a survey in India", *_SIGNS["us"], "%d/%m/%Y", {"F": ("Female", "FEMALE"), "M": ("Male", "MALE")},
           ("9999999",), delimiter=",", crores=True, options=("--casefold",)),
)  # fmt: skip


def write(export: Export, path: Path, *, seed: int) -> dict[str, Any]:
    """Write an export and return what is true of it."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(PEOPLE), draw.integers(1, 4, PEOPLE))
    draw.shuffle(who)
    labels = list(export.labels)
    sex = draw.choice(labels, PEOPLE)
    cost = np.round(draw.gamma(2, 4000, len(who)), 2)
    days = draw.integers(0, DAYS, len(who))
    gone = draw.random(len(who)) < 0.04 if export.missing else np.zeros(len(who), bool)
    rows = [export.columns]
    for place, person in enumerate(who):
        day = FIRST + timedelta(days=int(days[place]))
        text = export.missing[place % len(export.missing)] if gone[place] else _number(export, float(cost[place]))
        spelt = export.labels[sex[person]]
        identity = export.ids[place % len(export.ids)].format(person + 1)
        rows.append((identity, spelt[place % len(spelt)], text, _day(export, day, place)))
    lines = (export.delimiter.join(_quoted(cell, export.delimiter) for cell in row) for row in rows)
    text = "".join(f"{line}{export.line_end}" for line in lines)
    path.write_bytes(text.encode("utf-8-sig" if export.mark else "utf-8"))
    kept = cost[~gone]
    return {
        "people": PEOPLE,
        "by": [int((sex == label).sum()) for label in labels],
        "means": [_means_of_persons(cost, who, ~gone & (sex[who] == label)) for label in labels],
        "cost": kept,
        "days": days,
    }


def _means_of_persons(cost: Any, who: Any, there: Any) -> tuple[float, float]:
    """Return the least and the largest mean of persons, of whom one row each counts."""
    rows = [cost[there & (who == person)] for person in np.unique(who[there])]
    return float(np.mean([each.min() for each in rows])), float(np.mean([each.max() for each in rows]))


def _number(export: Export, value: float) -> str:
    text = f"{value:,.2f}"
    if export.crores and value >= 1000:
        whole, cents = f"{value:.2f}".split(".")
        head, groups = whole[:-3], [whole[-3:]]
        while head:
            head, groups = head[:-2], [head[-2:], *groups]
        text = f"{','.join(groups)}.{cents}"
    return text.replace(",", "\0").replace(".", export.decimal).replace("\0", export.thousands)


def _day(export: Export, day: date, place: int) -> str:
    return day.strftime(
        export.day.replace("%H:%M", f"{place % 24:02d}:05").replace("%I:%M", f"{place % 12 + 1:02d}:05")
    )


def _quoted(cell: str, delimiter: str) -> str:
    return f'"{cell}"' if delimiter in cell else cell


def options(export: Export, *, readings: bool) -> list[str]:
    """Return the options of `init`: what is public of the columns, and how the program writes them."""
    who, sex, cost, day = export.columns
    last = FIRST + timedelta(days=DAYS)
    words = ["--person", who, "--max-rows", "3", "--number", f"{cost}:0:{LARGEST}:0.01", "--epsilon", "4000", "--delta"]
    words += ["0", "--date", f"{day}:{FIRST}:{last}"]
    if not readings:
        return [*words, "--category", f"{sex}:{','.join(export.labels)}:1"]
    spelt = ",".join("=".join([label, *_others(export, label)]) for label in export.labels)
    words += ["--category", f"{sex}:{spelt}:1", "--decimal", export.decimal, *export.options]
    words += ["--thousands", _plain(export.thousands)] if export.thousands else []
    words += ["--date-format", export.day]
    return words + [word for text in export.missing if text for word in ("--missing-text", text)]


def _others(export: Export, label: str) -> list[str]:
    """Return the texts of a label that differ from it by more than what the options make indifferent."""

    def key(text: str) -> str:
        text = text.casefold() if "--casefold" in export.options else text
        return text.strip() if "--strip" in export.options else text

    return list({key(text): text.strip() for text in export.labels[label] if key(text) != key(label)}.values())


def _plain(thousands: str) -> str:
    return {"\u202f": " ", "\u00a0": " ", "\u2019": "'"}.get(thousands, thousands)


def session(export: Export, folder: Path, *, seed: int, readings: bool) -> int:
    """Type the commands for an export and return how much is wrong."""
    truth = write(export, folder / "export.csv", seed=seed)
    failed = _typed(folder, "init", "export.csv", *options(export, readings=readings), "--overwrite")
    if not readings:
        failed += _typed(folder, "check", "plan.toml", "--json", "check.json")
        _take_proposals(export, folder)
    failed += _typed(folder, "check", "plan.toml", "--json", "check.json")
    failed += _typed(folder, "run", "plan.toml", "--json", "releases.json")
    if failed:
        return 10 * failed
    found = json.loads((folder / "check.json").read_text())
    unread = sum(column["unreadable"] + column["unknown"] for column in found["columns"])
    return int(unread > 0) + wrong_numbers(json.loads((folder / "releases.json").read_text()), truth)


def _typed(folder: Path, *words: str) -> int:
    """Type a command in a folder; return 1 if it fails."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(app, list(words))
    finally:
        os.chdir(before)
    if done.exit_code:
        print(done.output, file=sys.stderr)
    return int(done.exit_code != 0)


def _take_proposals(export: Export, folder: Path) -> None:
    """Put what `check` proposes into the plan; of two choices the one that the owner knows to be right.

    Codes are the owner's to know: that 1 stands for H, or 9999999 for nothing, no file says.
    """
    found = json.loads((folder / "check.json").read_text())["proposals"]
    plan = tomllib.loads((folder / "plan.toml").read_text(encoding="utf-8"))
    for column in plan["column"]:
        ways = next((each["declare"] for each in found if each["column"] == column["name"]), [""])
        keys = next((way for way in ways if f'"{export.day}"' in way), ways[0])
        column |= tomllib.loads(_lines(keys))
        codes = [text for text in export.missing if text.isdecimal()]
        if column["kind"] == "number" and codes:
            column["missing_texts"] = codes
        if column["kind"] == "category":
            spelt = {label: _others(export, label) for label in export.labels}
            column["aliases"] = {label: texts for label, texts in spelt.items() if texts} | column.get("aliases", {})
    lines = []
    for name, content in plan.items():
        for table in content if isinstance(content, list) else [content]:
            if not isinstance(table, dict):
                lines.append(f"{name} = {toml_value(table)}")
                continue
            lines += [f"[[{name}]]" if isinstance(content, list) else f"[{name}]", *toml_lines(table)]
    (folder / "plan.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _lines(declared: str) -> str:
    """Return the lines of a proposal, which is printed with commas between them."""
    for key in ("decimal", "thousands", "formats", "missing_texts", "casefold", "strip", "aliases"):
        declared = declared.replace(f", {key} = ", f"\n{key} = ")
    return declared


def wrong_numbers(report: Mapping[str, Any], truth: Mapping[str, Any]) -> int:
    """Count the released numbers that are not what the file says; a number that is not there is wrong, too."""
    found: dict[str, list[float]] = {}
    for item in report["items"]:
        query, value = item["outcome"]["query"], item["outcome"]["value"]
        by = "by" if query.get("by") else "all"
        if query["kind"] == "quantiles":
            found[f"quantiles {query['column']}"] = value["array"]
        elif query["kind"] in ("count", "mean"):
            columns = dict(value["groups"]["columns"])
            found[f"{query['kind']} {by}"] = [float(each) for each in columns[query["kind"]]["values"]]
    quartiles = [each for name, each in found.items() if name.startswith("quantiles")]
    tests = [
        abs(found.get("count all", [-9])[0] - truth["people"]) <= 2,
        _near(found.get("count by", []), truth["by"], 2),
        _within(found.get("mean by", []), truth["means"]),
        any(_between(each, truth["cost"]) for each in quartiles),
        any(_between(each, truth["days"]) for each in quartiles),
    ]
    return len(tests) - sum(tests)


def _near(found: Sequence[float], true: Sequence[float], margin: float) -> bool:
    return len(found) >= len(true) and all(abs(one - other) <= margin for one, other in zip(found, true, strict=False))


def _within(found: Sequence[float], ends: Sequence[tuple[float, float]]) -> bool:
    """Return whether numbers lie between ends, up to two percent."""
    return len(found) >= len(ends) and all(
        0.98 * low <= one <= 1.02 * high for one, (low, high) in zip(found, ends, strict=False)
    )


def _between(found: Sequence[float], values: Any) -> bool:
    """Return whether quartiles lie within three percent of the ranks."""
    levels = (0.25, 0.5, 0.75)
    low, high = (np.quantile(values, [min(max(level + by, 0), 1) for level in levels]) for by in (-0.03, 0.03))
    return len(found) == 3 and bool(np.all((low - 1 <= found) & (found <= high + 1)))


def measure() -> Mapping[str, float]:
    """Count what is wrong in the reports of all exports, read in both ways."""
    wrong = 0
    for place, export in enumerate(ALL[:EXPORTS]):
        for readings in (True, False):
            with tempfile.TemporaryDirectory() as name:
                found = session(export, Path(name), seed=place, readings=readings)
                if found:
                    print(f"{export.name}, by {'options' if readings else 'proposals'}: {found} wrong", file=sys.stderr)
                wrong += found
    return {"wrong": float(wrong), "exports": float(len(ALL[:EXPORTS]))}


if __name__ == "__main__":
    print(measure())
