"""Sets for linear classifiers, prepared without a look at other rows: norm at most 1, labels 0 and 1, or ten digits.

Categories and ranges come from outside the rows: what a field of a census, a pixel or a count can hold, or, for
breast_cancer, ranges that were typed in by hand; all from general knowledge, not from an official code book.
Scaling a row to norm 1 looks at that row alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks import real_data
from benchmarks.measuring import sized

#: The largest value of each numeric field of the census extract: top codes and field widths, not maxima of the rows.
ADULT_NUMBERS = {
    "age": 90,  # top-coded
    "fnlwgt": 1_500_000,
    "education_num": 16,
    "capital_gain": 99_999,  # top-coded
    "capital_loss": 5_000,
    "hours_per_week": 99,  # two digits
}
ADULT_CATEGORIES = (
    "workclass",
    "education",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native_country",
)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of norm at most 1, labels from 0 on; `note` begins with STAND-IN where the rows were generated for want."""

    name: str
    rows: np.ndarray
    labels: np.ndarray
    note: str

    def split(self, seed: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Return a random fifth as the test part, and the rest to train on."""
        order = np.random.default_rng(seed).permutation(len(self.labels))
        test, train = np.split(order, [len(order) // 5])
        return (self.rows[train], self.labels[train]), (self.rows[test], self.labels[test])


def adult(*, complete: bool = True) -> Labelled:
    """Return the census incomes: eight one-hot columns and six numbers; rows with a gap are left out if `complete`."""
    return _adult_of(real_data.find("adult"), complete=complete)


@lru_cache(maxsize=2)
def _adult_of(folder: Path | None, *, complete: bool) -> Labelled:
    if folder is None:
        return _generated_adult()
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.concat_tables(
        [pyarrow.parquet.read_table(folder / f"{part}.parquet") for part in ("train", "test")],
        promote_options="permissive",
    ).unify_dictionaries()
    table = table.combine_chunks()
    columns, whole = [], np.ones(len(table), dtype=bool)
    for name in ADULT_CATEGORIES:  # the file's own list of categories is taken to be public
        codes = table[name].chunk(0).dictionary_encode() if table[name].num_chunks else table[name]
        indices = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        whole &= indices >= 0
        columns.append((indices[:, None] == np.arange(len(codes.dictionary))).astype(float))
    for name, largest in ADULT_NUMBERS.items():
        columns.append(table[name].to_numpy()[:, None] / largest)
    labels = np.array([text == ">50K" for text in table["income"].to_pylist()], dtype=int)
    rows = np.hstack(columns)
    if complete:
        rows, labels = rows[whole], labels[whole]
    return Labelled("Adult", unit(rows), labels, f"UCI Adult, {rows.shape[0]} x {rows.shape[1]}")


def breast_cancer() -> Labelled:
    """Return scikit-learn's breast_cancer with ranges typed in by hand, round and generous."""
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    upper = np.array(
        [
            [
                30,
                40,
                200,
                2600,
                0.2,
                0.4,
                0.5,
                0.25,
                0.4,
                0.1,
            ],  # radius, texture, perimeter, area, ... of the mean cell
            [3, 5, 25, 600, 0.05, 0.2, 0.5, 0.06, 0.1, 0.05],  # their standard errors
            [40, 60, 260, 4500, 0.3, 1.2, 1.5, 0.3, 0.8, 0.25],  # their worst values
        ]
    ).ravel()
    scaled = np.clip(2 * found.data / upper - 1, -1, 1)
    return Labelled("breast_cancer", unit(scaled), found.target, "scikit-learn's breast_cancer, 569 x 30")


def digits() -> Labelled:
    """Return scikit-learn's digits, ten classes of 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return Labelled("digits", unit(found.data), found.target, "scikit-learn's digits, 1797 x 64")


def low_or_high_digits() -> Labelled:
    """Return scikit-learn's digits, 0 to 4 against 5 to 9."""
    found = digits()
    return Labelled("digits 0-4, 5-9", found.rows, (found.labels >= 5).astype(int), found.note)


def synthetic_low() -> Labelled:
    """Return Synthetic-L, generated as the thesis says."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        n_samples=sized(10_000, 500), n_features=40, n_informative=30, class_sep=2.0, random_state=1000
    )
    return Labelled("Synthetic-L", unit(x), y, "generated, 10000 x 40")


def synthetic_high() -> Labelled:
    """Return Synthetic-H, generated as the thesis says."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        n_samples=2000, n_features=2000, n_informative=10, n_redundant=0, class_sep=2.0, random_state=1
    )
    return Labelled("Synthetic-H", unit(x), y, "generated, 2000 x 2000")


def four_or_nine() -> Labelled:
    """Return MNIST's fours and nines, a stand-in for Gisette, which was made of the same digits."""
    folder = real_data.find("mnist")
    if folder is None:
        rng = np.random.default_rng(49)
        labels = rng.integers(0, 2, 6000)
        strokes = np.abs(rng.standard_normal((2, 784)))
        rows = np.clip(strokes[labels] + 1.5 * rng.standard_normal((6000, 784)), 0, None)
        return Labelled("4 or 9", unit(rows), labels, "STAND-IN: generated pixels for Gisette, 6000 x 784")
    with np.load(folder / "mnist.npz") as file:
        chosen = np.isin(file["y_train"], (4, 9))
        rows, digits = file["x_train"][chosen].reshape(-1, 784) / 255, file["y_train"][chosen]
    rows, digits = rows[:6000], digits[:6000]  # the size of Gisette
    return Labelled("4 or 9", unit(rows), (digits == 9).astype(int), "STAND-IN for Gisette: MNIST 4 or 9, 6000 x 784")


def words() -> Labelled:
    """Return the two newsgroups of basehock as counts of words."""
    folder = real_data.find("highdim_binary")
    if folder is None:
        rng = np.random.default_rng(50)
        labels = rng.integers(0, 2, 1993)
        topics = rng.dirichlet(np.full(4862, 0.02), 2)
        rows = np.array([rng.multinomial(90, topics[label]) for label in labels], dtype=float)
        return Labelled("basehock", unit(rows), labels, "STAND-IN: generated counts, 1993 x 4862")
    with np.load(folder / "basehock.npz") as file:
        rows, labels = file["x"].astype(float), (file["y"] == file["y"].max()).astype(int)
    return Labelled("basehock", unit(rows), labels, f"20 Newsgroups, {rows.shape[0]} x {rows.shape[1]}")


def unit(rows: np.ndarray) -> np.ndarray:
    """Scale every row by itself to norm 1; a zero row stays."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=np.zeros_like(rows, dtype=float), where=norms > 0)


def _generated_adult() -> Labelled:
    rng = np.random.default_rng(2)
    n, sizes = 45_222, (7, 16, 7, 14, 6, 5, 2, 41)
    columns, score = [], np.full(n, -1.5)
    for size in sizes:
        codes = rng.choice(size, n, p=rng.dirichlet(np.full(size, 0.7)))
        columns.append((codes[:, None] == np.arange(size)).astype(float))
        score += rng.normal(0, 0.8, size)[codes]
    numbers = rng.beta(2, 3, (n, 6))
    labels = (rng.random(n) < 1 / (1 + np.exp(-score - 4 * (numbers - 0.4).sum(axis=1)))).astype(int)
    rows = np.hstack([*columns, numbers])
    return Labelled("Adult", unit(rows), labels, f"STAND-IN: generated, {n} x {rows.shape[1]}")
