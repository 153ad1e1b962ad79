"""Lazy dithering has the law of dithering every record; a law 30 % off fails the same test."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from sidelight.aggregates import ranks as dither
from sidelight.aggregates.ranks import TiedRecords, heads
from sidelight.noise import Source, integers_below
from sidelight.testing import SeededEntropy

BITS = 3


def source(seed):
    return Source(SeededEntropy(f"dither/{seed}"))


def lazy_answers(count, seed, monkeypatch_threshold):
    """Query fresh tied records in a fixed order that leaves most offsets undrawn."""
    atom, bits = TiedRecords(count, BITS), source(seed)
    return (atom.order(2, bits), atom.below(3, bits), atom.order(count, bits), atom.below(6, bits))


def eager_answers(count, seed):
    offsets = np.sort(integers_below(2**BITS, count, source(f"eager/{seed}")))
    below = np.searchsorted(offsets, [3, 6])
    return (int(offsets[1]), int(below[0]), int(offsets[-1]), int(below[1]))


def same_law(first, second):
    """Chi-square of homogeneity over the joint answers; rare answers are put together."""
    keys = [key for key, count in (first + second).items() if count >= 20]
    table = np.array(
        [
            [sample[key] for key in keys] + [sum(sample.values()) - sum(sample[key] for key in keys)]
            for sample in (first, second)
        ]
    )
    table = table[:, table.sum(axis=0) > 0]
    return stats.chi2_contingency(table).pvalue


@pytest.mark.parametrize("threshold", [0, 2, 512])
def test_lazy_is_eager(monkeypatch, threshold):
    """Joint law of four answers, with splits all the way down (0), for a while (2), and never (512)."""
    monkeypatch.setattr(dither, "_DRAW_ALL", threshold)
    lazy = Counter(lazy_answers(5, (threshold, trial).__repr__(), threshold) for trial in range(3000))
    eager = Counter(eager_answers(5, (threshold, trial).__repr__()) for trial in range(3000))
    assert same_law(lazy, eager) > 1e-7


def test_a_biased_split_is_noticed(monkeypatch):
    """Negative control: splits that favour one side by 30 % fail the test above."""
    monkeypatch.setattr(dither, "_DRAW_ALL", 0)
    monkeypatch.setattr(dither, "heads", lambda flips, bits: sum(int(w) % 100 < 65 for w in bits.words(flips)))
    lazy = Counter(lazy_answers(5, trial, 0) for trial in range(3000))
    eager = Counter(eager_answers(5, trial) for trial in range(3000))
    assert same_law(lazy, eager) < 1e-7


@pytest.mark.parametrize("count", [1, 7, 511, 513, 5000])
def test_answers_belong_to_one_spread(count):
    """`below` and `order` of the same tied records agree, whatever was queried before."""
    atom, bits = TiedRecords(count, 12), source(count)
    offsets = [atom.order(k, bits) for k in range(count, 0, -1)][::-1]
    assert offsets == sorted(offsets)
    assert all(0 <= offset < 2**12 for offset in offsets)
    for offset in {0, 1, 77, 4095, *offsets[::97]}:
        assert atom.below(offset, bits) == np.searchsorted(offsets, offset)


def test_heads_is_binomial():
    flips, draws = 1000, 4000
    bits = source("heads")
    sample = np.array([heads(flips, bits) for _ in range(draws)])
    edges = stats.binom.ppf(np.linspace(0, 1, 11)[1:-1], flips, 0.5)
    observed = np.bincount(np.searchsorted(edges, sample), minlength=10)
    cdf = np.concatenate([[0], stats.binom.cdf(edges, flips, 0.5), [1]])
    assert stats.chisquare(observed, np.diff(cdf) * draws).pvalue > 1e-7
    assert (
        stats.chisquare(
            observed, np.diff(np.concatenate([[0], stats.binom.cdf(edges, flips, 0.52), [1]])) * draws
        ).pvalue
        < 1e-7
    )


@pytest.mark.parametrize("flips", [0, 1, 63, 64, 65, 64 * dither._BLOCK_WORDS + 3])
def test_heads_stays_in_range(flips):
    assert 0 <= heads(flips, source(flips)) <= flips


def test_heavy_ties_are_cheap():
    """A rank in ten million ties needs far fewer random bits than a word a record."""

    class Counting:
        branding = "counting"
        read_bytes = 0

        def read(self, nbytes):
            Counting.read_bytes += nbytes
            return SeededEntropy(1).read(nbytes)

    atom = TiedRecords(10**7, 20)
    atom.order(5 * 10**6, Source(Counting()))
    assert Counting.read_bytes < 4 * 10**6
    assert repr(atom) == "TiedRecords(private)"
