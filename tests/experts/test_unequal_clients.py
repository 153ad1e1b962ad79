"""Clients of unequal size: each adds noise by its own public size, and every person has the same guarantee."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from benchmarks.baselines.experts import simulate_ftpl
from fixed_player import Fixed
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr

from sidelight.audit import audit
from sidelight.errors import LedgerError, RangeError, ReportError
from sidelight.experts import (
    RWFTPL,
    Receipt,
    Reporter,
    Reporting,
    RWAdaBatch,
    RWMeta,
    Server,
    Stream,
    ftpl_bound,
    move_sensitivity,
)
from sidelight.experts.report import scales_of
from sidelight.guarantees.curves import gaussian_floats
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy

SIZES = {"small": 8, "middle": 40, "large": "400.5"}
PLACES = {"small": 0, "middle": 1, "large": 2}


def terms(**rest):
    given = {"actions": 3, "mu": 1, "sensitivity": 1, "neighbours": "move", "rounds": 40, "kind": "coordinate"}
    return Reporting(**{**given, "sizes": SIZES, **rest})


OWN = terms()


def reporter(name, agreed=OWN, *, path="unequal"):
    index = PLACES[name] if agreed.kind == "coordinate" else None
    ledger = open_ledger("sqlite://", testing=True)
    size = None if agreed.sizes is None else agreed.sizes[name]
    return Reporter(name, agreed, ledger=ledger, index=index, size=size, entropy=SeededEntropy(path, path=[name]))


def made_player(kind, agreed=OWN):
    usual = float(agreed.noise_scale) if kind == "adabatch" else scales_of(agreed, PLACES)
    rest = {"actions": 3, "noise_scale": usual, "stream": Stream.seeded("player")}
    return {"ftpl": RWFTPL, "adabatch": RWAdaBatch, "meta": RWMeta}[kind](**rest)


def server(kind="ftpl", agreed=OWN, **rest):
    clients = PLACES if agreed.kind == "coordinate" else list(PLACES)
    rest = {"clients": clients, "allow_seeded": True, "stream": Stream.seeded("s"), **rest}
    return Server(reporting=agreed, player=made_player(kind, agreed), **rest)


# ---- the terms


@given(
    st.lists(st.integers(1, 10**6), min_size=2, max_size=6),
    st.sampled_from(["presence", "move"]),
    st.sampled_from(["coordinate", "vector"]),
    st.sampled_from(["1", "0.25", "7/3"]),
)
def test_any_person_of_any_clients_costs_at_most_mu(sizes, neighbours, kind, mu):
    names = {f"client {place}": size for place, size in enumerate(sizes)}
    agreed = terms(sizes=names, neighbours=neighbours, kind=kind, mu=mu, actions=6)
    slack = agreed.grid + Fraction(2, 2**40) * agreed.exact_gain_range  # rounding to the grid, and gains in floats
    root = Fraction(math.isqrt(agreed.coordinates * 10**40) + 1, 10**20)
    parts = [((Fraction(1, b) + root * slack) / agreed.noise_scale_of(name)) ** 2 for name, b in names.items()]
    pairs = [a + b for a, b in permutations(parts, 2)] if neighbours == "move" else parts
    assert max(pairs) <= agreed.exact_mu**2 * (1 + Fraction(1, 10**15))
    assert min(pairs) >= agreed.exact_mu**2 * Fraction(999, 1000)  # and no more noise than that takes
    assert max(agreed.noise_scale_of(name) for name in names) == agreed.noise_scale
    assert agreed.grid * agreed.actions <= Fraction(1, max(sizes))


def test_a_small_client_has_the_same_claim_and_more_noise():
    assert OWN.claims == terms(sizes=dict.fromkeys(SIZES, 8)).claims
    etas = [float(OWN.noise_scale_of(name)) for name in SIZES]
    assert etas == pytest.approx([math.sqrt(2) / 8, math.sqrt(2) / 40, math.sqrt(2) / 400.5], rel=1e-5)
    presence = terms(neighbours="presence")
    assert float(presence.noise_scale_of("middle")) == pytest.approx(1 / 40, rel=1e-5)


@pytest.mark.parametrize("neighbours", ["presence", "move"])
def test_the_law_of_two_reports_by_brute_force(neighbours):
    # all cells of the reports of two clients, of 3 and 12 places, on a grid of 1/12: one person is 4 cells, or 1
    def cells(shift, scale):
        edges = np.arange(-90, 91) - 0.5 - shift
        return np.diff(ndtr(edges / scale))

    def delta(scales, epsilon):
        steps = (4, 1) if neighbours == "move" else (4, 0)
        there = np.multiply.outer(cells(0, scales[0]), cells(steps[1], scales[1]))
        gone = np.multiply.outer(cells(steps[0], scales[0]), cells(0, scales[1]))
        return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((there, gone), (gone, there)))

    factor = math.sqrt(2) if neighbours == "move" else 1.0
    own, largest = (factor * 4, factor * 1), (factor * 1, factor * 1)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        claimed = float(gaussian_floats(1.0, np.array(epsilon)))
        assert delta(own, epsilon) <= claimed * (1 + 1e-9)
        assert delta(own, epsilon) >= 0.9 * claimed  # nearly all of it is used
        assert delta(largest, epsilon) > 1.5 * claimed  # the large client's noise is not enough for the small one


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sizes": {}}, "public size of each client"),
        ({"sizes": [8, 40]}, "public size of each client"),
        ({"sizes": {"a": 0}}, "size must be positive"),
        ({"sizes": {"a": math.nan}}, "size"),
        ({"sizes": {"a": True}}, "size"),
        ({"sizes": {"a": "forty"}}, "size"),
        ({"sizes": {3: 8}}, "printable"),
        ({"sizes": {"\n": 8}}, "printable"),
        ({"neighbours": "replace"}, "replace"),
        ({"sensitivity": None}, "not declared.*with sizes, size times gains"),
        ({"sensitivity": "0.0354"}, "divided by a size already"),
        ({"sensitivity": move_sensitivity(8)}, "divided by a size already"),
        ({"sizes": {"a": 1, "b": 10**12}}, "one grid"),
    ],
)
def test_wrong_sizes_are_refused(wrong, words):
    with pytest.raises(RangeError, match=words):
        terms(**wrong)


def test_sizes_come_back_and_cannot_be_changed_afterwards():
    for again in (Reporting.from_json(json.loads(json.dumps(OWN.to_json()))), pickle.loads(pickle.dumps(OWN))):
        assert (again.sizes, again.to_json()) == (OWN.sizes, OWN.to_json())
        assert again.noise_scale_of("large") == OWN.noise_scale_of("large")
    given = dict(SIZES)
    agreed = terms(sizes=given)
    given["small"] = 8000
    assert agreed == OWN
    assert hash(agreed) == hash(OWN)
    with pytest.raises(TypeError):
        agreed.sizes["small"] = 8000
    for whole in (OWN, terms(sizes=None, mu=1), terms(sizes=None, mu="1")):
        again = pickle.loads(pickle.dumps(whole))
        assert (again, copy.copy(whole), hash(again)) == (whole, whole, hash(whole))
    assert "sizes" not in terms(sizes=None).to_json()  # terms of equal noise are what they were, in every old ledger


# ---- reports


def test_a_reporter_needs_a_size_and_keeps_it():
    with pytest.raises(RangeError, match="no size"):
        Reporter("stranger", OWN, ledger=open_ledger("sqlite://", testing=True), index=0, size=3)
    for size, words in ((None, "only the client can tell"), ("7.9", "its noise would be too small"), (0, "positive")):
        with pytest.raises(RangeError, match=words):
            Reporter("small", OWN, ledger=open_ledger("sqlite://", testing=True), index=0, size=size)
    with pytest.raises(RangeError, match="exactly where the terms name sizes"):
        Reporter("small", terms(sizes=None), ledger=open_ledger("sqlite://", testing=True), index=0, size=8)
    ledger = open_ledger("sqlite://", testing=True)
    kept = {"ledger": ledger, "index": 0, "size": 80, "entropy": SeededEntropy("kept")}
    Reporter("small", OWN, **kept).report(1, 0.5)
    with pytest.raises(LedgerError, match="sizes"):
        Reporter("small", terms(sizes={**SIZES, "small": 80}), **kept)
    with pytest.raises(LedgerError, match="sizes"):
        Reporter("small", terms(sizes=None), **{**kept, "size": None})


def spread_fits(draws, scale):
    """Whether the squares of draws are those of N(0, scale²): two sides, a false alarm in 10^7."""
    total = float((np.asarray(draws) ** 2).sum()) / scale**2
    return 5e-8 < stats.chi2.cdf(total, len(draws)) < 1 - 5e-8


@pytest.mark.parametrize("name", SIZES)
def test_the_noise_of_each_client_is_its_own(name):
    agreed = terms(kind="vector", actions=1000)
    client = reporter(name, agreed, path="law")
    draws = np.concatenate([client._made(1, np.zeros(1000, np.int64)).floats() for _ in range(2)])
    eta = float(agreed.noise_scale_of(name))
    assert spread_fits(draws, eta)
    assert stats.kstest(draws / eta, "norm").pvalue > 1e-7
    assert not any(spread_fits(draws * off, eta) for off in (0.7, 1.3))
    assert json.loads(client._made(1, np.zeros(1000, np.int64)).to_json())["noise_scale"] != str(agreed.noise_scale)


def attack(agreed, clients, *, name):
    """Attack a person who leaves the first client and joins the second: the log-likelihood ratio of both reports.

    The clients' own way from codes to reports runs under `agreed`; the person moves gains by 1/size of the true sizes.
    """
    scales = np.array([float(agreed.noise_scale_of(each)) for each in clients])
    shifts = np.array([1 / float(SIZES[each]) for each in clients])

    def sampler(present, path):
        made = [reporter(each, agreed, path=f"{name} {path}") for each in clients]
        ones = 2.0**agreed.grid_bits
        codes = [np.full(1000, round(by * there * ones)) for by, there in zip(shifts, present, strict=True)]

        def draw(count):
            rounds = -(-count // 1000)
            reports = [
                np.concatenate([client._made(1, its).floats() for _ in range(rounds)])[:count]
                for client, its in zip(made, codes, strict=True)
            ]
            return reports[0] * shifts[0] / scales[0] ** 2 - reports[1] * shifts[1] / scales[1] ** 2

        return draw

    return audit(sampler((1, 0), "here"), sampler((0, 1), "there"), draws=60_000)


WIDE = terms(kind="vector", actions=1000)


def test_an_attack_on_a_move_does_not_refute_the_claim():
    found = attack(WIDE, ("small", "large"), name="move")
    assert not found.refutes(WIDE.claims)
    assert found.mu().value > 0.85


@pytest.mark.planted("noise by the patients who came, not by the declared size")
def test_noise_by_a_private_size_is_refuted():
    # the ward has 8 beds, and 24 patients came in the week: a third of the noise
    private = terms(kind="vector", actions=1000, sizes={**SIZES, "small": 24})
    assert attack(private, ("small", "large"), name="private").refutes(WIDE.claims)


@pytest.mark.planted("all clients with the noise of the largest")
def test_the_noise_of_the_largest_client_for_all_is_refuted():
    same = terms(kind="vector", actions=1000, sizes=dict.fromkeys(SIZES, 40))
    assert attack(same, ("small", "middle"), name="same").refutes(WIDE.claims)


# ---- the server


def test_a_report_with_another_clients_noise_is_refused():
    one, honest = server(), reporter("small").report(1, 0.3)
    one.open_round()
    other = {
        "noise_scale": reporter("large").report(1, 0.3).noise_scale,
        "client_id": "large",  # the small client's noise under the large one's name, and coordinate
    }
    for name, value in other.items():
        with pytest.raises(ReportError, match=r"noise_scale|coordinate"):
            one.receive(replace(honest, **{name: value}))
    with pytest.raises(ReportError, match="no client of this name"):
        one.receive(replace(honest, client_id="stranger"))
    for text in ("", "NaN", "inf", "-1", "0.17", "9" * 200):
        with pytest.raises(ReportError):
            one.receive(replace(honest, noise_scale=text))
    assert one.receive(honest) is Receipt.ACCEPTED
    with pytest.raises(RangeError, match="no size"):
        server(clients={"small": 0, "stranger": 1})


def test_hostile_values_are_clipped_to_the_clients_own_limits():
    one = server()
    one.open_round()
    before = np.array(one.player.state()["sums"])
    for name in PLACES:
        one.receive(replace(reporter(name).report(1, 0.0), values=(10**30,)))
    closed = one.close_round()
    moved = np.array(one.player.state()["sums"]) - before
    etas = scales_of(OWN, PLACES)
    assert moved == pytest.approx(1 + one.limits.deviations * etas, rel=1e-4)
    assert closed.noise_scale == etas.max()


def test_what_is_missing_gets_noise_of_its_own_scale():
    alone, sums = server(), []
    for _ in range(38):
        alone.open_round()
        before = np.array(alone.player.state()["sums"])
        alone.close_round()
        sums.append(np.array(alone.player.state()["sums"]) - before)
    for draws, eta in zip(np.array(sums).T, scales_of(OWN, PLACES), strict=True):
        assert spread_fits(draws, eta)
        assert not spread_fits(draws, 3 * eta)


def test_vectors_are_averaged_by_size_whatever_the_order():
    agreed = terms(kind="vector")
    made = {name: reporter(name, agreed) for name in SIZES}
    states = []
    for order in permutations(SIZES):
        one = server(agreed=agreed)
        one.open_round()
        for name in order:
            one.receive(made[name].report(1, [0.1, 0.5, 0.9]))
        closed = one.close_round()
        states.append(one.state()["player"])
    assert all(state == states[0] for state in states)
    sizes = np.array([float(size) for size in SIZES.values()])
    sent = np.array([made[name].report(1, None).floats() for name in SIZES])
    mean = sizes @ sent / sizes.sum()
    start = np.array(made_player("ftpl", agreed).state()["sums"])
    assert np.array(states[0]["sums"]) - start == pytest.approx(mean, abs=1e-12)
    # every client brings the same noise into the sum: √3 · √2 / (all beds) for three clients
    assert closed.noise_scale == pytest.approx(math.sqrt(6) / sizes.sum(), rel=1e-5)


@pytest.mark.parametrize("kind", ["ftpl", "adabatch", "meta"])
@pytest.mark.parametrize("form", ["coordinate", "vector"])
def test_every_player_goes_on_bit_for_bit(kind, form):
    agreed = terms(kind=form)
    made = {name: reporter(name, agreed) for name in SIZES}

    def play(one, rounds, *, resumed):
        actions = []
        for number in rounds:
            actions.append(one.open_round())
            for name in SIZES:
                if (number + PLACES[name]) % 5:
                    gains = 0.1 * PLACES[name] if form == "coordinate" else [0.1, 0.2, 0.3]
                    one.receive(made[name].report(number, gains))
            if resumed:
                one = Server.from_state(json.loads(json.dumps(one.state())))
            one.close_round()
        return actions, one.state()

    assert play(server(kind, agreed), range(1, 13), resumed=True) == play(
        server(kind, agreed), range(1, 13), resumed=False
    )


# ---- players


def test_rw_meta_adds_up_the_noise_of_what_its_learners_play():
    etas = np.array([0.5, 0.2, 0.01])
    player = RWMeta(actions=3, noise_scale=etas, learners=[Fixed(0), Fixed(0), Fixed(2)], stream=Stream.seeded(1))
    for _ in range(4):
        player.predict()
        player.update([0.1, 0.2, 0.3])
    same = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 0]]) * 0.25 + np.diag([0, 0, 1]) * 1e-4
    assert np.array(player.state()["covariance"]) == pytest.approx(0.25 * np.eye(3) + 4 * same)


def test_batches_of_unequal_clients_have_the_largest_noise_everywhere():
    etas, rounds = np.array([1.0, 0.3, 0.01]), 1500
    player = RWAdaBatch(actions=3, noise_scale=1.0, gain_range=1e-6, largest_batch=1, stream=Stream.seeded(3))
    sums = [np.array(player.state()["sums"])]
    rng = np.random.default_rng(2)
    for _ in range(rounds):
        player.predict()
        player.update(etas * rng.standard_normal(3), noise_scale=etas)
        sums.append(np.array(player.state()["sums"]))
    for draws in np.diff(sums, axis=0).T:
        assert spread_fits(draws, 1.0)
        assert not spread_fits(draws, 0.7)
    player.predict()
    with pytest.raises(RangeError, match="at most"):
        player.update(np.zeros(3), noise_scale=[1.1, 0.1, 0.1])


def test_what_observers_learn_is_that_of_the_largest_noise():
    found = server("adabatch").observers_guarantee(30)
    equal = terms(sizes=dict.fromkeys(SIZES, 8))
    assert found.delta(1.0) == pytest.approx(server("adabatch", equal).observers_guarantee(30).delta(1.0), rel=1e-9)
    with pytest.raises(RangeError, match="at least"):
        Server(
            reporting=OWN,
            player=RWAdaBatch(actions=3, noise_scale=float(OWN.noise_scale_of("middle"))),
            clients=PLACES,
        )


@pytest.mark.parametrize("etas", [(1.0, 1.0, 1.0), (2.0, 0.5, 0.5), (0.3, 1.0, 3.0)])
@pytest.mark.parametrize("means", [(0.0, 0.0, 0.0), (0.5, -0.2, 0.1)])
def test_the_curvature_that_the_regret_proof_bounds(etas, means):
    # the trace of the Hessian of E max(v + ηZ), by quadrature: Σ_i ∂_i P(i is largest)
    etas, means = np.array(etas), np.array(means)
    x, step = np.linspace(-30, 30, 60_001, retstep=True)
    inside = [ndtr((x - m) / e) for m, e in zip(means, etas, strict=True)]
    density = [
        np.exp(-(((x - m) / e) ** 2) / 2) / (e * math.sqrt(2 * math.pi)) for m, e in zip(means, etas, strict=True)
    ]
    trace = 0.0
    for i in range(3):
        others = [j for j in range(3) if j != i]
        for j in others:
            (k,) = set(others) - {j}
            trace += float((density[i] * density[j] * inside[k]).sum() * step)
    assert 0 < trace <= math.sqrt(2 * math.log(3)) / etas.min()


def test_the_regret_bound_holds_for_unequal_noise():
    assert ftpl_bound(actions=24, rounds=148, noise_scale=np.full(24, 0.5)) == pytest.approx(138.019, rel=1e-5)
    rng = np.random.default_rng(8)
    etas = np.array([0.3, 0.6, 1.0, 3.0])
    true = np.zeros((400, 4))
    true[np.arange(400), np.arange(400) % 4] = 1.0  # the last winner does not win again
    runs = simulate_ftpl(true, noise_scale=np.tile(etas, (400, 1)), runs=200, rng=rng)
    regret = true.sum(axis=0).max() - runs.gain.mean()
    assert regret <= ftpl_bound(actions=4, rounds=400, noise_scale=etas)
    with pytest.raises(RangeError, match="shape"):
        RWFTPL(actions=4, noise_scale=[0.1, 0.2])
