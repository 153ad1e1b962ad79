"""What releases state about their errors, compared with the rows: one function for each form of a statement.

A statement is a name, the confidence that the release states, and the error that was made as a share of the stated
one, which a true statement exceeds as rarely as it says; names are the same in every release of a query.
`stated_error_queries` says which query states what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

import sidelight as sl
from benchmarks.stated_error_laws import GROUPS, HALVES, Case
from sidelight.quantiles.evaluate import nonprivate_gap


class Statement(NamedTuple):
    """What a release states, with which confidence, and the error made as a share of the stated one."""

    what: str
    confidence: float
    share: float
    #: Whether it is promised; a likely error, which most data keeps to, is not, and is shown first all the same.
    promised: bool = True


Reader = Callable[[Case, Any], Iterable[Statement]]
CONFIDENCES = (0.95, 0.99)


def _share(made: Any, stated: Any) -> float:
    """Return the largest error as a share of what was stated for it; without any error 0, whatever was stated."""
    off, most = np.broadcast_arrays(np.asarray(made, float), np.asarray(stated, float))
    shares = np.divide(off, most, out=np.full(off.shape, np.inf), where=most > 0)
    return float(np.where(off > 0, shares, 0.0).max(initial=0.0))


# Tables by group: intervals of one row each.

Truth = Callable[[dict[str, Any]], float]


def intervals(truth: Truth, *, low: str = "low", high: str = "high", confidence: float = 0.95) -> Reader:
    """Return what reads the intervals of a table by group, row by row; of groups without rows only counts and sums."""

    def read(case: Case, release: Any) -> Iterator[Statement]:
        table = release.value
        for place, group in enumerate(table.groups):
            rows = _rows_of(case, table.keys_of_groups, group)
            true = truth({name: column[rows] for name, column in case.columns.items()})
            if np.isfinite(true):
                ends = float(table[low][place]), float(table[high][place])
                measured = table["unbiased"][place] if "unbiased" in table and low == "low" else sum(ends) / 2
                share = _share_of_interval(true, ends, float(measured))
                yield Statement(f"{low} to {high} of {'/'.join(group) or 'all'}", confidence, share)

    return read


def _share_of_interval(true: float, ends: tuple[float, float], measured: float) -> float:
    """Return the error of a measured number as a share of its longer side: the shorter may be cut off, as at 0."""
    share = _share(abs(true - measured), max(ends[1] - measured, measured - ends[0]))
    slack = abs(true) * 1e-9
    if ends[0] - slack <= true <= ends[1] + slack:
        return min(share, 1.0)
    return max(share, _share(abs(true - sum(ends) / 2), (ends[1] - ends[0]) / 2))


def _rows_of(case: Case, keys: Iterable[str], group: tuple[str, ...]) -> np.ndarray:
    rows = np.ones(case.rows, bool)
    for key, label in zip(keys, group, strict=True):
        if label != "all":
            rows &= case.columns[key] == label
    return rows


def count(rows: dict[str, Any]) -> float:
    """Return the number of rows."""
    return float(len(rows["x"]))


def total(rows: dict[str, Any]) -> float:
    """Return the sum of x."""
    return float(rows["x"].sum())


def mean(rows: dict[str, Any]) -> float:
    """Return the mean of x."""
    return float(rows["x"].mean()) if len(rows["x"]) else np.nan


def above(case_rows: dict[str, Any]) -> float:
    """Return the share of rows of the second half."""
    return float(np.mean(case_rows["h"] == "q")) if len(case_rows["h"]) else np.nan


def spread(rows: dict[str, Any]) -> float:
    """Return the sample variance of x."""
    return float(np.var(rows["x"], ddof=1)) if len(rows["x"]) > 1 else np.nan


def deviation(rows: dict[str, Any]) -> float:
    """Return the sample standard deviation of x."""
    return float(np.sqrt(spread(rows)))


# Bounds of `release.error`: all entries at once.


def bounds(errors: Callable[[Case, Any], np.ndarray]) -> Reader:
    """Return what reads `error_bound` at each confidence, from the errors of the entries."""

    def read(case: Case, release: Any) -> Iterator[Statement]:
        if release.error is None:
            return
        found = np.asarray(errors(case, release))
        for confidence in CONFIDENCES:
            made = np.where(found <= 1e-12, 0.0, found)  # rounding
            yield Statement(f"error_bound({confidence})", confidence, _share(made, release.error_bound(confidence)))
            if release.error.likely is not None:
                share = _share(made, release.error.likely.at(confidence))
                yield Statement(f"likely({confidence})", confidence, share, promised=False)

    return read


def unbiased(truth: Truth, column: str = "unbiased") -> Callable[[Case, Any], np.ndarray]:
    """Return the errors of a column of measured numbers."""

    def errors(case: Case, release: Any) -> np.ndarray:
        table = release.value
        rows = [_rows_of(case, table.keys_of_groups, group) for group in table.groups]
        true = [truth({name: column[each] for name, column in case.columns.items()}) for each in rows]
        return np.abs(np.asarray(table[column], float) - true).max(keepdims=True)

    return errors


BINS = (0.1, 0.3, 0.5, 0.7)


def bins_of(case: Case) -> list[float]:
    """Return public bins of x."""
    return [case.law.lower + share * (case.law.upper - case.law.lower) for share in BINS]


def in_bins(case: Case, release: Any) -> np.ndarray:
    """Return the errors of a histogram with public bins."""
    edges = [-np.inf, *bins_of(case), np.inf]
    found = np.asarray(release.value["unbiased"], float)
    true = np.histogram(case.columns["x"], edges)[0]
    assert len(found) >= len(true)
    return np.abs(found - _padded(true, len(found))).max(keepdims=True)


def _padded(true: np.ndarray, size: int) -> np.ndarray:
    """Return the counts of a table that also has rows for what lies beyond the declared bounds."""
    beyond = size - len(true)
    return true if not beyond else np.concatenate([np.zeros(beyond // 2), true, np.zeros(beyond - beyond // 2)])


def drawn(case: Case, release: Any) -> np.ndarray:
    """Return by how many rows a drawn label has fewer than the best one that was left."""
    left = {label: int((case.columns["g"] == label).sum()) for label in GROUPS}
    worst = 0
    for (label,) in release.value.groups:
        worst = max(worst, max(left.values()) - left.pop(label))
    return np.array([worst])


def ranks(levels: Iterable[float]) -> Callable[[Case, Any], np.ndarray]:
    """Return the errors of quantiles in ranks."""
    asked = list(levels)
    return lambda case, release: nonprivate_gap(case.columns["x"], asked, np.asarray(release.value))


def distribution_ranks(case: Case, release: Any) -> np.ndarray:
    """Return the errors of the levels that a distribution carries bounds of."""
    size = len(release.error.fixed)
    levels = [place / (size + 1) for place in range(1, size + 1)]
    return nonprivate_gap(case.columns["x"], levels, np.asarray(release.value.quantile(levels)))


def band(case: Case, release: Any) -> Iterator[Statement]:
    """Read the band of a distribution, at the values that occur."""
    values = np.unique(case.columns["x"])
    values = values[:: max(1, len(values) // 60)]  # a band of thousands of values takes longer than its release
    low, high = release.value.band(values)
    true = np.searchsorted(np.sort(case.columns["x"]), values, "right") / case.rows
    yield Statement("band", 0.95, _share(np.abs(true - (low + high) / 2), (high - low) / 2))


def operator_norm(centred: bool) -> Callable[[Case, Any], np.ndarray]:
    """Return the error of a matrix in operator norm."""

    def errors(case: Case, release: Any) -> np.ndarray:
        rows = np.column_stack([case.columns["x"], case.columns["y"]])
        true = np.cov(rows.T, bias=True) if centred else rows.T @ rows / len(rows)
        return np.abs(np.linalg.eigvalsh(release.value["matrix"] - true)).max(keepdims=True)

    return errors


def in_deviations(case: Case, release: Any) -> np.ndarray:
    """Return the largest error of a mean, in standard deviations of its column."""
    rows = np.column_stack([case.columns["x"], case.columns["y"]])
    return np.abs((release.value["mean"] - rows.mean(axis=0)) / rows.std(axis=0)).max(keepdims=True)


def middle(case: Case, release: Any) -> np.ndarray:
    """Return the error of a median."""
    ordered = np.sort(case.columns["x"])
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return np.array([max(low - release.value, release.value - high, 0.0)])


def wrong_label(case: Case, release: Any) -> np.ndarray:
    """Return 1 where the released label is not the most frequent one."""
    labels, counts = np.unique(case.columns["g"], return_counts=True)
    return np.array([float(release.value not in labels[counts == counts.max()])])


def marginals(case: Case, release: Any) -> Iterator[Statement]:
    """Read the bounds of a synthetic table's answers: all of a release hold at once."""
    synthetic = sl.Synthetic(release)
    for columns in (("g",), ("g", "h")):
        answers: Any = synthetic.answer(columns)
        if answers.bound is None:
            continue
        labels = (GROUPS, HALVES)[: len(columns)]
        rows = [case.columns[name] for name in columns]
        true = np.zeros([len(each) for each in labels])
        for place in np.ndindex(true.shape):
            true[place] = np.logical_and.reduce(
                [row == each[at] for row, each, at in zip(rows, labels, place, strict=True)]
            ).sum()
        off = np.abs(np.asarray(answers.counts) - true)
        name = "/".join(columns)
        yield Statement(f"bound of {name}", answers.confidence, _share(off, answers.bound))
        if answers.bound_of_sum is not None:
            share = _share(off.sum(), answers.bound_of_sum)
            yield Statement(f"bound_of_sum of {name}", answers.confidence, share)


