"""The server's side without a network: rounds that open, collect reports and close; a plain object that becomes JSON.

Holds no private number: reports are private before they arrive. Of closed rounds it keeps sums and hashes only, and for
RW-Meta the noisy gains of the last rounds, which its learners look at. The carrier of the reports (a service, a file, a
test) checks who sent them; this object checks that they fit the terms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np

from sidelight.errors import RangeError, ReportError, RoundError, nearest
from sidelight.experts.adabatch import RWAdaBatch
from sidelight.experts.follow_leader import RWFTPL
from sidelight.experts.meta import RWMeta
from sidelight.experts.player import STATE_VERSION, Player, Stream, checked_kind, restoring
from sidelight.experts.report import ClipLimits, Collected, NoisyReport, check_terms, collect
from sidelight.experts.reporting import Reporting
from sidelight.noise.source import OS_BRANDING

Late = Literal["drop", "next"]
#: How many closed rounds' clients are remembered, to tell a late report from a second one (late="next").
_REMEMBERED = 64


class Receipt(Enum):
    """What became of a report."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"  # the same bytes again: counted once, answered like the first time
    CONFLICT = "conflict"  # another report of the same client for the same round: dropped and counted as a conflict
    LATE = "late"  # its round is closed: dropped
    POSTPONED = "postponed"  # its round is closed: counted in the open one (late="next")
    EARLY = "early"  # its round is not open yet: dropped


#: What a service calls a report that does not count.
REFUSED_RECEIPTS = {"closed_round": Receipt.LATE, "future_round": Receipt.EARLY, "conflict": Receipt.CONFLICT}


@dataclass(frozen=True, kw_only=True)
class Closed:
    """What a round came to. `action` was played; reports of `reports` of `expected` clients were counted.

    `noise_scale` is that of its noisy gain vector, the largest where coordinates have noise of their own.
    """

    round: int
    action: int
    reports: int
    expected: int
    noise_scale: float


