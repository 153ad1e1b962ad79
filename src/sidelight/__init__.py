"""Differentially private statistics and models that get more accurate from what is already known.

>>> import sidelight as sl
>>> release = sl.Quantiles([0.25, 0.5, 0.75], epsilon=1.0, granularity=1).release([23, 31, 42, 38, 55, 47, 29] * 50)
>>> release.value.shape
(3,)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidelight.registry import ENTRIES, import_with_extras
from sidelight.version import VERSION as __version__  # noqa: N811 - the usual name

if TYPE_CHECKING:
    from sidelight import errors as errors
    from sidelight import experts as experts
    from sidelight import gaussians as gaussians
    from sidelight import priors as priors
    from sidelight import quantiles as quantiles
    from sidelight import synthesis as synthesis
    from sidelight import tuning as tuning
    from sidelight.accuracy.dummy import dummy as dummy
    from sidelight.accuracy.price import epsilon_for as epsilon_for
    from sidelight.client import connect as connect
    from sidelight.client import connect_async as connect_async
    from sidelight.covariance import Covariance as Covariance
    from sidelight.covariance.pca import PCA as PCA
    from sidelight.errors import NotPrivateWarning as NotPrivateWarning
    from sidelight.errors import PrivacyWarning as PrivacyWarning
    from sidelight.gaussians import GaussianFit as GaussianFit
    from sidelight.gaussians import GaussianMean as GaussianMean
    from sidelight.gaussians.estimators import GaussianMixture as GaussianMixture
    from sidelight.gaussians.estimators import GaussianModel as GaussianModel
    from sidelight.gaussians.mixture import SeparatedMixture as SeparatedMixture
    from sidelight.guarantees import GDP as GDP
    from sidelight.guarantees import ZCDP as ZCDP
    from sidelight.guarantees import ApproxDP as ApproxDP
    from sidelight.guarantees import BoundedRange as BoundedRange
    from sidelight.guarantees import Claims as Claims
    from sidelight.guarantees import Neighbours as Neighbours
    from sidelight.guarantees import PureDP as PureDP
    from sidelight.ledger import open_ledger as open_ledger
    from sidelight.predictions import PublicData as PublicData
    from sidelight.predictions import hedge as hedge
    from sidelight.public_scaler import PublicScaler as PublicScaler
    from sidelight.published.adaops import AdaOPS as AdaOPS
    from sidelight.published.adassp import AdaSSP as AdaSSP
    from sidelight.published.ops_ptr import OPSPTR as OPSPTR
    from sidelight.published.private_histograms import PrivateHistograms as PrivateHistograms
    from sidelight.published.released_learners import PubPrev as PubPrev
    from sidelight.published.released_learners import PubProx as PubProx
    from sidelight.published.stable_logistic import StableLogistic as StableLogistic
    from sidelight.quantiles import PubTrack as PubTrack
    from sidelight.quantiles import Quantiles as Quantiles
    from sidelight.quantiles import Sequence as Sequence
    from sidelight.records import Category as Category
    from sidelight.records import Database as Database
    from sidelight.records import Date as Date
    from sidelight.records import Drop as Drop
    from sidelight.records import Fill as Fill
    from sidelight.records import Key as Key
    from sidelight.records import Label as Label
    from sidelight.records import Number as Number
    from sidelight.records import PersonId as PersonId
    from sidelight.records import PersonVia as PersonVia
    from sidelight.records import Reference as Reference
    from sidelight.records import Schema as Schema
    from sidelight.records import Table as Table
    from sidelight.records import Window as Window
    from sidelight.records import fold as fold
    from sidelight.records import omop as omop
    from sidelight.records import per_person as per_person
    from sidelight.records.expressions import col as col
    from sidelight.records.hierarchy import Hierarchy as Hierarchy
    from sidelight.records.invariants import Invariant as Invariant
    from sidelight.records.nonprivate_check import nonprivate_check as nonprivate_check
    from sidelight.regression.additive.predictions import CurvePrediction as CurvePrediction
    from sidelight.regression.coefficient_prediction import CoefficientPrediction as CoefficientPrediction
    from sidelight.regression.curator import nonprivate_check_rows as nonprivate_check_rows
    from sidelight.regression.estimators import AdditiveClassifier as AdditiveClassifier
    from sidelight.regression.estimators import AdditiveRegressor as AdditiveRegressor
    from sidelight.regression.estimators import LinearRegression as LinearRegression
    from sidelight.regression.estimators import LinearSVC as LinearSVC
    from sidelight.regression.estimators import LogisticRegression as LogisticRegression
    from sidelight.regression.estimators import PoissonRegressor as PoissonRegressor
    from sidelight.regression.estimators import TableEncoding as TableEncoding
    from sidelight.regression.estimators.goal import DescentSettings as DescentSettings
    from sidelight.regression.estimators.goal import ObjectiveSettings as ObjectiveSettings
    from sidelight.regression.model_query import ModelQuery as ModelQuery
    from sidelight.release import Refused as Refused
    from sidelight.release import Release as Release
    from sidelight.release import outcome_from_json as outcome_from_json
    from sidelight.session import CommonBudget as CommonBudget
    from sidelight.session import Session as Session
    from sidelight.stability import MajorityVote as MajorityVote
    from sidelight.stability import StableMedian as StableMedian
    from sidelight.stability import StableMode as StableMode
    from sidelight.stability import StablePCA as StablePCA
    from sidelight.stability.pate.estimator import PATE as PATE
    from sidelight.summaries.count import Count as Count
    from sidelight.summaries.count import CountDistinct as CountDistinct
    from sidelight.summaries.histogram import Histogram as Histogram
    from sidelight.summaries.mean import GroupSizes as GroupSizes
    from sidelight.summaries.mean import Mean as Mean
    from sidelight.summaries.mean import Proportion as Proportion
    from sidelight.summaries.predicted import Predicted as Predicted
    from sidelight.summaries.spread import StandardDeviation as StandardDeviation
    from sidelight.summaries.spread import Variance as Variance
    from sidelight.summaries.sql_query import SQL as SQL
    from sidelight.summaries.sum import Sum as Sum
    from sidelight.summaries.summary import Summary as Summary
    from sidelight.summaries.top_k import TopK as TopK
    from sidelight.summaries.tree_areas import areas as areas
    from sidelight.synthesis import Synthetic as Synthetic
    from sidelight.synthesis import SyntheticTable as SyntheticTable
    from sidelight.synthesis import linear_queries as linear_queries
    from sidelight.synthesis import marginals as marginals
    from sidelight.synthesis import prefixes as prefixes
    from sidelight.synthesis import ranges as ranges
    from sidelight.tuning import PrivateScore as PrivateScore
    from sidelight.tuning import PublicScore as PublicScore
    from sidelight.tuning import Selection as Selection

# Names are loaded when first used: importing sidelight costs little more than importing NumPy. Queries stand in the
# registry; this is everything else.
_HOME = {
    "sidelight.accuracy.dummy": ("dummy",),
    "sidelight.accuracy.price": ("epsilon_for",),
    "sidelight.client": ("connect", "connect_async"),
    "sidelight.covariance.pca": ("PCA",),
    "sidelight.errors": ("NotPrivateWarning", "PrivacyWarning"),
    "sidelight.gaussians.estimators": ("GaussianMixture", "GaussianModel"),
    "sidelight.guarantees": ("ApproxDP", "BoundedRange", "Claims", "GDP", "Neighbours", "PureDP", "ZCDP"),
    "sidelight.ledger": ("open_ledger",),
    "sidelight.predictions": ("PublicData", "hedge"),
    "sidelight.public_scaler": ("PublicScaler",),
    "sidelight.published.released_learners": ("PubPrev", "PubProx"),
    "sidelight.quantiles": ("Sequence",),
    "sidelight.records": (
        *("Category", "Database", "Date", "Drop", "Fill", "Key", "Label", "Number", "PersonId", "PersonVia"),
        *("Reference", "Schema", "Table", "Window", "fold", "omop", "per_person"),
    ),
    "sidelight.records.expressions": ("col",),
    "sidelight.records.nonprivate_check": ("nonprivate_check",),
    "sidelight.regression.additive.predictions": ("CurvePrediction",),
    "sidelight.regression.curator": ("nonprivate_check_rows",),
    "sidelight.regression.coefficient_prediction": ("CoefficientPrediction",),
    "sidelight.regression.estimators": ("PoissonRegressor", "TableEncoding"),
    "sidelight.release": ("Refused", "Release", "outcome_from_json"),
    "sidelight.session": ("CommonBudget", "Session"),
    "sidelight.stability.pate.estimator": ("PATE",),
    "sidelight.regression.estimators.goal": ("DescentSettings", "ObjectiveSettings"),
    "sidelight.summaries.mean": ("GroupSizes",),
    "sidelight.summaries.predicted": ("Predicted",),
    "sidelight.summaries.tree_areas": ("areas",),
    "sidelight.records.hierarchy": ("Hierarchy",),
    "sidelight.records.invariants": ("Invariant",),
    "sidelight.synthesis": ("Synthetic", "linear_queries", "marginals", "prefixes", "ranges"),
    "sidelight.tuning": ("PrivateScore", "PublicScore"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_MODULE_OF |= {entry.name: entry.home for entry in ENTRIES}
_PACKAGES = ("errors", "experts", "gaussians", "priors", "quantiles", "synthesis", "tuning")
#: Where more is to be found, for those who write sl.stability.median_distance.
_FURTHER = (
    "accounting",
    "aggregates",
    "audit",
    "covariance",
    "guarantees",
    "ledger",
    "mechanisms",
    "noise",
    "predictions",
    "privacy_page",
    "records",
    "regression",
    "report",
    "session",
    "stability",
    "testing",
)

#: What has another name now: the old one is answered with the new one.
_RENAMED = {
    **dict.fromkeys(("PublicRows", "PublicSample", "PublicTable"), "PublicData"),
    **{law: f"priors.{law}" for law in ("Cauchy", "Gaussian", "HalfCauchy")},
    **{law: f"priors.{law}" for law in ("Laplace", "Mixture", "ScaleFree", "Uniform")},
}

__all__ = ["__version__", *_MODULE_OF, *_PACKAGES]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES or name in _FURTHER:
        return import_with_extras(f"sidelight.{name}")
    if name in _MODULE_OF:
        globals()[name] = found = getattr(import_with_extras(_MODULE_OF[name]), name)  # looked up once
        return found
    if name in _RENAMED:
        raise AttributeError(f"module 'sidelight' has no attribute {name!r}; it is sl.{_RENAMED[name]} now")
    from sidelight import errors

    if hasattr(errors, name):
        raise AttributeError(f"module 'sidelight' has no attribute {name!r}; it is sidelight.errors.{name}")
    hint, _, _ = errors.nearest(name, __all__).partition("known:")
    raise AttributeError(f"module 'sidelight' has no attribute {name!r}; {hint}dir(sidelight) lists all names")


def __dir__() -> list[str]:
    return sorted(__all__)
