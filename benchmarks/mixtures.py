"""Mixtures of separated Gaussians: how often all components are found, and how often what is not there is refused.

Generated rows: means in random directions at a pairwise distance of at least the separation, all far from the
origin; covariance eigenvalues from U(0.1, 1) in random rotations; weights from Dirichlet(8, ..., 8), none below half of
1/k. 40 runs each, every one with rows, public rows and noise of its own; 12 public rows for each component, rho = 0.5.
Run `python -m benchmarks.mixtures` for the table of separations, against public rows alone and the rows' true labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import sidelight as sl
from benchmarks.measuring import sized
from sidelight.errors import RangeError

RUNS = sized(40, 1)
COMPONENTS, COLUMNS, ROWS, EACH, RHO = 4, sized(20, 4), sized(20_000, 2_000), 12, "0.5"
#: A component counts as found when its mean is off by less, in its own standard deviations.
NEAR = 0.5


@dataclass(frozen=True)
class Mixture:
    """A generated mixture: means, roots of the covariances, weights."""

    means: np.ndarray
    roots: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, k: int, d: int, separation: float, rng: np.random.Generator) -> Mixture:
        """Draw one."""
        while True:
            ways = rng.standard_normal((k, d))
            ways /= np.linalg.norm(ways, axis=1)[:, None]
            means = ways * separation * rng.uniform(0.71, 1.31, k)[:, None]
            between = np.linalg.norm(means[:, None] - means[None], axis=2)[np.triu_indices(k, 1)]
            if k == 1 or between.min() >= separation:
                break
        roots = [np.linalg.qr(rng.standard_normal((d, d)))[0] * np.sqrt(rng.uniform(0.1, 1, d)) for _ in range(k)]
        while True:
            weights = rng.dirichlet(np.full(k, 8.0))
            if weights.min() >= 0.5 / k:
                return cls(means + 1000 * rng.standard_normal(d), np.stack(roots), weights)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows and their components."""
        labels = rng.choice(len(self.weights), n, p=self.weights)
        rows = rng.standard_normal((n, self.means.shape[1]))
        for place, root in enumerate(self.roots):
            here = labels == place
            rows[here] = rows[here] @ root.T + self.means[place]
        return rows, labels

    def errors(self, means: np.ndarray, covariances: np.ndarray) -> tuple[float, float]:
        """Return the worst component's Mahalanobis error of the mean and Frobenius error of the covariance."""
        away = np.linalg.norm(means[:, None] - self.means[None], axis=2)
        worst_mean = worst_covariance = 0.0
        for found, true in zip(*linear_sum_assignment(away), strict=True):
            inverse = np.linalg.inv(self.roots[true])
            worst_mean = max(worst_mean, float(np.linalg.norm(inverse @ (means[found] - self.means[true]))))
            white = inverse @ covariances[found] @ inverse.T
            worst_covariance = max(worst_covariance, float(np.linalg.norm(white - np.eye(len(white)))))
        return worst_mean, worst_covariance


@dataclass(frozen=True)
class Result:
    """Of all runs: refused (before or after the charge), all components found, accepted and wrong; errors."""

    refused: float
    matched: float
    wrong: float
    mean_error: float
    covariance_error: float
    oracle_mean_error: float
    oracle_covariance_error: float


@cache
def runs(
    separation: float,
    *,
    asked: int = COMPONENTS,
    k: int = COMPONENTS,
    d: int = COLUMNS,
    n: int = ROWS,
    each: int = EACH,
    rho: str = RHO,
    method: Any = "auto",
    count: int = RUNS,
) -> Result:
    """Fit fresh mixtures through the pipeline."""
    refused = matched = wrong = 0
    errors, oracle = [], []
    for seed in range(count):
        rng = np.random.default_rng([seed, k, d, int(1000 * separation)])
        mixture = Mixture.of(k, d, separation, rng)
        (rows, labels), (public, _) = mixture.draw(n, rng), mixture.draw(k * each, rng)
        model = sl.GaussianMixture(asked, prediction=public, rho=rho, method=method)
        try:
            model.fit(rows)
        except RangeError as error:  # the public rows alone said no: refused, and free
            if "nothing was charged" not in str(error):
                raise
            refused += 1
            continue
        if isinstance(model.outcome_, sl.Refused):
            refused += 1
            continue
        found = mixture.errors(model.means_, model.covariances_)
        right = found[0] < NEAR and asked == k
        matched, wrong = matched + right, wrong + (not right)
        errors.append(found)
        parts = [rows[labels == place] for place in range(k)]
        oracle.append(mixture.errors(np.stack([p.mean(axis=0) for p in parts]), np.stack([np.cov(p.T) for p in parts])))
    middle = np.median(errors, axis=0) if errors else (np.nan, np.nan)
    best = np.median(oracle, axis=0) if oracle else (np.nan, np.nan)
    return Result(refused / count, matched / count, wrong / count, *map(float, middle), *map(float, best))


def measure() -> dict[str, float]:
    """Return the shares that the targets are about."""
    far, more = runs(6.0), runs(6.0, asked=COMPONENTS + 1)
    near = [runs(separation) for separation in (1.0, 2.0)]
    return {
        "matched_at_6": far.matched,
        "wrong_at_6": far.wrong,
        "mean_error_vs_oracle_at_6": far.mean_error / far.oracle_mean_error,
        "refused_at_2_or_less": min(each.refused for each in near),
        "refused_one_too_many": more.refused,
    }


def main() -> None:
    """Print the table."""
    print("k, d, n, public each, rho, separation: refused / all found / wrong; mean and covariance error; true labels")
    for k, d, n, each, rho, method in (
        (4, 20, 20_000, 12, "0.5", "auto"),
        (4, 20, 20_000, 60, "0.5", "auto"),
        (4, 20, 20_000, 12, "0.5", "recursive"),
        (4, 10, 20_000, 12, "0.1", "auto"),
        (3, 5, 10_000, 8, "0.5", "auto"),
    )[sized(0, 4) :]:
        for separation in (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0)[: sized(None, 1)]:
            found = runs(separation, asked=k, k=k, d=d, n=n, each=each, rho=rho, method=method, count=sized(12, 1))
            print(
                f"{k}, {d}, {n}, {each}, {rho}, {method}, {separation:g}: {12 * found.refused:.0f} / "
                f"{12 * found.matched:.0f} / {12 * found.wrong:.0f}; {found.mean_error:.3f} "
                f"{found.covariance_error:.3f}; {found.oracle_mean_error:.3f} {found.oracle_covariance_error:.3f}"
            )


if __name__ == "__main__":
    main()
