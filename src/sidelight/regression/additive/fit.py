"""One additive model: lines, counts, a Gram matrix, perhaps a choice, and T noisy gradients at public points.

The lines that touch rows are marked; everything else is post-processing of what they released. Every pass is made,
whatever comes out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.noise import Source
from sidelight.progress import progress
from sidelight.records import Number, Table
from sidelight.regression.additive.basis import Coordinates, coordinates
from sidelight.regression.additive.counts import (
    FEWEST_ROWS,
    TargetLevel,
    cells_of_category,
    cells_of_number,
    column_counts,
    scaled_counts,
    target_level,
    together,
)
from sidelight.regression.additive.fine_codes import FINE_CELLS, AdditiveExamples
from sidelight.regression.additive.offsets import Offset, line_tables
from sidelight.regression.additive.plan import COLUMN_WEIGHT, TARGET_WEIGHT, AdditivePlan
from sidelight.regression.additive.row_sums import (
    ONE,
    CurveErrors,
    CurveScores,
    FineCounts,
    LeadingGram,
    gradient_of,
)
from sidelight.regression.additive.steps import Scales, SmoothingState, curvature, gram_radius, leading
from sidelight.regression.descent.fit import descend
from sidelight.regression.descent.integer_rows import ERROR_BITS, Z_BITS
from sidelight.regression.descent.row_sums import CodedPasses
from sidelight.regression.losses import Floats

_THETA_BITS = 16
_GRADIENT_BITS = Z_BITS + ERROR_BITS
_LARGEST_CLIP = 2**32 - 1
#: κ₁ beside κ₀ where lines have been there before, and of a prediction's correction beside its own variances.
_AFTER_LINES = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedCurves:
    """What an additive fit released, in half ranges of the target or log odds: all of it may be published.

    Args:
        state: The last point and how it came about.
        offset: What the curves were added to.
        chosen: The prediction that was used, or None.
        passes: T.
        most: M.
        level: The released level of the target.
        deviation: The noise of one count.
        points: (passes, D): where the gradients were taken.
        clips: The clip of each.
    """

    state: SmoothingState
    offset: Offset
    chosen: int | None
    passes: int
    most: int
    level: TargetLevel
    deviation: float
    points: Floats
    clips: Floats

    @property
    def place(self) -> Coordinates:
        """The coordinates."""
        return self.state.place

    @property
    def covariance(self) -> Floats:
        """The posterior covariance of the point; of a state that never moved the prior's."""
        if self.state.variances is not None:
            return self.state.variances
        spread = self.state.kappa[self.place.owner] * self.state.spread
        return np.diag(np.append(self.state.intercept, spread))

    def cell_values(self) -> list[Floats]:
        """Return what the steps added, on the cells of each column."""
        found, start = [], 1
        for basis, weights in zip(self.place.bases, self.place.weights, strict=True):
            part = self.state.theta[start : start + len(weights)]
            found.append(basis.values @ (np.sqrt(weights) * part))
            start += len(weights)
        return found

    def cell_deviations(self) -> list[Floats]:
        """Return the posterior deviation of what the steps added, on the cells of each column."""
        found, start = [], 1
        for basis, weights in zip(self.place.bases, self.place.weights, strict=True):
            z = basis.values * np.sqrt(weights)
            part = self.covariance[start : start + len(weights), start : start + len(weights)]
            found.append(np.sqrt(np.maximum(np.einsum("im,mn,in->i", z, part, z), 0.0)))
            start += len(weights)
        return found

    def tables(self) -> list[Floats]:
        """Return the whole curve of each column on its fine codes."""
        return [
            table + self.place.on_codes(at, values)
            for at, (table, values) in enumerate(zip(self.offset.tables, self.cell_values(), strict=True))
        ]

    @property
    def constant(self) -> float:
        """The intercept that belongs to `tables`."""
        return float(self.offset.constant + self.state.theta[0])


def fit_additive(plan: AdditivePlan, examples: AdditiveExamples, table: Table, *, source: Source) -> FittedCurves:
    """Run a plan on the rows of a table.

    Guarantee: the plan's claims, GDP(mu), exact on the machine (additive-model proof page, Theorem A).
    """
    offset = _lines(plan, examples, table, source=source)
    with examples.fine(table, plan.targets) as rows:
        return _curves(plan, rows, offset, source=source)


def _lines(plan: AdditivePlan, examples: AdditiveExamples, table: Table, *, source: Source) -> Offset | None:
    """Release lines by the existing descent; return them as tables."""
    if plan.lines is None:
        return None
    rows = examples.for_lines(table, plan.lines.policy)
    found = descend(plan.lines, rows, source=source)  # private rows, 1 of 6
    half = plan.targets.half
    tables = line_tables(plan.columns, found.coefficients[0] / half, examples.line_encoder)
    return Offset(tables=tables, constant=float(found.intercept[0]) / half)