class Server:
    """Plays rounds against noisy reports: `open_round`, `receive` as often as reports come, `close_round`.

    Guarantee: none of its own. What observers of the actions learn about one report is `observers_guarantee` with an
    `RWAdaBatch` player; against the server itself, and against everybody with other players, it is the report's own μ.

    Args:
        reporting: The terms that clients report under.
        player: Chooses the actions.
        clients: Names of the clients; for coordinate reports, a mapping from name to coordinate. If the terms name
            sizes, they name one of each client.
        late: What happens to a report of a closed round: "drop", or "next": counted in the open round (RW-FTPL only).
            A client's late coordinate is added to its new one, with the noise of both; RW-FTPL adds all reports up
            anyway, and players that weigh a report by its noise do not take late ones.
        clip_failure: An honest report is clipped with at most twice this probability. Default 1e-9; 1e-15 for
            RW-AdaBatch, whose guarantee pays for it.
        allow_seeded: For tests: take reports with seeded noise.
    """

    def __init__(
        self,
        *,
        reporting: Reporting,
        player: Player,
        clients: Iterable[str] | Mapping[str, int],
        late: Late = "drop",
        clip_failure: float | None = None,
        allow_seeded: bool = False,
        stream: Stream | None = None,
    ) -> None:
        self.reporting = reporting
        self.player = player
        self.clients = _checked_clients(clients, reporting)
        if late not in ("drop", "next"):
            raise RangeError(f"late must be 'drop' or 'next', got {late!r}")
        if late == "next" and not isinstance(player, RWFTPL):
            raise RangeError(
                "late='next' is for RW-FTPL: RW-Meta's advice of a closed round is gone, and a late report would break "
                "the batches of RW-AdaBatch; use late='drop'"
            )
        self.late: Late = late
        self.allow_seeded = allow_seeded
        if player.actions != reporting.actions:
            raise RangeError(f"the player has {player.actions} actions and the terms {reporting.actions}")
        if isinstance(player, RWAdaBatch):
            _check_batches(player, reporting)
        usual = 1e-15 if isinstance(player, RWAdaBatch) else 1e-9
        self.limits = ClipLimits(reporting=reporting, failure=usual if clip_failure is None else clip_failure)
        self.stream = Stream() if stream is None else stream
        self.conflicts = 0
        self._open = False
        self._pending: dict[tuple[str, int], NoisyReport] = {}
        self._counted: dict[int, dict[str, str]] = {}

    @property
    def round(self) -> int:
        """The round that is open, or that `open_round` would open: 1, 2, ..."""
        return self.player.rounds_played + 1

    @property
    def is_open(self) -> bool:
        """Whether a round is open: its action is published, and reports are taken."""
        return self._open

    @property
    def reports_received(self) -> int:
        """How many clients the open round has reports of: a late one may count in it with that of its round."""
        return len({client for client, _ in self._pending})

    def open_round(self) -> int:
        """Open the round if it is not, and return its action: the same one however often this is called."""
        if self.round > self.reporting.rounds:
            raise RoundError(f"all {self.reporting.rounds} declared rounds were played")
        self._open = True
        return self.player.predict()

    def receive(self, report: NoisyReport) -> Receipt:
        """Take a report, or say why it does not count. Twice the same report is the same as once.

        Raises:
            ReportError: malformed, of an unknown client, or made under other terms.
        """
        check_terms(report, self.reporting)
        if report.client_id not in self.clients:
            raise ReportError("no client of this name takes part")
        if self.reporting.kind == "coordinate" and report.index != self.clients[report.client_id]:
            raise ReportError("the report is about a coordinate of another client")
        if report.entropy != OS_BRANDING and not self.allow_seeded:
            raise ReportError("this server takes reports with noise of the operating system only")
        if not 1 <= report.round <= self.reporting.rounds:
            raise ReportError(f"rounds are numbered 1..{self.reporting.rounds}")
        if report.round > self.round or (report.round == self.round and not self._open):
            return Receipt.EARLY
        known = self._digest_of(report.client_id, report.round)
        if known is not None:
            if known == _digest(report):
                return Receipt.DUPLICATE
            self.conflicts += 1
            return Receipt.CONFLICT
        if report.round < self.round:
            remembered = report.round in self._counted
            if self.late == "drop" or not remembered or not self._open:
                return Receipt.LATE
            self._pending[report.client_id, report.round] = report
            return Receipt.POSTPONED
        self._pending[report.client_id, report.round] = report
        return Receipt.ACCEPTED

    def close_round(self) -> Closed:
        """Close the round at its deadline with the reports that came; what stays is the player's: see its `state`."""
        if not self._open:
            raise RoundError("close_round before open_round: no round is open")
        number, action = self.round, self.player.predict()
        got: Collected = collect(
            self._pending.values(), self.limits, number=number, stream=self.stream, clients=self.clients
        )
        self.player.update(got.report, noise_scale=got.noise_scale, mask=got.mask)
        self._counted[number] = {}
        for (client, round_), report in self._pending.items():
            self._counted.setdefault(round_, {})[client] = _digest(report)
        for old in [round_ for round_ in self._counted if round_ <= number - _REMEMBERED]:
            del self._counted[old]
        counted = self.reports_received
        self._pending = {}
        self._open = False
        largest = float(np.max(got.noise_scale))
        return Closed(round=number, action=action, reports=counted, expected=len(self.clients), noise_scale=largest)

    def observers_guarantee(self, time: int) -> Any:
        """Return what observers of the actions learn at most about a round's report, as `Amplified`; RW-AdaBatch only.

        For gains fixed in advance. It pays for the clipping of every report that a batch can hold.
        """
        if not isinstance(self.player, RWAdaBatch):
            raise RangeError("only RW-AdaBatch has a guarantee for observers; for other players it is the report's mu")
        longest = min(self.reporting.rounds, self.player.rule.largest_batch or self.reporting.rounds)
        reports = 1 if self.reporting.kind == "coordinate" else len(self.clients)
        failure = min(1.0, 2 * self.limits.failure * longest * reports)
        return self.player.amplified(
            mu=float(self.reporting.exact_mu), time=time, clip_failure=failure, neighbours=self.reporting.relation
        )

    def state(self) -> dict[str, Any]:
        """Return everything that later actions and receipts depend on, ready for JSON, bit for bit."""
        return {
            "kind": "server",
            "version": STATE_VERSION,
            "reporting": self.reporting.to_json(),
            "player": self.player.state(),
            "clients": dict(self.clients),
            "late": self.late,
            "clip_failure": self.limits.failure,
            "allow_seeded": self.allow_seeded,
            "conflicts": self.conflicts,
            "open": self._open,
            "pending": [report.to_json() for report in self._pending.values()],
            "counted": {str(round_): dict(digests) for round_, digests in self._counted.items()},
            "stream": self.stream.state(),
        }

    @classmethod
    @restoring("server")
    def from_state(cls, state: dict[str, Any], *, player: Player | None = None) -> Server:
        """Return the server that goes on where the stored one stopped; `player` for one with learners of your own."""
        checked_kind(state, "server")
        reporting = Reporting.from_json(state["reporting"])
        clients: dict[str, int | None] = state["clients"]
        server = cls(
            reporting=reporting,
            player=player_from_state(state["player"]) if player is None else player,
            clients=list(clients)
            if reporting.kind == "vector"
            else {k: v for k, v in clients.items() if v is not None},
            late=state["late"],
            clip_failure=state["clip_failure"],
            allow_seeded=state["allow_seeded"],
            stream=Stream.from_state(state["stream"]),
        )
        server.conflicts = state["conflicts"]
        server._open = state["open"]
        for text in state["pending"]:
            report = NoisyReport.from_json(text)
            server._pending[report.client_id, report.round] = report
        server._counted = {int(round_): dict(digests) for round_, digests in state["counted"].items()}
        return server

    def _digest_of(self, client: str, round_: int) -> str | None:
        pending = self._pending.get((client, round_))
        return _digest(pending) if pending is not None else self._counted.get(round_, {}).get(client)


