"""The deciding transaction: one place where a charge is granted and written, or refused and not written.

Charges are computed before any lock. A writer locks the head of the chain before it reads the first row that matters,
so concurrent sessions decide one after the other. Every function here may run twice after a lost COMMIT, and
begins by looking for its own earlier trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from sidelight.accounting import find_shortfall
from sidelight.errors import (
    BudgetError,
    InProgressError,
    KeyReusedError,
    LedgerDamagedError,
    LedgerError,
    ScopeClosedError,
    ScopeError,
)
from sidelight.ledger.balances import Balances, balances_from_json, by_scope, check_shares, chosen_shares
from sidelight.ledger.chain import Json, canonical, now_utc, plain, read
from sidelight.ledger.definition import (
    BUDGETS_ADD_UP,
    ScopeDefinition,
    Share,
    definition_from_row,
    depth_of,
)
from sidelight.ledger.entries import OUTCOMES
from sidelight.ledger.journal import SignedScopes, append, event_at, lock_head, signed_scopes
from sidelight.ledger.names import check_new_scope, check_spelling

if TYPE_CHECKING:
    from sidelight.ledger.schema import Question, Transaction

#: Why an entry failed. A class name is written only for errors raised before the data was opened; after that the cause
#: is a function of the data, and the entry says no more than "failed".
FailReason = Literal["failed", "reaped", "SourceError", "SchemaError", "StrictError", "RangeError"]
FAIL_REASONS: Final = get_args(FailReason)
#: Under which name the request of a key holds the digest of the columns' declarations.
DECLARED: Final = "declared"
_ATTEMPTS: Final = (
    "SELECT entry_id, attempt, state, reserve_seq, outcome_seq FROM entry"
    " WHERE scope_id = :scope_id AND idem_key = :idem_key ORDER BY attempt DESC"
)
_RESERVED: Final = (
    "SELECT entry.scope_id, entry.state, entry.outcome_seq, event.at_utc FROM entry"
    " JOIN event ON event.seq = entry.reserve_seq WHERE entry.entry_id = :entry_id"
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """Everything about a request that is known before any lock. All of it is public."""

    entry_id: str  # chosen by the caller, so that a lost COMMIT can be looked up
    scope_id: str
    key: str
    shares: tuple[Share, ...]
    request: Mapping[str, object]
    at_utc: str
    resume: bool = False
    once: bool = False
    sent: str | None = None  # a digest of the query as it was sent, where it was

    def body(self, attempt: int) -> dict[str, object]:
        """Return the body of the reserve event."""
        return {
            "attempt": str(attempt),
            "charges": [share.to_json() for share in self.shares],
            "idem_key": self.key,
            "request": self.request,
            **({"once": "1"} if self.once else {}),
            **({} if self.sent is None else {"sent": self.sent}),
        }

    def same_as(self, body: Mapping[str, Json]) -> bool:
        """Return whether a stored reservation asked for the same thing: the same request with the same claims.

        A key with one attempt names one query, whatever other scopes pay for it, such as that of a month: it is
        the same if it was sent as the same text, or else if the scope that remembers the key is asked for the same.
        """
        mine, theirs = self.body(0), plain(body)
        asked: Any = body["request"]
        if DECLARED not in asked:  # written by a version that did not hold it
            mine["request"] = {name: part for name, part in self.request.items() if name != DECLARED}
        if self.once or has_one_attempt(body):
            sent = self.sent is not None and self.sent == body.get("sent")
            return sent or _asked(mine, scope_id=self.scope_id) == _asked(theirs, scope_id=self.scope_id)
        return _asked(mine) == _asked(theirs)


def has_one_attempt(body: Mapping[str, Json]) -> bool:
    """Return whether a stored reservation limits its key to one attempt."""
    return body.get("once") == "1"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What became of the same key before: nothing was charged again. A failed one (of `once=True`) has no text."""

    entry_id: str
    state: Literal["released", "refused", "failed"]
    text: str
    head: str


