"""Every query of the library, once: its public name, its kind, and where plans, reports and readers find it.

Public names, plan kinds and report cards are made from the entries, which are text: what they name is loaded when used.

Libraries that only a part of sidelight needs are imported where it is used; who lacks one reads which extra has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from sidelight.errors import MissingPackageError

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
_GROUPED = {
    **{each: f"sidelight.summaries.plan_forms:{each.upper()}" for each in ("by", "prediction", "bins")},
    "known": "sidelight.plans.forms:TEXTS",
}
_POINTS = {"prediction": "sidelight.plans.predictions:PUBLIC_ROWS"}
_NAMED = "sidelight.plans.predictions:check_columns"


def _entries(
    *, home: str, page: str, audit: str, card: Card = "numbers", **queries: tuple[str, PlanKeys | None]
) -> list[Entry]:
    """Return queries of one home, page, audit and card: each kind with its name and its keys in a plan."""
    shared: dict[str, Any] = {"home": home, "page": page, "audit": audit, "card": card}
    return [Entry(kind=kind, name=name, plan=plan, **shared) for kind, (name, plan) in queries.items()]


def _grouped(*, home: str, audit: str, **queries: tuple[str, PlanKeys | None]) -> list[Entry]:
    page = "how-to/ask-in-sql.md" if "sql" in queries else "how-to/counts-and-means.md"
    return _entries(home=f"sidelight.summaries.{home}", page=page, audit=f"summaries/{audit}", card="groups", **queries)


_KEYS_OF_GROUPS, _KEYS_OF_POINTS = PlanKeys(forms=_GROUPED), PlanKeys(forms=_POINTS, check=_NAMED)
_KEYS_OF_ADDITIVE = PlanKeys(table="sidelight.regression.plan_forms:additive_table")
_KEYS_OF_MODELS = PlanKeys(table="sidelight.regression.plan_forms:model_table")
_KEYS_OF_TESTS = PlanKeys(without=("neighbours",))
_TESTED = "how-to/when-to-let-the-data-decide.md"
ENTRIES: tuple[Entry, ...] = (
    *_entries(
        home="sidelight.quantiles",
        page="tutorials/first-release.md",
        audit="audits/test_quantile_attacks.py",
        card="quantiles",
        quantiles=(
            "Quantiles",
            PlanKeys(
                without=("granularity", "bounds"),
                forms={"levels": "sidelight.plans.forms:AMOUNTS", "prediction": f"{_PRIORS}_OR_TOTAL"},
            ),
        ),
    ),
    *_entries(
        home="sidelight.quantiles",
        page="how-to/many-quantiles.md",
        audit="quantiles/test_distribution.py",
        card="quantiles",
        distribution=(
            "Distribution",
            PlanKeys(without=("granularity", "bounds"), required=("column",), forms={"prediction": _PRIORS}),
        ),
    ),
    *_entries(
        home="sidelight.published.private_histograms",
        page="how-to/learn-from-the-records.md",
        audit="quantiles/sequence/test_sequence_private.py",
        card="quantiles",
        learned_quantiles=("PrivateHistograms", None),
    ),
    *_entries(
        home="sidelight.quantiles",
        page="tutorials/a-release-every-day.md",
        audit="quantiles/sequence/test_sequence_tracked.py",
        card="quantiles",
        counted_quantiles=("PubTrack", None),
    ),
    *_grouped(
        home="count",
        audit="test_count_audit.py",
        count=("Count", _KEYS_OF_GROUPS),
        count_distinct=("CountDistinct", _KEYS_OF_GROUPS),
    ),
    *_grouped(
        home="histogram",
        audit="test_count_audit.py",
        histogram=(
            "Histogram",
            PlanKeys(required=("bins",), forms=_GROUPED),
        ),
    ),
    *_grouped(
        home="top_k",
        audit="test_count_audit.py",
        top_k=("TopK", _KEYS_OF_GROUPS),
    ),
    *_entries(
        home="sidelight.covariance",
        page="explanation/covariance.md",
        audit="covariance/test_covariance_audit.py",
        covariance=(
            "Covariance",
            PlanKeys(
                without=("choice",),
                forms={
                    "prediction": "sidelight.plans.predictions:MATRIX_GUESS",
                    "centre": "sidelight.plans.predictions:CENTRE",
                },
            ),
        ),
    ),
    *_entries(
        home="sidelight.gaussians",
        page="explanation/gaussians.md",
        audit="gaussians/test_gaussian_audit.py",
        gaussian=("GaussianFit", _KEYS_OF_POINTS),
        gaussian_mean=("GaussianMean", None),
    ),
    *_entries(
        home="sidelight.gaussians.mixture",
        page="proofs/gaussian-mixtures.md",
        audit="gaussians/test_gaussian_audit.py",
        gaussian_mixture=("SeparatedMixture", _KEYS_OF_POINTS),
    ),
    *_entries(
        home="sidelight.synthesis",
        page="explanation/synthetic-tables.md",
        audit="synthesis/test_synthesis_audit.py",
        card="synthetic",
        synthetic_table=("SyntheticTable", PlanKeys(table="sidelight.synthesis.plan_forms:synthetic_table")),
    ),
    *_entries(
        home="sidelight.published.adassp",
        page="explanation/ridge-regression.md",
        audit="regression/test_adassp.py",
        adassp=("AdaSSP", PlanKeys()),
    ),
    *_entries(
        home="sidelight.regression.estimators",
        page="explanation/additive-models.md",
        audit="audits/test_additive_model_attacks.py",
        additive_regression=("AdditiveRegressor", _KEYS_OF_ADDITIVE),
        additive_classifier=("AdditiveClassifier", _KEYS_OF_ADDITIVE),
    ),
    *_entries(
        home="sidelight.regression.estimators",
        page="explanation/linear-models.md",
        audit="audits/test_exact_losses.py",
        linear_regression=("LinearRegression", _KEYS_OF_MODELS),
        linear_svc=("LinearSVC", _KEYS_OF_MODELS),
        logistic_regression=("LogisticRegression", _KEYS_OF_MODELS),
    ),
    *_entries(
        home="sidelight.stability",
        page=_TESTED,
        audit="audits/test_unpaid_failures.py",
        stable_median=("StableMedian", _KEYS_OF_TESTS),
        stable_mode=("StableMode", _KEYS_OF_TESTS),
    ),
    *_entries(
        home="sidelight.published.stable_logistic",
        page=_TESTED,
        audit="stability/test_glm.py",
        stable_logistic_regression=("StableLogistic", None),
    ),
    *_entries(
        home="sidelight.stability",
        page=_TESTED,
        audit="stability/test_eigengap.py",
        stable_principal_components=("StablePCA", None),
    ),
    *_entries(
        home="sidelight.stability",
        page=_TESTED,
        audit="stability/test_majority_vote.py",
        majority_vote=("MajorityVote", None),
    ),
    *_entries(
        home="sidelight.published.adaops",
        page=_TESTED,
        audit="stability/test_posterior_queries.py",
        posterior_sample=("AdaOPS", None),
    ),
    *_entries(
        home="sidelight.published.ops_ptr",
        page=_TESTED,
        audit="stability/test_posterior_queries.py",
        selected_posterior_sample=("OPSPTR", None),
    ),
    *_entries(
        home="sidelight.regression.model_query",
        page="explanation/tuning.md",
        audit="audits/test_exact_losses.py",
        linear_model=("ModelQuery", None),
    ),
    *_entries(
        home="sidelight.tuning",
        page="explanation/tuning.md",
        audit="audits/test_selection_exhaustively.py",
        selection=("Selection", None),
    ),
    *_grouped(
        home="mean",
        audit="test_summary_means.py",
        mean=("Mean", _KEYS_OF_GROUPS),
        proportion=(
            "Proportion",
            PlanKeys(
                names={"column": "condition"},
                forms={**_GROUPED, "column": "sidelight.plans.forms:CONDITION"},
            ),
        ),
    ),
    *_grouped(
        home="sql_query",
        audit="test_sql_release.py",
        sql=(
            "SQL",
            PlanKeys(
                without=("prediction",),
                names={"statement": "select"},
                forms={"person_total": "sidelight.summaries.plan_forms:PERSON_TOTAL"},
            ),
        ),
    ),
    *_grouped(
        home="sum",
        audit="test_summary_sums.py",
        sum=("Sum", _KEYS_OF_GROUPS),
    ),
    *_grouped(
        home="spread",
        audit="test_summary_spread.py",
        variance=("Variance", _KEYS_OF_GROUPS),
        standard_deviation=("StandardDeviation", _KEYS_OF_GROUPS),
    ),
    *_grouped(home="summary", audit="test_summary_of_a_column.py", summary=("Summary", _KEYS_OF_GROUPS)),
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


#: The extra that installs a library, by the name that it is imported by.
EXTRAS: Mapping[str, str] = {
    **dict.fromkeys(("duckdb", "pyarrow"), "files"),
    "sklearn": "models",
    "matplotlib": "plots",
    "psycopg": "postgres",
}


@contextmanager
def extras_named(what: str, *, instead: str = "") -> Iterator[None]:
    """Replace the error of a library of an extra that is absent by one that says which extra installs it.

    Args:
        what: What needs it, in words, or the module that is imported.
        instead: What works without it, in words.
    """
    try:
        yield
        return
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRAS:
            raise
    needs = f"{missing} is" if what.startswith(missing) else f"{what} needs {missing}, which is"
    raise MissingPackageError(f'{needs} not installed; pip install "sidelight[{EXTRAS[missing]}]"{instead}')


def import_with_extras(module: str, *, what: str | None = None, instead: str = "") -> ModuleType:
    """Import a module; where it needs a library of an extra that is absent, say which extra.

    Args:
        module: Its full name, ours or that of such a library.
        what: What needs it, in words, if that is not the module.
        instead: What works without it, in words.

    Returns:
        The module.

    >>> import_with_extras("sidelight.quantiles").__name__
    'sidelight.quantiles'
    """
    return extras_named(module if what is None else what, instead=instead)(import_module)(module)
