"""Fresh noise that makes the correlated noise of many learners isotropic, as far as differences between them go.

Hand-made: small matrices and one eigendecomposition (experts proof page, Theorem 10).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.linalg import eigh as lowest_first

from sidelight.errors import RangeError, nearest
from sidelight.experts.leader_change import Floats

#: "centred": P Σ P with P = I - 11'/m, the default. "paper": Σ minus its mean entry times 11', which needs more noise.
Variant = Literal["centred", "paper"]
VARIANTS = ("centred", "paper")


def seen_covariance(covariance: Floats, *, variant: Variant = "centred") -> Floats:
    """Return the part of a covariance (or of a stack of them) that the added noise has to complement.

    >>> import numpy as np
    >>> a = np.array([[5.0, 4, 4], [4, 5, 4], [4, 4, 1]])
    >>> [round(float(np.linalg.eigvalsh(seen_covariance(a @ a.T, variant=v))[-1]), 6) for v in ("paper", "centred")]
    [22.2869, 6.333333]
    """
    if variant == "paper":
        return np.asarray(covariance - covariance.mean(axis=(-2, -1), keepdims=True))
    if variant != "centred":
        raise RangeError(f"variant must be 'centred' or 'paper', got {variant!r}; {nearest(str(variant), VARIANTS)}")
    rows = covariance.mean(axis=-1, keepdims=True)
    columns = covariance.mean(axis=-2, keepdims=True)
    return np.asarray(covariance - rows - columns + covariance.mean(axis=(-2, -1), keepdims=True))


def complement(seen: Floats, *, at_least: float) -> tuple[float, Floats]:
    """Return the level s² = max(at_least, λ_max(S)) and a matrix R with R R' = s² I - S: y = R ξ is the noise to add.

    Eigenvalues that rounding made larger than s² count as s²: such an error costs accuracy, never privacy.
    """
    values, vectors = lowest_first((seen + seen.T) / 2)
    level = max(float(at_least), float(values[-1]))
    return level, vectors * np.sqrt(np.maximum(level - values, 0.0))
