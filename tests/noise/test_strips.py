"""The strip sampler: tails by script, the fast path replayed by the slow one, and the slow one starved of bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from noise_laws import agrees, discrete_gaussian_pmf, laplace_pmf, p_values, rounded_gaussian_pmf
from reference_samplers import discrete_gaussian
from scripted import Dry, Played, Recorded

from sidelight.noise import Source, discrete_laplace, lattice, rounded_gaussian
from sidelight.noise.enclosures import EXPONENTIAL, GAUSS, LazyReal, Strips, exact_floor, exact_keep, exact_strip
from sidelight.noise.lattice import fixed_point, scaled_floor, wrapped
from sidelight.noise.strips import Draws, draw, run_trials
from sidelight.testing import SeededEntropy

LAWS = pytest.mark.parametrize("law", [GAUSS, EXPONENTIAL], ids=lambda law: law.name)

ONES, ZERO = b"\xff" * 8, bytes(8)


def tail_source(ones: int) -> Source:
    """Every trial: sign +, R = 44 ones, then 64 * ones ones, then zeros; V = 0, U = 0."""
    first = (0x7FFF8000).to_bytes(4, "little")
    second = (0xFFFFFFF000000000).to_bytes(8, "little")
    return Source(Played(first, ZERO, second, ONES * ones + ZERO))


@pytest.mark.parametrize(
    ("law", "expected"),
    [(GAUSS, [481, 769, 976, 1147]), (EXPONENTIAL, [975, 2395, 3815, 5234])],
    ids=["gauss", "exponential"],
)
def test_tail_strips(law: Strips, expected: list[int]) -> None:
    for ones, strip in enumerate(expected):
        source = Source(Played(ONES * ones + ZERO))
        assert exact_strip(law, LazyReal(2**44 - 1, 44, source)) == strip


@pytest.mark.parametrize(
    ("sampler", "ones", "expected"),
    [
        (rounded_gaussian, 0, 7.515625),
        (rounded_gaussian, 1, 12.015625),
        (rounded_gaussian, 3, 17.921875),
        (discrete_laplace, 0, 30.46875),
        (discrete_laplace, 1, 74.84375),
        (discrete_laplace, 3, 163.5625),
    ],
)
def test_tails_through_the_samplers(sampler, ones: int, expected: float) -> None:  # type: ignore[no-untyped-def]
    scale = Fraction(2**40)
    drawn = sampler(1, scale, tail_source(ones))
    assert Fraction(int(drawn[0]), 2**40) == Fraction(expected)


def far_draws(source: Source) -> Draws:
    """Two negative variates so far out that int64 cannot hold 2**49 times them: exactly 2**64, and one more."""
    deep = {i: (32 * 2**15, LazyReal(i << 20, 64, source)) for i in range(2)}
    return Draws(np.zeros(2, np.uint32), np.zeros(2, np.uint64), np.array([True, True]), deep)


def test_integers_beyond_int64_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact until the end: a multiple of 2**64 is not taken for zero and discarded, only released as zero."""
    source = Source(Dry())
    prepared = [fixed_point(Fraction(2**49), EXPONENTIAL.digits)]
    floors = scaled_floor(EXPONENTIAL, far_draws(source), prepared, None, source, halves=0)
    assert floors.tolist() == [2**64, 2**64 + 1]
    assert wrapped(-floors).tolist() == [0, -1]
    monkeypatch.setattr(lattice, "draw", lambda law, n, source: far_draws(source))
    drawn = discrete_laplace(2, Fraction(2**49), source)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == [0, -1]


@LAWS
def test_replay(law: Strips) -> None:
    """The slow method on the same bits, and no more, makes the same 6,000 decisions."""
    m = 6000
    entropy = Recorded(11)
    trials, kept = run_trials(law, m, Source(entropy))
    assert not trials.deep
    first, words, more = (
        np.frombuffer(answer, kind).tolist()
        for answer, kind in zip(entropy.answers, ("<u4", "<u8", "<u8"), strict=True)
    )
    dry = Source(Dry())
    refined = iter(more)
    second_stage = 0
    for t in range(m):
        cell, keep = first[t] >> 15 & 0xFFFF, first[t] & 0x7FFF
        r, v = LazyReal(cell, 16, dry), LazyReal(keep, 15, dry)
        if not settled_at_once(law, cell, keep):
            word = next(refined)
            r, v = LazyReal(cell << 28 | word >> 36, 44, dry), LazyReal(keep << 36 | word & (2**36 - 1), 51, dry)
            second_stage += 1
        strip = exact_strip(law, r)
        assert exact_keep(law, strip, LazyReal(words[t], 64, dry), v) == kept[t]
        assert strip == trials.strip[t]
        assert bool(first[t] >> 31) == trials.negative[t]
    assert next(refined, None) is None
    assert 0.01 < second_stage / m < 0.05


def settled_at_once(law: Strips, cell: int, keep: int) -> bool:
    from sidelight.noise.strips import strip_tables

    tables = strip_tables(law.name)
    strip = int(tables.guide[cell])
    return strip >= 0 and keep < int(tables.squeezes[strip])


