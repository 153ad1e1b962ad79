"""The axes of a synthetic table's domain: a category's labels or a number's bins, and back from places to values.

An axis is public: it is made of the schema and the query alone, and stands in the release as JSON.

A number becomes the place of its bin by comparisons with the edges' nearest floats alone, which every engine computes
alike. Hand-made because the fixed-point codings have steps of one size, and people's bins (age groups, incomes) do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CategoryCoding, CodeArrays, Coding, CombinedCoding, Keep
from sidelight.errors import RangeError, SchemaError
from sidelight.noise import Source
from sidelight.noise.integers_and_coins import integers_below
from sidelight.records import Category, Date, Fill, Number
from sidelight.records.dates import Calendar
from sidelight.records.numbers import exact_number, nearest_float, number_text
from sidelight.records.rows import Batch, Wanted
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.inside_bins import smooth_positions

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw


@dataclass(frozen=True)
class BinCoding(Coding):
    """The number of inner edges at or below a value: bins are closed below, and the outer ones take what lies outside.

    `missing` is the code of a missing number; its row is left out where it is None. `places` is the number of codes.

    Guarantee: every code lies in 0..places-1, whatever the value.
    """

    column: str
    inner: tuple[float, ...]
    missing: int | None
    places: int

    @property
    def numbers(self) -> tuple[str, ...]:
        """The number column."""
        return (self.column,)

    @property
    def texts(self) -> tuple[str, ...]:
        """No text columns are read."""
        return ()

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The places of the bins, and of the missing ones."""
        return ((0, self.places - 1),)

    @property
    def drops(self) -> bool:
        """Missing numbers are left out unless they have a code."""
        return self.missing is None

    @cached_property
    def _edges(self) -> Any:
        return np.array(self.inner, np.float64)

    def kernel(self, batch: Batch) -> tuple[CodeArrays, Keep]:
        """Look every number up."""
        values = batch.numbers[self.column]
        with np.errstate(all="ignore"):  # a signalling NaN makes NumPy warn, and rows must not decide that
            absent = np.isnan(values)
            codes = np.searchsorted(self._edges, values, side="right").astype(np.int64)
        codes[absent] = 0 if self.missing is None else self.missing
        return (codes,), ~absent if self.drops else None

    def lower(
        self, frame: nw.LazyFrame[Any], wanted: Wanted, names: Sequence[str]
    ) -> tuple[nw.LazyFrame[Any], nw.Expr | None]:
        """Count the edges below inside an engine."""
        import narwhals.stable.v2 as nw

        column = nw.col(wanted.number_alias(self.column))
        absent = column.is_null() | column.is_nan()
        one, none = nw.lit(1, nw.Int64), nw.lit(0, nw.Int64)
        code: Any = none
        for edge in self.inner:
            code = code + nw.when(column >= edge).then(one).otherwise(none)
        stand_in = nw.lit(0 if self.missing is None else self.missing, nw.Int64)
        code = nw.when(absent).then(stand_in).otherwise(code)
        return frame.with_columns(code.alias(names[0])), ~absent if self.drops else None


#: What stands for a missing cell among the labels of a category whose missing cells are kept.
_MISSING_LABEL = "(missing)"

#: A number whose grid has at most this many values gets a bin for each.
_VALUES_AS_BINS = 32

#: Otherwise, and without a granularity, this many bins of one width.
_DEFAULT_BINS = 16
#: More cells than any domain may have.
_MOST_BINS = 10**7
#: Where numbers lie in their bins: by the released masses of the bins around, anywhere alike, or all in the middle.
Within = Literal["smooth", "uniform", "middle"]


