"""A plan with a `[sequence]` table: the same quantiles every day, each predicted from the days before."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sidelight.accounting import Route
from sidelight.cli.plans.plan import (
    TABLES,
    check_path,
    ledger_url,
    read_budget,
    read_records,
    read_routes,
    read_schema,
    read_tables,
)
from sidelight.guarantees import Claim
from sidelight.ledger import Ledger
from sidelight.plan_section import Section
from sidelight.predictions import is_prior
from sidelight.predictions.from_plan import read_prediction
from sidelight.published.private_histograms import PrivateHistograms
from sidelight.published.released_learners import PubPrev, PubProx
from sidelight.quantiles import PubTrack, Quantiles, Sequence
from sidelight.quantiles.sequence.plan import Learner, SequencePlan
from sidelight.quantiles.sequence.sequence import routes_of_days
from sidelight.records import Schema, Table

_SHARED = (
    "column",
    "levels",
    "epsilon",
    "resolution",
    "learner",
    "hedge_weight",
    "fallback",
    "days_per_person",
    "state",
)
_GUESSES = ("location", "scale")
_PROXIMATE = ("features", "plausible", "method", "memory", "largest_scale")
_TRACKED = ("features", "memory", "weekdays", "prediction")
_PRIVATE = ("lower", "upper", "rho", "bins", "floor_weight", "boldness")
#: Keys that not every learner takes.
LEARNER_KEYS = {"tracked": _TRACKED, "previous": _GUESSES, "proximate": (*_GUESSES, *_PROXIMATE), "private": _PRIVATE}


@dataclass(frozen=True, kw_only=True)
class DailyPlan:
    """What a plan with a `[sequence]` table says; a function of the file alone."""

    title: str
    folder: Path
    source: str  # with {day} where the day stands
    records: Literal["standard", "lines"]
    schema: Schema
    budget: Claim
    routes: tuple[Route, ...] | None
    ledger: str
    scope: str
    strict: bool
    query: Quantiles
    learner: Learner
    days_per_person: int | None
    state: Path | None

    def file_of(self, day: datetime.date) -> Path:
        """Return the file of a day."""
        return self.folder / self.source.replace("{day}", day.isoformat())

    def rows_of(self, day: datetime.date) -> Path | Table:
        """Return what is released on a day: its file, or a table whose records are declared."""
        file = self.file_of(day)
        if self.records == "standard":
            return file
        return Table(file, schema=self.schema, name=self.scope, records=self.records)

    @property
    def sequence(self) -> SequencePlan:
        """The part of the sequence that never changes, with the price of a day."""
        return SequencePlan(
            query=self.query, schema=self.schema, learner=self.learner, days_per_person=self.days_per_person
        )

    def open(self, ledger: Ledger) -> Sequence:
        """Open the sequence on its ledger."""
        return Sequence(
            self.query,
            self.learner,
            schema=self.schema,
            budget=self.budget,
            ledger=ledger,
            scope=self.scope,
            days_per_person=self.days_per_person,
            state=self.state,
            routes=self.routes,
            strict=self.strict,
        )


def is_daily(path: Path | str) -> bool:
    """Return whether a plan has a `[sequence]` table."""
    return "sequence" in read_tables(path)[0]


def read_daily_plan(path: Path | str) -> DailyPlan:
    """Read and check a plan with a `[sequence]` table."""
    whole, folder = read_tables(path)
    if "sequence" not in whole:
        whole.refuse("the plan has no [sequence] table; `sidelight run` is for plans with [[query]] tables")
    whole.only("title", "strict", "source", "column", "budget", "ledger", "sequence")
    if "ledger" not in whole:
        whole.refuse("a sequence needs a [ledger] table: it remembers what was released and spent")
    source = whole.section("source").only(*(key for key in TABLES["source"] if key not in ("table", "engine")))
    check_path(source)
    budget = whole.section("budget").only(*TABLES["budget"])
    ledger = whole.section("ledger").only(*TABLES["ledger"])
    section = whole.section("sequence")
    schema = read_schema(whole)
    if "{day}" not in source.text("path"):
        source.refuse(
            "a sequence reads one file a day, so path must hold {day} where the day stands, such as "
            '"trips-{day}.csv"; the same file on several days would be released for the price of one',
            key="path",
        )
    name = source.text("name", Path(source.text("path")).stem)
    with section.naming():
        query, learner = read_sequence(section)
        query.prepare(schema)
    promised = read_budget(budget, unit=schema.unit)
    return DailyPlan(
        title=whole.text("title", name),
        folder=folder,
        source=source.text("path"),
        records=read_records(source),
        schema=schema,
        budget=promised,
        routes=routes_of_days(promised, read_routes(budget)),
        ledger=ledger_url(ledger.text("url"), folder=folder),
        scope=ledger.text("scope", name),
        strict=whole.flag("strict", default=False),
        query=query,
        learner=learner,
        days_per_person=section.integer("days_per_person", None),
        state=folder / section.text("state") if "state" in section else None,
    )


def read_sequence(section: Section) -> tuple[Quantiles, Learner]:
    """Read what is released every day, and how it is predicted."""
    section.only(*dict.fromkeys((*_SHARED, *_GUESSES, *_PROXIMATE, *_TRACKED, *_PRIVATE)))
    return _query(section), read_learner(section)


def _query(section: Section) -> Quantiles:
    given: dict[str, Any] = {"resolution": section.amount("resolution")} if "resolution" in section else {}
    return Quantiles(
        section.amounts("levels"), epsilon=section.amount("epsilon"), column=section.text("column", None), **given
    )


def read_learner(section: Section) -> Learner:
    """Read what predicts each day from those before."""
    kind = section.choice("learner", list(LEARNER_KEYS), "proximate" if "location" in section else "tracked")
    for key in dict.fromkeys((*_PROXIMATE, *_TRACKED, *_PRIVATE, *_GUESSES)):
        if key in section and key not in LEARNER_KEYS[kind]:
            owners = " or ".join(f'learner = "{name}"' for name, keys in LEARNER_KEYS.items() if key in keys)
            section.refuse(f"{key} belongs to {owners}; leave it out", key=key)
    given: dict[str, Any] = {}
    if kind == "tracked" and "fallback" in section:
        section.refuse(
            'fallback belongs to the other learners; for learner = "tracked" it is prediction', key="fallback"
        )
    if "hedge_weight" in section:
        given["hedge_weight"] = float(section.amount("hedge_weight"))
    if "fallback" in section:
        fallback = read_prediction(section, "fallback")
        if not is_prior(fallback):
            section.refuse("fallback is one prior for all levels", key="fallback")
        given["fallback"] = fallback
    if kind == "private":
        return _private(section, given)
    if kind == "tracked":
        return _tracked(section, given)
    given |= {key: _guess(section, key) for key in _GUESSES}
    if kind == "previous":
        return PubPrev(**given)
    given["features"] = section.integer("features", 0)
    given["plausible"] = tuple(float(end) for end in section.amounts("plausible"))
    if len(given["plausible"]) != 2:
        section.refuse("plausible must be [lower, upper]", key="plausible")
    if "method" in section:
        given["method"] = section.choice("method", ["regression", "cocob"])
    for key in ("memory", "largest_scale"):
        if key in section:
            given[key] = float(section.amount(key))
    return PubProx(**given)


def _tracked(section: Section, given: dict[str, Any]) -> PubTrack:
    given |= {"features": section.integer("features", 0), "weekdays": section.flag("weekdays", default=True)}
    if "memory" in section:
        given["memory"] = float(section.amount("memory"))
    if "prediction" in section:
        given["prediction"] = read_prediction(section, "prediction")
    return PubTrack(**given)


def _private(section: Section, given: dict[str, Any]) -> PrivateHistograms:
    if "bins" in section:
        given["bins"] = section.integer("bins")
    if "floor_weight" in section:
        given["floor_weight"] = section.amount("floor_weight")
    if "boldness" in section:
        given["boldness"] = float(section.amount("boldness"))
    ends = (float(section.amount(key)) for key in ("lower", "upper"))
    return PrivateHistograms(*ends, rho=section.amount("rho"), **given)


def _guess(section: Section, key: str) -> float | tuple[float, ...]:
    if isinstance(section.values.get(key), list):
        return tuple(float(value) for value in section.amounts(key))
    return float(section.amount(key))
