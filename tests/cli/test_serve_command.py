"""`sidelight serve` and `sidelight token` as a user meets them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_fixtures import *  # noqa: F403 - fixtures

from sidelight import web
from sidelight.experts.service.plan import read_service_plan
from sidelight.experts.service.store import ServiceStore, Tokens

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "experts-toml.md"


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    (example, *_) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = tmp_path / "experts.toml"
    path.write_text(example, encoding="utf-8")
    return path


def test_the_example_of_the_page_is_a_plan(plan_file: Path) -> None:
    plan = read_service_plan(plan_file)
    assert plan.reporting.kind == "coordinate"
    assert plan.seed is None


def test_every_key_is_described(plan_file: Path) -> None:
    from sidelight.experts.service import plan as tables

    page = PAGE.read_text(encoding="utf-8")
    for table in (
        tables.TermsTable,
        tables.PlayerTable,
        tables.RoundsTable,
        tables.Listen,
        tables.Storage,
        tables.Testing,
    ):
        for key in table.__struct_fields__:
            assert f"`{key}`" in page, key
    assert set(tomllib.loads(plan_file.read_text())) <= set(tables._File.__struct_fields__)


def test_tokens_are_made_listed_and_revoked(sidelight: Callable[..., Any], plan_file: Path) -> None:
    plan = read_service_plan(plan_file)
    names = list(plan.clients)
    made = sidelight("token", "new", plan_file, "--all")
    assert made.status == 0, made.err
    printed = dict(line.split("\t") for line in made.out.splitlines())
    assert list(printed) == names
    tokens = Tokens(plan.tokens)
    assert all(tokens.client_of(f"Bearer {token}") == name for name, token in printed.items())
    assert sidelight("token", "new", plan_file, "--all").out == ""  # everybody has one
    revoked = sidelight("token", "revoke", plan_file, names[0])
    assert (revoked.status, "is revoked" in revoked.out) == (0, True)
    listed = sidelight("token", "list", plan_file).out.splitlines()
    assert listed[0] == f"{names[0]}\tno token"
    assert not any(token in " ".join(listed) for token in printed.values())
    assert sidelight("token", "new", plan_file, names[0]).out.startswith(f"{names[0]}\tsl_")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new"], "name one client, or give --all"),
        (["new", "nobody"], "no client 'nobody'"),
        (["revoke", "nobody"], "nothing was revoked"),
    ],
)
def test_token_mistakes(sidelight: Callable[..., Any], plan_file: Path, arguments: list[str], message: str) -> None:
    verb, *rest = arguments
    result = sidelight("token", verb, plan_file, *rest)
    assert result.status == 2
    assert message in result.err


def test_serving_refuses_what_cannot_work(
    sidelight: Callable[..., Any], plan_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = plan_file.read_text()
    for gone, message in (("sensitivity", "sensitivity is not declared"), ("neighbours", "neighbours is not declared")):
        plan_file.write_text(re.sub(rf"(?m)^{gone} = .*$", "", text))
        result = sidelight("serve", plan_file)
        assert (result.status, message in result.err) == (2, True), result.err
    plan_file.write_text(text)
    assert sidelight("serve", plan_file.with_name("nothing.toml")).status == 2
    store = ServiceStore(read_service_plan(plan_file).folder)
    result = sidelight("serve", plan_file)
    assert (result.status, "another process serves" in result.err) == (2, True)
    store.close()
    monkeypatch.setattr(web, "find_spec", lambda name: None)
    result = sidelight("serve", plan_file)
    assert (result.status, "sidelight[service]" in result.err) == (2, True)


def with_vectors(plan: str) -> str:
    """Return the plan with clients that report vectors, of whom any number can join."""
    head, _, rest = plan.partition("[clients]")
    return (
        head
        + 'clients = ["north", "south", "harbour"]\n\n'
        + rest[rest.index("[terms]") :].replace('kind = "coordinate"\n', "")
    )


def test_a_changed_agreement_needs_a_new_folder(sidelight: Callable[..., Any], plan_file: Path) -> None:
    import asyncio

    from sidelight.experts.service.rounds import Rounds

    async def play() -> None:
        plan = read_service_plan(plan_file)
        rounds = Rounds(plan, ServiceStore(plan.folder))
        rounds.start()
        await rounds.stop()

    plan_file.write_text(with_vectors(plan_file.read_text()))
    asyncio.run(play())
    text = plan_file.read_text()
    for old, new in (("mu = 1", "mu = 2"), ("rw_meta", "rw_ftpl"), ("rounds = 148", "rounds = 149")):
        plan_file.write_text(text.replace(old, new))
        result = sidelight("serve", plan_file)
        assert (result.status, "New terms add their budget" in result.err) == (2, True), (old, result.err)
    plan_file.write_text(text.replace('clients = ["north", ', "clients = ["))
    result = sidelight("serve", plan_file)
    assert (result.status, "revoke its token" in result.err) == (2, True), result.err
    plan_file.write_text(text.replace('clients = ["north", ', 'clients = ["north", "new", '))
    asyncio.run(play())  # a client may join
