"""The deciding transaction: one place where a charge is granted and written, or refused and not written.

Charges are computed before any lock. Inside, all rows that matter are locked in one order (scopes by name, then the
head), so concurrent sessions decide one after the other. Every function here may run twice after a lost COMMIT, and
begins by looking for its own earlier trace. A `Reservation` is what a granted request gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, get_args

from sidelight.accounting import find_shortfall, what_would_fit
from sidelight.errors import BudgetError, InProgressError, LedgerError
from sidelight.ledger import decide
from sidelight.ledger.balances import OUTCOMES, Balances, balances_from_json, by_scope, chosen_shares
from sidelight.ledger.chain import Json, canonical, now_utc, plain, read
from sidelight.ledger.definition import BUDGETS_ADD_UP, ScopeDefinition, Share, definition_from_row
from sidelight.ledger.journal import append, event_at, lock_head, signed_scopes

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction
    from sidelight.ledger.store import Store

#: Why an entry failed. A class name is written only for errors raised before the data was opened; after that the cause
#: is a function of the data, and the entry says no more than "failed".
FailReason = Literal["failed", "reaped", "SourceError", "SchemaError", "StrictError", "RangeError"]
FAIL_REASONS: Final = get_args(FailReason)


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

    def body(self, attempt: int) -> dict[str, object]:
        """Return the body of the reserve event."""
        return {
            "attempt": str(attempt),
            "charges": [share.to_json() for share in self.shares],
            "idem_key": self.key,
            "request": self.request,
        }

    def same_as(self, body: Mapping[str, Json]) -> bool:
        """Return whether a stored reservation asked for the same thing: the same request with the same claims."""
        return _asked(self.body(0)) == _asked(plain(body))


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
        LedgerError: the same key was used for another request.
    """
    names = [share.scope_id for share in request.shares] + [request.scope_id]
    balances = lock(transaction, names, key=key, definitions=definitions)
    if transaction.row("SELECT 1 FROM entry WHERE entry_id = :entry_id", entry_id=request.entry_id):
        return None  # this very request was committed and its answer lost on the way
    stored = _earlier(transaction, request, key=key)
    if stored is not None:
        return stored
    request = replace(request, shares=chosen_shares(request.shares, balances, definitions))
    check_budget(request.shares, balances, definitions, first=request.scope_id)
    (attempts,) = transaction.row(
        "SELECT COALESCE(MAX(attempt), 0) FROM entry WHERE scope_id = :scope_id AND idem_key = :idem_key",
        scope_id=request.scope_id,
        idem_key=request.key,
    ) or (0,)
    book(transaction, request.shares, balances, seq=next_seq(transaction), key=key)
    event = append(
        transaction,
        kind="reserve",
        at_utc=request.at_utc,
        scope_id=request.scope_id,
        entry_id=request.entry_id,
        body=request.body(attempts + 1),
        key=key,
    )
    transaction.run(
        "INSERT INTO entry (entry_id, scope_id, idem_key, attempt, reserve_seq, outcome_seq, state)"
        " VALUES (:entry_id, :scope_id, :idem_key, :attempt, :seq, NULL, 'reserved')",
        entry_id=request.entry_id,
        scope_id=request.scope_id,
        idem_key=request.key,
        attempt=attempts + 1,
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
    row = transaction.row("SELECT scope_id FROM entry WHERE entry_id = :entry_id", entry_id=entry_id)
    if row is None:
        raise LedgerError(f"there is no entry {entry_id!r} in this ledger")
    (scope_id,) = row
    lock(transaction, [scope_id], key=key)
    state, outcome_seq, at_utc = transaction.row(
        "SELECT entry.state, entry.outcome_seq, event.at_utc FROM entry JOIN event ON event.seq = entry.reserve_seq"
        " WHERE entry.entry_id = :entry_id",
        entry_id=entry_id,
    ) or (None, None, None)
    if state != "reserved":
        outcome = event_at(transaction, outcome_seq)
        if outcome.kind == kind and (kind == "fail" or outcome.body == canonical(body)):
            return outcome.hash  # written before, and the answer was lost on the way
        raise LedgerError(
            f"the entry {entry_id} is already {state}; this late outcome is discarded. "
            "If it was marked as abandoned while still running, ask again: a new attempt pays again"
        )
    signed_scopes(transaction, key=key).update(scope_id, seq=next_seq(transaction))
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


def mark_abandoned(transaction: Transaction, entry_id: str, scope_id: str, *, key: bytes | None) -> bool:
    """Mark one entry as abandoned, unless it has finished in the meantime."""
    lock(transaction, [scope_id], key=key)
    row = transaction.row("SELECT state FROM entry WHERE entry_id = :entry_id", entry_id=entry_id)
    if row != ("reserved",):
        return False
    settle(transaction, entry_id=entry_id, kind="fail", body={"reason": "reaped"}, key=key)
    return True


def find_or_make_scope(transaction: Transaction, wanted: ScopeDefinition, *, key: bytes | None) -> ScopeDefinition:
    scopes = signed_scopes(transaction, key=key)  # holds the head to the end: nobody makes the same scope meanwhile
    columns = scopes.columns(wanted.scope_id)
    if columns is not None:
        return definition_from_row(list(columns.values()))
    scopes.insert(wanted, totals=canonical(Balances().to_json()), seq=next_seq(transaction))
    append(transaction, kind="scope", at_utc=now_utc(), scope_id=wanted.scope_id, body=wanted.to_body(), key=key)
    return wanted


def close_scope(transaction: Transaction, scope_id: str, *, key: bytes | None) -> str:
    balances = lock(transaction, [scope_id], key=key)[scope_id]
    if balances.shut:
        return lock_head(transaction)[1]
    totals = canonical(balances.closed().to_json())
    signed_scopes(transaction, key=key).update(scope_id, seq=next_seq(transaction), totals=totals)
    return append(transaction, kind="close", at_utc=now_utc(), scope_id=scope_id, body={}, key=key).hash


def lock(
    transaction: Transaction,
    scope_ids: Iterable[str],
    *,
    key: bytes | None,
    definitions: Mapping[str, ScopeDefinition] | None = None,
) -> dict[str, Balances]:
    """Lock the scopes in the order of their names, then the head; return the totals that the newest event signs.

    SQLite holds the whole file since BEGIN IMMEDIATE. In PostgreSQL whoever changes a scope holds the head as well, so
    the rows that are read after it are the newest. NO KEY UPDATE, because FOR UPDATE would deadlock with the share lock
    that an event's foreign key takes on its scope. `definitions` are those that the caller charges by: they must be the
    signed ones, too.
    """
    suffix = " FOR NO KEY UPDATE" if transaction.dialect == "postgresql" else ""
    names = sorted(set(scope_ids))
    wanted = {f"scope_{index}": name for index, name in enumerate(names)}
    rows = transaction.rows(
        f"SELECT scope_id FROM scope WHERE scope_id IN ({', '.join(f':{name}' for name in wanted)})"
        f" ORDER BY scope_id{suffix}",
        **wanted,
    )
    if len(rows) != len(names):
        missing = sorted(set(names) - {scope_id for (scope_id,) in rows})
        raise LedgerError(f"there is no scope {missing[0]!r} in this ledger; open it first")
    scopes = signed_scopes(transaction, key=key)
    for name in names:
        if definitions is not None and scopes.columns(name) != definitions[name].to_columns():
            raise LedgerError(
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
    """Raise `BudgetError` if any scope's rule would not hold; the message names them all."""
    grouped = by_scope(shares)
    order = sorted(grouped, key=lambda name: (name != first, name))
    rules = {name: definitions[name].rule_for(grouped[name]) for name in order}
    short = [name for name in order if not balances[name].fits(rules[name], grouped[name])]
    if not short:
        return
    name = short[0]
    if balances[name].shut:
        raise LedgerError(f"scope {name!r} was closed for good and grants nothing more; {BUDGETS_ADD_UP}")
    rule, before = rules[name], balances[name].totals()
    price = grouped[name][0].charge if rule.sum_first else balances[name].increase(grouped[name])
    requested, remaining, difference = find_shortfall(rule, before, price)
    also = f" (nor scope {', '.join(repr(other) for other in short[1:])})" if short[1:] else ""
    raise BudgetError(
        f"the request does not fit scope {name!r}{also}: requested {requested}, remaining {remaining}, "
        f"difference {difference}; nothing was charged. {what_would_fit(rule, before)}; {BUDGETS_ADD_UP}",
        requested=requested,
        remaining=remaining,
        difference=difference,
    )


def book(
    transaction: Transaction, shares: Sequence[Share], balances: Mapping[str, Balances], *, seq: int, key: bytes | None
) -> None:
    """Write the new totals of every scope that pays, for event `seq` to sign."""
    scopes = signed_scopes(transaction, key=key)
    for name, own in by_scope(shares).items():
        scopes.update(name, seq=seq, totals=canonical(balances[name].plus(own).to_json()))


def _earlier(transaction: Transaction, request: Request, *, key: bytes | None) -> Stored | None:
    """Return what this key bought before; mark an unfinished attempt as abandoned if the request resumes it."""
    row = transaction.row(
        "SELECT entry_id, state, reserve_seq, outcome_seq FROM entry"
        " WHERE scope_id = :scope_id AND idem_key = :idem_key ORDER BY attempt DESC LIMIT 1",
        scope_id=request.scope_id,
        idem_key=request.key,
    )
    if row is None or (row[1] == "failed" and not request.once):
        return None
    entry_id, state, reserve_seq, outcome_seq = row
    if not request.same_as(event_at(transaction, reserve_seq).content):
        raise LedgerError(
            f"the key {request.key!r} was used in scope {request.scope_id!r} for another request (other parameters, "
            "schema or claims); use a new key for a new request"
        )
    if state == "reserved":
        if not request.resume:
            raise InProgressError(
                f"the request with key {request.key!r} in scope {request.scope_id!r} is reserved and has no outcome: "
                "another process runs it, or one died. If none runs, resume it; the new attempt pays again"
            )
        settle(transaction, entry_id=entry_id, kind="fail", body={"reason": "reaped"}, key=key)
        return None
    outcome = event_at(transaction, outcome_seq)
    text = "" if state == "failed" else str(outcome.content["text"])
    return Stored(entry_id=str(entry_id), state=state, text=text, head=outcome.hash)


def _asked(body: Any) -> str:
    # charges are left out: a later version may prove a smaller one for the same claims
    claims = [[share["scope_id"], share["part"], share["claims"]] for share in body["charges"]]
    return canonical({"claims": claims, "request": body["request"]})


class Unique:
    """Refuses `copy`, `deepcopy` and `pickle`; survives `sklearn.clone` as the identical object."""

    def __copy__(self) -> NoReturn:
        self._refuse("copied")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self._refuse("copied")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse("pickled")

    def __sklearn_clone__(self) -> Self:
        return self

    def _refuse(self, what: str) -> NoReturn:
        raise LedgerError(
            f"a {type(self).__name__} cannot be {what}: two copies would each spend the budget. Pass the same object "
            "to threads; in another process, open the ledger again by its address"
        )


class Reservation(Unique):
    """The licence to open the data once. Exactly one of `release`, `refuse` and `fail` ends it; the charge stays.

    A value may leave only after `release` (or `refuse`) has returned. If it raises, discard the value.
    """

    def __init__(self, store: Store, *, entry_id: str, scope_id: str, key: bytes | None) -> None:
        self._store = store
        self._key = key
        self.entry_id = entry_id
        self.scope_id = scope_id

    def release(self, text: str) -> str:
        """Store the released text durably; return the ledger's new head."""
        return self._settle("release", {"text": _checked_text(text)})

    def refuse(self, text: str) -> str:
        """Store a paid refusal, the same price and the same fields as a release; return the new head."""
        return self._settle("refuse", {"text": _checked_text(text)})

    def fail(self, reason: FailReason = "failed") -> str:
        """Record that nothing came out; return the new head. After the data was opened, only "failed" may be said."""
        if reason not in FAIL_REASONS:
            raise LedgerError(
                f"the reason of a failure comes from a closed list ({', '.join(FAIL_REASONS)}), because a free text "
                "may quote a record; say 'failed'"
            )
        return self._settle("fail", {"reason": reason})

    def _settle(self, kind: Literal["release", "refuse", "fail"], body: dict[str, object]) -> str:
        return self._store.decide(
            lambda transaction: decide.settle(transaction, entry_id=self.entry_id, kind=kind, body=body, key=self._key)
        )

    def __repr__(self) -> str:
        return f"Reservation(entry_id={self.entry_id!r}, scope_id={self.scope_id!r})"


def _checked_text(text: str) -> str:
    if not isinstance(text, str):
        raise LedgerError(f"an outcome is stored as text, got {type(text).__name__}; pass the release's JSON")
    return text
