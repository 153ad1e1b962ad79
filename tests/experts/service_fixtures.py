"""A plan of a small service, its clients' tokens, and reports with seeded noise that are made once."""

from __future__ import annotations

import socket
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from sidelight.experts import NoisyReport, Reporter, Reporting, Server
from sidelight.experts.service.app import service_app
from sidelight.experts.service.plan import ServicePlan, read_service_plan
from sidelight.experts.service.rounds import new_server
from sidelight.experts.service.store import Tokens
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy

__all__ = ["NAMES", "PLAN", "free_port", "made_reports", "plan", "service", "tokens", "uninterrupted", "write_plan"]

NAMES = ["a", "b", "c", "d"]
PLAN = """
title = "A test service"
clients = ["a", "b", "c", "d"]

[terms]
actions = ["one", "two", "three"]
mu = 1
sensitivity = 0.3
neighbours = "presence"
rounds = 40

[player]
kind = "rw_ftpl"

[rounds]
seconds = 3600
close_when_complete = true

[testing]
seed = 5
"""


def write_plan(folder: Path, text: str = PLAN, **replaced: str) -> ServicePlan:
    """Write a plan, with lines `key = ...` replaced, and read it."""
    lines = text.splitlines()
    for key, value in replaced.items():
        found = [place for place, line in enumerate(lines) if line.startswith(f"{key} = ")]
        assert len(found) == 1, key
        lines[found[0]] = f"{key} = {value}" if value else ""
    path = folder / "experts.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_service_plan(path)


@pytest.fixture
def plan(tmp_path: Path) -> ServicePlan:
    """The plan above, in a folder of its own."""
    return write_plan(tmp_path)


@pytest.fixture
def tokens(plan: ServicePlan) -> dict[str, str]:
    """A token for every client."""
    return dict(zip(NAMES, Tokens(plan.tokens).issue(*NAMES), strict=True))


@pytest.fixture
def service(plan: ServicePlan, tokens: dict[str, str]):
    """The service in this process, running."""
    with TestClient(service_app(plan)) as client:
        client.headers["Authorization"] = f"Bearer {tokens['a']}"
        yield client


@cache
def made_reports(
    terms: Reporting, rounds: int, names: tuple[str, ...] = tuple(NAMES)
) -> dict[tuple[int, str], NoisyReport]:
    """Reports of all clients for the first rounds, always the same."""
    made = {}
    for place, name in enumerate(names):
        with open_ledger("sqlite://", testing=True) as ledger:
            index = place if terms.kind == "coordinate" else None
            entropy = SeededEntropy("service", path=[name])
            reporter = Reporter(name, terms, ledger=ledger, index=index, entropy=entropy)
            for round_ in range(1, rounds + 1):
                gains = np.random.default_rng([place, round_]).random(terms.coordinates)
                made[round_, name] = reporter.report(round_, gains)
    return made


def uninterrupted(
    plan: ServicePlan, reports: dict[tuple[int, str], NoisyReport], rounds: int
) -> tuple[list[int], Server]:
    """Play the rounds in one go, without a network or a disk: what a service has to agree with."""
    server = new_server(plan)
    actions = []
    for round_ in range(1, rounds + 1):
        actions.append(server.open_round())
        for name in NAMES:
            server.receive(reports[round_, name])
        server.close_round()
    return actions, server


def free_port() -> int:
    """A port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
