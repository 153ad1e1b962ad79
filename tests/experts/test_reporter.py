"""The client: one draw a round, stored before it leaves, charged in a ledger of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import sidelight as sl
from sidelight.errors import BudgetError, InProgressError, LedgerError, RangeError, ReleaseFailedError
from sidelight.experts import NoisyReport, Reporter, ReportError, Reporting
from sidelight.experts import reporter as reporter_module
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy

TERMS = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="move", rounds=4, max_rounds_per_person=4)


@pytest.fixture
def ledger(tmp_path):
    with open_ledger(tmp_path / "client.db") as opened:
        yield opened


def test_a_resent_report_has_the_same_bytes_also_after_a_restart(tmp_path):
    with Reporter("ward", TERMS, ledger=tmp_path / "client.db") as reporter:
        first = reporter.report(1, [0.1, 0.2, 0.3])
        assert reporter.report(1, [0.9, 0.9, 0.9]).to_json() == first.to_json()
    with Reporter("ward", TERMS, ledger=tmp_path / "client.db") as reporter:
        assert reporter.report(1, [0.1, 0.2, 0.3]).to_json() == first.to_json()
        assert reporter.rounds_left == 3
        assert [each.to_json() for each in reporter.reports()] == [first.to_json()]
        assert reporter.scope.ledger.verify().ok


def test_rounds_beyond_the_declared_ones_are_refused_and_nothing_is_made(ledger):
    reporter = Reporter("ward", TERMS, ledger=ledger)
    for round_ in range(1, 5):
        reporter.report(round_, [0.1, 0.2, 0.3])
    head = ledger.head()
    with pytest.raises(BudgetError, match="beyond the 4 rounds") as refusal:
        reporter.report(5, [0.1, 0.2, 0.3])
    assert refusal.value.requested == "round 5"
    for wrong in (0, -1, True, 1.0, "1"):
        with pytest.raises(RangeError):
            reporter.report(wrong, [0.1, 0.2, 0.3])
    assert ledger.head() == head
    assert reporter.rounds_left == 0


def test_the_ledger_holds_what_was_spent(ledger):
    reporter = Reporter("ward", TERMS, ledger=ledger)
    reporter.report(1, None)
    (entry,) = reporter.scope.entries()
    assert entry.claims == TERMS.claims == reporter.guarantee
    assert float(reporter.reporting.person_claims.gdp().mu) == 2
    assert float(reporter.scope.definition.budget.mu) == 2


def test_a_wrong_length_raises_before_the_charge(ledger):
    reporter = Reporter("ward", TERMS, ledger=ledger)
    with pytest.raises(RangeError):
        reporter.report(1, [0.1])
    assert reporter.scope.entries() == []


def test_the_same_statistic_is_not_released_twice_in_two_forms(ledger):
    Reporter("ward", TERMS, ledger=ledger).report(1, [0.1, 0.2, 0.3])
    coordinate = Reporting.from_json({**TERMS.to_json(), "kind": "coordinate"})
    with pytest.raises(LedgerError):
        Reporter("ward", coordinate, ledger=ledger, index=0).report(1, 0.1)


def test_a_crash_costs_its_charge_and_a_second_attempt_is_asked_for(ledger, monkeypatch):
    reporter = Reporter("ward", TERMS, ledger=ledger)

    def fail(*_, **__):
        raise ValueError("987654.321")

    with monkeypatch.context() as patch:
        patch.setattr(reporter_module, "priced_gaussian", fail)
        with pytest.raises(ReleaseFailedError) as failure:
            reporter.report(1, [0.1, 0.2, 0.3])
    assert "987654" not in str(failure.value)
    assert failure.value.__cause__ is None
    assert failure.value.__context__ is None
    assert reporter.rounds_left == 3
    # a process that died between charge and report leaves the round reserved
    scope = reporter.scope
    request = {
        "kind": "experts_report",
        "client_id": "ward",
        "round": "2",
        "index": None,
        "terms": TERMS.to_json(),
    }
    scope.reserve(TERMS.claims, request=request, key="round 2")
    with pytest.raises(InProgressError):
        reporter.report(2, [0.1, 0.2, 0.3])
    made = reporter.report(2, [0.1, 0.2, 0.3], resume=True)
    assert made.to_json() == reporter.report(2, None).to_json()


def test_a_process_that_dies_after_the_charge_sends_nothing(tmp_path):
    script = """
