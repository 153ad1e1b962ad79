"""Balances of accounts, quotes for prices, and states of requests, read from the ledger.

There is no second accounting: the ledger grants charges, in the worker. This module serves free answers, and
refusals that the ledger would give as well.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sidelight.accounting import Rule
from sidelight.accounting.charges import QUANTA_PER_ONE
from sidelight.errors import LedgerDamagedError, LedgerError, LedgerUnavailableError, PlanError
from sidelight.guarantees import GDP, Amount, Claim, Claims, Neighbours, decimal_text
from sidelight.ledger import Ledger, LedgerEntry, Reservation, Scope, Stored, Verification, open_ledger
from sidelight.ledger.balances import Balances
from sidelight.ledger.chain import canonical
from sidelight.ledger.head_file import GuardedStore, check_head_file, check_kept_head, check_no_ledger, read_head
from sidelight.ledger.journal import see_head
from sidelight.ledger.place import parse_place, read_key
from sidelight.ledger.rehearsal import rehearse_ledger
from sidelight.server.config import Pool, ServedTable, ServerConfig, Sharing, routes_of, rule_of
from sidelight.server.distinct_files import check_earlier_tables, remember_tables
from sidelight.server.windows import describe_difference, open_window, window_at
from sidelight.wire import LIMITS, ProblemError

log = logging.getLogger("sidelight.server")
#: Seconds between checks that reserved shares still fit.
_LOOK_AGAIN = 10.0
#: Entries that are read at once: some have outcomes of megabytes.
_READ_AT_ONCE = 10
#: Seconds after the end of its slot at which an entry without an outcome is given up, by whichever replica.
GIVEN_UP = 10.0
#: The key that the server adds to a stored request: its analyst and its duration.
ASKED = "asked"


@dataclass(frozen=True, kw_only=True)
class AccountQuote:
    """The effect of a price on an account, in its currency."""

    charge: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, str] | None  # None: it does not fit
    short: Mapping[str, str]  # the missing amount

    @property
    def fits(self) -> bool:
        """Whether the ledger would grant it now."""
        return self.after is not None


class Budgets:
    """The scopes of a configuration in its ledger."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        wait_seconds: float = 5.0,
        create: bool = False,
        read_only: bool = False,
        ledger: Ledger | None = None,
    ) -> None:
        self.config = config
        self._kept: dict[str, tuple[float, bool]] = {}
        self.ledger: Ledger = ledger or open_ledger(
            config.ledger,
            key=read_key(config.key_file),
            wait_seconds=wait_seconds,
            answer_seconds=max(1.0, wait_seconds),
            create=create,
            read_only=read_only,
            head_file=config.head_file,
        )

    def close(self) -> None:
        """Close the connections."""
        self.ledger.close()

    # --- startup ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Check the ledger, its scopes and what was served before against the file; make scopes that are not there."""
        self.check_head()
        check_earlier_tables(self.config, self.ledger)
        self.open_scopes()
        self.check_isolation()
        remember_tables(self.config, self.ledger)

    def open_scopes(self) -> None:
        """Create missing scopes, and refuse scopes that differ from the file."""
        tables = self.config.tables.values()
        for name, pool in self.config.populations.items():
            first = next((table for table in tables if table.population == name), None)
            if first is not None:  # the unit of a population is that of its first table
                budget = pool.budget.under(unit=first.schema.unit)
                self._open(name, budget, first, sharing=pool.sharing, partitioned_by=pool.partitioned_by)
        for table in tables:
            self._open(table.name, table.budget, table, sharing=table.sharing, parent=table.population)
            for account in table.accounts:
                scope_id = table.scope_of(account)
                self._open(scope_id, account.budget, table, sharing=table.sharing, parent=table.name)

    def _open(self, name: str, budget: Claim, table: ServedTable, *, sharing: Sharing, **more: str | None) -> None:
        self.ledger.open_scope(
            name,
            budget=budget,
            unit=table.schema.unit,
            neighbours=Neighbours.ADD_REMOVE,
            routes=routes_of(budget),
            sharing=sharing,
            **more,
        )

    def check_isolation(self) -> None:
        """Refuse reserved shares that no longer fit, because something was charged to a table or population itself."""
        reserved = [name for name, pool in self.config.populations.items() if pool.sharing == "reserved"]
        reserved += [name for name, table in self.config.tables.items() if table.sharing == "reserved"]
        for name in reserved:
            if not self.ledger.scope(name).keeps_shares():
                raise PlanError(
                    f"the shares of {name!r} no longer fit its budget: the ledger holds charges to it itself. Close "
                    "scopes that are no longer used, which then count with what they spent"
                )

    def sharing(self, table: ServedTable) -> Sharing:
        """Return how a table is shared now: a charge outside the server can break shares, not the guarantee."""
        if table.sharing == "first come":
            return "first come"
        above = [table.name, *([] if table.population is None else [table.population])]
        when, kept = self._kept.get(table.name, (-math.inf, True))
        if time.monotonic() - when > _LOOK_AGAIN:
            kept = all(self.ledger.scope(name).keeps_shares() for name in above)
            self._kept[table.name] = time.monotonic(), kept
            if not kept:
                log.error("the reserved shares of %r no longer fit: something was charged to it itself", table.name)
        return "reserved" if kept else "first come"

    def check_head(self) -> None:
        """Verify the ledger, and refuse one without the newest head in the head file."""
        found = self.verify()
        if not found.ok:
            raise LedgerError(f"the ledger does not verify, so nothing is served: {found.problems[0]}")

    def verify(self) -> Verification:
        """Verify the ledger with the heads that are known: in the head file, and seen by this process."""
        self.ledger.newest_head()
        file, stored = self.config.head_file, None
        if file is not None:
            with self.ledger.store.read() as transaction:
                stored = check_head_file(transaction, file)
        return self.ledger.verify(expect_head=None if stored is None else stored[1])

    def start_head_file(self) -> None:
        """Make the missing head file of a ledger that the owner says is the newest copy."""
        if not isinstance(self.ledger.store, GuardedStore):
            raise PlanError("the file names no head_file in [ledger]; add one, on another disk than the ledger")
        found = self.ledger.verify()
        if not found.ok:
            raise LedgerError(f"the ledger does not verify, so its head is not kept: {found.problems[0]}")
        self.ledger.store.start_head_file()

    def newest_head(self) -> tuple[int, str]:
        """Return the newest head; refuse a ledger without one that was seen here or is in the head file."""
        stored = None if self.config.head_file is None else read_head(self.config.head_file)
        if stored is not None:
            see_head(self.ledger.ledger_id, stored)
        return self.ledger.newest_head()

    def watch_head(self) -> None:
        """Write to the log what keeps every request from being charged: an older ledger, or a head file that fails."""
        try:
            self.newest_head()
            if isinstance(self.ledger.store, GuardedStore):
                self.ledger.store.check_writable()
        except LedgerDamagedError:
            log.error("nothing is charged: the ledger is not intact, or lacks a head that was seen: an older copy?")
            raise
        except LedgerUnavailableError:
            log.error("nothing is charged: the ledger or its head file cannot be read or written; is a disk full?")
            raise

    # --- balances -----------------------------------------------------------------------------------------------------

    def quote(
        self, table: ServedTable, account: Pool, claims: Claims, *, delta: Amount | None, moment: float
    ) -> AccountQuote:
        """Return the effect of a price on an account at a time, which selects the window if it has some.

        Raises:
            ClaimError: the table's currency cannot express it, or not equally in all scopes.
            ProblemError: it is outside the limits of a request.
        """
        charge = self.scope(table, account).price(claims, delta=delta)
        most, least = table.limits
        route = rule_of(table.budget).capacities[0][0]
        price, pool = charge.of(route) or 0, charge.delta_items
        if price > (most.of(route) or 0) or pool > most.delta_items or price < (least.of(route) or 0):
            raise ProblemError(
                "not-allowed",
                f"a request of this table costs between {table.smallest} and {table.largest}, got {claims}",
            )
        left, left_delta = self._left(table, account, moment)
        fits = price <= left and pool <= left_delta
        return AccountQuote(
            charge=_amounts(table, price, pool),
            before=_amounts(table, left, left_delta),
            after=_amounts(table, left - price, left_delta - pool) if fits else None,
            short=_amounts(table, max(0, price - left), max(0, pool - left_delta)),
        )

    def remaining(self, table: ServedTable, account: Pool, *, moment: float) -> Mapping[str, str]:
        """Return the exact balance of an account at a time."""
        return _amounts(table, *self._left(table, account, moment))

    def spent(self, table: ServedTable, account: Pool) -> Mapping[str, str]:
        """Return the charges of an account so far, in all of its windows."""
        totals = self.scope(table, account).totals()
        main = totals.of(rule_of(table.budget).capacities[0][0])
        if isinstance(table.budget, GDP):  # the root of the sum of squares, rounded up
            return {"mu": decimal_text(Fraction(_root_above(main * QUANTA_PER_ONE), QUANTA_PER_ONE))}
        return _amounts(table, main, totals.delta_items)

    def _left(self, table: ServedTable, account: Pool, moment: float) -> tuple[int, int]:
        """Return the balance in quanta; with reserved shares that of the account alone, independent of others."""
        scope_id = table.scope_of(account)
        definitions = self.ledger.ancestry(scope_id)
        asked = definitions[:1] if self.sharing(table) == "reserved" else definitions
        found = [
            _rest(each.rule, self.ledger.scope(each.scope_id).balances(), part=below if each.partitioned_by else None)
            for each, below in zip(asked, ["", *(each.scope_id for each in asked)], strict=False)
        ]
        if account.renew is not None:
            window = window_at(self.ledger, table, account, moment)
            found.append((0, 0) if window is None else _rest(window.rule, window.balances))
        return max(0, min(left for left, _ in found)), max(0, min(delta for _, delta in found))

    def reserve(
        self, table: ServedTable, account: Pool, claims: Claims, *, moment: float, **given: Any
    ) -> Reservation | Stored:
        """Charge an account, and its window if it has some; the key is stored in the account."""
        scope_id = table.scope_of(account)
        charged = {scope_id: claims}
        if account.renew is not None:
            charged[open_window(self.ledger, table, account, moment)] = claims
        return self.ledger.reserve(charged, scope_id=scope_id, **given)

    def window_name(self, table: ServedTable, account: Pool, *, moment: float) -> str | None:
        """Return the name of an account's window at a time; None without windows, or if none is left."""
        window = None if account.renew is None else window_at(self.ledger, table, account, moment)
        return None if window is None else window.name

    def other_windows(self, *, moment: float) -> list[str]:
        """Return sentences about windows that are open under another renewal than the file's."""
        return [
            said
            for table in self.config.tables.values()
            for account in table.accounts
            if account.renew is not None
            if (said := describe_difference(self.ledger, table, account, moment)) is not None
        ]

    # --- states of requests -------------------------------------------------------------------------------------------

    def scope(self, table: ServedTable, account: Pool) -> Scope:
        """Return the scope of an account."""
        return self.ledger.scope(table.scope_of(account))

    def entry(self, table: ServedTable, account: Pool, name: str) -> LedgerEntry | None:
        """Return the entry of a request of an account, by the request's id or the entry's own."""
        scope = self.scope(table, account)
        return scope.entry_of(name) or scope.entry(name)

    def history(self, table: ServedTable, account: Pool, *, limit: int, after: str | None) -> list[LedgerEntry]:
        """Return entries of an account, oldest first, after one of them; fewer where their outcomes are large."""
        before = None if after is None else self.entry(table, account, after)
        if after is not None and before is None:
            return []
        scope, found = self.scope(table, account), [] if before is None else [before]
        skipped, size = len(found), 0
        while len(found) - skipped < limit and size < LIMITS["answer_bytes"]:
            wanted = min(_READ_AT_ONCE, limit + skipped - len(found))
            page = scope.page(limit=wanted, after=found[-1].entry_id if found else None)
            for each in page:
                found.append(each)
                if (size := size + len(json.dumps(each.text))) >= LIMITS["answer_bytes"]:
                    break
            if len(page) < wanted:
                break
        return found[skipped:]

    def give_up(self, table: ServedTable, account: Pool, request_id: str) -> None:
        """Record a request without an outcome as failed; its charge stands."""
        self.scope(table, account).reap(key=request_id, reason="failed")

    def give_up_late(self, *, now: float) -> None:
        """Record as failed the unfinished entries of all accounts whose own slots ended some time ago."""
        scopes = {table.scope_of(each) for table in self.config.tables.values() for each in table.accounts}
        for entry in self.ledger.unfinished():
            usual = 0.0 if ASKED in entry.request else self.config.longest  # charged by another program
            if entry.scope_id in scopes and ready_time(entry) + usual + GIVEN_UP < now:
                self.ledger.reap(scope_id=entry.scope_id, key=entry.key, reason="failed")

    def clock_ahead(self) -> float:
        """Return the seconds by which this host's clock is ahead of the database's; 0 for a ledger in a file."""
        with self.ledger.store.read() as transaction:
            if transaction.dialect != "postgresql":
                return 0.0
            before = time.time()
            row = transaction.row("SELECT EXTRACT(EPOCH FROM clock_timestamp())")
            return (before + time.time()) / 2 - float(row[0] if row else before)

    def failures(self, table: ServedTable, account: Pool, *, since: float) -> int:
        """Return how many paid requests of an account failed since a time."""
        return self.scope(table, account).failures(since=utc_text(since))


