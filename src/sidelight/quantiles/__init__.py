"""Many quantiles at once, from bounds that are not needed, with a prediction when there is one."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sidelight.quantiles.bounds import (
    gap_bound_single,
    gap_bounds_tree,
)
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.forms.cells_plan import GapForecast, gap_forecast
from sidelight.quantiles.public import fit_public
from sidelight.quantiles.query import Quantiles
from sidelight.quantiles.tree import balanced_branching, even_levels, quantile_tree

if TYPE_CHECKING:
    from sidelight.quantiles.distribution import Distribution as Distribution
    from sidelight.quantiles.distribution import prior_of as prior_of
    from sidelight.quantiles.sequence import PubTrack as PubTrack
    from sidelight.quantiles.sequence import Sequence as Sequence

__all__ = [
    "Distribution",
    "GapForecast",
    "PubTrack",
    "Quantiles",
    "Sequence",
    "balanced_branching",
    "even_levels",
    "fit_public",
    "gap_bound_single",
    "gap_bounds_tree",
    "gap_forecast",
    "nonprivate_gap",
    "prior_of",
    "quantile_tree",
]


#: What a few quantiles do without, by the module that has it.
_LOADED_WHEN_ASKED_FOR = {
    **dict.fromkeys(("Distribution", "prior_of"), "sidelight.quantiles.distribution"),
    **dict.fromkeys(("PubTrack", "Sequence"), "sidelight.quantiles.sequence"),
    # names of 0.5: what papers print is above this package now
    **dict.fromkeys(("PubPrev", "PubProx"), "sidelight.published.released_learners"),
    "PrivateHistograms": "sidelight.published.private_histograms",
}


def __getattr__(name: str) -> Any:
    """Load the whole distribution, or sequences of days, when they are first asked for."""
    if name in _LOADED_WHEN_ASKED_FOR:
        return getattr(import_module(_LOADED_WHEN_ASKED_FOR[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
