"""RW-FTPL and RW-AdaBatch: the law of their sums, rounds, batches and stored states."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from sidelight.errors import RangeError, RefusedError, SourceError
from sidelight.experts import (
    RWFTPL,
    RoundError,
    RWAdaBatch,
    Stream,
    load_state,
    player_from_state,
    save_state,
)
from sidelight.experts.service.store import Tokens


def make(kind, seed="player", **rest):
    if kind == "ftpl":
        return RWFTPL(actions=5, noise_scale=0.7, stream=Stream.seeded(seed), **rest)
    return RWAdaBatch(actions=5, noise_scale=0.7, stream=Stream.seeded(seed), **rest)


def played(player, rounds, seed=0):
    rng = np.random.default_rng(seed)
    actions = []
    for _ in range(rounds):
        actions.append(player.predict())
        player.update(np.arange(5) / 5 + 0.7 * rng.standard_normal(5))
    return actions


@pytest.mark.parametrize("kind", ["ftpl", "adabatch"])
@pytest.mark.parametrize("rounds", [0, 1, 7, 60, 200])
@pytest.mark.parametrize("middle", [False, True], ids=["closed", "open"])
def test_a_stored_player_goes_on_bit_for_bit(kind, rounds, middle, tmp_path):
    one = make(kind)
    played(one, rounds)
    if middle:
        one.predict()
    save_state(one.state(), tmp_path / "state.json")
    other = player_from_state(load_state(tmp_path / "state.json"))
    assert other.state() == one.state()
    assert played(other, 80, seed=1) == played(one, 80, seed=1)
    assert json.dumps(other.state()) == json.dumps(one.state())


def test_some_stored_state_was_in_the_middle_of_a_batch():
    player = make("adabatch")
    delays = []
    for _ in range(200):
        played(player, 1)
        delays.append(player.state()["delay"])
    assert max(delays) > 1
    assert 1 in player.boundaries


@pytest.mark.parametrize("kind", ["ftpl", "adabatch"])
def test_rounds_open_and_close(kind):
    player = make(kind)
    with pytest.raises(RoundError):
        player.update(np.zeros(5))
    assert player.predict() == player.predict()
    player.update(np.zeros(5))
    with pytest.raises(RoundError):
        player.update(np.zeros(5))


@pytest.mark.parametrize("kind", ["ftpl", "adabatch"])
@pytest.mark.parametrize("report", [[np.nan, 0, 0, 0, 0], [np.inf, 0, 0, 0, 0], [0, 0, 0], [[0] * 5]])
def test_what_is_no_report_changes_nothing(kind, report):
    player = make(kind)
    player.predict()
    before = player.state()
    with pytest.raises(RangeError):
        player.update(report)
    assert player.state() == before


def test_ties_go_to_the_lowest_index_whatever_the_order_of_reports():
    player = make("ftpl")
    state = player.state()
    state["sums"] = [1.0, 3.0, 3.0, 2.0, 3.0]
    assert RWFTPL.from_state(state).predict() == 1


def sums_after(rounds, *, scale, runs=3000):
    """Standardised sums of RW-FTPL after some rounds of gain 0.5 with the given noise, which should be 1."""
    rng = np.random.default_rng(5)
    found = []
    for run in range(runs // 5):
        player = RWFTPL(actions=5, noise_scale=scale, stream=Stream.seeded(f"law {run}"))
        for _ in range(rounds):
            player.predict()
            player.update(0.5 + scale * rng.standard_normal(5))
        found.append(player.sums)
    return (np.concatenate(found) - 0.5 * rounds) / np.sqrt(rounds + 1)


def test_sums_have_their_law_and_a_scale_thirty_percent_off_does_not():
    assert stats.kstest(sums_after(3, scale=1.0), "norm").pvalue > 1e-7
    assert stats.kstest(sums_after(3, scale=0.7), "norm").pvalue < 1e-7
    assert stats.kstest(sums_after(3, scale=1.3), "norm").pvalue < 1e-7


def test_the_servers_own_noise_has_its_law():
    draws = Stream.seeded(1).normals("x", 20_000)
    assert stats.kstest(draws, "norm").pvalue > 1e-7
    assert stats.kstest(draws * 1.3, "norm").pvalue < 1e-7
    assert (Stream.seeded(1).normals("x", 10) == Stream.seeded(1).normals("x", 10)).all()
    assert not (Stream.seeded(1).normals("x", 10) == Stream.seeded(1).normals("y", 10)).any()
    assert Stream().branding == "os"
    assert Stream.seeded(1).branding == "seeded: not private"
    player = RWFTPL(actions=5, noise_scale=0.5, server_noise=0.5, stream=Stream.seeded(2))
    plain = player.sums
    player.predict()
    player.update(np.zeros(5))
    assert (player.sums != plain).all()


def test_batches_absorb_what_the_buffer_holds_and_keep_sums_only():
    player = RWAdaBatch(actions=5, noise_scale=0.7, stream=Stream.seeded("sums"))
    start, reports = np.array(player.state()["sums"]), []
    rng = np.random.default_rng(3)
    for t in range(1, 301):
        player.predict()
        reports.append(np.arange(5) / 5 + 0.7 * rng.standard_normal(5))
        player.update(reports[-1])
        absorbed = player.boundaries[-1]
        assert np.array(player.state()["sums"]) == pytest.approx(start + np.sum(reports[:absorbed], axis=0), abs=1e-9)
        held = np.sum(reports[absorbed:t], axis=0) if absorbed < t else np.zeros(5)
        assert np.array(player.state()["buffer"]) == pytest.approx(held, abs=1e-9)
    assert player.boundaries[0] == 1
    assert len(player.boundaries) < 200
    assert all(len(str(value)) < 2000 or name == "boundaries" for name, value in player.state().items())


def test_noise_must_be_equal_in_every_round_and_less_is_padded():
    player = make("adabatch")
    player.predict()
    with pytest.raises(RangeError, match="at most"):
        player.update(np.zeros(5), noise_scale=0.8)
    padded = []
    for run in range(800):
        each = RWAdaBatch(actions=5, noise_scale=1.0, stream=Stream.seeded(f"pad {run}"))
        before = np.array(each.state()["sums"])
        each.predict()
        each.update(np.zeros(5), noise_scale=0.6)
        padded.append(np.array(each.state()["sums"]) - before)
    values = np.concatenate(padded)
    assert stats.kstest(values / 0.8, "norm").pvalue > 1e-7
    assert stats.kstest(values / 0.6, "norm").pvalue < 1e-7


def test_a_state_of_something_else_is_refused(tmp_path):
    with pytest.raises(RangeError, match="no player"):
        player_from_state({"kind": "rw_ftlp"})
    with pytest.raises(RangeError, match="version"):
        RWFTPL.from_state(make("adabatch").state())
    with pytest.raises(RangeError, match="shape"):
        RWFTPL.from_state({**make("ftpl").state(), "sums": [1.0]})
    for text in ("{", "[" * 100_000):
        (tmp_path / "broken").write_text(text)
        with pytest.raises(SourceError):
            load_state(tmp_path / "broken")
    with pytest.raises(SourceError):
        load_state(tmp_path / "absent")
    (tmp_path / "list").write_text("[]")
    with pytest.raises(SourceError):
        load_state(tmp_path / "list")


def test_saving_replaces_the_whole_file_or_nothing(tmp_path):
    path = tmp_path / "state.json"
    save_state({"a": 1}, path)
    with pytest.raises(ValueError, match="JSON"):
        save_state({"a": float("nan")}, path)
    assert load_state(path) == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


def test_a_link_to_a_state_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "state.json"
    link.symlink_to("disk/state.json")
    save_state({"a": 1}, link)
    assert link.is_symlink()
    assert load_state(tmp_path / "disk" / "state.json") == {"a": 1}


def test_a_token_is_revoked_through_a_link(tmp_path):
    """The service reads the file behind it; both would else go on with files of their own."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link.json").symlink_to("disk/tokens.json")
    service, owner = Tokens(tmp_path / "disk" / "tokens.json"), Tokens(tmp_path / "link.json")
    (token,) = owner.issue("ada")
    assert service.client_of(f"Bearer {token}") == "ada"
    owner.revoke("ada")
    with pytest.raises(RefusedError, match="revoked"):
        service.client_of(f"Bearer {token}")
    assert sorted(each.name for each in (tmp_path / "disk").iterdir()) == ["tokens.json", "tokens.json.lock"]
