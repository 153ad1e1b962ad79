"""Exchange with the outside: events as JSON lines, other ledgers' spending, and what other tools spent.

An import can only add: it records the charges of another ledger as one `import` event, recomputed by this ledger's
rules, and each charge once, however often the other ledger's export is imported. The event names the events whose
charges it booked: what a copy of the other ledger spent since is new, whichever copy came first. A copy of this ledger
is another ledger of which the first events are known. A charge that arrives by two ways, directly and through a third
ledger, is booked twice, and so is an own charge that comes back from a ledger that imported it: only its own ledger can
show what it was.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidelight.accounting import amount_of
from sidelight.errors import BudgetError, LedgerError, ScopeClosedError
from sidelight.guarantees import Claims, Neighbours
from sidelight.ledger.balances import Balances, by_scope, chosen_shares
from sidelight.ledger.chain import LedgerEvent, check_key, event_from_line, identity_of, now_utc
from sidelight.ledger.connections import identity_of_file
from sidelight.ledger.decide import book, check_budget, lock, next_seq
from sidelight.ledger.definition import ScopeDefinition, Share, spread, with_ancestors
from sidelight.ledger.journal import append, each_event, newest_event
from sidelight.ledger.place import check_output
from sidelight.ledger.schema import SCHEMA_VERSION
from sidelight.ledger.verify import Replay, replay

if TYPE_CHECKING:
    from sidelight.ledger.schema import Transaction
    from sidelight.ledger.store import Store


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import did: how many charges of which ledger were booked, and the head afterwards."""

    ledger_id: str
    booked: int
    head: str


