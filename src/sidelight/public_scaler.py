"""`PublicScaler`: features scaled and centred by what is public, so that a pipeline stays private.

scikit-learn's scalers learn from the rows they are given: one outlier moves the scale of every row, and no noise covers
that. This one knows its ranges before it sees a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.predictions import PublicData
from sidelight.readable import number_text
from sidelight.regression.estimators.examples import examples
from sidelight.regression.model_predictions import are_rows_of
from sidelight.regression.rows import is_sparse

Floats = NDArray[np.float64]

#: Fewer public rows than this are not compared with the private ones: by chance, or on purpose, they may be alike.
_FEWEST = 20


class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Scale columns from public ranges to [-1, 1], and rows to a length of at most 1.

    Guarantee: each row becomes a row by itself, of Euclidean length at most 1, so that `data_norm=1` is right for the
    model behind it. `fit` learns nothing from the rows: with declared ranges it looks at the number and the names of
    the columns and at no cell; public rows that are the rows themselves, or cut from them, are refused. No cell
    raises.

    Accuracy: values beyond their range are clamped to it, silently. A range that is too wide wastes accuracy, one that
    is too narrow distorts; take it from general knowledge or from public rows, never from the private ones.

    Args:
        lower: The public lower bound of every column: one number for all, a list in their order, or a mapping by name.
        upper: The public upper bounds, likewise.
        prediction: In place of the bounds: `sl.PublicData` with the same columns, whose least and largest values are
            the ranges. A column that is constant there gets a range of 1 to both sides.

    Attributes after `fit`: `lower_`, `upper_`, `n_features_in_`, and `feature_names_in_` for a frame.

    >>> from sklearn.pipeline import make_pipeline
    >>> import sidelight as sl
    >>> X = np.array([[25.0, 3.0], [61.0, 12.0]] * 3000)
    >>> y = np.array([0, 1] * 3000)
    >>> model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=[0, 1])
    >>> pipeline = make_pipeline(sl.PublicScaler(lower=[18, 0], upper=[90, 30]), model).fit(X, y)
    >>> pipeline.predict([[20, 1], [70, 20]]).tolist()
    [0, 1]
    """

    #: What the estimators ask of the steps before them.
    fit_reads_no_rows: ClassVar[bool] = True

    def __init__(self, *, lower: Any = None, upper: Any = None, prediction: PublicData | None = None) -> None:
        self.lower = lower
        self.upper = upper
        self.prediction = prediction

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  # as scikit-learn names it
        """Read the number and the names of the columns; nothing is learned from X.

        Raises:
            RangeError: the declarations are no ranges, or are not those of these columns; or the public rows are X's.
            SchemaError: X is no matrix of numbers.
        """
        del y
        _rows(X)
        named = type(self)()  # validate on a throwaway instance: a refused fit must leave this one as it was
        validate_data(named, X, skip_check_array=True)
        names = getattr(named, "feature_names_in_", None)
        texts = None if names is None else [str(name) for name in names]
        lower, upper = self._ranges(named.n_features_in_, texts)
        if self.prediction is not None and self._are_these(X, texts):
            raise RangeError(
                "the public rows are the rows that the scaler is fitted to, or a part of them: ranges of private rows "
                "leak. Declare lower and upper, or give other rows. To scale public rows, fit the scaler to the "
                "private ones, of which nothing is learned, and transform the public ones"
            )
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__ |= {name: value for name, value in vars(named).items() if name.endswith("_in_")}
        self.lower_, self.upper_ = lower, upper
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return scaled rows. What is missing stays missing (NaN); what is no number becomes missing."""
        check_is_fitted(self)
        found = _rows(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        cells, _ = found.read()
        half, middle, share = self._half, self._middle, self._share
        with np.errstate(all="ignore"):  # no warning that a value decides
            shares = (np.clip(cells, self.lower_, self.upper_) - middle) / half
        return np.asarray(np.clip(shares, -1.0, 1.0) * share)

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803
        """Return scaled rows in the columns' own units; what was clamped stays so."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, np.float64) / self._share * self._half + self._middle)

    def _are_these(self, rows: Any, names: list[str] | None) -> bool:
        """Return whether the public rows are these rows or cut from them; two corners of a range are no sample."""
        assert self.prediction is not None
        public = self.prediction.matrix(names)
        return len(public) >= _FEWEST and are_rows_of(public, rows)

    @property
    def _half(self) -> Floats:
        return np.asarray(self.upper_ / 2 - self.lower_ / 2)

    @property
    def _middle(self) -> Floats:
        return np.asarray(self.upper_ / 2 + self.lower_ / 2)

    @property
    def _share(self) -> float:
        # rounded down by more than its error: as many squares of it as there are columns add up to at most 1
        return (1 - 2.0**-50) / math.sqrt(len(self.lower_))

    def _ranges(self, width: int, names: list[str] | None) -> tuple[Floats, Floats]:
        if self.prediction is not None:
            return self._of_public_rows(width, names)
        if self.lower is None or self.upper is None:
            raise RangeError(
                "PublicScaler wants lower=... and upper=..., public bounds that are known without looking at the rows, "
                "or prediction=sl.PublicData(rows, 'where they come from')"
            )
        lower, upper = (_bounds(getattr(self, name), name, width, names) for name in ("lower", "upper"))
        for place in range(width):
            if not (lower[place] < upper[place] and _finite(lower, upper)[place]):
                which = str(place) if names is None else repr(names[place])
                raise RangeError(
                    f"the range of column {which} must be two finite numbers, the lower first, got "
                    f"{number_text(float(lower[place]), digits=15)} and {number_text(float(upper[place]), digits=15)}"
                )
        return lower, upper

    def _of_public_rows(self, width: int, names: list[str] | None) -> tuple[Floats, Floats]:
        if type(self.prediction) is not PublicData:
            raise RangeError(
                "prediction must be sl.PublicData(rows, 'where they come from'), got "
                f"{type(self.prediction).__name__}: who writes it states that anyone may see these rows. Ranges of "
                "private rows leak; declare lower and upper"
            )
        if self.lower is not None or self.upper is not None:
            raise RangeError("give lower and upper, or prediction, not both")
        rows = self.prediction.matrix(names)
        if rows.shape[1] != width:
            raise RangeError(f"the public rows have {rows.shape[1]} columns, X has {width}; give the same columns")
        lower, upper = rows.min(axis=0), rows.max(axis=0)
        constant = lower == upper
        wide = np.where(constant, np.maximum(1.0, np.abs(lower) * 1e-9), 0.0)
        lower, upper = lower - wide, upper + wide
        if not _finite(lower, upper).all():
            raise RangeError("the public rows have numbers too large to be scaled; declare lower and upper")
        return lower, upper


