"""What every private scikit-learn estimator has in common: it costs something each time it is fitted.

Its rows are other rows than the session's table, priced for the unit that they declare themselves (`ExternalRows`): X
was derived from the session's table. The price is charged for the session's unit where it holds for that one, too:

- Both declare rows, or the same persons: how many rows of a person count in X, only the schema of X says.
- A session of persons and X without persons is refused: noise for one row would be sold as noise for a person, who may
  have any number of rows in X.
- A session of rows and X with persons is refused: which rows of a person count depends on all of them, so that removing
  one can make another one count, two steps for the price of one.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from inspect import signature
from types import FrameType
from typing import Any, ClassVar

from sidelight.errors import PrivacyWarning, RangeError
from sidelight.guarantees import Claims, Person
from sidelight.guarantees.units import rows_of_unit
from sidelight.noise import OSEntropy, Source
from sidelight.records import Schema, Table
from sidelight.release import Outcome
from sidelight.session.accounts import OneOffAccount
from sidelight.session.pipeline import release_through
from sidelight.session.query import Answer, Prepared, PublicSource, Refusal, check_source
from sidelight.session.session import Session


@dataclass(frozen=True, kw_only=True, eq=False)
class ExternalRows:
    """A query that was prepared for its own rows, and the rows: a matrix that the user derived from a table."""

    prepared: Prepared
    rows: Table

    def prepare(self, schema: Schema) -> PreparedExternalRows:
        """Return the query with its price, for the session's protected unit where it holds for that. Reads no row."""
        inner = self.prepared
        if self.rows.database is not None:
            raise RangeError(
                f"X is part of the database {self.rows.database!r}, whose people have a budget of their own; release "
                "the query in a session of the database. Nothing was charged"
            )
        return PreparedExternalRows(
            claims=claims_for(schema, inner.claims, external=self.rows.schema),
            request=inner.request,
            labels=inner.labels,
            prediction=inner.prediction,
            error=inner.error,
            prepared=inner,
            rows=self.rows,
        )

    def release(self, session: Session | None) -> Outcome:
        """Charge the session, or a budget of exactly this query."""
        if session is not None:
            return session.release(self)
        return release_through(self, self.rows, OneOffAccount(), entropy=OSEntropy())


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedExternalRows(Prepared):
    """The prepared query and the rows it will read; that its price holds for the session's unit was checked before."""

    prepared: Prepared
    rows: Table
    reads_external_rows: ClassVar[bool] = True  # the session's own are not read, and need no check
    brings_private_data: ClassVar[bool] = True  # the rows are not those of the session's table

    @property
    def drawn_claims(self) -> Claims:
        """The claims for the unit that X declares: that they hold for the session's unit was checked before."""
        return self.prepared.drawn_claims

    def check_source(self, source: PublicSource) -> None:
        """Check the external rows: the session's are not read."""
        del source
        check_source(self.prepared, self.rows)

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Run the query on the external rows."""
        del table
        with self.rows.unchanged():
            return self.prepared.run(self.rows, source)


def claims_for(schema: Schema, claims: Claims, *, external: Schema) -> Claims:
    """Return the claims of a query on rows with the schema `external` for the unit of the session's `schema`.

    Nothing is converted: the units are both a row, or both the person of one column, of whom no more rows count in the
    session than in X. All rows of such a person are the step that the noise is for.

    Raises:
        RangeError: the query was not prepared for rows of `external`, a unit of the session may have more rows than the
            noise is for, X has persons of another column, or the session protects rows and X has persons.
    """
    unit, own = schema.unit, external.unit
    if (priced := claims.context["unit"]) != own:
        raise RangeError(
            f"the query was prepared for the unit {priced}, and X declares the unit {own}; prepare it for the schema "
            "of X. Nothing was charged"
        )
    # Of a person of X at most `max_rows` rows count, chosen among all of theirs. Where one of these is removed another
    # one takes its place: one row fewer in the table of the session is two steps, and the price is for one.
    if isinstance(own, Person) and not isinstance(unit, Person):
        raise RangeError(
            f"X declares persons ({own.column!r}), and the session protects each {unit}: noise for a person of whom at "
            f"most {own.max_rows} row(s) count is none for a row, because another row of the person counts where one "
            "is removed; declare the persons in the session's table as well, or give X without its PersonId. Nothing "
            "was charged"
        )
    if isinstance(unit, Person) and isinstance(own, Person) and own.column != unit.column:
        raise RangeError(
            f"X bounds the rows of each {own.column!r}, and the session protects each {unit.column!r}, who may be in "
            "several of them; declare the session's person column in X. Nothing was charged"
        )
    check_rows_of_unit(schema, covered=external.rows_per_unit if isinstance(own, Person) else None)
    return claims.with_unit(unit)


def check_rows_of_unit(schema: Schema, *, covered: int | None = None) -> None:
    """Refuse rows that a caller brings where a unit of the session may have more of them than the noise is for.

    `covered` is how many rows of a person count in rows that declare persons. Nothing caps others: `max_rows`, also of
    1, is a cap on the session's table, in which alone it stands whose row it is.
    """
    rows = rows_of_unit(schema.unit)
    if isinstance(schema.unit, Person) and (covered is None or covered < rows):
        noise = "one row" if covered is None else f"{covered} row(s) of a person"
        raise RangeError(
            f"the noise is for {noise} of X, and the session counts up to {rows} row(s) of a person in its own table "
            "and caps none in X; bring a table that declares the persons, or release the query from the session's own "
            "table (fit_table). Nothing was charged"
        )


# What drives a fit: pipelines that prepared its rows, searches that repeat it. For warnings, never for a guarantee.
#
# A pipeline of scikit-learn hands an estimator plain rows: nothing in them says that a scaler before it has looked
# at all of them, and that voids the guarantee unnoticed. So `fit` looks at who calls it. Only callers are looked
# at, never a row, so that what is said depends on the program alone. What cannot be seen (rows prepared before
# `fit` was called, a pipeline in another process than the fit) stays the user's word, as the limitations page says.

#: Functions of scikit-learn in which a cross-validation runs, also in the worker processes of a parallel search.
_CROSS_VALIDATION = {
    ("sklearn.model_selection._validation", "_fit_and_score"),
    ("sklearn.model_selection._validation", "_fit_and_predict"),
}

#: Packages whose frames stand between a user's line and the fit.
_INNER = ("sidelight", "sklearn", "joblib", "imblearn")


def _categories(step: Any) -> bool:
    """Return whether an encoder knows its categories beforehand, keeps them all, and raises for no other."""
    declared = isinstance(step.categories, list | tuple) and step.handle_unknown != "error"
    return declared and step.min_frequency is None and step.max_categories is None


#: Steps of scikit-learn whose fit takes the number of columns and nothing else, and when.
_DECLARED: dict[str, Callable[[Any], bool]] = {
    "FrozenEstimator": lambda step: True,
    "GaussianRandomProjection": lambda step: isinstance(step.n_components, int),
    "OneHotEncoder": _categories,
    "OrdinalEncoder": _categories,
    "PolynomialCountSketch": lambda step: True,
    "PolynomialFeatures": lambda step: True,
    "RBFSampler": lambda step: isinstance(step.gamma, int | float),
    "SkewedChi2Sampler": lambda step: True,
    "SparseRandomProjection": lambda step: isinstance(step.n_components, int),
}


@dataclass(frozen=True)
class Drivers:
    """What calls a fit: the steps that read its rows before, who repeats it, and whether a paid search runs it."""

    prepared: tuple[str, ...]
    search: str | None
    tuned: bool


def drivers_of(estimator: Any) -> Drivers:
    """Return what calls the fit of an estimator, from the frames above."""
    prepared: dict[str, None] = {}
    search, tuned = None, False
    inner: list[Any] = [estimator]
    for owner, frame in _callers():
        module = frame.f_globals.get("__name__")
        if (module, frame.f_code.co_name) in _CROSS_VALIDATION:
            search = search or "a cross-validation"
        tuned = tuned or module == "sidelight.tuning.selection"
        if owner is None or owner is inner[-1]:
            continue
        prepared |= dict.fromkeys(_names(_before(owner, inner)))
        if _repeats(owner):
            search = type(owner).__name__
        inner.append(owner)
    return Drivers(tuple(prepared), search, tuned)


def warn_of_callers(estimator: Any, *, paid: bool) -> None:
    """Warn where a pipeline fitted other steps to the rows of this fit, and where a search repeats it.

    `paid` says that a session adds the fits up.
    """
    drivers, name = drivers_of(estimator), type(estimator).__name__
    if drivers.prepared:
        warn_at_users_line(
            f"{' and '.join(drivers.prepared)} prepared the rows of {name} in a pipeline and learned from all of them, "
            "which nothing pays for: the guarantee of the model does not hold (one outlier is enough to tell). Scale "
            "with sl.PublicScaler (declared ranges or public rows), encode with sl.TableEncoding, or wrap a step that "
            "was fitted to public rows in sklearn.frozen.FrozenEstimator; a step whose fit reads no row says so by "
            "fit_reads_no_rows = True"
        )
    if drivers.search is not None and not drivers.tuned:
        cost = (
            "The session charges each of these fits, but the scores of held-out private rows are not paid for."
            if paid
            else "Each fit costs an epsilon of its own, and so does every score of private rows that were held out; "
            "without session=... no budget counts them, and scores are not counted even then."
        )
        warn_at_users_line(
            f"{drivers.search} fits {name} several times. {cost} Search with sl.Selection or sidelight.tuning.tune, "
            "which pay for it, and score private rows with dp_score"
        )


def _callers() -> Iterator[tuple[Any, FrameType]]:
    """Return the frames above this fit, innermost first, each with the object whose method it is."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        method = code.co_argcount > 0 and code.co_varnames[0] == "self"
        yield frame.f_locals.get("self") if method else None, frame
        frame = frame.f_back


