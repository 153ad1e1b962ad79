"""How good an additive model will be, before it is fitted: the same fit on rows that are drawn from what is public."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.noise import Source
from sidelight.records import Category, Number, Schema, Table
from sidelight.regression.additive.fine_codes import FINE_CELLS, fine_size
from sidelight.regression.additive.law_of_curves import CurvePopulation, LawOfCurveShape, LawOfPublicCurves
from sidelight.regression.additive.offsets import Offset
from sidelight.regression.descent.integer_rows import Integers
from sidelight.regression.estimators.additive_query import PreparedAdditive, split_by
from sidelight.regression.estimators.fit_query import SeededBytes
from sidelight.regression.estimators.forecast import (
    TEST_ROWS,
    Forecast,
    fewer_rows,
    rows_of_forecast,
    schema_of,
    summed_up,
)
from sidelight.regression.losses import Floats
from sidelight.regression.public_rows import Dice


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
    scores, bests = [], []
    for draw in range(draws):
        with Source(SeededBytes(draw)) as source:
            dice = Dice(source)
            population = law.population(dice, at=(draw + 0.5) / draws)
            fitted = _fitted(prepared, population, rows=size, dice=dice, source=source)
            new, _ = population.drawn(TEST_ROWS, dice)
            scores.append(population.score(fitted, new))
            bests.append(population.score(population.truth, new)[0])
    return summed_up(
        scores,
        bests,
        law,
        measure="R²" if plan.targets.kind == "squared" else "accuracy",
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
    codes, told = population.drawn(fewer, dice)
    table = _table(prepared, codes, told)
    simulated = replace(prepared, plan=plan, examples=replace(prepared.examples, own=table))
    value = simulated.run(table, source).value
    half, middle = plan.targets.half, plan.targets.target_centre
    tables = split_by(np.asarray(value["tables"]) / half, [fine_size(column) for column in plan.columns])
    return Offset(tables=tuple(tables), constant=(value["intercept"] - middle) / half)


def _table(prepared: PreparedAdditive, codes: Integers, told: Floats) -> Table:
    """Return fine codes and targets as a table: numbers in the middle of their fine cells."""
    examples, targets = prepared.examples, prepared.plan.targets
    data: dict[str, Any] = {}
    for at, column in enumerate(examples.columns):
        if isinstance(column, Category):
            data[column.name] = np.array(column.labels, dtype=object)[codes[:, at]]
            continue
        assert column.lower is not None
        assert column.upper is not None
        low, high = float(column.lower), float(column.upper)
        values = low + (codes[:, at] + 0.5) * ((high - low) / FINE_CELLS)
        data[column.name] = np.where(codes[:, at] == FINE_CELLS, np.nan, values)
    target = examples.target
    if isinstance(target, Number):
        y: Any = told * targets.half + targets.target_centre
    else:
        assert examples.labels is not None
        labels = dict(zip(examples.labels, target.labels, strict=False))
        y = np.array([labels[each] for each in targets.classes], dtype=object)[told.astype(np.int64)]
    return Table({**data, target.name: y}, schema=[*examples.columns, target])
