"""Every query of the library, once: its public name, its kind, and where plans, reports and readers find it.

A query is added by writing its package and one entry here. Public names, plan kinds and report cards are made from the
entries; a test holds that each has a documentation page that names it, an audit that attacks it, and a reader of plan
files. Entries are text, and what they name is loaded when it is used: nothing here imports a problem package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

#: What a report draws of a release: a table of numbers with bars, a staircase of quantiles, a table of groups, or the
#: marginals of a synthetic table.
Card = Literal["numbers", "quantiles", "groups", "synthetic"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One query.

    Args:
        kind: What ledgers, plan files and reports call it.
        name: What users write: `sl.Quantiles`.
        home: The module where it lives.
        page: The page under `docs/` that explains it.
        audit: The file under `tests/` that attacks it.
        reader: "module:function" that reads it from a plan file, or None where plans cannot ask for it.
        card: How a report shows it.
    """

    kind: str
    name: str
    home: str
    page: str
    audit: str
    reader: str | None = None
    card: Card = "numbers"


ENTRIES = (
    Entry(
        kind="quantiles",
        name="Quantiles",
        home="sidelight.quantiles",
        page="tutorials/first-release.md",
        audit="audits/test_quantile_attacks.py",
        reader="sidelight.quantiles.from_plan:quantiles",
        card="quantiles",
    ),
    Entry(
        kind="distribution",
        name="Distribution",
        home="sidelight.quantiles",
        page="how-to/many-quantiles.md",
        audit="quantiles/test_distribution.py",
        reader="sidelight.quantiles.from_plan:distribution",
        card="quantiles",
    ),
    Entry(
        kind="learned_quantiles",
        name="PrivateHistograms",
        home="sidelight.quantiles",
        page="how-to/learn-from-the-records.md",
        audit="quantiles/sequence/test_sequence_private.py",
        card="quantiles",
    ),
    Entry(
        kind="counted_quantiles",
        name="PubTrack",
        home="sidelight.quantiles",
        page="tutorials/a-release-every-day.md",
        audit="quantiles/sequence/test_sequence_tracked.py",
        card="quantiles",
    ),
    Entry(
        kind="count",
        name="Count",
        home="sidelight.summaries.count",
        page="how-to/counts-and-means.md",
        audit="summaries/test_count_audit.py",
        reader="sidelight.summaries.from_plan:count",
        card="groups",
    ),
    Entry(
        kind="histogram",
        name="Histogram",
        home="sidelight.summaries.histogram",
        page="how-to/counts-and-means.md",
        audit="summaries/test_count_audit.py",
        reader="sidelight.summaries.from_plan:histogram",
        card="groups",
    ),
    Entry(
        kind="count_distinct",
        name="CountDistinct",
        home="sidelight.summaries.count",
        page="how-to/counts-and-means.md",
        audit="summaries/test_count_audit.py",
        reader="sidelight.summaries.from_plan:count_distinct",
        card="groups",
    ),
    Entry(
        kind="top_k",
        name="TopK",
        home="sidelight.summaries.top_k",
        page="how-to/counts-and-means.md",
        audit="summaries/test_count_audit.py",
        reader="sidelight.summaries.from_plan:top_k",
        card="groups",
    ),
    Entry(
        kind="covariance",
        name="Covariance",
        home="sidelight.covariance",
        page="explanation/covariance.md",
        audit="covariance/test_covariance_audit.py",
        reader="sidelight.covariance.from_plan:covariance",
    ),
    Entry(
        kind="gaussian",
        name="GaussianFit",
        home="sidelight.gaussians",
        page="explanation/gaussians.md",
        audit="gaussians/test_gaussian_audit.py",
        reader="sidelight.gaussians.from_plan:gaussian",
    ),
    Entry(
        kind="gaussian_mean",
        name="GaussianMean",
        home="sidelight.gaussians",
        page="explanation/gaussians.md",
        audit="gaussians/test_gaussian_audit.py",
    ),
    Entry(
        kind="gaussian_mixture",
        name="SeparatedMixture",
        home="sidelight.gaussians.mixture",
        page="proofs/gaussian-mixtures.md",
        audit="gaussians/test_gaussian_audit.py",
        reader="sidelight.gaussians.from_plan:gaussian_mixture",
    ),
    Entry(
        kind="synthetic_table",
        name="SyntheticTable",
        home="sidelight.synthesis",
        page="explanation/synthetic-tables.md",
        audit="synthesis/test_synthesis_audit.py",
        reader="sidelight.synthesis.from_plan:synthetic_table",
        card="synthetic",
    ),
    Entry(
        kind="adassp",
        name="AdaSSP",
        home="sidelight.regression.adassp",
        page="explanation/ridge-regression.md",
        audit="regression/test_adassp.py",
        reader="sidelight.regression.from_plan:adassp",
    ),
    Entry(
        kind="linear_regression",
        name="LinearRegression",
        home="sidelight.regression.estimators",
        page="explanation/linear-models.md",
        audit="audits/test_exact_losses.py",
        reader="sidelight.regression.from_plan:linear_regression",
    ),
    Entry(
        kind="linear_svc",
        name="LinearSVC",
        home="sidelight.regression.estimators",
        page="explanation/linear-models.md",
        audit="audits/test_exact_losses.py",
        reader="sidelight.regression.from_plan:linear_svc",
    ),
    Entry(
        kind="logistic_regression",
        name="LogisticRegression",
        home="sidelight.regression.estimators",
        page="explanation/linear-models.md",
        audit="audits/test_exact_losses.py",
        reader="sidelight.regression.from_plan:logistic_regression",
    ),
    Entry(
        kind="stable_median",
        name="StableMedian",
        home="sidelight.stability",
        page="how-to/when-to-let-the-data-decide.md",
        audit="audits/test_unpaid_failures.py",
        reader="sidelight.stability.from_plan:stable_median",
    ),
    Entry(
        kind="stable_mode",
        name="StableMode",
        home="sidelight.stability",
        page="how-to/when-to-let-the-data-decide.md",
        audit="audits/test_unpaid_failures.py",
        reader="sidelight.stability.from_plan:stable_mode",
    ),
    Entry(
        kind="stable_logistic_regression",
        name="StableLogistic",
        home="sidelight.stability",
        page="how-to/when-to-let-the-data-decide.md",
        audit="stability/test_glm.py",
    ),
    Entry(
        kind="stable_principal_components",
        name="StablePCA",
        home="sidelight.stability",
        page="how-to/when-to-let-the-data-decide.md",
        audit="stability/test_eigengap.py",
    ),
    Entry(
        kind="majority_vote",
        name="MajorityVote",
        home="sidelight.stability",
        page="how-to/when-to-let-the-data-decide.md",
        audit="stability/test_majority_vote.py",
    ),
    Entry(
        kind="posterior_sample",
        name="AdaOPS",
        home="sidelight.stability",
        page="how-to/when-to-let-the-data-decide.md",
        audit="stability/test_posterior_queries.py",
    ),
    Entry(
        kind="selected_posterior_sample",
        name="OPSPTR",
        home="sidelight.stability",
        page="how-to/when-to-let-the-data-decide.md",
        audit="stability/test_posterior_queries.py",
    ),
    Entry(
        kind="linear_model",
        name="ModelQuery",
        home="sidelight.regression.model_query",
        page="explanation/tuning.md",
        audit="audits/test_exact_losses.py",
    ),
    Entry(
        kind="selection",
        name="Selection",
        home="sidelight.tuning",
        page="explanation/tuning.md",
        audit="audits/test_selection_exhaustively.py",
    ),
    Entry(
        kind="mean",
        name="Mean",
        home="sidelight.summaries.mean",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_means.py",
        reader="sidelight.summaries.from_plan:mean",
        card="groups",
    ),
    Entry(
        kind="proportion",
        name="Proportion",
        home="sidelight.summaries.mean",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_means.py",
        reader="sidelight.summaries.from_plan:proportion",
        card="groups",
    ),
    Entry(
        kind="sql",
        name="SQL",
        home="sidelight.summaries.sql_query",
        page="how-to/ask-in-sql.md",
        audit="summaries/test_sql_release.py",
        reader="sidelight.summaries.from_plan:sql",
        card="groups",
    ),
    Entry(
        kind="sum",
        name="Sum",
        home="sidelight.summaries.sum",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_sums.py",
        reader="sidelight.summaries.from_plan:total",
        card="groups",
    ),
    Entry(
        kind="variance",
        name="Variance",
        home="sidelight.summaries.spread",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_spread.py",
        reader="sidelight.summaries.from_plan:variance",
        card="groups",
    ),
    Entry(
        kind="standard_deviation",
        name="StandardDeviation",
        home="sidelight.summaries.spread",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_spread.py",
        reader="sidelight.summaries.from_plan:standard_deviation",
        card="groups",
    ),
    Entry(
        kind="summary",
        name="Summary",
        home="sidelight.summaries.summary",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_of_a_column.py",
        reader="sidelight.summaries.from_plan:summary",
        card="groups",
    ),
)

BY_KIND = {entry.kind: entry for entry in ENTRIES}
#: The kinds that a `[[query]]` of a plan may have.
PLAN_KINDS = tuple(sorted(entry.kind for entry in ENTRIES if entry.reader is not None))


def plan_reader(kind: str) -> Callable[[Any], Any]:
    """Load the function that reads a query of this kind from its section of a plan file."""
    module, _, function = (BY_KIND[kind].reader or "").partition(":")
    reader: Callable[[Any], Any] = getattr(import_module(module), function)
    return reader


def load_query(kind: str) -> Any:
    """Load the query of this kind: what asks for it by name need not import its package."""
    return getattr(import_module(BY_KIND[kind].home), BY_KIND[kind].name)


def card_of(kind: str) -> Card:
    """Return how a report shows releases of this kind; of a kind that it does not know, a table of numbers."""
    if kind == "group_quantiles":  # quantiles by group: of the same query, but a table
        return "groups"
    return BY_KIND[kind].card if kind in BY_KIND else "numbers"
