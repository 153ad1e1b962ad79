"""Plans of services: what they say is taken exactly, and what is missing or unsafe is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from service_fixtures import *  # noqa: F403 - fixtures
from service_fixtures import PLAN, write_plan

from sidelight.errors import PlanError
from sidelight.experts import RWFTPL, RWAdaBatch, RWMeta
from sidelight.experts.service.plan import read_service_plan
from sidelight.experts.service.rounds import new_server
from sidelight.web import is_loopback


def refused(tmp_path, match, text=PLAN, **replaced):
    with pytest.raises(PlanError, match=match) as caught:
        write_plan(tmp_path, text, **replaced)
    assert str(caught.value).startswith("experts.toml: ")


def test_a_plan_without_sensitivity_or_neighbours_is_refused(tmp_path):
    refused(tmp_path, "sensitivity is not declared", sensitivity="")
    refused(tmp_path, "neighbours is not declared", neighbours="")
    refused(tmp_path, "no neighbours are called 'neighbour'", neighbours='"neighbour"')


def test_numbers_mean_what_is_written(tmp_path):
    plan = write_plan(tmp_path, sensitivity="0.1", mu='"1/3"')
    assert plan.reporting.exact_sensitivity == Fraction(1, 10)
    assert plan.reporting.exact_mu == Fraction(1, 3)


@pytest.mark.parametrize(
    ("replaced", "match"),
    [
        ({"mu": "0"}, "mu must be positive"),
        ({"mu": "nan"}, "mu"),
        ({"mu": "inf"}, "mu"),
        ({"mu": "[1]"}, r"\$\.terms\.mu"),
        ({"rounds": "0"}, "rounds"),
        ({"rounds": "true"}, "rounds"),
        ({"actions": "1"}, "actions"),
        ({"actions": '["x", "x"]'}, "must differ"),
        ({"seconds": "0"}, "seconds"),
        ({"seconds": ""}, "seconds"),
        ({"seconds": "1e12"}, "about 30 years"),
        ({"kind": '"follow"'}, "rw_ftpl|Invalid enum"),
        ({"kind": '"rw_ftpl"\nfloor = 2'}, "floor is no option of rw_ftpl"),
        ({"clients": "{a = 0}"}, "clients = "),
        ({"clients": '["a\\u0007"]'}, "printable"),
        ({"close_when_complete": 'true\nlate = "next"'}, "close_when_complete"),
        ({"close_when_complete": "true\nspeed = 1"}, "speed"),
        ({"title": "5"}, "title"),
    ],
)
def test_mistakes_are_refused(tmp_path, replaced, match):
    refused(tmp_path, match, **replaced)


def test_what_is_no_plan_is_refused(tmp_path):
    with pytest.raises(PlanError, match="cannot be read"):
        read_service_plan(tmp_path / "nothing.toml")
    (tmp_path / "bad.toml").write_text("= 1")
    with pytest.raises(PlanError, match="not valid TOML"):
        read_service_plan(tmp_path / "bad.toml")


def test_beyond_this_machine_tls_is_needed(tmp_path):
    listening = PLAN + '\n[listen]\nhost = "0.0.0.0"\n'
    refused(tmp_path, "tokens in the clear", listening)
    refused(tmp_path, "both certificate and key", listening + 'certificate = "a.pem"\n')
    assert write_plan(tmp_path, listening + 'certificate = "a.pem"\nkey = "a.key"\n').certificate == tmp_path / "a.pem"
    assert write_plan(tmp_path, listening + "behind_proxy = true\n").certificate is None
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("localhost.example.org")


def test_the_player_gets_the_noise_of_averages_and_the_batches_that_of_clients(tmp_path):
    kinds = {"rw_ftpl": RWFTPL, "rw_adabatch": RWAdaBatch, "rw_meta": RWMeta}
    for kind, wanted in kinds.items():
        plan = write_plan(tmp_path, kind=f'"{kind}"')
        player = new_server(plan).player
        assert type(player) is wanted
        eta = float(plan.reporting.noise_scale)
        assert player.noise_scale == pytest.approx(eta if kind == "rw_adabatch" else eta / 2)  # four clients


def test_coordinates_need_a_place_for_each_client(tmp_path):
    text = PLAN.replace('clients = ["a", "b", "c", "d"]', "").replace("[terms]", '[terms]\nkind = "coordinate"')
    refused(tmp_path, "clients", text)
    text = text.replace('kind = "rw_ftpl"', 'kind = "rw_meta"') + "\n[clients]\na = 0\nb = 2\n"
    server = new_server(write_plan(tmp_path, text))
    assert server.clients == {"a": 0, "b": 2}
    assert server.player.noise_scale == pytest.approx(float(server.reporting.noise_scale))