def _before(owner: Any, inner: list[Any]) -> Iterable[Any]:
    """Return what the caller of a fit has fitted before it: earlier steps of a pipeline, a target's transformer."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import Pipeline

    if isinstance(owner, TransformedTargetRegressor):
        return [owner.transformer] if owner.transformer is not None else []
    if not isinstance(owner, Pipeline):
        return []
    steps = [step for _, step in owner.steps]
    # The step that is being fitted now is one of the objects below, or a clone of it where a pipeline has a cache.
    here = [place for place, step in enumerate(steps) if any(step is each for each in inner)]
    like = [place for place, step in enumerate(steps) if any(type(step) is type(each) for each in inner)]
    return steps[: (here or like or [len(steps)])[-1]]


def _names(steps: Iterable[Any]) -> Iterator[str]:
    """Return the class names of the steps whose fit reads rows, those inside of others too."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import FeatureUnion, Pipeline

    for step in steps:
        if step is None or isinstance(step, str):  # "passthrough" and "drop"
            continue
        if isinstance(step, Pipeline):
            yield from _names(part for _, part in step.steps)
        elif isinstance(step, FeatureUnion):
            yield from _names(part for _, part in step.transformer_list)
        elif isinstance(step, ColumnTransformer):
            yield from _names([*(part for _, part, _ in step.transformers), step.remainder])
        elif not reads_no_rows(step):
            yield type(step).__name__


