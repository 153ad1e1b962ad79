"""The entries of a ledger, one by one: what was asked, what it was charged and what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

from sidelight.accounting import Charge
from sidelight.errors import LedgerDamagedError, LedgerError
from sidelight.guarantees import Claims, Numerics
from sidelight.ledger.chain import Json, LedgerEvent, canonical, read
from sidelight.ledger.definition import Share, share_from_json
from sidelight.ledger.journal import each_event, event_at

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction
State = Literal["reserved", "released", "refused", "failed"]
#: What each kind of outcome makes of an entry.
OUTCOMES: Final[dict[str, State]] = {"release": "released", "refuse": "refused", "fail": "failed"}


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One charge as the ledger knows it. `text` is the released value or refusal; `head` the hash of its outcome."""

    entry_id: str
    scope_id: str
    key: str
    attempt: int
    state: State
    at_utc: str
    claims: Claims
    charge: Charge
    request: Mapping[str, Json]
    text: str | None
    head: str | None
    sent: str | None  # a digest of the query as it was sent, where it was


def list_entries(transaction: Transaction, *, scope_id: str | None) -> list[LedgerEntry]:
    """Return all entries in order, or those that charged one scope, with that scope's claims and charge."""
    reserved: dict[str, LedgerEvent] = {}
    outcomes: dict[str, LedgerEvent] = {}
    for event in each_event(transaction):
        if event.entry_id is None:
            continue
        if event.kind == "reserve":
            reserved[event.entry_id] = event
        elif event.kind in OUTCOMES:
            outcomes[event.entry_id] = event
    found = (_entry(event, outcomes.get(entry_id), scope_id=scope_id) for entry_id, event in reserved.items())
    return [entry for entry in found if entry is not None]


def shares_by_charge(body: Any) -> list[tuple[Share, ...]]:
    """Return the shares in the body of an event, charge by charge: an import holds several charges in a row.

    An import says how many shares each of its charges has. Those of versions before 0.6.0 do not: there a charge ends
    where the next share cannot belong to it. Two charges that have no scope in common may then be taken for one, which
    asks for no less: where they meet in an ancestor, the import that books them is refused.

    Raises:
        LedgerDamagedError: the shares are not those of so many charges.
    """
    shares = [share_from_json(share) for share in body["charges"]]
    source = body.get("source")
    if not source:
        return [tuple(shares)]
    if "events" in source:
        rest = iter(shares)
        found = [tuple(islice(rest, int(size))) for _, size in source["events"]]
        if sum(map(len, found)) != len(shares) or any(not each or _ends(each) for each in found):
            raise LedgerDamagedError("an import does not say which of its shares are one charge")
        return found
    starts = [0, *_ends(shares), len(shares)]
    return [tuple(shares[start:end]) for start, end in pairwise(starts)]


def _ends(shares: Sequence[Share]) -> list[int]:
    """Return where shares cannot go on as those of one charge, which are in order and name each account once.

    A charge is booked either to a scope's own account or to those of its parts, never to both.
    """
    found: list[int] = []
    own: set[str] = set()
    for position, share in enumerate(shares):
        before = shares[position - 1] if position else None
        ordered = before is None or (before.scope_id, before.part or "") < (share.scope_id, share.part or "")
        if not ordered or share.scope_id in own:
            found.append(position)
            own = set()
        if share.part is None:
            own.add(share.scope_id)
    return found


def charged_numerics(transaction: Transaction, scope_id: str, *, part: str | None = None) -> Numerics:
    """Return whether anything that was charged to a scope is proved for real-number arithmetic only.

    With `part`, only what was charged to that part of the scope, or to the whole of it.
    """
    rows = transaction.rows(
        "SELECT body FROM event WHERE kind IN ('reserve', 'import') AND body LIKE :mark",
        mark='%"numerics":"idealized"%',
    )
    for (text,) in rows:
        body: Any = read(str(text))
        for each in body["charges"]:
            mine = each["scope_id"] == scope_id and (part is None or each["part"] in (None, part))
            if mine and share_from_json(each).claims.numerics == "idealized":
                return "idealized"
    return "exact"


def charged_claims(transaction: Transaction, scope_id: str) -> list[Claims]:
    """Return the claims of everything that was ever charged to a scope, in order: other tools' and failures, too."""
    found: list[Claims] = []
    for event in each_event(transaction):
        charges = event.content["charges"] if event.kind in ("reserve", "import") else []
        shares = [share_from_json(share) for share in charges] if isinstance(charges, list) else []
        found += [share.claims for share in shares if share.scope_id == scope_id]
    return found


