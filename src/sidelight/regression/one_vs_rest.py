"""Several classes by one logistic model each: K plans of the same noise, priced together by numerical composition.

A joint softmax is usually the better buy: at K = 10, ε = 1, δ = 1e-5 it takes σ = 6.48R at λ = 10R², and K models, in
all of which every record takes part, take at least 11.80R, the Gaussian mechanism's noise for √K gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sidelight.accounting import batch, gaussian_noise_scale
from sidelight.accounting.loss_distributions import compose
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, ApproxDP, Claims, positive, short_text
from sidelight.guarantees.amounts import grid_ceil
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.objective_perturbation import LossShape, calibrate_objective
from sidelight.regression.losses import OneVsRestLoss
from sidelight.regression.plan import LinearPlan, plan_linear

#: A noise scale is taken when it is within this of the smallest one.
_CLOSE = 1e-3
_MOST_TRIES = 20


def plan_one_vs_rest(
    *, classes: Sequence[Any], epsilon: Amount, delta: Amount, regularisation: Amount | None = None, **rest: Any
) -> tuple[LinearPlan, ...]:
    """Plan one model a class so that all together are (ε, δ)-DP; the other arguments are those of `plan_linear`.

    Guarantee: each plan is what it says by itself, and `together` prices them: adaptive composition of K fits, per
    direction (objective-perturbation proof page, section 2). λ is 10R²/ε where none is given, as for a softmax.
    """
    at, chance = positive(epsilon, name="epsilon"), positive(delta, name="delta")
    losses = [OneVsRestLoss(classes=tuple(classes), label=label) for label in classes]
    first = plan_linear(loss=losses[0], epsilon=at, delta=chance, regularisation=regularisation, **rest)
    shape = first.mechanism.shape
    lam = first.mechanism.regularisation
    if regularisation is None:
        lam = max(lam, grid_ceil(40 * shape.curvature / at))
    sigma = smallest_noise(shape, fits=len(losses), epsilon=at, delta=chance, regularisation=lam)
    fixed = rest | {"regularisation": lam, "noise_scale": sigma}
    return tuple(plan_linear(loss=loss, epsilon=at, delta=chance, **fixed) for loss in losses)


def together(plans: Sequence[LinearPlan]) -> Claims:
    """Price the plans as one release, and prove again that it is within their (ε, δ)."""
    claims = batch([plan.claims for plan in plans], delta=plans[0].delta)
    target = ApproxDP(plans[0].epsilon, plans[0].delta, **claims.context)
    if not claims.implies(target):
        raise RangeError(f"the {len(plans)} models together do not prove {target}; raise delta, or use a softmax")
    return claims


def smallest_noise(
    shape: LossShape, *, fits: int, epsilon: Fraction, delta: Fraction, regularisation: Fraction
) -> Fraction:
    """Find the noise of each of several fits at which their composition is (ε, δ)-DP, to a tenth of a percent."""
    root = round_up(Interval.of(fits).sqrt().upper)
    low = gaussian_noise_scale(epsilon, delta, sensitivity=shape.gradient * root)  # below it no composition holds
    # a coarser grid than the price is read from: it errs on the private side, and by the square of its step
    step = max(1e-4, float(epsilon) / 2000)
    sigma = low * Fraction(1 + _CLOSE)
    high: Fraction | None = None
    for _ in range(_MOST_TRIES):
        mechanism = calibrate_objective(
            shape, epsilon=epsilon, delta=delta, regularisation=regularisation, noise_scale=sigma
        )
        profile = mechanism.profile()
        items = [(profile.remove, profile.add)] * fits
        spent = compose(items, step=step).epsilon(delta)
        if spent is not None and spent <= epsilon:
            high = sigma
        else:
            low = sigma
        if high is not None and high / low <= 1 + _CLOSE:
            return high
        if high is not None:
            sigma = grid_ceil(Fraction(math.sqrt(float(low) * float(high))))
        else:  # epsilon falls about as fast as the noise grows
            excess = 2.0 if spent is None else min(2.0, float(spent / epsilon))
            sigma = grid_ceil(low * Fraction(excess * (1 + _CLOSE / 2)))
    if high is not None:
        return high
    raise RangeError(
        f"no noise was found for {fits} models at ({short_text(epsilon)}, {short_text(delta)}) and regularisation "
        f"{short_text(regularisation)}; give a larger regularisation, or use a softmax"
    )
