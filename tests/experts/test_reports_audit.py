"""An attack on the client's guarantee: it cannot refute the claim, and does refute planted bugs."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.audit import audit
from sidelight.experts import Reporter, Reporting
from sidelight.experts.reporter import bounded_codes
from sidelight.ledger import open_ledger
from sidelight.testing import SeededEntropy

#: One person can move one coordinate over the whole range: a gain of 0, and one far out of range. All coordinates of a
#: report get the same gain, so each is one draw.
TERMS = Reporting(actions=1000, mu=1, sensitivity=1, neighbours="presence", rounds=1)
DRAWS = 120_000


def sampler(gain, name, *, codes=bounded_codes, terms=TERMS, after=lambda value: value):
    """Run the client's own way from codes to a report, again and again; only the ledger is left out."""
    with open_ledger("sqlite://", testing=True) as ledger:
        reporter = Reporter("audited", terms, ledger=ledger, entropy=SeededEntropy("audit", path=[name]))
    bounded = codes([gain] * terms.actions, terms)

    def draw(count):
        reports = [reporter._made(1, bounded).floats() for _ in range(-(-count // terms.actions))]
        return after(np.concatenate(reports)[:count])

    return draw


def unclipped(gains, terms):
    return np.rint(np.ldexp(np.array(gains), terms.grid_bits)).astype(np.int64)


def test_an_attack_does_not_refute_the_claim():
    found = audit(sampler(0.0, "low"), sampler(40.0, "high"), draws=DRAWS)
    assert not found.refutes(TERMS.claims)
    assert found.mu().value > 0.85


@pytest.mark.planted("clipping after the noise")
def test_clipping_after_the_noise_is_refuted():
    # the planted bug: the report is clipped to [0, 1], but only after noise that was made for clipped gains
    def clip(value):
        return np.clip(value, 0.0, 1.0)

    found = audit(
        sampler(0.0, "bug low", codes=unclipped, after=clip),
        sampler(40.0, "bug high", codes=unclipped, after=clip),
        draws=DRAWS,
    )
    assert found.refutes(TERMS.claims)
    harmless = audit(sampler(0.0, "low 2", after=clip), sampler(40.0, "high 2", after=clip), draws=DRAWS)
    assert not harmless.refutes(TERMS.claims)  # clipping a private report once more is harmless


@pytest.mark.planted("noise of a client 30 % too small")
def test_noise_thirty_percent_too_small_is_refuted():
    less = Reporting(actions=1000, mu="10/7", sensitivity=1, neighbours="presence", rounds=1)
    found = audit(sampler(0.0, "less low", terms=less), sampler(40.0, "less high", terms=less), draws=DRAWS)
    assert found.refutes(TERMS.claims)


@pytest.mark.planted("fresh noise on a resend")
def test_fresh_noise_on_a_resend_is_refuted():
    low, high = sampler(0.0, "resend low"), sampler(40.0, "resend high")
    found = audit(lambda n: (low(n) + low(n)) / 2, lambda n: (high(n) + high(n)) / 2, draws=DRAWS)
    assert found.refutes(TERMS.claims)