@dataclass(frozen=True)
class Labels:
    """A category: one place a label, and a last one for missing cells if those are kept."""

    category: Category
    keeps_missing: bool

    @property
    def name(self) -> str:
        """The column."""
        return self.category.name

    @property
    def size(self) -> int:
        """The number of places."""
        return len(self.category.labels) + self.keeps_missing

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels as people read them, in order."""
        return self.category.labels + (("missing",) if self.keeps_missing else ())

    @cached_property
    def coding(self) -> Coding:
        """How cells become places."""
        if not self.keeps_missing:
            return CategoryCoding(self.category)
        word = _MISSING_LABEL
        while word in self.category.labels:
            word += "-"
        labels = (*self.category.labels, word)
        return CategoryCoding(Category(self.name, labels, other=self.category.other, missing=Fill(word)))

    def to_json(self) -> dict[str, Any]:
        """Describe the axis."""
        written = {"kind": "category", "name": self.name, "labels": list(self.category.labels)}
        return written | ({"missing": "kept"} if self.keeps_missing else {})


@dataclass(frozen=True)
class Bins:
    """A number in bins: one place a bin [edge, next edge), the last closed, and one for missing cells if kept.

    Values that come back are multiples of the granularity inside their bin and the column's bounds, or, without a
    granularity, any number of the bin.
    """

    number: Number
    edges: tuple[Fraction, ...]
    keeps_missing: bool

    def __post_init__(self) -> None:
        if len(self.edges) < 2:
            raise RangeError(f"the bins of column {self.name!r} need at least two edges, got {len(self.edges)}")
        for place, (low, high) in enumerate(pairwise(self.edges)):
            if low >= high:
                raise RangeError(
                    f"the bins of column {self.name!r} must increase, got {number_text(high)} after "
                    f"{number_text(low)}; write the edges in order, each once"
                )
            if nearest_float(low) >= nearest_float(high):
                raise RangeError(f"two edges of column {self.name!r} are one float; use wider bins")
            first, last = self._multiples(place)
            if first > last:
                raise RangeError(
                    f"the bin from {number_text(low)} to {number_text(high)} of column {self.name!r} holds no value "
                    "that the column can have (bounds, granularity); use wider bins inside the bounds"
                )

    @property
    def name(self) -> str:
        """The column."""
        return self.number.name

    @property
    def size(self) -> int:
        """The number of places."""
        return len(self.edges) - 1 + self.keeps_missing

    @property
    def labels(self) -> tuple[str, ...]:
        """The bins as people read them."""
        texts = [number_text(edge) for edge in self.edges]
        named = [f"[{low}, {high})" for low, high in pairwise(texts)]
        named[-1] = named[-1][:-1] + "]"
        return (*named, "missing") if self.keeps_missing else tuple(named)

    @cached_property
    def coding(self) -> Coding:
        """How numbers become places."""
        inner = tuple(nearest_float(edge) for edge in self.edges[1:-1])
        missing = self.size - 1 if self.keeps_missing else None
        if missing is None and isinstance(self.number.missing, Fill):
            value = exact_number(self.number.missing.value, name="fill")
            missing = sum(edge <= nearest_float(value) for edge in inner)
        return BinCoding(self.name, inner, missing, self.size)

    def _multiples(self, place: int) -> tuple[Fraction, Fraction]:
        """Return the first and last value of a bin: in steps of the granularity, or, without one, as numbers."""
        low, high = self.edges[place : place + 2]
        closed = place == len(self.edges) - 2
        step, number = self.number.granularity, self.number
        if step is None:
            low = low if number.lower is None else max(low, number.lower)
            return low, high if number.upper is None else min(high, number.upper)
        first, last = ceil(low / step), floor(high / step) if closed else ceil(high / step) - 1
        if number.lower is not None:
            first = max(first, ceil(number.lower / step))
        if number.upper is not None:
            last = min(last, floor(number.upper / step))
        return Fraction(first), Fraction(last)

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers."""
        return self.number.granularity is not None and self.number.granularity.denominator == 1

    def values(
        self, places: NDArray[np.int64], source: Source, within: Within, masses: NDArray[np.float64] | None = None
    ) -> NDArray[Any]:
        """Return a number inside the bin of each place; missing places give NaN.

        Args:
            places: The place of each row.
            source: Of public randomness.
            within: How numbers lie in their bins.
            masses: The released share of each bin, for "smooth".
        """
        ends = [self._multiples(place) for place in range(len(self.edges) - 1)]
        absent = places == len(ends)
        known = np.where(absent, 0, places)
        step = self.number.granularity
        widths = np.array([float(last - first) + (step is not None) for first, last in ends])
        parts = np.full(len(places), 0.5)
        if within != "middle" and (step is None or within == "smooth"):
            parts = (source.words(len(places)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        if within == "smooth" and masses is not None:
            parts = smooth_positions(parts, known, masses[: len(ends)], np.maximum(widths, 1e-300))
        if step is None:
            low, high = (np.array([nearest_float(end[side]) for end in ends])[known] for side in (0, 1))
            found = low + (high - low) * parts
            found = np.minimum(found, np.where(known == len(ends) - 1, high, np.nextafter(high, low)))
        else:
            steps = np.empty(len(places), np.int64)
            for place, (first, last) in enumerate(ends):
                here = np.flatnonzero(known == place)
                width = int(last - first) + 1
                more: Any = (width - 1) // 2
                if within == "uniform":
                    more = integers_below(width, len(here), source)
                elif within == "smooth":
                    more = np.minimum((parts[here] * width).astype(np.int64), width - 1)
                steps[here] = int(first) + more
            if step.denominator == 1 and not absent.any():
                return steps * int(step)
            found = steps * float(step.numerator) / float(step.denominator)
        return np.where(absent, np.nan, found)

    def to_json(self) -> dict[str, Any]:
        """Describe the axis with strings only."""
        numbers = {key: getattr(self.number, key) for key in ("lower", "upper", "granularity")}
        texts = {key: number_text(value) for key, value in numbers.items() if value is not None}
        written = {"kind": "number", "name": self.name, "edges": [number_text(edge) for edge in self.edges], **texts}
        return written | ({"missing": "kept"} if self.keeps_missing else {})


Axis = Labels | Bins


def counting_of(axis: Axis) -> dict[str, str]:
    """Return how the dates of an axis count, without which its edges mean nothing; {} where it has none."""
    if not isinstance(axis, Bins) or not isinstance(axis.number, Date):
        return {}
    return {"unit": axis.number.unit, "start": axis.number.start}


def axis_from_json(data: Mapping[str, Any]) -> Axis:
    """Read what an axis wrote: enough to make values, not to code new rows."""
    kept = data.get("missing") == "kept"
    if data["kind"] == "category":
        return Labels(Category(data["name"], data["labels"], other=None), kept)
    bounds: dict[str, Any] = {key: data.get(key) for key in ("lower", "upper", "granularity")}
    edges = tuple(exact_number(edge, name="edge") for edge in data["edges"])
    if "start" not in data:
        return Bins(Number(data["name"], **bounds), edges, kept)
    calendar = Calendar.since(data["start"], data["unit"], where="a release")
    end = calendar.text(exact_number(data["upper"], name="upper"))
    return Bins(Date(data["name"], start=data["start"], end=end, unit=data["unit"]), edges, kept)


def axis_of(column: Category | Number, *, edges: Any = None, keeps_missing: bool = False) -> Axis:
    """Make the axis of a declared column. `edges` are a number's bins, or how many bins of one width to make."""
    if isinstance(column, Category):
        if edges is not None:
            raise SchemaError(f"column {column.name!r} is a Category and has labels, not bins; leave it out of bins")
        return Labels(column, keeps_missing)
    if edges is None or isinstance(edges, int | np.integer):
        return Bins(column, _even_edges(column, edges), keeps_missing)
    if isinstance(edges, str) or not isinstance(edges, Sequence | np.ndarray):
        raise RangeError(f"the bins of column {column.name!r} are a list of edges or a number of bins, got {edges!r}")
    read = tuple(exact_number(edge, name=f"an edge of column {column.name!r}") for edge in edges)
    return Bins(column, read, keeps_missing)


def _even_edges(number: Number, count: int | np.integer[Any] | None) -> tuple[Fraction, ...]:
    """Divide the bounds: a bin for each value of a small grid, else bins of one width, in whole steps of a grid."""
    low, high, step = number.lower, number.upper, number.granularity
    if low is None or high is None:
        raise RangeError(
            f"column {number.name!r} needs public bins: pass bins={{{number.name!r}: [edges]}}, or declare lower and "
            "upper; nothing is learned from rows"
        )
    if isinstance(count, bool) or (count is not None and count < 1):
        raise RangeError(f"column {number.name!r} needs at least one bin, got {count}")
    if count is not None and count > _MOST_BINS:
        raise RangeError(f"column {number.name!r} has at most {_MOST_BINS} bins; ask for fewer, or write the edges")
    count = None if count is None else int(count)
    if step is None:
        count = count or _DEFAULT_BINS
        return tuple(low + (high - low) * Fraction(place, count) for place in range(count + 1))
    first, last = ceil(low / step), floor(high / step)
    values = last - first + 1
    if values < 1:
        raise RangeError(f"column {number.name!r} has no multiple of its granularity between its bounds")
    bins = min(values, count or (values if values <= _VALUES_AS_BINS else _DEFAULT_BINS))
    return tuple(step * (first + values * place // bins) for place in range(bins + 1))


def domain_of(axes: Sequence[Axis]) -> Domain:
    """Return the finite domain that axes span."""
    return Domain(tuple(axis.name for axis in axes), tuple(axis.size for axis in axes))


def coding_of(axes: Sequence[Axis]) -> Coding:
    """Return the coding of a whole row."""
    return axes[0].coding if len(axes) == 1 else CombinedCoding(tuple(axis.coding for axis in axes))
