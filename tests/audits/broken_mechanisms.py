"""Small mechanisms with one plausible mistake each, which every audit must find.

All count or add up a table of `x` in [0, 4] and `c`, and claim an epsilon of 1 (`HONEST` keeps it). They are written
against arrays on purpose: in the library the same mistake would have to pass `Bounded`, `Budget` and the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import sidelight as sl
from sidelight.audit.attacks import Run
from sidelight.noise import Entropy, Source, discrete_laplace
from sidelight.records import Table
from sidelight.records.rows import Wanted

SCHEMA = sl.Schema([sl.Number("x", lower=0, upper=4, granularity=1), sl.Category("c", ["a", "b"], other=None)])
PERSONS = sl.Schema([*SCHEMA.columns, sl.PersonId("id", max_rows=2)])


class Rows:
    """The rows of a table, as a mistaken mechanism sees them."""

    def __init__(self, table: Table, entropy: Entropy) -> None:
        persons = table.schema.person is not None
        wanted = Wanted(numbers=("x",), texts=("c",), person="id" if persons else None)
        batches = list(table.rows.batches(wanted))
        self.x = np.concatenate([np.zeros(0), *(batch.numbers["x"] for batch in batches)])
        self.c = [label for batch in batches for label in batch.texts["c"]]
        self.clamped = np.clip(np.nan_to_num(self.x, nan=0.0, posinf=4.0), 0, 4)
        self._entropy = entropy

    def noise(self, scale: Fraction | int, size: int = 1) -> np.ndarray:
        """Return fresh noise."""
        with Source(self._entropy) as source:
            return discrete_laplace(size, Fraction(scale), source).astype(float)


def of(release: Callable[[Rows], Any]) -> Run:
    """Return a mechanism that an audit can run."""
    return lambda table, entropy: release(Rows(table, entropy))


def _total(rows: Rows) -> float:
    return float(np.round(rows.clamped).sum())


def _raises(rows: Rows) -> Any:
    if np.any(rows.x > 1e9):
        raise OverflowError("a number is too large")
    return rows.noise(1)[0] + len(rows.x)


def _mean(rows: Rows) -> Any:
    return (_total(rows) + rows.noise(4)[0]) / max(len(rows.x), 1)


def _refuses(rows: Rows) -> Any:
    return "refused: too few rows" if len(rows.x) < 5 else rows.noise(1)[0] + len(rows.x)


def _learned_prior(rows: Rows) -> Any:
    """The prior of an exponential mechanism sits where the private rows are; with it the answer is the data."""
    counts = np.bincount(np.round(rows.clamped).astype(int), minlength=5) + 1e-12
    place = float(rows.noise(50)[0]) % 1000 / 1000
    return int(np.searchsorted(np.cumsum(counts / counts.sum()), place))


def _whole_data(rows: Rows) -> Any:
    """Children of a tree are asked about all rows at full price each: the depth is forgotten."""
    return [float((rows.clamped > number * 0.4).sum()) + noise for number, noise in enumerate(rows.noise(1, 10))]


def _by_order(rows: Rows) -> Any:
    """Only the first four rows count, so that one who comes first pushes another out."""
    return float(np.round(rows.clamped[:4]).sum()) * 1000 + rows.noise(4)[0]


def _lsb(rows: Rows) -> Any:
    """Noise of a coarse grid on a sum that is not on it: the digits behind the point are the data's."""
    return rows.clamped.sum() * 0.1 + rows.noise(4)[0]


HONEST: dict[str, Run] = {
    "count": of(lambda rows: len(rows.x) + rows.noise(1)[0]),
    "sum": of(lambda rows: _total(rows) + rows.noise(4)[0]),
}

#: What is wrong, and a mechanism that does it.
BROKEN: dict[str, Run] = {
    "noise a fifth of what it has to be": of(lambda rows: len(rows.x) + rows.noise(Fraction(1, 5))[0]),
    "sensitivity of a count for a sum": of(lambda rows: _total(rows) + rows.noise(1)[0]),
    "a budget part spent ten times": of(lambda rows: (len(rows.x) + rows.noise(1, 10)).tolist()),
    "children asked about all rows, the depth forgotten": of(_whole_data),
    "the private number of rows divides": of(_mean),
    "a prior fitted to the private rows": of(_learned_prior),
    "a type learned from the rows": of(
        lambda rows: {"n": len(rows.x) + rows.noise(1)[0], "type": "float" if np.isnan(rows.x).any() else "int"}
    ),
    "a failure that depends on the rows": of(_raises),
    "a refusal that nobody paid for": of(_refuses),
    "a list of the labels that came": of(lambda rows: sorted({label for label in rows.c if label is not None})),
    "noise for what is clamped, data that is not": of(
        lambda rows: float(np.nan_to_num(rows.x, nan=0, posinf=1e9).clip(-1e9, 1e9).sum()) + rows.noise(4)[0]
    ),
    "an interval around the true value": of(lambda rows: [len(rows.x) + 1.96, len(rows.x) + rows.noise(1)[0]]),
    "the same noise for every number": of(lambda rows: (np.array([len(rows.x), 0]) + rows.noise(1)[0]).tolist()),
    "rows kept by their order": of(_by_order),
    "digits below the grid of the noise": of(_lsb),
}
