"""Several client processes and a service process on loopback: as on several machines. With TLS too."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from service_client_process import gains_of
from service_fixtures import *  # noqa: F403 - fixtures
from service_fixtures import NAMES, PLAN, uninterrupted, write_plan

import sidelight as sl
from sidelight.experts.service.store import Tokens
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy

CLIENT = str(Path(__file__).with_name("service_client_process.py"))
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@contextmanager
def served(plan_file):
    """Run `sidelight serve` and give the address that it prints."""
    command = [sys.executable, "-m", "sidelight", "serve", str(plan_file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        try:
            url = None
            for line in process.stdout:
                if found := re.search(r"on (https?://\S+)", line):
                    url = found[1]
                    break
            assert url, process.stderr.read()
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)


def test_four_processes_play_rounds_and_one_dies_in_between(tmp_path):
    plan = write_plan(tmp_path, PLAN + "\n[listen]\nport = 0\n")
    tokens = dict(zip(NAMES, Tokens(plan.tokens).issue(*NAMES), strict=True))
    rounds = 4
    with served(tmp_path / "experts.toml") as url:
        command = [sys.executable, CLIENT, url, str(tmp_path), str(rounds), json.dumps(tokens)]
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
        assert done.returncode == 0, done.stderr
        wanted = "".join(f"{round_} accepted\n" for round_ in range(1, rounds + 1))
        assert [(tmp_path / f"{name}.txt").read_text() for name in NAMES] == [wanted] * 4
        closed = httpx.get(f"{url}/v1/rounds").json()["rounds"]
    assert [each["reports"] for each in closed] == [4] * rounds
    reports = {}
    for name in NAMES:
        with open_ledger(f"sqlite:///{tmp_path}/{name}.db", testing=True) as ledger:
            reporter = sl.experts.Reporter(name, plan.reporting, ledger=ledger, entropy=SeededEntropy("again"))
            made = reporter.reports()
            assert [each.round for each in made] == list(range(1, rounds + 1))
            for each in made:
                reports[each.round, name] = each
                expected = reporter.report(each.round, gains_of(name, each.round))
                assert expected == each
    actions, server = uninterrupted(plan, reports, rounds)
    assert [each["action"] for each in closed] == actions
    stored = json.loads((plan.folder / "snapshot.json").read_text())["content"]["server"]["player"]
    assert stored["sums"] == server.state()["player"]["sums"]


def test_tls_by_configuration(tmp_path):
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    made = subprocess.run([*command.split(), *files], capture_output=True, cwd=tmp_path)
    if made.returncode:
        pytest.skip("no openssl")
    plan = write_plan(tmp_path, PLAN + '\n[listen]\nport = 0\ncertificate = "cert.pem"\nkey = "key.pem"\n')
    (token,) = Tokens(plan.tokens).issue("a")
    with open_ledger("sqlite://", testing=True) as ledger, served(tmp_path / "experts.toml") as url:
        reporter = sl.experts.Reporter("a", plan.reporting, ledger=ledger, entropy=SeededEntropy("tls"))
        assert url.startswith("https://")
        trusting = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        with sl.experts.Client(url, token, reporter=reporter, verify=trusting) as client:
            assert client.report(1, None) is sl.experts.Receipt.ACCEPTED
        stranger = sl.experts.Client(url, token, reporter=reporter, patience=0)
        with stranger, pytest.raises(sl.experts.ServiceError, match="ConnectError"):
            stranger.report(2, None)  # the certificate is not trusted
