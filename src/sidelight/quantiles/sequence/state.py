"""The learner's state between two days, in a file next to the ledger.

The ledger is the truth: the state is what the released days up to `head` give, and can always be made again from them.
The file saves doing so every day. It is replaced whole or not at all, carries its own checksum and the name of its
plan, and a file that does not fit is an error and never guessed at.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from sidelight.errors import LedgerError, SidelightError
from sidelight.ledger import LedgerEntry, Scope
from sidelight.ledger.definition import BUDGETS_ADD_UP
from sidelight.ledger.place import check_output
from sidelight.quantiles.sequence.plan import Learned, SequencePlan, is_finite
from sidelight.quantiles.sequence.recursive_regression import Floats
from sidelight.release import Release, outcome_from_json

FORMAT: Final = "1"


@dataclass(frozen=True, kw_only=True)
class State:
    """What the released days have taught, and up to where in the ledger."""

    learned: Learned
    days: int = 0
    last_day: datetime.date | None = None
    first_entry: str | None = None
    last_entry: str | None = None
    head: str | None = None  # the hash of the last outcome that was learned from

    @property
    def entries(self) -> list[str]:
        """The first and the last entry that were learned from."""
        return list(dict.fromkeys(entry for entry in (self.first_entry, self.last_entry) if entry is not None))


def _content(state: State, plan: SequencePlan, *, ledger_id: str) -> dict[str, Any]:
    """Return what a file of this state holds, but for its checksum."""
    return {
        "format": FORMAT,
        "what": "state of a sidelight sequence; it can be deleted, the ledger gives it back",
        "plan": plan.digest,
        "ledger": ledger_id,
        "days": str(state.days),
        "last_day": None if state.last_day is None else state.last_day.isoformat(),
        "first_entry": state.first_entry,
        "last_entry": state.last_entry,
        "head": state.head,
        "learner": state.learned.to_json(),
    }


def check_place(path: Path) -> None:
    """Refuse a place in which no state can be written, before anything is charged."""
    check_output(path)  # before it is read, and before a message says to delete it
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        what = "cannot be written" if folder.is_dir() else "does not exist"
        raise LedgerError(f"the folder {str(folder)!r} of the state {what}; make it first, or name another by state=")


def write_state(path: Path, state: State, plan: SequencePlan, *, ledger_id: str) -> None:
    """Replace the file in one step; a crash leaves the old file or the new one."""
    content = _content(state, plan, ledger_id=ledger_id)
    path = Path(os.path.realpath(path))  # what a link points to is replaced, and the link stays
    text = json.dumps({**content, "checksum": _checksum(content)}, sort_keys=True, ensure_ascii=True)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise LedgerError(
            f"the state {str(path)!r} cannot be written ({error.strerror}); the release is safe in the ledger, and the "
            "next run finds it there"
        ) from None


def read_state(path: Path, plan: SequencePlan, *, ledger_id: str) -> State:
    """Read the file, or the state before the first day if there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return State(learned=plan.begin())
    except (OSError, UnicodeDecodeError):
        raise _unusable(path, "it cannot be read") from None
    try:
        content = json.loads(text)
        found, written = content.pop("checksum"), content["format"]
        checksum = _checksum(content)
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
        raise _unusable(path, "it is not the JSON of a state") from None
    if written != FORMAT:
        raise _unusable(path, f"it has format {str(written)[:20]!r}, this version of sidelight reads {FORMAT!r}")
    if found != checksum:
        raise _unusable(path, "its checksum is wrong: it was changed or damaged")
    if content.get("plan") != plan.digest:
        raise LedgerError(
            f"the state {str(path)!r} belongs to another plan (other query, schema, learner or days_per_person); a "
            f"sequence never changes, and {BUDGETS_ADD_UP}, with a state of its own"
        )
    if content.get("ledger") != ledger_id:
        raise LedgerError(f"the state {str(path)!r} belongs to another ledger; name the state of this one")
    try:
        state = State(
            learned=plan.read(content["learner"]),
            days=int(content["days"]),
            last_day=None if content["last_day"] is None else datetime.date.fromisoformat(content["last_day"]),
            first_entry=content["first_entry"],
            last_entry=content["last_entry"],
            head=content["head"],
        )
        # What was read must say again what was written: nothing in the file is left out, guessed at or of another type.
        fits = _content(state, plan, ledger_id=ledger_id) == content and is_finite(state.learned)
        texts = all(isinstance(each, str | None) for each in (state.first_entry, state.last_entry, state.head))
        known = (state.days > 0) == (state.head is not None) == (state.last_day is not None)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, SidelightError):
        fits = False
    if not (fits and texts and known and state.days >= 0):
        raise _unusable(path, "its fields do not fit together")
    return state


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _unusable(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"the state {str(path)!r} is not used: {why}. Nothing was released. Delete it, and the next run makes it again "
        "from the ledger, or put the right file back"
    )


# The days that were released, as the ledger knows them: what a state is made of.


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


def released_day(entry: LedgerEntry, plan: SequencePlan) -> ReleasedDay | None:
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
            learned=plan.learn(state.learned, plan.numbers(found.features, found.day), found.release),
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
