"""Linear regression where declared ranges are wide: R², and how often the error that a release states did not hold.

Eight columns of about 22,000 +- 9,000 declared 0..1,000,000 (20,000 rows, epsilon 1, R² of 0.74 possible), as a table;
and generated sets of linear_predictions with rows that are short, far from zero, narrow in some columns, rare, or long
tailed (without a target: no released number shows how far away the last rows are).
The error is counted from least squares on all rows, in the root mean square over test rows. No seed here chose a rule.
"""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.linear_predictions import SHAPES, generated_set
from benchmarks.measuring import print_figures

DELTA = "1e-6"
FIRST_SEED = 31_200_000
ROWS, COLUMNS, UPPER, R2 = 20_000, 8, 1e6, 0.74
FITS = 20
#: Sets of each shape in each cell: rows, columns, epsilon.
SETS = 10
CELLS = ((800, 8, 1.0), (3000, 20, 0.3), (3000, 20, 1.0), (12_000, 20, 1.0), (20_000, 8, 1.0))
LAWS = ("as declared", "short", "far", "wide", "mixed", "rare")
#: Half of the columns are fifth powers: a few rows are far longer than all others. Stated errors do not cover that.
TAILS = "tails"


def table_r2(seed: int) -> float:
    """Return R² on new rows of a model of a table with wide ranges."""
    import sidelight as sl

    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(22_000, 9_000, (ROWS + 4000, COLUMNS)), 0, UPPER)
    signal = (x - 22_000) @ rng.normal(size=COLUMNS)
    y = np.sqrt(R2) * signal / signal.std() + np.sqrt(1 - R2) * rng.normal(size=len(x))
    y = np.clip(50 + 10 * y, 0, 100)
    names = [f"x{place}" for place in range(COLUMNS)]
    schema = [*(sl.Number(name, lower=0, upper=int(UPPER)) for name in names), sl.Number("y", lower=0, upper=100)]

    def table(part: slice) -> sl.Table:
        return sl.Table({**dict(zip(names, x[part].T, strict=True)), "y": y[part]}, schema=schema)

    model = sl.LinearRegression(epsilon=1, delta=DELTA).fit_table(table(slice(ROWS)), target="y")
    told, tested = model.predict(table(slice(ROWS, None))), y[ROWS:]
    return float(1 - np.mean((told - tested) ** 2) / tested.var())


def rows_of(law: str, rows: np.ndarray) -> np.ndarray:
    """Return well-declared rows as those of another law; no entry is beyond 1/√columns."""
    columns = rows.shape[1]
    unit = columns**-0.5
    if law == "short":
        return rows * 0.05
    if law == "far":
        return 0.8 * unit + 0.2 * rows
    if law == "wide":
        return -0.95 * unit + 0.03 * rows
    if law == "mixed":
        return rows * np.where(np.arange(columns) % 2, 1, 0.02)
    if law == TAILS:
        return np.where(np.arange(columns) % 2, rows, (rows / unit) ** 5 * unit)
    if law == "rare":
        some = columns // 2
        chances = np.geomspace(0.002, 0.05, some)
        limits = [np.quantile(rows[:, place], 1 - chance) for place, chance in enumerate(chances)]
        return np.column_stack([np.where(rows[:, :some] > limits, unit, -unit), rows[:, some:]])
    return rows


def refuted(law: str, shape: str, seed: int, cell: tuple[int, int, float]) -> tuple[bool, float]:
    """Return whether the error that a release states at 95 % is too small, and its R²."""
    import sidelight as sl

    n, d, epsilon = cell
    data = generated_set(shape, seed, rows=n, columns=d, public=max(20, n // 9))
    rows = rows_of(law, np.vstack([data.rows, data.test[0]]))
    targets = np.clip(np.concatenate([data.targets, data.test[1]]), *data.target_range)
    model = sl.LinearRegression(epsilon=epsilon, delta=DELTA, data_norm=1, target_range=data.target_range)
    model.fit(rows[:n], targets[:n])
    whole = np.column_stack([rows, np.ones(len(rows))])
    best = (whole @ np.linalg.lstsq(whole, targets, rcond=None)[0])[n:]
    told = rows[n:] @ model.coef_.ravel() + float(np.ravel(model.intercept_)[0])
    tested = targets[n:]
    off = float(np.sqrt(np.mean((told - best) ** 2)))
    r2 = float(1 - np.mean((model.predict(rows[n:]) - tested) ** 2) / tested.var())
    return off > float(model.release_.error.at(0.95)[0]), r2


def measure() -> dict[str, float]:
    """Return R² of the table, and the largest share of refuted errors of a law."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that noise is large
        r2 = [table_r2(FIRST_SEED + fit) for fit in range(FITS)]
        print(f"R² of {FITS} tables: mean {np.mean(r2):.3f}, least {np.min(r2):.3f}", flush=True)
        refuted_by_law = {}
        for law in (*LAWS, TAILS):
            shares = []
            for place, cell in enumerate(CELLS):
                seeds = range(FIRST_SEED + 100 * place, FIRST_SEED + 100 * place + SETS)
                found = [refuted(law, shape, seed, cell) for shape in SHAPES for seed in seeds]
                shares.append([np.mean([each[0] for each in found]), np.mean([each[1] for each in found])])
            told = "  ".join(f"{missed:.2f} (R² {score:.2f})" for missed, score in shares)
            print(f"{law:12s} errors refuted: {told}", flush=True)
            refuted_by_law[law] = float(np.mean([missed for missed, _ in shares]))
    tails = refuted_by_law.pop(TAILS)
    return {"r2": float(np.mean(r2)), "errors_refuted": max(refuted_by_law.values()), "tails_errors_refuted": tails}


def main() -> None:
    """Print every figure."""
    print_figures(measure())


if __name__ == "__main__":
    main()
