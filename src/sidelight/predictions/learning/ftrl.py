"""Private follow-the-regularised-leader: learn along a sequence of data sets from noisy sums of gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import Claims
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.noise import Source
from sidelight.predictions.learning.online_to_batch import Average
from sidelight.predictions.learning.regret import best_step_size, noise_norm, regret_bound
from sidelight.predictions.learning.regulariser import Regulariser

Floats = NDArray[np.float64]


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