def _curves(plan: AdditivePlan, rows: CodedPasses, offset: Offset | None, *, source: Source) -> FittedCurves:
    place, scales, level, deviation = _released_cells(plan, rows, source=source)
    most, edge, gram = _released_gram(plan, rows, place, scales, source=source)
    numbers = np.array([isinstance(column, Number) for column in plan.columns])
    h = curvature(place, gram, most=most, edge=edge, numbers=numbers)
    chosen = _chosen(plan, rows, level, source=source)
    passes, noisy = scales.passes(place)
    spread, intercept, drawn = place.priors / place.v, scales.unsure_intercept, scales.prior
    if offset is not None:
        drawn = _AFTER_LINES * scales.prior
    if chosen is not None:
        prediction = plan.candidates[chosen]
        offset = prediction.offset
        spread = prediction.variances(place, scales)
        intercept, drawn = prediction.unsure_intercept(scales), 1.0
    nothing = offset is None
    if offset is None:
        offset = Offset(tables=tuple(np.zeros(size) for size in plan.sizes), constant=0.0)
    state = SmoothingState(
        scales=scales,
        place=place,
        curvature=h,
        theta=np.append(level.base if nothing else 0.0, np.zeros(place.dimension - 1)),
        start=offset.explained(place),
        mean=level.base if nothing else 0.0,
        spread=spread,
        intercept=intercept,
        kappa=np.full(len(plan.columns), drawn),
        drawn=drawn,
        noisy=noisy,
    )
    whole, constant = offset.whole()
    limit = 2.0 ** (32 - math.ceil(math.log2(place.dimension + 2)))
    tables = place.z_tables
    squares = tuple((table**2).sum(axis=1).astype(np.float64) for table in tables)
    points, clips = [], []
    with progress("steps of an additive model", total=passes) as one_more:
        for _ in range(passes):  # all of them, always
            code = np.clip(np.rint(state.theta * 2.0**_THETA_BITS), -limit, limit)
            clip = min(max(1, int(2.0**_GRADIENT_BITS * state.clip)), _LARGEST_CLIP)
            errors = CurveErrors(
                targets=plan.targets,
                predictors=tuple(start + part for start, part in zip(whole, _looked_up(place, code), strict=True)),
                constant=constant + float(code[0]) * ONE,
                squares=squares,
                clip=clip,
            )
            total = gradient_of(rows.added_up(errors), tables)
            noise = plan.step_noise(total, clip=clip, passes=passes)
            released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 6 of 6
            unit = 2.0**-_GRADIENT_BITS
            points.append(code * 2.0**-_THETA_BITS)
            clips.append(clip * unit)
            state = state.after(released * unit, (noise.deviation * unit) ** 2)
            one_more()
    return FittedCurves(
        state=state,
        offset=offset,
        chosen=chosen,
        passes=passes,
        most=most,
        level=level,
        deviation=deviation,
        points=np.array(points),
        clips=np.array(clips),
    )


def _looked_up(place: Coordinates, code: Floats) -> list[Floats]:
    """Return what each column adds to the predictor on its fine codes, in 2⁻²⁸: exact."""
    found, start = [], 1
    for table in place.z_tables:
        found.append(table.astype(np.float64) @ code[start : start + table.shape[1]])
        start += table.shape[1]
    return found


def _released_cells(
    plan: AdditivePlan, rows: CodedPasses, *, source: Source
) -> tuple[Coordinates, Scales, TargetLevel, float]:
    """Release the number of rows and the one-way counts, and make cells and coordinates of them."""
    statistic = FineCounts(targets=plan.targets, sizes=plan.sizes)
    count, fine, target = statistic.split(rows.added_up(statistic))
    estimates = []
    if plan.rows is None:
        counting = plan.count_noise(count)
        noisy = max(float(counting.release(source)), 1.0)  # private rows, 2 of 6
        estimates.append((noisy, counting.deviation**2))
    else:
        noisy = max(float(plan.rows), FEWEST_ROWS)
    levels = plan.levels(noisy)
    noise = plan.counts_noise(scaled_counts(plan.columns, fine, target, levels), levels)
    released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 3 of 6
    deviation, of_target = noise.deviation / COLUMN_WEIGHT, noise.deviation / TARGET_WEIGHT
    counts, of_classes = column_counts(plan.columns, released, levels=levels, deviation=deviation)
    number = noisy
    if plan.rows is None:
        estimates += [(each.total, each.variance) for each in counts]
        estimates.append((float(of_classes.sum()), len(of_classes) * of_target**2))
        number = together(estimates)
    cells = [
        (cells_of_number if isinstance(column, Number) else cells_of_category)(each, rows=number, deviation=deviation)
        for column, each in zip(plan.columns, counts, strict=True)
    ]
    level = target_level(plan.targets.kind, of_classes, rows=number, deviation=of_target)
    scales = Scales(
        kind=plan.targets.kind,
        columns=len(plan.columns),
        rows=number,
        base=level.base,
        variance=level.variance,
        mu_steps=plan.mu_of(plan.shares.steps),
        mu_gram=plan.mu_of(plan.shares.gram),
        rows_per_unit=plan.rows_per_unit,
    )
    return coordinates(cells, scale=scales.prior, noise=scales.noise), scales, level, deviation


