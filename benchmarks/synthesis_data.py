"""Adult, discretised, with its public part; the columns are chosen by a public rule. A generated stand-in without it.

Rule: columns in order of growing size (then by name) until the domain has at least 1e5 cells. The sizes are those of
the public domain file. The error of a synthetic table is the mean over all pairs of columns of the total-variation
distance between its share of rows in each cell and the private table's.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd

import sidelight as sl
from benchmarks.measuring import sized
from benchmarks.real_data import columns, find

LEAST_CELLS = 100_000
#: Sizes, rows and public rows of the stand-in.
STAND_IN = sized(((2, 2, 5, 6, 7, 9, 15), 32_384, 3_238), ((2, 2, 3), 500, 60))


@dataclass(frozen=True)
class Case:
    """Coded private and public rows."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    private: np.ndarray
    public: np.ndarray

    @property
    def schema(self) -> list[sl.Category]:
        """The public declaration."""
        return [sl.Category(name, range(size), other=None) for name, size in zip(self.names, self.sizes, strict=True)]

    @property
    def table(self) -> sl.Table:
        """The private table."""
        return sl.Table(self.frame(self.private), schema=self.schema, name="adult")

    def frame(self, rows: np.ndarray) -> pd.DataFrame:
        """Name the columns of coded rows."""
        return pd.DataFrame(rows, columns=list(self.names))

    @property
    def wrong(self) -> np.ndarray:
        """A deliberately wrong public table: each column shuffled on its own, its categories renamed at random."""
        rng = np.random.default_rng(0)
        places = range(len(self.sizes))
        shuffled = [rng.permutation(self.sizes[place])[rng.permutation(self.public[:, place])] for place in places]
        return np.stack(shuffled, axis=1)

    def error(self, rows: np.ndarray) -> float:
        """Return the mean total-variation error of all pairs of columns."""
        return float(np.mean([self._apart(rows, pair) for pair in combinations(range(len(self.sizes)), 2)]))

    def _apart(self, rows: np.ndarray, pair: tuple[int, int]) -> float:
        first, second = pair
        size = self.sizes[first] * self.sizes[second]
        shares = [
            np.bincount(each[:, first] * self.sizes[second] + each[:, second], minlength=size) / len(each)
            for each in (self.private, rows)
        ]
        return float(np.abs(shares[0] - shares[1]).sum()) / 2

    def error_of(self, release: object) -> float:
        """Return the error of the synthetic table of a release."""
        table = sl.Synthetic(release).table()  # type: ignore[arg-type]
        return self.error(np.stack([table[name].cat.codes.to_numpy(np.int64) for name in self.names], axis=1))


@cache
def adult() -> Case:
    """Read the biased split of Adult, or generate a table of the same sizes."""
    folder = find("adult_discretised")
    if folder is None:
        print("adult_discretised is not here; a generated table of the same sizes stands in", file=sys.stderr)
        return _generated()
    sizes = json.loads((folder / "pub025_domain.json").read_text())
    names: list[str] = []
    cells = 1
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        if cells >= LEAST_CELLS:
            break
        names.append(name)
        cells *= sizes[name]
    private, public = (
        np.stack(columns(folder / f"pub025_{part}.parquet", *names), axis=1).astype(np.int64)
        for part in ("priv", "pub")
    )
    return Case(tuple(names), tuple(sizes[name] for name in names), private, public)


def _generated() -> Case:
    """Rows whose columns follow one hidden class."""
    sizes, rows, public = STAND_IN
    rng = np.random.default_rng(1)
    shares = [rng.dirichlet(np.full(size, 0.5), 6) for size in sizes]
    hidden = rng.integers(0, 6, rows + public)
    cells = [
        np.array([rng.choice(size, p=share[each]) for each in hidden])
        for size, share in zip(sizes, shares, strict=True)
    ]
    both = np.stack(cells, axis=1)
    return Case(tuple(f"c{place}" for place in range(len(sizes))), sizes, both[:rows], both[rows:])
