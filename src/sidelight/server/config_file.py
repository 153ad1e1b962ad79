"""`survey.toml`: the configuration of a server, read strictly; every mistake is a `PlanError` with its line."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from sidelight.errors import PlanError, SidelightError, nearest
from sidelight.guarantees import GDP, ZCDP, ApproxDP, Claim, Claims, Unit, parse_claim
from sidelight.plans.columns import COLUMN_TABLE, read_schema
from sidelight.plans.forms import AMOUNT, FLAG, REAL, TEXT, TEXTS, WHOLE, choice, list_of, map_of
from sidelight.plans.plan import folder_of, read_file
from sidelight.plans.section import Section
from sidelight.plans.sources import ledger_url
from sidelight.plans.tables import section_of
from sidelight.records.engines import check_local, is_postgres
from sidelight.records.source_files import real_path
from sidelight.server.config import (
    CURRENCIES,
    Pool,
    Renewal,
    ServedTable,
    ServerAddress,
    ServerConfig,
    Sharing,
    Work,
    divisions,
    rule_of,
)
from sidelight.server.config_network import keys_of, read_listen, read_proxy
from sidelight.server.cost import KindCost
from sidelight.server.distinct_files import check_files, check_people
from sidelight.wire.queries import KINDS, RELEASE_ID

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_TIMES = {"s": Fraction(1), "ms": Fraction(1, 1000), "min": Fraction(60)}
_SIZES = {"MiB": 2**20, "GiB": 2**30}
#: The shortest duration: it must have room for the charge (a quarter) and the record.
SHORTEST = 1.0
#: Windows of one account: enough for ten years of days.
MOST_WINDOWS = 4000
#: Characters of the rule by which a population is partitioned.
LONGEST_RULE = 200

_AMOUNTS = map_of(AMOUNT)
_SHARING = choice("reserved", "first come")
_LEDGER = keys_of("url", "key_file", url=TEXT, key_file=TEXT, head_file=TEXT)
_IDENTITY = keys_of("store", "audit", store=TEXT, audit=TEXT, proxy=section_of(), names=map_of(TEXT))
_WORK = keys_of(
    seats=WHOLE,
    memory=TEXT,
    scratch=TEXT,
    tick=TEXT,
    queue=WHOLE,
    longest_wait=TEXT,
    fill=FLAG,
    pricing=WHOLE,
    free_per_second=REAL,
)
_PUBLIC = keys_of("path", "origin", path=TEXT, origin=TEXT)
_POPULATION = keys_of(
    *("currency", "budget"),
    currency=choice(*CURRENCIES),
    budget=_AMOUNTS,
    sharing=_SHARING,
    partitioned_by=TEXT,
    frozen=FLAG,
)
_SOURCE = keys_of("path", path=TEXT, table=TEXT, engine=choice("spark"))
_RENEW = keys_of("every", "budget", "windows", every=choice("day", "week", "month"), budget=_AMOUNTS, windows=WHOLE)
_ANALYST = keys_of("name", "budget", name=TEXT, budget=_AMOUNTS, renew=section_of())
_GROUP = keys_of("name", "budget", "members", name=TEXT, budget=_AMOUNTS, members=TEXTS, renew=section_of())
_COST = keys_of("seconds", "memory", seconds=REAL, seconds_per_cell=REAL, memory=TEXT, memory_per_cell=REAL)
_TABLE = keys_of(
    *("name", "source", "currency", "budget", "kinds", "largest", "smallest", "capacity", "column", "durations"),
    name=TEXT,
    population=TEXT,
    other_people=FLAG,
    source=section_of(),
    capacity=WHOLE,
    currency=choice(*CURRENCIES),
    budget=_AMOUNTS,
    sharing=_SHARING,
    kinds=TEXTS,
    largest=_AMOUNTS,
    smallest=_AMOUNTS,
    strict=FLAG,
    together=FLAG,
    stated_delta=AMOUNT,
    durations=map_of(TEXT),
    costs=map_of(section_of()),
    column=list_of(section_of(COLUMN_TABLE.schema)),
    analyst=list_of(section_of()),
    group=list_of(section_of()),
)
_WHOLE = keys_of(
    *("ledger", "identity", "table"),
    title=TEXT,
    listen=section_of(),
    ledger=section_of(),
    identity=section_of(),
    work=section_of(),
    public=map_of(section_of()),
    population=map_of(section_of()),
    table=list_of(section_of()),
)


def read_config(path: Path | str) -> ServerConfig:
    """Read and check the configuration of a server.

    Raises:
        PlanError: names the line, the expected and the given value.
    """
    whole = read_file(path)
    given = _WHOLE.read_values(whole)
    folder = folder_of(whole)
    populations = {name: _population(section, name) for name, section in given.get("population", {}).items()}
    public = {name: _public(section, name, folder) for name, section in given.get("public", {}).items()}
    tables: dict[str, ServedTable] = {}
    for section in given["table"]:
        table = _table(section, folder, populations)
        if table.name in tables or table.name in populations:
            section.refuse(f"the name {table.name!r} is already in use", key="name")
        tables[table.name] = table
    if not tables:
        whole.refuse("a server needs at least one [[table]]")
    check_people(given["table"], list(tables.values()), populations)
    ledger = _LEDGER.read_values(given["ledger"])
    identity = _IDENTITY.read_values(given["identity"])
    config = ServerConfig(
        title=given.get("title", Path(path).stem),
        folder=folder,
        listen=read_listen(given["listen"], folder) if "listen" in given else ServerAddress(),
        ledger=ledger_url(ledger["url"], folder=folder),
        key_file=folder / ledger["key_file"],
        head_file=Path(real_path(folder / ledger["head_file"])) if "head_file" in ledger else None,
        store=identity["store"] if is_postgres(identity["store"]) else folder / identity["store"],
        audit=folder / identity["audit"],
        proxy=read_proxy(given["identity"], identity, folder, list(tables.values())),
        work=_work(given["work"], folder) if "work" in given else Work(scratch=folder / "scratch"),
        public=public,
        populations=populations,
        tables=tables,
    )
    check_files(config, whole, given.get("public", {}))
    check_isolation(config, whole)
    return config


def _named(section: Section, name: str, *, key: str | None = None) -> str:
    if not _NAME.fullmatch(name) or RELEASE_ID.fullmatch(name):
        section.refuse(
            f"{name!r} is not a valid name: 1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or digit, and "
            "unlike the id of a release",
            key=key,
        )
    return name


def _claim(section: Section, key: str, amounts: Mapping[str, Any], currency: str) -> Claim:
    if set(amounts) != set(CURRENCIES[currency]):
        wanted = " and ".join(CURRENCIES[currency])
        section.refuse(f"{key} must have {wanted}, for this currency, got {', '.join(sorted(amounts))}", key=key)
    with section.naming(key):
        return parse_claim(amounts)


def _population(section: Section, name: str) -> Pool:
    given = _POPULATION.read_values(section)
    budget = _claim(section, "budget", given["budget"], given["currency"])
    rule = given.get("partitioned_by")
    if rule is not None and not (rule.isprintable() and rule.strip() and len(rule) <= LONGEST_RULE):
        section.refuse(
            f"partitioned_by is the public rule that puts every person into one table only, in 1 to {LONGEST_RULE} "
            'printable characters, such as "month of the first visit"',
            key="partitioned_by",
        )
    if rule is not None and given["currency"] != "epsilon" and not given.get("frozen", False):
        section.refuse(
            "parts compose in parallel in this currency only if their rows never change; set frozen = true if they do "
            'not, or use currency = "epsilon"',
            key="partitioned_by",
        )
    if rule is None and "frozen" in given:
        section.refuse(
            "frozen belongs to partitioned_by: it declares that the rows of no part ever change", key="frozen"
        )
    return Pool(
        name=_named(section, name), budget=budget, sharing=given.get("sharing", "reserved"), partitioned_by=rule
    )


def _public(section: Section, name: str, folder: Path) -> tuple[Path, str]:
    given = _PUBLIC.read_values(section)
    _named(section, name)
    file = folder / given["path"]
    if not file.is_file():
        section.refuse(f"there is no file {given['path']!r}; paths are relative to the folder of this file", key="path")
    return file, given["origin"]


def _table(section: Section, folder: Path, populations: Mapping[str, Pool]) -> ServedTable:
    given = _TABLE.read_values(section)
    name, currency = _named(section, given["name"], key="name"), given["currency"]
    schema = read_schema(section, given["column"])
    budget = _claim(section, "budget", given["budget"], currency).under(unit=schema.unit)
    population = given.get("population")
    if population is not None and population not in populations:
        section.refuse(f"there is no [population.{population}]; {nearest(population, populations)}", key="population")
    sharing: Sharing = given.get("sharing", "reserved")
    above = populations.get(population or "")
    if above is not None and type(above.budget) is not type(budget):
        section.refuse(f"its population has another currency than {currency!r}", key="currency")
    if above is not None and sharing == "reserved" and above.sharing != "reserved":
        section.refuse('sharing = "reserved" needs a population with sharing = "reserved"', key="sharing")
    unknown = next((kind for kind in given["kinds"] if kind not in KINDS), None)
    if unknown is not None or not given["kinds"]:
        section.refuse(f"kinds names {unknown!r}; {nearest(str(unknown), KINDS)}", key="kinds")
    if given["capacity"] < 1:
        section.refuse("capacity is the number of rows for which durations were calibrated, at least 1", key="capacity")
    if isinstance(budget, ApproxDP) and budget.delta > Fraction(1, given["capacity"]):
        section.refuse("delta must be at most 1/capacity: a larger one could publish a whole record", key="budget")
    if given.get("together", False) and not isinstance(budget, ApproxDP):
        section.refuse('together = true needs currency = "epsilon and delta": batches are priced in it')
    limits: dict[str, Any] = {
        key: Claims.of(_claim(section, key, given[key], currency)) for key in ("largest", "smallest")
    }
    accounts = _accounts(section, given, currency)
    return ServedTable(
        name=name,
        population=population,
        capacity=given["capacity"],
        schema=schema,
        currency=currency,
        budget=budget,
        sharing=sharing,
        kinds=tuple(dict.fromkeys(given["kinds"])),
        strict=given.get("strict", True),
        together=given.get("together", False),
        other_people=given.get("other_people", False),
        stated_delta=_stated_delta(section, given, budget),
        durations=_durations(section, given["durations"]),
        costs={kind: _cost(inside, kind) for kind, inside in given.get("costs", {}).items()},
        accounts=tuple(_of_unit(each, schema.unit) for each in accounts),
        **limits,
        **_source(given["source"], folder),
    )


def _stated_delta(section: Section, given: Mapping[str, Any], budget: Claim) -> Fraction | None:
    if "stated_delta" not in given:
        return None
    if not isinstance(budget, ZCDP | GDP):
        section.refuse(
            "stated_delta is for budgets in rho or mu, which it shows as epsilon at a delta", key="stated_delta"
        )
    with section.naming("stated_delta"):
        stated = Claims.of(budget).approx_at(given["stated_delta"])
    if stated is None or stated.delta > Fraction(1, given["capacity"]):
        section.refuse(
            "stated_delta must be at most 1/capacity: a larger one says little about a person", key="stated_delta"
        )
    return stated.delta


def _of_unit(account: Pool, unit: Unit) -> Pool:
    renew = account.renew and replace(account.renew, budget=account.renew.budget.under(unit=unit))
    return replace(account, budget=account.budget.under(unit=unit), renew=renew)


def _source(section: Section, folder: Path) -> dict[str, Any]:
    given = _SOURCE.read_values(section)
    path, table, engine = given["path"], given.get("table"), given.get("engine")
    with section.naming("path"):
        check_local(path, table=table, engine=engine)
    local = not is_postgres(path) and not (engine == "spark" and "://" in path)
    if local and not path.lower().endswith((".parquet", ".duckdb", ".db")) and not (folder / path).is_dir():
        section.refuse(
            "a server reads sources with fixed types (Parquet, DuckDB, PostgreSQL, Spark); whether a CSV file is well "
            "formed depends on single records, so refusing it would leak. Convert it to Parquet",
            key="path",
        )
    return {"source": str(folder / path) if local else path, "source_table": table, "engine": engine}


def _durations(section: Section, given: Mapping[str, str]) -> dict[str, float]:
    found = {kind: _measure(section, "durations", text, _TIMES) for kind, text in given.items()}
    unknown = next((kind for kind in found if kind not in (*KINDS, "default")), None)
    if unknown is not None or "default" not in found:
        section.refuse(f'durations are default and kinds, got {unknown!r}; write default = "2 s"', key="durations")
    short = next((kind for kind, seconds in found.items() if seconds < SHORTEST), None)
    if short is not None:
        section.refuse(f"the duration of {short!r} is below {SHORTEST:g} s, too short for charge and record")
    return found


def _cost(section: Section, kind: str) -> KindCost:
    if kind not in KINDS:
        section.refuse(f"costs names {kind!r}; {nearest(kind, KINDS)}")
    given = _COST.read_values(section)
    memory = int(_measure(section, "memory", given.pop("memory"), _SIZES))
    if any(not 0 <= amount < 1e9 for amount in given.values()):
        section.refuse("seconds and what each cell adds are not negative; `sidelight server calibrate` proposes them")
    return KindCost(memory=memory, **given)


def _measure(section: Section, key: str, text: str, units: Mapping[str, Any]) -> float:
    number, _, unit = text.strip().partition(" ")
    try:
        amount = float(number)
    except ValueError:
        amount = math.nan
    if unit not in units or not 0 < amount < 1e6:
        section.refuse(f"{key} is a number and a unit of {', '.join(units)}, such as '2 {next(iter(units))}'", key=key)
    return float(amount * units[unit])


def _accounts(section: Section, given: Mapping[str, Any], currency: str) -> list[Pool]:
    found: list[Pool] = []
    for inside, form in [
        *((each, _ANALYST) for each in given.get("analyst", ())),
        *((each, _GROUP) for each in given.get("group", ())),
    ]:
        values = form.read_values(inside)
        name = _named(inside, values["name"], key="name")
        members = tuple(_named(inside, each, key="members") for each in values.get("members", [name]))
        if any(each.name == name for each in found):
            inside.refuse(f"two accounts are named {name!r}", key="name")
        twice = next((each for each in members if any(each in other.members for other in found)), None)
        if twice is not None:
            inside.refuse(
                f"{twice!r} has an account already: an analyst has one account or belongs to one group", key="name"
            )
        budget = _claim(inside, "budget", values["budget"], currency)
        renew = _renewal(values["renew"], currency) if "renew" in values else None
        found.append(Pool(name=name, budget=budget, members=members, renew=renew))
    if not found:
        section.refuse("the table has no accounts; add analyst = [{name = ..., budget = {...}}]")
    return found


def _renewal(section: Section, currency: str) -> Renewal:
    given = _RENEW.read_values(section)
    if not 1 <= given["windows"] <= MOST_WINDOWS:
        section.refuse(f"windows is the total number of windows, 1 to {MOST_WINDOWS}", key="windows")
    budget = _claim(section, "budget", given["budget"], currency)
    return Renewal(every=given["every"], budget=budget, windows=given["windows"])


def _work(section: Section, folder: Path) -> Work:
    given = _WORK.read_values(section)
    measures: dict[str, Mapping[str, Any]] = {"memory": _SIZES, "tick": _TIMES, "longest_wait": _TIMES}
    for key, units in measures.items():
        if key in given:
            given[key] = _measure(section, key, given[key], units)
    if "memory" in given:
        given["memory"] = int(given["memory"])
    values: dict[str, Any] = {**given, "scratch": folder / given.get("scratch", "scratch")}
    found = Work(**values)
    cores = len(os.sched_getaffinity(0))
    if not 1 <= found.seats <= max(1, cores - 1):
        section.refuse(
            f"seats must lie in 1..{max(1, cores - 1)}: one core of {cores} is reserved for answering requests",
            key="seats",
        )
    host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if found.seats * found.memory > host:
        section.refuse(
            f"{found.seats} seats with {found.memory // 2**20} MiB each are more than the {host // 2**20} MiB of this "
            'host; write fewer seats, or memory = "..."',
            key="memory" if "memory" in given else "seats",
        )
    if not 1 <= found.queue <= 10_000 or not 1 <= found.pricing <= 16:
        section.refuse("queue must lie in 1..10000, and pricing in 1..16")
    return found


def check_isolation(config: ServerConfig, whole: Section) -> None:
    """Refuse reserved shares that do not fit, and limits beyond the budget."""
    for each in divisions(config):
        if not each.fits():
            whole.refuse(
                f"the shares of {each.name!r} add up to more than its budget ({each.budget}); make them smaller, or "
                'set sharing = "first come" and accept that one analyst can use up the budget of another'
            )
    for table in config.tables.values():
        try:
            largest, smallest = table.limits
        except SidelightError as error:
            raise PlanError(f"{whole.file}: the limits of {table.name!r}: {error}") from None
        route = rule_of(table.budget).capacities[0][0]
        if (smallest.of(route) or 0) > (largest.of(route) or 0):
            whole.refuse(f"smallest is larger than largest in {table.name!r}")
