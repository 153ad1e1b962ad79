"""A plan with a `[sequence]` table: the same quantiles every day, each predicted from the days before."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sidelight.accounting import Route
from sidelight.guarantees import Claim
from sidelight.ledger import Ledger
from sidelight.plans.forms import TEXT, WHOLE, KeyForm, KeyPlace, choice, take
from sidelight.plans.plan import folder_of, ledger_url, read_file, read_head
from sidelight.plans.predictions import PRIOR, PRIORS
from sidelight.plans.queries import query_table
from sidelight.plans.section import Section
from sidelight.plans.tables import Key, TableForm, table_of
from sidelight.quantiles import PrivateHistograms, PubPrev, PubProx, PubTrack, Quantiles, Sequence
from sidelight.quantiles.sequence.accounts import routes_of_days
from sidelight.quantiles.sequence.plan import Learner, SequencePlan
from sidelight.records import Schema, Table

_FORMS: dict[str, KeyForm] = {"prediction": PRIORS, "fallback": PRIOR}
#: What predicts each day from those before, and its keys.
LEARNERS = {
    "tracked": table_of(PubTrack, forms=_FORMS),
    "previous": table_of(PubPrev, forms=_FORMS),
    "proximate": table_of(PubProx, forms=_FORMS),
    "private": table_of(PrivateHistograms, without=("run_days",), forms=_FORMS),
}
_OWN = {
    "learner": Key("learner", choice(*LEARNERS), None),
    "days_per_person": Key("days_per_person", WHOLE, None),
    "state": Key("state", TEXT, None),
}


def _query_keys() -> dict[str, Key]:
    keys = {key: query_table("quantiles").keys[key] for key in ("column", "levels", "epsilon", "resolution")}
    return keys | {"epsilon": replace(keys["epsilon"], default=Key("", TEXT).default)}  # there is no other price


def sequence_table(learner: str | None = None) -> TableForm:
    """Return the `[sequence]` table of a learner, or of all of them if none is named."""
    learners = LEARNERS.values() if learner is None else [LEARNERS[learner]]
    keys = {key: each for table in learners for key, each in table.keys.items()}
    if learner is None:
        keys = {key: replace(each, default=None) for key, each in keys.items()}
    return TableForm(keys={**_query_keys(), **keys, **_OWN})


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
    return "sequence" in read_file(path).values


def read_daily_plan(path: Path | str) -> DailyPlan:
    """Read and check a plan with a `[sequence]` table."""
    whole = read_file(path)
    for key, why in {
        "sequence": "the plan has no [sequence] table; `sidelight run` is for plans with [[query]] tables",
        "ledger": "a sequence needs a [ledger] table: it remembers what was released and spent",
    }.items():
        if key not in whole.values:
            whole.refuse(why)
    given, folder = read_head(whole), folder_of(whole)
    for key in ("query", "pricing"):
        if key in given:
            whole.refuse(f"{key} does not go with [sequence]; leave it out", key=key)
    source, schema = given["source"], given["schema"]
    place = whole.inside(whole.values["source"], "source")
    for key in ("table", "engine"):
        if key in source:
            place.refuse(f"a sequence reads one file a day; leave {key} out", key=key)
    if "{day}" not in source["path"]:
        place.refuse(
            "a sequence reads one file a day, so path must hold {day} where the day stands, such as "
            '"trips-{day}.csv"; the same file on several days would be released for the price of one',
            key="path",
        )
    name = source.get("name", Path(source["path"]).stem)
    query, learner, days = read_sequence(given["sequence"], schema)
    return DailyPlan(
        title=given.get("title", name),
        folder=folder,
        source=source["path"],
        records=source.get("records", "standard"),
        schema=schema,
        budget=given["budget"],
        routes=routes_of_days(given["budget"], given["routes"]),
        ledger=ledger_url(given["ledger"]["url"], folder=folder),
        scope=given["ledger"].get("scope", name),
        strict=given.get("strict", False),
        query=query,
        learner=learner,
        days_per_person=days.get("days_per_person"),
        state=folder / days["state"] if "state" in days else None,
    )


def read_sequence(section: Section, schema: Schema) -> tuple[Quantiles, Learner, dict[str, Any]]:
    """Read what is released every day, how it is predicted, and the keys about the days."""
    usual = "proximate" if "location" in section.values else "tracked"
    kind = take(choice(*LEARNERS), KeyPlace(section, "learner"), section.values.get("learner", usual))
    for key in section.values:
        owners = [name for name, table in LEARNERS.items() if key in table.keys]
        if owners and kind not in owners and key not in _query_keys():
            instead = "; it is prediction" if (kind, key) == ("tracked", "fallback") else "; leave it out"
            named = " or ".join(f'learner = "{name}"' for name in owners)
            section.refuse(f"{key} belongs to {named}{instead}", key=key)
    given = sequence_table(kind).read_values(section)
    asked = {key: given.pop(key) for key in _query_keys() if key in given}
    days = {key: given.pop(key) for key in _OWN if key in given}
    with section.naming():
        query: Quantiles = Quantiles(**asked)
        query.prepare(schema)
        learner: Learner = LEARNERS[kind].make(**given)
    return query, learner, days
