"""Sums, means and proportions of a hierarchy: one tree of sums, or the trees of a pair, with the passes of counts.

A mean is the ratio of the pair Σc and Σ(M - c), both measured at every level: sums of children add up, means do not and
are not made to (hierarchies proof page, Theorem 1, for what a row moves).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.group_sums import Kind, group_statistics
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.values import Value
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import HIERARCHY
from sidelight.guarantees import Amount
from sidelight.noise import Source
from sidelight.predictions import is_prior
from sidelight.readable import number_text
from sidelight.records import Table
from sidelight.records.expressions import Expression
from sidelight.release.earlier_dates import CountedDates
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.clip_subject import ClipInterval
from sidelight.summaries.count_hierarchy import TreeShape, level_error, read_caps, something_to_measure, tree_shape
from sidelight.summaries.count_tables import bounded_words, error_of_shown
from sidelight.summaries.intervals import fieller
from sidelight.summaries.moments import SUPPORT
from sidelight.summaries.predicted import PredictedTable, read_prediction
from sidelight.summaries.public_totals import public_sums
from sidelight.summaries.tree_advice import Measure, pure_advice
from sidelight.summaries.tree_measurement import TreeMeasurement, TreeWishes, measure_tree
from sidelight.summaries.tree_model import half_widths
from sidelight.summaries.tree_prior import TreePredictionUse, predicted_cells, with_prediction
from sidelight.summaries.tree_tables import long_table, written_model
from sidelight.summaries.tree_whole import nonnegative_tree
from sidelight.table_texts import EXACT

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTreeNumber(SurePrepared):
    """A sum, a mean or a proportion by a hierarchy, ready to run."""

    groups: Groups
    shape: TreeShape
    measurement: TreeMeasurement
    measure: Measure
    price: Mapping[str, Amount | None]
    value: Value
    name: str
    confidence: float
    table: PredictedTable | None = None
    totals: tuple[Floats, ...] = ()

    @property
    def advice(self) -> tuple[str, ...]:
        """What a pure price buys."""
        unit, of = self.value.code_step, f"the sums that a {self.name} is made of"
        if self.name == "sum":
            unit, of = self.value.whole_step, "sums"
        return pure_advice(self.measure, self.measurement, self.price, of=of, unit=float(unit))

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return True

    def run(self, table: Table, source: Source) -> Answer:
        """Add up the finest cells, measure every level, pool, and make the table."""
        of_sum = self.name == "sum"
        kind: Kind = "whole" if of_sum else "pair"
        norm = self.measurement.margins[0].noise.norm
        found = group_statistics(table, self.groups, [self.value], kind=kind, norm=norm).values[0]
        # sums of many cells may leave 64 bits: they are Python's whole numbers until the noise is added
        exact = np.asarray(found.value).astype(object)
        parts = [exact] if of_sum else [exact[0], exact[1]]
        pooled = self.measurement.pooled([self.shape.cells(each) for each in parts], source)
        model = self.measurement.model
        estimates = [model.estimates(each, self.totals) for each in pooled]
        used: TreePredictionUse | None = None
        if of_sum:
            columns, used = self._sums(estimates[0], pooled[0], source)
        else:
            columns = self._means(*estimates)
        unit = float(self.value.whole_step if of_sum else self.value.code_step)
        written = written_model(
            model,
            statistic=self.name,
            confidence=self.confidence,
            unit=unit,
            lowest=0.0 if of_sum and self.value.first >= 0 else -math.inf,
        )
        notes = {
            HIERARCHY: written,
            "shares": [str(share) for share in self.measurement.shares],
            **({} if used is None else used.notes(unit=unit * float(self.value.farthest))),
            **({"public_totals_far_off": model.far_off(pooled[0], self.totals)} if self.totals else {}),
            "clip_lower": float(self.value.lower),
            "clip_upper": float(self.value.upper),
            **self.groups.notes,
        }
        value = long_table(model, self.shape.keys, columns, **notes)
        return Answer(value=value, error=None if self.table is None else error_of_shown(self.error, value))

    def _sums(
        self, unbiased: list[Floats], pooled: list[Floats | None], source: Source
    ) -> tuple[dict[str, list[Any]], TreePredictionUse | None]:
        """Return the columns of sums, and which prediction each cell uses.

        Where no value is below 0, or none above, neither is a sum.
        """
        model, tree = self.measurement.model, self.shape.tree
        unit, value = float(self.value.whole_step), self.value
        sds = [model.cell_sds(level) for level in range(tree.depth + 1)]
        sign = _sign(value)
        read, used = unbiased, None
        if sign:
            found = [sign * each for each in unbiased]
            if self.table is not None:
                found, used = self._predicted(self.table, found, pooled, sds, source)
            totals = [sign * each for each in self.totals]
            found = nonnegative_tree(tree, found, sds, model.possible, totals=totals)
            read = [sign * each for each in found]
        columns: dict[str, list[Any]] = {name: [] for name in ("sum", "unbiased", "noise_sd", "low", "high")}
        lowest = 0.0 if sign > 0 else -math.inf
        highest = 0.0 if sign < 0 else math.inf
        for level in range(tree.depth + 1):
            values, shown = (model.cells.all_margins(each[level]) for each in (unbiased, read))
            if level < len(self.totals):  # as they are, without the rounding of floats
                values[:, -1] = shown[:, -1] = self.totals[level]
            sd, reach = half_widths(model.node_variances(level), model.law, self.confidence)
            columns["sum"].append(shown * unit)
            columns["unbiased"].append(values * unit)
            columns["noise_sd"].append(sd * unit)
            columns["low"].append(np.clip((values - reach) * unit, lowest, highest))
            columns["high"].append(np.clip((values + reach) * unit, lowest, highest))
            if self.totals:
                columns.setdefault(EXACT, []).append(model.exact_words(level, "public"))
        return columns, used

    def _predicted(
        self,
        table: PredictedTable,
        unbiased: list[Floats],
        pooled: list[Floats | None],
        sds: list[Floats],
        source: Source,
    ) -> tuple[list[Floats], TreePredictionUse]:
        """Return the sums, without their sign, with predictions where they help.

        Doubt is learned as for counts, in units of what one record adds at most: such a sum is at most that count.
        """
        model, width = self.measurement.model, float(self.value.farthest)
        scale = _sign(self.value) / (float(self.value.whole_step) * width)
        expected = [
            replace(
                each,
                cells=each.cells * scale,
                sd=None if each.sd is None else each.sd * abs(scale),
            )
            for each in predicted_cells(table, self.groups.keys, self.shape.cells)
        ]
        sign = _sign(self.value)
        found, used = with_prediction(
            replace(model, kappas=tuple(kappa / width**2 for kappa in model.kappas)),
            [None if each is None else sign * each / width for each in pooled],
            [each / width for each in unbiased],
            [each / width for each in sds],
            expected,
            source,
            totals=[sign * each / width for each in self.totals],
        )
        return [each * width for each in found], used

    def _means(self, above: list[Floats], below: list[Floats]) -> dict[str, list[Any]]:
        """Return the columns of means: a node whose count is within its noise has its parent's mean."""
        model, tree, levels = self.measurement.model, self.shape.tree, float(self.value.levels)
        lower, upper = float(self.value.lower), float(self.value.upper)
        names = (self.name, f"{self.name}_plain", "noise_sd", "low", "high", "count", "count_unbiased", "supported")
        columns: dict[str, list[Any]] = {name: [] for name in names}
        before: Floats = np.full((1, model.cells.all_margins(above[0]).shape[1]), 0.5)
        for level in range(tree.depth + 1):
            first, second = (model.cells.all_margins(each[level]) for each in (above, below))
            whole = first + second
            sd, reach = half_widths(model.node_variances(level), model.law, self.confidence)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.clip(np.where(whole > 0, first / whole, 0.5), 0.0, 1.0)
            supported = whole > SUPPORT * math.sqrt(2) * sd
            inherited = before if level == 0 else before[tree.parents[level]]
            read = np.where(supported, ratio, inherited)

            def half_width(u: Floats, reach: Floats = reach) -> Floats:
                # A - u(A + B) = A(1 - u) - Bu, of independent A and B
                return np.asarray(reach * np.sqrt((1 - u) ** 2 + u**2) + 1.0)

            ends = fieller(first, whole, half_width, 0.0, 1.0, lower, upper)
            off = np.sqrt((1 - ratio) ** 2 + ratio**2) * sd
            columns[self.name].append(lower + (upper - lower) * read)
            columns[f"{self.name}_plain"].append(lower + (upper - lower) * ratio)
            columns["noise_sd"].append((upper - lower) * np.minimum(off / np.maximum(whole, 1.0), 1.0))
            columns["low"].append(ends.low)
            columns["high"].append(ends.high)
            columns["count"].append(np.maximum(whole / levels, 0.0))
            columns["count_unbiased"].append(whole / levels)
            columns["supported"].append(supported)
            before = read
        return columns


