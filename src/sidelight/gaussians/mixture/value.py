"""The value of a mixture release."""

from __future__ import annotations

from typing import Any

import numpy as np


class MixtureValue(dict[str, Any]):
    """A plain mapping that prints in a few lines.

    "means" (k x d), "covariances" (k x d x d), "weights" (k); "certified" (False for the single Gaussian of
    on_failure="single"); "rows", the noisy number of rows; "checks" with the noisy "rows" and "ambiguous" rows of every
    cell, the noisy number of "dropped" rows and the noise's "deviation" (None where no search was made); "components"
    with the account of each estimate; "warnings", from released and public numbers alone.
    """

    def __repr__(self) -> str:
        count, width = self["means"].shape
        state = "" if self["certified"] else ", not certified: one Gaussian of all rows"
        lines = [f"{count} Gaussian(s) of {width} columns{state}"]
        for weight, mean in zip(self["weights"], self["means"], strict=True):
            shown = np.array2string(mean, precision=4, suppress_small=True, threshold=6, edgeitems=3, separator=", ")
            lines.append(f"weight {weight:.3f}, mean {shown}")
        lines += [f"warning: {text}" for text in self["warnings"]]
        return "\n  ".join(lines)
