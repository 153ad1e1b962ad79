"""The server's rounds: duplicate, conflicting, late, missing and hostile reports; a state that goes on bit for bit."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sidelight.errors import RangeError
from sidelight.experts import (
    RWFTPL,
    Receipt,
    Reporter,
    ReportError,
    Reporting,
    RoundError,
    RWAdaBatch,
    RWMeta,
    Server,
    Stream,
)
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy

TERMS = Reporting(actions=4, mu=1, sensitivity="0.3", neighbours="presence", rounds=40)
COORDINATES = Reporting(actions=4, mu=1, sensitivity="0.3", neighbours="move", rounds=40, kind="coordinate")
ETA = float(TERMS.noise_scale)


def reporters(terms, names):
    made = {}
    for place, name in enumerate(names):
        ledger = open_ledger("sqlite://", testing=True)
        index = place if terms.kind == "coordinate" else None
        made[name] = Reporter(name, terms, ledger=ledger, index=index, entropy=SeededEntropy("server", path=[name]))
    return made


@pytest.fixture(scope="module")
def vectors():
    return reporters(TERMS, ["a", "b", "c"])


@pytest.fixture(scope="module")
def single():
    return reporters(COORDINATES, ["w", "x", "y", "z"])


def player(kind, terms=TERMS):
    rest = {"actions": 4, "noise_scale": float(terms.noise_scale), "stream": Stream.seeded("player")}
    return {"ftpl": RWFTPL, "adabatch": RWAdaBatch, "meta": RWMeta}[kind](**rest)


def server(kind="ftpl", **rest):
    given = {"reporting": TERMS, "clients": ["a", "b", "c"], "allow_seeded": True, "stream": Stream.seeded("s"), **rest}
    return Server(player=player(kind, given["reporting"]), **given)


def gains(name, round_):
    return np.random.default_rng([ord(name), round_]).random(4)


def test_a_round_averages_what_came_whatever_the_order(vectors):
    states = []
    for order in (["a", "b", "c"], ["c", "a", "b"]):
        one = server()
        one.open_round()
        for name in order:
            assert one.receive(vectors[name].report(1, gains(name, 1))) is Receipt.ACCEPTED
        closed = one.close_round()
        assert (closed.round, closed.reports, closed.expected) == (1, 3, 3)
        assert closed.noise_scale == pytest.approx(ETA / np.sqrt(3))  # the player's noise, not the clients'
        states.append(one.state()["player"])
    assert states[0] == states[1]
    mean = np.mean([vectors[name].report(1, None).floats() for name in "abc"], axis=0)
    assert np.array(states[0]["sums"]) - np.array(player("ftpl").state()["sums"]) == pytest.approx(mean, abs=1e-12)


def test_duplicates_conflicts_late_and_early_reports_do_no_harm(vectors):
    one = server()
    report = vectors["a"].report(1, gains("a", 1))
    assert one.receive(report) is Receipt.EARLY  # the round is not open yet
    one.open_round()
    assert one.receive(report) is Receipt.ACCEPTED
    assert one.receive(report) is Receipt.DUPLICATE
    changed = replace(report, nonce="0" * 32)
    assert one.receive(changed) is Receipt.CONFLICT
    assert one.conflicts == 1
    assert one.receive(vectors["b"].report(2, None)) is Receipt.EARLY
    one.close_round()
    before = one.state()["player"]
    assert one.receive(report) is Receipt.DUPLICATE
    assert one.receive(vectors["b"].report(1, None)) is Receipt.LATE
    one.open_round()
    assert one.receive(vectors["b"].report(1, None)) is Receipt.LATE
    assert one.reports_received == 0
    assert one.state()["player"]["sums"] == before["sums"]


def test_late_reports_can_count_in_the_next_round_once(vectors):
    one = server(late="next")
    one.open_round()
    one.receive(vectors["a"].report(1, gains("a", 1)))
    one.close_round()
    one.open_round()
    late = vectors["b"].report(1, gains("b", 1))
    assert one.receive(late) is Receipt.POSTPONED
    assert one.receive(late) is Receipt.DUPLICATE
    assert one.receive(vectors["a"].report(1, None)) is Receipt.DUPLICATE
    assert one.close_round().reports == 1
    one.open_round()
    assert one.receive(late) is Receipt.DUPLICATE
    assert one.receive(vectors["c"].report(2, None)) is Receipt.POSTPONED
    assert one.receive(vectors["c"].report(3, None)) is Receipt.ACCEPTED
    assert one.reports_received == one.close_round().reports == 1  # clients, of as many as there are
    for kind in ("meta", "adabatch"):
        with pytest.raises(RangeError, match="late='next'"):
            server(kind, late="next")


def test_missing_coordinates_count_as_zero_with_noise_of_the_server(single):
    found, masks = [], []
    for run in range(300):
        one = server(reporting=COORDINATES, clients={"w": 0, "x": 1, "y": 2, "z": 3}, stream=Stream.seeded(f"m {run}"))
        start = np.array(one.state()["player"]["sums"])
        one.player.update = lambda *a, o=one.player.update, **k: (masks.append(k["mask"]), o(*a, **k))[1]
        one.open_round()
        one.receive(single["w"].report(1, 0.5))
        assert one.close_round().reports == 1
        found.append(np.array(one.state()["player"]["sums"]) - start)
    values = np.array(found)
    assert np.isfinite(values).all()
    assert values[:, 0] == pytest.approx(single["w"].report(1, None).floats()[0])
    assert masks[0].tolist() == [True, False, False, False]
    assert stats.kstest(values[:, 1:].ravel() / float(COORDINATES.noise_scale), "norm").pvalue > 1e-7
    assert stats.kstest(values[:, 1:].ravel() / float(COORDINATES.noise_scale) / 1.3, "norm").pvalue < 1e-4


def test_a_round_without_any_report_goes_on(vectors):
    one = server("adabatch")
    one.open_round()
    assert one.close_round().reports == 0
    assert np.isfinite(one.state()["player"]["sums"]).all()


def test_a_hostile_client_moves_the_average_by_a_bounded_amount(vectors):
    one = server(clients=["a"])
    one.open_round()
    report = vectors["a"].report(1, gains("a", 1))
    assert one.receive(replace(report, values=(2**200, -(2**200), 10**400, 0))) is Receipt.ACCEPTED
    start = np.array(one.state()["player"]["sums"])
    one.close_round()
    moved = np.abs(np.array(one.state()["player"]["sums"]) - start)
    assert moved.max() <= 1 + (one.limits.deviations + 0.01) * ETA
    assert 6 < one.limits.deviations < 6.5
    low, high = one.limits.codes
    assert low < 0 < TERMS.largest_code < high


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "stranger"},
        {"round": 0},
        {"round": 41},
        {"kind": "coordinate"},
        {"index": 1},
        {"values": (1, 2, 3)},
        {"grid_bits": 3},
        {"noise_scale": "1"},
        {"mu": "2"},
        {"version": 2},
    ],
)
def test_reports_under_other_terms_are_refused(change, vectors):
    one = server()
    one.open_round()
    before = one.state()
    with pytest.raises(ReportError):
        one.receive(replace(vectors["a"].report(1, None), **change))
    assert one.state() == before


@pytest.mark.parametrize(
    "change",
    [
        {"values": (math.nan, 0, 0, 0)},
        {"values": (0.5, 0, 0, 0)},
        {"values": [0, 0, 0, 0]},
        {"round": 1.0},
        {"nonce": 5},
    ],
)
def test_a_report_of_another_form_cannot_be_made(change, vectors):
    # one NaN, taken from a carrier that does not use JSON, would stop its round for everybody
    with pytest.raises(ReportError):
        replace(vectors["a"].report(1, None), **change)


def test_a_coordinate_belongs_to_its_client_and_seeded_noise_is_refused(single, vectors):
    one = server(reporting=COORDINATES, clients={"w": 0, "x": 1})
    one.open_round()
    with pytest.raises(ReportError, match="coordinate"):
        one.receive(replace(single["w"].report(1, None), index=1))
    strict = server(allow_seeded=False)
    strict.open_round()
    with pytest.raises(ReportError, match="operating system"):
        strict.receive(vectors["a"].report(1, None))


@pytest.mark.parametrize("kind", ["ftpl", "adabatch", "meta"])
def test_a_server_stored_at_any_point_goes_on_bit_for_bit(kind, vectors):
    plain, stored = server(kind), server(kind)

    def again(one):
        return Server.from_state(json.loads(json.dumps(one.state())))

    for round_ in range(1, 25):
        stored = again(stored)
        assert plain.open_round() == stored.open_round() == again(stored).open_round()
        for name in ("a", "b", "c")[: round_ % 4]:
            stored = again(stored)
            report = vectors[name].report(round_, gains(name, round_))
            assert plain.receive(report) is stored.receive(report)
            stored = again(stored)
            assert stored.receive(report) is Receipt.DUPLICATE
        assert plain.close_round() == stored.close_round()
    assert json.dumps(plain.state(), sort_keys=True) == json.dumps(stored.state(), sort_keys=True)


def test_closed_rounds_leave_no_report_behind(vectors):
    one = server("adabatch")
    for round_ in (1, 2):
        one.open_round()
        report = vectors["a"].report(round_, gains("a", round_))
        one.receive(report)
        assert str(report.values[0]) in json.dumps(one.state())
        one.close_round()
        assert not any(str(value) in json.dumps(one.state()) for value in report.values)
        assert report.nonce not in json.dumps(one.state())


def test_rounds_end_and_are_opened_before_they_close(vectors):
    short = Reporting.from_json({**TERMS.to_json(), "rounds": "1"})
    one = server(reporting=short)
    with pytest.raises(RoundError):
        one.close_round()
    assert one.open_round() == one.open_round()
    one.close_round()
    with pytest.raises(RoundError, match="declared"):
        one.open_round()


def test_only_adabatch_has_a_guarantee_for_observers_and_it_pays_for_clipping():
    with pytest.raises(RangeError, match="RW-AdaBatch"):
        server().observers_guarantee(3)
    one = server("adabatch")
    guarantee = one.observers_guarantee(30)
    assert guarantee.clip_failure == pytest.approx(2 * 1e-15 * 40 * 3)
    assert float(guarantee.delta(1.0)) <= float(one.player.amplified(mu=1.0, time=1).delta(1.0)) + 1e-9


@pytest.mark.parametrize(
    "wrong",
    [
        {"clients": []},
        {"clients": ["a", "a"]},
        {"late": "never"},
        {"clip_failure": 0.0},
        {"reporting": COORDINATES},
        {"reporting": COORDINATES, "clients": {"a": 0, "b": 0}},
        {"reporting": COORDINATES, "clients": {"a": 9}},
    ],
)
def test_servers_are_checked(wrong):
    with pytest.raises(RangeError):
        server(**wrong)


def test_a_player_for_other_terms_is_refused():
    rest = {"reporting": TERMS, "clients": ["a"]}
    with pytest.raises(RangeError, match="actions"):
        Server(player=RWFTPL(actions=5, noise_scale=ETA), **rest)
    with pytest.raises(RangeError, match="noise_scale"):
        Server(player=RWAdaBatch(actions=4, noise_scale=ETA / 2), **rest)
    with pytest.raises(RangeError, match="gain_range"):
        Server(player=RWAdaBatch(actions=4, noise_scale=ETA, gain_range=0.5), **rest)
