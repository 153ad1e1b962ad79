"""Metrics for operators on a loopback address, in the text format of Prometheus.

Counts of requests, seats as scheduled, budgets spent, outcomes, and tokens near their end. Time, memory, bytes or rows
of releases, and how workers ended, are omitted on purpose: they are functions of the rows. Written by hand,
because one page without parameters needs no second application.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from sidelight.accounting.charges import QUANTA_PER_ONE
from sidelight.server.budgets import Budgets
from sidelight.server.config import ServerConfig, rule_of
from sidelight.server.identity import DAY, IdentityStore
from sidelight.server.schedule import SeatSchedule
from sidelight.web import is_loopback

#: Days before its expiry at which a token counts as near it.
NEAR_DAYS = 14
_LONGEST_HEADER = 8192


def metrics_text(
    config: ServerConfig,
    budgets: Budgets,
    store: IdentityStore,
    schedule: SeatSchedule,
    answers: Mapping[tuple[str, str], int],
    refused: Mapping[str, int],
) -> str:
    """Return the page of metrics."""
    now = time.time()
    lines = [*_family("requests_total", "counter", "Answers by route and status.")]
    for (route, status), number in sorted(answers.items()):
        lines.append(_line("requests_total", number, route=route, status=status))
    lines += _family("refusals_total", "counter", "Refusals by the code of their problem.")
    lines += [_line("refusals_total", number, code=code) for code, number in sorted(refused.items())]
    lines += _family("seats", "gauge", "Seats as scheduled: occupied now, and waiting requests.")
    lines.append(_line("seats", schedule.taken(now), state="held"))
    lines.append(_line("seats", schedule.waiting(now), state="waiting"))
    lines += _family("budget_spent", "gauge", "Spent budget of each table, in its currency (mu squared for mu).")
    lines += _family("budget", "gauge", "Budget of each table.")
    states: Counter[tuple[str, str]] = Counter()
    outcomes = budgets.ledger.states()
    for table in config.tables.values():
        route, capacity = rule_of(table.budget).capacities[0]
        spent = budgets.ledger.scope(table.name).totals().of(route)
        lines.append(_line("budget_spent", float(Fraction(spent, QUANTA_PER_ONE)), table=table.name))
        lines.append(_line("budget", float(Fraction(capacity, QUANTA_PER_ONE)), table=table.name))
        for account in table.accounts:
            for state, number in outcomes.get(table.scope_of(account), {}).items():
                states[table.name, state] += number
    lines += _family("releases_total", "counter", "Paid requests by their state in the ledger.")
    lines += [_line("releases_total", number, table=name, state=state) for (name, state), number in states.items()]
    near = sum(not each["revoked"] and 0 < each["expires"] - now < NEAR_DAYS * DAY for each in store.tokens())
    lines += [*_family("tokens_near_expiry", "gauge", f"Tokens that end within {NEAR_DAYS} days.")]
    lines.append(_line("tokens_near_expiry", near))
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, words: str) -> Iterator[str]:
    yield f"# HELP sidelight_{name} {words}"
    yield f"# TYPE sidelight_{name} {kind}"


def _line(name: str, value: float, **labels: str) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())  # names of the file and of routes: no quotes
    return f"sidelight_{name}{{{inside}}} {value:g}" if inside else f"sidelight_{name} {value:g}"


class MetricsPage:
    """Answers `GET /metrics` on the admin address, one request per connection."""

    def __init__(self, address: str, page: Callable[[], str]) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._page = page
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(
            self._answer, self._host.strip("[]"), self._port, limit=_LONGEST_HEADER
        )

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                hosts = [line.partition(":")[2].strip() for line in head[1:] if line.lower().startswith("host:")]
                # a page in a browser of this machine may reach the port by a name of its own
                known = len(hosts) == 1 and is_loopback(hosts[0].rsplit(":", 1)[0])
                good = known and head[0].split(" ")[:2] == ["GET", "/metrics"]
                text = await asyncio.to_thread(self._page) if good else ""
                status = "200 OK" if good else "404 Not Found"
                kind = "text/plain; version=0.0.4"
                start = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nConnection: close\r\n"
                writer.write(f"{start}Content-Length: {len(text.encode())}\r\n\r\n{text}".encode())
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            writer.close()
