"""The expected error of a query before it runs: a theorem's bound where there is one, else measured.

A theorem speaks of every data set that fits its assumption. Where none does (a model, a Gaussian, a synthetic table),
the query runs with seeded noise on rows that are made from public declarations alone, and its answers are compared with
that of the same query at a hundred times the price: what is shown is marked as measured. No row of the source is read,
and nothing is charged.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.accuracy.forecast import MOST_ROWS, USUAL_ROWS, as_cells, forecast, generated, related
from sidelight.errors import RangeError
from sidelight.group_table import GroupTable
from sidelight.guarantees.amounts import Amount
from sidelight.readable import at_most
from sidelight.records import Category, Number, Schema, Table
from sidelight.release import Release, TailBound
from sidelight.session.query import Prepared, at_price, prepare_query
from sidelight.testing import seeded_release

Floats = NDArray[np.float64]
Basis = Literal["bound", "measured", "nothing"]

#: The largest of 19 errors is exceeded by a twentieth with probability 1/20, whatever their law: 95 %.
DRAWS = 19
#: Of queries that take a second: the largest of these few is stretched by an exponential tail.
SLOW_DRAWS = 5
_SLOW = ("synthetic_table", "gaussian_mixture", "additive_model")
#: The reference answer is released at this multiple of the price: its own error is a hundredth, or a tenth where that
#: price is beyond what the query can prove.
_NEARLY_EXACT = (100, 10)
#: An error of this many times more or fewer rows still stands for one of a released number of rows.
_ALIKE = 1.5


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The expected error of an answer: a size with its unit, and its basis."""

    size: float
    unit: str
    basis: Basis
    condition: str  # what it rests on
    rows: int | None = None  # how many generated rows it was measured on, or how many a bound rests on
    likely: float | None = None  # the likely error, where a bound that assumes nothing comes with one
    columns: Mapping[str, float] = field(default_factory=dict)  # that of each number of a table; `size` is the largest

    @property
    def usual(self) -> float:
        """The error that a price is chosen for: the likely one, where there is one."""
        return self.size if self.likely is None else self.likely

    def __str__(self) -> str:
        if self.basis == "nothing":
            return self.condition
        if self.size == 0:
            return f"exact, if {self.condition}"
        text = f"{self.sizes('± ')} {self.unit}".rstrip()
        if self.likely is not None:
            text += f", likely ± {at_most(self.likely)}"
        if self.basis == "bound":
            return text if self.rows is None else f"{text}, if {self.condition}"
        return f"about {text} (measured: {self.rows:,} generated rows)"

    def sizes(self, sign: str = "") -> str:
        """Return the size as a text, or that of each number behind its name."""
        if not self.columns:
            return f"{sign}{at_most(self.size)}" if math.isfinite(self.size) else "–"
        return ", ".join(f"{name} {sign}{at_most(size)}" for name, size in self.columns.items())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; a size that nothing is known of is null."""
        size = self.size if math.isfinite(self.size) else None
        found = {"size": size, "unit": self.unit, "basis": self.basis, "condition": self.condition}
        return found | {"likely": self.likely, "columns": dict(self.columns)}

    def tail(self, confidence: float) -> TailBound:
        """Return it as the bound that a release carries; a measured one says so, and is not proved."""
        return TailBound(
            unit=self.unit,
            assumption=self.condition,
            fixed=(0.0,),
            per_log=(self.size / math.log(1 / (1 - confidence)),),
            proved=self.basis == "bound",
        )


def expected(
    query: Any, prepared: Prepared, schema: Schema, *, confidence: float, rows: float | None = None
) -> Expected:
    """Return the expected error of a query at a confidence. Opens no data.

    Args:
        query: The query.
        prepared: The same, fitted to the schema.
        schema: The public declarations, which rows are made from where no theorem helps.
        confidence: The probability that the error is not larger.
        rows: How many rows there are about, where that was declared or released; a usual number if left out.
    """
    if prepared.error is not None and not _states_more(prepared.request):
        return _of_bound(prepared.error, confidence)
    count = _assumed(query, rows)
    if (stated := prepared.error_of(count, confidence=confidence)) is not None:
        size, condition = stated
        return Expected(size=size, unit="", basis="bound", condition=condition, rows=count)
    if type(prepared).__module__.startswith("sidelight.summaries."):
        found = forecast(query, prepared, schema, confidence=confidence)
        if found is not None:
            halves, rows, unit = found
            named = {} if [*halves] == [prepared.request["kind"]] else halves
            size = max(halves.values())
            return Expected(size=size, unit=unit, basis="measured", condition=_alike(rows), rows=rows, columns=named)
        if prepared.error is not None:
            return _of_bound(prepared.error, confidence)
        return _nothing("no forecast: it is not answered on generated rows")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of generated rows
        try:
            return _measured(query, prepared, schema, confidence=confidence, rows=count)
        except Exception:  # a forecast is not worth an error, whatever it fails by: no private row is near
            return _nothing("no forecast: it is not answered on generated rows")


def _states_more(request: Mapping[str, Any]) -> bool:
    """Return whether a statement shows more than the one number that its bound is about, or computes with it."""
    shown = [tree for _, kind, tree, _ in request.get("shown", {}).get("columns", ()) if kind != "text"]
    return len(request.get("numbers", ())) > 1 or any(tree[0] != "number" for tree in shown)


def _of_bound(bound: TailBound, confidence: float) -> Expected:
    size = max(float(np.max(bound.at(confidence))), 0.0)
    likely = None if bound.likely is None else float(np.max(bound.likely.at(confidence)))
    return Expected(size=size, unit=bound.unit, basis="bound", condition=bound.assumption, likely=likely)


def _alike(rows: int) -> str:
    return f"the rows are like the {rows:,} generated ones, of the declared shape, that this was measured on"


def _nothing(text: str) -> Expected:
    return Expected(size=math.nan, unit="", basis="nothing", condition=text)


def _assumed(query: Any, released: float | None) -> int:
    """Return how many rows an error is computed for: about as many as were released, or declared, or a usual number."""
    wanted = getattr(query, "rows", None)
    usual = wanted if isinstance(wanted, int) else USUAL_ROWS
    if released is not None and not usual / _ALIKE <= released <= usual * _ALIKE:
        usual = round(released)
    return int(min(max(usual, 10), MOST_ROWS))


def _measured(query: Any, prepared: Prepared, schema: Schema, *, confidence: float, rows: int) -> Expected:
    columns = _columns(query, schema, rows)
    kind = str(prepared.request["kind"])
    found = _measured_on(columns, query, kind, schema, confidence=confidence, rows=rows)
    if kind != "synthetic_table" or found.basis != "measured":
        return found
    # a start at even weights has no error on even, unrelated columns: the larger of that shape and of its opposite
    other = _measured_on(related(columns, schema, rows), query, kind, schema, confidence=confidence, rows=rows)
    return replace(found, size=min(max(found.size, other.size), 100.0))


def _measured_on(
    columns: dict[str, Any], query: Any, kind: str, schema: Schema, *, confidence: float, rows: int
) -> Expected:
    table = Table(as_cells(columns, schema), schema=schema)
    first = seeded_release(query, table, seed="expected 0")
    # its bound depends on how many rows there are; a model's is about the mean row, and is not a measurement
    if isinstance(first, Release) and first.error is not None and kind != "linear_model":
        bound = _of_bound(first.error, confidence)
        return replace(bound, basis="measured", condition=f"{bound.condition}; for {rows:,} rows", rows=rows)
    draws = SLOW_DRAWS if kind in _SLOW else DRAWS
    outcomes = [first, *(seeded_release(query, table, seed=f"expected {n}") for n in range(1, draws))]
    found = [each for each in outcomes if isinstance(each, Release)]
    target = _nearly_exact(query, table)
    if not found or not isinstance(target, Release):
        return _nothing(f"refused on {rows:,} generated rows of the declared shape: a clear answer is needed")
    distance, unit = _distance(query, kind, target, columns, schema)
    errors = [distance(each.value) for each in found]
    stretch = math.log(1 / (1 - confidence)) / math.log(len(errors) + 1)
    return Expected(size=max(errors) * stretch, unit=unit, basis="measured", condition=_alike(rows), rows=rows)


def _nearly_exact(query: Any, table: Table) -> Any:
    *dear, least = _NEARLY_EXACT
    for factor in dear:
        try:
            return seeded_release(at_price(query, factor), table, seed="expected")
        except RangeError:
            continue
    return seeded_release(at_price(query, least), table, seed="expected")


# Rows of the declared shape: public rows of the prediction where there are some, a target that its features explain.


def _columns(query: Any, schema: Schema, rows: int) -> dict[str, Any]:
    columns = generated(schema, rows, query)
    public = getattr(getattr(query, "prediction", None), "rows", None)
    names = [str(name) for name in getattr(query, "columns", None) or ()]
    if isinstance(public, np.ndarray) and public.ndim == 2 and public.shape[1] == len(names):
        for place, name in enumerate(names):
            # one public row after the other, moved by a hair: they themselves are refused as private rows
            spread = float(np.ptp(public[:, place])) or 1.0
            chosen = public[np.arange(rows) % len(public), place]
            columns[name] = chosen + 1e-4 * spread * np.sin(1.0 + np.arange(rows) * (place + 1.0))
    target = getattr(query, "target", None)
    if isinstance(target, str):
        columns[target] = _explained(target, columns, schema)
    return columns


def _explained(target: str, columns: Mapping[str, Any], schema: Schema) -> Any:
    """Return a target whose variance numeric columns explain by half."""
    numbers = [each.name for each in schema.columns if isinstance(each, Number) and each.name != target]
    column = next(each for each in schema.columns if each.name == target)
    own = np.asarray(
        columns[target] if isinstance(column, Number) else np.arange(len(columns[target])) % 97, np.float64
    )
    drawn = _standard(own) + sum(_standard(np.asarray(columns[name], np.float64)) for name in numbers[:4])
    ranks = (np.argsort(np.argsort(drawn, kind="stable"), kind="stable") + 0.5) / len(drawn)
    if isinstance(column, Category):
        return [column.labels[int(place)] for place in ranks * len(column.labels)]
    return np.sort(own)[np.minimum((ranks * len(own)).astype(np.int64), len(own) - 1)]


def _standard(values: Floats) -> Floats:
    return np.asarray((values - values.mean()) / (values.std() or 1.0))


# How far an answer is from the one at a hundred times the price, in the words of its kind.

Distance = Callable[[Any], float]


def _distance(query: Any, kind: str, target: Release, columns: dict[str, Any], schema: Schema) -> tuple[Distance, str]:
    value = target.value
    if kind in ("linear_model", "additive_model"):
        linked, unit = _linked(query, target)
        cells = as_cells(columns, schema)
        known = linked(query.scores(value, cells, schema))
        return (
            lambda found: _usual(np.abs(linked(query.scores(found, cells, schema)) - known).reshape(len(known), -1)),
            unit,
        )
    if kind == "adassp":
        rows = np.stack([*(np.asarray(columns[name], np.float64) for name in query.features)], axis=1)
        design = np.hstack([rows, np.ones((len(rows), len(target.labels) - rows.shape[1]))])
        return lambda found: _usual(np.abs(design @ (found - value))[:, None]), f"in a prediction of {query.target}"
    if kind.startswith("gaussian"):
        many = kind == "gaussian_mixture"
        means, sizes = (value["means"], value["covariances"]) if many else (value["mean"], value["covariance"])
        means, scales = np.atleast_2d(means), np.sqrt(np.diagonal(np.atleast_3d(sizes), axis1=-2, axis2=-1))
        if not many:
            scales = np.sqrt(np.diag(sizes))[None]
        name = "means" if many else "mean"

        def off(found: Any) -> float:
            each = np.atleast_2d(found[name])
            return max(
                float(np.min(np.max(np.abs(each - mean) / scale, axis=1)))
                for mean, scale in zip(means, scales, strict=True)
            )

        return off, f"standard deviations, in the mean of a {'group' if many else 'column'}"
    if kind == "synthetic_table":
        return _moved(target), "% of the rows in a wrong cell of two columns"
    if isinstance(value, np.ndarray) and value.dtype.kind in "if":
        return lambda found: float(np.max(np.abs(found - value))), "in an entry"
    raise RangeError(f"how far off a {kind} is cannot be measured")


def _linked(asked: Any, target: Release) -> tuple[Callable[[Floats], Floats], str]:
    """Return the readable form of a model's scores, and its unit."""
    loss = str(target.query.get("loss"))
    if "logistic" in loss or "softmax" in loss:

        def chance(scores: Floats) -> Floats:
            if scores.ndim == 1:
                return np.asarray(50 * (1 + np.tanh(scores / 2)))
            grown = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(100 * grown / grown.sum(axis=1, keepdims=True))

        return chance, "percentage points, in a predicted probability"
    if "hinge" in loss:
        return lambda scores: scores, "in the decision value (1 is the margin)"
    return lambda scores: scores, f"in a prediction of {asked.target}"


