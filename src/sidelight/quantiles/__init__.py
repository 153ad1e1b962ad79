"""Many quantiles at once, from bounds that are not needed, with a prediction when there is one."""

from typing import TYPE_CHECKING, Any

from sidelight.quantiles.bounds import (
    consistent_bound,
    gap_bound_single,
    gap_bounds_tree,
    psi_cauchy,
    psi_uniform,
    robust_bound,
)
from sidelight.quantiles.evaluate import nonprivate_gap, nonprivate_quality
from sidelight.quantiles.forms.forecast import GapForecast, gap_forecast
from sidelight.quantiles.public import fit_public, public_cauchy, public_quantiles
from sidelight.quantiles.query import Quantiles
from sidelight.quantiles.sequence import PrivateHistograms, PubPrev, PubProx, PubTrack, Sequence
from sidelight.quantiles.tree import balanced_branching, even_levels, quantile_tree

if TYPE_CHECKING:
    from sidelight.quantiles.distribution import Distribution as Distribution
    from sidelight.quantiles.distribution import prior_of as prior_of

__all__ = [
    "Distribution",
    "GapForecast",
    "PrivateHistograms",
    "PubPrev",
    "PubProx",
    "PubTrack",
    "Quantiles",
    "Sequence",
    "balanced_branching",
    "consistent_bound",
    "even_levels",
    "fit_public",
    "gap_bound_single",
    "gap_bounds_tree",
    "gap_forecast",
    "nonprivate_gap",
    "nonprivate_quality",
    "prior_of",
    "psi_cauchy",
    "psi_uniform",
    "public_cauchy",
    "public_quantiles",
    "quantile_tree",
    "robust_bound",
]


def __getattr__(name: str) -> Any:
    """Load the whole distribution when it is first asked for: a few quantiles do without it."""
    if name in ("Distribution", "prior_of"):
        from sidelight.quantiles import distribution

        return getattr(distribution, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