def rehearsed_budgets(config: ServerConfig) -> tuple[Budgets, bool]:
    """Return the budgets for a rehearsal of a start, written nowhere, and whether there is a ledger.

    A ledger that lacks the head in the head file is refused, and a missing one whose head is there.
    """
    ledger, exists = rehearse_ledger(config.ledger, key=read_key(config.key_file), wait_seconds=5.0, answer_seconds=5.0)
    budgets = Budgets(config, ledger=ledger)
    try:
        if config.head_file is not None and exists:
            with ledger.store.read() as transaction:
                check_kept_head(transaction, config.head_file)
        elif config.head_file is not None:
            check_no_ledger(parse_place(config.ledger).shown, config.head_file)
    except BaseException:
        budgets.close()
        raise
    return budgets, exists


def check_ledger(config: ServerConfig, *, moment: float) -> list[str]:
    """Check all that a start checks in the ledger, and write nothing; return what is worth knowing."""
    rehearsed, exists = rehearsed_budgets(config)
    with closing(rehearsed) as budgets:
        check_earlier_tables(config, budgets.ledger)
        budgets.open_scopes()
        budgets.check_isolation()
        said = budgets.other_windows(moment=moment)
    if exists:
        with closing(Budgets(config, read_only=True)) as budgets:
            budgets.check_head()
    return said