def _rows(rows: Any) -> Any:
    """Check what is public about X, by type alone."""
    if is_sparse(rows):
        raise SchemaError(
            "a sparse X would be filled by centring it; multiply its columns by public numbers instead, such as "
            "X @ scipy.sparse.diags(1 / largest)"
        )
    if not isinstance(rows, list | tuple) and not getattr(rows, "shape", ()):
        raise SchemaError(
            f"X must be a two-dimensional array, a frame or a list of rows, got {type(rows).__name__}; write "
            "np.asarray(X)"
        )
    return examples(rows, np.zeros(len(rows)), target_kinds="f")


def _finite(lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    with np.errstate(over="ignore"):
        return np.isfinite(upper - lower)


def _bounds(given: Any, name: str, width: int, names: list[str] | None) -> Floats:
    """Return one bound a column."""
    if isinstance(given, Mapping):
        if names is None:
            raise RangeError(f"{name} is a mapping by column name, and X has no names; give a list in X's order")
        missing = [each for each in names if each not in given]
        if missing:
            raise RangeError(f"{name} has no bound for column {missing[0]!r}; {nearest(missing[0], map(str, given))}")
        given = [given[each] for each in names]
    if isinstance(given, Real):
        given = [given] * width
    try:
        found = np.array([float(each) for each in given])
    except (TypeError, ValueError):
        raise RangeError(f"{name} must be a number, a list of numbers or a mapping of them by column name") from None
    if len(found) != width:
        raise RangeError(f"{name} has {len(found)} numbers and X {width} columns; give one for each, in their order")
    return found
