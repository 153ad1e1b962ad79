"""The number of runs: exact laws by enumeration of coins, by frequency with a law 30 % off that fails, means."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sidelight.errors import RangeError
from sidelight.noise import Source
from sidelight.testing import SeededEntropy
from sidelight.tuning import Poisson, Runs, TruncatedNegativeBinomial, geometric, logarithmic

LAWS: list[Runs] = [
    geometric(15),
    logarithmic(10),
    TruncatedNegativeBinomial("0.5", gamma="0.0625"),
    TruncatedNegativeBinomial("-1/2", gamma="1/15"),
    TruncatedNegativeBinomial("5/2", gamma="0.2"),
    TruncatedNegativeBinomial(3, gamma="1/4"),
    Poisson("0.3"),
    Poisson(10),
    Poisson("15.4"),
]


def masses(law: Runs, last: int = 3000) -> np.ndarray:
    """The definition, in floats: P(K = k) for k = 0..last."""
    k = np.arange(last + 1)
    if isinstance(law, Poisson):
        return np.asarray(stats.poisson(float(law.rate)).pmf(k))
    eta, gamma = float(law.eta), float(law.gamma)
    with np.errstate(divide="ignore"):
        if eta == 0:
            found = (1 - gamma) ** k / (k * math.log(1 / gamma))
        else:
            product = np.concatenate([[1.0], np.cumprod((k[:-1] + eta) / (k[:-1] + 1))])
            found = (1 - gamma) ** k / (gamma**-eta - 1) * product
    found[0] = 0.0
    return found


def p_value(law: Runs, drawn: np.ndarray) -> float:
    """Chi-square over cells of about equal mass, each expected at least 100 times."""
    found = masses(law)
    cells = np.floor(np.cumsum(found) * 20).clip(0, 19).astype(int)
    expected = np.bincount(cells, weights=found) * len(drawn)
    observed = np.bincount(cells[np.minimum(drawn, 3000)], minlength=len(expected)).astype(float)
    used = expected > 0
    cost = (observed[used] - expected[used]) ** 2 / expected[used]
    return float(stats.chi2.sf(cost.sum(), used.sum() - 1)) if not observed[~used].any() else 0.0


@pytest.mark.parametrize("law", [*LAWS, Poisson(1), Poisson("1e-9"), Poisson("1e-400")], ids=str)
def test_the_mean_of_some_runs_is_that_of_the_law_without_zero(law: Runs) -> None:
    found = masses(law)
    some = found[0] < 1 and (np.arange(len(found)) * found).sum() / found[1:].sum()
    assert law.mean_of_some() == pytest.approx(some or 1.0, rel=1e-6)


def with_mean_off_by_thirty_percent(law: Runs) -> Runs:
    if isinstance(law, Poisson):
        return Poisson(law.rate * Fraction(13, 10))
    gamma = law.gamma
    while float(TruncatedNegativeBinomial(str(law.eta), gamma=gamma).mean().upper) < 1.3 * float(law.mean().upper):
        gamma *= Fraction(99, 100)
    return TruncatedNegativeBinomial(str(law.eta), gamma=gamma)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_frequencies_follow_the_law_and_not_one_thirty_percent_off(law: Runs) -> None:
    source = Source(SeededEntropy(str(law)))
    drawn = np.array([law.draw(source) for _ in range(3500)])
    assert p_value(law, drawn) > 1e-8
    assert p_value(with_mean_off_by_thirty_percent(law), drawn) < 1e-8
    assert isinstance(law, Poisson) or (drawn > 0).all()


class ScriptedCoins:
    """Follow a script of coin results; record the probability of the path."""

    def __init__(self, script: list[bool]) -> None:
        self.script, self.place, self.probability = script, 0, Fraction(1)

    def flip(self, p: int, q: int, source: object) -> bool:
        del source
        if self.place == len(self.script):
            raise LookupError
        result = self.script[self.place]
        self.place += 1
        self.probability *= Fraction(p, q) if result else 1 - Fraction(p, q)
        return result


@pytest.mark.parametrize(
    "law", [geometric(3), TruncatedNegativeBinomial(0, gamma="1/3"), Poisson("0.4"), Poisson("1/2")]
)
def test_every_short_path_of_coins_has_the_weight_that_the_law_says(law: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sum the exact probabilities of all paths of at most 13 coins that never start again: they are ∝ P(K = k)."""
    import sidelight.tuning.runs as module

    found: dict[int, Fraction] = {}
    for length in range(1, 14):
        for bits in range(2**length):
            script = [bool(bits >> i & 1) for i in range(length)]
            if any(script[:-1:2]):  # a path that stops earlier, or (at odd places) starts again, is counted elsewhere
                continue
            coins = ScriptedCoins(script)
            monkeypatch.setattr(module, "bernoulli", coins.flip)
            try:
                k = law.draw(Source(SeededEntropy(0)))
            except LookupError:
                continue
            if coins.place == length and all(script[1::2]):
                found[k] = found.get(k, Fraction(0)) + coins.probability
    assert len(found) >= 3
    first, expected = min(found), masses(law)
    for k, weight in found.items():
        if weight:
            assert float(weight / found[first]) == pytest.approx(expected[k] / expected[first], rel=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_means(law: Runs) -> None:
    expected = float((np.arange(3001) * masses(law)).sum())
    assert float(law.mean().lower) <= expected * (1 + 1e-9)
    assert float(law.mean().upper) == pytest.approx(expected, rel=1e-9)


def test_reference_means() -> None:
    assert float(TruncatedNegativeBinomial(0, gamma="1/30").mean().upper) == pytest.approx(8.526409, rel=1e-6)
    assert float(logarithmic(10).gamma) == pytest.approx(0.02691826, rel=1e-6)
    assert masses(logarithmic(10))[1] == pytest.approx(0.27, abs=0.005)
    assert 1 - stats.poisson(15.4).cdf(10) == pytest.approx(0.8997, abs=5e-5)
    assert geometric(15).mean().upper == 15


def test_mistakes_are_named() -> None:
    for wrong in [
        lambda: TruncatedNegativeBinomial(-1, gamma="0.5"),
        lambda: TruncatedNegativeBinomial(17, gamma="0.5"),
    ]:
        with pytest.raises(RangeError, match="eta"):
            wrong()
    for gamma in (0, 1, "1e-9", 2):
        with pytest.raises(RangeError, match="gamma"):
            TruncatedNegativeBinomial(1, gamma=gamma)
    for tiny in ("1e-81", "-1e-90"):
        with pytest.raises(RangeError, match="0 is the logarithmic law"):
            TruncatedNegativeBinomial(tiny, gamma="0.1")
    assert logarithmic(72382).mean_text == "72382"
    with pytest.raises(RangeError, match="mean of a logarithmic number must be at most 72382, got 72383"):
        logarithmic(72383)
    with pytest.raises(RangeError, match="mean"):
        geometric(1)
    with pytest.raises(RangeError, match="mean"):
        Poisson(0)
