"""`experts.toml`: the public agreement that a service runs, read strictly; every mistake is a `PlanError`.

Numbers with a point are kept as they are written (0.1 means 1/10), which is why they reach msgspec as text.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from sidelight.errors import PlanError, SidelightError
from sidelight.experts.reporting import Reporting
from sidelight.guarantees import positive
from sidelight.web import is_loopback

#: A number as the plan has it: whole, with a point (as text), or a fraction in quotes.
Number = int | str


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the plan: unknown keys are refused."""


class TermsTable(_Table, frozen=True, kw_only=True):
    """`[terms]`: what clients report; see `Reporting`. `actions` is their number, or their names."""

    actions: int | list[str]
    mu: Number
    rounds: int
    sensitivity: Number | None = None
    neighbours: str | None = None
    gain_range: Number = 1
    kind: Literal["vector", "coordinate"] = "vector"
    fill: Number = 0
    max_rounds_per_person: int | None = None
    sizes: dict[str, Number] | None = None


class PlayerTable(_Table, frozen=True, kw_only=True):
    """`[player]`: who chooses the actions, with the options of that player."""

    kind: Literal["rw_ftpl", "rw_adabatch", "rw_meta"]
    server_noise: Number | None = None
    tolerance: Number | None = None
    largest_batch: int | None = None
    floor: Number | None = None


class RoundsTable(_Table, frozen=True, kw_only=True):
    """`[rounds]`: when a round closes, and what becomes of reports that come later."""

    seconds: Number
    close_when_complete: bool = False
    late: Literal["drop", "next"] = "drop"


class Listen(_Table, frozen=True, kw_only=True):
    """`[listen]`: the address, and TLS."""

    host: str = "127.0.0.1"
    port: int = 8471
    certificate: str | None = None
    key: str | None = None
    behind_proxy: bool = False


class Storage(_Table, frozen=True, kw_only=True):
    """`[storage]`: where the service keeps its state and the hashes of the tokens; relative to the plan."""

    folder: str = "experts-state"
    tokens: str = "experts-tokens.json"


class Testing(_Table, frozen=True, kw_only=True):
    """`[testing]`: seeded draws of the server, and reports with seeded noise are taken. Never for real data."""

    seed: int | str


class _File(_Table, frozen=True, kw_only=True):
    title: str = "Experts under local privacy"
    clients: list[str] | dict[str, int]
    terms: TermsTable
    player: PlayerTable
    rounds: RoundsTable
    listen: Listen = Listen()
    storage: Storage = Storage()
    testing: Testing | None = None


#: Deadlines are dates.
_LONGEST_ROUND = 1e9

_OPTIONS = {
    "rw_ftpl": {"server_noise"},
    "rw_adabatch": {"tolerance", "largest_batch"},
    "rw_meta": {"floor"},
}


class ServicePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan says, checked."""

    title: str
    reporting: Reporting
    action_names: tuple[str, ...]
    clients: list[str] | dict[str, int]
    player: PlayerTable
    seconds: float
    close_when_complete: bool
    late: Literal["drop", "next"]
    listen: Listen
    folder: Path
    tokens: Path
    certificate: Path | None
    key: Path | None
    seed: int | str | None

    @property
    def largest_report(self) -> int:
        """How many bytes a report may have: generous for an honest one, which has about 12 a value."""
        return 4096 + 32 * self.reporting.coordinates

    def agreement(self) -> dict[str, Any]:
        """What must not change once rounds were played: the terms, the player and the seed."""
        return {
            "terms": self.reporting.to_json(),
            "actions": list(self.action_names),
            "player": msgspec.to_builtins(self.player),
            "late": self.late,
            "seed": self.seed,
        }


def read_service_plan(path: Path | str) -> ServicePlan:
    """Read and check a plan file. A plan without sensitivity or neighbours is refused."""
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=str)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlanError(f"the plan {str(path)!r} cannot be read: {reason}; name a TOML file") from None
    except (ValueError, RecursionError) as error:
        raise PlanError(f"{path.name}: not valid TOML: {error}") from None
    try:
        file = msgspec.convert(values, _File)
    except msgspec.ValidationError as error:
        raise PlanError(f"{path.name}: {error}") from None
    try:
        return _checked(file, path.absolute().parent)
    except SidelightError as error:
        raise PlanError(f"{path.name}: {error}") from None


def _checked(file: _File, folder: Path) -> ServicePlan:
    names = _action_names(file.terms.actions)
    terms = msgspec.structs.asdict(file.terms) | {"actions": len(names)}
    listen = file.listen
    _check_player(file.player)
    _check_listening(listen)
    plan = ServicePlan(
        title=file.title,
        reporting=Reporting(**terms),
        action_names=names,
        clients=file.clients,
        player=file.player,
        seconds=float(positive(file.rounds.seconds, name="seconds")),
        close_when_complete=file.rounds.close_when_complete,
        late=file.rounds.late,
        listen=listen,
        folder=folder / file.storage.folder,
        tokens=folder / file.storage.tokens,
        certificate=None if listen.certificate is None else folder / listen.certificate,
        key=None if listen.key is None else folder / listen.key,
        seed=None if file.testing is None else file.testing.seed,
    )
    if plan.seconds > _LONGEST_ROUND:
        raise PlanError(f"seconds must be at most {_LONGEST_ROUND:g}, about 30 years, got {plan.seconds:g}")
    if plan.close_when_complete and plan.late == "next":
        raise PlanError('close_when_complete counts the reports of the open round only; use late = "drop" with it')
    if not plan.clients:
        raise PlanError("clients is empty; name at least one")
    for name in plan.clients:
        if not 1 <= len(name) <= 200 or not name.isprintable():
            raise PlanError("names of clients are printable texts of 1 to 200 characters")
        plan.reporting.noise_scale_of(name)  # raises if there are sizes, and none of this client
    if (plan.reporting.kind == "coordinate") != isinstance(plan.clients, dict):
        raise PlanError(
            'clients = ["name", ...] is for vector reports; coordinate reports need a table [clients] with the '
            "coordinate of each: name = 0"
        )
    return plan


def _action_names(actions: int | list[str]) -> tuple[str, ...]:
    if isinstance(actions, list):
        if len(set(actions)) != len(actions) or not all(actions):
            raise PlanError("names of actions must differ and must not be empty")
        return tuple(actions)
    if not 2 <= actions <= 100_000:
        raise PlanError(f"actions must be 2 to 100000, or a list of names, got {actions}")
    return tuple(f"action {place}" for place in range(actions))


def _check_player(player: PlayerTable) -> None:
    for name in ("server_noise", "tolerance", "largest_batch", "floor"):
        if getattr(player, name) is not None and name not in _OPTIONS[player.kind]:
            raise PlanError(f"{name} is no option of {player.kind}; its options: {', '.join(_OPTIONS[player.kind])}")


def _check_listening(listen: Listen) -> None:
    if (listen.certificate is None) != (listen.key is None):
        raise PlanError("TLS needs both certificate and key in [listen]")
    if not 0 <= listen.port <= 65535:
        raise PlanError(f"port must lie in 0..65535, got {listen.port}")
    if listen.certificate is None and not listen.behind_proxy and not is_loopback(listen.host):
        raise PlanError(
            f"listening on {listen.host!r} without TLS would send tokens in the clear; name certificate and key in "
            "[listen], or say behind_proxy = true if a proxy on the way does TLS"
        )