def prepare_tree_number(
    query: Any, groups: Groups, value: Value, *, name: str, of: str | Expression, interval: ClipInterval
) -> PreparedTreeNumber:
    """Fix tree, shares, noise and claims of a sum, a mean or a proportion by a hierarchy; public numbers only.

    Args:
        query: The `Sum`, `Mean` or `Proportion`.
        groups: Its groups, over all columns of `by`.
        value: What is added up, clipped to the interval.
        name: "sum", "mean" or "proportion".
        of: The column or expression.
        interval: The public interval of the values.
    """
    if query.prediction is not None and (name != "sum" or is_prior(query.prediction)):
        raise RangeError("predictions of a hierarchy are of counts or sums by group; leave prediction out")
    shape, known = tree_shape(query, groups, name), query.hierarchy
    of_sum = name == "sum"
    unit = float(value.whole_step if of_sum else value.code_step)
    table = None
    if of_sum:
        dates = CountedDates.of(groups.schema, of, summed=True)
        table = read_prediction(query.prediction, keys=query.keys, names=("unbiased", "sum"), dates=dates)
    if table is not None:
        if not _sign(value):
            raise RangeError(
                "predictions are of shares of a sum, and values below and above 0 have none; declare lower=0, or leave "
                "prediction out"
            )
        table.check(tuple(product(*groups.keys)))
    totals = tuple(each / unit for each in public_sums(known.public_totals, shape.tree))
    if totals and _sign(value) and min(float((each * _sign(value)).min()) for each in totals) < 0:
        raise RangeError("public_totals have a sign that no value within the declared bounds has")
    something_to_measure(totals, shape)
    in_units = {level: cap / unit for level, cap in read_caps(known.caps, shape.tree).items()}
    measure = partial(
        measure_tree,
        shape.tree,
        shape.labels,
        groups,
        TreeWishes(caps=in_units, confidence=query.confidence, exact_level=len(totals) - 1 if totals else None),
        width=Fraction(value.farthest if of_sum else value.levels),
        signed=of_sum and value.first < 0 < value.last,
    )
    measurement = measure(query.price)
    lower, upper = (number_text(float(end), digits=15) for end in (value.lower, value.upper))
    words = f"values lie within {lower} to {upper}; {bounded_words(groups)}"
    error = level_error(measurement.model, unit=f"units of {of}", assumption=words, each=unit) if of_sum else None
    return PreparedTreeNumber(
        claims=measurement.claims,
        request=query.request(
            name,
            column=str(of),
            hierarchy=f"{' > '.join(shape.tree.names)} {shape.tree.digest}",
            **shape.request,
            clip=[str(interval.lower), str(interval.upper)],
            caps=None if not known.caps else [f"{level}={cap}" for level, cap in known.caps.items()],
            per=("person" if groups.totals else "row") if of_sum else None,
            of=getattr(query, "of", None),
            public_totals=None if not totals else [repr(each) for each in (totals[-1] * unit).tolist()],
            prediction=None if table is None else str(table.description["sha256"]),
        ),
        labels=(),
        prediction=None if table is None else table.description,
        error=error,
        groups=groups,
        shape=shape,
        measurement=measurement,
        measure=measure,
        price=query.price,
        value=value,
        name=name,
        confidence=query.confidence,
        table=table,
        totals=totals,
    )


def _sign(value: Value) -> float:
    """Return 1 or -1 where all values have one sign, else 0."""
    return 1.0 if value.first >= 0 else -1.0 if value.last <= 0 else 0.0


def public_interval(interval: ClipInterval | None) -> ClipInterval:
    """Refuse values without a public interval: one that is found privately has a price of its own."""
    if interval is None:
        raise SchemaError(
            "a number by a hierarchy needs a public interval: declare lower and upper, or write clip=(lower, upper)"
        )
    return interval
