"""Covariance: the default method against the paper's and plain noise, with good and bad predictions. Simulated rows.

Simulated rows: N(0, Q diag(1/i) Qᵀ) with mean squared length 0.64, clipped to 1. Errors are medians of Frobenius errors
against the exact matrix of the clipped rows, over fresh releases; neighbours replace a row, the number of rows is
public. "Printed" baselines are the paper's algorithms with the paper's constants, in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

import sidelight as sl
from benchmarks.measuring import print_figures, sized

RUNS = sized(24, 1)


def spectrum(d: int) -> np.ndarray:
    """Return eigenvalues proportional to 1/i with sum 0.64."""
    return 0.64 / np.arange(1, d + 1) / (1 / np.arange(1, d + 1)).sum()


def clipped(rows: np.ndarray) -> np.ndarray:
    """Shorten rows to length 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1), 1.0)[:, None]


@cache
def world(d: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return private rows, the matrix of 200 public rows, and a bad prediction: a rotated matrix of the same law."""
    rng = np.random.default_rng(d * 1_000_003 + n)
    rotation, other = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
    root = (rotation * np.sqrt(spectrum(d))) @ rotation.T
    rows, public = (clipped(rng.standard_normal((size, d)) @ root) for size in (n, 200))
    return rows, public.T @ public / 200, (other * spectrum(d)) @ other.T


def table_of(rows: np.ndarray) -> sl.Table:
    """Declare the columns."""
    return sl.Table(rows, schema=[sl.Number(f"x{place}") for place in range(rows.shape[1])])


def median_error(query: sl.Covariance, rows: np.ndarray, *, runs: int = RUNS) -> float:
    """Return the median Frobenius error of releases through the pipeline."""
    table, truth = table_of(rows), rows.T @ rows / len(rows)
    return float(np.median([np.linalg.norm(query.release(table).value["matrix"] - truth) for _ in range(runs)]))


def printed_error(method: Callable[[np.ndarray, np.random.Generator], np.ndarray], rows: np.ndarray) -> float:
    """Return the median Frobenius error of a baseline that takes the exact matrix."""
    truth, rng = rows.T @ rows / len(rows), np.random.default_rng(7)
    return float(np.median([np.linalg.norm(method(truth, rng) - truth) for _ in range(RUNS)]))


def mirrored(draws: np.ndarray) -> np.ndarray:
    """Mirror the upper triangle."""
    return np.triu(draws) + np.triu(draws, 1).T


def printed_separate_zcdp(n: int, rho: float, prediction: np.ndarray) -> Callable[..., np.ndarray]:
    """Algorithm 6 as printed: half the budget each, the same variance on and off the diagonal."""
    deviation = np.sqrt(2 / rho) / n

    def run(matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        difference, d = matrix - prediction, len(matrix)
        values = np.linalg.eigvalsh(difference) + rng.normal(0, deviation, d)
        vectors = np.linalg.eigh(difference + mirrored(rng.normal(0, deviation, (d, d))))[1]
        return (vectors * values) @ vectors.T + prediction

    return run


def printed_gauss(n: int, rho: float) -> Callable[..., np.ndarray]:
    """The paper's plain noise: the same variance on every entry of the upper triangle."""
    return lambda matrix, rng: matrix + mirrored(rng.normal(0, 1 / (n * np.sqrt(rho)), matrix.shape))


def printed_separate_pure(n: int, epsilon: float) -> Callable[..., np.ndarray]:
    """Algorithm 1 as printed with W = 0: Laplace noise for the eigenvalues and on the upper triangle, scale d√2."""

    def run(matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        d = len(matrix)
        values = np.linalg.eigvalsh(matrix) + rng.laplace(0, 4 / (epsilon * n), d)
        noise = mirrored(rng.laplace(0, 2 * d * np.sqrt(2) / (epsilon * n), (d, d)))
        vectors = np.linalg.eigh(matrix + noise)[1]
        return (vectors * values) @ vectors.T

    return run


def measure() -> dict[str, float]:
    """Return errors and ratios by name."""
    d, n = 50, 2000
    rows, public, bad = world(d, n)

    def ours(**settings: object) -> float:
        return median_error(sl.Covariance(radius=1, rho="0.5", rows=n, **settings), rows)  # type: ignore[arg-type]

    goe = ours(method="gauss", project=False)
    figures = {
        "goe": goe,
        "paper_gauss": printed_error(printed_gauss(n, 0.5), rows),
        "paper_separate_public": printed_error(printed_separate_zcdp(n, 0.5, public), rows),
        "separate_public": ours(method="separate", prediction=public),
        "denoise_zero": ours(),
        "denoise_public": ours(prediction=public),
        "denoise_bad": ours(prediction=bad),
    }
    figures["denoise_vs_paper"] = figures["denoise_public"] / figures["paper_separate_public"]
    figures["denoise_vs_goe"] = figures["denoise_public"] / goe
    figures["bad_vs_goe"] = figures["denoise_bad"] / goe
    many, _, _ = world(d, 20_000)
    pure = median_error(sl.Covariance(radius=1, epsilon=1, rows=20_000), many)
    printed = printed_error(printed_separate_pure(20_000, 1.0), many)
    return figures | {"pure_denoise": pure, "pure_printed": printed, "pure_vs_printed": pure / printed}


def main() -> None:
    """Print all figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()