import os, sys
from sidelight.experts import Reporter, Reporting, reporter
reporter.priced_gaussian = lambda *a, **b: os._exit(9)
terms = Reporting(actions=3, mu=1, sensitivity="0.1", neighbours="move", rounds=4, max_rounds_per_person=4)
Reporter("ward", terms, ledger=sys.argv[1]).report(1, [0.1, 0.2, 0.3])
"""
    path = tmp_path / "client.db"
    died = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, env=os.environ, check=False)
    assert (died.returncode, died.stdout) == (9, b"")
    with Reporter("ward", TERMS, ledger=path) as reporter:
        assert reporter.reports() == []
        assert reporter.rounds_left == 3


def test_seeded_noise_needs_a_ledger_for_tests_and_brands_the_report(ledger):
    with pytest.raises(LedgerError, match="not private"):
        Reporter("ward", TERMS, ledger=ledger, entropy=SeededEntropy(1))
    with open_ledger("sqlite://", testing=True) as testing:
        made = Reporter("ward", TERMS, ledger=testing, entropy=SeededEntropy(1)).report(1, None)
        assert made.entropy == "seeded: not private"
    assert Reporter("ward", TERMS, ledger=ledger).report(1, None).entropy == "os"


def test_clients_are_checked(ledger):
    for wrong in ("", "a\nb", "x" * 300):
        with pytest.raises(RangeError, match="client_id"):
            Reporter(wrong, TERMS, ledger=ledger)
    with pytest.raises(RangeError, match="index"):
        Reporter("ward", TERMS, ledger=ledger, index=1)
    coordinate = Reporting.from_json({**TERMS.to_json(), "kind": "coordinate"})
    for index in (None, 3, -1):
        with pytest.raises(RangeError, match="index"):
            Reporter("ward", coordinate, ledger=ledger, index=index)


def noise_of(terms, *, gain=0.0):
    """Standardised noise of one long report."""
    with open_ledger("sqlite://", testing=True) as ledger:
        reporter = Reporter("long", terms, ledger=ledger, entropy=SeededEntropy("noise law"))
        made = reporter.report(1, [gain] * terms.actions)
    return (np.array(made.floats()) - gain) / float(terms.noise_scale)


def test_the_noise_has_its_law_and_a_scale_thirty_percent_off_does_not():
    terms = Reporting(actions=20_000, mu=1, sensitivity="0.1", neighbours="presence", rounds=1)
    noise = noise_of(terms, gain=0.5)
    assert stats.kstest(noise, "norm").pvalue > 1e-7
    assert stats.kstest(noise * 0.7, "norm").pvalue < 1e-7
    assert stats.kstest(noise * 1.3, "norm").pvalue < 1e-7
    squares = (noise**2).sum()
    assert stats.chi2(20_000).cdf(squares) == pytest.approx(0.5, abs=0.499999)
    assert stats.chi2(20_000).sf(squares * 1.69) < 1e-9


def test_smaller_mu_means_more_noise():
    ratio = Reporting.from_json({**TERMS.to_json(), "mu": "0.25"}).noise_scale / TERMS.noise_scale
    assert float(ratio) == pytest.approx(4, rel=1e-9)
    assert TERMS.noise_scale >= Fraction(1, 10)


@pytest.mark.parametrize(
    "change",
    [
        {"values": [1.5, 2, 3]},
        {"values": [float("nan"), 2, 3]},
        {"values": "123"},
        {"values": [True, 1, 2]},
        {"round": "1"},
        {"round": 2**60},
        {"index": 0.5},
        {"client_id": ""},
        {"client_id": "a\x00"},
        {"mu": 1},
        {"nonce": None},
        {"extra": 1},
    ],
)
def test_malformed_reports_are_refused_without_quoting_them(change):
    import json

    with open_ledger("sqlite://", testing=True) as ledger:
        good = json.loads(Reporter("ward", TERMS, ledger=ledger).report(1, None).to_json())
    assert NoisyReport.from_json(json.dumps(good)).client_id == "ward"
    with pytest.raises(ReportError) as refusal:
        NoisyReport.from_json(json.dumps({**good, **change}))
    assert "1.5" not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[]", "nope", b"\xff\xfe", "[" * 100_000, '{"values": ' + "9" * 10_000 + "}"])
def test_what_is_no_report_at_all_is_refused(text):
    with pytest.raises(ReportError):
        NoisyReport.from_json(text)


def test_experts_are_part_of_the_package():
    assert sl.experts.Reporter is Reporter
    with pytest.raises(AttributeError, match="Reporter"):
        _ = sl.experts.Reporer
    assert "RWMeta" in dir(sl.experts)


def test_the_old_name_of_a_report_still_works() -> None:
    from sidelight import experts
    from sidelight.errors import SidelightWarning

    with pytest.warns(SidelightWarning, match="NoisyReport"):
        assert experts.Report is NoisyReport
