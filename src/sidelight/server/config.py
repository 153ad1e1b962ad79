"""Tables of a server with their budgets, the accounts of analysts, and the division of budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from sidelight.accounting import Charge, Route, Rule
from sidelight.guarantees import ApproxDP, Claim, Claims
from sidelight.records import Schema, Table
from sidelight.records.engines import is_postgres
from sidelight.server.cost import KindCost
from sidelight.server.together import MOST_TOGETHER, parts_of

Sharing = Literal["reserved", "first come"]
Currency = Literal["epsilon", "epsilon and delta", "rho", "mu"]
#: What a promise cannot know beforehand: whether an analyst asks for a query that is idealized.
RELEASES_SAY = "A release that is proved for real-number arithmetic only says so (idealized)."
#: The parts of a budget in each currency.
CURRENCIES: Mapping[str, tuple[str, ...]] = {
    "epsilon": ("epsilon",),
    "epsilon and delta": ("epsilon", "delta"),
    "rho": ("rho",),
    "mu": ("mu",),
}
#: Seconds before the end of a slot at which a worker must be done, and at which its outcome is recorded.
DONE, RECORD = 0.3, 0.2
#: Seconds before the start at which a worker is forked: it reads the query and opens the ledger, and charges nothing.
LEAD = 0.5


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """`[listen]`: the address of the server and its proxies."""

    host: str = "127.0.0.1"
    port: int = 8472
    names: tuple[str, ...] = ()
    behind_proxy: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    admin: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProxyIdentity:
    """`[identity] proxy`: a proxy that checks logins and names the person in a header."""

    header: str
    secret_file: Path
    addresses: tuple[str, ...]
    names: Mapping[str, str]  # from the proxy's name of a person to the analyst


@dataclass(frozen=True, kw_only=True)
class Work:
    """`[work]`: concurrent releases, queue and limits. Times are in seconds."""

    seats: int = 1
    memory: int = 2 * 2**30
    scratch: Path = Path("scratch")
    tick: float = 0.25
    queue: int = 64
    longest_wait: float = 60.0
    fill: bool = True
    pricing: int = 1
    free_per_second: float = 5.0


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """`renew`: an account's budget per calendar period, and the total number of periods."""

    every: Literal["day", "week", "month"]
    budget: Claim
    windows: int


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A budget that its members share: a population of tables, or one analyst or group of a table."""

    name: str
    budget: Claim
    members: tuple[str, ...] = ()
    sharing: Sharing = "reserved"
    renew: Renewal | None = None
    partitioned_by: str | None = None  # of a population: the public rule that puts a person into one table only


@dataclass(frozen=True, kw_only=True)
class ServedTable:
    """`[[table]]`: a private source with its public declarations, its budget and its accounts."""

    name: str
    population: str | None
    source: str
    source_table: str | None
    engine: Literal["spark"] | None
    schema: Schema
    capacity: int
    currency: Currency
    budget: Claim
    sharing: Sharing
    kinds: tuple[str, ...]
    largest: Claims
    smallest: Claims
    strict: bool
    durations: Mapping[str, float]
    accounts: tuple[Pool, ...]
    together: bool = False
    other_people: bool = False  # than those of a table that has, or had, the same source
    stated_delta: Fraction | None = None
    costs: Mapping[str, KindCost] = field(default_factory=dict)

    def duration(self, query: Mapping[str, Any]) -> float:
        """Return the public duration of a query in seconds: that of its kind, or the sum for a batch."""
        kinds = (str(each.get("kind")) for each in parts_of(query))
        return sum(self.durations.get(kind, self.durations["default"]) for kind in kinds)

    @property
    def promise(self) -> str:
        """The guarantee of everything ever released from the table; for rho and mu also as epsilon at a delta."""
        statement = f"{rule_of(self.budget).statement()} {RELEASES_SAY}"
        stated = None if self.stated_delta is None else Claims.of(self.budget).approx_at(self.stated_delta)
        if stated is None:
            return statement
        pair = ApproxDP(stated.epsilon, stated.delta)  # for rows, as the sentence names the unit already
        return f"{statement} For comparison, that is {pair}."

    @property
    def longest(self) -> float:
        """The longest duration of any request."""
        return max(self.durations.values()) * (MOST_TOGETHER if self.together else 1)

    def account_of(self, analyst: str) -> Pool | None:
        """Return the account of an analyst; None if the analyst has none in this table."""
        return self._account_of.get(analyst)

    @cached_property
    def _account_of(self) -> Mapping[str, Pool]:
        return {name: each for each in self.accounts for name in each.members}

    def scope_of(self, account: Pool) -> str:
        """Return the name of an account's scope."""
        return f"{self.name}/{account.name}"

    @cached_property
    def limits(self) -> tuple[Charge, Charge]:
        """The largest and the smallest charge of one request."""
        rule, unit = rule_of(self.budget), self.schema.unit
        return rule.charge(self.largest.with_unit(unit)), rule.charge(self.smallest.with_unit(unit))

    def open(self) -> Table:
        """Open the source; reads no row."""
        return Table(self.source, schema=self.schema, name=self.name, table=self.source_table, engine=self.engine)


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """A complete configuration, checked as far as possible without ledger and data."""

    title: str
    folder: Path
    listen: ServerAddress
    ledger: str
    key_file: Path
    head_file: Path | None
    store: Path | str  # a file, or an address of PostgreSQL that replicas share
    audit: Path
    proxy: ProxyIdentity | None
    work: Work
    public: Mapping[str, tuple[Path, str]]
    populations: Mapping[str, Pool]
    tables: Mapping[str, ServedTable]

    @property
    def longest(self) -> float:
        """The longest duration of any request of any table."""
        return max(table.longest for table in self.tables.values())

    @property
    def libraries(self) -> tuple[str, ...]:
        """Optional libraries that the zygote imports once, so that its children do not."""
        ledger = ("psycopg", "sqlalchemy.dialects.postgresql.psycopg", "sidelight.ledger.pipelined")
        batches = ("dp_accounting.pld.privacy_loss_distribution",)
        return (
            *(ledger if is_postgres(self.ledger) or isinstance(self.store, str) else ()),
            *(batches if any(table.together for table in self.tables.values()) else ()),
        )

    def tables_of(self, analyst: str) -> list[ServedTable]:
        """Return the tables that an analyst may query."""
        return [table for table in self.tables.values() if table.account_of(analyst) is not None]

    @cached_property
    def analysts(self) -> frozenset[str]:
        """All names that may hold a token."""
        return frozenset(name for table in self.tables.values() for each in table.accounts for name in each.members)


