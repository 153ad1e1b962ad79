"""One descent: perhaps a choice, what the coordinates need, and T noisy gradients, each at a public point.

A last sum sets the constants of classes (`base_rates`). The seven lines that touch rows are marked, here, there and in
`coordinates`; everything else is post-processing of what they released, and all of it may be published. Every pass is
made, whatever comes out: there is nothing that could converge or fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from sidelight.noise import Source
from sidelight.records.rows import one_blas_thread
from sidelight.regression.descent.base_rates import with_constants
from sidelight.regression.descent.coordinates import released_coordinates
from sidelight.regression.descent.distributed_rows import DistributedExamples
from sidelight.regression.descent.geometry import Floats, Geometry, without_map
from sidelight.regression.descent.integer_rows import GeometryMap
from sidelight.regression.descent.log_odds import told_share, true_log_odds
from sidelight.regression.descent.mapped_rows import CodedExamples
from sidelight.regression.descent.one_step import OneStepDistance, one_step_distance
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.descent.remaining import remaining, steeper
from sidelight.regression.descent.row_sums import (
    CodedPasses,
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
    SecondLook,
    schedule,
)
from sidelight.regression.descent.shrinkage import SQUARED_CURVATURE, average_noise, shrink
from sidelight.regression.descent.starts import DescentStart, start_of, taken_off
from sidelight.regression.model_predictions import PublicExamples
from sidelight.regression.rows import BoundedRows

#: Features up to which the coordinates are stored with a release, and numbers up to which the path is.
_STORED, _STORED_POINTS = 256, 1 << 15
_LARGEST = 1e307
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
        bias: What is added to it, not squared: what clip, lost slopes and growing ones may do to probabilities.
        one_step: How far a number's model is from the one-step estimate; None where that says nothing.
        points: (steps, columns, outputs): where the gradients were taken, in coordinates of z.
        unseen: What else it may be: what columns that no release showed may predict, in half ranges².
        remaining: What else it may be: what the last steps show that is left to go.
        second_look: What was released of the columns after the first matrix.
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
    one_step: OneStepDistance | None = None
    unseen: float = 0.0
    remaining: float = 0.0
    second_look: SecondLook = "none"

    def value(self) -> dict[str, Any]:
        """Return the released value: the model, the released number of rows, and how the model came about."""
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
        if self.second_look != "none":
            found["second_look"] = get_args(SecondLook).index(self.second_look)
        geometry = self.geometry
        if geometry.map is not None and geometry.features <= _STORED:
            found |= {"map": geometry.map, "centre": geometry.centre}
            if geometry.intercept:
                found["noise"] = np.repeat(self.noise[:, None], len(self.intercept), axis=1)
        if geometry.features <= _STORED and self.points.size <= _STORED_POINTS:
            found["points"] = self.points  # what a privacy report is made of
        return found


@one_blas_thread()  # of matrices of some columns: several threads wait for each other longer than they work
def descend(plan: DescentPlan, rows: BoundedRows | DistributedExamples, *, source: Source) -> FittedDescent:
    """Run a plan on bounded rows (`BoundedArrays` or `StreamedRows`, made with `plan.policy`), or on distributed rows.

    Guarantee: the plan's claims, GDP(mu), exact on the machine (descent proof page, Theorem D).
    """
    settings: dict[str, Any] = {"data_norm": float(plan.data_norm), "dense": plan.shares.gram > 0}
    if isinstance(rows, DistributedExamples):
        with rows.coded(**settings) as kept:
            return _descended(plan, kept, source=source)
    return _descended(plan, CodedExamples(rows, **settings), source=source)


def _descended(plan: DescentPlan, coded: CodedPasses, *, source: Source) -> FittedDescent:
    chosen = _chosen(plan, coded, source=source)
    plan, geometry = released_coordinates(plan.after_choice(chosen), coded, source=source)
    mapped = coded.mapped(GeometryMap(geometry=geometry))
    start = None if chosen is None else _start(plan, plan.candidates[chosen], geometry)
    steps = _plain if geometry.kind == "none" else _averaged
    return steps(plan, geometry, coded, mapped, chosen, start, source=source)


def _chosen(plan: DescentPlan, rows: CodedPasses, *, source: Source) -> int | None:
    """Choose a prediction or none, before anything else and in the rows' own coordinates; paid whatever comes out.

    With geometry="auto" what is not chosen is not used afterwards; geometry="public" keeps its coordinates.
    """
    if plan.choice is None:
        return None
    own = without_map(plan.features, rows=1.0, intercept=plan.intercept)
    starts = [_judged(plan, candidate, own) for candidate in plan.candidates]
    add_up = votes_against_starts if plan.choice.votes else losses_of_starts
    totals = add_up(plan.targets, rows, starts, GeometryMap(geometry=own))
    return plan.choice.draw(totals, source)  # private rows, 1 of 7


def _judged(plan: DescentPlan, candidate: Any, own: Geometry) -> DescentStart:
    """Return a prediction in the rows' own coordinates; public rows are fitted as for a released geometry."""
    if plan.geometry == "none" or not isinstance(candidate, PublicExamples):
        return _start(plan, candidate, own)
    whole = np.eye(plan.features)
    same = replace(own, map=whole, inverse=whole, kind="private")
    start = _start(plan, candidate, same)
    constant = None if start.constant is None else own.mapped(*same.unmapped(start.constant))
    return replace(start, theta=own.mapped(*same.unmapped(start.theta)), constant=constant)


