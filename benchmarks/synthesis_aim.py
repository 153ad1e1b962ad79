"""AIM (McKenna et al., 2022) in NumPy with our fit, for machines on which no packaged one can be installed.

The published algorithm, step by step as smartnoise-synth writes it (one-way marginals first, weighted scores, noise
that halves when a round teaches nothing, a last round with what is left), with our refit in place of a graphical model:
both fit the same squared errors with the largest entropy. Not private: ordinary random numbers.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import pi, sqrt

import numpy as np

from benchmarks.synthesis_data import Case, adult
from sidelight.guarantees.conversions import zcdp_within
from sidelight.noise import OSEntropy, Source
from sidelight.synthesis.domain import Domain, Mass
from sidelight.synthesis.measurement import MarginalMeasurement
from sidelight.synthesis.refit import Refit
from sidelight.synthesis.spaces import DenseSpace
from sidelight.synthesis.synthetic_rows import sample_codes
from sidelight.synthesis.workload import Marginal

ROUNDS_PER_COLUMN = 16
#: So small that the fit is the one of largest entropy.
PRIOR_WEIGHT = 0.002


def aim_rows(case: Case, *, epsilon: float, delta: float, seed: int = 0) -> np.ndarray:
    """Return synthetic rows of AIM."""
    rng = np.random.default_rng(seed)
    domain = Domain(case.names, case.sizes)
    rows = len(case.private)
    rho = float(zcdp_within(Fraction(str(epsilon)), Fraction(str(delta))))
    pairs = [Marginal(pair) for pair in combinations(case.names, 2)]
    singles = [Marginal((name,)) for name in case.names]
    weights = {each: float(sum(len({*each.columns} & {*pair.columns}) for pair in pairs)) for each in singles + pairs}
    exact = {each: _counts(domain, case.private, each) for each in weights}
    space = DenseSpace(domain)
    model = Refit(space, np.full(domain.cells, 1 / domain.cells), rows=rows, prior_weight=PRIOR_WEIGHT)

    rounds = ROUNDS_PER_COLUMN * len(case.names)
    sigma, selection = sqrt(rounds / (1.8 * rho)), sqrt(0.8 * rho / rounds)
    for each in singles:
        model.add(_noisy(exact[each], each, sigma, rng))
    model.fit(sweeps=5)
    used, last = len(singles) * 0.5 / sigma**2, False
    while not last:
        if rho - used < 2 * (0.5 / sigma**2 + selection**2 / 8):
            left = rho - used
            sigma, selection, last = sqrt(1 / (1.8 * left)), sqrt(0.8 * left), True
        used += 0.5 / sigma**2 + selection**2 / 8
        candidates = list(weights)
        expected = dict(zip(candidates, space.marginals(model.weights, candidates), strict=True))
        scores = np.array(
            [
                weights[each]
                * (np.abs(exact[each] - rows * expected[each]).sum() - sqrt(2 / pi) * sigma * exact[each].size)
                for each in candidates
            ]
        )
        chances = np.exp(0.5 * selection / max(weights.values()) * (scores - scores.max()))
        chosen = candidates[rng.choice(len(candidates), p=chances / chances.sum())]
        model.add(_noisy(exact[chosen], chosen, sigma, rng))
        model.fit(sweeps=3)
        (after,) = space.marginals(model.weights, [chosen])
        if rows * np.abs(after - expected[chosen]).sum() <= sigma * sqrt(2 / pi) * exact[chosen].size:
            sigma, selection = sigma / 2, selection * 2
    model.fit(sweeps=40)
    with Source(OSEntropy()) as source:
        return sample_codes(Mass.of(domain, model.weights, size=rows), rows, source)


def _counts(domain: Domain, rows: np.ndarray, marginal: Marginal) -> np.ndarray:
    cells = np.bincount(domain.ravel(rows, marginal.columns), minlength=domain.cells_of(marginal.columns))
    return cells.reshape(domain.shape_of(marginal.columns))


def _noisy(exact: np.ndarray, marginal: Marginal, sigma: float, rng: np.random.Generator) -> MarginalMeasurement:
    return MarginalMeasurement(
        marginal=marginal,
        values=exact + rng.normal(0, sigma, exact.shape),
        law="gaussian",
        scale=sigma,
        deviation=sigma,
        mean_error=sigma * sqrt(2 / pi),
    )


def main() -> None:
    """Print its error on Adult at (1, 1e-6)."""
    case = adult()
    print(f"aim_in_numpy_error {case.error(aim_rows(case, epsilon=1.0, delta=1e-6)):.4g}")


if __name__ == "__main__":
    main()
