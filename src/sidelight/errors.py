"""Every error that sidelight raises on purpose, and every warning.

A message says what was wanted, what came and what to do. It holds public numbers only: no record's value, no private
count, nothing that two neighbouring data sets would print differently.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from itertools import takewhile
from typing import Any, TypeVar

from sidelight.readable import alike, first_difference, shown_text

_Class = TypeVar("_Class", bound=type)


class SidelightError(Exception):
    """The root of all errors that sidelight raises on purpose.

    `charge_stands` is true where the request that raised it was charged, and nothing of it is given back.
    """

    charge_stands: bool = False

    def __str__(self) -> str:
        return shown_text(super().__str__(), lines=True)


class SidelightWarning(UserWarning):
    """The root of all warnings that sidelight gives on purpose; their texts are public, as those of errors are."""

    def __str__(self) -> str:
        return shown_text(super().__str__(), lines=True)


def level_of_caller() -> int:
    """Return the `stacklevel` by which a warning of the calling function is that of the code that uses sidelight."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "sidelight":
        frame, level = frame.f_back, level + 1
    return level


class RangeError(SidelightError, ValueError):
    """A public parameter lies outside the values that make sense for it."""


class ClaimError(SidelightError, ValueError):
    """A privacy claim was asked for that nothing proves, or two claims of different kinds were mixed."""


class SchemaError(SidelightError, ValueError):
    """A column, its kind or a declaration is missing or contradicts the request."""


class SourceError(SidelightError, OSError):
    """A data source cannot be read at all (no file, no permission, not the stated format)."""


class PlanError(SidelightError, ValueError):
    """A plan file is not understood. `path` are the keys and list positions that lead to the mistake, where known."""

    path: tuple[str | int, ...] = ()