def _usual(off: Floats) -> float:
    """Return the 95th percentile of the errors of a model's predictions over rows."""
    return float(np.quantile(off.max(axis=1), 0.95))


def _moved(target: Release) -> Distance:
    from sidelight.synthesis.released import open_table

    known = open_table(target)
    names = [axis.name for axis in known.axes]
    pairs: list[tuple[str, ...]] = list[tuple[str, ...]](combinations(names, 2))[:10]
    pairs = pairs or [(name,) for name in names]
    shares = {pair: known.mass.marginal(pair) for pair in pairs}

    def off(value: Any) -> float:
        other = open_table(replace(target, value=value))
        return max(50 * float(np.abs(other.mass.marginal(pair) - share).sum()) for pair, share in shares.items())

    return off


# The same query at another price.


def expected_at(query: Any, schema: Schema, factor: Amount, *, confidence: float) -> Expected:
    """Return the expected error of a query at a multiple of its price."""
    asked = at_price(query, factor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a price that is tried is not paid
        return expected(asked, prepare_query(asked, schema), schema, confidence=confidence)


def with_expected(outcome: Any, query: Any, prepared: Prepared, schema: Schema) -> Any:
    """Return a release that carries an error: its own, its intervals, or what was measured on generated rows.

    Where it has a noisy number of rows, it is measured on about as many. A release that says itself that its rows are
    too few for the noise (a "weak" one) carries none.
    """
    if not isinstance(outcome, Release) or outcome.error is not None or isinstance(outcome.value, GroupTable):
        return outcome
    value = outcome.value if isinstance(outcome.value, Mapping) else {}
    rows = value.get("rows")
    known = float(rows) if isinstance(rows, int | float) and not isinstance(rows, bool) else None
    if value.get("weak") or (known is not None and not 1 < known <= _ALIKE * MOST_ROWS):
        return outcome
    found = expected(query, prepared, schema, confidence=0.95, rows=known)
    return outcome if found.basis == "nothing" else replace(outcome, error=found.tail(0.95))
