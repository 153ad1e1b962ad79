"""Prediction with expert advice under local privacy: noisy reports from many clients, one server that learns.

Clients make reports with a `Reporter`; a `Server` plays rounds with one of the players RW-FTPL, RW-AdaBatch or RW-Meta.
Algorithms, guarantees and corrections of the source: the experts proof page.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sidelight.errors import ReportError as ReportError
    from sidelight.errors import RoundError as RoundError
    from sidelight.errors import ServiceError as ServiceError
    from sidelight.experts.adabatch import DelayRule as DelayRule
    from sidelight.experts.adabatch import RWAdaBatch as RWAdaBatch
    from sidelight.experts.adabatch import adabatch_bound as adabatch_bound
    from sidelight.experts.follow_leader import RWFTPL as RWFTPL
    from sidelight.experts.follow_leader import ftpl_bound as ftpl_bound
    from sidelight.experts.learners import FilterLearner as FilterLearner
    from sidelight.experts.learners import LeaderLearner as LeaderLearner
    from sidelight.experts.learners import Learner as Learner
    from sidelight.experts.learners import RollingRegression as RollingRegression
    from sidelight.experts.learners import filter_learners as filter_learners
    from sidelight.experts.learners import forecast_weights as forecast_weights
    from sidelight.experts.learners import usual_learners as usual_learners
    from sidelight.experts.meta import META_CAVEAT as META_CAVEAT
    from sidelight.experts.meta import RWMeta as RWMeta
    from sidelight.experts.meta import meta_bound as meta_bound
    from sidelight.experts.player import Player as Player
    from sidelight.experts.player import Stream as Stream
    from sidelight.experts.player import load_state as load_state
    from sidelight.experts.player import save_state as save_state
    from sidelight.experts.report import NoisyReport as NoisyReport
    from sidelight.experts.reporter import Reporter as Reporter
    from sidelight.experts.reporting import Reporting as Reporting
    from sidelight.experts.reporting import move_sensitivity as move_sensitivity
    from sidelight.experts.reporting import presence_sensitivity as presence_sensitivity
    from sidelight.experts.server import Closed as Closed
    from sidelight.experts.server import Receipt as Receipt
    from sidelight.experts.server import Server as Server
    from sidelight.experts.server import player_from_state as player_from_state
    from sidelight.experts.service.client import Client as Client
    from sidelight.experts.service.client import OpenRound as OpenRound

# Names are loaded when first used: simulators and clients need different halves of this package.
_HOME = {
    ".errors": ("ReportError", "RoundError", "ServiceError"),  # of sidelight itself
    ".published.amplification": (
        "Amplified",
        "amplified",
        "central_guarantee",
        "gap_cdf",
        "gaussian_trade_off",
        "size_cdf_bound",
        "size_weights",
        "worst_over",
    ),
    "adabatch": ("DelayRule", "RWAdaBatch", "adabatch_bound"),
    "follow_leader": ("RWFTPL", "ftpl_bound"),
    "learners": (
        "FilterLearner",
        "LeaderLearner",
        "Learner",
        "RollingRegression",
        "filter_learners",
        "forecast_weights",
        "usual_learners",
    ),
    "meta": ("META_CAVEAT", "RWMeta", "meta_bound"),
    "player": ("Player", "Stream", "load_state", "save_state"),
    "report": ("NoisyReport",),
    "reporter": ("Reporter",),
    "reporting": ("Reporting", "move_sensitivity", "presence_sensitivity"),
    "server": ("Closed", "Receipt", "Server", "player_from_state"),
    "service.client": ("Client", "OpenRound"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
    from sidelight.errors import SidelightWarning, nearest

    if name == "Report":
        warnings.warn("sidelight.experts.Report is NoisyReport now", SidelightWarning, stacklevel=2)
        return import_module(".report", __name__).NoisyReport
    raise AttributeError(f"module 'sidelight.experts' has no attribute {name!r}; {nearest(name, _MODULE_OF)}")


def __dir__() -> list[str]:
    return sorted(__all__)
