"""The files of `deploy`: each is parsed, and what the documentation promises of it stands in it.

No container engine runs here, so neither the image nor the services of the compose file were ever started.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analyst_server import write_people
from sidelight.server.config_file import read_config

DEPLOY = Path(__file__).parents[2] / "deploy"
yaml = pytest.importorskip("yaml")


def unit() -> dict[str, list[str]]:
    """Return the settings of the unit; a name may stand several times."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in (DEPLOY / "sidelight-serve.service").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(f"{section}.{name}", []).append(value)
    return found


def seconds(text: str) -> float:
    amount, scale = re.fullmatch(r"(\d+)(m|s|)", text).groups()
    return int(amount) * (60 if scale == "m" else 1)


@pytest.fixture
def served(tmp_path):
    """The configuration of the compose file, with its table where it is mounted."""
    (tmp_path / "tables").mkdir()
    write_people(tmp_path / "tables")
    shutil.copy(DEPLOY / "survey.toml", tmp_path)
    return read_config(tmp_path / "survey.toml")


def test_the_unit_confines_the_service(served):
    found = unit()
    for name, value in {
        "DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
        "PrivateDevices": "yes", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "RestrictNamespaces": "yes",
        "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX", "SystemCallFilter": "@system-service",
        "LimitCORE": "0", "LimitNOFILE": "4096", "KillSignal": "SIGTERM",
    }.items():  # fmt: skip
        assert found[f"Service.{name}"] == [value], name
    assert found["Service.KillMode"] == ["mixed"]  # workers finish what is paid
    assert seconds(found["Service.TimeoutStopSec"][0]) > 2 * served.longest
    assert found["Service.ExecStart"][0].endswith("sidelight serve /etc/sidelight/survey.toml")
    assert "Service.MemoryDenyWriteExecute" not in found  # libraries compile code as they run


def test_systemd_takes_the_unit(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    text = (DEPLOY / "sidelight-serve.service").read_text()
    file = tmp_path / "sidelight-serve.service"
    file.write_text(text.replace("/opt/sidelight/bin/sidelight", sys.executable))
    found = subprocess.run([analyze, "verify", str(file)], capture_output=True, text=True, timeout=120)
    own = [line for line in found.stderr.splitlines() if file.name in line]
    assert own == [], found.stderr
    file.write_text(text.replace("ProtectSystem=strict", "ProtectSystems=strict"))
    wrong = subprocess.run([analyze, "verify", str(file)], capture_output=True, text=True, timeout=120)
    assert "ProtectSystems" in wrong.stderr  # it does look


def test_only_the_proxy_is_reachable(served):
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services, networks = found["services"], found["networks"]
    assert [name for name, each in services.items() if "ports" in each] == ["proxy"]
    assert networks["inside"]["internal"] is True
    assert [name for name, each in services.items() if "outside" in each["networks"]] == ["proxy"]
    (subnet,) = (each["subnet"] for each in networks["inside"]["ipam"]["config"])
    assert served.listen.behind_proxy == (subnet,)
    assert f"reverse_proxy service:{served.listen.port}" in (DEPLOY / "Caddyfile").read_text()
    assert not re.search(r"^\s*(encode|cache)\b", (DEPLOY / "Caddyfile").read_text(), flags=re.MULTILINE)


def test_the_service_of_the_compose_file_is_confined(served):
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = found["services"]["service"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.search(rf"^USER {service['user'].split(':')[0]}$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert seconds(service["stop_grace_period"]) > 2 * served.longest
    written = {each["target"] for each in service["volumes"] if not each.get("read_only")}
    assert written == {"/srv/state", "/srv/head"}
    owner, folders = re.search(  # a new volume belongs to root, unless the image has the folder and its owner
        r"install -d -o (\d+) -g \1 -m 700 (.*?)  #", (DEPLOY / "Containerfile").read_text()
    ).groups()
    assert (f"{owner}:{owner}", set(folders.split())) == (service["user"], written)
    assert not set(map(str, (served.audit, served.work.scratch))) & set(written)
    places = {Path(each["target"]).name for each in service["volumes"] if each["type"] == "volume"}
    assert {served.audit.parent.name, served.head_file.parent.name, served.work.scratch.parent.name} == places
    assert str(served.key_file) == "/run/secrets/ledger.key"
    assert all(set(each) == {"file"} for each in found["secrets"].values())
    used = {name for each in found["services"].values() for name in each.get("secrets", ())}
    assert used == set(found["secrets"])
    volumes = {
        one["source"] for each in found["services"].values() for one in each["volumes"] if one["type"] == "volume"
    }
    assert volumes == set(found["volumes"])


def test_the_database_forgets_nothing_and_holds_ledger_and_tokens(served):
    database = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["database"]
    assert {"fsync=on", "synchronous_commit=on"} <= set(database["command"])
    address = (
        f"postgresql://{database['environment']['POSTGRES_USER']}@database/{database['environment']['POSTGRES_DB']}"
    )
    assert served.ledger == served.store == address
