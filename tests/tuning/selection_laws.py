"""The exact law of a selection over a finite mechanism, written down independently of the package: no sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.dps = 40


@dataclass(frozen=True)
class Pgf:
    """The generating function of a number of runs; `zero` is its chance of no run."""

    name: str
    eta: float | None = None
    gamma: float | None = None
    mean: float | None = None
    fixed: int | None = None

    def __call__(self, x: mp.mpf) -> mp.mpf:
        if self.fixed is not None:
            return x**self.fixed
        if self.mean is not None:
            return mp.exp(self.mean * (x - 1))
        assert self.eta is not None
        assert self.gamma is not None
        g, rest = mp.mpf(self.gamma), 1 - (1 - mp.mpf(self.gamma)) * x
        if self.eta == 0:
            return mp.log(rest) / mp.log(g)
        return (rest ** (-self.eta) - 1) / (g ** (-self.eta) - 1)


def selected(masses: Sequence[float], pgf: Pgf) -> list[mp.mpf]:
    """P(best = i) = f(P(<= i)) - f(P(< i)), outcomes in the order of their scores; no run at all comes first."""
    total, law = mp.mpf(0), [pgf(mp.mpf(0))]
    for mass in masses:
        law.append(pgf(total + mass) - pgf(total))
        total += mass
    return law


def hockey_stick(p: Sequence[mp.mpf], q: Sequence[mp.mpf], x: float) -> float:
    return float(sum((max(a - mp.exp(x) * b, 0) for a, b in zip(p, q, strict=True)), mp.mpf(0)))


def both_ways(p: Sequence[mp.mpf], q: Sequence[mp.mpf], x: float) -> float:
    return max(hockey_stick(p, q, x), hockey_stick(q, p, x))


def largest_loss(p: Sequence[mp.mpf], q: Sequence[mp.mpf]) -> float:
    return float(max(abs(mp.log(a / b)) for a, b in zip(p, q, strict=True) if a > 0 or b > 0))


def renyi(p: Sequence[mp.mpf], q: Sequence[mp.mpf], order: float) -> float:
    moment = sum((a**order * b ** (1 - order) for a, b in zip(p, q, strict=True) if a > 0), mp.mpf(0))
    return float(mp.log(moment) / (order - 1))


def randomised_response(epsilon: float, outcomes: int, place: int) -> np.ndarray:
    """One outcome is e^epsilon times as likely as each of the others."""
    masses = np.ones(outcomes)
    masses[place] = np.exp(epsilon)
    return masses / masses.sum()


def rounded_gaussian_masses(centre: float, scale: float, outcomes: int) -> list[mp.mpf]:
    """N(centre, scale²) rounded to 0..outcomes-1, the ends collecting the tails: a post-processing of the Gaussian."""
    edges = [mp.ncdf((k - mp.mpf("0.5") - centre) / scale) for k in range(1, outcomes)]
    return [b - a for a, b in zip([mp.mpf(0), *edges], [*edges, mp.mpf(1)], strict=True)]
