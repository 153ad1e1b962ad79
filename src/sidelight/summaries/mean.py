"""`Mean` and `Proportion`: one budget for count and mean together, by group, better with what is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from sidelight.aggregates.groups import Groups
from sidelight.aggregates.values import value_of
from sidelight.errors import RangeError, SchemaError, explains_removed
from sidelight.group_table import GroupTable
from sidelight.guarantees.units import rows_of_unit
from sidelight.mechanisms.budget import together
from sidelight.noise import Source
from sidelight.predictions import is_prior
from sidelight.records import Schema, Table
from sidelight.records.expression_shapes import TruthShape
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression
from sidelight.release.earlier_dates import CountedDates
from sidelight.session import Answer
from sidelight.session.query import SurePrepared
from sidelight.summaries.clip_subject import subject_of
from sidelight.summaries.clipping import Clip
from sidelight.summaries.grouped import Counted, group_labels
from sidelight.summaries.mean_table import LEAST_GROUPS, MeanReading
from sidelight.summaries.measurement import (
    Measurement,
    PreparedMeasurement,
    check_prediction,
    labels_and_budget,
    mean_error,
    measure_together,
    parts_together,
)
from sidelight.summaries.of_number import OfNumber, joined, number_of, predictions_of
from sidelight.summaries.predicted import PredictedTable, check_single, read_prediction
from sidelight.summaries.tree_numbers import PreparedTreeNumber, prepare_tree_number, public_interval


@dataclass(frozen=True)
class GroupSizes:
    """Declare how many rows of each group have the number of a `Mean` or `Proportion`, where that is public.

    Nothing is then spent on counting, which makes the noise of a mean √2 to 2 times smaller; counts in the table are
    those declared. The guarantee is the same whatever is declared, and hides nothing that the sizes say; wrong ones
    make means wrong, towards the middle of the bounds or away from it. For epsilon alone, one column, persons of one
    row, and groups that are declared.

    Args:
        sizes: A mapping of groups to whole numbers, or a number without `by`; never a release, whose numbers have
            noise.

    >>> import sidelight as sl
    >>> people = sl.Table(
    ...     {"job": ["cook", "nurse"] * 500, "hours": [38, 42] * 500},
    ...     schema=[sl.Category("job", ["cook", "nurse"], other=None), sl.Number("hours", lower=0, upper=80)],
    ... )
    >>> sizes = sl.GroupSizes({"cook": 500, "nurse": 500})
    >>> sl.Mean("hours", by="job", epsilon=1, known=sizes).release(people).value["count"].tolist()
    [500.0, 500.0]
    """

    sizes: Mapping[Any, int] | int

    def _of(self, plan: Measurement, keys: tuple[str, ...]) -> tuple[int, ...]:
        """Return the declared size of each group, in the order of the groups."""
        if not plan.budget.is_pure or plan.labels is not None:
            raise RangeError(
                "sizes need a price of epsilon alone and declared groups: Gaussian noise measures the count almost for "
                "nothing; leave sizes out, or ask with epsilon"
            )
        if rows_of_unit(plan.groups.unit) > 1:
            raise RangeError(
                "sizes are of rows, and rows of a person beyond the caps are left out of the sum, so that means would "
                "come out too near the middle of the bounds; leave sizes out, or bound persons to one row"
            )
        given: Any = self.sizes
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            given = {(): int(given)}
        if not isinstance(given, Mapping) or isinstance(given, GroupTable):
            raise RangeError(
                "sizes are declared as a whole number, or as a mapping {group: number} of plain numbers that are "
                f"public, got {type(self.sizes).__name__}; a release has noise, and its numbers are no sizes"
            )
        table = read_prediction(given, keys=keys, names=("size", "count"))
        check_prediction(table, plan)
        assert table is not None
        sizes = table.on(plan.known).values
        good = (sizes >= 1) & (sizes <= 2**53) & (sizes == np.floor(sizes))  # NaN, of a group without one, is not
        if not good.all():
            group = ", ".join(plan.known[int(np.argmin(good))]) or "all rows"
            raise RangeError(f"sizes must be a whole number of at least 1 for every group, and that of {group} is not")
        return tuple(int(size) for size in sizes)


@explains_removed
@dataclass(frozen=True)
class Mean(OfNumber):
    """Release the mean of a number, of all rows or by group, with its count.

    Count and sum share the budget by a partition of unity: 0.71 of the error of the usual split of epsilon.
    Without declared bounds an interval is found privately (about 1000/epsilon rows are needed, 3000 far from 0, unless
    the values are predicted). Group means are shrunk to a prediction or else to the released overall mean; `mean_plain`
    is what was measured, and `low`, `high` belong to it.

    Guarantee: the price, for the schema's unit under adding or removing one; exact on the machine and whatever data and
    prediction are (summaries proof page, Theorems 2, 3, 4).

    Accuracy: `noise_sd` in the table; `low` and `high` hold the mean of the clipped rows with the confidence, exactly
    for the noise. Clipping itself is not in them: `notes` say where values were clipped.

    Args:
        column: The column, a derived number, or its text: "income", `sl.col("price") * sl.col("pieces")`; or several in
            a list, which share the price and one count of the rows that have them all. Their columns are then called
            `mean_age`, `mean_age_plain`, `mean_age_low`, ..., and a mapping by column predicts them.
        by: Columns or derived labels whose cells are the groups: "job", ["job", "sex"], `sl.col("age").cut([18, 65])`.
        where: A condition on declared columns that rows must pass: `sl.col("age") >= 18`, or its text.
        epsilon, delta, rho, mu: The price: exactly one of epsilon, epsilon with delta, rho, and mu.
        max_groups: In how many groups a person counts at most.
        max_rows_per_group: How many rows of a person count in one group at most.
        confidence: Of the intervals.
        prediction: A predicted mean for each group (a release, a frame, a mapping, `sl.Predicted`), or of the values
            themselves: `sl.priors.Cauchy(40_000, 15_000)`, centre and spread, which helps to clip. A column
            `noise_sd`, which releases have, says how noisy each predicted mean is itself (of a sample: its standard
            error).
        clip: "auto" clips at declared bounds if there are two and values are not predicted; "private" finds an
            interval; "by_group" finds one in each group, for groups that are large and far apart: each then needs the
            rows that "private" needs in all; "declared" insists on bounds; (lower, upper) is a public interval.
        known: Of groups by a `sl.Label`: labels that are public, or an earlier release that published them. Others
            need epsilon with delta, and appear above a threshold on persons that takes a third of the price. Of
            declared groups: `sl.GroupSizes`, where it is public how many rows each has.
        of: "persons" counts each person once in a group, with one of their rows, which a fixed public rule chooses:
            the mean age of members, not of loans. "rows", the default, counts every row up to the caps.

    >>> import sidelight as sl
    >>> people = sl.Table(
    ...     {"job": ["cook", "nurse"] * 500, "hours": [38, 42] * 500},
    ...     schema=[sl.Category("job", ["cook", "nurse"], other=None), sl.Number("hours", lower=0, upper=80)],
    ... )
    >>> table = sl.Mean("hours", by="job", epsilon=1).release(people).value
    >>> bool(abs(table.row("nurse")["mean"] - 42) < 5)
    True
    """

    column: str | Expression | Sequence[str | Expression] = field(compare=False)
    _: KW_ONLY
    of: Counted | None = None
    kind: ClassVar[str] = "mean"
    takes_hierarchy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of == "persons" and self.max_rows_per_group is not None:
            raise RangeError("max_rows_per_group is for means of rows: a person counts once in a group; leave it out")
        if isinstance(self.column, tuple) and isinstance(self.clip, (tuple, list)):
            raise RangeError("one interval does not fit several columns; declare bounds, or ask for each by itself")
        if isinstance(self.known, GroupSizes) and (
            isinstance(self.column, tuple) or self.clip == "by_group" or self.hierarchy is not None
        ):
            raise RangeError(
                "sizes are for the mean of one column with one interval for all groups, without hierarchies; leave "
                "known=sl.GroupSizes(...) out, or these"
            )

    def table_columns(self, kind: str) -> tuple[str, ...]:
        """Return the columns that the table may have; of several numbers each has its own, and one count is of all."""
        columns = super().table_columns(kind)
        if not isinstance(self.column, tuple):
            return columns
        own = [each.removeprefix("mean_") for each in columns if each not in (*_SHARED, "mean", "known")]
        names = [str(each) for each in self.column]
        return (*(f"mean_{name}" for name in names), *(f"mean_{name}_{end}" for name in names for end in own),
                *_SHARED, "known")  # fmt: skip

    def groups(
        self, schema: Schema, *, totals: bool | Literal["vector"] = False, per_group: int | None = None
    ) -> Groups:
        """Check groups and condition against a schema; of persons, one row of each counts in a group."""
        if self.of == "persons" and schema.person is None:
            raise SchemaError(
                "of='persons' counts each person once, and the schema declares none; leave it out, or declare "
                "sl.PersonId(..., max_rows=...), the column of persons"
            )
        return super().groups(schema, totals=totals, per_group=1 if self.of == "persons" else per_group)

    def prepare(self, schema: Schema) -> PreparedMean | PreparedMeans | PreparedTreeNumber:
        """Check the query against the schema, plan where to clip, and price it. Opens no data."""
        if isinstance(self.column, tuple):
            if self.hierarchy is not None:
                raise RangeError("a mean by a hierarchy is of one column; ask for each by itself")
            return self._several(schema, self.column)
        assert isinstance(self.column, (str, Expression))
        return self._prepared(schema, number_of(schema, self.column))

    def _prepared(self, schema: Schema, of: str | Expression) -> PreparedMean | PreparedTreeNumber:
        sizes = self.known if isinstance(self.known, GroupSizes) else None
        plan = (self if sizes is None else replace(self, known=None))._plan(schema, of)
        if self.hierarchy is not None:
            interval = public_interval(plan.clipping.interval)
            value = value_of(schema, of, lower=interval.lower, upper=interval.upper)
            return prepare_tree_number(self, plan.groups, value, name=self.kind, of=of, interval=interval)
        if sizes is not None:
            plan = replace(plan, sizes=sizes._of(plan, self.keys))
        more: dict[str, Any] = {} if plan.sizes is None else {"sizes": list(plan.sizes)}
        table = self._predicted(plan, self.prediction, (f"{self.kind}_plain", self.kind))
        return PreparedMean(
            **self._shared(plan, table, **(self._more | more)),
            keys=self.keys,
            reading=self._reading(plan, table),
        )

    def _several(self, schema: Schema, columns: tuple[str | Expression, ...]) -> PreparedMeans:
        """Plan the means of several columns: an equal part of the price each, and one reading of all."""
        ofs = [number_of(schema, column) for column in columns]
        names = [str(of) for of in ofs]
        if len(set(names)) < len(names):
            raise RangeError("a mean of several columns names one of them twice")
        for name in names:
            other = next((each for each in names for end in _SUFFIXES if each == f"{name}_{end}"), None)
            if other is not None:
                raise RangeError(
                    f"output column names collide: the mean of {other!r} and a column of {name!r}; ask for one of them "
                    "by itself"
                )
        predicted = predictions_of(self.prediction, names)
        groups = self.groups(schema)
        labels, budget = labels_and_budget(self, schema, groups, self.known, columns=len(ofs))
        plans, tables = [], []
        for of, name in zip(ofs, names, strict=True):
            part = budget.part(Fraction(1, len(ofs)))
            clipping = self._clipped(subject_of(schema, of), groups, part, predicted[name])
            plans.append(Measurement(groups=groups, of=of, clipping=clipping, labels=labels))
            wanted = (f"mean_{name}_plain", f"mean_{name}", *(("mean_plain", "mean") if predicted.own(name) else ()))
            noise_name = "noise_sd" if predicted.own(name) else f"mean_{name}_noise_sd"
            tables.append(self._predicted(plans[-1], predicted[name], wanted, noise_name=noise_name))
        described = [self._described(table, predicted[name]) for table, name in zip(tables, names, strict=True)]
        digests = [self._digest(table, predicted[name]) for table, name in zip(tables, names, strict=True)]
        asked = self.asked(plans[0], **self._more, names=names)
        if any(digests):
            asked["prediction"] = [each or "" for each in digests]
        found = labels.claims if labels is not None else None
        return PreparedMeans(
            claims=together(parts_together(plans)) if found is None else found,
            request=asked,
            labels=group_labels(plans[0].known, self.kind),
            prediction=joined(names, described),
            keys=self.keys,
            plans=tuple(plans),
            readings=tuple(self._reading(plan, table) for plan, table in zip(plans, tables, strict=True)),
            names=tuple(names),
        )

    @property
    def _more(self) -> dict[str, Any]:
        """What earlier versions wrote, too: a key keeps its request."""
        return {"pull": True, "population": False, "of": self.of}

    def _predicted(
        self, plan: Measurement, prediction: Any, names: tuple[str, ...], *, noise_name: str = "noise_sd"
    ) -> PredictedTable | None:
        """Read a prediction of the groups, and check it against them as far as they are public."""
        if prediction is None or is_prior(prediction):
            return None
        dates = CountedDates.of(plan.groups.schema, plan.of)
        table = read_prediction(prediction, keys=self.keys, names=names, noise_name=noise_name, dates=dates)
        check_single(table, what="a mean")
        check_prediction(table, plan)
        assert table is not None
        stated = table.relative is not None or table.sd is not None
        if not stated and not plan.finds and len(plan.known) < LEAST_GROUPS:
            raise RangeError(
                f"how far may the prediction be off? With fewer than {LEAST_GROUPS} groups it cannot be learned; "
                "write sl.Predicted(..., doubt=0.1), or predict the values: sl.priors.Cauchy(centre, spread)"
            )
        return table

    def _reading(self, plan: Measurement, table: PredictedTable | None) -> MeanReading:
        return MeanReading(
            name=self.kind,
            table=table,
            confidence=self.confidence,
            finds=plan.finds,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMean(PreparedMeasurement):
    """A `Mean` or `Proportion` fitted to a schema."""

    keys: tuple[str, ...]
    reading: MeanReading

    def error_of(self, rows: float, *, confidence: float) -> tuple[float, str] | None:
        """Return the error bound of measured means for this many rows, and its assumption; None without a theorem.

        Args:
            rows: Of the whole table, a public guess.
            confidence: With which each group's mean, as measured, is within the bound.
        """
        if self.plan.finds or self.plan.sizes is not None:
            return None
        each = rows / max(len(self.plan.known), 1)
        found = mean_error(self.plan, each, confidence=confidence)
        where = "the group has" if self.keys else "there are"
        return None if found is None else (found, f"{where} at least {math.floor(each):,} rows")

    def run(self, table: Table, source: Source) -> Answer:
        """Choose the clipping interval, measure all groups, and make the table."""
        measured = self.plan.run(table, source)
        columns = self.reading.columns(measured)
        return self.plan.answer(columns, measured.names, keys=self.keys, **measured.interval.notes)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMeans(SurePrepared):
    """A `Mean` of several columns fitted to a schema."""

    keys: tuple[str, ...]
    plans: tuple[Measurement, ...]
    readings: tuple[MeanReading, ...]
    names: tuple[str, ...]

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return all(plan.is_additive for plan in self.plans)

    def run(self, table: Table, source: Source) -> Answer:
        """Choose a clipping interval for each column, measure all together, and make the table."""
        first = self.plans[0]
        names = first.shown(table, source)
        measured = measure_together(self.plans, table, source, names=names)
        columns: dict[str, Any] = {}
        notes: dict[str, Any] = {}
        for name, reading, each in zip(self.names, self.readings, measured, strict=True):
            own = {key: value for key, value in reading.columns(each).items() if key not in _SHARED}
            ends = {key: "" if key == "mean" else f"_{key.removeprefix('mean_')}" for key in own}
            columns |= {f"mean_{name}{ends[key]}": own[key] for key in own}
            notes |= {f"{name}_{key}": value for key, value in each.interval.notes.items()}
        # pure: each pair has a count of its own, and their mean has less noise; Gaussian: all are one
        count = np.mean([each.moments.count for each in measured], axis=0)
        columns |= {"count": np.maximum(count, 0.0), "count_unbiased": count}
        columns["supported"] = np.all([each.supported for each in measured], axis=0)
        return first.answer(columns, names, keys=self.keys, **notes)


#: The suffixes of the columns of each mean of several columns: `mean_age_low`.
_SUFFIXES = ("plain", "pooled", "noise_sd", "low", "high", "sd", "clip_lower", "clip_upper")
#: Columns that the means of several columns have in common.
_SHARED = ("count", "count_unbiased", "count_low", "count_high", "supported")


@explains_removed
@dataclass(frozen=True)
class Proportion(Mean):
    """Release the share of rows that a condition is true of, of all rows or by group, with their count.

    The pair is (yes, no). A row whose condition is unknown, because a cell is missing, counts in neither.

    Guarantee: the price, for the schema's unit under adding or removing one; exact on the machine and whatever data and
    prediction are (summaries proof page, Theorems 2 and 3).

    Accuracy: `low` and `high` hold the proportion in the table with the confidence, exactly for the noise.

    Args:
        column: The condition, or its text: `sl.col("smoker") == "yes"`.
        by, where, epsilon, delta, rho, mu, max_groups, max_rows_per_group, confidence: As for `Mean`.
        prediction: A predicted proportion for each group: a release, a frame, a mapping, `sl.Predicted`.
        known, of: As for `Mean`.

    >>> import sidelight as sl
    >>> people = sl.Table({"age": list(range(20, 80)) * 50}, schema=[sl.Number("age", granularity=1)])
    >>> share = sl.Proportion(sl.col("age") >= 65, epsilon=1).release(people).value.proportion
    >>> bool(0.2 < share < 0.3)
    True
    """

    clip: Clip = field(default="auto", init=False, repr=False)  # a proportion lies in 0..1
    kind: ClassVar[str] = "proportion"

    def prepare(self, schema: Schema) -> PreparedMean | PreparedTreeNumber:
        """Check the condition against the schema and price it. Opens no data."""
        assert isinstance(self.column, (str, Expression))
        condition = parse_expression(self.column) if isinstance(self.column, str) else self.column
        if not isinstance(condition.check(schema), TruthShape):
            raise SchemaError(f"a proportion is of a condition, and {condition} is not one; compare it with something")
        if is_prior(self.prediction):
            raise RangeError("a proportion is predicted by numbers of 0..1, one per group, not by a prior of values")
        return self._prepared(schema, condition)