def _start(plan: DescentPlan, candidate: Any, geometry: Geometry) -> DescentStart:
    """Return a prediction in these coordinates; of two classes as a softmax half of it each way."""
    targets = plan.targets
    if targets.kind == "softmax" and len(targets.classes) == 2:
        one = start_of(candidate, geometry, kind="logistic", outputs=1)
        return replace(one, theta=np.hstack([-one.theta / 2, one.theta / 2]))
    return start_of(candidate, geometry, kind=targets.kind, outputs=targets.outputs)


def _noisy_gradient(
    plan: DescentPlan,
    mapped: MappedPasses,
    theta: Floats,
    mapping: GeometryMap,
    *,
    clip: int,
    passes: int,
    source: Source,
) -> Floats:
    """Release the gradient at a public point, in the loss's own unit."""
    total = integer_gradient(plan.targets, mapped, theta, mapping, clip=clip)
    noise = plan.step_noise(total, clip=clip, passes=passes)
    released = np.asarray(noise.release(source)).astype(np.float64)  # private rows, 6 of 7
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
    start: DescentStart | None,
    *,
    source: Source,
) -> FittedDescent:
    """Take the steps of a mapped descent, average the last points, and shrink."""
    targets, mapping = plan.targets, GeometryMap(geometry=geometry)
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
    lost_unsure: Floats | None = None
    if residual is not None and chosen is not None and start is not None:
        taken, lost_unsure = taken_off(plan.candidates[chosen], start, geometry, clip=steps.clip)
        lost = geometry.rows * taken
    points, seen = [theta], []
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
    kept: float | Floats = 1.0
    rate = None
    if targets.kind != "squared" and start is None and plan.shrinkage != "none" and not targets.class_weights:
        likely = geometry.h if geometry.likely is None else geometry.likely
        if targets.kind == "logistic":
            kept, rate = true_log_odds(
                average[:, 0], noise.variance, geometry.h, likely, steps=steps, intercept=geometry.intercept
            )
        else:  # the constants are set by a release of their own
            slopes = slice(geometry.columns - geometry.intercept)
            kept = np.ones((geometry.columns, 1))
            kept[slopes] = told_share(average[slopes], noise.variance[slopes], likely[slopes]) or 1.0
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
    stored = np.ravel(kept) * noise.variance  # as sure as a slope that was drawn back: its square would be too sure
    error = noise.h * unsure  # how far log odds are drawn back is not sure, either: not counted here
    if lost_unsure is not None:  # a correction moves the end by 1/(curvature·h), and the model by what is kept of that
        moved = np.minimum(unsure / noise.variance, 1.0) ** 2 / (SQUARED_CURVATURE**2 * noise.h)
        error = error + moved * lost_unsure
    bias, path, own = 0.0, np.array(points), not plan.shares.offset
    last: dict[str, Any] = {"kind": targets.kind, "steps": steps, "step_noise": noise.of_step}
    mean_weight = min(targets.weights, default=1.0)  # the least that it can be, where no release shows the shares
    one_step = None
    if targets.kind == "squared" and start is None:  # from a prediction the first gradient is clipped as the last is
        one_step = one_step_distance(path, found, geometry, steps=steps, step_noise=noise.of_step)
    if not plan.shares.offset:
        error = _MOST_MOVED[targets.kind] ** 2 * error
    else:
        found, after = with_constants(
            plan, geometry, mapped, found, rate, said=float(unsure[-1]), predicted=start is not None, source=source
        )
        stored = np.append(stored[:-1], after.variance)
        error = np.append(after.of_slopes * error[:-1], after.of_constant)
        mean_weight = after.mean_weight
        bias = max(after.of_rest, steeper(path, geometry, found, **last, mean_weight=mean_weight))
    left = remaining(path, geometry, **last, constant=own, mean_weight=mean_weight)
    return _fitted(
        plan,
        geometry,
        steps,
        found,
        stored,
        chosen,
        shrunk.factor,
        unseen=geometry.unseen if start is None and targets.kind == "squared" else 0.0,
        remaining=left,
        error=error,
        bias=bias,
        one_step=one_step,
        points=np.array(seen),
    )


