"""One descent: a noisy Gram matrix, perhaps a count and a choice, and T noisy gradients, each at a public point.

A last sum sets the constants of classes (`base_rates`). The five lines that touch rows are marked; everything else is
post-processing of what they released, and all of it may be published. Every pass is made, whatever comes out: there is
nothing that could converge or fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sidelight.noise import Source
from sidelight.regression.descent.away_rows import AwayExamples, opened
from sidelight.regression.descent.base_rates import with_constants
from sidelight.regression.descent.geometry import (
    Floats,
    Geometry,
    NoisyGram,
    from_gram,
    guarded,
    without_map,
)
from sidelight.regression.descent.integer_rows import CODE_BITS, Integers, RowMap
from sidelight.regression.descent.log_odds import true_log_odds
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.descent.row_sums import (
    CodedPasses,
    GramAndCount,
    MappedPasses,
    integer_gradient,
    losses_of_starts,
    votes_against_starts,
)
from sidelight.regression.descent.rules import (
    PLAIN_CLIP,
    PLAIN_MOMENTUM,
    PLAIN_PASSES,
    PLAIN_STEP,
    Kind,
    Schedule,
    schedule,
)
from sidelight.regression.descent.shrinkage import average_noise, shrink
from sidelight.regression.descent.starts import Start, start_of, taken_off
from sidelight.regression.rows import Rows

#: Features up to which the coordinates are stored with a release, and numbers up to which the path is.
_STORED, _STORED_POINTS = 256, 1 << 15
#: By how much a probability moves at most when log odds move by 1, and those of several classes; a number by as much.
_MOST_MOVED: dict[Kind, float] = {"squared": 1.0, "logistic": 0.25, "softmax": 0.5}


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedDescent:
    """What a descent released: all of it may be published.

    Args:
        coefficients: (outputs, features) for rows as they are given, numbers in their own unit.
        intercept: (outputs,), without the centre of a numeric target.
        geometry: The coordinates.
        schedule: Passes, clip and step.
        noise: The variance of the average in each coordinate, (columns,).
        chosen: The prediction that it started from, or None.
        factor: How far it was drawn (κ), None where it was not.
        error: What the mean square of a usual row's error is made of, in half ranges² or probabilities².
        bias: What is allowed for beside it, not squared: what clip and lost slopes may do to probabilities.
        points: (steps, columns, outputs): where the gradients were taken, in coordinates of z.
    """

    coefficients: Floats
    intercept: Floats
    geometry: Geometry
    schedule: Schedule
    noise: Floats
    chosen: int | None
    factor: float | None
    error: Floats
    bias: float
    points: Floats

    def value(self) -> dict[str, Any]:
        """Return the released value: the model, the released number of rows, and how the model came about."""
        outputs = len(self.intercept)
        found: dict[str, Any] = {
            "coefficients": self.coefficients,
            "intercept": self.intercept,
            "rows": float(self.geometry.rows),
            "passes": self.schedule.passes,
            "clip": self.schedule.clip,
            "noise_to_signal": self.schedule.noise,
            "chosen": -1 if self.chosen is None else self.chosen,
            "believed": -1.0 if self.factor is None else min(self.factor, 1e300),
        }
        geometry = self.geometry
        if geometry.map is not None and geometry.features <= _STORED:
            found |= {"map": geometry.map, "centre": geometry.centre}
            if geometry.intercept:
                found["noise"] = np.repeat(self.noise[:, None], outputs, axis=1)
        if geometry.features <= _STORED and self.points.size <= _STORED_POINTS:
            found["points"] = self.points  # what a privacy report is made of
        return found


def descend(plan: DescentPlan, rows: Rows | AwayExamples, *, source: Source) -> FittedDescent:
    """Run a plan on bounded rows (`ArrayRows` or `StreamedRows`, made with `plan.policy`), or on rows of workers.

    Guarantee: the plan's claims, GDP(mu), exact on the machine (descent proof page, Theorem D).
    """
    with opened(rows, data_norm=float(plan.data_norm), dense=plan.shares.gram > 0) as coded:
        geometry = _geometry(plan, coded, source=source)
        mapped = coded.mapped(RowMap(geometry=geometry))
        chosen, start = _chosen(plan, geometry, mapped, source=source)
        steps = _plain if geometry.kind == "none" else _averaged
        return steps(plan, geometry, coded, mapped, chosen, start, source=source)


def _geometry(plan: DescentPlan, rows: CodedPasses, *, source: Source) -> Geometry:
    """Release what the coordinates need."""
    declared = counted = None if plan.rows is None else float(plan.rows)
    total, count = _gram_and_count(plan, rows)
    gram = None
    if plan.shares.gram:
        noise = plan.gram_noise(total)
        released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 1 of 5
        unit = 2.0 ** (-2 * CODE_BITS)
        gram = NoisyGram(matrix=released * unit, noise_scale=float(noise.scale) * unit)
    if plan.shares.count:
        counting = plan.count_noise(count)
        noisy = float(counting.release(source))  # private rows, 2 of 5
        counted = max(noisy, 0.0)
        declared = counted + counting.deviation
    if gram is None:
        assert declared is not None
        return without_map(plan.features, rows=declared, intercept=plan.intercept)
    more: dict[str, Any] = {"intercept": plan.intercept, "outputs": plan.targets.outputs}
    if plan.public is not None:
        assert declared is not None
        return guarded(plan.public, gram, rows=declared, counted=counted, **more)
    return from_gram(gram, rows=declared, full=plan.targets.kind == "logistic", **more)


def _gram_and_count(plan: DescentPlan, rows: CodedPasses) -> tuple[Integers, int]:
    """Read the rows once, where anything of it is needed."""
    statistic = GramAndCount(features=plan.features, gram=plan.shares.gram > 0)
    if not plan.shares.gram and not plan.shares.count:
        return statistic.split(np.zeros(statistic.shape, np.int64))
    return statistic.split(rows.added_up(statistic))


def _chosen(
    plan: DescentPlan, geometry: Geometry, mapped: MappedPasses, *, source: Source
) -> tuple[int | None, Start | None]:
    """Choose where to start: one of the predictions, or at 0; paid whatever comes out."""
    if plan.choice is None:
        return None, None
    starts = [_start(plan, candidate, geometry) for candidate in plan.candidates]
    add_up = votes_against_starts if plan.choice.votes else losses_of_starts
    totals = add_up(plan.targets, mapped, starts, RowMap(geometry=geometry))
    chosen = plan.choice.draw(totals, source)  # private rows, 3 of 5
    return chosen, None if chosen is None else starts[chosen]


def _start(plan: DescentPlan, candidate: Any, geometry: Geometry) -> Start:
    """Return a prediction in these coordinates; of two classes as a softmax half of it each way."""
    targets = plan.targets
    if targets.kind == "softmax" and len(targets.classes) == 2:
        one = start_of(candidate, geometry, kind="logistic", outputs=1)
        return replace(one, theta=np.hstack([-one.theta / 2, one.theta / 2]))
    return start_of(candidate, geometry, kind=targets.kind, outputs=targets.outputs)


def _noisy_gradient(
    plan: DescentPlan, mapped: MappedPasses, theta: Floats, mapping: RowMap, *, clip: int, passes: int, source: Source
) -> Floats:
    """Release the gradient at a public point, in the loss's own unit."""
    total = integer_gradient(plan.targets, mapped, theta, mapping, clip=clip)
    noise = plan.step_noise(total, clip=clip, passes=passes)
    released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 4 of 5
    gradient = released * 2.0**-mapping.gradient_bits
    if plan.targets.outputs > 1:  # the gradient of a softmax adds up to 0 over the classes
        gradient -= gradient.mean(axis=1, keepdims=True)
    return gradient