class BudgetError(SidelightError):
    """A request does not fit what is left. Nothing was written, nothing was spent, no data was opened.

    `scope_id` is the scope of a ledger that refused: the one that was asked, or the nearest above it.
    """

    def __init__(
        self, message: str, *, requested: str, remaining: str, difference: str, scope_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.scope_id = scope_id
        self.requested = requested
        self.remaining = remaining
        self.difference = difference

    def with_advice(self, advice: str) -> BudgetError:
        """Return the same refusal with what to write another time."""
        amounts = {"requested": self.requested, "remaining": self.remaining, "difference": self.difference}
        return BudgetError(f"{self}. {advice}", **amounts, scope_id=self.scope_id)


class ConformanceError(SidelightError, AssertionError):
    """An engine under test does not give the integers that it should (`sidelight.testing.engine_conformance`)."""


class LedgerError(SidelightError):
    """A ledger cannot be used as it was asked to. What it is about, the classes below say where it matters."""


class LedgerUnavailableError(LedgerError):
    """A ledger cannot be reached or written at present. Ask again with the same key: at most one charge will stand.

    `is_committed` is true where the ledger itself was written, and only its head file could not be.
    """

    is_committed: bool = False


class LedgerDamagedError(LedgerError):
    """What a ledger holds is not what its events sign, or it is an older copy. Nothing is granted."""


class ScopeError(LedgerError):
    """A scope does not exist, has other terms than were asked for, or does not fit its parent."""


class ScopeClosedError(ScopeError):
    """A scope was closed for good, and grants nothing more."""


class InProgressError(LedgerError):
    """The same request is reserved and not finished: another process runs it, or one died."""


class KeyReusedError(LedgerError):
    """A key names one request for good, and this is another one. Nothing was charged."""


class StrictError(SidelightError):
    """`strict=True` refuses a mechanism whose numerics are idealized."""


class ReleaseFailedError(SidelightError):
    """A release failed after the data was opened. Its charge stands; the cause may depend on data and is withheld."""

    charge_stands = True


class NotCertifiedError(ReleaseFailedError):
    """No minimum of an objective could be certified. Nothing is released, the charge stands, nothing is tried again."""


class TeacherError(SidelightError, RuntimeError):
    """A teacher of a vote could not be trained. Nothing was charged or released; the cause may depend on its rows."""

    def __init__(self, message: str, *, number: int) -> None:
        super().__init__(message)
        self.number = number


class MissingPackageError(SidelightError, ImportError):
    """A package that is not among sidelight's own requirements is not installed."""


class NoiseError(SidelightError, RuntimeError):
    """Noise cannot be drawn safely: a source left its process, thread or release, or the arithmetic check failed."""


class FailedError(SidelightError):
    """A check that a command was asked to make did not hold: status 1."""


class CuratorOnlyError(SidelightError, PermissionError):
    """Something was asked for that only the curator of the data may see, without saying `i_am_the_curator=True`."""


class RoundError(SidelightError, RuntimeError):
    """A round was closed before it was opened, or a report came for a round that is not open."""


class ReportError(RangeError):
    """A report is malformed, or was made under other terms than the server's. The message quotes no value of it."""


class ServiceError(SidelightError):
    """The service refused, cannot be reached, or is not what this client agreed to. `code` is its word for it.

    Of a paid request that may have been charged, `key` is its key, and `request_id` its id on the server, once known.
    """

    def __init__(self, message: str, *, code: str, key: str | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.code, self.key, self.request_id = code, key, request_id


class UnansweredError(ServiceError):
    """The server itself did not answer, or not in a form that is understood: it may have done what it was asked."""


class BusyError(SidelightError):
    """A service has no seat for the request at this time. Nothing was charged; ask again later."""


class RefusedError(SidelightError):
    """A service refuses a request. `code` is its word for the reason; the message holds public numbers only."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ProblemError(RefusedError):
    """A refusal that a server sends to an analyst; `more` are further public members, such as what remains."""

    def __init__(self, code: str, message: str = "", **more: object) -> None:
        super().__init__(code, message)
        self.more = more


class StorageError(SidelightError, OSError):
    """The state of a service cannot be kept or read. Nothing is acknowledged that was not stored."""


class PrivacyWarning(SidelightWarning):
    """Warn that a guarantee covers less than it seems to, because of what was done around the library."""


class NotPrivateWarning(PrivacyWarning):
    """Warn that what comes out is not private: its noise can be reproduced. For tests on public or generated rows."""


class HedgeWarning(SidelightWarning):
    """A prediction is used alone although a wrong one would cost ranks in proportion to the mistake."""


class WeakFitWarning(SidelightWarning):
    """The released numbers say that an estimate is not certified for the assumed condition number."""


#: What other libraries and people call our names; the first that is known in its place is suggested.
_MEANT: dict[str, tuple[str, ...]] = {
    "normal": ("gaussian",),
    "gauss": ("gaussian",),
    "discrete_gaussian": ("gaussian",),
    "double_exponential": ("laplace",),
    "laplacian": ("laplace",),
    "geometric": ("laplace", "discrete_laplace"),
    "average": ("mean",),
    "avg": ("mean",),
    "percentile": ("quantiles",),
    "percentiles": ("quantiles",),
    "median": ("quantiles", "stable_median"),
    "std": ("standard_deviation", "summary"),
    "stddev": ("standard_deviation", "summary"),
    "var": ("variance", "summary"),
    "total": ("sum",),
    "size": ("count",),
    "n": ("count",),
    "unique": ("count_distinct",),
    "nunique": ("count_distinct",),
    "mode": ("top_k", "stable_mode"),
    "value_counts": ("histogram", "count"),
    "correlation": ("covariance",),
    "cov": ("covariance",),
    "gmm": ("mixture", "separated_mixture"),
    "logit": ("logistic_regression", "logistic"),
    "svm": ("linear_svc",),
    "ols": ("linear_regression", "adassp"),
    "synthetic_data": ("synthetic_table",),
    "float": ("number",),
    "int": ("number",),
    "integer": ("number",),
    "numeric": ("number",),
    "categorical": ("category",),
    "enum": ("category",),
    "string": ("label", "category"),
    "text": ("label", "category"),
    "str": ("label", "category"),
    "user": ("person",),
    "id": ("person",),
    "min": ("lower",),
    "max": ("upper",),
    "minimum": ("lower",),
    "maximum": ("upper",),
    "eps": ("epsilon",),
    "budget": ("epsilon",),
    "approx": ("basic",),
    "sum_of_epsilons": ("basic",),
    "renyi": ("zcdp",),
    "rdp": ("zcdp",),
    "cdp": ("zcdp",),
    "f_dp": ("gdp",),
}


#: Parameters that released versions had: of which classes, their names, and what to do without them.
_REMOVED = (
    (
        "CountDistinct Histogram TopK Sum Mean Proportion Variance StandardDeviation Summary SQL",
        "noise",
        "leave it out, the law with less noise is taken; epsilon alone is Laplace noise",
    ),
    (
        "Count Histogram TopK Mean Proportion",
        "population",
        "leave it out; sl.StandardDeviation releases what a sampling error is computed from",
    ),
    ("Sum Mean Variance StandardDeviation", "centre expected_rows", "leave it out, a predicted centre is measured"),
    ("Proportion", "clip centre expected_rows", "leave it out, a proportion lies in 0..1"),
    ("Summary", "centre expected_rows", "leave it out, the quartiles are the centre"),
    ("Mean Proportion", "pull", "leave it out, `mean_plain` or `proportion_plain` is what was measured"),
    ("Sum", "per", "leave it out, totals of persons are added up, and rows with max_rows_per_group=..."),
    ("Sum", "step", "leave it out, totals are counted in steps of sl.Number(..., granularity=...)"),
    ("TopK", "by", "leave it out, a ranking is one list for all rows; ask sl.Count(by=...)"),
    (
        "Quantiles",
        "branching budget_power adaptation score",
        "leave it out, form='auto' chooses; sl.quantiles.quantile_tree builds the trees of the paper",
    ),
    ("Quantiles", "cells", "leave it out; form='predicted' takes the cells of the prediction"),
    ("Quantiles", "borrow", "leave it out, and write prediction='total'"),
    ("Quantiles Distribution", "resolution", "leave it out, declare the granularity, or round what is released"),
    ("LogisticRegression", "multi_class", "leave it out, several classes are one softmax"),
    ("Covariance", "choice_share", "leave it out, a tenth of the price is for the choice"),
    ("Covariance", "count_share mean_share value_share", "leave it out, the shares of the price are fixed"),
    ("Covariance", "limit_trace", "leave it out, project=False leaves the trace alone, too"),
)
#: Parameters that stand in another one as a tuple: of which classes, their names in order, and the other. The old ones
#: work for one version, with a warning.
_MOVED = (("Quantiles Distribution", ("lower", "upper"), "bounds"),)
#: The same by class and name; in plans as in calls.
REMOVED: Mapping[str, Mapping[str, str]] = {
    owner: {name: instead for owners, names, instead in _REMOVED if owner in owners.split() for name in names.split()}
    for owner in dict.fromkeys(owner for owners, _, _ in _REMOVED for owner in owners.split())
}


def explains_removed(cls: _Class) -> _Class:
    """Let a class say of a parameter that it no longer has what to do instead, and take one that has moved."""
    made: Any = cls.__init__  # type: ignore[misc]

    @wraps(made)
    def init(self: Any, *given: Any, **options: Any) -> None:
        for name, instead in REMOVED[cls.__name__].items():
            if name in options:
                raise TypeError(f"{cls.__name__} no longer has the parameter {name!r}; {instead}")
        for owners, names, home in _MOVED:
            if cls.__name__ in owners.split() and (old := [name for name in names if name in options]):
                refuse_both_names(cls.__name__, old, home, given=home in options)
                words = f"{home}=({', '.join(names)}) instead of {' and '.join(names)}"
                warnings.warn(f"{cls.__name__}: write {words}", SidelightWarning, stacklevel=2)
                options[home] = tuple(options.pop(name, None) for name in names)
        made(self, *given, **options)

    cls.__init__ = init  # type: ignore[misc]
    return cls


def refuse_both_names(owner: str, old: Iterable[str], new: str, *, given: bool) -> None:
    """Refuse a call that has old parameters and the new one: either could be meant.

    >>> refuse_both_names("Quantiles", ["lower"], "bounds", given=True)
    Traceback (most recent call last):
    TypeError: Quantiles got both 'bounds' and its old parameter 'lower'; leave 'lower' out
    """
    if given:
        names = " and ".join(map(repr, sorted(old)))
        raise TypeError(f"{owner} got both {new!r} and its old parameter {names}; leave {names} out")


#: Of longer lists of names only the first are listed.
_MOST_NAMED = 60


def nearest(word: str, known: Iterable[str]) -> str:
    r"""Return the end of a message: the nearest known name by meaning or by letters, and all known names.

    None from the first with a line break on: an open quote in the header of a file makes records part of a name.

    >>> nearest("agee", ["age", "hours"])
    "did you mean 'age'? known: age, hours"
    >>> nearest("age", ["\u0430ge"])[:73]
    "did you mean 'аge'? (character 1 is U+0430 (CYRILLIC SMALL LETTER A), not"
    >>> nearest("normal", ["laplace", "gaussian"])
    "did you mean 'gaussian'? known: laplace, gaussian"
    """
    listed = list(known)
    names = list(takewhile(str.isprintable, listed))
    meant = [name for name in _MEANT.get(word.casefold().replace("-", "_").replace(" ", "_"), ()) if name in names]
    close = meant or [name for name in names if alike(name) == alike(word)] or get_close_matches(word, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    if close and not (close[0] + word).isascii():  # letters of two scripts may look the same
        hint += f"({first_difference(close[0], word)}) "
    shown = names[:_MOST_NAMED]
    more = f" and {len(listed) - len(shown)} more" if len(listed) > len(shown) else ""
    return f"{hint}known: {', '.join(shown) or 'none'}{more}"
