"""Private follow-the-regularised-leader: learn along a sequence of data sets from noisy sums of gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import Claims
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.noise import Source
from sidelight.predictions.learning.regulariser import Regulariser

# From a sequence to one answer: the average of what was played, and what its risk can be (online-to-batch).

Floats = NDArray[np.float64]


class Average:
    """The running mean of parameters, in the parametrisation in which the loss is convex.

    For Laplace priors that is (location/scale, 1/scale); the mean of locations and scales would not do.

    >>> average = Average((1,))
    >>> for theta in (1.0, 2.0, 6.0):
    ...     average.add([theta])
    >>> average.value
    array([3.])
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._sum = np.zeros(shape)
        self._count = 0

    def add(self, parameters: ArrayLike) -> None:
        """Count one more."""
        self._sum += np.asarray(parameters, dtype=np.float64)
        self._count += 1

    @property
    def value(self) -> Floats:
        """The mean of all so far."""
        if not self._count:
            raise RangeError("nothing was played yet, so there is no average")
        return np.asarray(self._sum / self._count)


def excess_risk_bound(*, regret: float, steps: int, largest_loss: float, failure_probability: float) -> float:
    """Bound the risk of the average above the best's: regret/T + 2 B sqrt((2/T) log(2/beta)).

    For independent, equally distributed data sets and losses in [-B, B] (Cesa-Bianchi, Conconi and Gentile 2004), but
    for the failure probability.

    >>> round(excess_risk_bound(regret=80.0, steps=100, largest_loss=1.0, failure_probability=0.05), 6)
    1.343241
    """
    if not (steps >= 1 and largest_loss > 0 and 0 < failure_probability < 1):
        raise RangeError("excess risk needs a step, a positive bound on the loss and a failure probability in (0, 1)")
    return regret / steps + 2 * largest_loss * math.sqrt(2 / steps * math.log(2 / failure_probability))


# Regret of follow-the-regularised-leader on noisy sums: the bound, the noise in it, the step that suits it.


def noise_norm(regulariser: Regulariser, *, deviation: float, steps: int, failure_probability: float) -> float:
    """Bound ||noise||_* of all estimates at once, but for the failure probability: (Gw + C sqrt(2 log(T/beta))) sd."""
    if not 0 < failure_probability < 1:
        raise RangeError(f"failure_probability must lie strictly between 0 and 1, got {failure_probability}")
    spread = math.sqrt(2 * math.log(steps / failure_probability))
    return (regulariser.gaussian_width + regulariser.dual_lipschitz * spread) * deviation


def best_step_size(*, radius_squared: float, lipschitz: float, noise: float, steps: int) -> float:
    """Return sqrt(R^2 / (L (L + noise) T)), which balances the two parts of the bound.

    >>> best_step_size(radius_squared=4.0, lipschitz=1.0, noise=3.0, steps=100)
    0.1
    """
    if not (radius_squared > 0 and lipschitz > 0 and noise >= 0 and steps >= 1):
        raise RangeError("a step size needs a positive radius and Lipschitz constant, noise of at least 0, and a step")
    return math.sqrt(radius_squared / (lipschitz * (lipschitz + noise) * steps))


def regret_bound(*, radius_squared: float, lipschitz: float, noise: float, step_size: float) -> Callable[[int], float]:
    """Return the bound on sum_t loss_t(theta_t) - loss_t(theta*) as a function of the number of steps.

    R^2/eta + eta L (L T + sum_t ||b_t||_*), with every ||b_t||_* at most `noise` (learning proof page, section 3).

    >>> regret_bound(radius_squared=4.0, lipschitz=1.0, noise=3.0, step_size=0.1)(100)
    80.0
    """

    def bound(steps: int) -> float:
        return radius_squared / step_size + step_size * lipschitz * (lipschitz + noise) * steps

    return bound


