"""The value of a mixture release."""

from __future__ import annotations

from typing import Any


class MixtureValue(dict[str, Any]):
    """A plain mapping that prints in a few lines.

    "means" (k x d), "covariances" (k x d x d), "weights" (k); "certified" (False for the single Gaussian of
    on_failure="single"); "rows", the noisy number of rows; "checks" with the noisy "rows" and "ambiguous" rows of every
    cell, the noisy number of "dropped" rows and the noise's "deviation" (None where no search was made); "components"
    with the account of each estimate; "warnings", from released and public numbers alone.
    """

    def __repr__(self) -> str:
        count, width = self["means"].shape
        shares = ", ".join(f"{weight:.3f}" for weight in self["weights"])
        state = "" if self["certified"] else ", not certified: one Gaussian of all rows"
        notes = "".join(f"\n  warning: {text}" for text in self["warnings"])
        return f"{count} Gaussian(s) of {width} columns, weights {shares}{state}{notes}"
