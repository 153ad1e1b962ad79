"""The ledger as a server reads it: what each account has left, what a price would leave, and what became of requests.

The server adds no second accounting: a charge is granted by the ledger, in the worker. What is read here is for
answers that cost nothing, and for refusals that the ledger would give as well.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from sidelight.accounting.charges import QUANTA_PER_ONE
from sidelight.errors import ClaimError, LedgerError, PlanError
from sidelight.guarantees import GDP, Amount, ApproxDP, Claim, Claims, Neighbours, decimal_text
from sidelight.ledger import Ledger, LedgerEntry, Scope, open_ledger
from sidelight.ledger.balances import Balances, by_scope
from sidelight.ledger.definition import spread
from sidelight.server.config import Pool, ServedTable, ServerConfig, divisions, routes_of, rule_of
from sidelight.server.entries import failures_of, key_of_entry
from sidelight.wire import ProblemError

#: The member of a stored request that the server adds: what the request was asked as, and for how long it runs.
ASKED = "asked"


@dataclass(frozen=True, kw_only=True)
class AccountQuote:
    """What a price does to an account, in the words of its currency."""

    charge: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, str] | None  # None: it does not fit
    short: Mapping[str, str]  # by how much it does not fit

    @property
    def fits(self) -> bool:
        """Whether the ledger would grant it now."""
        return self.after is not None


def counted_claims(claims: Claims, budget: Claim, *, delta: Amount | None) -> Claims:
    """Return the claims that every scope of a table is charged, the same for all.

    On the route "basic" a scope chooses a pair by its own budget; table and analyst would be charged different amounts.
    So a budget in epsilon and delta is charged the declared pair, or a pure epsilon.
    """
    if not isinstance(budget, ApproxDP):
        return claims
    pure = claims.pure()
    if pure is not None:
        return Claims.of(pure)
    at = delta if delta is not None else min((item.delta for item in claims.items), default=None)
    pair = None if at is None else claims.approx_at(at)
    if pair is None:
        raise ClaimError("this table is charged in epsilon and delta; state both in the query")
    return Claims.of(pair)


class Budgets:
    """The scopes of a configuration in its ledger."""

    def __init__(self, config: ServerConfig, *, wait_seconds: float = 5.0, create: bool = False) -> None:
        self.config = config
        try:
            key = config.key_file.read_bytes().strip()
        except OSError as error:
            raise PlanError(
                f"the key of the ledger, {config.key_file.name!r}, cannot be read ({error.strerror}); make one with "
                "`head -c 32 /dev/urandom | base64`"
            ) from None
        self.ledger: Ledger = open_ledger(config.ledger, key=key, wait_seconds=wait_seconds, create=create)

    def close(self) -> None:
        """Close the connections."""
        self.ledger.close()

    # --- at the start -------------------------------------------------------------------------------------------------

    def open_scopes(self) -> None:
        """Make the scopes that are not there, and refuse those that differ from the file."""
        for table in self.config.tables.values():
            pool = self.config.populations.get(table.population or "")
            if pool is not None:
                self._open(pool.name, pool.budget.under(unit=table.schema.unit), table)
            self._open(table.name, table.budget, table, parent=table.population)
            for account in table.accounts:
                self._open(table.scope_of(account), account.budget, table, parent=table.name)

    def _open(self, name: str, budget: Claim, table: ServedTable, *, parent: str | None = None) -> None:
        known = {scope.scope_id for scope in self.ledger.scopes()} if parent is None else set()
        if name in known and name in self.config.populations:
            return  # the unit of a population is that of its first table
        self.ledger.open_scope(
            name,
            budget=budget,
            unit=table.schema.unit,
            neighbours=Neighbours.ADD_REMOVE,
            routes=routes_of(budget),
            parent=parent,
        )

    def check_isolation(self) -> None:
        """Refuse reserved shares that no longer fit, with what was charged otherwise and to scopes no longer named."""
        scopes = {scope.scope_id: scope for scope in self.ledger.scopes()}
        balances = {name: scope.balances() for name, scope in scopes.items()}
        named = {table.scope_of(each) for table in self.config.tables.values() for each in table.accounts}
        named |= set(self.config.tables)
        for division in divisions(self.config):
            route = rule_of(division.budget).capacities[0][0]
            below = [name for name, scope in scopes.items() if scope.definition.parent_id == division.name]
            own = balances[division.name].totals()
            spent = own.of(route) - sum(balances[name].totals().of(route) for name in below)
            delta = own.delta_items - sum(balances[name].totals().delta_items for name in below)
            for name in below:
                if name not in named:
                    shut, total, rule = balances[name].shut, balances[name].totals(), scopes[name].rule
                    spent += total.of(route) if shut else rule.capacities[0][1]
                    delta += total.delta_items if shut else rule.pool
            if not replace(division, used=spent, used_delta=delta).fits():
                raise PlanError(
                    f"the shares of {division.name!r} no longer fit its budget: the ledger holds charges to it, "
                    "or scopes below it that this file does not name, which keep what they were promised until they "
                    'are closed. Make the shares smaller, or say sharing = "first come"'
                )

    def check_head(self) -> None:
        """Verify the ledger, and refuse one that lacks the newest head that was kept elsewhere."""
        file = self.config.head_file
        found = self.ledger.verify(expect_head=None if file is None else kept_head(file))
        if not found.ok:
            raise LedgerError(f"the ledger does not verify, so nothing is served: {found.problems[0]}")

    def keep_head(self) -> None:
        """Write the newest head to the head file."""
        if self.config.head_file is not None:
            with self.ledger.store.read() as transaction:
                row = transaction.row("SELECT value FROM meta WHERE key = 'head'")
            assert row is not None
            keep_head(self.config.head_file, json.loads(row[0]))

    # --- what is left -------------------------------------------------------------------------------------------------

    def quote(self, table: ServedTable, account: Pool, claims: Claims, *, delta: Amount | None) -> AccountQuote:
        """Return what a price does to an account.

        Raises:
            ClaimError: the table's currency cannot count it, or not alike in all scopes.
            ProblemError: it is larger or smaller than a request may be.
        """
        scope_id = table.scope_of(account)
        counted = counted_claims(claims, table.budget, delta=delta)
        definitions = {each.scope_id: each for each in self.ledger.ancestry(scope_id)}
        shares = by_scope(spread({scope_id: counted}, definitions))
        charge = shares[scope_id][0].charge
        if any(share.charge != charge for own in shares.values() for share in own):
            raise ClaimError("the scopes above this account would be charged another amount; ask in its currency")
        rule = rule_of(table.budget)
        route = rule.capacities[0][0]
        unit = table.schema.unit
        most, least = (rule.charge(each.with_unit(unit)) for each in (table.largest, table.smallest))
        price, pool = charge.of(route) or 0, charge.delta_items
        if price > (most.of(route) or 0) or pool > most.delta_items or price < (least.of(route) or 0):
            raise ProblemError(
                "not-allowed",
                f"a request of this table costs between {table.smallest} and {table.largest}, got {counted}",
            )
        left, left_delta = self._left(table, scope_id, definitions)
        fits = price <= left and pool <= left_delta
        return AccountQuote(
            charge=_amounts(table, price, pool),
            before=_amounts(table, left, left_delta),
            after=_amounts(table, left - price, left_delta - pool) if fits else None,
            short=_amounts(table, max(0, price - left), max(0, pool - left_delta)),
        )

    def remaining(self, table: ServedTable, account: Pool) -> Mapping[str, str]:
        """Return what an account has left, exactly."""
        scope_id = table.scope_of(account)
        definitions = {each.scope_id: each for each in self.ledger.ancestry(scope_id)}
        return _amounts(table, *self._left(table, scope_id, definitions))

    def _left(self, table: ServedTable, scope_id: str, definitions: Mapping[str, Any]) -> tuple[int, int]:
        """Return what is left in quanta; with reserved shares of the account alone, which says nothing of others."""
        asked = [scope_id] if table.sharing == "reserved" else list(definitions)
        found = []
        for name in asked:
            balances: Balances = self.ledger.scope(name).balances()
            rule, totals = definitions[name].rule, balances.totals()
            route, capacity = rule.capacities[0]
            shut = balances.shut
            found.append((0 if shut else capacity - totals.of(route), 0 if shut else rule.pool - totals.delta_items))
        return max(0, min(left for left, _ in found)), max(0, min(delta for _, delta in found))

    # --- what became of requests --------------------------------------------------------------------------------------

    def scope(self, table: ServedTable, account: Pool) -> Scope:
        """Return the scope of an account."""
        return self.ledger.scope(table.scope_of(account))

    def entry(self, table: ServedTable, account: Pool, name: str) -> LedgerEntry | None:
        """Return the entry of a request of an account, by the request's id or the entry's own."""
        scope = self.scope(table, account)
        return scope.entry_of(key_of_entry(self.ledger, table.scope_of(account), name) or name)

    def history(self, table: ServedTable, account: Pool, *, limit: int, after: str | None) -> list[LedgerEntry]:
        """Return entries of an account, oldest first, after one of them."""
        before = None if after is None else self.entry(table, account, after)
        if after is not None and before is None:
            return []
        return self.scope(table, account).page(limit=limit, after=None if before is None else before.entry_id)

    def give_up(self, table: ServedTable, account: Pool, request_id: str) -> None:
        """Record that a request failed whose worker left no outcome; its charge stands."""
        self.scope(table, account).reap(key=request_id, reason="failed")

    def give_up_before(self, table: ServedTable, account: Pool, moment: float) -> None:
        """Record as failed the unfinished entries whose slots began before a moment."""
        self.scope(table, account).reap(before=utc_text(moment), reason="failed")

    def failures(self, table: ServedTable, account: Pool, *, since: float) -> int:
        """Return how many paid requests of an account failed since a moment."""
        return failures_of(self.ledger, table.scope_of(account), since=utc_text(since))


def _amounts(table: ServedTable, main: int, delta: int) -> dict[str, str]:
    if isinstance(table.budget, GDP):  # of the sum of squares: the largest single mu, rounded down
        return {"mu": decimal_text(Fraction(math.isqrt(main * QUANTA_PER_ONE), QUANTA_PER_ONE))}
    name = table.currency.partition(" ")[0]
    found = {name: decimal_text(Fraction(main, QUANTA_PER_ONE))}
    return found | ({"delta": decimal_text(Fraction(delta, QUANTA_PER_ONE))} if "delta" in table.currency else {})


def ready_time(entry: LedgerEntry) -> float:
    """Return the end of the slot of an entry, which no outcome leaves before."""
    asked = entry.request.get(ASKED)
    seconds = float(str(asked["seconds"])) if isinstance(asked, dict) else 0.0
    return start_time(entry) + seconds


def start_time(entry: LedgerEntry) -> float:
    """Return the start of the slot of an entry."""
    return datetime.fromisoformat(entry.at_utc).timestamp()


def utc_text(moment: float) -> str:
    """Return a moment as ledgers and answers write it."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def keep_head(path: Path, head: Mapping[str, str]) -> None:
    """Keep a head in a file, unless a newer one is there; on disk when it returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{path}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stored = json.loads(path.read_text()) if path.exists() else {"seq": "-1"}
        if int(stored["seq"]) >= int(head["seq"]):
            return
        new = path.with_name(f"{path.name}.new")
        with new.open("w") as file:
            file.write(json.dumps(dict(head)))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def kept_head(path: Path) -> str | None:
    """Return the head in a file; None if none was kept yet."""
    return str(json.loads(path.read_text())["hash"]) if path.exists() else None
