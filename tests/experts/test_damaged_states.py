"""Stored states that are cut or changed: an error of sidelight for every member, at every depth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_fixtures import write_plan

from sidelight.errors import SidelightError
from sidelight.experts import RWFTPL, FilterLearner, Reporting, RollingRegression, RWAdaBatch, RWMeta, Server
from sidelight.experts.learners import learner_from_state
from sidelight.experts.player import Stream
from sidelight.experts.server import player_from_state
from sidelight.experts.service.rounds import Rounds
from sidelight.experts.service.store import ServiceStore, Tokens

SCALE = 0.5
PLAYERS = [
    RWMeta(actions=3, noise_scale=SCALE),
    RWFTPL(actions=3, noise_scale=SCALE),
    RWAdaBatch(actions=3, noise_scale=SCALE),
]


def stored() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    terms = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="move", rounds=3)
    for player in PLAYERS:
        name = type(player).__name__
        yield name, player_from_state, player.state()
        yield f"{name} itself", type(player).from_state, player.state()
        made = Server(reporting=terms, player=player, clients=["n"])
        made.open_round()
        yield f"server of {name}", Server.from_state, made.state()
    yield "stream", Stream.from_state, Stream.from_state({"key": "00" * 32, "branding": "os"}).state()
    for learner in (FilterLearner(actions=3), RollingRegression(window=5, strength=1.0)):
        yield type(learner).__name__, lambda state: learner_from_state(state, actions=3), learner.state()


def places(state: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for name in state:
        yield (*above, name)
        if isinstance(state[name], dict):
            yield from places(state[name], (*above, name))


STORED = list(stored())


@pytest.mark.parametrize(("read", "state"), [each[1:] for each in STORED], ids=[each[0] for each in STORED])
def test_a_state_that_lacks_a_member_is_refused(read: Any, state: dict[str, Any]) -> None:
    text = json.dumps(state)
    read(json.loads(text))  # the control
    for place in places(json.loads(text)):
        for changed in (None, {}, []):
            cut: Any = json.loads(text)
            inside = cut
            for name in place[:-1]:
                inside = inside[name]
            if changed is None:
                del inside[place[-1]]
            else:
                inside[place[-1]] = changed
            try:
                read(cut)
            except SidelightError:
                continue
            except Exception as error:
                raise AssertionError(f"{place} {changed!r}: {type(error).__name__}") from error
    with pytest.raises(SidelightError):
        read(None)


def test_a_service_says_that_its_folder_is_damaged(tmp_path: Path) -> None:
    store = ServiceStore((plan := write_plan(tmp_path)).folder)
    Rounds(plan, store)
    store.close()
    snapshot = plan.folder / "snapshot.json"
    whole = json.loads(snapshot.read_text(encoding="utf-8"))
    tops = [place for place in places(whole) if len(place) <= 2 and place[0] == "content"]
    assert len(tops) == 5
    for place in [("number",), *tops]:
        state = json.loads(json.dumps(whole))
        at = state
        for name in place[:-1]:
            at = at[name]
        del at[place[-1]]
        snapshot.write_text(json.dumps(state), encoding="utf-8")
        with pytest.raises(SidelightError, match=f"lacks '{place[-1]}'"):
            Rounds(plan, ServiceStore(plan.folder))
    with pytest.raises(SidelightError, match="no folder that can be written"):
        ServiceStore(snapshot)


@pytest.mark.parametrize("tokens", ["", ', "tokens": null', ', "tokens": ["x"]', ', "tokens": [{"id": "x"}]'])
def test_damaged_tokens_are_refused(tmp_path: Path, tokens: str) -> None:
    (tmp_path / "t.json").write_text(f'{{"kind": "tokens", "version": 1{tokens}}}', encoding="utf-8")
    with pytest.raises(SidelightError, match="stored tokens"):
        Tokens(tmp_path / "t.json").entries()
    with pytest.raises(SidelightError, match="cannot be read"):
        Tokens(tmp_path / "t.json").client_of("Bearer sl_x_y")