#: With a standard error s + what the fit adds, 1.96 of it fail for at most this share of noise (synthesis proof page).
_WITHIN = 1 - 0.0922


def cell_errors(case: Case, release: Any) -> Iterator[Statement]:
    """Read standard errors of a synthetic table of binned x and y: of full, of rare and of empty cells by themselves.

    Most cells are empty: an average over all of them would not show that the errors of the others are false.
    """
    synthetic = sl.Synthetic(release)
    inner = {axis.name: np.array([float(edge) for edge in axis.edges[1:-1]]) for axis in synthetic.axes}  # type: ignore[union-attr]
    codes = {name: np.searchsorted(edges, case.columns[name], side="right") for name, edges in inner.items()}
    for columns in (("x", "y"), ("x",), ("y",)):
        answers: Any = synthetic.answer(columns)
        if answers.errors is None:
            continue
        true = np.zeros(answers.counts.shape)
        np.add.at(true, tuple(codes[name] for name in columns), 1)
        share = (np.abs(answers.counts - true) / (1.96 * answers.errors)).ravel()
        order = np.argsort(-true.ravel(), kind="stable")
        occupied = int((true > 0).sum())
        places = {"fullest": 0, "second": 1, "middle": occupied // 2, "rarest": occupied - 1, "empty": len(order) - 1}
        for what, place in places.items():
            if place < occupied or what == "empty":
                yield Statement(f"1.96 errors of the {what} cell of {'/'.join(columns)}", _WITHIN, share[order[place]])
