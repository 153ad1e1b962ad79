"""Count deployment records that the public registry of deployments would refuse.

Records of every kind of budget, of rows and of persons, of batches, refusals, models and synthetic tables, with texts
that YAML reads in its own way, are written, read back by a YAML library, and held against the registry's keys, types
and choices (`deployment_schema.yaml`). Run `python -m benchmarks.disclosures` to see the problems.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import yaml

import sidelight as sl
from sidelight.session import Disclosure

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the checker is that of the tests

from plan_schema_check import problems

SCHEMA: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("deployment_schema.yaml").read_text(encoding="utf-8"))
#: Texts that a writer of YAML gets wrong: marks, numbers, dates, blanks, line ends.
HOSTILE = (
    *('say "yes"', "no", "- one\n- two", "a: b # c", "'", "2024-01-31", " padded ", "1e3", "", "~", "{x}", "ä ü 漢 🙂"),
    *(
        "one\n\ntwo\n",
        "tab\there",
        "\\n",
        "&a *b",
        "a\u2028b",
        "x\x7fy",
        "ends with blank \nand goes on",
        "%",
        "@",
        "`",
    ),
)
FACTS: dict[str, Any] = {
    "curator": "Town Library",
    "curator_type": "Government",
    "intended_use": "Planning of opening hours.",
    "region": "Northtown",
    "authors": ["A. Ny"],
}
_COLUMNS = (
    sl.Number("age", lower=0, upper=110, granularity=1),
    sl.Number("fee", lower=0, upper=20),
    sl.Category("district", ["north", "south"], per_person=1),
    sl.Date("day", start="2025-01-01", end="2025-12-31"),
)
_BUDGETS = (sl.PureDP(3), sl.ApproxDP(3, "1e-6"), sl.ZCDP("0.5"), sl.GDP("0.9"))


def wrong_in(made: Disclosure) -> list[str]:
    """Return what the registry would refuse in a record, and what its YAML reads back differently."""
    text = made.to_yaml()
    try:
        read = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return [f"not YAML: {type(error).__name__}"]
    found = list(problems(read, SCHEMA, "record"))
    found += [] if read == dict(made.record) else ["the YAML is read as another record"]
    styles = {getattr(token, "style", None) for token in yaml.scan(text)}
    found += [] if styles <= {None, "|", '"', "'"} else [f"texts in the style {styles}, which the registry refuses"]
    date.fromisoformat(read["deployment"]["basic"]["publication_date"])
    return found


def records(folder: Path) -> Iterator[tuple[str, Disclosure]]:
    """Release from generated rows under each kind of budget, and yield the records."""
    for unit, columns in (("rows", _COLUMNS), ("persons", (sl.PersonId("member", max_rows=3), *_COLUMNS))):
        table = sl.dummy(columns, 300)
        for budget in _BUDGETS:
            pure = isinstance(budget, sl.PureDP | sl.ApproxDP)
            price: Mapping[str, Any] = {"epsilon": "0.1"} if pure else {"rho": "0.005"}
            place = folder / f"{unit}-{type(budget).__name__}.db"
            session = sl.Session(table, budget=budget, ledger=place)
            session.release(sl.Count(by="district", prediction={"north": 90, "south": 110}, **price))
            session.release(sl.Mean("fee", **price))
            if isinstance(budget, sl.ApproxDP):
                session.release(sl.StableMedian("age", epsilon="0.1", delta="1e-9"))
                session.release_together([sl.Sum("fee", rho="0.01"), sl.Count(rho="0.01")], delta="1e-8")
            yield f"{unit}, {budget}", session.disclosure(name="Loans", **FACTS)
    for text in HOSTILE:
        yield f"text {text!r}", session.disclosure(name=f"Loans {text}", justification=text, actors=text, **FACTS)


def measure() -> Mapping[str, float]:
    """Count the records with a problem."""
    with tempfile.TemporaryDirectory() as name:
        return {"invalid": float(sum(bool(wrong_in(made)) for _, made in records(Path(name))))}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for title, record in records(Path(place)):
            print(f"{title}: {'; '.join(wrong_in(record)) or 'valid'}")
