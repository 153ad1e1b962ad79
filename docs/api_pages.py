"""The pages of the API reference: which public name stands on which, and their text, written anew by every build.

A public name that stands on no page, or on two, stops the build (`pages`), and a test says so earlier.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import sidelight

#: A page's title, and the names of `sidelight` on it. A package brings all names of its own that stand nowhere else.
PAGES = {
    "Queries": (
        *("Count", "Histogram", "CountDistinct", "TopK"),
        *("Mean", "Proportion", "Sum", "Variance", "StandardDeviation", "Summary", "SQL"),
        *(
            "Quantiles",
            "Distribution",
            "Covariance",
            "GaussianFit",
            "GaussianMean",
            "SeparatedMixture",
            "AdaSSP",
            "ModelQuery",
        ),
        *("StableMedian", "StableMode", "StablePCA", "StableLogistic", "MajorityVote", "AdaOPS", "OPSPTR"),
    ),
    "Models": (
        *("LogisticRegression", "LinearSVC", "LinearRegression", "PoissonRegressor", "PCA"),
        *("AdditiveRegressor", "AdditiveClassifier"),
        *("GaussianModel", "GaussianMixture", "PATE", "PublicScaler", "TableEncoding"),
    ),
    "Predictions": (
        *(
            "PublicData",
            "Predicted",
            "CoefficientPrediction",
            "DescentSettings",
            "ObjectiveSettings",
            "CurvePrediction",
            "priors",
            "hedge",
            "PubPrev",
            "PubProx",
            "PubTrack",
            "PrivateHistograms",
        ),
    ),
    "Records and schema": (
        "Table",
        "Schema",
        "Number",
        "Date",
        "Category",
        "Label",
        "PersonId",
        *("Database", "Key", "Reference", "PersonVia", "Window", "per_person", "fold", "omop"),
        "Hierarchy",
        "Invariant",
        "GroupSizes",
        "Drop",
        "Fill",
        "col",
    ),
    "Guarantees": ("PureDP", "ApproxDP", "ZCDP", "GDP", "BoundedRange", "Claims", "Neighbours"),
    "Sessions, ledgers and releases": (
        *("Session", "CommonBudget", "Sequence", "open_ledger", "Release", "Refused", "outcome_from_json"),
    ),
    "Synthetic tables": (
        "SyntheticTable",
        "Synthetic",
        "marginals",
        "prefixes",
        "ranges",
        "linear_queries",
        "synthesis",
    ),
    "Experts": ("experts",),
    "Tuning": ("Selection", "PublicScore", "PrivateScore", "tuning"),
    "Tools": (
        "connect",
        "connect_async",
        "epsilon_for",
        "dummy",
        "areas",
        "nonprivate_check",
        "nonprivate_check_rows",
        "quantiles",
        "gaussians",
    ),
    "Errors and warnings": ("PrivacyWarning", "NotPrivateWarning", "errors"),
}

#: What the library calls on a query, a prior or a learner, and a user does not; of one class alone with its name.
SEAMS = {
    *(
        "declare",
        "prepare",
        "request",
        "asked",
        "keys",
        "groups",
        "price",
        "reading",
        "counted",
        "hierarchy",
        "axes",
        "cut",
        "predictions_for",
        "mu_squared",
        "total",
    ),
    *("needs_hedge", "log_mass", "inverse_in", "piecewise_cdfs", "compile", "cells", "rank_cost"),
    *("start", "begin", "read"),
    *(
        "Release.at",
        "Refused.at",
        "Covariance.price",
        "Covariance.table",
        "GaussianFit.price",
        "GaussianFit.table",
        "GaussianFit.method",
    ),
    *("GaussianMean.price", "GaussianMean.table", "SyntheticTable.price", "SyntheticTable.axes", "Selection.claims"),
    *("PubPrev.priors", "PubProx.priors", "PrivateHistograms.priors", "PrivateHistograms.masses"),
    "PrivateHistograms.gradient_plan",
    *("Category.labels", "Category.unknown_code", "Category.missing_code", "Label.normalised", "Label.label_of"),
    *("Number.fill", "Date.calendar", "Date.fill", "Table.rows", "Release.dated"),
    *("TableEncoding.codings", "TableEncoding.rows", "TableEncoding.matrix"),
    *("Claims.with_unit", "Claims.with_numerics", "Claims.map", "Claims.items", "GDP.from_squares"),
}


def pages() -> dict[str, tuple[str, ...]]:
    """Return each page's full names, in order; raise if a public name is on no page, on two, or is not public."""
    placed = [name for names in PAGES.values() for name in names]
    public = set(sidelight.__all__) - {"__version__"}
    wrong = sorted(public.symmetric_difference(placed)) + sorted({name for name in placed if placed.count(name) > 1})
    if wrong:
        raise ValueError(f"every public name stands on one page of docs/api_pages.py; see to {', '.join(wrong)}")
    return {title: tuple(full for name in names for full in _full_names(name)) for title, names in PAGES.items()}