@dataclass(frozen=True, kw_only=True, eq=False)
class DPFTRL:
    """theta_(t+1) = argmin phi(theta) + eta <noisy sum of the gradients so far, theta>.

    Guarantee: that of `sums`, for everything that is ever played: the parameters are post-processing of the estimates.
    It holds for gradients of any loss at the parameters that were played. It does not hold if the step size, the
    regulariser or when to stop were chosen by looking at the data.

    Accuracy: `regret_bound()(T)`, for convex losses with ||gradient||_* <= lipschitz.

    Args:
        regulariser: The geometry; its `size` is that of `sums`.
        sums: The plan of the private sums, one step for each gradient. The last parameters that are played need no
            gradient: T rounds need T - 1 steps.
        lipschitz: A bound on the dual norm of every gradient; enters the step size only.
        step_size: Another eta.
        failure_probability: Of the regret bound.
    """

    regulariser: Regulariser
    sums: PrefixSums
    lipschitz: float
    step_size: float | None = None
    failure_probability: float = 0.05

    def __post_init__(self) -> None:
        if self.regulariser.size != self.sums.size:
            raise RangeError(
                f"the regulariser has gradients of {self.regulariser.size} coordinates, the sums {self.sums.size}"
            )
        if not self.eta > 0:
            raise RangeError(f"step_size must be positive, got {self.step_size}")

    @property
    def claims(self) -> Claims:
        """What the whole sequence costs."""
        return self.sums.claims

    @cached_property
    def noise(self) -> float:
        """The dual norm that the noise of an estimate stays below."""
        return noise_norm(
            self.regulariser,
            deviation=self.sums.largest_deviation,
            steps=self.sums.steps,
            failure_probability=self.failure_probability,
        )

    @cached_property
    def eta(self) -> float:
        """The step size that is used."""
        if self.step_size is not None:
            return self.step_size
        radius = self.regulariser.radius_squared
        return best_step_size(radius_squared=radius, lipschitz=self.lipschitz, noise=self.noise, steps=self.sums.steps)

    def regret_bound(self) -> Callable[[int], float]:
        """Return the regret bound as a function of the number of steps."""
        radius = self.regulariser.radius_squared
        return regret_bound(radius_squared=radius, lipschitz=self.lipschitz, noise=self.noise, step_size=self.eta)

    def start(self) -> FTRLRun:
        """Begin one sequence."""
        return FTRLRun(self)


class FTRLRun:
    """One sequence: play `parameters`, compute the gradient of the loss there, and `learn` it."""

    __slots__ = ("_average", "_parameters", "_sums", "plan")

    def __init__(self, plan: DPFTRL) -> None:
        self.plan = plan
        self._sums = plan.sums.start()
        self._parameters = plan.regulariser.minimiser(np.zeros(plan.sums.size), step_size=plan.eta)
        self._average = Average(plan.regulariser.shape)

    @property
    def step(self) -> int:
        """How many gradients were learned."""
        return self._sums.step

    @property
    def parameters(self) -> Floats:
        """What to play now; private by the plan's claims."""
        return self._parameters.copy()

    @property
    def average(self) -> Floats:
        """The mean of the parameters whose gradients were learned, for `excess_risk_bound`."""
        return self._average.value

    def learn(self, gradient: ArrayLike, *, source: Source) -> Floats:
        """Take the gradient of this round's loss at `parameters`, and return the next parameters."""
        regulariser = self.plan.regulariser
        given = np.asarray(gradient, dtype=np.float64)
        if given.shape != regulariser.shape:
            raise RangeError(f"a gradient must have the shape {regulariser.shape} of the parameters, got {given.shape}")
        estimate = self._sums.add(regulariser.to_vector(given), source=source)
        self._average.add(self._parameters)
        self._parameters = regulariser.minimiser(estimate, step_size=self.plan.eta)
        return self.parameters

    def __repr__(self) -> str:
        return f"FTRLRun({self._sums!r})"
