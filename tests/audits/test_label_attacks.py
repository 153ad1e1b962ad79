"""Attacks on undeclared labels: the honest thresholds hold, the two classical mistakes are refuted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.audit import audit
from sidelight.mechanisms.gaussian_threshold import gaussian_threshold
from sidelight.mechanisms.truncated_laplace import LabelCounts, truncated_laplace
from sidelight.noise import Source
from sidelight.testing import SeededEntropy

DRAWS = 200_000
#: Stands for "this label does not appear".
HIDDEN = -(10**6)


def one_label(law, count, seed):
    """A sampler of what one label of `count` units shows: labels are independent, so a long list is many runs."""
    source = Source(SeededEntropy("label attacks", path=[seed]))

    def draw(runs):
        out = law.release(LabelCounts(counts=np.full(runs, count), groups=law.groups), source=source)
        shown = np.full(runs, HIDDEN)
        shown[out.places] = out.values
        return shown

    return draw


def attacked(law, before, after, name):
    return audit(one_label(law, before, name + " first"), one_label(law, after, name + " second"), draws=DRAWS)


@pytest.mark.parametrize("count", [0, 1, 5, 20])
def test_one_person_more_keeps_the_truncated_claim(count):
    law = truncated_laplace(epsilon=1, delta="0.01")
    assert not attacked(law, count, count + 1, f"truncated {count}").refutes(law.claims())


@pytest.mark.planted("a threshold on rows instead of persons", of=("Count",))
def test_a_threshold_on_rows_instead_of_persons_is_refuted():
    """The planted bug: a person with 29 rows has the label alone, and rows are counted against the threshold."""
    law = truncated_laplace(epsilon=1, delta="1e-6")
    rows_of_the_person = 29
    assert not attacked(law, 0, 1, "persons").refutes(law.claims())
    assert attacked(law, 0, rows_of_the_person, "rows").refutes(law.claims())
    assert float(law.probability(rows_of_the_person)) == 1  # seen with certainty


@pytest.mark.planted("a Gaussian claim for a thresholded release", of=("Count",))
def test_a_gaussian_claim_for_a_thresholded_release_is_refuted():
    """The planted bug: which labels appear is not Gaussian, though the noise is."""
    law = gaussian_threshold(epsilon=1, delta="0.05", groups=1)
    found = attacked(law, 0, 1, "gaussian alone")
    assert not found.refutes(law.claims())
    mu = 1 / law.scale
    assert found.refutes(sl.GDP(mu))
    assert found.refutes(sl.ZCDP(mu**2 / 2))


@pytest.mark.parametrize("count", [3, 8])
def test_a_label_that_others_have_is_gaussian(count):
    law = gaussian_threshold(epsilon=1, delta="0.05", groups=1)
    found = attacked(law, count, count + 1, f"gaussian {count}")
    assert not found.refutes(law.claims())
    assert not found.refutes(sl.GDP(1 / law.scale))


@pytest.mark.planted("noise of labels 30 % too small", of=("Count",))
def test_noise_30_percent_too_small_is_refuted():
    law = truncated_laplace(epsilon=1, delta="0.01")
    narrow = type(law)(label_epsilon=law.label_epsilon / Fraction(7, 10), cutoff=law.cutoff, reveal=law.reveal)
    count = 4 * law.cutoff  # far above the threshold: the loss of the noise itself
    assert not attacked(law, count, count + 1, "right scale").refutes(law.claims())
    assert attacked(law=narrow, before=count, after=count + 1, name="small scale").refutes(law.claims())


@pytest.mark.planted("a list of the labels that occur", of=("Count",))
def test_listing_the_labels_that_occur_is_refuted():
    """Noise on all groups present, without a threshold: the set itself gives the person away, whatever the noise."""
    law = truncated_laplace(epsilon=1, delta="1e-6")
    source = Source(SeededEntropy("present groups"))

    def absent(runs):
        return np.full(runs, HIDDEN)

    def present(runs):
        return 1 + law.noise(runs, source=source)

    assert audit(absent, present, draws=20_000).refutes(sl.ApproxDP(5, Fraction(1, 100)))