def _full_names(name: str) -> list[str]:
    """Return `sidelight.name`, and after a package what it adds to the names of `sidelight`."""
    found = getattr(sidelight, name)
    if not inspect.ismodule(found):
        return [f"sidelight.{name}"]
    inside = getattr(found, "__all__", None) or [each for each, value in vars(found).items() if _made_in(value, found)]
    return [f"sidelight.{name}", *(f"sidelight.{name}.{each}" for each in inside if _is_new(each, name, found))]


def _is_new(name: str, package: str, module: Any) -> bool:
    """Return whether what a package calls so stands neither in `sidelight` nor among the errors."""
    if name in sidelight.__all__ and getattr(sidelight, name) is getattr(module, name):
        return False
    return package == "errors" or not hasattr(sidelight.errors, name)


def _made_in(value: Any, module: Any) -> bool:
    return inspect.isclass(value) and value.__module__ == module.__name__


def methods(made: type) -> list[str]:
    """Return the methods and properties that a user of a class calls: our own, wherever in the bases they stand."""
    ours = [base for base in made.__mro__ if base.__module__.startswith("sidelight")]
    found: dict[str, None] = {}
    for base in reversed(ours):
        for name, value in vars(base).items():
            if not name.startswith("_") and _is_method(value) and not SEAMS & {name, f"{made.__name__}.{name}"}:
                found[name] = None
    return list(found)


def _is_method(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod | property)


def write(folder: Path) -> None:
    """Write one page for each group into a folder that holds nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for number, (title, names) in enumerate(pages().items(), start=1):
        text = "\n".join([title, "=" * len(title), "", *(line for name in names for line in _entry(name))])
        path = folder / f"{number:02}-{re.sub('[^a-z]+', '-', title.lower())}.rst"
        written.add(path)
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # an unchanged page is not built again
            path.write_text(text, encoding="utf-8")
    for path in set(folder.glob("*.rst")) - written:
        path.unlink()


def _entry(name: str) -> list[str]:
    found: Any = sidelight
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    if inspect.ismodule(found):
        return [f".. automodule:: {name}", ""]
    if inspect.isclass(found):
        members = methods(found)
        return [f".. autoclass:: {name}", *([f"   :members: {', '.join(members)}"] if members else []), ""]
    return [f".. {'autofunction' if callable(found) else 'autodata'}:: {name}", ""]


def as_restructured_text(lines: list[str]) -> None:
    """Make a docstring's plain text with `code` what Sphinx reads, in place.

    What a guarantee or an accuracy says goes on lines below its word, and the signs of mathematics mean themselves.
    """
    inside, example, made = "", False, []
    for line in lines:
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        inside = inside if line.strip() else ""
        word = re.match(r"(\s*)(Guarantee|Accuracy): (.*)", line)
        if example:
            made.append(line)
        elif word:
            inside = word[1] + "    "
            made += [
                f"{word[1]}{word[2]}:",
                inside + _escaped(re.sub(r"^[a-z]+\b", lambda m: m[0].capitalize(), word[3])),
            ]
        else:
            made.append(_escaped(inside + line.strip() if inside else line))
    lines[:] = made


def _escaped(line: str) -> str:
    parts = line.split("`")  # what stands between backticks is code, and a link where there is such a name
    parts[::2] = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [re.sub(r"^sl\.([\w.]+)$", r"sl.\1 <sidelight.\1>", part) for part in parts[1::2]]
    return "`".join(parts)


def named_types(signature: str | None) -> str | None:
    """Return a signature with the names of types that are longer than their names: an amount, an array."""
    if signature is None:
        return None
    names = {
        r"str \| int \| float \| [~\w]*\.?Decimal \| [~\w]*\.?Fraction": "Amount",
        r"[~\w.]*ndarray\[[~\w.]*tuple\[[^\]]*\], [~\w.]*dtype\[[~\w.]*?(\w+)\]\]": r"NDArray[\1]",
        r"[~\w.]*Buffer \| [~\w.]*_SupportsArray.*?\[complex \| bytes \| str\]": "ArrayLike",
    }
    for long, name in names.items():
        signature = re.sub(long, name, signature)
    return signature