def test_batches_and_order_of_consumption() -> None:
    """words32(m), words(m), words(open trials), with m = need + need // 24 + 8; chunks of 2**14 draws."""
    entropy = Recorded(3)
    rounded_gaussian(2**14 + 2000, Fraction(3), Source(entropy))
    sizes = [len(answer) for answer in entropy.answers]
    for at, need in ((0, 2**14), (3, 2000)):
        m = need + need // 24 + 8
        assert sizes[at : at + 2] == [4 * m, 8 * m]
        assert sizes[at + 2] % 8 == 0
        assert sizes[at + 2] < 8 * m * 0.2
    assert len(sizes) == 6


def test_a_short_batch_is_continued() -> None:
    """With every trial of the first batch rejected, the next batch is drawn; nothing is returned early."""
    rejects = (0x00007FFF).to_bytes(4, "little")  # strip 0, V near 1
    high_v, high_u = b"\xff" * 4 + b"\x0f" + bytes(3), b"\xff" * 8
    good = bytes(4)
    source = Source(Played(rejects, high_u, high_v, good, ZERO))
    drawn = draw(GAUSS, 3, source)
    assert drawn.words.tolist() == [0, 0, 0]


def starved_draw(law: Strips, source: Source) -> tuple[int, LazyReal, bool]:
    """Draw once by the slow method from no revealed bits, three at a time."""
    while True:
        strip = exact_strip(law, LazyReal(0, 0, source, step=3))
        u, v = LazyReal(0, 0, source, step=3), LazyReal(0, 0, source, step=3)
        if exact_keep(law, strip, u, v):
            return strip, u, bool(source.bits(1))


def starved(law: Strips, n: int, seed: int, scale: Fraction) -> list[int]:
    source = Source(SeededEntropy(seed))
    values: list[int] = []
    offset = Fraction(1, 2) if law is GAUSS else Fraction(0)
    while len(values) < n:
        strip, u, negative = starved_draw(law, source)
        floor = exact_floor(strip, u, law.digits, scale, offset)
        if law is EXPONENTIAL and negative and floor == 0:
            continue
        values.append(-floor if negative else floor)
    return values


@LAWS
def test_starved(law: Strips) -> None:
    """The only statistical test of the branches that extend a prefix; the same draws refute a scale 30 % off."""
    n = 8000
    values = starved(law, n, 1, Fraction(3))
    pmf = rounded_gaussian_pmf if law is GAUSS else laplace_pmf
    assert agrees(values, pmf(Fraction(3)), n)
    assert not agrees(values, pmf(Fraction(39, 10)), n)


@pytest.mark.slow
@LAWS
def test_starved_long(law: Strips) -> None:
    n = 60_000
    pmf = rounded_gaussian_pmf if law is GAUSS else laplace_pmf
    assert agrees(starved(law, n, 2, Fraction(3)), pmf(Fraction(3)), n)


def forced(seed: int) -> Source:
    return Source(SeededEntropy(seed), force_scalar=True)


def test_forced_fallback() -> None:
    """Every trial, floor and coin decided by the slow method: the same laws."""
    n = 8000
    source = forced(4)
    assert agrees(rounded_gaussian(n, Fraction(3), source), rounded_gaussian_pmf(Fraction(3)), n)
    assert source.fallbacks["strip"] >= n
    assert source.fallbacks["floor"] >= n
    values = discrete_laplace(n, Fraction(3), forced(5))
    assert agrees(values, laplace_pmf(Fraction(3)), n)
    assert min(p_values(values, laplace_pmf(Fraction(39, 10)), n)) < 1e-9


def test_forced_and_fast_agree_on_the_same_words() -> None:
    """The first batch reads the same words: strips and decisions must be equal trial by trial."""
    for law in (GAUSS, EXPONENTIAL):
        fast, fast_kept = run_trials(law, 300, Source(SeededEntropy(6)))
        slow, slow_kept = run_trials(law, 300, forced(6))
        assert fast.words.tolist() == slow.words.tolist()
        squeezed = [t for t in range(300) if settled_at_once_of(law, t)]
        assert [int(fast.strip[t]) for t in squeezed] == [slow.deep[t][0] for t in squeezed]
        assert all(fast_kept[t] and slow_kept[t] for t in squeezed)


def settled_at_once_of(law: Strips, trial: int) -> bool:
    first = int(Source(SeededEntropy(6)).words32(300)[trial])
    return settled_at_once(law, first >> 15 & 0xFFFF, first & 0x7FFF)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "parameter", "pmf"),
    [
        (rounded_gaussian, 3, rounded_gaussian_pmf),
        (discrete_laplace, 3, laplace_pmf),
        (discrete_gaussian, 9, discrete_gaussian_pmf),
    ],
)
def test_forced_fallback_long(sampler, parameter: int, pmf) -> None:  # type: ignore[no-untyped-def]
    n = 100_000
    assert agrees(sampler(n, Fraction(parameter), forced(7)), pmf(Fraction(parameter)), n)
