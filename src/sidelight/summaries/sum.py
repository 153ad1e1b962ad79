"""`Sum`: totals by group, of rows, or of persons each of whom is clipped as a whole."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.collect_ranks import level_value
from sidelight.aggregates.group_sums import Kind
from sidelight.aggregates.groups import Groups, known_max_groups
from sidelight.aggregates.person_vectors import PersonVector
from sidelight.aggregates.values import Value, total_of, value_of, vector_of
from sidelight.errors import RangeError, explains_removed
from sidelight.grid import CODE_LIMIT, Grid
from sidelight.guarantees import Amount, exact
from sidelight.mechanisms.additive import GaussianNoise, Noise
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions import is_prior
from sidelight.readable import number_text
from sidelight.records import Label, Schema, Table
from sidelight.records.expressions import Expression
from sidelight.records.numbers import exact_number
from sidelight.release import TailBound
from sidelight.release.earlier_dates import CountedDates
from sidelight.session import Answer
from sidelight.summaries.clip_subject import ClipInterval, GroupIntervals, Subject, subject_of
from sidelight.summaries.clipping import Clipping
from sidelight.summaries.count_tables import bounded_words, error_of_shown, tail_bound
from sidelight.summaries.intervals import around, gaussian_bound, laplace_bound
from sidelight.summaries.measurement import Measurement, PreparedMeasurement, check_prediction, labels_and_budget, mu_of
from sidelight.summaries.moments import SUPPORT, Floats
from sidelight.summaries.noise_choice import gaussian_variance, laplace_variance
from sidelight.summaries.of_number import OfNumber, number_of
from sidelight.summaries.predicted import Group, PredictedTable, read_prediction
from sidelight.summaries.shrink import Shrunk, best_of, directions, shrink, sum_doubt
from sidelight.summaries.tree_numbers import PreparedTreeNumber, prepare_tree_number, public_interval

#: A predicted sum farther away, in widths of a record, is ignored: its square would overflow.
_FARTHEST = 1e60


@explains_removed
@dataclass(frozen=True)
class Sum(OfNumber):
    """Release the sum of a number, of all rows or by group.

    Where a `PersonId` allows several rows, all of a person's rows of a group, and not only `max_rows` of them, are
    added up first, and the total is clipped: the noise is that of one total. A public interval, `clip` or
    `person_total`, is used as it is given. Without one it is found privately, within `max_rows` times the declared
    bounds of a row: persons with more rows may lose what lies beyond. By group, the totals of a person in all groups
    are cut together (`person_total`), with the noise of one total in however many groups; with `max_groups` each is
    clipped by itself.

    Guarantee: the price, for the schema's unit under adding or removing one; exact on the machine and whatever data and
    prediction are (summaries proof page, sections 1 and 3).

    Accuracy: `unbiased` is the noisy sum of the clipped values; `low` and `high` hold it with the confidence, exactly.
    `sum` is shrunk to a prediction, and not below 0 where no value is.

    Args:
        column: The column, a derived number, or its text.
        by, where, epsilon, delta, rho, mu, max_groups, confidence: As for `Mean`.
        max_rows_per_group: Adds up rows instead of totals of persons: the most rows of a person in one group.
        prediction: A predicted sum for each group (a release, a frame, a mapping, `sl.Predicted`, or a list of several,
            of which the one that fits best after the noise is used), or of the values or totals themselves:
            `sl.priors.Cauchy(40_000, 15_000)`, which helps to clip.
        clip: "auto" clips at declared bounds if there are two and values are not predicted; "private" finds an interval
            around 0, "by_group" one in each group; "declared" insists on bounds, of totals `max_rows` times those of a
            row; (lower, upper) is a public interval, of totals for persons.
        known: Of groups by a `sl.Label`: labels that are public, as for `Mean`.
        person_total: The most that one person's totals, without their signs, add up to in all groups together. A person
            with more loses it in groups that do not depend on other persons. "private" finds it, as does leaving it out
            by groups without `max_groups`. With `max_groups` and a public `clip` too, what has less noise is taken.

    >>> import sidelight as sl
    >>> table = sl.Table({"spend": [10.0] * 1000}, schema=[sl.Number("spend", lower=0, upper=50)])
    >>> bool(abs(sl.Sum("spend", epsilon=1).release(table).value.sum - 10_000) < 2000)
    True
    """

    column: str | Expression = field(compare=False)
    _: KW_ONLY
    person_total: Amount | Literal["private"] | None = None
    kind: ClassVar[str] = "sum"
    takes_hierarchy: ClassVar[bool] = True

    def prepare(self, schema: Schema) -> PreparedSum | PreparedTreeNumber:
        """Check the query against the schema, plan where to clip, and price it. Opens no data."""
        of = number_of(schema, self.column)
        many = schema.rows_per_unit > 1 or self.person_total is not None
        totals = many and (self.max_rows_per_group is None or self.person_total is not None)
        vector = self._cuts_vectors(schema, totals=totals)
        groups = self.groups(schema, totals="vector" if vector else totals)
        if self.hierarchy is not None:
            return self._by_hierarchy(schema, of, groups)
        labels, budget = labels_and_budget(self, schema, groups, self.known)
        clipping = self._clipping(schema, of, groups, budget)
        table = None
        if not is_prior(self.prediction):
            dates = CountedDates.of(schema, of, summed=True)
            table = read_prediction(self.prediction, keys=self.keys, names=("unbiased", "sum"), dates=dates)
        plan = Measurement(groups=groups, of=of, clipping=clipping, labels=labels)
        check_prediction(table, plan)
        per = "person" if totals else "row"
        stated = self.person_total or ("private" if vector else None)
        return PreparedSum(
            **self._shared(plan, table, per=per, person_total=stated),
            error=_sum_error(plan),
            query=self,
            table=table,
        )

    def _cuts_vectors(self, schema: Schema, *, totals: bool) -> bool:
        """Return whether the totals of a person are cut together; public declarations decide."""
        groups = known_max_groups(schema, self.axes, self.max_groups)
        if self.person_total is None:
            declared = not any(isinstance(each, Label) and each.name in self.keys for each in schema.columns)
            private = self.clip in ("auto", "private")
            return totals and bool(self.by) and groups is None and self.hierarchy is None and declared and private
        if not totals or schema.person is None:
            raise RangeError("person_total is for totals of persons; declare sl.PersonId(...)")
        if self.hierarchy is not None:
            raise RangeError("person_total is not for sums by a hierarchy; give max_groups= and clip=(lower, upper)")
        if self.person_total != "private" and exact(self.person_total, name="person_total") <= 0:
            raise RangeError(f"person_total must be positive, got {self.person_total}")
        if not isinstance(self.clip, (tuple, list)):
            if self.clip not in ("auto", "private") or self.max_groups is not None:
                raise RangeError(
                    "person_total cuts the totals of all groups together; leave max_groups and clip out, or give both "
                    "max_groups= and clip=(lower, upper), and what has less noise is taken"
                )
            return bool(self.by)  # all rows in one group have one total
        if groups is None or self.person_total == "private":
            raise RangeError(
                "clip is of each group's total; give max_groups= and a person_total too, or leave clip out"
            )
        each = max(abs(exact_number(end, name="an end of clip")) for end in self.clip)
        laplace = self.epsilon is not None and self.delta is None
        return exact(self.person_total, name="person_total") ** 2 < groups ** (2 if laplace else 1) * each**2

    def _by_hierarchy(self, schema: Schema, of: str | Expression, groups: Groups) -> PreparedTreeNumber:
        clipping = self._clipping(schema, of, groups, Budget.of(**self.price))
        interval = public_interval(clipping.interval)
        plan = Measurement(groups=groups, of=of, clipping=clipping)
        value, _, _ = _summed(plan, interval)
        return prepare_tree_number(self, groups, value, name=self.kind, of=of, interval=interval)

    def _clipping(self, schema: Schema, of: str | Expression, groups: Groups, budget: Budget) -> Clipping:
        subject, clip = subject_of(schema, of), self.clip
        if groups.totals:
            if self.max_rows_per_group is not None:
                raise RangeError("totals of persons hold all their rows; leave max_rows_per_group or person_total out")
            vector = isinstance(groups.totals, PersonVector)
            if vector:
                clip = "auto" if self.person_total in (None, "private") else (0, self.person_total)
            elif not (self.by or isinstance(clip, (tuple, list)) or self.person_total in (None, "private")):
                clip = (-exact(self.person_total, name="person_total"), self.person_total)
            if schema.rows_per_unit > 1 and clip == "auto":
                clip = "private"  # declared bounds are those of a row
            subject = _total_subject(schema, of, vector=vector, stated=not isinstance(clip, str))
        return self._clipped(subject, groups, budget, self.prediction, clip=clip, around_zero=True)


def _total_subject(schema: Schema, of: str | Expression, *, vector: bool, stated: bool) -> Subject:
    """Return the totals of persons as what is clipped: k rows within [L, U] add up to min(L, kL)..max(U, kU).

    Of vectors it is the sum of all totals without their signs, at most k max(|L|, |U|). A stated interval is limited by
    what holds for any number of rows alone: L from 0 on, and U up to 0.
    """
    rows, row = schema.rows_per_unit, subject_of(schema, of)
    subject = subject_of(schema, of, total=total_of(schema, of))
    lower = None if row.lower is None or (stated and row.lower < 0) else min(row.lower, rows * row.lower)
    upper = None if row.upper is None or (stated and row.upper > 0) else max(row.upper, rows * row.upper)
    if not vector:
        return replace(subject, lower=lower, upper=upper)
    most = None if lower is None or upper is None else max(abs(lower), abs(upper))
    assert isinstance(subject.grid, Grid)
    grid = replace(subject.grid, first=0, last=CODE_LIMIT)
    return replace(subject, grid=grid, lower=Fraction(0), upper=most)


def _summed(plan: Measurement, interval: ClipInterval) -> tuple[Value, Measurement, ClipInterval]:
    """Return what is added up, rows or totals of persons clipped to an interval, the plan, and the interval in fact."""
    schema, of, totals = plan.groups.schema, plan.of, plan.groups.totals
    if isinstance(totals, PersonVector):
        value, cut = vector_of(schema, of, person_total=interval.upper)
        used = interval.used(replace(value, first=0, last=cut.most))
        return value, replace(plan, groups=replace(plan.groups, totals=cut)), used
    clipped_value = total_of if totals else value_of
    value = clipped_value(schema, of, lower=interval.lower, upper=interval.upper)
    return value, plan, interval.used(value)


def _is_pair(plan: Measurement, value: Value) -> bool:
    """Return whether the sum is released with the count, as a pair: from 0 on it costs nothing."""
    return 0 in (value.first, value.last) and not isinstance(plan.groups.totals, PersonVector)


def _sum_error(plan: Measurement) -> TailBound | None:
    """Return a bound on the error of all `unbiased` sums at once where the interval and the groups are public.

    It is that of the noise, which is known before any row is read (`count_error`), in the unit of the number.
    """
    interval, groups = plan.clipping.interval, plan.groups
    if interval is None or plan.finds:
        return None
    value, _, interval = _summed(plan, interval)
    pair = _is_pair(plan, value)
    width, unit = (value.levels, value.code_step) if pair else (value.farthest, value.whole_step)
    signed = not pair and value.first < 0 < value.last
    none = groups.norms.bounded(np.zeros(1, np.int64), plan.budget.norm, groups.unit, width, signed=signed)
    noise = noise_of(plan.budget, none)
    assert noise.law in ("laplace", "gaussian")
    rows = "totals of persons" if groups.totals else "values"
    lower, upper = (number_text(float(end), digits=15) for end in (interval.lower, interval.upper))
    words = f"{rows} lie within {lower} to {upper}; {bounded_words(groups)}"
    if isinstance(groups.totals, PersonVector):
        words = f"the totals of a person add up to at most {upper} in all groups together"
    found = tail_bound(noise.law, noise.scale, len(plan.known), unit=f"units of {plan.of}", assumption=words)
    each = float(unit)
    return replace(found, fixed=(found.fixed[0] * each,), per_log=(found.per_log[0] * each,))


class _ExactSums(NamedTuple):
    """Clipped sums before the noise. Private."""

    found: Bounded  # the sums of each group, or pairs of them
    value: Value
    unit: Any  # what one unit of a sum is worth: in all groups, or in each
    width: Any  # by which groups are compared, in these units
    reach: tuple[Any, Any]  # the smallest and the largest value of a record
    interval: ClipInterval | GroupIntervals


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSum(PreparedMeasurement):
    """A `Sum` fitted to a schema."""

    query: Sum
    table: PredictedTable | None

    def run(self, table: Table, source: Source) -> Answer:
        """Choose the clipping interval, add up all groups, add noise, and make the table."""
        names = self.plan.shown(table, source)
        of_clipped = self._in_each_group if self.plan.clipping.by_group else self._in_one_interval
        found, value, unit, width, reach, interval = of_clipped(table, names, source)
        pair = _is_pair(self.plan, value)
        query, noise = self.query, noise_of(self.plan.budget, found)
        noisy = np.asarray(noise.release(source)).reshape(2 if pair else 1, len(names)).astype(np.float64)
        sums = -noisy[1] if pair and value.first != 0 else noisy[0]
        laplace = noise.law == "laplace"
        variance = laplace_variance(noise.scale) if laplace else gaussian_variance(noise.scale)
        bound = (laplace_bound if laplace else gaussian_bound)(noise.scale, confidence=query.confidence)
        unbiased = sums * unit
        ends = around(unbiased, bound * unit, lowest=-math.inf)
        low, high = np.where(reach[0] >= 0, 0.0, -math.inf), np.where(reach[1] <= 0, 0.0, math.inf)
        there = np.ones(len(names), bool)
        if pair:
            count = (noisy[0] + noisy[1]) / value.levels
            there = (count > SUPPORT * math.sqrt(2 * variance) / value.levels) & interval.enough(count)
        # an interval that was found in no rows may lie anywhere, and its sum says nothing about the prediction
        judged = there if isinstance(interval, GroupIntervals) else np.ones_like(there)
        shrunk = self._shrunk(sums, variance, width, unit, names, judged)
        columns: dict[str, Any] = {
            "sum": np.clip(shrunk * unit, low, high),
            "unbiased": unbiased,
            "noise_sd": np.full(len(sums), math.sqrt(variance) * unit),
            "low": np.clip(ends.low, low, high),
            "high": np.clip(ends.high, low, high),
        }
        if pair:
            columns |= {"count": np.maximum(count, 0.0), "count_unbiased": count, "supported": there}
        notes = interval.notes
        if isinstance(self.plan.groups.totals, PersonVector):
            words = {name: each for name, each in notes.items() if name == "clipped"}
            notes = {"person_total": notes["clip_upper"], **words}
        answer = self.plan.answer(columns | interval.columns, names, keys=query.keys, **notes)
        return replace(answer, error=error_of_shown(self.error, answer.value))

    def _in_one_interval(self, table: Table, names: tuple[Group, ...], source: Source) -> _ExactSums:
        """Add up values clipped to one interval. From 0 on the sum is one entry of the pair, which has the count."""
        interval = self.plan.clipping.run(table, self.plan.groups, source)
        value, plan, interval = _summed(self.plan, interval)
        pair = _is_pair(plan, value)
        kind: Kind = "pair" if pair else "whole"
        found = plan.statistics(table, names, [value], kind=kind, norm=self.plan.budget.norm).values[0]
        step = value.code_step if pair else value.whole_step
        width = float(max(abs(value.lower), abs(value.upper)) / step)
        return _ExactSums(found, value, float(step), width, (float(value.lower), float(value.upper)), interval)

    def _in_each_group(self, table: Table, names: tuple[Group, ...], source: Source) -> _ExactSums:
        """Add up values clipped to an interval of each group: as many levels in every group."""
        clipping = self.plan.clipping
        subject, pair = clipping.subject, clipping.side in ("up", "down")
        rows = self.plan.rows(table, names, [subject])
        intervals = clipping.each_group(rows, 0, source)
        value = level_value(subject.coding, signed=not pair)
        codes = rows.clipped(0, subject.grid, value, intervals.lower, intervals.upper)
        kind: Kind = "pair" if pair else "whole"
        found = rows.statistics([value], [codes], kind=kind, norm=self.plan.budget.norm).values[0]
        farthest = np.maximum(np.abs(intervals.lower), np.abs(intervals.upper))
        unit = farthest / (value.levels if pair else value.farthest)
        usual = float(np.median(farthest)) if len(names) else 1.0  # the unit in which groups are compared
        if clipping.side == "down":
            value = replace(value, first=-value.last, last=0)
        return _ExactSums(found, value, unit, usual / unit, (intervals.lower, intervals.upper), intervals)

    def _shrunk(
        self, sums: Floats, variance: float, width: Any, unit: Any, names: tuple[Group, ...], judged: NDArray[np.bool_]
    ) -> Floats:
        """Return sums shrunk to predicted ones, in units of the noise's grid; as they are without a prediction."""
        if self.table is None:
            return sums
        candidates = [
            self._towards(each, sums, variance, width, unit, names, judged) for each in (self.table, *self.table.others)
        ]
        with np.errstate(all="ignore"):  # what is not shrunk stays what it is
            best = best_of(candidates, sums / width) if len(candidates) > 1 else candidates[0]
            return np.where(best.kept == 1, sums, best.values * width)

    def _towards(
        self,
        table: PredictedTable,
        sums: Floats,
        variance: float,
        width: Any,
        unit: Any,
        names: tuple[Group, ...],
        judged: NDArray[np.bool_],
    ) -> Shrunk:
        """Return sums in units of the width shrunk to one predicted table."""
        matched = table.on(names)
        # in units of the width, so that no square is too large
        with np.errstate(all="ignore"):  # a prediction that overflows is ignored
            y, p, v = sums / width, matched.values / unit / width, variance / width**2
            doubt = sum_doubt(p, width=1.0, **({} if matched.relative is None else {"relative": matched.relative}))
            if table.sd is not None:
                doubt = np.full_like(p, table.sd / unit / width) ** 2
            elif matched.relative is None:  # what an earlier release was off by, on top of what has changed since
                doubt = doubt + np.where(np.isfinite(matched.sds), (matched.sds / unit / width) ** 2, 0.0)
        near = np.isfinite(doubt) & (np.abs(p) < _FARTHEST) & (np.abs(y) < _FARTHEST) & (v < _FARTHEST)
        near = near & judged & (width > 1 / _FARTHEST)
        y, v, doubt = (np.where(near, each, 0.0) for each in (y, v, doubt))
        step = 1 / np.where(near, width, 1.0)
        return shrink(y, np.where(near, p, np.nan), variance=v, directions=directions(v, doubt), step=step)


def noise_of(budget: Budget, bounded: Bounded) -> Noise:
    """Return the noise that a budget buys for a statistic, with the claims that `parts_together` states."""
    return budget.on(bounded) if budget.is_pure else GaussianNoise(bounded, mu=mu_of(budget))
