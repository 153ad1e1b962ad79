"""Verification: a history replayed from its events alone, and every table of a ledger against what it amounts to.

The replay trusts nothing but the code: hashes, order, states, charges and every prefix's budget are recomputed. Of a
ledger the tables are compared with it; of an export there is nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sidelight.errors import LedgerError, SidelightError
from sidelight.guarantees import Claims
from sidelight.ledger.balances import Balances, by_scope, shares_fit
from sidelight.ledger.chain import Json, LedgerEvent, canonical, checked_head, identity_of, link_problem
from sidelight.ledger.decide import FAIL_REASONS, has_one_attempt
from sidelight.ledger.definition import (
    ScopeDefinition,
    Share,
    check_kept,
    check_parent,
    check_sharing,
    definition_from_body,
)
from sidelight.ledger.entries import OUTCOMES, shares_by_charge
from sidelight.ledger.journal import digest_of, each_event, row_digest
from sidelight.ledger.schema import FIRST_SIGNED, SCHEMA_VERSION, trigger_names, trigger_statements

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction
    from sidelight.ledger.store import Store
#: Gives the claims of a stored request again, or None where it does not know that kind of request.
Rederive: TypeAlias = Callable[[Mapping[str, Json]], Claims | None]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The outcome of a verification. `problems` is empty if the ledger is what it says it is."""

    events: int
    entries: int
    scopes: int
    head: str
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        events = "1 event" if self.events == 1 else f"{self.events} events"
        entries = "1 entry" if self.entries == 1 else f"{self.entries} entries"
        scopes = "1 scope" if self.scopes == 1 else f"{self.scopes} scopes"
        size = f"{events}, {entries}, {scopes}, head {self.head[:12]}"
        if self.ok:
            return f"the ledger is intact: {size}"
        return "\n".join([f"the ledger is NOT intact ({size}):", *(f"  {problem}" for problem in self.problems)])


def verify_ledger(
    store: Store, *, key: bytes | None, expect_head: str | None = None, rederive: Rederive | None = None
) -> Verification:
    """Replay the events and compare every table with the result, in one consistent view."""
    if expect_head is not None:
        checked_head(expect_head)
    with store.read() as transaction:
        history, problems = _compared(transaction, key=key, rederive=rederive)
    if expect_head is not None and expect_head not in history.hashes:
        problems.append(
            f"the expected head {expect_head[:12]}... is not in this ledger: it is an older copy, another ledger, or "
            "was rewritten; later charges are missing here, unless an import booked them from the copy that holds it"
        )
    return Verification(
        events=0 if history.last is None else history.last.seq + 1,
        entries=len(history.entries),
        scopes=len(history.definitions),
        head="" if history.last is None else history.last.hash,
        problems=tuple(problems),
    )


def problems_in(transaction: Transaction, *, key: bytes | None) -> list[str]:
    """Verify the ledger as an open transaction sees it, its own changes included."""
    return _compared(transaction, key=key, rederive=None)[1]


@dataclass
class ReplayedEntry:
    """An entry as the events tell it."""

    scope_id: str
    key: str
    attempt: int
    reserve_seq: int
    at_utc: str
    state: str = "reserved"
    outcome_seq: int | None = None


@dataclass
class Replay:
    """What a history amounts to. `problems` is empty if nothing is wrong with it."""

    definitions: dict[str, ScopeDefinition] = field(default_factory=dict)
    balances: dict[str, Balances] = field(default_factory=dict)
    entries: dict[str, ReplayedEntry] = field(default_factory=dict)
    last_seq: dict[str, int] = field(default_factory=dict)  # of each scope
    charges: list[tuple[LedgerEvent, tuple[Share, ...]]] = field(default_factory=list)  # an import has several
    hashes: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    genesis: LedgerEvent | None = None
    last: LedgerEvent | None = None
    schema: str = ""  # that of the first event, or what the last migration led to
    rows: dict[str, str] = field(default_factory=dict)  # the digest of each scope's row
    unsigned: bool = False  # an event did not sign what the rows amount to; those after it are off as well
    live: dict[tuple[str, str], str] = field(default_factory=dict)
    attempts: dict[tuple[str, str], int] = field(default_factory=dict)
    final: set[tuple[str, str]] = field(default_factory=set)  # keys with one attempt