def _released_gram(
    plan: AdditivePlan, rows: CodedPasses, place: Coordinates, scales: Scales, *, source: Source
) -> tuple[int, float, Floats]:
    """Release the Gram matrix of leading components, over the number of rows; nothing where there are none."""
    most = leading(scales, place)
    tables = place.leading_tables(most)
    components = sum(table.shape[1] for table in tables)
    if not components:
        return most, 0.0, np.zeros((0, 0))
    radius = gram_radius(components)
    noise = plan.gram_noise(rows.added_up(LeadingGram(tables=tables, radius=radius)), radius)
    released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 4 of 6
    return most, scales.edge(components), released * (2.0 ** (-2 * Z_BITS) / scales.rows)


def _chosen(plan: AdditivePlan, rows: CodedPasses, level: TargetLevel, *, source: Source) -> int | None:
    """Choose a prediction or none; paid whatever comes out."""
    if plan.choice is None:
        return None
    base = Offset(tables=(), constant=level.base).whole()[1]
    statistic = CurveScores(
        targets=plan.targets,
        candidates=tuple(each.offset.whole() for each in plan.candidates),
        rivals=tuple(
            (base, *(() if each.mean is None else (Offset(tables=(), constant=each.mean).whole()[1],)))
            for each in plan.candidates
        ),
    )
    return plan.choice.draw(statistic.against(rows.added_up(statistic)), source)  # private rows, 5 of 6


def _monotone(table: Floats, mass: Floats, *, increasing: bool) -> Floats:
    """Return the weighted isotonic regression of a number's curve; a missing value keeps its own."""
    from sklearn.isotonic import isotonic_regression

    weights = mass[:FINE_CELLS] + 1e-9
    inside = isotonic_regression(table[:FINE_CELLS], sample_weight=weights, increasing=increasing)
    return np.append(inside, table[FINE_CELLS:])


def fitted_value(plan: AdditivePlan, found: FittedCurves, *, monotone: Mapping[str, int]) -> dict[str, Any]:
    """Return the released value in the target's unit: intercept, curves on fine codes, and how they came about.

    Curves are centred under the released masses; what is taken off them is in the intercept. Those of `monotone`
    columns are replaced by the nearest ones that only rise or fall, which is free.
    """
    unit, middle = plan.targets.half, plan.targets.target_centre
    constant, parts = found.constant, []
    for column, whole, cells in zip(plan.columns, found.tables(), found.place.cells, strict=True):
        mass = cells.fine / max(float(cells.fine.sum()), 1e-300)
        way = monotone.get(column.name, 0)
        table = whole if not way else _monotone(whole, mass, increasing=way > 0)
        mean = float(mass @ table)
        parts.append(table - mean)
        constant += mean
    sizes = [len(cells.counts) for cells in found.place.cells]
    return {
        "intercept": constant * unit + middle,
        "tables": np.clip(np.nan_to_num(np.concatenate(parts)) * unit, -1e300, 1e300),
        "cells": np.array(sizes),
        "cell_of": np.concatenate([cells.cell_of for cells in found.place.cells]),
        "counts": np.concatenate([cells.counts for cells in found.place.cells]),
        "fine": np.concatenate([cells.fine for cells in found.place.cells]),
        "deviations": np.concatenate(found.cell_deviations()) * unit,
        "kappa": found.state.kappa,
        "widths": np.array([len(weights) for weights in found.place.weights]),
        "z": np.concatenate(
            [(b.values * np.sqrt(w)).ravel() for b, w in zip(found.place.bases, found.place.weights, strict=True)]
        ),
        "variances": np.diag(found.covariance),
        "rows": found.state.scales.rows,
        "count_noise": found.deviation,
        "passes": found.passes,
        "components": found.place.dimension,
        "leading": found.most,
        "noise_to_signal": found.state.noisy,
        "chosen": -1 if found.chosen is None else found.chosen,
        "stayed": found.state.stayed,
        "coarse": sum(cells.coarse for cells in found.place.cells),
    }