def _rest(rule: Rule, balances: Balances, *, part: str | None = None) -> tuple[int, int]:
    """Return the balance of a scope in quanta, or that of one of its parts, which is independent of the others."""
    totals = balances.totals() if part is None else balances.totals_for(part, rule)
    route, capacity = rule.capacities[0]
    return (0, 0) if balances.shut else (capacity - totals.of(route), rule.pool - totals.delta_items)


def _root_above(number: int) -> int:
    root = math.isqrt(number)
    return root + (root * root < number)


def _amounts(table: ServedTable, main: int, delta: int) -> dict[str, str]:
    if isinstance(table.budget, GDP):  # of the sum of squares: the largest single mu, rounded down
        return {"mu": decimal_text(Fraction(math.isqrt(main * QUANTA_PER_ONE), QUANTA_PER_ONE))}
    name = table.currency.partition(" ")[0]
    found = {name: decimal_text(Fraction(main, QUANTA_PER_ONE))}
    return found | ({"delta": decimal_text(Fraction(delta, QUANTA_PER_ONE))} if "delta" in table.currency else {})


def canonical_of(request: Mapping[str, Any]) -> str:
    """Return the canonical query of a request as the ledger stores it, without the server's own key."""
    return canonical({name: part for name, part in request.items() if name != ASKED})


def ready_time(entry: LedgerEntry) -> float:
    """Return the end of the slot of an entry, before which no outcome is sent."""
    asked = entry.request.get(ASKED)
    seconds = float(str(asked["seconds"])) if isinstance(asked, dict) else 0.0
    return start_time(entry) + seconds


def start_time(entry: LedgerEntry) -> float:
    """Return the start of the slot of an entry."""
    return datetime.fromisoformat(entry.at_utc).timestamp()


def utc_text(moment: float) -> str:
    """Return a time as ledgers and answers write it."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