def _averaged(
    plan: DescentPlan,
    geometry: Geometry,
    coded: CodedPasses,
    mapped: MappedPasses,
    chosen: int | None,
    start: Start | None,
    *,
    source: Source,
) -> FittedDescent:
    """Take the steps of a mapped descent, average the last points, and shrink."""
    targets, mapping = plan.targets, RowMap(geometry=geometry)
    residual = None if start is None or not start.public_rows else start.residual_variance
    steps = schedule(
        targets.kind,
        trace=geometry.trace,
        columns=geometry.columns,
        intercept=geometry.intercept,
        outputs=targets.outputs,
        rows=geometry.rows,
        mu_steps=plan.mu_steps,
        step_factor=geometry.step_factor,
        residual=None if residual is None else residual**0.5,
        rows_per_unit=plan.rows_per_unit,
        passes=plan.passes,
    )
    clip = max(1, int(steps.clip * 2.0**mapping.gradient_bits))
    theta = np.zeros((geometry.columns, targets.outputs)) if start is None else np.array(start.theta, np.float64)
    lengths = steps.lengths(geometry.columns, intercept=geometry.intercept)
    lost: float | Floats = 0.0
    if residual is not None and chosen is not None and start is not None:
        lost = geometry.rows * taken_off(plan.candidates[chosen], start, geometry, clip=steps.clip)
    points, seen = [], []
    with coded.progress(steps.passes) as one_more:
        for _ in range(steps.passes):  # all of them, always
            seen.append(mapping.seen(theta))
            gradient = _noisy_gradient(plan, mapped, theta, mapping, clip=clip, passes=steps.passes, source=source)
            theta = theta - lengths[:, None] / (geometry.rows * targets.curvature) * (gradient - lost)
            points.append(theta)
            one_more()
    average = np.mean(points[-steps.tail :], axis=0)
    noise = average_noise(
        targets.kind,
        h=_likely_h(geometry, start),
        schedule=steps,
        rows=geometry.rows,
        mu_steps=plan.mu_steps,
        curvature=targets.curvature,
        rows_per_unit=plan.rows_per_unit,
        residual_variance=residual,
        intercept=geometry.intercept,
        # how large slopes are without a prediction was fitted to the larger number
        counted=None if start is None else geometry.counted,
    )
    kept, rate = 1.0, None
    if targets.kind == "logistic" and start is None and plan.shrinkage != "none" and not targets.class_weights:
        likely = geometry.h if geometry.likely is None else geometry.likely
        kept, rate = true_log_odds(
            average[:, 0], noise.variance, geometry.h, likely, steps=steps, intercept=geometry.intercept
        )
    shrunk = shrink(
        average,
        noise,
        kind=targets.kind,
        rule=plan.shrinkage,
        start=None if start is None else start.theta,
        trust=None if start is None else start.variances,
        intercept=geometry.intercept,
    )
    found, unsure = kept * shrunk.theta, shrunk.variance
    stored = kept * noise.variance  # as sure as a slope that was drawn back may be: its square would be too sure
    error = noise.h * unsure  # how far log odds are drawn back is not sure, either: not counted here
    bias = 0.0
    if not plan.shares.offset:
        error = _MOST_MOVED[targets.kind] ** 2 * error
    else:
        found, after = with_constants(
            plan, geometry, mapped, found, rate, said=float(unsure[-1]), predicted=start is not None, source=source
        )
        stored = np.append(stored[:-1], after.variance)
        error = np.append(after.of_slopes * error[:-1], after.of_constant)
        bias = after.of_rest
    return _fitted(
        plan,
        geometry,
        steps,
        found,
        stored,
        chosen,
        shrunk.factor,
        error=error,
        bias=bias,
        points=np.array(seen),
    )