def reserve(
    transaction: Transaction, request: Request, definitions: Mapping[str, ScopeDefinition], *, key: bytes | None
) -> Stored | None:
    """Grant and write the charge (None), or return what the same key bought before.

    Raises:
        BudgetError: the request does not fit; nothing is written.
        InProgressError: the same key is reserved and has no outcome.
        KeyReusedError: the same key was used for another request.
    """
    names = [share.scope_id for share in request.shares] + [request.scope_id]
    same_key = {"scope_id": request.scope_id, "idem_key": request.key}
    balances = lock(transaction, names, key=key, definitions=definitions, then=[(_ATTEMPTS, same_key)])
    attempts = transaction.rows(_ATTEMPTS, **same_key)
    if any(entry_id == request.entry_id for entry_id, *_ in attempts):
        return None  # this very request was committed and its answer lost on the way
    if attempts:
        stored = _earlier(transaction, request, attempts[0], key=key)
        if stored is not None:
            return stored
    else:
        check_spelling(request.key, what="a key")
    request = replace(request, shares=chosen_shares(request.shares, balances, definitions))
    check_budget(request.shares, balances, definitions, first=request.scope_id)
    attempt = attempts[0][1] + 1 if attempts else 1
    book(transaction, request.shares, balances, seq=next_seq(transaction), key=key)
    event = append(
        transaction,
        kind="reserve",
        at_utc=request.at_utc,
        scope_id=request.scope_id,
        entry_id=request.entry_id,
        body=request.body(attempt),
        key=key,
    )
    transaction.later(
        "INSERT INTO entry (entry_id, scope_id, idem_key, attempt, reserve_seq, outcome_seq, state)"
        " VALUES (:entry_id, :scope_id, :idem_key, :attempt, :seq, NULL, 'reserved')",
        entry_id=request.entry_id,
        scope_id=request.scope_id,
        idem_key=request.key,
        attempt=attempt,
        seq=event.seq,
    )
    return None


def settle(
    transaction: Transaction,
    *,
    entry_id: str,
    kind: Literal["release", "refuse", "fail"],
    body: Mapping[str, object],
    key: bytes | None,
) -> str:
    """Write the one outcome of a reservation and return the new head.

    The outcome repeats its reservation's time: how long a run took is a function of the data.
    """
    own = {"entry_id": entry_id}
    scopes = signed_scopes(transaction, key=key, then=[(_RESERVED, own)])  # holds the head: no state changes meanwhile
    row = transaction.row(_RESERVED, **own)
    if row is None:
        raise LedgerError(f"there is no entry {entry_id!r} in this ledger")
    scope_id, state, outcome_seq, at_utc = row
    if state != "reserved":
        outcome = event_at(transaction, outcome_seq)
        if outcome.kind == kind and (kind == "fail" or outcome.body == canonical(body)):
            return outcome.hash  # written before, and the answer was lost on the way
        raise LedgerError(
            f"the entry {entry_id} is already {state}; this late outcome is discarded. "
            "If it was marked as abandoned while still running, ask again: a new attempt pays again"
        )
    scopes.update({scope_id: None}, seq=next_seq(transaction))
    event = append(transaction, kind=kind, at_utc=at_utc, scope_id=scope_id, entry_id=entry_id, body=body, key=key)
    changed = transaction.run(
        "UPDATE entry SET state = :state, outcome_seq = :seq WHERE entry_id = :entry_id AND state = 'reserved'",
        state=OUTCOMES[kind],
        seq=event.seq,
        entry_id=entry_id,
    )
    if changed != 1:
        raise LedgerError(f"the entry {entry_id} changed while its outcome was written; nothing was recorded")
    return event.hash


def mark_abandoned(transaction: Transaction, entry_id: str, scope_id: str, *, reason: str, key: bytes | None) -> bool:
    """Mark one entry as abandoned, unless it has finished in the meantime."""
    lock(transaction, [scope_id], key=key)
    row = transaction.row("SELECT state FROM entry WHERE entry_id = :entry_id", entry_id=entry_id)
    if row != ("reserved",):
        return False
    settle(transaction, entry_id=entry_id, kind="fail", body={"reason": reason}, key=key)
    return True


def find_or_make_scope(transaction: Transaction, wanted: ScopeDefinition, *, key: bytes | None) -> ScopeDefinition:
    scopes = signed_scopes(transaction, key=key)  # locks the head: no other process makes the same scope
    columns = scopes.columns(wanted.scope_id)
    if columns is not None:
        return definition_from_row(list(columns.values()))
    check_new_scope(wanted.scope_id, scopes.names())
    if wanted.parent_id is not None:
        parent = _known_scope(scopes, wanted.parent_id)
        if parent[0].sharing == "reserved":
            check_shares(parent, (_known_scope(scopes, name) for name in scopes.children(wanted.parent_id)), wanted)
    scopes.insert(wanted, totals=canonical(Balances().to_json()), seq=next_seq(transaction))
    append(transaction, kind="scope", at_utc=now_utc(), scope_id=wanted.scope_id, body=wanted.to_body(), key=key)
    return wanted


def _known_scope(scopes: SignedScopes, scope_id: str) -> tuple[ScopeDefinition, Balances]:
    columns = scopes.columns(scope_id)
    if columns is None:
        raise ScopeError(f"there is no scope {scope_id!r} in this ledger; open it first")
    return definition_from_row(list(columns.values())), balances_from_json(read(scopes.totals(scope_id)))


def close_scope(transaction: Transaction, scope_id: str, *, key: bytes | None) -> str:
    balances = lock(transaction, [scope_id], key=key)[scope_id]
    if balances.shut:
        return lock_head(transaction)[1]
    totals = canonical(balances.closed().to_json())
    signed_scopes(transaction, key=key).update({scope_id: totals}, seq=next_seq(transaction))
    return append(transaction, kind="close", at_utc=now_utc(), scope_id=scope_id, body={}, key=key).hash


