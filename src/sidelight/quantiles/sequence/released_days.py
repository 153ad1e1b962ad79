"""The days that were released, as the ledger knows them: what a state is made of."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sidelight.ledger import Entry, Scope
from sidelight.quantiles.sequence.plan import SequencePlan
from sidelight.quantiles.sequence.start import Floats
from sidelight.quantiles.sequence.state import State
from sidelight.release import Release, outcome_from_json


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedDay:
    """One released day: its public features and what was released."""

    day: datetime.date
    features: Floats
    release: Release


def describe_day(plan: SequencePlan, day: datetime.date, features: Floats) -> dict[str, Any]:
    """Return what the ledger's request says about the day, in exact text."""
    return {
        "plan": plan.digest,
        "day": day.isoformat(),
        "features": [float(number).hex() for number in features],
        "days_per_person": str(plan.days_per_person),
    }


def released_day(entry: Entry, plan: SequencePlan) -> ReleasedDay | None:
    """Read a day of this plan out of an entry; None for entries of anything else."""
    about = entry.request.get("sequence")
    if entry.state != "released" or entry.text is None or not isinstance(about, dict):
        return None
    if about.get("plan") != plan.digest:
        return None
    outcome = outcome_from_json(entry.text).at(entry_id=entry.entry_id, ledger_head=entry.head)
    if not isinstance(outcome, Release):
        return None
    features = about.get("features")
    texts = features if isinstance(features, list) else []
    return ReleasedDay(
        day=datetime.date.fromisoformat(str(about["day"])),
        features=np.array([float.fromhex(str(text)) for text in texts], dtype=np.float64),
        release=outcome,
    )


def caught_up(state: State, scope: Scope, plan: SequencePlan) -> State:
    """Return the state after every day that the ledger holds and the state does not.

    A crash after a release and before its state was written is healed here. Days are learned from in the order in which
    they were released, so that the state is the same however often it was written in between.
    """
    for entry in scope.ledger.finished(scope_id=scope.scope_id, after=state.head):
        found = released_day(entry, plan)
        if found is None:
            continue
        state = replace(
            state,
            learned=state.learned.learn(found.features, np.asarray(found.release.value, dtype=np.float64)),
            days=state.days + 1,
            last_day=found.day if state.last_day is None else max(state.last_day, found.day),
            first_entry=state.first_entry or entry.entry_id,
            last_entry=entry.entry_id,
            head=entry.head,
        )
    return state


def find_day(day: datetime.date, scope: Scope, plan: SequencePlan) -> ReleasedDay | None:
    """Return a day that was released before."""
    found = (released_day(entry, plan) for entry in scope.ledger.finished(scope_id=scope.scope_id))
    return next((each for each in found if each is not None and each.day == day), None)