def replay(events: Iterable[LedgerEvent], *, key: bytes | None, rederive: Rederive | None = None) -> Replay:
    """Go through the events once. Wrong ones become problems, never exceptions."""
    result = Replay()
    for event in events:
        problem = link_problem(event, previous=result.last, key=key)
        if problem is not None:
            result.problems.append(problem)
        result.genesis = result.genesis or event
        result.last = event
        result.hashes.add(event.hash)
        try:
            found = _apply(result, event, rederive)
        except (SidelightError, KeyError, TypeError, ValueError, AttributeError) as error:
            found = [f"cannot be read ({type(error).__name__}: {error})"]
        found += _signature(result, event)
        result.problems += [f"event {event.seq} ({event.kind}) {text}" for text in found]
    if result.last is None:
        result.problems.append("there is no event at all")
    return result


def _compared(transaction: Transaction, *, key: bytes | None, rederive: Rederive | None) -> tuple[Replay, list[str]]:
    history = replay(each_event(transaction), key=key, rederive=rederive)
    return history, [*history.problems, *_differences(transaction, history)]


def _differences(transaction: Transaction, history: Replay) -> Iterator[str]:
    if transaction.dialect == "sqlite":
        for (text,) in transaction.rows("PRAGMA integrity_check"):
            if text != "ok":
                yield f"the database file is damaged: {text}"
    yield from _triggers(transaction)
    yield from _meta(transaction, history)
    yield from _scopes(transaction, history)
    yield from _entries(transaction, history)