def export_events(store: Store, path: Path) -> int:
    """Write all events as JSON lines, whole or not at all; return how many."""
    own = None if store.place.path is None else identity_of_file(store.place.path)
    if own is not None and identity_of_file(path) == own:
        raise LedgerError(f"{str(path)!r} is the ledger itself; export into another file")
    check_output(path)
    path = Path(os.path.realpath(path))  # what a link points to is written, and the link stays
    draft = path.with_name(path.name + ".part")
    count = 0
    try:
        with store.read() as transaction, draft.open("w", encoding="utf-8", newline="\n") as file:
            for count, event in enumerate(each_event(transaction), start=1):  # noqa: B007 (the last count is the result)
                file.write(event.to_line() + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise LedgerError(
            f"the export cannot be written to {str(path)!r} ({error.strerror}); check the path"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def read_export(path: Path, *, key: bytes | None) -> Replay:
    """Read an export and check it as a whole; raise at the first thing that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise LedgerError(
            f"the export {str(path)!r} cannot be read ({reason}); name a file that `export` wrote"
        ) from None
    lines = text.split("\n")  # splitlines would also split at separators that JSON strings may hold
    events = [event_from_line(line) for line in lines if line]
    if not events:
        raise LedgerError(f"the export {str(path)!r} holds no event")
    check_key(events[0], key=key, shown=str(path))
    history = replay(events, key=key)
    if history.schema.isdecimal() and int(history.schema) > int(SCHEMA_VERSION):
        raise LedgerError(
            f"the export {str(path)!r} is of a ledger with schema {history.schema}, newer than this version reads "
            f"({SCHEMA_VERSION}); upgrade sidelight. Nothing was booked"
        )
    if history.problems:
        raise LedgerError(
            f"the export {str(path)!r} was changed or is broken: {history.problems[0]}; nothing was booked"
        )
    return history


def book_external(
    transaction: Transaction,
    shares: Sequence[Share],
    definitions: Mapping[str, ScopeDefinition],
    *,
    mark: str,
    note: str,
    first: str,
    key: bytes | None,
) -> str:
    """Book what another tool spent. `mark` identifies this booking after a lost COMMIT."""
    balances = lock(transaction, [share.scope_id for share in shares], key=key, definitions=definitions)
    row = transaction.row("SELECT hash FROM event WHERE kind = 'import' AND entry_id = :mark", mark=mark)
    if row is not None:
        return str(row[0])
    shares = chosen_shares(shares, balances, definitions)
    _check_spent(shares, balances, definitions, first=first)
    body = {"charges": [share.to_json() for share in shares], "note": note, "source": None}
    book(transaction, shares, balances, seq=next_seq(transaction), key=key)
    event = append(transaction, kind="import", at_utc=now_utc(), scope_id=first, entry_id=mark, body=body, key=key)
    return event.hash


def book_import(
    transaction: Transaction,
    history: Replay,
    definitions: Mapping[str, ScopeDefinition],
    *,
    into: Mapping[str, str],
    key: bytes | None,
) -> Imported:
    """Book what is new in another ledger's history. Runs twice without harm: the second time nothing is new."""
    genesis, last = history.genesis, history.last
    if genesis is None or last is None:
        raise LedgerError("the export holds no event")
    source_id = identity_of(genesis).ledger_id
    touched = with_ancestors(into.values(), definitions)
    balances = lock(transaction, touched, key=key, definitions=definitions)
    known = _known(transaction, source_id, history)
    shares: list[Share] = []
    events: list[list[str]] = []  # for each charge its event, and how many of the shares are its own
    for number, (event, charged) in enumerate(history.charges):
        if event.hash in known.here:
            continue  # of this ledger itself: the export is of a copy, or its own
        claims = _mapped(number, history, into, known, definitions)
        if claims:
            paid = max(amount_of(share.charge.delta_items) for share in charged)
            found = spread(claims, definitions, delta=paid or None)
            events.append([event.hash, str(len(found))])
            shares += found
    _, head = newest_event(transaction)
    if events:
        shares = list(chosen_shares(shares, balances, definitions))
        _check_spent(shares, balances, definitions, first=min(share.scope_id for share in shares))
        body = {
            "charges": [share.to_json() for share in shares],
            "note": None,
            "source": {
                "events": events,
                "head": last.hash,
                "head_seq": str(last.seq),
                "into": [[source, target] for source, target in sorted(into.items())],
                "ledger_id": source_id,
            },
        }
        book(transaction, shares, balances, seq=next_seq(transaction), key=key)
        event = append(transaction, kind="import", at_utc=now_utc(), scope_id=shares[0].scope_id, body=body, key=key)
        head = event.hash
    return Imported(ledger_id=source_id, booked=len(events), head=head)


def scope_map(history: Replay, known: Collection[str], into: Mapping[str, str] | None) -> dict[str, str]:
    """Return which source scope is booked where; by default each under its own name."""
    charged = sorted({share.scope_id for _, shares in history.charges for share in shares})
    result = {name: name for name in charged} if into is None else dict(into)
    for source, target in result.items():
        if source not in history.definitions:
            raise LedgerError(f"the export has no scope {source!r}; it has {', '.join(sorted(history.definitions))}")
        if target not in known:
            raise LedgerError(
                f"there is no scope {target!r} here to book {source!r} of the export into; open it, or pass "
                f"into={{...}}"
            )
    if len(set(result.values())) != len(result):
        raise LedgerError("two scopes of the export would be booked into one; import them one after the other")
    return result


@dataclass(frozen=True, kw_only=True)
class _BookedBefore:
    """What this ledger has of another's history."""

    here: frozenset[str]  # the hashes of its own events: it may be a copy, and then they have the first ones in common
    booked: Mapping[tuple[str, str], set[str]]  # by (source scope, target scope): the events that imports booked
    #: What versions before 0.6.0 booked: numbers of charges. Of several charges in one event they booked the last.
    before: Mapping[tuple[str, str], set[int]]

    def has(self, number: int, event: LedgerEvent, pair: tuple[str, str]) -> bool:
        """Return whether a charge of a source scope was booked into a target scope."""
        return event.hash in self.booked.get(pair, ()) or number in self.before.get(pair, ())


def _known(transaction: Transaction, source_id: str, history: Replay) -> _BookedBefore:
    here: set[str] = set()
    booked: dict[tuple[str, str], set[str]] = {}
    until: dict[tuple[str, str], int] = {}
    for event in each_event(transaction):
        here.add(event.hash)
        source: Any = event.content.get("source") if event.kind == "import" else None
        if not source or source["ledger_id"] != source_id:
            continue
        if "events" not in source and source["head"] not in history.hashes:
            raise LedgerError(
                "the export does not continue what a version before 0.6.0 imported from the same ledger: it is an "
                "older copy, or its history was rewritten; nothing was booked. Import the newest export"
            )
        for origin, target in source["into"]:
            if "events" in source:
                booked.setdefault((origin, target), set()).update(name for name, _ in source["events"])
            else:
                until[origin, target] = int(source["head_seq"])
    before: dict[tuple[str, str], set[int]] = {}
    for pair, last in until.items():
        of_event = {
            event.seq: number
            for number, (event, charged) in enumerate(history.charges)
            if event.seq <= last and any(share.scope_id == pair[0] and share.part is None for share in charged)
        }
        before[pair] = set(of_event.values())
    return _BookedBefore(here=frozenset(here), booked=booked, before=before)


def _mapped(
    number: int,
    history: Replay,
    into: Mapping[str, str],
    known: _BookedBefore,
    definitions: Mapping[str, ScopeDefinition],
) -> dict[str, Claims]:
    """Return the claims of one charge for each target scope that has not got them yet."""
    event, shares = history.charges[number]
    claims: dict[str, Claims] = {}
    for share in shares:
        target = into.get(share.scope_id)
        if target is not None and definitions[target].neighbours is Neighbours.KEPT:
            raise LedgerError(
                f"the scope {target!r} publishes exact totals once, and those of another ledger may be of other rows; "
                "what was spent there cannot be booked here"
            )
        if target is None or known.has(number, event, (share.scope_id, target)):
            continue
        if share.part is None:
            assert target not in claims, "a charge names an account once, and `scope_map` maps no two scopes to one"
            claims[target] = share.claims
            _check_whole(share.scope_id, target, number, history, known, definitions)
        elif share.part not in into or definitions[into[share.part]].parent_id != target:
            raise LedgerError(
                f"the scope {share.scope_id!r} of the export is partitioned, and its part {share.part!r} is not booked "
                f"into a part of {target!r}. Map the parts to parts of a scope that is partitioned, too; into one that "
                f"is not, book what {share.scope_id!r} spent: ledger.scope({target!r}).record_external(...)"
            )
    return claims


def _check_whole(
    scope_id: str,
    target: str,
    number: int,
    history: Replay,
    known: _BookedBefore,
    definitions: Mapping[str, ScopeDefinition],
) -> None:
    """Refuse to book a charge to several data sets one by one where they meet in a scope here.

    Somebody in both is touched twice by one query: that is group privacy, and the two claims do not compose.
    """
    event, shares = history.charges[number]
    line = with_ancestors([scope_id], history.definitions)
    others = {each.scope_id for each in shares if each.part is None and each.scope_id not in line}
    for other, booked in {*known.booked, *known.before}:
        unrelated = other in others and scope_id not in with_ancestors([other], history.definitions)
        if not (unrelated and known.has(number, event, (other, booked))):
            continue
        shared = with_ancestors([target], definitions) & with_ancestors([booked], definitions)
        for name in sorted(shared):
            if definitions[name].partitioned_by is None or name in (target, booked):
                raise LedgerError(
                    f"one request of the export charged {scope_id!r} and {other!r}, an earlier import booked {other!r} "
                    f"alone, and both meet in {name!r}, where a person in both is touched twice; nothing was booked. "
                    f"Book what the request costs such a person: ledger.scope({name!r}).record_external(...)"
                )


def _check_spent(
    shares: Sequence[Share],
    balances: Mapping[str, Balances],
    definitions: Mapping[str, ScopeDefinition],
    *,
    first: str,
) -> None:
    """Refuse what was spent elsewhere if it does not fit, and say what that means: it cannot be asked for less."""
    try:
        check_budget(shares, balances, definitions, first=first)
    except ScopeClosedError as closed:
        name = next(each for each in by_scope(shares) if balances[each].shut)
        raise ScopeClosedError(f"{closed}. Nothing was booked{_above(definitions[name])}") from None
    except BudgetError as short:
        name = str(short.scope_id)
        raise BudgetError(
            f"what was spent elsewhere does not fit scope {name!r}: spent {short.requested}, remaining "
            f"{short.remaining}, difference {short.difference}; nothing was booked, and this ledger would go on "
            "granting. It was spent all the same: unless it reached this ledger by another way already, what these "
            f"people were promised is exceeded. Release nothing more under it: close it, ledger.scope({name!r}).close()"
            f", and state the sum of everything as what holds{_above(definitions[name])}",
            requested=short.requested,
            remaining=short.remaining,
            difference=short.difference,
            scope_id=name,
        ) from None


def _above(definition: ScopeDefinition) -> str:
    """Return where else a charge belongs that a scope cannot take."""
    if definition.parent_id is None:
        return ""
    return (
        f". The scopes above it, which were not charged either, still count it: book it into {definition.parent_id!r} "
        "(record_external, or into={...} of an import)"
    )
