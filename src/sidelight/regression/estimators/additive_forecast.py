"""How good an additive model will be, before it is fitted: the same fit on rows that are drawn from what is public.

The law that a forecast draws its rows from is what is publicly known of them. With public rows their own law: true
curves are drawn anew about what a fit of the rows finds, as far off as it may be. Without them columns fill their
declared ranges, and smooth curves explain any share of the target. Nothing here reads a private row or moves a
guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.noise import Source
from sidelight.records import Category, Number, Schema, Table
from sidelight.regression.additive.basis import Offset, smoothing_basis
from sidelight.regression.additive.fine_codes import FINE_CELLS, fine_size
from sidelight.regression.additive.predictions import CurveCandidate
from sidelight.regression.additive.public_fit import KnownCurves, fit_public
from sidelight.regression.additive.row_sums import columns_of, looked_up
from sidelight.regression.descent.integer_rows import ERROR_BITS, Integers
from sidelight.regression.descent.targets import Targets
from sidelight.regression.estimators.additive_query import PreparedAdditive, split_by
from sidelight.regression.estimators.forecast import Forecast, fewer_rows, rows_of_forecast, schema_of, simulated
from sidelight.regression.losses import Floats
from sidelight.regression.public_rows import (
    DEVIATION,
    LEAST_EXPLAINED,
    LOG_ODDS,
    MIDDLE,
    MOST_EXPLAINED,
    Basis,
    Dice,
    chance_share,
    drawn_targets,
    score_of,
)
from sidelight.regression.table_rows import range_of


def simulated_fits(
    model: Any, schema: Any, *, target: str | None, features: Any, rows: int | None, draws: int
) -> Forecast:
    """Forecast an additive model by fits of rows that are drawn from what is public. Reads no private row."""
    if schema is None:
        if target is not None or features is not None:
            raise SchemaError(
                "a forecast without a schema is for the model's own columns; leave target and features out"
            )
        declared = model._schema_of_arrays()
        schema, target = declared, declared.columns[-1].name
    if target is None:
        raise SchemaError("a forecast for a table wants target=..., the column to predict")
    if isinstance(features, int):
        raise SchemaError("features of a table are names of columns; the schema says how many they are")
    known: Schema = schema_of(schema)
    prepared = model._fit_of(known, target=target, features=features).prepare(known)
    size, stated = rows_of_forecast(rows, model.rows)
    plan = prepared.plan
    public = max((each for each in prepared.predictions.public), key=lambda each: len(each.coded[0]), default=None)
    first = prepared.predictions.candidates[0] if prepared.predictions.candidates else None
    law = (
        LawOfCurveShape(columns=plan.columns, targets=plan.targets, stated=first)
        if public is None
        else LawOfPublicCurves(public, plan.columns, plan.targets)
    )

    def fitted(population: CurvePopulation, dice: Dice, source: Source) -> Offset:
        return _fitted(prepared, population, rows=size, dice=dice, source=source)

    return simulated(
        law,
        fitted,
        lambda rows: rows,
        draws,
        "R²" if plan.targets.kind == "squared" else "accuracy",
        half=plan.targets.half,
        rows=size,
        stated=stated,
        public_rows=0 if public is None else len(public.coded[0]),
    )


def _fitted(
    prepared: PreparedAdditive, population: CurvePopulation, *, rows: int, dice: Dice, source: Source
) -> Offset:
    """Fit rows of a population with seeded noise; of many rows fewer, with a budget that makes up for it."""
    plan = prepared.plan
    fewer = fewer_rows(rows, len(plan.columns))
    if fewer < rows:  # what noise does is the same for n rows at mu and for n/k rows at k·mu
        more, declared = Fraction(rows, fewer), None if plan.rows is None else max(1, plan.rows * fewer // rows)
        lines = None if plan.lines is None else replace(plan.lines, mu=plan.lines.mu * more, rows=declared)
        plan = replace(plan, mu=plan.mu * more, rows=declared, lines=lines)
    codes, outcomes = population.drawn(fewer, dice)
    table = _table(prepared, codes, outcomes)
    simulated = replace(prepared, plan=plan, examples=replace(prepared.examples, own=table))
    value = simulated.run(table, source).value
    half, middle = plan.targets.half, plan.targets.target_centre
    tables = split_by(np.asarray(value["tables"]) / half, [fine_size(column) for column in plan.columns])
    return Offset(tables=tuple(tables), constant=(value["intercept"] - middle) / half)


def _table(prepared: PreparedAdditive, codes: Integers, outcomes: Floats) -> Table:
    """Return fine codes and targets as a table: numbers in the middle of their fine cells."""
    examples, targets = prepared.examples, prepared.plan.targets
    data: dict[str, Any] = {}
    for at, column in enumerate(examples.columns):
        if isinstance(column, Category):
            data[column.name] = np.array(column.labels, dtype=object)[codes[:, at]]
            continue
        low, high = map(float, range_of(column))
        values = low + (codes[:, at] + 0.5) * ((high - low) / FINE_CELLS)
        data[column.name] = np.where(codes[:, at] == FINE_CELLS, np.nan, values)
    target = examples.target
    if isinstance(target, Number):
        y: Any = outcomes * targets.half + targets.target_centre
    else:
        assert examples.labels is not None
        labels = dict(zip(examples.labels, target.labels, strict=False))
        y = np.array([labels[each] for each in targets.classes], dtype=object)[outcomes.astype(np.int64)]
    return Table({**data, target.name: y}, schema=[*examples.columns, target])


#: Rows that others are drawn from, and cells of a curve that is made up.
_POOL, _CELLS = 4000, 32
#: Public rows are left out in this many parts, of at most this many rows.
_FOLDS, _MOST_LEFT_OUT = 5, 5000


@dataclass(frozen=True, kw_only=True, eq=False)
class CurvePopulation:
    """One law of fine codes and targets, in half ranges or log odds.

    Args:
        codes: Rows that others are drawn from, with replacement.
        apart: The share of cells that is drawn column by column: what hangs together in few rows is mostly chance.
        truth: The true curves.
        residuals: What is added to a number; None for classes.
    """

    codes: Integers
    apart: float
    truth: Offset
    residuals: Floats | None

    def drawn(self, size: int, dice: Dice) -> tuple[Integers, Floats]:
        """Return some rows, and their numbers or the places of their classes."""
        codes = self.codes[dice.places(len(self.codes), size)]
        if self.apart > 0:
            width = codes.shape[1]
            others = self.codes[dice.places(len(self.codes), size, width), np.arange(width)]
            codes = np.where(dice.uniform(size, width) < self.apart, others, codes)
        more = None if self.residuals is None else self.residuals[dice.places(len(self.residuals), size)]
        return codes, drawn_targets(outputs_of(self.truth, codes), more, dice)

    def score(self, model: Offset, codes: Integers) -> tuple[float, float]:
        """Return how curves do on rows: R² and the root mean squared error, or accuracy and its complement."""
        return score_of(outputs_of(self.truth, codes), outputs_of(model, codes), self.residuals)


def outputs_of(curves: Offset, codes: Integers) -> Floats:
    """Return the predictors of rows, (rows, outputs)."""
    found = looked_up(curves.tables, columns_of(codes), curves.constant)
    return found[:, None] if found.ndim == 1 else found


class LawOfPublicCurves:
    """The law of public rows with their targets."""

    basis: Basis = "public rows"

    def __init__(self, given: CurveCandidate, columns: Sequence[Number | Category], targets: Targets) -> None:
        assert given.coded is not None
        assert given.raw is not None
        self._known, (self._codes, coded) = given.known, given.coded
        self._apart = chance_share(given.raw)
        self._residuals: Floats | None = None
        left, places = _left_out(columns, self._codes, coded, targets)
        if targets.kind != "squared":
            said = left[:, 0] > 0 if left.shape[1] == 1 else left.argmax(axis=1)
            first = -1.0 if targets.kind == "logistic" else 0.0
            self.alone = float(
                np.mean(said == (coded[places, 0] - first > 0 if left.shape[1] == 1 else coded[places, 0]))
            )
            return
        y = coded[:, 0] * 2.0**-ERROR_BITS
        errors = y - outputs_of(self._known.offset, self._codes)[:, 0]
        missed = float(np.mean((y[places] - left[:, 0]) ** 2))
        self.alone = 1 - missed / max(float(y[places].var()), 1e-300)
        # errors of rows that were fitted are as much too small as those of rows left out are too large
        spread = (float(np.mean(errors**2)) + missed) / 2
        self._residuals = errors * math.sqrt(spread / max(float(np.mean(errors**2)), 1e-300))

    def population(self, dice: Dice, *, at: float = 0.5) -> CurvePopulation:
        """Return a law whose curves are as far from the fitted ones as these are sure, and other such rows."""
        del at  # public rows say it
        again = dice.places(len(self._codes), len(self._codes))  # the public rows are a sample, too
        return CurvePopulation(
            codes=self._codes[again],
            apart=self._apart,
            truth=_moved(self._known, dice),
            residuals=None if self._residuals is None else self._residuals[again],
        )


def _left_out(
    columns: Sequence[Number | Category], codes: Integers, coded: Floats, targets: Targets
) -> tuple[Floats, Integers]:
    """Return predictors of public rows by fits that have not seen them, and the places of these rows."""
    step = max(1, len(codes) // _MOST_LEFT_OUT)
    places = np.arange(0, len(codes), step)
    fold = np.arange(len(places)) % _FOLDS
    found = np.zeros((len(places), targets.outputs))
    for out in range(_FOLDS):
        kept = places[fold != out]
        fit = fit_public(columns, codes[kept], coded[kept], targets=targets)
        found[fold == out] = outputs_of(fit.offset, codes[places[fold == out]])
    return found, places


def _moved(known: KnownCurves, dice: Dice) -> Offset:
    """Return curves as far from known ones as these are sure."""
    tables = [
        table + basis @ (np.sqrt(variances) * dice.normal(*variances.shape))
        for table, basis, variances in zip(known.offset.tables, known.bases, known.variances, strict=True)
    ]
    return Offset(tables=tuple(tables), constant=known.offset.constant)


@dataclass(frozen=True, kw_only=True, eq=False)
class LawOfCurveShape:
    """The law of columns that fill their declared ranges.

    Args:
        columns: The declared columns.
        targets: What is learned.
        stated: Stated curves, taken to be as accurate as stated.
    """

    columns: Sequence[Number | Category]
    targets: Targets
    stated: CurveCandidate | None = None
    basis: Basis = "declared shape"
    alone: float | None = None

    def population(self, dice: Dice, *, at: float = 0.5) -> CurvePopulation:
        """Return a law whose curves are any smooth ones, or about those that are stated."""
        classes = self.targets.kind != "squared"
        codes = np.stack([self._filled(column, dice) for column in self.columns], axis=1)
        variance, explained = DEVIATION**2, MIDDLE
        if self.stated is not None:
            truth = self._about(self.stated, codes, dice)
        else:
            explained = LEAST_EXPLAINED + (MOST_EXPLAINED - LEAST_EXPLAINED) * at
            wanted = LOG_ODDS * math.sqrt(explained / (1 - explained)) if classes else math.sqrt(explained * variance)
            drawn = Offset(tables=tuple(self._smooth(codes, dice)), constant=0.0)
            outcomes = outputs_of(drawn, codes)
            factor = wanted / np.maximum(outcomes.std(axis=0), 1e-300)
            factor, mean = (
                (factor[0], float(outcomes.mean())) if self.targets.outputs == 1 else (factor, outcomes.mean(axis=0))
            )
            truth = Offset(tables=tuple(table * factor for table in drawn.tables), constant=-mean * factor)
        residuals = None if classes else math.sqrt((1 - explained) * variance) * dice.normal(_POOL)
        return CurvePopulation(codes=codes, apart=0.0, truth=truth, residuals=residuals)

    @staticmethod
    def _filled(column: Number | Category, dice: Dice) -> Integers:
        if isinstance(column, Number):
            inside = np.clip((DEVIATION * dice.normal(_POOL) + 1) / 2, 0.0, 1.0)
            return np.minimum((FINE_CELLS * inside).astype(np.int64), FINE_CELLS - 1)
        return dice.places(len(column.labels), _POOL)

    def _smooth(self, codes: Integers, dice: Dice) -> list[Floats]:
        """Return a smooth curve per column, of variance about 1."""
        found, outputs = [], self.targets.outputs
        for at, column in enumerate(self.columns):
            number = isinstance(column, Number)
            wide = FINE_CELLS // _CELLS if number else 1
            cells = _CELLS if number else fine_size(column)
            masses = np.bincount(codes[:, at] // wide, minlength=cells) + 1.0
            basis = smoothing_basis(masses / masses.sum(), (np.arange(cells) + 0.5) / cells if number else np.empty(0))
            drawn = basis.values @ (np.sqrt(basis.priors)[:, None] * dice.normal(len(basis.priors), outputs))
            table = np.repeat(drawn, wide, axis=0)
            table = np.vstack([table, np.zeros((1, outputs))]) if number else table
            found.append(table[:, 0] if outputs == 1 else table)
        return found

    def _about(self, stated: CurveCandidate, codes: Integers, dice: Dice) -> Offset:
        if stated.known.bases:
            return _moved(stated.known, dice)
        if not stated.scale:
            return stated.offset
        off = zip(stated.offset.tables, self._smooth(codes, dice), strict=True)
        tables = tuple(table + stated.scale * more for table, more in off)
        return Offset(tables=tables, constant=stated.offset.constant)