def routes_of(budget: Claim) -> tuple[Route, ...] | None:
    """Return the only route of a budget, so that no request can change the rule for others."""
    return ("basic",) if isinstance(budget, ApproxDP) else None


@cache
def rule_of(budget: Claim) -> Rule:
    """Return the rule of a budget of a server."""
    return Rule.for_budget(budget, routes=routes_of(budget))


@dataclass(frozen=True, kw_only=True)
class Division:
    """How the budget of one scope is divided among those directly below it, in the ledger's quanta."""

    name: str
    budget: Claim
    parts: Sequence[Claim]
    disjoint: bool = False  # no person is in two parts

    def fits(self) -> bool:
        """Return whether the parts sum to at most the whole, so that no part is refused because of others. For

        disjoint parts each one may be as large as the whole.
        """
        rules = [rule_of(part) for part in self.parts]
        own, needed = rule_of(self.budget), max if self.disjoint else sum
        return (
            needed([0, *(rule.capacities[0][1] for rule in rules)]) <= own.capacities[0][1]
            and needed([0, *(rule.pool for rule in rules)]) <= own.pool
        )


def divisions(config: ServerConfig) -> list[Division]:
    """Return every budget that the file divides by `sharing = "reserved"`."""
    found = [
        Division(
            name=pool.name,
            budget=pool.budget,
            parts=[table.budget for table in config.tables.values() if table.population == name],
            disjoint=pool.partitioned_by is not None,
        )
        for name, pool in config.populations.items()
        if pool.sharing == "reserved"
    ]
    return (
        found
        + [
            Division(name=table.name, budget=table.budget, parts=[each.budget for each in table.accounts])
            for table in config.tables.values()
            if table.sharing == "reserved"
        ]
        + [
            Division(name=table.scope_of(each), budget=each.budget, parts=[each.renew.budget] * each.renew.windows)
            for table in config.tables.values()
            for each in table.accounts
            if each.renew is not None
        ]
    )