def _likely_h(geometry: Geometry, start: Start | None) -> Floats:
    """Return how the columns of z vary: as public rows say, as the released matrix says without its noise, or as is."""
    if start is not None:
        return geometry.h if start.h is None else start.h
    return geometry.h if geometry.likely is None else geometry.likely


def _plain(
    plan: DescentPlan,
    geometry: Geometry,
    coded: CodedPasses,
    mapped: MappedPasses,
    chosen: int | None,
    start: Start | None,
    *,
    source: Source,
) -> FittedDescent:
    """Take the steps without a map: a heavy ball, whose last point is the answer."""
    mapping = RowMap(geometry=geometry)
    passes = PLAIN_PASSES if plan.passes is None else plan.passes
    clip = int(PLAIN_CLIP * 2.0**mapping.gradient_bits)
    theta = np.zeros((geometry.columns, plan.targets.outputs)) if start is None else np.array(start.theta, np.float64)
    speed, seen = np.zeros_like(theta), []
    with coded.progress(passes) as one_more:
        for _ in range(passes):
            seen.append(mapping.seen(theta))
            gradient = _noisy_gradient(plan, mapped, theta, mapping, clip=clip, passes=passes, source=source)
            speed = PLAIN_MOMENTUM * speed - PLAIN_STEP / geometry.rows * gradient
            theta = theta + speed
            one_more()
    noise = plan.rows_per_unit * (geometry.columns * plan.targets.outputs) ** 0.5 / (plan.mu_steps * geometry.rows)
    steps = Schedule(
        noise=noise,
        passes=passes,
        tail=1,
        clip_share=PLAIN_CLIP,
        clip=PLAIN_CLIP,
        step=PLAIN_STEP,
        constant_step=PLAIN_STEP,
    )
    # what noise of each step adds to the last point, were nothing of it forgotten; a row and its ½ have length √1.25
    reached = [PLAIN_STEP * (1 - PLAIN_MOMENTUM**left) / (1 - PLAIN_MOMENTUM) for left in range(1, passes + 1)]
    deviation = plan.rows_per_unit * PLAIN_CLIP * passes**0.5 / (plan.mu_steps * geometry.rows)
    error = np.array([1.25 * deviation**2 * sum(each**2 for each in reached)])
    error = _MOST_MOVED[plan.targets.kind] ** 2 * error
    if plan.shares.offset:
        theta, after = with_constants(
            plan, geometry, mapped, theta, None, said=None, predicted=start is not None, source=source
        )
        error = np.append(error, after.of_constant)
    return _fitted(
        plan, geometry, steps, theta, np.zeros(geometry.columns), chosen, None, error=error, points=np.array(seen)
    )


def _fitted(
    plan: DescentPlan,
    geometry: Geometry,
    steps: Schedule,
    theta: Floats,
    noise: Floats,
    chosen: int | None,
    factor: float | None,
    *,
    error: Floats,
    points: Floats,
    bias: float = 0.0,
) -> FittedDescent:
    """Return coefficients in the units of the rows and of the target."""
    coefficients, intercept = geometry.unmapped(theta)
    if plan.targets.kind == "softmax" and len(plan.targets.classes) == 2:
        coefficients, intercept = coefficients[:, 1:] - coefficients[:, :1], intercept[1:] - intercept[:1]
    half = plan.targets.half
    return FittedDescent(
        coefficients=np.asarray(coefficients.T * (half / float(plan.data_norm))),
        intercept=np.asarray(intercept * half),
        geometry=geometry,
        schedule=steps,
        noise=noise,
        chosen=chosen,
        factor=factor,
        error=error,
        bias=bias,
        points=points,
    )