def _triggers(transaction: Transaction) -> Iterator[str]:
    wanted = trigger_names(transaction.dialect)
    if transaction.dialect == "sqlite":
        texts = trigger_statements("sqlite")
        rows = transaction.rows("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        found = {name for name, sql in rows if texts.get(name) == sql}
    else:
        rows = transaction.rows(
            "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
            " AND tgrelid IN (to_regclass('meta'), to_regclass('scope'), to_regclass('event'), to_regclass('entry'))"
        )
        found = {name for (name,) in rows}
    for name in sorted(wanted - found):
        yield f"the trigger {name} is missing, changed or switched off"
    for name in sorted({row[0] for row in rows} - wanted):
        yield f"there is a foreign trigger {name}"


def _meta(transaction: Transaction, history: Replay) -> Iterator[str]:
    stored: dict[str, str] = dict(transaction.rows("SELECT key, value FROM meta"))
    if history.last is not None:
        head = canonical({"hash": history.last.hash, "seq": str(history.last.seq)})
        if stored.get("head") != head:
            yield "the stored head is not the last event: events were cut off or added"
    if history.genesis is not None:
        try:
            ledger_id = identity_of(history.genesis).ledger_id
        except LedgerError as error:
            yield str(error)
        else:
            if stored.get("ledger_id") != ledger_id:
                yield "the stored identity is not that of the first event"
        if not stored.get("schema") == history.schema == SCHEMA_VERSION:
            yield "the stored schema is not that of the first event and the migrations"


def _scopes(transaction: Transaction, history: Replay) -> Iterator[str]:
    rows = transaction.rows(
        "SELECT scope_id, parent_id, unit, neighbours, budget, routes, totals, head_seq FROM scope ORDER BY scope_id"
    )
    stored = {row[0]: row for row in rows}
    for name in sorted(stored.keys() ^ history.definitions.keys()):
        yield f"the scope {name!r} is in the table or in the events, not in both"
    for name in sorted(stored.keys() & history.definitions.keys()):
        columns = history.definitions[name].to_columns()
        if tuple(columns.values()) != tuple(stored[name][:6]):
            yield f"the definition of scope {name!r} is not that of its event"
        if stored[name][6] != canonical(history.balances[name].to_json()):
            yield f"the totals of scope {name!r} are not those of its events"
        if stored[name][7] != history.last_seq[name]:
            yield f"the scope {name!r} names another last event than its history"


def _entries(transaction: Transaction, history: Replay) -> Iterator[str]:
    rows = transaction.rows(
        "SELECT entry_id, scope_id, idem_key, attempt, reserve_seq, outcome_seq, state FROM entry ORDER BY entry_id"
    )
    stored = {row[0]: tuple(row[1:]) for row in rows}
    for entry_id in sorted(stored.keys() ^ history.entries.keys()):
        yield f"the entry {entry_id} is in the table or in the events, not in both"
    for entry_id in sorted(stored.keys() & history.entries.keys()):
        kept = history.entries[entry_id]
        wanted = (kept.scope_id, kept.key, kept.attempt, kept.reserve_seq, kept.outcome_seq, kept.state)
        if stored[entry_id] != wanted:
            yield f"the entry {entry_id} is not what its events say"


def _apply(result: Replay, event: LedgerEvent, rederive: Rederive | None) -> list[str]:
    body: Any = event.content
    match event.kind:
        case "open":
            result.schema = str(body["schema"])
            return []
        case "migrate":
            return _migrate(result, body)
        case "scope":
            return _scope(result, event, body)
        case "reserve":
            return _reserve(result, event, body, rederive)
        case "release" | "refuse" | "fail":
            return _outcome(result, event, body)
        case "import":
            return _charge(result, event, body, rederived=None)
        case "close":
            return _close(result, event)
        case _:
            return []


def _signature(result: Replay, event: LedgerEvent) -> list[str]:
    """Compare the digest that an event carries with the rows that the events up to it amount to."""
    for name, seq in result.last_seq.items():
        if seq == event.seq and name in result.definitions:
            totals = canonical(result.balances[name].to_json())
            result.rows[name] = row_digest(result.definitions[name].to_columns(), totals=totals, head_seq=seq)
    wanted = result.schema.isdecimal() and int(result.schema) >= FIRST_SIGNED
    right = event.books == digest_of(result.rows) if event.books is not None else not wanted
    if right or result.unsigned:
        return []
    result.unsigned = True
    return ["does not sign the totals and budgets that the events amount to"]


def _migrate(result: Replay, body: Any) -> list[str]:
    before, after = str(body["from"]), str(body["to"])
    problems = [] if before == result.schema else [f"leads from schema {before}, and the ledger had {result.schema}"]
    if not int(after) > int(before):
        problems.append(f"leads back, from schema {before} to {after}")
    result.schema = after
    return problems


def _scope(result: Replay, event: LedgerEvent, body: Any) -> list[str]:
    name = str(event.scope_id)
    if name in result.definitions:
        return [f"creates the scope {name!r} a second time"]
    definition = definition_from_body(name, body)
    check_kept(definition)
    if definition.parent_id is not None and definition.parent_id not in result.definitions:
        return [f"creates the scope {name!r} under an unknown parent"]
    if definition.parent_id is not None:
        check_parent(definition, result.definitions[definition.parent_id])
    problems = []
    if definition.parent_id is not None and result.definitions[definition.parent_id].sharing == "reserved":
        check_sharing(definition, result.definitions[definition.parent_id])
        parent = result.definitions[definition.parent_id], result.balances[definition.parent_id]
        below = [
            (each, result.balances[each.scope_id])
            for each in result.definitions.values()
            if each.parent_id == definition.parent_id
        ]
        if not shares_fit(parent, [*below, (definition, Balances())]):
            problems.append(f"creates the scope {name!r}, which reserves more than its parent has left")
    result.definitions[name] = definition
    result.balances[name] = Balances()
    result.last_seq[name] = event.seq
    return problems


def _reserve(result: Replay, event: LedgerEvent, body: Any, rederive: Rederive | None) -> list[str]:
    name, entry_id, key, attempt = str(event.scope_id), str(event.entry_id), str(body["idem_key"]), int(body["attempt"])
    problems = []
    if entry_id in result.entries:
        problems.append(f"reserves entry {entry_id} a second time")
    if (name, key) in result.live:
        problems.append(f"reserves the key {key!r} while {result.live[name, key]} is live")
    if (name, key) in result.final:
        problems.append(f"gives the key {key!r} a second attempt, which has one")
    if attempt != result.attempts.get((name, key), 0) + 1:
        problems.append(f"is attempt {attempt} of the key {key!r}, out of order")
    if name not in {share["scope_id"] for share in body["charges"]}:
        problems.append(f"does not charge its own scope {name!r}")
    result.attempts[name, key] = attempt
    result.final |= {(name, key)} if has_one_attempt(body) else set()
    result.live[name, key] = entry_id
    result.entries[entry_id] = ReplayedEntry(
        scope_id=name, key=key, attempt=attempt, reserve_seq=event.seq, at_utc=event.at_utc
    )
    derived = None if rederive is None else rederive(body["request"])
    return problems + _charge(result, event, body, rederived=derived)


def _charge(result: Replay, event: LedgerEvent, body: Any, *, rederived: Claims | None) -> list[str]:
    charges = shares_by_charge(body)
    shares = [share for charge in charges for share in charge]
    problems = []
    if not shares:
        problems.append("charges nothing")
    result.charges += [(event, charge) for charge in charges]
    for name, own in by_scope(shares).items():
        definition = result.definitions[name]
        if definition.parent_id is not None and definition.parent_id not in {share.scope_id for share in shares}:
            problems.append(f"charges {name!r} and not its parent {definition.parent_id!r}")
        for share in own:
            problems += _share_problems(result, definition, share)
            asked = rederived if name == event.scope_id else None
            if asked is not None and not definition.rule.proves(share.charge, asked):
                problems.append(f"charges {name!r} less than the stored request costs")
        if not result.balances[name].fits(definition.rule, own):
            problems.append(f"overspends the scope {name!r}")
        result.balances[name] = result.balances[name].plus(own)
        result.last_seq[name] = event.seq
    return problems


def _share_problems(result: Replay, definition: ScopeDefinition, share: Share) -> list[str]:
    problems = []
    if not definition.rule.proves(share.charge, share.claims):
        problems.append(f"charges {share.scope_id!r} less than its claims cost")
    wanted = definition.budget.under(numerics=share.claims.numerics).context
    if share.claims.context != wanted:
        problems.append(f"charges {share.scope_id!r} by claims for another unit or other neighbours")
    if share.part is not None:
        part = result.definitions.get(share.part)
        if definition.partitioned_by is None or part is None or part.parent_id != share.scope_id:
            problems.append(f"charges a part {share.part!r} that {share.scope_id!r} does not have")
    return problems


def _outcome(result: Replay, event: LedgerEvent, body: Any) -> list[str]:
    entry = result.entries.get(str(event.entry_id))
    if entry is None:
        return [f"ends entry {event.entry_id}, which was never reserved"]
    if entry.state != "reserved":
        return [f"ends entry {event.entry_id}, which is already {entry.state}"]
    problems = []
    if event.scope_id != entry.scope_id:
        problems.append("names another scope than its reservation")
    if event.at_utc != entry.at_utc:
        problems.append("does not repeat its reservation's time")
    if event.kind == "fail":
        if set(body) != {"reason"} or body["reason"] not in FAIL_REASONS:
            problems.append("gives a reason that is not in the closed list")
        del result.live[entry.scope_id, entry.key]
    elif set(body) != {"text"} or not isinstance(body["text"], str):
        problems.append("has other fields than its text")
    entry.state, entry.outcome_seq = OUTCOMES[event.kind], event.seq
    result.last_seq[entry.scope_id] = event.seq
    return problems


def _close(result: Replay, event: LedgerEvent) -> list[str]:
    name = str(event.scope_id)
    result.balances[name] = result.balances[name].closed()
    result.last_seq[name] = event.seq
    return []
