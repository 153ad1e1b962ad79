"""Robust ridge regression that learns one observation at a time and forgets slowly: several outputs, one design.

Hand-made: it must be resumable bit for bit from a small state, and a day costs one solve of a small system. A residual
counts up to three typical ones (Huber's idea), so a far observation moves the fit no more than a fairly bad one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.predictions.mixture import text_of, texts_of

Floats = NDArray[np.float64]

#: How many typical residuals one residual may count for.
_CLIP: Final = 3.0
#: The pull of slopes towards 0, in observations: as if one had been seen in which the feature made no difference.
_RIDGE: Final = 1.0
#: The pull of the constant towards its guess: a tenth of an observation.
_GUESS: Final = 0.1
#: The first guess of the typical residual counts as this many observations.
_FIRST: Final = 2.0


@dataclass(frozen=True, kw_only=True, eq=False)
class RecursiveRegression:
    """The state: normal equations, coefficients, typical residual of each output. Build it with `begin`.

    >>> fit = RecursiveRegression.begin(np.array([10.0]), np.array([1.0]), features=1, memory=200)
    >>> for t in range(100):
    ...     fit = fit.learn(np.array([t % 2.0]), np.array([12.0 + 3 * (t % 2)]))
    >>> [round(float(fit.predict(np.array([f]))[0]), 1) for f in (0.0, 1.0)]
    [12.1, 14.9]
    """

    start: Floats  # (outputs,): the guess that a constant is measured from
    design: Floats  # (features + 1, features + 1): sum of x xᵀ, faded, plus the ridge
    moments: Floats  # (features + 1, outputs): sum of x yᵀ, faded
    coefficients: Floats  # (features + 1, outputs)
    residual: Floats  # (outputs,): the mean absolute residual
    weight: float  # how many observations the residual stands for
    memory: float

    @classmethod
    def begin(cls, location: Floats, scale: Floats, *, features: int, memory: float) -> RecursiveRegression:
        """Return the fit that has seen nothing: the guess, whatever the features."""
        return cls(
            start=np.array(location, dtype=np.float64),
            design=_ridge(features),
            moments=np.zeros((features + 1, len(location))),
            coefficients=np.zeros((features + 1, len(location))),
            residual=np.array(scale, dtype=np.float64),
            weight=_FIRST,
            memory=float(memory),
        )

    @property
    def features(self) -> int:
        """How many features an observation has."""
        return len(self.design) - 1

    def predict(self, features: Floats) -> Floats:
        """Return the prediction of every output."""
        return np.asarray(self.start + (self._row(features)[:, None] * self.coefficients).sum(axis=0))

    def learn(self, features: Floats, observed: Floats) -> RecursiveRegression:
        """Return the fit after one observation of every output."""
        keep, row = 1 - 1 / self.memory, self._row(features)
        expected = self.predict(features)
        off = observed - expected
        weight = keep * self.weight + 1
        typical = np.minimum(np.abs(off), _CLIP * _CLIP * self.residual)  # it may grow by this factor in a day
        residual = self.residual + (typical - self.residual) / weight
        moved = expected - self.start + np.clip(off, -_CLIP * residual, _CLIP * residual)
        design = keep * self.design + row[:, None] * row + (1 - keep) * _ridge(self.features)
        moments = keep * self.moments + row[:, None] * moved
        return replace(
            self,
            design=design,
            moments=moments,
            coefficients=np.linalg.solve(design, moments).astype(np.float64),
            residual=residual,
            weight=weight,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the state in hexadecimal floats: every bit comes back."""
        names = ("start", "design", "moments", "coefficients", "residual")
        arrays = {name: [float(value).hex() for value in getattr(self, name).ravel()] for name in names}
        return {**arrays, "weight": self.weight.hex(), "memory": self.memory.hex()}

    @classmethod
    def from_json(cls, written: Mapping[str, Any], *, outputs: int, features: int) -> RecursiveRegression:
        """Read what `to_json` wrote."""
        width = features + 1
        shapes = {
            "start": (outputs,),
            "design": (width, width),
            "moments": (width, outputs),
            "coefficients": (width, outputs),
            "residual": (outputs,),
        }
        try:
            arrays = {
                name: np.array([float.fromhex(text) for text in texts_of(written, name)]).reshape(shape)
                for name, shape in shapes.items()
            }
            weight, memory = (float.fromhex(text_of(written, name)) for name in ("weight", "memory"))
        except ValueError as error:
            raise RangeError(f"a stored regression cannot be read: {error}") from None
        return cls(**arrays, weight=weight, memory=memory)

    def _row(self, features: Floats) -> Floats:
        return np.append(features, 1.0)


def _ridge(features: int) -> Floats:
    return np.diag(np.append(np.full(features, _RIDGE), _GUESS))