def _likely_h(geometry: Geometry, start: DescentStart | None) -> Floats:
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
    start: DescentStart | None,
    *,
    source: Source,
) -> FittedDescent:
    """Take the steps without a map: a heavy ball, whose last point is the answer."""
    mapping = GeometryMap(geometry=geometry)
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
    taken: dict[str, Any] = {"noise": noise, "passes": passes, "tail": 1, "clip_share": PLAIN_CLIP, "clip": PLAIN_CLIP}
    steps = Schedule(step=PLAIN_STEP, constant_step=PLAIN_STEP, **taken)
    # what noise of each step adds to the last point, were nothing of it forgotten; a row and its ½ have length √1.25
    reached = [PLAIN_STEP * (1 - PLAIN_MOMENTUM**left) / (1 - PLAIN_MOMENTUM) for left in range(1, passes + 1)]
    deviation = plan.rows_per_unit * PLAIN_CLIP * passes**0.5 / (plan.mu_steps * geometry.rows)
    error = _MOST_MOVED[plan.targets.kind] ** 2 * np.array([1.25 * deviation**2 * sum(each**2 for each in reached)])
    if plan.shares.offset:
        theta, after = with_constants(
            plan, geometry, mapped, theta, None, said=None, predicted=start is not None, source=source
        )
        # `after.of_rest` is left out on purpose: this error is counted from the same steps without noise
        # (`descent_error`), which have the same clip and the same slopes
        error = np.append(error, after.of_constant)
    return _fitted(
        plan, geometry, steps, theta, np.zeros(geometry.columns), chosen, None, error=error, points=np.array(seen)
    )


def _finite(values: Floats, unit: float) -> Floats:
    """Return values in a public unit, cut to what a float holds with some room: nothing may fail after the charge."""
    with np.errstate(over="ignore"):
        return np.clip(values * unit, -_LARGEST, _LARGEST)


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
    unseen: float = 0.0,
    remaining: float = 0.0,
    bias: float = 0.0,
    one_step: OneStepDistance | None = None,
) -> FittedDescent:
    """Return coefficients in the units of the rows and of the target."""
    coefficients, intercept = geometry.unmapped(theta)
    if plan.targets.kind == "softmax" and len(plan.targets.classes) == 2:
        coefficients, intercept = coefficients[:, 1:] - coefficients[:, :1], intercept[1:] - intercept[:1]
    half = plan.targets.half
    return FittedDescent(
        coefficients=_finite(coefficients.T, half / float(plan.data_norm)),
        intercept=_finite(intercept, half),
        geometry=geometry,
        schedule=steps,
        noise=noise,
        chosen=chosen,
        factor=factor,
        error=error,
        bias=bias,
        one_step=one_step,
        points=points,
        unseen=unseen,
        remaining=remaining,
        second_look=plan.second_look,
    )
