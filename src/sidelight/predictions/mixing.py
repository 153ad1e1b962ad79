"""The robustness knob: mix a prediction with something that holds when the prediction is wrong."""

from __future__ import annotations

import math
import warnings

from sidelight.errors import HedgeWarning, RangeError
from sidelight.predictions.mixture import Mixture
from sidelight.predictions.origin import joint_origin
from sidelight.predictions.parameters import finite
from sidelight.predictions.priors import Prior


def hedge(prediction: Prior, *, with_: Prior, weight: float = 0.1) -> Mixture:
    """Return (1 - weight) * prediction + weight * `with_`: being wrong then costs little.

    Accuracy: at most (2Δ/ε) log(1/weight) ranks worse than `with_` alone however wrong the prediction is, and at most
    (2Δ/ε) log(1/(1 - weight)) ranks worse than the prediction alone where it is right.

    Args:
        prediction: The prior that may be wrong.
        with_: The robust prior.
        weight: The WEIGHT OF THE ROBUST PRIOR `with_`, between 0 and 1.

    Returns:
        A `Mixture` with the prediction's origin.

    >>> from sidelight.predictions import Cauchy, Laplace
    >>> hedge(Laplace(40, 5), with_=Cauchy(40, 20)).weights
    (0.9, 0.1)
    """
    share = finite(weight, name="weight")
    if not 0 < share < 1:
        raise RangeError(f"weight must lie between 0 and 1, got {share}; 0.1 costs little either way")
    # The fallback is no claim about the data, unless releases were paid to find it: these entries must stay named.
    traced = with_.origin.kind == "released"
    origin = joint_origin([prediction.origin, with_.origin]) if traced else prediction.origin
    return Mixture([1 - share, share], [prediction, with_], origin=origin)


def hedge_cost(*, weight: float, level: float, epsilon: float) -> float:
    """Return what a hedge costs at most against its robust prior, in ranks: (2 max(q, 1-q) / ε) log(1/weight)."""
    if not 0 < weight <= 1:
        raise RangeError(f"weight must lie between 0 and 1, got {weight}")
    return 2 * max(level, 1 - level) / epsilon * math.log(1 / weight)


def needs_hedge(prior: Prior) -> bool:
    """Return whether a prediction should not be used alone (Laplace, Gaussian, and mixtures of nothing else)."""
    return prior.needs_hedge


def warn_if_unhedged(prior: Prior, *, stacklevel: int = 2) -> None:
    """Warn, once a release is about to use it, about a prediction that nothing backs up."""
    if needs_hedge(prior):
        warnings.warn(
            f"a {type(prior).__name__} prediction that is wrong by R scales costs in the order of R ranks or more; "
            "use hedge(prediction, with_=Cauchy(...)) or ScaleFree, which costs little where it is right",
            HedgeWarning,
            stacklevel=stacklevel + 1,
        )
