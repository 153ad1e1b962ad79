"""Every query of the library, once: its public name, its kind, and where plans, reports and readers find it.

Public names, plan kinds and report cards are made from the entries, which are text: what they name is loaded when used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sidelight.extras import import_with_extras

#: What a report draws of a release: numbers with bars, a staircase of quantiles, groups, or marginals.
Card = Literal["numbers", "quantiles", "groups", "synthetic"]


@dataclass(frozen=True, kw_only=True)
class PlanKeys:
    """How the section of a plan differs from the parameters of its query, which are its keys.

    Args:
        without: Parameters that a plan does not offer.
        names: What a plan calls a parameter, where that is another name.
        required: Parameters that a plan must give although they have a default.
        forms: "module:name" of the `sidelight.plans.forms.KeyForm` of parameters whose annotation does not give one.
        check: "module:function" that refuses a section whose keys do not go together.
        table: "module:function" that makes the table from the class, where its keys are not the parameters.
    """

    without: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)
    check: str | None = None
    table: str | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One query.

    Args:
        kind, name: What ledgers, plan files and reports call it; what users write: `sl.Quantiles`.
        home: The module where it lives.
        page: The page under `docs/` that explains it.
        audit: The file under `tests/` that attacks it.
        plan: How its section of a plan differs from its parameters, or None where plans cannot ask for it.
        card: How a report shows it.
    """

    kind: str
    name: str
    home: str
    page: str
    audit: str
    plan: PlanKeys | None = None
    card: Card = "numbers"


_PRIORS = "sidelight.plans.predictions:PRIORS"
_HIERARCHY = ("caps", "impossible", "public_totals", "invariants")  # parameters of tables of a hierarchy
_GROUPED = {
    **{each: f"sidelight.summaries.plan_forms:{each.upper()}" for each in ("by", "prediction", "bins", *_HIERARCHY)},
    "known": "sidelight.plans.forms:TEXTS",
    "impossible": "sidelight.plans.forms:CONDITION",
}
_POINTS = {"prediction": "sidelight.plans.predictions:PUBLIC_ROWS"}
_NAMED = "sidelight.plans.predictions:check_columns"
ENTRIES = (
    Entry(
        kind="quantiles",
        name="Quantiles",
        home="sidelight.quantiles",
        page="tutorials/first-release.md",
        audit="audits/test_quantile_attacks.py",
        plan=PlanKeys(
            without=("granularity", "lower", "upper"),
            forms={"levels": "sidelight.plans.forms:AMOUNTS", "prediction": _PRIORS},
        ),
        card="quantiles",
    ),
    Entry(
        kind="distribution",
        name="Distribution",
        home="sidelight.quantiles",
        page="how-to/many-quantiles.md",
        audit="quantiles/test_distribution.py",
        plan=PlanKeys(without=("granularity", "lower", "upper"), required=("column",), forms={"prediction": _PRIORS}),
        card="quantiles",
    ),
    Entry(
        kind="learned_quantiles",
        name="PrivateHistograms",
        home="sidelight.published.private_histograms",
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
        plan=PlanKeys(forms=_GROUPED),
        card="groups",
    ),
    Entry(
        kind="histogram",
        name="Histogram",
        home="sidelight.summaries.histogram",
        page="how-to/counts-and-means.md",
        audit="summaries/test_count_audit.py",
        plan=PlanKeys(without=("rollup", "known", "leaf_weight", *_HIERARCHY), required=("bins",), forms=_GROUPED),
        card="groups",
    ),
    Entry(
        kind="count_distinct",
        name="CountDistinct",
        home="sidelight.summaries.count",
        page="how-to/counts-and-means.md",
        audit="summaries/test_count_audit.py",
        plan=PlanKeys(forms=_GROUPED),
        card="groups",
    ),
    Entry(
        kind="top_k",
        name="TopK",
        home="sidelight.summaries.top_k",
        page="how-to/counts-and-means.md",
        audit="summaries/test_count_audit.py",
        plan=PlanKeys(without=("rollup", "leaf_weight", "population", *_HIERARCHY), forms=_GROUPED),
        card="groups",
    ),
    Entry(
        kind="covariance",
        name="Covariance",
        home="sidelight.covariance",
        page="explanation/covariance.md",
        audit="covariance/test_covariance_audit.py",
        plan=PlanKeys(
            without=("choice", "choice_share"),
            forms={
                "prediction": "sidelight.plans.predictions:MATRIX_GUESS",
                "centre": "sidelight.plans.predictions:CENTRE",
            },
        ),
    ),
    Entry(
        kind="gaussian",
        name="GaussianFit",
        home="sidelight.gaussians",
        page="explanation/gaussians.md",
        audit="gaussians/test_gaussian_audit.py",
        plan=PlanKeys(forms=_POINTS, check=_NAMED),
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
        plan=PlanKeys(forms=_POINTS, check=_NAMED),
    ),
    Entry(
        kind="synthetic_table",
        name="SyntheticTable",
        home="sidelight.synthesis",
        page="explanation/synthetic-tables.md",
        audit="synthesis/test_synthesis_audit.py",
        plan=PlanKeys(table="sidelight.synthesis.plan_forms:synthetic_table"),
        card="synthetic",
    ),
    Entry(
        kind="adassp",
        name="AdaSSP",
        home="sidelight.published.adassp",
        page="explanation/ridge-regression.md",
        audit="regression/test_adassp.py",
        plan=PlanKeys(),
    ),
    *(
        Entry(
            kind=kind,
            name=name,
            home="sidelight.regression.estimators",
            page="explanation/additive-models.md",
            audit="audits/test_additive_model_attacks.py",
            plan=PlanKeys(table="sidelight.regression.plan_forms:additive_table"),
        )
        for kind, name in (("additive_regression", "AdditiveRegressor"), ("additive_classifier", "AdditiveClassifier"))
    ),
    *(
        Entry(
            kind=kind,
            name=name,
            home="sidelight.regression.estimators",
            page="explanation/linear-models.md",
            audit="audits/test_exact_losses.py",
            plan=PlanKeys(table="sidelight.regression.plan_forms:model_table"),
        )
        for kind, name in (
            ("linear_regression", "LinearRegression"),
            ("linear_svc", "LinearSVC"),
            ("logistic_regression", "LogisticRegression"),
        )
    ),
    Entry(
        kind="stable_median",
        name="StableMedian",
        home="sidelight.stability",
        page="how-to/when-to-let-the-data-decide.md",
        audit="audits/test_unpaid_failures.py",
        plan=PlanKeys(without=("neighbours",)),
    ),
    Entry(
        kind="stable_mode",
        name="StableMode",
        home="sidelight.stability",
        page="how-to/when-to-let-the-data-decide.md",
        audit="audits/test_unpaid_failures.py",
        plan=PlanKeys(without=("neighbours",)),
    ),
    Entry(
        kind="stable_logistic_regression",
        name="StableLogistic",
        home="sidelight.published.stable_logistic",
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
        home="sidelight.published.adaops",
        page="how-to/when-to-let-the-data-decide.md",
        audit="stability/test_posterior_queries.py",
    ),
    Entry(
        kind="selected_posterior_sample",
        name="OPSPTR",
        home="sidelight.published.ops_ptr",
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
        plan=PlanKeys(without=("sizes",), forms=_GROUPED),
        card="groups",
    ),
    Entry(
        kind="proportion",
        name="Proportion",
        home="sidelight.summaries.mean",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_means.py",
        plan=PlanKeys(
            without=("clip", "centre", "expected_rows", "sizes"),
            names={"column": "condition"},
            forms={**_GROUPED, "column": "sidelight.plans.forms:CONDITION"},
        ),
        card="groups",
    ),
    Entry(
        kind="sql",
        name="SQL",
        home="sidelight.summaries.sql_query",
        page="how-to/ask-in-sql.md",
        audit="summaries/test_sql_release.py",
        plan=PlanKeys(
            without=("prediction",),
            names={"statement": "select"},
            forms={"person_total": "sidelight.summaries.plan_forms:PERSON_TOTAL"},
        ),
        card="groups",
    ),
    Entry(
        kind="sum",
        name="Sum",
        home="sidelight.summaries.sum",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_sums.py",
        plan=PlanKeys(forms={**_GROUPED, "public_totals": "sidelight.summaries.plan_forms:PUBLIC_SUMS"}),
        card="groups",
    ),
    Entry(
        kind="variance",
        name="Variance",
        home="sidelight.summaries.spread",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_spread.py",
        plan=PlanKeys(forms=_GROUPED),
        card="groups",
    ),
    Entry(
        kind="standard_deviation",
        name="StandardDeviation",
        home="sidelight.summaries.spread",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_spread.py",
        plan=PlanKeys(forms=_GROUPED),
        card="groups",
    ),
    Entry(
        kind="summary",
        name="Summary",
        home="sidelight.summaries.summary",
        page="how-to/counts-and-means.md",
        audit="summaries/test_summary_of_a_column.py",
        plan=PlanKeys(forms=_GROUPED),
        card="groups",
    ),
)

