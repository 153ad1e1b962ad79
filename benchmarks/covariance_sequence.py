"""What would a private learner of covariances along a sequence gain? Simulated noise (NOT PRIVATE), one cost a day.

from benchmarks.measuring import sized


Three ways to know today's second moments before today is released: the last release; the mean of all releases, which is
free; and the Schatten-regularised learner of the specification (private gradients of the trace-norm error, a tenth of
rho, square-root sums over all days, its step the best of nine in hindsight, which flatters it). Mean trace-norm error
of the prediction over the second half of the days. Run: `python -m benchmarks.covariance_sequence`.
"""

from __future__ import annotations

import numpy as np

from benchmarks.measuring import sized

DAYS, COLUMNS, RHO, SHARE = sized(365, 6), 8, 0.005, 0.1


def days_of(rows: int, moving: float, rng: np.random.Generator) -> np.ndarray:
    """Return the second moments of every day: rows of length at most 1, whose mixing drifts."""
    mixing = np.diag(1 / np.arange(1, COLUMNS + 1)) @ np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0]
    found = []
    for _ in range(DAYS):
        mixing = mixing + moving * rng.standard_normal(mixing.shape)
        x = rng.standard_normal((rows, COLUMNS)) @ mixing
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
        found.append(x.T @ x / rows)
    return np.array(found)


def schatten(gradient: np.ndarray, *, step: float, strength: float | None = None) -> np.ndarray:
    """Return the matrix that minimises strength/2 |W|_p² + step <gradient, W>, p = 1 + 1/log d.

    >>> wanted = schatten(np.array([[2, 1, 0], [1, -1, 0.5], [0, 0.5, 0.25]]), step=0.7)
    >>> bool(abs(wanted[0, 0] + 0.418948543581) < 1e-9)
    True
    """
    size = len(gradient)
    power = 1 + np.log(size)
    values, vectors = np.linalg.eigh(gradient)
    norm = (np.abs(values) ** power).sum() ** (1 / power)
    if norm == 0:
        return np.zeros_like(gradient)
    shrunk = np.sign(values) * np.abs(values) ** (power - 1) * norm ** (2 - power)
    return np.asarray(-step / (strength or 3 * np.log(size)) * (vectors * shrunk) @ vectors.T)


def noisy(matrix: np.ndarray, deviation: float, rng: np.random.Generator) -> np.ndarray:
    """Return a symmetric matrix with Gaussian noise that has this deviation off the diagonal, √2 times it on it."""
    noise = rng.standard_normal(matrix.shape) * deviation
    return matrix + (noise + noise.T) / np.sqrt(2)


def trace_norm(matrix: np.ndarray) -> float:
    """Return the sum of the absolute eigenvalues."""
    return float(np.abs(np.linalg.eigvalsh(matrix)).sum())


def learned(days: np.ndarray, *, step: float, rng: np.random.Generator) -> float:
    """Return the error of the private learner: gradients of Frobenius norm √d, which one row can turn around."""
    weights = np.cumprod(np.r_[1, (2 * np.arange(1, DAYS) - 1) / (2 * np.arange(1, DAYS))])
    deviation = 2 * np.sqrt(COLUMNS) * np.sqrt((weights**2).sum()) / np.sqrt(2 * SHARE * RHO)
    fresh = [noisy(np.zeros((COLUMNS, COLUMNS)), deviation, rng) for _ in range(DAYS)]
    total, expected, errors = np.zeros((COLUMNS, COLUMNS)), np.zeros((COLUMNS, COLUMNS)), []
    for t, truth in enumerate(days):
        values, vectors = np.linalg.eigh(expected - truth)
        errors.append(np.abs(values).sum())
        total += (vectors * np.sign(values)) @ vectors.T
        noise = sum(weights[t - s] * fresh[s] for s in range(t + 1))
        expected = schatten(total + noise, step=step)
    return float(np.mean(errors[DAYS // 2 :]))


def compare(rows: int, moving: float, seed: int) -> dict[str, float]:
    """Return the mean error of every prediction over the second half of the days."""
    rng = np.random.default_rng(seed)
    days = days_of(rows, moving, rng)
    released = np.array([noisy(truth, 1 / np.sqrt(2 * RHO) / rows, rng) for truth in days])
    mean = np.cumsum(released, axis=0) / np.arange(1, DAYS + 1)[:, None, None]
    half = range(DAYS // 2, DAYS)
    steps = 10.0 ** np.arange(-6, 3)
    return {
        "last release": float(np.mean([trace_norm(released[t - 1] - days[t]) for t in half])),
        "mean of releases": float(np.mean([trace_norm(mean[t - 1] - days[t]) for t in half])),
        "Schatten learner": min(learned(days, step=step, rng=np.random.default_rng(seed + 1)) for step in steps),
        "nothing": float(np.mean([trace_norm(days[t]) for t in half])),
    }


def main() -> None:
    """Print the table."""
    print(f"trace-norm error of the prediction, {DAYS} days, {COLUMNS} columns, rho {RHO} a day")
    for rows in (200, 2000, 20_000):
        for moving in (0.0, 0.003):
            found = compare(rows, moving, rows)
            cells = "  ".join(f"{name} {error:.3f}" for name, error in found.items())
            print(f"  {rows:6d} rows, drift {moving:g}: {cells}", flush=True)


if __name__ == "__main__":
    main()
