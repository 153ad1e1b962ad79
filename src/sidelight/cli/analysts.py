"""`sidelight serve`, `server` and `token` for a file with `[[table]]`: a server for analysts without access to rows."""

from __future__ import annotations

import logging
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import typer

from sidelight.cli.answers import note, print_cells, prints_json
from sidelight.cli.terminal import tell
from sidelight.errors import RangeError, SidelightError, nearest
from sidelight.server.audit_log import AuditLog
from sidelight.server.budgets import Budgets, check_ledger, rehearsed_budgets
from sidelight.server.config import ServedTable, ServerConfig, rule_of
from sidelight.server.config_file import read_config
from sidelight.server.identity import DAY, IdentityStore
from sidelight.server.running import serve_analysts
from sidelight.wire import write_json


def is_survey(path: Path) -> bool:
    """Return whether a file is the configuration of an analyst server; other mistakes in it are reported later."""
    try:
        return "table" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False


def serve_survey(path: Path) -> None:
    """Serve until interrupted."""
    config = read_config(path)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("sidelight.server").setLevel(logging.INFO)
    for table in config.tables.values():
        tell(f"{table.name}: {table.promise}")
    serve_analysts(config, when_ready=lambda url: tell(f"Serving {config.title!r} on {url}"))


def check_survey(path: Path) -> None:
    """Read the file, open every source without reading a row, verify the ledger, and print every guarantee.

    Nothing is written: a scope that is made is never changed again, and a mistake in the file would stay.
    """
    config = read_config(path)
    for table in config.tables.values():
        table.open()
    windows = check_ledger(config, moment=time.time())
    for said in windows:
        tell(said)
    promises = []
    for table in config.tables.values():
        requests, (largest, unpriced) = _requests(config, table.name), _probed(config, table)
        most = f"At most {requests:,} requests fit, with about {requests * largest:,} bytes of answers."
        tell(f"{table.name}: {table.promise} {most}")
        for kind, problem in unpriced.items():
            tell(f"{table.name}: {kind} was not priced: {problem}")
        found = {"table": table.name, "promise": table.promise, "requests": requests}
        promises.append({**found, "ledger_bytes": requests * largest, "unpriced": unpriced})
    note(tables=promises, windows=windows)


def calibrate_survey(path: Path, *, table: str | None, runs: int) -> None:
    """Time every kind on generated rows; no source is opened, and nothing is written."""
    from sidelight.server.calibrate import calibrate, proposal

    config = read_config(path)
    if table is not None and table not in config.tables:
        raise RangeError(f"there is no table {table!r}; {nearest(table, config.tables)}")
    found = []
    for each in config.tables.values():
        if table in (None, each.name):
            kinds = calibrate(config, each, runs=runs, said=tell)
            lines = proposal(kinds)
            for kind in kinds:
                if kind.problem:
                    tell(f"{each.name}: {kind.kind} was not measured, choose its duration yourself: {kind.problem}")
            tell(f"For {each.capacity:,} generated rows of {each.name}, on this machine at its current load:")
            if not prints_json():
                typer.echo(lines)
            measured = {kind.kind: kind.duration for kind in kinds if kind.duration is not None}
            found.append({"table": each.name, "lines": lines, "durations": measured})
    note(tables=found)


def _probed(config: ServerConfig, table: ServedTable) -> tuple[int, dict[str, str]]:
    """Price a query of each kind; return the bytes of the largest answer, and the reasons for missing prices."""
    from sidelight.server.calibration_probes import prices_of, probes_of
    from sidelight.server.pricing import answer_job

    largest, unpriced = 0, {}
    for kind in table.kinds:
        try:
            probes, price = dict(probes_of(config, table, kind)), next(prices_of(table, kind))
        except SidelightError as error:
            unpriced[kind] = str(error)
            continue
        query = write_json({**probes[max(probes)], **price})
        found = answer_job(config, {"do": "price", "table": table.name, "query": query, "kind": kind})
        if "problem" in found:
            unpriced[kind] = str(found["problem"]["text"])
        else:
            largest = max(largest, int(found["answer"]["answer_bytes"]))
    return largest, unpriced


def _requests(config: ServerConfig, name: str) -> int:
    """Return how many requests of the smallest price fit a table, which bounds the size of the ledger."""
    table = config.tables[name]
    rule = rule_of(table.budget)
    route, capacity = rule.capacities[0]
    return capacity // max(1, rule.charge(table.smallest.with_unit(table.schema.unit)).of(route) or 1)