BY_KIND = {entry.kind: entry for entry in ENTRIES}
#: The kinds that a `[[query]]` of a plan may have.
PLAN_KINDS = tuple(sorted(entry.kind for entry in ENTRIES if entry.plan is not None))

#: Methods as papers print them, by the kind of their query and their name: modules of `published`, loaded on use.
PUBLISHED_METHODS = {
    ("covariance", "ies"): "sidelight.published.eigenvector_covariance",
    ("covariance", "separate"): "sidelight.published.eigenvector_covariance",
    ("gaussian", "ranges"): "sidelight.published.coinpress",
    ("gaussian_mixture", "recursive"): "sidelight.published.recursive_mixture",
    ("synthetic_table", "mwem"): "sidelight.published.mwem",
}


def load_published(kind: str, method: str) -> Any:
    """Load the module of a published method of a kind of query; None for a method that is ours."""
    module = PUBLISHED_METHODS.get((kind, method))
    return None if module is None else import_with_extras(module)


def load(text: str) -> Any:
    """Load what "module:name" names."""
    module, _, name = text.partition(":")
    return getattr(import_with_extras(module), name)


def load_query(kind: str) -> Any:
    """Load the query of this kind."""
    return load(f"{BY_KIND[kind].home}:{BY_KIND[kind].name}")


def card_of(kind: str) -> Card:
    """Return how a report shows releases of this kind; of a kind that it does not know, a table of numbers."""
    if kind == "group_quantiles":
        return "groups"  # of the same query as quantiles, but a table
    return BY_KIND[kind].card if kind in BY_KIND else "numbers"
