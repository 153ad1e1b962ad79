"""One additive model: lines, counts, a Gram matrix, perhaps a choice, and T noisy gradients at public points.

The lines that touch rows are marked; everything else is post-processing of what they released. Every pass is made,
whatever comes out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sidelight.noise import Source
from sidelight.progress import progress
from sidelight.records import Number, Table
from sidelight.records.rows import one_blas_thread
from sidelight.regression.additive.basis import Coordinates, Offset, coordinates, line_tables
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
from sidelight.regression.additive.plan import COLUMN_WEIGHT, TARGET_WEIGHT, AdditivePlan
from sidelight.regression.additive.row_sums import (
    ONE,
    U_BITS,
    CurveErrors,
    CurveScores,
    FineCounts,
    LeadingGram,
    gradient_of,
)
from sidelight.regression.additive.steps import Scales, SmoothingState, curvature, gram_radius, leading
from sidelight.regression.descent.fit import FittedDescent, descend
from sidelight.regression.descent.integer_rows import ERROR_BITS, Z_BITS
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.descent.row_sums import CodedPasses
from sidelight.regression.losses import Floats

_THETA_BITS = 16
_GRADIENT_BITS = Z_BITS + ERROR_BITS
_LARGEST_CLIP = 2**32 - 1
#: Columns and numbers of the path up to which it is stored for privacy reports.
MOST_REPORTED_COLUMNS, _MOST_REPORTED_POINTS = 256, 1 << 15
#: κ₁ relative to κ₀ where lines came first, and of a prediction's correction relative to its own variances.
_AFTER_LINES = 0.3


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedCurves:
    """What an additive fit released, in half ranges of the target or log odds: all of it may be published.

    Args:
        states: The last point and how it came about, one per output.
        offset: What the curves were added to.
        started: Whether that was lines or a prediction.
        lines: The descent of the line stage.
        chosen: The prediction that was used, or None.
        passes: T.
        most: M.
        deviation: The noise of one count.
        points: (passes, D), of several classes (passes, D, classes): where the gradients were taken.
        clips: The clip of each.
    """

    states: tuple[SmoothingState, ...]
    offset: Offset
    started: bool
    lines: FittedDescent | None
    chosen: int | None
    passes: int
    most: int
    deviation: float
    points: Floats
    clips: Floats

    @property
    def place(self) -> Coordinates:
        """The coordinates."""
        return self.states[0].place

    def cell_values(self) -> list[Floats]:
        """Return what the steps added, on the cells of each column."""
        theta, found, start = of_outputs([state.theta for state in self.states]), [], 1
        for basis, weights in zip(self.place.bases, self.place.weights, strict=True):
            part = theta[start : start + len(weights)]
            found.append(basis.values @ (np.sqrt(weights) * part.T).T)
            start += len(weights)
        return found

    def tables(self) -> list[Floats]:
        """Return the whole curve of each column on its fine codes."""
        return [
            table + self.place.on_codes(at, values)
            for at, (table, values) in enumerate(zip(self.offset.tables, self.cell_values(), strict=True))
        ]

    @property
    def constant(self) -> float | Floats:
        """The intercept that belongs to `tables`."""
        found = self.offset.constant + of_outputs([state.theta[0] for state in self.states])
        return found if np.ndim(found) else float(found)


def of_outputs(parts: Sequence[Any]) -> Any:
    """Return what belongs to each output side by side; of a single one as it is."""
    return parts[0] if len(parts) == 1 else np.stack(parts, axis=-1)


def _of_output(values: Any, output: int) -> Any:
    """Return the part of one output of what `of_outputs` made of several."""
    return values if np.ndim(values) < 2 else values[:, output]


@one_blas_thread()  # of small matrices
def fit_additive(plan: AdditivePlan, examples: AdditiveExamples, table: Table, *, source: Source) -> FittedCurves:
    """Run a plan on the rows of a table.

    Guarantee: the plan's claims, GDP(mu), exact on the machine (additive-model proof page, Theorem A).
    """
    if plan.lines is None:
        with examples.fine(table, plan.targets) as rows:
            return _curves(plan, rows, None, source=source)
    lines, offset = _lines(plan.lines, plan, examples, table, source=source)
    with examples.fine(table, plan.targets) as rows:
        return replace(_curves(plan, rows, offset, source=source), lines=lines)


def _lines(
    first: DescentPlan, plan: AdditivePlan, examples: AdditiveExamples, table: Table, *, source: Source
) -> tuple[FittedDescent, Offset]:
    """Release lines by the existing descent; return them as they are and as tables."""
    rows = examples.for_lines(table, first.policy)
    found = descend(first, rows, source=source)  # private rows, 1 of 6
    half = plan.targets.half
    tables = line_tables(plan.columns, of_outputs(list(found.coefficients)) / half, examples.line_encoder)
    return found, Offset(tables=tables, constant=of_outputs([float(each) for each in found.intercept]) / half)


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
    outputs = plan.targets.outputs
    if offset is None:
        several = (outputs,) if outputs > 1 else ()
        offset = Offset(
            tables=tuple(np.zeros((size, *several)) for size in plan.sizes), constant=np.zeros(several) + 0.0
        )
    start = offset.explained(place)
    states: list[SmoothingState] = []
    for output, base in enumerate(np.atleast_1d(level.base)):
        mean = float(base) if nothing else 0.0
        state = SmoothingState(
            scales=scales if outputs == 1 else scales.of_class(level.shares[output]),
            place=place,
            curvature=h,
            theta=np.append(mean, np.zeros(place.dimension - 1)),
            start=_of_output(start, output),
            mean=mean,
            spread=_of_output(spread, output),
            intercept=float(np.broadcast_to(intercept, outputs)[output]),
            kappa=np.full(len(plan.columns), drawn),
            drawn=drawn,
            noisy=noisy,
        )
        states.append(state.sharing(states[0]) if states else state)
    whole, constant = offset.whole()
    limit = 2.0 ** (32 - math.ceil(math.log2(place.dimension + 2)))
    tables = place.z_tables
    squares = tuple((table**2).sum(axis=1).astype(np.float64) for table in tables)
    points, clips = [], []
    with progress("steps of an additive model", total=passes) as one_more:
        for _ in range(passes):  # all of them, always
            theta = of_outputs([state.theta for state in states])
            code = np.clip(np.rint(theta * 2.0**_THETA_BITS), -limit, limit)
            clip = min(max(1, int(2.0**_GRADIENT_BITS * states[0].clip)), _LARGEST_CLIP)
            errors = CurveErrors(
                targets=plan.targets,
                predictors=tuple(start + part for start, part in zip(whole, _looked_up(place, code), strict=True)),
                constant=constant + code[0] * float(ONE),
                squares=squares,
                clip=clip,
            )
            total = gradient_of(rows.added_up(errors), tables)
            noise = plan.step_noise(total, clip=clip, passes=passes)
            released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 6 of 6
            unit = 2.0**-_GRADIENT_BITS
            points.append(code * 2.0**-_THETA_BITS)
            clips.append(clip * unit)
            gradient, variance = released * unit, (noise.deviation * unit) ** 2
            if outputs > 1:  # the gradient of a softmax adds up to 0 over the classes
                gradient = gradient - gradient.mean(axis=1, keepdims=True)
                variance *= 1 - 1 / outputs
            states = [state.after(_of_output(gradient, output), variance) for output, state in enumerate(states)]
            one_more()
    return FittedCurves(
        states=tuple(states),
        offset=offset,
        started=not nothing,
        lines=None,
        chosen=chosen,
        passes=passes,
        most=most,
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
        base=float(np.mean(level.base)),
        variance=level.variance,
        mu_steps=plan.mu_of(plan.shares.steps),
        mu_gram=plan.mu_of(plan.shares.gram),
        rows_per_unit=plan.rows_per_unit,
        classes=max(2, plan.targets.outputs),
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


def _path(plan: AdditivePlan, found: FittedCurves) -> dict[str, Any]:
    """Return where the steps began and what a privacy report is made of: released, or a function of it."""
    value: dict[str, Any] = {}
    if found.started:
        tables, constant = found.offset.whole()
        value |= {"offset": np.concatenate(tables) * 2.0**-U_BITS, "offset_constant": constant * 2.0**-U_BITS}
    line_path = {} if found.lines is None else found.lines.value()
    small = len(plan.columns) <= MOST_REPORTED_COLUMNS and found.points.size <= _MOST_REPORTED_POINTS
    if small and (found.lines is None or "points" in line_path):
        value |= {"points": found.points, "clips": found.clips, "weights": found.place.v}
        kept = ("points", "map", "centre", "clip", "second_look", "chosen")
        value |= {f"line_{name}": line_path[name] for name in kept if name in line_path}
    return value


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
        mean = mass @ table
        parts.append(table - mean)
        constant = constant + mean
    sizes = [len(cells.counts) for cells in found.place.cells]
    return _path(plan, found) | {
        "intercept": constant * unit + middle if np.ndim(constant) else float(constant * unit + middle),
        "tables": np.clip(np.nan_to_num(np.concatenate(parts)) * unit, -1e300, 1e300),
        "cells": np.array(sizes),
        "cell_of": np.concatenate([cells.cell_of for cells in found.place.cells]),
        "counts": np.concatenate([cells.counts for cells in found.place.cells]),
        "fine": np.concatenate([cells.fine for cells in found.place.cells]),
        "kappa": of_outputs([state.kappa for state in found.states]),
        "widths": np.array([len(weights) for weights in found.place.weights]),
        "z": np.concatenate(
            [(b.values * np.sqrt(w)).ravel() for b, w in zip(found.place.bases, found.place.weights, strict=True)]
        ),
        "variances": of_outputs([np.diag(state.covariance) for state in found.states]),
        "rows": found.states[0].scales.rows,
        "count_noise": found.deviation,
        "passes": found.passes,
        "components": found.place.dimension,
        "leading": found.most,
        "noise_to_signal": found.states[0].noisy,
        "chosen": -1 if found.chosen is None else found.chosen,
        "stayed": sum(state.stayed for state in found.states),
        "coarse": sum(cells.coarse for cells in found.place.cells),
    }