def lock(
    transaction: Transaction,
    scope_ids: Iterable[str],
    *,
    key: bytes | None,
    definitions: Mapping[str, ScopeDefinition] | None = None,
    then: Sequence[Question] = (),
) -> dict[str, Balances]:
    """Lock the head; return the totals of some scopes, which the newest event signs.

    SQLite holds the whole file since BEGIN IMMEDIATE. In PostgreSQL a transaction that changes a scope locks the head,
    so the rows that are read after it are the newest. `definitions` are those that the caller charges by: they must be
    the signed ones, too. `then` is what the caller asks next.
    """
    names = sorted(set(scope_ids))
    scopes = signed_scopes(transaction, key=key, wanted=names, then=then)
    missing = [name for name in names if scopes.columns(name) is None]
    if missing:
        raise ScopeError(f"there is no scope {missing[0]!r} in this ledger; open it first")
    for name in names:
        if definitions is not None and scopes.columns(name) != definitions[name].to_columns():
            raise LedgerDamagedError(
                f"the budget or the rule of scope {name!r} was changed in the table when it was read, and is not what "
                "the ledger's events say; nothing was granted. Run `sidelight ledger verify`"
            )
    return {name: balances_from_json(read(scopes.totals(name))) for name in names}


def next_seq(transaction: Transaction) -> int:
    """Return the number of the event that is appended next."""
    return lock_head(transaction)[0] + 1


def check_budget(
    shares: Sequence[Share],
    balances: Mapping[str, Balances],
    definitions: Mapping[str, ScopeDefinition],
    *,
    first: str,
) -> None:
    """Raise `BudgetError` if any scope's rule would not hold: the first scope's, or the nearest above it.

    It names one scope, and neither who spent nor what else is short. What would fit is a search, and is added when the
    transaction has ended (`ScopeKeeper`).
    """
    grouped = by_scope(shares)
    for name in sorted(grouped, key=lambda name: (name != first, -depth_of(name, definitions), name)):
        own, rule = balances[name], definitions[name].rule_for(grouped[name])
        if own.shut:
            raise ScopeClosedError(f"scope {name!r} was closed and grants nothing more; {BUDGETS_ADD_UP}")
        if not own.fits(rule, grouped[name]):
            price = grouped[name][0].charge if rule.sum_first else own.increase(grouped[name])
            requested, remaining, difference = find_shortfall(rule, own.totals(), price)
            raise BudgetError(
                f"the request does not fit scope {name!r}: requested {requested}, remaining {remaining}, "
                f"difference {difference}; nothing was charged",
                requested=requested,
                remaining=remaining,
                difference=difference,
                scope_id=name,
            )


def book(
    transaction: Transaction, shares: Sequence[Share], balances: Mapping[str, Balances], *, seq: int, key: bytes | None
) -> None:
    """Write the new totals of every scope that pays, for event `seq` to sign."""
    totals = {name: canonical(balances[name].plus(own).to_json()) for name, own in by_scope(shares).items()}
    signed_scopes(transaction, key=key).update(totals, seq=seq)


def _earlier(transaction: Transaction, request: Request, newest: Sequence[Any], *, key: bytes | None) -> Stored | None:
    """Return what this key bought before; mark an unfinished attempt as abandoned if the request resumes it."""
    entry_id, _, state, reserve_seq, outcome_seq = newest
    earlier = event_at(transaction, reserve_seq).content
    once = request.once or has_one_attempt(earlier)
    if state == "failed" and not once:
        return None
    if not request.same_as(earlier):
        raise KeyReusedError(
            f"the key {request.key!r} was used in scope {request.scope_id!r} for another request (other parameters, "
            "schema or claims); use a new key for a new request"
        )
    if state == "reserved":
        if not request.resume:
            raise InProgressError(
                f"the request with key {request.key!r} in scope {request.scope_id!r} is reserved and has no outcome: "
                "another process runs it, or one died. If none runs, resume it; the new attempt pays again"
            )
        reason = "failed" if once else "reaped"
        head = settle(transaction, entry_id=entry_id, kind="fail", body={"reason": reason}, key=key)
        return Stored(entry_id=str(entry_id), state="failed", text="", head=head) if once else None
    outcome = event_at(transaction, outcome_seq)
    text = "" if state == "failed" else str(outcome.content["text"])
    return Stored(entry_id=str(entry_id), state=state, text=text, head=outcome.hash)


def _asked(body: Any, *, scope_id: str | None = None) -> str:
    # charges are left out: a later version may prove a smaller one for the same claims
    shares = [share for share in body["charges"] if scope_id in (None, share["scope_id"])]
    claims = [[share["scope_id"], share["part"], share["claims"]] for share in shares]
    return canonical({"claims": claims, "request": body["request"]})