def show_status(path: Path) -> None:
    """List the balance of each account, and pauses; nothing is written.

    The ledger is that of a rehearsed start: an account that is new in the file has its whole budget.
    """
    config = read_config(path)
    with ExitStack() as opened:
        budgets = opened.enter_context(closing(rehearsed_budgets(config)[0]))
        budgets.open_scopes()
        store = None
        if isinstance(config.store, str) or config.store.exists():
            store = opened.enter_context(closing(IdentityStore(config.store, create=False)))
        moment = time.time() if store is None else store.latest(time.time(), keep=False)
        found: list[dict[str, Any]] = [
            {
                "table": table.name,
                "account": account.name,
                "remaining": dict(budgets.remaining(table, account, moment=moment)),
                "paused": store is not None and store.is_paused(table.name, account.name),
            }
            for table in config.tables.values()
            for account in table.accounts
        ]
    for each in found:
        left = ", ".join(f"{name} {amount}" for name, amount in dict(each["remaining"]).items())
        print_cells(str(each["table"]), str(each["account"]), left, "paused" if each["paused"] else "")
    note(accounts=found)


def resume_service(path: Path, *, table: str | None, analyst: str | None, clock: bool, head: bool = False) -> None:
    """End a pause, confirm the clock, or make a missing head file."""
    if table is None and not clock and not head:
        raise RangeError("name what to resume: a table of the file, --clock or --head")
    if head:
        config = read_config(path)
        with _logged(config, "head"), closing(Budgets(config)) as budgets:
            budgets.start_head_file()
        tell("The ledger is accepted as its newest copy, and its head is kept")
    if clock:
        config = read_config(path)
        with _logged(config, "clock"), closing(IdentityStore(config.store)) as store:
            store.latest(time.time())  # the latest time seen is stored
        tell("The current time of the clock is accepted")
    if table is not None:
        set_pause(path, table=table, analyst=analyst, paused=False)
    else:
        note(table=None, paused=False)


def set_pause(path: Path, *, table: str, analyst: str | None, paused: bool) -> None:
    """Pause a table or one of its accounts, or resume it."""
    config = read_config(path)
    if table not in config.tables:
        raise RangeError(f"there is no table {table!r}; {nearest(table, config.tables)}")
    accounts = [each.name for each in config.tables[table].accounts]
    if analyst is not None and analyst not in accounts:
        raise RangeError(f"the table has no account {analyst!r}; {nearest(analyst, accounts)}")
    with _logged(config, "pause" if paused else "resume") as facts, closing(IdentityStore(config.store)) as store:
        (store.pause if paused else store.resume)(table, analyst or "", now=time.time())
        facts |= {"table": table, "analyst": analyst or ""}
    tell(f"{'Paused' if paused else 'Resumed'} {table}{f' for {analyst}' if analyst else ''}")
    note(table=table, paused=paused)


def new_analyst_token(
    path: Path, *, analyst: str | None, tables: list[str], actions: str, days: int, words: str
) -> None:
    """Print a token for an analyst; only its hash is stored."""
    config = read_config(path)
    if analyst is None or analyst not in config.analysts:
        raise RangeError(f"name an analyst of the file; {nearest(str(analyst), sorted(config.analysts))}")
    unknown = next((each for each in tables if each not in config.tables), None)
    if unknown is not None:
        raise RangeError(f"there is no table {unknown!r}; {nearest(unknown, config.tables)}")
    with _logged(config, "token new") as facts, closing(IdentityStore(config.store)) as store:
        token = store.issue(analyst, now=time.time(), tables=tables, actions=actions.split(","), days=days, note=words)
        facts |= {"analyst": analyst, "token": token.split("_")[1], "actions": actions}
    note(tokens=[{"client": analyst, "token": token}])
    print_cells(analyst, token)


def revoke_analyst_token(path: Path, *, client: str) -> None:
    """Revoke a token by its id, or all of an analyst."""
    config = read_config(path)
    with _logged(config, "token revoke") as facts, closing(IdentityStore(config.store)) as store:
        number = store.revoke(client)
        facts |= {"name": client}
    note(client=client)
    tell(f"Revoked {number} token(s) of {client!r}; waiting requests are dropped, releases stay")


def list_analyst_tokens(path: Path) -> None:
    """List the tokens by their public parts."""
    store = IdentityStore(read_config(path).store)
    try:
        tokens = store.tokens()
    finally:
        store.close()
    for each in tokens:
        left = (each["expires"] - time.time()) / DAY
        print_cells(each["analyst"], each["id"], "revoked" if each["revoked"] else f"{max(0, left):.0f} days")
    note(clients=[{"client": t["analyst"], "token": None if t["revoked"] else t["id"]} for t in tokens])


@contextmanager
def _logged(config: ServerConfig, action: str) -> Iterator[dict[str, str]]:
    """Write an owner's command to the audit log, with the facts that the caller adds; fail without a log."""
    log, facts = AuditLog(config.audit), dict[str, str]()
    try:
        yield facts
        log.write(at=round(time.time(), 3), action=action, **facts)
    finally:
        log.close()