def find_entry(transaction: Transaction, scope_id: str, key: str) -> LedgerEntry | None:
    """Return the newest attempt of a key, by index; None if the scope does not remember the key."""
    row = transaction.row(
        "SELECT reserve_seq, outcome_seq FROM entry WHERE scope_id = :scope_id AND idem_key = :idem_key"
        " ORDER BY attempt DESC LIMIT 1",
        scope_id=scope_id,
        idem_key=key,
    )
    return None if row is None else _entry_at(transaction, *row, scope_id=scope_id)


def find_entry_by_id(transaction: Transaction, scope_id: str, entry_id: str) -> LedgerEntry | None:
    """Return an entry whose key a scope remembers, by the entry's own name; None if there is none."""
    row = transaction.row(
        "SELECT reserve_seq, outcome_seq FROM entry WHERE entry_id = :entry_id AND scope_id = :scope_id",
        entry_id=entry_id,
        scope_id=scope_id,
    )
    return None if row is None else _entry_at(transaction, *row, scope_id=scope_id)


def count_failures(transaction: Transaction, scope_id: str, *, since: str) -> int:
    """Return how many entries of a scope failed, not abandoned, that were reserved at or after a time."""
    row = transaction.row(
        "SELECT COUNT(*) FROM entry JOIN event ON event.seq = entry.outcome_seq"  # an outcome repeats the time
        " WHERE entry.scope_id = :scope_id AND entry.state = 'failed' AND event.at_utc >= :since"
        " AND event.body <> :abandoned",
        scope_id=scope_id,
        since=since,
        abandoned=canonical({"reason": "reaped"}),
    )
    return 0 if row is None else int(row[0])


def list_page(transaction: Transaction, scope_id: str, *, limit: int, after: str | None) -> list[LedgerEntry]:
    """Return some of the entries whose keys a scope remembers, oldest first; those after an entry if one is named."""
    since = -1
    if after is not None:
        row = transaction.row(
            "SELECT reserve_seq FROM entry WHERE entry_id = :entry_id AND scope_id = :scope_id",
            entry_id=after,
            scope_id=scope_id,
        )
        if row is None:
            raise LedgerError(f"the scope {scope_id!r} has no entry {after!r}; begin at the first page")
        since = int(row[0])
    rows = transaction.rows(
        "SELECT reserve_seq, outcome_seq FROM entry WHERE scope_id = :scope_id AND reserve_seq > :since"
        " ORDER BY reserve_seq LIMIT :limit",
        scope_id=scope_id,
        since=since,
        limit=limit,
    )
    found = (_entry_at(transaction, *row, scope_id=scope_id) for row in rows)
    return [entry for entry in found if entry is not None]


def list_finished(transaction: Transaction, *, scope_id: str | None, after: str | None) -> list[LedgerEntry]:
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
    found = (_entry_at(transaction, *row, scope_id=scope_id) for row in rows)
    return [entry for entry in found if entry is not None]


def list_unfinished(transaction: Transaction) -> list[LedgerEntry]:
    """Return the entries without an outcome, in order; other events are not read."""
    rows = transaction.rows("SELECT reserve_seq FROM entry WHERE state = 'reserved' ORDER BY reserve_seq")
    found = (_entry_at(transaction, seq, None, scope_id=None) for (seq,) in rows)
    return [entry for entry in found if entry is not None]


def _entry_at(
    transaction: Transaction, reserve: int, outcome: int | None, *, scope_id: str | None
) -> LedgerEntry | None:
    ended = None if outcome is None else event_at(transaction, outcome)
    return _entry(event_at(transaction, reserve), ended, scope_id=scope_id)


def _entry(event: LedgerEvent, outcome: LedgerEvent | None, *, scope_id: str | None) -> LedgerEntry | None:
    body = event.content
    charges, request = body["charges"], body["request"]
    shares = [share_from_json(share) for share in charges] if isinstance(charges, list) else []
    wanted = event.scope_id if scope_id is None else scope_id
    mine = next((share for share in shares if share.scope_id == wanted), None)
    if mine is None or event.entry_id is None:
        return None
    text = None if outcome is None or outcome.kind == "fail" else str(outcome.content["text"])
    return LedgerEntry(
        entry_id=event.entry_id,
        scope_id=str(event.scope_id),
        key=str(body["idem_key"]),
        attempt=int(str(body["attempt"])),
        state="reserved" if outcome is None else OUTCOMES[outcome.kind],
        at_utc=event.at_utc,
        claims=mine.claims,
        charge=mine.charge,
        request=request if isinstance(request, dict) else {},
        text=text,
        head=None if outcome is None else outcome.hash,
        sent=None if body.get("sent") is None else str(body["sent"]),
    )
