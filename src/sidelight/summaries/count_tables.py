"""Make the table of counts: shrunk towards a prediction, whole, not negative, with intervals.

Post-processing of released numbers, except `count_error`, which is public before them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.groups import Groups
from sidelight.errors import RangeError
from sidelight.group_table import GroupTable
from sidelight.noise import Source, random_order
from sidelight.release import TailBound
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.intervals import around
from sidelight.summaries.noise_choice import IntegerNoise, noise_bound
from sidelight.summaries.predicted import Floats, Group, PredictedTable
from sidelight.summaries.shrink import best_of, shrink_counts

Whole = NDArray[np.int64]
#: Remainders are compared in these parts of 1.
_REMAINDERS = 2.0**30


@dataclass(frozen=True, kw_only=True, eq=False)
class CountReading:
    """The public settings by which noisy counts become a table: prediction and confidence."""

    prediction: PredictedTable | None = None
    confidence: float = 0.95

    @property
    def described(self) -> dict[str, Any] | None:
        """The description of the prediction that a release carries."""
        return None if self.prediction is None else self.prediction.description

    @property
    def request(self) -> dict[str, str]:
        """What the request for the ledger says of these settings."""
        return {} if self.prediction is None else {"prediction": str(self.prediction.description["sha256"])}

    def shrunk(
        self,
        values: NDArray[Any],
        groups: Sequence[Group],
        *,
        variance: float,
        largest_eigenvalue: float | None = None,
    ) -> Floats:
        """Return noisy counts shrunk towards the prediction; the same numbers without one.

        Accuracy: total squared error is not larger than without it: a theorem for Gaussian noise and a prediction that
        does not depend on it, measured for Laplace noise, for shares of the released total, and for the choice among
        several predictions, of which the one with the lowest estimated error is taken (Theorem 8).
        """
        noisy = np.asarray(values, np.float64)
        if self.prediction is None:
            return noisy
        candidates = []
        for each in (self.prediction, *self.prediction.others):
            matched = each.on(groups).scaled_to(noisy)
            candidates.append(
                shrink_counts(
                    noisy,
                    matched.values,
                    variance=variance,
                    doubt=matched.count_doubt(),
                    fitted=matched.shares,
                    largest_eigenvalue=largest_eigenvalue,
                )
            )
        return (best_of(candidates, noisy) if len(candidates) > 1 else candidates[0]).values

    def columns(self, noisy: Whole, groups: Sequence[Group], noise: IntegerNoise, source: Source) -> dict[str, Any]:
        """Return the columns of a table of counts with independent noise; ties are drawn from the source."""
        cells = max(1, len(groups))
        estimates = self.shrunk(noisy, groups, variance=noise.variance)
        readable = readable_counts(estimates, noisy, bound=noise_bound(noise, self.confidence, cells), source=source)
        ends = around(noisy, noise_bound(noise, self.confidence))
        return {
            "count": readable,
            "unbiased": noisy,
            "noise_sd": np.full(len(groups), noise.sd),
            "low": np.floor(ends.low).astype(np.int64),
            "high": np.ceil(ends.high).astype(np.int64),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedGroupCounts(SurePrepared):
    """What prepared counts of declared groups have in common."""

    groups: Groups
    cells: tuple[Group, ...]
    keys: tuple[str, ...]
    reading: CountReading
    counted: str | None  # "persons" or "rows", for the notes of the table

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return self.groups.label is None

    def answer(self, columns: dict[str, Any], groups: Sequence[Group] | None = None) -> Answer:
        """Return the answer with these columns."""
        of = {} if self.counted is None else {"of": self.counted}
        named = self.cells if groups is None else groups
        value = table_of(self.keys, named, columns, **of, **self.groups.notes)
        return Answer(value=value, error=error_of_shown(self.error, value))


def bounded_words(groups: Groups) -> str:
    """Return the public condition under which an error is that of the whole table: no rows were left out."""
    if groups.schema.person is None:
        return "rows are read as declared"
    norms = groups.norms
    within = f"in at most {norms.groups} group(s), {norms.per_group} row(s) in each, {norms.rows} in all"
    return "each person counts once" if norms.total == 1 else f"each person counts {within}"


def bounded_counts(groups: Groups, noise: IntegerNoise, values: Whole | int | None = None) -> Bounded:
    """Return counts with the norms of one unit over all groups; those of no rows if left out: all that is public."""
    if values is None:
        values = np.zeros(groups.shape, np.int64) if groups.shape else 0
    return groups.norms.bounded(values, noise.norm, groups.unit)


def count_error(noise: IntegerNoise, cells: int, *, unit: str, assumption: str) -> TailBound:
    """Return a bound on the error of all `unbiased` counts at once, for every confidence (`error_of_shown`)."""
    return tail_bound(noise.kind, noise.scale, cells, unit=unit, assumption=assumption)


def error_of_shown(error: TailBound | None, table: GroupTable) -> TailBound | None:
    """Return the bound of the numbers that a table shows first, from one of its `unbiased` numbers (None of None).

    A true number that lies within known limits is within the bound of the unbiased one, and so of that cut to the
    limits, as its interval is. What is shown was moved from there, to a prediction or with other small counts to 0, and
    is further off by at most the largest move: of all cells, or of those of a level of a hierarchy.

    >>> columns = {"count": [0, 9], "unbiased": [4, 9], "low": [0, 3], "high": [10, 15]}
    >>> table = GroupTable(keys=["g"], groups=[("a",), ("b",)], columns=columns)
    >>> error_of_shown(TailBound(unit="rows", assumption="none", fixed=(6.0,), per_log=(0.0,)), table).fixed
    (10.0,)
    """
    if error is None:
        return None
    names = (table.columns[0], "unbiased", "low", "high")
    shown, unbiased, low, high = (np.asarray(table[name], np.float64) for name in names)
    moved = np.abs(shown - np.clip(unbiased, low, high))
    most = np.zeros(len(error.fixed))
    np.maximum.at(most, table.coded.codes[0] if most.size > 1 else np.zeros(table.rows, np.int64), moved)
    return error.changed(lambda fixed, per_log: (tuple((np.asarray(fixed) + most).tolist()), per_log))


def tail_bound(law: str, noise_scale: Any, cells: int, *, unit: str, assumption: str) -> TailBound:
    """Return a simultaneous bound on integer noise in this many cells, for every confidence (union bound).

    Laplace: P(|Z| > t) = 2a^(t+1)/(1+a) <= (2/(1+a))·exp(-t/b). Gaussian: P(|Z| > t) <= 2·exp(-(t-½)²/2σ²), and the
    root of the logarithm lies below its tangent at 95 %.
    """
    scale = float(noise_scale)
    if law == "laplace":
        fixed, per_log = scale * math.log(2 * cells / (1 + math.exp(-1 / scale))), scale
    else:
        at = math.log(2 * cells) + math.log(20)  # √(2x) <= (x + at)/√(2 at)
        per_log = scale / math.sqrt(2 * at)
        fixed = per_log * (math.log(2 * cells) + at) + 0.5
    return TailBound(unit=unit, assumption=assumption, fixed=(fixed,), per_log=(per_log,))


def table_of(keys: Sequence[str], groups: Sequence[Group], columns: dict[str, Any], **notes: Any) -> GroupTable:
    """Return a table by group; the keywords become its notes."""
    return GroupTable(keys=keys, groups=groups, columns=columns, notes=notes)


def onto_simplex(values: ArrayLike, total: float) -> Floats:
    """Return the nearest numbers of at least 0 that add up to `total`: (y - λ)₊, λ found by sorting.

    >>> onto_simplex([7, -2, 3, 0, -1], 7).tolist()
    [5.5, 0.0, 1.5, 0.0, 0.0]
    """
    y = np.asarray(values, dtype=np.float64)
    if y.ndim != 1 or not total >= 0:
        raise RangeError(f"a projection needs a list of values and a total of at least 0, got total={total}")
    if y.size == 0 or total == 0:
        return np.zeros_like(y)
    falling = np.sort(y)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, y.size + 1)
    last = int(np.flatnonzero(falling >= excess)[-1])  # the first is always there: y_1 >= y_1 - total
    return np.asarray(np.maximum(y - excess[last], 0.0))


def whole_numbers(values: ArrayLike, total: int | None = None, *, source: Source) -> Whole:
    """Round numbers of at least 0 so that they add up: floors, and one more for the largest remainders.

    Ties between remainders are drawn: a fixed order would always favour the first labels. `total` is the rounded sum if
    left out, else within one per number of it.

    >>> from sidelight.noise import OSEntropy
    >>> with Source(OSEntropy()) as source:
    ...     whole_numbers([5.5, 1.4, 0.1], source=source).tolist()
    [6, 1, 0]
    """
    x = np.asarray(values, dtype=np.float64)
    floors = np.floor(x)
    # a sum of floats may end just below a whole number
    goal = int(np.floor(x.sum() + 0.5)) if total is None else total
    more = min(max(goal - int(floors.sum()), 0), x.size)
    out = floors.astype(np.int64)
    if more:
        # remainders that differ by the rounding of floats alone are equal
        remainders = np.rint((x - floors) * _REMAINDERS)
        last = -np.partition(-remainders, more - 1)[more - 1]
        above, equal = np.flatnonzero(remainders > last), np.flatnonzero(remainders == last)
        wanted = more - above.size
        if wanted < equal.size:
            with source.free("which of equal remainders are rounded up"):
                equal = equal[random_order(equal.size, source)[:wanted]]
        out[above] += 1
        out[equal] += 1
    return out


def readable_counts(
    estimates: ArrayLike, unbiased: ArrayLike, *, bound: float, source: Source, total: float | None = None
) -> Whole:
    """Return whole counts of at least 0: cells that surely are not empty as they are, the others adding up as they did.

    Cells whose `unbiased` value exceeds `bound` stay; the others are projected onto what they add up to, so that the
    bias of cutting off negative cells is taken from small cells and not from the large ones that people read.

    Accuracy: measured. Of many empty cells a third of the error of cutting off at 0 (root mean square), of few up to a
    tenth more. Sums of `unbiased` are right, sums of these nearly.

    Args:
        estimates: The noisy counts after shrinkage.
        unbiased: The noisy counts.
        bound: The simultaneous bound of the noise over all cells.
        source: Of ties.
        total: A measured total of all cells (rolled up); their own sum if left out.

    >>> from sidelight.noise import OSEntropy
    >>> with Source(OSEntropy()) as source:
    ...     readable_counts([1000, -2, 3, 0, -1], [1000, -2, 3, 0, -1], bound=10, source=source).tolist()
    [1000, 0, 0, 0, 0]
    """
    x, y = np.asarray(estimates, dtype=np.float64), np.asarray(unbiased, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise RangeError(f"estimates and unbiased values must be lists of one length, got {x.shape} and {y.shape}")
    stays = y > bound
    out = np.zeros(x.size, np.int64)
    large = np.maximum(x[stays], 0.0)
    others = x[~stays]
    if total is None:
        rest = max(0.0, float(others.sum()))
        out[stays] = whole_numbers(large, source=source)
        goal = int(np.floor(rest + 0.5))
    else:
        whole_total = max(0, int(np.floor(total + 0.5)))
        out[stays] = whole_numbers(large, source=source)
        goal = max(0, whole_total - int(out.sum()))
    if others.size:
        out[~stays] = whole_numbers(onto_simplex(others, float(goal)), goal, source=source)
    return out
