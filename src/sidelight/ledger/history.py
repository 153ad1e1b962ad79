"""Entries as people want to see them, put together from the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidelight.errors import LedgerError
from sidelight.ledger.chain import Event
from sidelight.ledger.entry import Entry, State
from sidelight.ledger.journal import each_event, event_at
from sidelight.ledger.shares import share_from_json

if TYPE_CHECKING:
    from sidelight.ledger.transaction import Transaction

_STATES: dict[str, State] = {"release": "released", "refuse": "refused", "fail": "failed"}


def list_entries(transaction: Transaction, *, scope_id: str | None) -> list[Entry]:
    """Return all entries in order, or those that charged one scope, with that scope's claims and charge."""
    reserved: dict[str, Event] = {}
    outcomes: dict[str, Event] = {}
    for event in each_event(transaction):
        if event.entry_id is None:
            continue
        if event.kind == "reserve":
            reserved[event.entry_id] = event
        elif event.kind in _STATES:
            outcomes[event.entry_id] = event
    found = (_entry(event, outcomes.get(entry_id), scope_id=scope_id) for entry_id, event in reserved.items())
    return [entry for entry in found if entry is not None]


def list_finished(transaction: Transaction, *, scope_id: str | None, after: str | None) -> list[Entry]:
    """Return entries by their outcomes, those after a head if one is named; older events are not read."""
    since = -1
    if after is not None:
        row = transaction.row("SELECT seq FROM event WHERE hash = :hash", hash=after)
        if row is None:
            raise LedgerError(
                f"the ledger does not hold the head {after[:16]}...: this is another ledger or an older copy of it"
            )
        since = int(row[0])
    rows = transaction.rows(
        "SELECT reserve_seq, outcome_seq FROM entry WHERE outcome_seq > :since ORDER BY outcome_seq", since=since
    )
    found = (
        _entry(event_at(transaction, reserve), event_at(transaction, outcome), scope_id=scope_id)
        for reserve, outcome in rows
    )
    return [entry for entry in found if entry is not None]


def _entry(event: Event, outcome: Event | None, *, scope_id: str | None) -> Entry | None:
    body = event.content
    charges, request = body["charges"], body["request"]
    shares = [share_from_json(share) for share in charges] if isinstance(charges, list) else []
    wanted = event.scope_id if scope_id is None else scope_id
    mine = next((share for share in shares if share.scope_id == wanted), None)
    if mine is None or event.entry_id is None:
        return None
    text = None if outcome is None or outcome.kind == "fail" else str(outcome.content["text"])
    return Entry(
        entry_id=event.entry_id,
        scope_id=str(event.scope_id),
        key=str(body["idem_key"]),
        attempt=int(str(body["attempt"])),
        state="reserved" if outcome is None else _STATES[outcome.kind],
        at_utc=event.at_utc,
        claims=mine.claims,
        charge=mine.charge,
        request=request if isinstance(request, dict) else {},
        text=text,
        head=None if outcome is None else outcome.hash,
    )
