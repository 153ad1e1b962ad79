"""What is known about a model before its rows: stated coefficients, with how far off they may be.

`prediction=` of every linear model takes these, public rows (`sl.PublicData`), and earlier models of this library;
`regression.predictions` turns all of them into the units of one fit. A prediction moves accuracy, never a guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np

from sidelight.errors import RangeError, nearest
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.predictions.origin import Origin, guess, released, stated_origin
from sidelight.regression.losses import Floats
from sidelight.release import Release

#: Squares of what is smaller stay far within the floats.
_LARGEST = 1e100
_OLDEST = 1e6
INTERCEPT = "intercept"


@dataclass(frozen=True, eq=False, repr=False)
class CoefficientPrediction:
    """Hold what the coefficients of a linear model probably are: a guess, or a published model.

    Guarantee: none is changed. The numbers must not come from the rows that are fitted; those of an earlier release
    were paid for by it, and are passed as the model or the `sl.Release` itself, which remembers its noise.

    Accuracy: a good prediction is worth as many rows as it was learned from, a bad one costs a tenth of the budget: the
    fit chooses privately between it and none, and believes it only as far as the noisy rows agree.

    Args:
        coefficients: One number a feature, in the unit in which the features are given to `fit`; for a model of a table
            in the columns' own units, by name ({"age": 0.02, "job=cook": -1.5}; what is not named is 0). For more than
            two classes one such list or mapping a class, in the order of the sorted classes. Or an earlier model of
            this library, to say its `age`.
        intercept: What the prediction is where all features are 0; one number a class for more than two classes.
        scale: How far off each coefficient may be (a standard deviation): one number for all and the intercept, or a
            list with one per feature and the intercept's last, or by name with "intercept". Left out if unknown.
        classes: The classes that the coefficients are for, sorted, where it matters: others are refused.
        origin: Where it came from: a text names a public source; a guess if left out.
        age: With an earlier model or its release in place of the coefficients: how many periods old it is. Its noise
            counts 1 + age times.

    >>> CoefficientPrediction([0.5, -1.0], intercept=2.0, scale=0.3, origin="Smith et al. 2021, table 4")
    CoefficientPrediction(2 coefficients, public: Smith et al. 2021, table 4)
    """

    coefficients: Any
    intercept: Any = 0.0
    _: KW_ONLY
    scale: Any = None
    classes: Sequence[Any] | None = None
    origin: str | Origin | None = None
    age: float | None = None

    def __post_init__(self) -> None:
        if self.classes is not None and (isinstance(self.classes, str) or not hasattr(self.classes, "__len__")):
            raise RangeError(f"classes must be a list of labels, got {type(self.classes).__name__}")
        _ = self.source  # what is no source is found now
        if self.earlier:
            if self.scale is not None or self.origin is not None or self.classes is not None:
                raise RangeError("an earlier model says itself how far off it is, and where it came from; give its age")
        elif self.age is not None:
            raise RangeError("age is for an earlier model or release in place of the coefficients")
        if self.age is not None and not (isinstance(self.age, Real) and 0 <= self.age <= _OLDEST):
            raise RangeError(f"age must be a number of periods from 0 to {_OLDEST:g}, got {self.age!r}")

    @property
    def earlier(self) -> bool:
        """Whether an earlier model, or its release, stands in place of coefficients."""
        return isinstance(self.coefficients, Release) or isinstance(
            getattr(self.coefficients, "release_", None), Release
        )

    @property
    def source(self) -> Origin:
        """Where it came from."""
        return stated_origin(self.origin)

    def __repr__(self) -> str:
        given = self.coefficients
        if self.earlier:
            return f"CoefficientPrediction({type(given).__name__}, age={self.age})"
        size = len(given) if isinstance(given, Mapping) else np.size(np.asarray(given, dtype=object))
        return f"CoefficientPrediction({size} coefficients, {self.source})"


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredNoise:
    """How far off an earlier fit by descent was: variances in its own coordinates, and the way back from them.

    `basis` is (d+1, d+1) and brings coordinates to coefficients and intercept in the unit of the features and the
    target; `variances` is (d+1, outputs).
    """

    basis: Floats
    variances: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class StatedModel:
    """Coefficients (outputs, features) and intercepts (outputs,) in the users' own units, checked, with their source.

    `spread` is a standard deviation of each coefficient and of the intercept, in the same units, or None.
    `table_units`: whether they are for columns as they are, not for scaled features. `seeded`: from a release with
    seeded noise.
    """

    coefficients: Floats
    intercepts: Floats
    spread: Floats | None
    noise: StoredNoise | None
    source: Origin
    what: str
    table_units: bool = False
    seeded: bool = False


def stated(given: CoefficientPrediction, *, features: int, names: Sequence[str] | None, classes: Any) -> StatedModel:
    """Check stated coefficients against a model's features and classes.

    Raises:
        RangeError: another width, other names, other classes, or numbers that are none.
    """
    outputs = outputs_of(classes)
    check_classes(given.classes, classes)
    several = given.coefficients
    if outputs > 1 and not isinstance(several, np.ndarray) and len(several) != outputs:
        raise RangeError(f"a prediction of {outputs} classes has one list of coefficients a class, got {len(several)}")
    each = list(several) if outputs > 1 else [_one_output(several)]
    weights = np.array([_by_feature(one, features, names, what="coefficients") for one in each])
    if weights.shape != (outputs, features):
        raise RangeError(f"a prediction of {outputs} classes has one list of coefficients a class, got {len(weights)}")
    constants = _numbers(np.atleast_1d(np.asarray(given.intercept, dtype=object)).ravel(), "intercept")
    if len(constants) != outputs:
        raise RangeError(f"intercept has {len(constants)} number(s), the model has {outputs} output(s)")
    spread = None if given.scale is None else _spread(given.scale, features, names)
    return StatedModel(
        coefficients=weights,
        intercepts=constants,
        spread=spread,
        noise=None,
        source=given.source,
        what="stated coefficients",
        table_units=names is not None,
    )


def released_origin(release: Release) -> Origin:
    """Name the ledger entry that paid for a release, or say that none does."""
    entry = release.circumstances.entry_id
    words = "" if release.private else SEEDED_BRANDING
    return released(entry, words) if entry else guess(words or f"an earlier {release.kind}, which no ledger names")


def outputs_of(classes: Any) -> int:
    """Return how many predictors a model has: one, or one per class for more than two."""
    return 1 if classes is None or len(classes) <= 2 else len(classes)


def check_classes(given: Any, classes: Any) -> None:
    """Refuse a prediction that is about other classes; None says nothing about them."""
    if given is None:
        return
    theirs = given.tolist() if isinstance(given, np.ndarray) else list(given)
    if classes is None:
        raise RangeError("the prediction is a model of classes, and this model predicts a number; give one of its kind")
    mine = list(classes)
    if len(theirs) != len(mine) or any(
        a != b or isinstance(a, str) != isinstance(b, str) for a, b in zip(theirs, mine, strict=True)
    ):
        raise RangeError(
            f"the prediction is for the classes {theirs}, this model for {mine}; both must be the same, in sorted order"
        )


def _one_output(given: Any) -> Any:
    """Take (features,) or, as scikit-learn keeps two classes, (1, features)."""
    shape = np.shape(given) if isinstance(given, np.ndarray) else ()
    return given[0] if len(shape) == 2 and shape[0] == 1 else given


def _by_feature(given: Any, features: int, names: Sequence[str] | None, *, what: str) -> Floats:
    """Return one number a feature: of a mapping by name, else in their order."""
    if isinstance(given, Mapping):
        if names is None:
            raise RangeError(f"{what} are given by name, and the features have none; give a list in their order")
        unknown = [str(name) for name in given if name not in names]
        if unknown:
            raise RangeError(f"{what} has {unknown[0]!r}, which is no feature; {nearest(unknown[0], names)}")
        return _numbers([given.get(name, 0.0) for name in names], what)
    cells = list(given) if hasattr(given, "__len__") and not isinstance(given, str) else None
    if cells is None or len(cells) != features:
        came = f"{len(cells)} number(s)" if cells is not None else type(given).__name__
        raise RangeError(f"{what} must be one number a feature, {features} in their order, got {came}")
    return _numbers(cells, what)


def _spread(given: Any, features: int, names: Sequence[str] | None) -> Floats:
    """Return the scale of each coefficient and, last, of the intercept."""
    if isinstance(given, Mapping):
        missing = [name for name in (*(names or ()), INTERCEPT) if name not in given]
        if names is None or missing:
            raise RangeError(
                f"scale by name needs one for every feature and for {INTERCEPT!r}"
                + (f", {missing[0]!r} is missing" if missing else "; these features have no names")
            )
        unknown = [str(name) for name in given if name not in names and name != INTERCEPT]
        if unknown:
            raise RangeError(f"scale has {unknown[0]!r}, which is no feature; {nearest(unknown[0], names)}")
        cells = [given[name] for name in (*names, INTERCEPT)]
    elif np.ndim(given) == 0:
        cells = [given] * (features + 1)
    else:
        cells = list(given)
    if len(cells) != features + 1:
        raise RangeError(
            f"scale is one number for all, or {features + 1}: one per feature, the intercept's last; got {len(cells)}"
        )
    found = _numbers(cells, "scale")
    if not (found > 0).all():
        raise RangeError("scale must be above 0: how far off a coefficient may be; leave it out if that is unknown")
    return found


def _numbers(cells: Any, what: str) -> Floats:
    try:
        found = np.array([float(cell) for cell in cells])
    except (TypeError, ValueError, OverflowError):
        raise RangeError(f"{what} must be numbers") from None
    if not (np.abs(found) <= _LARGEST).all():  # nor NaN
        raise RangeError(f"{what} must be finite numbers of a usual size (up to {_LARGEST:g})")
    return found