def reads_no_rows(step: Any) -> bool:
    """Return whether the fit of a transformer is known to read no row.

    Known are those that say so (`fit_reads_no_rows`), those without anything to fit by scikit-learn's own tags, some
    that take the number of columns alone, and the private ones of this library, which pay for what they learn, also
    where columns are selected by the coefficients of one.
    """
    from sklearn.feature_selection import SelectFromModel
    from sklearn.utils import get_tags

    learned = step.estimator if isinstance(step, SelectFromModel) else step
    if getattr(step, "fit_reads_no_rows", False) is True or isinstance(learned, PaidEstimator):
        return True
    kind = type(step)
    if kind.__module__.startswith("sklearn.") and kind.__name__ in _DECLARED:
        return _DECLARED[kind.__name__](step)
    try:
        return not get_tags(step).requires_fit
    except Exception:  # no estimator by scikit-learn's rules: nothing is known about it
        return False


def _repeats(owner: Any) -> bool:
    """Return whether an object fits a model several times."""
    from sklearn.base import MetaEstimatorMixin
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.feature_selection import SelectFromModel

    once = (TransformedTargetRegressor, SelectFromModel)
    return isinstance(owner, MetaEstimatorMixin) and not isinstance(owner, once)


def warn_at_users_line(text: str) -> None:
    """Warn at the line that started it all, outside of the libraries."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _INNER:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, PrivacyWarning, stacklevel=level)


class PaidEstimator:
    """Stands before `BaseEstimator` among the bases of a class with a parameter `session`."""

    session: Session | None

    def __new__(cls, *_: Any, **parameters: Any) -> Any:
        """Answer `random_state` with more than "unexpected keyword", unless the class has such a parameter."""
        if "random_state" in parameters and "random_state" not in signature(cls.__init__).parameters:
            raise RangeError(
                f"{cls.__name__} takes no random_state: a seed publishes the noise and with it the data; for "
                "reproducible tests pass session=sidelight.testing.SeededSession(..., seed=...), which brands the model"
            )
        return super().__new__(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of BaseEstimator
        tags.non_deterministic = True  # private: a second fit draws new noise and is paid again
        return tags

    def __getstate__(self) -> Any:
        if self.session is not None:
            raise TypeError(
                "a model with a session cannot be copied or pickled, because its copy would spend the same budget "
                "again; to save a fitted model write model.set_params(session=None) first"
            )
        return super().__getstate__()

    def _store(self, given: dict[str, Any]) -> None:
        """Store the arguments of a constructor as they are: scikit-learn wants them unchecked until `fit`."""
        self.__dict__ |= {name: value for name, value in given.items() if name not in ("self", "__class__")}

    def _settings_of_query(self, *own: str) -> dict[str, Any]:
        """Return the parameters that the query of this model has too: all but the session and the model's `own`."""
        given: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]  # of BaseEstimator
        return {name: value for name, value in given.items() if name not in ("session", *own)}

    def _check_session(self) -> None:
        """Refuse what is no session, and warn of pipelines and searches that the guarantee does not cover."""
        if not isinstance(self.session, Session | None):
            raise RangeError(f"session must be a sidelight.Session or None, got {type(self.session).__name__}")
        warn_of_callers(self, paid=self.session is not None)