def _digest(report: NoisyReport) -> str:
    return hashlib.sha256(report.to_json().encode()).hexdigest()


def _checked_clients(clients: Iterable[str] | Mapping[str, int], reporting: Reporting) -> dict[str, int | None]:
    clients = clients if isinstance(clients, Mapping) else list(clients)
    for name in clients:
        reporting.noise_scale_of(name)
    if reporting.kind == "coordinate":
        if not isinstance(clients, Mapping):
            raise RangeError("coordinate reports need a mapping from client names to coordinates")
        places = sorted(clients.values())
        if len(set(places)) != len(places) or not places or places[0] < 0 or places[-1] >= reporting.actions:
            raise RangeError(f"each coordinate 0..{reporting.actions - 1} belongs to at most one client")
        return dict(clients)
    names = list(clients)
    if not names or len(set(names)) != len(names):
        raise RangeError("clients must be at least one name, each once")
    return dict.fromkeys(names)


def _check_batches(player: RWAdaBatch, reporting: Reporting) -> None:
    if float(reporting.noise_scale) > player.noise_scale * (1 + 1e-12):
        raise RangeError(f"RW-AdaBatch must be started with noise_scale of at least {float(reporting.noise_scale)!r}")
    if float(reporting.exact_gain_range) > player.rule.gain_range * (1 + 1e-12):
        raise RangeError("RW-AdaBatch must be started with the gain_range of the terms")


@restoring("player")
def player_from_state(state: dict[str, Any]) -> Player:
    """Return the player that a state describes, whichever kind it is."""
    kinds: dict[str, Any] = {"rw_ftpl": RWFTPL, "rw_adabatch": RWAdaBatch, "rw_meta": RWMeta}
    kind = state.get("kind")
    if kind not in kinds:
        raise RangeError(f"no player is called {kind!r}; {nearest(str(kind), kinds)}")
    player: Player = kinds[kind].from_state(state)
    return player
